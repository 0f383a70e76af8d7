//! Compensation continuations: what undoes a scope, written while it runs.

use minicbor::{Decode, Encode};
use outlast_lineage::{EffectId, ExecutionId};

use super::datum::Datum;
use super::frame::{Frame, Path};
use super::surroundings::Surroundings;
use crate::{TaskId, Ticket};

/// Names a plan of an execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
#[cbor(transparent)]
pub(crate) struct PlanId(#[n(0)] pub(crate) Ticket);

/// The compensation continuation of a scope: oldest first, worked off from the end.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct Plan {
    #[n(0)]
    entries: Vec<PlanEntry>,
    /// The shortest it has been since the last delta: everything from there on is new.
    #[cbor(skip)]
    kept: Option<usize>,
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

/// One part of a compensation continuation.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) enum PlanEntry {
    /// A completed task and what undoes it.
    #[n(0)]
    Undo {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        path: Path,
        #[n(2)]
        effect: Option<EffectId>,
        #[n(3)]
        captured: Datum,
        /// What undoing costs.
        #[n(4)]
        #[cbor(default, skip_if = "Datum::is_null")]
        cost: Datum,
        /// Why what was captured is not what the undo is to be given: an expression about the result had
        /// no value. It does not run by itself then.
        #[n(5)]
        lacking: Option<String>,
        /// What the undo sees around it, if it is of a workflow that ran as part of another: who rolls
        /// back is then another workflow.
        #[n(6)]
        around: Option<Box<Surroundings>>,
    },
    /// Branches that ran side by side: nothing in one depends on another.
    #[n(1)]
    Parallel(#[n(0)] Vec<Vec<Self>>),
    /// A child execution.
    #[n(2)]
    Child {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        child: ExecutionId,
    },
    /// A task whose call may or may not have happened: its frames, from the task that would be
    /// undone to the call, whose request is asked again with the same key to find out. The first
    /// keeps what it sees around it (journals of 0.1 had frames without). If the last is completing,
    /// the call did happen: nothing is asked, only evaluated what its undo needs.
    #[n(3)]
    Uncertain(#[n(0)] Vec<Frame>),
    /// A task named by some `until` completed here.
    #[n(4)]
    Milestone(#[n(0)] TaskId),
}

impl PlanEntry {
    /// It goes to the plan of the workflow around the one that it is of. What is of a deeper one has left
    /// that before, and frames have what they see with them.
    pub(crate) fn leave(&mut self, part: &Surroundings) {
        match self {
            Self::Undo { around, .. } if around.is_none() => *around = Some(Box::new(part.clone())),
            Self::Parallel(lists) => {
                lists.iter_mut().flatten().for_each(|entry| entry.leave(part));
            }
            _ => {}
        }
    }
}

/// Whether the frames of an `Uncertain` are those of a call that is known to have happened.
pub(crate) fn has_happened(frames: &[Frame]) -> bool {
    frames.last().is_some_and(Frame::is_completing)
}

impl Plan {
    /// A new plan, which the next delta must mention even if nothing is added.
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), kept: Some(0) }
    }

    /// The next delta must carry the whole plan.
    pub(crate) fn mark_new(&mut self) {
        self.kept = Some(0);
    }

    pub(crate) fn push(&mut self, entry: PlanEntry) {
        self.kept.get_or_insert(self.entries.len());
        self.entries.push(entry);
    }

    pub(crate) fn extend(&mut self, entries: impl IntoIterator<Item = PlanEntry>) {
        self.kept.get_or_insert(self.entries.len());
        self.entries.extend(entries);
    }

    pub(crate) fn pop(&mut self) -> Option<PlanEntry> {
        let entry = self.entries.pop()?;
        let length = self.entries.len();
        self.kept = Some(self.kept.map_or(length, |kept| kept.min(length)));
        Some(entry)
    }

    pub(crate) fn last(&self) -> Option<&PlanEntry> {
        self.entries.last()
    }

    pub(crate) fn entries(&self) -> &[PlanEntry] {
        &self.entries
    }

    /// Takes every entry out.
    pub(crate) fn drain(&mut self) -> Vec<PlanEntry> {
        if !self.entries.is_empty() {
            self.kept = Some(0);
        }
        std::mem::take(&mut self.entries)
    }

    /// What changed since this was last asked: how much is as it was, and what follows.
    pub(crate) fn take_changes(&mut self) -> Option<(u32, Vec<PlanEntry>)> {
        let kept = self.kept.take()?.min(self.entries.len());
        Some((kept as u32, self.entries[kept..].to_vec()))
    }

    pub(crate) fn apply(&mut self, kept: u32, entries: Vec<PlanEntry>) {
        self.entries.truncate(kept as usize);
        self.entries.extend(entries);
        self.kept = None;
    }
}
