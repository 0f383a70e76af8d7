//! Definitions, starting, refusing, listing, forgetting.

mod driver;

use std::sync::Arc;
use std::time::Duration;

use driver::{
    Driver, START, call, id, named_start, options, program, program_in, set, start_of, text, wait,
};
use outlast_engine::{
    Ask, Condition, EngineOptions, Filter, Input, Limits, Quota, Refusal, Reply, Retention,
    StartAsk, Which, WorkflowVersion,
};

fn refusal(reply: Reply) -> Refusal {
    match reply {
        Reply::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn is_new(reply: &Reply) -> bool {
    matches!(reply, Reply::Started { new: true, .. })
}

#[test]
fn registering_the_same_text_twice_registers_once() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    assert_eq!(driver.define(&flow), Reply::Defined { digest: flow.digest, new: true });
    let records = driver.journal.len();
    assert_eq!(driver.define(&flow), Reply::Defined { digest: flow.digest, new: false });
    assert_eq!(driver.journal.len(), records);
}

#[test]
fn refuses_another_text_for_a_version_that_is_taken() {
    let mut driver = Driver::new();
    driver.define(&program("flow", "1.0.0", vec![call("a")]));
    let other = program("flow", "1.0.0", vec![call("b")]);
    assert!(matches!(refusal(driver.define(&other)), Refusal::Conflict(_)));
}

#[test]
fn the_latest_version_is_decided_when_an_execution_starts() {
    let mut driver = Driver::new();
    let (old, new) = (
        program("flow", "1.9.0", vec![wait("w", "PT1H"), call("old")]),
        program("flow", "1.10.0", vec![call("new")]),
    );
    driver.define(&old);
    let latest = |number| {
        let Ask::Start(start) = start_of(&old, id(number)) else { unreachable!() };
        Ask::Start(Box::new(StartAsk { version: WorkflowVersion::Latest, ..*start }))
    };
    driver.ask(latest(1));
    driver.define(&new);
    driver.ask(latest(2));
    assert_eq!(driver.show(id(1)).summary.version, "1.9.0");
    assert_eq!(driver.show(id(2)).summary.version, "1.10.0");
    driver.restart();
    assert_eq!(driver.show(id(1)).summary.version, "1.9.0");
    assert_eq!(driver.finish(), ["new", "old"]);
    // Asked again for the latest, the first is still the one that was started.
    assert!(!is_new(&driver.ask(latest(1))));
}

#[test]
fn starting_twice_with_one_name_starts_once() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    let first = driver.ask(named_start(&flow, id(1), "order-7", text("x")));
    let again = driver.ask(named_start(&flow, id(2), "order-7", text("x")));
    assert!(is_new(&first));
    let definition = flow.digest;
    assert_eq!(again, Reply::Started { execution: id(1), definition, new: false });
    assert_eq!(driver.calls.len(), 1);
}

#[test]
fn refuses_a_name_that_is_taken_by_another_input() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    driver.ask(named_start(&flow, id(1), "order-7", text("x")));
    let other = driver.ask(named_start(&flow, id(2), "order-7", text("y")));
    assert!(matches!(refusal(other), Refusal::Conflict(_)));
    let other = driver.ask(named_start(&flow, id(1), "order-8", text("x")));
    assert!(matches!(refusal(other), Refusal::Conflict(_)), "an id has one name");
}

#[test]
fn refuses_what_is_too_large_before_a_record_exists() {
    let limits = Limits { input_bytes: 100, name_bytes: 10, ..Limits::default() };
    let mut driver = Driver::with(EngineOptions { limits, ..options() });
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    let records = driver.journal.len();
    let large = text(&"x".repeat(101));
    let refused = refusal(driver.ask(named_start(&flow, id(1), "order", large)));
    assert!(matches!(refused, Refusal::TooLarge { what: "the input", limit: 100, .. }));
    let refused = refusal(driver.ask(named_start(&flow, id(1), "a-long-name", text("x"))));
    assert!(matches!(refused, Refusal::TooLarge { what: "the name", .. }));
    assert_eq!(driver.journal.len(), records);
}

#[test]
fn refuses_new_work_of_a_namespace_that_used_up_its_quota() {
    let quotas = [("greedy".to_owned(), Quota { live: 2, ..Quota::default() })].into();
    let mut driver = Driver::with(EngineOptions { quotas, ..options() });
    let greedy = program_in("greedy", "flow", "1.0.0", vec![call("a")]);
    let modest = program_in("modest", "flow", "1.0.0", vec![call("a")]);
    driver.define(&greedy);
    driver.define(&modest);
    assert!(is_new(&driver.start(&greedy, id(1))));
    assert!(is_new(&driver.start(&greedy, id(2))));
    let records = driver.journal.len();
    let refused = refusal(driver.start(&greedy, id(3)));
    assert!(matches!(refused, Refusal::Busy { .. }), "{refused}");
    assert_eq!(driver.journal.len(), records, "refused before a record existed");
    assert!(!is_new(&driver.start(&greedy, id(1))), "what exists is not refused");
    assert!(is_new(&driver.start(&modest, id(4))), "others are not affected");
    driver.answer_next();
    assert!(is_new(&driver.start(&greedy, id(3))), "an end makes room");
}

#[test]
fn an_unknown_definition_or_execution_is_named_in_the_refusal() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    let refused = refusal(driver.start(&flow, id(1))).to_string();
    assert!(refused.contains("test/flow (1.0.0)"), "{refused}");
    let which = Which::Named { namespace: "test".to_owned(), name: "nobody".to_owned() };
    let refused = refusal(driver.ask(Ask::Show(which))).to_string();
    assert!(refused.contains("test/nobody"), "{refused}");
}

#[test]
fn a_name_alone_is_enough_while_only_one_execution_has_it() {
    let mut driver = Driver::new();
    let here = program("flow", "1.0.0", vec![call("a")]);
    let there = program_in("other", "flow", "1.0.0", vec![call("a")]);
    driver.define(&here);
    driver.define(&there);
    driver.ask(named_start(&here, id(1), "order-7", text("x")));
    let bare = || Which::Named { namespace: String::new(), name: "order-7".to_owned() };
    assert!(
        matches!(driver.ask(Ask::Show(bare())), Reply::Shown(detail) if detail.summary.execution == id(1))
    );
    driver.ask(named_start(&there, id(2), "order-7", text("x")));
    let refused = refusal(driver.ask(Ask::Show(bare()))).to_string();
    assert!(refused.contains("order-7"), "{refused}");
}

#[test]
fn lists_by_condition_namespace_and_page() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    let other = program_in("other", "flow", "1.0.0", vec![wait("w", "PT1H")]);
    driver.define(&flow);
    driver.define(&other);
    for number in 1..=4 {
        driver.start(&flow, id(number));
    }
    driver.start(&other, id(5));
    driver.answer_next();
    let ids = |driver: &mut Driver, filter| {
        driver.list(filter).iter().map(|summary| summary.execution).collect::<Vec<_>>()
    };
    let running = Filter { condition: Some(Condition::Running), ..Filter::default() };
    assert_eq!(ids(&mut driver, running), [id(2), id(3), id(4)]);
    let of_other = Filter { namespace: Some("other".to_owned()), ..Filter::default() };
    assert_eq!(ids(&mut driver, of_other), [id(5)]);
    let first = Filter { limit: 2, ..Filter::default() };
    let Reply::Listed { executions, next } = driver.ask(Ask::List(first.clone())) else {
        panic!("not listed")
    };
    assert_eq!((executions.len(), next), (2, Some(id(2))));
    let second = Filter { after: next, ..first };
    assert_eq!(ids(&mut driver, second), [id(3), id(4)]);
}

#[test]
fn cancels_suspends_and_resumes_and_says_what_is_not_possible() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a"), call("b")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    assert_eq!(driver.ask(Ask::Suspend(Which::Id(id(1)))), Reply::Done);
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Suspended);
    driver.answer_next();
    assert!(driver.calls.is_empty(), "nothing new begins while it is on hold");
    assert_eq!(driver.ask(Ask::Resume(Which::Id(id(1)))), Reply::Done);
    assert_eq!(driver.calls.len(), 1);
    assert_eq!(driver.ask(Ask::Cancel(Which::Id(id(1)))), Reply::Done);
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Cancelled);
    let refused = refusal(driver.ask(Ask::Cancel(Which::Id(id(1)))));
    assert!(matches!(refused, Refusal::NotPossible(_)), "{refused}");
}

#[test]
fn what_has_completed_or_was_cancelled_can_not_be_rolled_back() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    driver.answer_next();
    driver.start(&flow, id(2));
    driver.ask(Ask::Cancel(Which::Id(id(2))));
    for number in [1, 2] {
        let reason = "someone asked for it".to_owned();
        let asked = driver.ask(Ask::Compensate { which: Which::Id(id(number)), reason });
        let refused = refusal(asked).to_string();
        assert!(refused.contains("it can not be rolled back"), "{refused}");
    }
}

#[test]
fn deletes_only_what_has_ended_and_keeps_the_name_taken_for_a_while() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    driver.ask(named_start(&flow, id(1), "order-7", text("x")));
    let refused = refusal(driver.ask(Ask::Delete(Which::Id(id(1)))));
    assert!(matches!(refused, Refusal::NotPossible(_)));
    driver.answer_next();
    assert_eq!(driver.ask(Ask::Delete(Which::Id(id(1)))), Reply::Done);
    for _ in 0..2 {
        let again = refusal(driver.ask(named_start(&flow, id(2), "order-7", text("x"))));
        assert!(matches!(again, Refusal::Forgotten(_)));
        assert!(matches!(refusal(driver.ask(Ask::Show(Which::Id(id(1))))), Refusal::Forgotten(_)));
        driver.restart();
    }
    driver.now = START.after(Duration::from_secs(8 * 24 * 60 * 60));
    driver.step(Input::AlarmRang);
    assert!(is_new(&driver.ask(named_start(&flow, id(2), "order-7", text("x")))));
}

#[test]
fn a_late_answer_revives_nothing() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    let (execution, ticket, _) = driver.calls[0].clone();
    driver.answer_next();
    driver.ask(Ask::Delete(Which::Id(id(1))));
    let answer = outlast_workflow::Answer::Succeeded(text("late"));
    assert_eq!(driver.step(Input::Answered { execution, ticket, answer }), []);
    assert!(driver.list(Filter::default()).is_empty());
}

#[test]
fn forgets_the_oldest_ends_beyond_the_count_and_the_age() {
    let retention = Retention { count: 2, age: Duration::from_secs(60), ..Retention::default() };
    let mut driver = Driver::with(EngineOptions { retention, ..options() });
    let flow = program("flow", "1.0.0", vec![set("s", text("done"))]);
    driver.define(&flow);
    for number in 1..=4 {
        driver.now = START.after(Duration::from_secs(u64::from(number)));
        driver.start(&flow, id(number));
    }
    let left: Vec<_> = driver.list(Filter::default()).iter().map(|s| s.execution).collect();
    assert_eq!(left, [id(3), id(4)]);
    driver.now = START.after(Duration::from_secs(63));
    driver.step(Input::AlarmRang);
    driver.work();
    let left: Vec<_> = driver.list(Filter::default()).iter().map(|s| s.execution).collect();
    assert_eq!(left, [id(4)]);
}

#[test]
fn gives_a_definition_back_with_its_text() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![call("a")]);
    driver.define(&flow);
    driver.restart();
    let ask = Ask::Definition {
        namespace: "test".to_owned(),
        name: "flow".to_owned(),
        version: WorkflowVersion::Latest,
    };
    let Reply::Definition { summary, text } = driver.ask(ask) else { panic!("not given") };
    assert_eq!((summary.digest, text), (flow.digest, Arc::from("the text")));
}
