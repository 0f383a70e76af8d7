//! All executions an engine holds, and the orders in which they are looked for.
//!
//! Invariants: every index holds exactly what the entries say; at most so many executions, and so many bytes
//! of them, as `Wakefulness` says, and those in use, are awake once `settle` has run often enough.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outlast_lineage::{ExecutionId, Time};
use outlast_workflow::Execution;

use super::entries::Entries;
use super::entry::{Entry, Origin, State};
use crate::Condition;

/// All executions and their indexes.
#[derive(Debug, Default)]
pub(super) struct Roster {
    entries: Entries,
    by_condition: BTreeSet<(Condition, ExecutionId)>,
    by_name: BTreeMap<(Arc<str>, Box<str>), ExecutionId>,
    /// Ended executions that nobody holds, by the time of their end.
    ended: BTreeSet<(Time, ExecutionId)>,
    awake: Awake,
    parked: BTreeSet<ExecutionId>,
    uses: u64,
    shares: BTreeMap<Arc<str>, Share>,
    live: usize,
}

/// Awake executions, the least recently used first, and about how many bytes each took when it was last
/// used.
#[derive(Debug, Default)]
struct Awake {
    by_use: BTreeMap<(u64, ExecutionId), usize>,
    bytes: usize,
}

impl Awake {
    /// Adds one that is not in it.
    fn insert(&mut self, touched: u64, id: ExecutionId, bytes: usize) {
        self.by_use.insert((touched, id), bytes);
        self.bytes += bytes;
    }

    fn remove(&mut self, touched: u64, id: ExecutionId) {
        if let Some(bytes) = self.by_use.remove(&(touched, id)) {
            self.bytes -= bytes;
        }
    }

    fn pop_first(&mut self) -> Option<ExecutionId> {
        let ((_, id), bytes) = self.by_use.pop_first()?;
        self.bytes -= bytes;
        Some(id)
    }
}

/// How much may be awake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wakefulness {
    /// Executions.
    pub(super) most: usize,
    /// About how many bytes of them.
    pub(super) bytes: usize,
    /// So many may be awake however large they are.
    pub(super) least: usize,
}

/// What a namespace uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Share {
    /// Executions that have not ended.
    pub(super) live: usize,
    /// Executions with something under way.
    pub(super) running: usize,
}

const fn is_running(condition: Condition) -> bool {
    matches!(condition, Condition::Running | Condition::Compensating)
}

impl Roster {
    pub(super) fn get(&self, id: ExecutionId) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// An entry whose indexed facts (condition, held, parked, awake) are not to be changed.
    pub(super) fn get_mut(&mut self, id: ExecutionId) -> Option<&mut Entry> {
        self.entries.get_mut(id)
    }

    /// An entry that is known to be there.
    pub(super) fn known(&mut self, id: ExecutionId) -> &mut Entry {
        self.entries.get_mut(id).expect("the execution was found in this step")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ExecutionId, &Entry)> {
        self.entries.iter()
    }

    /// Executions after one, in order of their ids.
    pub(super) fn after(
        &self,
        after: Option<ExecutionId>,
    ) -> impl Iterator<Item = (ExecutionId, &Entry)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        self.entries.range((from, Unbounded))
    }

    /// Executions in a condition after one, in order of their ids.
    pub(super) fn in_condition(
        &self,
        condition: Condition,
        after: Option<ExecutionId>,
    ) -> impl Iterator<Item = (ExecutionId, &Entry)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let first = ExecutionId::from_bytes([0; 16]);
        let from = after.map_or(Included((condition, first)), |id| Excluded((condition, id)));
        self.by_condition
            .range((from, Unbounded))
            .take_while(move |(of, _)| *of == condition)
            .map(|(_, id)| (*id, self.entries.get(*id).expect("what has a condition is there")))
    }

    pub(super) fn named(&self, namespace: &str, name: &str) -> Option<ExecutionId> {
        if namespace.is_empty() {
            // For people at a terminal: costs as much as there are names.
            let mut found = self.by_name.iter().filter(|((_, known), _)| **known == *name);
            let only = found.next().map(|(_, id)| *id);
            return only.filter(|_| found.next().is_none());
        }
        self.by_name.get(&(Arc::from(namespace), Box::from(name))).copied()
    }

    /// Executions with something parked.
    pub(super) fn parked(&self) -> impl Iterator<Item = ExecutionId> {
        self.parked.iter().copied()
    }

    pub(super) fn share(&self, namespace: &str) -> Share {
        self.shares.get(namespace).copied().unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn live(&self) -> usize {
        self.live
    }

    pub(super) fn parked_count(&self) -> usize {
        self.parked.len()
    }

    /// The ended execution that ended first, and when.
    pub(super) fn first_ended(&self) -> Option<(Time, ExecutionId)> {
        self.ended.first().copied()
    }

    /// How many ended executions could be forgotten.
    pub(super) fn ended_count(&self) -> usize {
        self.ended.len()
    }

    /// Adds an execution.
    pub(super) fn insert(&mut self, id: ExecutionId, entry: Entry) {
        if let Some(name) = &entry.name {
            self.by_name.insert((Arc::clone(&entry.defined.namespace), name.clone()), id);
        }
        if entry.is_awake() {
            self.awake.insert(entry.touched, id, entry.weight);
        }
        self.entries.insert(id, entry);
        self.index(id);
    }

    /// Removes an execution. Its name stays taken until `free_name`.
    pub(super) fn remove(&mut self, id: ExecutionId) -> Option<Entry> {
        if self.entries.contains(id) {
            self.unindex(id);
        }
        let entry = self.entries.remove(id)?;
        self.awake.remove(entry.touched, id);
        Some(entry)
    }

    /// Takes a name for an execution that is no longer there.
    pub(super) fn keep_name(&mut self, namespace: Arc<str>, name: Box<str>, id: ExecutionId) {
        self.by_name.insert((namespace, name), id);
    }

    pub(super) fn free_name(&mut self, namespace: &Arc<str>, name: &str) {
        self.by_name.remove(&(Arc::clone(namespace), Box::from(name)));
    }

    /// Changes facts that are indexed, but for whether it is awake.
    pub(super) fn change(&mut self, id: ExecutionId, change: impl FnOnce(&mut Entry)) {
        self.unindex(id);
        change(self.known(id));
        self.index(id);
    }

    /// Makes an execution ready to be used; says whether it slept. Nothing if there is none.
    pub(super) fn wake(&mut self, id: ExecutionId) -> Option<bool> {
        let uses = self.uses + 1;
        let entry = self.entries.get_mut(id)?;
        let slept = entry.wake();
        if !slept && entry.touched == self.uses && 0 < self.uses {
            // It was the last one to be used.
            return Some(false);
        }
        if !slept {
            self.awake.remove(entry.touched, id);
        }
        entry.touched = uses;
        self.awake.insert(uses, id, entry.weight);
        self.uses = uses;
        Some(slept)
    }

    /// Puts the least recently used execution to sleep if more are awake than may be.
    pub(super) fn settle(&mut self, may: Wakefulness) -> bool {
        let (count, bytes) = (self.awake.by_use.len(), self.awake.bytes);
        if count <= may.most && (bytes <= may.bytes || count <= may.least) {
            return false;
        }
        let Some(id) = self.awake.pop_first() else { return false };
        self.known(id).sleep();
        true
    }

    /// Puts an execution to sleep that has just come to be over. Nobody needs it for a while, and the memory
    /// that it gives up is taken for the next one while it is still in the processor's caches.
    pub(super) fn lay_to_rest(&mut self, id: ExecutionId) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        if !entry.is_awake() || !entry.is_over() {
            return false;
        }
        self.awake.remove(entry.touched, id);
        entry.sleep();
        true
    }

    /// Drops the state of an execution that the store holds as it is.
    pub(super) fn store(&mut self, id: ExecutionId) {
        let entry = self.entries.get_mut(id).expect("the execution was found in this step");
        self.awake.remove(entry.touched, id);
        entry.state = State::Stored;
    }

    /// Takes the state that the store held: the execution is awake.
    pub(super) fn fetched(&mut self, id: ExecutionId, execution: Execution) {
        let entry = self.entries.get_mut(id).expect("the execution was found in this step");
        assert!(entry.is_stored(), "a state that is here need not be fetched");
        self.uses += 1;
        entry.touched = self.uses;
        entry.state = State::Awake(Box::new(execution), Origin::Stored);
        self.awake.insert(self.uses, id, entry.weight);
    }

    fn index(&mut self, id: ExecutionId) {
        let entry = self.entries.get(id).expect("it was just found");
        self.by_condition.insert((entry.condition, id));
        if entry.condition.is_end() {
            if entry.is_over() {
                self.ended.insert((entry.changed, id));
            }
        } else {
            self.live += 1;
            let share = self.shares.entry(Arc::clone(&entry.defined.namespace)).or_default();
            share.live += 1;
            share.running += usize::from(is_running(entry.condition));
        }
        if entry.parked {
            self.parked.insert(id);
        }
    }

    fn unindex(&mut self, id: ExecutionId) {
        let entry = self.entries.get(id).expect("it was just found");
        self.by_condition.remove(&(entry.condition, id));
        self.ended.remove(&(entry.changed, id));
        if !entry.condition.is_end() {
            self.live -= 1;
            let share = self.shares.get_mut(&entry.defined.namespace).expect("it was counted");
            share.live -= 1;
            share.running -= usize::from(is_running(entry.condition));
        }
        self.parked.remove(&id);
    }

    pub(super) fn assert_invariants(&self) {
        assert_eq!(self.by_condition.len(), self.entries.len(), "each has one condition");
        self.entries.assert_invariants();
        let live = self.entries.iter().filter(|(_, entry)| !entry.condition.is_end()).count();
        assert_eq!(self.live, live);
        assert_eq!(self.shares.values().map(|share| share.live).sum::<usize>(), live);
        let running = self.entries.iter().filter(|(_, entry)| is_running(entry.condition)).count();
        assert_eq!(self.shares.values().map(|share| share.running).sum::<usize>(), running);
        assert_eq!(self.awake.by_use.values().sum::<usize>(), self.awake.bytes);
        for (id, entry) in self.entries.iter() {
            assert!(self.by_condition.contains(&(entry.condition, *id)));
            let is_awake = self.awake.by_use.contains_key(&(entry.touched, *id));
            assert_eq!(is_awake, entry.is_awake());
            assert_eq!(self.parked.contains(id), entry.parked);
            assert_eq!(self.ended.contains(&(entry.changed, *id)), entry.is_over());
            assert!(
                !entry.is_stored() || entry.is_over(),
                "only what is over is left to the store"
            );
        }
    }
}
