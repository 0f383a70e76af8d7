//! What a transport is set up with: addresses, times and bounds.

use std::time::Duration;

/// What a transport is set up with. The defaults are for one site: they notice a cut within a second
/// and are back within a second and a half of its end.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where others reach this node; nothing is where it listens, if that is one address.
    pub advertised: Vec<String>,
    /// Rises with every start of this node, so that what is left of an earlier life is known.
    pub incarnation: u64,
    /// The longest message.
    pub message_bytes_max: usize,
    /// How many messages wait for one peer.
    pub queue_messages_max: usize,
    /// How many bytes wait for one peer.
    pub queue_bytes_max: usize,
    /// What has waited longer than this when a peer comes back is let go.
    pub outdated_after: Duration,
    /// How many events wait for whoever reads them, before sockets are no longer read.
    pub inbox_events_max: usize,
    /// How many bytes of messages are out with whoever reads them, before sockets are no longer read.
    pub inbox_bytes_max: usize,
    /// After this much silence of our own, a heartbeat is sent.
    pub heartbeat: Duration,
    /// After this much silence of a peer, its connection is given up.
    pub silence_max: Duration,
    /// How long a connection may take to stand.
    pub connect_max: Duration,
    /// How long the handshakes may take.
    pub handshake_max: Duration,
    /// The pause after the second failed attempt to reach a peer; the first is followed at once.
    pub retry_min: Duration,
    /// The longest pause between attempts to reach a peer.
    pub retry_max: Duration,
    /// How many connections may be there whose certificate has not been seen.
    pub strangers_max: usize,
    /// How many of them may be from one address.
    pub strangers_per_address_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            advertised: Vec::new(),
            incarnation: 0,
            message_bytes_max: 32 * 1024 * 1024,
            queue_messages_max: 16 * 1024,
            queue_bytes_max: 64 * 1024 * 1024,
            outdated_after: Duration::from_secs(2),
            inbox_events_max: 1024,
            inbox_bytes_max: 64 * 1024 * 1024,
            heartbeat: Duration::from_millis(100),
            silence_max: Duration::from_secs(1),
            connect_max: Duration::from_millis(700),
            handshake_max: Duration::from_secs(2),
            retry_min: Duration::from_millis(50),
            retry_max: Duration::from_millis(500),
            strangers_max: 128,
            strangers_per_address_max: 32,
        }
    }
}
