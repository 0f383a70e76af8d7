//! Names of executions, branches and nodes.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};
use uuid::Uuid;

/// One run of a workflow. Made by the driver (UUIDv7, so ids sort by time) or derived for a child.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct ExecutionId(#[cbor(n(0), with = "minicbor::bytes")] [u8; 16]);

/// Compared as a number, which is the order of the bytes: everything that happens looks its execution
/// up several times.
impl Ord for ExecutionId {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        u128::from_be_bytes(self.0).cmp(&u128::from_be_bytes(other.0))
    }
}

impl PartialOrd for ExecutionId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ExecutionId {
    /// Takes 16 bytes as they are.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// A UUIDv7 of a time in milliseconds since 1970 and ten random bytes.
    pub fn from_time(milliseconds: u64, random: [u8; 10]) -> Self {
        Self(
            uuid::Builder::from_unix_timestamp_millis(milliseconds, &random)
                .into_uuid()
                .into_bytes(),
        )
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_bytes(self.0).fmt(formatter)
    }
}

impl fmt::Debug for ExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The text is not an id.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseIdError;

impl fmt::Display for ParseIdError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not an id: expected the form 0197a1b2-….")
    }
}

impl std::error::Error for ParseIdError {}

impl FromStr for ExecutionId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Uuid::parse_str(text).map(|uuid| Self(uuid.into_bytes())).map_err(|_| ParseIdError)
    }
}

/// A branch of an execution: derived from where it was forked, so that every copy gives it the
/// same id without agreement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct BranchId(#[n(0)] pub u64);

impl BranchId {
    /// The branch every execution begins with.
    pub const TRUNK: Self = Self(0);
}

impl fmt::Debug for BranchId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::TRUNK {
            write!(formatter, "trunk")
        } else {
            write!(formatter, "b{:08x}", self.0 >> 32)
        }
    }
}

/// A node of the cluster. A node that lost its disk comes back under another id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct NodeId(#[n(0)] pub u64);

/// A term of an author. It rises whenever the author starts anew, so that what it left behind from
/// an earlier term can be told apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Epoch(#[n(0)] pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_sort_as_their_bytes_do() {
        let mut bytes: Vec<[u8; 16]> = Vec::new();
        for place in 0..16 {
            for byte in [1, 127, 128, 255] {
                let mut one = [64; 16];
                one[place] = byte;
                bytes.push(one);
            }
        }
        let mut executions: Vec<_> = bytes.iter().copied().map(ExecutionId::from_bytes).collect();
        executions.sort_unstable();
        bytes.sort_unstable();
        assert!(executions.iter().map(ExecutionId::as_bytes).eq(&bytes));
    }
}
