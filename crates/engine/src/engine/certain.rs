//! What is certain: the executions as the durable records say they are.
//!
//! While the storage takes records, a list waits for the newest one and shows everything. While it
//! takes none, that may be never: then a list shows what was so at the last durable record. For
//! this the engine remembers what each record that is not durable changed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use outlast_lineage::{ExecutionId, Time};

use super::Engine;
use crate::{Condition, Position, Summary};

/// What records changed that are not durable, in their order.
#[derive(Debug, Default)]
pub(super) struct Certain {
    /// The newest durable record.
    durable: Position,
    /// Since when the disk has taken nothing, if there is something to write.
    waiting: Option<Time>,
    changes: VecDeque<(Position, ExecutionId, Before)>,
}

/// What an execution was before a record.
#[derive(Debug)]
pub(super) enum Before {
    /// Not there.
    Absent,
    /// In another condition, perhaps.
    Other { condition: Condition, changed: Time, parked: bool },
    /// There.
    Present(Box<Summary>),
}

impl Certain {
    /// A record is about to be written.
    pub(super) fn recorded(&mut self, now: Time) {
        self.waiting = self.waiting.or(Some(now));
    }

    /// For how long the disk has taken nothing of what there was to write.
    pub(super) fn still(&self, now: Time) -> Duration {
        self.waiting.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Nothing up to a record is in doubt.
    pub(super) fn reaches(&mut self, now: Time, durable: Position, newest: Position) {
        self.durable = self.durable.max(durable);
        self.waiting = (self.durable < newest).then_some(now);
        while self.changes.front().is_some_and(|(position, ..)| *position <= durable) {
            self.changes.pop_front();
        }
    }

    /// A record changed an execution.
    pub(super) fn changed(&mut self, position: Position, id: ExecutionId, before: Before) {
        self.changes.push_back((position, id, before));
    }

    pub(super) const fn durable(&self) -> Position {
        self.durable
    }

    /// Whether an execution was changed by a record that is not durable.
    pub(super) fn doubts(&self, id: ExecutionId) -> bool {
        self.changes.iter().any(|(_, of, _)| *of == id)
    }

    /// Executions that were forgotten by records that are not durable, as they were.
    pub(super) fn forgotten(&self) -> impl Iterator<Item = &Summary> {
        self.changes.iter().filter_map(|(.., before)| match before {
            Before::Present(then) => Some(&**then),
            _ => None,
        })
    }

    /// What every execution in doubt was at the last durable record.
    fn before(&self) -> BTreeMap<ExecutionId, &Before> {
        self.changes.iter().rev().map(|(_, id, before)| (*id, before)).collect()
    }

    pub(super) fn assert_invariants(&self, newest: Position) {
        assert!(self.durable <= newest, "what is not recorded is not durable");
        for (position, ..) in &self.changes {
            assert!(self.durable < *position && *position <= newest, "only records are in doubt");
        }
    }
}

impl Engine {
    /// Executions after one as they certainly are, in order of their ids: at most so many, and
    /// whether there are more.
    pub(super) fn certain_after(
        &self,
        after: Option<ExecutionId>,
        most: usize,
    ) -> (Vec<Summary>, Option<ExecutionId>) {
        let before = self.certain.before();
        let held = self.roster.after(after).map(|(id, _)| id).take(most);
        let gone = self.certain.forgotten().map(|then| then.execution);
        let gone = gone.filter(|id| after.is_none_or(|after| after < *id));
        let mut ids: Vec<_> = held.chain(gone).collect();
        ids.sort_unstable();
        // What is beyond the most may not be next: what is held between was not looked at.
        let more = ids.len() >= most;
        ids.truncate(most);
        let last = ids.last().copied().filter(|_| more);
        let certain = |id| self.certainly(id, before.get(&id).copied());
        (ids.into_iter().filter_map(certain).collect(), last)
    }

    fn certainly(&self, id: ExecutionId, before: Option<&Before>) -> Option<Summary> {
        let now = || self.roster.get(id).map(|entry| self.summary(id, entry));
        match before {
            None => now(),
            Some(Before::Absent) => None,
            Some(Before::Present(then)) => Some((**then).clone()),
            Some(Before::Other { condition, changed, parked }) => {
                // What was forgotten after it changed is no longer here: it was all there then.
                let (condition, changed, parked) = (*condition, *changed, *parked);
                Some(Summary { condition, changed, parked, ..self.newest_summary(id)? })
            }
        }
    }

    /// An execution as it is, or as it was when it was forgotten.
    fn newest_summary(&self, id: ExecutionId) -> Option<Summary> {
        let here = self.roster.get(id).map(|entry| self.summary(id, entry));
        here.or_else(|| self.certain.forgotten().find(|then| then.execution == id).cloned())
    }
}
