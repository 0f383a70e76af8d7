//! Where in a compensation continuation things have their place that were asked for more than once.
//!
//! A block that had timed out and is tried again, because somebody said `retry`, asks for what it did the first
//! time by the same keys. That is one thing that was done, and it was done when it was first asked for: what
//! followed from it the first time is undone before it. The same goes for branches that ran side by side: a branch
//! of the second time is the one of the first time that did the same.

use std::collections::BTreeMap;

use outlast_lineage::{ExecutionId, OperationKey};

use super::Machine;
use crate::execution::PlanEntry;

/// What is one thing, however often it was asked for.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Call(OperationKey),
    Child(ExecutionId),
}

impl Machine<'_> {
    /// Puts what was asked for again beside the first time that it was asked for, in every branch.
    pub(super) fn beside_the_first(&self, entries: Vec<PlanEntry>) -> Vec<PlanEntry> {
        let groups = self.grouped(entries.into_iter().map(|entry| vec![entry]), |first, again| {
            for entry in again {
                join(first, entry);
            }
        });
        let mut placed: Vec<PlanEntry> = groups.into_iter().flatten().collect();
        for entry in &mut placed {
            if let PlanEntry::Parallel(lists) = entry {
                let merged =
                    self.grouped(std::mem::take(lists), |first, again| first.extend(again));
                *lists = merged.into_iter().map(|list| self.beside_the_first(list)).collect();
            }
        }
        placed
    }

    /// Lists that did the same thing become one, in the place of the first.
    fn grouped(
        &self,
        lists: impl IntoIterator<Item = Vec<PlanEntry>>,
        merge: impl Fn(&mut Vec<PlanEntry>, Vec<PlanEntry>),
    ) -> Vec<Vec<PlanEntry>> {
        let mut places: BTreeMap<Deed, usize> = BTreeMap::new();
        let mut groups: Vec<Vec<PlanEntry>> = Vec::new();
        for list in lists {
            let mut deeds = Vec::new();
            self.deeds(&list, &mut deeds);
            let known = deeds.iter().find_map(|deed| places.get(deed)).copied();
            let place = known.unwrap_or(groups.len());
            for deed in deeds {
                places.entry(deed).or_insert(place);
            }
            match groups.get_mut(place) {
                Some(group) => merge(group, list),
                None => groups.push(list),
            }
        }
        groups
    }

    /// What the entries are about, those of branches included.
    fn deeds(&self, entries: &[PlanEntry], deeds: &mut Vec<Deed>) {
        for entry in entries {
            let effect = match entry {
                PlanEntry::Undo { effect, .. } => *effect,
                PlanEntry::Uncertain(frames) => frames.iter().rev().find_map(|frame| frame.effect),
                PlanEntry::Parallel(lists) => {
                    lists.iter().for_each(|list| self.deeds(list, deeds));
                    None
                }
                PlanEntry::Child { child, .. } => {
                    deeds.push(Deed::Child(*child));
                    None
                }
                PlanEntry::Milestone(_) => None,
            };
            let asked = effect.and_then(|effect| self.execution.ledger.get(&effect));
            deeds.extend(asked.map(|asked| Deed::Call(asked.key)));
        }
    }
}

/// Branches of a second time go to those of the first, anything else comes after it.
fn join(group: &mut Vec<PlanEntry>, entry: PlanEntry) {
    match (group.last_mut(), entry) {
        (Some(PlanEntry::Parallel(first)), PlanEntry::Parallel(again)) => first.extend(again),
        (_, entry) => group.push(entry),
    }
}
