//! What an engine can be told.

use std::collections::BTreeSet;
use std::sync::Arc;

use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::{Answer, Program, Ticket};

use crate::{Ask, Definition, Position};

/// Names one request of the outside (an HTTP request, a command) until it is replied to. Given by
/// the driver, never twice in one life of the engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Caller(pub u64);

/// What an engine can be told.
#[derive(Clone, Debug)]
pub enum Input {
    /// Someone asked for something; exactly one `Action::Reply` with this caller follows, now or
    /// after later inputs.
    Asked {
        /// Who gets the reply.
        caller: Caller,
        /// What is asked.
        ask: Ask,
    },
    /// The caller went away; it gets no reply.
    CallerLeft(Caller),
    /// A call ordered by `Action::Call` came to an end.
    Answered {
        /// Whose call.
        execution: ExecutionId,
        /// Which call.
        ticket: Ticket,
        /// What became of it.
        answer: Answer,
    },
    /// A worker finished what `Action::Evaluate` ordered.
    Evaluated {
        /// Whose evaluation.
        execution: ExecutionId,
        /// Which evaluation.
        ticket: Ticket,
        /// Its value, or why it has none.
        result: Result<Value, String>,
    },
    /// A message of another node arrived. It may be late, doubled or from an earlier life.
    Received {
        /// Who sent it, as the channel says.
        from: NodeId,
        /// What `Action::Send` gave there.
        message: Vec<u8>,
    },
    /// The other nodes of the cluster, whether they can be reached now or not. Replaces what was
    /// said before; a node that is no longer named is lost for good.
    PeersKnown(BTreeSet<NodeId>),
    /// These nodes of the cluster exist besides those that are known. `PeersKnown` is for whoever
    /// knows all of them; this, `PeersRemoved` and gossip are for whoever does not.
    PeersMet(BTreeSet<NodeId>),
    /// These nodes are lost for good: their ids never come back. Everyone is told.
    PeersRemoved(BTreeSet<NodeId>),
    /// Other nodes can reach this one from now on; who is in the cluster is found out by gossip.
    Reachable {
        /// Where they reach it.
        addresses: Vec<String>,
        /// The release of the program.
        release: String,
    },
    /// This node is about to stop in good order: the others are told.
    Leaving,
    /// A definition that `Action::Compile` named was compiled.
    Compiled {
        /// The definition.
        definition: Box<Definition>,
        /// Its program.
        program: Arc<Program>,
    },
    /// The time of the last `Action::SetAlarm` has come. A stale or early ring does no harm.
    AlarmRang,
    /// Do one unit of the work that waits; to be given whenever `Engine::has_work`, in turn with
    /// other inputs.
    Turn,
    /// Write down at most this many of the things whose newest state is only in the journal.
    SnapshotWanted {
        /// The most snapshots of this slice.
        max: usize,
    },
    /// Every record up to this one is durable; to be given whenever that has changed.
    Durable(Position),
    /// All that the oldest `Action::Compactable` not yet spoken of was about is durable.
    Stored,
    /// What `Action::Fetch` asked for.
    Fetched {
        /// Whose snapshot.
        execution: ExecutionId,
        /// The newest snapshot that was stored, or why it cannot be had.
        snapshot: Result<Vec<u8>, String>,
    },
    /// The disk takes no more: nothing is recorded until `StorageFreed`, and new work is refused.
    StorageFull,
    /// The disk takes records again.
    StorageFreed,
}
