//! What nodes say to each other about membership: a version and one message.
//!
//! Fields and variants are numbered; numbers are never used twice. Bytes of another version are not
//! understood, which is said and counted rather than guessed at.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::member::{Incarnation, Offer};
use super::packet::{Account, Identity, PACKET_BYTES_MAX};

/// The version of the encoding, in the first byte.
const VERSION: u8 = 1;

/// The longest message: a full packet, and what the sender offers.
pub const MESSAGE_BYTES_MAX: usize = 2 * PACKET_BYTES_MAX;

/// How many accounts one `Known` may have: an answer is not longer than the question.
pub(super) const ACCOUNTS_MAX: usize = 32;

/// What one node says to another.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) enum Message {
    /// A packet of the gossip library, and what the sender offers.
    #[n(0)]
    Gossip {
        /// The packet.
        #[n(0)]
        packet: ByteVec,
        /// What the sender says of itself.
        #[n(1)]
        description: Description,
    },
    /// The sender offers something else than before.
    #[n(1)]
    Described {
        /// What the sender says of itself.
        #[n(0)]
        description: Description,
    },
    /// The sender has left.
    #[n(2)]
    Left {
        /// The incarnation that says so.
        #[n(0)]
        identity: Identity,
    },
    /// The receiver spoke of members, perhaps of itself, of which the sender knows a later life.
    #[n(3)]
    Known {
        /// What the sender knows of them.
        #[n(0)]
        accounts: Vec<Account>,
    },
}

/// What a member says that it offers.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct Description {
    /// In which life it says so.
    #[n(0)]
    pub(super) incarnation: Incarnation,
    /// Counts up with every change.
    #[n(1)]
    pub(super) revision: u64,
    /// What it offers.
    #[n(2)]
    pub(super) offer: Offer,
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotUnderstood {
    /// There are too many of them.
    TooLong,
    /// They begin with another version.
    OtherVersion,
    /// They are none, or not what the version says.
    Garbage,
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        minicbor::encode(self, &mut bytes).expect("a vector takes any number of bytes");
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, NotUnderstood> {
        if MESSAGE_BYTES_MAX < bytes.len() {
            return Err(NotUnderstood::TooLong);
        }
        let (version, rest) = bytes.split_first().ok_or(NotUnderstood::Garbage)?;
        if *version != VERSION {
            return Err(NotUnderstood::OtherVersion);
        }
        let mut decoder = minicbor::Decoder::new(rest);
        let message: Self = decoder.decode().map_err(|_| NotUnderstood::Garbage)?;
        let crowded = matches!(&message, Self::Known { accounts } if ACCOUNTS_MAX < accounts.len());
        if crowded || decoder.position() != rest.len() {
            return Err(NotUnderstood::Garbage);
        }
        Ok(message)
    }
}
