//! `outlast data` on what a run left behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value as Json;

const FLOW: &str = "\
document: { dsl: '1.0.3', namespace: test, name: greet, version: '1.0.0' }
do:
  - greet: { set: { greeting: hello } }
";

fn outlast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outlast")).args(arguments).output().expect("outlast runs")
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}

/// A data directory in which a workflow ran.
fn filled(directory: &Path) -> String {
    let (flow, data) = (path(directory, "greet.yaml"), path(directory, "data"));
    fs::write(&flow, FLOW).unwrap();
    let ran = outlast(&["run", &flow, "--data", &data, "--quiet"]);
    assert!(ran.status.success(), "{ran:?}");
    data
}

fn json(output: &Output) -> Json {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_backup_is_restored_and_sound() {
    let directory = tempfile::tempdir().unwrap();
    let data = filled(directory.path());
    let (saved, fresh) = (path(directory.path(), "saved"), path(directory.path(), "fresh"));
    assert_eq!(json(&outlast(&["data", "backup", &data, &saved, "--json"]))["backup"], saved);
    let restored = json(&outlast(&["data", "restore", &saved, &fresh, "--json"]));
    let checked = outlast(&["data", "check", &fresh, "--json"]);
    assert_eq!(checked.status.code(), Some(0));
    assert_eq!(json(&checked)["node"], restored["node"]);
    assert_ne!(
        json(&checked)["incarnation"],
        json(&outlast(&["data", "check", &data, "--json"]))["incarnation"]
    );
}

#[test]
fn a_file_that_is_given_for_a_data_directory_is_called_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = path(directory.path(), "greet.yaml");
    fs::write(&file, FLOW).unwrap();
    let commands: [&[&str]; 3] = [
        &["run", &file, "--data", &file],
        &["node", "--listen", "127.0.0.1:0", "--data", &file],
        &["cluster", "init", "--data", &file],
    ];
    for command in commands {
        let refused = outlast(command);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(6), "{said}");
        assert!(said.contains("is a file") && said.contains("a directory"), "{said}");
    }
}

#[test]
fn damage_is_told_with_its_place_and_an_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let data = filled(directory.path());
    let segment = Path::new(&data).join("journal/0000000000000001.segment");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[4100] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let checked = outlast(&["data", "check", &data]);
    assert_eq!(checked.status.code(), Some(6), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.stdout).contains("damaged"), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.stderr).contains("restore a backup"), "{checked:?}");
}

#[test]
fn compacting_tells_sizes_and_changes_no_content() {
    let directory = tempfile::tempdir().unwrap();
    let data = filled(directory.path());
    let sizes = json(&outlast(&["data", "compact", &data, "--json"]));
    assert!(sizes["bytesAfter"].as_u64() <= sizes["bytesBefore"].as_u64(), "{sizes}");
    let checked = outlast(&["data", "check", &data]);
    assert!(String::from_utf8_lossy(&checked.stdout).ends_with("sound\n"), "{checked:?}");
}

#[test]
fn what_is_no_data_directory_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let refused = outlast(&["data", "check", &path]);
    assert_eq!(refused.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not a data directory"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
