//! Cuts for tests and demonstrations: messages from or to a peer are dropped, without a word.
//!
//! Only messages are dropped; connections stay and are kept alive, so that a cut can be one-way and
//! heals at once. What the network itself does to connections is tested with a network that does it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use outlast_lineage::NodeId;

/// Which way messages go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the peer.
    Incoming,
    /// To the peer.
    Outgoing,
}

/// Which peers are cut off.
#[derive(Default)]
pub(super) struct Faults {
    any: AtomicBool,
    blocked: RwLock<BTreeMap<NodeId, Blocked>>,
}

#[derive(Clone, Copy, Default)]
struct Blocked {
    incoming: bool,
    outgoing: bool,
}

impl Blocked {
    const fn of(&mut self, direction: Direction) -> &mut bool {
        match direction {
            Direction::Incoming => &mut self.incoming,
            Direction::Outgoing => &mut self.outgoing,
        }
    }
}

impl Faults {
    pub(super) fn set(&self, peer: NodeId, direction: Direction, block: bool) {
        let mut blocked = self.blocked.write().unwrap_or_else(PoisonError::into_inner);
        let entry = blocked.entry(peer).or_default();
        *entry.of(direction) = block;
        if !entry.incoming && !entry.outgoing {
            blocked.remove(&peer);
        }
        self.any.store(!blocked.is_empty(), Ordering::Release);
    }

    pub(super) fn clear(&self) {
        self.blocked.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.any.store(false, Ordering::Release);
    }

    pub(super) fn blocks(&self, peer: NodeId, direction: Direction) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let blocked = self.blocked.read().unwrap_or_else(PoisonError::into_inner);
        blocked.get(&peer).is_some_and(|blocked| *blocked.clone().of(direction))
    }
}

#[cfg(test)]
mod tests {
    use super::Direction::{Incoming, Outgoing};
    use super::*;

    #[test]
    fn each_way_is_cut_by_itself() {
        let faults = Faults::default();
        faults.set(NodeId(1), Incoming, true);
        assert!(faults.blocks(NodeId(1), Incoming) && !faults.blocks(NodeId(1), Outgoing));
        assert!(!faults.blocks(NodeId(2), Incoming));
        faults.set(NodeId(1), Outgoing, true);
        faults.set(NodeId(1), Incoming, false);
        assert!(!faults.blocks(NodeId(1), Incoming) && faults.blocks(NodeId(1), Outgoing));
        faults.clear();
        assert!(!faults.blocks(NodeId(1), Outgoing));
    }
}
