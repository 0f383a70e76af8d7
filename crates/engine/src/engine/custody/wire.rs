//! What engines say to each other: a version byte and a CBOR envelope around the protocols'
//! messages. Numbers are never used twice.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use outlast_expressions::{Value, value};
use outlast_lineage::{Digest, Epoch, ExecutionId, NodeId, Time};
use outlast_protocols::{Members, paxos, replicas, two_phase};
use outlast_workflow::{Delta, Execution, Program, Start};

use super::hearsay::Hearsay;
use crate::writing::write_behind;
use crate::{Definition, Happenings, Origin, Parent, Survival};

/// The version of the wire format that this release writes.
const WIRE_VERSION: u8 = 1;

/// What a variant with fields begins with: an array of two, which are its number and its fields.
const PAIR: u8 = 0x82;

/// The number of `Envelope::Heartbeat`.
const HEARTBEAT: u8 = 0;

/// What one engine says to another.
#[derive(Clone, Debug, Encode, Decode)]
pub(in crate::engine) enum Envelope {
    /// The sender is alive, in this life; for how many milliseconds its disk has taken nothing of
    /// what there was to write; and what its clock says, in microseconds.
    #[n(0)]
    Heartbeat(#[n(0)] Epoch, #[n(1)] Option<u64>, #[n(2)] Option<u64>),
    /// Hold this execution as one of its replicas (the paper's EXEC).
    #[n(1)]
    Begin(#[n(0)] Box<Begin>),
    /// The sender knows nothing of an execution that it was told about, or asked for at that time.
    #[n(3)]
    Unknown(#[n(0)] ExecutionId, #[n(1)] Option<Time>),
    /// The sender lacks a definition.
    #[n(7)]
    WantDefinition(#[n(0)] Digest),
    /// A definition.
    #[n(8)]
    Definition(#[n(0)] Box<Definition>),
    /// A word on who is in the cluster.
    #[n(9)]
    Gossip(#[n(0)] ByteVec),
    /// These nodes are gone for good.
    #[n(10)]
    Removed(#[n(0)] Vec<NodeId>),
    /// The sender holds the execution on these terms, which are not those that it was told; or it has
    /// held it to its end.
    #[n(11)]
    Otherwise(#[n(0)] ExecutionId, #[n(1)] Option<Box<Begin>>),
    /// An event that the sender has.
    #[n(12)]
    Event(#[n(0)] Box<Carried>),
    /// The sender has these events.
    #[n(13)]
    EventsOffered(#[n(0)] Vec<u64>),
    /// Of the events that it was sent or offered, the sender has the first and wants the second.
    #[n(14)]
    EventsSorted(#[n(0)] Vec<u64>, #[n(1)] Vec<u64>),
    /// Whether the receiver knows an execution: it answers `Otherwise`, or `Unknown` with when it was
    /// asked by the sender's clock.
    #[n(16)]
    Knows(#[n(0)] ExecutionId, #[n(1)] Option<Time>),
    /// What one step has to say of an execution: it is taken in one step, too.
    #[n(17)]
    Words(#[n(0)] Shared, #[n(1)] Vec<Said>),
    /// The sender has these definitions.
    #[n(18)]
    DefinitionsOffered(#[n(0)] Vec<Digest>),
    /// Of the definitions that it was offered, the sender has these.
    #[n(19)]
    DefinitionsHeld(#[n(0)] Vec<Digest>),
}

/// A word between nodes that hold an execution together.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(in crate::engine) enum Said {
    /// What it begins as: the first that a node hears of it.
    #[n(0)]
    Begin(#[n(0)] Box<Begin>),
    /// The sender holds it, durably.
    #[n(1)]
    Holds,
    /// A word between its replicas.
    #[n(2)]
    Replica(#[n(0)] replicas::Message),
    /// A word on one of its decisions.
    #[n(3)]
    Paxos(#[n(0)] u32, #[n(1)] paxos::Message),
    /// The same, but for those only who hold the line that it is about.
    #[n(4)]
    PaxosOfHolders(#[n(0)] u32, #[n(1)] paxos::Message),
    /// A word on its forgetting.
    #[n(5)]
    Forgetting(#[n(0)] two_phase::Message),
    /// The answer to a call that waits for a person where the receiver leads; in a message of its own, which
    /// older nodes cannot read.
    #[n(6)]
    Heard(#[n(0)] Box<Hearsay>),
}

/// An execution, as certain nodes hold it: who holds it with others takes no part in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub(in crate::engine) struct Shared {
    #[n(0)]
    pub(in crate::engine) execution: ExecutionId,
    /// What tells its members from others.
    #[n(1)]
    pub(in crate::engine) mark: u32,
}

/// The fields of `Envelope::Heartbeat`.
#[derive(Decode)]
struct Heartbeat {
    #[n(1)]
    still: Option<u64>,
    #[n(2)]
    clock: Option<u64>,
}

/// An event on its way to another node.
#[derive(Clone, Debug, Encode, Decode)]
pub(in crate::engine) struct Carried {
    #[n(0)]
    pub(in crate::engine) origin: Origin,
    /// For how long it has been known, in microseconds: clocks need not agree.
    #[n(1)]
    pub(in crate::engine) age: u64,
    /// The only execution it is for, if it is for one.
    #[n(2)]
    pub(in crate::engine) to: Option<ExecutionId>,
    #[cbor(n(3), with = "value::codec")]
    pub(in crate::engine) event: Value,
}

/// An execution, as every replica must know it before anything has happened.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(crate) struct Begin {
    #[n(0)]
    pub(in crate::engine) execution: ExecutionId,
    #[n(1)]
    pub(in crate::engine) name: Option<String>,
    #[n(2)]
    pub(in crate::engine) definition: Digest,
    #[cbor(n(3), with = "value::codec")]
    pub(in crate::engine) input: Value,
    #[cbor(n(4), with = "minicbor::bytes")]
    pub(in crate::engine) salt: [u8; 16],
    #[n(5)]
    pub(in crate::engine) started: Time,
    #[n(6)]
    pub(in crate::engine) terms: Terms,
    /// The execution that started it, if one did.
    #[n(7)]
    pub(in crate::engine) parent: Option<Parent>,
}

impl Begin {
    /// The execution that all its replicas hold before anything has happened.
    pub(in crate::engine) fn unstarted(&self, program: &Program) -> Execution {
        let depth = self.parent.map_or(0, |parent| parent.depth);
        let (id, input, salt) = (self.execution, self.input.clone(), self.salt);
        let start = Start { id, input, salt, keep_plan: true, shared: true, depth };
        Execution::unstarted(program, start, self.started)
    }

    /// What tells it from anything else that the same execution could begin as, to the byte: what is
    /// held before the beginning must be the same for what is told from there on.
    pub(in crate::engine) fn digest(&self) -> u64 {
        Digest::of(&write_behind(Vec::with_capacity(256), self)).short()
    }
}

/// On which terms an execution is held: the same at all its replicas.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(in crate::engine) struct Terms {
    #[n(0)]
    pub(in crate::engine) survival: Survival,
    #[n(1)]
    pub(in crate::engine) members: Members,
}

/// What a step of a primary changed, or several, as its backups get it.
#[derive(Clone, Debug, Decode)]
pub(in crate::engine) struct Passed {
    #[n(0)]
    pub(in crate::engine) delta: Delta,
    #[n(1)]
    pub(in crate::engine) happenings: Happenings,
}

/// The same of which only what happened is wanted.
#[derive(Decode)]
struct Told {
    #[n(1)]
    happenings: Happenings,
}

impl Said {
    /// Whether somebody waits for it: whoever forgets or has heard is in no hurry to say so.
    pub(super) const fn is_awaited(&self) -> bool {
        !matches!(self, Self::Forgetting(_) | Self::Paxos(_, paxos::Message::Learned))
    }

    /// How many bytes it needs, about.
    fn bytes_usual(&self) -> usize {
        match self {
            Self::Begin(_) => 256,
            Self::Replica(message) => 96 + message.bytes_carried(),
            _ => 96,
        }
    }

    /// Its kind, in the words of its protocol.
    fn shown(&self) -> &dyn std::fmt::Debug {
        match self {
            Self::Begin(_) | Self::Holds | Self::Heard(_) => self,
            Self::Replica(message) => message,
            Self::Paxos(_, message) | Self::PaxosOfHolders(_, message) => message,
            Self::Forgetting(message) => message,
        }
    }
}

impl Envelope {
    pub(in crate::engine) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes_usual());
        bytes.push(WIRE_VERSION);
        write_behind(bytes, self)
    }

    /// How many bytes it needs, about.
    fn bytes_usual(&self) -> usize {
        match self {
            Self::Words(_, words) => 32 + words.iter().map(Said::bytes_usual).sum::<usize>(),
            Self::Heartbeat(..) => 32,
            _ => 128,
        }
    }

    /// Reads a heartbeat: for how long the sender's disk has taken nothing, in milliseconds, and what its clock
    /// says; nothing if it is anything else. An envelope is large, and moving it about costs more than this.
    pub(in crate::engine) fn heartbeat(bytes: &[u8]) -> Option<(u64, Option<Time>)> {
        let [WIRE_VERSION, PAIR, HEARTBEAT, rest @ ..] = bytes else { return None };
        let fields: Heartbeat = minicbor::decode(rest).ok()?;
        Some((fields.still.unwrap_or(0), fields.clock.map(Time::from_micros)))
    }

    /// Reads an envelope; nothing if it is of another version or damaged.
    pub(in crate::engine) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first() {
            Some((&WIRE_VERSION, rest)) => minicbor::decode(rest).ok(),
            _ => None,
        }
    }
}

/// What a message between nodes says, for whoever traces them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spoken {
    /// What kinds of message it is made of, in the words of their protocols.
    pub kind: String,
    /// The execution it is about, if it is about one.
    pub execution: Option<ExecutionId>,
}

impl Spoken {
    /// Reads what `Action::Send` gave; nothing if it cannot be read.
    pub fn of(message: &[u8]) -> Option<Self> {
        let envelope = Envelope::decode(message)?;
        let (kind, execution) = match &envelope {
            Envelope::Words(of, words) => {
                let kinds: Vec<String> = words.iter().map(|said| kind_of(said.shown())).collect();
                (kinds.join("+"), Some(of.execution))
            }
            Envelope::Begin(begin) => (kind_of(&envelope), Some(begin.execution)),
            Envelope::Unknown(id, _) | Envelope::Knows(id, _) => (kind_of(&envelope), Some(*id)),
            _ => (kind_of(&envelope), None),
        };
        Some(Self { kind, execution })
    }
}

/// The name of a variant.
fn kind_of(shown: &dyn std::fmt::Debug) -> String {
    format!("{shown:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

impl Passed {
    pub(in crate::engine) fn decode(bytes: &[u8]) -> Option<Self> {
        minicbor::decode(bytes).ok()
    }
}

/// `Passed`, to be written.
#[derive(Encode)]
pub(super) struct Passing<'a> {
    #[n(0)]
    pub(super) delta: &'a Delta,
    #[n(1)]
    pub(super) happenings: &'a Happenings,
}

impl Passing<'_> {
    pub(super) fn encode(&self) -> StateBytes {
        write_behind(Vec::with_capacity(512 + self.happenings.bytes()), self).into()
    }
}

/// What the backups of a primary were not told yet: all steps since they were, as one.
#[derive(Debug)]
pub(in crate::engine) struct Untold {
    delta: Delta,
    happenings: Happenings,
    /// The same in bytes, if it was written since it changed.
    bytes: Option<StateBytes>,
}

impl Untold {
    pub(super) const fn new(delta: Delta, happenings: Happenings, bytes: StateBytes) -> Self {
        Self { delta, happenings, bytes: Some(bytes) }
    }

    /// The same and a later step.
    pub(super) fn and_then(&mut self, delta: Delta, happenings: &Happenings) {
        self.delta.and_then(delta);
        self.happenings.and_then(happenings);
        self.bytes = None;
    }

    pub(super) fn bytes(&mut self) -> StateBytes {
        let passing = Passing { delta: &self.delta, happenings: &self.happenings };
        self.bytes.get_or_insert_with(|| passing.encode()).clone()
    }
}

/// What happened in the steps that were passed on as these bytes.
pub(crate) fn happenings_of(passed: &[u8]) -> Option<Happenings> {
    minicbor::decode(passed).ok().map(|Told { happenings }| happenings)
}

/// A choice as consensus takes it.
pub(in crate::engine) fn value_of(choice: &replicas::Choice) -> paxos::Value {
    let bytes = minicbor::to_vec(choice).expect("writing to memory does not fail");
    paxos::Value::new(bytes).expect("a line of so many take-overs is decided on before")
}

/// The choice that consensus came to.
pub(in crate::engine) fn choice_of(value: &paxos::Value) -> Option<replicas::Choice> {
    minicbor::decode(value.as_bytes()).ok()
}

/// The state of an execution, encoded.
pub(in crate::engine) type StateBytes = ByteVec;

#[cfg(test)]
mod tests {
    use outlast_workflow::{Happening, TaskId};

    use super::*;

    #[test]
    fn what_happened_in_several_steps_is_read_as_one_list() {
        let first = [Happening::Started, Happening::TaskStarted(TaskId(0), None)];
        let then = [Happening::Called(TaskId(0), "key".to_owned())];
        let step = Vec::new().into();
        let mut untold = Untold::new(Delta::default(), Happenings::from(&first[..]), step);
        untold.and_then(Delta::default(), &Happenings::from(&then[..]));
        let told = happenings_of(&untold.bytes()).unwrap();
        assert_eq!(told.read(), [&first[..], &then].concat());
    }

    /// As releases wrote it that said nothing of their clocks, or of their disks.
    #[test]
    fn a_heartbeat_of_an_older_node_says_nothing_of_its_clock() {
        let epoch_alone = [WIRE_VERSION, PAIR, HEARTBEAT, 0x81, 0x05];
        assert_eq!(Envelope::heartbeat(&epoch_alone), Some((0, None)));
        let and_its_disk = [WIRE_VERSION, PAIR, HEARTBEAT, 0x82, 0x05, 0x18, 0x64];
        assert_eq!(Envelope::heartbeat(&and_its_disk), Some((100, None)));
    }

    #[test]
    fn a_heartbeat_is_told_from_everything_else() {
        for (still, read) in [(None, 0), (Some(7), 7), (Some(u64::MAX), u64::MAX)] {
            let bytes = Envelope::Heartbeat(Epoch(300), still, Some(9)).encode();
            assert_eq!(Envelope::heartbeat(&bytes), Some((read, Some(Time::from_micros(9)))));
            for length in 0..bytes.len() {
                assert_eq!(Envelope::heartbeat(&bytes[..length]), None);
            }
        }
        let other = Envelope::Unknown(ExecutionId::from_bytes([0; 16]), None).encode();
        assert_eq!(Envelope::heartbeat(&other), None);
    }
}
