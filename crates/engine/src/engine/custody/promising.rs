//! Telling people that what they asked for is done.
//!
//! What one node has on its disk may be lost with the line that it leads: whoever asks for an execution to be
//! stopped, held or rolled back is told that this is done when a majority has the state that followed from it,
//! or when that was decided on. A primary that reaches no majority and goes on all the same says that another run
//! may count; one that waits for a majority lets whoever asks wait with it. Where every node executes, no other
//! one has this node's states, so that the changed one is decided on.
//!
//! That something is not possible is told in the same way: where calls wait for a majority, what a node knows that
//! reaches none may be old, and it does not refuse anything because of that.

use outlast_lineage::{ExecutionId, NodeId, Point};
use outlast_protocols::replicas::Input;

use super::super::entry::Entry;
use super::super::{Engine, Step, Work};
use super::{Custody, Holding, Word};
use crate::{Acknowledge, Caller, Refusal, Reply, Strategy};

impl Engine {
    /// An execution went on because somebody asked for it: tells so, now or when it is certain.
    pub(in crate::engine) fn promise(&mut self, step: &mut Step, caller: Caller, id: ExecutionId) {
        let entry = self.roster.known(id);
        let position = entry.position;
        if let Some(Custody::Replica(holding)) = &mut entry.custody
            && let Some(point) = holding.replica.head().lineage.head()
        {
            holding.askers.push((caller, point));
            self.have_decided(id, point.number);
            return self.keep_promises(step, id);
        }
        step.reply(Some(position), caller, Reply::Done);
    }

    /// Has a state decided on that nobody else would ever have: otherwise another node's run could come to its
    /// end before this one has anything to undo. An end is decided on anyway.
    fn have_decided(&mut self, id: ExecutionId, number: u64) {
        let Some(holding) = self.holding(id) else { return };
        let is_active = holding.terms.survival.strategy == Strategy::Active;
        if is_active && !holding.replica.standing().ended && holding.wanted < Some(number) {
            holding.wanted = Some(number);
            let word = Word::Replica(Box::new(Input::DecisionWanted { number }));
            self.queue(id, |execution| Work::Custody { execution, word });
        }
    }

    /// Answers those who need not wait any longer.
    pub(super) fn keep_promises(&mut self, step: &mut Step, id: ExecutionId) {
        let Some(holding) = self.holding(id).filter(|holding| !holding.askers.is_empty()) else {
            return;
        };
        let (mut told, mut waiting) = (Vec::new(), Vec::new());
        for (caller, point) in std::mem::take(&mut holding.askers) {
            match holding.certainty(id, &point) {
                Some(reply) => told.push((caller, reply)),
                None => waiting.push((caller, point)),
            }
        }
        holding.askers = waiting;
        let position = self.roster.known(id).position;
        for (caller, reply) in told {
            step.reply(Some(position), caller, reply);
        }
    }
}

impl Holding {
    /// What can be said of a state that followed from what somebody asked for; nothing as long as it may
    /// become certain.
    fn certainty(&self, id: ExecutionId, point: &Point) -> Option<Reply> {
        let replica = &self.replica;
        if !replica.head().lineage.contains(point) {
            return Some(Reply::Refused(Refusal::NotKept(id)));
        }
        if replica.is_decided_up_to(point.number) || replica.is_at_majority(point.number) {
            return Some(Reply::Done);
        }
        let waits = self.waits_for_majority();
        let goes_on = replica.leads().is_some() && !waits && !replica.reaches_majority();
        goes_on.then_some(Reply::DoneHere)
    }

    /// Whether nothing counts, and no call leaves, before a majority has the state.
    pub(super) fn waits_for_majority(&self) -> bool {
        self.terms.survival.acknowledge == Acknowledge::Majority
    }
}

impl Entry {
    /// Those from which nothing is heard, if the others may have gone on without this node: then what it knows
    /// of the execution may be old. Where calls wait for nobody, its own run goes on, and is what it tells of.
    pub(in crate::engine) fn missed_majority(&self) -> Option<Vec<NodeId>> {
        let Some(Custody::Replica(holding)) = &self.custody else { return None };
        let replica = &holding.replica;
        let is_old =
            holding.waits_for_majority() && !replica.is_settling() && !replica.reaches_majority();
        is_old.then(|| replica.unreachable().collect())
    }
}
