//! Going on where another author left off.
//!
//! Solo recovery is milder: the author is the same, so what it may have done is its own to find out
//! (`open`). Here the earlier author may still be there, cut off, and go on by itself. What is asked
//! again with the same key is one effect however many ask; what must not be asked again is done anew,
//! and whoever did it first undoes it when the lines are settled. That holds for a call that waits
//! for a person, too: two lines that heard that it happened would both keep or both undo it.

use std::collections::BTreeSet;

use outlast_lineage::{BranchId, EffectId, Repetition, Reversal};

use super::conduct::{conduct, is_finding_out, is_pivot};
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, Calling, Execution, Frame, Stage};
use crate::{Answer, Fault, FaultKind, Happening, Program, Request, Ticket};

impl Execution {
    /// The pivots that were intended and are not answered. Whether they left is not known here.
    pub fn open_pivots(&self, program: &Program) -> Vec<(Ticket, EffectId)> {
        let pivots = self.branches.values().filter(|branch| is_pivot(program, branch));
        let open = pivots.filter_map(|branch| match &branch.top()?.activity {
            Activity::Calling(calling) if !calling.request.undo => {
                Some((calling.ticket, calling.request.effect))
            }
            _ => None,
        });
        open.collect()
    }

    /// The pivots that wait for a person to say what became of them, and whether their results are still
    /// wanted. Whether they left is not known here.
    pub fn parked_pivots(&self, program: &Program) -> Vec<(EffectId, bool)> {
        let pivots = self.branches.values().filter(|branch| is_pivot(program, branch));
        let parked = pivots.filter_map(|branch| match &branch.top()?.activity {
            Activity::Parked { effect, resume, .. } => match &**resume {
                Activity::Calling(calling) if !calling.request.undo => {
                    Some((*effect, !is_finding_out(branch)))
                }
                _ => None,
            },
            _ => None,
        });
        parked.collect()
    }
}

impl Machine<'_> {
    pub(super) fn take_over(&mut self, never_left: &BTreeSet<EffectId>) {
        if self.execution.outcome().is_some() {
            return;
        }
        let ids: Vec<BranchId> = self.execution.branches.keys().copied().collect();
        for id in ids {
            let Some(mut branch) = self.take(id) else { continue };
            match self.take_over_call(&mut branch, never_left) {
                Some(turn) => self.settle(branch, turn),
                None => self.put(branch),
            }
        }
        // What was just made anew must not be repeated, so it is not among these.
        let open = self.execution.open_commands(self.program, self.now);
        self.commands.extend(open);
    }

    /// What a new author does about the call a branch waits for; nothing if it is just asked again,
    /// or stays with a person.
    fn take_over_call(
        &mut self,
        branch: &mut Branch,
        never_left: &BTreeSet<EffectId>,
    ) -> Option<Turn> {
        let (calling, parked) = call_of(&branch.top()?.activity)?;
        let calling = calling.clone();
        let counts = !calling.request.readonly && !calling.request.undo;
        if !self.must_not_repeat(branch) {
            if counts && !parked {
                self.effect_intended(branch, &calling.request);
            }
            return None;
        }
        if self.is_own(&calling.request) {
            return None;
        }
        if counts && !parked && never_left.contains(&calling.request.effect) {
            self.effect_gone(calling.request.effect);
            let request = self.renewed(branch, &calling);
            return Some(self.call(branch, request, false));
        }
        // A second call would be wrong even as an effect of its own: nothing could take it back.
        if !counts || is_pivot(self.program, branch) {
            let fault = Fault::new(
                FaultKind::Communication,
                "Outcome unknown",
                "another node made the call",
            );
            return (!parked).then(|| self.answered(branch, &calling, Answer::Unknown(fault)));
        }
        if parked {
            let task = branch.top().expect("it is parked in a frame").task;
            let word = "left to whoever made the call".to_owned();
            self.happenings.push(Happening::Resolved(task, word));
        }
        self.effect_disowned(calling.request.effect);
        if is_finding_out(branch) {
            return Some(leave_to_author(branch));
        }
        let request = self.renewed(branch, &calling);
        Some(self.call(branch, request, false))
    }

    /// Whether a call that may have happened is the debt of another author, or of this one in an
    /// earlier term: whoever made it finds out about it and takes it back, and nobody else may. Whoever goes
    /// on after the end, when all have forgotten, answers for all that is open there.
    pub(super) fn is_debt_of_another(&self, frames: &[Frame], request: &Request) -> bool {
        let conduct = conduct(self.program, frames);
        let stage = &self.execution.head.stage;
        self.may_be_lost()
            && matches!(stage, Stage::Forward | Stage::RollingBack(_) | Stage::Closing(_))
            && conduct.repetition == Repetition::Acts
            && conduct.reversal != Reversal::Impossible
            && !request.undo
            && !self.is_own(request)
    }

    /// Whether this author made a call, in this term or in one that it went on from as if it were the same.
    fn is_own(&self, request: &Request) -> bool {
        self.author.made(request.effect)
    }
}

/// The call that an activity waits for, and whether a person is to say what became of it.
fn call_of(activity: &Activity) -> Option<(&Calling, bool)> {
    match activity {
        Activity::Calling(calling) => Some((calling, false)),
        Activity::Parked { resume, .. } => match resume.as_ref() {
            Activity::Calling(calling) => Some((calling, true)),
            _ => None,
        },
        _ => None,
    }
}

/// Goes on rolling back without the call that was being found out about.
fn leave_to_author(branch: &mut Branch) -> Turn {
    while !matches!(branch.top().map(|it| &it.activity), Some(Activity::Compensating(_))) {
        branch.pop().expect("what is found out about is part of rolling back");
    }
    Turn::Again
}
