//! The driver: how it shares syncs, and whom it forgets.

use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Ask, Condition, Reply, StartAsk, Which, WorkflowVersion};
use outlast_expressions::value;
use outlast_lineage::ExecutionId;
use outlast_node::{Configuration, Node, NodeHandle, Stopped, random};
use tokio::runtime::Handle;

const TEN_STEPS: &str = "
document: { dsl: '1.0.3', namespace: tests, name: ten, version: '1.0.0' }
do:
  - loop:
      for: { each: number, in: '${ [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }' }
      do:
        - step:
            call: echo:1.0.0@default
            with: { number: '${ $number }' }
";

const WAITS: &str = "
document: { dsl: '1.0.3', namespace: tests, name: waits, version: '1.0.0' }
do:
  - hold:
      wait: { hours: 1 }
";

async fn node(directory: &tempfile::TempDir, text: &str) -> (NodeHandle, String) {
    let node = Node::start(Configuration::new(directory.path()), &Handle::current()).unwrap();
    let program = outlast_languages::openworkflow::compile(text).unwrap();
    let workflow = program.name.clone();
    let reply = node.ask(Ask::Define { program, text: text.into() }).await.unwrap();
    assert!(matches!(reply, Reply::Defined { .. }), "{reply:?}");
    (node, workflow)
}

async fn start(node: &NodeHandle, workflow: &str) -> ExecutionId {
    let ask = StartAsk {
        id: node.new_id(),
        given: false,
        name: None,
        namespace: "tests".to_owned(),
        workflow: workflow.to_owned(),
        version: WorkflowVersion::Latest,
        input: value::object([]),
        salt: random::bytes(),
        survival: None,
    };
    match node.ask(Ask::Start(Box::new(ask))).await.unwrap() {
        Reply::Started { execution, .. } => execution,
        reply => panic!("{reply:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_that_run_together_share_their_syncs() {
    let directory = tempfile::tempdir().unwrap();
    let (node, workflow) = node(&directory, TEN_STEPS).await;
    let workflow: Arc<str> = workflow.into();
    let running = (0..64).map(|_| {
        let (node, workflow) = (node.clone(), Arc::clone(&workflow));
        tokio::spawn(async move {
            let execution = start(&node, &workflow).await;
            match node.ask(Ask::Wait(Which::Id(execution))).await.unwrap() {
                Reply::Shown(detail) => detail.summary.condition,
                reply => panic!("{reply:?}"),
            }
        })
    });
    for running in running.collect::<Vec<_>>() {
        assert_eq!(running.await.unwrap(), Condition::Completed);
    }
    let records = node.counts().await.unwrap().engine.records;
    let syncs = node.journal().syncs;
    assert!(64 * 10 < records, "every step has its record: {records}");
    assert!(syncs * 4 < records, "{syncs} syncs for {records} records");
    assert_eq!(node.shutdown().await, Stopped::Asked);
}

const SPINS: &str = "
document: { dsl: '1.0.3', namespace: tests, name: spins, version: '1.0.0' }
do:
  - zero: { set: { n: 0 } }
  - count: { set: '${ { n: (.n + 1) } }' }
  - again: { switch: [ { more: { when: .n < 1000000000, then: count } } ] }
";

/// Steps of such a loop take a thousand turns each: what arrives is looked at after a few of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_loop_without_effects_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let (node, workflow) = node(&directory, SPINS).await;
    start(&node, &workflow).await;
    let mut between = Vec::new();
    let mut before = node.counts().await.unwrap().engine.steps;
    for _ in 0..20 {
        let steps = node.counts().await.unwrap().engine.steps;
        between.push(steps - before);
        before = steps;
    }
    between.sort_unstable();
    assert!(between[10] < 100, "steps between two answers: {between:?}");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_waiting_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let (node, workflow) = node(&directory, WAITS).await;
    let execution = start(&node, &workflow).await;
    let waiting = node.ask(Ask::Wait(Which::Id(execution)));
    let ended = tokio::time::timeout(Duration::from_millis(50), waiting).await;
    assert!(ended.is_err(), "it waits for an hour");
    assert_eq!(node.counts().await.unwrap().callers, 0);
    assert_eq!(node.shutdown().await, Stopped::Asked);
    assert!(node.ask(Ask::Show(Which::Id(execution))).await.is_err(), "nobody answers any more");
}
