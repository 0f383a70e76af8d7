//! Cuts: noticed, survived, and over soon after they are.

use std::time::Instant;

use super::proxy::{Proxy, Weather};
use super::*;

/// What an operator is promised: traffic flows again this soon after a cut has healed.
const BACK_AFTER_MAX: Duration = Duration::from_millis(1500);

/// Cuts the way from one to the other for a while, and measures how long after its end messages
/// arrive again.
async fn time_to_come_back(weather: Weather, cut: Duration) -> Duration {
    let authority = Authority::found();
    let mut one = Station::start(&authority, 1).await;
    let mut two = Station::start(&authority, 2).await;
    let proxy = Proxy::to(two.transport.address()).await;
    one.transport.know(NodeId(2), proxy.address());
    one.send(&two, "before");
    assert_eq!(two.receive().await.1, "before");

    proxy.becomes(weather);
    one.until("the cut is noticed", |counted| !counted.peers[&NodeId(2)].connected).await;
    while !matches!(one.event().await, Event::Disconnected { .. }) {}
    tokio::time::sleep(cut).await;
    proxy.becomes(Weather::Fair);
    let healed = Instant::now();
    one.send(&two, "after");
    assert_eq!(two.receive().await.1, "after");
    healed.elapsed()
}

#[test]
fn traffic_flows_again_soon_after_a_silent_cut() {
    let time = run(time_to_come_back(Weather::Silent, Duration::from_millis(2300)));
    assert!(time < BACK_AFTER_MAX, "{time:?}");
}

#[test]
fn traffic_flows_again_soon_after_a_cut_that_resets() {
    let time = run(time_to_come_back(Weather::Resetting, Duration::from_millis(2300)));
    assert!(time < BACK_AFTER_MAX, "{time:?}");
}

#[test]
fn a_silent_peer_is_given_up_within_a_second_or_so() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let two = Station::start(&authority, 2).await;
        let proxy = Proxy::to(two.transport.address()).await;
        one.transport.know(NodeId(2), proxy.address());
        one.connected(NodeId(2)).await;
        let began = Instant::now();
        proxy.becomes(Weather::Silent);
        while !matches!(one.event().await, Event::Disconnected { peer: NodeId(2) }) {}
        let time = began.elapsed();
        let max = settings().silence_max;
        assert!(max / 2 < time && time < max + Duration::from_secs(1), "{time:?}");
    });
}

#[test]
fn an_idle_connection_stays() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let two = Station::start(&authority, 2).await;
        one.meet(&two);
        one.connected(NodeId(2)).await;
        let quiet = tokio::time::timeout(Duration::from_millis(2500), one.events.recv()).await;
        assert!(quiet.is_err(), "{quiet:?}");
        assert_eq!(one.counted(NodeId(2)).connections, 1);
    });
}

#[test]
fn each_way_can_be_blocked_by_itself() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let mut two = Station::start(&authority, 2).await;
        one.meet(&two);
        one.connected(NodeId(2)).await;
        two.connected(NodeId(1)).await;

        one.transport.block(NodeId(2), Direction::Outgoing);
        assert_eq!(one.send(&two, "lost"), Sent::Dropped(Dropped::Blocked));
        two.send(&one, "the other way is open");
        assert_eq!(one.receive().await.1, "the other way is open");

        one.transport.unblock(NodeId(2), Direction::Outgoing);
        one.transport.block(NodeId(2), Direction::Incoming);
        two.send(&one, "lost");
        one.send(&two, "open now");
        assert_eq!(two.receive().await.1, "open now");
        one.until("it is dropped", |counted| counted.peers[&NodeId(2)].blocked == 2).await;

        one.transport.unblock_all();
        two.send(&one, "all open");
        assert_eq!(one.receive().await.1, "all open");
        assert_eq!(one.counted(NodeId(2)).connections, 1, "connections are kept");
    });
}

#[test]
fn what_waits_when_a_way_is_blocked_is_gone() {
    run(async {
        let authority = Authority::found();
        let one = Station::start(&authority, 1).await;
        let mut two = Station::start(&authority, 2).await;
        // Nobody listens there, so everything waits.
        one.transport.know(NodeId(2), vec!["127.0.0.1:1".to_owned()]);
        one.send(&two, "lost");
        one.transport.block(NodeId(2), Direction::Outgoing);
        one.transport.unblock(NodeId(2), Direction::Outgoing);
        one.send(&two, "kept");
        one.meet(&two);
        assert_eq!(two.receive().await.1, "kept");
    });
}
