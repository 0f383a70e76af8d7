//! Events among nodes, and executions that several nodes hold and that listen and emit.

mod cluster;
mod driver;

use std::sync::Arc;
use std::time::Duration;

use cluster::{Cluster, Provider};
use driver::{call, classed, emit, id, listen, program, raw_program, task, text};
use outlast_engine::{Ask, Condition, Input, Reply, Strategy, Survival, Which};
use outlast_expressions::{Value, value};
use outlast_workflow::program::{Class, Kind, Task};
use outlast_workflow::{Answer, Fault, FaultKind, Program, TaskId};

const A_MOMENT: Duration = Duration::from_millis(100);
const A_WHILE: Duration = Duration::from_secs(5);

fn event(kind: &str, id: &str) -> Value {
    let source = text("https://here.example");
    value::object([("type", text(kind)), ("source", source), ("id", text(id))])
}

/// Listens twice, and calls after each time.
fn listener() -> Arc<Program> {
    let tasks = vec![listen("l1", "news"), call("first"), listen("l2", "news"), call("second")];
    program("listener", "1.0.0", tasks)
}

/// Held by three nodes, of which each may go on alone.
fn alone() -> Survival {
    let mut survival = Survival::new(Strategy::PartitionTolerant, 3);
    survival.votes = 1;
    survival
}

fn started(program: &Arc<Program>) -> Cluster {
    let mut cluster = Cluster::new(3, program);
    cluster.start(program, id(5), alone());
    cluster.run(A_MOMENT);
    cluster
}

fn publish(cluster: &mut Cluster, node: u64, event: Value) -> u64 {
    match cluster.node(node).ask(Ask::Publish { event }) {
        Reply::EventTaken { number } => number,
        other => panic!("not taken: {other:?}"),
    }
}

fn names(called: &[(u64, String)]) -> Vec<(u64, &str)> {
    called.iter().map(|(node, name)| (*node, name.as_str())).collect()
}

/// How many events a node has taken in.
fn taken(cluster: &mut Cluster, node: u64) -> u64 {
    cluster.node(node).engine.counters().events
}

#[test]
fn an_event_that_any_node_takes_in_reaches_whoever_listens() {
    let mut cluster = started(&listener());
    publish(&mut cluster, 1, event("news", "a"));
    assert_eq!(names(&cluster.run_answering(A_WHILE)), [(3, "first")]);
    publish(&mut cluster, 2, event("news", "b"));
    assert_eq!(names(&cluster.run_answering(A_WHILE)), [(3, "second")]);
    for node in 1..=3 {
        assert_eq!(cluster.node(node).show(id(5)).summary.condition, Condition::Completed);
        assert_eq!(taken(&mut cluster, node), 2, "each node took each event in once");
    }
}

#[test]
fn the_same_event_sent_to_two_nodes_is_one() {
    let mut cluster = started(&listener());
    let number = publish(&mut cluster, 1, event("news", "a"));
    publish(&mut cluster, 2, event("news", "a"));
    assert_eq!(names(&cluster.run_answering(A_WHILE)), [(3, "first")]);
    assert_eq!(publish(&mut cluster, 1, event("news", "a")), number, "sent again");
    assert_eq!(names(&cluster.run_answering(A_WHILE)), []);
    assert!((1..=3).all(|node| taken(&mut cluster, node) == 1));
}

#[test]
fn an_event_without_an_id_is_one_event_wherever_it_comes_to() {
    let mut cluster = started(&listener());
    publish(&mut cluster, 1, value::object([("type", text("news"))]));
    assert_eq!(names(&cluster.run_answering(A_WHILE)), [(3, "first")]);
    assert!((1..=3).all(|node| taken(&mut cluster, node) == 1));
    publish(&mut cluster, 1, value::object([("type", text("news"))]));
    assert_eq!(names(&cluster.run_answering(A_WHILE)), [(3, "second")]);
}

#[test]
fn whoever_was_cut_off_or_down_hears_of_it_afterwards() {
    let mut cluster = started(&listener());
    cluster.cut(1, &[2, 3]);
    publish(&mut cluster, 1, event("news", "a"));
    cluster.run(Duration::from_secs(2));
    assert_eq!((taken(&mut cluster, 2), taken(&mut cluster, 3)), (0, 0));
    cluster.heal();
    cluster.run(Duration::from_secs(2));
    assert_eq!((taken(&mut cluster, 2), taken(&mut cluster, 3)), (1, 1));
    // The one that took it in first dies; it comes from another one.
    cluster.kill(2);
    publish(&mut cluster, 1, event("news", "b"));
    cluster.run(Duration::from_secs(2));
    cluster.kill(1);
    cluster.revive(2);
    cluster.run(Duration::from_secs(2));
    assert_eq!(taken(&mut cluster, 2), 1, "what it had is not taken in again");
}

#[test]
fn a_new_primary_hears_what_its_line_has_not_and_nothing_twice() {
    let mut cluster = started(&listener());
    publish(&mut cluster, 1, event("news", "a"));
    cluster.run(A_MOMENT);
    let first = cluster.call_of(3);
    cluster.answer(3, first);
    cluster.run(A_MOMENT);
    cluster.kill(3);
    cluster.run(A_WHILE);
    assert_eq!(cluster.open(2), Vec::<String>::new(), "the event is consumed on this line");
    publish(&mut cluster, 1, event("news", "b"));
    assert_eq!(names(&cluster.run_answering(A_WHILE)), [(2, "second")]);
}

#[test]
fn both_lines_consume_an_event_and_one_of_them_remains() {
    let mut cluster = started(&listener());
    cluster.cut(3, &[1, 2]);
    publish(&mut cluster, 3, event("news", "a"));
    let called = cluster.run_answering(Duration::from_secs(2));
    assert_eq!(names(&called), [(3, "first")]);
    // The other side has not heard of it, and goes on with an event of its own.
    publish(&mut cluster, 1, event("news", "b"));
    let called = cluster.run_answering(Duration::from_secs(3));
    assert_eq!(names(&called), [(2, "first")]);
    cluster.heal();
    // Now both events are everywhere. The line that is left has consumed one, and hears the other.
    let called = cluster.run_answering(Duration::from_secs(10));
    assert_eq!(called.iter().filter(|(_, name)| name == "second").count(), 1, "{called:?}");
    for node in 1..=3 {
        assert_eq!(cluster.node(node).show(id(5)).summary.condition, Condition::Completed);
    }
}

#[test]
fn an_event_for_one_execution_reaches_all_who_hold_it_and_nobody_else() {
    let listener = listener();
    let mut cluster = started(&listener);
    cluster.start(&listener, id(6), alone());
    cluster.run(A_MOMENT);
    let signal = Ask::Signal { which: Which::Id(id(5)), event: event("news", "a") };
    let reply = cluster.node(1).ask(signal);
    assert!(matches!(reply, Reply::EventTaken { .. }), "{reply:?}");
    assert_eq!(names(&cluster.run_answering(A_WHILE)), [(3, "first")]);
}

#[test]
fn what_is_older_than_events_are_kept_is_not_taken_in() {
    let mut cluster = started(&listener());
    cluster.cut(1, &[2, 3]);
    publish(&mut cluster, 1, event("news", "a"));
    cluster.run(A_MOMENT);
    cluster.kill(1);
    cluster.heal();
    let age = cluster.node(2).options.limits.buffered_event_age;
    cluster.run(age + Duration::from_secs(60));
    cluster.revive(1);
    assert_eq!(names(&cluster.run_answering(A_WHILE)), []);
    assert_eq!((taken(&mut cluster, 2), taken(&mut cluster, 3)), (0, 0));
}

/// Emits between two calls.
fn emitter(class: Option<Class>) -> Arc<Program> {
    let emit = emit("tell", "told");
    let emit = match class {
        Some(class) => classed(class, emit),
        None => emit,
    };
    program("emitter", "1.0.0", vec![call("before"), emit, call("after")])
}

#[test]
fn what_is_emitted_leaves_when_its_line_is_decided_on_and_the_run_does_not_wait() {
    let mut cluster = started(&emitter(None));
    cluster.cut(3, &[1, 2]);
    let first = cluster.call_of(3);
    cluster.answer(3, first);
    cluster.run(A_MOMENT);
    assert_eq!(cluster.open(3), ["after"], "the run goes on without a majority");
    assert_eq!(taken(&mut cluster, 3), 0, "nobody knows yet whether this line counts");
    cluster.heal();
    cluster.run_answering(A_WHILE);
    for node in 1..=3 {
        assert_eq!(cluster.node(node).show(id(5)).summary.condition, Condition::Completed);
        assert_eq!(taken(&mut cluster, node), 1, "node {node}");
    }
}

#[test]
fn what_is_emitted_leaves_before_the_end() {
    let mut cluster = started(&emitter(None));
    let first = cluster.call_of(3);
    cluster.answer(3, first);
    cluster.run(A_WHILE);
    assert_eq!(cluster.open(3), ["after"]);
    assert!((1..=3).all(|node| taken(&mut cluster, node) == 1));
}

#[test]
fn what_two_lines_emit_is_told_once() {
    let mut cluster = started(&emitter(None));
    cluster.run(A_MOMENT);
    cluster.cut(3, &[1, 2]);
    cluster.run_answering(Duration::from_secs(4));
    cluster.heal();
    cluster.run_answering(Duration::from_secs(10));
    for node in 1..=3 {
        assert_eq!(cluster.node(node).show(id(5)).summary.condition, Condition::Completed);
        assert_eq!(taken(&mut cluster, node), 1, "node {node}");
    }
}

#[test]
fn what_may_be_told_by_a_lost_line_leaves_at_once() {
    let mut cluster = started(&emitter(Some(Class::Retriable)));
    cluster.cut(3, &[1, 2]);
    let first = cluster.call_of(3);
    cluster.answer(3, first);
    cluster.run(A_MOMENT);
    assert_eq!(taken(&mut cluster, 3), 1);
    cluster.heal();
    cluster.run_answering(A_WHILE);
    assert!((1..=3).all(|node| taken(&mut cluster, node) == 1), "it has one id on all lines");
}

#[test]
fn who_emitted_hears_it_itself() {
    let tasks = vec![emit("tell", "news"), listen("hear", "news"), call("heard")];
    let mut cluster = started(&program("talker", "1.0.0", tasks));
    assert_eq!(names(&cluster.run_answering(A_WHILE)), [(3, "heard")]);
}

#[test]
fn an_event_that_waited_leaves_after_a_restart_of_everyone() {
    let mut cluster = started(&emitter(None));
    cluster.cut(3, &[1, 2]);
    let first = cluster.call_of(3);
    cluster.answer(3, first);
    cluster.run(A_MOMENT);
    (1..=3).for_each(|node| cluster.kill(node));
    cluster.heal();
    (1..=3).for_each(|node| cluster.revive(node));
    cluster.run_answering(Duration::from_secs(10));
    for node in 1..=3 {
        assert_eq!(cluster.node(node).show(id(5)).summary.condition, Condition::Completed);
        assert_eq!(taken(&mut cluster, node), 1, "node {node}");
    }
}

/// Answers the only call that is open with a refusal, until all have forgotten the run that fails by it.
fn fail(cluster: &mut Cluster) {
    let (execution, ticket, _) = cluster.call_of(3);
    let fault = Fault::new(FaultKind::Runtime, "no", "it says no").with_status(400);
    let answer = Answer::Failed(fault);
    cluster.node(3).step(Input::Answered { execution, ticket, answer });
    cluster.run(A_WHILE);
    assert_eq!(cluster.node(3).show(id(5)).summary.condition, Condition::Faulted);
    assert_eq!(cluster.node(3).engine.phases().count(), 0, "all have forgotten");
}

#[test]
fn what_is_emitted_by_a_run_that_is_tried_again_after_its_end_leaves_once_wherever_its_node_dies() {
    let tasks = vec![call("before"), emit("tell", "news"), listen("hear", "news"), call("heard")];
    for dies_after in 0..8 {
        let mut cluster = started(&program("talker", "1.0.0", tasks.clone()));
        fail(&mut cluster);
        assert_eq!(cluster.node(2).ask(Ask::Retry(Which::Id(id(5)))), Reply::Done);
        cluster.run(A_MOMENT);
        let before = cluster.call_of(2);
        cluster.dies_after = Some((2, dies_after)).filter(|_| 0 < dies_after);
        cluster.answer(2, before);
        cluster.run(A_MOMENT);
        cluster.dies_after = None;
        if cluster.is_down(2) {
            cluster.revive(2);
        }
        assert_eq!(names(&cluster.run_answering(A_WHILE)), [(2, "heard")], "{dies_after}");
        assert_eq!(cluster.node(2).show(id(5)).summary.condition, Condition::Completed);
        assert_eq!(taken(&mut cluster, 1), 1, "{dies_after}");
    }
}

#[test]
fn what_had_left_before_the_end_does_not_leave_again_when_the_run_is_tried_again_long_after() {
    let mut cluster = started(&emitter(None));
    let before = cluster.call_of(3);
    cluster.answer(3, before);
    cluster.run_past_linger();
    fail(&mut cluster);
    assert!((1..=3).all(|node| taken(&mut cluster, node) == 1));
    let age = cluster.node(3).options.limits.buffered_event_age;
    cluster.run(age + Duration::from_secs(60));
    assert_eq!(cluster.node(2).ask(Ask::Retry(Which::Id(id(5)))), Reply::Done);
    assert_eq!(names(&cluster.run_answering(A_WHILE)), [(2, "after")]);
    assert!((1..=3).all(|node| taken(&mut cluster, node) == 1));
}

#[test]
fn an_undo_that_tells_is_heard_when_a_faulted_run_is_rolled_back() {
    let tasks = vec![
        task("do", Kind::Sequence(vec![TaskId(2), TaskId(3)])),
        emit("untell", "untold"),
        Task { traits: Provider::Keyed.traits(TaskId(1)), ..call("a") },
        call("b"),
    ];
    let mut cluster = started(&raw_program("test", "teller", "1.0.0", tasks));
    let first = cluster.call_of(3);
    cluster.answer(3, first);
    cluster.run_past_linger();
    fail(&mut cluster);
    let reason = "a test".to_owned();
    let asked = cluster.node(2).ask(Ask::Compensate { which: Which::Id(id(5)), reason });
    assert_eq!(asked, Reply::Done);
    cluster.run(A_WHILE);
    assert_eq!(cluster.node(2).show(id(5)).summary.condition, Condition::Compensated);
    assert!((1..=3).all(|node| taken(&mut cluster, node) == 1));
}
