//! Disks that are full or fail. A full one takes root to mount; a failing one takes strace. Without
//! them these tests say so and check nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outlast_node::fixture::skip;

use crate::flows::{Flow, HEAVY, LOOP};
use crate::judge::{self, Course};
use crate::life::{Ended, Life, Waited};
use crate::world::{PATIENCE, World, table};

/// The exit code of a data directory that cannot be used, or of a disk that failed.
const STORAGE: i32 = 6;
/// What a process says when the disk is full.
const FULL: &str = "the disk is full";

/// A file system in memory, unmounted when dropped.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn mount(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(directory.path())
            .output()
            .is_ok_and(|run| run.status.success());
        if !mounted {
            skip("a tmpfs cannot be mounted here (it takes root)");
        }
        mounted.then(|| Self(directory))
    }

    /// Takes all room but so many bytes; removing the file gives it back.
    pub(crate) fn fill(&self, leave: usize, size: usize) -> PathBuf {
        let filler = self.0.path().join("filler");
        fs::write(&filler, vec![1; size - leave]).unwrap();
        filler
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

/// The heavy flow: about 4 MB of records.
fn heavy(world: &World) -> Life {
    let input = world.folder().join("input.json");
    fs::write(&input, format!(r#"{{"ballast": "{}"}}"#, "x".repeat(200_000))).unwrap();
    let mut command = world.command(true);
    command.arg("--input").arg(format!("@{}", input.display()));
    Life::start(&mut command)
}

fn assert_completed(world: &World, ended: &Ended) {
    let entries = world.settled_entries();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.story(), table(&entries));
    let problems = judge::problems(world.flow, &entries, Course::default());
    assert!(problems.is_empty(), "{problems:?}\n{}", table(&entries));
}

/// Runs the heavy flow until the disk is full, and sees that nothing leaves any more.
fn until_full(world: &World) -> Life {
    let mut life = heavy(world);
    let waited = life.until_says(PATIENCE, FULL);
    assert_eq!(waited, Waited::Holds, "the disk does not fill up: {}", life.stderr());
    // What was stored before may still leave.
    life.lasts(Duration::from_millis(300));
    let arrived = world.ledger.traffic().arrived;
    assert_eq!(life.lasts(Duration::from_secs(1)), Waited::TimeOver, "it waits for room");
    assert_eq!(world.ledger.traffic().arrived, arrived, "a call left before its record was stored");
    assert!(arrived < 20, "it was full before the end");
    life
}

#[test]
fn a_disk_that_fills_up_stops_calls_and_the_run_goes_on_when_there_is_room() {
    const SIZE: usize = 24 << 20;
    let Some(disk) = SmallDisk::mount(&SIZE.to_string()) else { return };
    let filler = disk.fill(6 << 20, SIZE);
    let world = World::with_data(&HEAVY, &disk.data());
    let life = until_full(&world);
    fs::remove_file(filler).unwrap();
    assert_completed(&world, &life.end(PATIENCE));
}

#[test]
fn a_process_killed_on_a_full_disk_goes_on_when_there_is_room() {
    const SIZE: usize = 24 << 20;
    let Some(disk) = SmallDisk::mount(&SIZE.to_string()) else { return };
    let filler = disk.fill(6 << 20, SIZE);
    let world = World::with_data(&HEAVY, &disk.data());
    assert!(until_full(&world).kill().was_killed());
    fs::remove_file(filler).unwrap();
    assert_completed(&world, &heavy(&world).end(PATIENCE));
}

#[test]
fn a_start_on_a_full_disk_is_refused_and_nothing_is_called() {
    const SIZE: usize = 16 << 20;
    let Some(disk) = SmallDisk::mount(&SIZE.to_string()) else { return };
    let filler = disk.fill(64 << 10, SIZE);
    let world = World::with_data(&LOOP, &disk.data());
    let refused = world.start().end(PATIENCE);
    assert_eq!(refused.code, Some(STORAGE), "{}", refused.story());
    assert!(refused.stderr.to_lowercase().contains("no space"), "{}", refused.story());
    assert_eq!(world.ledger.traffic().arrived, 0);
    fs::remove_file(filler).unwrap();
    assert_completed(&world, &world.start().end(PATIENCE));
}

pub(crate) fn has_strace() -> bool {
    let there = Command::new("strace").arg("-V").output().is_ok_and(|run| run.status.success());
    if !there {
        skip("strace is not installed");
    }
    there
}

/// The words that start a program whose nth call of this kind fails, of those to a file if one is given.
fn failing(call: &str, nth: &str, file: Option<&Path>) -> Vec<String> {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:error=EIO:when={nth}"));
    let words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let of_file = file.into_iter().flat_map(|it| ["-P".to_owned(), it.display().to_string()]);
    words.map(str::to_owned).into_iter().chain(of_file).collect()
}

/// The words that start a program whose nth sync of the disk fails.
pub(crate) fn failing_sync(nth: u64) -> Vec<String> {
    failing("fdatasync", &nth.to_string(), None)
}

fn with_failing(world: &World, words: &[String]) -> Ended {
    let wrapper: Vec<&str> = words.iter().map(String::as_str).collect();
    Life::start(&mut world.command_under(&wrapper, true)).end(PATIENCE)
}

/// A world whose process was killed amid its run, and the segment of its journal.
fn killed_amid(flow: &'static Flow) -> (World, PathBuf) {
    let world = World::new(flow);
    let mut life = world.start();
    let waited = life.until(PATIENCE, || 0 < world.ledger.traffic().arrived);
    assert_eq!(waited, Waited::Holds, "{}", life.stderr());
    assert!(life.kill().was_killed());
    let segment = world.data().join("journal/0000000000000001.segment");
    assert!(segment.is_file(), "{}", segment.display());
    (world, segment)
}

fn assert_stopped(ended: &Ended) {
    assert_eq!(ended.code, Some(STORAGE), "{}", ended.story());
    let why = ended.stderr.to_lowercase();
    assert!(why.contains("input/output error"), "it says why it stops: {}", ended.story());
}

#[test]
fn a_failed_sync_stops_the_process_which_says_why_and_comes_back_clean() {
    if !has_strace() {
        return;
    }
    let (mut stopped, mut amid) = (0, 0);
    // The count is for each thread: on a new directory the first syncs make it; on one that is
    // there, they are of records.
    let new = [1, 6, 12].map(|nth| (nth, true));
    for (nth, new) in new.into_iter().chain([2, 4, 6].map(|nth| (nth, false))) {
        let world = if new { World::new(&LOOP) } else { killed_amid(&LOOP).0 };
        let calls = world.ledger.traffic().arrived;
        let failed = with_failing(&world, &failing_sync(nth));
        if failed.code == Some(0) {
            eprintln!("sync {nth} was never reached");
        } else {
            stopped += 1;
            amid += u64::from(calls < world.ledger.traffic().arrived);
            assert_stopped(&failed);
        }
        assert_completed(&world, &world.start().end(PATIENCE));
    }
    assert!(4 <= stopped, "only {stopped} failing syncs were reached");
    assert!(0 < amid, "none of the failing syncs came amid the run");
}

#[test]
fn a_failed_write_stops_the_process_which_says_why_and_comes_back_clean() {
    if !has_strace() {
        return;
    }
    for nth in ["1", "2", "4"] {
        let (world, segment) = killed_amid(&LOOP);
        assert_stopped(&with_failing(&world, &failing("pwrite64", nth, Some(&segment))));
        assert_completed(&world, &world.start().end(PATIENCE));
    }
}

#[test]
fn a_journal_that_cannot_be_read_is_not_run_on_and_its_file_is_named() {
    if !has_strace() {
        return;
    }
    let (world, segment) = killed_amid(&LOOP);
    let calls = world.ledger.traffic().arrived;
    // Its header, and its records.
    for nth in ["1+", "2+"] {
        let refused = with_failing(&world, &failing("read", nth, Some(&segment)));
        assert_stopped(&refused);
        let file = segment.display().to_string();
        assert!(refused.stderr.contains(&file), "{}", refused.story());
        assert_eq!(world.ledger.traffic().arrived, calls, "nothing is called");
    }
    assert_completed(&world, &world.start().end(PATIENCE));
}
