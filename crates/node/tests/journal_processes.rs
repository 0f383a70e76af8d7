//! The journal in real processes: kill -9, a failing disk, a slow disk.
//!
//! The test binary runs itself again as the process that writes: the test `writer_process` does
//! nothing unless it is told by its environment which directory to write to.

#![expect(clippy::print_stderr, reason = "a proof tells what it reached")]

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use outlast_node::fixture::skip;
use outlast_node::journal::{Event, Journal, JournalError, Options, Recovered};

const DIRECTORY: &str = "OUTLAST_TEST_JOURNAL";
const RECORDS: &str = "OUTLAST_TEST_RECORDS";
const POISONED_EXIT: i32 = 7;
const PATIENCE: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        incarnation: 1,
        segment_bytes_min: 16 * 1024,
        segment_bytes_max: 64 * 1024,
        ..Options::default()
    }
}

fn open(directory: &Path) -> (Journal, Recovered) {
    Journal::open(directory, options(), |_| ()).unwrap()
}

fn payload(position: u64) -> Vec<u8> {
    format!("record {position} {}", "y".repeat((position % 300) as usize)).into_bytes()
}

/// Counts the records and checks that each is what was appended.
fn count(recovered: Recovered) -> u64 {
    let mut count = 0;
    for record in recovered.records {
        let record = record.unwrap();
        count += 1;
        assert_eq!((record.position, record.bytes), (count, payload(count)));
    }
    count
}

/// The other process: appends in bursts and writes each durable mark to its output.
#[test]
fn writer_process() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let records: u64 = std::env::var(RECORDS).unwrap().parse().unwrap();
    let (stop, stopped) = mpsc::channel();
    let on_event = move |event| {
        let line = match event {
            Event::Durable(mark) => format!("durable {mark}\n"),
            Event::Refused { from, .. } => format!("refused {from}\n"),
            Event::Poisoned { ref reason } => format!("poisoned {reason}\n"),
        };
        // One write per line: a line is there whole or not at all when this process is killed.
        io::stdout().lock().write_all(line.as_bytes()).unwrap();
        io::stdout().flush().unwrap();
        if let Event::Poisoned { .. } = event {
            stop.send(()).unwrap();
        }
    };
    let (journal, _) = Journal::open(Path::new(&directory), options(), on_event).unwrap();
    let end = journal.next_position() + records;
    while journal.next_position() < end {
        let burst = (0..7).map(|_| journal.append(&payload(journal.next_position()))).last();
        let last = burst.unwrap();
        if last.and_then(|last| journal.wait_durable(last)).is_err() {
            assert!(matches!(journal.append(b"more"), Err(JournalError::Poisoned(_))));
            stopped.recv_timeout(PATIENCE).unwrap();
            std::process::exit(POISONED_EXIT);
        }
    }
}

fn start_writer(
    directory: &Path,
    records: u64,
    wrapper: &[&str],
) -> (Child, BufReader<ChildStdout>) {
    let this = std::env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(&this),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(&this);
            command
        }
    };
    let mut child = command
        .args(["--exact", "writer_process", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(RECORDS, records.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Reads the marks that the writer acknowledged, until enough or the end, and gives the last.
fn last_mark(output: &mut BufReader<ChildStdout>, enough: u64) -> (u64, Vec<String>) {
    let (mut mark, mut others) = (0, Vec::new());
    for line in output.lines() {
        let line = line.unwrap();
        // The harness writes its own name for the test in front of the first line.
        match line.rsplit_once("durable ").and_then(|(_, number)| number.parse().ok()) {
            Some(number) => mark = number,
            None => others.push(line),
        }
        if enough <= mark {
            break;
        }
    }
    (mark, others)
}

fn has_strace() -> bool {
    let there = Command::new("strace").arg("-V").output().is_ok_and(|run| run.status.success());
    if !there {
        skip("strace is not installed");
    }
    there
}

#[test]
fn everything_acknowledged_survives_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let (mut kept, mut reached) = (0, 0);
    for round in 0..20 {
        let (mut child, mut output) = start_writer(directory.path(), 1_000_000, &[]);
        let (seen, _) = last_mark(&mut output, kept + 13 * (round + 1));
        child.kill().unwrap();
        child.wait().unwrap();
        // Marks that were in the pipe when the process died were acknowledged as well.
        let acknowledged = last_mark(&mut output, u64::MAX).0.max(seen);
        assert!(kept < acknowledged, "round {round} stored something");
        let (journal, recovered) = open(directory.path());
        reached += u64::from(recovered.torn.is_some());
        kept = count(recovered);
        assert!(acknowledged <= kept, "round {round}: {acknowledged} acknowledged, {kept} kept");
        assert_eq!(journal.durable(), kept);
    }
    eprintln!("{kept} records, {reached} torn tails in 20 kills");
}

#[test]
fn a_second_process_is_told_who_has_the_journal() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, mut output) = start_writer(directory.path(), 1_000_000, &[]);
    last_mark(&mut output, 1);
    let refused = Journal::open(directory.path(), options(), |_| ()).unwrap_err().to_string();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(refused.contains(&format!("in use by process {}", child.id())), "{refused}");
    open(directory.path());
}

/// Has the nth call of a kind fail; then what was acknowledged is there, and more can be written.
fn fails_and_is_clean_at_a_new_start(call: &str, nth: u64) {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path());
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:error=EIO:when={nth}"));
    let wrapper = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let (mut child, mut output) = start_writer(directory.path(), 100_000, &wrapper);
    let (acknowledged, others) = last_mark(&mut output, u64::MAX);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(POISONED_EXIT), "{call} {nth}: {others:?}");
    assert!(others.iter().any(|line| line.contains("poisoned")), "{call} {nth}: {others:?}");
    let (journal, recovered) = open(directory.path());
    let kept = count(recovered);
    assert!(acknowledged <= kept, "{call} {nth}: {acknowledged} acknowledged, {kept} kept");
    let position = journal.append(&payload(kept + 1)).unwrap();
    journal.wait_durable(position).unwrap();
}

#[test]
fn a_failed_sync_stops_the_journal_and_a_new_start_is_clean() {
    if !has_strace() {
        return;
    }
    // The first syncs make the first segment; the later ones are of records, and of segments that
    // are made in the background.
    for nth in [4, 5, 9, 30] {
        fails_and_is_clean_at_a_new_start("fdatasync", nth);
    }
}

#[test]
fn a_failed_write_stops_the_journal_and_a_new_start_is_clean() {
    if !has_strace() {
        return;
    }
    for nth in [1, 2, 9, 30] {
        fails_and_is_clean_at_a_new_start("pwrite64", nth);
    }
}

#[test]
fn a_slow_disk_makes_larger_batches_and_loses_nothing() {
    if !has_strace() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    open(directory.path());
    let slow = ["-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=30000"];
    let wrapper = [&["strace", "-f", "-qq", "-o", "/dev/null"][..], &slow].concat();
    let (mut child, output) = start_writer(directory.path(), 70, &wrapper);
    let mut marks = Vec::new();
    for line in output.lines() {
        let line = line.unwrap();
        marks.extend(line.rsplit_once("durable ").and_then(|(_, mark)| mark.parse::<u64>().ok()));
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(marks.last(), Some(&70));
    assert!(marks.len() <= 30, "70 records in {} syncs", marks.len());
    assert_eq!(count(open(directory.path()).1), 70);
}
