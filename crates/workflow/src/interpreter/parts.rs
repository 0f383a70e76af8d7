//! Workflows that are run as part of another: `run: workflow`, where the program is a bundle.
//!
//! Such a workflow runs in a branch of its own, with its own input, context, variables and end, at
//! whose end the task that runs it goes on. So it shares everything else with the run around it:
//! deltas, ledger, compensation continuation, and whatever becomes of the line.

use super::{Machine, Turn};
use crate::execution::{Activity, Branch, Datum, Failure, JoinId, Nested, PlanEntry, Slot};
use crate::program::bundle::NESTING_MAX;
use crate::program::{Kind, OnFault};
use crate::{Fault, FaultKind, Happening, TaskId};
use outlast_lineage::BranchId;

/// What a branch did leaves the workflow that it is of.
pub(super) fn leave_part(branch: &Branch, entries: &mut [PlanEntry]) {
    if let Some(part) = branch.part_around() {
        entries.iter_mut().for_each(|entry| entry.leave(&part));
    }
}

impl Machine<'_> {
    pub(super) fn begin_part(&mut self, branch: &mut Branch, part: u32, input: Datum) -> Turn {
        let depth = branch.workflow().map_or(0, |around| around.depth) + 1;
        if NESTING_MAX < depth {
            let detail = format!("sub-workflows nest deeper than {NESTING_MAX}");
            let fault = Fault::new(FaultKind::Runtime, "Sub-workflow not started", detail);
            return self.raise(branch, fault);
        }
        let id = self.child_id(branch);
        let nested = Nested { id, part, input: input.clone(), started: self.now, depth };
        let join = JoinId(branch.ticket());
        let counts = &mut self.join_mut(join).counts;
        (counts.total, counts.next, counts.live) = (1, 1, 1);
        self.set_activity(branch, Activity::Gather(join));
        let mut inner = self.new_branch(branch, 0, input, Vec::new());
        inner.birth.workflow = Some(Box::new(nested));
        inner.set_context(Datum::null());
        self.enter(&mut inner, self.program.linked.part(part).root, 0);
        self.wake(inner);
        Turn::Wait
    }

    /// The part whose end the innermost task of a branch waits for.
    pub(super) fn part_run_by(&self, branch: &Branch) -> Option<u32> {
        let frame = branch.top()?;
        let runs = matches!(self.program.task(frame.task).kind, Kind::RunWorkflow { .. })
            && matches!(frame.activity, Activity::Gather(_));
        if runs { self.program.linked.run_by(frame.task) } else { None }
    }

    /// The part has come to its end: what it did belongs to the scope around the task that ran it.
    pub(super) fn part_done(&mut self, branch: &mut Branch, join: JoinId, slot: Slot) -> Turn {
        self.drop_join(join);
        if !slot.plan.is_empty() {
            let around = self.scope_around(branch, branch.frames().len());
            self.plan_mut(around).extend(slot.plan);
        }
        branch.set_data(slot.data);
        self.complete(branch)
    }

    /// An error that nothing in a part catches is raised at the task that runs it; the part is
    /// rolled back before, if its document says so.
    pub(super) fn raise_from_part(
        &mut self,
        branch: &mut Branch,
        inner: BranchId,
        part: u32,
        fault: Fault,
    ) -> Turn {
        let fault = Fault { instance: None, ..fault };
        if self.program.linked.part(part).on_fault == OnFault::Leave {
            return self.raise(branch, fault);
        }
        if let Some(Activity::Gather(join)) = branch.top().map(|frame| &frame.activity) {
            self.drop_join(*join);
        }
        let done = self.stop_branch(inner, branch.workflow());
        let done = self.owed(done);
        let why = fault.title.clone().unwrap_or_else(|| fault.kind.clone());
        self.happenings.push(Happening::CompensationStarted(why));
        self.set_activity(branch, Activity::Raising(fault));
        self.push_compensation(branch, done, Failure::Park);
        Turn::Again
    }

    /// Whether a task that failed has undone what it did: what it calls next time is called anew.
    pub(super) fn rolls_back_by_itself(&self, task: TaskId) -> bool {
        let part = self.program.linked.run_by(task);
        part.is_some_and(|part| self.program.linked.part(part).on_fault == OnFault::Compensate)
    }
}
