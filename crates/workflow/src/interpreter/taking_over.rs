//! Going on where another author left off.
//!
//! Solo recovery is milder: the author is the same, so what it may have done is its own to find out
//! (`open`). Here the earlier author may still be there, cut off, and go on by itself. What is asked
//! again with the same key is one effect however many ask; what must not be asked again is done anew,
//! and whoever did it first undoes it when the lines are settled.

use outlast_lineage::BranchId;

use super::calling::is_finding_out;
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, Calling};
use crate::{Answer, Fault, FaultKind};

impl Machine<'_> {
    pub(super) fn take_over(&mut self) {
        if self.execution.outcome().is_some() {
            return;
        }
        let ids: Vec<BranchId> = self.execution.branches.keys().copied().collect();
        for id in ids {
            let Some(mut branch) = self.take(id) else { continue };
            match self.take_over_call(&mut branch) {
                Some(turn) => self.settle(branch, turn),
                None => self.put(branch),
            }
        }
        // What was just made anew must not be repeated, so it is not among these.
        let open = self.execution.open_commands(self.program, self.now);
        self.commands.extend(open);
    }

    /// What a new author does about the call a branch waits for; nothing if it is just asked again.
    fn take_over_call(&mut self, branch: &mut Branch) -> Option<Turn> {
        let Activity::Calling(calling) = &branch.top()?.activity else { return None };
        let calling = calling.clone();
        let counts = !calling.request.readonly && !calling.request.undo;
        if !self.must_not_repeat(branch) {
            if counts {
                self.effect_intended(branch, &calling.request);
            }
            return None;
        }
        if self.is_own(&calling) {
            return None;
        }
        if !counts || is_pivot_or_sought(self, branch) {
            let fault = Fault::new(
                FaultKind::Communication,
                "Outcome unknown",
                "another node made the call, and it is not known whether it happened",
            );
            return Some(self.answered(branch, &calling, Answer::Unknown(fault)));
        }
        self.effect_disowned(calling.request.effect);
        let request = self.renewed(branch, &calling);
        Some(self.call(branch, request, false))
    }

    /// Whether this author made a call, in this term.
    fn is_own(&self, calling: &Calling) -> bool {
        let point = calling.request.effect.point;
        (point.author, point.epoch) == (self.author.node, self.author.epoch)
    }
}

/// Whether a second call would be wrong even as an effect of its own: nothing could take it back, or
/// it is only asked whether the first one happened.
fn is_pivot_or_sought(machine: &Machine<'_>, branch: &Branch) -> bool {
    super::calling::is_pivot(machine.program, branch) || is_finding_out(branch)
}
