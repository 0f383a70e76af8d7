//! Other nodes: what they send reaches the driver in batches, and who they are.
//!
//! What has arrived is given to the driver as one message. What waits for it is bounded by what the
//! transport lets through: every message holds a room there until the engine has taken it. Beyond that
//! sockets are not read, and the senders' queues fill.

use std::sync::Arc;

use bytes::Bytes;
use outlast_lineage::NodeId;
use tokio::sync::mpsc;

use super::inbox::{Inbox, Message};
use crate::cluster::Cluster;
use crate::relay::{Relay, is_word};
use crate::transport::{Event, Room};

/// The most that is given to the driver at once.
const BATCH_MAX: usize = 1024;

/// A message of another node.
pub(crate) struct Arrived {
    pub(super) from: NodeId,
    pub(super) message: Bytes,
    /// Given back when the engine has taken the message.
    pub(super) room: Room,
}

/// Gives the driver what other nodes send, for as long as there is one.
pub(crate) async fn keep_giving(
    inbox: Arc<Inbox>,
    relay: Relay,
    mut events: mpsc::Receiver<Event>,
) {
    let _taking = relay.taking();
    let mut arrived = Vec::new();
    while 0 < events.recv_many(&mut arrived, BATCH_MAX).await {
        if let Some(told) = arrived.iter().find_map(told_of_its_end) {
            inbox.give(told);
        }
        let messages: Vec<Arrived> =
            arrived.drain(..).filter_map(|event| message_of(event, &relay)).collect();
        if messages.is_empty() {
            continue;
        }
        if !inbox.give(Message::Received(messages)) {
            return;
        }
    }
}

/// What is for the engine; requests that were passed on are not.
fn message_of(event: Event, relay: &Relay) -> Option<Arrived> {
    match event {
        Event::Received { from, message, room } if is_word(&message) => {
            relay.take(from, &message, room);
            None
        }
        Event::Received { from, message, room } => Some(Arrived { from, message, room }),
        Event::Disconnected { peer } => {
            relay.lose(peer);
            None
        }
        // Who can be reached the engine finds out by its own heartbeats.
        Event::Connected { .. }
        | Event::ShutOut { .. }
        | Event::Doubted
        | Event::TurnedAway { .. } => None,
    }
}

/// That this node was removed, or another process is heard as it or may be, if an event tells of that.
fn told_of_its_end(event: &Event) -> Option<Message> {
    match event {
        Event::ShutOut { by } => Some(Message::ShutOut { by: *by }),
        Event::Doubted => Some(Message::Doubted),
        Event::TurnedAway { by, reason } => {
            Some(Message::TurnedAway { by: *by, reason: reason.clone() })
        }
        _ => None,
    }
}

/// Tells the driver who the others are, whenever that changes.
pub(crate) async fn keep_telling(inbox: Arc<Inbox>, cluster: Cluster) {
    let mut news = cluster.transport().news();
    loop {
        news.mark_unchanged();
        inbox.give(Message::PeersMet(cluster.others()));
        if news.changed().await.is_err() {
            return;
        }
    }
}
