//! Pivots: activities that can be neither undone nor repeated, and so run on one line at most.
//!
//! Before a pivot is called, consensus decides on the line that may call it. Competing lines then
//! wait or give up, and the final decision can only be a line that goes on from the chosen one.

use minicbor::{Decode, Encode};

use crate::{BranchId, Digest, ExecutionId, Lineage};

/// What consensus decides before a pivot is called: the line on which it may run.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub struct Pivot {
    /// The execution.
    #[n(0)]
    pub execution: ExecutionId,
    /// The pivot: its place in the flow, iterations included.
    #[n(1)]
    pub place: Digest,
    /// The branch it is on.
    #[n(2)]
    pub branch: BranchId,
    /// The line of that branch, up to the state that wants to call it.
    #[n(3)]
    pub lineage: Lineage,
}

impl Pivot {
    /// Whether a line of a branch may run the pivot or be decided on: it goes on from the chosen
    /// line, or is on a branch that the pivot says nothing about.
    pub fn admits(&self, branch: BranchId, line: &Lineage) -> bool {
        self.branch != branch || line.extends(&self.lineage)
    }

    /// Whether two records let the same pivot run on two lines: what must never be.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        (self.execution, self.place) == (other.execution, other.place)
            && (self.branch != other.branch
                || !(self.lineage.extends(&other.lineage) || other.lineage.extends(&self.lineage)))
    }
}

/// The first two records that let one pivot run on two lines, if there are any.
pub fn pivot_conflict(pivots: &[Pivot]) -> Option<(&Pivot, &Pivot)> {
    let pairs = pivots
        .iter()
        .enumerate()
        .flat_map(|(index, one)| pivots[index + 1..].iter().map(move |other| (one, other)));
    pairs.into_iter().find(|(one, other)| one.conflicts_with(other))
}
