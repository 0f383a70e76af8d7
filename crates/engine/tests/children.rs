//! What becomes of executions that another one runs.

mod cluster;
mod driver;

use std::sync::Arc;

use cluster::{Provider, program_of};
use driver::{Driver, call, child, id, raw_program, service_of, task};
use outlast_engine::{Condition, Input};
use outlast_workflow::program::{Kind, OnFault};
use outlast_workflow::{Answer, Fault, FaultKind, Program, TaskId};

/// Runs `inner` beside the call `x`; an error that nothing catches rolls all of it back.
fn outer() -> Arc<Program> {
    let tasks = vec![
        task("do", Kind::Sequence(vec![TaskId(1)])),
        task("both", Kind::Fork { branches: vec![TaskId(2), TaskId(3)], compete: false }),
        child("run", "inner", true),
        call("x"),
    ];
    let program = raw_program("test", "outer", "1.0.0", tasks);
    let program = Arc::into_inner(program).expect("nobody else has it");
    Arc::new(Program { on_fault: OnFault::Compensate, ..program })
}

/// Seen as seed 9336: the order to stop, which comes with the order to roll back, ended the rollback,
/// and what the sub-workflow had done stood.
#[test]
fn a_child_that_is_rolled_back_with_its_parent_is_not_stopped_in_that() {
    let mut driver = Driver::new();
    let outer = outer();
    driver.define(&program_of("inner", &[("a", Provider::Keyed), ("b", Provider::Keyed)]));
    driver.define(&outer);
    driver.start(&outer, id(1));
    let open = |driver: &mut Driver, name: &str| {
        let place = driver.calls.iter().position(|(_, _, request)| service_of(request) == name);
        driver.calls.remove(place.expect("it is open")).expect("it was just found")
    };
    let (execution, ticket, _) = open(&mut driver, "a");
    let answer = Answer::Succeeded(driver::text("a"));
    driver.step(Input::Answered { execution, ticket, answer });
    driver.work();
    let (execution, ticket, _) = open(&mut driver, "x");
    let fault = Fault::new(FaultKind::Communication, "no", "refused").with_status(409);
    driver.step(Input::Answered { execution, ticket, answer: Answer::Failed(fault) });
    driver.calls.clear();
    let undone = driver.finish();
    assert!(undone.contains(&"undo a".to_owned()), "{undone:?}");
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Compensated);
}
