//! Executions that several real nodes hold: processes, sockets and disks, killed and started again.

mod nodes;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodes::{Cluster, outlast};
use outlast_node::fixture::ledger::{Entry, Expected, Verdict, check};
use serde_json::json;

/// Calls one after the other, each of which can be undone.
fn line(steps: usize) -> String {
    let mut text = String::from(
        "document: { dsl: '1.0.3', namespace: test, name: line, version: '1.0.0' }\ndo:\n",
    );
    for step in 1..=steps {
        let call = |path: &str| {
            let endpoint = format!("http://ledger.test/{path}/step-{step}");
            format!("call: http, with: {{ method: post, endpoint: '{endpoint}' }}")
        };
        let compensation = format!("do: [ {{ undo: {{ {} }} }} ], tolerant: true", call("cancel"));
        writeln!(
            text,
            "  - step{step}: {{ {}, metadata: {{ outlast: {{ class: compensatable, \
             compensation: {{ {compensation} }} }} }} }}",
            call("do"),
        )
        .unwrap();
    }
    text
}

/// What one run of the line leaves.
fn verdict(steps: usize, entries: &[Entry]) -> Verdict {
    let effects: BTreeMap<_, _> = (1..=steps).map(|step| (format!("step-{step}"), 1)).collect();
    let expected = Expected { effects, ..Expected::default() };
    check(entries, &expected).unwrap_or_else(|problems| panic!("{problems:?}\n{entries:#?}"))
}

#[test]
fn the_primary_is_killed_and_another_node_finishes_what_it_began() {
    const STEPS: usize = 12;
    let mut cluster = Cluster::of(3);
    let flow = cluster.file("line.yaml", &line(STEPS));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(50));
    let started = cluster.nodes[0].said(&[
        "start",
        flow.to_str().unwrap(),
        "--survival",
        "partition-tolerant:3",
        "--json",
    ]);
    let execution = started["execution"].as_str().unwrap();
    cluster.until_called(4);
    cluster.nodes[2].kill();
    // Whoever asks, wherever, hears the same.
    for node in &cluster.nodes[..2] {
        assert_eq!(node.end_of(execution), "completed");
    }
    assert_eq!(verdict(STEPS, &cluster.entries()), Verdict::Complete);
}

#[test]
fn what_cannot_be_held_to_is_refused() {
    let start = |survival: &str| {
        let said = outlast(&["start", "test/line", "--survival", survival]).output().unwrap();
        (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let (code, said) = start("ring");
    assert!(code == Some(2) && said.contains("partition-tolerant"), "{said}");
    let (code, said) = start("active:3:3");
    assert!(code == Some(2) && said.contains("from 1 to 2"), "{said}");

    let cluster = Cluster::of(1);
    let node = &cluster.nodes[0];
    let flow = cluster.file("line.yaml", &line(1));
    let few = node.command(&["start", flow.to_str().unwrap(), "--survival", "passive:3"]);
    let few = { few }.output().unwrap();
    let said = String::from_utf8_lossy(&few.stderr);
    assert!(!few.status.success() && said.contains("3 replicas are wanted"), "{few:?}");
    let body = json!({ "namespace": "test", "workflow": "line", "survival": { "replicas": 3 } });
    let (status, problem) = node.ask("POST", "/v1/executions", &body);
    assert_eq!(status, 400, "{problem}");
}
