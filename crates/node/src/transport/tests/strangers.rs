//! Those who have no business here: they get nothing, and cost little.

use std::io::ErrorKind;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::connection::Connection;
use super::*;

/// Dials a node the way a member does, and says what it is told to.
async fn dial_as(
    identity: &Identity,
    to: &Station,
) -> io::Result<Connection<tokio_rustls::client::TlsStream<TcpStream>>> {
    let stream = TcpStream::connect(to.transport.address()).await?;
    let tls = Tls::new(identity).unwrap();
    let name = to.transport.identity().name_of(to.node());
    let stream = TlsConnector::from(tls.dial).connect(name, stream).await?;
    Ok(Connection::new(stream))
}

/// Waits until the other end has closed a connection.
async fn closed(mut stream: TcpStream) -> Duration {
    let began = Instant::now();
    let mut buffer = [0; 1024];
    loop {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.expect("open");
        match read {
            Ok(0) => return began.elapsed(),
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::WouldBlock, "{error}");
                return began.elapsed();
            }
            Ok(_) => {}
        }
    }
}

#[test]
fn a_node_of_another_authority_is_not_let_in_and_does_not_let_us_in() {
    run(async {
        let (ours, theirs) = (Authority::found(), Authority::found());
        let mut one = Station::start(&ours, 1).await;
        let stranger = Station::start(&theirs, 2).await;
        stranger.meet(&one);
        stranger.send(&one, "let me in");
        one.until("it is refused", |counted| 2 <= counted.refused).await;
        one.meet(&stranger);
        one.send(&stranger, "who are you");
        stranger.until("it refuses", |counted| 0 < counted.refused).await;
        assert!(!one.counted(NodeId(2)).connected && !stranger.counted(NodeId(1)).connected);
        assert!(one.events.try_recv().is_err(), "nothing was heard of it");
    });
}

#[test]
fn expired_and_home_made_certificates_open_nothing() {
    run(async {
        let (authority, impostor) = (Authority::found(), Authority::found());
        let one = Station::start(&authority, 1).await;
        let key = PrivateKey::draw();
        // Signed by somebody who claims to be the authority of this very cluster.
        let claimed = Authority::from_pem(
            authority.cluster,
            impostor.certificate(),
            &PrivateKey::draw().to_pem(),
        );
        let home_made = claimed.unwrap().certify(NodeId(2), key.public());
        let expired = authority.certify_between(NodeId(2), key.public(), (2000, 2001));
        for certificate in [home_made, expired] {
            let identity =
                Identity::unchecked(&certificate, authority.certificate(), &key.to_pem());
            let refused = match dial_as(&identity, &one).await {
                Err(error) => error.to_string(),
                // With TLS 1.3 the refusal comes after the caller's last word.
                Ok(mut connection) => {
                    let hello = Hello::new(&identity, 1, Vec::new(), 7).to_bytes();
                    let _ = connection.send(Kind::Hello, &hello).await;
                    connection.next(PATIENCE).await.unwrap_err().to_string()
                }
            };
            assert!(!refused.is_empty());
        }
        one.until("both are refused", |counted| counted.refused == 2).await;
        assert!(one.transport.places().is_empty(), "a stranger's hello was not read");
    });
}

#[test]
fn without_a_certificate_there_is_no_conversation() {
    run(async {
        let authority = Authority::found();
        let one = Station::start(&authority, 1).await;
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_webpki_verifier(trusting(one.transport.identity().authority.clone()).unwrap())
            .with_no_client_auth();
        config.alpn_protocols = vec![tls::MEMBERS.to_vec()];
        let stream = TcpStream::connect(one.transport.address()).await.unwrap();
        let name = one.transport.identity().name_of(NodeId(1));
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        if let Ok(stream) = stream {
            let answer = Connection::new(stream).next(PATIENCE).await;
            assert!(answer.is_err(), "{answer:?}");
        }
        one.until("it is refused", |counted| counted.refused == 1).await;
    });
}

#[test]
fn garbage_is_shut_out_at_once() {
    run(async {
        let authority = Authority::found();
        let one = Station::start(&authority, 1).await;
        let texts: [&[u8]; 3] =
            [b"GET / HTTP/1.1\r\n\r\n", &[0xff; 4096], &[0x16, 3, 1, 0xff, 0xff]];
        for garbage in &texts[..2] {
            let mut stream = TcpStream::connect(one.transport.address()).await.unwrap();
            stream.write_all(garbage).await.unwrap();
            assert!(closed(stream).await < settings().handshake_max);
        }
        one.until("both are refused", |counted| counted.refused == 2).await;
        // A record that never ends is closed when the time for a handshake is over.
        let mut stream = TcpStream::connect(one.transport.address()).await.unwrap();
        stream.write_all(texts[2]).await.unwrap();
        closed(stream).await;
        one.until("it is noted", |counted| counted.refused + counted.slow == 3).await;
    });
}

#[test]
fn half_a_handshake_and_one_byte_at_a_time_are_cut_off_in_time() {
    run(async {
        let authority = Authority::found();
        let one = Station::start(&authority, 1).await;
        let silent = TcpStream::connect(one.transport.address()).await.unwrap();
        let dripping = TcpStream::connect(one.transport.address()).await.unwrap();
        let (mut reader, mut writer) = dripping.into_split();
        let drip = tokio::spawn(async move {
            // The beginning of a hello that would have a length.
            let bytes =
                [0x16, 3, 1, 0x01, 0, 1, 0, 0, 0xfc].into_iter().chain(std::iter::repeat(0));
            for byte in bytes {
                if writer.write_all(&[byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let began = Instant::now();
        closed(silent).await;
        let mut end = [0; 1];
        while reader.read(&mut end).await.is_ok_and(|read| 0 < read) {}
        let time = began.elapsed();
        let max = settings().handshake_max;
        assert!(max / 2 < time && time < max + Duration::from_secs(2), "{time:?}");
        one.until("both are noted", |counted| counted.slow == 2).await;
        drip.abort();
    });
}

#[test]
fn a_crowd_of_strangers_does_not_keep_members_out_for_long() {
    run(async {
        let authority = Authority::found();
        let few = Settings { strangers_max: 4, strangers_per_address_max: 4, ..settings() };
        let mut one = Station::start_with(identity(&authority, 1), few).await;
        let mut crowd = Vec::new();
        for _ in 0..20 {
            crowd.push(TcpStream::connect(one.transport.address()).await.unwrap());
        }
        one.until("most are turned away", |counted| 16 <= counted.crowded).await;
        let patient = Settings { outdated_after: PATIENCE, ..settings() };
        let member = Station::start_with(identity(&authority, 2), patient).await;
        member.meet(&one);
        member.send(&one, "excuse me");
        assert_eq!(one.receive().await, (NodeId(2), "excuse me".to_owned()));
        drop(crowd);
    });
}

#[test]
fn a_member_that_breaks_the_rules_is_cut_off() {
    run(async {
        let authority = Authority::found();
        let one = Station::start(&authority, 1).await;
        let two = identity(&authority, 2);
        let hello = Hello::new(&two, 1, vec!["127.0.0.1:1".into()], 7).to_bytes();
        // A length beyond the bound, and a kind that nobody knows.
        for garbage in [[0x7f, 0xff, 0xff, 0xff, Kind::Message as u8], [0, 0, 0, 0, 99]] {
            let mut connection = dial_as(&two, &one).await.unwrap();
            connection.send(Kind::Hello, &hello).await.unwrap();
            assert_eq!(connection.next(PATIENCE).await.unwrap().kind, Kind::Hello);
            connection.writer.write_all(&garbage).await.unwrap();
            connection.writer.flush().await.unwrap();
            while connection.next(PATIENCE).await.is_ok() {}
        }
        let garbage = |counted: &Statistics| counted.peers[&NodeId(2)].garbage;
        one.until("both are counted", |counted| garbage(counted) == 2).await;
    });
}

#[test]
fn the_sender_is_whom_the_certificate_names_whatever_it_says() {
    run(async {
        let authority = Authority::found();
        let mut one = Station::start(&authority, 1).await;
        let (two, three) = (identity(&authority, 2), identity(&authority, 3));
        let mut connection = dial_as(&two, &one).await.unwrap();
        let lie = Hello::new(&three, 1, Vec::new(), 7).to_bytes();
        connection.send(Kind::Hello, &lie).await.unwrap();
        let frame = connection.next(PATIENCE).await.unwrap();
        assert_eq!(frame.kind, Kind::Refused);
        let mut connection = dial_as(&two, &one).await.unwrap();
        let truth = Hello::new(&two, 1, Vec::new(), 7).to_bytes();
        connection.send(Kind::Hello, &truth).await.unwrap();
        connection.send(Kind::Message, b"I am three").await.unwrap();
        assert_eq!(one.receive().await, (NodeId(2), "I am three".to_owned()));
    });
}

#[test]
fn an_earlier_life_of_a_node_is_told_to_go() {
    run(async {
        let authority = Authority::found();
        let one = Station::start(&authority, 1).await;
        let two = identity(&authority, 2);
        let say_hello = async |incarnation| {
            let mut connection = dial_as(&two, &one).await.unwrap();
            let hello = Hello::new(&two, incarnation, Vec::new(), 7).to_bytes();
            connection.send(Kind::Hello, &hello).await.unwrap();
            connection.next(PATIENCE).await.unwrap().kind
        };
        assert_eq!(say_hello(5).await, Kind::Hello);
        assert_eq!(say_hello(4).await, Kind::Refused);
        assert_eq!(say_hello(6).await, Kind::Hello);
    });
}

/// A copy of a data directory that was started beside the original.
#[test]
fn a_second_process_of_a_node_is_told_to_go_while_the_first_is_heard() {
    run(async {
        let authority = Authority::found();
        let patient = Settings { silence_max: PATIENCE, ..settings() };
        let mut one = Station::start_with(identity(&authority, 1), patient).await;
        let two = identity(&authority, 2);
        let say_hello = async |process| {
            let mut connection = dial_as(&two, &one).await.unwrap();
            let hello = Hello::new(&two, 5, Vec::new(), process).to_bytes();
            connection.send(Kind::Hello, &hello).await.unwrap();
            let frame = connection.next(PATIENCE).await.unwrap();
            (connection, frame.kind, String::from_utf8_lossy(&frame.payload).into_owned())
        };
        let (mut first, kind, _) = say_hello(7).await;
        assert_eq!(kind, Kind::Hello);
        let (_, kind, reason) = say_hello(8).await;
        assert_eq!(kind, Kind::Refused);
        assert!(reason.contains("is a copy of its data directory in use?"), "{reason}");
        first.send(Kind::Message, b"still heard").await.unwrap();
        assert_eq!(one.receive().await, (NodeId(2), "still heard".to_owned()));
    });
}
