//! Checkpoints: what the engine wants kept goes into the store, and the journal is shortened.
//!
//! The engine is asked for snapshots slice by slice, so that nobody waits long. Each slice is one
//! transaction, written by a thread of its own; only then is the next one asked for. A slice that
//! could not be stored is kept and tried again, for the engine counts on it. The same thread reads
//! what the engine wants back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use outlast_engine::{Position, Subject};
use outlast_lineage::{ExecutionId, Time};

use super::history::History;
use super::inbox::{Inbox, Message};
use crate::configuration::Checkpoints as Settings;
use crate::journal::Journal;
use crate::store::{Checkpoint, Store, StoreError};

/// How long to wait before a checkpoint that failed is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// What the engine ordered since the last slice.
#[derive(Debug, Default)]
struct Gathered {
    subjects: BTreeMap<Vec<u8>, (u64, Option<Bytes>)>,
    dropped: BTreeSet<ExecutionId>,
}

/// What the thread is to do.
enum Order {
    /// Store a slice.
    Keep(Checkpoint),
    /// Read the snapshot of an execution.
    Fetch(ExecutionId),
}

/// What became of a slice; one that was not stored comes back.
#[derive(Debug)]
pub(crate) enum Stored {
    /// It is durable.
    Done,
    /// It is not.
    Failed(Checkpoint, StoreError),
}

/// How far a checkpoint is.
#[derive(Debug)]
enum Phase {
    /// None is under way.
    Idle,
    /// A slice is wanted of the engine, or it was asked for it.
    Gathering { goal: Position, asked: bool },
    /// A slice is with the store.
    Storing { goal: Position, replay_from: Position },
    /// A slice was not stored and is tried again.
    Waiting { goal: Position, replay_from: Position, slice: Checkpoint, until: Time },
}

/// Decides when, gathers what, and hands it to the thread that writes.
pub(super) struct Checkpoints {
    settings: Settings,
    phase: Phase,
    gathered: Gathered,
    /// Bytes of records that only the journal has, and the time of the first of them.
    bytes: u64,
    since: Option<Time>,
    history: Arc<History>,
    orders: Option<Sender<Order>>,
    keeper: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread that writes.
    pub(super) fn start(
        settings: Settings,
        history: Arc<History>,
        store: Arc<Store>,
        journal: Arc<Journal>,
        inbox: Arc<Inbox>,
    ) -> std::io::Result<Self> {
        let (orders, waiting) = channel();
        let keeper = thread::Builder::new()
            .name("store".into())
            .spawn(move || keep(&store, &journal, &inbox, &waiting))?;
        Ok(Self {
            settings,
            phase: Phase::Idle,
            gathered: Gathered::default(),
            bytes: 0,
            since: None,
            history,
            orders: Some(orders),
            keeper: Some(keeper),
        })
    }

    /// A record was written.
    pub(super) fn recorded(&mut self, bytes: usize, now: Time) {
        self.bytes += bytes as u64;
        self.since.get_or_insert(now);
    }

    /// The engine wants a snapshot stored.
    pub(super) fn snapshot(&mut self, subject: Subject, as_of: Position, bytes: Vec<u8>) {
        self.gathered.subjects.insert(subject.key(), (as_of.0, Some(bytes.into())));
    }

    /// The engine wants something dropped.
    pub(super) fn forget(&mut self, subject: Subject) {
        if let Subject::Execution(execution) = subject {
            self.drop_history(execution);
        }
        self.gathered.subjects.insert(subject.key(), (0, None));
    }

    /// An execution was forgotten.
    pub(super) fn drop_history(&mut self, execution: ExecutionId) {
        self.history.forget(execution);
        self.gathered.dropped.insert(execution);
    }

    /// The engine's slice is complete: it goes to the store.
    pub(super) fn compactable(&mut self, replay_from: Position) {
        let Phase::Gathering { goal, .. } = self.phase else { return };
        let Gathered { subjects, dropped } = std::mem::take(&mut self.gathered);
        let subjects = subjects.into_iter();
        let slice = Checkpoint {
            // The record before stays as well, so that the journal is never without one.
            mark: replay_from.0.saturating_sub(1),
            subjects: subjects.map(|(key, (position, bytes))| (key, position, bytes)).collect(),
            histories_dropped: dropped.into_iter().collect(),
            history: self.history.leave(),
        };
        self.phase = Phase::Storing { goal, replay_from };
        self.give(Order::Keep(slice));
    }

    /// The engine wants the snapshot of an execution back.
    pub(super) fn fetch(&self, execution: ExecutionId) {
        self.give(Order::Fetch(execution));
    }

    fn give(&self, order: Order) {
        let orders = self.orders.as_ref().expect("orders are given until the end");
        // The thread ends only after this end of the channel; if it panicked, nothing is stored.
        if orders.send(order).is_err() {
            tracing::error!("the thread that writes the store is gone; no more checkpoints");
        }
    }

    /// What became of a slice. Says whether it is durable.
    pub(super) fn stored(&mut self, stored: Stored, now: Time) -> bool {
        let Phase::Storing { goal, replay_from } = self.phase else { return false };
        match stored {
            Stored::Done => {
                self.history.stored();
                // Everything that was unsaved when the checkpoint began is saved.
                let done = goal < replay_from;
                self.phase =
                    if done { Phase::Idle } else { Phase::Gathering { goal, asked: false } };
                true
            }
            Stored::Failed(slice, error) => {
                tracing::warn!(%error, "the checkpoint was not stored; it is tried again");
                let until = now.after(RETRY);
                self.phase = Phase::Waiting { goal, replay_from, slice, until };
                false
            }
        }
    }

    /// When `due` has something to say at the latest, if nothing happens until then.
    pub(super) fn next(&self) -> Option<Time> {
        match &self.phase {
            Phase::Idle => self.since.map(|since| since.after(self.settings.age)),
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Gathering { .. } | Phase::Storing { .. } => None,
        }
    }

    /// Begins a checkpoint if it is time, or goes on with one. Says how many snapshots the engine is
    /// to be asked for, if it is.
    pub(super) fn due(&mut self, position: Position, now: Time) -> Option<usize> {
        match &mut self.phase {
            Phase::Idle => {
                let old = self.since.is_some_and(|since| since.after(self.settings.age) <= now);
                if !old && self.bytes < self.settings.bytes {
                    return None;
                }
                (self.bytes, self.since) = (0, None);
                self.phase = Phase::Gathering { goal: position, asked: false };
            }
            Phase::Waiting { goal, replay_from, slice, until } if *until <= now => {
                let (goal, replay_from) = (*goal, *replay_from);
                let slice = std::mem::take(slice);
                self.phase = Phase::Storing { goal, replay_from };
                self.give(Order::Keep(slice));
            }
            _ => {}
        }
        match &mut self.phase {
            Phase::Gathering { asked, .. } if !*asked => {
                *asked = true;
                Some(self.settings.slice)
            }
            _ => None,
        }
    }

    /// Ends the thread, after what it has been given.
    pub(super) fn end(&mut self) {
        drop(self.orders.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// Does what is ordered, as it comes.
fn keep(store: &Store, journal: &Journal, inbox: &Inbox, orders: &Receiver<Order>) {
    for order in orders {
        inbox.give(match order {
            Order::Keep(slice) => Message::Stored(Box::new(keep_slice(store, journal, slice))),
            Order::Fetch(execution) => {
                let snapshot = match store.subject(&Subject::Execution(execution).key()) {
                    Ok(found) => found.ok_or_else(|| "it is not in the store".to_owned()),
                    Err(error) => Err(error.to_string()),
                };
                Message::Fetched { execution, snapshot }
            }
        });
    }
}

fn keep_slice(store: &Store, journal: &Journal, slice: Checkpoint) -> Stored {
    if let Err(error) = store.checkpoint(&slice) {
        return Stored::Failed(slice, error);
    }
    if let Err(error) = journal.truncate_before(slice.mark) {
        tracing::warn!(%error, "the journal could not be shortened");
    }
    Stored::Done
}
