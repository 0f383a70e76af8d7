//! What members send: taken from their connections, and given on as fast as it is read.
//!
//! Who sent a message is what the certificate of its connection says. When nobody takes what has
//! arrived, the socket is not read, and the sender's queue fills instead of our memory.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlast_lineage::NodeId;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf};
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore, watch};

use super::connection::{Connection, keep_alive};
use super::dial::shown;
use super::faults::Direction;
use super::frame::{FrameError, FrameReader, Kind};
use super::{Event, Shared};
use crate::causes::chain;

/// For how long it is told that a second process of a member was turned away: longer than whoever is looks for
/// what became of it, for it does not come again.
const TOLD_FOR: Duration = Duration::from_secs(10 * 60);
/// How a reason ends that says of a process that it is not the one whose data counts.
const COPIED: &str = "is a copy of its data directory in use?";

/// Why a member is not heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Unwelcome {
    /// The connection is of an earlier life of the node than one that was here before.
    #[error(
        "incarnation {given} of the node is older than {known}, which was here before: is a copy of its \
         data directory in use?"
    )]
    Stale { given: u64, known: u64 },
    /// Another process speaks as the node, and is heard, or was in the same life.
    #[error(
        "another process speaks as the node, in incarnation {known}, and was here before: is a copy of its \
         data directory in use?"
    )]
    Twice { known: u64 },
    /// The connection of another process that spoke as the node is there, and nothing was read from it lately: that
    /// may be because nobody takes what has arrived here.
    #[error("another process spoke as the node until a moment ago, and may be there; ask again")]
    Unsure,
    #[error("the node was removed from the cluster")]
    ShutOut,
}

impl Unwelcome {
    /// Whether a reason that a peer gave says that this process is not the one that is heard as its node.
    pub(super) fn is_of_a_second(reason: &str) -> bool {
        reason.ends_with(COPIED)
    }
}

/// A process that speaks as a member beside the one that is heard, and is turned away.
#[derive(Clone, Copy)]
struct Second {
    /// Where it comes from.
    from: IpAddr,
    /// When it was last turned away.
    at: Instant,
}

/// The newest connection of every member.
#[derive(Default)]
pub(super) struct Arrivals {
    arrivals: Mutex<BTreeMap<NodeId, Arrival>>,
}

#[derive(Default)]
struct Arrival {
    incarnation: u64,
    /// The process that is heard, if it said which it is.
    process: Option<u64>,
    /// The process that was last refused for being a second one.
    refused: Option<u64>,
    second: Option<Second>,
    /// When something was last read from the newest connection.
    heard: Arc<Mutex<Option<Instant>>>,
    shut_out: bool,
    /// The number of the newest connection.
    newest: watch::Sender<u64>,
    turn: Arc<AsyncMutex<()>>,
}

/// A connection's place among those of its member.
pub(super) struct Arrived {
    number: u64,
    newest: watch::Receiver<u64>,
    heard: Arc<Mutex<Option<Instant>>>,
    /// Held while messages are given on: those of two connections of one member never mix.
    turn: Arc<AsyncMutex<()>>,
}

impl Arrivals {
    /// Takes in a connection of a member; the one before it ends, unless it is another process's: two that
    /// took turns would both be heard by halves, and would write in one name. A later life is let in when the one
    /// before is not heard any more, which is soon, for its connection ends with it.
    pub(super) fn arrive(
        &self,
        node: NodeId,
        (incarnation, process): (u64, Option<u64>),
        from: IpAddr,
        silence_max: Duration,
    ) -> Result<Arrived, Unwelcome> {
        let mut arrivals = self.arrivals();
        let arrival = arrivals.entry(node).or_default();
        if arrival.shut_out {
            return Err(Unwelcome::ShutOut);
        }
        if incarnation < arrival.incarnation {
            arrival.second = Some(Second { from, at: Instant::now() });
            return Err(Unwelcome::Stale { given: incarnation, known: arrival.incarnation });
        }
        let is_there = 0 < arrival.newest.receiver_count();
        // Every start is a new life, on the disk before anybody hears of it: nobody comes twice in one.
        if (is_there || incarnation == arrival.incarnation)
            && let (Some(given), Some(known)) = (process, arrival.process)
            && given != known
        {
            // Whoever is told that it runs twice ends: that takes a proof.
            if incarnation != arrival.incarnation && !arrival.is_heard(silence_max) {
                return Err(Unwelcome::Unsure);
            }
            arrival.second = Some(Second { from, at: Instant::now() });
            let unwelcome = Unwelcome::Twice { known: arrival.incarnation };
            if arrival.refused.replace(given) != Some(given) {
                tracing::warn!(peer = shown(node), reason = %unwelcome, "a connection was refused");
            }
            return Err(unwelcome);
        }
        arrival.incarnation = incarnation;
        arrival.process = process;
        let number = *arrival.newest.borrow() + 1;
        arrival.newest.send_replace(number);
        let (newest, turn) = (arrival.newest.subscribe(), Arc::clone(&arrival.turn));
        arrival.heard = Arc::new(Mutex::new(Some(Instant::now())));
        Ok(Arrived { number, newest, heard: Arc::clone(&arrival.heard), turn })
    }

    /// Ends the connection of a member, and takes no other of it.
    pub(super) fn shut_out(&self, node: NodeId) {
        let mut arrivals = self.arrivals();
        let arrival = arrivals.entry(node).or_default();
        arrival.shut_out = true;
        arrival.newest.send_modify(|newest| *newest += 1);
    }

    pub(super) fn is_shut_out(&self, node: NodeId) -> bool {
        self.arrivals().get(&node).is_some_and(|arrival| arrival.shut_out)
    }

    /// Where a second process of a member was turned away from lately.
    pub(super) fn second_of(&self, node: NodeId, now: Instant) -> Option<IpAddr> {
        let second = self.arrivals().get(&node)?.second?;
        (now.duration_since(second.at) < TOLD_FOR).then_some(second.from)
    }

    fn arrivals(&self) -> MutexGuard<'_, BTreeMap<NodeId, Arrival>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// Whether the process of the newest connection lives: it says something ten times within that time.
    fn is_heard(&self, silence_max: Duration) -> bool {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.is_some_and(|heard| heard.elapsed() < silence_max)
    }
}

/// Room that a message takes, given back when it is dropped.
#[derive(Debug)]
pub struct Room {
    _permit: OwnedSemaphorePermit,
}

/// How much may be out with whoever reads events.
pub(super) struct Inbox {
    bytes_max: u32,
    room: Arc<Semaphore>,
}

impl Inbox {
    pub(super) fn new(bytes_max: usize) -> Self {
        let bytes_max = u32::try_from(bytes_max.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self { bytes_max, room: Arc::new(Semaphore::new(bytes_max as usize)) }
    }

    /// Waits until there is room; one message fits always.
    async fn room_for(&self, bytes: usize) -> Room {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes_max);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes);
        Room { _permit: room.await.expect("the room is never closed") }
    }
}

/// Receives from a member until its connection breaks or it comes with another one.
pub(super) async fn keep_receiving<S: AsyncRead + AsyncWrite>(
    shared: &Shared,
    connection: Connection<S>,
    node: NodeId,
    mut arrived: Arrived,
) {
    let Connection { mut reader, mut writer } = connection;
    reader.allow(shared.settings.message_bytes_max);
    let receiving = async {
        let _turn = arrived.turn.lock().await;
        receive(shared, &mut reader, node, &arrived.heard).await
    };
    let ended = tokio::select! {
        _ = arrived.newest.wait_for(|newest| *newest != arrived.number) => None,
        ended = receiving => ended,
        error = keep_alive(&mut writer, shared.settings.heartbeat) => Some(error.into()),
    };
    let Some(error) = ended else { return };
    if error.is_garbage() {
        shared.peer(node).inspect(|peer| peer.counters.garbage.add(1));
        tracing::warn!(peer = shown(node), error = %chain(&error), "a member broke the rules");
    } else {
        tracing::debug!(peer = shown(node), reason = %chain(&error), "no longer heard");
    }
}

/// Gives messages on; nothing when nobody wants them any more.
async fn receive<S: AsyncRead + AsyncWrite>(
    shared: &Shared,
    reader: &mut FrameReader<ReadHalf<S>>,
    node: NodeId,
    heard: &Mutex<Option<Instant>>,
) -> Option<FrameError> {
    let peer = shared.peer(node);
    loop {
        let frame = match reader.next(shared.settings.silence_max).await {
            Ok(frame) => frame,
            Err(error) => return Some(error),
        };
        *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        match frame.kind {
            Kind::Heartbeat => {}
            Kind::Message if shared.faults.blocks(node, Direction::Incoming) => {
                peer.as_ref().inspect(|peer| peer.counters.blocked.add(1));
            }
            Kind::Message => {
                peer.as_ref().inspect(|peer| peer.counters.received.add(1));
                let (message, from) = (frame.payload, node);
                let room = shared.inbox.room_for(message.len()).await;
                shared.events.send(Event::Received { from, message, room }).await.ok()?;
            }
            kind => return Some(FrameError::UnknownKind(kind as u8)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const SILENCE: Duration = Duration::from_secs(60);

    #[test]
    fn an_earlier_life_does_not_replace_a_later_one() {
        let arrivals = Arrivals::default();
        let first = arrivals.arrive(NodeId(1), (5, Some(7)), FROM, SILENCE).unwrap();
        let refused = arrivals.arrive(NodeId(1), (4, Some(6)), FROM, SILENCE).err();
        assert_eq!(refused, Some(Unwelcome::Stale { given: 4, known: 5 }));
        assert_eq!(*first.newest.borrow(), first.number);
        let second = arrivals.arrive(NodeId(1), (5, Some(7)), FROM, SILENCE).unwrap();
        assert_ne!(*first.newest.borrow(), first.number, "the newer connection counts");
        assert_eq!(*second.newest.borrow(), second.number);
        arrivals.arrive(NodeId(2), (1, None), FROM, SILENCE).unwrap();
    }

    #[test]
    fn whoever_is_turned_away_is_told_why_in_words_that_are_known_again() {
        let reasons = [Unwelcome::Stale { given: 4, known: 5 }, Unwelcome::Twice { known: 5 }];
        assert!(reasons.iter().all(|reason| Unwelcome::is_of_a_second(&reason.to_string())));
        assert!(!Unwelcome::is_of_a_second(&Unwelcome::ShutOut.to_string()));
    }

    #[test]
    fn a_second_process_is_not_heard_beside_the_first_in_whatever_life() {
        let arrivals = Arrivals::default();
        let first = arrivals.arrive(NodeId(1), (5, Some(7)), FROM, SILENCE).unwrap();
        let now = Instant::now();
        assert_eq!(arrivals.second_of(NodeId(1), now), None);
        for life in [5, 6] {
            let refused = arrivals.arrive(NodeId(1), (life, Some(8)), FROM, SILENCE).err();
            assert_eq!(refused, Some(Unwelcome::Twice { known: 5 }));
        }
        assert_eq!(*first.newest.borrow(), first.number, "the first goes on");
        assert_eq!(arrivals.second_of(NodeId(1), now), Some(FROM));
        assert_eq!(arrivals.second_of(NodeId(1), Instant::now() + TOLD_FOR), None);
        // It may come anew, and whoever does not say which process it is replaces it as before.
        let again = arrivals.arrive(NodeId(1), (5, Some(7)), FROM, SILENCE).unwrap();
        let older = arrivals.arrive(NodeId(1), (5, None), FROM, SILENCE).unwrap();
        arrivals.arrive(NodeId(1), (5, Some(8)), FROM, SILENCE).unwrap();
        drop((first, again, older));
    }

    #[test]
    fn a_later_life_comes_when_the_one_before_is_not_heard_any_more_and_nobody_twice_in_one() {
        let arrivals = Arrivals::default();
        drop(arrivals.arrive(NodeId(1), (5, Some(7)), FROM, SILENCE).unwrap());
        // What was written in this life by one process is not written by another one.
        let refused = arrivals.arrive(NodeId(1), (5, Some(8)), FROM, SILENCE).err();
        assert_eq!(refused, Some(Unwelcome::Twice { known: 5 }));
        drop(arrivals.arrive(NodeId(1), (5, Some(7)), FROM, SILENCE).unwrap());
        drop(arrivals.arrive(NodeId(1), (6, Some(8)), FROM, SILENCE).unwrap());
        let refused = arrivals.arrive(NodeId(1), (5, Some(7)), FROM, SILENCE).err();
        assert_eq!(refused, Some(Unwelcome::Stale { given: 5, known: 6 }));
    }

    /// What has arrived from it may be unread, because nobody here takes it; or its machine is gone.
    #[test]
    fn whoever_comes_while_it_is_not_known_whether_the_process_before_lives_is_told_to_ask_again() {
        let arrivals = Arrivals::default();
        let first = arrivals.arrive(NodeId(1), (5, Some(7)), FROM, SILENCE).unwrap();
        let refused = arrivals.arrive(NodeId(1), (6, Some(8)), FROM, Duration::ZERO).err();
        assert_eq!(refused, Some(Unwelcome::Unsure));
        assert!(!Unwelcome::is_of_a_second(&Unwelcome::Unsure.to_string()), "it does not end");
        assert_eq!(arrivals.second_of(NodeId(1), Instant::now()), None);
        assert_eq!(*first.newest.borrow(), first.number, "the first goes on");
        drop(first);
        arrivals.arrive(NodeId(1), (6, Some(8)), FROM, Duration::ZERO).unwrap();
    }
}
