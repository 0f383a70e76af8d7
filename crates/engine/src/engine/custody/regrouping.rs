//! Two groups of nodes that hold one execution: the one that cannot decide joins the one that has decided.
//!
//! Who holds an execution follows from its id and from who is in the cluster. Two nodes that cannot reach each
//! other and are asked for one id may know of different members, if one was replaced meanwhile: then there are
//! two groups, and some nodes are to be in both. Words of one are not taken in the other. If a group lacks some
//! that hold the execution with the other one, so that it can never decide on anything, and the other one has decided
//! on its end, whoever holds the execution with the first holds it with the second from then on: its line is one of
//! those that were lost, and what it did is undone like theirs.
//!
//! Invariant: a group of which anything was decided is never left. Lines, effects and terms stay what they
//! were: no state is named twice.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{ExecutionId, NodeId};
use outlast_protocols::{paxos, replicas, two_phase};

use super::super::{Engine, Step};
use super::turn::Turn;
use super::wire::choice_of;
use super::{Alarm, Begin, Holding, Said, Shared, Times, setup};

impl Said {
    /// Whether it says how the execution ended, so that nothing else ever will.
    fn is_final_decision(&self) -> bool {
        match self {
            Self::Paxos(_, paxos::Message::Decide { value }) => {
                choice_of(value).is_some_and(|choice| choice.is_final)
            }
            Self::Replica(replicas::Message::Decided { choice, .. }) => choice.is_final,
            Self::Forgetting(two_phase::Message::Prepare) => true,
            _ => false,
        }
    }
}

impl Holding {
    /// A member of this group says that it holds the execution with others.
    pub(super) fn hear_elsewhere(&mut self, from: NodeId, begin: Begin) {
        self.elsewhere.insert(from, begin);
    }

    /// A member speaks in this group: whatever it said before, it holds the execution here.
    pub(super) fn hear_here(&mut self, from: NodeId) {
        self.elsewhere.remove(&from);
    }

    /// How a group began that this replica is to join, if its own one can decide on nothing: too few of its
    /// members are left that neither are gone nor hold the execution with others.
    fn joinable(&self, me: NodeId, mark: u32, gone: &BTreeSet<NodeId>) -> Option<&Begin> {
        let standing = self.replica.standing();
        if standing.choice.is_some() || self.forgetting.participant.is_some() {
            return None;
        }
        let members = &self.terms.members;
        let is_here = |node: &NodeId| !gone.contains(node) && !self.elsewhere.contains_key(node);
        if members.quorum(gone) <= members.iter().filter(is_here).count() {
            return None;
        }
        self.elsewhere.values().find(|begin| {
            let others = &begin.terms.members;
            others.mark() == mark && others.contains(me)
        })
    }

    /// Holds the execution on other terms from now on, as one that was away: all that was done stays known.
    pub(super) fn regroup(&mut self, me: NodeId, times: &Times, begin: &Begin) {
        let terms = begin.terms.clone();
        let standing = self.replica.standing().clone();
        self.replica = replicas::Replica::restored(setup(me, &terms, times), standing);
        let peers = terms.members.others(me).collect();
        self.participant = two_phase::Participant::new(peers, times.patience);
        self.coordinator = None;
        self.decisions = BTreeMap::new();
        self.elsewhere = BTreeMap::new();
        self.unaware = terms.members.others(me).collect();
        (self.terms, self.salt) = (terms, begin.salt);
    }
}

impl Engine {
    /// What is said in a group that this node holds the execution without: if it says how it ended, and
    /// this node's own group can decide on nothing any more, this node joins that one.
    pub(super) fn hear_of_another_group(&mut self, step: &mut Step, of: Shared, words: &[Said]) {
        let (me, id) = (self.options.node, of.execution);
        let is_held = self.holding(id).is_some();
        if !is_held || self.storage_full || !words.iter().any(Said::is_final_decision) {
            return;
        }
        self.wake(id);
        let gone = self.gone_members(id);
        let Some(holding) = self.holding(id) else { return };
        let begin = holding.joinable(me, of.mark, &gone).cloned();
        if let Some(begin) = begin.filter(|begin| self.definitions.get(&begin.definition).is_some())
        {
            self.join_group(step, id, begin);
        }
    }

    fn join_group(&mut self, step: &mut Step, id: ExecutionId, begin: Begin) {
        let (me, times) = (self.options.node, self.options.times.clone());
        self.stop_leading(id);
        let Some(holding) = self.holding(id) else { return };
        let alarms = std::mem::take(&mut holding.timers);
        holding.regroup(me, &times, &begin);
        for (alarm, at) in alarms {
            self.custody_alarms.remove(&(at, id, alarm));
        }
        let mut turn = Turn { regrouped: Some(Box::new(begin)), ..Turn::default() };
        for peer in self.lost_members(id) {
            self.tell_replica(step, id, replicas::Input::PeerLost(peer), &mut turn);
        }
        for gone in self.gone_members(id) {
            self.tell_replica(step, id, replicas::Input::Fenced(gone), &mut turn);
        }
        self.tell_replica(step, id, replicas::Input::Restarted, &mut turn);
        self.finish_turn(step, id, turn);
        self.set_custody_alarm(id, Alarm::Begin, step.now.after(times.patience));
    }
}

#[cfg(test)]
mod tests {
    use outlast_expressions::Value;
    use outlast_lineage::{Digest, Time};

    use super::super::Terms;
    use super::*;
    use crate::{Strategy, Survival};

    const ME: NodeId = NodeId(3);
    const EVERYONE_IS_THERE: &BTreeSet<NodeId> = &BTreeSet::new();

    fn terms(members: [u64; 3]) -> Terms {
        let survival = Survival::new(Strategy::PartitionTolerant, 3);
        Terms { survival, members: members.into_iter().map(NodeId).collect() }
    }

    fn holding(members: [u64; 3]) -> Holding {
        Holding::new(ME, terms(members), [0; 16], &Times::default(), None)
    }

    fn begin(members: [u64; 3]) -> Begin {
        Begin {
            execution: ExecutionId::from_bytes([1; 16]),
            name: None,
            definition: Digest::of(b"a definition"),
            input: Value::default(),
            salt: [1; 16],
            started: Time::default(),
            terms: terms(members),
            parent: None,
        }
    }

    #[test]
    fn joins_a_group_that_it_is_to_be_in_when_its_own_cannot_decide() {
        let (mut own, other) = (holding([1, 2, 3]), begin([1, 3, 4]));
        let mark = other.terms.members.mark();
        own.hear_elsewhere(NodeId(1), other.clone());
        assert!(own.joinable(ME, mark, EVERYONE_IS_THERE).is_none(), "2 and 3 may decide");
        assert_eq!(own.joinable(ME, mark, &BTreeSet::from([NodeId(2)])), Some(&other));
        assert!(
            own.joinable(ME, mark + 1, &BTreeSet::from([NodeId(2)])).is_none(),
            "of another group"
        );
        own.hear_elsewhere(NodeId(2), begin([2, 4, 5]));
        let mark = terms([2, 4, 5]).members.mark();
        assert!(own.joinable(ME, mark, EVERYONE_IS_THERE).is_none(), "it is not to be in that one");
    }

    /// What it said before may arrive late, and it may have joined this group since.
    #[test]
    fn whoever_speaks_in_the_group_is_in_it() {
        let (mut own, other) = (holding([1, 2, 3]), begin([1, 3, 4]));
        own.hear_elsewhere(NodeId(1), other.clone());
        own.hear_here(NodeId(1));
        let mark = other.terms.members.mark();
        assert!(own.joinable(ME, mark, &BTreeSet::from([NodeId(2)])).is_none());
    }
}
