//! `run: workflow` without waiting for its end, where several nodes hold the run: it goes on at once,
//! and what it starts is kept until it is released.

mod kit;

use std::sync::Arc;

use kit::build::{Node, bare_program};
use kit::world::World;
use outlast_expressions::value;
use outlast_lineage::Digest;
use outlast_workflow::program::bundle::{self, NESTING_MAX, join, link};
use outlast_workflow::program::{Kind, OnFault, Template};
use outlast_workflow::{Event, Outcome, Program, TaskId};

use Node::{Child, Compensate, Detach, Invoke, Loop, Plain, Raise, Sequence, Set};

fn named(name: &str) -> Vec<String> {
    vec![format!("test/{name}:1.0.0")]
}

fn program(name: &str, body: Node) -> Arc<Program> {
    Arc::new(bare_program(name, body, OnFault::Leave))
}

/// A program that runs `one`, which runs `two`.
fn linked(root: Node, one: Node, two: Node) -> Arc<Program> {
    let members = [(named("one"), program("one", one)), (named("two"), program("two", two))];
    Arc::new(link(Digest::of(b"bundle"), &program("around", root), &members))
}

fn shared(root: Node) -> World {
    let program = linked(root, Plain("inside"), Plain("deeper"));
    World::start_shared(&program, value::parse(r#"{"from":"around"}"#).unwrap(), 1)
}

fn waiting(world: &World) -> Vec<u64> {
    world.execution.outbox().map(|emitted| emitted.number).collect()
}

#[test]
fn the_run_goes_on_with_the_input_while_the_start_waits_to_leave() {
    let mut world = shared(Sequence(vec![Detach("one"), Plain("after")]));
    assert_eq!(world.open.len(), 1, "only the call is open: {:?}", world.open);
    let start = world.execution.outgoing_start(0).expect("it waits");
    assert_eq!(value::to_text(&start.input), r#"{"from":"around"}"#);
    assert!(world.execution.outgoing_event(0).is_none(), "it is no event");
    world.happen(Event::Released(0));
    assert!(world.execution.outgoing_start(0).is_none());
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done(), ["after"], "nothing of it is part of this run");
}

#[test]
fn what_the_other_is_given_is_not_what_the_run_goes_on_with() {
    let mut around = bare_program("around", Detach("one"), OnFault::Leave);
    let given = value::parse(r#"{"for":"one"}"#).unwrap();
    for task in &mut around.tasks {
        if let Kind::RunWorkflow { input, .. } = &mut task.kind {
            *input = Some(Template::Literal(given.clone()));
        }
    }
    let members = [(named("one"), program("one", Plain("inside")))];
    let program = Arc::new(link(Digest::of(b"bundle"), &around, &members));
    let own = value::parse(r#"{"from":"around"}"#).unwrap();
    let mut world = World::start_shared(&program, own.clone(), 1);
    assert_eq!(world.execution.outgoing_start(0).expect("it waits").input, given);
    assert_eq!(world.run(), Outcome::Completed(own));
}

#[test]
fn two_lines_start_the_same() {
    let root = || Sequence(vec![Invoke("before"), Detach("one"), Plain("after")]);
    let (mut one, mut other) = (shared(root()), shared(root()));
    other.take_over(2);
    for world in [&mut one, &mut other] {
        world.step();
    }
    let child = |world: &World| world.execution.outgoing_start(0).expect("it waits").child;
    assert_eq!(child(&one), child(&other));
}

#[test]
fn every_round_of_a_loop_starts_its_own() {
    let world = shared(Sequence(vec![Loop(3, 1, Box::new(Detach("one"))), Plain("after")]));
    let child = |number| world.execution.outgoing_start(number).expect("it waits").child;
    assert_eq!(waiting(&world), [0, 1, 2]);
    assert!(child(0) != child(1) && child(1) != child(2) && child(0) != child(2));
}

#[test]
fn a_run_that_rolls_back_leaves_alone_what_it_started() {
    let mut world = shared(Sequence(vec![Invoke("a"), Detach("one"), Invoke("b"), Compensate]));
    world.run();
    assert_eq!(world.done(), ["a", "b", "b-bar", "a-bar"]);
    assert_eq!(waiting(&world), [0], "it is still to be started");
}

#[test]
fn a_run_that_faults_has_started_what_came_before() {
    let mut world = shared(Sequence(vec![Detach("one"), Raise(418)]));
    assert!(matches!(world.run(), Outcome::Faulted(_)));
    assert_eq!(waiting(&world), [0]);
}

#[test]
fn runs_that_start_each_other_without_end_fault() {
    let program = linked(Detach("one"), Set("."), Set("."));
    let deepest = World::start_deep(&program, NESTING_MAX - 1);
    assert_eq!(waiting(&deepest), [0]);
    let mut deeper = World::start_deep(&program, NESTING_MAX);
    let Outcome::Faulted(fault) = deeper.run() else { panic!("{:?}", deeper.ended) };
    assert_eq!(fault.detail.as_deref(), Some("sub-workflows nest deeper than 32"));
}

#[test]
fn more_starts_than_may_wait_are_a_fault() {
    let mut world = shared(Loop(5_000, 1, Box::new(Detach("one"))));
    let Outcome::Faulted(fault) = world.run() else { panic!("{:?}", world.ended) };
    assert_eq!(fault.title.as_deref(), Some("too much waits to leave"));
    assert_eq!(waiting(&world).len(), 4096);
}

/// The first task that runs a workflow.
fn runs(program: &Program) -> TaskId {
    let mut tasks = (0..).zip(&program.tasks);
    let found = tasks.find(|(_, task)| matches!(task.kind, Kind::RunWorkflow { .. }));
    TaskId(found.expect("it runs one").0)
}

#[test]
fn what_is_started_is_pinned_with_all_that_it_runs() {
    let bundle = linked(Detach("one"), Child("two"), Plain("deeper"));
    assert_eq!(bundle.tasks.len(), 2, "its tasks are not part of the program");
    let text = join("around", [(named("one"), "one"), (named("two"), "two")]);
    let (text, started) = bundle::detached(&bundle, &text, runs(&bundle)).expect("it is there");
    assert_eq!(text, join("one", [(named("two"), "two")]));
    assert_eq!((started.name.as_str(), started.digest), ("one", Digest::of(text.as_bytes())));
    let (mut world, mut alone) = (World::start(&started, value::object([]), 1), Vec::new());
    world.run();
    alone.extend(world.done());
    assert_eq!(alone, ["deeper"]);
}

#[test]
fn what_runs_nothing_itself_is_started_as_it_is() {
    let bundle = linked(Detach("one"), Plain("inside"), Plain("deeper"));
    let text = join("around", [(named("one"), "one"), (named("two"), "two")]);
    let (text, started) = bundle::detached(&bundle, &text, runs(&bundle)).expect("it is there");
    assert_eq!(text, "one");
    assert!(started.linked.is_empty());
}

#[test]
fn a_workflow_that_starts_itself_is_one_bundle_for_ever() {
    let own = program("one", Detach("one"));
    let text = join("one", [(named("one"), "one")]);
    let members = [(named("one"), Arc::clone(&own))];
    let bundle = link(Digest::of(text.as_bytes()), &own, &members);
    let (again, started) = bundle::detached(&bundle, &text, runs(&bundle)).expect("it is there");
    assert_eq!((again.as_str(), started.digest), (text.as_str(), bundle.digest));
}
