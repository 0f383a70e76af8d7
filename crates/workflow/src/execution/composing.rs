//! Deltas of several steps as one.
//!
//! Each step of a quick run changes what the one before had changed: the frame of a call is made, filled
//! and taken away. Whoever hears of several steps together need not hear of what was between.
//!
//! Invariant: parts of a delta are in the order of their ids, as a step leaves them.

use std::num::NonZeroU64;

use outlast_lineage::{BranchId, Digest, Effect, EffectId, Epoch, NodeId};

use super::branch::BranchPatch;
use super::delta::{Delta, JoinPatch, PlanPatch};
use super::join::JoinId;
use super::plan::PlanId;

impl Delta {
    /// What this step and a later one changed together. Applying it is applying both.
    pub fn and_then(&mut self, later: Self) {
        compose(&mut self.branches, &mut self.gone, later.branches, later.gone);
        compose(&mut self.plans, &mut self.plans_gone, later.plans, later.plans_gone);
        compose(&mut self.joins, &mut self.joins_gone, later.joins, later.joins_gone);
        later.effects.into_iter().for_each(|effect| put_newest(&mut self.effects, effect));
        // What is added is taken in before anything is removed.
        self.added.retain(|(digest, _)| later.removed.binary_search(digest).is_err());
        let added =
            |digest: &Digest| later.added.binary_search_by_key(digest, |(it, _)| *it).is_ok();
        self.removed.retain(|digest| !added(digest));
        add(&mut self.removed, later.removed);
        self.added.extend(later.added);
        self.added.sort_by_key(|(digest, _)| *digest);
        self.head = later.head.or(self.head.take());
        self.consumed.extend(later.consumed);
        self.passed = later.passed;
        match (&mut self.exchange, later.exchange) {
            (Some(known), Some(patch)) => known.extend(patch),
            (known @ None, patch) => *known = patch,
            (Some(_), None) => {}
        }
    }
}

/// What steps changed of one part of an execution.
trait Patch {
    type Id: Ord + Copy;

    fn id(&self) -> Self::Id;

    /// Changes what a later patch of the same part changes as well.
    fn and_then(&mut self, later: Self);
}

/// Has patches and what is gone change as later ones say. What is gone is taken away before anything is
/// patched, so what came back since has a patch that makes all of it.
fn compose<P: Patch>(
    patches: &mut Vec<P>,
    gone: &mut Vec<P::Id>,
    later: Vec<P>,
    gone_later: Vec<P::Id>,
) {
    if !gone_later.is_empty() {
        patches.retain(|patch| gone_later.binary_search(&patch.id()).is_err());
        add(gone, gone_later);
    }
    for patch in later {
        match patches.binary_search_by_key(&patch.id(), P::id) {
            Ok(known) => patches[known].and_then(patch),
            Err(place) => patches.insert(place, patch),
        }
    }
}

/// Adds to a set that is a sorted list.
fn add<Id: Ord>(set: &mut Vec<Id>, more: Vec<Id>) {
    set.extend(more);
    set.sort_unstable();
    set.dedup();
}

/// Of each effect the newest entry counts; but what was settled and is recorded again is not what it
/// was before.
fn put_newest(
    effects: &mut Vec<(EffectId, Option<Effect>)>,
    (id, effect): (EffectId, Option<Effect>),
) {
    let after = effects.partition_point(|(known, _)| *known <= id);
    match effects[..after].last_mut() {
        Some((known, before)) if *known == id && (before.is_some() || effect.is_none()) => {
            *before = effect;
        }
        _ => effects.insert(after, (id, effect)),
    }
}

/// Has a list that is kept up to some length, and goes on from there, change as a later one says.
fn go_on<Item>((kept, items): (&mut u32, &mut Vec<Item>), (kept_later, later): (u32, Vec<Item>)) {
    match kept_later.checked_sub(*kept) {
        Some(still) => items.truncate(still as usize),
        None => {
            *kept = kept_later;
            items.clear();
        }
    }
    items.extend(later);
}

impl Patch for BranchPatch {
    type Id = BranchId;

    fn id(&self) -> BranchId {
        self.id
    }

    fn and_then(&mut self, later: Self) {
        if later.born.is_some() {
            *self = later;
            return;
        }
        let Self { kept, frames, data, context, author, lineage, small, then, given, .. } = later;
        if data.is_some() || given {
            (self.data, self.given) = (data, given);
        } else if std::mem::take(&mut self.given) {
            // The task that was given it may be gone, or another be inside it now.
            self.data = self.frames.last().map(|top| top.raw.clone());
        }
        go_on((&mut self.kept, &mut self.frames), (kept, frames));
        self.context = context.or(self.context.take());
        self.small = small;
        if lineage.is_some() {
            (self.lineage, self.author, self.then) = (lineage, author, then);
            return;
        }
        let first = author.map(|(node, epoch)| (node, epoch, NonZeroU64::MIN));
        first.into_iter().chain(then).for_each(|run| self.extend(run));
    }
}

impl BranchPatch {
    fn extend(&mut self, (node, epoch, states): (NodeId, Epoch, NonZeroU64)) {
        if let Some(lineage) = &mut self.lineage {
            lineage.extend_by(node, epoch, states);
            return;
        }
        let is_first = self.author.is_none() && self.then.is_empty();
        match self.then.last_mut() {
            _ if is_first && states == NonZeroU64::MIN => self.author = Some((node, epoch)),
            Some((author, term, more)) if (*author, *term) == (node, epoch) => {
                *more = more.saturating_add(states.get());
            }
            _ => self.then.push((node, epoch, states)),
        }
    }
}

impl Patch for PlanPatch {
    type Id = PlanId;

    fn id(&self) -> PlanId {
        self.id
    }

    fn and_then(&mut self, later: Self) {
        go_on((&mut self.kept, &mut self.entries), (later.kept, later.entries));
    }
}

impl Patch for JoinPatch {
    type Id = JoinId;

    fn id(&self) -> JoinId {
        self.id
    }

    fn and_then(&mut self, later: Self) {
        self.counts = later.counts;
        self.slots.retain(|(index, _)| {
            later.slots.binary_search_by_key(index, |(filled, _)| *filled).is_err()
        });
        self.slots.extend(later.slots);
        self.slots.sort_by_key(|(index, _)| *index);
        self.items = later.items.or(self.items.take());
    }
}

#[cfg(test)]
mod tests {
    use outlast_expressions::value;
    use outlast_lineage::Time;

    use super::*;
    use crate::TaskId;
    use crate::execution::{Activity, Datum, Frame, Path};

    fn frame(raw: i64) -> Frame {
        Frame {
            task: TaskId(0),
            path: Path::START,
            started: Time::default(),
            raw: Datum::small(value::integer(raw)),
            transformed: None,
            deadline: None,
            plan: None,
            evaluating: None,
            effect: None,
            activity: Activity::Begin,
            chosen: None,
            tries: 0,
            doubt: false,
            around: None,
            asked_after: None,
        }
    }

    fn patch(kept: u32, frames: Vec<Frame>, given: bool) -> BranchPatch {
        BranchPatch {
            id: BranchId::TRUNK,
            born: None,
            kept,
            frames,
            data: None,
            context: None,
            author: None,
            lineage: None,
            small: Default::default(),
            then: Vec::new(),
            given,
        }
    }

    #[test]
    fn what_a_task_was_given_stays_the_data_when_the_task_is_gone() {
        let mut patches = patch(0, vec![frame(1), frame(2)], true);
        patches.and_then(patch(1, Vec::new(), false));
        assert_eq!(patches.frames, [frame(1)]);
        assert_eq!((patches.data, patches.given), (Some(frame(2).raw), false));
    }

    #[test]
    fn what_a_later_task_was_given_is_the_data() {
        let mut patches = patch(0, vec![frame(1), frame(2)], true);
        patches.and_then(patch(1, vec![frame(3)], true));
        assert_eq!(patches.frames, [frame(1), frame(3)]);
        assert_eq!((patches.data, patches.given), (None, true));
    }
}
