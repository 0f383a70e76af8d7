//! What Paxos sends and writes: ballots, values, messages and the record.
//!
//! Fields and variants are numbered; numbers are never used twice.

use std::fmt;

use minicbor::decode::{Decoder, Error};
use minicbor::{Decode, Encode};
use outlast_lineage::NodeId;

/// The longest value. A decision names a state or a line, whose data travels by other ways.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;

/// A try to get a value decided. No two tries share one: the node is part of it, and a node
/// writes its own promise down before it speaks of the ballot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Ballot {
    /// Counts up, over the tries of all nodes.
    #[n(0)]
    pub round: u64,
    /// Whose try it is.
    #[n(1)]
    pub node: NodeId,
}

/// What is decided on: bytes that mean something to the owner only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
#[cbor(transparent)]
pub struct Value(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>);

/// The value is longer than `VALUE_BYTES_MAX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueTooLong {
    /// How long it is.
    pub bytes: usize,
}

/// That a member accepted a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Vote {
    /// In which ballot.
    #[n(0)]
    pub ballot: Ballot,
    /// Which value.
    #[n(1)]
    pub value: Value,
}

/// What one member says to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub enum Message {
    /// Take no part in lower ballots, and say what you accepted in one.
    #[n(0)]
    Prepare {
        /// The sender's ballot.
        #[n(0)]
        ballot: Ballot,
    },
    /// The sender takes no part in lower ballots.
    #[n(1)]
    Promised {
        /// The ballot of the `Prepare`.
        #[n(0)]
        ballot: Ballot,
        /// What the sender last accepted.
        #[n(1)]
        accepted: Option<Vote>,
    },
    /// Accept this value, unless you promised not to.
    #[n(2)]
    Accept {
        /// The sender's ballot.
        #[n(0)]
        ballot: Ballot,
        /// The one value of this ballot.
        #[n(1)]
        value: Value,
    },
    /// The sender accepted the value of a ballot.
    #[n(3)]
    Accepted {
        /// The ballot of the `Accept`.
        #[n(0)]
        ballot: Ballot,
    },
    /// The sender can neither promise nor accept: it promised a higher ballot.
    #[n(4)]
    Reject {
        /// The ballot of the `Prepare` or `Accept`.
        #[n(0)]
        ballot: Ballot,
        /// What the sender promised.
        #[n(1)]
        promised: Ballot,
    },
    /// This value is decided.
    #[n(5)]
    Decide {
        /// The decided value.
        #[n(0)]
        value: Value,
    },
    /// The sender has the decision on its disk.
    #[n(6)]
    Learned,
    /// The sender took part and knows no decision; whoever does, answers with `Decide`.
    #[n(7)]
    Ask,
}

/// Everything a member may not forget. Each record replaces the one before.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
pub struct Record {
    /// It takes no part in ballots below this one.
    #[n(0)]
    pub promised: Option<Ballot>,
    /// What it last accepted.
    #[n(1)]
    pub accepted: Option<Vote>,
    /// What is decided.
    #[n(2)]
    pub decided: Option<Value>,
}

impl Value {
    /// Takes bytes as a value, if there are not too many.
    pub fn new(bytes: Vec<u8>) -> Result<Self, ValueTooLong> {
        if VALUE_BYTES_MAX < bytes.len() {
            return Err(ValueTooLong { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'bytes, Context> Decode<'bytes, Context> for Value {
    fn decode(decoder: &mut Decoder<'bytes>, _: &mut Context) -> Result<Self, Error> {
        Self::new(decoder.bytes()?.to_vec()).map_err(Error::custom)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for ValueTooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a value of {} bytes, {VALUE_BYTES_MAX} at most", self.bytes)
    }
}

impl std::error::Error for ValueTooLong {}
