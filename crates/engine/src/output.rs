//! What an engine wants done.

use outlast_expressions::Value;
use outlast_lineage::{Digest, ExecutionId, NodeId, Time};
use outlast_protocols::replicas::Situation;
use outlast_workflow::{EvaluationRequest, Request, Ticket};

use crate::{Caller, Condition, Definition, Happenings, Position, Reply};

/// One thing to do, and from when on it may be done.
///
/// The driver releases an output when the record at `after` is durable, and keeps the order of the
/// outputs of one execution to one destination. `Persist` never waits.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// The record that must be durable first: the newest one of the execution concerned.
    pub after: Option<Position>,
    /// What to do.
    pub action: Action,
}

/// What to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Append a record to the journal. Positions come without gaps, in order.
    Persist {
        /// The record's position.
        position: Position,
        /// The record's bytes; `Record::decode` reads them.
        record: Vec<u8>,
    },
    /// Call a service; answer with `Input::Answered`. The same execution and ticket may be ordered
    /// again after a restart, with the same key.
    Call {
        /// Where its answer belongs: an execution, or one line of an execution that several nodes
        /// hold.
        execution: ExecutionId,
        /// The execution whose call it is.
        of: ExecutionId,
        /// Which call.
        ticket: Ticket,
        /// The call.
        request: Box<Request>,
    },
    /// The answer of a call or evaluation is no longer wanted; it may be broken off.
    Abandon {
        /// Whose call.
        execution: ExecutionId,
        /// Which call.
        ticket: Ticket,
    },
    /// Evaluate an expression in a worker; answer with `Input::Evaluated`.
    Evaluate {
        /// Whose evaluation.
        execution: ExecutionId,
        /// Which evaluation.
        ticket: Ticket,
        /// The expression and what it sees.
        request: Box<EvaluationRequest>,
    },
    /// Send a message to another node; it gets it as `Input::Received`. It may be lost: whatever
    /// must arrive is sent again by the engine.
    Send {
        /// To whom.
        to: NodeId,
        /// The bytes.
        message: Vec<u8>,
    },
    /// As `Send`, but nobody waits for it: the record that it follows may share the sync of others.
    Mention {
        /// To whom.
        to: NodeId,
        /// The bytes.
        message: Vec<u8>,
    },
    /// Messages to a node can leave for these addresses.
    Meet {
        /// Which node.
        node: NodeId,
        /// Where it is, as it says.
        addresses: Vec<String>,
    },
    /// A node is gone for good: hear it no more, and remember that.
    ShutOut(NodeId),
    /// Compile a definition that a peer sent; answer with `Input::Compiled` if it compiles.
    Compile(Box<Definition>),
    /// Give `Input::AlarmRang` at this time; replaces the alarm set before. Nothing is no alarm.
    SetAlarm(Option<Time>),
    /// The answer to an `Input::Asked`.
    Reply {
        /// Who asked.
        caller: Caller,
        /// The answer.
        reply: Reply,
    },
    /// Store this snapshot in place of an older one of the same subject.
    Snapshot {
        /// What it is a snapshot of.
        subject: Subject,
        /// It holds everything up to this record.
        as_of: Position,
        /// The snapshot.
        bytes: Vec<u8>,
    },
    /// All snapshots and forgettings ordered before this are to be durable now; from then on no
    /// record before `replay_from` is needed for recovery. Answer with `Input::Stored` then.
    Compactable {
        /// The first record that is still needed.
        replay_from: Position,
    },
    /// Give back the stored snapshot of an execution that has ended; answer with `Input::Fetched`.
    Fetch(ExecutionId),
    /// Drop the snapshot of a subject, and the history of an execution.
    Forget(Subject),
    /// Tell whoever watches.
    Report(Report),
}

/// What a snapshot is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// The node's own few facts: its epoch and counters.
    Node,
    /// A registered definition, by the digest of its text.
    Definition(Digest),
    /// An execution, its tombstone included.
    Execution(ExecutionId),
    /// A buffered event, by its number.
    Event(u64),
}

/// News for watchers. Lossy by nature: what counts is in the records.
#[derive(Clone, PartialEq, Debug)]
pub enum Report {
    /// Lines of an execution's history; the record at `position` holds the same.
    Happened {
        /// Whose history.
        execution: ExecutionId,
        /// The record.
        position: Position,
        /// When.
        time: Time,
        /// What.
        happenings: Happenings,
    },
    /// An execution's condition became another one.
    ConditionChanged {
        /// Which execution.
        execution: ExecutionId,
        /// The new condition.
        condition: Condition,
    },
    /// Something worth telling happened between the replicas of an execution.
    Custody {
        /// Which execution.
        execution: ExecutionId,
        /// What.
        situation: Situation,
    },
    /// Gossip believes something else of another node.
    Member {
        /// Which node.
        node: NodeId,
        /// What is believed: joining, alive, suspect, dead or left.
        state: &'static str,
    },
    /// A CloudEvent was published by an execution or by a caller.
    Published {
        /// Its number on this node.
        number: u64,
        /// The event.
        event: Value,
    },
}

impl Action {
    /// Whether somebody waits for it, so that the record it follows should be durable soon.
    pub const fn is_awaited(&self) -> bool {
        !matches!(
            self,
            Self::Mention { .. }
                | Self::Report(_)
                | Self::Snapshot { .. }
                | Self::Compactable { .. }
                | Self::Forget(_)
        )
    }
}

impl Subject {
    /// A key to store the subject's snapshot under: unique, in order of kind.
    pub fn key(&self) -> Vec<u8> {
        let (kind, rest): (u8, &[u8]) = match self {
            Self::Node => (0, &[]),
            Self::Definition(digest) => (1, digest.as_bytes()),
            Self::Execution(execution) => (2, execution.as_bytes()),
            Self::Event(number) => (3, &number.to_be_bytes()),
        };
        [&[kind], rest].concat()
    }
}
