//! What a node gets from those who mean it ill or do it badly, and that it stays up.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Running, answer};

/// Sends bytes as they are, and gives what comes back until the node closes or enough came.
async fn send(running: &Running, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
    // The node may close before it has read everything; what it said by then counts.
    let _ = stream.write_all(bytes).await;
    let mut answer = vec![0; 64 * 1024];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut answer)).await;
    let length = read.expect("the node answers").unwrap_or(0);
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

async fn assert_up(running: &Running) {
    assert_eq!(running.get("/ready").await.0, StatusCode::OK);
}

fn resident_bytes() -> usize {
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statistics.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_without_the_token() {
    let running = Running::start().await;
    let bare = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let uri = running.uri("/v1/executions");
    let (status, problem) = answer(bare.get(&uri)).await;
    assert_eq!(
        (status, &problem["title"]),
        (StatusCode::UNAUTHORIZED, &json!("A token is needed"))
    );
    let wrong = answer(bare.get(&uri).bearer_auth("wrong")).await;
    assert_eq!(wrong.0, StatusCode::UNAUTHORIZED);
    assert_eq!(answer(bare.get(running.uri("/health"))).await.0, StatusCode::OK);
    assert_eq!(answer(bare.get(running.uri("/metrics"))).await.0, StatusCode::UNAUTHORIZED);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_other_hosts_and_from_other_origins_are_refused() {
    let running = Running::start().await;
    let host = running.request(Method::GET, "/v1/executions").header("host", "evil.example");
    assert_eq!(answer(host).await.0, StatusCode::FORBIDDEN);
    let origin =
        running.request(Method::GET, "/v1/executions").header("origin", "http://evil.example");
    assert_eq!(answer(origin).await.0, StatusCode::FORBIDDEN);
    let none = send(&running, b"GET /health HTTP/1.1\r\n\r\n").await;
    assert!(none.starts_with("HTTP/1.1 400"), "{none}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_answered_with_a_client_error() {
    let running = Running::start().await;
    let host = format!(
        "host: {}\r\nauthorization: Bearer {}\r\n",
        running.server.address(),
        running.token
    );
    let long = format!("GET /health HTTP/1.1\r\n{host}x: {}\r\n\r\n", "a".repeat(200 * 1024));
    for garbage in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".as_slice(),
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        format!("POST /v1/executions HTTP/1.1\r\n{host}content-length: many\r\n\r\n").as_bytes(),
        long.as_bytes(),
    ] {
        let said = send(&running, garbage).await;
        assert!(said.starts_with("HTTP/1.1 4"), "{said:?} to {garbage:?}");
    }
    for body in ["{", "[1,2", "\u{0}", &"[".repeat(100_000), "{\"namespace\": 7}", "nonsense"] {
        let request = running.request(Method::POST, "/v1/executions").body(body.to_owned());
        let (status, problem) = answer(request).await;
        assert_eq!((status, &problem["status"]), (StatusCode::BAD_REQUEST, &json!(400)));
    }
    for path in ["/v1/executions/nobody", "/v1/executions/a%2Fb", "/v1/executions/%ff"] {
        assert!(running.get_status(path).await.is_client_error(), "{path}");
    }
    assert_up(&running).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_is_refused_instead_of_left_out() {
    let running = Running::start().await;
    assert_eq!(running.define(crate::server::WAITS).await.0, StatusCode::CREATED);
    let flow = json!({ "namespace": "tests", "workflow": "waits" });
    let misspelt = json!({ "namespace": "tests", "workflow": "waits", "inputs": {} });
    let everything = json!({ "resolution": "abandon", "executon": "tests/one" });
    let number = json!({ "resolution": "abandon", "execution": 1 });
    let event = json!({ "type": "test.tick", "id": 1 });
    for (path, body) in [
        ("/v1/executions", &misspelt),
        ("/v1/executions", &json!([flow])),
        ("/v1/parked/resolve", &everything),
        ("/v1/parked/resolve", &number),
        ("/v1/events", &event),
    ] {
        let (status, problem) = running.post(path, body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {body}: {problem}");
    }
    for path in ["/v1/executions?status=faulted", "/v1/parked?executon=a", "/v1/definitions?a=b"] {
        assert_eq!(running.get_status(path).await, StatusCode::BAD_REQUEST, "{path}");
    }
    assert_eq!(running.get("/v1/executions").await.1["executions"], json!([]));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_bodies_are_refused_and_not_kept() {
    let running = Running::start().await;
    assert_eq!(running.define(crate::server::WAITS).await.0, StatusCode::CREATED);
    let before = resident_bytes();
    let large = json!({
        "namespace": "tests", "workflow": "waits", "input": "x".repeat(5 * 1024 * 1024),
    });
    let (status, problem) = running.post("/v1/executions", &large).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{problem}");
    // Whoever sends more than is read hears so, too.
    let larger = json!({ "input": "x".repeat(30 * 1024 * 1024) });
    let (status, problem) = running.post("/v1/executions", &larger).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{problem}");
    // Without a length, and never ending: chunks until the node has had enough.
    for _ in 0..20 {
        let head = format!(
            "POST /v1/executions HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             transfer-encoding: chunked\r\n\r\n",
            running.server.address(),
            running.token
        );
        let chunk = format!("100000\r\n{}\r\n", "x".repeat(0x10_0000));
        let said = send(&running, (head + &chunk.repeat(8)).as_bytes()).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 413"), "{said}");
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 96 * 1024 * 1024, "{grown} bytes more than before");
    assert_up(&running).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_requests_hold_nobody_up() {
    let running = Running::start().await;
    let mut halves = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
        stream.write_all(b"POST /v1/executions HTTP/1.1\r\nhost: local").await.unwrap();
        halves.push(stream);
    }
    let id = running.start_waiting("meanwhile").await;
    assert_eq!(running.get(&format!("/v1/executions/{id}")).await.0, StatusCode::OK);
    // A head that does not come to its end is not waited for much longer than ten seconds.
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(25), halves[0].read_to_end(&mut rest));
    assert!(closed.await.is_ok(), "the half request is still open");
    assert_up(&running).await;
    running.stop().await;
}
