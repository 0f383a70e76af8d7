//! One input, the whole list of outputs: what an engine does with what it is told.

mod driver;

use driver::{
    Driver, START, call, classed, id, options, program, service_of, start_of, transcript, wait,
};
use outlast_engine::{Action, Ask, Caller, Condition, EngineOptions, Input, Reply, Which};
use outlast_workflow::program::Class;
use outlast_workflow::{Answer, Fault, FaultKind};

fn quiet() -> EngineOptions {
    EngineOptions { reports: false, ..options() }
}

#[test]
fn a_new_node_opens_its_first_life() {
    let driver = Driver::new();
    assert_eq!(driver.journal.len(), 1);
    assert_eq!(driver.engine.position().0, 1);
}

#[test]
fn orders_the_first_call_after_the_record_that_intends_it() {
    let mut driver = Driver::with(quiet());
    let flow = program("flow", "1.0.0", vec![call("a"), call("b")]);
    driver.define(&flow);
    let outputs = driver.step(Input::Asked { caller: Caller(9), ask: start_of(&flow, id(1)) });
    let expected = "persist 3\nafter 3: call a\nafter 3: reply to 9: started, new: true\n";
    assert_eq!(transcript(&outputs), expected);
}

#[test]
fn records_a_result_together_with_the_next_intent() {
    let mut driver = Driver::with(quiet());
    let flow = program("flow", "1.0.0", vec![call("a"), call("b")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    let (execution, ticket, _) = driver.calls.pop_front().unwrap();
    let answer = Answer::Succeeded(driver::text("done"));
    let outputs = driver.step(Input::Answered { execution, ticket, answer });
    assert_eq!(transcript(&outputs), "persist 4\nafter 4: call b\n");
}

#[test]
fn a_readonly_call_does_not_wait_for_its_record() {
    let mut driver = Driver::with(quiet());
    let flow = program("flow", "1.0.0", vec![classed(Class::Readonly, call("look"))]);
    driver.define(&flow);
    let outputs = driver.step(Input::Asked { caller: Caller(9), ask: start_of(&flow, id(1)) });
    let expected = "persist 3\nafter 1: call look\nafter 3: reply to 9: started, new: true\n";
    assert_eq!(transcript(&outputs), expected);
}

#[test]
fn tells_those_who_wait_only_after_the_record_of_the_end() {
    let mut driver = Driver::with(quiet());
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    let caller = driver.send(Ask::Wait(Which::Id(id(1))));
    let (execution, ticket, _) = driver.calls.pop_front().unwrap();
    let answer = Answer::Succeeded(driver::text("done"));
    let outputs = driver.step(Input::Answered { execution, ticket, answer });
    let lines = transcript(&outputs);
    let expected = format!("persist 4\nafter 4: reply to {}: completed\nalarm in ", caller.0);
    assert!(lines.starts_with(&expected), "{lines}");
}

#[test]
fn an_answer_that_nobody_waits_for_is_counted_and_changes_nothing() {
    let mut driver = Driver::with(quiet());
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    let (_, ticket, _) = driver.calls[0].clone();
    let answer = || Answer::Succeeded(driver::text("done"));
    let outputs = driver.step(Input::Answered { execution: id(2), ticket, answer: answer() });
    assert_eq!(transcript(&outputs), "");
    driver.answer_next();
    let before = driver.show(id(1));
    driver.step(Input::Answered { execution: id(1), ticket, answer: answer() });
    let after = driver.show(id(1));
    assert_eq!(before.outcome, after.outcome);
    assert!(driver.engine.counters().stale_answers >= 1);
}

#[test]
fn a_definite_failure_ends_an_execution_as_faulted() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    let (execution, ticket, request) = driver.calls.pop_front().unwrap();
    assert_eq!(service_of(&request), "a");
    let fault = Fault::new(FaultKind::Communication, "No", "it said no");
    driver.step(Input::Answered { execution, ticket, answer: Answer::Failed(fault) });
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Faulted);
    assert_eq!(driver.engine.counters().faulted, 1);
}

#[test]
fn sets_one_alarm_for_the_earliest_timer() {
    let mut driver = Driver::with(quiet());
    let slow = program("slow", "1.0.0", vec![wait("w", "PT20S"), call("late")]);
    let fast = program("fast", "1.0.0", vec![wait("w", "PT10S"), call("early")]);
    driver.define(&slow);
    driver.define(&fast);
    driver.start(&slow, id(1));
    assert_eq!(driver.alarm, Some(START.after(std::time::Duration::from_secs(20))));
    driver.start(&fast, id(2));
    assert_eq!(driver.alarm, Some(START.after(std::time::Duration::from_secs(10))));
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Waiting);
    driver.now = START.after(std::time::Duration::from_secs(10));
    let outputs = driver.step(Input::AlarmRang);
    assert_eq!(transcript(&outputs), "alarm in 20s\n");
    let outputs = driver.step(Input::Turn);
    assert_eq!(transcript(&outputs), "persist 6\nafter 6: call early\n");
}

#[test]
fn an_alarm_that_rings_early_is_set_again() {
    let mut driver = Driver::with(quiet());
    let flow = program("flow", "1.0.0", vec![wait("w", "PT10S")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    let outputs = driver.step(Input::AlarmRang);
    assert_eq!(transcript(&outputs), "alarm in 10s\n");
    assert!(!driver.engine.has_work());
}

#[test]
fn a_clock_that_jumps_far_ahead_fires_everything_that_is_due() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![wait("w", "PT10S")]);
    driver.define(&flow);
    for number in 1..=5 {
        driver.start(&flow, id(number));
    }
    driver.now = START.after(std::time::Duration::from_secs(3600));
    driver.step(Input::AlarmRang);
    driver.work();
    assert_eq!(driver.engine.counters().completed, 5);
}

#[test]
fn records_nothing_while_the_storage_is_full_and_goes_on_afterwards() {
    let mut driver = Driver::with(quiet());
    let flow = program("flow", "1.0.0", vec![call("a"), wait("w", "PT10S"), call("b")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    driver.step(Input::StorageFull);
    let outputs = driver.step(Input::Asked { caller: Caller(9), ask: start_of(&flow, id(2)) });
    let [refusal] = &outputs[..] else { panic!("{}", transcript(&outputs)) };
    let reply = Reply::Refused(outlast_engine::Refusal::StorageFull);
    assert_eq!(refusal.action, Action::Reply { caller: Caller(9), reply });
    assert_eq!(refusal.after, None, "it does not wait for the storage it is about");
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Running, "reading goes on");
    let (execution, ticket, _) = driver.calls.pop_front().unwrap();
    let answer = Answer::Succeeded(driver::text("done"));
    let outputs = driver.step(Input::Answered { execution, ticket, answer });
    assert_eq!(transcript(&outputs), "");
    assert!(!driver.engine.has_work());
    driver.step(Input::StorageFreed);
    assert_eq!(driver.finish(), ["b"]);
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed);
}

#[test]
fn each_step_that_changes_something_writes_one_record_and_reports_it_afterwards() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    let outputs = driver.step(Input::Asked { caller: Caller(9), ask: start_of(&flow, id(1)) });
    let reports: Vec<_> =
        outputs.iter().filter(|output| matches!(output.action, Action::Report(_))).collect();
    assert!(!reports.is_empty());
    assert!(reports.iter().all(|output| output.after == Some(driver.engine.position())));
}
