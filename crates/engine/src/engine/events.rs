//! Events: a bounded buffer of numbered events, and who listens for which types.
//!
//! An event goes to every listener there is, and stays in the buffer for listeners still to come,
//! until it is too old or the buffer is full. Whoever lags behind is shown events in the order of
//! their numbers; what a lagging listener has yet to see is not dropped.

use std::collections::{BTreeMap, BTreeSet};

use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, NodeId, Time};

use super::entry::Subscription;
use super::sizes;
use crate::Publication;

/// The buffer and the listeners.
#[derive(Debug, Default)]
pub(super) struct Events {
    buffer: BTreeMap<u64, Buffered>,
    bytes: usize,
    /// Events for everyone, by type.
    by_type: BTreeMap<String, BTreeSet<u64>>,
    /// All events for everyone.
    broadcast: BTreeSet<u64>,
    /// Events for one execution only.
    directed: BTreeSet<(ExecutionId, u64)>,
    /// Executions that listen for a type.
    listeners: BTreeSet<(String, ExecutionId)>,
    /// Executions that listen for every type.
    listeners_of_all: BTreeSet<ExecutionId>,
    /// What must not be dropped: the next number of every execution that lags behind.
    lagging: BTreeSet<(u64, ExecutionId)>,
    /// Numbers of events not yet announced to all their listeners.
    spreading: BTreeSet<u64>,
    /// The numbers of events, by what they are on every node.
    identities: BTreeMap<u64, u64>,
    /// The number of the next event.
    pub(super) next: u64,
}

#[derive(Debug)]
struct Buffered {
    publication: Publication,
    kind: String,
    bytes: usize,
    identity: u64,
}

impl Events {
    /// No events; the first will be number one.
    pub(super) fn new() -> Self {
        Self { next: 1, ..Self::default() }
    }

    /// The CloudEvent type of an event.
    pub(super) fn kind(event: &Value) -> Option<String> {
        sizes::member(event, "type").and_then(sizes::text)
    }

    /// Takes in a recorded event, at a node.
    pub(super) fn insert(&mut self, publication: Publication, here: NodeId) {
        let number = publication.number;
        let identity = publication.identity(here);
        self.identities.insert(identity, number);
        let kind = Self::kind(&publication.event).unwrap_or_default();
        let bytes = sizes::bytes_of(&publication.event);
        match publication.to {
            Some(execution) => drop(self.directed.insert((execution, number))),
            None => {
                self.by_type.entry(kind.clone()).or_default().insert(number);
                self.broadcast.insert(number);
            }
        }
        self.bytes += bytes;
        self.next = self.next.max(number + 1);
        self.buffer.insert(number, Buffered { publication, kind, bytes, identity });
    }

    pub(super) fn get(&self, number: u64) -> Option<&Publication> {
        self.buffer.get(&number).map(|buffered| &buffered.publication)
    }

    pub(super) fn kind_of(&self, number: u64) -> Option<&str> {
        self.buffer.get(&number).map(|buffered| buffered.kind.as_str())
    }

    /// The number of an event, by what it is on every node.
    pub(super) fn number_of(&self, identity: u64) -> Option<u64> {
        self.identities.get(&identity).copied()
    }

    /// What an event is on every node.
    pub(super) fn identity_of(&self, number: u64) -> Option<u64> {
        self.buffer.get(&number).map(|buffered| buffered.identity)
    }

    /// All events, and which execution each is for if it is for one.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (u64, Option<ExecutionId>)> {
        self.buffer.iter().map(|(number, buffered)| (*number, buffered.publication.to))
    }

    /// The number of the next event that one of these subscriptions has not been shown.
    pub(super) fn next_for(
        &self,
        execution: ExecutionId,
        subscriptions: &[Subscription],
    ) -> Option<u64> {
        subscriptions.iter().filter_map(|wanted| self.next_of(execution, wanted)).min()
    }

    fn next_of(&self, execution: ExecutionId, subscription: &Subscription) -> Option<u64> {
        let from = subscription.next;
        let directed = self
            .directed
            .range((execution, from)..=(execution, u64::MAX))
            .map(|(_, number)| *number)
            .find(|number| self.kind_of(*number).is_some_and(|kind| subscription.wants(kind)));
        let broadcast = match &subscription.types {
            None => self.broadcast.range(from..).next().copied(),
            Some(types) => types
                .iter()
                .filter_map(|kind| self.by_type.get(kind)?.range(from..).next().copied())
                .min(),
        };
        [directed, broadcast].into_iter().flatten().min()
    }

    pub(super) fn listen(&mut self, execution: ExecutionId, types: Option<&[String]>) {
        match types {
            None => drop(self.listeners_of_all.insert(execution)),
            Some(types) => {
                self.listeners.extend(types.iter().map(|kind| (kind.clone(), execution)));
            }
        }
    }

    /// Forgets a subscription; `others` are those the execution still has.
    pub(super) fn unlisten(
        &mut self,
        execution: ExecutionId,
        gone: &Subscription,
        others: &[Subscription],
    ) {
        match &gone.types {
            None if others.iter().all(|other| other.types.is_some()) => {
                self.listeners_of_all.remove(&execution);
            }
            None => {}
            Some(types) => {
                for kind in types {
                    let still = |other: &Subscription| {
                        other.types.as_ref().is_some_and(|types| types.contains(kind))
                    };
                    if !others.iter().any(still) {
                        self.listeners.remove(&(kind.clone(), execution));
                    }
                }
            }
        }
    }

    /// The next executions after one that listen for events like this one.
    pub(super) fn listeners_after(
        &self,
        number: u64,
        after: Option<ExecutionId>,
        max: usize,
    ) -> Vec<ExecutionId> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let Some(buffered) = self.buffer.get(&number) else { return Vec::new() };
        if let Some(only) = buffered.publication.to {
            return Vec::from_iter((after < Some(only)).then_some(only));
        }
        let kind = &buffered.kind;
        let least = ExecutionId::from_bytes([0; 16]);
        let from = after.map_or(Included((kind.clone(), least)), |id| Excluded((kind.clone(), id)));
        let of_kind = self
            .listeners
            .range((from, Unbounded))
            .take_while(|(of, _)| of == kind)
            .map(|(_, execution)| *execution)
            .take(max);
        let of_all =
            self.listeners_of_all.range((after.map_or(Unbounded, Excluded), Unbounded)).take(max);
        let both: BTreeSet<_> = of_kind.chain(of_all.copied()).collect();
        both.into_iter().take(max).collect()
    }

    /// An event is about to be announced to its listeners, bit by bit.
    pub(super) fn spread_begun(&mut self, number: u64) {
        self.spreading.insert(number);
    }

    pub(super) fn spread_ended(&mut self, number: u64) {
        self.spreading.remove(&number);
    }

    /// An execution waits for its turn to be shown events from a number on, or no longer does.
    pub(super) fn lags(&mut self, execution: ExecutionId, before: Option<u64>, now: Option<u64>) {
        if let Some(number) = before {
            self.lagging.remove(&(number, execution));
        }
        if let Some(number) = now {
            self.lagging.insert((number, execution));
        }
    }

    /// Takes the oldest event out if it may go: it is too old or there are too many, and nobody who
    /// is to see it has yet to.
    pub(super) fn evict(
        &mut self,
        too_old: Time,
        count_max: usize,
        bytes_max: usize,
    ) -> Option<u64> {
        let (&number, oldest) = self.buffer.first_key_value()?;
        let over = self.buffer.len() > count_max || self.bytes > bytes_max;
        let owed = self.owed_from().is_some_and(|owed| owed <= number);
        if owed || !(over || oldest.publication.time < too_old) {
            return None;
        }
        self.remove(number);
        Some(number)
    }

    /// The lowest number somebody has yet to be shown.
    fn owed_from(&self) -> Option<u64> {
        let lagging = self.lagging.first().map(|(number, _)| *number);
        [lagging, self.spreading.first().copied()].into_iter().flatten().min()
    }

    fn remove(&mut self, number: u64) {
        let Some(gone) = self.buffer.remove(&number) else { return };
        self.bytes -= gone.bytes;
        if self.identities.get(&gone.identity) == Some(&number) {
            self.identities.remove(&gone.identity);
        }
        match gone.publication.to {
            Some(execution) => drop(self.directed.remove(&(execution, number))),
            None => {
                self.broadcast.remove(&number);
                let numbers = self.by_type.get_mut(&gone.kind).expect("it was indexed");
                numbers.remove(&number);
                if numbers.is_empty() {
                    self.by_type.remove(&gone.kind);
                }
            }
        }
    }

    /// Whether no more events can be taken in before somebody has seen some.
    pub(super) fn is_full(&self, count_max: usize, bytes_max: usize) -> bool {
        self.buffer.len() >= count_max.saturating_mul(2)
            || self.bytes >= bytes_max.saturating_mul(2)
    }

    /// When the oldest event was taken in.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.buffer.first_key_value().map(|(_, oldest)| oldest.publication.time)
    }

    /// How many events are kept.
    pub(super) fn len(&self) -> usize {
        self.buffer.len()
    }

    pub(super) fn assert_invariants(&self) {
        assert_eq!(self.buffer.len(), self.broadcast.len() + self.directed.len());
        assert_eq!(self.by_type.values().map(BTreeSet::len).sum::<usize>(), self.broadcast.len());
        assert_eq!(self.bytes, self.buffer.values().map(|event| event.bytes).sum::<usize>());
        assert!(self.buffer.keys().all(|number| *number < self.next), "numbers rise");
        assert!(self.identities.values().all(|number| self.buffer.contains_key(number)));
    }
}
