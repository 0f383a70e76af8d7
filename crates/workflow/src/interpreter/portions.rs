//! Plans by effect: which entry undoes which effect, and what of a plan is asked for.

use std::collections::BTreeSet;

use outlast_lineage::EffectId;

use crate::execution::{Activity, PlanEntry, has_happened};

/// The effect that working an entry off would undo.
pub(crate) fn effect_of(entry: &PlanEntry) -> Option<EffectId> {
    match entry {
        PlanEntry::Undo { effect, .. } => *effect,
        PlanEntry::Uncertain(frames) if has_happened(frames) => {
            frames.iter().find_map(|frame| frame.effect)
        }
        PlanEntry::Uncertain(frames) => {
            frames.iter().find_map(|frame| effect_under_way(&frame.activity))
        }
        PlanEntry::Parallel(_) | PlanEntry::Child { .. } | PlanEntry::Milestone(_) => None,
    }
}

/// The effect that an activity makes, or undoes.
pub(crate) fn effect_under_way(activity: &Activity) -> Option<EffectId> {
    match activity {
        Activity::Undoing(undoing) => effect_of(&undoing.entry),
        Activity::Parked { resume, .. } => effect_under_way(resume),
        activity => activity.unanswered().map(|calling| calling.request.effect),
    }
}

/// Whether an entry has nothing in it that is to stay.
pub(super) fn wholly(entry: &PlanEntry, undo: &BTreeSet<EffectId>) -> bool {
    match entry {
        PlanEntry::Parallel(lists) => lists.iter().flatten().all(|entry| wholly(entry, undo)),
        entry => effect_of(entry).is_some_and(|effect| undo.contains(&effect)),
    }
}

/// Whether an entry has something in it that is asked for.
pub(super) fn partly(entry: &PlanEntry, undo: &BTreeSet<EffectId>) -> bool {
    match entry {
        PlanEntry::Parallel(lists) => lists.iter().flatten().any(|entry| partly(entry, undo)),
        entry => effect_of(entry).is_some_and(|effect| undo.contains(&effect)),
    }
}

/// What is asked for, and the rest; branches stay beside each other in both.
pub(super) fn split(
    entries: Vec<PlanEntry>,
    undo: &BTreeSet<EffectId>,
) -> (Vec<PlanEntry>, Vec<PlanEntry>) {
    let (mut asked, mut rest) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            PlanEntry::Parallel(lists) => {
                let (lists, others): (Vec<_>, Vec<_>) =
                    lists.into_iter().map(|list| split(list, undo)).unzip();
                asked.extend(beside_each_other(lists));
                rest.extend(beside_each_other(others));
            }
            entry if wholly(&entry, undo) => asked.push(entry),
            entry => rest.push(entry),
        }
    }
    (asked, rest)
}

fn beside_each_other(lists: Vec<Vec<PlanEntry>>) -> Option<PlanEntry> {
    let lists: Vec<_> = lists.into_iter().filter(|list| !list.is_empty()).collect();
    (!lists.is_empty()).then_some(PlanEntry::Parallel(lists))
}

/// An undo that was stopped in the middle of a call is there twice: as what was to be done, and as a
/// call that may have happened, which when it is taken up again is the whole undo.
pub(super) fn without_halves(entries: Vec<PlanEntry>) -> Vec<PlanEntry> {
    let mut whole: Vec<PlanEntry> = Vec::new();
    for entry in entries {
        match entry {
            PlanEntry::Parallel(lists) => {
                let lists = lists.into_iter().map(without_halves).collect();
                whole.extend(beside_each_other(lists));
            }
            PlanEntry::Uncertain(frames) => {
                if let Activity::Undoing(undoing) = &frames[0].activity
                    && whole.last() == Some(&undoing.entry)
                {
                    whole.pop();
                }
                whole.push(PlanEntry::Uncertain(frames));
            }
            entry => whole.push(entry),
        }
    }
    whole
}
