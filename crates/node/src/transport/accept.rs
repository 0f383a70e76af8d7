//! Whoever comes: let in, told why not, or shut out.
//!
//! A connection has little time and little room until its certificate has been seen. What it wants is
//! in its first bytes: to talk as a member, or to join with a token. Strangers learn nothing, not
//! even why; members that do not fit are told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outlast_lineage::NodeId;
use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use super::connection::{Connection, prepare};
use super::door::Place;
use super::frame::{FrameError, Kind};
use super::hello::{BadHello, Hello};
use super::identity::named_in;
use super::receive::{self, Arrived, Unwelcome};
use super::tls::JOINING;
use super::{Reply, Shared};
use crate::causes::chain;

/// How long to wait after an error of the operating system, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long the answer to a request to join may take: it is written to the disk before.
const ANSWER_MAX: Duration = Duration::from_secs(10);

type Stream = TlsStream<TcpStream>;

/// Why someone was not let in.
#[derive(Debug, thiserror::Error)]
enum Shut {
    #[error("the handshake took too long")]
    Slow,
    #[error("the handshake failed")]
    Tls(#[from] std::io::Error),
    #[error("the certificate names no member of this cluster")]
    NoMember,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("it did not say hello")]
    NoHello,
    #[error(transparent)]
    Hello(#[from] BadHello),
    #[error(transparent)]
    Unwelcome(#[from] Unwelcome),
    #[error("too many attempts to join from one address")]
    TooOften,
    #[error("this node takes nobody in")]
    NoAdmission,
}

/// What someone turned out to be.
enum Guest {
    Member { connection: Connection<Stream>, node: NodeId, arrived: Arrived },
    Joiner { connection: Connection<Stream>, request: bytes::Bytes },
}

/// Takes connections for as long as the task is let live.
pub(super) async fn keep_accepting(shared: Arc<Shared>, listener: TcpListener) {
    // Dropped with this task, and its connections with it.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, from)) => match shared.door.enter(from.ip()) {
                Some(place) => {
                    connections.spawn(serve(Arc::clone(&shared), stream, from, place));
                }
                None => shared.strangers.crowded.add(1),
            },
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, from: SocketAddr, place: Place) {
    prepare(&stream);
    let greeted = timeout(shared.settings.handshake_max, greet(&shared, stream, from)).await;
    match greeted.unwrap_or(Err(Shut::Slow)) {
        Ok(Guest::Member { connection, node, arrived }) => {
            drop(place);
            receive::keep_receiving(&shared, connection, node, arrived).await;
        }
        Ok(Guest::Joiner { connection, request }) => {
            shared.strangers.joining.add(1);
            let answering = answer(&shared, from, connection, request);
            // One that does not take its answer can ask again.
            let _ = timeout(ANSWER_MAX, answering).await;
        }
        Err(shut) => note(&shared, from, &shut),
    }
}

/// Counts someone who was not let in, and writes it down now and then.
fn note(shared: &Shared, from: SocketAddr, shut: &Shut) {
    match shut {
        Shut::Slow => shared.strangers.slow.add(1),
        Shut::TooOften => shared.strangers.joining_too_often.add(1),
        _ => shared.strangers.refused.add(1),
    }
    // Told when it came first; it tries again and again.
    if matches!(shut, Shut::Unwelcome(Unwelcome::Twice { .. })) {
        return;
    }
    if let Some(left_out) = shared.throttle.admits(Instant::now()) {
        tracing::warn!(%from, reason = %chain(shut), left_out, "a connection was refused");
    }
}

/// Finds out who someone is and what it wants.
async fn greet(shared: &Arc<Shared>, stream: TcpStream, from: SocketAddr) -> Result<Guest, Shut> {
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let wants_to_join =
        start.client_hello().alpn().is_some_and(|mut names| names.any(|name| name == JOINING));
    if !wants_to_join {
        return greet_member(shared, start, from).await;
    }
    // Before the handshake, which is what costs most.
    if !shared.door.may_join(from.ip(), Instant::now()) {
        return Err(Shut::TooOften);
    }
    if shared.admission.is_none() {
        return Err(Shut::NoAdmission);
    }
    let stream = start.into_stream(Arc::clone(&shared.tls.admit)).await?;
    let mut connection = Connection::new(stream);
    let frame = connection.next(shared.settings.handshake_max).await?;
    match frame.kind {
        Kind::JoinRequest => Ok(Guest::Joiner { connection, request: frame.payload }),
        kind => Err(FrameError::UnknownKind(kind as u8).into()),
    }
}

async fn greet_member(
    shared: &Arc<Shared>,
    start: StartHandshake<TcpStream>,
    from: SocketAddr,
) -> Result<Guest, Shut> {
    let stream = start.into_stream(Arc::clone(&shared.tls.accept)).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let (cluster, node) = shown.and_then(named_in).ok_or(Shut::NoMember)?;
    if cluster != shared.identity.cluster || node == shared.identity.node {
        return Err(Shut::NoMember);
    }
    let mut connection = Connection::new(stream);
    let frame = connection.next(shared.settings.handshake_max).await?;
    if frame.kind != Kind::Hello {
        return Err(Shut::NoHello);
    }
    let read = Hello::read(&frame.payload, (cluster, node)).map_err(Shut::from);
    let read = read.and_then(|hello| {
        let life = (hello.incarnation, hello.process);
        let silence_max = shared.settings.silence_max;
        let arrived = shared.arrivals.arrive(node, life, from.ip(), silence_max)?;
        Ok((hello, arrived))
    });
    let (hello, arrived) = match read {
        Ok(read) => read,
        Err(shut) => {
            connection.send(Kind::Refused, shut.to_string().as_bytes()).await?;
            connection.finish().await;
            return Err(shut);
        }
    };
    shared.meet(node, hello.addresses).inspect(|peer| peer.seen.notify_one());
    connection.send(Kind::Hello, &shared.hello().to_bytes()).await?;
    Ok(Guest::Member { connection, node, arrived })
}

async fn answer(
    shared: &Shared,
    from: SocketAddr,
    mut connection: Connection<Stream>,
    request: bytes::Bytes,
) {
    let admission = shared.admission.clone().expect("looked at before the request was read");
    let deciding = tokio::task::spawn_blocking(move || admission.admit(&request));
    let Ok(Reply { answer, refused }) = deciding.await else { return };
    if let Some(reason) = refused
        && let Some(left_out) = shared.throttle.admits(Instant::now())
    {
        tracing::warn!(%from, reason, left_out, "a request to join was refused");
    }
    // A joiner that has gone asks again, and gets the same answer.
    if connection.send(Kind::JoinAnswer, &answer).await.is_ok() {
        connection.finish().await;
    }
}
