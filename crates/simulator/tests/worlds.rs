//! Worlds with random faults: the same seed is the same world, and whatever happens, what must
//! hold holds.

mod flows;

use flows::{Tasks, plan};
use outlast_simulator::{CrashPoint, Moment, Plan, World, WorldOptions, checkers};
use outlast_workflow::program::OnFault;

/// A bit of everything: fork, loop, retries, timers, a child, and a rollback at the end.
fn everything() -> Plan {
    let mut tasks = Tasks::new();
    let (left, right) = (tasks.undoable("ok left"), tasks.undoable("ok right"));
    let branches = vec![tasks.sequence(vec![left]), tasks.sequence(vec![right])];
    let fork = tasks.fork(branches);
    let body = vec![tasks.undoable("ok each")];
    let repeat = tasks.repeat(3, 2, body);
    let flaky = tasks.call("flaky thing");
    let tried = tasks.retried(vec![flaky]);
    let child = tasks.child("inner");
    let wait = tasks.wait("PT5S");
    let fails = tasks.call("fail end");
    let order = vec![fork, repeat, tried, child, wait, fails];
    let outer = tasks.program("outer", order, OnFault::Compensate);
    let mut tasks = Tasks::new();
    let order = vec![tasks.undoable("ok deep"), tasks.emit("news")];
    let inner = tasks.program("inner", order, OnFault::Leave);
    plan(&[outer, inner], 3)
}

fn world(options: WorldOptions) -> World {
    let mut world = World::new(options, everything());
    world.run();
    world
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let options = || WorldOptions { seed: 7, crash_per_mille: 50, ..WorldOptions::default() };
    let (first, second) = (world(options()), world(options()));
    assert!(first.machines[0].node.life > 0, "something went wrong in it");
    assert_eq!(first.trace, second.trace);
    let other = world(WorldOptions { seed: 8, ..options() });
    assert_ne!(first.trace, other.trace);
}

#[test]
fn whatever_crashes_one_complete_run_is_left() {
    let calm = world(WorldOptions::default());
    checkers::everything_that_always_holds(&calm).unwrap();
    let mut lives = 0;
    for seed in 0..10 {
        let options = WorldOptions {
            seed,
            crash_per_mille: 100,
            snapshot_every: seed % 4,
            ..WorldOptions::default()
        };
        let world = world(options);
        let finding = checkers::everything_that_always_holds(&world)
            .and_then(|()| checkers::outcomes_are_the_same(&calm, &world))
            .and_then(|()| checkers::services_did_the_same(&calm, &world));
        assert_eq!(finding, Ok(()), "seed {seed}\n{}", world.trace);
        lives += world.machines[0].node.life;
    }
    assert!(lives > 20, "only {lives} crashes in ten worlds");
}

#[test]
fn a_checker_notices_a_provider_that_does_things_twice() {
    let mut found = 0;
    for seed in 0..10 {
        let options = WorldOptions {
            seed,
            crash_per_mille: 100,
            deduplicating: false,
            ..WorldOptions::default()
        };
        found += usize::from(checkers::no_key_is_acted_on_twice(&world(options)).is_err());
    }
    assert!(found > 0, "with crashes, some call is repeated in some world");
}

#[test]
fn a_pivot_is_done_at_most_once_even_by_a_provider_that_does_not_deduplicate() {
    let plan = || {
        let mut tasks = Tasks::new();
        let order = vec![tasks.pivot("ok pay")];
        plan(&[tasks.program("flow", order, OnFault::Leave)], 1)
    };
    let (mut ended, mut parked) = (0, 0);
    for record in 1..=4 {
        for moment in Moment::ALL {
            let crashes = vec![CrashPoint { record, moment }];
            let options = WorldOptions { crashes, deduplicating: false, ..Default::default() };
            let mut world = World::new(options, plan());
            world.run();
            assert_eq!(checkers::no_key_is_acted_on_twice(&world), Ok(()), "{record} {moment:?}");
            let waits =
                world.machines[0].node.engine().is_some_and(|engine| engine.counters().parked == 1);
            // Either it is known how it ended, or a person is asked.
            assert!(waits != world.client.is_content(), "{record} {moment:?}\n{}", world.trace);
            ended += usize::from(!waits);
            parked += usize::from(waits);
        }
    }
    assert!(ended > 0 && parked > 0, "{ended} ended, {parked} parked");
}
