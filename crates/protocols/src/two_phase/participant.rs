//! The participant: says when it is ready, and forgets when it is told that all are.
//!
//! Invariants:
//! - It says that it is ready only after that is on disk, and stays ready.
//! - It forgets nothing before it is ready, whoever says so.

use std::collections::BTreeSet;
use std::time::Duration;

use minicbor::{Decode, Encode};
use outlast_lineage::{NodeId, Time};

use super::Message;

/// One that can forget only together with all others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Participant {
    /// The other replicas: any of them may coordinate.
    peers: BTreeSet<NodeId>,
    patience: Duration,
    record: Option<Record>,
    /// Who asked before it was ready.
    askers: BTreeSet<NodeId>,
}

/// Everything a participant may not forget. Each record replaces the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub enum Record {
    /// It needs nothing any more.
    #[n(0)]
    Ready,
    /// It has forgotten: the end record. All before it may be pruned.
    #[n(1)]
    Ended,
}

/// What a participant can be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// The owner needs nothing any more: all that it had to undo is undone.
    Finished {
        /// Who is expected to coordinate, if that is another node: it is told unasked.
        coordinator: Option<NodeId>,
    },
    /// The owner's own coordinator found all ready.
    Committed,
    /// A message arrived.
    Received {
        /// Who sent it, as the channel says.
        from: NodeId,
        /// What it says.
        message: Message,
    },
    /// The time of a timer has come.
    TimerFired(Timer),
    /// The machine was made from its last record; the first input of a new life.
    Restarted,
}

/// What a participant wants done. Each waits for all records ordered before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Write this record in place of the last one.
    Persist(Record),
    /// Send a message.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: Message,
    },
    /// Give `Input::TimerFired` at this time.
    SetTimer {
        /// Which timer.
        timer: Timer,
        /// When.
        at: Time,
    },
    /// The owner forgets everything but the end record.
    Forget,
}

/// What a participant waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// It is ready, and should have been told to forget.
    OutcomeOverdue,
}

impl Participant {
    /// A participant that is not ready. `patience` is after how long it asks what became of it.
    pub fn new(peers: BTreeSet<NodeId>, patience: Duration) -> Self {
        Self { peers, patience, record: None, askers: BTreeSet::new() }
    }

    /// A participant in a new life, from the last record of its old one.
    pub fn restored(peers: BTreeSet<NodeId>, patience: Duration, record: Record) -> Self {
        Self { record: Some(record), ..Self::new(peers, patience) }
    }

    /// Takes one input, and says what is to be done.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        let outputs = match input {
            Input::Finished { coordinator } => self.finish(now, coordinator),
            Input::Committed => self.forget(),
            Input::Received { from, message } if self.peers.contains(&from) => {
                self.receive(from, message)
            }
            Input::Received { .. } => Vec::new(),
            Input::TimerFired(Timer::OutcomeOverdue) => self.inquire(now),
            Input::Restarted => self.restart(now),
        };
        self.assert_invariants();
        outputs
    }

    fn finish(&mut self, now: Time, coordinator: Option<NodeId>) -> Vec<Output> {
        if self.record.is_some() {
            return Vec::new();
        }
        let mut outputs = self.persist(Record::Ready);
        let mut askers = std::mem::take(&mut self.askers);
        askers.extend(coordinator.filter(|node| self.peers.contains(node)));
        outputs.extend(askers.into_iter().map(prepared));
        outputs.push(self.outcome_timer(now));
        outputs
    }

    fn receive(&mut self, from: NodeId, message: Message) -> Vec<Output> {
        match (self.record, message) {
            (None, Message::Prepare) => {
                self.askers.insert(from);
                Vec::new()
            }
            (Some(Record::Ready), Message::Prepare) => vec![prepared(from)],
            (Some(Record::Ready), Message::Forget) => {
                let mut outputs = self.forget();
                outputs.push(Output::Send { to: from, message: Message::Forgotten });
                outputs
            }
            (Some(Record::Ended), message) => {
                let answer = Self::answer_when_pruned(message);
                answer.map(|message| Output::Send { to: from, message }).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn forget(&mut self) -> Vec<Output> {
        if self.record != Some(Record::Ready) {
            return Vec::new();
        }
        let mut outputs = self.persist(Record::Ended);
        outputs.push(Output::Forget);
        outputs
    }

    fn inquire(&self, now: Time) -> Vec<Output> {
        if self.record != Some(Record::Ready) {
            return Vec::new();
        }
        let send = |to: &NodeId| Output::Send { to: *to, message: Message::Inquire };
        let mut outputs: Vec<Output> = self.peers.iter().map(send).collect();
        outputs.push(self.outcome_timer(now));
        outputs
    }

    fn restart(&self, now: Time) -> Vec<Output> {
        match self.record {
            // The owner may have stopped before it forgot.
            Some(Record::Ended) => vec![Output::Forget],
            Some(Record::Ready) => self.inquire(now),
            None => Vec::new(),
        }
    }

    fn persist(&mut self, record: Record) -> Vec<Output> {
        self.record = Some(record);
        vec![Output::Persist(record)]
    }

    fn outcome_timer(&self, now: Time) -> Output {
        Output::SetTimer { timer: Timer::OutcomeOverdue, at: now.after(self.patience) }
    }

    /// What an owner answers that has pruned even the end record, as long as it knows by its
    /// tombstone that it has: a late message revives nothing.
    pub fn answer_when_pruned(message: Message) -> Option<Message> {
        match message {
            Message::Prepare | Message::Forget => Some(Message::Forgotten),
            // Whoever has forgotten knows that all were ready.
            Message::Inquire => Some(Message::Forget),
            Message::Prepared | Message::Forgotten => None,
        }
    }

    /// Whether it has said, or may say, that it needs nothing any more.
    pub fn is_ready(&self) -> bool {
        self.record.is_some()
    }

    /// Whether it has forgotten.
    pub fn has_forgotten(&self) -> bool {
        self.record == Some(Record::Ended)
    }

    /// Stops the program if what this machine always promises does not hold.
    pub fn assert_invariants(&self) {
        assert!(self.askers.is_subset(&self.peers), "only peers are answered");
        assert!(!self.is_ready() || self.askers.is_empty(), "one that is ready answers at once");
    }
}

fn prepared(to: NodeId) -> Output {
    Output::Send { to, message: Message::Prepared }
}
