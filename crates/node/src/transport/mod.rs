//! Node to node: messages over TCP with mutual TLS.
//!
//! Each node dials every peer it knows and sends on the connections it dialled (`dial`); on those that
//! others dialled it receives (`accept`, `receive`). Who sent a message is what the certificate of the
//! connection says. Messages are soft: they may be lost, and are dropped rather than waited for
//! (`queue`); of one connection they arrive in order and once. Heartbeats on every connection notice a
//! cut within a second, and dialling in short turns brings a healed one back as fast, where TCP alone
//! takes several seconds. `docs/cluster.md` has the format, the times and the bounds.

mod accept;
mod address;
mod connection;
mod dial;
mod door;
mod faults;
mod frame;
mod hello;
mod identity;
mod outlet;
mod queue;
mod receive;
mod settings;
mod statistics;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use outlast_lineage::NodeId;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

pub(crate) use address::checked_addresses;
pub use address::is_address;
pub(crate) use connection::Connection;
pub use faults::Direction;
pub(crate) use frame::{FrameError, Kind};
pub use identity::{ClusterId, Identity, IdentityError, name_of};
pub(crate) use identity::{provider, trusting};
pub use receive::Room;
pub use settings::Settings;
pub use statistics::{PeerStatistics, Statistics};
pub(crate) use tls::JOINING;

use dial::Peer;
use door::{Door, Throttle};
use faults::Faults;
use hello::Hello;
use outlet::Outlet;
use queue::Queue;
use receive::{Arrivals, Inbox};
use statistics::Strangers;
use tls::Tls;

use crate::random;

/// What a transport tells. Whoever reads these holds up nobody but the peers that send too much.
#[derive(Debug)]
pub enum Event {
    /// A peer has sent a message.
    Received {
        /// Who, as its certificate says.
        from: NodeId,
        /// What.
        message: Bytes,
        /// Counts towards what may be waiting until it is dropped.
        room: Room,
    },
    /// Messages can leave for a peer.
    Connected {
        /// The peer.
        peer: NodeId,
        /// The life it is in.
        incarnation: u64,
    },
    /// Messages can no longer leave for a peer; those given meanwhile wait.
    Disconnected {
        /// The peer.
        peer: NodeId,
    },
    /// A peer does not let this node in: it was removed from the cluster.
    ShutOut {
        /// Who says so.
        by: NodeId,
    },
    /// A peer has not let this process in: it hears another one as this node, or did a moment ago.
    Doubted,
    /// A peer has not let this process in for a while: it hears another one as this node.
    TurnedAway {
        /// Who says so.
        by: NodeId,
        /// What it says.
        reason: String,
    },
}

/// What became of a message that was given to a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It waits its turn, and may still be lost.
    Queued,
    /// It is gone.
    Dropped(Dropped),
}

/// Why a message was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// It is not known where the peer is.
    Unknown,
    /// It is longer than messages may be.
    TooLarge,
    /// A cut for tests.
    Blocked,
}

/// Who decides about those who come with a token.
pub trait Admission: Send + Sync {
    /// Answers a request to join. May block, and is asked seldom.
    fn admit(&self, request: &[u8]) -> Reply;
}

/// What becomes of a request to join.
pub struct Reply {
    /// What is answered.
    pub answer: Vec<u8>,
    /// Why it was refused, if it was, for the log here.
    pub refused: Option<String>,
}

/// Connections to the other members. Cheap to clone; it runs until it is stopped.
#[derive(Clone)]
pub struct Transport {
    shared: Arc<Shared>,
}

/// What all connections use.
struct Shared {
    identity: Identity,
    settings: Settings,
    /// Tells this process from another one that speaks as the same node.
    process: u64,
    addresses: Vec<String>,
    listens_on: SocketAddr,
    tls: Tls,
    admission: Option<Arc<dyn Admission>>,
    runtime: Handle,
    events: mpsc::Sender<Event>,
    inbox: Inbox,
    peers: Mutex<Option<BTreeMap<NodeId, Known>>>,
    /// Rises whenever something about the peers has changed.
    news: watch::Sender<u64>,
    arrivals: Arrivals,
    faults: Faults,
    door: Arc<Door>,
    throttle: Throttle,
    strangers: Strangers,
    accepting: Mutex<Option<AbortHandle>>,
}

/// A peer, and the task that reaches it.
struct Known {
    peer: Arc<Peer>,
    reaching: AbortHandle,
}

impl Transport {
    /// Takes connections where somebody listens already, and returns where events come from. Runs on the
    /// runtime it is called in.
    pub fn start(
        identity: Identity,
        settings: Settings,
        listener: TcpListener,
        admission: Option<Arc<dyn Admission>>,
    ) -> io::Result<(Self, mpsc::Receiver<Event>)> {
        let tls = Tls::new(&identity).map_err(io::Error::other)?;
        let listens_on = listener.local_addr()?;
        let (events, receiver) = mpsc::channel(settings.inbox_events_max.max(1));
        let shared = Arc::new(Shared {
            process: u64::from_be_bytes(random::bytes()),
            addresses: advertised(&settings, listens_on),
            listens_on,
            tls,
            admission,
            runtime: Handle::current(),
            events,
            inbox: Inbox::new(settings.inbox_bytes_max),
            peers: Mutex::new(Some(BTreeMap::new())),
            news: watch::Sender::new(0),
            arrivals: Arrivals::default(),
            faults: Faults::default(),
            door: Door::new(settings.strangers_max, settings.strangers_per_address_max),
            throttle: Throttle::default(),
            strangers: Strangers::default(),
            accepting: Mutex::default(),
            identity,
            settings,
        });
        let accepting = tokio::spawn(accept::keep_accepting(Arc::clone(&shared), listener));
        *shared.accepting.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(accepting.abort_handle());
        Ok((Self { shared }, receiver))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.listens_on
    }

    /// Where others are told to reach it; empty if it listens everywhere and nobody said.
    pub fn advertised(&self) -> &[String] {
        &self.shared.addresses
    }

    /// Who it is.
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// Gives a message for a peer. Never waits, and may be called from any thread.
    pub fn send(&self, to: NodeId, message: Bytes) -> Sent {
        self.send_together(to, vec![message])
    }

    /// Gives messages for a peer, which leave together. If some are too large, only those are dropped.
    /// Never waits, and may be called from any thread.
    pub fn send_together(&self, to: NodeId, mut messages: Vec<Bytes>) -> Sent {
        let (all, bytes_max) = (messages.len(), self.shared.settings.message_bytes_max);
        messages.retain(|message| message.len() <= bytes_max);
        let sent = match messages.len() == all {
            true => Sent::Queued,
            false => Sent::Dropped(Dropped::TooLarge),
        };
        if messages.is_empty() {
            return sent;
        }
        let Some(peer) = self.shared.peer(to) else { return Sent::Dropped(Dropped::Unknown) };
        if self.shared.faults.blocks(to, Direction::Outgoing) {
            peer.counters.blocked.add(messages.len() as u64);
            return Sent::Dropped(Dropped::Blocked);
        }
        peer.counters.displaced.add(peer.queue.push(messages));
        peer.outlet.write_at_once(&peer.queue, &peer.counters);
        sent
    }

    /// Says where a peer is; from now on it is kept connected. What was known before is replaced.
    pub fn know(&self, peer: NodeId, addresses: Vec<String>) {
        self.shared.meet(peer, addresses);
    }

    /// Does not let a peer in any more, nor goes to it: it is lost for good, and what is left of it is
    /// not to be heard. Until the transport is stopped.
    pub fn shut_out(&self, peer: NodeId) {
        self.shared.arrivals.shut_out(peer);
        self.forget(peer);
    }

    /// Forgets a peer: it is no longer dialled, and what waits for it is gone. If it comes by itself,
    /// it is known again.
    pub fn forget(&self, peer: NodeId) {
        let known = self.shared.peers().as_mut().and_then(|peers| peers.remove(&peer));
        if let Some(known) = known {
            known.reaching.abort();
            self.shared.news.send_modify(|news| *news += 1);
        }
    }

    /// Where every peer is that is known.
    pub fn places(&self) -> BTreeMap<NodeId, Vec<String>> {
        let peers = self.shared.peers();
        let places = peers.iter().flatten();
        places.map(|(node, known)| (*node, known.peer.addresses.borrow().clone())).collect()
    }

    /// Tells whenever it has become known where a peer is, or that is forgotten.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.shared.news.subscribe()
    }

    /// Drops messages from or to a peer, without a word, until they are let through again. For tests
    /// and demonstrations.
    pub fn block(&self, peer: NodeId, direction: Direction) {
        self.shared.faults.set(peer, direction, true);
        if direction == Direction::Outgoing
            && let Some(peer) = self.shared.peer(peer)
        {
            peer.counters.blocked.add(peer.queue.clear());
        }
    }

    /// Lets messages from or to a peer through again.
    pub fn unblock(&self, peer: NodeId, direction: Direction) {
        self.shared.faults.set(peer, direction, false);
    }

    /// Lets all messages through again.
    pub fn unblock_all(&self) {
        self.shared.faults.clear();
    }

    /// What was counted.
    pub fn statistics(&self) -> Statistics {
        let shared = &self.shared;
        let peers = shared.peers();
        let peers = peers.iter().flatten();
        let strangers = &shared.strangers;
        Statistics {
            peers: peers.map(|(node, known)| (*node, shared.statistics_of(&known.peer))).collect(),
            crowded: strangers.crowded.get(),
            slow: strangers.slow.get(),
            refused: strangers.refused.get(),
            joining: strangers.joining.get(),
            joining_too_often: strangers.joining_too_often.get(),
        }
    }

    /// Waits until everything has left that was given for those who are connected, or for so long: who
    /// does not read is not waited for.
    pub async fn flush(&self, patience: Duration) {
        let connected: Vec<Arc<Peer>> = {
            let peers = self.shared.peers();
            let peers = peers.iter().flatten().map(|(_, known)| Arc::clone(&known.peer));
            peers.filter(|peer| peer.connected.load(Ordering::Acquire)).collect()
        };
        let all = join_all(connected.iter().map(|peer| peer.queue.all_written()));
        // What has not left by then is lost, as it may be at any time.
        let _ = timeout(patience, all).await;
    }

    /// Closes all connections and takes no more. What waits to be sent is dropped.
    pub fn stop(&self) {
        let accepting = self.shared.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        accepting.inspect(AbortHandle::abort);
        let peers = self.shared.peers().take();
        peers.into_iter().flatten().for_each(|(_, known)| known.reaching.abort());
    }
}

impl Shared {
    /// A peer that is known.
    fn peer(&self, node: NodeId) -> Option<Arc<Peer>> {
        let peers = self.peers();
        peers.as_ref()?.get(&node).map(|known| Arc::clone(&known.peer))
    }

    /// Takes over where a peer is, and reaches for it.
    fn meet(self: &Arc<Self>, node: NodeId, addresses: Vec<String>) -> Option<Arc<Peer>> {
        let mut peers = self.peers();
        // A transport that has stopped meets nobody; and nobody meets itself.
        let strange = node == self.identity.node || self.arrivals.is_shut_out(node);
        let peers = peers.as_mut().filter(|_| !strange)?;
        let known = peers.entry(node).or_insert_with(|| self.reach(node));
        let news = known.peer.addresses.send_if_modified(|known| {
            // Someone who does not say where it is has not moved.
            let news = !addresses.is_empty() && *known != addresses;
            if news {
                *known = addresses;
            }
            news
        });
        if news {
            self.news.send_modify(|news| *news += 1);
        }
        Some(Arc::clone(&known.peer))
    }

    fn reach(self: &Arc<Self>, node: NodeId) -> Known {
        let Settings { queue_messages_max, queue_bytes_max, .. } = self.settings;
        let peer = Arc::new(Peer {
            node,
            addresses: watch::Sender::new(Vec::new()),
            queue: Queue::new(queue_messages_max, queue_bytes_max),
            outlet: Outlet::default(),
            connected: false.into(),
            seen: tokio::sync::Notify::new(),
            counters: statistics::PeerCounters::default(),
        });
        let reaching = dial::keep_reaching(Arc::clone(self), Arc::clone(&peer));
        Known { peer, reaching: self.runtime.spawn(reaching).abort_handle() }
    }

    fn hello(&self) -> Hello {
        let (incarnation, addresses) = (self.settings.incarnation, self.addresses.clone());
        Hello::new(&self.identity, incarnation, addresses, self.process)
    }

    fn peers(&self) -> MutexGuard<'_, Option<BTreeMap<NodeId, Known>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn statistics_of(&self, peer: &Peer) -> PeerStatistics {
        let (queued_messages, queued_bytes) = peer.queue.level();
        PeerStatistics {
            addresses: peer.addresses.borrow().clone(),
            connected: peer.connected.load(Ordering::Acquire),
            connections: peer.counters.connections.get(),
            sent: peer.counters.sent.get(),
            received: peer.counters.received.get(),
            displaced: peer.counters.displaced.get(),
            outdated: peer.counters.outdated.get(),
            blocked: peer.counters.blocked.get(),
            garbage: peer.counters.garbage.get(),
            queued_messages,
            queued_bytes,
            second: self.arrivals.second_of(peer.node, Instant::now()),
        }
    }
}

/// Where others are told to reach a node.
fn advertised(settings: &Settings, listens_on: SocketAddr) -> Vec<String> {
    if settings.advertised.is_empty() && !listens_on.ip().is_unspecified() {
        return vec![listens_on.to_string()];
    }
    settings.advertised.clone()
}
