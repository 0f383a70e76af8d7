//! `run: workflow` where the workflow is part of the program: a run of its own in all that a document
//! can tell, and one run with the one around it in all that is done to the world.

mod kit;

use std::collections::BTreeSet;
use std::sync::Arc;

use kit::build::{Node, bare_program, expression};
use kit::world::World;
use outlast_expressions::value;
use outlast_lineage::Digest;
use outlast_workflow::program::bundle::link;
use outlast_workflow::program::{Flow, OnFault, Template};
use outlast_workflow::{Event, FaultKind, Outcome, Program};

use Node::{
    Child, Compensate, Export, Fork, Invoke, Loop, Plain, Raise, Scope, Sequence, Set, Try,
    UndoneBy, Wait,
};

/// A program that runs workflows `one` and `two` as part of itself.
fn linked(root: Node, one: Program, two: Program) -> Arc<Program> {
    let root = bare_program("around", root, OnFault::Leave);
    let members = [
        (vec!["test/one:1.0.0".to_owned()], Arc::new(one)),
        (vec!["test/two:1.0.0".to_owned()], Arc::new(two)),
    ];
    Arc::new(link(Digest::of(b"bundle"), &root, &members))
}

fn nothing() -> Program {
    bare_program("two", Set("."), OnFault::Leave)
}

fn part(body: Node) -> Program {
    bare_program("one", body, OnFault::Leave)
}

fn start(program: &Arc<Program>) -> World {
    World::start_kept(program, value::parse(r#"{"from":"around"}"#).expect("it is JSON"), 1)
}

fn run(program: &Arc<Program>) -> (World, Outcome) {
    let mut world = start(program);
    let outcome = world.run();
    (world, outcome)
}

fn output(outcome: Outcome) -> String {
    match outcome {
        Outcome::Completed(output) => value::to_text(&output),
        other => panic!("expected completion, got {other:?}"),
    }
}

#[test]
fn a_part_gets_the_tasks_input_and_gives_its_output() {
    let mut one = part(Sequence(vec![Plain("call"), Set("{ answer: $workflow.input.from }")]));
    one.output.template = Some(Template::Computed(expression(".answer")));
    let (world, outcome) =
        run(&linked(Sequence(vec![Child("one"), Plain("after")]), one, nothing()));
    assert_eq!(world.done(), ["call", "after"]);
    assert!(world.deeds[1].arguments.contains("around"), "{:?}", world.deeds);
    assert_eq!(output(outcome), r#"{"after":1}"#);
}

#[test]
fn a_part_sees_nothing_of_the_run_around_it_and_leaves_nothing_there() {
    // The loop's item and the context around are not visible inside, and the context made inside is
    // not visible around.
    let inside = Sequence(vec![Export("$context + { inner: 1 }"), Set("{ inside: $context }")]);
    let around = Sequence(vec![
        Export("$context + { outer: 1 }"),
        Loop(1, 1, Box::new(Child("one"))),
        Set("{ inside: .inside, around: $context }"),
    ]);
    let (_, outcome) = run(&linked(around, part(inside), nothing()));
    let output = output(outcome);
    let (inside, around) = output.split_once("\"around\":").expect("both are told");
    assert!(inside.contains("inner") && !inside.contains("outer"), "{output}");
    assert!(around.contains("outer") && !around.contains("inner"), "{output}");
}

#[test]
fn the_end_of_a_part_is_not_the_end_of_the_run() {
    let mut one = part(Sequence(vec![Plain("first"), Plain("second")]));
    let first = one.tasks.iter().position(|task| task.name == "first").expect("it is there");
    one.tasks[first].then = Flow::End;
    let (world, _) = run(&linked(Sequence(vec![Child("one"), Plain("after")]), one, nothing()));
    assert_eq!(world.done(), ["first", "after"]);
}

#[test]
fn a_fault_in_a_part_is_caught_around_and_stays_undoable() {
    let inside = Sequence(vec![Invoke("a"), Raise(418)]);
    let body = Try(Box::new(Child("one")), 0, Some(Box::new(Plain("handled"))));
    let program = linked(Sequence(vec![body, Compensate]), part(inside), nothing());
    let (world, outcome) = run(&program);
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(world.done(), ["a", "handled", "a-bar"]);
}

#[test]
fn a_part_that_rolls_back_does_so_before_its_fault_is_raised() {
    let one = bare_program("one", Sequence(vec![Invoke("a"), Raise(418)]), OnFault::Compensate);
    let body = Try(Box::new(Child("one")), 0, Some(Box::new(Plain("handled"))));
    let (world, outcome) = run(&linked(body, one, nothing()));
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(world.done(), ["a", "a-bar", "handled"]);
}

#[test]
fn an_uncaught_fault_of_a_part_points_at_the_task_that_ran_it() {
    let (_, outcome) = run(&linked(Child("one"), part(Raise(418)), nothing()));
    let Outcome::Faulted(fault) = outcome else { panic!("{outcome:?}") };
    assert_eq!((fault.status, fault.instance.as_deref()), (418, Some("/child")));
}

#[test]
fn a_part_that_takes_too_long_times_out() {
    let mut one = part(Wait(10_000));
    let after = value::object([("milliseconds", value::integer(50))]);
    one.timeout = Some(Template::Literal(after));
    let (_, outcome) = run(&linked(Child("one"), one, nothing()));
    let Outcome::Faulted(fault) = outcome else { panic!("{outcome:?}") };
    assert_eq!(fault.kind, FaultKind::Timeout.uri());
    assert_eq!(fault.detail.as_deref(), Some("`one` took longer than it may"));
}

#[test]
fn what_a_part_did_is_rolled_back_with_the_scope_around() {
    let inside = Fork(vec![Invoke("b"), Invoke("c")]);
    let around = Sequence(vec![
        Scope(Box::new(Sequence(vec![Invoke("a"), Child("one"), Invoke("d")]))),
        Compensate,
    ]);
    let (world, _) = run(&linked(around, part(inside), nothing()));
    let done = world.done();
    assert_eq!(&done[4..5], ["d-bar"], "{done:?}");
    assert_eq!(done.last(), Some(&"a-bar"));
    assert!(world.net().values().all(|net| *net == 0), "{done:?}");
}

#[test]
fn a_part_run_twice_calls_twice() {
    let around = Sequence(vec![Child("one"), Child("one"), Loop(2, 2, Box::new(Child("one")))]);
    let (world, _) = run(&linked(around, part(Child("two")), {
        bare_program("two", Invoke("a"), OnFault::Leave)
    }));
    let keys: BTreeSet<&str> = world.deeds.iter().map(|deed| deed.key.as_str()).collect();
    assert_eq!((world.deeds.len(), keys.len()), (4, 4));
}

#[test]
fn workflows_that_run_each_other_without_end_fault() {
    let program = linked(Child("one"), part(Child("two")), {
        bare_program("two", Child("one"), OnFault::Leave)
    });
    let (_, outcome) = run(&program);
    let Outcome::Faulted(fault) = outcome else { panic!("{outcome:?}") };
    assert_eq!(fault.detail.as_deref(), Some("sub-workflows nest deeper than 32"));
}

#[test]
fn a_faulted_part_is_tried_again_from_where_it_failed() {
    let inside = Sequence(vec![Invoke("a"), Plain("b")]);
    let program = linked(Child("one"), part(inside), nothing());
    let mut world = start(&program);
    world.broken.insert("b".to_owned());
    assert!(matches!(world.run(), Outcome::Faulted(_)));
    world.broken.clear();
    world.ended = None;
    world.happen(Event::RetryRequested);
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done(), ["a", "b"]);
}

#[test]
fn a_part_comes_back_from_bytes_and_goes_on_at_another_node() {
    let inside = Sequence(vec![Invoke("b"), Fork(vec![Invoke("c"), Invoke("d")]), Invoke("e")]);
    let around = Sequence(vec![Invoke("a"), Child("one"), Invoke("f")]);
    for steps in 0..6 {
        let mut world = start(&linked(around.clone(), part(inside.clone()), nothing()));
        for _ in 0..steps {
            world.step();
        }
        world.restart();
        world.take_over(2);
        world.run();
        let net: Vec<(String, i64)> = world.net().into_iter().collect();
        let once = ["a", "b", "c", "d", "e", "f"].map(|name| (name.to_owned(), 1));
        assert_eq!(net, once, "after {steps} steps");
    }
}

#[test]
fn a_line_that_is_lost_takes_back_what_its_parts_did() {
    let inside = Sequence(vec![Invoke("b"), Invoke("c")]);
    let around = Sequence(vec![Invoke("a"), Child("one"), Invoke("d")]);
    for steps in 0..=4 {
        let mut world = start(&linked(around.clone(), part(inside.clone()), nothing()));
        for _ in 0..steps {
            world.step();
        }
        world.open.clear();
        world.happen(Event::LineLost);
        let undo = world.acted.keys().copied().collect();
        world.happen(Event::Withdrawn { undo });
        while world.step() {}
        assert!(world.net().values().all(|net| *net == 0), "after {steps}: {:?}", world.done());
        assert_eq!(world.done().len(), 2 * steps, "after {steps}: {:?}", world.done());
    }
}

/// An activity whose undo says which workflow it is of, and what it was given.
fn telling() -> Node {
    let tell = Set("{ id: $workflow.id, from: $workflow.input.from, context: $context }");
    UndoneBy("a", Box::new(Sequence(vec![tell, Plain("told")])))
}

/// What the undos were told, and what the part itself saw.
fn told(world: &World) -> (Vec<&str>, &str) {
    let arguments = |name: &'static str| {
        let called = world.deeds.iter().filter(move |deed| deed.name == name);
        called.map(|deed| deed.arguments.as_str())
    };
    (arguments("told").collect(), arguments("seen").next().expect("the part says what it sees"))
}

#[test]
fn an_undo_is_of_the_workflow_that_its_activity_is_of_whoever_rolls_back() {
    let see = Set("{ id: $workflow.id, from: $workflow.input.from, context: $context }");
    let body = |then: Node| {
        let calls = vec![Export("$context + { inner: 1 }"), see.clone(), Plain("seen"), telling()];
        Sequence(calls.into_iter().chain([then]).collect())
    };
    let around = |child: Node| {
        let before = vec![Export("$context + { outer: 1 }"), Set("{ from: \"inside\" }")];
        Sequence(before.into_iter().chain([child, Wait(1_000), Raise(418)]).collect())
    };
    let stopped = || Fork(vec![telling(), Wait(60_000)]);
    let caught = Try(Box::new(Child("one")), 0, Some(Box::new(Plain("handled"))));
    let cases = [
        ("done", around(Child("one")), body(Set(".")), OnFault::Leave, 1),
        ("under way", around(Child("one")), body(stopped()), OnFault::Leave, 2),
        ("rolled back by itself", around(caught.clone()), body(Raise(500)), OnFault::Compensate, 1),
        ("faulted", around(caught), body(Raise(500)), OnFault::Leave, 1),
    ];
    for (case, around, body, on_fault, count) in cases {
        for lost in [false, true] {
            let one = bare_program("one", body.clone(), on_fault);
            let mut world = start(&linked(around.clone(), one, nothing()));
            for _ in 0..count + 1 {
                world.step();
            }
            world.restart();
            if lost {
                world.open.clear();
                world.happen(Event::LineLost);
                let undo = world.acted.keys().copied().collect();
                world.happen(Event::Withdrawn { undo });
            } else {
                world.happen(Event::CompensateRequested("the test asks for it".into()));
            }
            while world.step() {}
            let (told, seen) = told(&world);
            assert_eq!(told, vec![seen; count], "{case}, lost: {lost}: {:?}", world.done());
            assert!(seen.contains("inside") && seen.contains("inner"), "{seen}");
        }
    }
}

#[test]
fn so_is_the_undo_of_a_call_that_was_not_answered() {
    let see = Set("{ id: $workflow.id, from: $workflow.input.from, context: $context }");
    let one = part(Sequence(vec![see, Plain("seen"), telling()]));
    let around = Sequence(vec![Set("{ from: \"inside\" }"), Child("one")]);
    let mut world = start(&linked(around, one, nothing()));
    world.step();
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["seen", "a", "told"], "asked again, and undone");
    let (told, seen) = told(&world);
    assert_eq!(told, [seen]);
}
