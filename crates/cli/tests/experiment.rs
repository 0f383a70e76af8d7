//! Experiments as a user runs them: the same rows however many threads measure, and a figure.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value as Json;

fn replication(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command.args(["experiment", "replication"]).args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Json {
    let output = replication(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn rows_do_not_depend_on_the_number_of_threads() {
    let arguments =
        |threads, replicas| ["--replicas", replicas, "--runs", "1", "--json", "--threads", threads];
    // The same number twice is measured once.
    let (one, three) = (replication(&arguments("1", "3")), replication(&arguments("3", "3,3")));
    assert!(one.status.success(), "{}", String::from_utf8_lossy(&one.stderr));
    assert_eq!(one.stdout, three.stdout, "byte for byte");
    let results: Json = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(results["figure"], 4);
    // One node, passive, active, and one or two votes; none to three failures.
    assert_eq!(results["rows"].as_array().unwrap().len(), 5 * 4);
    assert_eq!(results["findings"], Json::Array(Vec::new()));
    let first = &results["rows"][0];
    assert_eq!((&first["mode"], &first["failures"]), (&"none".into(), &0.into()));
}

#[test]
fn figure_2_is_measured_claimed_and_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("figure.svg");
    let plot = file.to_str().unwrap();
    let results = json(&["--figure", "2", "--runs", "2", "--json", "--plot", plot]);
    for claim in results["claims"].as_array().unwrap() {
        assert_eq!(claim["holds"], true, "{claim}");
    }
    let drawn = std::fs::read_to_string(Path::new(plot)).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("unavailability [s]"), "{drawn}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    for arguments in [
        ["--figure", "3"],
        ["--replicas", "1"],
        ["--runs", "0"],
        ["--threads", "0"],
        ["--plot", "figure.png"],
    ] {
        let output = replication(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_figure_that_cannot_be_written_is_told_before_anything_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("nowhere/figure.svg");
    // All of it: this would take minutes.
    let output = replication(&["--plot", plot.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cannot write") && !told.contains("executions in"), "{told}");
}
