//! Sub-workflows of executions that several nodes hold: pinned with them, and part of them.

mod cluster;
mod driver;

use std::sync::Arc;
use std::time::Duration;

use cluster::{Cluster, Provider, program_of};
use driver::{id, raw_program, task};
use outlast_engine::{Condition, Refusal, Reply, Strategy, Survival};
use outlast_workflow::program::Kind;
use outlast_workflow::{Program, TaskId};

/// Runs a workflow, as its only task.
fn around(name: &str, wait: bool) -> Arc<Program> {
    let run = Kind::RunWorkflow {
        namespace: "test".to_owned(),
        name: name.to_owned(),
        version: "latest".to_owned(),
        input: None,
        wait,
    };
    let tasks = vec![task("do", Kind::Sequence(vec![TaskId(1)])), task("run", run)];
    raw_program("test", "around", "1.0.0", tasks)
}

/// Three nodes that know some programs.
fn with(programs: &[&Arc<Program>]) -> Cluster {
    let mut cluster = Cluster::new(3, &program_of("other", &[]));
    for node in 1..=3 {
        for program in programs {
            cluster.node(node).define_as(program, &format!("name: {}", program.name));
        }
    }
    cluster
}

fn survival() -> Survival {
    Survival::new(Strategy::PartitionTolerant, 3)
}

#[test]
fn what_is_run_is_part_of_the_run() {
    let inner = program_of("inner", &[("one", Provider::Keyed), ("two", Provider::Keyed)]);
    let around = around("inner", true);
    let mut cluster = with(&[&inner, &around]);
    cluster.start(&around, id(5), survival());
    let called = cluster.run_answering(Duration::from_secs(2));
    assert_eq!(called, [(3, "one".to_owned()), (3, "two".to_owned())]);
    for node in 1..=3 {
        let detail = cluster.node(node).show(id(5));
        assert_eq!(detail.summary.condition, Condition::Completed, "node {node}");
        assert_eq!(cluster.node(node).list(Default::default()).len(), 1, "there is no child");
    }
}

#[test]
fn a_node_that_dies_inside_is_replaced_inside() {
    let inner = program_of("inner", &[("one", Provider::Keyed), ("two", Provider::Keyed)]);
    let around = around("inner", true);
    let mut cluster = with(&[&inner, &around]);
    cluster.start(&around, id(5), survival());
    cluster.run(Duration::from_millis(100));
    let first = cluster.call_of(3);
    assert_eq!(cluster.answer(3, first), "one");
    cluster.run(Duration::from_millis(100));
    cluster.kill(3);
    let called = cluster.run_answering(Duration::from_secs(5));
    assert_eq!(called, [(2, "two".to_owned())]);
    // Whoever comes back finds the bundle in its journal.
    cluster.revive(3);
    cluster.run_answering(Duration::from_secs(5));
    assert_eq!(cluster.node(3).show(id(5)).summary.condition, Condition::Completed);
}

#[test]
fn what_is_not_there_to_be_run_is_refused_at_the_start() {
    let around = around("missing", true);
    let mut cluster = with(&[&around]);
    let reply = cluster.ask_start(&around, id(5), survival());
    let Reply::Refused(Refusal::UnknownDefinition(what)) = reply else { panic!("{reply:?}") };
    assert_eq!(what, "test/missing:latest");
}

#[test]
fn what_is_not_waited_for_is_pinned_at_the_start_too() {
    let around = around("missing", false);
    let mut cluster = with(&[&around]);
    let reply = cluster.ask_start(&around, id(5), survival());
    let Reply::Refused(Refusal::UnknownDefinition(what)) = reply else { panic!("{reply:?}") };
    assert_eq!(what, "test/missing:latest");
}
