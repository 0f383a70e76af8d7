//! What only a person can find out: waiting for it, and what was said.

use outlast_lineage::{BranchId, EffectId};

use super::requests::uncertain_call;
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, Calling, PlanEntry};
use crate::{Answer, Command, Fault, FaultKind, Happening, Request, Resolution, Ticket};

impl Machine<'_> {
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

    /// A call was not wanted any more, and its answer comes all the same: if a person was to find out what became
    /// of it, that is not needed now. Otherwise nobody waits for it.
    pub(super) fn take_unwanted_answer(&mut self, ticket: Ticket, answer: Answer) {
        if matches!(answer, Answer::Unknown(_)) {
            return;
        }
        let Some((id, calling)) = self.parked_call(ticket) else {
            return self.take_denial(ticket, &answer);
        };
        let mut branch = self.take(id).expect("it was just found");
        let task = branch.top().expect("it is parked in a frame").task;
        self.set_activity(&mut branch, Activity::Calling(calling.clone()));
        self.happenings.push(Happening::Resolved(task, "answered".to_owned()));
        let turn = self.answered(&mut branch, &calling, answer);
        self.settle(branch, turn);
    }

    /// The node that made a call which waits for a person has heard what became of it. It knows better than this one
    /// whether the call may have happened before.
    pub(super) fn take_answer_from_elsewhere(
        &mut self,
        (ticket, effect): (Ticket, EffectId),
        first: bool,
        answer: Answer,
    ) {
        let parked = self.parked_call(ticket).filter(|(_, call)| call.request.effect == effect);
        let Some((id, calling)) = parked.filter(|_| answer.is_definite(first)) else { return };
        let mut branch = self.take(id).expect("it was just found");
        let task = branch.top().expect("it is parked in a frame").task;
        self.set_activity(&mut branch, Activity::Calling(calling.clone()));
        self.happenings.push(Happening::Resolved(task, Happening::ANSWERED_ELSEWHERE.to_owned()));
        let turn = match answer {
            Answer::Failed(fault) => self.failed(&mut branch, &calling.request, fault),
            answer => self.answered(&mut branch, &calling, answer),
        };
        self.settle(branch, turn);
    }

    /// The call with a ticket, and the branch that waits for a person to find out about it.
    pub(super) fn parked_call(&self, ticket: Ticket) -> Option<(BranchId, Box<Calling>)> {
        self.execution.branches.values().find_map(|branch| {
            let Some(Activity::Parked { resume, .. }) = branch.top().map(|frame| &frame.activity)
            else {
                return None;
            };
            let Activity::Calling(calling) = resume.as_ref() else { return None };
            (calling.ticket == ticket).then(|| (branch.id(), calling.clone()))
        })
    }

    /// A call that was to be asked about when the turn comes to undo it never happened: there is nothing to ask,
    /// and nothing to undo.
    pub(super) fn take_denial(&mut self, ticket: Ticket, answer: &Answer) {
        let Answer::Failed(fault) = answer else { return };
        let Some((plan, calling)) = self.execution.asked_about_later(ticket) else { return };
        let Request { effect, undo, .. } = calling.request;
        // An undo that did not happen is still owed.
        if undo || !self.is_definite(calling, fault) {
            return;
        }
        let entries = self.plan_mut(plan).drain();
        self.plan_mut(plan).extend(without_call(entries, ticket));
        self.effect_gone(effect);
    }

    fn resolve(&mut self, branch: &mut Branch, resolution: Resolution) -> Turn {
        let activity = &branch.top().expect("it was parked in a frame").activity;
        let Activity::Calling(calling) = activity else {
            return self.resolve_undo(branch, resolution);
        };
        // Its answer may still have been waited for; from now on it is as the person says.
        self.commands.push(Command::Abandon(calling.ticket));
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

/// Entries of a plan without a call that may have happened.
fn without_call(entries: Vec<PlanEntry>, ticket: Ticket) -> Vec<PlanEntry> {
    let is_it = |entry: &PlanEntry| {
        uncertain_call(entry).is_some_and(|(_, calling)| calling.ticket == ticket)
    };
    let rest = entries.into_iter().filter(|entry| !is_it(entry));
    rest.map(|entry| match entry {
        PlanEntry::Parallel(lists) => {
            let lists = lists.into_iter().map(|list| without_call(list, ticket));
            PlanEntry::Parallel(lists.collect())
        }
        entry => entry,
    })
    .collect()
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

fn word(resolution: &Resolution) -> &'static str {
    match resolution {
        Resolution::Done(_) => "done",
        Resolution::NotDone => "not-done",
        Resolution::Retry => "retry",
        Resolution::Abandon => "abandon",
    }
}
