//! The driver: the one thread that owns the engine and carries out what it wants.
//!
//! A round takes everything that has arrived, steps the engine through it, gives the records of all
//! these steps to the journal together, and does what the engine ordered as far as the records it
//! depends on are durable. Without anything to do the thread sleeps until something arrives or the
//! engine's alarm is due.
//!
//! Invariants:
//! - No output leaves before the record it names is durable; those that wait leave in order.
//! - A record that an output waits for which somebody needs soon is on its way to the disk when the
//!   round is over. Others linger, to share a sync.
//! - A step's record is given to the journal before the next round begins.
//! - After a failed sync nothing leaves any more.

mod calls;
mod checkpoints;
mod history;
mod inbox;
mod mentions;
mod network;
mod start;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outlast_engine::{Action, Caller, Counters, Engine, Input, Output, Position, Reply, Report};
use outlast_lineage::{ExecutionId, NodeId, Time};
use tokio::sync::{broadcast, oneshot};

pub(crate) use history::History;
pub use history::HistoryLine;
pub(crate) use inbox::{Inbox, Message, Rejected};
pub(crate) use network::{keep_giving, keep_telling};
pub use start::StartError;
pub(crate) use start::{Started, start};

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::journal::{Haste, Journal, JournalError};
use crate::transport::{Dropped, Sent, checked_addresses};
use calls::Calls;
use checkpoints::Checkpoints;
use inbox::{Marks, Storage};
use mentions::Mentions;
use network::Arrived;

/// How many steps a round takes before it looks at what has arrived meanwhile.
const STEPS_PER_ROUND: usize = 1024;
/// After how many bytes of records a round ends, so that they are on their way to the disk.
const BYTES_PER_ROUND: usize = 1024 * 1024;
/// After how long a round ends, so that requests and answers are not kept waiting by loops without
/// effects, whose steps are the longest.
const ROUND_MAX: Duration = Duration::from_millis(10);
/// How many executions a removed node names in the end.
const NAMED_MAX: usize = 10;
/// How often records that a full disk did not take are offered again.
const FULL_PAUSE: Duration = Duration::from_millis(250);

/// For how long a node does nothing by itself after it was told that another process is heard as it: longer than it
/// takes until it is told so again.
const DOUBT: Duration = Duration::from_millis(1500);

/// Why a driver ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stopped {
    /// Someone asked for it; everything is stored.
    #[error("the node was stopped")]
    Asked,
    /// The disk failed. What was not acknowledged may be lost, nothing else.
    #[error(
        "the node stopped itself because its storage failed: {0}; nothing that was acknowledged is \
         lost, start it again when the disk is whole"
    )]
    StorageFailed(Arc<str>),
    /// Someone removed the node from its cluster.
    #[error(
        "this node was removed from its cluster, says node {by:016x}: no member hears it any more, and \
         its id does not come back; to take part again it needs a new data directory and a new token \
         (`outlast cluster invite` at a member){}",
        left_behind(unfinished)
    )]
    Removed {
        /// The id of the node that says so.
        by: u64,
        /// The executions that it held together with others and that had not ended for it.
        unfinished: Vec<ExecutionId>,
    },
    /// Another process is heard as this node: one of the two uses a copy of the data directory of the other.
    #[error(
        "another process runs as this node: node {by:016x} does not let this one in ({reason}); only one is heard, \
         so this one has ended"
    )]
    TurnedAway {
        /// The id of the node that says so.
        by: u64,
        /// What it says.
        reason: String,
    },
    /// Something that must always hold did not. What is recorded is whole.
    #[error("the node stopped itself because of a mistake in it; start it again")]
    Broken,
}

/// What a removed node says of the executions that it can do nothing for any more.
fn left_behind(unfinished: &[ExecutionId]) -> String {
    if unfinished.is_empty() {
        return String::new();
    }
    let named: Vec<_> = unfinished.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = match unfinished.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "; executions that it held with others and that had not ended for it: {} ({}{more}); what it did \
         in runs of them that do not count stays done, and is written down in its data directory alone: \
         keep that (`outlast data backup` copies it; docs/operations.md says how to look into it)",
        unfinished.len(),
        named.join(", ")
    )
}

/// What a driver and its engine counted, and what is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// What the engine counted.
    pub engine: Counters,
    /// Calls and evaluations under way.
    pub calls: usize,
    /// Requests that wait for their reply.
    pub callers: usize,
}

/// Owns the engine.
pub(crate) struct Driver {
    engine: Engine,
    clock: Arc<Clock>,
    inbox: Arc<Inbox>,
    journal: Arc<Journal>,
    calls: Calls,
    checkpoints: Checkpoints,
    history: Arc<History>,
    reports: broadcast::Sender<Arc<Report>>,
    /// The way to other nodes, if there are any.
    network: Option<Cluster>,
    /// Messages to them that nobody waits for.
    mentions: Mentions,
    /// Who waits for a reply.
    callers: BTreeMap<Caller, oneshot::Sender<Reply>>,
    /// Answers that came at once and are inputs of the next steps.
    answers: VecDeque<Input>,
    /// Records that the journal has not been given yet.
    records: Vec<Vec<u8>>,
    record_bytes: usize,
    /// What waits for its record, in the order in which it leaves.
    held: VecDeque<(Position, Action)>,
    /// Empty between steps: the room for the outputs of one.
    outputs: Vec<Output>,
    /// What the round under way sends, by the node it goes to, oldest first.
    outgoing: BTreeMap<NodeId, Vec<Bytes>>,
    durable: Position,
    /// What the journal was told that this driver knows to be durable.
    noted: Position,
    /// The newest record that somebody waits for, and the newest that was hastened.
    awaited: Position,
    hastened: Position,
    alarm: Option<Time>,
    full: bool,
    stopping: bool,
    /// Who said that this node was removed from its cluster.
    shut_out_by: Option<NodeId>,
    /// Who said that it hears another process as this node, and what it said.
    turned_away: Option<(NodeId, String)>,
    /// Until when it does nothing by itself, because another process may be heard as this node.
    doubted_until: Option<Time>,
    /// Whether the wall clock was found to have parted from the node's.
    parted: bool,
}

impl Driver {
    /// Drives until the end, and says why it came.
    pub(crate) fn run(mut self) -> Stopped {
        let mut messages = Vec::new();
        let stopped = loop {
            let wait = self.pause();
            let marks = self.inbox.take(&mut messages, wait);
            if let Err(stopped) = self.round(marks, &mut messages) {
                break stopped;
            }
            if self.stopping && self.is_settled() {
                if let Some((NodeId(by), reason)) = self.turned_away.take() {
                    break Stopped::TurnedAway { by, reason };
                }
                let Some(NodeId(by)) = self.shut_out_by else { break Stopped::Asked };
                let unfinished = self.engine.unfinished_with_others().collect();
                break Stopped::Removed { by, unfinished };
            }
        };
        self.inbox.close();
        self.calls.end();
        self.checkpoints.end();
        stopped
    }

    /// One round: what arrived, what is due, what waits for its turn.
    fn round(&mut self, marks: Marks, messages: &mut Vec<Message>) -> Result<(), Stopped> {
        self.note(marks)?;
        for message in messages.drain(..) {
            self.take(message);
        }
        let now = self.clock.now();
        let stands_still = self.stands_still_for(now).is_some();
        if !stands_still && self.alarm.is_some_and(|alarm| alarm <= now) {
            self.alarm = None;
            self.look_at_the_wall_clock();
            self.step(Input::AlarmRang);
        }
        if !stands_still {
            self.work();
        }
        if self.mentions.are_due(now) || self.stopping {
            for (to, message) in self.mentions.take_all() {
                self.outgoing.entry(to).or_default().push(message.into());
            }
        }
        if let Some(max) = self.checkpoints.due(self.engine.position(), now) {
            self.step(Input::SnapshotWanted { max });
        }
        // The disk is to begin while messages are written.
        self.flush()?;
        self.post();
        if std::mem::replace(&mut self.noted, self.durable) < self.durable {
            self.journal.note(self.durable.0);
        }
        Ok(())
    }

    /// How long the inbox may keep the driver waiting.
    fn pause(&self) -> Option<Duration> {
        if let Some(still) = self.stands_still_for(self.clock.now()) {
            return Some(still);
        }
        if !self.answers.is_empty() || (self.engine.has_work() && !self.stopping) {
            return Some(Duration::ZERO);
        }
        if self.full && !self.records.is_empty() {
            return Some(FULL_PAUSE);
        }
        let next = [self.alarm, self.checkpoints.next(), self.mentions.due()];
        let next = next.into_iter().flatten().min()?;
        Some(next.since(self.clock.now()))
    }

    /// For how long it does nothing by itself: a copy of the data directory that took the others for lost would go
    /// on alone, and nobody would undo what it does. To those it is as if it had been stopped for a moment.
    fn stands_still_for(&self, now: Time) -> Option<Duration> {
        let until = self.doubted_until.filter(|until| now < *until && !self.stopping)?;
        Some(until.since(now))
    }

    /// Takes what the journal says, and lets go what waited for it.
    fn note(&mut self, marks: Marks) -> Result<(), Stopped> {
        match marks.storage {
            Storage::Accepting if self.full && self.flush_full()? => {
                tracing::info!("the disk takes records again");
                self.full = false;
                self.step(Input::StorageFreed);
            }
            Storage::Full(reason) if !self.full => self.fill(&reason),
            Storage::Failed(reason) => return Err(Stopped::StorageFailed(reason)),
            Storage::Accepting | Storage::Full(_) => {}
        }
        if self.durable.0 < marks.durable {
            self.durable = Position(marks.durable);
            self.step(Input::Durable(self.durable));
        }
        while let Some((after, _)) = self.held.front()
            && *after <= self.durable
        {
            let (_, action) = self.held.pop_front().expect("there is a first");
            self.carry_out(action);
        }
        Ok(())
    }

    fn fill(&mut self, reason: &str) {
        tracing::error!(reason, "the disk is full; no new work is accepted until there is room");
        self.full = true;
        self.step(Input::StorageFull);
    }

    /// Offers the journal what it did not take before. Says whether it has everything now.
    fn flush_full(&mut self) -> Result<bool, Stopped> {
        self.flush()?;
        Ok(self.records.is_empty())
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Asked { caller, ask, reply } => {
                self.callers.insert(caller, reply);
                self.step(Input::Asked { caller, ask: *ask });
            }
            Message::Left(caller) => {
                if self.callers.remove(&caller).is_some() {
                    self.step(Input::CallerLeft(caller));
                }
            }
            Message::Answered { execution, ticket, answer } => {
                self.calls.ended(execution, ticket);
                self.step(Input::Answered { execution, ticket, answer });
            }
            Message::Evaluated { execution, ticket, result } => {
                self.calls.ended(execution, ticket);
                self.step(Input::Evaluated { execution, ticket, result });
            }
            Message::Stored(stored) => {
                if self.checkpoints.stored(*stored, self.clock.now()) {
                    self.step(Input::Stored);
                }
            }
            Message::Fetched { execution, snapshot } => {
                self.step(Input::Fetched { execution, snapshot });
            }
            Message::Connected(cluster) => self.connect(cluster),
            Message::Received(batch) => {
                for Arrived { from, message, room } in batch {
                    self.step(Input::Received { from, message: message.into() });
                    drop(room);
                }
            }
            Message::PeersMet(others) => self.step(Input::PeersMet(others)),
            // Whoever no longer wants to know needs no answer.
            Message::Count(reply) => drop(reply.send(self.counts())),
            Message::ShutOut { by } => {
                self.shut_out_by = Some(by);
                self.stopping = true;
            }
            Message::Doubted => self.doubted_until = Some(self.clock.now().after(DOUBT)),
            Message::TurnedAway { by, reason } => {
                self.turned_away = Some((by, reason));
                self.stopping = true;
            }
            Message::Stop => {
                self.stopping = true;
                self.step(Input::Leaving);
            }
        }
    }

    /// Steps through answers and waiting work in turn, within bounds.
    fn work(&mut self) {
        let began = self.clock.now();
        for _ in 0..STEPS_PER_ROUND {
            let answered = self.answers.pop_front().map(|answer| self.step(answer)).is_some();
            let has_work = self.engine.has_work() && !self.stopping;
            if has_work {
                self.step(Input::Turn);
            }
            if !(answered || has_work) || BYTES_PER_ROUND < self.record_bytes {
                return;
            }
            if ROUND_MAX <= self.clock.now().since(began) {
                return;
            }
        }
    }

    fn step(&mut self, input: Input) {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.engine.step_into(self.clock.now(), input, &mut outputs);
        self.sort(&mut outputs);
        self.outputs = outputs;
    }

    /// Does what may be done now and holds the rest back.
    fn sort(&mut self, outputs: &mut Vec<Output>) {
        for Output { after, action } in outputs.drain(..) {
            match after {
                Some(after) if self.durable < after => {
                    if action.is_awaited() {
                        self.awaited = self.awaited.max(after);
                    }
                    self.held.push_back((after, action));
                }
                _ => self.carry_out(action),
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Persist { record, .. } => {
                self.checkpoints.recorded(record.len(), self.clock.now());
                self.record_bytes += record.len();
                self.records.push(record);
            }
            // After the end was asked for, nothing new begins; the next life asks again.
            Action::Call { .. } | Action::Evaluate { .. } if self.stopping => {}
            Action::Call { execution, ticket, request, .. } => {
                if let Some(answer) = self.calls.call(execution, ticket, request) {
                    self.answers.push_back(Input::Answered { execution, ticket, answer });
                }
            }
            Action::Abandon { execution, ticket } => self.calls.abandon(execution, ticket),
            Action::Evaluate { execution, ticket, request } => {
                self.calls.evaluate(execution, ticket, *request);
            }
            Action::SetAlarm(alarm) => self.alarm = alarm,
            Action::Reply { caller, reply } => {
                if let Some(waiting) = self.callers.remove(&caller) {
                    // Whoever no longer waits needs no answer.
                    let _ = waiting.send(reply);
                }
            }
            Action::Snapshot { subject, as_of, bytes } => {
                self.checkpoints.snapshot(subject, as_of, bytes);
            }
            Action::Compactable { replay_from } => self.checkpoints.compactable(replay_from),
            Action::Fetch(execution) => self.checkpoints.fetch(execution),
            Action::Forget(subject) => self.checkpoints.forget(subject),
            Action::Report(report) => self.report(report),
            Action::Send { to, message } => self.send(to, message),
            Action::Mention { to, message } => self.mentions.add(self.clock.now(), to, message),
            Action::Meet { node, addresses } => self.meet(node, addresses),
            Action::ShutOut(node) => self.shut_out(node),
            Action::Compile(definition) => {
                if let Ok(program) = start::compile(&definition) {
                    self.answers.push_back(Input::Compiled { definition, program });
                }
            }
        }
    }

    /// Others can be talked to from now on.
    fn connect(&mut self, cluster: Cluster) {
        let addresses = cluster.transport().advertised().to_vec();
        let release = env!("CARGO_PKG_VERSION").to_owned();
        self.network = Some(cluster);
        self.step(Input::Reachable { addresses, release });
    }

    /// Goes to a node where it says that it is.
    fn meet(&self, node: NodeId, addresses: Vec<String>) {
        let Some(network) = &self.network else { return };
        if let Some(addresses) = checked_addresses(addresses) {
            network.transport().know(node, addresses);
        }
    }

    /// Has it kept that a node is gone for good; that waits for the disk, and nobody waits for it.
    fn shut_out(&self, node: NodeId) {
        let Some(network) = self.network.clone() else { return };
        let keeping = std::thread::Builder::new().name("removal".into()).spawn(move || {
            if let Err(error) = network.remove(node) {
                let node = format!("{:016x}", node.0);
                tracing::error!(node, %error, "that a node was removed could not be kept");
            }
        });
        if let Err(error) = keeping {
            tracing::error!(%error, "that a node was removed could not be kept");
        }
    }

    /// Sends, after what was only mentioned to the same node before.
    fn send(&mut self, to: NodeId, message: Vec<u8>) {
        let mentioned = self.mentions.take(to).into_iter();
        self.outgoing.entry(to).or_default().extend(mentioned.chain([message]).map(Bytes::from));
    }

    /// Sends what the round has for each of the others, or drops what cannot be sent: the engine repeats
    /// what matters.
    fn post(&mut self) {
        let Some(network) = &self.network else { return self.outgoing.clear() };
        for (to, messages) in &mut self.outgoing {
            if messages.is_empty() {
                continue;
            }
            let bytes = messages.iter().map(Bytes::len).max().unwrap_or(0);
            let sent = network.transport().send_together(*to, std::mem::take(messages));
            if sent == Sent::Dropped(Dropped::TooLarge) {
                let to = format!("{:016x}", to.0);
                tracing::warn!(to, bytes, "a message is too large for other nodes and was dropped");
            }
        }
    }

    /// Keeps what happened, and tells whoever watches.
    fn report(&mut self, report: Report) {
        if let Report::Happened { execution, position, time, happenings } = &report {
            self.history.keep(*execution, *position, *time, happenings);
        }
        if 0 < self.reports.receiver_count() {
            // Nobody may be left to hear it.
            let _ = self.reports.send(Arc::new(report));
        }
    }

    /// Gives the round's records to the journal.
    fn flush(&mut self) -> Result<(), Stopped> {
        let haste = match self.hastened < self.awaited || self.stopping {
            true => Haste::Awaited,
            false => Haste::Lingering,
        };
        if self.records.is_empty() {
            if haste == Haste::Awaited {
                self.journal.hasten();
                self.hastened = self.engine.position();
            }
            return Ok(());
        }
        match self.journal.append_all(&self.records, haste) {
            Ok(last) => {
                let expected = self.engine.position();
                assert_eq!(last, expected.0, "engine and journal count the same records");
                if haste == Haste::Awaited {
                    self.hastened = expected;
                }
                self.records.clear();
                self.record_bytes = 0;
                Ok(())
            }
            Err(JournalError::Full(reason)) => {
                if !self.full {
                    self.fill(&reason);
                }
                Ok(())
            }
            Err(error) => Err(Stopped::StorageFailed(error.to_string().into())),
        }
    }

    fn counts(&self) -> Counts {
        let (calls, callers) = (self.calls.under_way(), self.callers.len());
        Counts { engine: self.engine.counters(), calls, callers }
    }

    /// Whether everything that was done is stored and told.
    fn is_settled(&self) -> bool {
        let stored = self.records.is_empty() && self.held.is_empty();
        // A full disk may stay full: what waits for it was never acknowledged.
        self.full || (stored && self.answers.is_empty())
    }

    fn look_at_the_wall_clock(&mut self) {
        let parted = self.clock.parted();
        if let Some(apart) = parted.filter(|_| !self.parted) {
            let apart = apart.as_secs();
            tracing::warn!(
                apart_seconds = apart,
                "the wall clock was changed; timers go on by the clock of this node, which follows \
                 the wall clock again after a restart"
            );
        }
        self.parted = parted.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_node_names_some_of_what_it_held_and_counts_the_rest() {
        let said = |count: u8| {
            let unfinished = (0..count).map(|number| ExecutionId::from_time(0, [number; 10]));
            Stopped::Removed { by: 1, unfinished: unfinished.collect() }.to_string()
        };
        assert!(said(0).ends_with("(`outlast cluster invite` at a member)"), "{}", said(0));
        assert!(said(2).contains("had not ended for it: 2 (") && !said(2).contains("more)"));
        let many = said(13);
        assert!(many.contains("had not ended for it: 13 (") && many.contains(" and 3 more)"));
    }
}
