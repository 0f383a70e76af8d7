//! What a data directory promises: epochs, checks, backups, and losses that are noticed.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use outlast_lineage::{Epoch, NodeId};

use super::*;
use crate::journal::Options;
use crate::store::Checkpoint;

fn open_with(directory: &Path, random: u64) -> Result<Opened, DataError> {
    let options =
        Options { segment_bytes_min: 8192, segment_bytes_max: 8192, ..Options::default() };
    open(directory, random, options, |_| ())
}

/// Appends records up to a position and stores a checkpoint at another.
fn fill(opened: &Opened, until: u64, mark: u64) {
    while opened.journal.next_position() <= until {
        let record = format!("record {}", opened.journal.next_position());
        let position = opened.journal.append(record.as_bytes()).unwrap();
        opened.journal.wait_durable(position).unwrap();
    }
    let subjects = vec![(b"subject".to_vec(), mark, Some(Bytes::from_static(b"snapshot")))];
    opened.store.checkpoint(&Checkpoint { mark, subjects, ..Checkpoint::default() }).unwrap();
}

fn records(opened: Opened) -> Vec<String> {
    let records = opened.recovered.records;
    records.map(|record| String::from_utf8(record.unwrap().bytes).unwrap()).collect()
}

#[test]
fn every_start_begins_an_epoch_of_the_same_node() {
    let directory = tempfile::tempdir().unwrap();
    for epoch in 1..=3 {
        let opened = open_with(directory.path(), 40 + epoch).unwrap();
        assert_eq!((opened.meta.node, opened.meta.epoch), (NodeId(41), Epoch(epoch)));
    }
}

#[test]
fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _opened = open_with(directory.path(), 1).unwrap();
    let refused = open_with(directory.path(), 1).unwrap_err();
    assert!(matches!(refused, DataError::Locked(_)), "{refused}");
    assert!(matches!(check(directory.path()), Err(DataError::Locked(_))));
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("thesis.txt"), "years of work").unwrap();
    let refused = open_with(directory.path(), 1).unwrap_err();
    assert!(matches!(refused, DataError::NotOurs { .. }), "{refused}");
    let absent = check(directory.path()).unwrap_err();
    assert!(matches!(absent, DataError::Absent { .. }), "{absent}");
}

#[test]
fn a_start_that_was_interrupted_before_all_was_made_is_made_good() {
    let directory = tempfile::tempdir().unwrap();
    let meta = Meta { epoch: Epoch(1), ..Meta::new(5) };
    meta.write(directory.path()).unwrap();
    let opened = open_with(directory.path(), 6).unwrap();
    assert_eq!((opened.meta.node, opened.meta.epoch), (NodeId(5), Epoch(2)));
}

#[test]
fn a_lost_journal_store_or_meta_file_is_a_loss_and_not_a_new_beginning() {
    for lost in ["journal", "store.redb", "meta.json"] {
        let directory = tempfile::tempdir().unwrap();
        fill(&open_with(directory.path(), 1).unwrap(), 5, 0);
        let path = directory.path().join(lost);
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.unwrap();
        open_with(directory.path(), 1).expect_err(lost);
        assert!(!path.exists(), "{lost} was made anew");
    }
}

#[test]
fn a_journal_that_ends_before_the_store_is_a_loss() {
    let directory = tempfile::tempdir().unwrap();
    fill(&open_with(directory.path(), 1).unwrap(), 5, 5);
    let early = tempfile::tempdir().unwrap();
    fill(&open_with(early.path(), 1).unwrap(), 3, 0);
    for entry in fs::read_dir(early.path().join("journal")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), directory.path().join("journal").join(entry.file_name())).unwrap();
    }
    let error = open_with(directory.path(), 1).unwrap_err().to_string();
    assert!(error.contains("the records from 4 up to 6 are missing"), "{error}");
}

#[test]
fn a_check_tells_of_every_damage_with_its_place_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    fill(&open_with(directory.path(), 1).unwrap(), 400, 2);
    let sound = check(directory.path()).unwrap();
    assert!(sound.is_sound(), "{:?}", sound.problems);
    assert_eq!((sound.journal.records, sound.journal.next), (400, 401));
    assert!(sound.journal.closed);
    assert_eq!(sound.store.unwrap().mark, 2);

    let file = |number: u64| directory.path().join(format!("journal/{number:016}.segment"));
    for (number, offset) in [(1, 4200), (2, 10), (3, 5000), (3, 6000)] {
        let mut bytes = fs::read(file(number)).unwrap();
        bytes[offset] ^= 1;
        fs::write(file(number), bytes).unwrap();
    }
    let mut store = fs::read(directory.path().join("store.redb")).unwrap();
    let place = store.windows(8).position(|window| window == b"snapshot").unwrap();
    store[place] ^= 1;
    fs::write(directory.path().join("store.redb"), &store).unwrap();

    let report = check(directory.path()).unwrap();
    let places: Vec<_> =
        report.problems.iter().map(|problem| (problem.file.clone(), problem.offset)).collect();
    assert_eq!(places.len(), 5, "{:#?}", report.problems);
    assert_eq!(places[0], (directory.path().join("store.redb"), None));
    assert!(places[1].0 == file(1) && places[1].1.is_some_and(|at| (4096..=4200).contains(&at)));
    assert_eq!(places[2], (file(2), Some(0)));
    assert!(places[3].0 == file(3) && places[4].0 == file(3));
    assert!(serde_json::to_string(&report).unwrap().contains("\"problems\":[{"));
    assert_eq!(fs::read(directory.path().join("store.redb")).unwrap(), store);
    assert!(open_with(directory.path(), 1).is_err());
}

#[test]
fn a_backup_of_a_stopped_node_is_restored_as_a_new_incarnation() {
    let directory = tempfile::tempdir().unwrap();
    let (data, saved, fresh) = (
        directory.path().join("data"),
        directory.path().join("saved"),
        directory.path().join("new"),
    );
    fill(&open_with(&data, 1).unwrap(), 300, 2);
    backup(&data, &saved).unwrap();
    let refused = backup(&data, &saved).unwrap_err();
    assert!(matches!(refused, DataError::NotEmpty { .. }), "{refused}");

    let restored = restore(&saved, &fresh, 99).unwrap();
    assert_eq!((restored.node, restored.incarnation), (NodeId(1), 99));
    assert!(check(&fresh).unwrap().is_sound());
    let opened = open_with(&fresh, 5).unwrap();
    assert!(Epoch(1 << 20) < opened.meta.epoch);
    assert_eq!(opened.store.mark().unwrap(), 2);
    fill(&opened, 301, 301);
    assert_eq!(records(opened).len(), 300);
    assert!(matches!(restore(&saved, &fresh, 1), Err(DataError::NotEmpty { .. })));
}

#[test]
fn a_running_node_is_backed_up_as_far_as_it_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let (data, saved, fresh) = (
        directory.path().join("data"),
        directory.path().join("saved"),
        directory.path().join("new"),
    );
    let opened = open_with(&data, 1).unwrap();
    fill(&opened, 150, 120);
    opened.journal.truncate_before(121).unwrap();
    backup_running(&opened.meta, &opened.store, &opened.journal, &saved).unwrap();
    fill(&opened, 400, 400);
    restore(&saved, &fresh, 2).unwrap();
    let restored = open_with(&fresh, 3).unwrap();
    assert_eq!(restored.store.mark().unwrap(), 120);
    assert_eq!(records(restored).last().unwrap(), "record 150");
}

#[test]
fn a_backup_that_was_changed_is_not_restored() {
    let directory = tempfile::tempdir().unwrap();
    let (data, saved) = (directory.path().join("data"), directory.path().join("saved"));
    fill(&open_with(&data, 1).unwrap(), 3, 0);
    backup(&data, &saved).unwrap();
    let segment = saved.join("journal/0000000000000001.segment");
    let whole = fs::read(&segment).unwrap();
    let attempt = |name: &str| {
        let target = directory.path().join(name);
        let error = restore(&saved, &target, 9).unwrap_err();
        assert!(matches!(error, DataError::BadBackup { .. }), "{error}");
        assert!(!target.exists());
    };
    let mut flipped = whole.clone();
    flipped[4100] ^= 1;
    fs::write(&segment, flipped).unwrap();
    attempt("flipped");
    fs::remove_file(&segment).unwrap();
    attempt("missing");
    fs::write(&segment, whole).unwrap();
    fs::write(saved.join("journal/stranger"), "").unwrap();
    attempt("stranger");
}

#[test]
fn damaged_data_is_not_backed_up() {
    let directory = tempfile::tempdir().unwrap();
    let (data, saved) = (directory.path().join("data"), directory.path().join("saved"));
    fill(&open_with(&data, 1).unwrap(), 3, 0);
    let segment = data.join("journal/0000000000000001.segment");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[4100] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let error = backup(&data, &saved).unwrap_err();
    assert!(matches!(error, DataError::Damaged { .. }), "{error}");
    assert!(!saved.exists());
}

#[test]
fn compacting_says_how_much_it_gave_back() {
    let directory = tempfile::tempdir().unwrap();
    fill(&open_with(directory.path(), 1).unwrap(), 3, 0);
    let (before, after) = compact(directory.path()).unwrap();
    assert!(0 < after && after <= before);
    assert!(check(directory.path()).unwrap().is_sound());
}

#[test]
fn a_prepared_directory_is_opened_as_the_same_node() {
    let directory = tempfile::tempdir().unwrap();
    let (lock, meta) = prepare(directory.path(), 7).unwrap();
    assert!(matches!(prepare(directory.path(), 8), Err(DataError::Locked(_))));
    drop(lock);
    let (lock, again) = prepare(directory.path(), 9).unwrap();
    assert_eq!((meta.node, &meta), (NodeId(7), &again));
    drop(lock);
    let opened = open_with(directory.path(), 10).unwrap();
    assert_eq!(opened.meta.node, meta.node);
}
