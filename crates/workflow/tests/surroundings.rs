//! A call of which nobody knows what became sees, when it is undone or asked about, what it saw in its
//! place: the variables of the loops and handlers around it, and the context.

mod kit;

use std::sync::Arc;

use kit::build::{Node, bare_program, call, expression, program_with, task};
use kit::world::World;
use outlast_expressions::{Filter, value};
use outlast_lineage::{Epoch, NodeId};
use outlast_workflow::program::{
    Class, EventFilter, EventStrategy, Expression, Kind, ListenEach, OnFault, ReadMode, Task,
    Template, Transform,
};
use outlast_workflow::{Command, Event, Execution, Outcome, TaskId};

use Node::{Cancellable, Fork, Invoke, Loop, Once, Raise, Sequence, Set, Try, Wait};

fn start(root: Node) -> World {
    World::start(&program_with(root, OnFault::Compensate), value::object([]), 1)
}

/// What was done and undone, with the places: `a[0] a-bar[0]`.
fn deeds(world: &World) -> String {
    let deeds: Vec<_> = world.deeds.iter().map(|d| format!("{}{}", d.name, d.place)).collect();
    deeds.join(" ")
}

/// The services act on everything that is asked of them, and no answer ever comes.
fn act_unheard(world: &mut World) {
    let open: Vec<Command> = world.open.values().cloned().collect();
    for command in open {
        if let Command::Call { request, .. } = command {
            world.serve(&request);
        }
    }
}

fn roll_back(world: &mut World) {
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
}

#[test]
fn a_call_in_a_loop_that_the_node_was_killed_in_is_undone_where_it_went() {
    let mut world = start(Loop(3, 1, Box::new(Cancellable("a"))));
    world.step();
    act_unheard(&mut world);
    world.restart();
    roll_back(&mut world);
    assert_eq!(deeds(&world), "a[0] a[1] a-bar[1] a-bar[0]");
}

#[test]
fn so_is_one_whose_provider_knows_no_keys_and_that_waits_for_a_person() {
    let mut world = start(Loop(2, 1, Box::new(Once("a"))));
    world.step();
    act_unheard(&mut world);
    world.restart();
    assert_eq!(world.execution.parked().len(), 1);
    world.happen(Event::CompensateRequested("the test asks for it".into()));
    world.resolve_truthfully();
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(deeds(&world), "a[0] a[1] a-bar[1] a-bar[0]");
}

#[test]
fn the_variables_of_all_loops_around_are_there() {
    for concurrency in [1, 2] {
        let inner = Loop(2, concurrency, Box::new(Cancellable("a")));
        let mut world = start(Loop(2, 1, Box::new(inner)));
        // The first iteration of the outer loop is done.
        world.step();
        world.step();
        act_unheard(&mut world);
        roll_back(&mut world);
        let mut undone: Vec<&str> = deeds_of(&world, "a-bar");
        undone.sort_unstable();
        assert_eq!(undone, deeds_of(&world, "a"), "{}", deeds(&world));
        assert_eq!(undone.len(), 2 + concurrency as usize);
    }
}

fn deeds_of<'w>(world: &'w World, name: &str) -> Vec<&'w str> {
    let mut places: Vec<_> =
        world.deeds.iter().filter(|d| d.name == name).map(|d| d.place.as_str()).collect();
    places.sort_unstable();
    places
}

#[test]
fn a_lost_answer_is_asked_for_again_and_what_comes_is_captured_where_the_call_stood() {
    let mut world = start(Loop(3, 1, Box::new(Invoke("a"))));
    world.step();
    world.losing = 100;
    world.step();
    world.losing = 0;
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(deeds(&world), "a[0] a[1] a-bar[1] a-bar[0]");
}

#[test]
fn the_error_that_a_handler_handles_is_there() {
    let handler = Some(Box::new(Cancellable("a")));
    let mut world = start(Loop(1, 1, Box::new(Try(Box::new(Raise(418)), 0, handler))));
    act_unheard(&mut world);
    roll_back(&mut world);
    assert_eq!(deeds(&world), "a[0,418] a-bar[0,418]");
}

#[test]
fn the_attempts_of_a_try_in_a_loop_find_their_unanswered_call_and_undo_it_in_the_end() {
    let attempt = Try(Box::new(Sequence(vec![Cancellable("a"), Raise(500)])), 1, None);
    let mut world = start(Sequence(vec![Loop(2, 1, Box::new(attempt)), Raise(500)]));
    world.losing = 100;
    world.step();
    world.losing = 0;
    world.run();
    for place in ["[0]", "[1]"] {
        let stands = world.net_by_place()[&("a".to_owned(), place.to_owned())];
        assert_eq!(stands, 0, "{}", deeds(&world));
    }
}

#[test]
fn what_it_saw_travels_with_a_branch_and_survives_a_restart() {
    let attempt = Try(Box::new(Cancellable("a")), 1, None);
    let mut world = start(Fork(vec![Loop(2, 1, Box::new(attempt)), Wait(50_000)]));
    world.losing = 100;
    world.step();
    world.losing = 0;
    // It waits for its next attempt and remembers the call of the first.
    let branch = world.some_branch().expect("a fork has branches");
    let (epoch, author) = (Epoch(7), world.author);
    let cut = world.execution.cut(branch, epoch, vec![NodeId(2)], author);
    let (remote, advance) = cut.expect("the branch is here");
    world.copy.apply(advance.delta.clone());
    let bytes = minicbor::to_vec(&remote).expect("a branch can be sent");
    let remote: Execution = minicbor::decode(&bytes).expect("a sent branch can be read");
    world.happen(Event::Returned { branch, epoch, remote: Box::new(remote) });
    world.restart();
    roll_back(&mut world);
    assert_eq!(deeds(&world), "a[0] a-bar[0]");
}

/// A program whose tasks are changed before it runs.
fn changed(root: Node, change: impl Fn(&mut Task)) -> World {
    let mut program = bare_program("changed", root, OnFault::Compensate);
    program.tasks.iter_mut().for_each(change);
    World::start(&Arc::new(program), value::object([]), 1)
}

fn call_with(task: &mut Task, source: &str) {
    let Kind::Call { arguments, .. } = &mut task.kind else {
        panic!("{} calls nothing", task.name)
    };
    *arguments = Some(Template::Computed(expression(source)));
}

#[test]
fn the_context_is_the_one_it_was_called_in() {
    let exported = Node::Export("{at: [\"here\"]}");
    let later = Node::Export("{at: [\"elsewhere\"]}");
    // The call is given up and the run goes on, with another context, before it is rolled back.
    let attempt = Try(Box::new(Cancellable("a")), 0, Some(Box::new(Set("1"))));
    let root = Sequence(vec![exported, attempt, later, Raise(500)]);
    let mut world = changed(root, |task| {
        if task.name != "a" {
            return;
        }
        call_with(task, "$context");
        let compensation = task.traits.compensation.as_mut().expect("it can be undone");
        compensation.capture = Some(Template::Computed(expression("$context")));
    });
    world.losing = 100;
    world.step();
    world.losing = 0;
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(deeds(&world), "a[\"here\"] a-bar[\"here\"]");
}

#[test]
fn what_it_exports_when_it_is_asked_about_changes_no_context_but_its_own() {
    let attempt = Try(Box::new(Invoke("a")), 0, Some(Box::new(Set("1"))));
    let exported = Node::Export("{at: [\"here\"]}");
    let root = Sequence(vec![exported, Invoke("b"), attempt, Raise(500)]);
    let lost = Template::Computed(expression("{at: [\"lost\"]}"));
    let mut world = changed(root, |task| match task.name.as_str() {
        "a" => task.export.template = Some(lost.clone()),
        "b-bar" => call_with(task, "$context"),
        _ => {}
    });
    world.step();
    world.losing = 100;
    world.step();
    world.losing = 0;
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(deeds(&world), "b a a-bar b-bar[\"here\"]");
}

#[test]
fn an_item_of_a_listener_is_there() {
    let mut program = bare_program("listener", Cancellable("a"), OnFault::Compensate);
    let body = program.tasks.iter().position(|task| task.name == "a").expect("it was built");
    let mut names = vec!["input", "output", "context", "item", "at"];
    names.extend(["task", "workflow", "runtime", "secrets"]);
    let filter = Filter::compile("{at: [$item]}", &names).expect("it compiles");
    let place = Template::Computed(Expression { filter, place: Default::default() });
    let called = &mut program.tasks[body];
    if let Kind::Call { arguments, .. } = &mut called.kind {
        *arguments = Some(place.clone());
    }
    called.traits.compensation.as_mut().expect("it can be undone").capture = Some(place);
    let kind = Template::Literal(value::string("order"));
    let to = EventFilter { with: vec![("type".to_owned(), kind)], correlate: Vec::new() };
    let each = ListenEach {
        item: "item".into(),
        at: "at".into(),
        body: Some(TaskId(body as u32)),
        output: Transform::default(),
        export: Transform::default(),
    };
    let listen =
        Kind::Listen { to: EventStrategy::One(to), read: ReadMode::Data, each: Some(each) };
    program.tasks.push(task("listen", "/listen", listen));
    let listener = TaskId(program.tasks.len() as u32 - 1);
    program.tasks[0].kind = Kind::Sequence(vec![listener]);
    let mut world = World::start(&Arc::new(program), value::object([]), 1);
    let event = value::object([("type", value::string("order")), ("data", value::integer(42))]);
    world.happen(Event::Arrived { number: 1, event });
    act_unheard(&mut world);
    roll_back(&mut world);
    assert_eq!(deeds(&world), "a[42] a-bar[42]");
}

/// A call in a loop that is retried in place for ever.
fn retriable(root: Node) -> World {
    changed(root, |task| {
        if task.name == "a" {
            task.traits.class = Some(Class::CompensatableRetriable);
        }
    })
}

#[test]
fn a_call_that_waits_to_be_tried_again_may_have_happened_and_is_undone() {
    for node in [Invoke("a"), Cancellable("a")] {
        let mut world = retriable(Loop(2, 1, Box::new(node)));
        world.step();
        world.losing = 100;
        world.step();
        world.losing = 0;
        assert!(world.ended.is_none(), "it is tried again after a delay");
        roll_back(&mut world);
        assert_eq!(deeds(&world), "a[0] a[1] a-bar[1] a-bar[0]");
    }
}

#[test]
fn a_call_that_is_tried_again_in_place_is_the_same_effect() {
    let mut world = retriable(Loop(1, 1, Box::new(Invoke("a"))));
    world.losing = 100;
    world.step();
    world.losing = 0;
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(deeds(&world), "a[0]");
    assert_eq!(world.acted.len(), 1, "{:?}", world.acted);
}

/// A call whose answer is lost and that nothing catches: the run stays where it failed.
fn faulted_in_doubt() -> World {
    let root = Loop(1, 1, Box::new(Invoke("a")));
    let mut world = World::start(&program_with(root, OnFault::Leave), value::object([]), 1);
    world.losing = 100;
    world.step();
    world.losing = 0;
    assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
    world
}

#[test]
fn a_faulted_run_remembers_its_unanswered_call_and_undoes_it_on_request() {
    let mut world = faulted_in_doubt();
    world.restart();
    roll_back(&mut world);
    assert_eq!(deeds(&world), "a[0] a-bar[0]");
}

#[test]
fn a_faulted_run_that_is_tried_again_asks_with_the_same_key_unless_it_was_told() {
    let mut world = faulted_in_doubt();
    // The service is in trouble: that says nothing about the first time it was asked.
    world.failing = 100;
    world.happen(Event::RetryRequested);
    world.step();
    world.failing = 0;
    world.ended = None;
    world.happen(Event::RetryRequested);
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(deeds(&world), "a[0]", "it was done the first time");

    let root = Invoke("a");
    let mut world = World::start(&program_with(root, OnFault::Leave), value::object([]), 1);
    let key = |world: &World| match world.open.values().next() {
        Some(Command::Call { request, .. }) => request.key.to_string(),
        other => panic!("{other:?} is no call"),
    };
    let first = key(&world);
    world.refusing = 100;
    world.step();
    world.ended = None;
    world.happen(Event::RetryRequested);
    assert_ne!(first, key(&world), "a refusal under the first key is what the provider remembers");
}

/// A function that is undone by whoever calls it; what it calls itself may not take long.
#[test]
fn a_function_whose_call_took_too_long_is_undone_as_its_caller_says() {
    let mut program = bare_program("function", Cancellable("a"), OnFault::Compensate);
    let mut inner = call("inside");
    inner.timeout = Some(Template::Literal(value::object([("milliseconds", value::integer(50))])));
    program.tasks.push(inner);
    let body = TaskId(program.tasks.len() as u32 - 1);
    let caller = program.tasks.iter_mut().find(|task| task.name == "a").expect("it was built");
    caller.kind = Kind::Function { body, arguments: None };
    let mut world = World::start(&Arc::new(program), value::object([]), 1);
    act_unheard(&mut world);
    world.next_timer();
    let asked: String = world.open.values().map(|command| format!("{command:?}")).collect();
    assert!(asked.contains("a-cancel"), "{asked}");
    assert!(matches!(world.run(), Outcome::Compensated(_)));
}

const MARK: &str = "here it is";

#[test]
fn a_large_item_is_not_copied_for_each_call_that_sees_it() {
    let calls = || Try(Box::new(Cancellable("a")), 1, None);
    let root = Loop(1, 1, Box::new(Fork(vec![calls(), calls(), calls()])));
    let mut program = bare_program("large", root, OnFault::Compensate);
    for task in &mut program.tasks {
        match &mut task.kind {
            Kind::Loop { items, .. } => *items = Template::Computed(expression(".")),
            Kind::Call { arguments, .. } => *arguments = None,
            _ => {}
        }
    }
    let text = value::string(&format!("{MARK}{}", "x".repeat(70 * 1024)));
    let mut world = World::start(&Arc::new(program), value::array([text]), 1);
    world.losing = 100;
    (0..3).for_each(|_| assert!(world.step()));
    let bytes = minicbor::to_vec(&world.execution).expect("an execution can be written");
    let copies = bytes.windows(MARK.len()).filter(|window| *window == MARK.as_bytes()).count();
    // Once in the list, which is the input, and once as the item.
    assert_eq!(copies, 2);
    // The store keeps what only those calls still name.
    world.losing = 0;
    roll_back(&mut world);
}
