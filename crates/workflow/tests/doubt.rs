//! Calls of which nobody knows what became: asked about, undone as they are, or left to a person, by
//! what the activity and its provider allow.

mod kit;

use std::sync::Arc;

use kit::build::{Node, add_call, bare_program, make_function, program_with};
use kit::world::World;
use outlast_expressions::value;
use outlast_workflow::program::{OnFault, Template};
use outlast_workflow::{Answer, Command, Event, Fault, FaultKind, Outcome, Program, Resolution};

use Node::{
    Cancellable, Compensate, Compete, Fork, Invoke, Once, Pivot, Plain, Raise, Read, Sequence, Try,
    Wait, Within,
};

fn start(root: Node, on_fault: OnFault) -> World {
    World::start(&program_with(root, on_fault), value::object([]), 1)
}

/// A race that the waiting branch wins while the call of the other is still under way.
fn lost_race(call: Node) -> World {
    let mut world = start(Compete(vec![call, Wait(10)]), OnFault::Leave);
    world.next_timer();
    world
}

#[test]
fn a_loser_that_is_undone_by_its_result_is_asked_again_and_undone() {
    let mut world = lost_race(Invoke("a"));
    world.run();
    assert_eq!(world.done(), ["a", "a-bar"]);
}

#[test]
fn a_loser_whose_undo_tolerates_that_it_never_ran_is_undone_without_asking() {
    let mut world = lost_race(Cancellable("a"));
    let asked = world.open.values().map(|command| format!("{command:?}")).collect::<String>();
    assert!(asked.contains("a-cancel"), "{asked}");
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert!(world.done().is_empty(), "it was not carried out in order to be undone");
}

#[test]
fn a_loser_with_nothing_to_undo_is_forgotten() {
    let mut world = lost_race(Plain("a"));
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert!(world.done().is_empty());
}

/// Only a person could find out what became of a call that must not be made twice, unless its answer comes.
#[test]
fn a_call_whose_answer_comes_when_it_is_not_wanted_any_more_is_undone_without_a_person() {
    let rolled_back = || {
        let mut world = start(Sequence(vec![Invoke("first"), Once("a")]), OnFault::Leave);
        let (first, _) = world.call_of("first").expect("it is called at once");
        world.answer(first);
        world.happen(Event::CompensateRequested("the test asks for it".into()));
        world
    };
    let ways: [(&dyn Fn() -> World, &[&str]); 2] =
        [(&|| lost_race(Once("a")), &[]), (&rolled_back, &["first"])];
    for (begun, before) in ways {
        for fails in [false, true] {
            let mut world = begun();
            assert_eq!(world.execution.parked().len(), 1);
            if fails {
                world.broken.insert("a".to_owned());
            }
            let (late, _) = world.call_of("a").expect("its answer is waited for");
            world.answer(late);
            assert!(world.execution.parked().is_empty());
            world.run();
            let after = if fails { vec![] } else { vec!["a", "a-bar"] };
            let undone = before.iter().map(|_| "first-bar");
            let all: Vec<&str> = before.iter().copied().chain(after).chain(undone).collect();
            assert_eq!(world.done(), all, "{fails}");
        }
    }
}

#[test]
fn an_answer_that_is_lost_with_its_node_leaves_an_unwanted_call_to_a_person() {
    let mut world = lost_race(Once("a"));
    world.restart();
    assert_eq!(world.call_of("a"), None);
    assert_eq!(world.execution.parked().len(), 1);
}

#[test]
fn a_pivot_under_way_when_all_is_rolled_back_waits_for_a_person() {
    let slow = Sequence(vec![Wait(5), Raise(418)]);
    let root = Sequence(vec![Invoke("first"), Fork(vec![Pivot("p"), slow])]);
    for (resolution, left) in [
        (Resolution::NotDone, vec!["first", "first-bar"]),
        (Resolution::Abandon, vec!["first", "first-bar"]),
    ] {
        let mut world = start(root.clone(), OnFault::Compensate);
        world.step();
        world.next_timer();
        assert_eq!(world.execution.parked().len(), 1, "{:?}", world.open);
        assert!(world.ended.is_none(), "nothing before it is undone until it is known");
        let effect = world.execution.parked()[0].effect;
        world.happen(Event::Resolved { effect, resolution });
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        assert_eq!(world.done(), left);
    }
}

/// What it takes back is then taken back: it is not undone once more afterwards, as it was in the plan.
#[test]
fn an_undo_that_is_stopped_in_the_midst_of_its_call_is_asked_for_once_more() {
    let rolls_back =
        Try(Box::new(Sequence(vec![Invoke("a"), Raise(418)])), 0, Some(Box::new(Compensate)));
    let root = Fork(vec![rolls_back, Sequence(vec![Wait(50), Raise(419)])]);
    let mut world = start(root, OnFault::Compensate);
    while world.call_of("a-bar").is_none() {
        let (ticket, _) = world.call_of("a").expect("it is called first");
        world.answer(ticket);
    }
    let mut asked = vec![world.call_of("a-bar").expect("it was just seen")];
    world.next_timer();
    while world.ended.is_none() {
        asked.extend(world.call_of("a-bar"));
        assert!(world.step(), "something can happen until the end");
    }
    assert_eq!(world.done(), ["a", "a-bar"]);
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0].1.key, asked[1].1.key);
}

/// The service does what it is asked, and nobody hears of it.
fn lose_answer(world: &mut World, name: &str) {
    let (ticket, request) = world.call_of(name).expect("it is being called");
    world.open.remove(&ticket);
    world.serve(&request);
    let fault = Fault::new(FaultKind::Timeout, "no answer", "lost");
    world.happen(Event::Answered { ticket, answer: Answer::Unknown(fault) });
}

/// Only a death of its node asks again by itself: otherwise it is for the document, or a person, to say.
#[test]
fn a_lost_answer_fails_its_task_and_whoever_tries_it_again_asks_with_the_same_key() {
    let key_of = |world: &World| world.call_of("a").map(|(_, request)| request.key);
    let mut world = start(Invoke("a"), OnFault::Leave);
    let key = key_of(&world).expect("it is called at once");
    world.restart();
    assert_eq!(key_of(&world), Some(key), "its node died");
    lose_answer(&mut world, "a");
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    assert_eq!(key_of(&world), None);
    world.happen(Event::RetryRequested);
    assert_eq!(key_of(&world), Some(key), "a person has it tried again");
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done(), ["a"]);
}

/// It came after what the attempt is rolled back for, so it goes first.
#[test]
fn a_call_of_a_failed_attempt_is_undone_before_what_came_before_it() {
    let body = Sequence(vec![Invoke("a"), Invoke("b")]);
    let mut world = start(Try(Box::new(body), 2, None), OnFault::Leave);
    world.step();
    lose_answer(&mut world, "b");
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done(), ["a", "b", "b-bar", "a-bar", "a", "b"]);
}

/// Nothing else was done in the attempt, so its call is asked for again if it is the same; if it is not,
/// nobody wants it any more.
#[test]
fn a_call_that_the_next_attempt_does_not_ask_for_is_undone() {
    let body = Sequence(vec![Read("look"), Invoke("b")]);
    let look = |world: &mut World, number: i64| {
        let (ticket, _) = world.call_of("look").expect("it looks first");
        world.open.remove(&ticket);
        let seen = value::object([("seen", value::integer(number))]);
        world.happen(Event::Answered { ticket, answer: Answer::Succeeded(seen) });
    };
    for (second, left) in [(1, vec!["b"]), (2, vec!["b", "b", "b-bar"])] {
        let mut world = start(Try(Box::new(body.clone()), 2, None), OnFault::Leave);
        look(&mut world, 1);
        lose_answer(&mut world, "b");
        world.next_timer();
        look(&mut world, second);
        assert!(matches!(world.run(), Outcome::Completed(_)));
        assert_eq!(world.done(), left);
    }
}

#[test]
fn a_pivot_that_took_too_long_is_not_asked_again_by_the_next_attempt() {
    let mut world = start(Try(Box::new(Within(50, Box::new(Pivot("p")))), 2, None), OnFault::Leave);
    let (first, _) = world.call_of("p").expect("it is called at once");
    // Its deadline passes, then the delay before the next attempt.
    world.next_timer();
    world.next_timer();
    let calls = world.open.iter().filter(|(_, open)| matches!(open, Command::Call { .. }));
    let calls: Vec<_> = calls.map(|(ticket, _)| *ticket).collect();
    assert_eq!(calls, [first], "only the answer to the first is still waited for");
    let effect = world.execution.parked()[0].effect;
    world.happen(Event::Resolved { effect, resolution: Resolution::Done(value::integer(1)) });
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert!(world.done().is_empty(), "the person did not ask for it again");
}

/// A call by a function, with another function as its alternative and an undo.
fn choice(tolerant: bool) -> Arc<Program> {
    let mut program = bare_program("built", Plain("choice"), OnFault::Leave);
    let two = add_call(&mut program, "two");
    let task = make_function(&mut program, "choice", ("one", "one-bar"), tolerant);
    task.traits.alternatives = vec![two];
    Arc::new(program)
}

#[test]
fn a_first_choice_that_may_have_happened_is_undone_beside_its_alternative() {
    let mut world = World::start(&choice(false), value::object([]), 1);
    // The answer is lost after the service has acted.
    world.losing = 100;
    world.step();
    world.losing = 0;
    assert!(matches!(world.run(), Outcome::Completed(_)));
    let mut done = world.done();
    done.sort_unstable();
    assert_eq!(done, ["one", "one-bar", "two"]);
}

#[test]
fn asking_about_a_first_choice_tries_no_alternative() {
    let mut world = World::start(&choice(false), value::object([]), 1);
    world.losing = 100;
    world.step();
    world.losing = 0;
    // Whoever asks now is told that it did not happen; only the run itself goes the other way.
    let asked = world.open.iter().find(|(_, command)| format!("{command:?}").contains("\"one\""));
    let ticket = *asked.expect("it is asked about").0;
    let refused = Fault::new(FaultKind::Communication, "refused", "it never came");
    let answer = Answer::Failed(refused.with_status(409));
    world.happen(Event::Answered { ticket, answer });
    world.run();
    assert_eq!(world.done().iter().filter(|name| **name == "two").count(), 1);
}

#[test]
fn a_parked_undo_that_is_stopped_is_still_owed() {
    let attempt = Try(Box::new(Sequence(vec![Invoke("a"), Raise(418)])), 1, None);
    let root = Within(60_000, Box::new(attempt));
    let mut world = start(root, OnFault::Compensate);
    world.broken.insert("a-bar".to_owned());
    while world.execution.parked().is_empty() {
        assert!(world.step());
    }
    // Its time is over while the undo waits for a person.
    assert!(world.next_timer());
    world.broken.clear();
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["a", "a-bar"]);
}

/// A function with an undo and a timeout of its own, whose call is carried out and not heard of.
fn slow_function(tolerant: bool) -> World {
    let root = Sequence(vec![Plain("outer")]);
    let mut program = bare_program("built", root, OnFault::Compensate);
    let undo = if tolerant { "a-cancel" } else { "a-bar" };
    let task = make_function(&mut program, "outer", ("a", undo), tolerant);
    task.timeout = Some(Template::Literal(value::string("PT1S")));
    let mut world = World::start(&Arc::new(program), value::object([]), 1);
    let (_, request) = world.call_of("a").expect("it is called at once");
    world.serve(&request);
    world
}

#[test]
fn the_call_of_a_function_whose_own_time_is_over_is_undone_as_the_function_says() {
    for tolerant in [false, true] {
        let mut world = slow_function(tolerant);
        assert!(world.next_timer());
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        assert_eq!(world.done(), ["a", "a-bar"]);
    }
}

#[test]
fn what_is_asked_for_again_has_the_time_of_the_attempt_that_asks() {
    let root = Try(Box::new(Within(50, Box::new(Invoke("a")))), 2, None);
    let mut world = start(root, OnFault::Leave);
    let (_, first) = world.call_of("a").expect("it is called at once");
    // Its deadline passes, then the delay before the next attempt.
    world.next_timer();
    world.next_timer();
    let (_, second) = world.call_of("a").expect("it is asked for again");
    assert_eq!(second.key, first.key);
    assert!(second.deadline.is_some_and(|deadline| world.now < deadline), "{second:?}");
}

#[test]
fn what_is_only_asked_about_has_no_deadline_of_the_task_that_was_stopped() {
    let mut world = start(Within(50, Box::new(Invoke("a"))), OnFault::Compensate);
    world.next_timer();
    let (_, question) = world.call_of("a").expect("it is asked what became of it");
    assert_eq!(question.deadline, None);
}

#[test]
fn that_this_node_let_nothing_leave_says_nothing_about_an_earlier_time() {
    for kind in [FaultKind::Timeout, FaultKind::Configuration, FaultKind::Authorization] {
        let mut world = start(Compete(vec![Invoke("a"), Wait(10)]), OnFault::Leave);
        let (_, request) = world.call_of("a").expect("it is called at once");
        world.serve(&request);
        world.next_timer();
        let (ticket, _) = world.call_of("a").expect("it is asked what became of it");
        world.open.remove(&ticket);
        let answer = Answer::Failed(Fault::new(kind, "not made", "nothing left this node"));
        world.happen(Event::Answered { ticket, answer });
        world.run();
        assert_eq!(world.done(), ["a", "a-bar"]);
    }
}

/// What an earlier attempt asked for after something that is undone now goes first, though this attempt did not
/// ask for it; what came later than it is undone before that.
#[test]
fn what_an_earlier_attempt_did_after_what_is_undone_is_undone_before_it() {
    let inner = Try(Box::new(Invoke("a")), 0, Some(Box::new(Invoke("b"))));
    let body = Sequence(vec![inner, Invoke("d"), Plain("c")]);
    let mut world = start(Try(Box::new(body), 5, None), OnFault::Compensate);
    // Both act in the first attempt, and no answer comes.
    world.losing = 100;
    while world.call_of("b").is_none() {
        assert!(world.step());
    }
    world.step();
    world.losing = 0;
    assert_eq!(world.done(), ["a", "b"]);
    world.broken.insert("c".to_owned());
    while !world.done().contains(&"a-bar") {
        assert!(world.step());
    }
    world.broken.clear();
    assert_eq!(world.done(), ["a", "b", "d", "d-bar", "b-bar", "a-bar"]);
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done()[6..], ["a", "d", "c"]);
}
