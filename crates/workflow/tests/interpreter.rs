//! The interpreter on small programs: what is called, what is undone, how runs end.

mod kit;

use kit::build::{Node, program, program_with};
use kit::world::World;
use outlast_expressions::{Value, value};
use outlast_workflow::program::OnFault;
use outlast_workflow::{Event, Outcome, Resolution};

use Node::{
    Child, Choice, Compensate, CompensateParallel, Compete, Export, Fork, If, Invoke, Loop, Pivot,
    Plain, Raise, Read, Scope, Sequence, Set, Try, Wait, Within,
};

fn world(root: Node) -> World {
    World::start(&program(root), value::object([]), 1)
}

fn completed(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Completed(output) => output,
        outcome => panic!("expected completion, got {outcome:?}"),
    }
}

#[test]
fn a_sequence_calls_one_after_the_other() {
    let mut world = world(Sequence(vec![Plain("a"), Plain("b"), Set("{done: .b}")]));
    assert_eq!(value::to_text(&completed(world.run())), r#"{"done":1}"#);
    assert_eq!(world.done(), ["a", "b"]);
}

#[test]
fn a_task_whose_condition_fails_is_passed_over() {
    let mut world = world(Sequence(vec![If("false", Box::new(Plain("a"))), Plain("b")]));
    completed(world.run());
    assert_eq!(world.done(), ["b"]);
}

#[test]
fn a_fork_gathers_outputs_in_order_of_declaration() {
    for seed in 0..20 {
        let root = Fork(vec![Plain("a"), Sequence(vec![Wait(5), Set("2")]), Set("3")]);
        let mut world = World::start(&program(root), value::object([]), seed);
        let output = completed(world.run());
        assert_eq!(value::to_text(&output), r#"[{"a":1},2,3]"#);
    }
}

#[test]
fn contexts_of_branches_are_merged_key_by_key() {
    let mut world =
        world(Sequence(vec![Fork(vec![Export("{a: 1}"), Export("{b: 2}")]), Set("$context")]));
    assert_eq!(value::to_text(&completed(world.run())), r#"{"a":1,"b":2}"#);
}

#[test]
fn the_winner_of_a_competition_stays_and_losers_are_undone() {
    for seed in 0..50 {
        let root = Compete(vec![
            Sequence(vec![Invoke("a"), Invoke("b")]),
            Sequence(vec![Invoke("c"), Invoke("d")]),
        ]);
        let mut world = World::start(&program(root), value::object([]), seed);
        completed(world.run());
        let net = world.net();
        let count = |name: &str| net.get(name).copied().unwrap_or(0);
        let first = (count("a"), count("b"), count("c"), count("d")) == (1, 1, 0, 0);
        let second = (count("a"), count("b"), count("c"), count("d")) == (0, 0, 1, 1);
        assert!(first || second, "seed {seed}: {:?}", world.done());
    }
}

#[test]
fn a_competition_raises_only_when_all_have_failed() {
    let mut world = world(Try(
        Box::new(Compete(vec![Raise(1), Raise(2)])),
        0,
        Some(Box::new(Set("$error.status"))),
    ));
    assert_eq!(value::to_text(&completed(world.run())), "1");
}

#[test]
fn loops_feed_each_iteration_with_the_last() {
    let mut world =
        world(Sequence(vec![Set("0"), Loop(4, 1, Box::new(Set("(. * 10) + $item + $index")))]));
    assert_eq!(value::to_text(&completed(world.run())), "246");
}

#[test]
fn a_concurrent_loop_keeps_its_window_and_gives_the_last_output() {
    let mut world = world(Loop(20, 4, Box::new(Sequence(vec![Plain("a"), Set("$index")]))));
    assert_eq!(world.open.len(), 4);
    while world.ended.is_none() {
        assert!(world.open.len() <= 4);
        assert!(world.step());
    }
    assert_eq!(world.ended, Some(Outcome::Completed(value::integer(19))));
    assert_eq!(world.done().len(), 20);
}

#[test]
fn an_error_is_retried_then_handled() {
    let mut world = world(Try(Box::new(Plain("a")), 3, Some(Box::new(Set("$error.status")))));
    world.broken.insert("a".into());
    assert_eq!(value::to_text(&completed(world.run())), "500");
    // 100 + 200 + 400 ms of exponential back-off.
    assert_eq!(world.now.as_millis(), 1_000_700);
}

#[test]
fn a_retried_attempt_is_rolled_back_first() {
    let mut world = world(Try(
        Box::new(Sequence(vec![Invoke("a"), Invoke("b"), Plain("c")])),
        2,
        Some(Box::new(Plain("d"))),
    ));
    world.broken.insert("c".into());
    completed(world.run());
    let round = ["a", "b", "b-bar", "a-bar"];
    let mut expected: Vec<&str> = [round, round].concat();
    // The last attempt is not retried: handling it decides what becomes of it.
    expected.extend(["a", "b", "d"]);
    assert_eq!(world.done(), expected);
}

#[test]
fn a_call_without_an_answer_is_asked_again_with_the_same_key() {
    for seed in 0..40 {
        let root = Try(
            Box::new(Sequence(vec![Plain("a"), Set("0"), Fork(vec![Plain("b"), Set("1")])])),
            60,
            None,
        );
        let mut world = World::start(&program(root), value::object([]), seed);
        world.losing = 40;
        completed(world.run());
        // `a` is a new operation in each attempt after it was answered. `b` is never answered
        // before the end, so it stays one operation however often its answer is lost.
        let count = |name| world.deeds.iter().filter(|deed| deed.name == name).count();
        assert_eq!(count("b"), 1, "seed {seed}: {:?}", world.done());
        assert!(1 <= count("a"));
    }
}

#[test]
fn what_failed_for_good_ends_the_run_and_can_be_tried_again() {
    let mut world = world(Sequence(vec![Plain("a"), Fork(vec![Plain("b"), Plain("c")])]));
    world.broken.insert("b".into());
    assert!(matches!(world.run(), Outcome::Faulted(_)));
    world.broken.clear();
    world.ended = None;
    world.happen(Event::RetryRequested);
    completed(world.run());
    let mut done = world.done();
    done.sort_unstable();
    assert_eq!(done, ["a", "b", "c"]);
}

#[test]
fn a_fault_rolls_the_whole_run_back_if_the_document_says_so() {
    let root = Sequence(vec![
        Invoke("a"),
        Fork(vec![Invoke("b"), Sequence(vec![Invoke("c"), Invoke("d")])]),
        Raise(418),
    ]);
    let program = program_with(root, OnFault::Compensate);
    for seed in 0..30 {
        let mut world = World::start(&program, value::object([]), seed);
        let Outcome::Compensated(fault) = world.run() else { panic!("it must roll back") };
        assert_eq!(fault.status, 418);
        assert!(world.net().values().all(|count| *count == 0), "{:?}", world.done());
        let position = |name| world.done().iter().position(|done| *done == name).unwrap();
        assert!(position("d-bar") < position("c-bar"));
        assert!(position("c-bar") < position("a-bar"));
        assert!(position("b-bar") < position("a-bar"));
    }
}

#[test]
fn compensate_undoes_its_scope_and_nothing_around() {
    let mut world = world(Sequence(vec![
        Invoke("a"),
        Scope(Box::new(Sequence(vec![Invoke("b"), Invoke("c"), Compensate]))),
        Invoke("d"),
    ]));
    let output = completed(world.run());
    assert!(value::get(&output, "d").is_some());
    assert_eq!(world.done(), ["a", "b", "c", "c-bar", "b-bar", "d"]);
}

#[test]
fn compensating_twice_undoes_once() {
    let mut world = world(Scope(Box::new(Sequence(vec![Invoke("a"), Compensate, Compensate]))));
    assert_eq!(value::to_text(&completed(world.run())), "[]");
    assert_eq!(world.done(), ["a", "a-bar"]);
}

#[test]
fn parallel_order_undoes_branches_at_once() {
    let mut world = world(Scope(Box::new(Sequence(vec![
        Invoke("a"),
        Fork(vec![Invoke("b"), Invoke("c")]),
        CompensateParallel,
    ]))));
    while !world.done().contains(&"c") || !world.done().contains(&"b") {
        world.step();
    }
    let undos = |world: &World| world.open.len();
    while undos(&world) < 2 && world.step() {}
    assert_eq!(undos(&world), 2, "both undos are under way");
    completed(world.run());
    assert_eq!(world.done().last(), Some(&"a-bar"));
}

#[test]
fn a_timeout_stops_the_task_and_is_caught_around_it() {
    let mut world = world(Try(
        Box::new(Within(50, Box::new(Sequence(vec![Wait(10), Wait(1000), Plain("a")])))),
        0,
        Some(Box::new(Set("$error.status"))),
    ));
    assert_eq!(value::to_text(&completed(world.run())), "408");
    assert_eq!(world.now.as_millis(), 1_000_050);
    assert!(world.open.is_empty(), "{:?}", world.open);
}

#[test]
fn a_pivot_without_an_answer_waits_for_a_person() {
    for (resolution, ends_well) in [
        (Resolution::Done(value::integer(5)), true),
        (Resolution::Retry, true),
        (Resolution::NotDone, false),
        (Resolution::Abandon, false),
    ] {
        let mut world = world(Pivot("p"));
        world.losing = 100;
        world.step();
        let parked = world.execution.parked();
        assert_eq!(parked.len(), 1);
        assert!(!parked[0].undo);
        world.losing = 0;
        world.happen(Event::Resolved { effect: parked[0].effect, resolution });
        assert_eq!(matches!(world.run(), Outcome::Completed(_)), ends_well);
        assert_eq!(world.done(), ["p"]);
    }
}

#[test]
fn a_pivot_is_not_repeated_after_a_restart() {
    let mut world = world(Pivot("p"));
    world.restart();
    assert_eq!(world.execution.parked().len(), 1);
    assert!(world.open.is_empty());
}

#[test]
fn an_undo_that_keeps_failing_is_parked_and_resolved() {
    let program = program_with(Sequence(vec![Invoke("a"), Raise(1)]), OnFault::Compensate);
    let mut world = World::start(&program, value::object([]), 3);
    world.broken.insert("a-bar".into());
    while world.execution.parked().is_empty() {
        assert!(world.step());
    }
    let parked = world.execution.parked();
    assert!(parked[0].undo);
    world.broken.clear();
    world.happen(Event::Resolved { effect: parked[0].effect, resolution: Resolution::Retry });
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["a", "a-bar"]);
}

#[test]
fn what_nobody_waits_for_changes_nothing() {
    let mut world = world(Sequence(vec![Plain("a"), Wait(10), Plain("b")]));
    let stale = *world.open.keys().next().expect("the call is open");
    world.step();
    let answer = outlast_workflow::Answer::Succeeded(value::integer(1));
    assert!(world.happen(Event::Answered { ticket: stale, answer }).delta.is_empty());
    assert!(world.happen(Event::TimerFired(stale)).delta.is_empty());
    let event = value::object([("type", value::string("unwanted"))]);
    assert!(world.happen(Event::Arrived { number: 1, event }).delta.is_empty());
    completed(world.run());
}

#[test]
fn alternatives_are_tried_in_order() {
    let mut world = world(Choice("a", vec!["b", "c"]));
    world.broken.extend(["a".to_owned(), "b".to_owned()]);
    completed(world.run());
    assert_eq!(world.done(), ["c"]);
}

#[test]
fn a_suspended_run_holds_and_goes_on() {
    let mut world = world(Sequence(vec![Plain("a"), Plain("b")]));
    world.happen(Event::SuspendRequested);
    world.step();
    assert!(world.open.is_empty(), "the next call waits");
    world.happen(Event::ResumeRequested);
    completed(world.run());
    assert_eq!(world.done(), ["a", "b"]);
}

#[test]
fn cancelling_stops_everything_and_undoes_nothing() {
    let mut world = world(Fork(vec![
        Sequence(vec![Invoke("a"), Wait(1000)]),
        Sequence(vec![Wait(1000), Plain("b")]),
    ]));
    world.step();
    world.happen(Event::CancelRequested);
    assert_eq!(world.ended, Some(Outcome::Cancelled));
    assert!(world.open.is_empty());
    assert_eq!(world.done(), ["a"]);
}

#[test]
fn rolling_back_on_request_undoes_everything() {
    let mut world = world(Sequence(vec![Invoke("a"), Invoke("b"), Wait(1000), Invoke("c")]));
    world.step();
    world.step();
    world.happen(Event::CompensateRequested("changed my mind".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["a", "b", "b-bar", "a-bar"]);
}

#[test]
fn a_completed_child_is_rolled_back_with_its_parent() {
    let program =
        program_with(Sequence(vec![Invoke("a"), Child("inner"), Raise(1)]), OnFault::Compensate);
    let mut world = World::start(&program, value::object([]), 3);
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.children.values().collect::<Vec<_>>(), [&"compensated"]);
    assert_eq!(world.done(), ["a", "a-bar"]);
}

#[test]
fn an_unbounded_expression_is_evaluated_by_a_worker() {
    let mut world = world(Sequence(vec![Set("[range(3)]"), Set("length")]));
    assert_eq!(world.open.len(), 1);
    assert_eq!(value::to_text(&completed(world.run())), "3");
}

#[test]
fn readonly_calls_leave_no_trace_in_the_ledger() {
    let mut world = world(Sequence(vec![Read("r"), Plain("p"), Wait(1)]));
    assert!(world.execution.ledger().is_empty());
    world.step();
    assert_eq!(world.execution.ledger().len(), 1);
    world.step();
    assert!(world.execution.ledger().is_empty(), "nothing is owed for it");
}

#[test]
fn a_loop_without_effects_yields_to_its_neighbours() {
    let mut world = world(Loop(20_000, 1, Box::new(Set(". "))));
    assert_eq!(world.yields, 1);
    completed(world.run());
}

#[test]
fn what_a_task_is_given_is_written_down_once() {
    let mut world = world(Sequence(vec![Wait(5), Set("{mark: \"xyzzy\"}"), Wait(5), Plain("a")]));
    world.told = Some(Vec::new());
    assert!(world.step());
    let told = minicbor::to_vec(world.told.as_deref().unwrap()).unwrap();
    // It is the data, and what the second wait was given before and after `input.from`.
    assert_eq!(told.windows(5).filter(|bytes| bytes == b"xyzzy").count(), 1);
    assert_eq!(value::to_text(&completed(world.run())), r#"{"a":1}"#);
}
