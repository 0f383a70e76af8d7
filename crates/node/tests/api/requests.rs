//! What the API does when it is used as it is meant.

use std::time::Duration;

use outlast_engine::{Ask, Reply, StartAsk, WorkflowVersion};
use outlast_expressions::value;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::server::{Running, answer};

#[tokio::test(flavor = "multi_thread")]
async fn whoever_prefers_to_hear_something_meanwhile_is_told_that_there_is_no_answer_yet() {
    let running = Running::start().await;
    let id = running.start_waiting("late").await;
    let waiting = running.request(Method::GET, &format!("/v1/executions/{id}/wait"));
    let (status, said) = answer(waiting.header("prefer", "respond-async, wait=1")).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{said}");
    assert_eq!(said["type"], "urn:outlast:problem:no-answer-yet", "{said}");
    let (_, shown) = running.get(&format!("/v1/executions/{id}")).await;
    assert_eq!(shown["condition"], "waiting", "it is not affected");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_started_shown_told_of_an_event_and_waited_for() {
    let running = Running::start().await;
    let id = running.start_waiting("one").await;
    let (status, shown) = running.get("/v1/executions/tests%2Fone").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&shown["execution"], &shown["input"]), (&json!(id), &json!({ "word": "hi" })));

    let signal = format!("/v1/executions/{id}/signal");
    let (status, _) = running.post(&signal, &json!({ "type": "go" })).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let (status, ended) = running.get(&format!("/v1/executions/{id}/wait")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&ended["condition"], &ended["output"]),
        (&json!("completed"), &json!({ "ok": true }))
    );

    let (status, refused) = running.post(&signal, &json!({ "type": "go" })).await;
    assert_eq!((status, &refused["status"]), (StatusCode::CONFLICT, &json!(409)));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starting_again_with_the_same_name_starts_nothing() {
    let running = Running::start().await;
    let id = running.start_waiting("same").await;
    let mut body = json!({
        "namespace": "tests", "workflow": "waits", "name": "same", "input": { "word": "hi" },
    });
    let (status, again) = running.post("/v1/executions", &body).await;
    assert_eq!(
        (status, &again["execution"], &again["new"]),
        (StatusCode::OK, &json!(id), &json!(false))
    );
    body["input"] = json!({ "word": "other" });
    let (status, problem) = running.post("/v1/executions", &body).await;
    assert_eq!(
        (status, &problem["type"]),
        (StatusCode::CONFLICT, &json!("urn:outlast:problem:conflict"))
    );
    body["workflow"] = json!("unknown");
    body["name"] = json!("new");
    assert_eq!(running.post("/v1/executions", &body).await.0, StatusCode::NOT_FOUND);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_a_terminal_would_obey_is_refused_and_old_ones_are_read() {
    let running = Running::start().await;
    running.start_waiting("plain, with spaces and ümlauts").await;
    for name in ["\u{1b}[2J", "two\nlines", "a\tb", "\u{7}", "\u{7f}", "\u{9b}2J", "\0"] {
        let body = json!({ "namespace": "tests", "workflow": "waits", "name": name });
        let (status, problem) = running.post("/v1/executions", &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{name:?}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("control character"), "{detail}");
        assert!(!detail.contains(char::is_control), "{detail:?}");
    }
    // What else is listed the language has looked at.
    for (text, other) in [("tests", r#""te\ests""#), ("'1.0.0'", r#""1.0.0-\e[2J""#)] {
        let (status, problem) = running.define(&crate::server::WAITS.replace(text, other)).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    }
    // As releases that looked at no names have left it.
    let old = "old\u{1b}[2J";
    let ask = Ask::Start(Box::new(StartAsk {
        id: running.node.new_id(),
        given: false,
        name: Some(old.to_owned()),
        namespace: "tests".to_owned(),
        workflow: "waits".to_owned(),
        version: WorkflowVersion::Latest,
        input: value::object([]),
        salt: [0; 16],
        survival: None,
    }));
    assert!(matches!(running.node.ask(ask).await, Ok(Reply::Started { .. })));
    let running = Running::start_in(running.stop().await).await;
    let (_, listed) = running.get("/v1/executions").await;
    let listed = listed["executions"].as_array().unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.iter().any(|execution| execution["name"] == old), "{listed:?}");
    let (status, shown) = running.get("/v1/executions/tests%2Fold%1b%5b2J").await;
    assert_eq!((status, &shown["name"]), (StatusCode::OK, &json!(old)));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_come_in_pages() {
    let running = Running::start().await;
    for name in ["a", "b", "c"] {
        running.start_waiting(name).await;
    }
    let (_, page) = running.get("/v1/executions?limit=2&namespace=tests&workflow=waits").await;
    assert_eq!(page["executions"].as_array().unwrap().len(), 2);
    let next = page["next"].as_str().unwrap();
    let (_, rest) = running.get(&format!("/v1/executions?limit=2&after={next}")).await;
    assert_eq!((rest["executions"].as_array().unwrap().len(), rest["next"].is_null()), (1, true));
    let (_, none) = running.get("/v1/executions?condition=faulted").await;
    assert_eq!(none["executions"], json!([]));
    assert_eq!(running.get("/v1/executions?condition=sleepy").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(running.get("/v1/executions?limit=few").await.0, StatusCode::BAD_REQUEST);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_suspended_resumed_cancelled_and_deleted() {
    let running = Running::start().await;
    let id = running.start_waiting("changed").await;
    let path = format!("/v1/executions/{id}");
    let change = async |verb: &str| running.post(&format!("{path}/{verb}"), &json!({})).await.0;
    let condition = async || running.get(&path).await.1["condition"].clone();
    assert_eq!(change("suspend").await, StatusCode::ACCEPTED);
    assert_eq!(condition().await, "suspended");
    assert_eq!(change("resume").await, StatusCode::ACCEPTED);
    assert_eq!(answer(running.request(Method::DELETE, &path)).await.0, StatusCode::CONFLICT);
    assert_eq!(change("cancel").await, StatusCode::ACCEPTED);
    assert_eq!(condition().await, "cancelled");
    assert_eq!(change("cancel").await, StatusCode::CONFLICT);
    assert_eq!(answer(running.request(Method::DELETE, &path)).await.0, StatusCode::ACCEPTED);
    assert_eq!(running.get(&path).await.0, StatusCode::GONE);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_and_the_drawing_tell_how_far_it_is() {
    let running = Running::start().await;
    let id = running.start_waiting("seen").await;
    let (_, history) = running.get(&format!("/v1/executions/{id}/history")).await;
    let lines = history["lines"].as_array().unwrap();
    let told = |what: &str, task: &str| {
        lines.iter().any(|line| line["what"] == what && line["task"] == task)
    };
    assert!(told("taskCompleted", "first") && told("taskStarted", "hold"), "{history}");
    assert!(!told("taskCompleted", "hold"), "{history}");
    let draw = async |format: &str| {
        let path = format!("/v1/executions/{id}/graph?format={format}");
        running.request(Method::GET, &path).send().await.unwrap().text().await.unwrap()
    };
    assert!(draw("svg").await.starts_with("<svg"));
    assert!(draw("mermaid").await.contains("flowchart"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_an_execution_sees_all_of_it_and_its_end() {
    let running = Running::start().await;
    let id = running.start_waiting("followed").await;
    let path = format!("/v1/executions/{id}/events");
    let stream = running.request(Method::GET, &path).send().await.unwrap();
    let event = running.request(Method::POST, "/v1/events").header("ce-type", "go");
    let (status, _) = answer(event.header("ce-source", "urn:test").body("{\"n\": 1}")).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let text = tokio::time::timeout(Duration::from_secs(30), stream.text()).await.unwrap().unwrap();
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in {text}"));
    assert!(place("\"started\"") < place("\"consumed\""));
    assert!(place("\"consumed\"") < place("\"ended\""));
    running.stop().await;
}

/// A loop without effects has a thousand lines in each of its records.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_history_are_bounded_by_their_lines() {
    const COUNTS: &str = "
document: { dsl: '1.0.3', namespace: tests, name: counts, version: '1.0.0' }
do:
  - zero: { set: { n: 0 } }
  - count: { set: '${ { n: (.n + 1) } }' }
  - again: { switch: [ { more: { when: .n < 60000, then: count } } ] }
";
    let running = Running::start().await;
    assert_eq!(running.define(COUNTS).await.0, StatusCode::CREATED);
    let start = json!({ "namespace": "tests", "workflow": "counts", "name": "one" });
    assert_eq!(running.post("/v1/executions", &start).await.0, StatusCode::CREATED);
    assert_eq!(running.get_status("/v1/executions/tests%2Fone/wait").await, StatusCode::OK);
    let (mut from, mut pages, mut read) = (json!(0), 0, 0);
    while !from.is_null() {
        let path = format!("/v1/executions/tests%2Fone/history?from={from}");
        let (status, page) = running.get(&path).await;
        let lines = page["lines"].as_array().unwrap().len();
        assert_eq!((status, lines < 70_000), (StatusCode::OK, true), "{lines} lines");
        assert_eq!(page["recorded"].is_u64(), page["next"].is_u64(), "where to end, if it goes on");
        (from, pages, read) = (page["next"].clone(), pages + 1, read + lines);
    }
    assert!(120_000 < read && 1 < pages, "{read} lines in {pages} pages");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_everything_hears_the_names_of_tasks() {
    let running = Running::start().await;
    let mut stream = running.request(Method::GET, "/v1/events").send().await.unwrap();
    running.start_waiting("heard").await;
    let mut text = String::new();
    while !text.contains(r#""task":"hold""#) {
        let part = tokio::time::timeout(Duration::from_secs(30), stream.chunk()).await;
        text += &String::from_utf8_lossy(&part.expect(&text).unwrap().expect("it goes on"));
    }
    assert!(text.contains(r#""place":"/do/0/first""#), "{text}");
    drop(stream);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_document_is_answered_with_its_problems_and_places() {
    let running = Running::start().await;
    let (status, problem) = running.define("document: { dsl: '1.0.3' }\ndo: []\n").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(problem["rendered"].as_str().unwrap().contains("document:1:"), "{problem}");
    assert!(problem["diagnostics"][0]["place"]["line"].is_u64(), "{problem}");
    let count = problem["diagnostics"].as_array().unwrap().len();
    assert_eq!(problem["detail"], format!("the document has {count} problems"));
    // A task of an unknown kind, and nothing else.
    let one = "document: { dsl: '1.0.3', namespace: tests, name: one, version: '1.0.0' }\n\
               do: [ { odd: { set: 1, wait: { seconds: 1 } } } ]\n";
    let (_, problem) = running.define(one).await;
    assert_eq!(problem["diagnostics"].as_array().unwrap().len(), 1, "{problem}");
    assert_eq!(problem["detail"], "the document has a problem");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_listed_and_read() {
    let running = Running::start().await;
    assert_eq!(running.define(crate::server::WAITS).await.0, StatusCode::CREATED);
    assert_eq!(running.define(crate::server::WAITS).await.0, StatusCode::OK);
    let (_, listed) = running.get("/v1/definitions?namespace=tests").await;
    assert_eq!(listed["definitions"][0]["name"], "waits");
    let (_, read) = running.get("/v1/definitions/tests/waits/latest").await;
    assert_eq!(read["text"], crate::server::WAITS);
    let changed = crate::server::WAITS.replace("ok: true", "ok: false");
    assert_eq!(running.define(&changed).await.0, StatusCode::CONFLICT);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_tells_how_it_is() {
    let running = Running::start().await;
    running.start_waiting("counted").await;
    assert_eq!(running.get("/health").await.0, StatusCode::OK);
    assert_eq!(running.get("/ready").await.1, json!({ "ready": true }));
    let metrics = running.request(Method::GET, "/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(metrics.contains("outlast_executions_started_total 1"), "{metrics}");
    assert!(metrics.contains("outlast_executions_live 1"), "{metrics}");
    assert_eq!(running.get("/v1/parked").await.1, json!({ "parked": [] }));
    assert_eq!(running.get("/v1/nothing").await.0, StatusCode::NOT_FOUND);
    let (status, _) = running.post("/v1/parked", &json!({})).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    running.stop().await;
}
