//! What a node is set to, what it can be told, and what it wants done.

use std::time::Duration;

use outlast_lineage::{NodeId, Time};

use super::member::Offer;
use super::message::{Description, Message, NotUnderstood};
use super::peers::Change;

/// How patient a node is. All members should have about the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How often a member is probed; a third of it is how long an answer may take.
    pub probe_every: Duration,
    /// How long a member that did not answer may contradict.
    pub suspect_for: Duration,
    /// How often a node announces itself to some that do not answer, and asks one that does for
    /// the members it knows.
    pub reach_out_every: Duration,
    /// How long a node that is dead or left is remembered.
    pub forget_after: Duration,
}

/// What a node can be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Take part; the first input, and again after `Leave`. Without seeds it is alone for now.
    Join {
        /// Whom to announce itself to: those named by people and those remembered.
        seeds: Vec<NodeId>,
    },
    /// Say that this node goes, and fall silent.
    Leave,
    /// A message arrived.
    Received {
        /// Who sent it, as the channel says.
        from: NodeId,
        /// What arrived.
        bytes: Vec<u8>,
    },
    /// There is a connection to a node.
    Learned {
        /// Which node, as the channel says.
        peer: NodeId,
        /// Where it is.
        address: String,
    },
    /// This node offers something else.
    Described(Offer),
    /// A node is lost for good: its id never comes back. That is the caller's to know.
    Forget(NodeId),
    /// The time of a timer has come.
    TimerFired(Timer),
}

/// What a node wants done. Nothing waits for a record: there are none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a message. It may be lost.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        bytes: Vec<u8>,
    },
    /// Give `Input::TimerFired` at this time.
    SetTimer {
        /// Which timer.
        timer: Timer,
        /// When.
        at: Time,
    },
    /// The view of the cluster is another one.
    Changed(Vec<Change>),
}

/// What a node waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// A probe is due, or an answer, or the end of a suspicion.
    ProbeDue,
    /// Those that do not answer get another announcement.
    ReachOutDue,
}

/// How many messages were not taken, and why. None of them changed anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Longer than `MESSAGE_BYTES_MAX`.
    pub too_long: u64,
    /// In a version that this node does not speak.
    pub other_version: u64,
    /// No message at all.
    pub garbage: u64,
    /// In the name of another node than the one that sent it.
    pub misattributed: u64,
    /// From an earlier life of the sender.
    pub stale: u64,
    /// With more members than are remembered.
    pub crowded: u64,
}

impl Default for Options {
    /// For a few machines on one network. Who executes what does not wait for this detection, so it
    /// is rather cheap than fast: about two messages each way per second.
    fn default() -> Self {
        Self {
            probe_every: Duration::from_secs(1),
            suspect_for: Duration::from_secs(3),
            reach_out_every: Duration::from_secs(5),
            forget_after: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl Refused {
    pub(super) fn count(&mut self, reason: NotUnderstood) {
        match reason {
            NotUnderstood::TooLong => self.too_long += 1,
            NotUnderstood::OtherVersion => self.other_version += 1,
            NotUnderstood::Garbage => self.garbage += 1,
        }
    }
}

/// What one step has gathered so far.
#[derive(Default)]
pub(super) struct Step {
    outputs: Vec<Output>,
    pub(super) changes: Vec<Change>,
    /// What senders said that they offer: looked at once it is clear who they are.
    pub(super) descriptions: Vec<(NodeId, Description)>,
}

impl Step {
    pub(super) fn send(&mut self, to: NodeId, message: &Message) {
        self.outputs.push(Output::Send { to, bytes: message.encode() });
    }

    pub(super) fn set(&mut self, timer: Timer, at: Time) {
        self.outputs.push(Output::SetTimer { timer, at });
    }

    pub(super) fn into_outputs(mut self) -> Vec<Output> {
        if !self.changes.is_empty() {
            self.outputs.push(Output::Changed(self.changes));
        }
        self.outputs
    }
}
