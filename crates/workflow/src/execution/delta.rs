//! Deltas: what one step changed, read off the parts it touched.
//!
//! A step that ran a thousand iterations of a loop leaves the frames as they are in the end, so its
//! delta is no larger than that of one iteration.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use outlast_lineage::{BranchId, Digest, Effect, EffectId, Lineage};

use super::branch::{Branch, BranchPatch};
use super::datum::{Datum, Large};
use super::exchange::ExchangePatch;
use super::few;
use super::join::{Counts, Join, JoinId, Slot};
use super::plan::{Plan, PlanEntry, PlanId};
use super::{Execution, Head};

/// What one event changed, or several one after the other. Applying it to a copy of the execution gives the same execution.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode)]
pub struct Delta {
    #[n(0)]
    pub(crate) gone: Vec<BranchId>,
    #[cbor(n(1), decode_with = "few::decode")]
    pub(crate) branches: Vec<BranchPatch>,
    #[n(2)]
    pub(crate) plans: Vec<PlanPatch>,
    #[n(3)]
    pub(crate) plans_gone: Vec<PlanId>,
    #[n(4)]
    pub(crate) joins: Vec<JoinPatch>,
    #[n(5)]
    pub(crate) joins_gone: Vec<JoinId>,
    #[cbor(n(6), decode_with = "few::decode")]
    pub(crate) effects: Vec<(EffectId, Option<Effect>)>,
    #[n(7)]
    pub(crate) added: Vec<(Digest, Large)>,
    #[n(8)]
    pub(crate) removed: Vec<Digest>,
    #[n(9)]
    pub(crate) head: Option<Head>,
    #[n(10)]
    pub(crate) consumed: Vec<u64>,
    #[n(11)]
    pub(crate) passed: u64,
    #[n(12)]
    pub(crate) exchange: Option<ExchangePatch>,
}

impl Delta {
    /// Whether nothing changed: there is nothing to write down.
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty()
            && self.branches.is_empty()
            && self.plans.is_empty()
            && self.plans_gone.is_empty()
            && self.joins.is_empty()
            && self.joins_gone.is_empty()
            && self.effects.is_empty()
            && self.added.is_empty()
            && self.removed.is_empty()
            && self.head.is_none()
            && self.consumed.is_empty()
            && self.exchange.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct PlanPatch {
    #[n(0)]
    pub(super) id: PlanId,
    #[n(1)]
    pub(super) kept: u32,
    #[cbor(n(2), decode_with = "few::decode")]
    pub(super) entries: Vec<PlanEntry>,
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct JoinPatch {
    #[n(0)]
    pub(super) id: JoinId,
    #[n(1)]
    pub(super) counts: Counts,
    #[n(2)]
    pub(super) slots: Vec<(u32, Slot)>,
    #[n(3)]
    pub(super) items: Option<Datum>,
}

/// Which parts of an execution a step laid hands on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    pub(crate) branches: BTreeSet<BranchId>,
    pub(crate) plans: BTreeSet<PlanId>,
    pub(crate) joins: BTreeSet<JoinId>,
    pub(crate) effects: BTreeSet<EffectId>,
    /// Those of them that were settled and then recorded again.
    pub(crate) renewed: BTreeSet<EffectId>,
    pub(crate) consumed: Vec<u64>,
    pub(crate) exchange: ExchangePatch,
    pub(crate) head: bool,
}

impl Execution {
    /// Reads off what the touched parts are now.
    pub(crate) fn collect(&mut self, touched: Touched) -> Delta {
        let (added, removed) = self.large.take_changes();
        let mut delta = Delta {
            added,
            removed,
            head: touched.head.then(|| self.head.clone()),
            consumed: touched.consumed,
            exchange: Some(touched.exchange).filter(|patch| !patch.is_empty()),
            passed: self.passed,
            branches: Vec::with_capacity(touched.branches.len()),
            effects: Vec::with_capacity(touched.effects.len()),
            ..Delta::default()
        };
        for id in touched.branches {
            match self.branches.get_mut(&id) {
                Some(branch) => delta.branches.extend(branch.take_changes()),
                None => delta.gone.push(id),
            }
        }
        for id in touched.plans {
            match self.plans.get_mut(&id).map(Plan::take_changes) {
                Some(None) => {}
                Some(Some((kept, entries))) => delta.plans.push(PlanPatch { id, kept, entries }),
                None => delta.plans_gone.push(id),
            }
        }
        for id in touched.joins {
            match self.joins.get_mut(&id) {
                Some(join) => {
                    let (slots, items) = join.take_changes();
                    delta.joins.push(JoinPatch { id, counts: join.counts.clone(), slots, items });
                }
                None => delta.joins_gone.push(id),
            }
        }
        for id in touched.effects {
            // It is not what it was before: whoever only recorded it would not let it fall back.
            if touched.renewed.contains(&id) {
                delta.effects.push((id, None));
            }
            delta.effects.push((id, self.ledger.get(&id).cloned()));
        }
        delta
    }

    /// What was done so far is in no delta.
    pub(crate) fn forget_changes(&mut self) {
        self.branches.values_mut().for_each(|branch| drop(branch.take_changes()));
        self.plans.values_mut().for_each(|plan| drop(plan.take_changes()));
        self.large.take_changes();
    }

    /// Whether a delta of somebody else can be applied: it may be none of this state, and make no sense
    /// here.
    pub fn can_take(&self, delta: &Delta) -> bool {
        let is_in_order = delta.branches.is_sorted_by(|one, next| one.id < next.id)
            && delta.gone.is_sorted_by(|one, next| one < next);
        let can_follow = |patch: &BranchPatch| {
            if patch.born.is_some() {
                return patch.can_follow(&Lineage::default());
            }
            let is_gone = delta.gone.binary_search(&patch.id).is_ok();
            let here = self.branches.get(&patch.id).filter(|_| !is_gone);
            here.is_some_and(|branch| patch.can_follow(&branch.lineage))
        };
        is_in_order && delta.branches.iter().all(can_follow)
    }

    /// Takes over what another copy's step changed. Runs no expression and decides nothing.
    ///
    /// # Panics
    /// If it is the delta of another state (`can_take`).
    pub fn apply(&mut self, delta: Delta) {
        self.large.apply(delta.added, &delta.removed);
        // What is gone may have come back in a later one of several steps.
        delta.gone.iter().for_each(|id| drop(self.branches.remove(id)));
        delta.plans_gone.iter().for_each(|id| drop(self.plans.remove(id)));
        delta.joins_gone.iter().for_each(|id| drop(self.joins.remove(id)));
        for mut patch in delta.branches {
            let id = patch.id;
            match patch.born.take() {
                Some(birth) => {
                    self.branches.insert(id, Branch::from_patch(patch, birth));
                }
                None => {
                    let branch = self.branches.get_mut(&id);
                    branch.expect("a patch is for a branch that is here").apply(patch);
                }
            }
        }
        for PlanPatch { id, kept, entries } in delta.plans {
            self.plans.entry(id).or_insert_with(Plan::new).apply(kept, entries);
        }
        for JoinPatch { id, counts, slots, items } in delta.joins {
            let join: &mut Join = self.joins.entry(id).or_default();
            join.apply(counts, slots, items);
        }
        for (id, effect) in delta.effects {
            match effect {
                Some(effect) => self.ledger.record(id, effect),
                None => self.ledger.settle(&id),
            }
        }
        if let Some(head) = delta.head {
            self.head = head;
        }
        if let (Some(exchange), Some(patch)) = (&mut self.exchange, &delta.exchange) {
            exchange.apply(patch);
        }
        self.consumed.extend(delta.consumed.iter().copied());
        self.forget_consumed_before(delta.passed);
    }
}
