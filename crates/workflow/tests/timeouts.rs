//! Tasks that take too long: what they have under way is stopped, and whatever it did or may have done is undone
//! in its order, though nothing catches the timeout and the run is only rolled back, or tried again, later.

mod kit;

use std::sync::Arc;

use kit::build::{Node, Step, bare_program, call, expression, program, program_with, task};
use kit::world::World;
use outlast_expressions::value;
use outlast_lineage::{Digest, Time};
use outlast_workflow::program::bundle::link;
use outlast_workflow::program::{
    EventFilter, EventStrategy, Idempotency, Kind, ListenEach, OnFault, ReadMode, Template,
    Transform, Until,
};
use outlast_workflow::{
    Answer, Command, Event, Fault, FaultKind, Outcome, Program, Request, Ticket,
};

use Node::{
    Child, Compensate, CompensateParallel, Compete, Detach, Fork, Graph, Invoke, Limited, Loop,
    Once, Raise, Scope, Sequence, Task, Try, UndoneBy, Wait,
};

/// Longer than anything may take.
const LONG: i64 = 600_000;

fn start(root: Node) -> World {
    World::start(&program(root), value::object([]), 1)
}

fn limited(after: i64, node: Node) -> Node {
    Limited(after, Box::new(node))
}

/// Branches side by side, of every kind, that call `a` and wait for ever after `b`.
fn branches() -> Vec<Node> {
    let long = || Sequence(vec![Invoke("b"), Wait(LONG)]);
    vec![
        Fork(vec![Invoke("a"), long()]),
        Fork(vec![Fork(vec![Invoke("a"), long()]), long()]),
        Fork(vec![limited(2 * LONG, Fork(vec![Invoke("a"), long()]))]),
        Compete(vec![Sequence(vec![Invoke("a"), Wait(LONG)]), long()]),
        Loop(3, 2, Box::new(Sequence(vec![Invoke("a"), long()]))),
        Loop(2, 2, Box::new(Fork(vec![Invoke("a"), long()]))),
        Graph(
            vec![Step::new(Invoke("a")), Step::new(long()), Step::new(Invoke("c"))],
            vec![(0, 1, None)],
        ),
    ]
}

/// Where the branches may be. Each calls `z` first.
fn places(limited: Node) -> Vec<Node> {
    let after = |node| Sequence(vec![Invoke("z"), node]);
    let in_a_handler =
        Try(Box::new(Sequence(vec![Invoke("z"), Raise(418)])), 0, Some(Box::new(limited.clone())));
    vec![
        after(limited.clone()),
        after(Scope(Box::new(limited.clone()))),
        after(Fork(vec![limited.clone(), Wait(LONG)])),
        after(Loop(1, 1, Box::new(limited))),
        in_a_handler,
    ]
}

/// Answers so many calls, then lets the time pass that the task has.
fn run_out_of_time(world: &mut World, answered: usize) -> Vec<(Ticket, Request)> {
    until_called(world, "a");
    for _ in 0..answered {
        let Some((ticket, _)) = world.calls().into_iter().next() else { break };
        world.answer(ticket);
    }
    let unheard = world.calls();
    assert!(world.next_timer());
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))), "{:?}", world.execution);
    unheard
}

fn until_called(world: &mut World, name: &str) {
    while world.call_of(name).is_none() {
        assert!(world.step(), "`{name}` is called in the end");
    }
}

fn roll_back(world: &mut World) {
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert!(world.net_by_place().values().all(|stands| *stands == 0), "{:?}", world.deeds);
}

#[test]
fn branches_that_took_too_long_are_rolled_back_on_request() {
    for flow in branches().into_iter().flat_map(|branches| places(limited(10, branches))) {
        for answered in 0..4 {
            let mut world = start(flow.clone());
            let unheard = run_out_of_time(&mut world, answered);
            assert!(world.open.is_empty(), "nothing of it goes on: {:?}", world.open);
            // Some of what nobody waits for any more happens all the same.
            for (_, request) in unheard.iter().step_by(2) {
                world.serve(request);
            }
            roll_back(&mut world);
            assert_eq!(world.done().last(), Some(&"z-bar"), "{flow:?}: {:?}", world.done());
        }
    }
}

/// Where calls wait until others know of them, some are still held back when their time is over.
#[test]
fn what_was_held_back_when_its_time_was_over_is_not_made_in_order_to_undo_it() {
    for flow in branches().into_iter().flat_map(|branches| places(limited(10, branches))) {
        let mut world = start(flow.clone());
        until_called(&mut world, "a");
        let held_back = world.calls();
        let unsent = held_back.iter().map(|(ticket, _)| *ticket).collect();
        let (at, deadline) = first_timer(&world);
        world.now = at;
        world.open.remove(&deadline);
        let event = Box::new(Event::TimerFired(deadline));
        world.happen(Event::WhileHeldBack { unsent, event });
        assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))), "{flow:?}");
        roll_back(&mut world);
        for (_, request) in &held_back {
            let is_made = world.deeds.iter().any(|deed| deed.key == request.key.to_string());
            assert!(!is_made, "{flow:?}: {:?}", world.deeds);
        }
        assert_eq!(world.done().last(), Some(&"z-bar"), "{flow:?}: {:?}", world.done());
    }
}

/// The timer that fires first, and when.
fn first_timer(world: &World) -> (Time, Ticket) {
    let timers = world.open.iter().filter_map(|(ticket, command)| match command {
        Command::SetTimer { at, .. } => Some((*at, *ticket)),
        _ => None,
    });
    timers.min().expect("its time is limited")
}

#[test]
fn branches_that_took_too_long_are_run_again_and_what_they_did_is_not_done_twice() {
    for branches in branches() {
        for flow in places(limited(2 * LONG - 10, branches)) {
            let mut world = start(flow.clone());
            world.now = world.now.after(std::time::Duration::from_millis(1));
            until_called(&mut world, "a");
            let (ticket, first) = world.call_of("a").expect("it is called");
            world.answer(ticket);
            // All the waiting in it is over only after its time.
            fire_deadline(&mut world, 2 * LONG - 10);
            assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))), "{flow:?}");
            world.happen(Event::RetryRequested);
            until_called(&mut world, "a");
            let again: Vec<_> = world.calls().iter().map(|(_, request)| request.key).collect();
            assert!(again.contains(&first.key), "{flow:?}: {again:?}");
            assert!(matches!(world.run(), Outcome::Completed(_) | Outcome::Faulted(_)));
            let twice = |name: &str| {
                let mut keys: Vec<_> =
                    world.deeds.iter().filter(|deed| deed.name == name).map(|d| &d.key).collect();
                let all = keys.len();
                keys.sort_unstable();
                keys.dedup();
                keys.len() < all
            };
            assert!(!twice("a") && !twice("b"), "{:?}", world.deeds);
        }
    }
}

/// Fires the timer that was set for so many milliseconds.
fn fire_deadline(world: &mut World, after: i64) {
    let begun = world.now.as_millis() as i64;
    let far = |at: &Time| (at.as_millis() as i64 - begun - after).abs() < 1000;
    let timers = world.open.iter().filter_map(|(ticket, command)| match command {
        Command::SetTimer { at, .. } if far(at) => Some((*at, *ticket)),
        _ => None,
    });
    let (at, ticket) = timers.min().expect("its time is limited");
    world.now = at;
    world.open.remove(&ticket);
    world.happen(Event::TimerFired(ticket));
}

#[test]
fn what_is_run_again_has_other_tickets_and_other_effects() {
    let once = || {
        let mut once = call("a");
        once.traits.idempotency = Some(Idempotency { key: None, header: None, none: true });
        Task(Box::new(once))
    };
    let branches = [
        Fork(vec![once(), Wait(LONG)]),
        Compete(vec![once(), Wait(LONG)]),
        Fork(vec![Fork(vec![once()]), Wait(LONG)]),
        Loop(3, 2, Box::new(once())),
        Graph(vec![Step::new(once())], vec![]),
    ];
    for flow in branches.into_iter().flat_map(|branches| places(limited(10, branches))) {
        let mut world = start(flow.clone());
        let mut unheard: Vec<(Ticket, Request)> = Vec::new();
        for _ in 0..3 {
            until_called(&mut world, "a");
            let now = world.calls();
            for (ticket, request) in &now {
                let is_known = |(other, known): &(Ticket, Request)| {
                    other == ticket || known.effect == request.effect || known.key == request.key
                };
                assert!(!unheard.iter().any(is_known), "{flow:?}: {unheard:?}, {now:?}");
            }
            unheard.extend(now);
            world.open.retain(|_, command| !matches!(command, Command::Call { .. }));
            assert!(world.next_timer());
            assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))), "{flow:?}");
            world.happen(Event::RetryRequested);
        }
    }
}

#[test]
fn branches_that_took_too_long_are_rolled_back_after_they_were_run_again() {
    for flow in branches().into_iter().flat_map(|branches| places(limited(10, branches))) {
        for answered in 0..4 {
            let mut world = start(flow.clone());
            run_out_of_time(&mut world, answered);
            world.happen(Event::RetryRequested);
            run_out_of_time(&mut world, 3 - answered);
            roll_back(&mut world);
        }
    }
}

#[test]
fn a_late_answer_to_a_call_of_a_stopped_branch_finds_nobody() {
    for flow in branches().into_iter().map(|branches| limited(10, branches)) {
        let mut world = start(flow);
        let unheard = run_out_of_time(&mut world, 0);
        let late = |world: &mut World| {
            for (ticket, request) in &unheard {
                let answer = world.serve(request);
                world.happen(Event::Answered { ticket: *ticket, answer });
            }
        };
        late(&mut world);
        world.happen(Event::CompensateRequested("the test asks for it".into()));
        late(&mut world);
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        assert!(world.net().values().all(|stands| *stands == 0), "{:?}", world.deeds);
    }
}

#[test]
fn a_call_of_a_stopped_branch_that_must_not_be_repeated_is_left_to_a_person() {
    let mut world = start(limited(10, Fork(vec![Once("a"), Invoke("b")])));
    let unheard = run_out_of_time(&mut world, 0);
    let (_, once) = unheard.iter().find(|(_, it)| it.effect.branch == unheard[0].0.branch).unwrap();
    world.serve(once);
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    while world.execution.parked().is_empty() {
        assert!(world.step(), "it is parked in the end");
    }
    world.resolve_truthfully();
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert!(world.net().values().all(|stands| *stands == 0), "{:?}", world.deeds);
}

#[test]
fn another_node_goes_on_with_branches_that_took_too_long() {
    for flow in branches().into_iter().map(|branches| limited(10, branches)) {
        for retried in [false, true] {
            let mut world = World::start_shared(&program(flow.clone()), value::object([]), 1);
            run_out_of_time(&mut world, 1);
            world.go_on_as(2);
            if retried {
                world.happen(Event::RetryRequested);
                run_out_of_time(&mut world, 1);
                world.go_on_as(3);
            }
            roll_back(&mut world);
        }
    }
}

/// A program that runs a workflow as part of itself, with its time limited or not.
fn with_part(inner: Node, of_inner: OnFault, limits: bool) -> Arc<Program> {
    let root = if limits { limited(10, Child("one")) } else { Child("one") };
    let root = bare_program("around", Sequence(vec![Invoke("z"), root]), OnFault::Leave);
    let one = Arc::new(bare_program("one", inner, of_inner));
    Arc::new(link(Digest::of(b"bundle"), &root, &[(vec!["test/one:1.0.0".to_owned()], one)]))
}

#[test]
fn a_sub_workflow_that_takes_too_long_is_rolled_back_with_what_is_around_it() {
    for on_fault in [OnFault::Leave, OnFault::Compensate] {
        for branches in branches() {
            let inside = with_part(limited(10, branches.clone()), OnFault::Leave, false);
            for program in [inside, with_part(branches, on_fault, true)] {
                for answered in 0..3 {
                    let mut world = World::start_shared(&program, value::object([]), 1);
                    run_out_of_time(&mut world, answered);
                    assert!(world.open.is_empty(), "nothing of it goes on: {:?}", world.open);
                    roll_back(&mut world);
                    assert_eq!(world.done().last(), Some(&"z-bar"));
                }
            }
        }
    }
}

/// It was stopped, which undid nothing: what it asks for next time is the same.
#[test]
fn a_sub_workflow_that_took_too_long_asks_again_by_the_same_keys() {
    for on_fault in [OnFault::Leave, OnFault::Compensate] {
        let program = with_part(Sequence(vec![Invoke("a"), Invoke("b")]), on_fault, true);
        let mut world = World::start_shared(&program, value::object([]), 1);
        run_out_of_time(&mut world, 1);
        world.happen(Event::RetryRequested);
        assert!(matches!(world.run(), Outcome::Completed(_)));
        assert_eq!(world.done(), ["z", "a", "b"]);
    }
}

#[test]
fn a_child_that_takes_too_long_is_stopped_and_undone_and_another_is_started() {
    let mut world = start(limited(10, Child("one")));
    let started = |world: &World| {
        let mut open = world.open.values();
        open.find_map(|command| match command {
            Command::StartChild { child, .. } => Some(*child),
            _ => None,
        })
    };
    let first = started(&world).expect("it is started");
    world.next_timer();
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    assert_eq!(world.children.get(&first), Some(&"cancelled"));
    let mut again = world.clone();
    again.open.clear();
    again.happen(Event::RetryRequested);
    let second = started(&again).expect("it is started");
    assert_ne!(first, second, "who was stopped would only say so");
    for (mut world, children) in [(world, vec![first]), (again, vec![first, second])] {
        world.happen(Event::CompensateRequested("the test asks for it".into()));
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        for child in children {
            assert_eq!(world.children.get(&child), Some(&"compensated"));
        }
    }
}

/// Whether it has begun is not known here: then it is left alone, and not begun a second time.
#[test]
fn whom_nobody_waits_for_is_not_undone_and_not_started_twice_if_the_start_takes_too_long() {
    let mut world = start(Sequence(vec![Invoke("a"), limited(10, Detach("one"))]));
    world.step();
    let started = |world: &World| {
        let mut open = world.open.values();
        open.find_map(|command| match command {
            Command::StartChild { child, .. } => Some(*child),
            _ => None,
        })
    };
    let child = started(&world).expect("it is started");
    world.next_timer();
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    let mut again = world.clone();
    again.open.clear();
    again.happen(Event::RetryRequested);
    assert_eq!(started(&again), Some(child));
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_ne!(world.children.get(&child), Some(&"compensated"));
    assert_eq!(world.done(), ["a", "a-bar"]);
}

fn listen(each: Option<ListenEach>) -> Node {
    let kind = Template::Literal(value::string("wanted"));
    let filter = EventFilter { with: vec![("type".to_owned(), kind)], correlate: Vec::new() };
    let to = EventStrategy::Any(vec![filter], Some(Until::Condition(expression("false"))));
    Task(Box::new(task("listen", "/listen", Kind::Listen { to, read: ReadMode::Data, each })))
}

#[test]
fn whoever_listens_for_too_long_listens_no_more() {
    let nothing = || Transform { schema: None, template: None };
    let (item, at) = ("item".to_owned(), "index".to_owned());
    let each = ListenEach { item, at, body: None, output: nothing(), export: nothing() };
    for comes in [false, true] {
        for each in [None, Some(each.clone())] {
            let mut world = start(limited(10, listen(each)));
            if comes {
                let event = value::object([("type", value::string("wanted"))]);
                world.happen(Event::Arrived { number: 1, event });
            }
            assert!(world.next_timer());
            assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
            assert!(world.open.is_empty(), "{:?}", world.open);
        }
    }
}

#[test]
fn a_wait_that_takes_too_long_is_over() {
    let mut world = start(limited(10, Wait(LONG)));
    assert!(world.next_timer());
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    assert!(world.open.is_empty(), "{:?}", world.open);
}

/// What a rollback in reverse order must give, whatever had the time.
fn undone_in_order(flow: Node, answered: usize, order: &[&str]) {
    for on_fault in [OnFault::Compensate, OnFault::Leave] {
        let program = program_with(Sequence(vec![Invoke("z"), flow.clone()]), on_fault);
        let mut world = World::start(&program, value::object([]), 1);
        for _ in 0..=answered {
            let (ticket, _) = world.calls().into_iter().next().expect("it calls");
            world.answer(ticket);
        }
        let (_, unheard) = world.calls().into_iter().next().expect("it calls");
        world.serve(&unheard);
        assert!(world.next_timer());
        if on_fault == OnFault::Leave {
            assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
            world.happen(Event::CompensateRequested("the test asks for it".into()));
        }
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        let undone: Vec<&str> =
            world.done().into_iter().filter(|name| name.ends_with("-bar")).collect();
        assert_eq!(undone, order, "{flow:?}");
    }
}

#[test]
fn a_call_under_way_when_a_scope_takes_too_long_is_undone_before_what_the_scope_did() {
    let calls = || Sequence(vec![Invoke("a"), Invoke("b"), Invoke("c")]);
    let failing = || Box::new(Sequence(vec![Invoke("a"), Raise(418)]));
    let handler = || Some(Box::new(Sequence(vec![Invoke("b"), Invoke("c")])));
    let handled = limited(10, Try(failing(), 0, handler()));
    let tried = limited(10, Try(Box::new(calls()), 0, None));
    let scope = limited(10, Scope(Box::new(calls())));
    let none = limited(10, calls());
    let rest = Fork(vec![Sequence(vec![Invoke("b"), Invoke("c")])]);
    let in_a_fork = limited(10, Scope(Box::new(Sequence(vec![Invoke("a"), rest]))));
    for flow in [handled, tried, scope, none, in_a_fork] {
        undone_in_order(flow.clone(), 1, &["b-bar", "a-bar", "z-bar"]);
        undone_in_order(flow, 2, &["c-bar", "b-bar", "a-bar", "z-bar"]);
    }
}

/// The calls of attempts that are over, of which it is not known whether they happened.
#[test]
fn what_may_have_happened_in_an_earlier_attempt_is_undone_after_the_whole_took_too_long() {
    let mut world = start(limited(50, Try(Box::new(Invoke("a")), 3, None)));
    let (ticket, request) = world.call_of("a").expect("it is called at once");
    world.serve(&request);
    let fault = Fault::new(FaultKind::Communication, "no answer", "it was lost");
    world.happen(Event::Answered { ticket, answer: Answer::Unknown(fault) });
    // The next attempt is due later than the whole may take.
    assert!(world.next_timer());
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    assert!(world.open.is_empty(), "{:?}", world.open);
    roll_back(&mut world);
    assert_eq!(world.done(), ["a", "a-bar"]);
}

/// Programs in which a task that has branches under way fails otherwise.
#[test]
fn branches_of_a_task_that_fails_itself_are_stopped_and_undone() {
    let steps = || vec![Step::new(Invoke("a")), Step::new(Sequence(vec![Invoke("b"), Wait(LONG)]))];
    let next = Step::new(Invoke("c")).when("error");
    let region = Graph(steps().into_iter().chain([next]).collect(), vec![(0, 2, None)]);
    let mut world = start(Sequence(vec![Invoke("z"), region]));
    until_called(&mut world, "a");
    let (_, unheard) = world.call_of("b").expect("it is called beside it");
    let (ticket, _) = world.call_of("a").expect("it is called");
    world.answer(ticket);
    // Whether `c` is wanted has no answer.
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    assert!(world.open.is_empty(), "{:?}", world.open);
    world.serve(&unheard);
    roll_back(&mut world);
    assert_eq!(world.done().last(), Some(&"z-bar"));
}

#[test]
fn branches_of_an_attempt_that_took_too_long_are_stopped_and_undone() {
    for branches in branches() {
        let root = Sequence(vec![Invoke("z"), Try(Box::new(branches), 1, None)]);
        let mut program = bare_program("built", root, OnFault::Leave);
        for task in &mut program.tasks {
            if let Kind::Try { catch, .. } = &mut task.kind {
                catch.errors.status = Some(404);
                let policy = catch.retry.as_mut().expect("it is tried again");
                policy.attempt_duration = Some(Template::Literal(value::string("PT0.01S")));
            }
        }
        let program = Arc::new(program);
        for answered in 0..3 {
            let mut world = World::start(&program, value::object([]), 1);
            run_out_of_time(&mut world, answered);
            assert!(world.calls().is_empty(), "nothing of it goes on: {:?}", world.open);
            roll_back(&mut world);
            assert_eq!(world.done().last(), Some(&"z-bar"));
        }
    }
}

#[test]
fn a_rollback_that_takes_too_long_is_finished_by_the_next_one() {
    let slow = |name, undo| UndoneBy(name, Box::new(Sequence(vec![Wait(100), Node::Plain(undo)])));
    let done = || Fork(vec![slow("a", "a-bar"), slow("b", "b-bar")]);
    for compensate in [Compensate, CompensateParallel] {
        for retried in [false, true] {
            let calls = vec![Invoke("y"), done(), Invoke("c"), limited(50, compensate.clone())];
            let mut world = start(Sequence(vec![Invoke("z"), Scope(Box::new(Sequence(calls)))]));
            while !world.done().contains(&"c-bar") {
                assert!(world.step(), "the last one is undone at once");
            }
            assert!(world.next_timer());
            assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
            assert!(world.open.is_empty(), "nothing of it goes on: {:?}", world.open);
            if retried {
                world.happen(Event::RetryRequested);
                assert!(world.next_timer());
                assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
            }
            roll_back(&mut world);
            let end = world.done().split_off(world.deeds.len() - 2);
            assert_eq!(end, ["y-bar", "z-bar"]);
        }
    }
}
