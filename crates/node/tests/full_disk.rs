//! A disk that is full: a tmpfs of a few pages. Mounting one takes root; without it these tests say
//! so and check nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io};

use bytes::Bytes;
use outlast_engine::{Ask, Filter, Refusal, Reply, StartAsk, WorkflowVersion};
use outlast_expressions::value;
use outlast_lineage::ExecutionId;
use outlast_node::fixture::skip;
use outlast_node::journal::{Event, Journal, JournalError, Options, Recovered};
use outlast_node::store::{Checkpoint, Store, StoreError};
use outlast_node::{Configuration, Node, NodeHandle, http, random};
use tokio::runtime::Handle;

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
            skip("a tmpfs cannot be mounted here (it takes root)");
        }
        mounted.then(|| Self(directory))
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

const WAITS: &str = "
document: { dsl: '1.0.3', namespace: tests, name: waits, version: '1.0.0' }
do:
  - hold:
      wait: { hours: 1 }
";

/// Starts executions until one is not acknowledged because the disk is full; gives those that were.
async fn start_until_full(node: &NodeHandle) -> BTreeSet<ExecutionId> {
    let mut started = BTreeSet::new();
    loop {
        assert!(started.len() < 10_000, "the disk never fills up");
        let ask = StartAsk {
            id: node.new_id(),
            given: false,
            name: None,
            namespace: "tests".to_owned(),
            workflow: "waits".to_owned(),
            version: WorkflowVersion::Latest,
            input: value::string(&"z".repeat(1000)),
            salt: random::bytes(),
            survival: None,
        };
        let reply = node.ask(Ask::Start(Box::new(ask)));
        match tokio::time::timeout(Duration::from_secs(2), reply).await {
            Ok(Ok(Reply::Started { execution, .. })) => drop(started.insert(execution)),
            Ok(Ok(Reply::Refused(Refusal::StorageFull))) | Err(_) => return started,
            Ok(other) => panic!("{other:?}"),
        }
    }
}

/// Every execution that a node lists, page by page; none of them may take for ever.
async fn listed(node: &NodeHandle) -> BTreeSet<ExecutionId> {
    let mut all = BTreeSet::new();
    let mut filter = Filter::default();
    loop {
        let reply = tokio::time::timeout(PATIENCE, node.ask(Ask::List(filter.clone()))).await;
        let Ok(Ok(Reply::Listed { executions, next })) = reply else { panic!("{reply:?}") };
        all.extend(executions.into_iter().map(|one| one.execution));
        let Some(next) = next else { return all };
        filter.after = Some(next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_on_a_full_disk_are_answered_with_what_is_durable() {
    let Some(disk) = SmallDisk::mount("8m") else { return };
    let filler = disk.0.path().join("filler");
    let configuration = || {
        let journal = Options { incarnation: 1, ..options() };
        Configuration { journal, ..Configuration::new(disk.0.path().join("data")) }
    };
    let node = Node::start(configuration(), &Handle::current()).unwrap();
    let program = outlast_languages::openworkflow::compile(WAITS).unwrap();
    let define = Ask::Define { program, text: WAITS.into() };
    assert!(matches!(node.ask(define).await, Ok(Reply::Defined { .. })));
    // Whatever room there is goes, up to the last page.
    let mut room = fs::File::create(&filler).unwrap();
    while io::Write::write_all(&mut room, &[1; 4096]).is_ok() {}

    let started = start_until_full(&node).await;
    assert_eq!(listed(&node).await, started, "what was acknowledged, and nothing else");
    let definitions = node.ask(Ask::Definitions { namespace: None });
    let definitions = tokio::time::timeout(PATIENCE, definitions).await;
    assert!(matches!(&definitions, Ok(Ok(Reply::Definitions(all))) if all.len() == 1));
    let parked = node.ask(Ask::Parked(Default::default()));
    let parked = tokio::time::timeout(PATIENCE, parked).await;
    assert!(matches!(&parked, Ok(Ok(Reply::Parked(none))) if none.is_empty()));

    drop(room);
    fs::remove_file(&filler).unwrap();
    let all = listed_when_there_is_room(&node, &started).await;
    assert!(all.is_superset(&started));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_a_node_on_a_full_disk_is_told_so() {
    let Some(disk) = SmallDisk::mount("8m") else { return };
    let journal = Options { incarnation: 1, ..options() };
    let data = disk.0.path().join("data");
    let node =
        Node::start(Configuration { journal, ..Configuration::new(data) }, &Handle::current());
    let node = node.unwrap();
    let listen = ([127, 0, 0, 1], 0).into();
    let options = http::Options { listen, ..http::Options::default() };
    let server = http::serve(node.clone(), options).await.unwrap();
    // Whoever installed a provider first has installed the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let post = async |path: &str, body: String| {
        let sent = client.post(format!("http://{}{path}", server.address())).body(body).send();
        tokio::time::timeout(PATIENCE, sent).await.expect("an answer").unwrap().status().as_u16()
    };
    assert_eq!(post("/v1/definitions", WAITS.to_owned()).await, 201);
    let mut room = fs::File::create(disk.0.path().join("filler")).unwrap();
    while io::Write::write_all(&mut room, &[1; 4096]).is_ok() {}
    let start =
        format!(r#"{{"namespace":"tests","workflow":"waits","input":"{}"}}"#, "z".repeat(10_000));
    let mut answers = Vec::new();
    while answers.last().is_none_or(|status| *status == 201) {
        assert!(answers.len() < 10_000, "the disk never fills up");
        answers.push(post("/v1/executions", start.clone()).await);
    }
    assert_eq!(answers.last(), Some(&507), "the one that found no room is told");
    assert_eq!(post("/v1/executions", start).await, 507, "and all that come later");
    server.stop().await;
    drop(room);
    fs::remove_file(disk.0.path().join("filler")).unwrap();
    node.shutdown().await;
}

/// What is listed once the disk takes records again: then everything is.
async fn listed_when_there_is_room(
    node: &NodeHandle,
    started: &BTreeSet<ExecutionId>,
) -> BTreeSet<ExecutionId> {
    for _ in 0..200 {
        let all = listed(node).await;
        if started.len() < all.len() {
            return all;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the execution whose start was in doubt never comes");
}
