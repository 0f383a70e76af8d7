//! Executions whose end is lost: it was decided on with nodes that are gone for good, none of those that are left
//! has it, and a person says that they are to be forgotten.
//!
//! Whatever end they were given might contradict the one that was told, so they get none: whoever waits for it is
//! told that it is forgotten. What was done stays done. Lost lines go first, each by a record of its own: if a crash
//! comes in between, the execution is there as before, and is given up when that is asked for again. The other way
//! round, a line would be left that nobody undoes.

use outlast_lineage::ExecutionId;

use super::{Engine, Step, Work};
use crate::{Caller, Refusal, Reply, Which};

impl Engine {
    /// Forgets an execution, also one whose end is lost.
    pub(super) fn give_up(
        &mut self,
        step: &mut Step,
        caller: Caller,
        which: &Which,
    ) -> Result<(), Refusal> {
        let id = self.find(which)?;
        if !self.lacks_a_lost_end(id) {
            return self.delete(step, caller, which);
        }
        self.drop_lines_before_giving_up(id, caller);
        Ok(())
    }

    /// The lost lines that are still there, and then the execution.
    fn drop_lines_before_giving_up(&mut self, id: ExecutionId, caller: Caller) {
        for line in self.lines_of(id).into_iter().filter(|line| *line != id) {
            self.queue_own(Work::DropRemnant(line));
        }
        self.queue_own(Work::GiveUp { execution: id, caller });
    }

    /// Forgets an execution whose end is lost, unless it came meanwhile or a line was lost.
    pub(super) fn give_up_now(&mut self, step: &mut Step, id: ExecutionId, caller: Caller) {
        if self.roster.get(id).is_none() || !self.lacks_a_lost_end(id) {
            let which = Which::Id(id);
            if let Err(refusal) = self.find(&which).and_then(|_| self.delete(step, caller, &which))
            {
                step.reply(Some(self.position), caller, Reply::Refused(refusal));
            }
            return;
        }
        if 1 < self.lines_of(id).len() {
            return self.drop_lines_before_giving_up(id, caller);
        }
        self.drop_custody(id);
        self.quiet(id);
        let position = self.forget(step, id);
        for waiting in self.waiters.take(id) {
            let forgotten = Reply::Refused(Refusal::Forgotten(id.to_string()));
            step.reply(Some(position), waiting, forgotten);
        }
        step.reply(Some(position), caller, Reply::Done);
    }

    /// Whether its end was decided on, and this node lacks it and may never get it.
    fn lacks_a_lost_end(&self, id: ExecutionId) -> bool {
        let holders = self.roster.get(id).and_then(|entry| entry.holders());
        holders.is_some_and(|holders| holders.end_is_missing)
    }
}
