//! Flows that come with the simulator, held by three nodes while things go wrong.
#![allow(dead_code, reason = "each test file uses its own part")]

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

/// One run of each execution is left, everywhere the same, and of those that it started; whatever was
/// done besides is undone in order.
pub(crate) fn check(
    name: &str,
    list: &[&str],
    survival: &Survival,
    keyless: bool,
    seed: u64,
) -> World {
    let calm = WorldOptions { nobody_denies: true, ..WorldOptions::default() };
    let mut calm = World::new(calm, plan(name, &Survival::solo(), keyless));
    calm.run_out(u64::MAX);
    let expectation = Expectation::of(&calm);
    let options = WorldOptions {
        nodes: 3,
        faults: list.iter().map(|text| text.parse().expect("a fault")).collect(),
        nobody_denies: true,
        seed,
        deduplicating: !keyless,
        ..WorldOptions::default()
    };
    let mut world = World::new(options, plan(name, survival, keyless));
    world.run_to_rest(&|world| checkers::everything_at_rest(&expectation, world).is_ok());
    let finding = checkers::everything_at_rest(&expectation, &world);
    assert_eq!(finding, Ok(()), "{name}, seed {seed} {list:?} {survival:?}\n{}", world.trace);
    world
}

/// Every way in which several nodes hold an execution.
pub(crate) fn survivals() -> [Survival; 3] {
    [Strategy::Passive, Strategy::PartitionTolerant, Strategy::Active]
        .map(|strategy| Survival::new(strategy, 3))
}
