//! Journal records: what a step changed, in the form that outlives the process.
//!
//! A record is a version byte and a CBOR array of numbered fields: fields may be added, none is
//! ever reused. This release writes version 1 and reads version 1.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use outlast_expressions::{Value, value};
use outlast_lineage::{Digest, Digester, Epoch, ExecutionId, NodeId, Time};
use outlast_protocols::{paxos, replicas};
use outlast_workflow::{Delta, Ticket};

use crate::Happenings;
use crate::engine::{Begin, Forgetting, happenings_of};
use crate::writing::write_behind;

/// The version of the record format that this release writes.
pub(crate) const RECORD_VERSION: u8 = 1;

/// How many bytes most records have at most: growing by and by costs more than the rest of writing one.
const BYTES_USUAL: usize = 512;

/// A shard of a node's executions. There is one to begin with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct ShardId(#[n(0)] pub u16);

/// The place of a record in its shard's journal: dense, from one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Position(#[n(0)] pub u64);

impl Position {
    /// The place after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// One journal record.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Record {
    /// The shard it belongs to.
    #[n(0)]
    pub shard: ShardId,
    /// Its place in the shard's journal.
    #[n(1)]
    pub position: Position,
    /// When the step was taken.
    #[n(2)]
    pub time: Time,
    /// What changed.
    #[n(3)]
    pub kind: RecordKind,
}

/// What changed.
#[derive(Clone, Debug, Encode, Decode)]
pub enum RecordKind {
    /// A life of the node began. Nothing is ever written under an epoch that was written before.
    #[n(0)]
    Opened {
        /// The node.
        #[n(0)]
        node: NodeId,
        /// Its new epoch.
        #[n(1)]
        epoch: Epoch,
    },
    /// A definition was registered.
    #[n(1)]
    Defined(#[n(0)] Definition),
    /// An execution was started.
    #[n(2)]
    Started(#[n(0)] Box<Started>),
    /// An execution was advanced by one event.
    #[n(3)]
    Advanced(#[n(0)] Box<Advanced>),
    /// An event came in from outside.
    #[n(4)]
    EventTaken(#[n(0)] Publication),
    /// An ended execution was forgotten; its id and name stay taken until a time.
    #[n(5)]
    Forgotten {
        /// Which execution.
        #[n(0)]
        execution: ExecutionId,
        /// Until when its id and name are not given again.
        #[n(1)]
        until: Time,
    },
    /// Something changed in an execution that several nodes hold.
    #[n(6)]
    Custodial(#[n(0)] Box<Custodial>),
    /// Nothing of a lost line is needed any more, or of an execution in which nothing has happened
    /// here and that others hold on other terms.
    #[n(7)]
    RemnantDropped(#[n(0)] ExecutionId),
}

/// A change of an execution that several nodes hold: of its machines, its state, or both.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Custodial {
    /// Which execution.
    #[n(0)]
    pub execution: ExecutionId,
    /// How it began, if this is its first record.
    #[n(1)]
    pub(crate) started: Option<Begun>,
    /// What changed in the replica.
    #[n(2)]
    pub changes: Vec<replicas::Change>,
    /// The state that took the place of the one held, encoded.
    #[n(3)]
    pub adopted: Option<ByteVec>,
    /// What the state went on by first, and what happened.
    #[n(4)]
    pub passed: Option<ByteVec>,
    /// What it went on by after that, oldest first.
    #[n(10)]
    #[cbor(default, skip_if = "Vec::is_empty")]
    pub passed_then: Vec<ByteVec>,
    /// What changed in decisions.
    #[n(5)]
    pub decisions: Vec<(u32, paxos::Record)>,
    /// What changed in forgetting.
    #[n(6)]
    pub(crate) forgetting: Option<Forgetting>,
    /// Whether all have forgotten it.
    #[n(7)]
    pub forgotten: bool,
    /// Lines that are kept apart from now on, with their states.
    #[n(8)]
    pub remnants: Vec<(Epoch, ByteVec)>,
    /// What happened before that, or without it.
    #[n(9)]
    pub(crate) happenings: Happenings,
    /// How it began for those with whom it is held from now on, if this node joined another group; before
    /// all the rest.
    #[n(11)]
    pub(crate) regrouped: Option<Box<Begin>>,
}

impl Custodial {
    /// What happened, for the history.
    pub fn told(&self) -> Happenings {
        let mut told = self.happenings.clone();
        for passed in self.all_passed().filter_map(|bytes| happenings_of(bytes)) {
            told.and_then(&passed);
        }
        told
    }

    /// How many bytes of states and deltas it carries.
    fn bytes_carried(&self) -> usize {
        let states = self.adopted.iter().chain(self.remnants.iter().map(|(_, state)| state));
        self.all_passed().chain(states).map(|bytes| 4 + bytes.len()).sum()
    }

    /// All that the state went on by, oldest first.
    pub(crate) fn all_passed(&self) -> impl Iterator<Item = &ByteVec> {
        self.passed.iter().chain(&self.passed_then)
    }
}

/// How an execution that several nodes hold began.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct Begun {
    /// What every replica knows.
    #[n(0)]
    pub(crate) begin: Begin,
    /// The state that this replica held first, if that does not follow from how it began: in journals
    /// of 0.1.
    #[n(1)]
    pub(crate) state: ByteVec,
}

/// A registered definition.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Definition {
    /// The digest of the text.
    #[n(0)]
    pub digest: Digest,
    /// The document's namespace.
    #[n(1)]
    pub namespace: String,
    /// The document's name.
    #[n(2)]
    pub name: String,
    /// The document's version.
    #[n(3)]
    pub version: String,
    /// The text.
    #[n(4)]
    pub text: String,
}

/// A started execution.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Started {
    /// Its id.
    #[n(0)]
    pub execution: ExecutionId,
    /// The name its starter gave it.
    #[n(1)]
    pub name: Option<String>,
    /// The definition it is pinned to.
    #[n(2)]
    pub definition: Digest,
    /// The digest of its input; the input itself is in its state.
    #[n(3)]
    pub input: Digest,
    /// The execution that started it, if one did.
    #[n(4)]
    pub parent: Option<Parent>,
    /// The execution right after its start, encoded.
    #[n(5)]
    pub state: ByteVec,
    /// What happened.
    #[n(6)]
    pub happenings: Happenings,
    /// Messages to other executions.
    #[n(7)]
    pub sent: Vec<Sent>,
}

/// Who started a child and what it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Parent {
    /// The parent.
    #[n(0)]
    pub execution: ExecutionId,
    /// The ticket of its `StartChild`.
    #[n(1)]
    pub ticket: Ticket,
    /// Whether it waits for the child's end.
    #[n(2)]
    pub waits: bool,
    /// How many executions stand above the child.
    #[n(3)]
    pub depth: u32,
}

/// An execution advanced by one event.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Advanced {
    /// Which execution.
    #[n(0)]
    pub execution: ExecutionId,
    /// What changed in it.
    #[n(1)]
    pub delta: Delta,
    /// What happened.
    #[n(2)]
    pub happenings: Happenings,
    /// Messages to other executions.
    #[n(3)]
    pub sent: Vec<Sent>,
    /// The event it published with this step.
    #[n(4)]
    pub published: Option<Publication>,
    /// The number of the event that it was shown, if that was what advanced it.
    #[n(5)]
    pub arrived: Option<u64>,
    /// Whether what advanced it was the first message of its inbox.
    #[n(6)]
    pub received: bool,
    /// The execution that it is a lost line of, if it is one: what happened is told there.
    #[n(7)]
    pub of: Option<ExecutionId>,
}

/// A message to another execution that needs no answer. It is in the inbox of the receiver from
/// this record on, until a record of the receiver takes it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Sent {
    /// Stop.
    #[n(0)]
    Cancel(#[n(0)] ExecutionId),
    /// Nobody will ask to roll it back any more.
    #[n(1)]
    Release(#[n(0)] ExecutionId),
}

/// A numbered event.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Publication {
    /// Its number on this node.
    #[n(0)]
    pub number: u64,
    /// When it was taken in.
    #[n(1)]
    pub time: Time,
    /// The only execution it is for, if it is for one.
    #[n(2)]
    pub to: Option<ExecutionId>,
    /// The CloudEvent object.
    #[cbor(n(3), with = "value::codec")]
    pub event: Value,
    /// Who took it in first, if that was another node.
    #[n(4)]
    pub origin: Option<Origin>,
}

/// Who took an event in first, and under which number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Origin {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// The number of the event there.
    #[n(1)]
    pub number: u64,
}

impl Publication {
    /// Who took it in first; that is this node unless it says otherwise.
    pub(crate) fn origin_at(&self, here: NodeId) -> Origin {
        self.origin.unwrap_or(Origin { node: here, number: self.number })
    }

    /// Whether it can be told from others by its own id.
    pub(crate) fn has_id(&self) -> bool {
        self.id().is_some()
    }

    fn id(&self) -> Option<&str> {
        value::get(&self.event, "id").and_then(value::as_str).filter(|id| !id.is_empty())
    }

    /// What the event is, the same on every node: by its source, type and id, or, without an id, by who
    /// took it in.
    pub(crate) fn identity(&self, here: NodeId) -> u64 {
        let to = self.to.map_or([0; 16], |execution| *execution.as_bytes());
        let digester = match self.id() {
            Some(id) => {
                let text = |name| value::get(&self.event, name).and_then(value::as_str);
                let [source, kind] = ["source", "type"].map(|name| text(name).unwrap_or_default());
                let digester = Digester::new("event").field(source.as_bytes());
                digester.field(kind.as_bytes()).field(id.as_bytes())
            }
            None => {
                let Origin { node, number } = self.origin_at(here);
                Digester::new("event without id").number(node.0).number(number)
            }
        };
        digester.field(&to).finish().short()
    }
}

/// The bytes are not a record that this release can read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Written by a release with another format.
    #[error("the record has format version {found}; this release reads version {RECORD_VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// There are no bytes.
    #[error("the record is empty")]
    Empty,
    /// The bytes are not those that were written.
    #[error("the bytes are damaged: their digest is another one")]
    Damaged,
    /// The bytes do not fit the format.
    #[error("the record does not fit its format: {0}")]
    Malformed(#[from] minicbor::decode::Error),
}

/// As much of a record as says which execution it is about.
#[derive(Decode)]
struct Glance {
    #[n(3)]
    kind: KindGlance,
}

#[derive(Decode)]
enum KindGlance {
    #[n(0)]
    Opened,
    #[n(1)]
    Defined,
    #[n(2)]
    Started(#[n(0)] About),
    #[n(3)]
    Advanced(#[n(0)] About),
    #[n(4)]
    EventTaken,
    #[n(5)]
    Forgotten {
        #[n(0)]
        execution: ExecutionId,
    },
}

#[derive(Decode)]
struct About {
    #[n(0)]
    execution: ExecutionId,
}

impl Record {
    /// Writes the record.
    pub fn encode(&self) -> Vec<u8> {
        let carried = match &self.kind {
            RecordKind::Custodial(custodial) => custodial.bytes_carried(),
            _ => 0,
        };
        let mut bytes = Vec::with_capacity(BYTES_USUAL + carried);
        bytes.push(RECORD_VERSION);
        write_behind(bytes, self)
    }

    /// Reads a record.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        match bytes.split_first() {
            None => Err(RecordError::Empty),
            Some((&RECORD_VERSION, rest)) => Ok(minicbor::decode(rest)?),
            Some((&found, _)) => Err(RecordError::Version { found }),
        }
    }

    /// The execution that the bytes of a record are about. Whether the rest of them can be read is
    /// not looked at.
    pub(crate) fn execution_in(bytes: &[u8]) -> Option<ExecutionId> {
        let Glance { kind } = minicbor::decode(bytes.get(1..)?).ok()?;
        match kind {
            KindGlance::Started(about) | KindGlance::Advanced(about) => Some(about.execution),
            KindGlance::Forgotten { execution } => Some(execution),
            KindGlance::Opened | KindGlance::Defined | KindGlance::EventTaken => None,
        }
    }

    /// The execution it is about, if it is about one.
    pub fn execution(&self) -> Option<ExecutionId> {
        match &self.kind {
            RecordKind::Started(started) => Some(started.execution),
            RecordKind::Advanced(advanced) => Some(advanced.execution),
            RecordKind::Forgotten { execution, .. } => Some(*execution),
            RecordKind::Custodial(custodial) => Some(custodial.execution),
            RecordKind::RemnantDropped(execution) => Some(*execution),
            RecordKind::Opened { .. } | RecordKind::Defined(_) | RecordKind::EventTaken(_) => None,
        }
    }
}
