//! Looking at what has just happened: the first sentence that does not hold is a finding at once.

use std::sync::Arc;

use outlast_engine::Condition;
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::Request;

use super::World;
use crate::Visited;
use crate::checkers::Expectation;
use crate::checkers::at_once::{self, Seen};
use crate::ledger::MadeOn;

impl World {
    /// What one run of everything does when nothing fails; what is done from now on is compared with it.
    pub fn expects(&mut self, calm: impl Into<Arc<Expectation>>) {
        self.expected = Some(calm.into());
    }

    /// Has a service do something for a node, and looks at it as at every act.
    pub fn serve(&mut self, node: NodeId, execution: ExecutionId, request: &Request) -> Visited {
        let visited = self.services.visit(self.now, node, execution, request, false);
        let made_on = MadeOn::default();
        self.services.ledger.made_on(execution, request.key, made_on);
        visited.act.into_iter().for_each(|act| {
            self.learn_act(act, &request.key_text());
            self.judge_act(act);
        });
        visited
    }

    /// What one run does when nothing fails, if that is known.
    pub(crate) fn expected(&self) -> Option<&Expectation> {
        self.expected.as_deref()
    }

    /// Whether a fault has begun.
    pub(crate) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// A service has just done something.
    pub(crate) fn judge_act(&mut self, act: usize) {
        self.judge(|world, seen| {
            at_once::what_was_done_may_be(world, seen, world.services.ledger.act(act))
        });
    }

    /// A node says how far an execution is.
    pub(crate) fn judge_end(&mut self, place: usize, execution: ExecutionId, condition: Condition) {
        let node = self.machines[place].id();
        self.judge(|world, seen| at_once::it_ends_once(world, seen, (execution, node, condition)));
    }

    /// The client was told how an execution ended, or somebody that it is stopped.
    pub(crate) fn judge_told(&mut self, execution: ExecutionId) {
        self.judge(|world, _| at_once::what_is_told_is_so(world, execution));
    }

    /// A node takes another for alive.
    pub(crate) fn judge_member(&mut self, place: usize, node: NodeId) {
        self.judge(|world, _| at_once::nobody_gone_is_there(world, place, node));
    }

    fn judge(&mut self, look: impl FnOnce(&Self, &mut Seen) -> Result<(), String>) {
        let mut seen = std::mem::take(&mut self.seen);
        let finding = look(self, &mut seen);
        self.seen = seen;
        finding.err().into_iter().for_each(|finding| self.found(finding));
    }
}
