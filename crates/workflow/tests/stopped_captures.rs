//! Calls that have succeeded and are stopped while a worker evaluates what their undo needs: they
//! happened, so they are undone, and nobody is asked about them.

mod kit;

use std::sync::Arc;

use kit::build::{Node, bare_program, expression, make_function};
use kit::world::World;
use outlast_expressions::value;
use outlast_workflow::program::{OnFault, Task, Template};
use outlast_workflow::{Command, Event, Outcome, Program};

use Node::{Compensate, Compete, Fork, Invoke, Once, Raise, Sequence, Try, Wait, Within};

/// What makes a task need a worker.
type Change = fn(&mut Task);

/// The start of a program whose task `a` is changed.
fn slow(root: Node, on_fault: OnFault, change: Change) -> World {
    let mut program = bare_program("built", root, on_fault);
    program.tasks.iter_mut().filter(|task| task.name == "a").for_each(change);
    World::start(&Arc::new(program), value::object([]), 1)
}

fn unbounded(source: &str) -> Option<Template> {
    Some(Template::Computed(expression(source)))
}

/// An undo that is told the output in a way which only a worker works out.
fn slow_capture(task: &mut Task) {
    let compensation = task.traits.compensation.as_mut().expect("it is undone");
    compensation.capture = unbounded("{a: .a, some: [limit(2; range(5))]}");
}

/// The same for the output, which the undo is told with the input.
fn slow_output(task: &mut Task) {
    task.output.template = unbounded("{a: .a, some: [limit(2; range(5))]}");
}

const CHANGES: [(Change, &str); 2] = [
    (slow_capture, r#"{"a":1,"some":[0,1]}"#),
    (slow_output, r#"{"input":{},"output":{"a":1,"some":[0,1]}}"#),
];

/// Answers calls until a worker is asked.
fn until_evaluated(world: &mut World) {
    let evaluates = |command: &Command| matches!(command, Command::Evaluate { .. });
    while !world.open.values().any(evaluates) {
        let called = |(_, command): &(_, &Command)| matches!(command, Command::Call { .. });
        let ticket = *world.open.iter().find(called).expect("something is called").0;
        world.answer(ticket);
    }
}

/// Runs to the end, where one call was undone once, with what it captured.
fn is_undone_once(world: &mut World, captured: &str) {
    assert!(world.execution.parked().is_empty(), "it is known that it happened");
    world.run();
    assert_eq!(world.done(), ["a", "a-bar"]);
    assert_eq!(world.deeds[1].arguments, captured);
    assert!(world.execution.ledger().is_empty(), "nothing is left that is owed");
}

#[test]
fn the_loser_of_a_race_is_undone_with_what_it_captures_then() {
    for call in [Invoke("a"), Once("a")] {
        for (change, captured) in CHANGES {
            let root = Compete(vec![call.clone(), Wait(10)]);
            let mut world = slow(root, OnFault::Leave, change);
            world.forgetful = true;
            until_evaluated(&mut world);
            assert!(world.next_timer());
            is_undone_once(&mut world, captured);
        }
    }
}

#[test]
fn a_branch_that_a_sibling_stops_is_undone() {
    for call in [Invoke("a"), Once("a")] {
        for (change, captured) in CHANGES {
            let root = Fork(vec![call.clone(), Sequence(vec![Wait(10), Raise(418)])]);
            let mut world = slow(root, OnFault::Compensate, change);
            world.forgetful = true;
            until_evaluated(&mut world);
            assert!(world.next_timer());
            is_undone_once(&mut world, captured);
        }
    }
}

#[test]
fn a_run_that_is_rolled_back_on_request_undoes_it_also_after_a_restart() {
    for call in [Invoke("a"), Once("a")] {
        for (change, captured) in CHANGES {
            for restarts in 0..3 {
                let mut world = slow(call.clone(), OnFault::Leave, change);
                world.forgetful = true;
                until_evaluated(&mut world);
                (0..restarts).for_each(|_| world.restart());
                world.happen(Event::CompensateRequested("a test".to_owned()));
                (0..restarts).for_each(|_| world.restart());
                assert!(world.execution.doubtful_calls(&world.program).is_empty());
                is_undone_once(&mut world, captured);
            }
        }
    }
}

#[test]
fn what_waits_behind_another_undo_outlives_a_restart() {
    let slow_branch = Sequence(vec![Wait(10), Invoke("b"), Compensate, Raise(418)]);
    for (change, captured) in CHANGES {
        let root = Fork(vec![Invoke("a"), slow_branch.clone()]);
        let mut world = slow(root, OnFault::Compensate, change);
        until_evaluated(&mut world);
        assert!(world.next_timer());
        while !world.done().contains(&"b-bar") {
            let calls = |(_, command): &(_, &Command)| matches!(command, Command::Call { .. });
            let ticket = *world.open.iter().find(calls).expect("something is called").0;
            world.answer(ticket);
        }
        world.restart();
        world.run();
        assert_eq!(world.done(), ["a", "b", "b-bar", "a-bar"]);
        assert_eq!(world.deeds[3].arguments, captured);
    }
}

#[test]
fn one_that_took_too_long_is_undone_before_the_next_attempt() {
    for (change, captured) in CHANGES {
        let root = Try(Box::new(Within(50, Box::new(Invoke("a")))), 2, None);
        let mut world = slow(root, OnFault::Leave, change);
        until_evaluated(&mut world);
        assert!(world.next_timer());
        assert!(matches!(world.run(), Outcome::Completed(_)));
        assert_eq!(world.done(), ["a", "a-bar", "a"]);
        assert_eq!(world.deeds[1].arguments, captured);
    }
}

#[test]
fn one_whose_own_time_is_over_is_undone_when_all_is() {
    for (change, captured) in CHANGES {
        let mut program = bare_program("built", Invoke("a"), OnFault::Leave);
        let a = program.tasks.iter_mut().find(|task| task.name == "a").expect("it is there");
        change(a);
        a.timeout = Some(Template::Literal(value::string("PT1S")));
        let mut world = World::start(&Arc::new(program), value::object([]), 1);
        until_evaluated(&mut world);
        assert!(world.next_timer());
        assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
        world.happen(Event::CompensateRequested("a test".to_owned()));
        is_undone_once(&mut world, captured);
    }
}

#[test]
fn an_undo_that_is_stopped_while_it_evaluates_is_still_owed() {
    for (change, captured) in CHANGES {
        let failing = Fork(vec![Invoke("a"), Sequence(vec![Wait(10), Raise(418)])]);
        let root = Within(60_000, Box::new(Try(Box::new(failing), 1, None)));
        let mut world = slow(root, OnFault::Compensate, change);
        until_evaluated(&mut world);
        // The sibling fails, and what rolls the attempt back waits for the worker.
        assert!(world.next_timer());
        assert_eq!(world.open.len(), 2, "{:?}", world.open);
        // Its time is over, too.
        assert!(world.next_timer());
        is_undone_once(&mut world, captured);
    }
}

/// A call by a function, which is undone as a whole.
fn by_function(change: Change) -> Arc<Program> {
    let root = Compete(vec![Node::Plain("outer"), Wait(10)]);
    let mut program = bare_program("built", root, OnFault::Leave);
    let outer = make_function(&mut program, "outer", ("a", "a-bar"), true);
    let compensation = outer.traits.compensation.as_mut().expect("it is undone");
    compensation.capture = unbounded("{a: .a, last: [limit(1; range(5))]}");
    program.tasks.iter_mut().filter(|task| task.name == "a").for_each(change);
    Arc::new(program)
}

#[test]
fn a_call_by_a_function_is_undone_as_the_function_says() {
    let export = |task: &mut Task| {
        task.export.template = unbounded("{some: [limit(2; range(5))]}");
    };
    let as_it_is = |_: &mut Task| {};
    for change in [slow_output, export, as_it_is] {
        let mut world = World::start(&by_function(change), value::object([]), 1);
        until_evaluated(&mut world);
        assert!(world.next_timer());
        is_undone_once(&mut world, r#"{"a":1,"last":[0]}"#);
    }
}

#[test]
fn what_owes_nothing_is_forgotten() {
    let root = Compete(vec![Node::Plain("a"), Wait(10)]);
    let mut world = slow(root, OnFault::Leave, slow_output);
    until_evaluated(&mut world);
    assert!(world.next_timer());
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done(), ["a"]);
}
