//! What the store promises: atomic checkpoints, forgetting, and damage that is found.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use outlast_lineage::{Digest, ExecutionId, Time};

use super::*;

fn id(number: u64) -> ExecutionId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    ExecutionId::from_bytes(bytes)
}

fn at(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

fn name(name: &str, version: &str) -> DefinitionName {
    DefinitionName { namespace: "default".into(), name: name.into(), version: version.into() }
}

/// A store with one of everything.
fn sample() -> Checkpoint {
    Checkpoint {
        mark: 10,
        snapshots: vec![
            (id(1), 9, Some(Bytes::from_static(b"one"))),
            (id(2), 10, Some(Bytes::from_static(b"two"))),
        ],
        history: (0..5).map(|number| (id(1), number, vec![number as u8; 3])).collect(),
        definitions: vec![Definition {
            name: name("order", "1.0.0"),
            digest: Digest::of(b"text"),
            text: "text".into(),
        }],
        finished: vec![Finished { execution: id(3), ended: at(5), record: b"done".to_vec() }],
        index: vec![
            IndexEntry { index: "name".into(), key: "mine".into(), execution: id(1) },
            IndexEntry { index: "name".into(), key: "mine".into(), execution: id(2) },
            IndexEntry { index: "workflow".into(), key: "order".into(), execution: id(1) },
        ],
        ..Checkpoint::default()
    }
}

fn store() -> (tempfile::TempDir, PathBuf, Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = Store::create(&path).unwrap();
    (directory, path, store)
}

fn snapshots(store: &Store) -> Vec<(ExecutionId, u64, Vec<u8>)> {
    let snapshots = store.load_snapshots().unwrap();
    snapshots.map(|s| s.unwrap()).map(|s| (s.execution, s.position, s.bytes)).collect()
}

#[test]
fn gives_back_what_a_checkpoint_stored_also_after_opening_again() {
    let (_directory, path, store) = store();
    store.checkpoint(&sample()).unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.mark().unwrap(), 10);
    assert_eq!(snapshots(&store), [(id(1), 9, b"one".to_vec()), (id(2), 10, b"two".to_vec())]);
    assert_eq!(store.history(id(1), 2, 2).unwrap(), [(2, vec![2; 3]), (3, vec![3; 3])]);
    assert_eq!(store.history(id(2), 0, 9).unwrap(), []);
    assert_eq!(store.definition(Digest::of(b"text")).unwrap().as_deref(), Some("text"));
    let named = store.definition_named(&name("order", "1.0.0")).unwrap();
    assert_eq!(named, Some(Digest::of(b"text")));
    assert_eq!(store.definitions().unwrap(), [(name("order", "1.0.0"), Digest::of(b"text"))]);
    assert_eq!(store.finished(id(3)).unwrap().unwrap().record, b"done");
    assert_eq!(store.find("name", "mine", 10).unwrap(), [id(1), id(2)]);
    assert_eq!(store.find("name", "min", 10).unwrap(), []);
}

#[test]
fn a_snapshot_is_replaced_or_removed() {
    let (_directory, _, store) = store();
    store.checkpoint(&sample()).unwrap();
    let snapshots_then = vec![(id(1), 12, Some(Bytes::from_static(b"later"))), (id(2), 12, None)];
    let checkpoint = Checkpoint { mark: 12, snapshots: snapshots_then, ..Checkpoint::default() };
    store.checkpoint(&checkpoint).unwrap();
    assert_eq!(snapshots(&store), [(id(1), 12, b"later".to_vec())]);
}

#[test]
fn the_mark_does_not_go_back_and_nothing_of_such_a_checkpoint_is_stored() {
    let (_directory, _, store) = store();
    store.checkpoint(&sample()).unwrap();
    let snapshots_then = vec![(id(9), 5, Some(Bytes::from_static(b"old")))];
    let checkpoint = Checkpoint { mark: 9, snapshots: snapshots_then, ..Checkpoint::default() };
    let error = store.checkpoint(&checkpoint).unwrap_err();
    assert!(matches!(error, StoreError::Backwards { mark: 9, stored: 10 }), "{error}");
    assert_eq!(snapshots(&store).len(), 2);
}

#[test]
fn forgetting_leaves_a_tombstone_and_nothing_else() {
    let (_directory, _, store) = store();
    store.checkpoint(&sample()).unwrap();
    store.forget(id(1), at(100)).unwrap();
    store.forget(id(3), at(200)).unwrap();
    assert_eq!(snapshots(&store).len(), 1);
    assert_eq!(store.history(id(1), 0, 9).unwrap(), []);
    assert_eq!(store.find("name", "mine", 10).unwrap(), [id(2)]);
    assert_eq!(store.find("workflow", "order", 10).unwrap(), []);
    assert_eq!(store.finished(id(3)).unwrap(), None);
    assert_eq!(store.finished_first(10).unwrap(), []);
    assert_eq!(store.tombstone(id(1)).unwrap(), Some(at(100)));
    assert_eq!(store.tombstone(id(2)).unwrap(), None);

    // Forgetting again does not make the tombstone younger.
    store.forget(id(1), at(300)).unwrap();
    assert_eq!(store.tombstone(id(1)).unwrap(), Some(at(100)));
    let tombstones_until = at(150);
    store.checkpoint(&Checkpoint { mark: 10, tombstones_until, ..Checkpoint::default() }).unwrap();
    assert_eq!(store.tombstone(id(1)).unwrap(), None);
    assert_eq!(store.tombstone(id(3)).unwrap(), Some(at(200)));
}

#[test]
fn finished_executions_are_listed_by_the_time_of_their_last_end() {
    let (_directory, _, store) = store();
    let ended = |execution, seconds| Finished { execution, ended: at(seconds), record: Vec::new() };
    let finished = vec![ended(id(1), 30), ended(id(2), 10), ended(id(3), 20), ended(id(2), 40)];
    store.checkpoint(&Checkpoint { finished, ..Checkpoint::default() }).unwrap();
    assert_eq!(store.finished_first(2).unwrap(), [(at(20), id(3)), (at(30), id(1))]);
    assert_eq!(store.finished_last(1).unwrap(), [(at(40), id(2))]);
    assert_eq!(store.census().unwrap().finished, 3);
}

#[test]
fn a_copy_made_while_the_store_is_open_has_everything() {
    let (directory, _, store) = store();
    store.checkpoint(&sample()).unwrap();
    let copied = directory.path().join("copy.redb");
    store.copy_to(&copied).unwrap();
    let copy = Store::open(&copied).unwrap();
    assert_eq!(snapshots(&copy), snapshots(&store));
    assert_eq!(copy.census().unwrap(), store.census().unwrap());
    assert_eq!(copy.find("workflow", "order", 10).unwrap(), [id(1)]);
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
    let snapshots_then = vec![(id(1), 1, Some(Bytes::from_static(marker)))];
    let checkpoint = Checkpoint { mark: 1, snapshots: snapshots_then, ..Checkpoint::default() };
    store.checkpoint(&checkpoint).unwrap();
    drop(store);
    assert_eq!(check(&path).unwrap().snapshots, 1);

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
    let error = store.load_snapshots().unwrap().next().unwrap().unwrap_err();
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
    for round in 1..=20 {
        let snapshots = (0..50).map(|n| (id(n), round, Some(vec![round as u8; 20_000].into())));
        let snapshots = snapshots.collect();
        store.checkpoint(&Checkpoint { mark: round, snapshots, ..Checkpoint::default() }).unwrap();
    }
    let snapshots_then = (1..50).map(|n| (id(n), 21, None)).collect();
    let checkpoint = Checkpoint { mark: 21, snapshots: snapshots_then, ..Checkpoint::default() };
    store.checkpoint(&checkpoint).unwrap();
    let before = fs::metadata(&path).unwrap().len();
    store.compact().unwrap();
    assert!(fs::metadata(&path).unwrap().len() < before);
    assert_eq!(snapshots(&store), [(id(0), 20, vec![20; 20_000])]);
}
