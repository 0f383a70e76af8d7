//! Executions that run others and are held by several nodes: what the inner ones did belongs to the
//! line of the outer one, and one run's effects remain.

use std::time::Duration;

use outlast_engine::{Strategy, Survival};
use outlast_simulator::checkers::{self, Expectation};
use outlast_simulator::{Plan, Workload, World, WorldOptions};

fn plan(survival: &Survival, keyless: bool) -> Plan {
    let flows = Workload::built_in();
    let name = if keyless { "tour-keyless" } else { "tour" };
    let flow = flows.iter().find(|flow| flow.name == name).expect("it comes with the simulator");
    flow.plan(&[Duration::ZERO], survival)
}

/// One run is left, everywhere the same; whatever was done besides is undone in order.
fn check(list: &[&str], survival: &Survival, keyless: bool, seed: u64) -> World {
    let mut calm = World::new(WorldOptions { learns: true, ..WorldOptions::default() }, {
        plan(&Survival::solo(), keyless)
    });
    calm.run();
    let expectation = Expectation::of(&calm);
    let options = WorldOptions {
        nodes: 3,
        faults: list.iter().map(|text| text.parse().expect("a fault")).collect(),
        learns: true,
        seed,
        deduplicating: !keyless,
        ..WorldOptions::default()
    };
    let mut world = World::new(options, plan(survival, keyless));
    world.run_to_rest(&|world| checkers::everything_at_rest(&expectation, world).is_ok());
    let finding = checkers::everything_at_rest(&expectation, &world);
    assert_eq!(finding, Ok(()), "seed {seed} {list:?} {survival:?}\n{}", world.trace);
    world
}

fn survivals() -> [Survival; 3] {
    [Strategy::Passive, Strategy::PartitionTolerant, Strategy::Active]
        .map(|strategy| Survival::new(strategy, 3))
}

#[test]
fn a_run_without_failures_is_one_run() {
    for survival in survivals() {
        check(&[], &survival, false, 0);
    }
}

#[test]
fn a_primary_that_dies_inside_a_sub_workflow_is_replaced() {
    for survival in survivals() {
        for seed in 0..2 {
            for at in ["0.02", "0.045"] {
                check(&[&format!("crash@{at}+5:3")], &survival, seed % 2 == 0, seed);
            }
        }
    }
}

#[test]
fn both_sides_of_a_split_run_the_sub_workflow_and_one_run_remains() {
    for seed in 0..2 {
        let survival = Survival::new(Strategy::PartitionTolerant, 3);
        for at in ["0.01", "0.03"] {
            check(&[&format!("isolate@{at}+3:3")], &survival, seed % 2 == 0, seed);
        }
    }
}
