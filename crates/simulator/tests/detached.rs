//! Executions that start others without waiting for their end and are held by several nodes: what the
//! run that remains started was started, once, and nothing else was.

use std::time::Duration;

use outlast_engine::{Strategy, Survival};
use outlast_simulator::checkers::{self, Expectation};
use outlast_simulator::{Plan, Situation, Workload, World, WorldOptions};

fn plan(survival: &Survival, keyless: bool) -> Plan {
    let flows = Workload::built_in();
    let name = if keyless { "office-keyless" } else { "office" };
    let flow = flows.iter().find(|flow| flow.name == name).expect("it comes with the simulator");
    flow.plan(&[Duration::ZERO, Duration::from_millis(10)], survival)
}

fn expectation(keyless: bool) -> Expectation {
    let options = WorldOptions { learns: true, ..WorldOptions::default() };
    let mut calm = World::new(options, plan(&Survival::solo(), keyless));
    calm.run_out();
    Expectation::of(&calm)
}

/// One run of each is left, of those that were started by others, too.
fn check(list: &[&str], survival: &Survival, keyless: bool, seed: u64) -> World {
    let expectation = expectation(keyless);
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
fn a_run_without_failures_starts_what_it_starts_alone() {
    for survival in survivals() {
        let world = check(&[], &survival, false, 0);
        assert_eq!(world.situations.count(Situation::Detached), 4);
    }
}

#[test]
fn whoever_dies_when_something_starts_is_replaced() {
    for survival in survivals() {
        for (seed, at) in (0..).zip(["0.015", "0.025", "0.035", "0.045"]) {
            check(&[&format!("crash@{at}+5:3")], &survival, seed % 2 == 0, seed);
        }
    }
}

#[test]
fn both_sides_of_a_split_want_to_start_and_one_run_does() {
    let survival = Survival::new(Strategy::PartitionTolerant, 3);
    for (seed, at) in (0..).zip(["0.005", "0.015", "0.03", "0.045"]) {
        check(&[&format!("isolate@{at}+3:3")], &survival, seed % 2 == 0, seed);
    }
}

#[test]
fn all_down_at_once_come_back_to_what_they_had_started() {
    for survival in survivals() {
        for (seed, at) in (0..).zip(["0.02", "0.04"]) {
            let crashes = [1, 2, 3].map(|node| format!("crash@{at}+2:{node}"));
            let crashes = crashes.each_ref().map(String::as_str);
            check(&crashes, &survival, seed % 2 == 0, seed);
        }
    }
}
