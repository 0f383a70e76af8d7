//! The demo, run as a user runs it: real nodes that are killed and cut apart, and gone afterwards.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

mod processes;

/// The demo, with everything it makes below a folder.
fn demo(below: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command.args(["demo", "--steps", "12", "--seed", "3"]).env("TMPDIR", below).current_dir(below);
    command
}

/// What is left of the demo besides its drawing: folders, and processes that name them.
fn left_behind(below: &Path) -> Vec<String> {
    let names = fs::read_dir(below).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    left.retain(|name| !name.ends_with(".html"));
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.contains(&*below.to_string_lossy()) {
            left.push(line);
        }
    }
    left
}

fn count(events: &[Json], what: &str) -> usize {
    events.iter().filter(|event| event["what"] == what).count()
}

#[test]
fn exactly_one_run_remains_and_everything_that_happened_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let said = demo(directory.path()).arg("--json").output().unwrap();
    let talk = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{talk}");
    let report: Json = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(report["oneRun"], true, "{talk}");
    let number = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(number("calls") - number("undone"), 12, "{talk}");
    let events = report["events"].as_array().unwrap();
    assert_eq!((count(events, "killed"), count(events, "restarted")), (2, 2), "{talk}");
    assert_eq!((count(events, "cut"), count(events, "healed")), (1, 1), "{talk}");
    assert!(0 < count(events, "elected") && 0 < count(events, "decided"), "{talk}");

    let page = fs::read_to_string(directory.path().join("outlast-demo.html")).unwrap();
    assert_eq!(page.matches("<g class=\"node\"").count(), 5);
    assert_eq!(page.matches("<g class=\"killed\"").count(), 2);
    assert_eq!(page.matches("class=\"cut side-").count(), 5);
    assert!(page.contains("decided: one run counts") && page.contains("each exactly once"));
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
}

/// Tells a demo to end when it has begun, and how it ends.
fn told_to_end(signal: Signal) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = demo(directory.path());
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let story = BufReader::new(running.stdout.take().unwrap());
    let mut lines = story.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("step 1")), "it never began");
    assert!(!left_behind(directory.path()).is_empty());
    let process = Pid::from_raw(running.id().try_into().unwrap()).unwrap();
    kill_process(process, signal).unwrap();
    lines.for_each(drop);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[test]
fn an_interrupt_ends_every_node_and_leaves_nothing() {
    let (code, talk) = told_to_end(Signal::INT);
    assert_eq!(code, Some(130), "{talk}");
    assert!(talk.contains("interrupted: the nodes were stopped"), "{talk}");
}

/// Its nodes take orders without a token.
#[test]
fn a_closed_terminal_ends_every_node_and_leaves_nothing() {
    if processes::outlives_terminals() {
        return;
    }
    let (code, talk) = told_to_end(Signal::HUP);
    assert_eq!(code, Some(129), "{talk}");
}

/// It would otherwise leave its nodes behind.
#[test]
fn whoever_has_seen_enough_may_leave_and_it_is_drawn_nevertheless() {
    let directory = tempfile::tempdir().unwrap();
    let mut running = demo(directory.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut story = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    story.read_line(&mut line).unwrap();
    assert!(line.contains("the flow begins"), "the story is what stdout is for: {line}");
    drop(story);
    assert!(running.wait().unwrap().success());
    let page = fs::read_to_string(directory.path().join("outlast-demo.html")).unwrap();
    assert!(page.contains("each exactly once"));
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
}

#[test]
fn where_no_drawing_can_be_written_nothing_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let said = demo(directory.path()).args(["--output", "nowhere/demo.html"]).output().unwrap();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    let talk = String::from_utf8_lossy(&said.stderr);
    assert!(talk.contains("--output: cannot write nowhere/demo.html"), "{talk}");
    assert!(!talk.contains("starting"), "{talk}");
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
}
