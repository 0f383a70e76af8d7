//! Requests that one node passes on to another, and their answers, over the transport.
//!
//! A node answers a passed request by its own routes, as if it had come to it with the right token:
//! whoever can send it is a member, as the certificate of its connection says. Everything is bounded:
//! how many requests are answered at once, how many wait for an answer, for how long, and how large
//! they are. A request that gets no answer may have been carried out all the same.

#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{StatusCode, header};
use bytes::Bytes;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use outlast_lineage::NodeId;
use tokio::sync::{Semaphore, oneshot};

pub(crate) use wire::{Answer, Request, is_word};

use crate::random;
use crate::transport::{Dropped, Room, Sent, Transport};
use wire::Word;

/// How many requests of others are answered at once; more are refused.
const SERVED_MAX: usize = 256;
/// How many more may wait for the end of an execution: they cost nothing meanwhile, and keep nobody
/// else waiting.
const ENDS_AWAITED_MAX: usize = 4096;
/// How many requests wait for their answers; more are not sent.
const PENDING_MAX: usize = 4096;
/// The longest that a request of another node is worked on.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// The largest answer that is passed on: somewhat less than the transport takes.
const ANSWER_BYTES_MAX: usize = 7 * 1024 * 1024;

/// Who passed a request on; what comes with this is not passed on again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedBy(#[expect(dead_code, reason = "for logs")] pub(crate) NodeId);

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// The request was not sent.
    Unsent,
    /// The other node was lost before it answered, and nobody knows what became of the request.
    Lost,
    /// It was not answered in time, and nobody knows what became of it.
    Unknown,
}

/// Passes requests on, and answers those that are passed on. Cheap to clone.
#[derive(Clone)]
pub struct Relay {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Transport,
    numbers: AtomicU64,
    pending: Mutex<BTreeMap<u64, (NodeId, oneshot::Sender<Answer>)>>,
    router: Mutex<Option<Router>>,
    turns: Arc<Semaphore>,
    seats: Arc<Semaphore>,
}

impl fmt::Debug for Relay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Relay").field(self.inner.transport.identity()).finish()
    }
}

impl Relay {
    pub(crate) fn new(transport: Transport) -> Self {
        Self {
            inner: Arc::new(Inner {
                transport,
                // Answers to an earlier life must not be taken for answers to this one.
                numbers: AtomicU64::new(u64::from_le_bytes(random::bytes()) >> 1),
                pending: Mutex::default(),
                router: Mutex::default(),
                turns: Arc::new(Semaphore::new(SERVED_MAX)),
                seats: Arc::new(Semaphore::new(ENDS_AWAITED_MAX)),
            }),
        }
    }

    /// From now on requests of others are answered by these routes.
    pub(crate) fn serve(&self, router: Router) {
        *self.inner.router() = Some(router);
    }

    /// What others pass on is taken until this is dropped.
    pub(crate) fn taking(&self) -> Taking {
        Taking(self.clone())
    }

    /// This node.
    pub(crate) fn node(&self) -> NodeId {
        self.inner.transport.identity().node
    }

    /// The other nodes, and whether messages can leave for them.
    pub(crate) fn others(&self) -> Vec<(NodeId, bool)> {
        let peers = self.inner.transport.statistics().peers;
        peers.into_iter().map(|(node, peer)| (node, peer.connected)).collect()
    }

    /// Whether messages can leave for another node.
    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        self.others().contains(&(node, true))
    }

    /// Has another node answer a request. One that is lost, before or while it is waited for, is not waited
    /// for any longer.
    pub(crate) async fn ask(
        &self,
        to: NodeId,
        request: Request,
        patience: Duration,
    ) -> Result<Answer, Unanswered> {
        let number = self.inner.numbers.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        let waiting = Waiting { inner: &self.inner, number };
        {
            let mut pending = self.inner.pending();
            if PENDING_MAX <= pending.len() {
                return Err(Unanswered::Unsent);
            }
            pending.insert(number, (to, tell));
        }
        // Nobody is told twice that a node was lost, and what is given for one that is waits until it is back:
        // one that was lost just before is not asked.
        if !self.is_connected(to) {
            return Err(Unanswered::Unsent);
        }
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let word = Word::Ask(number, Request { patience_ms, ..request });
        if self.inner.transport.send(to, word.encode().into()) != Sent::Queued {
            return Err(Unanswered::Unsent);
        }
        let answered = tokio::time::timeout(patience, told).await;
        drop(waiting);
        match answered {
            Ok(told) => told.map_err(|_| Unanswered::Lost),
            Err(_) => Err(Unanswered::Unknown),
        }
    }

    /// Takes what another node said; the room is kept as long as its request is.
    pub(crate) fn take(&self, from: NodeId, message: &Bytes, room: Room) {
        match Word::decode(message) {
            Some(Word::Answer(number, answer)) => self.inner.answered(from, number, answer),
            Some(Word::Ask(number, request)) => self.answer(from, number, request, room),
            None => tracing::debug!(from = from.0, "a request that cannot be read"),
        }
    }

    /// Another node can no longer be reached: whoever waits for its answer is told so.
    pub(crate) fn lose(&self, node: NodeId) {
        self.inner.pending().retain(|_, (asked, _)| *asked != node);
    }

    fn answer(&self, from: NodeId, number: u64, request: Request, room: Room) {
        let inner = Arc::clone(&self.inner);
        let (places, room) = match request.awaits_an_end() {
            // What is small and stays long takes no room from what arrives.
            true => (&inner.seats, None),
            false => (&inner.turns, Some(room)),
        };
        let turn = Arc::clone(places).try_acquire_owned();
        let (Some(router), Ok(turn)) = (inner.router().clone(), turn) else {
            return inner.reply(from, number, plain(StatusCode::SERVICE_UNAVAILABLE));
        };
        tokio::spawn(async move {
            let patience = Duration::from_millis(request.patience_ms).min(PATIENCE_MAX);
            let answered = tokio::time::timeout(patience, carry_out(router, from, request)).await;
            let answer = answered.unwrap_or_else(|_| plain(StatusCode::GATEWAY_TIMEOUT));
            inner.reply(from, number, answer);
            drop((turn, room));
        });
    }
}

/// Requests of others are taken. The routes that answer them hold the node, and this relay besides: they
/// are let go of in the end, or a node that has stopped would never close its journal.
pub(crate) struct Taking(Relay);

impl Drop for Taking {
    fn drop(&mut self) {
        let routes = self.0.inner.router().take();
        drop(routes);
    }
}

impl Inner {
    fn router(&self) -> MutexGuard<'_, Option<Router>> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<u64, (NodeId, oneshot::Sender<Answer>)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self, from: NodeId, number: u64, answer: Answer) {
        let mut pending = self.pending();
        // Only whoever was asked can answer.
        if pending.get(&number).is_some_and(|(asked, _)| *asked == from)
            && let Some((_, waiting)) = pending.remove(&number)
        {
            // Whoever no longer waits needs no answer.
            let _ = waiting.send(answer);
        }
    }

    fn reply(&self, to: NodeId, number: u64, answer: Answer) {
        let sent = self.transport.send(to, Word::Answer(number, answer).encode().into());
        if sent == Sent::Dropped(Dropped::TooLarge) {
            let answer = plain(StatusCode::INSUFFICIENT_STORAGE);
            self.transport.send(to, Word::Answer(number, answer).encode().into());
        }
    }
}

/// A request whose answer is waited for; it is forgotten with this.
struct Waiting<'a> {
    inner: &'a Inner,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.inner.pending().remove(&self.number);
    }
}

async fn carry_out(router: Router, from: NodeId, request: Request) -> Answer {
    let built = axum::http::Request::builder()
        .method(request.method.as_str())
        .uri(request.path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, request.media)
        .extension(PassedBy(from))
        .body(Body::from(request.body));
    let Ok(built) = built else { return plain(StatusCode::BAD_REQUEST) };
    let Ok(response) = TowerToHyperService::new(router).call(built).await;
    let (head, body) = response.into_parts();
    let media = head.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let media = media.unwrap_or_default().to_owned();
    match to_bytes(body, ANSWER_BYTES_MAX).await {
        Ok(body) => Answer { status: head.status.as_u16(), media, body: body.into() },
        Err(_) => plain(StatusCode::PAYLOAD_TOO_LARGE),
    }
}

/// An answer without words.
fn plain(status: StatusCode) -> Answer {
    Answer { status: status.as_u16(), media: String::new(), body: Vec::new() }
}
