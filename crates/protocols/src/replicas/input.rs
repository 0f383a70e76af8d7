//! What a replica can be told.

use outlast_lineage::{EffectId, NodeId};

use super::{Choice, Message, Note};

/// What a replica can be told.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// The execution was made known here; the first input of the first life.
    Begun,
    /// The machine was made from its standing; the first input of every later life.
    Restarted,
    /// A message arrived.
    Received {
        /// Who sent it, as the channel says.
        from: NodeId,
        /// What it says.
        message: Message,
    },
    /// The time of a timer has come.
    TimerFired(Timer),
    /// A peer can no longer be reached.
    PeerLost(NodeId),
    /// A peer can be reached again.
    PeerFound(NodeId),
    /// A peer is lost for good: its id never comes back. That is the owner's to know.
    Fenced(NodeId),
    /// The node is about to stop, or is not any more: as long as it is, this replica leaves being
    /// primary to the others that can be reached.
    Retiring(bool),
    /// The owner advanced the execution, as the primary that this replica is.
    Advanced {
        /// How many bytes what changed has, about.
        bytes: usize,
        /// How many activities are complete.
        progress: u64,
        /// Whether that is the end.
        ended: bool,
        /// What it did to the world outside.
        notes: Vec<Note>,
    },
    /// Something may leave only if the line up to this state is decided to be the one that counts.
    DecisionWanted {
        /// The number of the state.
        number: u64,
    },
    /// This replica agreed, in consensus, to a line that may be decided on now.
    Agreed {
        /// The how manieth decision it would be.
        instance: u32,
        /// What it agreed to.
        choice: Choice,
    },
    /// Consensus decided.
    Decided {
        /// The how manieth decision of this execution.
        instance: u32,
        /// What.
        choice: Choice,
    },
    /// Effects on lost lines are undone.
    Undone(Vec<EffectId>),
    /// Effects on lost lines that were to be undone never were.
    NeverWere(Vec<EffectId>),
    /// Effects on lost lines that were to be undone are in the decided state, by the same keys at
    /// providers that act once for each.
    FoundKept(Vec<EffectId>),
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// Objections should have come.
    ElectionOver,
    /// It may ask for votes again.
    RetryElection,
    /// What was sent should have been answered.
    AnswersOverdue,
    /// The primary should be told how far this replica has stored its states.
    AcknowledgementDue,
    /// A word of the primary should have come.
    WordOverdue,
    /// The backups should be told of what went on since they were last told.
    UpdateDue,
    /// Those who hear this primary should have said so.
    ChallengeOver,
}
