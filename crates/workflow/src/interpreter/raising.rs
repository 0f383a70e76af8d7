//! Errors: where they are caught, and what happens to those that are not.

use outlast_lineage::{BranchId, Epoch};

use super::conduct::is_finding_out;
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, BranchState};
use crate::program::Kind;
use crate::{Fault, Happening};

impl Machine<'_> {
    /// Raises an error at the innermost task.
    pub(super) fn raise(&mut self, branch: &mut Branch, mut fault: Fault) -> Turn {
        if fault.instance.is_none() {
            fault.instance = Some(self.instance(branch));
        }
        self.owe_in_spite_of(branch, &fault);
        let task = branch.top().expect("a task raises").task;
        if !self.program.task(task).name.is_empty() {
            self.happenings.push(Happening::TaskFaulted(task, fault.clone()));
        }
        self.raise_from(branch, branch.frames().len(), fault)
    }

    /// Where people look for the error: the task in the flow, not one inside a function it calls, and
    /// the workflow's own `input` and `output` rather than the list of its tasks.
    fn instance(&self, branch: &Branch) -> String {
        let frames = branch.frames();
        let caller =
            frames.iter().find(|frame| matches!(frame.activity, Activity::Function { .. }));
        let frame = caller.or(frames.last()).expect("a task raises");
        let is_root = self.program.transforms_of_root(frame.task).is_some();
        match frame.activity {
            Activity::Input if is_root => "/input".to_owned(),
            Activity::Output if is_root => "/output".to_owned(),
            _ => self.program.task(frame.task).place.pointer.clone(),
        }
    }

    /// Looks for what catches an error, from a depth outwards.
    pub(super) fn raise_from(&mut self, branch: &mut Branch, depth: usize, fault: Fault) -> Turn {
        let mut fault = fault;
        for index in (0..depth).rev() {
            match &branch.frames()[index].activity {
                Activity::Try(_) => match self.catches(branch, index, &fault) {
                    Ok(true) => return self.handle(branch, index, fault),
                    Ok(false) => {}
                    // A filter that fails replaces the error it was to judge.
                    Err(other) => fault = other,
                },
                Activity::Undoing(_) => return self.undo_failed(branch, index, fault),
                Activity::Compensating(_) => {
                    // Asking again showed that the call never happened: nothing is to be undone.
                    let entries = self.unwind(branch, index + 1);
                    drop(entries);
                    return Turn::Again;
                }
                Activity::Function { .. } | Activity::Calling(_) | Activity::Begin
                    // Who only asks what became of a call does not look for another way to do it.
                    if self.has_alternative(branch, index) && !is_finding_out(branch) =>
                {
                    return self.begin_alternative(branch, index);
                }
                _ => {}
            }
        }
        Turn::Raised(fault)
    }

    /// Carries an error that nothing in a branch catches to the branches around it.
    pub(super) fn raise_outside(&mut self, origin: BranchId, fault: Fault) {
        let (mut origin, mut child) = (origin, origin);
        let mut fault = fault;
        loop {
            let parent = self.execution.branches.get(&child).and_then(|b| b.birth.parent);
            let Some(parent_id) = parent else { return self.fault_run(origin, fault) };
            // The parent is elsewhere: the error waits in the branch until it is sent back.
            let Some(mut parent) = self.take(parent_id) else {
                return self.mark_failed(origin, fault);
            };
            let competes = parent.top().is_some_and(|frame| {
                matches!(self.program.task(frame.task).kind, Kind::Fork { compete: true, .. })
                    && matches!(frame.activity, Activity::Gather(_))
            });
            let turn = if competes {
                self.lose(&mut parent, child, fault)
            } else if let Some(part) = self.part_run_by(&parent) {
                self.raise_from_part(&mut parent, child, part, fault)
            } else {
                let depth = parent.frames().len();
                self.raise_from(&mut parent, depth, fault)
            };
            match turn {
                Turn::Raised(outer) => {
                    self.put_waiting(parent);
                    child = parent_id;
                    fault = outer;
                    // Of a race that all have lost no branch is left: it is the race that has failed.
                    if !self.execution.branches.contains_key(&origin) {
                        origin = parent_id;
                    }
                }
                turn => return self.settle(parent, turn),
            }
        }
    }

    /// Puts a branch back after a turn.
    pub(super) fn settle(&mut self, branch: Branch, turn: Turn) {
        match turn {
            Turn::Again => self.wake(branch),
            Turn::Wait => self.put_waiting(branch),
            Turn::Gone => self.drop_branch(branch),
            Turn::Raised(fault) => {
                let id = branch.id();
                self.put_waiting(branch);
                self.raise_outside(id, fault);
            }
        }
    }

    /// Nothing caught it: the run has faulted, and stays as it is so that it can be tried again;
    /// or it is rolled back, if the document says so.
    fn fault_run(&mut self, origin: BranchId, fault: Fault) {
        if self.program.on_fault == crate::program::OnFault::Compensate && self.is_forward() {
            return self.roll_back(fault);
        }
        self.mark_failed(origin, fault.clone());
        self.stop_with_fault(fault);
    }

    /// Lets the innermost task of a branch be the one that failed. Nothing of it goes on.
    fn mark_failed(&mut self, origin: BranchId, fault: Fault) {
        let Some(mut branch) = self.take(origin) else { return };
        let entries = self.stop_in_place(&mut branch);
        self.keep_stopped(&branch, entries);
        if let Some(frame) = branch.top_mut() {
            let in_doubt = frame.activity.unanswered().cloned().map(Box::new);
            frame.activity = Activity::Failed(fault, in_doubt);
        }
        self.put_waiting(branch);
    }

    /// A branch that was cut off comes back. From any other epoch than the one it was cut in, only
    /// its effects count.
    pub(super) fn take_back(&mut self, id: BranchId, epoch: Epoch, remote: crate::Execution) {
        let away = self.execution.branches.get(&id).is_some_and(|branch| {
            matches!(branch.small.state, BranchState::Away { epoch: cut, .. } if cut == epoch)
        });
        if !away || remote.id() != self.execution.id {
            for (id, effect) in remote.ledger().iter() {
                self.execution.ledger.record(*id, effect.clone());
                self.touched.effects.insert(*id);
            }
            return;
        }
        let ready = remote.head.ready.clone();
        self.execution.rejoin(remote, &mut self.touched);
        self.ready.extend(ready);
        let root = &self.execution.branches[&id];
        match root.top().map(|frame| frame.activity.clone()) {
            None => self.ready.push_back(id),
            Some(Activity::Failed(fault, _)) => self.raise_outside(id, fault),
            Some(_) => {}
        }
    }
}
