//! Every crash point of a run is tried: afterwards the ledger shows exactly one complete run, or
//! exactly its compensation.

mod flows;

use flows::{Tasks, plan};
use outlast_simulator::{Flow, Trial, WorldOptions, try_every_crash_point};
use outlast_workflow::program::OnFault;

/// Tries every crash point, without snapshots and with.
fn holds_at_every_crash_point(plan: outlast_simulator::Plan) -> Trial {
    let mut last = None;
    for snapshot_every in [0, 2] {
        let options = WorldOptions { snapshot_every, ..WorldOptions::default() };
        let flow = Flow { plan: plan.clone(), options };
        last = Some(try_every_crash_point(&flow).unwrap_or_else(|finding| panic!("{finding}")));
    }
    let trial = last.unwrap();
    assert_eq!(trial.crashes, trial.records * 6, "every moment of every record");
    trial
}

/// What services did, each once.
fn acts(trial: &Trial) -> Vec<&str> {
    assert!(trial.acts.values().all(|times| *times == 1), "{:?}", trial.acts);
    trial.acts.keys().map(|act| act.split(':').next().unwrap()).collect()
}

#[test]
fn calls_one_after_the_other() {
    let mut tasks = Tasks::new();
    let order = vec![tasks.call("ok one"), tasks.call("ok two"), tasks.call("ok three")];
    let trial =
        holds_at_every_crash_point(plan(&[tasks.program("flow", order, OnFault::Leave)], 1));
    // One that opens the life, one definition, one start and three answers.
    assert_eq!(trial.records, 6);
}

#[test]
fn a_fork_and_a_loop() {
    let mut tasks = Tasks::new();
    let (left, right) = (tasks.call("ok left"), tasks.call("ok right"));
    let branches = vec![tasks.sequence(vec![left]), tasks.sequence(vec![right])];
    let fork = tasks.fork(branches);
    let body = vec![tasks.call("ok each")];
    let repeat = tasks.repeat(3, 1, body);
    let flow = tasks.program("flow", vec![fork, repeat], OnFault::Leave);
    holds_at_every_crash_point(plan(&[flow], 1));
}

#[test]
fn a_loop_with_several_iterations_in_flight() {
    let mut tasks = Tasks::new();
    let body = vec![tasks.call("ok each")];
    let repeat = tasks.repeat(4, 2, body);
    let flow = tasks.program("flow", vec![repeat], OnFault::Leave);
    holds_at_every_crash_point(plan(&[flow], 1));
}

#[test]
fn tries_with_retries_and_timers() {
    let mut tasks = Tasks::new();
    let flaky = tasks.call("flaky thing");
    let tried = tasks.retried(vec![flaky]);
    let wait = tasks.wait("PT10S");
    let last = tasks.call("ok last");
    let flow = tasks.program("flow", vec![tried, wait, last], OnFault::Leave);
    let trial = holds_at_every_crash_point(plan(&[flow], 1));
    assert_eq!(acts(&trial), ["flaky thing", "ok last"]);
}

#[test]
fn a_run_that_is_rolled_back() {
    let mut tasks = Tasks::new();
    let (one, two) = (tasks.undoable("ok one"), tasks.undoable("ok two"));
    let fails = tasks.call("fail three");
    let flow = tasks.program("flow", vec![one, two, fails], OnFault::Compensate);
    let trial = holds_at_every_crash_point(plan(&[flow], 1));
    assert_eq!(acts(&trial), ["ok one", "ok two", "undo ok one", "undo ok two"]);
}

#[test]
fn parallel_branches_that_are_rolled_back() {
    let mut tasks = Tasks::new();
    let (one, two) = (tasks.undoable("ok one"), tasks.undoable("ok two"));
    let branches = vec![tasks.sequence(vec![one]), tasks.sequence(vec![two])];
    let fork = tasks.fork(branches);
    let fails = tasks.call("fail three");
    let flow = tasks.program("flow", vec![fork, fails], OnFault::Compensate);
    holds_at_every_crash_point(plan(&[flow], 1));
}

#[test]
fn a_sub_workflow() {
    let mut tasks = Tasks::new();
    let order = vec![tasks.call("ok before"), tasks.child("inner"), tasks.call("ok after")];
    let outer = tasks.program("outer", order, OnFault::Leave);
    let mut tasks = Tasks::new();
    let order = vec![tasks.call("ok deep"), tasks.wait("PT3S")];
    let inner = tasks.program("inner", order, OnFault::Leave);
    holds_at_every_crash_point(plan(&[outer, inner], 1));
}

#[test]
fn a_sub_workflow_that_is_rolled_back_with_its_parent() {
    let mut tasks = Tasks::new();
    let order = vec![tasks.undoable("ok before"), tasks.child("inner"), tasks.call("fail after")];
    let outer = tasks.program("outer", order, OnFault::Compensate);
    let mut tasks = Tasks::new();
    let order = vec![tasks.undoable("ok deep")];
    let inner = tasks.program("inner", order, OnFault::Leave);
    let trial = holds_at_every_crash_point(plan(&[outer, inner], 1));
    assert_eq!(acts(&trial), ["ok before", "ok deep", "undo ok before", "undo ok deep"]);
}

#[test]
fn one_that_speaks_and_one_that_listens() {
    let mut tasks = Tasks::new();
    let order = vec![tasks.child("speaker"), tasks.listen("news"), tasks.call("ok heard")];
    let listener = tasks.program("listener", order, OnFault::Leave);
    let mut tasks = Tasks::new();
    let order = vec![tasks.emit("news"), tasks.call("ok spoken")];
    let speaker = tasks.program("speaker", order, OnFault::Leave);
    holds_at_every_crash_point(plan(&[listener, speaker], 1));
}

#[test]
fn several_at_once() {
    let mut tasks = Tasks::new();
    let order = vec![tasks.call("ok one"), tasks.wait("PT1S"), tasks.undoable("ok two")];
    let flow = tasks.program("flow", order, OnFault::Compensate);
    holds_at_every_crash_point(plan(&[flow], 3));
}
