//! Nodes that talk.

use super::*;

#[test]
fn two_nodes_talk_though_only_one_knew_where_the_other_is() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let mut two = Station::start(&authority, 2).await;
        one.meet(&two);
        assert_eq!(one.send(&two, "hello"), Sent::Queued);
        assert_eq!(two.receive().await, (NodeId(1), "hello".to_owned()));
        // The first has said in its hello where it is.
        assert_eq!(two.transport.places(), [(NodeId(1), one.address())].into());
        assert_eq!(two.send(&one, "and hello"), Sent::Queued);
        assert_eq!(one.receive().await, (NodeId(2), "and hello".to_owned()));
    });
}

#[test]
fn three_nodes_know_who_said_what() {
    run(async {
        let authority = Authority::found();
        let mut stations = Vec::new();
        for node in 1..=3 {
            stations.push(Station::start(&authority, node).await);
        }
        for one in &stations {
            stations.iter().for_each(|other| one.meet(other));
        }
        for one in &stations {
            for other in stations.iter().filter(|other| other.node() != one.node()) {
                one.send(other, &format!("{} to {}", one.node().0, other.node().0));
            }
        }
        for station in &mut stations {
            let mut heard = vec![station.receive().await, station.receive().await];
            heard.sort();
            let node = station.node().0;
            let others = (1..=3).filter(|other| *other != node);
            let said = others.map(|other| (NodeId(other), format!("{other} to {node}")));
            assert_eq!(heard, said.collect::<Vec<_>>());
        }
    });
}

#[test]
fn messages_of_a_connection_arrive_in_order_and_once() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let mut two = Station::start(&authority, 2).await;
        one.meet(&two);
        one.connected(NodeId(2)).await;
        let count = 10_000;
        for number in 0..count {
            assert_eq!(one.send(&two, &number.to_string()), Sent::Queued);
        }
        for number in 0..count {
            assert_eq!(two.receive().await, (NodeId(1), number.to_string()));
        }
        assert_eq!(one.counted(NodeId(2)).sent, count);
        assert_eq!(one.counted(NodeId(2)).displaced, 0);
    });
}

#[test]
fn the_longest_message_arrives_and_a_longer_one_is_not_taken() {
    run(async {
        let authority = Authority::found();
        let one = Station::start(&authority, 1).await;
        let mut two = Station::start(&authority, 2).await;
        one.meet(&two);
        let longest = settings().message_bytes_max;
        let too_long = one.transport.send(NodeId(2), Bytes::from(vec![7; longest + 1]));
        assert_eq!(too_long, Sent::Dropped(Dropped::TooLarge));
        let sent = one.transport.send(NodeId(2), Bytes::from(vec![7; longest]));
        assert_eq!(sent, Sent::Queued);
        let message = loop {
            if let Event::Received { message, .. } = two.event().await {
                break message;
            }
        };
        assert!(message.len() == longest && message.iter().all(|byte| *byte == 7));
    });
}

#[test]
fn nothing_is_sent_to_those_who_are_not_known_or_forgotten() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let two = Station::start(&authority, 2).await;
        assert_eq!(one.send(&two, "lost"), Sent::Dropped(Dropped::Unknown));
        one.meet(&two);
        one.connected(NodeId(2)).await;
        one.transport.forget(NodeId(2));
        assert_eq!(one.send(&two, "lost"), Sent::Dropped(Dropped::Unknown));
        // Nobody is its own peer.
        one.transport.know(NodeId(1), one.address());
        assert!(one.transport.places().is_empty());
    });
}

#[test]
fn whoever_is_shut_out_is_not_heard_again() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let two = Station::start(&authority, 2).await;
        one.meet(&two);
        one.connected(NodeId(2)).await;
        two.until("connected", |counted| counted.peers[&NodeId(1)].connected).await;
        one.transport.shut_out(NodeId(2));
        one.meet(&two);
        assert_eq!(one.send(&two, "lost"), Sent::Dropped(Dropped::Unknown));
        one.until("it is refused", |counted| 0 < counted.refused).await;
        two.send(&one, "let me in");
        let heard = tokio::time::timeout(Duration::from_millis(300), one.events.recv()).await;
        assert!(heard.is_err(), "{heard:?}");
    });
}

#[test]
fn a_node_that_starts_again_is_reached_again() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let second = identity(&authority, 2);
        let two = Station::start_with(second.clone(), settings()).await;
        one.meet(&two);
        one.connected(NodeId(2)).await;
        let listen = two.transport.address();
        two.transport.stop();
        drop(two);
        let mut lost = false;
        while !lost {
            lost = matches!(one.event().await, Event::Disconnected { peer: NodeId(2) });
        }
        let again = Settings { incarnation: 2, ..settings() };
        let mut two = Station::start_at(listen, second, again).await;
        one.send(&two, "welcome back");
        assert_eq!(two.receive().await, (NodeId(1), "welcome back".to_owned()));
        let incarnation = loop {
            if let Event::Connected { incarnation, .. } = one.event().await {
                break incarnation;
            }
        };
        assert_eq!(incarnation, 2);
    });
}

#[test]
fn what_was_given_before_a_flush_arrives_though_the_transport_stops() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let mut two = Station::start(&authority, 2).await;
        one.meet(&two);
        one.connected(NodeId(2)).await;
        let count = 200;
        for number in 0..count {
            one.send(&two, &number.to_string());
        }
        one.transport.flush(PATIENCE).await;
        one.transport.stop();
        for number in 0..count {
            assert_eq!(two.receive().await, (NodeId(1), number.to_string()));
        }
    });
}

#[test]
fn a_flush_waits_for_nobody_who_is_not_there() {
    run(async {
        let authority = Authority::found();
        let one = Station::start(&authority, 1).await;
        one.transport.know(NodeId(2), vec!["127.0.0.1:1".to_owned()]);
        assert_eq!(one.transport.send(NodeId(2), Bytes::from_static(b"lost")), Sent::Queued);
        // The test itself is given up much sooner.
        one.transport.flush(100 * PATIENCE).await;
    });
}
