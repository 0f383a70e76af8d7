//! Calls: the intent is written down, the call leaves, the answer comes, or it does not.

use outlast_expressions::{Value, value};
use outlast_lineage::{
    Conduct, Digest, Digester, EffectId, OperationKey, Point, Repetition, Reversal,
};

use super::evaluation::{Sight, evaluated};
use super::timers::retriable_delay;
use super::{Machine, Turn, effect_of};
use crate::execution::{Activity, Branch, Calling, Frame, Path, PlanEntry};
use crate::program::{
    Authentication, Class, Idempotency, Kind, Program, Secretive, Service, Task, Template, Undo,
};
use crate::{
    Answer, Command, Fault, FaultKind, Happening, Request, Resolution, ResolvedAuthentication,
    Target, Ticket, build_http, scalar_text, secret,
};

/// How often it is asked what became of a call before a person is.
const ASKED_MAX: u64 = 6;

impl<'a> Machine<'a> {
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

    fn target(
        &self,
        branch: &Branch,
        service: &Service,
        arguments: Value,
        input: &Value,
    ) -> Result<Target, Fault> {
        match service {
            Service::Http { output, redirect, authentication } => {
                let authentication = authentication
                    .as_ref()
                    .map(|given| self.authentication(branch, given))
                    .transpose()?;
                build_http(&arguments, input, *output, *redirect, authentication)
            }
            Service::Catalog { name, version } => {
                Ok(Target::Catalog { name: name.clone(), version: version.clone(), arguments })
            }
        }
    }

    fn authentication(
        &self,
        branch: &Branch,
        given: &Authentication,
    ) -> Result<ResolvedAuthentication, Fault> {
        let text = |secretive: &Secretive| self.credential(branch, secretive);
        Ok(match given {
            Authentication::Basic { username, password } => {
                ResolvedAuthentication::Basic(text(username)?, text(password)?)
            }
            Authentication::Bearer(token) => ResolvedAuthentication::Bearer(text(token)?),
            Authentication::Digest { username, password } => {
                ResolvedAuthentication::Digest(text(username)?, text(password)?)
            }
        })
    }

    fn credential(&self, branch: &Branch, secretive: &Secretive) -> Result<String, Fault> {
        match secretive {
            Secretive::Secret(name, field) => {
                Ok(secret::stand_in(&self.execution.salt, name, field))
            }
            Secretive::Given(template) => {
                let sight = Sight::from_top(branch, self.value(branch.data()));
                let given = self.evaluate_template_here(branch, template, &sight)?;
                scalar_text(&given).ok_or_else(|| {
                    let detail = "user names, passwords and tokens are texts";
                    Fault::new(FaultKind::Authentication, "the credential is not a text", detail)
                })
            }
        }
    }

    /// Names the call: the same key for the same request at the same place, until it is answered.
    /// Says too whether it was asked for before without an answer.
    fn request(&mut self, branch: &mut Branch, target: Target) -> Result<(Request, bool), Fault> {
        let digest = digest_of(&target);
        let path = branch.top().expect("a task calls").path;
        if let Some(request) = self.take_uncertain(branch, path, &digest) {
            if !self.is_debt_of_another(branch.frames(), &request) {
                return Ok((request, true));
            }
            self.effect_disowned(request.effect);
        }
        let idempotency = self.trait_of(branch, |task| task.traits.idempotency.as_ref());
        let class = self.trait_of(branch, |task| task.traits.class);
        let effect = new_effect(branch);
        let request = Request {
            effect,
            key: self.key(branch, &digest, effect),
            own_key: self.own_key(branch, idempotency)?,
            key_header: idempotency.and_then(|idempotency| idempotency.header.clone()),
            deadline: branch.frames().iter().filter_map(|f| f.deadline).map(|a| a.at).min(),
            readonly: class == Some(Class::Readonly),
            undo: branch.frames().iter().any(|f| matches!(f.activity, Activity::Undoing(_))),
            target,
            salt: self.execution.salt,
            undoes: self.undoes(branch),
        };
        Ok((request, false))
    }

    /// The key of a request by the innermost task as it is tried now.
    fn key(&self, branch: &Branch, request: &Digest, effect: EffectId) -> OperationKey {
        let path = branch.top().expect("a task calls").path;
        let incarnation = self.incarnation(branch);
        let mut place = Digester::new("place").field(path.digest().as_bytes()).number(incarnation);
        let idempotency = self.trait_of(branch, |task| task.traits.idempotency.as_ref());
        if idempotency.is_some_and(|idempotency| idempotency.none) {
            // It is asked once for each effect: its key says which of several lines asked.
            let Point { author, epoch, number } = effect.point;
            place = place.number(author.0).number(epoch.0).number(number);
        }
        OperationKey::new(self.execution.id, &place.finish(), request)
    }

    /// The key of the call that the innermost undo undoes.
    fn undoes(&self, branch: &Branch) -> Option<OperationKey> {
        let effect = branch.frames().iter().rev().find_map(|frame| match &frame.activity {
            Activity::Undoing(undoing) => Some(effect_of(&undoing.entry)),
            _ => None,
        });
        Some(self.execution.ledger.get(&effect??)?.key)
    }

    /// The call of the innermost task as a new operation and a new effect.
    pub(super) fn renewed(&self, branch: &mut Branch, calling: &Calling) -> Request {
        branch.top_mut().expect("a task calls").tries += 1;
        let request = calling.whole_request(&self.execution.large);
        let effect = new_effect(branch);
        let key = self.key(branch, &digest_of(&request.target), effect);
        Request { effect, key, ..request }
    }

    fn own_key(
        &self,
        branch: &Branch,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<String>, Fault> {
        let Some(template) = idempotency.and_then(|idempotency| idempotency.key.as_ref()) else {
            return Ok(None);
        };
        let sight = Sight::from_top(branch, self.value(branch.data()));
        let key = self.evaluate_template_here(branch, template, &sight)?;
        Ok(Some(scalar_text(&key).unwrap_or_else(|| value::to_text(&key))))
    }

    fn trait_of<T>(&self, branch: &Branch, of: impl Fn(&'a Task) -> Option<T>) -> Option<T> {
        said_of(self.program, branch.frames(), of)
    }

    /// A number that differs between attempts that were definitely answered. An undo is one operation
    /// until it is done, wherever and however often it is tried: another line may undo the same
    /// effect, and knows nothing of refusals. Only a person can say that it is to be a new one.
    pub(super) fn incarnation(&self, branch: &Branch) -> u64 {
        let frames = branch.frames();
        let undo = frames.iter().rposition(|it| matches!(it.activity, Activity::Undoing(_)));
        let (mut incarnation, counted) = match undo {
            Some(depth) => (0, &frames[depth..=depth]),
            None => (branch.birth.incarnation, frames),
        };
        for frame in counted {
            let retries = match &frame.activity {
                Activity::Try(trying) => trying.retries,
                _ => 0,
            };
            if retries + frame.tries > 0 {
                let digest = Digester::new("incarnation").number(incarnation).number(frame.path.0);
                incarnation = digest.number(retries).number(frame.tries).finish().short();
            }
        }
        incarnation
    }

    /// The request of an earlier attempt at this place of which it is not known what became.
    fn take_uncertain(
        &mut self,
        branch: &mut Branch,
        path: Path,
        digest: &Digest,
    ) -> Option<Request> {
        if let Some((depth, index)) = self.find_uncertain(branch, path, digest) {
            return Some(self.remove_uncertain(branch, depth, index));
        }
        let mut parent = branch.birth.parent;
        while let Some(id) = parent {
            let around = self.execution.branches.get(&id)?;
            parent = around.birth.parent;
            if let Some((depth, index)) = self.find_uncertain(around, path, digest) {
                let mut around = self.take(id)?;
                let request = self.remove_uncertain(&mut around, depth, index);
                self.put(around);
                return Some(request);
            }
        }
        None
    }

    /// Where a branch remembers an unanswered call of this place and request: depth and index.
    fn find_uncertain(
        &self,
        branch: &Branch,
        path: Path,
        digest: &Digest,
    ) -> Option<(usize, usize)> {
        let is_it = |entry: &PlanEntry| {
            uncertain_call(entry).is_some_and(|(place, calling)| {
                let request = calling.whole_request(&self.execution.large);
                place == path && digest_of(&request.target) == *digest
            })
        };
        branch.frames().iter().enumerate().rev().find_map(|(depth, frame)| {
            let uncertain = match &frame.activity {
                Activity::Try(trying) => &trying.uncertain,
                Activity::Undoing(undoing) => &undoing.uncertain,
                _ => return None,
            };
            Some((depth, uncertain.iter().position(is_it)?))
        })
    }

    fn remove_uncertain(&self, branch: &mut Branch, depth: usize, index: usize) -> Request {
        let entry = match &mut branch.frame_mut(depth).activity {
            Activity::Try(trying) => trying.uncertain.remove(index),
            Activity::Undoing(undoing) => undoing.uncertain.remove(index),
            activity => unreachable!("{activity:?} remembers no calls"),
        };
        let (_, calling) = uncertain_call(&entry).expect("it was just found to be a call");
        calling.whole_request(&self.execution.large)
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
        let Some(mut branch) = self.take_waiting(ticket) else { return };
        let turn = match branch.top().map(|frame| &frame.activity) {
            Some(Activity::Calling(calling)) if calling.ticket == ticket => {
                let calling = calling.clone();
                self.answered(&mut branch, &calling, answer)
            }
            Some(Activity::Publishing { ticket: waiting, .. }) if *waiting == ticket => {
                self.published(&mut branch)
            }
            // Nobody waits for it any more.
            _ => return self.put(branch),
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
        let point = calling.request.effect.point;
        calling.doubt || (point.author, point.epoch) != (self.author.node, self.author.epoch)
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

    fn failed(&mut self, branch: &mut Branch, request: &Request, fault: Fault) -> Turn {
        if !request.readonly && !request.undo {
            self.effect_gone(request.effect);
        }
        self.set_activity(branch, Activity::Begin);
        if let Some(turn) = self.retry_in_place(branch, true) {
            return turn;
        }
        self.raise(branch, fault)
    }

    fn unknown(&mut self, branch: &mut Branch, calling: &Calling, fault: Fault) -> Turn {
        let finding_out = is_finding_out(branch);
        let asked = branch.top().expect("a task calls").tries;
        if self.must_not_repeat(branch) || (finding_out && ASKED_MAX <= asked) {
            let reason = fault.detail.clone().or(fault.title.clone()).unwrap_or_default();
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
        if let Some(turn) = self.retry_in_place(branch, false) {
            return turn;
        }
        self.raise(branch, fault)
    }

    pub(super) fn must_not_repeat(&self, branch: &Branch) -> bool {
        must_not_repeat(self.program, branch)
    }

    /// A retriable task is tried again for ever, unless a `try` around it has a policy.
    fn retry_in_place(&mut self, branch: &mut Branch, definite: bool) -> Option<Turn> {
        let class = self.trait_of(branch, |task| task.traits.class);
        let retriable = matches!(class, Some(Class::Retriable | Class::CompensatableRetriable));
        let has_policy = branch.frames().iter().any(|frame| {
            matches!(&self.program.task(frame.task).kind,
                Kind::Try { catch, .. } if catch.retry.is_some())
                || matches!(frame.activity, Activity::Undoing(_))
        });
        if !retriable || has_policy || is_finding_out(branch) {
            return None;
        }
        let frame = branch.top_mut().expect("a task calls");
        let tries = frame.tries;
        frame.tries += u64::from(definite);
        frame.doubt = !definite;
        let task = frame.task;
        let alarm = self.set_alarm(branch, self.now.after(retriable_delay(tries)));
        self.set_activity(branch, Activity::Again(alarm));
        self.happenings.push(Happening::TaskRetried(task, tries + 1));
        Some(Turn::Wait)
    }

    /// Waits for a person to find out. A call that undoes an effect goes by the name of that effect.
    pub(super) fn park(&mut self, branch: &mut Branch, effect: EffectId, reason: String) -> Turn {
        let effect = effect_being_undone(branch).unwrap_or(effect);
        let frame = branch.top_mut().expect("a task is being run");
        let task = frame.task;
        let resume = Box::new(std::mem::replace(&mut frame.activity, Activity::Begin));
        frame.activity = Activity::Parked { effect, reason: reason.clone(), resume };
        self.happenings.push(Happening::Parked(task, reason));
        Turn::Wait
    }

    pub(super) fn take_resolution(&mut self, effect: EffectId, resolution: Resolution) {
        let parked = self.execution.branches.values().find(|branch| {
            matches!(branch.top().map(|frame| &frame.activity),
                Some(Activity::Parked { effect: parked, .. }) if *parked == effect)
        });
        let Some(id) = parked.map(Branch::id) else { return };
        let mut branch = self.take(id).expect("it was just found");
        let frame = branch.top_mut().expect("it is parked in a frame");
        let task = frame.task;
        let Activity::Parked { resume, .. } =
            std::mem::replace(&mut frame.activity, Activity::Begin)
        else {
            unreachable!("it was just found parked")
        };
        frame.activity = *resume;
        self.happenings.push(Happening::Resolved(task, word(&resolution).to_owned()));
        let turn = self.resolve(&mut branch, resolution);
        self.settle(branch, turn);
    }

    fn resolve(&mut self, branch: &mut Branch, resolution: Resolution) -> Turn {
        let activity = &branch.top().expect("it was parked in a frame").activity;
        let Activity::Calling(calling) = activity else {
            return self.resolve_undo(branch, resolution);
        };
        let request = calling.whole_request(&self.execution.large);
        let given_up = |title: &str| {
            Fault::new(FaultKind::Runtime, title, "a person said so when asked what became of it")
        };
        match resolution {
            Resolution::Done(output) => self.succeeded(branch, &request, output),
            Resolution::NotDone => {
                self.failed(branch, &request, given_up("the call did not happen"))
            }
            Resolution::Retry => {
                branch.top_mut().expect("it was parked in a frame").tries = 0;
                self.call(branch, request, true)
            }
            Resolution::Abandon => {
                if !request.undo {
                    self.effect_gone(request.effect);
                }
                self.set_activity(branch, Activity::Begin);
                self.raise(branch, given_up("the call was given up"))
            }
        }
    }
}

/// What the innermost of some frames says, or the tasks that call it as a function.
fn said_of<'p, T>(
    program: &'p Program,
    frames: &[Frame],
    of: impl Fn(&'p Task) -> Option<T>,
) -> Option<T> {
    let start = start_of_call(frames);
    frames[start..].iter().rev().find_map(|frame| of(program.task(frame.task)))
}

/// Where a call begins: at the outermost of the tasks that call it as a function.
pub(super) fn start_of_call(frames: &[Frame]) -> usize {
    let is_function = |frame: &Frame| matches!(frame.activity, Activity::Function { .. });
    let mut start = frames.len().saturating_sub(1);
    while start > 0 && is_function(&frames[start - 1]) {
        start -= 1;
    }
    start
}

/// How a call and its provider behave, as far as the document tells. The call is the innermost frame;
/// what undoes it may belong to a task around it.
pub(super) fn conduct(program: &Program, frames: &[Frame]) -> Conduct {
    let class = said_of(program, frames, |task| task.traits.class);
    let idempotency = said_of(program, frames, |task| task.traits.idempotency.as_ref());
    let undo = frames.iter().rev().find_map(|frame| {
        let compensation = program.task(frame.task).traits.compensation.as_ref()?;
        matches!(compensation.undo, Undo::Run(_)).then_some(compensation)
    });
    Conduct {
        repetition: match (class, idempotency) {
            (Some(Class::Readonly), _) => Repetition::Harmless,
            (_, Some(idempotency)) if idempotency.none => Repetition::Acts,
            // A pivot whose provider is not said to deduplicate is asked once.
            (Some(Class::Pivot), None) => Repetition::Acts,
            _ => Repetition::Deduplicated,
        },
        reversal: match (undo, class) {
            (Some(compensation), _) if compensation.tolerant => Reversal::Tolerant,
            (Some(_), _) => Reversal::WithResult,
            (None, Some(Class::Pivot)) => Reversal::Impossible,
            (None, _) => Reversal::Needless,
        },
    }
}

/// Whether the call of a branch, once made, is not made again by itself.
pub(super) fn must_not_repeat(program: &Program, branch: &Branch) -> bool {
    conduct(program, branch.frames()).repetition == Repetition::Acts
}

pub(super) fn is_pivot(program: &Program, branch: &Branch) -> bool {
    said_of(program, branch.frames(), |task| task.traits.class) == Some(Class::Pivot)
}

/// The effect that a call of this step has.
fn new_effect(branch: &Branch) -> EffectId {
    let point = branch.lineage.head().expect("a branch that is worked on has a state");
    EffectId { branch: branch.id(), point }
}

/// Whether a branch only asks what became of a call, in order to undo it.
pub(super) fn is_finding_out(branch: &Branch) -> bool {
    let mut frames = branch.frames().iter().rev();
    let nearest = frames
        .find(|frame| matches!(frame.activity, Activity::Undoing(_) | Activity::Compensating(_)));
    nearest.is_some_and(|frame| matches!(frame.activity, Activity::Compensating(_)))
}

/// The effect that the innermost undo of a branch takes back, if it is one that has a name.
fn effect_being_undone(branch: &Branch) -> Option<EffectId> {
    let mut frames = branch.frames().iter().rev();
    frames.find_map(|frame| match &frame.activity {
        Activity::Undoing(undoing) => match undoing.entry {
            PlanEntry::Undo { effect, .. } => effect,
            _ => None,
        },
        _ => None,
    })
}

/// Whether a failure tells what became of the operation: not if the provider was not reached, or
/// was in no state to say.
fn is_telling(fault: &Fault) -> bool {
    let cannot_say = fault.status >= 500 || fault.status == 408 || fault.status == 429;
    !(fault.is(FaultKind::Communication) && cannot_say)
}

fn word(resolution: &Resolution) -> &'static str {
    match resolution {
        Resolution::Done(_) => "done",
        Resolution::NotDone => "not-done",
        Resolution::Retry => "retry",
        Resolution::Abandon => "abandon",
    }
}

fn digest_of(target: &Target) -> Digest {
    Digest::of(&minicbor::to_vec(target).expect("writing to memory does not fail"))
}

/// The place and request of a call that may have happened.
pub(super) fn uncertain_call(entry: &PlanEntry) -> Option<(Path, &Calling)> {
    let PlanEntry::Uncertain(frames) = entry else { return None };
    let frame = frames.last()?;
    match &frame.activity {
        Activity::Calling(calling) | Activity::Asking(_, calling) => {
            Some((frame.path, calling.as_ref()))
        }
        Activity::Parked { resume, .. } => match resume.as_ref() {
            Activity::Calling(calling) => Some((frame.path, calling.as_ref())),
            _ => None,
        },
        _ => None,
    }
}
