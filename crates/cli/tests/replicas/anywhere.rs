//! What any node can be asked for: who is there.

use serde_json::json;

use crate::nodes::Cluster;
use crate::processes::until;

#[test]
fn whoever_was_told_to_end_has_left_and_is_not_missed() {
    let mut cluster = Cluster::of(3);
    let gone = cluster.nodes[2].id.clone();
    cluster.nodes[2].stop();
    for node in &cluster.nodes[..2] {
        until("it is heard of no more", || {
            let seen = node.said(&["cluster", "status", "--json"]);
            let members = seen["members"].as_array().cloned().unwrap_or_default();
            members.iter().any(|it| it["node"] == gone.as_str() && it["reachable"] == false)
        });
        let seen = node.said(&["cluster", "status", "--json"]);
        assert_eq!(seen["unreachable"], json!([]), "{seen}");
        let shown = node.command(&["cluster", "status"]).output().unwrap();
        let (shown, said) = (String::from_utf8_lossy(&shown.stdout), shown.stderr);
        let line = shown.lines().find(|line| line.starts_with(&gone)).unwrap();
        assert!(line.contains("  left  "), "{line}");
        assert_eq!(String::from_utf8_lossy(&said), "", "nothing is wrong");
    }
}
