//! Answers with which an execution would hold more than it may: the call has happened, its task fails,
//! and what it did is undone like anything else.

mod cluster;
mod driver;

use std::sync::Arc;
use std::time::Duration;

use cluster::{Cluster, Provider, program_of};
use driver::{Driver, id, service_of};
use outlast_engine::{Condition, EngineOptions, Input, Limits, Strategy, Survival};
use outlast_expressions::{Filter, Value, value};
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::program::{Expression, OnFault, Place, Template};
use outlast_workflow::{Answer, Outcome, Program, Request, Target, Ticket};

const LIMIT: usize = 50_000;
const A_WHILE: Duration = Duration::from_secs(5);

/// A call under way.
type Call = (ExecutionId, Ticket, Request);

/// `b`, then `a`; what undoes `a` is told the number that it answered.
fn flow() -> Arc<Program> {
    let mut flow = program_of("flow", &[("b", Provider::Keyed), ("a", Provider::Keyed)]);
    let program = Arc::get_mut(&mut flow).expect("nobody else has it");
    program.on_fault = OnFault::Compensate;
    let a = program.tasks.iter_mut().find(|task| task.name == "a").expect("it was built");
    let filter = Filter::compile(".id", &[]).expect("it is an expression");
    let capture = Expression { filter, place: Place::default() };
    a.traits.compensation.as_mut().expect("it is undone").capture =
        Some(Template::Computed(capture));
    flow
}

fn options(node: NodeId) -> EngineOptions {
    let limits = Limits { execution_bytes: LIMIT, ..Limits::default() };
    EngineOptions { limits, ..EngineOptions::new(node) }
}

fn too_much() -> Answer {
    let text = value::string(&"x".repeat(LIMIT));
    Answer::Succeeded(value::object([("id", value::integer(7)), ("text", text)]))
}

fn arguments((_, _, request): &Call) -> &Value {
    let Target::Catalog { arguments, .. } = &request.target else { panic!("it is of the catalog") };
    arguments
}

fn call_of(driver: &mut Driver, name: &str) -> Call {
    let call = driver.calls.pop_front().expect("a call is open");
    assert_eq!(service_of(&call.2), name);
    call
}

fn answer(driver: &mut Driver, (execution, ticket, _): Call, answer: Answer) {
    driver.step(Input::Answered { execution, ticket, answer });
    driver.work();
}

/// A node alone that has just called `a`.
fn alone() -> Driver {
    let mut driver = Driver::with(options(NodeId(1)));
    let flow = flow();
    driver.define(&flow);
    driver.start(&flow, id(1));
    driver.answer_next();
    driver
}

#[test]
fn a_call_whose_answer_does_not_fit_is_undone_with_what_its_undo_captures() {
    for restarts in 0..2 {
        let mut driver = alone();
        let call = call_of(&mut driver, "a");
        answer(&mut driver, call, too_much());
        (0..restarts).for_each(|_| drop(driver.restart()));
        let undo = call_of(&mut driver, "undo a");
        assert_eq!(*arguments(&undo), value::integer(7));
        driver.calls.push_front(undo);
        assert_eq!(driver.finish(), ["undo a", "undo b"], "nothing is asked for again");
        let Some(Outcome::Compensated(fault)) = driver.show(id(1)).outcome else {
            panic!("all is rolled back")
        };
        assert_eq!(fault.title.as_deref(), Some("Answer too large"));
    }
}

#[test]
fn where_several_nodes_hold_it_it_is_the_same() {
    let flow = flow();
    let mut cluster = Cluster::with(3, &flow, options);
    cluster.start(&flow, id(5), Survival::new(Strategy::Passive, 3));
    cluster.run(Duration::from_millis(100));
    let call = cluster.call_of(3);
    cluster.answer(3, call);
    cluster.run(Duration::from_millis(100));
    let call = cluster.call_of(3);
    answer(cluster.node(3), call, too_much());
    cluster.run(Duration::from_millis(100));
    // Another one goes on from what it was told.
    cluster.kill(3);
    let called = cluster.run_answering(A_WHILE);
    let called: Vec<(u64, &str)> = called.iter().map(|(node, it)| (*node, it.as_str())).collect();
    assert_eq!(called, [(2, "undo a"), (2, "undo b")]);
    assert_eq!(cluster.node(2).show(id(5)).summary.condition, Condition::Compensated);
}
