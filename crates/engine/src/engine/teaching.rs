//! Definitions between nodes: whoever registers one gives it to all, and whatever a peer may lack is offered
//! until it says that it has it.
//!
//! A node that was down or cut off while a workflow was registered would otherwise start an older version of it,
//! or none. Every node offers what it holds, not only the one where it was registered. A definition is the
//! same everywhere by its digest, so it is taken in once, however often it is sent. Bundles are not offered: who
//! holds an execution that is pinned to one is given it with that.
//!
//! Who lacks what is known in memory only. A peer that is new in this life, or was lost, may lack everything.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{Digest, NodeId, Time};

use super::custody::Envelope;
use super::{Engine, Step};
use crate::Action;

/// How many definitions one message offers, and how many of them are asked for at once.
const OFFERED_MAX: usize = 256;
const WANTED_MAX: usize = 16;

/// Who has which definitions.
#[derive(Debug, Default)]
pub(super) struct Teaching {
    /// Those that were given to peers, or came from them, since they were last missed.
    given: BTreeSet<(NodeId, Digest)>,
    /// Those that peers have not said they have.
    lacking: BTreeMap<NodeId, BTreeSet<Digest>>,
    /// When definitions were last offered.
    offered: Option<Time>,
}

impl Teaching {
    /// A peer was lost: what is on its way to it may be lost as well.
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.given.retain(|(to, _)| *to != peer);
        self.lacking.remove(&peer);
    }

    /// A peer has a definition.
    pub(super) fn knows(&mut self, peer: NodeId, digest: Digest) {
        self.given.insert((peer, digest));
        if let Some(lacking) = self.lacking.get_mut(&peer) {
            lacking.remove(&digest);
        }
    }

    /// There is a definition that peers may not have.
    pub(super) fn is_new(&mut self, digest: Digest) {
        for lacking in self.lacking.values_mut() {
            lacking.insert(digest);
        }
    }
}

impl Engine {
    /// Sends a definition to a peer that wants it.
    pub(super) fn give_to_peer(&mut self, step: &mut Step, to: NodeId, digest: Digest) {
        if let Some(defined) = self.definitions.get(&digest) {
            let message = Envelope::Definition(Box::new(defined.stored())).encode();
            step.order(Some(defined.position), Action::Send { to, message });
            self.teaching.given.insert((to, digest));
        }
    }

    /// Gives a peer a definition, unless it was given it before.
    pub(super) fn teach(&mut self, step: &mut Step, to: NodeId, digest: Digest) {
        if !self.teaching.given.contains(&(to, digest)) {
            self.give_to_peer(step, to, digest);
        }
    }

    /// Sends a definition to everyone, so that any node can start it.
    pub(super) fn spread_definition(&mut self, step: &mut Step, digest: Digest) {
        let all: Vec<NodeId> = self.peers.all().collect();
        for to in all {
            self.give_to_peer(step, to, digest);
        }
    }

    /// Offers what peers may lack, from time to time.
    pub(super) fn offer_definitions(&mut self, step: &mut Step) {
        let due = |last: Time| last.after(self.options.times.patience) <= step.now;
        if !self.teaching.offered.is_none_or(due) {
            return;
        }
        self.teaching.offered = Some(step.now);
        let peers: BTreeSet<NodeId> = self.peers.all().collect();
        let Teaching { lacking, .. } = &mut self.teaching;
        lacking.retain(|peer, _| peers.contains(peer));
        for peer in peers.into_iter().filter(|peer| !self.peers.is_lost(*peer)) {
            let all = || self.definitions.documents().collect();
            let lacking = lacking.entry(peer).or_insert_with(all);
            let offered: Vec<Digest> = lacking.iter().copied().take(OFFERED_MAX).collect();
            if !offered.is_empty() {
                let message = Envelope::DefinitionsOffered(offered).encode();
                step.order(Some(self.position), Action::Send { to: peer, message });
            }
        }
    }

    /// A peer says which definitions it has: it is told which of them are here, and asked for others.
    pub(super) fn take_definitions(&mut self, step: &mut Step, from: NodeId, offered: &[Digest]) {
        let (mut held, mut wanted) = (Vec::new(), Vec::new());
        for digest in offered.iter().copied().take(OFFERED_MAX) {
            self.teaching.knows(from, digest);
            match self.definitions.get(&digest) {
                Some(_) => held.push(digest),
                None => wanted.push(digest),
            }
        }
        if !held.is_empty() {
            let message = Envelope::DefinitionsHeld(held).encode();
            step.order(Some(self.position), Action::Send { to: from, message });
        }
        // While the disk is full none can be taken in; what is not asked for now is offered again.
        let wanted = wanted.into_iter().take(if self.storage_full { 0 } else { WANTED_MAX });
        for digest in wanted {
            let message = Envelope::WantDefinition(digest).encode();
            step.order(None, Action::Send { to: from, message });
        }
    }
}
