//! Starting: the data directory, the clock, and an engine as the last life left it.

use std::io;
use std::sync::Arc;

use outlast_engine::{
    Definition, Engine, EngineOptions, Input, Output, Position, Record, RecordKind, RecoveryError,
    Report,
};
use outlast_lineage::{ExecutionId, Time};
use outlast_workflow::Program;
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use super::Driver;
use super::calls::Calls;
use super::checkpoints::Checkpoints;
use super::history::History;
use super::inbox::Inbox;
use super::mentions::Mentions;
use crate::clock::Clock;
use crate::cluster::{self, ClusterError};
use crate::configuration::Configuration;
use crate::data::{self, DataError, Lock, Meta, Opened};
use crate::journal::{JournalError, Records};
use crate::services::{self, Caller};
use crate::store::{Store, StoreError};
use crate::{random, workers};

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What makes the node a member of a cluster cannot be read.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// What is stored cannot be made into an engine.
    #[error("what is stored in {directory} cannot be used")]
    Recovery {
        /// The data directory.
        directory: String,
        /// Why.
        #[source]
        source: RecoveryError,
    },
    /// Journal and snapshots do not fit together.
    #[error(
        "{directory} is damaged: its snapshots reach to record {engine} and its journal to record \
         {journal}; restore a backup (`outlast data restore`)"
    )]
    Apart {
        /// The data directory.
        directory: String,
        /// How far the snapshots and records reach.
        engine: u64,
        /// How far the journal reaches.
        journal: u64,
    },
    /// The operating system refused something.
    #[error("cannot {action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

/// A node that is ready to be driven.
pub(crate) struct Started {
    pub(crate) driver: Driver,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) history: Arc<History>,
    pub(crate) store: Arc<Store>,
    pub(crate) journal: Arc<crate::journal::Journal>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) meta: Meta,
    /// Held as long as the node runs.
    pub(crate) lock: Lock,
}

/// What the journal has beyond the store.
struct Tail {
    records: Vec<Vec<u8>>,
    /// The newest time that was recorded.
    newest: Time,
    /// Executions that were forgotten, whose history the store may still have.
    forgotten: Vec<ExecutionId>,
}

/// Opens the data directory and brings the engine back. Calls are made on the runtime given.
pub(crate) fn start(
    configuration: Configuration,
    runtime: Handle,
    reports: broadcast::Sender<Arc<Report>>,
) -> Result<Started, StartError> {
    let inbox = Arc::new(Inbox::new(configuration.asks_max));
    let marks = Arc::clone(&inbox);
    let number = u64::from_le_bytes(random::bytes());
    let Opened { meta, store, journal, recovered, lock } = data::open(
        &configuration.directory,
        number,
        configuration.journal.clone(),
        move |event| marks.mark(event),
    )?;
    if let Some(torn) = &recovered.torn {
        tracing::warn!("{torn}");
    }
    let history = Arc::new(History::default());
    let tail = read_tail(recovered.records, store.mark()?, &history)?;
    let clock = Arc::new(Clock::start(tail.newest));
    let directory = configuration.directory.display().to_string();
    let durable = journal.durable();
    let (engine, outputs) =
        recover(&configuration, &meta, &store, tail.records, clock.now(), &directory)?;
    // Coming back writes exactly one record, the one that opens the new life.
    if engine.position().0 != durable + 1 {
        let (engine, journal) = (engine.position().0 - 1, durable);
        return Err(StartError::Apart { directory, engine, journal });
    }
    let (store, journal) = (Arc::new(store), Arc::new(journal));
    let thread = |source| StartError::Io { action: "start a thread", source };
    let mut checkpoints = Checkpoints::start(
        configuration.checkpoints,
        Arc::clone(&history),
        Arc::clone(&store),
        Arc::clone(&journal),
        Arc::clone(&inbox),
    )
    .map_err(thread)?;
    for execution in tail.forgotten {
        checkpoints.drop_history(execution);
    }
    let (others, removed) = cluster::others_of(&configuration.directory, meta.node)?;
    let calls = calls(configuration, runtime, &clock, &inbox)?;
    let mut driver = Driver {
        engine,
        clock: Arc::clone(&clock),
        inbox: Arc::clone(&inbox),
        journal: Arc::clone(&journal),
        calls,
        checkpoints,
        history: Arc::clone(&history),
        reports,
        network: None,
        mentions: Mentions::default(),
        callers: Default::default(),
        answers: Default::default(),
        records: Vec::new(),
        record_bytes: 0,
        held: Default::default(),
        outputs: Vec::new(),
        outgoing: Default::default(),
        durable: Position(durable),
        awaited: Position(durable),
        hastened: Position(durable),
        noted: Position(durable),
        alarm: None,
        full: false,
        stopping: false,
        shut_out_by: None,
        turned_away: None,
        doubted_until: None,
        parted: false,
    };
    driver.begin(durable, outputs);
    // Before anything else: it makes a difference to whatever is held together with them.
    driver.step(Input::PeersMet(others));
    driver.step(Input::PeersRemoved(removed));
    Ok(Started { driver, inbox, history, store, journal, clock, meta, lock })
}

impl Driver {
    /// Takes what the engine wants first.
    fn begin(&mut self, durable: u64, mut outputs: Vec<Output>) {
        self.inbox.mark(crate::journal::Event::Durable(durable));
        self.sort(&mut outputs);
    }
}

/// Reads the records that the store does not cover, and the last one that it does.
fn read_tail(records: Records, mark: u64, history: &History) -> Result<Tail, StartError> {
    let mut tail = Tail { records: Vec::new(), newest: Time::default(), forgotten: Vec::new() };
    for record in records {
        let record = record?;
        if record.position < mark {
            continue;
        }
        // A record that cannot be read is reported by the engine, which must read it too.
        if let Ok(decoded) = Record::decode(&record.bytes) {
            tail.newest = tail.newest.max(decoded.time);
            if mark < record.position {
                remember(decoded, history, &mut tail.forgotten);
            }
        }
        tail.records.push(record.bytes);
    }
    Ok(tail)
}

/// Takes the history out of a record.
fn remember(record: Record, history: &History, forgotten: &mut Vec<ExecutionId>) {
    let Record { position, time, kind, .. } = record;
    let (execution, happenings) = match kind {
        RecordKind::Started(started) => (started.execution, started.happenings),
        RecordKind::Advanced(advanced) => {
            (advanced.of.unwrap_or(advanced.execution), advanced.happenings)
        }
        RecordKind::Forgotten { execution, .. } => {
            history.forget(execution);
            return forgotten.push(execution);
        }
        RecordKind::Custodial(custodial) => (custodial.execution, custodial.told()),
        RecordKind::Opened { .. }
        | RecordKind::Defined(_)
        | RecordKind::EventTaken(_)
        | RecordKind::RemnantDropped(_) => return,
    };
    if !happenings.is_empty() {
        history.keep(execution, position, time, &happenings);
    }
}

fn recover(
    configuration: &Configuration,
    meta: &Meta,
    store: &Store,
    records: Vec<Vec<u8>>,
    now: Time,
    directory: &str,
) -> Result<(Engine, Vec<Output>), StartError> {
    let options = EngineOptions {
        epoch: meta.epoch,
        salt: random::bytes(),
        limits: configuration.limits.clone(),
        retention: configuration.retention.clone(),
        quota: configuration.quota.clone(),
        quotas: configuration.quotas.clone(),
        awake_max: configuration.awake_max,
        ..EngineOptions::new(meta.node)
    };
    let mut unreadable = None;
    let snapshots = store
        .load_subjects()?
        .map_while(|read| read.map_err(|error| unreadable = Some(error)).ok());
    let recovered = Engine::recover(options, now, snapshots, records, &mut compile);
    if let Some(error) = unreadable {
        return Err(error.into());
    }
    recovered.map_err(|source| {
        let directory = directory.to_owned();
        StartError::Recovery { directory, source }
    })
}

/// Makes a program of a stored definition.
pub(super) fn compile(definition: &Definition) -> Result<Arc<Program>, String> {
    outlast_languages::openworkflow::compile(&definition.text)
        .map_err(|report| report.render(&definition.text, false))
}

fn calls(
    configuration: Configuration,
    runtime: Handle,
    clock: &Arc<Clock>,
    inbox: &Arc<Inbox>,
) -> Result<Calls, StartError> {
    let settings = match configuration.workers {
        Some(settings) => settings,
        None => workers::Settings::of_this_program()
            .map_err(|source| StartError::Io { action: "find this program", source })?,
    };
    let deadlines = Arc::clone(clock);
    let options =
        services::Options { clock: Arc::new(move || deadlines.now()), ..configuration.services };
    Ok(Calls::new(
        runtime,
        Caller::new(options, configuration.catalog),
        configuration.secrets,
        workers::Pool::new(settings),
        Arc::clone(inbox),
        configuration.calls_max,
    ))
}
