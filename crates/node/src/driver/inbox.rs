//! What reaches the driver: messages, and how far the journal is durable.
//!
//! One lock and one condition: the driver takes everything that waits at once and sleeps only when
//! there is nothing. Nobody who gives something ever waits, so that the journal's writer and the
//! tasks that make calls cannot be stopped by a busy driver. Requests are bounded by refusing them;
//! answers are bounded by the calls that were ordered, and messages of other nodes by `network`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlast_engine::{Ask, Caller, Reply};
use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::{Answer, Ticket};
use tokio::sync::oneshot;

use super::Counts;
use super::checkpoints::Stored;
use super::network::Arrived;
use crate::bell::Bell;
use crate::cluster::Cluster;
use crate::journal::Event;

/// What the driver can be told.
pub(crate) enum Message {
    /// Someone asks.
    Asked { caller: Caller, ask: Box<Ask>, reply: oneshot::Sender<Reply> },
    /// Someone who asked went away.
    Left(Caller),
    /// A call came to an end.
    Answered { execution: ExecutionId, ticket: Ticket, answer: Answer },
    /// A worker finished.
    Evaluated { execution: ExecutionId, ticket: Ticket, result: Result<Value, String> },
    /// The store took a checkpoint, or did not.
    Stored(Box<Stored>),
    /// The store gave back a snapshot, or could not.
    Fetched { execution: ExecutionId, snapshot: Result<Vec<u8>, String> },
    /// The node can talk to others.
    Connected(Cluster),
    /// Other nodes sent something.
    Received(Vec<Arrived>),
    /// These are other nodes.
    PeersMet(BTreeSet<NodeId>),
    /// The node was removed from its cluster, says another one.
    ShutOut { by: NodeId },
    /// Another process may be heard as this node.
    Doubted,
    /// Another process is heard as this node, says another one.
    TurnedAway { by: NodeId, reason: String },
    /// Someone wants to know what was counted.
    Count(oneshot::Sender<Counts>),
    /// Come to an end.
    Stop,
}

/// Whether the journal takes records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Storage {
    /// It does.
    Accepting,
    /// Not now: the disk is full.
    Full(Arc<str>),
    /// Never again: the disk failed.
    Failed(Arc<str>),
}

/// What the journal said last.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    /// Every record up to this one is on disk.
    pub(crate) durable: u64,
    /// Whether it takes more.
    pub(crate) storage: Storage,
}

/// Where the driver's work arrives.
pub(crate) struct Inbox {
    state: Mutex<State>,
    filled: Bell,
    asks_max: usize,
}

struct State {
    messages: Vec<Message>,
    /// How many of the messages are requests.
    asks: usize,
    marks: Marks,
    /// Whether the marks have changed since they were taken.
    marked: bool,
    /// Whether anyone will take anything any more.
    closed: bool,
}

/// Why a request was not taken.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// Too many wait.
    Busy,
    /// The driver has ended.
    Closed,
}

impl Inbox {
    pub(crate) fn new(asks_max: usize) -> Self {
        let marks = Marks { durable: 0, storage: Storage::Accepting };
        let state = State { messages: Vec::new(), asks: 0, marks, marked: false, closed: false };
        Self { state: Mutex::new(state), filled: Bell::default(), asks_max }
    }

    /// The state is whole between any two statements, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a message that must arrive. Says whether anyone will take it.
    pub(crate) fn give(&self, message: Message) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.messages.push(message);
        self.filled.ring(state);
        true
    }

    /// Gives a request, unless too many wait.
    pub(crate) fn ask(&self, message: Message) -> Result<(), Rejected> {
        let mut state = self.lock();
        if state.closed {
            return Err(Rejected::Closed);
        }
        if self.asks_max <= state.asks {
            return Err(Rejected::Busy);
        }
        state.asks += 1;
        state.messages.push(message);
        self.filled.ring(state);
        Ok(())
    }

    /// Takes what the journal's writer says.
    pub(crate) fn mark(&self, event: Event) {
        let mut state = self.lock();
        match event {
            Event::Durable(position) => {
                state.marks = Marks { durable: position, storage: Storage::Accepting };
            }
            Event::Refused { reason, .. } => state.marks.storage = Storage::Full(reason),
            Event::Poisoned { reason } => state.marks.storage = Storage::Failed(reason),
        }
        state.marked = true;
        self.filled.ring(state);
    }

    /// Moves all messages to the end of a list, after waiting for something to arrive for at most
    /// the time given; nothing is for ever.
    pub(crate) fn take(&self, messages: &mut Vec<Message>, wait: Option<Duration>) -> Marks {
        let is_quiet = |state: &mut State| state.messages.is_empty() && !state.marked;
        let mut state = self.lock();
        if wait != Some(Duration::ZERO) {
            state = self.filled.wait_while(state, wait, is_quiet);
        }
        state.marked = false;
        state.asks = 0;
        messages.append(&mut state.messages);
        state.marks.clone()
    }

    /// Nothing is taken any more; what waits is dropped, so that those who asked learn of it.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.messages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_requests_beyond_its_bound_and_takes_more_once_it_is_emptied() {
        let inbox = Inbox::new(2);
        let ask = || Message::Left(Caller(1));
        assert!(inbox.ask(ask()).is_ok() && inbox.ask(ask()).is_ok());
        assert!(matches!(inbox.ask(ask()), Err(Rejected::Busy)));
        inbox.give(Message::Stop);
        let mut taken = Vec::new();
        inbox.take(&mut taken, None);
        assert_eq!(taken.len(), 3);
        assert!(inbox.ask(ask()).is_ok());
    }

    #[test]
    fn a_mark_wakes_the_driver_once() {
        let inbox = Inbox::new(1);
        inbox.mark(Event::Durable(7));
        let mut taken = Vec::new();
        assert_eq!(inbox.take(&mut taken, None).durable, 7);
        let marks = inbox.take(&mut taken, Some(Duration::from_millis(1)));
        assert_eq!((marks.durable, taken.len()), (7, 0));
    }

    #[test]
    fn nothing_reaches_a_closed_inbox() {
        let inbox = Inbox::new(1);
        let (reply, waiting) = oneshot::channel();
        inbox.give(Message::Count(reply));
        inbox.close();
        assert!(waiting.blocking_recv().is_err());
        assert!(matches!(inbox.ask(Message::Stop), Err(Rejected::Closed)));
    }
}
