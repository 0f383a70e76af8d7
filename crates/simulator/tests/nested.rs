//! Executions that run others and are held by several nodes: what the inner ones did belongs to the
//! line of the outer one, and one run's effects remain.

mod held;

use held::{check, survivals};
use outlast_engine::{Strategy, Survival};

#[test]
fn a_run_without_failures_is_one_run() {
    for survival in survivals() {
        check("tour", &[], &survival, false, 0);
    }
}

#[test]
fn a_primary_that_dies_inside_a_sub_workflow_is_replaced() {
    for survival in survivals() {
        for seed in 0..2 {
            for at in ["0.02", "0.045"] {
                check("tour", &[&format!("crash@{at}+5:3")], &survival, seed % 2 == 0, seed);
            }
        }
    }
}

#[test]
fn both_sides_of_a_split_run_the_sub_workflow_and_one_run_remains() {
    for seed in 0..2 {
        let survival = Survival::new(Strategy::PartitionTolerant, 3);
        for at in ["0.01", "0.03"] {
            check("tour", &[&format!("isolate@{at}+3:3")], &survival, seed % 2 == 0, seed);
        }
    }
}
