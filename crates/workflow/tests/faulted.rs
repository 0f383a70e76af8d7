//! A faulted run keeps everything where it was and does nothing, until it is tried again, rolled back or
//! cancelled.

mod kit;

use kit::build::{Node, program};
use kit::world::World;
use outlast_expressions::value;
use outlast_workflow::{Command, Event, Outcome, Ticket};

use Node::{Compete, Fork, Invoke, Once, Plain, Raise, Sequence, Wait};

fn start(root: Node) -> World {
    World::start(&program(root), value::object([]), 1)
}

/// The open call of a service.
fn call_of(world: &World, name: &str) -> Option<Ticket> {
    let name = format!("name: \"{name}\"");
    world.open.iter().find_map(|(ticket, command)| {
        let is_call = matches!(command, Command::Call { .. });
        (is_call && format!("{command:?}").contains(&name)).then_some(*ticket)
    })
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
