//! Secrets reach the provider they are meant for, and nobody else.

use outlast_expressions::value;
use outlast_workflow::secret::stand_in;
use outlast_workflow::{FaultKind, ResolvedAuthentication, Target, build_http};
use serde_json::json;

use super::super::SecretSource;
use super::*;

const PASSWORD: &str = "hunter2 & \"more\"";

struct Known;

impl SecretSource for Known {
    fn secret(&self, name: &str) -> Option<serde_json::Value> {
        (name == "store").then(|| json!({"user": "alice", "password": PASSWORD}))
    }
}

fn token() -> String {
    stand_in(&SALT, "store", "password")
}

/// A request with the secret in every place there is.
fn laden(uri: &str, token: &str) -> Request {
    let arguments = value::object([
        ("method", value::string("post")),
        ("endpoint", value::string(uri)),
        ("query", value::object([("key", value::string(token))])),
        ("headers", value::object([("X-Api-Key", value::string(token))])),
        ("body", value::object([("in", value::array([value::string(&format!("<{token}>"))]))])),
    ]);
    let authentication =
        ResolvedAuthentication::Basic(stand_in(&SALT, "store", "user"), token.to_owned());
    let target =
        build_http(&arguments, &Value::Null, HttpOutput::Response, true, Some(authentication));
    request(target.unwrap())
}

#[tokio::test]
async fn the_provider_gets_the_secret_and_the_execution_gets_its_stand_in_back() {
    let server = Server::start(|_, request| {
        let echo = request.replace(['\r', '\n'], " ");
        answer(200, &format!("content-type: text/plain\r\nx-echo: {echo}\r\n"), request)
    })
    .await;
    let answer = caller(|_| ()).call(laden(&server.uri("/"), &token()), &Known).await;
    let seen = server.only_request();
    assert!(seen.starts_with("POST /?key=hunter2%20%26%20%22more%22 "), "{seen}");
    assert!(seen.contains("x-api-key: hunter2 & \"more\"\r\n"), "{seen}");
    assert!(seen.ends_with(r#"{"in":["<hunter2 & \"more\">"]}"#), "{seen}");
    let credentials = "YWxpY2U6aHVudGVyMiAmICJtb3JlIg==";
    assert!(seen.contains(&format!("authorization: Basic {credentials}\r\n")), "{seen}");

    let told = succeeded(answer);
    assert!(told.contains(&token()), "{told}");
    for secret in ["hunter2 &", "hunter2%20", credentials] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
}

#[tokio::test]
async fn a_fault_quotes_no_secret() {
    let server = Server::start(|_, request| answer(403, "", request)).await;
    let fault = failed(caller(|_| ()).call(laden(&server.uri("/"), &token()), &Known).await);
    let told = format!("{fault:?}");
    assert!(!told.contains("hunter2"), "{told}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let fault = failed(caller(|_| ()).call(laden(&uri, &token()), &Known).await);
    let told = format!("{fault:?}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[tokio::test]
async fn a_stand_in_of_another_execution_is_only_text() {
    let server = Server::start(|_, _| text("ok")).await;
    let foreign = stand_in(&[1; 16], "store", "password");
    let mut target = http("POST", &server.uri("/"));
    if let Target::Http { body, .. } = &mut target {
        *body = value::string(&foreign);
    }
    succeeded(caller(|_| ()).call(request(target), &Known).await);
    let seen = server.only_request();
    assert!(seen.ends_with(&foreign), "{seen}");
    assert!(!seen.contains("hunter2"), "{seen}");
}

#[tokio::test]
async fn a_call_with_an_unknown_secret_is_not_made() {
    let server = Server::start(|_, _| text("ok")).await;
    let unknown = stand_in(&SALT, "nobody", "password");
    let fault = failed(caller(|_| ()).call(laden(&server.uri("/"), &unknown), &Known).await);
    assert!(fault.is(FaultKind::Authorization), "{fault:?}");
    assert_eq!(fault.status, 403);
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_redirect_takes_no_secret_to_another_origin() {
    let other = Server::start(|_, request| text(request)).await;
    let elsewhere = other.uri("/end");
    let server = Server::start(move |_, request| {
        let status = if request.contains("/look") { 303 } else { 307 };
        answer(status, &format!("location: {elsewhere}\r\n"), "")
    })
    .await;
    let caller = caller(|_| ());
    let looked = caller.call(laden(&server.uri("/look"), &token()), &Known).await;
    succeeded(looked);
    let seen = other.only_request();
    assert!(!seen.contains("hunter2"), "{seen}");
    assert!(!seen.contains("x-api-key") && !seen.contains("authorization"), "{seen}");

    let fault = failed(caller.call(laden(&server.uri("/do"), &token()), &Known).await);
    assert!(fault.is(FaultKind::Authorization), "{fault:?}");
    assert_eq!(other.requests().len(), 1);
}

#[tokio::test]
async fn a_secret_that_would_split_a_header_is_refused_and_not_shown() {
    struct Splitting;
    impl SecretSource for Splitting {
        fn secret(&self, _name: &str) -> Option<serde_json::Value> {
            Some(json!({"user": "u", "password": "hunter2\r\nx-evil: 1"}))
        }
    }
    let server = Server::start(|_, _| text("ok")).await;
    let fault = failed(caller(|_| ()).call(laden(&server.uri("/"), &token()), &Splitting).await);
    assert!(fault.is(FaultKind::Configuration), "{fault:?}");
    assert!(!format!("{fault:?}").contains("hunter2"));
    assert_eq!(server.requests().len(), 0);
}
