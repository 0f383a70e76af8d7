//! Heads: how far each branch is known to have come, with every line that is still in the running.
//!
//! Merging never chooses: two clashing heads both stay, until `pick` (see `decision`) says which
//! line counts. That is why merging may happen anywhere, in any order, any number of times.
//!
//! Invariant: the heads of one branch are maximal: none of them is an earlier state of another.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Decoder, Encode, decode};

use crate::{BranchId, Ledger, Lineage, Order, StateId};

/// The newest state of one line of one branch. It names the state; the state itself is elsewhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
pub struct Head {
    /// The line that led there.
    #[n(0)]
    pub lineage: Lineage,
    /// How many activities have completed; retries, undos and local steps do not count.
    #[n(1)]
    pub progress: u64,
    /// The state that forked the branch off; nothing for a branch that was there from the start.
    /// On every line it is a state of the same branch, because a branch's id says where it forks.
    #[n(2)]
    pub origin: Option<StateId>,
}

impl Head {
    /// How two heads of one branch stand to each other. A branch that was forked off by two
    /// different states is two branches under one name.
    pub fn compare(&self, other: &Self) -> Order {
        if self.origin == other.origin {
            self.lineage.compare(&other.lineage)
        } else {
            Order::Clash
        }
    }

    /// Whether knowing this head makes knowing the other one needless.
    fn covers(&self, other: &Self) -> bool {
        match self.compare(other) {
            Order::After => true,
            Order::Equal => self.progress >= other.progress,
            Order::Before | Order::Clash => false,
        }
    }
}

/// The maximal heads of every branch of one execution.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Encode)]
pub struct Heads {
    #[n(0)]
    branches: BTreeMap<BranchId, BTreeSet<Head>>,
}

impl Heads {
    /// Learns of a head of a branch.
    pub fn insert(&mut self, branch: BranchId, head: Head) {
        let heads = self.branches.entry(branch).or_default();
        if !heads.iter().any(|known| known.covers(&head)) {
            heads.retain(|known| !head.covers(known));
            heads.insert(head);
        }
    }

    /// Learns all that another copy knows.
    pub fn merge(&mut self, other: &Self) {
        for (branch, heads) in &other.branches {
            for head in heads {
                self.insert(*branch, head.clone());
            }
        }
    }

    /// The heads of a branch, in no order that means anything.
    pub fn of(&self, branch: BranchId) -> impl Iterator<Item = &Head> {
        self.branches.get(&branch).into_iter().flatten()
    }

    /// Every branch with its heads.
    pub fn iter(&self) -> impl Iterator<Item = (BranchId, &BTreeSet<Head>)> {
        self.branches.iter().map(|(branch, heads)| (*branch, heads))
    }

    /// Whether two lines of a branch continue one point.
    pub fn clash(&self, branch: BranchId) -> bool {
        self.of(branch).nth(1).is_some()
    }
}

/// Heads as they were read, not yet known to be maximal.
#[derive(Decode)]
struct Unchecked {
    #[n(0)]
    branches: BTreeMap<BranchId, BTreeSet<Head>>,
}

impl<'bytes, Context> Decode<'bytes, Context> for Heads {
    fn decode(decoder: &mut Decoder<'bytes>, context: &mut Context) -> Result<Self, decode::Error> {
        let unchecked = Unchecked::decode(decoder, context)?;
        let mut heads = Self::default();
        for (branch, read) in unchecked.branches {
            read.into_iter().for_each(|head| heads.insert(branch, head));
        }
        Ok(heads)
    }
}

/// What one node knows of an execution, states aside: what is in the running and what was done.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
pub struct Knowledge {
    /// How far each branch has come.
    #[n(0)]
    pub heads: Heads,
    /// What was done to the outside world, on whatever line.
    #[n(1)]
    pub ledger: Ledger,
}

impl Knowledge {
    /// Learns all that another copy knows: maximal heads and the union of the ledgers.
    pub fn merge(&mut self, other: &Self) {
        self.heads.merge(&other.heads);
        self.ledger.merge(&other.ledger);
    }
}
