//! A faulted run keeps everything where it was and does nothing, until it is tried again, rolled back or
//! cancelled.

mod kit;

use std::sync::Arc;
use std::time::Duration;

use kit::build::{Node, bare_program, program, program_with};
use kit::world::World;
use outlast_expressions::value;
use outlast_workflow::program::{Kind, OnFault, Template};
use outlast_workflow::{Answer, Command, Event, Fault, FaultKind, Outcome, Status, Ticket};

use Node::{Compete, Fork, Invoke, Once, Plain, Raise, Sequence, Try, UndoneBy, Wait, Within};

fn start(root: Node) -> World {
    World::start(&program(root), value::object([]), 1)
}

/// The open call of a service.
fn call_of(world: &World, name: &str) -> Option<Ticket> {
    world.call_of(name).map(|(ticket, _)| ticket)
}

/// A run whose call `c` fails while the rest of it is under way.
fn faulted_beside(other: Node) -> World {
    let mut world = start(Fork(vec![other, Plain("c")]));
    world.broken.insert("c".to_owned());
    let failing = call_of(&world, "c").expect("it is called at once");
    world.answer(failing);
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    world.broken.clear();
    world
}

#[test]
fn a_restart_opens_nothing_of_it_again() {
    for other in [Plain("a"), Once("a"), Wait(10), Sequence(vec![Wait(10), Plain("a")])] {
        let mut world = faulted_beside(other);
        world.restart();
        assert!(world.open.is_empty(), "{:?}", world.open);
        assert!(world.execution.parked().is_empty());
        world.happen(Event::RetryRequested);
        while !world.execution.parked().is_empty() {
            world.resolve_truthfully();
        }
        assert!(matches!(world.run(), Outcome::Completed(_) | Outcome::Faulted(_)));
    }
}

#[test]
fn what_failed_while_it_was_held_goes_on_when_it_is_tried_again() {
    let mut world = start(Plain("c"));
    world.broken.insert("c".to_owned());
    world.happen(Event::SuspendRequested);
    let failing = call_of(&world, "c").expect("it was called before");
    world.answer(failing);
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    world.broken.clear();
    world.happen(Event::RetryRequested);
    assert!(matches!(world.run(), Outcome::Completed(_)));
}

#[test]
fn an_answer_that_comes_late_is_kept_and_nothing_follows_from_it_until_it_is_tried_again() {
    let mut world = faulted_beside(Sequence(vec![Once("a"), Plain("b")]));
    // It must not be asked twice, so its answer is not given up.
    let late = call_of(&world, "a").expect("it is still under way");
    world.answer(late);
    assert_eq!(call_of(&world, "b"), None);
    world.happen(Event::RetryRequested);
    assert!(matches!(world.run(), Outcome::Completed(_)));
    let mut done = world.done();
    done.sort_unstable();
    assert_eq!(done, ["a", "b", "c"]);
}

#[test]
fn a_call_that_must_not_be_repeated_and_was_not_heard_of_is_left_to_a_person() {
    let mut world = faulted_beside(Sequence(vec![Once("a"), Plain("b")]));
    world.restart();
    world.happen(Event::RetryRequested);
    assert_eq!(world.execution.parked().len(), 1);
    world.resolve_truthfully();
    assert!(!world.done().contains(&"a"), "it was not asked again");
}

#[test]
fn what_was_being_undone_beside_it_is_undone_when_it_is_rolled_back() {
    let race = Compete(vec![Invoke("a"), Wait(10)]);
    let mut world = start(Sequence(vec![race, Raise(418)]));
    // The wait wins; whether `a` happened is asked beside the run, which faults meanwhile.
    world.next_timer();
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["a", "a-bar"]);
}

/// A race that both lose after they have done something, in a run that does not roll back by itself.
fn lost_race() -> Node {
    let branch = |name| Sequence(vec![Invoke(name), Raise(418)]);
    Compete(vec![branch("a"), branch("b")])
}

#[test]
fn what_was_about_to_be_undone_beside_it_is_undone_when_it_is_rolled_back() {
    let mut world = start(Sequence(vec![Invoke("z"), lost_race()]));
    // The last one to lose ends the run: its undo has not even been asked for.
    assert!(matches!(world.run(), Outcome::Faulted(_)));
    world.ended.take();
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert!(world.net().values().all(|stands| *stands == 0), "{:?}", world.net());
}

#[test]
fn a_race_that_all_have_lost_is_run_again_by_other_keys() {
    let mut world = start(Compete(vec![Invoke("a"), Sequence(vec![Invoke("b"), Raise(418)])]));
    world.broken.insert("a".to_owned());
    let key = |world: &World, name| world.call_of(name).map(|(_, request)| request.key);
    let before = key(&world, "b").expect("it is called at once");
    assert!(matches!(world.run(), Outcome::Faulted(_)));
    world.ended.take();
    world.broken.clear();
    world.happen(Event::RetryRequested);
    let after = key(&world, "b").expect("it is called again");
    assert_ne!(before, after, "what went by that key is undone: its provider would only answer");
    assert!(matches!(world.run(), Outcome::Completed(_)));
}

#[test]
fn what_is_undone_beside_a_run_that_is_done_does_not_keep_it_from_being_rolled_back() {
    let slow = UndoneBy("b", Box::new(Sequence(vec![Wait(800), Plain("b-bar")])));
    let race = Compete(vec![Sequence(vec![slow, Wait(5000)]), Wait(10)]);
    let mut world = start(Sequence(vec![Invoke("a"), race]));
    // The short wait wins; the undo of the other branch waits, and the run with it.
    while world.done() != ["a", "b"] {
        assert!(world.step());
    }
    world.next_timer();
    assert!(world.ended.is_none(), "it waits for what is undone beside it");
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    let mut done = world.done();
    done.sort_unstable();
    assert_eq!(done, ["a", "a-bar", "b", "b-bar"]);
}

#[test]
fn a_run_counts_as_rolled_back_until_what_is_undone_beside_it_is_done() {
    let slow = UndoneBy("b", Box::new(Sequence(vec![Wait(800), Plain("b-bar")])));
    let race =
        Compete(vec![Sequence(vec![slow, Raise(418)]), Sequence(vec![Wait(10), Raise(418)])]);
    let mut world = World::start(&program_with(race, OnFault::Compensate), value::object([]), 1);
    while world.done() != ["b"] {
        assert!(world.step());
    }
    world.next_timer();
    assert!(world.ended.is_none());
    assert_eq!(world.execution.status(), Status::Compensating);
    world.happen(Event::SuspendRequested);
    assert!(world.execution.is_rolled_back(), "on hold or not");
    world.happen(Event::ResumeRequested);
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["b", "b-bar"]);
}

/// A block that takes too long is begun again as a whole, and asks again by the same keys.
#[test]
fn what_was_asked_for_again_is_undone_in_the_place_of_its_first_time() {
    let calls = || Sequence(vec![Invoke("a"), Wait(10), Invoke("b"), Wait(2 * MINUTE)]);
    let within = |body| Within(MINUTE, Box::new(body));
    let in_a_branch = || Fork(vec![Wait(10), calls()]);
    for answered in [true, false] {
        let in_a_block = within(calls());
        let with_branches = within(in_a_branch());
        let beside_others = Fork(vec![Wait(10), within(calls())]);
        let both = Fork(vec![Wait(10), within(in_a_branch())]);
        for flow in [in_a_block, with_branches, beside_others, both] {
            let mut world = start(flow);
            assert!(matches!(world.run(), Outcome::Faulted(_)));
            world.ended.take();
            world.happen(Event::RetryRequested);
            let again = call_of(&world, "a").expect("it is asked for again");
            if answered {
                world.answer(again);
            }
            world.happen(Event::CompensateRequested("the test asks for it".into()));
            assert!(matches!(world.run(), Outcome::Compensated(_)));
            assert_eq!(world.done(), ["a", "b", "b-bar", "a-bar"], "answered: {answered}");
        }
    }
}

/// Three calls are answered by nobody while the run has faulted; when it is tried again, the branch that failed first
/// fails again before any of them is answered.
#[test]
fn what_may_have_happened_beside_a_branch_that_fails_again_and_again_is_undone() {
    let failing = Sequence(vec![Invoke("a"), Raise(418)]);
    let mut world = start(Fork(vec![failing, Invoke("b"), Invoke("c"), Invoke("d")]));
    let unheard = ["b", "c", "d"].map(|name| world.call_of(name).expect("it is called at once"));
    let first = call_of(&world, "a").expect("it is called at once");
    world.answer(first);
    for (ticket, request) in unheard {
        world.serve(&request);
        let fault = Fault::new(FaultKind::Communication, "no answer", "it was lost");
        world.happen(Event::Answered { ticket, answer: Answer::Unknown(fault) });
    }
    for _ in 0..3 {
        assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
        world.happen(Event::RetryRequested);
    }
    world.ended.take();
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert!(world.net().values().all(|stands| *stands == 0), "{:?}", world.net());
}

/// How long a minute is.
const MINUTE: i64 = 60_000;

/// A run whose call `c` failed, tried again after so many seconds.
fn tried_again(mut world: World, seconds: u64) -> World {
    world.broken.insert("c".to_owned());
    let failing = call_of(&world, "c").expect("it is called at once");
    world.answer(failing);
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    world.broken.clear();
    world.now = world.now.after(Duration::from_secs(seconds));
    world.happen(Event::RetryRequested);
    world
}

/// How many milliseconds each timer that is set has left.
fn left(world: &World) -> Vec<i128> {
    let left = world.open.values().filter_map(|command| match command {
        Command::SetTimer { at, .. } => {
            Some(i128::from(at.as_millis()) - i128::from(world.now.as_millis()))
        }
        _ => None,
    });
    left.collect()
}

#[test]
fn a_timeout_that_passed_around_the_failed_task_begins_anew() {
    let inside = Within(2 * MINUTE, Box::new(Plain("c")));
    let in_a_branch = Fork(vec![Plain("c"), Sequence(vec![Wait(1), Plain("a")])]);
    for body in [Plain("c"), inside, in_a_branch] {
        let mut world = tried_again(start(Within(MINUTE, Box::new(body))), 600);
        assert!(left(&world).contains(&i128::from(MINUTE)), "{:?}", left(&world));
        assert!(matches!(world.run(), Outcome::Completed(_)));
    }
}

#[test]
fn a_timeout_beside_the_failed_task_begins_anew_and_so_does_the_time_of_its_call() {
    let beside = Within(MINUTE, Box::new(Plain("a")));
    let mut world = tried_again(start(Fork(vec![Plain("c"), beside])), 600);
    let (_, request) = world.call_of("a").expect("it is asked for again");
    let deadline = request.deadline.expect("its task has a timeout");
    assert_eq!(deadline, world.now.after(Duration::from_millis(MINUTE as u64)));
    assert!(matches!(world.run(), Outcome::Completed(_)));
}

#[test]
fn a_timeout_with_time_left_goes_on_with_that() {
    let world = tried_again(start(Within(MINUTE, Box::new(Plain("c")))), 20);
    assert_eq!(left(&world), [40_000]);
}

#[test]
fn the_time_of_an_attempt_begins_anew() {
    let root = Try(Box::new(Plain("c")), 1, None);
    let mut program = bare_program("built", root, OnFault::Leave);
    for task in &mut program.tasks {
        if let Kind::Try { catch, .. } = &mut task.kind {
            catch.errors.status = Some(404);
            let policy = catch.retry.as_mut().expect("it is tried again");
            policy.attempt_duration = Some(Template::Literal(value::string("PT1M")));
        }
    }
    let world = World::start(&Arc::new(program), value::object([]), 1);
    let mut world = tried_again(world, 600);
    assert_eq!(left(&world), [i128::from(MINUTE)]);
    assert!(matches!(world.run(), Outcome::Completed(_)));
}
