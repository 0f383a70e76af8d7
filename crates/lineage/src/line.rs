//! Lineage: who advanced a branch, in which of its terms, from where on.

use minicbor::{Decode, Encode};

use crate::{Epoch, NodeId};

/// One state of one branch: who made it, in which term, and which number it has.
///
/// Seed 0 calls this the state id (replica, failover counter, state number).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Point {
    /// Who advanced the branch to this state.
    #[n(0)]
    pub author: NodeId,
    /// The author's term.
    #[n(1)]
    pub epoch: Epoch,
    /// How many states came before on this line.
    #[n(2)]
    pub number: u64,
}

/// A run of states by one author in one term.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Segment {
    /// Who advanced the branch.
    #[n(0)]
    pub author: NodeId,
    /// The author's term.
    #[n(1)]
    pub epoch: Epoch,
    /// The number of the first state of this run.
    #[n(2)]
    pub first: u64,
}

/// How two lineages stand to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The same state.
    Equal,
    /// The left one is a prefix of the right one.
    Before,
    /// The right one is a prefix of the left one.
    After,
    /// Two continuations of one point.
    Clash,
}

/// The whole line of a branch: its segments and the number of its newest state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
pub struct Lineage {
    #[n(0)]
    segments: Vec<Segment>,
    #[n(1)]
    number: u64,
}

impl Lineage {
    /// The newest state, or nothing if the branch has never been advanced.
    pub fn head(&self) -> Option<Point> {
        let last = self.segments.last()?;
        Some(Point { author: last.author, epoch: last.epoch, number: self.number })
    }

    /// Adds one state by an author in a term and says which it is.
    pub fn extend(&mut self, author: NodeId, epoch: Epoch) -> Point {
        self.number += 1;
        let number = self.number;
        match self.segments.last() {
            Some(last) if (last.author, last.epoch) == (author, epoch) => {}
            _ => self.segments.push(Segment { author, epoch, first: number }),
        }
        Point { author, epoch, number }
    }
}
