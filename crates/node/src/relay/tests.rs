//! Requests to a node that is lost, over real connections on loopback.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;

use super::*;
use crate::cluster::{Authority, PrivateKey};
use crate::transport::{Event, Identity, Settings};

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long an answer is waited for: whoever waits for that long was not told.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);

async fn station(authority: &Authority, node: u64) -> (Transport, Receiver<Event>) {
    let key = PrivateKey::draw();
    let certificate = authority.certify(NodeId(node), key.public());
    let identity =
        Identity::from_pem(&certificate, authority.certificate(), &key.to_pem()).unwrap();
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let settings = Settings { incarnation: 1, ..Settings::default() };
    Transport::start(identity, settings, listener, None).unwrap()
}

async fn until(events: &mut Receiver<Event>, is_it: impl Fn(&Event) -> bool) {
    let seen = async { while !is_it(&events.recv().await.unwrap()) {} };
    tokio::time::timeout(PATIENCE, seen).await.expect("it happens in time");
}

/// A node that knows another one, which takes what it is sent and says nothing.
async fn connected() -> (Relay, Receiver<Event>, (Transport, Receiver<Event>)) {
    let authority = Authority::found();
    let (near, mut events) = station(&authority, 1).await;
    let far = station(&authority, 2).await;
    near.know(NodeId(2), far.0.advertised().to_vec());
    until(&mut events, |event| matches!(event, Event::Connected { .. })).await;
    (Relay::new(near), events, far)
}

fn cancel() -> Request {
    Request {
        method: "POST".to_owned(),
        path: "/v1/executions/a/cancel".to_owned(),
        media: String::new(),
        body: Vec::new(),
        patience_ms: 0,
    }
}

#[tokio::test]
async fn whoever_was_lost_before_is_not_asked() {
    let (relay, mut events, far) = connected().await;
    far.0.stop();
    drop(far);
    until(&mut events, |event| matches!(event, Event::Disconnected { .. })).await;
    relay.lose(NodeId(2));
    let asked = relay.ask(NodeId(2), cancel(), ANSWER_PATIENCE).await;
    assert_eq!(asked, Err(Unanswered::Unsent));
}

#[tokio::test]
async fn whoever_is_lost_meanwhile_is_not_waited_for() {
    let (relay, _events, mut far) = connected().await;
    let lost = async {
        until(&mut far.1, |event| matches!(event, Event::Received { .. })).await;
        relay.lose(NodeId(2));
    };
    let (asked, ()) = tokio::join!(relay.ask(NodeId(2), cancel(), PATIENCE), lost);
    assert_eq!(asked, Err(Unanswered::Lost));
}
