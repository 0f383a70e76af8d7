//! Executions that start others without waiting for their end and are held by several nodes: what the
//! run that remains started was started, once, and nothing else was.

mod held;

use held::{check, survivals};
use outlast_engine::{Strategy, Survival};
use outlast_simulator::Situation;

#[test]
fn a_run_without_failures_starts_what_it_starts_alone() {
    for survival in survivals() {
        let world = check("office", &[], &survival, false, 0);
        assert_eq!(world.situations.count(Situation::Detached), 4);
    }
}

#[test]
fn whoever_dies_when_something_starts_is_replaced() {
    for survival in survivals() {
        for (seed, at) in (0..).zip(["0.015", "0.025", "0.035", "0.045"]) {
            check("office", &[&format!("crash@{at}+5:3")], &survival, seed % 2 == 0, seed);
        }
    }
}

#[test]
fn both_sides_of_a_split_want_to_start_and_one_run_does() {
    let survival = Survival::new(Strategy::PartitionTolerant, 3);
    for (seed, at) in (0..).zip(["0.005", "0.015", "0.03", "0.045"]) {
        check("office", &[&format!("isolate@{at}+3:3")], &survival, seed % 2 == 0, seed);
    }
}

#[test]
fn all_down_at_once_come_back_to_what_they_had_started() {
    for survival in survivals() {
        for (seed, at) in (0..).zip(["0.02", "0.04"]) {
            let crashes = [1, 2, 3].map(|node| format!("crash@{at}+2:{node}"));
            let crashes = crashes.each_ref().map(String::as_str);
            check("office", &crashes, &survival, seed % 2 == 0, seed);
        }
    }
}
