//! Cuts: noticed, survived, and over soon after they are.

use std::time::Instant;

use super::proxy::{Proxy, Weather};
use super::*;

/// What an operator is promised: traffic flows again this soon after a cut has healed.
const BACK_AFTER_MAX: Duration = Duration::from_millis(1500);

/// A node that can be reached through a proxy only.
async fn behind_a_proxy(authority: &Authority, node: u64) -> (Station, Proxy) {
    let proxy = Proxy::open().await;
    let hidden = Settings { advertised: proxy.address(), ..settings() };
    let station = Station::start_with(identity(authority, node), hidden).await;
    proxy.leads_to(station.transport.address());
    (station, proxy)
}

/// Cuts both ways between two nodes for a while, and measures how long after its end messages arrive
/// again each way.
async fn time_to_come_back(weather: Weather, cut: Duration) -> Duration {
    let authority = Authority::found();
    let (mut one, to_one) = behind_a_proxy(&authority, 1).await;
    let (mut two, to_two) = behind_a_proxy(&authority, 2).await;
    one.meet(&two);
    one.connected(NodeId(2)).await;
    two.connected(NodeId(1)).await;

    [&to_one, &to_two].into_iter().for_each(|proxy| proxy.becomes(weather));
    for (station, other) in [(&mut one, NodeId(2)), (&mut two, NodeId(1))] {
        while !matches!(station.event().await, Event::Disconnected { .. }) {}
        assert!(!station.counted(other).connected);
    }
    tokio::time::sleep(cut).await;
    assert!(!one.counted(NodeId(2)).connected && !two.counted(NodeId(1)).connected);
    [&to_one, &to_two].into_iter().for_each(|proxy| proxy.becomes(Weather::Fair));
    let healed = Instant::now();
    one.send(&two, "after");
    two.send(&one, "after");
    assert_eq!(two.receive().await.1, "after");
    assert_eq!(one.receive().await.1, "after");
    healed.elapsed()
}

/// The longest of several cuts of different lengths: how long it takes depends on which attempt to
/// reach a peer was under way.
async fn longest_time_to_come_back(weather: Weather) -> Duration {
    let cuts = [300, 900, 1500, 2300, 3700].map(Duration::from_millis);
    let measured = cuts.map(|cut| tokio::spawn(time_to_come_back(weather, cut)));
    let mut longest = Duration::ZERO;
    for time in measured {
        longest = longest.max(time.await.unwrap());
    }
    longest
}

#[test]
fn traffic_flows_again_soon_after_a_silent_cut() {
    let time = run(longest_time_to_come_back(Weather::Silent));
    assert!(time < BACK_AFTER_MAX, "{time:?}");
}

#[test]
fn traffic_flows_again_soon_after_a_cut_that_resets() {
    let time = run(longest_time_to_come_back(Weather::Resetting));
    assert!(time < BACK_AFTER_MAX, "{time:?}");
}

#[test]
fn a_silent_peer_is_given_up_within_a_second_or_so() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let (two, proxy) = behind_a_proxy(&authority, 2).await;
        one.meet(&two);
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
fn what_was_said_long_before_a_peer_comes_back_is_not_told_it() {
    run(async {
        let authority = Authority::found();
        let soon = Settings { outdated_after: Duration::from_millis(200), ..settings() };
        let one = Station::start_with(identity(&authority, 1), soon).await;
        let mut two = Station::start(&authority, 2).await;
        one.transport.know(NodeId(2), vec!["127.0.0.1:1".to_owned()]);
        one.send(&two, "how things were");
        tokio::time::sleep(Duration::from_millis(300)).await;
        one.meet(&two);
        one.until("connected", |counted| counted.peers[&NodeId(2)].connected).await;
        one.send(&two, "how things are");
        assert_eq!(two.receive().await.1, "how things are");
        assert_eq!(one.counted(NodeId(2)).outdated, 1);
    });
}

#[test]
fn what_waits_when_a_way_is_blocked_is_gone() {
    run(async {
        let authority = Authority::found();
        let patient = Settings { outdated_after: PATIENCE, ..settings() };
        let one = Station::start_with(identity(&authority, 1), patient).await;
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
