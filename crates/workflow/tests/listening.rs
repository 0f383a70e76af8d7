//! `listen` and `emit`: which events are consumed, in which order, and what survives a restart.

mod kit;

use kit::build::{Node, bare_program, expression, task};
use kit::world::World;
use outlast_expressions::{Value, value};
use outlast_workflow::program::{
    EventFilter, EventStrategy, Kind, ListenEach, OnFault, ReadMode, Template, Transform, Until,
};
use outlast_workflow::{Command, Event, Outcome, Program, TaskId};
use std::sync::Arc;

use Node::{Fork, Plain, Sequence, Set};

fn filter(kind: &str) -> EventFilter {
    let kind = Template::Literal(value::string(kind));
    EventFilter { with: vec![("type".to_owned(), kind)], correlate: Vec::new() }
}

fn listen(to: EventStrategy) -> Node {
    let kind = Kind::Listen { to, read: ReadMode::Data, each: None };
    Node::Task(Box::new(task("listen", "/listen", kind)))
}

fn start(root: Node) -> World {
    started(Arc::new(bare_program("listener", root, OnFault::Leave)))
}

fn started(program: Arc<Program>) -> World {
    World::start(&program, value::object([]), 1)
}

/// Gives an event with a type and data to the execution.
fn arrive(world: &mut World, number: u64, kind: &str, data: &str) {
    let data = value::parse(data).expect("the test's data is JSON");
    let event = value::object([("type", value::string(kind)), ("data", data)]);
    world.happen(Event::Arrived { number, event });
}

fn output(world: &World) -> String {
    match &world.ended {
        Some(Outcome::Completed(output)) => value::to_text(output),
        other => panic!("expected completion, got {other:?}"),
    }
}

#[test]
fn one_takes_the_first_event_that_fits() {
    let mut world = start(listen(EventStrategy::One(filter("wanted"))));
    arrive(&mut world, 1, "other", "1");
    assert!(world.ended.is_none());
    arrive(&mut world, 2, "wanted", "2");
    assert_eq!(output(&world), "[2]");
    assert!(world.open.is_empty(), "the subscription is over: {:?}", world.open);
}

#[test]
fn a_subscription_names_the_types_it_may_want() {
    let to = EventStrategy::Any(vec![filter("a"), filter("b")], None);
    let world = start(listen(to));
    let types: Vec<_> = world
        .open
        .values()
        .filter_map(|command| match command {
            Command::Subscribe { types, .. } => types.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(types, [["a", "b"]]);
}

#[test]
fn any_takes_whichever_comes_first() {
    let mut world = start(listen(EventStrategy::Any(vec![filter("a"), filter("b")], None)));
    arrive(&mut world, 1, "b", "7");
    assert_eq!(output(&world), "[7]");
}

#[test]
fn all_waits_for_one_event_of_each_and_keeps_their_order() {
    let mut world = start(listen(EventStrategy::All(vec![filter("a"), filter("b")])));
    arrive(&mut world, 1, "b", "1");
    arrive(&mut world, 2, "b", "2");
    assert!(world.ended.is_none(), "a second b is no a");
    arrive(&mut world, 3, "a", "3");
    assert_eq!(output(&world), "[1,3]");
}

fn many(until: Until) -> EventStrategy {
    EventStrategy::Any(vec![filter("tick")], Some(until))
}

#[test]
fn any_goes_on_until_a_condition_on_what_was_consumed_holds() {
    let until = Until::Condition(expression("length >= 3"));
    let mut world = start(listen(many(until)));
    for number in 1..=2 {
        arrive(&mut world, number, "tick", &number.to_string());
    }
    assert!(world.ended.is_none());
    arrive(&mut world, 3, "tick", "3");
    assert_eq!(output(&world), "[1,2,3]");
}

#[test]
fn any_goes_on_until_another_event_is_consumed_which_is_not_part_of_the_output() {
    let until = Until::Consumed(Box::new(EventStrategy::One(filter("stop"))));
    let mut world = start(listen(many(until)));
    arrive(&mut world, 1, "tick", "1");
    arrive(&mut world, 2, "tick", "2");
    arrive(&mut world, 3, "stop", "99");
    assert_eq!(output(&world), "[1,2]");
}

fn correlated(kind: &str, expect: Option<Template>) -> EventFilter {
    let mut filter = filter(kind);
    filter.correlate.push(("order".to_owned(), expression(".data.order"), expect));
    filter
}

#[test]
fn the_first_event_fixes_what_the_others_must_agree_with() {
    let to = EventStrategy::All(vec![correlated("paid", None), correlated("sent", None)]);
    let mut world = start(listen(to));
    arrive(&mut world, 1, "paid", r#"{"order":1}"#);
    arrive(&mut world, 2, "sent", r#"{"order":2}"#);
    assert!(world.ended.is_none(), "it is of another order");
    arrive(&mut world, 3, "sent", r#"{"order":1}"#);
    assert_eq!(output(&world), r#"[{"order":1},{"order":1}]"#);
}

#[test]
fn the_document_may_say_what_events_must_agree_with() {
    let expect = Some(Template::Literal(value::integer(5)));
    let mut world = start(listen(EventStrategy::One(correlated("paid", expect))));
    arrive(&mut world, 1, "paid", r#"{"order":4}"#);
    assert!(world.ended.is_none());
    arrive(&mut world, 2, "paid", r#"{"order":5}"#);
    assert_eq!(output(&world), r#"[{"order":5}]"#);
}

#[test]
fn the_envelope_is_read_if_it_is_wanted() {
    let kind =
        Kind::Listen { to: EventStrategy::One(filter("a")), read: ReadMode::Envelope, each: None };
    let mut world = start(Node::Task(Box::new(task("listen", "/listen", kind))));
    arrive(&mut world, 1, "a", "1");
    assert_eq!(output(&world), r#"[{"type":"a","data":1}]"#);
}

/// A listener that calls `work` for each event, gives its number, and counts in the context.
fn worker() -> World {
    let body = Sequence(vec![Plain("work"), Set("0")]);
    let until = Until::Consumed(Box::new(EventStrategy::One(filter("stop"))));
    let root = Sequence(vec![listen(many(until)), Node::If("false", Box::new(body))]);
    let mut program = bare_program("worker", root, OnFault::Leave);
    let body = program.tasks.iter().position(|task| task.name == "if").expect("it was built");
    program.tasks[body].condition = None;
    let output = Template::Computed(expression("$task.input"));
    let export = Template::Computed(expression("{seen: (($context.seen // 0) + 1)}"));
    for task in &mut program.tasks {
        if let Kind::Listen { each, .. } = &mut task.kind {
            *each = Some(ListenEach {
                item: "item".to_owned(),
                at: "index".to_owned(),
                body: Some(TaskId(body as u32)),
                output: Transform { schema: None, template: Some(output.clone()) },
                export: Transform { schema: None, template: Some(export.clone()) },
            });
            task.output.template = Some(Template::Computed(expression("[length, $context.seen]")));
        }
        // The sequence around runs the listener alone; the body is only the listener's.
        if let Kind::Sequence(tasks) = &mut task.kind {
            tasks.retain(|task| task.0 != body as u32);
        }
    }
    started(Arc::new(program))
}

fn calls(world: &World) -> usize {
    world.open.values().filter(|command| matches!(command, Command::Call { .. })).count()
}

#[test]
fn each_event_is_worked_on_in_turn_while_the_others_wait_in_line() {
    let mut world = worker();
    for number in 1..=3 {
        arrive(&mut world, number, "tick", &number.to_string());
    }
    for done in 0..3 {
        assert_eq!(calls(&world), 1, "one at a time");
        assert_eq!(world.done().len(), done);
        world.step();
    }
    assert_eq!(calls(&world), 0);
    let arguments: Vec<&str> = world.deeds.iter().map(|deed| deed.arguments.as_str()).collect();
    assert_eq!(arguments, ["1", "2", "3"], "first come, first served");
    arrive(&mut world, 4, "stop", "null");
    assert_eq!(output(&world), "[3,3]", "three items, and the context counted them");
}

#[test]
fn an_end_that_comes_while_an_item_is_worked_on_waits_for_those_in_line() {
    let mut world = worker();
    arrive(&mut world, 1, "tick", "1");
    arrive(&mut world, 2, "tick", "2");
    arrive(&mut world, 3, "stop", "null");
    arrive(&mut world, 4, "tick", "4");
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(output(&world), "[2,2]", "what came after the end is not consumed");
}

#[test]
fn each_item_calls_under_a_key_of_its_own() {
    let mut world = worker();
    arrive(&mut world, 1, "tick", "1");
    arrive(&mut world, 2, "tick", "1");
    arrive(&mut world, 3, "stop", "null");
    world.run();
    assert_eq!(world.done(), ["work", "work"], "equal requests, different items");
}

#[test]
fn a_restart_in_the_middle_loses_no_event_and_consumes_none_twice() {
    for restart_after in 0..4 {
        let mut world = worker();
        for step in 0..4u64 {
            if step == restart_after {
                world.restart();
                world.copy = world.execution.clone();
            }
            let number = step + 1;
            let kind = if number == 4 { "stop" } else { "tick" };
            arrive(&mut world, number, kind, "1");
            // The engine may offer an event again after a restart.
            arrive(&mut world, number, kind, "1");
        }
        world.run();
        assert_eq!(output(&world), "[3,3]");
        assert_eq!(world.done().len(), 3);
    }
}

#[test]
fn an_event_number_is_consumed_once() {
    let until = Until::Consumed(Box::new(EventStrategy::One(filter("stop"))));
    let mut world = start(listen(many(until)));
    arrive(&mut world, 1, "tick", "1");
    let advance = world.happen(Event::Arrived { number: 1, event: value::object([]) });
    assert!(advance.delta.is_empty(), "it changes nothing");
    arrive(&mut world, 2, "stop", "null");
    assert_eq!(output(&world), "[1]");
}

/// The engine keeps early events and offers them when someone subscribes.
#[test]
fn an_event_nobody_listens_for_yet_is_not_consumed() {
    let root = Sequence(vec![Plain("a"), listen(EventStrategy::One(filter("early")))]);
    let mut world = start(root);
    arrive(&mut world, 1, "early", "1");
    world.step();
    assert!(world.ended.is_none());
    arrive(&mut world, 1, "early", "1");
    assert_eq!(output(&world), "[1]");
}

#[test]
fn every_listener_of_a_run_hears_an_event() {
    let one = || listen(EventStrategy::One(filter("a")));
    let mut world = start(Fork(vec![one(), one()]));
    arrive(&mut world, 1, "a", "1");
    assert_eq!(output(&world), "[[1],[1]]");
}

fn emit() -> Node {
    let event = value::object([("type", value::string("said")), ("data", value::integer(1))]);
    Node::Task(Box::new(task("tell", "/tell", Kind::Emit(Template::Literal(event)))))
}

fn published(world: &World) -> Vec<Value> {
    world
        .open
        .values()
        .filter_map(|command| match command {
            Command::Publish { event, .. } => Some(event.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn emit_waits_until_its_event_is_stored() {
    let mut world = start(Sequence(vec![emit(), Plain("after")]));
    assert_eq!(published(&world).len(), 1);
    assert_eq!(calls(&world), 0, "what comes after waits");
    world.step();
    assert_eq!(calls(&world), 1);
}

#[test]
fn an_event_that_is_published_again_after_a_restart_has_the_same_id() {
    let mut world = start(emit());
    let first = published(&world);
    world.restart();
    assert_eq!(published(&world), first);
    assert!(value::get(&first[0], "id").is_some());
}

/// A task that emits an event of a type.
fn tell(kind: &str) -> Node {
    let event = value::object([("type", value::string(kind))]);
    Node::Task(Box::new(task("tell", "/tell", Kind::Emit(Template::Literal(event)))))
}

fn shared(root: Node) -> World {
    let program = Arc::new(bare_program("shared", root, OnFault::Leave));
    World::start_shared(&program, value::object([]), 1)
}

#[test]
fn a_run_that_several_nodes_hold_goes_on_while_its_events_wait_to_leave() {
    let mut world = shared(Sequence(vec![tell("a"), tell("b"), Plain("after")]));
    assert_eq!(world.open.len(), 1, "only the call is open: {:?}", world.open);
    let numbers: Vec<u64> = world.execution.outbox().map(|emitted| emitted.number).collect();
    assert_eq!(numbers, [0, 1]);
    let first = world.execution.outgoing_event(0).expect("it waits");
    assert_eq!(value::get(&first, "type").and_then(value::as_str), Some("a"));
    assert!(value::get(&first, "id").is_some(), "it has an id of its own");
    world.happen(Event::Released(0));
    assert!(world.execution.outgoing_event(0).is_none());
    let again = world.happen(Event::Released(0));
    assert!(again.delta.is_empty(), "it has left before");
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.execution.outbox().count(), 1, "the end does not wait either");
}

#[test]
fn two_lines_emit_the_same_event() {
    let root = || Sequence(vec![Plain("before"), tell("a"), Plain("after")]);
    let (mut one, mut other) = (shared(root()), shared(root()));
    other.take_over(2);
    for world in [&mut one, &mut other] {
        world.step();
    }
    let event = one.execution.outgoing_event(0);
    let id = |event: &Option<Value>| value::get(event.as_ref()?, "id").cloned();
    assert!(event.is_some());
    assert_eq!(id(&event), id(&other.execution.outgoing_event(0)));
}

#[test]
fn a_run_that_several_nodes_hold_consumes_an_event_once_in_whatever_order() {
    let any = || listen(EventStrategy::One(filter("wanted")));
    let mut world = shared(Sequence(vec![any(), any(), Set(".")]));
    arrive(&mut world, 900, "wanted", "1");
    arrive(&mut world, 900, "wanted", "1");
    assert!(world.ended.is_none(), "it was the same event");
    world.restart();
    arrive(&mut world, 900, "wanted", "1");
    assert!(world.ended.is_none(), "it is known after a restart");
    arrive(&mut world, 3, "wanted", "2");
    assert_eq!(output(&world), "[2]");
}
