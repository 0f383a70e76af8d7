//! What becomes of executions that another one runs.

mod cluster;
mod driver;

use std::sync::Arc;

use cluster::{Provider, program_of};
use driver::{Driver, call, child, id, program, raw_program, service_of, start_of, task, wait};
use outlast_engine::{Ask, Condition, Input, Which};
use outlast_lineage::ExecutionId;
use outlast_workflow::program::{Kind, OnFault, Task};
use outlast_workflow::{Answer, Fault, FaultKind, Program, TaskId, Ticket};

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

/// The same with `y` beside it, which can be undone.
fn outer_with_more() -> Arc<Program> {
    let tasks = vec![
        task("do", Kind::Sequence(vec![TaskId(1)])),
        task("both", Kind::Fork { branches: [2, 5, 3].map(TaskId).to_vec(), compete: false }),
        child("run", "inner", true),
        call("x"),
        call("undo y"),
        Task { traits: Provider::Keyed.traits(TaskId(4)), ..call("y") },
    ];
    let program = raw_program("test", "outer", "1.0.0", tasks);
    let program = Arc::into_inner(program).expect("nobody else has it");
    Arc::new(Program { on_fault: OnFault::Compensate, ..program })
}

fn open(driver: &mut Driver, name: &str) -> (ExecutionId, Ticket) {
    let place = driver.calls.iter().position(|(_, _, request)| service_of(request) == name);
    let (execution, ticket, _) = driver.calls.remove(place.expect("it is open")).expect("found");
    (execution, ticket)
}

fn succeed(driver: &mut Driver, name: &str) {
    let (execution, ticket) = open(driver, name);
    let answer = Answer::Succeeded(driver::text(name));
    driver.step(Input::Answered { execution, ticket, answer });
    driver.work();
}

fn fail(driver: &mut Driver, name: &str) {
    let (execution, ticket) = open(driver, name);
    let fault = Fault::new(FaultKind::Communication, "no", "refused").with_status(409);
    driver.step(Input::Answered { execution, ticket, answer: Answer::Failed(fault) });
}

/// Its turn comes after the undo of `y`: by then it has been stopped, in the midst of its second call.
#[test]
fn a_child_that_was_stopped_with_its_parent_is_undone_when_its_turn_comes() {
    for restarts in [false, true] {
        let mut driver = Driver::new();
        let outer = outer_with_more();
        driver.define(&program_of("inner", &[("a", Provider::Keyed), ("b", Provider::Keyed)]));
        driver.define(&outer);
        driver.start(&outer, id(1));
        succeed(&mut driver, "a");
        succeed(&mut driver, "y");
        fail(&mut driver, "x");
        driver.calls.retain(|(_, _, request)| service_of(request).starts_with("undo"));
        driver.work();
        if restarts {
            driver.restart();
        }
        let done = driver.finish();
        assert_eq!(done, ["undo y", "b", "undo b", "undo a"], "restarts: {restarts}");
        assert_eq!(driver.show(id(1)).summary.condition, Condition::Compensated);
    }
}

/// Somebody stops a child: its parent fails, is rolled back, and the child's effects with it.
#[test]
fn a_child_that_somebody_stopped_is_undone_with_its_parent() {
    let mut driver = Driver::new();
    let outer = outer();
    driver.define(&program_of("inner", &[("a", Provider::Keyed), ("b", Provider::Keyed)]));
    driver.define(&outer);
    driver.start(&outer, id(1));
    succeed(&mut driver, "a");
    let (child, _) = open(&mut driver, "b");
    driver.ask(Ask::Cancel(Which::Id(child)));
    driver.work();
    driver.calls.retain(|(_, _, request)| service_of(request) != "x");
    let done = driver.finish();
    assert!(done.ends_with(&["undo a".to_owned()]), "{done:?}");
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Compensated);
    assert_eq!(driver.show(child).summary.condition, Condition::Compensated);
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
    succeed(&mut driver, "a");
    fail(&mut driver, "x");
    driver.calls.clear();
    let undone = driver.finish();
    assert!(undone.contains(&"undo a".to_owned()), "{undone:?}");
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Compensated);
}

/// Two that race, and both can fail; what the first did before is undone beside the run.
fn racing() -> Arc<Program> {
    let tasks = vec![
        task("do", Kind::Sequence(vec![TaskId(1)])),
        task("race", Kind::Fork { branches: vec![TaskId(2), TaskId(5)], compete: true }),
        task("first", Kind::Sequence(vec![TaskId(3), TaskId(4)])),
        Task { traits: Provider::Keyed.traits(TaskId(6)), ..call("a") },
        call("b"),
        call("c"),
        call("undo a"),
    ];
    let program = raw_program("test", "inner", "1.0.0", tasks);
    let program = Arc::into_inner(program).expect("nobody else has it");
    Arc::new(Program { on_fault: OnFault::Compensate, ..program })
}

/// The run itself has nothing left to undo, and is as good as compensated; what is undone beside it is under way.
/// To stop it then would leave that standing, suspended or not.
#[test]
fn a_child_that_is_rolled_back_is_not_stopped_before_what_is_undone_beside_it_is_done() {
    for suspended in [false, true] {
        let mut driver = Driver::new();
        let outer = outer();
        driver.define(&racing());
        driver.define(&outer);
        driver.start(&outer, id(1));
        succeed(&mut driver, "a");
        fail(&mut driver, "b");
        let child = driver.calls.iter().find(|(id, ..)| *id != driver::id(1)).expect("open").0;
        fail(&mut driver, "c");
        assert_eq!(driver.show(child).summary.condition, Condition::Compensating);
        if suspended {
            driver.ask(Ask::Suspend(Which::Id(child)));
        }
        fail(&mut driver, "x");
        driver.work();
        if suspended {
            driver.ask(Ask::Resume(Which::Id(child)));
        }
        let done = driver.finish();
        assert_eq!(done, ["undo a"], "suspended: {suspended}");
        assert_eq!(driver.show(id(1)).summary.condition, Condition::Compensated);
    }
}

/// Under replicas a sub-workflow is a part of its parent; what stands in for a secret must not depend on that.
#[test]
fn what_stands_in_for_a_secret_does_so_in_a_sub_workflow_that_is_handed_it() {
    for waits in [true, false] {
        let mut driver = Driver::new();
        let tasks = vec![
            task("do", Kind::Sequence(vec![TaskId(1)])),
            task("both", Kind::Fork { branches: vec![TaskId(2), TaskId(3)], compete: false }),
            child("run", "inner", waits),
            call("x"),
        ];
        let outer = raw_program("test", "outer", "1.0.0", tasks);
        driver.define(&program_of("inner", &[("a", Provider::Keyed)]));
        driver.define(&outer);
        driver.start(&outer, id(1));
        let salts: Vec<_> = driver.calls.iter().map(|(_, _, request)| request.salt).collect();
        assert_eq!(salts.len(), 2, "that of the parent and that of the child");
        assert_eq!(salts[0], salts[1], "waits: {waits}");
    }
}

/// Starts a program, takes so many turns, and gives the workflow that it has started by then, which calls `a`.
fn interrupt(driver: &mut Driver, program: &Program, turns: usize) -> Option<ExecutionId> {
    driver.send(start_of(program, id(1)));
    for _ in 0..turns {
        driver.step(Input::Turn);
    }
    let begun = driver.calls.iter().find(|(_, _, request)| service_of(request) == "a");
    begun.map(|(execution, _, _)| *execution)
}

/// Interrupts a program after ever more turns, each time in another world, and has its end looked at. Whom it
/// started, if that had begun by then, completes.
fn interrupt_ever_later(sender: &Arc<Program>, mut end: impl FnMut(&mut Driver, usize)) {
    let mut begun_by_then = Vec::new();
    for turns in 0..4 {
        let mut driver = Driver::new();
        driver.define(&program_of("inner", &[("a", Provider::Keyed)]));
        driver.define(sender);
        let begun = interrupt(&mut driver, sender, turns);
        end(&mut driver, begun.iter().len());
        if let Some(child) = begun {
            let condition = driver.show(child).summary.condition;
            assert_eq!(condition, Condition::Completed, "turns: {turns}");
        }
        begun_by_then.push(begun.is_some());
    }
    assert_eq!(begun_by_then, [false, true, true, true]);
}

/// Seen on a slow node: its parent had not yet heard that it had begun, and took it along.
#[test]
fn whom_nobody_waits_for_is_not_stopped_while_it_starts() {
    let sender = program("sender", "1.0.0", vec![child("go", "inner", false), wait("nap", "PT5S")]);
    interrupt_ever_later(&sender, |driver, begun| {
        driver.ask(Ask::Cancel(Which::Id(id(1))));
        assert_eq!(driver.show(id(1)).summary.condition, Condition::Cancelled);
        // What has not begun by then never does.
        assert_eq!(driver.calls.len(), begun);
        driver.finish();
    });
}

#[test]
fn whom_nobody_waits_for_is_not_undone_while_it_starts() {
    let tasks = vec![
        task("do", Kind::Sequence(vec![TaskId(1)])),
        task("both", Kind::Fork { branches: vec![TaskId(2), TaskId(3)], compete: false }),
        call("x"),
        child("go", "inner", false),
    ];
    let sender =
        Arc::into_inner(raw_program("test", "sender", "1.0.0", tasks)).expect("nobody else has it");
    let sender = Arc::new(Program { on_fault: OnFault::Compensate, ..sender });
    interrupt_ever_later(&sender, |driver, begun| {
        fail(driver, "x");
        assert_eq!(driver.finish(), ["a"].repeat(begun));
        assert_eq!(driver.show(id(1)).summary.condition, Condition::Compensated);
    });
}
