//! Calls whose answers are more than their execution may hold: they have happened, so their tasks fail
//! and they are undone, with what their undo needs of the answer.

mod kit;

use std::sync::Arc;

use kit::build::{Node, bare_program, expression, make_function};
use kit::world::World;
use outlast_expressions::{Value, value};
use outlast_workflow::program::{Class, OnFault, Template};
use outlast_workflow::{
    Answer, Event, Execution, Fault, FaultKind, Happening, Outcome, Program, Resolution,
};

use Node::{Cancellable, Intricate, Invoke, Read, Sequence, Try, UndoneBy};

const LIMIT: usize = 100 * 1024;

/// What `a` answers: more than there is room for, and the number that its undo goes by.
fn too_much() -> Value {
    value::object([("id", value::integer(7)), ("text", value::string(&"x".repeat(LIMIT)))])
}

fn computed(source: &str) -> Option<Template> {
    Some(Template::Computed(expression(source)))
}

fn program(root: Node, on_fault: OnFault) -> Program {
    bare_program("built", root, on_fault)
}

/// Has the undo of a task told what an expression makes of its output.
fn capture(program: &mut Program, name: &str, source: &str) {
    let task = program.tasks.iter_mut().find(|task| task.name == name).expect("it was built");
    task.traits.compensation.as_mut().expect("it is undone").capture = computed(source);
}

/// `b`, then a task, which is answered with too much; then all is rolled back.
fn rolled_back(a: Node) -> Program {
    program(Sequence(vec![Invoke("b"), a]), OnFault::Compensate)
}

fn start(program: Program, shared: bool) -> World {
    let (program, input) = (Arc::new(program), value::object([]));
    match shared {
        true => World::start_shared(&program, input, 1),
        false => World::start(&program, input, 1),
    }
}

/// Works things off until a service is called.
fn until_called(world: &mut World, name: &str) {
    while world.call_of(name).is_none() {
        assert!(world.step(), "{name} is called");
    }
}

/// The call of a service acts, and is answered with too much.
fn answer_too_much(world: &mut World, name: &str) {
    until_called(world, name);
    let (ticket, request) = world.call_of(name).expect("it is called");
    world.open.remove(&ticket);
    assert!(matches!(world.serve(&request), Answer::Succeeded(_)), "it acts");
    let fault = Fault::new(FaultKind::Runtime, "Answer too large", "there is no room");
    world.happen(Event::Answered { ticket, answer: Answer::TooLarge(too_much(), fault) });
}

fn bytes_of(execution: &Execution) -> usize {
    minicbor::to_vec(execution).expect("a state can be written").len()
}

#[test]
fn a_call_that_is_answered_with_too_much_is_undone_with_what_it_captures() {
    for shared in [false, true] {
        let mut program = rolled_back(Invoke("a"));
        capture(&mut program, "a", "{ id: .id }");
        let mut world = start(program, shared);
        answer_too_much(&mut world, "a");
        assert!(bytes_of(&world.execution) < LIMIT, "the answer itself is not kept");
        world.restart();
        assert!(
            matches!(world.run(), Outcome::Compensated(fault) if fault.title.as_deref() == Some("Answer too large"))
        );
        assert_eq!(world.done(), ["b", "a", "a-bar", "b-bar"]);
        assert_eq!(world.deeds[2].arguments, r#"{"id":7}"#);
        assert!(world.execution.ledger().is_empty(), "nothing is left that is owed");
    }
}

#[test]
fn what_is_captured_is_taken_from_the_output_that_the_task_makes_of_the_answer() {
    let mut program = rolled_back(Invoke("a"));
    capture(&mut program, "a", "{ number: $output.number }");
    let task = program.tasks.iter_mut().find(|task| task.name == "a").expect("it was built");
    task.output.template = computed("{ number: (.id + 1), text }");
    let mut world = start(program, false);
    answer_too_much(&mut world, "a");
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.deeds[2].arguments, r#"{"number":8}"#);
}

#[test]
fn a_function_whose_call_is_answered_with_too_much_is_undone_as_the_function_says() {
    let mut program = rolled_back(Node::Plain("outer"));
    make_function(&mut program, "outer", ("a", "a-bar"), false);
    capture(&mut program, "outer", "{ id: .id }");
    let mut world = start(program, false);
    answer_too_much(&mut world, "a");
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["b", "a", "a-bar", "b-bar"]);
    assert_eq!(world.deeds[2].arguments, r#"{"id":7}"#);
}

#[test]
fn what_no_capture_makes_smaller_is_left_to_a_person() {
    // Without `capture`, and where only a worker could say what is captured.
    for a in [Invoke("a"), Intricate("a")] {
        let mut world = start(rolled_back(a), false);
        answer_too_much(&mut world, "a");
        while world.execution.parked().is_empty() && world.step() {}
        assert!(bytes_of(&world.execution) < LIMIT, "the answer itself is not kept");
        let [parked] = &world.execution.parked()[..] else { panic!("one is parked") };
        assert!(parked.reason.contains("the call happened"), "{}", parked.reason);
        assert!(parked.reason.contains("there is no room"), "{}", parked.reason);
        let (effect, done) = (parked.effect, Resolution::Done(value::object([])));
        world.happen(Event::Resolved { effect, resolution: done });
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        assert_eq!(world.done(), ["b", "a", "b-bar"], "nothing is asked for again");
    }
}

#[test]
fn a_tolerant_undo_needs_nothing_of_the_answer() {
    let mut world = start(rolled_back(Cancellable("a")), false);
    answer_too_much(&mut world, "a");
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert!(world.net().values().all(|net| *net == 0), "{:?}", world.net());
    assert!(world.execution.ledger().is_empty());
}

#[test]
fn a_retriable_call_that_is_answered_with_too_much_is_not_made_again() {
    let mut program = program(Read("a"), OnFault::Leave);
    for class in [Class::Readonly, Class::Retriable, Class::Pivot] {
        program.tasks.iter_mut().filter(|task| task.name == "a").for_each(|task| {
            task.traits.class = Some(class);
        });
        let mut world = start(bare_copy(&program), false);
        answer_too_much(&mut world, "a");
        let Outcome::Faulted(fault) = world.run() else { panic!("{class:?}: it faults") };
        assert_eq!(fault.title.as_deref(), Some("Answer too large"));
        assert_eq!(fault.instance.as_deref(), Some("/do/a"));
        assert_eq!(world.done(), ["a"]);
    }
}

/// The same program, which is not given away.
fn bare_copy(program: &Program) -> Program {
    let mut copy = bare_program("built", Read("a"), OnFault::Leave);
    copy.tasks.clone_from(&program.tasks);
    copy
}

#[test]
fn an_error_of_this_kind_is_caught_and_the_next_attempt_finds_it_undone() {
    let mut program = program(Try(Box::new(Invoke("a")), 1, None), OnFault::Leave);
    capture(&mut program, "a", "{ id: .id }");
    let mut world = start(program, false);
    answer_too_much(&mut world, "a");
    let outcome = world.run();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(world.done(), ["a", "a-bar", "a"]);
}

#[test]
fn a_rollback_that_asks_what_became_of_a_call_and_hears_too_much_undoes_it() {
    let mut program = rolled_back(Invoke("a"));
    capture(&mut program, "a", "{ id: .id }");
    let mut world = start(program, false);
    until_called(&mut world, "a");
    let (ticket, _) = world.call_of("a").expect("it is called");
    world.open.remove(&ticket);
    let fault = Fault::new(FaultKind::Communication, "no answer", "the line is dead");
    world.happen(Event::Answered { ticket, answer: Answer::Unknown(fault) });
    answer_too_much(&mut world, "a");
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["b", "a", "a-bar", "b-bar"]);
    assert_eq!(world.deeds[2].arguments, r#"{"id":7}"#);
}

#[test]
fn an_undo_that_is_answered_with_too_much_is_done() {
    let mut world = start(
        program(Sequence(vec![Invoke("b"), Invoke("a"), Node::Raise(418)]), OnFault::Compensate),
        false,
    );
    answer_too_much(&mut world, "a-bar");
    assert!(world.call_of("b-bar").is_some(), "it is not asked for again");
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["b", "a", "a-bar", "b-bar"]);
}

#[test]
fn an_undo_that_goes_on_with_such_an_answer_fails() {
    let undo = Sequence(vec![Node::Plain("find"), Node::Plain("remove")]);
    let root = Sequence(vec![UndoneBy("a", Box::new(undo)), Node::Raise(418)]);
    let mut world = start(program(root, OnFault::Compensate), false);
    answer_too_much(&mut world, "find");
    assert!(world.call_of("remove").is_none(), "it would be told nothing");
    let failed = |happening: &Happening| matches!(happening, Happening::TaskFaulted(..));
    assert!(world.happenings.iter().filter(|happening| failed(happening)).count() == 2);
}

#[test]
fn a_lost_line_that_hears_too_much_undoes_the_call() {
    let mut program = rolled_back(Invoke("a"));
    capture(&mut program, "a", "{ id: .id }");
    let mut world = start(program, true);
    until_called(&mut world, "a");
    let (_, request) = world.call_of("a").expect("it is called");
    world.happen(Event::LineLost);
    answer_too_much(&mut world, "a");
    world.happen(Event::Withdrawn { undo: [request.effect].into() });
    while world.step() {}
    assert_eq!(world.done(), ["b", "a", "a-bar"]);
    assert_eq!(world.deeds[2].arguments, r#"{"id":7}"#);
}
