//! What the store promises: atomic checkpoints, whole copies, and damage that is found.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use outlast_lineage::ExecutionId;

use super::*;

fn id(number: u64) -> ExecutionId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    ExecutionId::from_bytes(bytes)
}

fn snapshot(key: &str, position: u64, bytes: &'static [u8]) -> (Vec<u8>, u64, Option<Bytes>) {
    (key.into(), position, Some(Bytes::from_static(bytes)))
}

/// Some of everything.
fn sample() -> Checkpoint {
    let lines = |execution: u64| (0..5).map(move |n| ((id(execution), n), vec![n as u8; 3]));
    Checkpoint {
        mark: 10,
        subjects: vec![snapshot("one", 9, b"first"), snapshot("two", 10, b"second")],
        history: Arc::new(lines(1).chain(lines(2)).collect()),
        ..Checkpoint::default()
    }
}

fn store() -> (tempfile::TempDir, PathBuf, Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = Store::create(&path).unwrap();
    (directory, path, store)
}

fn subjects(store: &Store) -> Vec<Vec<u8>> {
    store.load_subjects().unwrap().map(|subject| subject.unwrap()).collect()
}

#[test]
fn gives_back_what_a_checkpoint_stored_also_after_opening_again() {
    let (_directory, path, store) = store();
    store.checkpoint(&sample()).unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.mark().unwrap(), 10);
    assert_eq!(subjects(&store), [b"first".to_vec(), b"second".to_vec()]);
    assert_eq!(store.history(id(1), 2, 2).unwrap(), [(2, vec![2; 3]), (3, vec![3; 3])]);
    assert_eq!(store.history(id(3), 0, 9).unwrap(), []);
    assert_eq!(store.census().unwrap(), Census { mark: 10, subjects: 2, history: 10 });
}

#[test]
fn a_snapshot_is_replaced_or_removed() {
    let (_directory, _, store) = store();
    store.checkpoint(&sample()).unwrap();
    let subjects_then = vec![snapshot("one", 12, b"later"), ("two".into(), 12, None)];
    let checkpoint = Checkpoint { mark: 12, subjects: subjects_then, ..Checkpoint::default() };
    store.checkpoint(&checkpoint).unwrap();
    assert_eq!(subjects(&store), [b"later".to_vec()]);
}

#[test]
fn a_dropped_history_goes_before_new_lines_come_and_no_other_goes_with_it() {
    let (_directory, _, store) = store();
    store.checkpoint(&sample()).unwrap();
    let checkpoint = Checkpoint {
        mark: 12,
        histories_dropped: vec![id(1)],
        history: Arc::new([((id(1), 12), b"anew".to_vec())].into()),
        ..Checkpoint::default()
    };
    store.checkpoint(&checkpoint).unwrap();
    assert_eq!(store.history(id(1), 0, 9).unwrap(), [(12, b"anew".to_vec())]);
    assert_eq!(store.history(id(2), 0, 9).unwrap().len(), 5);
    assert_eq!(subjects(&store).len(), 2);
}

#[test]
fn the_mark_does_not_go_back_and_nothing_of_such_a_checkpoint_is_stored() {
    let (_directory, _, store) = store();
    store.checkpoint(&sample()).unwrap();
    let subjects_then = vec![snapshot("nine", 5, b"old")];
    let checkpoint = Checkpoint { mark: 9, subjects: subjects_then, ..Checkpoint::default() };
    let error = store.checkpoint(&checkpoint).unwrap_err();
    assert!(matches!(error, StoreError::Backwards { mark: 9, stored: 10 }), "{error}");
    assert_eq!(subjects(&store).len(), 2);
}

#[test]
fn a_copy_made_while_the_store_is_open_has_everything() {
    let (directory, _, store) = store();
    store.checkpoint(&sample()).unwrap();
    let copied = directory.path().join("copy.redb");
    store.copy_to(&copied).unwrap();
    let copy = Store::open(&copied).unwrap();
    assert_eq!(subjects(&copy), subjects(&store));
    assert_eq!(copy.census().unwrap(), store.census().unwrap());
    assert_eq!(copy.history(id(2), 0, 9).unwrap(), store.history(id(2), 0, 9).unwrap());
}

#[test]
fn a_missing_or_emptied_file_is_reported_and_not_made_anew() {
    let (_directory, path, store) = store();
    drop(store);
    fs::write(&path, b"").unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(matches!(check(&path).unwrap_err(), StoreError::Corrupt { .. }));
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    fs::remove_file(&path).unwrap();
    assert!(matches!(Store::open(&path).unwrap_err(), StoreError::Missing { .. }));
    assert!(!path.exists());
}

#[test]
fn a_flipped_bit_in_a_value_is_found_before_it_is_used_and_by_a_check() {
    let (_directory, path, store) = store();
    let marker = b"a value that can be found in the file";
    let subjects = vec![snapshot("one", 1, marker)];
    store.checkpoint(&Checkpoint { mark: 1, subjects, ..Checkpoint::default() }).unwrap();
    drop(store);
    assert_eq!(check(&path).unwrap(), Census { mark: 1, subjects: 1, history: 0 });

    let mut bytes = fs::read(&path).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - marker.len()).filter(|i| bytes[*i..].starts_with(marker)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|place| bytes[place + 3] ^= 1);
    fs::write(&path, &bytes).unwrap();
    let error = check(&path).unwrap_err();
    assert!(error.to_string().contains("outlast data restore"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes, "a check changes nothing");

    let store = Store::open(&path).unwrap();
    let error = store.load_subjects().unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[test]
fn garbage_instead_of_a_store_is_reported() {
    let (_directory, path, store) = store();
    drop(store);
    let length = fs::metadata(&path).unwrap().len() as usize;
    fs::write(&path, vec![0xa5; length]).unwrap();
    assert!(matches!(Store::open(&path).unwrap_err(), StoreError::Corrupt { .. }));
    assert!(matches!(check(&path).unwrap_err(), StoreError::Corrupt { .. }));
}

#[test]
fn compacting_keeps_everything_and_gives_space_back() {
    let (_directory, path, store) = store();
    let key = |number: u8| vec![number];
    for mark in 1..=20 {
        let snapshot = Bytes::from(vec![mark as u8; 20_000]);
        let subjects = (0..50).map(|n| (key(n), mark, Some(snapshot.clone()))).collect();
        store.checkpoint(&Checkpoint { mark, subjects, ..Checkpoint::default() }).unwrap();
    }
    let removed = (1..50).map(|n| (key(n), 21, None)).collect();
    store.checkpoint(&Checkpoint { mark: 21, subjects: removed, ..Checkpoint::default() }).unwrap();
    let before = fs::metadata(&path).unwrap().len();
    store.compact().unwrap();
    assert!(fs::metadata(&path).unwrap().len() < before);
    assert_eq!(subjects(&store), [vec![20; 20_000]]);
}
