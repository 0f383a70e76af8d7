//! Replicated executions that listen and emit, on real nodes, one of which is killed meanwhile.

use std::fmt::Write as _;

use outlast_node::fixture::ledger::Verdict;
use serde_json::json;

use crate::nodes::Cluster;
use crate::processes::until;
use crate::{line, start, verdict};

/// The line with something before each of its steps from the second one on.
fn interrupted(name: &str, between: impl Fn(usize) -> String, steps: usize) -> String {
    let mut text = String::new();
    for (number, row) in line(steps).lines().enumerate() {
        let row = row.replace("name: line", &format!("name: {name}"));
        // Two lines of head, then one for each step.
        if number > 2 {
            writeln!(text, "{}", between(number - 1)).unwrap();
        }
        writeln!(text, "{row}").unwrap();
    }
    text
}

#[test]
fn the_primary_is_killed_while_it_listens_and_another_node_hears_the_rest() {
    const STEPS: usize = 3;
    let listen = |step| {
        format!(
            "  - hear{step}: {{ listen: {{ to: {{ one: {{ with: {{ type: go.{step} }} }} }} }} }}"
        )
    };
    let mut cluster = Cluster::of(3);
    let flow = cluster.file("listener.yaml", &interrupted("listener", listen, STEPS));
    let execution = start(&cluster.nodes[2], &flow, &["--survival", "partition-tolerant:3"]);
    cluster.until_called(1);
    let tell = |cluster: &Cluster, node: usize, step: usize| {
        let kind = format!("go.{step}");
        let event = json!({ "type": kind, "id": kind, "source": "/test", "specversion": "1.0" });
        let (status, said) = cluster.nodes[node].ask("POST", "/v1/events", &event);
        assert_eq!(status, 202, "{said}");
    };
    tell(&cluster, 0, 2);
    cluster.until_called(2);
    cluster.nodes[2].kill();
    // Sent twice, to two nodes: it is one event.
    tell(&cluster, 0, 3);
    tell(&cluster, 1, 3);
    for node in &cluster.nodes[..2] {
        assert_eq!(node.end_of(&execution), "completed");
    }
    assert_eq!(verdict(STEPS, 1, &cluster.entries()), Verdict::Complete);
}

/// Waits for what the others tell, and ends with it.
const HEARER: &str = "document: { dsl: '1.0.3', namespace: test, name: hearer, version: '1.0.0' }
do:
  - hear: { listen: { to: { any: [ { with: { type: told.2 } }, { with: { type: told.3 } } ],
      until: '${ length == 2 }' } } }
";

#[test]
fn what_a_replicated_execution_tells_is_heard_once_though_its_primary_is_killed() {
    const STEPS: usize = 3;
    let emit = |step| {
        format!(
            "  - tell{step}: {{ emit: {{ event: {{ with: {{ type: told.{step}, data: {step} }} }} }} }}"
        )
    };
    let mut cluster = Cluster::of(3);
    let hearer = cluster.file("hearer.yaml", HEARER);
    let flow = cluster.file("teller.yaml", &interrupted("teller", emit, STEPS));
    let heard = start(&cluster.nodes[0], &hearer, &[]);
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(100));
    let execution = start(&cluster.nodes[2], &flow, &["--survival", "partition-tolerant:3"]);
    cluster.until_called(2);
    cluster.nodes[2].kill();
    for node in &cluster.nodes[..2] {
        assert_eq!(node.end_of(&execution), "completed");
    }
    assert_eq!(verdict(STEPS, 1, &cluster.entries()), Verdict::Complete);
    until("both are heard", || {
        let shown = cluster.nodes[0].said(&["show", &heard, "--json"]);
        shown["condition"] == "completed"
    });
    let (_, shown) = cluster.nodes[0].ask("GET", &format!("/v1/executions/{heard}"), &json!(null));
    assert_eq!(shown["output"], json!([2, 3]), "{shown}");
}
