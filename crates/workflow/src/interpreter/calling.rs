//! Calls: the intent is written down, the call leaves, the answer comes, or it does not.

use outlast_expressions::Value;

use super::conduct::{is_finding_out, must_not_repeat};
use super::evaluation::{Sight, evaluated};
use super::timers::retriable_delay;
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, Calling, Frame, TryStage};
use crate::program::{Class, Kind, Service, Template};
use crate::{Answer, Command, Fault, FaultKind, Happening, Request, Ticket};

/// How often it is asked what became of a call before a person is.
const ASKED_MAX: u64 = 6;

impl Machine<'_> {
    pub(super) fn begin_call(
        &mut self,
        branch: &mut Branch,
        service: &Service,
        arguments: Option<&Template>,
    ) -> Turn {
        let input = self.value(branch.data());
        let given = match arguments {
            Some(template) => {
                let sight = Sight::from_top(branch, input.clone());
                evaluated!(self, branch, self.evaluate(branch, template, &sight))
            }
            None => input.clone(),
        };
        let target = match self.target(branch, service, given, &input) {
            Ok(target) => target,
            Err(fault) => return self.raise(branch, fault),
        };
        match self.request(branch, target) {
            Ok((request, true)) => self.call_again(branch, request),
            Ok((request, false)) => self.call(branch, request, false),
            Err(fault) => self.raise(branch, fault),
        }
    }

    /// Makes a call that was made before without an answer, or leaves it to a person.
    pub(super) fn call_again(&mut self, branch: &mut Branch, request: Request) -> Turn {
        if !self.must_not_repeat(branch) {
            return self.call(branch, request, true);
        }
        let (effect, ticket) = (request.effect, branch.ticket());
        let calling = Calling::new(ticket, request, true, &mut self.execution.large);
        self.set_activity(branch, Activity::Calling(Box::new(calling)));
        self.park(branch, effect, "it is not known whether the call happened".into())
    }

    /// Writes the intent down and lets the call leave.
    pub(super) fn call(&mut self, branch: &mut Branch, request: Request, doubt: bool) -> Turn {
        // What is asked for again has the time of whoever asks now.
        let request = Request { deadline: branch.deadline(), ..request };
        let ticket = branch.ticket();
        let frame = branch.top().expect("a task calls");
        let (task, doubt) = (frame.task, doubt || frame.doubt);
        if !request.readonly && !request.undo {
            self.effect_intended(branch, &request);
            let owner = branch.frames().iter().rposition(|frame| self.owes_undo(frame.task));
            if let Some(owner) = owner {
                branch.frame_mut(owner).effect = Some(request.effect);
            }
        }
        self.happenings.push(Happening::Called(task, request.key_text()));
        let command = Command::Call { ticket, request: Box::new(request.clone()) };
        self.commands.push(command);
        let calling = Calling::new(ticket, request, doubt, &mut self.execution.large);
        self.set_activity(branch, Activity::Calling(Box::new(calling)));
        Turn::Wait
    }

    pub(super) fn take_answer(&mut self, ticket: Ticket, answer: Answer) {
        let Some(mut branch) = self.take_waiting(ticket) else {
            return self.take_unwanted_answer(ticket, answer);
        };
        let turn = match branch.top().map(|frame| &frame.activity) {
            Some(Activity::Calling(calling)) if calling.ticket == ticket => {
                let calling = calling.clone();
                self.answered(&mut branch, &calling, answer)
            }
            Some(Activity::Publishing { ticket: waiting, .. }) if *waiting == ticket => {
                self.published(&mut branch)
            }
            _ => {
                self.put(branch);
                return self.take_unwanted_answer(ticket, answer);
            }
        };
        self.settle(branch, turn);
    }

    pub(super) fn answered(
        &mut self,
        branch: &mut Branch,
        calling: &Calling,
        answer: Answer,
    ) -> Turn {
        let request = &calling.request;
        match answer {
            Answer::Succeeded(output) => self.succeeded(branch, request, output),
            Answer::TooLarge(output, fault) => {
                self.succeeded_in_excess(branch, request, &output, fault)
            }
            // Refusing to answer now says nothing about an earlier time it was asked.
            Answer::Failed(fault) if !self.is_definite(calling, &fault) => {
                self.unknown(branch, calling, fault)
            }
            Answer::Failed(fault) => self.failed(branch, request, fault),
            Answer::Unknown(fault) => self.unknown(branch, calling, fault),
        }
    }

    /// Whether a failure says that the operation was never carried out.
    pub(super) fn is_definite(&self, calling: &Calling, fault: &Fault) -> bool {
        !self.is_in_doubt(calling) || is_telling(fault)
    }

    /// Whether the operation may have been carried out before it was asked for this time: in an
    /// earlier attempt, or by an author of an earlier term.
    fn is_in_doubt(&self, calling: &Calling) -> bool {
        calling.doubt || !self.author.made(calling.request.effect)
    }

    pub(super) fn succeeded(
        &mut self,
        branch: &mut Branch,
        request: &Request,
        output: Value,
    ) -> Turn {
        if !request.readonly && !request.undo {
            self.effect_done(branch, request);
        }
        let data = self.intern(output);
        branch.set_data(data);
        self.complete(branch)
    }

    pub(super) fn failed(&mut self, branch: &mut Branch, request: &Request, fault: Fault) -> Turn {
        if !request.readonly && !request.undo {
            self.effect_gone(request.effect);
        }
        self.set_activity(branch, Activity::Begin);
        if let Some(turn) = self.retry_in_place(branch, None) {
            return turn;
        }
        self.raise(branch, fault)
    }

    fn unknown(&mut self, branch: &mut Branch, calling: &Calling, fault: Fault) -> Turn {
        let finding_out = is_finding_out(branch);
        let asked = branch.top().expect("a task calls").tries;
        if self.must_not_repeat(branch) || (finding_out && ASKED_MAX <= asked) {
            let reason = fault.reason();
            let reason = format!("it is not known whether the call happened: {reason}");
            return self.park(branch, calling.request.effect, reason);
        }
        if finding_out {
            branch.top_mut().expect("a task calls").tries += 1;
            let alarm = self.set_alarm(branch, self.now.after(retriable_delay(asked)));
            let asking = Activity::Asking(alarm, Box::new(calling.clone()));
            self.set_activity(branch, asking);
            return Turn::Wait;
        }
        if let Some(turn) = self.retry_in_place(branch, Some(calling)) {
            return turn;
        }
        self.raise(branch, fault)
    }

    pub(super) fn must_not_repeat(&self, branch: &Branch) -> bool {
        must_not_repeat(self.program, branch)
    }

    /// A retriable task is tried again for ever, unless a `try` around it has a policy. A call that may
    /// have happened is kept: it is made again as it was, or undone if it is not wanted any more.
    fn retry_in_place(&mut self, branch: &mut Branch, in_doubt: Option<&Calling>) -> Option<Turn> {
        let class = self.trait_of(branch, |task| task.traits.class);
        let retriable = matches!(class, Some(Class::Retriable | Class::CompensatableRetriable));
        let judged_around = self.has_policy(branch) || branch.undo().is_some();
        if !retriable || judged_around || is_finding_out(branch) {
            return None;
        }
        let frame = branch.top_mut().expect("a task calls");
        let tries = frame.tries;
        frame.tries += u64::from(in_doubt.is_none());
        frame.doubt = in_doubt.is_some();
        let task = frame.task;
        let alarm = self.set_alarm(branch, self.now.after(retriable_delay(tries)));
        self.set_activity(branch, Activity::Again(alarm, in_doubt.cloned().map(Box::new)));
        self.happenings.push(Happening::TaskRetried(task, tries + 1));
        Some(Turn::Wait)
    }

    /// Whether a `try` around, in this branch or where it was forked, says how often what fails is
    /// tried again. Not one whose error is being handled: its attempts are over.
    pub(super) fn has_policy(&self, branch: &Branch) -> bool {
        let tries_again =
            |frame: &Frame| match (&frame.activity, &self.program.task(frame.task).kind) {
                (Activity::Try(trying), Kind::Try { catch, .. }) => {
                    trying.stage == TryStage::Body && catch.retry.is_some()
                }
                _ => false,
            };
        branch.birth.policy || branch.frames().iter().any(tries_again)
    }
}

impl Answer {
    /// Whether it says whether its operation was carried out. A refusal to answer now says so only if it is the
    /// `first` time that anybody asked.
    pub fn is_definite(&self, first: bool) -> bool {
        match self {
            Self::Succeeded(_) | Self::TooLarge(..) => true,
            Self::Failed(fault) => first || is_telling(fault),
            Self::Unknown(_) => false,
        }
    }
}

/// Whether a failure tells what became of the operation: not if the provider was not reached, or
/// was in no state to say, and not if it was this node that let nothing leave.
fn is_telling(fault: &Fault) -> bool {
    let cannot_say = fault.status >= 500 || fault.status == 408 || fault.status == 429;
    let by_this_node = [
        FaultKind::Configuration,
        FaultKind::Authentication,
        FaultKind::Authorization,
        FaultKind::Timeout,
    ];
    let said_nothing = by_this_node.into_iter().any(|kind| fault.is(kind));
    !(said_nothing || (fault.is(FaultKind::Communication) && cannot_say))
}
