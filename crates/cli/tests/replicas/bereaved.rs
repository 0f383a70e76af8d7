//! Two of three real nodes are lost for good, with their disks: the last one goes on with what they held together.

use outlast_node::fixture::ledger::Verdict;
use serde_json::{Value as Json, json};

use super::nodes::Cluster;
use super::processes::until;
use super::{NAP, line, start, verdict};

/// What the others had made, it asks for again by the same keys.
#[test]
fn the_last_of_three_nodes_ends_what_waited_for_a_majority_and_deletes_it() {
    const STEPS: usize = 12;
    let mut cluster = Cluster::of(3);
    let flow = cluster.file("line.yaml", &line(STEPS));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(50));
    let execution = start(&cluster.nodes[2], &flow, &["--survival", "passive:3"]);
    cluster.until_called(5);
    let lost = [2, 1].map(|node| {
        let id = cluster.nodes[node].id.clone();
        cluster.nodes[node].kill();
        cluster.nodes[node].lose_disk();
        id
    });
    until("it stands still", || {
        cluster.nodes[0].said(&["show", &execution, "--json"])["stalled"].is_string()
    });

    let remove = |node: &str| -> Json {
        let removed = cluster.nodes[0].command(&["cluster", "remove", node, "--json"]).output();
        serde_json::from_slice(&removed.unwrap().stdout).expect("it is said what is lost")
    };
    assert_eq!(remove(&lost[0])["bereft"], Json::Null, "two of three are a majority");
    assert_eq!(remove(&lost[1])["bereft"], json!([execution]));
    assert_eq!(cluster.nodes[0].end_of(&execution), "completed");
    assert_eq!(verdict(STEPS, 1, &cluster.entries()), Verdict::Complete);

    // It remembers who is gone, forgets with nobody, and deletes what is over.
    cluster.nodes[0].kill();
    cluster.nodes[0].restart(None);
    assert_eq!(cluster.nodes[0].end_of(&execution), "completed");
    until("nobody is waited for", || {
        cluster.nodes[0].command(&["delete", &execution]).output().unwrap().status.success()
    });
}

/// Only what has no end any more can be given up; `crates/engine/tests/bereaved.rs` comes to that.
#[test]
fn what_goes_on_or_has_its_end_is_not_given_up_by_force() {
    let cluster = Cluster::of(3);
    let flow = cluster.file("nap.yaml", NAP);
    let execution = start(&cluster.nodes[2], &flow, &["--survival", "passive:3"]);
    let delete = |node: usize| {
        cluster.nodes[node].command(&["delete", &execution, "--force"]).output().unwrap()
    };
    for node in 0..3 {
        let refused = delete(node);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("has not ended; cancel it first"), "{said}");
        let shown = cluster.nodes[node].said(&["show", &execution, "--json"]);
        assert_eq!(shown["endIsMissing"], Json::Null, "{shown}");
    }
    let cancelled = cluster.nodes[0].command(&["cancel", &execution]).output().unwrap();
    assert!(cancelled.status.success(), "{cancelled:?}");
    // What has ended is forgotten as without it, once all have forgotten that they held it together.
    until("it can be deleted", || delete(1).status.success());
    let gone = cluster.nodes[2].command(&["show", &execution]).output().unwrap();
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
}
