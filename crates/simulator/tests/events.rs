//! Executions that listen and emit and are held by several nodes: whatever fails, what is heard and
//! told belongs to the one run that remains.

mod held;

use held::{check, survivals};
use outlast_engine::{Strategy, Survival};

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
