//! What can occur in a world. Whatever is meant for an earlier life of a node is lost.

use outlast_engine::{Caller, Definition, Position};
use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::{Answer, Request, Ticket};

use crate::ledger::MadeOn;

/// What can occur.
#[derive(Debug)]
pub(super) enum Occurrence {
    /// A node comes up.
    Start(usize),
    /// A sync of a disk has ended.
    Synced { place: usize, life: u64, up_to: Position },
    /// A disk has taken a slice of snapshots.
    Stored { place: usize, life: u64 },
    /// A disk gives back the snapshot of an execution.
    Fetched { place: usize, life: u64, execution: ExecutionId },
    /// A node takes a turn.
    Turn { place: usize, life: u64 },
    /// A node looks at what has waited for it.
    Drain { place: usize, life: u64 },
    /// An alarm may be due.
    Ring { place: usize, life: u64 },
    /// A call reaches its service. It does so whether its caller lives or not.
    Reached(Box<Call>),
    /// An answer reaches a node.
    Answered(Box<Answered>),
    /// A worker has evaluated an expression.
    Evaluated(Box<Evaluated>),
    /// A definition that a peer sent is compiled.
    Compiled { place: usize, life: u64, definition: Box<Definition> },
    /// A message reaches a node.
    Arrived(Parcel),
    /// The client asks for something.
    Wished(usize),
    /// The client has waited for long enough.
    Overdue(Caller),
    /// A fault begins.
    Begins(usize),
    /// A fault is over.
    Ends(usize),
    /// A cut that comes and goes does so.
    Flaps(usize),
    /// A node in a restart loop dies again, so many times more.
    DiesAgain { fault: usize, place: usize, times: i64 },
    /// A node that lost its disk is given up.
    Fence(NodeId),
}

/// A call on its way.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) place: usize,
    pub(super) life: u64,
    pub(super) node: NodeId,
    pub(super) execution: ExecutionId,
    /// The execution whose call it is; the answer goes to `execution`.
    pub(super) of: ExecutionId,
    pub(super) ticket: Ticket,
    pub(super) request: Box<Request>,
    pub(super) made_on: MadeOn,
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) place: usize,
    pub(super) life: u64,
    pub(super) execution: ExecutionId,
    /// The execution that the call is of, wherever its answer goes.
    pub(super) of: ExecutionId,
    pub(super) ticket: Ticket,
    pub(super) answer: Answer,
    pub(super) act: Option<usize>,
}

/// A result on its way.
#[derive(Debug)]
pub(super) struct Evaluated {
    pub(super) place: usize,
    pub(super) life: u64,
    pub(super) execution: ExecutionId,
    pub(super) ticket: Ticket,
    pub(super) result: Result<Value, String>,
}

/// A message on its way.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) from: (usize, NodeId),
    pub(super) to: (usize, NodeId),
    /// The life of the receiver when it was sent.
    pub(super) life: u64,
    pub(super) message: Vec<u8>,
}
