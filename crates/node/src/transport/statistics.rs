//! What a transport has counted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast_lineage::NodeId;

/// A number that only rises.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is counted about those who are not, or not yet, members.
#[derive(Default)]
pub(super) struct Strangers {
    pub(super) crowded: Counter,
    pub(super) slow: Counter,
    pub(super) refused: Counter,
    pub(super) joining: Counter,
    pub(super) joining_too_often: Counter,
}

/// What is counted about one peer.
#[derive(Default)]
pub(super) struct PeerCounters {
    pub(super) connections: Counter,
    pub(super) sent: Counter,
    pub(super) received: Counter,
    pub(super) displaced: Counter,
    pub(super) outdated: Counter,
    pub(super) blocked: Counter,
    pub(super) garbage: Counter,
}

/// What a transport has counted since it was started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Of every peer it knows.
    pub peers: BTreeMap<NodeId, PeerStatistics>,
    /// Connections that were closed at once, because too many strangers were there.
    pub crowded: u64,
    /// Connections that did not finish their handshake in time.
    pub slow: u64,
    /// Connections that were refused: garbage, no certificate, a wrong one, another version.
    pub refused: u64,
    /// Requests to join that were answered, whatever the answer.
    pub joining: u64,
    /// Requests to join that were not even read, because of too many from one address.
    pub joining_too_often: u64,
}

/// What was counted about one peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerStatistics {
    /// Where it is dialled.
    pub addresses: Vec<String>,
    /// Whether messages can leave for it now.
    pub connected: bool,
    /// How often it was reached.
    pub connections: u64,
    /// Messages that were given to the connection.
    pub sent: u64,
    /// Messages that came.
    pub received: u64,
    /// Messages that had to make room for newer ones.
    pub displaced: u64,
    /// Messages that had waited too long when the peer came back.
    pub outdated: u64,
    /// Messages that a cut for tests has dropped.
    pub blocked: u64,
    /// Connections of it that were closed because it broke the rules.
    pub garbage: u64,
    /// Messages that wait.
    pub queued_messages: usize,
    /// Bytes of messages that wait.
    pub queued_bytes: usize,
    /// Where another process spoke as this peer that was not let in, lately.
    pub second: Option<IpAddr>,
}
