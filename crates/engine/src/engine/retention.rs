//! Forgetting ended executions, by age and by count; what stays is a tombstone, for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minicbor::{Decode, Encode};
use outlast_lineage::{ExecutionId, Time};

use super::certain::Before;
use super::{Engine, Step, Work};
use crate::{Action, Position, RecordKind, Subject};

/// What stays of a forgotten execution: its id and name are not given again for a while.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(super) struct Tombstone {
    #[n(0)]
    pub(super) namespace: String,
    #[n(1)]
    pub(super) name: Option<String>,
    #[n(2)]
    pub(super) until: Time,
}

/// All tombstones.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    by_execution: BTreeMap<ExecutionId, Tombstone>,
    by_expiry: BTreeSet<(Time, ExecutionId)>,
}

impl Tombstones {
    pub(super) fn insert(&mut self, id: ExecutionId, tombstone: Tombstone) {
        self.by_expiry.insert((tombstone.until, id));
        self.by_execution.insert(id, tombstone);
    }

    pub(super) fn contains(&self, id: ExecutionId) -> bool {
        self.by_execution.contains_key(&id)
    }

    pub(super) fn get(&self, id: ExecutionId) -> Option<&Tombstone> {
        self.by_execution.get(&id)
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.by_expiry.first().map(|(until, _)| *until)
    }

    fn pop_expired(&mut self, now: Time) -> Option<(ExecutionId, Tombstone)> {
        let (until, id) = *self.by_expiry.first()?;
        if until > now {
            return None;
        }
        self.by_expiry.pop_first();
        let tombstone = self.by_execution.remove(&id).expect("each expiry is of a tombstone");
        Some((id, tombstone))
    }
}

impl Engine {
    /// Puts forgetting into the queue if something is to be forgotten.
    pub(super) fn tidy(&mut self, now: Time) {
        let retention = &self.options.retention;
        let Some((ended, _)) = self.roster.first_ended() else { return };
        let due = self.roster.ended_count() > retention.count || ended.after(retention.age) <= now;
        if due && !self.tidying {
            self.tidying = true;
            self.queue_own(Work::Tidy);
        }
    }

    /// When the next execution is old enough to be forgotten.
    pub(super) fn next_forgetting(&self) -> Option<Time> {
        let (ended, _) = self.roster.first_ended().filter(|_| !self.tidying)?;
        Some(ended.after(self.options.retention.age))
    }

    /// Forgets the execution that ended first, and looks whether there are more.
    pub(super) fn forget_one(&mut self, step: &mut Step) {
        self.tidying = false;
        let retention = &self.options.retention;
        if let Some((ended, id)) = self.roster.first_ended()
            && (self.roster.ended_count() > retention.count
                || ended.after(retention.age) <= step.now)
        {
            self.forget(step, id);
        }
        self.tidy(step.now);
    }

    /// Forgets an ended execution that nobody holds.
    pub(super) fn forget(&mut self, step: &mut Step, id: ExecutionId) -> Position {
        let until = step.now.after(self.options.retention.tombstone);
        let (position, _) = self.record(step, RecordKind::Forgotten { execution: id, until });
        if let Some(entry) = self.roster.get(id) {
            let then = Before::Present(Box::new(self.summary(id, entry)));
            self.certain.changed(position, id, then);
        }
        self.bury(id, until, position);
        step.order(Some(position), Action::Forget(Subject::Execution(id)));
        position
    }

    /// Replaces an execution by its tombstone.
    pub(super) fn bury(&mut self, id: ExecutionId, until: Time, position: Position) {
        let Some(entry) = self.roster.remove(id) else { return };
        self.events.lags(id, entry.lagging, None);
        for (index, gone) in entry.subscriptions.iter().enumerate() {
            self.events.unlisten(id, gone, &entry.subscriptions[index + 1..]);
        }
        for (ticket, at) in &entry.timers {
            self.timers.remove(&(*at, id, *ticket));
        }
        let tombstone = Tombstone {
            namespace: entry.defined.definition.namespace.clone(),
            name: entry.name.map(String::from),
            until,
        };
        self.tombstones.insert(id, tombstone);
        self.unsaved.mark(Subject::Execution(id), position);
    }

    /// Drops tombstones whose time is over.
    pub(super) fn expire_tombstones(&mut self, step: &mut Step) {
        while let Some((id, tombstone)) = self.tombstones.pop_expired(step.now) {
            if let Some(name) = &tombstone.name {
                self.roster.free_name(&Arc::from(tombstone.namespace.as_str()), name);
            }
            self.unsaved.clear(&Subject::Execution(id));
            step.order(Some(self.position), Action::Forget(Subject::Execution(id)));
        }
    }
}
