//! What an engine answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use minicbor::{Decode, Encode};
use outlast_expressions::Value;
use outlast_lineage::{Digest, EffectId, ExecutionId, NodeId, Time};
use outlast_workflow::{Outcome, Status, TaskId};

use crate::{Phase, Position};

/// The answer to an `Ask`.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// The definition is registered.
    Defined {
        /// The digest of its text.
        digest: Digest,
        /// Whether it was new.
        new: bool,
    },
    /// Definitions in order of namespace, name and version.
    Definitions(Vec<DefinitionSummary>),
    /// One definition.
    Definition {
        /// What it is called.
        summary: DefinitionSummary,
        /// Its text.
        text: Arc<str>,
    },
    /// The execution exists.
    Started {
        /// Its id.
        execution: ExecutionId,
        /// The digest of its definition.
        definition: Digest,
        /// Whether it was started by this request.
        new: bool,
    },
    /// One execution.
    Shown(Box<Detail>),
    /// One page of executions.
    Listed {
        /// The page, in order of ids.
        executions: Vec<Summary>,
        /// Ask again with this as `Filter::after` for more; nothing if this was all.
        next: Option<ExecutionId>,
    },
    /// It is done, or as good as done: it is recorded, by a majority if several nodes hold the execution.
    Done,
    /// It is recorded by this node, which reaches no majority of those who hold the execution: another run may
    /// be the one that counts.
    DoneHere,
    /// The event is recorded and will reach every listener.
    EventTaken {
        /// Its number on this node.
        number: u64,
    },
    /// Parked effects, in order of execution.
    Parked(Vec<ParkedItem>),
    /// The parked effects that were resolved.
    Resolved(Vec<ParkedItem>),
    /// The cluster as this node sees it.
    Standing(Box<ClusterStanding>),
    /// Nothing changed, and why.
    Refused(Refusal),
}

/// Why something was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such execution (404).
    #[error("there is no execution {0}")]
    UnknownExecution(String),
    /// There is no such definition (404).
    #[error("there is no definition {0}; register it first")]
    UnknownDefinition(String),
    /// It was there and is forgotten; its id or name is not given again yet (410).
    #[error("execution {0} has ended and was deleted; its id and name stay taken for a while")]
    Forgotten(String),
    /// The id, name or version is taken by something else (409).
    #[error("{0}")]
    Conflict(String),
    /// The execution is not in a state in which this can be done (409).
    #[error("{0}")]
    NotPossible(String),
    /// The same, until something that is under way is done: asking again in a moment may help (409).
    #[error("{0}")]
    NotYet(String),
    /// The same as far as this node knows; but it reaches no majority of those who hold the execution, and they may
    /// have gone on without it (504).
    #[error(
        "this node reaches no majority of the nodes that hold the execution{}, and what it knows may be old \
         ({reason}): nothing was done; ask a node that reaches them, or ask again when this one does (`outlast cluster \
         status` says who is there)",
        unheard(silent)
    )]
    PerhapsOld {
        /// Why it is not possible here.
        reason: String,
        /// Those of the others that may come back and from which nothing is heard.
        silent: Vec<NodeId>,
    },
    /// It was done in a run that does not count (409).
    #[error(
        "execution {0} was changed as asked for in a run that does not count, because other nodes went on \
         without this one: look at it, and ask again"
    )]
    NotKept(ExecutionId),
    /// The request itself is wrong (400).
    #[error("{0}")]
    Invalid(String),
    /// It is larger than this engine accepts (413).
    #[error("{what} has {bytes} bytes; at most {limit} are accepted")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// It is too much now: a share is used up (429), or there are too few nodes (409).
    #[error("{reason}{}", later(*retry_after))]
    Busy {
        /// Which quota.
        reason: String,
        /// When it may be worth trying again; never, unless somebody does something about it.
        retry_after: Option<Duration>,
    },
    /// Another node is to start it: ask these, the first one first (421).
    #[error("other nodes are to hold the execution; ask one of those")]
    Elsewhere {
        /// Those that hold it, or are to.
        nodes: Vec<NodeId>,
    },
    /// The node takes no new work (503).
    #[error("the node hands over its work and takes no more; ask another one")]
    Draining,
    /// The disk is full; nothing can be recorded (507).
    #[error("the node's storage is full; nothing is accepted until there is room")]
    StorageFull,
    /// What is stored of an execution cannot be read (500).
    #[error("what is stored of execution {execution} cannot be read: {reason}")]
    Unreadable {
        /// Which execution.
        execution: ExecutionId,
        /// Why.
        reason: String,
    },
}

/// From whom nothing is heard, behind what follows from that.
fn unheard(silent: &[NodeId]) -> String {
    let silent: Vec<String> = silent.iter().map(|node| format!("{:016x}", node.0)).collect();
    if silent.is_empty() {
        return String::new();
    }
    format!(" (nothing is heard from {})", silent.join(", "))
}

/// When to try again, behind the reason why not now.
fn later(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |later| format!("; try again in {} s", later.as_secs()))
}

/// What an execution is doing and, if it ended, how: one word for people.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum Condition {
    /// Something is under way.
    #[n(0)]
    Running,
    /// Waits for time or events.
    #[n(1)]
    Waiting,
    /// On hold because someone asked.
    #[n(2)]
    Suspended,
    /// Being rolled back.
    #[n(3)]
    Compensating,
    /// Ran to its end.
    #[n(4)]
    Completed,
    /// Ended with an error.
    #[n(5)]
    Faulted,
    /// Was stopped.
    #[n(6)]
    Cancelled,
    /// Was rolled back.
    #[n(7)]
    Compensated,
}

impl Condition {
    /// All conditions, in order.
    pub const ALL: [Self; 8] = [
        Self::Running,
        Self::Waiting,
        Self::Suspended,
        Self::Compensating,
        Self::Completed,
        Self::Faulted,
        Self::Cancelled,
        Self::Compensated,
    ];

    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Suspended => "suspended",
            Self::Compensating => "compensating",
            Self::Completed => "completed",
            Self::Faulted => "faulted",
            Self::Cancelled => "cancelled",
            Self::Compensated => "compensated",
        }
    }

    /// The condition a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| condition.word() == word)
    }

    /// The condition of an execution.
    pub const fn of(status: Status, outcome: Option<&Outcome>) -> Self {
        match (status, outcome) {
            (Status::Running, _) => Self::Running,
            (Status::Waiting, _) => Self::Waiting,
            (Status::Suspended, _) => Self::Suspended,
            (Status::Compensating, _) => Self::Compensating,
            (Status::Ended, None | Some(Outcome::Completed(_))) => Self::Completed,
            (Status::Ended, Some(Outcome::Faulted(_))) => Self::Faulted,
            (Status::Ended, Some(Outcome::Cancelled)) => Self::Cancelled,
            (Status::Ended, Some(Outcome::Compensated(_))) => Self::Compensated,
        }
    }

    /// Whether it is an end.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Faulted | Self::Cancelled | Self::Compensated)
    }
}

/// A registered definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefinitionSummary {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of its text.
    pub digest: Digest,
}

/// One line of a list of executions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Its id.
    pub execution: ExecutionId,
    /// The name its starter gave it.
    pub name: Option<String>,
    /// The namespace.
    pub namespace: String,
    /// The definition's name.
    pub workflow: String,
    /// The definition's version.
    pub version: String,
    /// The digest of its definition.
    pub definition: Digest,
    /// What it is doing.
    pub condition: Condition,
    /// When it started.
    pub started: Time,
    /// When it last changed; when it ended, if it did.
    pub changed: Time,
    /// The execution that started it, if one did.
    pub parent: Option<ExecutionId>,
    /// Whether something in it waits for a person.
    pub parked: bool,
    /// Who holds it, if several nodes do.
    pub holders: Option<Holders>,
}

/// The cluster as one of its nodes sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterStanding {
    /// The other members.
    pub members: Vec<MemberStanding>,
    /// Those whose clocks differ from this node's by more than a moment, and by how many microseconds they are
    /// ahead.
    pub clocks: Vec<(NodeId, i64)>,
    /// Nodes that were removed.
    pub removed: Vec<NodeId>,
    /// Whether this node takes no new work.
    pub draining: bool,
    /// Since when this node takes part.
    pub since: Option<Time>,
    /// Executions here that have not ended.
    pub live: u64,
    /// Executions that this node holds together with others.
    pub held: u64,
    /// Executions that have not ended and that nobody else holds.
    pub alone: u64,
    /// Of these, those that it advances and nobody else does.
    pub led: u64,
    /// Of these, those that stand still here for want of votes, or because undoing would cost more
    /// than their budget.
    pub stalled: u64,
    /// Executions that wait here for the answer to a call that must not be made twice.
    pub hearing: u64,
    /// Whose word is missing before what does not count can be undone here, or executions that have
    /// ended can be forgotten.
    pub awaited: BTreeSet<NodeId>,
}

/// Another member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStanding {
    /// Which node.
    pub node: NodeId,
    /// What gossip believes: joining, alive, suspect, dead or left.
    pub state: &'static str,
    /// Since when.
    pub since: Option<Time>,
    /// The release it runs; empty if it has not said.
    pub release: String,
    /// Whether its heartbeats arrive here.
    pub reachable: bool,
    /// Whether it takes no new work.
    pub draining: bool,
}

/// The nodes that hold an execution together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holders {
    /// All of them, from the lowest replica to the highest.
    pub members: Vec<NodeId>,
    /// The one that advances it, as far as this node knows.
    pub leader: Option<NodeId>,
    /// What this node does for it now.
    pub phase: Phase,
    /// Why it stands still with it, and what makes it go on, if it does.
    pub standstill: Option<String>,
    /// Whose word is missing before this node's line can be undone if it is lost, and then before all
    /// can forget it, once a run was decided on.
    pub awaited: Vec<NodeId>,
    /// Those of them that this node cannot reach now: only these may be lost.
    pub unreachable: Vec<NodeId>,
    /// Whether the end was decided on with nodes that may all be gone for good, and this one lacks it.
    pub end_is_missing: bool,
}

/// Everything about one execution but its history.
#[derive(Clone, PartialEq, Debug)]
pub struct Detail {
    /// The line of the list.
    pub summary: Summary,
    /// How it ended, if it did and that is decided on: then it stays so.
    pub outcome: Option<Outcome>,
    /// Its input.
    pub input: Value,
    /// Completed activities; retries and undos do not count.
    pub progress: u64,
    /// What waits for a person.
    pub parked: Vec<ParkedItem>,
    /// Who has a copy of it, if several nodes held it and have forgotten that: the first of them that is
    /// still in the cluster changes it. Empty if it is not known who they are.
    pub copies: Option<Vec<NodeId>>,
    /// Its newest record.
    pub position: Position,
}

/// An effect that waits for a person.
#[derive(Clone, PartialEq, Debug)]
pub struct ParkedItem {
    /// Whose effect.
    pub execution: ExecutionId,
    /// Which effect.
    pub effect: EffectId,
    /// The task.
    pub task: TaskId,
    /// JSON pointer to the task in the definition.
    pub place: String,
    /// Why it is parked.
    pub reason: String,
    /// Whether it undoes something.
    pub undo: bool,
    /// The key by which the provider knows the effect, as `outlast_workflow::Parked` has it.
    pub key: Option<String>,
    /// Whether it is of a run that does not count, because another one of the same execution does.
    pub lost: bool,
    /// What can be said of it: `done`, `not-done`, `retry`, `abandon`.
    pub choices: Vec<String>,
}

/// What an engine counted since it was made, and what it holds now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Steps taken.
    pub steps: u64,
    /// Records written.
    pub records: u64,
    /// Bytes of records written.
    pub record_bytes: u64,
    /// Executions started.
    pub started: u64,
    /// Executions that completed.
    pub completed: u64,
    /// Executions that faulted.
    pub faulted: u64,
    /// Executions that were cancelled.
    pub cancelled: u64,
    /// Executions that were rolled back.
    pub compensated: u64,
    /// Calls ordered.
    pub calls: u64,
    /// Answers that nobody waited for.
    pub stale_answers: u64,
    /// Requests refused.
    pub refused: u64,
    /// Messages of other nodes taken.
    pub messages: u64,
    /// Messages of strangers, or that could not be read.
    pub strange_messages: u64,
    /// How often another node was found to be out of reach.
    pub peers_lost: u64,
    /// Timers fired.
    pub timers_fired: u64,
    /// Events taken in from callers and executions.
    pub events: u64,
    /// Early events dropped because the buffer was full or they were too old.
    pub events_dropped: u64,
    /// Sleeping executions woken.
    pub woken: u64,
    /// Executions put to sleep.
    pub put_to_sleep: u64,
    /// Executions held that have not ended.
    pub live: u64,
    /// Executions held that have ended.
    pub ended: u64,
    /// Executions with something parked.
    pub parked: u64,
    /// Executions held together with other nodes.
    pub in_custody: u64,
    /// Units of work waiting for their turn.
    pub queued: u64,
    /// Timers set.
    pub timers: u64,
}
