//! Connections: accepted within bounds, and closed when their other end is too slow. When the server stops,
//! whoever waits for an answer gets one, and streams that have no end of their own are broken off.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::stream;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::Problem;

/// How long the head of a request may take to arrive.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long connections may take to end once the server stops.
const END_TIME_MAX: Duration = Duration::from_secs(2);
/// How long an answer may take then: less, so that it arrives.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(1500);
/// What whoever waits for an execution's end is told then.
const STOPS: &str = "this node is about to stop; executions are not affected: ask another node of its \
                     cluster, or this one when it is back";
/// What whoever wants something changed is told then.
const STOPS_MEANWHILE: &str = "this node is about to stop, and whether this was done is not known: look, \
                               or ask again, at another node of its cluster or at this one when it is back";
/// How long to wait after an error of the operating system, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An API that is being served.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(super) fn start(
        listener: TcpListener,
        router: Router,
        connections_max: usize,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        let router = router.layer(middleware::from_fn_with_state(stopping.clone(), until_stopped));
        let serving = tokio::spawn(accept(listener, router, connections_max, stopping));
        Ok(Self { address, stop, serving })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections and ends those there are.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // A server that panicked has ended as well.
        let _ = self.serving.await;
    }
}

async fn accept(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    mut stopping: watch::Receiver<bool>,
) {
    let turns = Arc::new(Semaphore::new(connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = told_to_stop(&mut stopping) => break,
            // Beyond the bound, whoever comes waits in the operating system's queue.
            accepted = next(&listener, &turns) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, turn)) => {
                connections.spawn(serve(stream, turn, router.clone(), stopping.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    let ending = async { while connections.join_next().await.is_some() {} };
    // What does not end in time is broken off with the set.
    let _ = tokio::time::timeout(END_TIME_MAX, ending).await;
}

async fn next(
    listener: &TcpListener,
    turns: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let turn = Arc::clone(turns).acquire_owned().await.expect("turns are never closed");
    let (stream, _) = listener.accept().await?;
    Ok((stream, turn))
}

async fn serve(
    stream: TcpStream,
    _turn: OwnedSemaphorePermit,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    // Small answers are to leave at once; without this they only come later.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = told_to_stop(&mut stopping) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Answers a request, also if the server stops before there is an answer. Who only waits is told at once; and who
/// waits and would hear from time to time that the node is there (`Prefer: wait=SECONDS`, RFC 7240) is told that
/// there is no answer yet, on the connection that it has.
async fn until_stopped(
    State(mut stopping): State<watch::Receiver<bool>>,
    request: Request,
    next: Next,
) -> Response {
    let is_look = request.method() == Method::GET;
    let patience = if is_look { Duration::ZERO } else { ANSWER_TIME_MAX };
    let for_stream = stopping.clone();
    let stopped = async {
        told_to_stop(&mut stopping).await;
        tokio::time::sleep(patience).await;
    };
    let within = preferred_wait(request.headers()).filter(|_| is_look);
    let no_answer_yet = async {
        match within {
            Some(within) => tokio::time::sleep(within).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        response = next.run(request) => broken_off_by_a_stop(response, for_stream),
        () = stopped => match is_look {
            true => Problem::new(StatusCode::SERVICE_UNAVAILABLE, STOPS).into_response(),
            false => Problem::new(StatusCode::GATEWAY_TIMEOUT, STOPS_MEANWHILE).into_response(),
        },
        () = no_answer_yet => Problem::no_answer_yet().into_response(),
    }
}

/// Within which time whoever asks would hear something.
fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let preferences = headers.get_all("prefer").iter().filter_map(|it| it.to_str().ok());
    let mut preferences = preferences.flat_map(|it| it.split([',', ';']));
    let seconds = preferences.find_map(|it| it.trim().strip_prefix("wait="))?;
    seconds.trim().parse().ok().filter(|seconds| 0 < *seconds).map(Duration::from_secs)
}

/// An answer that goes on, such as a stream of events, would keep the server from stopping for as long as
/// it may. It is not ended but broken off: its end would say that there is nothing more to tell.
fn broken_off_by_a_stop(response: Response, stopping: watch::Receiver<bool>) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let (head, body) = response.into_parts();
    let until_then = stream::unfold(Some((body.into_data_stream(), stopping)), async |telling| {
        let (mut told, mut stopping) = telling?;
        tokio::select! {
            biased;
            next = told.next() => next.map(|next| (next, Some((told, stopping)))),
            () = told_to_stop(&mut stopping) => {
                Some((Err(axum::Error::new(io::Error::other("the server stops"))), None))
            }
        }
    });
    Response::from_parts(head, Body::from_stream(until_then))
}

/// Waits until the server stops; a server that is gone has stopped.
async fn told_to_stop(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}
