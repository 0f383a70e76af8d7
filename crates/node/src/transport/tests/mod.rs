//! Real connections on loopback: nodes that talk, strangers, cuts, bounds.

mod bounds;
mod cuts;
mod proxy;
mod strangers;
mod talking;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;

use super::*;
use crate::cluster::{Authority, PrivateKey};

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test's conversation with several threads, within bounds.
fn run<T>(conversation: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(3 * PATIENCE, conversation).await });
    runtime.shutdown_background();
    ended.expect("the test takes too long")
}

/// An identity that an authority gives to a node.
fn identity(authority: &Authority, node: u64) -> Identity {
    let key = PrivateKey::draw();
    let certificate = authority.certify(NodeId(node), key.public());
    Identity::from_pem(&certificate, authority.certificate(), &key.to_pem()).unwrap()
}

/// The defaults, in a first life.
fn settings() -> Settings {
    Settings { incarnation: 1, ..Settings::default() }
}

/// A node with nothing but its transport.
struct Station {
    transport: Transport,
    events: Receiver<Event>,
}

impl Station {
    async fn start(authority: &Authority, node: u64) -> Self {
        Self::start_with(identity(authority, node), settings()).await
    }

    /// At any free port.
    async fn start_with(identity: Identity, settings: Settings) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), identity, settings).await
    }

    async fn start_at(listen: SocketAddr, identity: Identity, settings: Settings) -> Self {
        let listener = TcpListener::bind(listen).await.unwrap();
        let (transport, events) = Transport::start(identity, settings, listener, None).unwrap();
        Self { transport, events }
    }

    fn node(&self) -> NodeId {
        self.transport.identity().node
    }

    fn address(&self) -> Vec<String> {
        self.transport.advertised().to_vec()
    }

    /// Tells this one where another is.
    fn meet(&self, other: &Self) {
        self.transport.know(other.node(), other.address());
    }

    fn send(&self, to: &Self, text: &str) -> Sent {
        self.transport.send(to.node(), Bytes::copy_from_slice(text.as_bytes()))
    }

    async fn event(&mut self) -> Event {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        event.expect("no event").expect("the transport is there")
    }

    /// The next message.
    async fn receive(&mut self) -> (NodeId, String) {
        loop {
            if let Event::Received { from, message, .. } = self.event().await {
                return (from, String::from_utf8(message.to_vec()).unwrap());
            }
        }
    }

    async fn connected(&mut self, to: NodeId) {
        loop {
            if matches!(self.event().await, Event::Connected { peer, .. } if peer == to) {
                return;
            }
        }
    }

    fn counted(&self, peer: NodeId) -> PeerStatistics {
        self.transport.statistics().peers.remove(&peer).unwrap_or_default()
    }

    /// Waits until something has been counted.
    async fn until(&self, what: &str, counted: impl Fn(&Statistics) -> bool) -> Statistics {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let statistics = self.transport.statistics();
            if counted(&statistics) {
                return statistics;
            }
            assert!(tokio::time::Instant::now() < deadline, "{what}: {statistics:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
