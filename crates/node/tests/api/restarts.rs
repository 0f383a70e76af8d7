//! What a node knows after it was stopped and started again.

use std::time::{Duration, Instant};

use outlast_node::store::Store;
use outlast_node::{Checkpoints, Configuration};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::server::Running;

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_execution_goes_on_in_the_next_life() {
    let running = Running::start().await;
    let id = running.start_waiting("patient").await;
    let running = Running::start_in(running.stop().await).await;
    let (status, _) = running.post("/v1/events", &json!({ "type": "go", "data": 7 })).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let (_, ended) = running.get(&format!("/v1/executions/{id}/wait")).await;
    assert_eq!(ended["condition"], "completed");
    let (_, history) = running.get(&format!("/v1/executions/{id}/history")).await;
    let what: Vec<_> = history["lines"].as_array().unwrap().iter().map(|it| &it["what"]).collect();
    assert_eq!((what.first(), what.last()), (Some(&&json!("started")), Some(&&json!("ended"))));
    running.stop().await;
}

/// Its end would say that the execution has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_is_broken_off_at_once_by_a_stop() {
    // Less than connections are given to end.
    const SOON: Duration = Duration::from_secs(1);
    let running = Running::start().await;
    let id = running.start_waiting("followed").await;
    let path = format!("/v1/executions/{id}/events");
    let mut events = running.request(Method::GET, &path).send().await.unwrap();
    assert!(events.chunk().await.unwrap().is_some(), "what happened so far is told");
    let told = tokio::spawn(async move {
        while events.chunk().await?.is_some() {}
        Ok(())
    });
    let before = Instant::now();
    running.stop().await;
    assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
    let broken: reqwest::Result<()> = told.await.unwrap();
    assert!(broken.is_err(), "it did not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_take_nothing_away_and_shorten_what_is_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let eager = Checkpoints { bytes: 1, slice: 3, ..Checkpoints::default() };
    let configuration = |directory: &std::path::Path| Configuration {
        checkpoints: eager,
        ..Configuration::new(directory)
    };
    let running = Running::start_with(configuration(directory.path()), directory).await;
    let mut ids = Vec::new();
    for name in 0..20 {
        ids.push(running.start_waiting(&format!("w{name}")).await);
    }
    running.post(&format!("/v1/executions/{}/cancel", ids[0]), &json!({})).await;
    let histories = async |running: &Running| {
        let mut all = Vec::new();
        for id in &ids {
            all.push(running.get(&format!("/v1/executions/{id}/history")).await.1);
        }
        all
    };
    let before = (running.get("/v1/executions").await.1, histories(&running).await);
    let directory = running.stop().await;
    let mark = Store::open(&directory.path().join("store.redb")).unwrap().mark().unwrap();
    assert!(0 < mark, "no checkpoint was taken");
    let running = Running::start_with(configuration(directory.path()), directory).await;
    assert_eq!((running.get("/v1/executions").await.1, histories(&running).await), before);
    let (status, _) = running.post("/v1/events", &json!({ "type": "go" })).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    for id in &ids[1..] {
        let (_, ended) = running.get(&format!("/v1/executions/{id}/wait")).await;
        assert_eq!(ended["condition"], "completed");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_do_not_share_a_directory() {
    let running = Running::start().await;
    let directory = running.stop().await;
    let running = Running::start_in(directory).await;
    let path = running.directory();
    let refused =
        outlast_node::Node::start(Configuration::new(path), &tokio::runtime::Handle::current());
    let refused = refused.err().expect("the directory is in use").to_string();
    assert!(refused.contains("is in use by process"), "{refused}");
    running.stop().await;
}
