//! What this node believes of every other: a table, kept in step with the gossip library, whose
//! differences are the changes that the owner is told of.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{NodeId, Time};

use super::member::{Incarnation, Member, Offer, check_text};
use super::message::Description;
use super::packet::Identity;

/// How many nodes are remembered, this one not among them. More than that is not a cluster of ours,
/// but someone who makes members up.
pub const PEERS_MAX: usize = 1024;

/// What is believed of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// It is known by name only, or has not been let in yet.
    Joining,
    /// It answers.
    Alive,
    /// It did not answer, neither directly nor by way of others, and may still contradict.
    Suspect,
    /// It did not contradict.
    Dead,
    /// It said that it goes.
    Left,
}

/// Another node, as this one sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// What it says of itself.
    pub member: Member,
    /// What is believed of it.
    pub state: State,
    /// Since when.
    pub since: Time,
    /// When it last said anything to this node.
    pub heard: Option<Time>,
    /// Where a connection to it was last seen, in the words of the driver.
    pub seen_at: Option<String>,
    /// What it offers; nothing as long as it has not said.
    pub offer: Offer,
    /// The life and the count of the last word on its offer.
    described: (Incarnation, u64),
}

/// What changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
    /// Something else is believed of a node, perhaps of this one.
    Became {
        /// Which node.
        node: NodeId,
        /// What is believed now.
        state: State,
    },
    /// A node goes on in another life, perhaps this one.
    Renewed {
        /// Which node.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
    },
    /// A node offers something else.
    Described {
        /// Which node.
        node: NodeId,
    },
    /// A node was gone for so long that nothing is known of it any more.
    Forgotten {
        /// Which node.
        node: NodeId,
    },
}

impl Change {
    pub(super) fn is_a_suspicion(&self) -> bool {
        matches!(self, Self::Became { state: State::Suspect, .. })
    }
}

/// All other nodes.
#[derive(Default)]
pub(super) struct Peers {
    peers: BTreeMap<NodeId, Peer>,
}

impl Peer {
    /// One that is known by name only.
    fn named(node: NodeId, now: Time) -> Self {
        Self {
            member: Member::unknown(node),
            state: State::Joining,
            since: now,
            heard: None,
            seen_at: None,
            offer: Offer::default(),
            described: Default::default(),
        }
    }

    /// Whether it should be there and does not answer.
    pub fn is_unreachable(&self) -> bool {
        matches!(self.state, State::Suspect | State::Dead)
    }
}

impl Peers {
    /// Remembers a node by name, if there is room. Says whether it is remembered.
    pub(super) fn name(&mut self, now: Time, node: NodeId) -> bool {
        if self.peers.len() < PEERS_MAX {
            self.peers.entry(node).or_insert_with(|| Peer::named(node, now));
        }
        self.peers.contains_key(&node)
    }

    /// Notes where a node was seen.
    pub(super) fn see(&mut self, node: NodeId, address: String) {
        if let Some(peer) = self.peers.get_mut(&node).filter(|_| check_text(&address).is_ok()) {
            peer.seen_at = Some(address);
        }
    }

    /// Notes that a node said something.
    pub(super) fn hear(&mut self, now: Time, node: NodeId) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.heard = Some(now);
        }
    }

    /// Notes what a node says that it offers, unless it has said something later. Only what is more
    /// than another load is a change.
    pub(super) fn describe(&mut self, node: NodeId, description: Description) -> Option<Change> {
        let peer = self.peers.get_mut(&node)?;
        let said = (description.incarnation, description.revision);
        if said <= peer.described {
            return None;
        }
        peer.described = said;
        let before = std::mem::replace(&mut peer.offer, description.offer);
        before.differs_in_kind(&peer.offer).then_some(Change::Described { node })
    }

    /// Takes over what the library believes, and says what is new.
    pub(super) fn follow<'members>(
        &mut self,
        now: Time,
        members: impl Iterator<Item = &'members foca::Member<Identity>>,
    ) -> Vec<Change> {
        let mut gone: BTreeSet<NodeId> = self.believed().collect();
        let mut changes = Vec::new();
        for member in members {
            let node = member.id().node();
            gone.remove(&node);
            let peer = self.peers.entry(node).or_insert_with(|| Peer::named(node, now));
            peer.follow(now, member, &mut changes);
        }
        for node in gone {
            self.peers.remove(&node);
            changes.push(Change::Forgotten { node });
        }
        changes.sort();
        changes
    }

    /// Those that the library knows of: the rest is known by name only.
    fn believed(&self) -> impl Iterator<Item = NodeId> {
        self.all().filter(|peer| peer.state != State::Joining).map(|peer| peer.member.node())
    }

    pub(super) fn forget(&mut self, node: NodeId) -> Option<Change> {
        self.peers.remove(&node).map(|_| Change::Forgotten { node })
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Peer> {
        self.peers.get(&node)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values()
    }

    pub(super) fn count(&self) -> usize {
        self.peers.len()
    }

    /// The nodes in one of these states, in order.
    pub(super) fn nodes_in(&self, states: &[State]) -> Vec<NodeId> {
        let matching = self.all().filter(|peer| states.contains(&peer.state));
        matching.map(|peer| peer.member.node()).collect()
    }
}

impl Peer {
    fn follow(&mut self, now: Time, member: &foca::Member<Identity>, changes: &mut Vec<Change>) {
        let node = member.id().node();
        let state = state_of(member);
        let is_new = self.state == State::Joining;
        if is_new || self.member.incarnation() != member.id().incarnation() {
            self.member = member.id().member.clone();
            let incarnation = self.member.incarnation();
            changes.extend((!is_new).then_some(Change::Renewed { node, incarnation }));
        }
        if self.state != state {
            (self.state, self.since) = (state, now);
            changes.push(Change::Became { node, state });
        }
    }
}

fn state_of(member: &foca::Member<Identity>) -> State {
    match member.state() {
        foca::State::Alive => State::Alive,
        foca::State::Suspect => State::Suspect,
        foca::State::Down if member.id().left => State::Left,
        foca::State::Down => State::Dead,
    }
}
