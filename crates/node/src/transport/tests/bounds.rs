//! Bounds: what waits is bounded on both sides, and a slow reader holds up only its senders.

use super::*;

#[test]
fn what_waits_for_a_peer_that_is_not_there_is_bounded() {
    run(async {
        let authority = Authority::found();
        let bounds = Settings { queue_messages_max: 10, outdated_after: PATIENCE, ..settings() };
        let one = Station::start_with(identity(&authority, 1), bounds).await;
        one.transport.know(NodeId(2), vec!["127.0.0.1:1".to_owned()]);
        for number in 0..100_u64 {
            one.transport.send(NodeId(2), Bytes::from(number.to_string()));
        }
        let counted = one.counted(NodeId(2));
        assert_eq!((counted.queued_messages, counted.displaced, counted.sent), (10, 90, 0));
        // The newest are kept, and arrive once the peer is there.
        let mut two = Station::start(&authority, 2).await;
        one.meet(&two);
        for number in 90..100_u64 {
            assert_eq!(two.receive().await.1, number.to_string());
        }
    });
}

#[test]
fn a_reader_that_does_not_read_fills_the_senders_queue_and_not_its_own_memory() {
    run(async {
        let authority = Authority::found();
        let message = 64 * 1024;
        let bounds = Settings { queue_bytes_max: 4 * message, ..settings() };
        let one = Station::start_with(identity(&authority, 1), bounds).await;
        let narrow = Settings { inbox_bytes_max: 4 * message, ..settings() };
        let mut two = Station::start_with(identity(&authority, 2), narrow).await;
        one.meet(&two);
        one.until("connected", |counted| counted.peers[&NodeId(2)].connected).await;
        // Far more than the sockets' buffers hold.
        let count = 2000_u32;
        for number in 0..count {
            let mut bytes = vec![0; message];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            one.transport.send(NodeId(2), Bytes::from(bytes));
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        one.until("some had to go", |counted| 0 < counted.peers[&NodeId(2)].displaced).await;
        // Longer than a silence may be: heartbeats go on while messages stand still.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let counted = one.counted(NodeId(2));
        assert!(counted.connected && counted.connections == 1, "{counted:?}");
        assert!(counted.queued_bytes <= 4 * message, "{counted:?}");
        let taken = two.counted(NodeId(1)).received;
        assert!(taken <= 6, "{taken} messages were read from the socket, and none taken");
        // Whoever reads again gets what is left, in order, up to the newest.
        let mut last = None;
        while last != Some(count - 1) {
            if let Event::Received { message, .. } = two.event().await {
                let number = u32::from_be_bytes(message[..4].try_into().unwrap());
                assert!(last < Some(number));
                last = Some(number);
            }
        }
    });
}
