//! Flow and scopes: what comes after a task, what is rolled back how far, retries and time limits.

mod kit;

use std::collections::BTreeSet;
use std::sync::Arc;

use kit::build::{Node, bare_program, expression, task};
use kit::world::World;
use outlast_expressions::value;
use outlast_workflow::program::{
    Authentication, Backoff, Case, Class, CompensationOrder, Flow, HttpOutput, Kind, OnFailure,
    OnFault, RetryPolicy, Secretive, Service, Task, Template,
};
use outlast_workflow::{
    Answer, Command, Event, Fault, FaultKind, Outcome, Program, Target, TaskId, Ticket,
};

use Node::{Export, Fork, If, Invoke, Loop, Plain, Raise, Scope, Sequence, Set, Try, Wait};

/// A run of a program that was changed after it was built.
fn changed(root: Node, on_fault: OnFault, change: impl FnOnce(&mut Program)) -> World {
    let mut program = bare_program("flow", root, on_fault);
    change(&mut program);
    World::start(&Arc::new(program), value::object([]), 1)
}

fn id(program: &Program, name: &str) -> TaskId {
    let found = program.tasks.iter().position(|task| task.name == name);
    TaskId(found.unwrap_or_else(|| panic!("there is no {name}")) as u32)
}

fn named<'a>(program: &'a mut Program, name: &str) -> &'a mut Task {
    let TaskId(index) = id(program, name);
    &mut program.tasks[index as usize]
}

fn boxed(task: Task) -> Node {
    Node::Task(Box::new(task))
}

fn switch(cases: &[(Option<&str>, Flow)]) -> Node {
    let cases = cases.iter().map(|(when, then)| Case {
        name: "case".into(),
        when: when.map(expression),
        then: *then,
    });
    boxed(task("switch", "/switch", Kind::Switch(cases.collect())))
}

fn duration(text: &str) -> Template {
    Template::Literal(value::string(text))
}

fn output(outcome: Outcome) -> String {
    match outcome {
        Outcome::Completed(output) => value::to_text(&output),
        outcome => panic!("expected completion, got {outcome:?}"),
    }
}

fn calls(world: &World) -> Vec<Ticket> {
    let calls = world.open.iter().filter(|(_, c)| matches!(c, Command::Call { .. }));
    calls.map(|(ticket, _)| *ticket).collect()
}

/// The only open call is answered with this.
fn reply(world: &mut World, answer: Answer) {
    let ticket = calls(world)[0];
    world.open.remove(&ticket);
    world.happen(Event::Answered { ticket, answer });
}

fn fault() -> Fault {
    Fault::new(FaultKind::Communication, "refused", "by the test")
}

#[test]
fn ending_inside_an_undo_does_not_end_the_workflow() {
    let scope = Node::Scope(Box::new(Node::Sequence(vec![Node::Invoke("a"), Node::Compensate])));
    let root = Node::Sequence(vec![scope, Node::Plain("b")]);
    let mut world = changed(root, OnFault::Leave, |p| named(p, "a-bar").then = Flow::End);
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done(), ["a", "a-bar", "b"]);
}

#[test]
fn going_back_calls_again_under_new_keys() {
    let count = Export("{n: (($context.n // 0) + 1)}");
    let again = switch(&[(Some("$context.n < 4"), Flow::Goto(0))]);
    let mut world = changed(Sequence(vec![count, Plain("a"), again]), OnFault::Leave, |_| {});
    output(world.run());
    let keys: BTreeSet<&str> = world.deeds.iter().map(|deed| deed.key.as_str()).collect();
    assert_eq!((world.deeds.len(), keys.len()), (4, 4));
}

#[test]
fn going_forward_passes_tasks_over() {
    let root = Sequence(vec![Plain("a"), Plain("skipped"), Plain("b")]);
    let mut world = changed(root, OnFault::Leave, |p| named(p, "a").then = Flow::Goto(2));
    output(world.run());
    assert_eq!(world.done(), ["a", "b"]);
}

#[test]
fn exit_ends_the_list_it_stands_in_and_no_other() {
    let inner = Sequence(vec![Plain("a"), Plain("skipped")]);
    let mut world = changed(Sequence(vec![inner, Plain("b")]), OnFault::Leave, |program| {
        named(program, "a").then = Flow::Exit;
    });
    output(world.run());
    assert_eq!(world.done(), ["a", "b"]);
}

#[test]
fn end_in_a_loop_in_a_branch_ends_the_workflow_and_stops_the_other_branches() {
    let looped = Loop(3, 1, Box::new(Sequence(vec![Plain("a"), Plain("skipped")])));
    let waiting = Sequence(vec![Wait(1000), Plain("too late")]);
    let root = Sequence(vec![Fork(vec![looped, waiting]), Plain("after")]);
    let mut world = changed(root, OnFault::Leave, |p| named(p, "a").then = Flow::End);
    assert_eq!(output(world.run()), r#"{"a":1}"#);
    assert_eq!(world.done(), ["a"]);
    assert!(world.open.is_empty(), "{:?}", world.open);
}

#[test]
fn end_in_a_handler_ends_the_workflow() {
    let handled = Try(Box::new(Raise(1)), 0, Some(Box::new(Plain("a"))));
    let root = Sequence(vec![handled, Plain("after")]);
    let mut world = changed(root, OnFault::Leave, |p| named(p, "a").then = Flow::End);
    output(world.run());
    assert_eq!(world.done(), ["a"]);
}

#[test]
fn a_switch_takes_the_first_case_that_holds_and_else_the_default() {
    let taken = |cases: &[(Option<&str>, Flow)]| {
        let root = Sequence(vec![switch(cases), Plain("next"), Plain("last")]);
        let mut world = changed(root, OnFault::Leave, |_| {});
        output(world.run());
        world.done().join(" ")
    };
    let (no, yes) = (Some("false"), Some("true"));
    assert_eq!(taken(&[(no, Flow::End), (yes, Flow::Goto(2)), (yes, Flow::End)]), "last");
    assert_eq!(taken(&[(None, Flow::End), (yes, Flow::Goto(2))]), "last", "the default is last");
    assert_eq!(taken(&[(None, Flow::Goto(2)), (no, Flow::End)]), "last");
    assert_eq!(taken(&[(no, Flow::End)]), "next last", "without a default the list goes on");
}

fn compensate(scope: Option<TaskId>, until: Option<TaskId>, on_failure: OnFailure) -> Kind {
    Kind::Compensate { scope, until, order: CompensationOrder::Reverse, on_failure }
}

fn set_until(program: &mut Program, milestone: &str, scope: Option<TaskId>) {
    let until = id(program, milestone);
    named(program, milestone).traits.milestone = true;
    named(program, "compensate").kind = compensate(scope, Some(until), OnFailure::Raise);
}

#[test]
fn rolling_back_until_a_milestone_leaves_it_and_what_came_before_owed() {
    let body = vec![Invoke("a"), Invoke("b"), Invoke("c"), Node::Compensate];
    let root = Sequence(vec![Scope(Box::new(Sequence(body))), Raise(1)]);
    let mut world = changed(root, OnFault::Compensate, |p| set_until(p, "b", None));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["a", "b", "c", "c-bar", "b-bar", "a-bar"]);
}

#[test]
fn what_a_milestone_leaves_stays_owed_in_the_scope_it_came_from() {
    let inner = Scope(Box::new(Sequence(vec![
        Node::Compensate,
        boxed(task("again", "/again", compensate(None, None, OnFailure::Raise))),
    ])));
    let body = Sequence(vec![Invoke("a"), Invoke("b"), inner, Set("0")]);
    let mut world = changed(Scope(Box::new(body)), OnFault::Leave, |program| {
        // The outer scope was built last of the two.
        let outer = program.tasks.iter().rposition(|task| task.name == "scope");
        let outer = TaskId(outer.expect("it was built") as u32);
        set_until(program, "a", Some(outer));
    });
    output(world.run());
    assert_eq!(world.done(), ["a", "b", "b-bar"], "the inner scope has nothing of its own");
}

#[test]
fn an_undo_that_fails_does_not_keep_the_others_from_being_undone() {
    let body = vec![Invoke("a"), Invoke("b"), Node::Compensate];
    let mut world = changed(Scope(Box::new(Sequence(body))), OnFault::Leave, |program| {
        named(program, "compensate").kind = compensate(None, None, OnFailure::Continue);
    });
    world.broken.insert("b-bar".into());
    let lines = output(world.run());
    let expected =
        r#"[{"task":"b","status":"failed","cost":1},{"task":"a","status":"compensated","cost":1}]"#;
    assert_eq!(lines, expected);
}

#[test]
fn an_undo_that_fails_is_raised_and_stays_owed() {
    let body = Sequence(vec![Invoke("a"), Node::Compensate]);
    let handled = Try(Box::new(Scope(Box::new(body))), 0, Some(Box::new(Set("$error.status"))));
    let mut world = changed(Sequence(vec![handled, Raise(1)]), OnFault::Compensate, |_| {});
    world.broken.insert("a-bar".into());
    while world.execution.parked().is_empty() {
        assert!(world.step());
    }
    assert!(world.execution.parked()[0].undo, "rolling back the whole run tries it again");
}

/// What the first choice may have done is not wanted beside what the alternative does.
#[test]
fn an_alternative_runs_while_the_unanswered_first_choice_is_found_out_and_undone() {
    let root = Sequence(vec![Invoke("a"), If("false", Box::new(Plain("b")))]);
    let mut world = changed(root, OnFault::Leave, |program| {
        let other = id(program, "b");
        named(program, "a").traits.alternatives = vec![other];
    });
    reply(&mut world, Answer::Unknown(fault()));
    output(world.run());
    let net = world.net();
    assert_eq!((net["a"], net["b"]), (0, 1), "{:?}", world.done());
}

/// The open call of a service.
fn call_of(world: &World, service: &str) -> Ticket {
    let calls = calls(world).into_iter().find(|ticket| {
        matches!(&world.open[ticket], Command::Call { request, .. }
            if matches!(&request.target, Target::Catalog { name, .. } if name == service))
    });
    calls.unwrap_or_else(|| panic!("{service} is not called"))
}

/// A service acts, and its answer is lost on the way.
fn act_unheard(world: &mut World, service: &str) {
    world.losing = 100;
    let ticket = call_of(world, service);
    world.answer(ticket);
    world.losing = 0;
}

#[test]
fn an_undo_of_one_attempt_is_not_taken_for_that_of_another() {
    let body = Fork(vec![Invoke("a"), Node::Read("b")]);
    let root = Sequence(vec![Try(Box::new(body), 1, None), Raise(1)]);
    let mut world = changed(root, OnFault::Compensate, |_| {});
    world.answer(call_of(&world, "a"));
    act_unheard(&mut world, "b");
    while !world.done().contains(&"a-bar") || calls(&world).is_empty() {
        assert!(world.step());
    }
    // The second attempt's a is found out about while the whole run is rolled back.
    act_unheard(&mut world, "a");
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.net()["a"], 0, "{:?}", world.done());
}

fn retriable() -> World {
    with_retriable(Plain("a"))
}

/// A run in which `a` is retriable.
fn with_retriable(root: Node) -> World {
    changed(root, OnFault::Leave, |program| {
        named(program, "a").traits.class = Some(Class::Retriable);
    })
}

fn key(world: &World) -> String {
    match &world.open[&calls(world)[0]] {
        Command::Call { request, .. } => request.key.to_string(),
        command => panic!("{command:?} is no call"),
    }
}

#[test]
fn a_retriable_task_is_tried_again_in_place_until_it_succeeds() {
    let mut world = retriable();
    let (mut keys, mut times) = (BTreeSet::new(), Vec::new());
    for _ in 0..3 {
        keys.insert(key(&world));
        reply(&mut world, Answer::Failed(fault()));
        assert!(world.next_timer());
        times.push(world.now.as_millis() - 1_000_000);
    }
    assert_eq!(times, [1000, 3000, 7000], "one second, doubling");
    assert_eq!(keys.len(), 3, "each was answered, so each is an operation of its own");
    output(world.run());
}

#[test]
fn a_retriable_task_without_an_answer_is_the_same_operation() {
    let mut world = retriable();
    let first = key(&world);
    reply(&mut world, Answer::Unknown(fault()));
    assert!(world.next_timer());
    assert_eq!(key(&world), first);
}

#[test]
fn a_policy_around_a_fork_or_a_loop_rules_what_is_retriable_inside() {
    let inside = [
        Plain("a"),
        Fork(vec![Plain("a")]),
        Fork(vec![Fork(vec![Plain("a")])]),
        Loop(1, 2, Box::new(Plain("a"))),
    ];
    for body in inside {
        let handler = Some(Box::new(Set("$error.status")));
        let mut world = with_retriable(Try(Box::new(body.clone()), 1, handler));
        reply(&mut world, Answer::Failed(fault()));
        assert!(world.next_timer(), "the policy's one retry: {body:?}");
        assert_eq!(world.now.as_millis(), 1_000_100, "after its delay: {body:?}");
        reply(&mut world, Answer::Failed(fault()));
        assert!(world.ended.is_some(), "then it is handled: {body:?}");
    }
}

#[test]
fn a_policy_whose_attempts_are_over_does_not_rule_the_handler() {
    for handler in [Plain("a"), Fork(vec![Plain("a")])] {
        let mut world = with_retriable(Try(Box::new(Raise(1)), 1, Some(Box::new(handler))));
        assert!(world.next_timer(), "the policy's one retry");
        for _ in 0..3 {
            reply(&mut world, Answer::Failed(fault()));
            assert!(world.next_timer(), "what is retriable is tried again for ever");
        }
        output(world.run());
    }
}

#[test]
fn a_workflow_that_takes_too_long_faults_or_is_rolled_back() {
    for on_fault in [OnFault::Leave, OnFault::Compensate] {
        let root = Sequence(vec![Invoke("a"), Wait(5000), Plain("too late")]);
        let mut world = changed(root, on_fault, |p| p.timeout = Some(duration("PT1S")));
        let outcome = world.run();
        assert_eq!(world.now.as_millis(), 1_001_000);
        let (Outcome::Faulted(fault) | Outcome::Compensated(fault)) = outcome else {
            panic!("it takes too long")
        };
        assert!(fault.is(FaultKind::Timeout));
        let undone = world.done().contains(&"a-bar");
        assert_eq!(undone, on_fault == OnFault::Compensate);
    }
}

/// A `try` whose body is refused, with a policy; when each attempt began, in milliseconds.
fn attempts(body: Node, policy: RetryPolicy) -> Vec<u64> {
    let tried = Try(Box::new(body), 1, Some(Box::new(Set("$error.status"))));
    let mut world = changed(tried, OnFault::Leave, |program| {
        let Kind::Try { catch, .. } = &mut named(program, "try").kind else { panic!("no try") };
        catch.retry = Some(Box::new(policy));
    });
    world.broken.insert("a".into());
    let mut times = vec![0];
    while world.ended.is_none() {
        let before = world.now;
        assert!(world.step());
        if before < world.now {
            times.push(world.now.as_millis() - 1_000_000);
        }
    }
    times
}

fn policy(backoff: Backoff) -> RetryPolicy {
    let delay = Some(duration("PT0.1S"));
    RetryPolicy { delay, backoff, attempts: Some(4), ..RetryPolicy::default() }
}

#[test]
fn delays_stay_or_grow_by_the_policy() {
    assert_eq!(attempts(Plain("a"), policy(Backoff::Constant)), [0, 100, 200, 300, 400]);
    assert_eq!(attempts(Plain("a"), policy(Backoff::Linear)), [0, 100, 300, 600, 1000]);
    assert_eq!(attempts(Plain("a"), policy(Backoff::Exponential)), [0, 100, 300, 700, 1500]);
}

#[test]
fn a_policy_may_limit_the_time_of_all_attempts_together() {
    let limited =
        RetryPolicy { duration: Some(duration("PT0.65S")), ..policy(Backoff::Exponential) };
    assert_eq!(attempts(Plain("a"), limited), [0, 100, 300]);
}

#[test]
fn an_attempt_that_takes_too_long_counts_as_failed() {
    let limited = RetryPolicy {
        attempt_duration: Some(duration("PT0.05S")),
        attempts: Some(2),
        ..policy(Backoff::Constant)
    };
    let times = attempts(Wait(1000), limited);
    // Three attempts of 50 ms, and 100 ms between them.
    assert_eq!(times, [0, 50, 150, 200, 300, 350]);
}

#[test]
fn jitter_stays_within_its_bounds_and_every_copy_draws_the_same() {
    let jittery = || RetryPolicy {
        jitter: Some((duration("PT0.01S"), duration("PT0.09S"))),
        attempts: Some(20),
        ..policy(Backoff::Constant)
    };
    let times = attempts(Plain("a"), jittery());
    let delays: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Times are seen in whole milliseconds, so a delay may seem one longer or shorter.
    assert!(delays.iter().all(|delay| (109..=191).contains(delay)), "{delays:?}");
    assert!(delays.iter().collect::<BTreeSet<_>>().len() > 5, "it varies: {delays:?}");
    assert_eq!(times, attempts(Plain("a"), jittery()));
}

/// The request of a call whose header is what it sees of its authentication.
fn authorized(authentication: Option<Authentication>) -> String {
    let service = Service::Http { output: HttpOutput::Content, redirect: false, authentication };
    let source = r#"{method: "get", endpoint: "http://x.test/", body: $authorization}"#;
    let arguments = Some(Template::Computed(expression(source)));
    let call = task("call", "/do/0/call", Kind::Call { service, arguments });
    let world = changed(Node::Task(Box::new(call)), OnFault::Leave, |_| {});
    let Some(Command::Call { request, .. }) = world.open.into_values().next() else {
        panic!("it calls")
    };
    let Target::Http { body, .. } = request.target else { panic!("it is an HTTP call") };
    value::to_text(&body)
}

#[test]
fn an_expression_sees_how_its_call_is_authorized() {
    let given = |text: &str| Secretive::Given(Template::Literal(value::string(text)));
    let bearer = authorized(Some(Authentication::Bearer(given("letmein"))));
    assert!(bearer.contains("Bearer") && bearer.contains("letmein"), "{bearer}");
    let basic = Authentication::Basic { username: given("u"), password: given("p") };
    assert!(authorized(Some(basic)).contains("dTpw"), "the base64 of u:p");
    let itself = Secretive::Given(Template::Computed(expression("$authorization.scheme // \"x\"")));
    let bearer = authorized(Some(Authentication::Bearer(itself)));
    assert!(!bearer.contains("Bearer"), "{bearer}");
    assert!(!authorized(None).contains("scheme"));
}
