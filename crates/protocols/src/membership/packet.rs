//! The packets of the gossip library, in our own numbered encoding.
//!
//! The library (foca) leaves identities and their bytes to its user. An identity here is a member in
//! one incarnation; what else it carries travels with it and plays no part in comparisons. A packet
//! is a header and, for most kinds, a count and as many accounts of members.

use std::fmt;

use bytes::{Buf, BufMut};
use minicbor::{Decode, Encode};
use outlast_lineage::NodeId;

use super::member::{Incarnation, Member};

/// The longest packet: room for some hundred members in one answer to a newcomer.
pub(super) const PACKET_BYTES_MAX: usize = 32 * 1024;

/// A member in one incarnation, as gossip knows it.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct Identity {
    #[n(0)]
    pub(super) member: Member,
    /// Whether this incarnation exists only to say that the node left.
    #[n(1)]
    pub(super) left: bool,
}

/// What someone says of a member.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct Account {
    #[n(0)]
    pub(super) identity: Identity,
    /// How often the member has contradicted a suspicion, within this incarnation.
    #[n(1)]
    pub(super) contradictions: u16,
    #[n(2)]
    pub(super) condition: Condition,
}

/// What the library distinguishes. Whoever is down stays so, in this incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub(super) enum Condition {
    #[n(0)]
    Alive,
    #[n(1)]
    Suspect,
    #[n(2)]
    Down,
}

/// Who is meant, without what it says of itself: enough where it is only compared.
#[derive(Clone, Copy, Debug, Encode, Decode)]
struct Name {
    #[n(0)]
    node: NodeId,
    #[n(1)]
    incarnation: Incarnation,
}

#[derive(Clone, Debug, Encode, Decode)]
struct Header {
    #[n(0)]
    source: Identity,
    #[n(1)]
    contradictions: u16,
    #[n(2)]
    destination: Name,
    #[n(3)]
    kind: Kind,
}

/// What a packet is for.
#[derive(Clone, Copy, Debug, Encode, Decode)]
enum Kind {
    #[n(0)]
    Ping(#[n(0)] u8),
    #[n(1)]
    Ack(#[n(0)] u8),
    #[n(2)]
    PingRequest(#[n(0)] Name, #[n(1)] u8),
    #[n(3)]
    IndirectPing(#[n(0)] Name, #[n(1)] u8),
    #[n(4)]
    IndirectAck(#[n(0)] Name, #[n(1)] u8),
    #[n(5)]
    ForwardedAck(#[n(0)] Name, #[n(1)] u8),
    #[n(6)]
    Announce,
    #[n(7)]
    Feed,
    #[n(8)]
    Gossip,
    #[n(9)]
    Broadcast,
    #[n(10)]
    TurnUndead,
}

/// The bytes are no packet, or there is no room for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadPacket;

/// What is in a packet, read before the library gets it.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pub(super) source: Identity,
    pub(super) accounts: Vec<Account>,
}

impl Contents {
    /// Reads a packet whole.
    pub(super) fn read(packet: &[u8]) -> Result<Self, BadPacket> {
        let mut rest = packet;
        let header: Header = read(&mut rest)?;
        let mut accounts = Vec::new();
        if !rest.is_empty() {
            let count = rest.try_get_u16().map_err(|_| BadPacket)?;
            for _ in 0..count {
                accounts.push(read(&mut rest)?);
            }
        }
        if rest.is_empty() { Ok(Self { source: header.source, accounts }) } else { Err(BadPacket) }
    }
}

impl Identity {
    pub(super) fn new(member: Member) -> Self {
        Self { member, left: false }
    }

    /// Stands for a node whose incarnation is not known: enough to announce oneself to it.
    pub(super) fn unknown(node: NodeId) -> Self {
        Self::new(Member::unknown(node))
    }

    /// The incarnation after this one, which says that the node left.
    pub(super) fn leaving(&self) -> Self {
        let incarnation = self.member.incarnation().renewed();
        Self { member: self.member.with_incarnation(incarnation), left: true }
    }

    pub(super) fn node(&self) -> NodeId {
        self.member.node()
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.member.incarnation()
    }

    fn name(&self) -> Name {
        Name { node: self.node(), incarnation: self.incarnation() }
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        (self.node(), self.incarnation()) == (other.node(), other.incarnation())
    }
}

impl Eq for Identity {}

impl foca::Identity for Identity {
    type Addr = NodeId;

    fn renew(&self) -> Option<Self> {
        Some(Self::new(self.member.with_incarnation(self.incarnation().renewed())))
    }

    fn addr(&self) -> NodeId {
        self.node()
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        adversary.incarnation() < self.incarnation()
    }
}

impl From<Name> for Identity {
    fn from(name: Name) -> Self {
        Self::new(Member::unknown(name.node).with_incarnation(name.incarnation))
    }
}

impl From<&foca::Member<Identity>> for Account {
    fn from(member: &foca::Member<Identity>) -> Self {
        let condition = match member.state() {
            foca::State::Alive => Condition::Alive,
            foca::State::Suspect => Condition::Suspect,
            foca::State::Down => Condition::Down,
        };
        let identity = member.id().clone();
        Self { identity, contradictions: member.incarnation(), condition }
    }
}

impl From<Account> for foca::Member<Identity> {
    fn from(account: Account) -> Self {
        let state = match account.condition {
            Condition::Alive => foca::State::Alive,
            Condition::Suspect => foca::State::Suspect,
            Condition::Down => foca::State::Down,
        };
        Self::new(account.identity, account.contradictions, state)
    }
}

impl From<&foca::Message<Identity>> for Kind {
    fn from(message: &foca::Message<Identity>) -> Self {
        use foca::Message;
        match message {
            Message::Ping(number) => Self::Ping(*number),
            Message::Ack(number) => Self::Ack(*number),
            Message::PingReq { target, probe_number } => {
                Self::PingRequest(target.name(), *probe_number)
            }
            Message::IndirectPing { origin, probe_number } => {
                Self::IndirectPing(origin.name(), *probe_number)
            }
            Message::IndirectAck { target, probe_number } => {
                Self::IndirectAck(target.name(), *probe_number)
            }
            Message::ForwardedAck { origin, probe_number } => {
                Self::ForwardedAck(origin.name(), *probe_number)
            }
            Message::Announce => Self::Announce,
            Message::Feed => Self::Feed,
            Message::Gossip => Self::Gossip,
            Message::Broadcast => Self::Broadcast,
            Message::TurnUndead => Self::TurnUndead,
        }
    }
}

impl From<Kind> for foca::Message<Identity> {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Ping(number) => Self::Ping(number),
            Kind::Ack(number) => Self::Ack(number),
            Kind::PingRequest(target, probe_number) => {
                Self::PingReq { target: target.into(), probe_number }
            }
            Kind::IndirectPing(origin, probe_number) => {
                Self::IndirectPing { origin: origin.into(), probe_number }
            }
            Kind::IndirectAck(target, probe_number) => {
                Self::IndirectAck { target: target.into(), probe_number }
            }
            Kind::ForwardedAck(origin, probe_number) => {
                Self::ForwardedAck { origin: origin.into(), probe_number }
            }
            Kind::Announce => Self::Announce,
            Kind::Feed => Self::Feed,
            Kind::Gossip => Self::Gossip,
            Kind::Broadcast => Self::Broadcast,
            Kind::TurnUndead => Self::TurnUndead,
        }
    }
}

/// Writes and reads packets for the library.
pub(super) struct Codec;

impl foca::Codec<Identity> for Codec {
    type Error = BadPacket;

    fn encode_header(
        &mut self,
        header: &foca::Header<Identity>,
        buffer: impl BufMut,
    ) -> Result<(), BadPacket> {
        let header = Header {
            source: header.src.clone(),
            contradictions: header.src_incarnation,
            destination: header.dst.name(),
            kind: Kind::from(&header.message),
        };
        write(&header, buffer)
    }

    fn decode_header(&mut self, buffer: impl Buf) -> Result<foca::Header<Identity>, BadPacket> {
        let Header { source, contradictions, destination, kind } = read(buffer)?;
        Ok(foca::Header {
            src: source,
            src_incarnation: contradictions,
            dst: destination.into(),
            message: kind.into(),
        })
    }

    fn encode_member(
        &mut self,
        member: &foca::Member<Identity>,
        buffer: impl BufMut,
    ) -> Result<(), BadPacket> {
        write(&Account::from(member), buffer)
    }

    fn decode_member(&mut self, buffer: impl Buf) -> Result<foca::Member<Identity>, BadPacket> {
        read::<Account>(buffer).map(foca::Member::from)
    }
}

fn write(item: &impl Encode<()>, mut buffer: impl BufMut) -> Result<(), BadPacket> {
    let bytes = minicbor::to_vec(item).expect("a vector takes any number of bytes");
    if buffer.remaining_mut() < bytes.len() {
        return Err(BadPacket);
    }
    buffer.put_slice(&bytes);
    Ok(())
}

fn read<Item: for<'bytes> Decode<'bytes, ()>>(mut buffer: impl Buf) -> Result<Item, BadPacket> {
    let mut decoder = minicbor::Decoder::new(buffer.chunk());
    let item = decoder.decode().map_err(|_| BadPacket)?;
    let length = decoder.position();
    buffer.advance(length);
    Ok(item)
}

impl fmt::Display for BadPacket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a packet")
    }
}

impl std::error::Error for BadPacket {}
