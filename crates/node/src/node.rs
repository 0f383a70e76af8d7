//! A node in this process: started from a configuration, asked through a handle.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use outlast_engine::{Ask, Caller, Position, Refusal, Reply, Report};
use outlast_lineage::{ExecutionId, Time};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::configuration::Configuration;
use crate::data::{self, DataError, Lock, Meta};
use crate::driver::{
    self, Counts, History, HistoryLine, Inbox, Message, Rejected, StartError, Stopped,
};
use crate::journal::{Journal, JournalError};
use crate::random;
use crate::relay::Relay;
use crate::store::{Store, StoreError};
use crate::transport::Event;

/// How many reports a watcher may be behind before it misses some. A report of a loop without effects
/// tells of a thousand turns, so this bounds memory more than it seems.
const REPORTS_KEPT: usize = 128;

/// A node that runs in this process.
pub struct Node;

/// The node has stopped; nothing will be answered any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the node has stopped")]
pub struct Gone;

/// A way to talk to a node. Cheap to clone; the node runs until `shutdown`.
#[derive(Clone)]
pub struct NodeHandle {
    inner: Arc<Inner>,
}

struct Inner {
    inbox: Arc<Inbox>,
    history: Arc<History>,
    store: Arc<Store>,
    journal: Arc<Journal>,
    clock: Arc<Clock>,
    meta: Meta,
    reports: broadcast::Sender<Arc<Report>>,
    stopped: watch::Receiver<Option<Stopped>>,
    callers: AtomicU64,
}

/// What the journal counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalCounts {
    /// How many syncs of records there were.
    pub syncs: u64,
    /// How long the oldest record that is not durable has been waiting.
    pub lag: Duration,
    /// Every record up to here is durable.
    pub durable: Position,
}

impl Node {
    /// Opens the data directory, brings back what an earlier life left, and goes on with it.
    ///
    /// Blocks while it reads the disk. Calls are made on the tokio runtime given.
    pub fn start(configuration: Configuration, runtime: &Handle) -> Result<NodeHandle, StartError> {
        let (reports, _) = broadcast::channel(REPORTS_KEPT);
        let started = driver::start(configuration, runtime.clone(), reports.clone())?;
        let driver::Started { driver, inbox, history, store, journal, clock, meta, lock } = started;
        let (tell, stopped) = watch::channel(None);
        let kept = (Arc::clone(&journal), Arc::clone(&store));
        thread::Builder::new()
            .name("driver".into())
            .spawn(move || drive(driver, &tell, kept, lock))
            .map_err(|source| StartError::Io { action: "start a thread", source })?;
        let callers = AtomicU64::new(1);
        let inner =
            Inner { inbox, history, store, journal, clock, meta, reports, stopped, callers };
        Ok(NodeHandle { inner: Arc::new(inner) })
    }
}

/// Drives to the end and tells of it; the directory stays locked until then.
fn drive(
    driver: driver::Driver,
    tell: &watch::Sender<Option<Stopped>>,
    kept: (Arc<Journal>, Arc<Store>),
    lock: Lock,
) {
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.run()));
    // A broken invariant of the engine is no reason to go on: what is recorded is whole, and the
    // next life begins from there.
    let stopped = run.unwrap_or(Stopped::Broken);
    drop(kept);
    drop(lock);
    tell.send_replace(Some(stopped));
}

/// Tells the driver when someone who asked goes away before the reply.
struct Leaving<'a> {
    inbox: &'a Inbox,
    caller: Caller,
    replied: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.replied {
            self.inbox.give(Message::Left(self.caller));
        }
    }
}

impl NodeHandle {
    /// Asks for something and waits for the reply. Dropping the future withdraws from waiting, not
    /// what was asked for.
    pub async fn ask(&self, ask: Ask) -> Result<Reply, Gone> {
        let inner = &*self.inner;
        let caller = Caller(inner.callers.fetch_add(1, Ordering::Relaxed));
        let (reply, waiting) = oneshot::channel();
        match inner.inbox.ask(Message::Asked { caller, ask: Box::new(ask), reply }) {
            Ok(()) => {}
            Err(Rejected::Closed) => return Err(Gone),
            Err(Rejected::Busy) => return Ok(busy()),
        }
        let mut leaving = Leaving { inbox: &inner.inbox, caller, replied: false };
        let replied = waiting.await;
        leaving.replied = true;
        replied.map_err(|_| Gone)
    }

    /// Lets the node talk to the other members of its cluster, and gives what passes requests on to
    /// them. Runs on the runtime it is called in, until the node stops.
    pub fn connect(&self, cluster: &Cluster, events: mpsc::Receiver<Event>) -> Relay {
        let relay = Relay::new(cluster.transport().clone());
        let inbox = &self.inner.inbox;
        inbox.give(Message::Connected(cluster.clone()));
        tokio::spawn(driver::keep_telling(Arc::clone(inbox), cluster.clone()));
        tokio::spawn(driver::keep_giving(Arc::clone(inbox), relay.clone(), events));
        relay
    }

    /// What happens from now on. A watcher that falls behind misses some.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Report>> {
        self.inner.reports.subscribe()
    }

    /// The history of an execution from a record on, at most so many lines.
    pub async fn history(
        &self,
        execution: ExecutionId,
        from: Position,
        limit: usize,
    ) -> Result<Vec<HistoryLine>, StoreError> {
        let inner = Arc::clone(&self.inner);
        let reading = tokio::task::spawn_blocking(move || {
            inner.history.read(&inner.store, execution, from, limit)
        });
        reading.await.expect("reading a history does not panic")
    }

    /// Copies the data into a directory that must be new or empty, while the node goes on.
    pub async fn backup(&self, target: PathBuf) -> Result<(), DataError> {
        let inner = Arc::clone(&self.inner);
        let copying = tokio::task::spawn_blocking(move || {
            data::backup_running(&inner.meta, &inner.store, &inner.journal, &target)
        });
        copying.await.expect("copying data does not panic")
    }

    /// What the driver and its engine counted.
    pub async fn counts(&self) -> Result<Counts, Gone> {
        let (reply, waiting) = oneshot::channel();
        self.inner.inbox.ask(Message::Count(reply)).map_err(|_| Gone)?;
        waiting.await.map_err(|_| Gone)
    }

    /// What the journal counted.
    pub fn journal(&self) -> JournalCounts {
        let journal = &self.inner.journal;
        JournalCounts {
            syncs: journal.syncs(),
            lag: journal.lag(),
            durable: Position(journal.durable()),
        }
    }

    /// Whether the disk takes records.
    pub fn storage(&self) -> Result<(), JournalError> {
        self.inner.journal.condition()
    }

    /// The node's time.
    pub fn now(&self) -> Time {
        self.inner.clock.now()
    }

    /// Who the node is.
    pub fn meta(&self) -> &Meta {
        &self.inner.meta
    }

    /// A new id for an execution, later than all before.
    pub fn new_id(&self) -> ExecutionId {
        ExecutionId::from_time(self.now().as_millis(), random::bytes())
    }

    /// Why the node stopped; waits until it does.
    pub async fn stopped(&self) -> Stopped {
        let mut stopped = self.inner.stopped.clone();
        let told = stopped.wait_for(Option::is_some).await;
        told.ok().and_then(|told| told.clone()).unwrap_or(Stopped::Broken)
    }

    /// Stops the node: what is recorded is stored, what is under way is broken off and asked for
    /// again by the next life.
    pub async fn shutdown(&self) -> Stopped {
        self.inner.inbox.give(Message::Stop);
        self.stopped().await
    }
}

fn busy() -> Reply {
    let reason = "the node has more requests than it can take".to_owned();
    Reply::Refused(Refusal::Busy { reason, retry_after: Some(Duration::from_secs(1)) })
}
