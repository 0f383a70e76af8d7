//! Calls that have happened and whose tasks fail all the same, because an expression about the result
//! has no value: they are undone like any other, or a person is asked.

mod kit;

use std::sync::Arc;

use kit::build::{Node, bare_program, expression, make_function};
use kit::world::World;
use outlast_expressions::value;
use outlast_workflow::program::{Compensation, OnFault, Task, Template};
use outlast_workflow::{Event, Outcome, Resolution};

use Node::{Cancellable, Invoke, Sequence, Try};

/// What makes a task fail after its call.
type Change = fn(&mut Task);

fn fails(source: &str) -> Option<Template> {
    Some(Template::Computed(expression(source)))
}

fn compensation(task: &mut Task) -> &mut Compensation {
    task.traits.compensation.as_mut().expect("it is undone")
}

fn output(task: &mut Task) {
    task.output.template = fails(".a | error");
}

fn output_by_a_worker(task: &mut Task) {
    task.output.template = fails("[range(5)] | error");
}

fn capture(task: &mut Task) {
    compensation(task).capture = fails(".a | error");
}

fn capture_by_a_worker(task: &mut Task) {
    compensation(task).capture = fails("[range(5)] | error");
}

fn cost(task: &mut Task) {
    compensation(task).cost = fails(".nope | error");
}

fn export(task: &mut Task) {
    task.export.template = fails(".a | error");
}

/// What keeps an undo from being told what it is to be told.
const WITHOUT_RESULT: [Change; 4] = [output, output_by_a_worker, capture, capture_by_a_worker];

/// `b`, then `a`, which fails; then all is rolled back.
fn rolled_back(a: Node, change: Change) -> World {
    let root = Sequence(vec![Invoke("b"), a]);
    let mut program = bare_program("built", root, OnFault::Compensate);
    program.tasks.iter_mut().filter(|task| task.name == "a").for_each(change);
    World::start(&Arc::new(program), value::object([]), 1)
}

/// Works everything off that needs no person.
fn work_off(world: &mut World) {
    while world.execution.parked().is_empty() && world.step() {}
}

#[test]
fn a_task_that_fails_after_what_its_undo_needs_is_known_is_undone() {
    for change in [cost, export] {
        let mut world = rolled_back(Invoke("a"), change);
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        assert_eq!(world.done(), ["b", "a", "a-bar", "b-bar"]);
        assert_eq!(world.deeds[2].arguments, r#"{"input":{"b":1},"output":{"a":1}}"#);
        assert!(world.execution.ledger().is_empty());
    }
}

#[test]
fn an_undo_that_lacks_its_result_is_left_to_a_person_and_the_rest_goes_on_then() {
    for change in WITHOUT_RESULT {
        for restarts in 0..2 {
            let mut world = rolled_back(Invoke("a"), change);
            work_off(&mut world);
            (0..restarts).for_each(|_| world.restart());
            let [parked] = &world.execution.parked()[..] else { panic!("one is parked") };
            assert!(parked.reason.contains("what undoes it is not known"), "{}", parked.reason);
            assert_eq!(world.done(), ["b", "a"], "nothing is undone before what came later");
            let (effect, done) = (parked.effect, Resolution::Done(value::object([])));
            world.happen(Event::Resolved { effect, resolution: done });
            assert!(matches!(world.run(), Outcome::Compensated(_)));
            assert_eq!(world.done(), ["b", "a", "b-bar"]);
            assert!(world.execution.ledger().is_empty(), "nothing is left that is owed");
        }
    }
}

#[test]
fn a_person_may_have_it_tried_without_the_result() {
    let mut world = rolled_back(Invoke("a"), output);
    work_off(&mut world);
    let effect = world.execution.parked()[0].effect;
    world.happen(Event::Resolved { effect, resolution: Resolution::Retry });
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["b", "a", "a-bar", "b-bar"]);
    assert_eq!(world.deeds[2].arguments, r#"{"input":{"b":1},"output":null}"#);
}

#[test]
fn a_tolerant_undo_needs_no_result() {
    for change in [output, output_by_a_worker] {
        let mut world = rolled_back(Cancellable("a"), change);
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        assert!(world.net().values().all(|net| *net == 0), "{:?}", world.net());
        assert!(world.execution.ledger().is_empty());
    }
}

#[test]
fn an_attempt_that_fails_so_is_undone_before_the_next_one() {
    let root = Try(Box::new(Invoke("a")), 1, None);
    let mut program = bare_program("built", root, OnFault::Leave);
    program.tasks.iter_mut().filter(|task| task.name == "a").for_each(cost);
    let mut world = World::start(&Arc::new(program), value::object([]), 1);
    world.run();
    assert_eq!(world.done(), ["a", "a-bar", "a"]);
}

#[test]
fn a_call_by_a_function_is_undone_as_the_function_says() {
    let root = Sequence(vec![Invoke("b"), Node::Plain("outer")]);
    let mut program = bare_program("built", root, OnFault::Compensate);
    make_function(&mut program, "outer", ("a", "a-bar"), true);
    program.tasks.iter_mut().filter(|task| task.name == "a").for_each(output);
    let mut world = World::start(&Arc::new(program), value::object([]), 1);
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["b", "a", "a-bar", "b-bar"]);
}
