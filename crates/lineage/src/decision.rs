//! Decisions: which line of each branch counts.
//!
//! `pick` is pure and total on what is known: copies that know the same pick the same. Making the
//! choice binding is the business of consensus; this is what is proposed, and how all look at it.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::{BranchId, Head, Heads, Lineage, Pivot, StateId};

/// The line of each branch that counts.
///
/// When an execution has ended this is the trunk alone: what a branch did counts if the trunk took
/// it up. While branches are still open they have lines of their own here.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
pub struct Decision {
    #[n(0)]
    lines: BTreeMap<BranchId, Lineage>,
}

impl Decision {
    /// Decides that one line of the trunk counts, and no branch beside it.
    pub fn trunk(line: Lineage) -> Self {
        Self::default().with(BranchId::TRUNK, line)
    }

    /// Decides on the line of one more branch.
    #[must_use]
    pub fn with(mut self, branch: BranchId, line: Lineage) -> Self {
        self.lines.insert(branch, line);
        self
    }

    /// The line of a branch that counts, if any does.
    pub fn line(&self, branch: BranchId) -> Option<&Lineage> {
        self.lines.get(&branch)
    }

    /// Whether a state lies on a line that counts.
    pub fn contains(&self, state: &StateId) -> bool {
        self.lines.get(&state.branch).is_some_and(|line| line.contains(&state.point))
    }
}

impl Heads {
    /// Chooses a line for the trunk and for each branch that was forked off by a chosen line: the
    /// one that has come furthest, then the one whose author is higher, then by a total order that
    /// means nothing but is the same everywhere. A line that does not go through the states in which
    /// pivots were let run is never chosen.
    pub fn pick(&self, pivots: &[Pivot]) -> Decision {
        let mut decision = Decision::default();
        // Each round chooses the branches one fork deeper, so there are as many as forks are nested.
        loop {
            let chosen: Vec<_> = self
                .iter()
                .filter(|(branch, _)| decision.line(*branch).is_none())
                .filter_map(|(branch, _)| Some((branch, self.best(branch, &decision, pivots)?)))
                .map(|(branch, head)| (branch, head.lineage.clone()))
                .collect();
            if chosen.is_empty() {
                return decision;
            }
            decision.lines.extend(chosen);
        }
    }

    /// The best head of a branch among those that hang on a chosen line.
    fn best(&self, branch: BranchId, decision: &Decision, pivots: &[Pivot]) -> Option<&Head> {
        self.of(branch)
            .filter(|head| head.origin.is_none_or(|origin| decision.contains(&origin)))
            .filter(|head| pivots.iter().all(|pivot| pivot.admits(branch, &head.lineage)))
            .max_by_key(|head| {
                (head.progress, head.lineage.head().map(|point| point.author), *head)
            })
    }
}
