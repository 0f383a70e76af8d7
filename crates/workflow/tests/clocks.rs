//! Whoever goes on may have another clock than whoever set the timers.

mod kit;

use std::collections::BTreeMap;

use kit::build::{Node, program};
use kit::world::World;
use outlast_expressions::value;
use outlast_lineage::Time;
use outlast_workflow::{Command, Event, Ticket};

use Node::{Fork, Invoke, Limited, Raise, Sequence, Try, Wait};

fn timers(world: &World) -> BTreeMap<Ticket, Time> {
    let timers = world.open.iter().filter_map(|(ticket, command)| match command {
        Command::SetTimer { at, .. } => Some((*ticket, *at)),
        _ => None,
    });
    timers.collect()
}

/// Waits, limits of tasks, and of one that is tried.
fn waiting() -> World {
    let limited = |node| Limited(900_000, Box::new(node));
    let tried = Try(Box::new(Sequence(vec![Wait(700_000)])), 2, None);
    let branches = vec![Wait(600_000), limited(Wait(800_000)), limited(tried), Invoke("a")];
    let mut world = World::start(&program(Fork(branches)), value::object([]), 1);
    while world.calls().is_empty() || timers(&world).len() < 5 {
        assert!(world.yields < 100, "{:?}", world.open);
        world.happen(Event::Continue);
    }
    world
}

/// Found by a tester: whoever took over from a node whose clock was two minutes behind took all that was to come
/// within that time to be over.
#[test]
fn all_timers_are_as_far_away_for_whoever_goes_on_by_another_clock() {
    for ahead in [120_000_000_i64, -120_000_000] {
        let mut world = waiting();
        let before = timers(&world);
        world.happen(Event::ClockDiffers { ahead });
        world.go_on_as(2);
        let after = timers(&world);
        assert!(before.keys().eq(after.keys()));
        for (before, after) in before.values().zip(after.values()) {
            let moved = before.as_micros() as i64 - after.as_micros() as i64;
            assert_eq!(moved, ahead);
        }
    }
}

#[test]
fn what_would_have_been_before_the_beginning_of_time_is_due_at_once() {
    let mut world = waiting();
    world.happen(Event::ClockDiffers { ahead: i64::MAX });
    world.go_on_as(2);
    assert!(timers(&world).values().all(|at| *at == Time::default()));
}

/// Found by a world of the simulator: another state came after an end that was being decided on.
#[test]
fn nothing_changes_after_an_end() {
    let branches = vec![Wait(600_000), Sequence(vec![Invoke("a"), Raise(418)])];
    let mut world =
        World::start(&program(Limited(900_000, Box::new(Fork(branches)))), value::object([]), 1);
    while world.ended.is_none() {
        assert!(world.yields < 100, "{:?}", world.open);
        match world.calls().first() {
            Some((ticket, _)) => world.answer(*ticket),
            None => drop(world.happen(Event::Continue)),
        }
    }
    let before = world.execution.clone();
    let advance = world.happen(Event::ClockDiffers { ahead: 120_000_000 });
    assert!(advance.delta.is_empty());
    assert_eq!(world.execution, before);
}
