//! Nodes whose clocks differ by minutes: whoever goes on waits as long as whoever died would have.

mod flows;

use std::time::Duration;

use flows::{Tasks, plan};
use outlast_engine::{Strategy, Survival};
use outlast_simulator::{Plan, World, WorldOptions, checkers};
use outlast_workflow::program::OnFault;

/// A call, ten seconds, and another call.
fn waits(survival: &Survival) -> Plan {
    let mut tasks = Tasks::new();
    let order = vec![tasks.undoable("ok before"), tasks.wait("PT10S"), tasks.undoable("ok after")];
    let mut plan = plan(&[tasks.program("waits", order, OnFault::Compensate)], 1);
    plan.starts[0].survival = Some(survival.clone());
    plan
}

/// Found by a tester on real nodes: a wait was over at once, or took minutes. Who leads dies while it waits, whoever
/// that is: all but one go down one after the other, for a moment.
#[test]
fn a_wait_takes_as_long_as_it_is_to_whoever_goes_on() {
    for strategy in [Strategy::Passive, Strategy::PartitionTolerant] {
        for seed in 0..8 {
            let faults = ["crash@2+3:1", "crash@6+3:2"].map(|text| text.parse().expect("a fault"));
            let options = WorldOptions {
                nodes: 3,
                seed,
                skew: 300_000_000,
                faults: faults.to_vec(),
                ..WorldOptions::default()
            };
            let mut world = World::new(options, waits(&Survival::new(strategy, 3)));
            world.run();
            checkers::every_execution_ends(&world).unwrap();
            let took = world.elapsed();
            let expected = Duration::from_secs(9)..Duration::from_secs(16);
            assert!(expected.contains(&took), "{strategy:?} {seed}: {took:?}");
        }
    }
}
