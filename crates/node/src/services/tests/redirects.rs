//! Redirects: when they are followed, and what goes with them.

use outlast_expressions::value;
use outlast_workflow::{ResolvedAuthentication, Target};

use super::*;

/// Answers `/start` with a redirect and everything else with the request itself.
async fn redirecting(status: u16, location: impl Into<String>) -> Server {
    let location = location.into();
    Server::start(move |_, request| {
        if request.split(' ').nth(1) == Some("/start") {
            answer(status, &format!("location: {location}\r\n"), "moved")
        } else {
            text(request)
        }
    })
    .await
}

fn post(uri: &str) -> Request {
    let mut request = follow("POST", uri);
    if let Target::Http { body, headers, authentication, .. } = &mut request.target {
        *body = value::string("the body");
        headers.push(("Cookie".into(), "mine".into()));
        *authentication = Some(ResolvedAuthentication::Bearer("token-1".into()));
    }
    request
}

#[tokio::test]
async fn a_redirect_is_an_error_unless_it_is_to_be_followed() {
    let server = redirecting(302, "/end").await;
    let fault = failed(call(get(&server.uri("/start"))).await);
    assert_eq!(fault.status, 302);
    assert_eq!(server.requests().len(), 1);
    let seen = succeeded(call(follow("GET", &server.uri("/start"))).await);
    assert!(seen.contains("GET /end "), "{seen}");
}

#[tokio::test]
async fn do_it_there_keeps_method_body_and_key() {
    for status in [307, 308] {
        let server = redirecting(status, "/end").await;
        let seen = succeeded(call(post(&server.uri("/start"))).await);
        assert!(seen.contains("POST /end "), "{seen}");
        assert!(seen.contains("the body"), "{seen}");
        assert!(seen.contains("idempotency-key: "), "{seen}");
        assert!(seen.contains("authorization: Bearer token-1"), "{seen}");
    }
}

#[tokio::test]
async fn look_there_becomes_a_get_without_body() {
    for status in [301, 302, 303] {
        let server = redirecting(status, "/end").await;
        let seen = succeeded(call(post(&server.uri("/start"))).await);
        assert!(seen.contains("GET /end "), "{seen}");
        assert!(!seen.contains("the body"), "{seen}");
        assert!(!seen.contains("content-type"), "{seen}");
    }
}

#[tokio::test]
async fn credentials_stay_with_the_origin_they_were_meant_for() {
    let other = Server::start(|_, request| text(request)).await;
    let server = redirecting(307, other.uri("/end")).await;
    let seen = succeeded(call(post(&server.uri("/start"))).await);
    assert!(seen.contains("the body"), "{seen}");
    assert!(seen.contains("idempotency-key: "), "{seen}");
    assert!(!seen.contains("authorization"), "{seen}");
    assert!(!seen.contains("cookie"), "{seen}");
    assert!(server.only_request().contains("authorization: Bearer token-1"));
}

#[tokio::test]
async fn a_circle_of_redirects_ends() {
    let server = redirecting(307, "/start").await;
    failed(call(follow("GET", &server.uri("/start"))).await);
    assert_eq!(server.requests().len(), 11);
}

#[tokio::test]
async fn once_it_was_acted_upon_a_failure_further_on_is_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let acted = redirecting(303, gone.clone()).await;
    unknown(call(post(&acted.uri("/start"))).await);
    let passed_on = redirecting(307, gone).await;
    failed(call(post(&passed_on.uri("/start"))).await);
}

#[tokio::test]
async fn a_redirect_out_of_http_is_not_followed() {
    for location in ["file:///etc/passwd", "gopher://x/"] {
        let server = redirecting(302, location).await;
        let seen = succeeded(call(follow("GET", &server.uri("/start"))).await);
        assert_eq!(seen, r#""bW92ZWQ=""#, "the redirect's own body");
    }
}
