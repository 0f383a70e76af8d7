//! Executions that run others and are held by several nodes: what the inner ones did belongs to the
//! line of the outer one, and one run's effects remain.

mod held;

use std::sync::Arc;
use std::time::Duration;

use held::{check, survivals};
use outlast_engine::{Strategy, Survival};
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_simulator::{Workload, World, WorldOptions, checkers};

/// Nothing but a sub-workflow is tried three times.
const TRIES_A_DISH: &str = "
document: { dsl: '1.0.3', namespace: simulated, name: tries, version: '1.0.0' }
do:
  - cook:
      try:
        - kitchen: { run: { workflow: { namespace: simulated, name: dish, version: '1.0.0', input: {} } } }
        - sour: { raise: { error: { type: 'https://world.example/sour', status: 418, title: Sour } } }
      catch:
        retry: { delay: { milliseconds: 20 }, limit: { attempt: { count: 2 } } }
        do: [ { sorry: { set: { eaten: false } } } ]
";

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

#[test]
fn what_a_sub_workflow_did_is_undone_before_it_is_tried_again() {
    let dish = include_str!("../src/flows/dish.yaml");
    for survival in survivals().into_iter().chain([Survival::solo()]) {
        let program = openworkflow::compile(TRIES_A_DISH).unwrap();
        let others = vec![(openworkflow::compile(dish).unwrap(), Arc::from(dish))];
        let flow = Workload::new(program, TRIES_A_DISH, value::object([]));
        let plan = Workload { others, ..flow }.plan(&[Duration::ZERO], &survival);
        let mut world = World::new(WorldOptions { nodes: 3, ..WorldOptions::default() }, plan);
        world.run_to_rest(&|world| checkers::nobody_holds_what_is_over(world).is_ok());
        let ledger = &world.services.ledger;
        let stands = ledger.iter().filter(|act| !act.undo && act.undone_by.is_none());
        let mut stands: Vec<&str> = stands.map(|act| ledger.operation(act.name)).collect();
        stands.sort_unstable();
        assert_eq!(stands, ["POST ok/roast", "POST ok/soup"], "{survival:?}");
    }
}
