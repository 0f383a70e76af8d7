//! `outlast run` as a process: what it prints, how it ends, and that it survives kill -9.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use outlast_node::fixture::ledger::{Ledger, Options, Outcome};

fn outlast(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command.env("XDG_STATE_HOME", directory.join("state")).current_dir(directory);
    command
}

fn write(directory: &Path, name: &str, tasks: &str) {
    let head = format!(
        "document: {{ dsl: '1.0.3', namespace: tests, name: {name}, version: '1.0.0' }}\ndo:\n"
    );
    std::fs::write(directory.join(format!("{name}.yaml")), head + tasks).unwrap();
}

fn ended(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    ended(&outlast(directory).arg("run").args(arguments).output().unwrap())
}

const SLOW: &str = "
  - nap:
      for: { each: number, in: '${ [1, 2, 3, 4] }' }
      do:
        - sleep:
            call: sleep:1.0.0@default
            with: { milliseconds: 150 }
  - done:
      set: { ok: true }
";

/// Kills the process without warning as soon as it has said something.
fn kill_after(mut child: Child, said: &str) -> String {
    let mut heard = String::new();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        heard += &format!("{line}\n");
        if line.contains(said) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    heard
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "slow", SLOW);
    let child = outlast(directory.path())
        .args(["run", "slow.yaml"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let first = kill_after(child, "completed   sleep[1]");
    let execution = first.split_whitespace().nth(1).unwrap().trim_end_matches(',').to_owned();

    let (code, output, talk) = run(directory.path(), &["slow.yaml"]);
    assert_eq!((code, output.as_str()), (Some(0), "{\n  \"ok\": true\n}\n"), "{talk}");
    assert!(talk.contains(&format!("resuming execution {execution}")), "{talk}");
    assert!(!talk.contains("started     sleep[0]"), "it began anew: {talk}");
    assert!(talk.contains("completed   sleep[3]"), "{talk}");

    let (_, _, again) = run(directory.path(), &["slow.yaml"]);
    assert!(again.contains("started     sleep[0]"), "a finished run is not resumed: {again}");
}

#[test]
fn a_named_run_is_run_once_and_told_again() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "quick", "  - answer:\n      set: { is: '${ .word }' }\n");
    let arguments = ["quick.yaml", "--id", "mine", "--input", r#"{"word": "x"}"#, "--json"];
    let first = run(directory.path(), &arguments);
    let second = run(directory.path(), &arguments);
    assert_eq!((first.0, &first.1), (Some(0), &second.1));
    assert!(second.2.contains("has completed before"), "{}", second.2);
    assert!(first.1.contains(r#""output":{"is":"x"}"#), "{}", first.1);
    let other = run(directory.path(), &["quick.yaml", "--id", "mine", "--input", "{}"]);
    assert_eq!(other.0, Some(2), "{}", other.2);
}

#[test]
fn a_fault_points_into_the_document() {
    let directory = tempfile::tempdir().unwrap();
    let tasks =
        "  - boom:\n      call: fail:1.0.0@default\n      with: { status: 409, title: Taken }\n";
    write(directory.path(), "faulty", tasks);
    let (code, output, talk) = run(directory.path(), &["faulty.yaml"]);
    assert_eq!((code, output.as_str()), (Some(1), ""));
    assert!(talk.contains("faulty.yaml:3:5") && talk.contains("Taken"), "{talk}");
}

#[test]
fn a_fault_of_the_workflow_itself_points_at_what_it_is_about() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.yaml");
    for (about, task) in [
        ("input: { schema: { document: { type: string } } }", "set: { ok: true }"),
        ("output: { as: '.missing.more' }", "set: { missing: 1 }"),
        ("timeout: { after: PT0.05S }", "wait: PT30S"),
    ] {
        write(directory.path(), "own", &format!("  - only: {{ {task} }}\n{about}\n"));
        let (code, _, talk) = run(directory.path(), &["own.yaml"]);
        assert_eq!(code, Some(1), "{talk}");
        assert!(talk.contains("own.yaml:4:1"), "{talk}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn what_a_run_does_not_wait_for_is_run_to_its_end_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let child = |name: &str, version: &str| {
        format!(
            "run: {{ await: false, workflow: {{ namespace: tests, name: {name}, {version} }} }}"
        )
    };
    write(directory.path(), "slow", SLOW);
    let between = format!("  - pass: {{ {} }}\n", child("slow", "version: latest"));
    write(directory.path(), "between", &between);
    write(
        directory.path(),
        "first",
        &format!("  - go: {{ {} }}\n", child("between", "version: latest")),
    );
    let arguments = ["first.yaml", "--define", "between.yaml", "--define", "slow.yaml"];
    let spawned = outlast(directory.path())
        .arg("run")
        .args(arguments)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    kill_after(spawned, "started     sleep[1]");
    let (code, output, talk) = run(directory.path(), &arguments);
    assert_eq!((code, output.as_str()), (Some(0), "{}\n"), "{talk}");
    assert!(!talk.contains("started     go"), "it began anew: {talk}");
    assert!(talk.contains("completed   done"), "{talk}");
}

#[test]
fn bad_documents_and_bad_usage_have_their_own_codes() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("bad.yaml"), "document: 7\n").unwrap();
    std::fs::write(directory.path().join("utf-16.yaml"), b"\xff\xfed\0o\0").unwrap();
    write(directory.path(), "good", "  - answer:\n      set: { ok: true }\n");
    assert_eq!(run(directory.path(), &["bad.yaml"]).0, Some(5));
    assert_eq!(run(directory.path(), &["utf-16.yaml"]).0, Some(5));
    assert_eq!(run(directory.path(), &["good.yaml", "--input", "-5"]).0, Some(0), "it is JSON");
    for arguments in [
        ["good.yaml", "--input", "{"].as_slice(),
        &["good.yaml", "--survival", "ring"],
        &["good.yaml", "--service", "echo=http://localhost"],
        &["missing.yaml"],
        &["--nonsense"],
    ] {
        let (code, _, talk) = run(directory.path(), arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {talk}");
    }
    let check = |file: &str| outlast(directory.path()).args(["check", file]).output().unwrap();
    assert_eq!(check("good.yaml").status.code(), Some(0));
    assert_eq!(check("bad.yaml").status.code(), Some(5));
}

#[test]
fn a_directory_that_is_something_else_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "good", "  - answer:\n      set: { ok: true }\n");
    let (code, _, talk) = run(directory.path(), &["good.yaml", "--data", "."]);
    assert_eq!(code, Some(6), "{talk}");
    assert!(talk.contains("neither empty nor a data directory"), "{talk}");
}

/// A task that takes too long for its timeout, at a provider that has acted by then.
fn late(ledger: &Ledger) -> String {
    let (done, undone) = (ledger.uri("/do/late"), ledger.uri("/withdraw/late"));
    format!(
        "document:
  dsl: '1.0.3'
  namespace: tests
  name: late
  version: '1.0.0'
  metadata: {{ outlast: {{ version: '1.0', onFault: compensate }} }}
do:
  - late:
      call: http
      with: {{ method: post, endpoint: '{done}?answer_after_ms=400', body: {{}} }}
      timeout: {{ after: {{ milliseconds: 100 }} }}
      metadata:
        outlast:
          class: compensatable
          compensation:
            do:
              - back: {{ call: http, with: {{ method: post, endpoint: '{undone}', body: {{}} }} }}
"
    )
}

/// The call that asks what became of the first one carried the deadline that had passed: it never left,
/// and what the provider had done was taken for not done.
#[test]
fn what_took_too_long_is_asked_about_and_undone() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ledger = runtime.block_on(Ledger::start(Options::default())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("late.yaml"), late(&ledger)).unwrap();
    let (code, _, talk) = run(directory.path(), &["late.yaml"]);
    assert_eq!(code, Some(3), "{talk}");
    let entries = ledger.entries();
    let done = entries.iter().filter(|entry| entry.outcome == Outcome::Done);
    let done: Vec<&str> = done.map(|entry| entry.path.as_str()).collect();
    assert_eq!(done, ["/do/late", "/withdraw/late"], "{talk}");
}
