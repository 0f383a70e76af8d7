//! What a node was answered that stood still while its call was under way, on real nodes.

use outlast_node::fixture::ledger::Verdict;

use super::nodes::Cluster;
use super::processes::until;
use super::{start, verdict};

const PAY: &str = "document: { dsl: '1.0.3', namespace: test, name: pay, version: '1.0.0' }
do:
- pay:
    call: http
    with: { method: post, endpoint: 'http://ledger.test/do/step-1' }
    metadata: { outlast: { class: pivot } }
";

#[test]
fn a_primary_that_stood_still_tells_those_who_went_on_what_its_pivot_was_answered() {
    let cluster = Cluster::of(3);
    let flow = cluster.file("pay.yaml", PAY);
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(3000));
    for (number, survival) in ["passive:3", "partition-tolerant:3"].into_iter().enumerate() {
        let execution = start(&cluster.nodes[0], &flow, &["--survival", survival]);
        cluster.until_called(number as u64 + 1);
        cluster.nodes[0].signal("STOP");
        until("whoever goes on leaves the call to a person", || {
            let shown = cluster.nodes[1].said(&["show", &execution, "--json"]);
            shown["parked"].as_array().is_some_and(|parked| !parked.is_empty())
        });
        cluster.nodes[0].signal("CONT");
        for node in &cluster.nodes {
            assert_eq!(node.end_of(&execution), "completed", "{survival}");
        }
        let history = cluster.nodes[1].command(&["history", &execution]).output().unwrap();
        let history = String::from_utf8(history.stdout).unwrap();
        assert!(history.contains("answered at another node"), "{history}");
    }
    assert_eq!(verdict(1, 2, &cluster.entries()), Verdict::Complete, "each was made once");
}
