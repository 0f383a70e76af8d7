//! Events, children, and turns: what executions want of each other.

mod driver;

use driver::{
    Driver, call, child, classed, emit, id, listen, options, program, program_in, raw_program, set,
    task, text, wait,
};
use outlast_engine::{Ask, Condition, EngineOptions, Input, Limits, ParkedFilter, Reply, Which};
use outlast_expressions::{Value, value};
use outlast_workflow::program::{Class, Kind, Template};
use outlast_workflow::{Outcome, Resolution, TaskId};

fn event(kind: &str, data: &str) -> Value {
    value::object([
        ("specversion", text("1.0")),
        ("id", text(data)),
        ("source", text("https://there.example")),
        ("type", text(kind)),
        ("data", text(data)),
    ])
}

#[test]
fn an_event_reaches_everyone_who_listens_and_those_who_come_later() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![listen("l", "news"), call("a")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    driver.start(&flow, id(2));
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Waiting);
    driver.ask(Ask::Publish { event: event("other", "x") });
    assert!(driver.calls.is_empty());
    let taken = driver.ask(Ask::Publish { event: event("news", "x") });
    assert_eq!(taken, Reply::EventTaken { number: 2 });
    assert_eq!(driver.calls.len(), 2);
    driver.start(&flow, id(3));
    driver.work();
    assert_eq!(driver.calls.len(), 3, "early events are buffered");
}

#[test]
fn a_signal_reaches_only_the_one_it_is_for() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![listen("l", "go"), call("a")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    driver.start(&flow, id(2));
    driver.ask(Ask::Signal { which: Which::Id(id(2)), event: event("go", "x") });
    assert_eq!(driver.calls.len(), 1);
    assert_eq!(driver.calls[0].0, id(2));
}

#[test]
fn what_a_listener_has_not_seen_is_shown_after_a_restart() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![listen("l", "news"), call("a")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    // The event is recorded, and the node stops before anyone has seen it.
    driver.send(Ask::Publish { event: event("news", "x") });
    driver.restart();
    driver.work();
    assert_eq!(driver.calls.len(), 1);
    assert_eq!(driver.finish(), ["a"]);
}

#[test]
fn an_execution_publishes_once_whenever_the_node_stops() {
    let mut driver = Driver::new();
    let speaker = program("speaker", "1.0.0", vec![emit("e", "news"), call("after")]);
    let listener =
        program("listener", "1.0.0", vec![listen("l", "news"), listen("m", "news"), call("two")]);
    driver.define(&speaker);
    driver.define(&listener);
    driver.start(&listener, id(1));
    driver.send(driver::start_of(&speaker, id(2)));
    driver.restart();
    driver.step(Input::Turn);
    driver.restart();
    driver.work();
    assert_eq!(driver.engine.counters().completed, 0);
    let names: Vec<_> = driver.calls.iter().map(|(_, _, call)| driver::service_of(call)).collect();
    assert_eq!(names, ["after"], "the listener has heard one event and waits for another");
}

#[test]
fn refuses_what_is_no_event_or_too_large() {
    let limits = Limits { event_bytes: 200, ..Limits::default() };
    let mut driver = Driver::with(EngineOptions { limits, ..options() });
    for wrong in [text("news"), value::object([("type", Value::Null)])] {
        let reply = driver.ask(Ask::Publish { event: wrong });
        assert!(matches!(reply, Reply::Refused(outlast_engine::Refusal::Invalid(_))));
    }
    let reply = driver.ask(Ask::Publish { event: event("news", &"x".repeat(200)) });
    assert!(matches!(reply, Reply::Refused(outlast_engine::Refusal::TooLarge { .. })));
}

#[test]
fn drops_early_events_beyond_its_bound_but_none_that_is_owed() {
    let limits = Limits { buffered_events: 3, ..Limits::default() };
    let mut driver = Driver::with(EngineOptions { limits, ..options() });
    let flow = program("flow", "1.0.0", vec![listen("l", "news"), call("a")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    driver.send(Ask::Publish { event: event("news", "first") });
    for number in 0..4 {
        driver.send(Ask::Publish { event: event("noise", &number.to_string()) });
    }
    assert_eq!(driver.engine.counters().events_dropped, 0, "the first is not seen yet");
    driver.work();
    assert_eq!(driver.calls.len(), 1);
    driver.ask(Ask::Publish { event: event("noise", "last") });
    assert!(driver.engine.counters().events_dropped > 0);
}

#[test]
fn a_parent_goes_on_with_the_output_of_its_child() {
    let mut driver = Driver::new();
    let inner = program("inner", "1.0.0", vec![call("deep")]);
    let outer = program("outer", "1.0.0", vec![child("c", "inner", true), call("after")]);
    driver.define(&inner);
    driver.define(&outer);
    driver.start(&outer, id(1));
    assert_eq!(driver.finish(), ["deep", "after"]);
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed);
    assert_eq!(driver.engine.counters().completed, 2);
}

#[test]
fn a_child_survives_a_restart_at_every_point() {
    for stop_after in 0..12 {
        let mut driver = Driver::new();
        let inner = program("inner", "1.0.0", vec![call("deep")]);
        let outer = program("outer", "1.0.0", vec![child("c", "inner", true), call("after")]);
        driver.define(&inner);
        driver.define(&outer);
        driver.send(driver::start_of(&outer, id(1)));
        let mut steps = 0;
        while steps < stop_after && (driver.engine.has_work() || !driver.calls.is_empty()) {
            steps += 1;
            if driver.engine.has_work() {
                driver.step(Input::Turn);
            } else {
                let (execution, ticket, _) = driver.calls.pop_front().unwrap();
                let answer = outlast_workflow::Answer::Succeeded(text("x"));
                driver.step(Input::Answered { execution, ticket, answer });
            }
        }
        driver.restart();
        driver.finish();
        assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed, "{stop_after}");
        assert_eq!(driver.list(Default::default()).len(), 2, "{stop_after}: one child");
    }
}

#[test]
fn a_parent_that_does_not_wait_goes_on_at_once() {
    let mut driver = Driver::new();
    let inner = program("inner", "1.0.0", vec![wait("w", "PT1H"), call("deep")]);
    let outer = program("outer", "1.0.0", vec![child("c", "inner", false)]);
    driver.define(&inner);
    driver.define(&outer);
    driver.start(&outer, id(1));
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed);
    assert_eq!(driver.engine.counters().live, 1);
    assert_eq!(driver.finish(), ["deep"]);
}

#[test]
fn a_child_without_a_definition_is_a_fault_of_its_parent() {
    let mut driver = Driver::new();
    let outer = program("outer", "1.0.0", vec![child("c", "nowhere", true)]);
    driver.define(&outer);
    driver.start(&outer, id(1));
    let Some(Outcome::Faulted(fault)) = driver.show(id(1)).outcome else { panic!("no fault") };
    assert!(fault.detail.unwrap_or_default().contains("test/nowhere:latest"));
}

#[test]
fn sub_workflows_do_not_nest_for_ever() {
    let limits = Limits { nesting: 3, ..Limits::default() };
    let mut driver = Driver::with(EngineOptions { limits, ..options() });
    let flow = program("flow", "1.0.0", vec![child("again", "flow", true)]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Faulted);
    assert_eq!(driver.list(Default::default()).len(), 4);
}

#[test]
fn cancelling_a_parent_cancels_its_child_even_over_a_restart() {
    for restart in [false, true] {
        let mut driver = Driver::new();
        let inner = program("inner", "1.0.0", vec![call("deep")]);
        let outer = program("outer", "1.0.0", vec![child("c", "inner", true)]);
        driver.define(&inner);
        driver.define(&outer);
        driver.start(&outer, id(1));
        assert_eq!(driver.calls.len(), 1);
        driver.send(Ask::Cancel(Which::Id(id(1))));
        if restart {
            driver.restart();
        }
        driver.work();
        let conditions: Vec<_> =
            driver.list(Default::default()).iter().map(|summary| summary.condition).collect();
        assert_eq!(conditions, [Condition::Cancelled; 2], "restart: {restart}");
    }
}

#[test]
fn a_loop_without_effects_does_not_stall_its_neighbours() {
    let items: Vec<_> = (0..20_000).map(value::integer).collect();
    let endless = raw_program(
        "busy",
        "spin",
        "1.0.0",
        vec![
            task("do", Kind::Sequence(vec![TaskId(1)])),
            task(
                "spin",
                Kind::Loop {
                    each: "item".to_owned(),
                    at: "index".to_owned(),
                    items: Template::Literal(items.into_iter().collect()),
                    condition: None,
                    body: TaskId(2),
                    concurrency: 1,
                },
            ),
            task("body", Kind::Sequence(vec![TaskId(3)])),
            set("nothing", Value::Null),
        ],
    );
    let quick = program_in("quick", "flow", "1.0.0", vec![listen("l", "go"), call("a")]);
    let mut driver = Driver::new();
    driver.define(&endless);
    driver.define(&quick);
    driver.start(&quick, id(2));
    driver.send(driver::start_of(&endless, id(1)));
    assert!(driver.engine.has_work(), "it gave way");
    driver.send(Ask::Signal { which: Which::Id(id(2)), event: event("go", "x") });
    let mut turns = 0;
    while driver.calls.is_empty() {
        turns += 1;
        driver.step(Input::Turn);
    }
    assert!(turns <= 5, "the neighbour had its turn after {turns}");
    driver.work();
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed);
}

#[test]
fn a_pivot_that_was_under_way_is_parked_after_a_restart_and_resolved_by_a_person() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![classed(Class::Pivot, call("pay")), call("ship")]);
    driver.define(&flow);
    driver.start(&flow, id(1));
    driver.restart();
    driver.work();
    assert!(driver.calls.is_empty(), "it is not asked again");
    let Reply::Parked(items) = driver.ask(Ask::Parked(ParkedFilter::default())) else {
        panic!("nothing parked")
    };
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].place, "/do/pay");
    assert_eq!(items[0].reason.matches("not known whether").count(), 1, "{}", items[0].reason);
    assert!(driver.show(id(1)).summary.parked);
    driver.restart();
    let resolve = Ask::Resolve {
        filter: ParkedFilter::default(),
        resolution: Resolution::Done(text("paid")),
    };
    assert_eq!(driver.ask(resolve), Reply::Resolved(items));
    assert_eq!(driver.finish(), ["ship"]);
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed);
}

#[test]
fn parked_effects_are_resolved_in_bulk_by_filter() {
    let mut driver = Driver::new();
    let flow = program("flow", "1.0.0", vec![classed(Class::Pivot, call("pay"))]);
    let other = program("other", "1.0.0", vec![classed(Class::Pivot, call("pay"))]);
    driver.define(&flow);
    driver.define(&other);
    for number in 1..=3 {
        driver.start(&flow, id(number));
    }
    driver.start(&other, id(4));
    driver.restart();
    driver.work();
    let filter = ParkedFilter { workflow: Some("flow".to_owned()), ..ParkedFilter::default() };
    let resolution = Resolution::Done(Value::Null);
    let told = driver.ask(Ask::Resolve { filter, resolution });
    assert!(matches!(&told, Reply::Resolved(items) if items.len() == 3), "{told:?}");
    assert_eq!(driver.engine.counters().parked, 1);
    assert_eq!(driver.engine.counters().live, 1);
}
