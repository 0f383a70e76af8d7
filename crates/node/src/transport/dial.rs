//! Reaching one peer: dialled again and again until it is there, then sent what waits for it.
//!
//! Each node dials every peer it knows, and sends on the connections it has dialled; on those that
//! others have dialled it only receives. So there are two connections between two members, neither
//! has to be preferred, and each carries heartbeats both ways. A peer that was lost is dialled at
//! once, then with pauses that double up to a bound, each shortened by chance so that a cluster does
//! not knock in step; and at once when the peer itself has come to us.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outlast_lineage::NodeId;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connection::{Connection, prepare};
use super::frame::{FrameError, FrameReader, Kind};
use super::hello::{BadHello, Hello};
use super::outlet::Outlet;
use super::queue::Queue;
use super::receive::Unwelcome;
use super::statistics::PeerCounters;
use super::{Event, Shared};
use crate::causes::chain;
use crate::random;

/// For how many times of silence a peer must have heard another process as this node before that is believed.
const SILENCES_BEFORE_THE_END: u32 = 3;

/// A peer that is dialled.
pub(super) struct Peer {
    pub(super) node: NodeId,
    pub(super) addresses: watch::Sender<Vec<String>>,
    pub(super) queue: Queue,
    pub(super) outlet: Outlet,
    pub(super) connected: AtomicBool,
    /// Told when the peer has shown that it is there.
    pub(super) seen: Notify,
    pub(super) counters: PeerCounters,
}

/// That a peer does not let this node in, and since when it has said so.
struct Refused {
    reason: String,
    since: Instant,
}

impl Refused {
    fn now(reason: String) -> Self {
        Self { reason, since: Instant::now() }
    }

    /// What is told of it, if the peer hears another process as this node.
    fn told(&self, by: NodeId, silence_max: Duration) -> Option<Event> {
        let reason = self.reason.clone();
        match self.is_for_good(silence_max) {
            true => Some(Event::TurnedAway { by, reason }),
            false => Unwelcome::is_of_a_second(&reason).then_some(Event::Doubted),
        }
    }

    /// Whether the peer hears another process as this node, and not only the rest of this one's earlier life:
    /// that is given up after a time of silence.
    fn is_for_good(&self, silence_max: Duration) -> bool {
        Unwelcome::is_of_a_second(&self.reason)
            && silence_max * SILENCES_BEFORE_THE_END <= self.since.elapsed()
    }
}

/// Why a peer was not reached.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error("no address of it is known")]
    NoAddress,
    #[error("it did not answer in time")]
    Slow,
    #[error("no connection")]
    Io(#[from] io::Error),
    #[error("no hello")]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Hello(#[from] BadHello),
    #[error("it refused: {0}")]
    Refused(String),
    #[error(transparent)]
    Unwelcome(Unwelcome),
    #[error("it did not say hello")]
    NoHello,
}

/// Reaches a peer for as long as the task is let live.
pub(super) async fn keep_reaching(shared: Arc<Shared>, peer: Arc<Peer>) {
    let mut attempts: u32 = 0;
    let mut refused: Option<Refused> = None;
    let mut changed = peer.addresses.subscribe();
    loop {
        match dial(&shared, &peer, attempts).await {
            Ok((connection, incarnation)) => {
                refused = None;
                let began = Instant::now();
                if !talk(&shared, &peer, connection, incarnation).await {
                    return;
                }
                attempts = attempts_after(began.elapsed(), attempts, shared.settings.silence_max);
            }
            Err(error) => {
                attempts = attempts.saturating_add(1);
                let (by, peer, attempts) = (peer.node, shown(peer.node), attempts);
                tracing::debug!(peer, attempts, error = %chain(&error), "a peer was not reached");
                match error {
                    DialError::Unwelcome(Unwelcome::ShutOut) => {
                        // Whoever reads events stops the node; if nobody does, nothing is lost.
                        let _ = shared.events.send(Event::ShutOut { by }).await;
                    }
                    DialError::Refused(reason) => {
                        let before = refused.take().filter(|before| before.reason == reason);
                        // Told once: it says the same each time.
                        if before.is_none() {
                            tracing::warn!(peer, reason, "a member does not hear this node");
                        }
                        let now = before.unwrap_or_else(|| Refused::now(reason));
                        if let Some(event) = now.told(by, shared.settings.silence_max) {
                            let _ = shared.events.send(event).await;
                        }
                        refused = Some(now);
                    }
                    _ => {}
                }
            }
        }
        let pause = pause(&shared.settings, attempts, u16::from_be_bytes(random::bytes()));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = peer.seen.notified() => {}
            _ = changed.changed() => {}
        }
    }
}

/// What counts as the number of attempts after a connection has lasted for a time: one that breaks at
/// once is not to be dialled in a tight loop.
fn attempts_after(lasted: Duration, attempts: u32, silence_max: Duration) -> u32 {
    if silence_max <= lasted { 0 } else { attempts.saturating_add(1) }
}

/// How long to wait after so many attempts: nothing after the first, then between half and all of a
/// time that doubles.
fn pause(settings: &super::Settings, attempts: u32, chance: u16) -> Duration {
    let Some(doublings) = attempts.checked_sub(2) else { return Duration::ZERO };
    let longest = settings.retry_min.saturating_mul(1 << doublings.min(16)).min(settings.retry_max);
    longest.mul_f64(0.5 + f64::from(chance) / f64::from(u16::MAX) / 2.0)
}

/// One attempt: a connection, both handshakes, and the life the peer is in.
async fn dial(
    shared: &Shared,
    peer: &Peer,
    attempts: u32,
) -> Result<(Connection<TlsStream<TcpStream>>, u64), DialError> {
    let addresses = peer.addresses.borrow().clone();
    let turn = (attempts as usize).checked_rem(addresses.len()).ok_or(DialError::NoAddress)?;
    let connecting = TcpStream::connect(&addresses[turn]);
    let stream =
        timeout(shared.settings.connect_max, connecting).await.map_err(|_| DialError::Slow)??;
    prepare(&stream);
    let greeting = greet(shared, peer, stream);
    timeout(shared.settings.handshake_max, greeting).await.map_err(|_| DialError::Slow)?
}

async fn greet(
    shared: &Shared,
    peer: &Peer,
    stream: TcpStream,
) -> Result<(Connection<TlsStream<TcpStream>>, u64), DialError> {
    let name = shared.identity.name_of(peer.node);
    let stream = TlsConnector::from(Arc::clone(&shared.tls.dial)).connect(name, stream).await?;
    let mut connection = Connection::new(stream);
    connection.send(Kind::Hello, &shared.hello().to_bytes()).await?;
    let frame = connection.next(shared.settings.handshake_max).await?;
    match frame.kind {
        Kind::Hello => {
            let hello = Hello::read(&frame.payload, (shared.identity.cluster, peer.node))?;
            Ok((connection, hello.incarnation))
        }
        Kind::Refused => {
            let reason = String::from_utf8_lossy(&frame.payload).into_owned();
            let removed = reason == Unwelcome::ShutOut.to_string();
            Err(if removed {
                DialError::Unwelcome(Unwelcome::ShutOut)
            } else {
                DialError::Refused(reason)
            })
        }
        _ => Err(DialError::NoHello),
    }
}

/// Sends on a connection until it breaks; false if nobody wants to know any more.
async fn talk<S: AsyncRead + AsyncWrite + Send + 'static>(
    shared: &Shared,
    peer: &Peer,
    connection: Connection<S>,
    incarnation: u64,
) -> bool {
    let node = peer.node;
    peer.counters.connections.add(1);
    peer.connected.store(true, Ordering::Release);
    let outdated = Instant::now().checked_sub(shared.settings.outdated_after);
    peer.counters.outdated.add(outdated.map_or(0, |time| peer.queue.drop_before(time)));
    tracing::info!(peer = shown(node), "connected");
    let mut wanted = shared.events.send(Event::Connected { peer: node, incarnation }).await.is_ok();
    if wanted {
        let Connection { reader, writer } = connection;
        let open = peer.outlet.open(writer);
        let ended = tokio::select! {
            error = listen(reader, shared.settings.silence_max) => error,
            error = write(shared, peer) => error.into(),
        };
        drop(open);
        // What was not written is lost with the connection.
        peer.queue.note_written();
        tracing::info!(peer = shown(node), reason = %chain(&ended), "disconnected");
        peer.connected.store(false, Ordering::Release);
        wanted = shared.events.send(Event::Disconnected { peer: node }).await.is_ok();
    }
    wanted
}

/// Hears heartbeats until there are none.
async fn listen<S: AsyncRead + AsyncWrite>(
    mut reader: FrameReader<ReadHalf<S>>,
    silence_max: Duration,
) -> FrameError {
    loop {
        match reader.next(silence_max).await {
            Ok(frame) if frame.kind == Kind::Heartbeat => {}
            Ok(frame) => return FrameError::UnknownKind(frame.kind as u8),
            Err(error) => return error,
        }
    }
}

/// Writes what others left, and a heartbeat when nothing was written for a while.
async fn write(shared: &Shared, peer: &Peer) -> io::Error {
    loop {
        let written =
            poll_fn(|context| peer.outlet.poll(&peer.queue, &peer.counters, context)).await;
        if let Err(error) = written {
            return error;
        }
        let due = peer.outlet.beat_after(shared.settings.heartbeat);
        // Whichever comes first.
        let _ = timeout_at(due.into(), peer.queue.called()).await;
    }
}

pub(super) fn shown(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Settings;

    #[test]
    fn a_peer_that_hangs_up_at_once_is_dialled_less_and_less_often() {
        let silence_max = Duration::from_secs(1);
        let mut attempts = 0;
        (0..10).for_each(|_| attempts = attempts_after(Duration::ZERO, attempts, silence_max));
        let settings = Settings::default();
        assert_eq!(pause(&settings, attempts, u16::MAX), settings.retry_max);
        assert_eq!(attempts_after(silence_max, attempts, silence_max), 0);
    }

    #[test]
    fn only_whoever_hears_another_process_for_longer_than_a_dead_one_is_heard_ends_this_one() {
        let silence_max = Duration::from_secs(1);
        let is_for_good = |reason: &Unwelcome, for_: u32| {
            let since = Instant::now().checked_sub(silence_max * for_).unwrap();
            Refused { reason: reason.to_string(), since }.is_for_good(silence_max)
        };
        let twice = Unwelcome::Twice { known: 1 };
        assert_eq!([0, 1, 2, 3].map(|it| is_for_good(&twice, it)), [false, false, false, true]);
        assert!(!is_for_good(&Unwelcome::ShutOut, 9), "that is told in another way");
    }

    #[test]
    fn the_first_retry_comes_at_once_and_no_pause_is_longer_than_the_bound() {
        let settings = Settings::default();
        assert_eq!(pause(&settings, 0, 0), Duration::ZERO);
        assert_eq!(pause(&settings, 1, u16::MAX), Duration::ZERO);
        assert_eq!(pause(&settings, 2, u16::MAX), settings.retry_min);
        assert_eq!(pause(&settings, 3, 0), settings.retry_min);
        for attempts in [8, 40, u32::MAX] {
            assert_eq!(pause(&settings, attempts, u16::MAX), settings.retry_max);
            assert_eq!(pause(&settings, attempts, 0), settings.retry_max / 2);
        }
    }
}
