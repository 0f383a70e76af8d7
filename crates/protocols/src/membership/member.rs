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
    #[cbor(n(0), decode_with = "decode_epoch")]
    pub epoch: Epoch,
    /// How often it had to come back within this epoch because others had given it up.
    #[n(1)]
    pub renewals: u32,
}

/// A node as the others need to know it. It stays the same for one incarnation.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Member {
    /// Which node.
    #[n(0)]
    node: NodeId,
    /// In which life.
    #[n(1)]
    incarnation: Incarnation,
    /// Where it can be reached, the best address first.
    #[cbor(n(2), decode_with = "decode_addresses")]
    addresses: Vec<String>,
    /// Which release of the program it runs.
    #[cbor(n(3), decode_with = "decode_text")]
    release: String,
}

/// What a member offers at the moment. It may change at any time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Offer {
    /// The types of services that can be called there.
    #[cbor(n(0), decode_with = "decode_services")]
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
        check_epoch(epoch)?;
        check_addresses(&addresses)?;
        check_text(&release)?;
        let incarnation = Incarnation { epoch, renewals: 0 };
        Ok(Self { node, incarnation, addresses, release })
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
        check_services(&services)?;
        Ok(Self { services, draining, load })
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
        // Whoever says more is as busy as can be.
        self.load.min(100)
    }

    /// Whether the two differ in more than the load, which is no news.
    pub(super) fn differs_in_kind(&self, other: &Self) -> bool {
        (&self.services, self.draining) != (&other.services, other.draining)
    }
}

fn check_epoch(epoch: Epoch) -> Result<(), TooLarge> {
    if EPOCH_MAX < epoch.0 { Err(TooLarge::Epoch(epoch.0)) } else { Ok(()) }
}

fn check_addresses(addresses: &[String]) -> Result<(), TooLarge> {
    if ADDRESSES_MAX < addresses.len() {
        return Err(TooLarge::Addresses(addresses.len()));
    }
    addresses.iter().try_for_each(|address| check_text(address))
}

fn check_services(services: &BTreeSet<String>) -> Result<(), TooLarge> {
    if SERVICES_MAX < services.len() {
        return Err(TooLarge::Services(services.len()));
    }
    services.iter().try_for_each(|service| check_text(service))
}

/// Whether a text is short enough for a message.
pub(super) fn check_text(text: &str) -> Result<(), TooLarge> {
    if TEXT_BYTES_MAX < text.len() { Err(TooLarge::Text(text.len())) } else { Ok(()) }
}

fn decode_epoch<Context>(decoder: &mut Decoder<'_>, _: &mut Context) -> Result<Epoch, Error> {
    let epoch: Epoch = decoder.decode()?;
    check_epoch(epoch).map_err(Error::custom)?;
    Ok(epoch)
}

fn decode_addresses<Context>(
    decoder: &mut Decoder<'_>,
    _: &mut Context,
) -> Result<Vec<String>, Error> {
    let addresses: Vec<String> = decoder.decode()?;
    check_addresses(&addresses).map_err(Error::custom)?;
    Ok(addresses)
}

fn decode_text<Context>(decoder: &mut Decoder<'_>, _: &mut Context) -> Result<String, Error> {
    let text: String = decoder.decode()?;
    check_text(&text).map_err(Error::custom)?;
    Ok(text)
}

fn decode_services<Context>(
    decoder: &mut Decoder<'_>,
    _: &mut Context,
) -> Result<BTreeSet<String>, Error> {
    let services: BTreeSet<String> = decoder.decode()?;
    check_services(&services).map_err(Error::custom)?;
    Ok(services)
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
