//! What a member says of itself: who it is and where, and what it offers.
//!
//! Everything is small and checked once, when it is made or decoded: a `Member` and an `Offer` that
//! exist fit into a message, wherever they came from.

use std::collections::BTreeSet;
use std::fmt;

use minicbor::decode::{Decoder, Error};
use minicbor::{Decode, Encode};
use outlast_lineage::{Epoch, NodeId};

/// How many addresses a member may have: one per network it is on.
pub const ADDRESSES_MAX: usize = 4;
/// How long an address, a release or the name of a service may be.
pub const TEXT_BYTES_MAX: usize = 128;
/// How many services a member may offer.
pub const SERVICES_MAX: usize = 32;

/// The highest epoch that is believed: beyond it someone counts wrongly, and no node restarts so
/// often. The room above lets a node always come back higher.
const EPOCH_MAX: u64 = u64::MAX / 2;

/// Which life of a node is meant. The higher one is the later one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
pub struct Incarnation {
    /// The node's epoch, which rises with every start.
    #[n(0)]
    pub epoch: Epoch,
    /// How often it had to come back within this epoch because others had given it up.
    #[n(1)]
    pub renewals: u32,
}

/// A node as the others need to know it. It stays the same for one incarnation.
#[derive(Clone, PartialEq, Eq, Debug, Encode)]
pub struct Member {
    /// Which node.
    #[n(0)]
    node: NodeId,
    /// In which life.
    #[n(1)]
    incarnation: Incarnation,
    /// Where it can be reached, the best address first.
    #[n(2)]
    addresses: Vec<String>,
    /// Which release of the program it runs.
    #[n(3)]
    release: String,
}

/// What a member offers at the moment. It may change at any time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode)]
pub struct Offer {
    /// The types of services that can be called there.
    #[n(0)]
    services: BTreeSet<String>,
    /// Whether it takes no new work, because it is about to leave.
    #[n(1)]
    draining: bool,
    /// How busy it is, in percent.
    #[n(2)]
    load: u8,
}

/// What a member says of itself is larger than what a message has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooLarge {
    /// More than `ADDRESSES_MAX` addresses.
    Addresses(usize),
    /// More than `SERVICES_MAX` services.
    Services(usize),
    /// A text of more than `TEXT_BYTES_MAX` bytes.
    Text(usize),
    /// An epoch that no node reaches.
    Epoch(u64),
}

impl Incarnation {
    /// The next one in the same epoch.
    pub(super) fn renewed(self) -> Self {
        match self.renewals.checked_add(1) {
            Some(renewals) => Self { renewals, ..self },
            None => Self { epoch: Epoch(self.epoch.0 + 1), renewals: 0 },
        }
    }
}

impl Member {
    /// A node in the life that began with this epoch.
    pub fn new(
        node: NodeId,
        epoch: Epoch,
        addresses: Vec<String>,
        release: String,
    ) -> Result<Self, TooLarge> {
        let incarnation = Incarnation { epoch, renewals: 0 };
        Self { node, incarnation, addresses, release }.checked()
    }

    /// A node of which nothing is known but its name.
    pub(super) fn unknown(node: NodeId) -> Self {
        let incarnation = Incarnation::default();
        Self { node, incarnation, addresses: Vec::new(), release: String::new() }
    }

    /// The same node in another life.
    pub(super) fn with_incarnation(&self, incarnation: Incarnation) -> Self {
        Self { incarnation, ..self.clone() }
    }

    fn checked(self) -> Result<Self, TooLarge> {
        if EPOCH_MAX < self.incarnation.epoch.0 {
            return Err(TooLarge::Epoch(self.incarnation.epoch.0));
        }
        if ADDRESSES_MAX < self.addresses.len() {
            return Err(TooLarge::Addresses(self.addresses.len()));
        }
        check_texts(self.addresses.iter().chain([&self.release]))?;
        Ok(self)
    }

    /// Which node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// In which life.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Where it can be reached, the best address first; none if nobody said so yet.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Which release of the program it runs; empty if nobody said so yet.
    pub fn release(&self) -> &str {
        &self.release
    }
}

impl Offer {
    /// What a member offers; a load above 100 is 100.
    pub fn new(services: BTreeSet<String>, draining: bool, load: u8) -> Result<Self, TooLarge> {
        if SERVICES_MAX < services.len() {
            return Err(TooLarge::Services(services.len()));
        }
        check_texts(services.iter())?;
        Ok(Self { services, draining, load: load.min(100) })
    }

    /// The types of services that can be called there.
    pub fn services(&self) -> &BTreeSet<String> {
        &self.services
    }

    /// Whether it takes no new work, because it is about to leave.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// How busy it is, in percent.
    pub fn load(&self) -> u8 {
        self.load
    }

    /// Whether the two differ in more than the load, which is no news.
    pub(super) fn differs_in_kind(&self, other: &Self) -> bool {
        (&self.services, self.draining) != (&other.services, other.draining)
    }
}

/// Whether a text is short enough for a message.
pub(super) fn is_short(text: &str) -> bool {
    text.len() <= TEXT_BYTES_MAX
}

fn check_texts<'text>(mut texts: impl Iterator<Item = &'text String>) -> Result<(), TooLarge> {
    match texts.find(|text| !is_short(text)) {
        Some(text) => Err(TooLarge::Text(text.len())),
        None => Ok(()),
    }
}

/// The fields of a `Member` before they are checked.
#[derive(Decode)]
struct MemberFields {
    #[n(0)]
    node: NodeId,
    #[n(1)]
    incarnation: Incarnation,
    #[n(2)]
    addresses: Vec<String>,
    #[n(3)]
    release: String,
}

impl<'bytes, Context> Decode<'bytes, Context> for Member {
    fn decode(decoder: &mut Decoder<'bytes>, context: &mut Context) -> Result<Self, Error> {
        let MemberFields { node, incarnation, addresses, release } =
            MemberFields::decode(decoder, context)?;
        Self { node, incarnation, addresses, release }.checked().map_err(Error::custom)
    }
}

/// The fields of an `Offer` before they are checked.
#[derive(Decode)]
struct OfferFields {
    #[n(0)]
    services: BTreeSet<String>,
    #[n(1)]
    draining: bool,
    #[n(2)]
    load: u8,
}

impl<'bytes, Context> Decode<'bytes, Context> for Offer {
    fn decode(decoder: &mut Decoder<'bytes>, context: &mut Context) -> Result<Self, Error> {
        let OfferFields { services, draining, load } = OfferFields::decode(decoder, context)?;
        Self::new(services, draining, load).map_err(Error::custom)
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(count) => {
                write!(formatter, "{count} addresses, {ADDRESSES_MAX} at most")
            }
            Self::Services(count) => write!(formatter, "{count} services, {SERVICES_MAX} at most"),
            Self::Text(bytes) => {
                write!(formatter, "a text of {bytes} bytes, {TEXT_BYTES_MAX} at most")
            }
            Self::Epoch(epoch) => write!(formatter, "epoch {epoch}, {EPOCH_MAX} at most"),
        }
    }
}

impl std::error::Error for TooLarge {}
