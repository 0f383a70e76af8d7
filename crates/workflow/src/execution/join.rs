//! Joins: where branches that run side by side come together, and other gathered lists.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};

use super::datum::Datum;
use super::plan::PlanEntry;
use crate::{Fault, Ticket};

/// Names a join of an execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
#[cbor(transparent)]
pub(crate) struct JoinId(#[n(0)] pub(crate) Ticket);

/// Results by slot, and how many branches are still under way. A join of 10,000 slots holds what
/// has been filled, and a step that fills one slot changes only that one.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(crate) struct Join {
    #[n(0)]
    pub(crate) counts: Counts,
    #[n(1)]
    slots: BTreeMap<u32, Slot>,
    /// What is gone over, for loops. It never changes, so it travels only once.
    #[n(2)]
    items: Option<Datum>,
    #[cbor(skip)]
    touched: BTreeSet<u32>,
    #[cbor(skip)]
    new_items: bool,
}

/// The numbers of a join; small, so they travel whole.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub(crate) struct Counts {
    /// How many slots there will be.
    #[n(0)]
    pub(crate) total: u32,
    /// The next slot to start.
    #[n(1)]
    pub(crate) next: u32,
    /// How many are under way.
    #[n(2)]
    pub(crate) live: u32,
    /// The first error of a competing branch.
    #[n(3)]
    pub(crate) fault: Option<Fault>,
}

impl PartialEq for Join {
    fn eq(&self, other: &Self) -> bool {
        self.counts == other.counts && self.slots == other.slots && self.items == other.items
    }
}

/// What a branch left in its slot.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Slot {
    #[n(0)]
    pub(crate) data: Datum,
    /// The branch's context, if it changed it.
    #[n(1)]
    pub(crate) context: Option<Datum>,
    #[n(2)]
    pub(crate) plan: Vec<PlanEntry>,
    /// Whether the branch ran (graph steps may be passed over).
    #[n(3)]
    pub(crate) ran: bool,
}

impl Join {
    /// The next delta must carry the whole join.
    pub(crate) fn mark_new(&mut self) {
        self.touched = self.slots.keys().copied().collect();
        self.new_items = true;
    }

    pub(crate) fn set_items(&mut self, items: Datum) {
        self.items = Some(items);
        self.new_items = true;
    }

    pub(crate) fn items(&self) -> Option<&Datum> {
        self.items.as_ref()
    }

    pub(crate) fn fill(&mut self, index: u32, slot: Slot) {
        self.slots.insert(index, slot);
        self.touched.insert(index);
    }

    pub(crate) fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(&index)
    }

    pub(crate) fn slots(&self) -> &BTreeMap<u32, Slot> {
        &self.slots
    }

    /// What changed since this was last asked: slots, and the items if they are new.
    pub(crate) fn take_changes(&mut self) -> (Vec<(u32, Slot)>, Option<Datum>) {
        let touched = std::mem::take(&mut self.touched);
        let slots = touched.into_iter().map(|index| (index, self.slots[&index].clone()));
        let items = std::mem::take(&mut self.new_items).then(|| self.items.clone()).flatten();
        (slots.collect(), items)
    }

    pub(crate) fn apply(&mut self, counts: Counts, slots: Vec<(u32, Slot)>, items: Option<Datum>) {
        self.counts = counts;
        self.slots.extend(slots);
        if items.is_some() {
            self.items = items;
        }
    }
}
