//! Executions that listen and emit and are held by several nodes: whatever fails, what is heard and
//! told belongs to the one run that remains.

use std::time::Duration;

use outlast_engine::{Strategy, Survival};
use outlast_simulator::checkers::{self, Expectation};
use outlast_simulator::{Plan, Workload, World, WorldOptions};

fn plan(name: &str, survival: &Survival, keyless: bool) -> Plan {
    let name = if keyless { format!("{name}-keyless") } else { name.to_owned() };
    let flows = Workload::built_in();
    let flow = flows.iter().find(|flow| flow.name == name).expect("it comes with the simulator");
    flow.plan(&[Duration::ZERO, Duration::from_millis(10)], survival)
}

/// One run of each execution is left; whatever was done besides is undone in order.
fn check(name: &str, list: &[&str], survival: &Survival, keyless: bool, seed: u64) {
    let calm = WorldOptions { learns: true, ..WorldOptions::default() };
    let mut calm = World::new(calm, plan(name, &Survival::solo(), keyless));
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
    let mut world = World::new(options, plan(name, survival, keyless));
    world.run_to_rest(&|world| checkers::everything_at_rest(&expectation, world).is_ok());
    let finding = checkers::everything_at_rest(&expectation, &world);
    assert_eq!(finding, Ok(()), "{name}, seed {seed} {list:?} {survival:?}\n{}", world.trace);
}

fn survivals() -> [Survival; 3] {
    [Strategy::Passive, Strategy::PartitionTolerant, Strategy::Active]
        .map(|strategy| Survival::new(strategy, 3))
}

#[test]
fn a_run_without_failures_is_one_run() {
    for survival in survivals() {
        check("news", &[], &survival, false, 0);
        check("echo", &[], &survival, false, 0);
    }
}

#[test]
fn a_primary_that_dies_while_it_listens_or_tells_is_replaced() {
    for survival in survivals() {
        for seed in 0..2 {
            for name in ["news", "echo"] {
                check(name, &["crash@0.02+5:3"], &survival, seed == 0, seed);
            }
        }
    }
}

#[test]
fn both_sides_of_a_split_listen_and_tell_and_one_run_remains() {
    for seed in 0..2 {
        let survival = Survival::new(Strategy::PartitionTolerant, 3);
        for name in ["news", "echo"] {
            check(name, &["isolate@0.015+3:3"], &survival, seed == 0, seed);
        }
    }
}
