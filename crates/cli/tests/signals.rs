//! A closed terminal (SIGHUP): commands end in good order, unless they were told to outlive it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

mod processes;

use processes::{Api, Process, outlast, outlives_terminals, pause, without_surroundings};

/// A node that listens, started by a command that has its arguments to come.
fn node(mut command: Command, data: &Path) -> (Process, Api) {
    command.args(["node", "--no-token", "--json", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    let mut process = Process::default();
    let said = process.start(command, None);
    let api = Api { address: said["address"].as_str().unwrap().parse().unwrap(), token: None };
    assert_eq!(api.ask("GET", "/v1/executions", "").0, 200);
    (process, api)
}

#[test]
fn a_node_ends_in_good_order_with_its_terminal() {
    if outlives_terminals() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut process, _) = node(outlast(&[]), directory.path());
    process.signal("HUP");
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn a_node_that_was_told_to_outlive_its_terminal_does() {
    let directory = tempfile::tempdir().unwrap();
    // As `nohup` does it.
    let mut command = Command::new("sh");
    without_surroundings(&mut command);
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_outlast")]);
    let (mut process, api) = node(command, directory.path());
    process.signal("HUP");
    for _ in 0..30 {
        assert_eq!(api.ask("GET", "/v1/executions", "").0, 200, "it goes on");
        pause(Duration::from_millis(10));
    }
    process.stop();
}

#[test]
fn a_run_stops_with_its_terminal_and_goes_on_in_another_one() {
    if outlives_terminals() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let flow = directory.path().join("slow.yaml");
    let text = "document: { dsl: '1.0.3', namespace: test, name: slow, version: '1.0.0' }
do:
  - first: { wait: { milliseconds: 1 } }
  - nap: { wait: { seconds: 2 } }
  - done: { set: { ok: true } }
";
    std::fs::write(&flow, text).unwrap();
    let run = || {
        let mut command = outlast(&["run"]);
        command.arg(&flow).env("XDG_STATE_HOME", directory.path().join("state"));
        command
    };
    let mut running = run().stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let talk = BufReader::new(running.stderr.take().unwrap());
    let mut lines = talk.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("first")), "it never began");
    let sent = Command::new("kill").args(["-s", "HUP", &running.id().to_string()]).status();
    assert!(sent.unwrap().success());
    assert!(lines.any(|line| line.contains("goes on where it was")));
    assert_eq!(running.wait().unwrap().code(), Some(129));
    let again = run().output().unwrap();
    let talk = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && talk.contains("resuming execution"), "{talk}");
}
