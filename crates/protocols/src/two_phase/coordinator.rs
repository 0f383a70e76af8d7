//! The coordinator: hears from all, orders all, and ends when all have forgotten.
//!
//! Participants that know who coordinates say unasked that they are ready; only those that have not
//! said so in time are asked.
//!
//! Invariants:
//! - `Forget` is ordered only after every participant was ready, had forgotten already, or was
//!   fenced out, and that is on disk.
//! - Whoever is fenced out is neither asked nor heard again.

use std::collections::BTreeSet;
use std::time::Duration;

use minicbor::{Decode, Encode};
use outlast_lineage::{NodeId, Time};

use super::Message;

/// The one who asks whether all can forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Coordinator {
    patience: Duration,
    record: Option<Record>,
    /// Who has not given the answer that the stage waits for.
    awaited: BTreeSet<NodeId>,
    /// Who was ready before this coordinator began.
    early: BTreeSet<NodeId>,
}

/// Everything a coordinator may not forget. Each record replaces the one before.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Record {
    /// Who takes part: those fenced out are no longer here.
    #[n(0)]
    pub participants: BTreeSet<NodeId>,
    /// How far it is.
    #[n(1)]
    pub stage: Stage,
}

/// How far a coordinator is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub enum Stage {
    /// It began to ask.
    #[n(0)]
    Begun,
    /// All were ready.
    #[n(1)]
    Committed,
    /// All have forgotten.
    #[n(2)]
    Ended,
}

/// What a coordinator can be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// The owner needs nothing any more and wants all of these, itself not among them, to forget.
    Begin(BTreeSet<NodeId>),
    /// A participant is lost for good: its id never comes back. That is the caller's to know.
    Fenced(NodeId),
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

/// What a coordinator wants done. Each waits for all records ordered before it.
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
    /// All are ready: the owner, too, may forget all but this machine's record.
    Committed,
    /// All have forgotten: this machine's record may be pruned.
    Ended,
}

/// What a coordinator waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// Everyone should have answered.
    AnswersOverdue,
}

impl Coordinator {
    /// A coordinator that has not begun. `patience` is after how long it asks again.
    pub fn new(patience: Duration) -> Self {
        Self { patience, record: None, awaited: BTreeSet::new(), early: BTreeSet::new() }
    }

    /// A coordinator in a new life, from the last record of its old one.
    pub fn restored(patience: Duration, record: Record) -> Self {
        // Answers are not written down: everyone gives them again.
        let ended = record.stage == Stage::Ended;
        let awaited = if ended { BTreeSet::new() } else { record.participants.clone() };
        Self { patience, record: Some(record), awaited, early: BTreeSet::new() }
    }

    /// Takes one input, and says what is to be done.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        let outputs = match input {
            Input::Begin(participants) => self.begin(now, participants),
            Input::Fenced(node) => self.fence(now, node),
            Input::Received { from, message } if self.is_participant(from) => {
                self.receive(now, from, message)
            }
            Input::Received { from, message: Message::Prepared } if self.record.is_none() => {
                self.early.insert(from);
                Vec::new()
            }
            Input::Received { .. } => Vec::new(),
            Input::TimerFired(Timer::AnswersOverdue) => self.ask(now),
            Input::Restarted => self.restart(now),
        };
        self.assert_invariants();
        outputs
    }

    fn begin(&mut self, now: Time, participants: BTreeSet<NodeId>) -> Vec<Output> {
        if self.record.is_some() {
            return Vec::new();
        }
        self.awaited = &participants - &std::mem::take(&mut self.early);
        let mut outputs = self.persist(Record { participants, stage: Stage::Begun });
        if !self.awaited.is_empty() {
            outputs.push(self.answers_timer(now));
        }
        outputs.extend(self.go_on(now));
        outputs
    }

    fn fence(&mut self, now: Time, node: NodeId) -> Vec<Output> {
        let Some(mut record) = self.record.clone() else { return Vec::new() };
        if record.stage == Stage::Ended || !record.participants.remove(&node) {
            return Vec::new();
        }
        self.awaited.remove(&node);
        let mut outputs = self.persist(record);
        outputs.extend(self.go_on(now));
        outputs
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message) -> Vec<Output> {
        match (self.stage(), message) {
            // One that has forgotten was told that all were ready, by whichever coordinator.
            (Some(Stage::Begun), Message::Prepared | Message::Forgotten)
            | (Some(Stage::Committed), Message::Forgotten) => {
                self.awaited.remove(&from);
                self.go_on(now)
            }
            (Some(Stage::Committed), Message::Inquire) => {
                vec![Output::Send { to: from, message: Message::Forget }]
            }
            _ => Vec::new(),
        }
    }

    /// Enters the next stage, once nobody is awaited in this one.
    fn go_on(&mut self, now: Time) -> Vec<Output> {
        let Some(record) = self.record.clone().filter(|_| self.awaited.is_empty()) else {
            return Vec::new();
        };
        match record.stage {
            Stage::Begun => {
                self.awaited = record.participants.clone();
                let mut outputs = self.persist(Record { stage: Stage::Committed, ..record });
                outputs.push(Output::Committed);
                outputs.extend(self.ask(now));
                outputs.extend(self.go_on(now));
                outputs
            }
            Stage::Committed => {
                let mut outputs = self.persist(Record { stage: Stage::Ended, ..record });
                outputs.push(Output::Ended);
                outputs
            }
            Stage::Ended => Vec::new(),
        }
    }

    /// Asks or orders everyone who has not answered.
    fn ask(&self, now: Time) -> Vec<Output> {
        let message = match self.stage() {
            Some(Stage::Begun) => Message::Prepare,
            Some(Stage::Committed) => Message::Forget,
            Some(Stage::Ended) | None => return Vec::new(),
        };
        let send = |to: &NodeId| Output::Send { to: *to, message };
        let mut outputs: Vec<Output> = self.awaited.iter().map(send).collect();
        if !outputs.is_empty() {
            outputs.push(self.answers_timer(now));
        }
        outputs
    }

    fn answers_timer(&self, now: Time) -> Output {
        Output::SetTimer { timer: Timer::AnswersOverdue, at: now.after(self.patience) }
    }

    /// Tells the owner again what it may not have heard, and asks again.
    fn restart(&mut self, now: Time) -> Vec<Output> {
        let mut outputs = match self.stage() {
            Some(Stage::Committed) => vec![Output::Committed],
            Some(Stage::Ended) => vec![Output::Committed, Output::Ended],
            Some(Stage::Begun) | None => Vec::new(),
        };
        outputs.extend(self.ask(now));
        outputs.extend(self.go_on(now));
        outputs
    }

    fn persist(&mut self, record: Record) -> Vec<Output> {
        self.record = Some(record.clone());
        vec![Output::Persist(record)]
    }

    /// How far it is; nothing before it began.
    pub fn stage(&self) -> Option<Stage> {
        self.record.as_ref().map(|record| record.stage)
    }

    /// Who has not answered yet: whom to fence out, if they are lost for good.
    pub fn awaited(&self) -> impl Iterator<Item = NodeId> {
        self.awaited.iter().copied()
    }

    fn is_participant(&self, node: NodeId) -> bool {
        self.record.as_ref().is_some_and(|record| record.participants.contains(&node))
    }

    /// Stops the program if what this machine always promises does not hold.
    pub fn assert_invariants(&self) {
        let Some(record) = &self.record else {
            assert!(self.awaited.is_empty(), "nobody is asked before the beginning");
            return;
        };
        assert!(self.early.is_empty(), "whoever was early was counted at the beginning");
        assert!(self.awaited.is_subset(&record.participants), "only participants are awaited");
        let ended = record.stage == Stage::Ended;
        assert_eq!(ended, self.awaited.is_empty(), "it waits for someone until the end");
    }
}
