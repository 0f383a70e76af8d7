//! A replicated execution that runs another workflow, awaited or not, whose node is killed meanwhile.

use outlast_node::fixture::ledger::Verdict;

use serde_json::Value as Json;

use crate::nodes::{Cluster, Node};
use crate::processes::until;
use crate::{line, start, verdict};

/// Runs the line as part of itself.
const AROUND: &str = "document: { dsl: '1.0.3', namespace: test, name: around, version: '1.0.0' }
do:
  - inner: { run: { workflow: { namespace: test, name: line, version: latest } } }
";

#[test]
fn the_primary_is_killed_inside_a_sub_workflow_and_another_node_finishes_it() {
    const STEPS: usize = 10;
    let mut cluster = Cluster::of(3);
    let (inner, around) = (cluster.file("line.yaml", &line(STEPS)), cluster.file("a.yaml", AROUND));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(50));
    let node = &cluster.nodes[0];
    let words = ["start", around.to_str().unwrap(), "--survival", "partition-tolerant:3"];
    let early = node.command(&words).output().unwrap();
    let said = String::from_utf8_lossy(&early.stderr);
    assert!(!early.status.success() && said.contains("test/line:latest"), "{early:?}");

    let registered = node.command(&["definitions", "add", inner.to_str().unwrap()]).output();
    assert!(registered.as_ref().unwrap().status.success(), "{registered:?}");
    let leader = &cluster.nodes[2];
    let execution = start(leader, &around, &["--survival", "partition-tolerant:3"]);
    cluster.until_called(4);
    cluster.nodes[2].kill();
    for node in &cluster.nodes[..2] {
        assert_eq!(node.end_of(&execution), "completed");
        let history = node.command(&["history", &execution]).output().unwrap();
        let told = String::from_utf8_lossy(&history.stdout).into_owned();
        assert!(told.contains(&format!("step{STEPS}")), "{history:?}");
    }
    assert_eq!(verdict(STEPS, 1, &cluster.entries()), Verdict::Complete);
}

/// Starts the line, and does not wait for it.
const STARTER: &str = "document: { dsl: '1.0.3', namespace: test, name: starter, version: '1.0.0' }
do:
  - go: { run: { await: false, workflow: { namespace: test, name: line, version: latest } } }
";

/// What an execution has started, as a node knows it.
fn started_by(node: &Node, parent: &str) -> Vec<String> {
    let listed = node.said(&["ps", "--json"]);
    let all = listed["executions"].as_array().expect("a list").iter();
    let own = all.filter(|execution| execution["parent"] == parent);
    own.filter_map(|execution| execution["execution"].as_str()).map(str::to_owned).collect()
}

#[test]
fn what_is_started_and_not_waited_for_runs_once_though_its_node_is_killed() {
    const STEPS: usize = 10;
    let mut cluster = Cluster::of(3);
    let (inner, starter) = (cluster.file("l.yaml", &line(STEPS)), cluster.file("s.yaml", STARTER));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(50));
    let node = &cluster.nodes[2];
    let registered = node.command(&["definitions", "add", inner.to_str().unwrap()]).output();
    assert!(registered.as_ref().unwrap().status.success(), "{registered:?}");
    let parent = start(node, &starter, &["--survival", "passive:3"]);
    assert_eq!(node.end_of(&parent), "completed", "nobody waits for what it started");
    cluster.until_called(4);
    cluster.nodes[2].kill();
    let mut children = Vec::new();
    for node in &cluster.nodes[..2] {
        until("it is known", || started_by(node, &parent).len() == 1);
        let child = started_by(node, &parent).remove(0);
        assert_eq!(node.end_of(&child), "completed");
        children.push(Json::from(child));
    }
    assert_eq!(children[0], children[1]);
    assert_eq!(verdict(STEPS, 1, &cluster.entries()), Verdict::Complete);
}
