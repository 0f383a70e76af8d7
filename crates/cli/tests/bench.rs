//! The measurements measure something: small ones, run as a user runs them.

use std::process::Command;

use serde_json::{Value as Json, json};

fn figures(arguments: &[&str]) -> Json {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_outlast"))
        .arg("bench")
        .args(arguments)
        .args(["--json", "--data"])
        .arg(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let talk = ["joined cluster", "is in no cluster"].iter().any(|it| said.contains(it));
    assert!(!talk, "what nodes tell people is of no interest here: {said}");
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn steps_are_measured_at_every_concurrency_with_their_floor() {
    let figures = figures(&["steps", "--concurrency", "1,4", "--steps", "3", "--seconds", "1"]);
    for (index, concurrency) in [1, 4].into_iter().enumerate() {
        let one = &figures[index];
        assert_eq!(one["concurrency"], concurrency);
        assert!(0 < one["workflows"].as_u64().unwrap(), "{one}");
        assert!(0.0 < one["floor"]["p50Ms"].as_f64().unwrap(), "{one}");
    }
}

#[test]
fn what_waits_is_there_again_after_a_kill_and_after_a_stop() {
    let figures = figures(&["waiting", "--count", "300"]);
    for part in ["filled", "afterAKill", "afterAStop"] {
        assert_eq!(figures[part]["live"], 300, "{figures}");
    }
}

#[test]
fn replicas_are_measured_beside_a_node_alone() {
    let arguments = ["--concurrency", "2", "--steps", "3", "--seconds", "1"];
    let figures = figures(&[&["replicas", "--answer-after", "2"][..], &arguments].concat());
    // And beside three nodes of which each holds alone what it is asked for.
    let ways = [(1, "none"), (3, "none"), (3, "partition-tolerant"), (3, "passive")];
    let rows = ["steps", "calls"].into_iter().flat_map(|work| ways.map(|way| (work, way)));
    for (index, (work, (nodes, survival))) in rows.enumerate() {
        let one = &figures[index];
        assert_eq!((&one["work"], &one["survival"]), (&json!(work), &json!(survival)));
        assert_eq!(one["nodes"], nodes, "{one}");
        assert!(0 < one["workflows"].as_u64().unwrap(), "{one}");
        assert_eq!(one["toSolo"].is_null(), nodes == 1, "{one}");
        // Three calls one after the other, of which each takes its time.
        let took = one["p50Ms"].as_f64().unwrap();
        assert!(work == "steps" || 6.0 <= took, "{one}");
    }
}

#[test]
fn a_failover_is_measured_for_every_execution() {
    let figures = figures(&["failover", "--runs", "1", "--concurrency", "3"]);
    assert_eq!(figures["executions"], 3, "{figures}");
    // A node is not counted as lost at once.
    assert!(300.0 < figures["p50Ms"].as_f64().unwrap(), "{figures}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_node_is_measured_and_ended() {
    let figures = figures(&["idle", "--seconds", "1"]);
    assert!(figures["corePercent"].as_f64().unwrap() < 50.0, "{figures}");
    assert!(0.0 < figures["residentMegabytes"].as_f64().unwrap(), "{figures}");
}

#[test]
fn a_way_to_survive_that_there_is_not_is_refused_before_anything_is_measured() {
    for words in [["replicas", "passive,ring"], ["failover", "none"], ["replicas", "passive:3"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
        let output = command.args(["bench", words[0], "--survival", words[1]]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(output.stdout.is_empty() && told.contains("partition-tolerant"), "{told}");
    }
}
