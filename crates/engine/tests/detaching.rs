//! Executions that several nodes hold and that start others without waiting for their end: whatever
//! fails, what counts is started once, and what is lost starts nothing.

mod cluster;
mod driver;

use std::sync::Arc;
use std::time::Duration;

use cluster::{Cluster, Provider, kind, program_of};
use driver::{call, child, id, program};
use outlast_engine::{Ask, Condition, Input, Reply, Strategy, Summary, Survival, Which};
use outlast_expressions::value;
use outlast_workflow::{Answer, Fault, FaultKind, Program};

const A_MOMENT: Duration = Duration::from_millis(100);
const A_WHILE: Duration = Duration::from_secs(5);

/// Held by three nodes, of which each may go on alone.
fn alone() -> Survival {
    Survival::new(Strategy::PartitionTolerant, 3)
}

fn passive() -> Survival {
    Survival::new(Strategy::Passive, 3)
}

/// Calls, starts another, and calls again.
fn starter() -> Arc<Program> {
    let tasks = vec![call("before"), child("start", "errand", false), call("after")];
    program("starter", "1.0.0", tasks)
}

fn errand() -> Arc<Program> {
    program_of("errand", &[("walk", Provider::Keyed), ("deliver", Provider::Keyed)])
}

/// Three nodes that know some programs, the first of which is started.
fn started(programs: &[&Arc<Program>], survival: Survival) -> Cluster {
    let mut cluster = Cluster::new(3, &program_of("other", &[]));
    for node in 1..=3 {
        for program in programs {
            cluster.node(node).define_as(program, &format!("name: {}", program.name));
        }
    }
    cluster.start(programs[0], id(5), survival);
    cluster.run(A_MOMENT);
    cluster
}

/// The same, up to where the call before the start is answered.
fn about_to_start(survival: Survival) -> Cluster {
    let mut cluster = started(&[&starter(), &errand()], survival);
    let before = cluster.call_of(3);
    cluster.answer(3, before);
    cluster
}

/// What others have started, as a node knows it.
fn children(cluster: &mut Cluster, node: u64) -> Vec<Summary> {
    let all = cluster.node(node).list(Default::default());
    all.into_iter().filter(|summary| summary.parent.is_some()).collect()
}

/// Everything has ended everywhere, the other one once, and nobody holds anything any more.
fn check_one_errand(cluster: &mut Cluster) {
    let mut ids = Vec::new();
    for node in 1..=3 {
        assert_eq!(cluster.node(node).show(id(5)).summary.condition, Condition::Completed);
        let children = children(cluster, node);
        assert_eq!(children.len(), 1, "node {node}: {children:?}");
        assert_eq!(children[0].condition, Condition::Completed, "node {node}");
        assert_eq!(children[0].parent, Some(id(5)));
        ids.push(children[0].execution);
        assert_eq!(cluster.node(node).engine.phases().count(), 0, "node {node} has forgotten");
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

fn count(called: &[(u64, String)], name: &str) -> usize {
    called.iter().filter(|(_, it)| it == name).count()
}

#[test]
fn it_runs_beside_the_one_that_started_it_on_the_same_nodes() {
    for survival in [alone(), passive()] {
        let mut cluster = about_to_start(survival);
        cluster.run(A_MOMENT);
        assert_eq!(cluster.open(3), ["after", "walk"], "neither waits for the other");
        for node in 1..=3 {
            let children = children(&mut cluster, node);
            let [summary] = &children[..] else { panic!("node {node}: {children:?}") };
            assert_eq!(summary.parent, Some(id(5)));
            let holders = summary.holders.as_ref().expect("several nodes hold it");
            assert_eq!(holders.members.len(), 3);
        }
        let called = cluster.run_answering(A_WHILE);
        assert_eq!(called.len(), 3, "{called:?}");
        check_one_errand(&mut cluster);
    }
}

#[test]
fn it_does_not_start_before_its_line_is_decided_on_and_the_run_does_not_wait() {
    let mut cluster = started(&[&starter(), &errand()], alone());
    cluster.cut(3, &[1, 2]);
    let before = cluster.call_of(3);
    cluster.answer(3, before);
    cluster.run(A_MOMENT);
    assert_eq!(cluster.open(3), ["after"], "the run goes on without a majority");
    assert!(children(&mut cluster, 3).is_empty(), "nobody knows yet whether this line counts");
    cluster.heal();
    cluster.run_answering(A_WHILE);
    check_one_errand(&mut cluster);
}

#[test]
fn what_two_lines_start_is_started_once() {
    let mut cluster = started(&[&starter(), &errand()], alone());
    cluster.cut(3, &[1, 2]);
    let called = cluster.run_answering(Duration::from_secs(4));
    assert_eq!(count(&called, "after"), 2, "both sides went on: {called:?}");
    assert_eq!(count(&called, "walk"), 1, "only one of them counts: {called:?}");
    cluster.heal();
    // Whoever was away and is the highest begins, too, until it hears of the others: with the same keys.
    let called = cluster.run_answering(Duration::from_secs(10));
    assert!(called.iter().all(|(_, name)| !name.starts_with("undo walk")), "{called:?}");
    check_one_errand(&mut cluster);
}

#[test]
fn what_only_a_lost_line_wanted_to_start_never_starts() {
    // Node 3 is cut off before the start; the others are told to stop before they come to it.
    let mut cluster = started(&[&starter(), &errand()], alone());
    cluster.cut(3, &[1, 2]);
    let before = cluster.call_of(3);
    cluster.answer(3, before);
    cluster.run(Duration::from_secs(3));
    assert_eq!(cluster.open(3), ["after"], "this line has come by it");
    let caller = cluster.node(2).send(Ask::Cancel(Which::Id(id(5))));
    cluster.run(A_WHILE);
    assert_eq!(cluster.node(2).replies.get(&caller), Some(&Reply::Done), "a majority has it");
    cluster.heal();
    let called = cluster.run_answering(Duration::from_secs(10));
    assert_eq!((count(&called, "walk"), count(&called, "deliver")), (0, 0), "{called:?}");
    for node in 1..=3 {
        assert_eq!(cluster.node(node).show(id(5)).summary.condition, Condition::Cancelled);
        assert!(children(&mut cluster, node).is_empty(), "node {node}");
    }
}

#[test]
fn a_primary_that_dies_before_anybody_else_has_heard_of_it_takes_nothing_along() {
    for survival in [alone(), passive()] {
        let mut cluster = about_to_start(survival);
        cluster.mute = vec![(3, kind::BEGIN)];
        cluster.run(A_MOMENT);
        assert_eq!(children(&mut cluster, 3).len(), 1, "it has begun there");
        assert!(children(&mut cluster, 1).is_empty() && children(&mut cluster, 2).is_empty());
        cluster.kill(3);
        cluster.mute.clear();
        cluster.run_answering(A_WHILE);
        let begun = children(&mut cluster, 2);
        assert_eq!(begun.len(), 1, "whoever takes over begins it");
        assert_eq!(begun[0].condition, Condition::Completed);
        cluster.revive(3);
        cluster.run_answering(Duration::from_secs(10));
        check_one_errand(&mut cluster);
    }
}

#[test]
fn all_nodes_down_at_once_lose_nothing_of_it() {
    // Before it is decided on, and after it has begun at one node only.
    for cut in [true, false] {
        let mut cluster = started(&[&starter(), &errand()], passive());
        let before = cluster.call_of(3);
        if cut {
            cluster.mute = (1..=3).map(|node| (node, kind::PAXOS)).collect();
        } else {
            cluster.mute = vec![(3, kind::BEGIN)];
        }
        cluster.answer(3, before);
        cluster.run(A_MOMENT);
        assert_eq!(children(&mut cluster, 3).len(), usize::from(!cut));
        (1..=3).for_each(|node| cluster.kill(node));
        cluster.mute.clear();
        (1..=3).for_each(|node| cluster.revive(node));
        let called = cluster.run_answering(Duration::from_secs(10));
        assert_eq!(count(&called, "deliver"), 1, "{called:?}");
        check_one_errand(&mut cluster);
    }
}

#[test]
fn it_goes_on_though_the_one_that_started_it_is_rolled_back() {
    let tasks = vec![child("start", "errand", false), call("after")];
    let around = program("around", "1.0.0", tasks);
    let mut cluster = started(&[&around, &errand()], alone());
    cluster.run(A_MOMENT);
    assert_eq!(children(&mut cluster, 1).len(), 1);
    let compensate = Ask::Compensate { which: Which::Id(id(5)), reason: "enough".to_owned() };
    let caller = cluster.node(3).send(compensate);
    let called = cluster.run_answering(A_WHILE);
    assert_eq!(cluster.node(3).replies.get(&caller), Some(&Reply::Done));
    assert_eq!((count(&called, "walk"), count(&called, "deliver")), (1, 1), "{called:?}");
    for node in 1..=3 {
        let condition = cluster.node(node).show(id(5)).summary.condition;
        assert_eq!(condition, Condition::Compensated, "node {node}");
        assert_eq!(children(&mut cluster, node)[0].condition, Condition::Completed);
    }
}

#[test]
fn its_own_document_says_how_it_survives_and_its_parent_where() {
    let mut own = Arc::into_inner(errand()).expect("nobody else has it");
    own.extension = value::parse(r#"{"survival": {"strategy": "active", "replicas": 2}}"#).unwrap();
    let mut cluster = started(&[&starter(), &Arc::new(own)], passive());
    let before = cluster.call_of(3);
    cluster.answer(3, before);
    cluster.run(A_MOMENT);
    let walking = (1..=3).filter(|node| cluster.open(*node).contains(&"walk".to_owned()));
    assert_eq!(walking.count(), 3, "every node executes it");
}

#[test]
fn what_starts_itself_comes_to_an_end() {
    let chain = program("chain", "1.0.0", vec![child("again", "chain", false)]);
    let mut cluster = started(&[&chain], passive());
    cluster.run(Duration::from_secs(60));
    for node in 1..=3 {
        let all = cluster.node(node).list(Default::default());
        assert_eq!(all.len(), 33, "node {node}");
        let faulted = all.iter().filter(|summary| summary.condition == Condition::Faulted);
        assert_eq!(faulted.count(), 1, "the last one is refused");
    }
}

#[test]
fn what_is_started_runs_others_as_they_were_when_the_first_was_started() {
    let inner = program_of("inner", &[("inside", Provider::Keyed)]);
    let errand = program("errand", "1.0.0", vec![child("run", "inner", true), call("deliver")]);
    let mut cluster = started(&[&starter(), &errand, &inner], passive());
    // Another version comes before the start leaves.
    let newer = program("errand", "2.0.0", vec![call("newer")]);
    for node in 1..=3 {
        cluster.node(node).define_as(&newer, "name: newer");
    }
    let called = cluster.run_answering(A_WHILE);
    let mut names: Vec<&str> = called.iter().map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["after", "before", "deliver", "inside"]);
    check_one_errand(&mut cluster);
}

/// The same as `starter`, but started: its first call is refused, so that it has faulted, and all have forgotten it.
fn faulted_before_it_starts(survival: Survival) -> Cluster {
    let mut cluster = started(&[&starter(), &errand()], survival);
    for node in 1..=3 {
        for (execution, ticket, _) in std::mem::take(&mut cluster.node(node).calls) {
            let fault = Fault::new(FaultKind::Runtime, "no", "it says no").with_status(400);
            let answer = Answer::Failed(fault);
            cluster.node(node).step(Input::Answered { execution, ticket, answer });
        }
    }
    cluster.run(A_WHILE);
    assert_eq!(cluster.node(3).show(id(5)).summary.condition, Condition::Faulted);
    assert_eq!(cluster.node(3).engine.phases().count(), 0, "all have forgotten");
    cluster
}

#[test]
fn a_run_that_is_tried_again_after_its_end_starts_it_once_wherever_its_node_dies() {
    for survival in [alone(), passive(), Survival::new(Strategy::Active, 3)] {
        for dies_after in 0..8 {
            let mut cluster = faulted_before_it_starts(survival.clone());
            // Another version comes before it is tried again.
            let newer = program("errand", "2.0.0", vec![call("newer")]);
            cluster.node(2).define_as(&newer, "name: newer");
            assert_eq!(cluster.node(2).ask(Ask::Retry(Which::Id(id(5)))), Reply::Done);
            cluster.run(A_MOMENT);
            assert_eq!(cluster.open(2), ["before"]);
            let before = cluster.call_of(2);
            cluster.dies_after = Some((2, dies_after)).filter(|_| 0 < dies_after);
            cluster.answer(2, before);
            cluster.run(A_MOMENT);
            cluster.dies_after = None;
            if cluster.is_down(2) {
                cluster.revive(2);
            }
            let called = cluster.run_answering(A_WHILE);
            assert_eq!(count(&called, "deliver"), 1, "{dies_after}: {called:?}");
            assert_eq!(cluster.node(2).show(id(5)).summary.condition, Condition::Completed);
            let children = children(&mut cluster, 2);
            assert_eq!(children.len(), 1, "{children:?}");
            assert_eq!(children[0].condition, Condition::Completed);
        }
    }
}

#[test]
fn what_had_started_before_its_parent_failed_is_not_started_again() {
    let mut cluster = about_to_start(passive());
    cluster.run(A_MOMENT);
    assert_eq!(cluster.open(3), ["after", "walk"]);
    let (execution, ticket, _) = cluster.call_of(3);
    let fault = Fault::new(FaultKind::Runtime, "no", "it says no").with_status(400);
    let answer = Answer::Failed(fault);
    cluster.node(3).step(Input::Answered { execution, ticket, answer });
    let called = cluster.run_answering(A_WHILE);
    assert_eq!(count(&called, "deliver"), 1, "{called:?}");
    assert_eq!(cluster.node(1).ask(Ask::Retry(Which::Id(id(5)))), Reply::Done);
    let called = cluster.run_answering(A_WHILE);
    assert_eq!(called, [(1, "after".to_owned())]);
    assert_eq!(children(&mut cluster, 1).len(), 1);
}
