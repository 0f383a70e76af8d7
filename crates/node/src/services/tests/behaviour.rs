//! What is sent, and what becomes of a call when the other side misbehaves.

use std::sync::atomic::Ordering;
use std::time::Duration;

use outlast_expressions::{Value, value};
use outlast_workflow::{FaultKind, ResolvedAuthentication, Target};

use super::*;

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn decodes_an_answer() {
    let server =
        Server::start(|_, _| answer(200, "content-type: application/json\r\n", r#"{"a": [1]}"#))
            .await;
    assert_eq!(succeeded(call(get(&server.uri("/x?y=1"))).await), r#"{"a":[1]}"#);
    let request = server.only_request();
    assert!(request.starts_with("GET /x?y=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("user-agent: outlast/"), "{request}");
    assert!(!request.contains("content-type"), "{request}");
}

#[tokio::test]
async fn sends_values_as_json_and_texts_as_they_are() {
    let server = Server::start(|_, _| text("ok")).await;
    for (body, content_type, sent) in [
        (value::parse(r#"{"a":1}"#).unwrap(), "application/json", r#"{"a":1}"#),
        (value::string("plain"), "text/plain; charset=utf-8", "plain"),
    ] {
        let mut target = http("POST", &server.uri("/"));
        if let Target::Http { body: place, .. } = &mut target {
            *place = body;
        }
        succeeded(call(request(target)).await);
        let seen = server.requests().pop().unwrap();
        assert!(seen.contains(&format!("content-type: {content_type}\r\n")), "{seen}");
        assert!(seen.ends_with(&format!("\r\n\r\n{sent}")), "{seen}");
    }
}

#[tokio::test]
async fn every_call_carries_its_key_repeated_and_undo_calls_included() {
    let server =
        Server::start(|number, _| if number == 0 { answer(500, "", "") } else { text("ok") }).await;
    let forward = get(&server.uri("/do"));
    let key = forward.key_text();
    failed(call(forward.clone()).await);
    succeeded(call(forward.clone()).await);
    succeeded(call(Request { undo: true, ..forward }).await);
    for request in server.requests() {
        assert!(request.contains(&format!("idempotency-key: {key}\r\n")), "{request}");
    }
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn the_document_can_name_the_key_and_its_header() {
    let server = Server::start(|_, _| text("ok")).await;
    let request = Request {
        own_key: Some("room-7/3".into()),
        key_header: Some("X-Request-Id".into()),
        ..get(&server.uri("/"))
    };
    succeeded(call(request).await);
    assert!(server.only_request().contains("x-request-id: room-7/3\r\n"));
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = Server::start(|_, _| text("ok")).await;
    let caller = caller(|_| ());
    for _ in 0..5 {
        succeeded(caller.call(get(&server.uri("/")), &NoSecrets).await);
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_meanwhile_is_not_used_again() {
    let server = Server::start(|_, _| {
        Script::Close(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec())
    })
    .await;
    let caller = caller(|_| ());
    for _ in 0..3 {
        succeeded(caller.call(get(&server.uri("/")), &NoSecrets).await);
        // The end of the connection takes a moment to arrive.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_refused_connection_is_a_definite_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let fault = failed(call(get(&uri)).await);
    assert!(fault.is(FaultKind::Communication), "{fault:?}");
}

#[tokio::test]
async fn a_name_without_an_address_is_a_definite_failure() {
    let caller = caller(|options| {
        options.hosts.insert("nowhere.test".into(), Vec::new());
    });
    let fault = failed(caller.call(get("http://nowhere.test/"), &NoSecrets).await);
    assert!(fault.is(FaultKind::Communication), "{fault:?}");
}

#[tokio::test]
async fn speaking_tls_to_a_server_that_does_not_is_a_definite_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("https://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    failed(call(get(&uri)).await);
}

#[tokio::test]
async fn no_answer_within_the_deadline_is_unknown() {
    let server = Server::start(|_, _| Script::Hang(Vec::new())).await;
    let fault = unknown(call(within(get(&server.uri("/")), SHORT)).await);
    assert!(fault.is(FaultKind::Timeout), "{fault:?}");
    assert_eq!(fault.status, 408);
}

#[tokio::test]
async fn a_dripping_answer_ends_at_the_deadline() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec();
    let server = Server::start(move |_, _| {
        Script::Repeat(head.clone(), b"x".to_vec(), Duration::from_millis(10))
    })
    .await;
    unknown(call(within(get(&server.uri("/")), SHORT)).await);
}

#[tokio::test]
async fn nothing_is_sent_after_the_deadline() {
    let server = Server::start(|_, _| text("ok")).await;
    let fault = failed(call(Request { deadline: Some(past()), ..get(&server.uri("/")) }).await);
    assert!(fault.is(FaultKind::Timeout), "{fault:?}");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unknown() {
    let part = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec();
    for script in [
        |_: Vec<u8>| Script::Close(Vec::new()),
        |_: Vec<u8>| Script::Reset(Vec::new()),
        Script::Close,
        Script::Reset,
    ] {
        let part = part.clone();
        let server = Server::start(move |_, _| script(part.clone())).await;
        let fault = unknown(call(get(&server.uri("/"))).await);
        assert!(fault.is(FaultKind::Communication), "{fault:?}");
    }
}

#[tokio::test]
async fn an_error_whose_body_breaks_off_is_a_definite_failure() {
    let part = b"HTTP/1.1 409 X\r\ncontent-length: 100\r\n\r\nhalf".to_vec();
    let server = Server::start(move |_, _| Script::Close(part.clone())).await;
    assert_eq!(failed(call(get(&server.uri("/"))).await).status, 409);
}

#[tokio::test]
async fn garbage_instead_of_http_is_unknown() {
    let server = Server::start(|_, _| Script::Close(b"\x00\x01garbage\r\n\r\n".to_vec())).await;
    unknown(call(get(&server.uri("/"))).await);
}

#[tokio::test]
async fn an_endless_answer_is_cut_off_at_the_limit() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let chunk = [b"4000\r\n".as_slice(), &[b'x'; 0x4000], b"\r\n"].concat();
    let server =
        Server::start(move |_, _| Script::Repeat(head.clone(), chunk.clone(), Duration::ZERO))
            .await;
    let fault = unknown(call(get(&server.uri("/"))).await);
    assert!(fault.detail.unwrap().contains("bytes, the most that is read"));
    // What the kernel buffers on both sides, not what the server would like to send.
    assert!(server.bytes_sent.load(Ordering::SeqCst) < 32 << 20);
}

#[tokio::test]
async fn an_answer_of_exactly_the_limit_is_taken() {
    for (length, fits) in [(64 << 10, true), ((64 << 10) + 1, false)] {
        let server = Server::start(move |_, _| text(&"x".repeat(length))).await;
        let answer = call(get(&server.uri("/"))).await;
        assert_eq!(matches!(answer, Answer::Succeeded(_)), fits, "{length}");
    }
}

#[tokio::test]
async fn answers_a_digest_challenge_with_the_same_key() {
    let server = Server::start(|_, request| {
        let challenge = "www-authenticate: Digest realm=\"r\", nonce=\"n1\", qop=\"auth\"\r\n";
        match request.split_once("authorization: Digest ") {
            Some((_, header)) if digest_is_right(header) => text("welcome"),
            _ => answer(401, challenge, "who?"),
        }
    })
    .await;
    for (password, welcome) in [("p", true), ("wrong", false)] {
        let mut target = http("GET", &server.uri("/private?x=1"));
        if let Target::Http { authentication, .. } = &mut target {
            *authentication = Some(ResolvedAuthentication::Digest("u".into(), password.into()));
        }
        let answer = call(request(target)).await;
        assert_eq!(matches!(answer, Answer::Succeeded(_)), welcome);
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| request.contains("idempotency-key: ")));
}

/// Computes the response for user `u`, password `p` from the header's own fields.
fn digest_is_right(header: &str) -> bool {
    use md5::Digest as _;
    let hash = |text: String| {
        md5::Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let field = |name: &str| {
        let (_, rest) = header.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0
    };
    let who = hash("u:r:p".to_owned());
    let what = hash(format!("GET:{}", field("uri")));
    field("uri") == "/private?x=1"
        && header.contains("nc=00000001")
        && field("response") == hash(format!("{who}:n1:00000001:{}:auth:{what}", field("cnonce")))
}

#[tokio::test]
async fn a_mapped_origin_gets_the_call_and_the_original_is_told() {
    let server = Server::start(|_, _| answer(404, "", "none")).await;
    let caller = caller(|options| {
        let to = format!("http://{}", server.address);
        options.origins.insert("https://petstore.swagger.io", &to).unwrap();
    });
    let request = get("https://petstore.swagger.io/v2/pet/1");
    let fault = failed(caller.call(request, &NoSecrets).await);
    assert!(server.only_request().starts_with("GET /v2/pet/1 "));
    let detail = fault.detail.unwrap();
    assert!(detail.contains("https://petstore.swagger.io/v2/pet/1"), "{detail}");
    assert!(!detail.contains("127.0.0.1"), "{detail}");
}

#[tokio::test]
async fn a_service_type_mapped_to_an_endpoint_is_posted_there() {
    let server =
        Server::start(|_, _| answer(200, "content-type: application/json\r\n", "[2]")).await;
    let caller = caller(|options| {
        options.catalog.insert("location:1.0.0".into(), server.uri("/locate"));
    });
    assert!(caller.offers("location", "1.0.0"));
    let request = request(catalog("location", r#""just text""#));
    assert_eq!(caller.call_inline(&request), None);
    let key = request.key_text();
    assert_eq!(succeeded(caller.call(request, &NoSecrets).await), "[2]");
    let seen = server.only_request();
    assert!(seen.starts_with("POST /locate "), "{seen}");
    assert!(seen.contains(&format!("idempotency-key: {key}")), "{seen}");
    assert!(seen.contains("content-type: application/json"), "{seen}");
    assert!(seen.ends_with(r#""just text""#), "{seen}");
}

#[tokio::test]
async fn in_process_services_answer_inline_and_unknown_ones_fail() {
    let caller = caller(|_| ());
    let echo = request(catalog("echo", "[1]"));
    assert_eq!(caller.call_inline(&echo).map(succeeded).as_deref(), Some("[1]"));
    assert_eq!(succeeded(caller.call(echo, &NoSecrets).await), "[1]");
    let nothing = request(catalog("nothing", "[1]"));
    let fault = failed(caller.call_inline(&nothing).unwrap());
    assert!(fault.is(FaultKind::Configuration), "{fault:?}");
    assert_eq!(caller.call(nothing, &NoSecrets).await, Answer::Failed(fault));
}

#[tokio::test]
async fn an_in_process_service_is_held_to_the_deadline() {
    let sleep = request(catalog("sleep", r#"{"milliseconds": 30000}"#));
    let fault = unknown(call(within(sleep, SHORT)).await);
    assert!(fault.is(FaultKind::Timeout), "{fault:?}");
}

fn catalog(name: &str, arguments: &str) -> Target {
    let arguments: Value = value::parse(arguments).unwrap();
    Target::Catalog { name: name.into(), version: "1.0.0".into(), arguments }
}
