//! A disk that is full: a tmpfs of a few pages. Mounting one takes root; without it these tests say
//! so and check nothing.

#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use outlast_node::journal::{Event, Journal, JournalError, Options, Recovered};
use outlast_node::store::{Checkpoint, Store, StoreError};

const PATIENCE: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        incarnation: 1,
        segment_bytes_min: 16 * 1024,
        segment_bytes_max: 64 * 1024,
        full_retry: Duration::from_millis(20),
        ..Options::default()
    }
}

fn open(directory: &Path) -> (Journal, Recovered) {
    Journal::open(directory, options(), |_| ()).unwrap()
}

fn payload(position: u64) -> Vec<u8> {
    format!("record {position} {}", "z".repeat((position % 300) as usize)).into_bytes()
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

/// A file system of a few pages in memory, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(directory.path())
            .output()
            .is_ok_and(|run| run.status.success());
        if !mounted {
            eprintln!("skipped: a tmpfs cannot be mounted here (it takes root)");
        }
        mounted.then_some(Self(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_full_disk_is_refused_and_the_journal_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount("400k") else { return };
    let filler = disk.0.path().join("filler");
    fs::write(&filler, vec![1; 200_000]).unwrap();
    let path = disk.0.path().join("journal");
    let (sender, events) = mpsc::channel();
    let on_event = move |event| sender.send(event).unwrap();
    let (journal, _) = Journal::open(&path, options(), on_event).unwrap();

    let refused = loop {
        let position = journal.append(&payload(journal.next_position())).unwrap();
        match journal.wait_durable(position) {
            Ok(()) => assert!(position < 10_000, "the disk never fills up"),
            Err(JournalError::Full(_)) => break position,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(journal.durable(), refused - 1);
    assert!(matches!(journal.condition(), Err(JournalError::Full(_))));
    let event = || events.recv_timeout(PATIENCE).unwrap();
    let refusal = std::iter::repeat_with(event).find(|event| !matches!(event, Event::Durable(_)));
    assert!(matches!(refusal, Some(Event::Refused { from, .. }) if from == refused), "{refusal:?}");

    fs::remove_file(&filler).unwrap();
    assert_eq!(event(), Event::Durable(refused), "told once of the refusal, then of the room");
    journal.condition().unwrap();
    let position = journal.append(&payload(refused + 1)).unwrap();
    journal.wait_durable(position).unwrap();
    journal.close().unwrap();
    assert_eq!(count(open(&path).1), refused + 1);
}

#[test]
fn a_full_queue_on_a_full_disk_is_an_error_and_not_an_endless_wait() {
    let Some(disk) = SmallDisk::mount("100k") else { return };
    let path = disk.0.path().join("journal");
    let options = Options { queue_bytes_max: 10_000, ..options() };
    let (journal, _) = Journal::open(&path, options, |_| ()).unwrap();
    let failed = (1..10_000).find_map(|position| journal.append(&payload(position)).err());
    assert!(matches!(failed, Some(JournalError::Full(_))), "{failed:?}");
    let acknowledged = journal.durable();
    assert!(matches!(journal.close(), Err(JournalError::Full(_))));
    let (_journal, recovered) = open(&path);
    assert!(acknowledged <= count(recovered));
}

#[test]
fn a_checkpoint_that_does_not_fit_changes_nothing_and_a_later_one_is_stored() {
    let Some(disk) = SmallDisk::mount("16m") else { return };
    let filler = disk.0.path().join("filler");
    fs::write(&filler, vec![1; 10_000_000]).unwrap();
    let path = disk.0.path().join("store.redb");
    let store = Store::create(&path).unwrap();
    let checkpoint = |mark: u64, bytes: usize| {
        let key = mark.to_be_bytes().to_vec();
        let subjects = vec![(key, mark, Some(Bytes::from(vec![9; bytes])))];
        store.checkpoint(&Checkpoint { mark, subjects, ..Checkpoint::default() })
    };
    checkpoint(1, 1000).unwrap();
    let error = checkpoint(2, 6_000_000).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(store.mark().unwrap(), 1, "what was stored can still be read");
    assert_eq!(store.load_subjects().unwrap().count(), 1);
    fs::remove_file(&filler).unwrap();
    checkpoint(3, 2000).unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!((store.mark().unwrap(), store.load_subjects().unwrap().count()), (3, 2));
}
