//! How much data an execution may hold: a flow that adds to its data without end fails, and comes to no
//! state that a record or a message could not hold.

mod kit;

use std::sync::Arc;

use kit::build::{Node, bare_program};
use kit::world::World;
use outlast_expressions::{Value, value};
use outlast_workflow::program::OnFault;
use outlast_workflow::{DATA_BYTES_MAX, Fault, Outcome, Program, SHARED_DATA_BYTES_MAX};

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
