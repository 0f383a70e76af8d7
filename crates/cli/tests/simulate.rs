//! `outlast simulate` from the outside: exit codes, JSON, recording and replaying.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Output, Stdio};

fn simulate(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command.arg("simulate").args(words).output().expect("the binary is there")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is text")
}

#[test]
fn counts_what_happened_as_json() {
    let output = simulate(&["--runs", "5", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["worlds"], 5);
    assert!(shown["events"].as_u64().unwrap() > 100, "{shown}");
    assert!(shown["eventsPerSecond"].as_f64().unwrap() > 0.0, "{shown}");
    assert_eq!(shown["failed"], serde_json::Value::Null);
}

#[test]
fn a_recorded_world_is_replayed_and_a_changed_one_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.txt");
    let path = file.to_str().unwrap();
    let output =
        simulate(&["--seed", "7", "--runs", "1", "--fault", "crash@0.1+1:1", "--record", path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again = simulate(&["--replay", path]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let trace = text(&again.stdout);
    assert!(trace.contains("fault crash@0.1+1:1 begins"), "{trace}");
    let few = simulate(&["--replay", path, "--to", "0.1", "--node", "1"]);
    let lines: Vec<_> = text(&few.stdout).lines().filter(|line| line.contains("  node ")).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains("  node 1  ")), "{lines:?}");
    assert!(lines.len() < trace.lines().filter(|line| line.contains("  node 1  ")).count());
    for (words, reason) in [
        (["--from", "5", "--to", "4"], "--to 4 is before --from 5"),
        (["--seed", "8", "--node", "1"], "cannot be used with"),
        (["--votes", "1", "--node", "1"], "cannot be used with"),
        (["--services", "keyed", "--node", "1"], "cannot be used with"),
    ] {
        let output = simulate(&[&["--replay", path], &words[..]].concat());
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(reason), "{words:?}: {told}");
    }
    let none = simulate(&["--replay", path, "--node", "99"]);
    assert!(text(&none.stderr).contains("nothing that occurred at a node fits"));
    let changed = std::fs::read_to_string(&file).unwrap().replace("crash@0.1+1:1", "crash@0.1+2:1");
    std::fs::write(&file, changed).unwrap();
    let other = simulate(&["--replay", path]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("is not the one that was recorded"));
    let shown = simulate(&["--replay", path, "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(shown["difference"].as_str().unwrap().starts_with("event "), "{shown}");
}

#[test]
fn a_trace_is_part_of_the_json_that_is_asked_for() {
    let words = ["--seed", "11", "--runs", "1", "--trace"];
    let plain = simulate(&words);
    let output = simulate(&[&words[..], &["--json"]].concat());
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let trace: Vec<_> =
        shown["trace"].as_array().unwrap().iter().map(|line| line.as_str()).collect();
    let lines: Vec<_> = text(&plain.stdout).lines().take(trace.len()).map(Some).collect();
    assert!(trace.len() > 20 && trace == lines, "{trace:?}");
}

#[test]
fn a_recording_that_cannot_be_written_is_told_before_any_world_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nowhere/run.txt");
    let output = simulate(&["--runs", "1000000", "--record", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && text(&output.stderr).contains("cannot write"));
}

#[test]
fn whoever_has_seen_enough_of_a_trace_may_leave() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command.args(["simulate", "--runs", "50", "--trace"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "world of seed 1");
    assert!(lines.next().unwrap().unwrap().contains("starts, life 0"));
    drop(lines);
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((child.wait().unwrap().code(), told.as_str()), (Some(0), ""));
}

/// A flow that runs another one, in a folder.
fn around_inner(folder: &std::path::Path) -> [String; 2] {
    let document = |name: &str, task: &str| {
        let path = folder.join(format!("{name}.yaml"));
        let head = format!("dsl: '1.0.3', namespace: demo, name: {name}, version: '1.0.0'");
        let text = format!("document: {{ {head} }}\ndo:\n  - it: {task}\n");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let runs = "{ run: { workflow: { namespace: demo, name: inner, version: latest } } }";
    let calls = "{ call: http, with: { method: post, endpoint: 'http://world.example/ok/b' } }";
    [document("around", runs), document("inner", calls)]
}

#[test]
fn what_a_given_flow_runs_is_given_too_and_recorded_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let [around, inner] = around_inner(folder.path());
    let alone = simulate(&[&around, "--runs", "1"]);
    assert_eq!(alone.status.code(), Some(2));
    let told = text(&alone.stderr);
    assert!(told.contains("it runs demo/inner:latest: give that document with --define"), "{told}");
    let file = folder.path().join("run.txt");
    let path = file.to_str().unwrap();
    let words = [&around, "--define", &inner, "--runs", "2", "--nodes", "3", "--record", path];
    let output = simulate(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again = simulate(&["--replay", path]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("POST ok/b"), "{}", text(&again.stdout));
}

/// What is missing would be drawn, or taken for something that went wrong in the world.
#[test]
fn a_recording_that_lacks_something_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.txt");
    let path = file.to_str().unwrap();
    let [_, given] = around_inner(folder.path());
    assert!(simulate(&[&given, "--runs", "1", "--record", path]).status.success());
    let whole = std::fs::read_to_string(&file).unwrap();
    let until = |mark: &str| whole[..whole.find(mark).unwrap()].to_owned();
    let without_seed: String =
        whole.split_inclusive('\n').filter(|line| !line.starts_with("seed ")).collect();
    for (written, reason) in [
        (until("\n---"), "it is cut off"),
        (until("\n---") + "\n", "its flow, inner, is not in it: it is cut off"),
        (without_seed, "it has no seed"),
        (
            whole.replace("flow inner", "flow outer"),
            "its flow is outer, and the text that of inner",
        ),
    ] {
        std::fs::write(&file, written).unwrap();
        let output = simulate(&["--replay", path]);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(reason), "{reason}: {told}");
    }
}

#[test]
fn a_flow_that_never_ends_is_told_before_any_world_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endless.yaml");
    let head = "dsl: '1.0.3', namespace: demo, name: endless, version: '1.0.0'";
    let again = "switch: [ { more: { when: '${ true }', then: rest } } ]";
    let tasks = format!("  - rest: {{ wait: {{ seconds: 1 }} }}\n  - again: {{ {again} }}\n");
    std::fs::write(&path, format!("document: {{ {head} }}\ndo:\n{tasks}")).unwrap();
    let output = simulate(&[path.to_str().unwrap(), "--runs", "1"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(output.stdout.is_empty() && told.contains("endless has not ended after"), "{told}");
}

/// What ends once and not twice is no broken sentence either: nobody can tell what it does.
#[test]
fn more_executions_than_come_to_an_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first.yaml");
    let head = "dsl: '1.0.3', namespace: demo, name: first, version: '1.0.0'";
    let is_first = "'${ $workflow.id | startswith(\"01\") }'";
    let which = format!("switch: [ {{ first: {{ when: {is_first}, then: end }} }} ]");
    let tasks = format!("  - which: {{ {which} }}\n  - rest: {{ wait: PT1H, then: which }}\n");
    std::fs::write(&path, format!("document: {{ {head} }}\ndo:\n{tasks}")).unwrap();
    let told = |executions: &str| {
        let words = [path.to_str().unwrap(), "--runs", "1", "--executions", executions];
        let output = simulate(&[&words[..], &["--faults", "none"]].concat());
        (output.status.code(), text(&output.stderr).to_owned())
    };
    assert_eq!(told("1").0, Some(0));
    let (code, told) = told("2");
    assert!(code == Some(2) && told.contains("first, 2 times, has not ended after"), "{told}");
    assert!(told.contains("ask for fewer with --executions"), "{told}");
}

#[test]
fn the_same_seed_prints_the_same_trace() {
    let words = ["--seed", "11", "--runs", "1", "--trace"];
    let (first, second) = (simulate(&words), simulate(&words));
    assert!(text(&first.stdout).lines().count() > 20);
    assert_eq!(text(&first.stdout), text(&second.stdout));
    // How fast it was is no part of a trace.
    assert!(text(&first.stderr).contains("engine events in "), "{}", text(&first.stderr));
}

#[test]
fn a_command_line_that_makes_no_sense_is_told_so() {
    let output = simulate(&["--faults", "meteor"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there is no fault `meteor`"));
    let output = simulate(&["--fault", "crash"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("KIND@START+DURATION"));
}

/// Whoever asks for a world that cannot be does not get another one that holds.
#[test]
fn numbers_that_cannot_be_are_refused() {
    let last = u64::MAX.to_string();
    let wrong: [(&[&str], &str); 32] = [
        (&["--runs", "0"], "--runs"),
        (&["--executions", "201"], "1..=200"),
        (&["--replicas", "0"], "1..=64"),
        (&["--nodes", "3", "--replicas", "5"], "there are 3 nodes"),
        (&["--votes", "0"], "1..=33"),
        (&["--replicas", "5", "--votes", "4"], "of 5 replicas 3 are a majority"),
        (&["--nodes", "3", "--votes", "3"], "of 3 nodes 2 are a majority"),
        (
            &["--strategy", "none", "--votes", "1"],
            "the strategy none does not read it; leave it out",
        ),
        (&["--strategy", "none", "--replicas", "3"], "--replicas: the strategy none"),
        (
            &["--strategy", "passive", "--votes", "2"],
            "there is --replicas, --acknowledge, --budget",
        ),
        (&["--strategy", "active", "--acknowledge", "none"], "there is --replicas, --pivots\n"),
        (&["--strategy", "active", "--budget", "none"], "--budget: the strategy active"),
        (&["--faults", "none,crash"], "`none` stands alone"),
        (&["--faults", ""], "there is no fault ``"),
        (&["--nodes", "2", "--fault", "crash@1+1:5"], "has 2 nodes"),
        (&["--nodes", "2", "--fault", "bridge@1+1:1=3"], "has 2 nodes"),
        (&["--nodes", "2", "--fault", "crash@1+1"], "crash of which nodes?"),
        (&["--nodes", "2", "--fault", "split@1+1:1,2"], "of 2 nodes it names all"),
        (&["--nodes", "2", "--fault", "slow-network@1+1=1"], "2 to 1000"),
        (&["--faults", "crash", "--fault", "crash@1+1:1"], "`all` or `none`"),
        (&["--from", "1", "--runs", "1"], "--from: there is nothing to show without --replay"),
        (&["--node", "1", "--seed", "7"], "--node: there is nothing to show without --replay"),
        (&["--input", "{}"], "<FLOW>"),
        (&["--latency", "1s"], "more than 500ms"),
        (&["--service-latency", "5"], "a time such as 500us, 20ms or 2s"),
        (&["--clock-skew", "1h"], "a time such as"),
        (&["--services", "none"], "keyed, keyless"),
        (&["--executions", "2", "--fault", "cancel@1+0=9"], "has 2 executions"),
        (&["--fault", "none", "--fault", "crash@1+1:1"], "--fault none: there is another"),
        (&["--fault", "crash@1+1:1", "--fault", "none"], "--fault none: there is another"),
        (&["--seed", &last, "--runs", "3"], "on there are 1"),
        (&["--seed", &last], "--runs 100"),
    ];
    for (words, reason) in wrong {
        let output = simulate(words);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(reason), "{words:?}: {told}");
    }
    let output = simulate(&["--seed", &last, "--runs", "1", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["worlds"], 1, "the last seed is the last world");
}
