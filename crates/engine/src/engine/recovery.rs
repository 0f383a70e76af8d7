//! Coming back: from snapshots and records to the same engine, in a new life.
//!
//! Records are applied, not re-run: no expression is evaluated and nothing is decided again. A
//! record that a snapshot of its subject already holds is passed over, so where snapshots were
//! taken makes no difference. Executions that only wait for time or events stay asleep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outlast_lineage::{Epoch, ExecutionId, Time};
use outlast_workflow::{Author, Command, Execution, Program};

use super::certain::Certain;
use super::custody::{Custody, Looking, Peers, Reading, Stored};
use super::definitions::Definitions;
use super::entry::{Entry, Header, State};
use super::events::Events;
use super::gossip::Gossip;
use super::queue::FairQueue;
use super::retention::Tombstones;
use super::roster::Roster;
use super::snapshots::{Content, Snapshot, Unsaved, is_indexed};
use super::spreading::Spreading;
use super::teaching::Teaching;
use super::waiters::Waiters;
use super::{Engine, Step, Work};
use crate::{
    Advanced, Counters, Custodial, Definition, EngineOptions, Output, Position, Record,
    RecordError, RecordKind, Sent, Started, Subject,
};

/// What is stored cannot be made into an engine.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// A record cannot be read.
    #[error("record {} of those given cannot be read: {source}", index + 1)]
    Record {
        /// Which of the records given, from zero.
        index: usize,
        /// Why.
        source: RecordError,
    },
    /// A snapshot cannot be read.
    #[error("a snapshot cannot be read: {0}")]
    Snapshot(RecordError),
    /// A record is missing.
    #[error("record {} follows record {}; what lies between is missing", .found.0, .before.0)]
    Gap {
        /// The last record before the gap.
        before: Position,
        /// The record found instead of the next one.
        found: Position,
    },
    /// A record is about something that no snapshot and no record before it made.
    #[error("a record is about {what}, of which nothing is stored")]
    Dangling {
        /// What it is about.
        what: String,
    },
    /// A stored definition no longer compiles.
    #[error("the stored definition {name} does not compile: {reason}")]
    Definition {
        /// Which definition.
        name: String,
        /// Why.
        reason: String,
    },
}

/// Makes programs of stored definitions.
type Compile<'a> = &'a mut dyn FnMut(&Definition) -> Result<Arc<Program>, String>;

/// A recovery under way.
struct Recovery<'a> {
    engine: Engine,
    compile: Compile<'a>,
    /// Up to which record each snapshot holds its subject.
    saved: BTreeMap<Subject, Position>,
    /// Executions that records are about: their state is needed, wherever it is stored.
    replayed: BTreeSet<ExecutionId>,
    /// Executions that must be asked what they have open.
    open: BTreeSet<ExecutionId>,
    /// Executions that records are about and of which nothing is stored; to be forgotten later.
    dangling: BTreeSet<ExecutionId>,
}

impl Engine {
    /// An engine with what an earlier life stored: first all snapshots, in any order, then the
    /// records since the last `Action::Compactable`, in order. Nothing stored is a new node.
    /// `compile` makes programs of stored definitions again.
    ///
    /// The outputs ask again for everything that was open, under a new epoch.
    pub fn recover(
        options: EngineOptions,
        now: Time,
        snapshots: impl IntoIterator<Item = Vec<u8>>,
        records: impl IntoIterator<Item = Vec<u8>>,
        compile: &mut dyn FnMut(&Definition) -> Result<Arc<Program>, String>,
    ) -> Result<(Self, Vec<Output>), RecoveryError> {
        let records: Vec<_> = records.into_iter().collect();
        let mut recovery = Recovery {
            engine: Self::empty(options),
            compile,
            saved: BTreeMap::new(),
            replayed: records.iter().filter_map(|bytes| Record::execution_in(bytes)).collect(),
            open: BTreeSet::new(),
            dangling: BTreeSet::new(),
        };
        recovery.load(snapshots)?;
        for (index, bytes) in records.into_iter().enumerate() {
            let record =
                Record::decode(&bytes).map_err(|source| RecoveryError::Record { index, source })?;
            recovery.replay(record)?;
        }
        recovery.finish(now)
    }

    fn empty(options: EngineOptions) -> Self {
        Self {
            author: Author::new(options.node, Epoch::default()),
            options,
            position: Position::default(),
            opened: Position::default(),
            definitions: Definitions::default(),
            roster: Roster::default(),
            tombstones: Tombstones::default(),
            events: Events::new(),
            spreading: Spreading::default(),
            timers: BTreeSet::new(),
            work: FairQueue::new(),
            own_line: Arc::from(""),
            unwanted: BTreeSet::new(),
            waiters: Waiters::default(),
            over: Vec::new(),
            unsaved: Unsaved::default(),
            fetching: BTreeMap::new(),
            alarm: None,
            peers: Peers::default(),
            gossip: Gossip::default(),
            custodies: BTreeSet::new(),
            custody_alarms: BTreeSet::new(),
            addresses: BTreeMap::new(),
            departed: BTreeMap::new(),
            reading: Reading::default(),
            looking: Looking::default(),
            stashed: Vec::new(),
            teaching: Teaching::default(),
            tidying: false,
            storage_full: false,
            certain: Certain::default(),
            counters: Counters::default(),
        }
    }
}

impl Recovery<'_> {
    /// Takes all snapshots. Executions need their definitions: one that comes before its own waits.
    fn load(&mut self, snapshots: impl IntoIterator<Item = Vec<u8>>) -> Result<(), RecoveryError> {
        let mut early = Vec::new();
        for bytes in snapshots {
            let snapshot = Snapshot::decode(&bytes).map_err(RecoveryError::Snapshot)?;
            self.saved.insert(snapshot.subject(), snapshot.as_of);
            self.engine.position = self.engine.position.max(snapshot.as_of);
            match snapshot.content {
                Content::Node { epoch, next_event } => {
                    self.engine.author.epoch = self.engine.author.epoch.max(epoch);
                    self.engine.events.next = self.engine.events.next.max(next_event);
                }
                Content::Definition { definition, position } => {
                    self.define(definition, position)?
                }
                Content::Execution { id, header } => {
                    if self.engine.definitions.get(&header.definition).is_some() {
                        self.hold(id, *header)?;
                    } else {
                        early.push((id, header));
                    }
                }
                Content::Tombstone { id, tombstone } => self.keep_tombstone(id, tombstone),
                Content::Event(publication) => {
                    let here = self.engine.options.node;
                    self.engine.events.insert(publication, here);
                }
            }
        }
        early.into_iter().try_for_each(|(id, header)| self.hold(id, *header))
    }

    fn define(&mut self, definition: Definition, position: Position) -> Result<(), RecoveryError> {
        let program = (self.compile)(&definition).map_err(|reason| {
            let name =
                format!("{}/{}:{}", definition.namespace, definition.name, definition.version);
            RecoveryError::Definition { name, reason }
        })?;
        self.engine.definitions.insert(definition, program, position);
        Ok(())
    }

    fn keep_tombstone(&mut self, id: ExecutionId, tombstone: super::retention::Tombstone) {
        if let Some(name) = &tombstone.name {
            let namespace = Arc::from(tombstone.namespace.as_str());
            self.engine.roster.keep_name(namespace, name.as_str().into(), id);
        }
        self.engine.tombstones.insert(id, tombstone);
    }

    /// Holds an execution as its snapshot says, asleep; its state stays in the store if it is over.
    fn hold(&mut self, id: ExecutionId, header: Header) -> Result<(), RecoveryError> {
        let Some(defined) = self.engine.definitions.get(&header.definition).cloned() else {
            return Err(RecoveryError::Dangling { what: format!("the definition of {id}") });
        };
        let options = &self.engine.options;
        let in_others_hands = header.custody.as_ref().is_some_and(Stored::is_not_to_go_on);
        if header.busy && !in_others_hands {
            self.open.insert(id);
        }
        let stored = header.is_over() && !self.replayed.contains(&id);
        let entry = Entry {
            name: header.name.map(String::into_boxed_str),
            defined,
            input: header.input,
            parent: header.parent.map(Box::new),
            started: header.started,
            changed: header.changed,
            condition: header.condition,
            position: header.position,
            // Whoever leads sets timers and listens, and nobody does yet.
            timers: if in_others_hands { Vec::new() } else { header.timers },
            subscriptions: if in_others_hands { Vec::new() } else { header.subscriptions },
            cancel_wanted: header.cancel_wanted,
            held: header.held,
            parked: header.parked,
            lagging: None,
            weight: header.state.len(),
            rollbacks: Vec::new(),
            touched: 0,
            custody: header
                .custody
                .map(|stored| Custody::restored(options.node, &options.times, stored)),
            copies: header.copies.map(Vec::into_boxed_slice),
            slept_with: None,
            unclaimed: Vec::new(),
            state: match stored {
                true => State::Stored,
                false => State::Asleep(Vec::from(header.state).into()),
            },
        };
        self.engine.roster.insert(id, entry);
        Ok(())
    }

    /// Whether the snapshot of a subject already holds a record.
    fn is_saved(&self, subject: Subject, position: Position) -> bool {
        self.saved.get(&subject).is_some_and(|as_of| position <= *as_of)
    }

    /// Applies one record.
    fn replay(&mut self, record: Record) -> Result<(), RecoveryError> {
        let Record { position, time, kind, .. } = record;
        self.follow(position)?;
        match kind {
            RecordKind::Opened { epoch, .. } => {
                self.engine.author.epoch = self.engine.author.epoch.max(epoch);
                self.engine.unsaved.mark(Subject::Node, position);
            }
            RecordKind::Defined(definition) => {
                let subject = Subject::Definition(definition.digest);
                if !self.is_saved(subject, position) {
                    self.define(definition, position)?;
                    self.engine.unsaved.mark(subject, position);
                }
            }
            RecordKind::Started(started) => self.replay_start(position, time, *started)?,
            RecordKind::Advanced(advanced) => self.replay_advance(position, time, *advanced),
            RecordKind::EventTaken(publication) => self.replay_event(position, publication),
            RecordKind::Custodial(custodial) => self.replay_custody(position, time, *custodial)?,
            RecordKind::RemnantDropped(remnant) => {
                self.open.remove(&remnant);
                self.dangling.remove(&remnant);
                self.engine.roster.remove(remnant);
                // Its snapshot may have outlived it: the next slice drops it from the store, before
                // the journal is cut behind the records that it lacks.
                self.engine.unsaved.mark(Subject::Execution(remnant), position);
            }
            RecordKind::Forgotten { execution, until } => {
                self.dangling.remove(&execution);
                if !self.is_saved(Subject::Execution(execution), position) {
                    self.open.remove(&execution);
                    self.engine.bury(execution, until, position);
                }
            }
        }
        Ok(())
    }

    /// Checks that no record is missing before this one.
    fn follow(&mut self, position: Position) -> Result<(), RecoveryError> {
        let before = self.engine.position;
        let expected = match self.engine.opened {
            // The first record may be older than the newest snapshot.
            Position(0) => position <= before.next(),
            last => position == last.next(),
        };
        if !expected {
            return Err(RecoveryError::Gap { before, found: position });
        }
        // Until the new life is opened, this is the last record read.
        self.engine.opened = position;
        self.engine.position = before.max(position);
        Ok(())
    }

    fn replay_start(
        &mut self,
        position: Position,
        time: Time,
        started: Started,
    ) -> Result<(), RecoveryError> {
        let id = started.execution;
        if !self.is_saved(Subject::Execution(id), position) {
            let Some(defined) = self.engine.definitions.get(&started.definition).cloned() else {
                return Err(RecoveryError::Dangling { what: format!("the definition of {id}") });
            };
            let execution: Execution = minicbor::decode(&started.state)
                .map_err(|error| RecoveryError::Snapshot(error.into()))?;
            let entry = Entry {
                name: started.name.map(String::into_boxed_str),
                weight: started.state.len(),
                ..Entry::new(defined, started.input, started.parent, time, position, execution)
            };
            self.engine.roster.insert(id, entry);
            self.engine.wake(id);
            self.touched(id, position, time);
        }
        self.deliver(position, &started.sent);
        Ok(())
    }

    fn replay_advance(&mut self, position: Position, time: Time, advanced: Advanced) {
        let id = advanced.execution;
        if !self.is_saved(Subject::Execution(id), position) {
            if self.engine.wake(id) {
                let entry = self.engine.roster.known(id);
                entry.execution_mut().apply(advanced.delta);
                entry.cancel_wanted &= !advanced.received;
                if let Some(Custody::Remnant(remnant)) = &mut entry.custody {
                    // The first thing it is told is that it is lost.
                    remnant.told = true;
                }
                raise_cursors(entry, advanced.arrived);
                self.touched(id, position, time);
            } else {
                self.dangling.insert(id);
            }
        }
        self.deliver(position, &advanced.sent);
        if let Some(publication) = advanced.published {
            self.replay_event(position, publication);
        }
    }

    /// Keeps the lines apart that a record keeps apart.
    fn replay_remnants(&mut self, position: Position, time: Time, custodial: &Custodial) {
        let id = custodial.execution;
        for (line, state) in &custodial.remnants {
            let remnant = self.engine.remnant_id(id, *line);
            let saved = self.is_saved(Subject::Execution(remnant), position);
            if !saved && self.engine.roster.get(id).is_some() {
                // Since this record, not since the newest: without it nothing of the line is stored.
                self.engine.keep_remnant(time, position, id, *line, state);
            }
        }
    }

    /// Makes the changes of an execution that several nodes hold.
    fn replay_custody(
        &mut self,
        position: Position,
        time: Time,
        mut custodial: Custodial,
    ) -> Result<(), RecoveryError> {
        let id = custodial.execution;
        if self.is_saved(Subject::Execution(id), position) {
            self.replay_remnants(position, time, &custodial);
            return Ok(());
        }
        if let Some(begun) = custodial.started.take() {
            self.engine
                .restore_beginning(begun, position)
                .map_err(|what| RecoveryError::Dangling { what: format!("{what} of {id}") })?;
        }
        if !self.engine.wake(id) {
            self.dangling.insert(id);
            return Ok(());
        }
        self.replay_remnants(position, time, &custodial);
        self.engine.replay_custody(id, &custodial);
        self.touched(id, position, time);
        self.open.remove(&id);
        Ok(())
    }

    fn replay_event(&mut self, position: Position, publication: crate::Publication) {
        let subject = Subject::Event(publication.number);
        self.engine.events.next = self.engine.events.next.max(publication.number + 1);
        self.engine.unsaved.mark(Subject::Node, position);
        if !self.is_saved(subject, position) {
            self.engine.unsaved.mark(subject, position);
            let here = self.engine.options.node;
            self.engine.events.insert(publication, here);
        }
    }

    /// An execution was changed by a record.
    fn touched(&mut self, id: ExecutionId, position: Position, time: Time) {
        self.open.insert(id);
        self.engine.unsaved.mark(Subject::Execution(id), position);
        self.engine.roster.change(id, |entry| {
            let execution = entry.execution();
            let condition = entry.condition_of(execution);
            let parked = !execution.parked().is_empty();
            entry.condition = condition;
            entry.parked = parked;
            entry.position = position;
            entry.changed = time;
        });
    }

    fn deliver(&mut self, position: Position, sent: &[Sent]) {
        for message in sent {
            let (Sent::Cancel(to) | Sent::Release(to)) = message;
            if !self.is_saved(Subject::Execution(*to), position) {
                self.engine.deliver(position, &[*message]);
            }
        }
    }

    /// Opens the new life and asks again for everything that was open.
    fn finish(mut self, now: Time) -> Result<(Engine, Vec<Output>), RecoveryError> {
        if let Some(id) = self.dangling.first() {
            return Err(RecoveryError::Dangling { what: format!("execution {id}") });
        }
        let mut step = Step { now, outputs: Vec::new(), recorded: false };
        let engine = &mut self.engine;
        // What replaying put into the queue is made again below, from what it came to.
        engine.work = FairQueue::new();
        engine.unwanted.clear();
        let epoch = Epoch(engine.author.epoch.0 + 1).max(engine.options.epoch);
        engine.author = Author::new(engine.author.node, epoch);
        let node = engine.author.node;
        // What could be read is durable.
        engine.certain.reaches(now, engine.position, engine.position);
        engine.opened = engine.record(&mut step, RecordKind::Opened { node, epoch }).0;
        engine.unsaved.mark(Subject::Node, engine.opened);
        for id in &self.open {
            engine.reopen(&mut step, *id);
        }
        engine.resume_waiting();
        engine.resume_custody(&mut step);
        engine.expire_tombstones(&mut step);
        engine.tidy(now);
        engine.settle(&mut step);
        Ok((self.engine, step.outputs))
    }
}

/// Subscriptions that were there when an event was shown have seen all up to it.
fn raise_cursors(entry: &mut Entry, arrived: Option<u64>) {
    if let Some(number) = arrived {
        for subscription in &mut entry.subscriptions {
            subscription.next = subscription.next.max(number + 1);
        }
    }
}

impl Engine {
    /// Asks again for what an execution has open. Its timers and subscriptions are set anew; a
    /// subscription that was there before goes on where it was.
    fn reopen(&mut self, step: &mut Step, id: ExecutionId) {
        if !self.wake(id) {
            return;
        }
        let entry = self.roster.known(id);
        let known = std::mem::take(&mut entry.subscriptions);
        entry.timers.clear();
        let commands = entry.execution().open_commands(&entry.defined.program, step.now);
        let (indexed, others): (Vec<_>, Vec<_>) = commands.into_iter().partition(is_indexed);
        for command in indexed {
            match command {
                Command::SetTimer { ticket, at } => {
                    self.roster.known(id).timers.push((ticket, at));
                }
                Command::Subscribe { ticket, types } => {
                    let before = known.iter().find(|other| other.ticket == ticket);
                    let next = before.map_or(0, |other| other.next);
                    let subscription = super::entry::Subscription { ticket, types, next };
                    self.roster.known(id).subscriptions.push(subscription);
                }
                _ => {}
            }
        }
        self.ask_again(step, id, others);
    }

    /// Sets the timers of all executions, has those that listen see what they have not seen, and
    /// takes up inboxes.
    fn resume_waiting(&mut self) {
        let ids: Vec<_> = self.roster.iter().map(|(id, _)| *id).collect();
        for id in ids {
            let entry = self.roster.known(id);
            let timers = entry.timers.iter().map(|(ticket, at)| (*at, id, *ticket));
            self.timers.extend(timers);
            for subscription in &entry.subscriptions {
                self.events.listen(id, subscription.types.as_deref());
            }
            if entry.cancel_wanted {
                self.queue(id, Work::Cancel);
            }
            self.catch_up(id);
        }
    }
}
