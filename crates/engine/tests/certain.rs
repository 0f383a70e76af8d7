//! Lists while the storage takes no records: they show what is durable, and do not wait.

mod driver;

use std::sync::Arc;

use driver::{Driver, call, id, options, program, start_of};
use outlast_engine::{
    Action, Ask, Caller, Condition, EngineOptions, Filter, Input, Output, Position, Refusal, Reply,
    Which,
};
use outlast_lineage::ExecutionId;
use outlast_workflow::Program;

fn flow(name: &str) -> Arc<Program> {
    program(name, "1.0.0", vec![call("a"), call("b")])
}

/// The first execution has completed and the second runs, which is durable; that the first was
/// deleted, the second completed and a third was started is not, and neither is a definition.
fn driver_on_a_full_disk() -> (Driver, Position) {
    let mut driver = Driver::with(EngineOptions { reports: false, ..options() });
    driver.define(&flow("flow"));
    driver.start(&flow("flow"), id(1));
    driver.finish();
    driver.start(&flow("flow"), id(2));
    let durable = driver.engine.position();
    driver.step(Input::Durable(durable));
    driver.finish();
    driver.ask(Ask::Delete(Which::Id(id(1))));
    driver.define(&flow("other"));
    driver.start(&flow("flow"), id(3));
    driver.step(Input::StorageFull);
    (driver, durable)
}

fn ask(driver: &mut Driver, ask: Ask) -> (Option<Position>, Reply) {
    let outputs = driver.engine.step(driver.now, Input::Asked { caller: Caller(99), ask });
    let [Output { after, action: Action::Reply { reply, .. } }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    (*after, reply.clone())
}

type Line = (ExecutionId, Condition);

fn listed(driver: &mut Driver, filter: Filter) -> (Option<Position>, Vec<Line>, bool) {
    let (after, reply) = ask(driver, Ask::List(filter));
    let Reply::Listed { executions, next } = reply else { panic!("{reply:?}") };
    let lines = executions.iter().map(|one| (one.execution, one.condition)).collect();
    (after, lines, next.is_some())
}

#[test]
fn a_list_shows_what_is_durable_while_nothing_can_be_recorded() {
    let (mut driver, durable) = driver_on_a_full_disk();
    let certain = vec![(id(1), Condition::Completed), (id(2), Condition::Running)];
    assert_eq!(listed(&mut driver, Filter::default()), (Some(durable), certain, false));
    driver.step(Input::StorageFreed);
    let newest = driver.engine.position();
    let all = vec![(id(2), Condition::Completed), (id(3), Condition::Running)];
    assert_eq!(listed(&mut driver, Filter::default()), (Some(newest), all, false));
}

#[test]
fn what_becomes_durable_on_a_full_disk_is_shown() {
    let (mut driver, _) = driver_on_a_full_disk();
    let newest = driver.engine.position();
    driver.step(Input::Durable(newest));
    let all = vec![(id(2), Condition::Completed), (id(3), Condition::Running)];
    assert_eq!(listed(&mut driver, Filter::default()), (Some(newest), all, false));
}

#[test]
fn a_list_of_a_condition_or_a_page_is_of_what_is_durable() {
    let (mut driver, durable) = driver_on_a_full_disk();
    let running = Filter { condition: Some(Condition::Running), ..Filter::default() };
    let second = vec![(id(2), Condition::Running)];
    assert_eq!(listed(&mut driver, running), (Some(durable), second.clone(), false));
    let page = Filter { limit: 1, ..Filter::default() };
    let first = vec![(id(1), Condition::Completed)];
    assert_eq!(listed(&mut driver, page.clone()), (Some(durable), first, true));
    let rest = Filter { after: Some(id(1)), ..page };
    assert_eq!(listed(&mut driver, rest), (Some(durable), second, false));
}

#[test]
fn definitions_and_parked_effects_are_shown_as_far_as_they_are_durable() {
    let (mut driver, durable) = driver_on_a_full_disk();
    let (after, reply) = ask(&mut driver, Ask::Definitions { namespace: None });
    let Reply::Definitions(definitions) = reply else { panic!("{reply:?}") };
    assert_eq!((after, definitions.len()), (Some(durable), 1));
    let (after, reply) = ask(&mut driver, Ask::Parked(Default::default()));
    assert_eq!((after, reply), (Some(durable), Reply::Parked(Vec::new())));
}

#[test]
fn that_something_is_unknown_is_said_at_once_unless_its_end_is_in_doubt() {
    let (mut driver, _) = driver_on_a_full_disk();
    let newest = driver.engine.position();
    let unknown = || Ask::Show(Which::Id(id(77)));
    assert_eq!(ask(&mut driver, unknown()).0, Some(newest));
    driver.step(Input::Durable(newest));
    let (after, reply) = ask(&mut driver, unknown());
    assert!(matches!(reply, Reply::Refused(Refusal::UnknownExecution(_))), "{reply:?}");
    assert_eq!(after, None);
}

#[test]
fn nothing_is_remembered_of_what_is_durable() {
    let mut driver = Driver::new();
    driver.define(&flow("flow"));
    for number in 1..=20 {
        driver.step(Input::Asked {
            caller: Caller(100 + u64::from(number)),
            ask: start_of(&flow("flow"), id(number)),
        });
        driver.finish();
        driver.step(Input::Durable(driver.engine.position()));
    }
    driver.step(Input::StorageFull);
    let (_, lines, _) = listed(&mut driver, Filter::default());
    assert!(lines.iter().all(|(_, condition)| *condition == Condition::Completed));
    assert_eq!(lines.len(), 20);
}
