//! How much data an execution may hold: a flow that adds to its data without end fails, and comes to no
//! state that a record or a message could not hold.

mod kit;

use std::sync::Arc;

use kit::build::{Node, bare_program, expression};
use kit::world::World;
use outlast_expressions::{Value, value};
use outlast_workflow::program::{OnFault, Template};
use outlast_workflow::{
    Answer, DATA_BYTES_MAX, Event, Fault, Outcome, Program, SHARED_DATA_BYTES_MAX,
};

use Node::{Loop, Set};

const MIB: usize = 1024 * 1024;

fn program(root: Node) -> Arc<Program> {
    Arc::new(bare_program("grows", root, OnFault::Leave))
}

fn input(bytes: usize) -> Value {
    value::object([("text", value::string(&"x".repeat(bytes)))])
}

/// Adds another copy of what it was given in every round.
fn growing() -> Arc<Program> {
    program(Loop(100, 1, Box::new(Set("{ text: .text, all: (.all + [.text]) }"))))
}

fn fault_of(world: &mut World) -> Fault {
    match world.run() {
        Outcome::Faulted(fault) => fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

fn state_bytes(world: &World) -> usize {
    minicbor::to_vec(&world.execution).expect("a state can be written").len()
}

#[test]
fn a_flow_that_adds_to_its_data_without_end_fails_in_time() {
    let mut world = World::start_shared(&growing(), input(2 * MIB), 1);
    let fault = fault_of(&mut world);
    let detail = fault.detail.unwrap_or_default();
    assert!(detail.contains("more than 14 MiB"), "{detail}");
    assert!(state_bytes(&world) <= SHARED_DATA_BYTES_MAX + 2 * MIB, "{}", state_bytes(&world));
}

#[test]
fn one_node_alone_holds_more_but_not_everything() {
    let mut world = World::start(&growing(), input(4 * MIB), 1);
    let fault = fault_of(&mut world);
    let detail = fault.detail.unwrap_or_default();
    assert!(detail.contains("more than 24 MiB"), "{detail}");
    assert!(state_bytes(&world) <= DATA_BYTES_MAX + 4 * MIB, "{}", state_bytes(&world));
}

/// Exports another copy of what the run was given.
const EXPORTED: &str = "$context + { all: ($context.all + [$context.text]) }";

#[test]
fn an_export_that_is_too_much_fails_its_task_and_leaves_the_context_as_it_was() {
    let program = program(Loop(12, 1, Box::new(Node::Export(EXPORTED))));
    let mut world = World::start(&program, input(4 * MIB), 1);
    let fault = fault_of(&mut world);
    assert_eq!(fault.title.as_deref(), Some("too much data"));
    assert_eq!(fault.instance.as_deref(), Some("/export"));
    assert!(state_bytes(&world) <= DATA_BYTES_MAX, "{}", state_bytes(&world));
}

#[test]
fn a_call_that_exports_too_much_fails_and_is_undone() {
    let root = Loop(12, 1, Box::new(Node::Invoke("a")));
    let mut program = bare_program("grows", root, OnFault::Compensate);
    program.tasks.iter_mut().filter(|task| task.name == "a").for_each(|task| {
        task.export.template = Some(Template::Computed(expression(EXPORTED)));
    });
    let mut world = World::start(&Arc::new(program), input(4 * MIB), 1);
    let Outcome::Compensated(fault) = world.run() else { panic!("it is rolled back") };
    assert_eq!(fault.title.as_deref(), Some("too much data"));
    assert_eq!(fault.instance.as_deref(), Some("/do/a"));
    assert_eq!(world.net().get("a"), Some(&0), "{:?}", world.done());
    assert!(state_bytes(&world) <= DATA_BYTES_MAX, "{}", state_bytes(&world));
}

#[test]
fn answers_that_add_up_are_too_much() {
    // The answer of each branch stays until all of them are done.
    let program = program(Node::Fork(vec![Node::Plain("a"); 9]));
    let mut world = World::start(&program, value::object([]), 1);
    while world.ended.is_none() {
        let (ticket, _) = world.call_of("a").expect("it is called");
        world.open.remove(&ticket);
        // No two are alike.
        let answer = Answer::Succeeded(input(3 * MIB + world.open.len()));
        world.happen(Event::Answered { ticket, answer });
    }
    let Some(Outcome::Faulted(fault)) = &world.ended else { panic!("it is too much") };
    assert_eq!(fault.title.as_deref(), Some("too much data"));
    assert!(state_bytes(&world) <= DATA_BYTES_MAX, "{}", state_bytes(&world));
}

#[test]
fn a_value_that_is_too_large_is_none() {
    let program = program(Set("[.text, .text, .text, .text]"));
    let mut world = World::start_shared(&program, input(4 * MIB), 1);
    let fault = fault_of(&mut world);
    assert!(fault.kind.ends_with("expression"), "{fault:?}");
    assert!(fault.detail.unwrap_or_default().contains("the value has more than 14 MiB"));
}

#[test]
fn data_that_is_replaced_again_and_again_does_not_add_up() {
    let replace = r#"{ text: .text, n: ((.n // 0) + 1) }"#;
    let program = program(Loop(40, 1, Box::new(Set(replace))));
    let mut world = World::start_shared(&program, input(2 * MIB), 1);
    let outcome = world.run();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
}
