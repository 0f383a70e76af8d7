//! Who is in the cluster: told to everyone by the world, or found out by the nodes' own gossip.
//!
//! In a world with gossip the first node founds the cluster, and every other joins it as a real one
//! does by its token: it asks a member that is up and can be reached before it comes up itself, and
//! asks again later if there is none. That one tells it of all it knows itself; the rest is gossip.
//! That it is a member, what it has heard of others, and who was removed, a node keeps on its disk: it
//! comes back by itself, though everyone it knew is gone. A node whose disk is lost is removed by a
//! person, at any node that is up. If no member has its disk any more, the last one that lost it founds the
//! cluster anew when it comes back.

use std::collections::BTreeSet;

use outlast_engine::{Ask, Caller, ClusterStanding, Input};
use outlast_lineage::NodeId;

use super::occurrence::Occurrence;
use super::{Situation, World};
use crate::Machine;

/// The callers of people who look after the cluster; the client counts from below.
const PEOPLE: u64 = u64::MAX / 2;

impl World {
    /// A node that came up learns who else is there.
    pub(super) fn introduce(&mut self, place: usize) {
        let is_new = self.members.insert(self.machines[place].id());
        if self.options.gossip {
            self.join(place);
        } else if is_new {
            self.tell_everyone_who_is_there();
        } else {
            self.tell_who_is_there(place);
        }
    }

    /// A node takes part in the gossip, from what it knows.
    fn join(&mut self, place: usize) {
        let machine = &self.machines[place];
        let (met, removed) = (machine.met.clone(), machine.removed.clone());
        self.tell(place, Input::PeersMet(met));
        self.tell(place, Input::PeersRemoved(removed));
        let addresses = vec![format!("place-{}", place + 1)];
        self.tell(place, Input::Reachable { addresses, release: String::new() });
    }

    /// A node that is about to come up is a member, or becomes one by asking a member; says whether it
    /// is one.
    pub(super) fn is_admitted(&mut self, place: usize) -> bool {
        let is_founder = self.machines[place].id() == self.founder;
        if !self.options.gossip || is_founder || self.machines[place].is_member {
            return true;
        }
        let Some(host) = self.host_of(place) else { return false };
        let joiner = self.machines[place].id();
        let (id, met) = (self.machines[host].id(), self.machines[host].met.clone());
        self.machines[host].met.insert(joiner);
        self.machines[place].met.extend(met.into_iter().chain([id]));
        self.machines[place].is_member = true;
        true
    }

    /// The disk of a node is lost, in whose place a new one will come. If that was the last member, there is
    /// no cluster any more that anyone could join: its operator founds it anew, as at the first time. What was
    /// known to all that are lost nobody promised to keep.
    pub(super) fn found_anew(&mut self, new: NodeId) {
        let founder = self.founder;
        let is_there = |machine: &Machine| machine.is_member || machine.id() == founder;
        if self.options.gossip && !self.machines.iter().any(is_there) {
            self.say(None, format_args!("node {} will found the cluster anew", new.0));
            self.saw(Situation::FoundedAnew);
            self.founder = new;
        }
    }

    /// A member that a node can ask whether it may join.
    fn host_of(&self, place: usize) -> Option<usize> {
        let answers = |at: &usize| {
            let machine = &self.machines[*at];
            let is_cut = self.network.is_cut(place, *at) || self.network.is_cut(*at, place);
            *at != place && machine.node.is_up() && machine.paused == 0 && !is_cut
        };
        (0..self.machines.len()).find(answers)
    }

    /// A node learns where another is.
    pub(super) fn meets(&mut self, place: usize, node: NodeId) {
        let machine = &mut self.machines[place];
        if !machine.removed.contains(&node) {
            machine.met.insert(node);
        }
    }

    /// A node hears another no more.
    pub(super) fn shuts_out(&mut self, place: usize, node: NodeId) {
        let machine = &mut self.machines[place];
        machine.met.remove(&node);
        machine.removed.insert(node);
    }

    /// Whether a node knows where to find another.
    pub(super) fn can_address(&self, place: usize, node: NodeId) -> bool {
        !self.options.gossip || self.machines[place].met.contains(&node)
    }

    /// Something else is believed of a node.
    pub(super) fn believes(&mut self, place: usize, node: NodeId, state: &'static str) {
        let before = self.machines[place].believed.insert(node, state);
        self.say(Some(place), format_args!("takes node {} for {state}", node.0));
        if state == "alive" {
            self.judge_member(place, node);
        }
        match (state, before) {
            ("alive", Some("dead" | "left")) => self.saw(Situation::Rejoined),
            ("alive", Some("suspect")) => self.saw(Situation::SuspicionRefuted),
            ("alive", _) => self.saw(Situation::Joined),
            ("suspect", _) => self.saw(Situation::Suspected),
            ("dead", _) => self.saw(Situation::TakenForDead),
            ("left", _) => self.saw(Situation::Left),
            _ => {}
        }
    }

    fn tell_everyone_who_is_there(&mut self) {
        for place in 0..self.machines.len() {
            self.tell_who_is_there(place);
        }
    }

    fn tell_who_is_there(&mut self, place: usize) {
        let own = self.machines[place].id();
        let others: BTreeSet<NodeId> =
            self.members.iter().copied().filter(|id| *id != own).collect();
        self.tell(place, Input::PeersKnown(others));
    }

    /// A node that lost its disk is given up by the others.
    pub(super) fn fence(&mut self, node: NodeId) {
        if self.options.gossip {
            return self.remove(node);
        }
        if self.members.remove(&node) {
            self.say(None, format_args!("node {} is given up", node.0));
            self.saw(Situation::Fenced);
            self.tell_everyone_who_is_there();
        }
    }

    /// A person removes a node at any that is up, and again if that one died before it wrote it down; the
    /// others hear of it.
    fn remove(&mut self, node: NodeId) {
        if self.machines.iter().any(|machine| machine.removed.contains(&node)) {
            return;
        }
        let at = self.soon(500_000, 1_000_000);
        self.agenda.note(at, Occurrence::Fence(node));
        let Some(place) = self.any_place() else { return };
        self.say(Some(place), format_args!("is told that node {} is gone for good", node.0));
        if self.members.remove(&node) {
            self.saw(Situation::Fenced);
        }
        self.tell(place, Input::Asked { caller: Caller(PEOPLE), ask: Ask::Remove(node) });
    }

    /// Asks every node how the cluster looks from there.
    pub(super) fn ask_for_standings(&mut self) {
        for place in 0..self.machines.len() {
            self.standings[place] = None;
            let caller = Caller(PEOPLE + 1 + place as u64);
            self.tell(place, Input::Asked { caller, ask: Ask::Standing });
        }
    }

    /// A node says how the cluster looks from there.
    pub(super) fn takes_standing(&mut self, place: usize, standing: Box<ClusterStanding>) {
        self.standings[place] = Some(standing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, WorldOptions};

    #[test]
    fn a_cluster_is_founded_anew_only_if_no_member_is_left() {
        let options = WorldOptions { nodes: 2, gossip: true, ..WorldOptions::default() };
        let mut alone = World::new(options.clone(), Plan::default());
        alone.lose_disk(1);
        assert_eq!(alone.founder, NodeId(1), "another lost its disk");
        alone.lose_disk(0);
        assert_eq!(alone.founder, NodeId(4));
        let mut joined = World::new(options, Plan::default());
        joined.machines[1].is_member = true;
        joined.lose_disk(0);
        assert_eq!(joined.founder, NodeId(1), "the other can let it in");
        joined.lose_disk(1);
        assert_eq!(joined.founder, NodeId(4), "no disk has the cluster any more");
    }

    #[test]
    fn a_node_is_removed_again_until_somebody_has_written_that_down() {
        let options = WorldOptions { nodes: 2, gossip: true, ..WorldOptions::default() };
        let mut world = World::new(options, Plan::default());
        let mut plans_to_ask = |has_written: bool| {
            while world.agenda.next().is_some() {}
            world.machines[0].removed.clear();
            world.machines[0].removed.extend(has_written.then_some(NodeId(9)));
            world.fence(NodeId(9));
            world.agenda.next_time().is_some()
        };
        assert!(plans_to_ask(false));
        assert!(!plans_to_ask(true));
    }

    #[test]
    fn a_member_comes_back_though_everyone_it_met_was_removed() {
        let options = WorldOptions { nodes: 2, gossip: true, ..WorldOptions::default() };
        let mut world = World::new(options, Plan::default());
        assert!(!world.is_admitted(1), "nobody is up who could let it in");
        world.machines[1].is_member = true;
        world.meets(1, NodeId(1));
        world.shuts_out(1, NodeId(1));
        assert!(world.is_admitted(1));
        world.machines[1].forget_others();
        assert!(!world.is_admitted(1), "with its disk it lost that it is one");
    }
}
