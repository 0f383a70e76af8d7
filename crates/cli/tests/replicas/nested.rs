//! A replicated execution that runs another workflow, whose node is killed while it does.

use outlast_node::fixture::ledger::Verdict;

use crate::nodes::Cluster;
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
    let execution = start(node, &around, &["--survival", "partition-tolerant:3"]);
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
