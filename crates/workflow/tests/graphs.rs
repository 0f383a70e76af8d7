//! Graph regions: seed 0's directed graphs with transition conditions, dataflow, scatter.

mod kit;

use std::sync::Arc;

use kit::build::{From, Node, Step, program, program_with};
use kit::world::World;
use outlast_expressions::{Value, value};
use outlast_workflow::program::{Flow, Kind, OnFault, ScatterMethod, Template};
use outlast_workflow::{Event, FaultKind, Happening, Outcome};

use Node::{
    CompensateParallel, Export, Graph, Invoke, Plain, Raise, Scope, Sequence, Set, Try, Wait,
};

fn input(text: &str) -> Value {
    value::parse(text).expect("the test's input is JSON")
}

fn start(root: Node, given: &str, seed: u64) -> World {
    World::start(&program(root), input(given), seed)
}

fn output(world: &mut World) -> String {
    match world.run() {
        Outcome::Completed(output) => value::to_text(&output),
        outcome => panic!("expected completion, got {outcome:?}"),
    }
}

fn step(name: &'static str) -> Step {
    Step::new(Invoke(name))
}

fn position(world: &World, name: &str) -> usize {
    let found = world.done().iter().position(|done| *done == name);
    found.unwrap_or_else(|| panic!("{name} was not done: {:?}", world.done()))
}

#[test]
fn steps_without_links_run_side_by_side() {
    let world = start(Graph(vec![step("a"), step("b"), step("c")], vec![]), "{}", 1);
    assert_eq!(world.open.len(), 3);
}

#[test]
fn an_empty_region_gives_an_empty_object() {
    assert_eq!(output(&mut start(Graph(vec![], vec![]), "{}", 1)), "{}");
}

/// Seed 0, AND: a step waits until all links to it are decided.
#[test]
fn a_step_runs_after_everything_that_is_linked_to_it() {
    for seed in 0..20 {
        let links = vec![(0, 2, None), (1, 2, None)];
        let mut world = start(Graph(vec![step("a"), step("b"), step("c")], links), "{}", seed);
        output(&mut world);
        assert_eq!(position(&world, "c"), 2);
    }
}

/// Seed 0, XOR: the conditions of the links that leave a step decide which way is taken; what is
/// on no way that was taken is passed over, and so is everything behind it.
#[test]
fn exclusive_conditions_take_one_way_and_the_other_dies() {
    let links = vec![
        (0, 1, Some(".a == 1")),
        (0, 2, Some(".a != 1")),
        (2, 3, None),
        (1, 4, None),
        (3, 4, None),
    ];
    let steps = vec![step("a"), step("b"), step("c"), step("d"), step("e")];
    let mut world = start(Graph(steps, links), "{}", 1);
    let expected = r#"{"a":{"a":1},"b":{"b":1},"c":null,"d":null,"e":{"e":1}}"#;
    assert_eq!(output(&mut world), expected);
    assert_eq!(world.done(), ["a", "b", "e"]);
}

/// Links that cross between two ways cannot be written as nested forks.
#[test]
fn crossing_links_order_steps_of_different_ways() {
    for seed in 0..40 {
        let steps = vec![step("a"), step("b"), step("c"), step("d"), step("e")];
        let links = vec![(0, 1, None), (0, 2, None), (1, 3, None), (2, 3, None), (2, 4, None)];
        let mut world = start(Graph(steps, links), "{}", seed);
        output(&mut world);
        let at = |name| position(&world, name);
        assert!(at("a") < at("b") && at("a") < at("c"));
        assert!(at("b") < at("d") && at("c") < at("d") && at("c") < at("e"));
    }
}

#[test]
fn inputs_come_from_the_region_and_from_other_steps() {
    let steps = vec![
        // The order in the list says nothing: the first step needs the second.
        Step::new(Set("{sum: (.left + .right)}"))
            .input("left", From::Part(1, ".n"))
            .input("right", From::Region(".r")),
        Step::new(Sequence(vec![Plain("a"), Set("{n: 40}")])),
    ];
    let mut world = start(Graph(steps, vec![]), r#"{"r": 2}"#, 1);
    assert_eq!(output(&mut world), r#"{"set":{"sum":42},"sequence":{"n":40}}"#);
}

#[test]
fn a_step_whose_condition_fails_gives_null_to_whoever_needs_it() {
    let steps = vec![
        Step::new(Plain("a")).input("x", From::Region(".x")).when(".x > 5"),
        Step::new(Set(".")).input("got", From::Step(0)),
    ];
    let mut world = start(Graph(steps, vec![]), r#"{"x": 5}"#, 1);
    assert_eq!(output(&mut world), r#"{"a":null,"set":{"got":null}}"#);
    assert!(world.done().is_empty());
}

fn scattered(method: ScatterMethod, window: u32) -> Node {
    let step = Step::new(Set("\"\\(.x)\\(.y)\""))
        .input("x", From::Region(".x"))
        .input("y", From::Region(".y"))
        .scatter(&["x", "y"], method, window);
    Graph(vec![step], vec![])
}

#[test]
fn a_dot_product_pairs_items() {
    let mut world = start(scattered(ScatterMethod::Dot, 2), r#"{"x": [1,2,3], "y": [4,5,6]}"#, 1);
    assert_eq!(output(&mut world), r#"{"set":["14","25","36"]}"#);
}

#[test]
fn a_nested_cross_product_gives_lists_in_lists() {
    let root = scattered(ScatterMethod::NestedCross, 2);
    let mut world = start(root, r#"{"x": [1,2], "y": [3,4,5]}"#, 1);
    assert_eq!(output(&mut world), r#"{"set":[["13","14","15"],["23","24","25"]]}"#);
}

#[test]
fn a_flat_cross_product_gives_one_list() {
    let root = scattered(ScatterMethod::FlatCross, 2);
    let mut world = start(root, r#"{"x": [1,2], "y": [3,4]}"#, 1);
    assert_eq!(output(&mut world), r#"{"set":["13","14","23","24"]}"#);
}

#[test]
fn scattering_over_nothing_gives_nothing() {
    for method in [ScatterMethod::Dot, ScatterMethod::FlatCross] {
        let mut world = start(scattered(method, 2), r#"{"x": [], "y": []}"#, 1);
        assert_eq!(output(&mut world), r#"{"set":[]}"#);
    }
    let root = scattered(ScatterMethod::NestedCross, 2);
    let mut world = start(root, r#"{"x": [1,2], "y": []}"#, 1);
    assert_eq!(output(&mut world), r#"{"set":[[],[]]}"#);
}

#[test]
fn scattered_lists_that_do_not_fit_are_a_validation_error() {
    for given in [r#"{"x": [1], "y": [1,2]}"#, r#"{"x": 5, "y": [1]}"#] {
        let mut world = start(scattered(ScatterMethod::Dot, 2), given, 1);
        let Outcome::Faulted(fault) = world.run() else { panic!("they do not fit") };
        assert!(fault.is(FaultKind::Validation), "{fault:?}");
    }
}

#[test]
fn a_scatter_keeps_its_window_and_its_order() {
    for seed in 0..10 {
        let step = Step::new(Sequence(vec![Plain("a"), Set("$input.x")]))
            .input("x", From::Region(".x"))
            .scatter(&["x"], ScatterMethod::Dot, 3);
        let mut world = start(Graph(vec![step], vec![]), r#"{"x": [5,4,3,2,1,0,9]}"#, seed);
        while world.ended.is_none() {
            assert!(world.open.len() <= 3);
            assert!(world.step());
        }
        assert_eq!(world.done().len(), 7);
    }
}

#[test]
fn the_condition_of_a_scattered_step_is_asked_for_each_item() {
    let step = Step::new(Plain("a")).input("x", From::Region(".x")).when(".x > 1").scatter(
        &["x"],
        ScatterMethod::Dot,
        2,
    );
    let mut world = start(Graph(vec![step], vec![]), r#"{"x": [1,2,1,3]}"#, 1);
    assert_eq!(output(&mut world), r#"{"a":[null,{"a":1},null,{"a":1}]}"#);
}

#[test]
fn a_condition_that_has_no_value_fails_the_scatter() {
    let step = Step::new(Plain("a")).input("x", From::Region(".x")).when(".x.y.z").scatter(
        &["x"],
        ScatterMethod::Dot,
        2,
    );
    let mut world = start(Graph(vec![step], vec![]), r#"{"x": [1]}"#, 1);
    assert!(matches!(world.run(), Outcome::Faulted(fault) if fault.is(FaultKind::Expression)));
}

#[test]
fn a_cycle_is_a_configuration_error_before_anything_runs() {
    let steps = vec![step("a"), step("b"), step("c")];
    let links = vec![(0, 1, None), (1, 2, None), (2, 1, None)];
    let mut world = start(Graph(steps, links), "{}", 1);
    let Outcome::Faulted(fault) = world.run() else { panic!("there is a cycle") };
    assert!(fault.is(FaultKind::Configuration), "{fault:?}");
    let detail = fault.detail.unwrap_or_default();
    assert!(detail.contains("`b`") && detail.contains("`c`"), "{detail}");
    assert!(world.done().is_empty(), "nothing may be called: {:?}", world.done());
}

/// c needs b, b needs a; they are declared in an order that says nothing of it.
fn chain() -> (Vec<Step>, fn(&World)) {
    let steps = vec![
        step("b").input("x", From::Step(2)),
        step("c").input("x", From::Step(0)),
        step("a").input("x", From::Region(".")),
    ];
    (steps, |world| {
        let at = |name| position(world, name);
        assert!(at("c-bar") < at("b-bar"), "{:?}", world.done());
        assert!(at("b-bar") < at("a-bar"), "{:?}", world.done());
    })
}

#[test]
fn a_finished_region_is_undone_from_the_last_user_of_data_to_the_first() {
    let (steps, assert_order) = chain();
    let root = Sequence(vec![Graph(steps, vec![]), Raise(1)]);
    let mut world = World::start(&program_with(root, OnFault::Compensate), input("{}"), 1);
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_order(&world);
}

#[test]
fn a_region_that_is_stopped_is_undone_in_the_same_order() {
    let (mut steps, assert_order) = chain();
    steps.push(Step::new(Wait(1000)).input("x", From::Step(1)));
    for parallel in [false, true] {
        let region = Graph(steps.clone(), vec![]);
        let handled = if parallel { CompensateParallel } else { Node::Compensate };
        let root = Try(Box::new(Node::Within(10, Box::new(region))), 0, Some(Box::new(handled)));
        let mut world = start(root, "{}", 1);
        output(&mut world);
        assert_order(&world);
    }
}

/// The step under way used the outputs of the finished ones: what it did is undone before them.
#[test]
fn what_a_running_step_did_is_undone_before_what_it_used() {
    let running = Sequence(vec![Invoke("late"), Wait(1000)]);
    let steps = vec![step("early"), Step::new(running).input("x", From::Step(0))];
    let mut world = start(Graph(steps, vec![]), "{}", 1);
    while world.done().len() < 2 {
        world.step();
    }
    world.happen(Event::CompensateRequested("stop".into()));
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["early", "late", "late-bar", "early-bar"]);
}

#[test]
fn a_failed_step_stops_the_others_and_rolls_back() {
    for seed in 0..20 {
        let steps = vec![step("a"), step("b").input("x", From::Step(0)), step("c")];
        let root = Graph(steps, vec![(1, 2, None)]);
        let mut world = World::start(&program_with(root, OnFault::Compensate), input("{}"), seed);
        world.broken.insert("c".into());
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        assert_eq!(world.done(), ["a", "b", "b-bar", "a-bar"]);
    }
}

#[test]
fn items_of_a_scatter_are_undone_each_once() {
    let step = step("a").input("x", From::Region(".x")).scatter(&["x"], ScatterMethod::Dot, 3);
    let root = Sequence(vec![Graph(vec![step], vec![]), Raise(1)]);
    let program = program_with(root, OnFault::Compensate);
    let mut world = World::start(&program, input(r#"{"x": [1,2,3,4,5]}"#), 1);
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done().len(), 10);
    assert_eq!(world.net()["a"], 0);
}

#[test]
fn hundreds_of_items_are_undone_at_once_and_each_once() {
    let items: Vec<Value> = (0..300).map(value::integer).collect();
    let step = step("a").input("x", From::Region(".x")).scatter(&["x"], ScatterMethod::Dot, 50);
    // The small value keeps what the kit compares after each event small.
    let body = vec![Graph(vec![step], vec![]), Set("0"), CompensateParallel];
    let given = value::object([("x", value::array(items))]);
    let mut world = World::start(&program(Scope(Box::new(Sequence(body)))), given, 1);
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.net()["a"], 0);
}

#[test]
fn what_steps_export_is_part_of_the_context_afterwards() {
    let steps = vec![
        Step::new(Export("{a: 1}")),
        Step::new(Export("{b: .x}")).input("x", From::Region("[7]")).scatter(
            &["x"],
            ScatterMethod::Dot,
            1,
        ),
    ];
    let mut world = start(Sequence(vec![Graph(steps, vec![]), Set("$context")]), "{}", 1);
    assert_eq!(output(&mut world), r#"{"a":1,"b":7}"#);
}

#[test]
fn a_restart_in_the_middle_changes_nothing() {
    for seed in 0..20 {
        let steps = vec![
            step("a").input("x", From::Region(".x")).scatter(&["x"], ScatterMethod::Dot, 2),
            step("b").input("x", From::Step(0)),
        ];
        let mut world = start(Graph(steps, vec![]), r#"{"x": [1,2,3,4]}"#, seed);
        let mut steps = 0;
        while world.ended.is_none() {
            if steps % 2 == seed as usize % 2 {
                world.restart();
                world.copy = world.execution.clone();
            }
            steps += 1;
            assert!(world.step());
        }
        assert_eq!(world.done(), ["a", "a", "a", "a", "b"]);
    }
}

/// A task that ends the workflow with this output.
fn ending(source: &str) -> Node {
    let mut task = kit::build::task("end", "/end", Kind::Set(template(source)));
    task.then = Flow::End;
    Node::Task(Box::new(task))
}

fn template(source: &str) -> Template {
    Template::Computed(kit::build::expression(source))
}

#[test]
fn an_item_that_ends_the_workflow_is_transformed_once_by_the_region() {
    let scattered = Step::new(ending("{n: .item}")).input("item", From::Region(".items")).scatter(
        &["item"],
        ScatterMethod::Dot,
        1,
    );
    let mut program =
        kit::build::bare_program("built", Graph(vec![scattered], vec![]), OnFault::Leave);
    let graph = program.tasks.iter_mut().find(|task| task.name == "graph").expect("it has one");
    graph.output.template = Some(template("{wrapped: .}"));
    let mut world = World::start(&Arc::new(program), input(r#"{"items": [1, 2, 3]}"#), 1);
    assert_eq!(output(&mut world), r#"{"wrapped":{"n":1}}"#);
    let completions = world.happenings.iter().filter(|happening| {
        matches!(happening, Happening::TaskCompleted(task, _)
            if world.program.task(*task).name == "graph")
    });
    assert_eq!(completions.count(), 1);
}

#[test]
fn what_was_done_before_an_item_ended_the_workflow_can_still_be_undone() {
    let body = Sequence(vec![Node::If(".item == 2", Box::new(ending("."))), Invoke("a")]);
    let scattered = Step::new(body).input("item", From::Region(".items")).scatter(
        &["item"],
        ScatterMethod::Dot,
        1,
    );
    let region = Graph(vec![scattered], vec![]);
    let mut program = kit::build::bare_program("built", region, OnFault::Compensate);
    // The run fails only when everything in it has ended.
    program.output.template = Some(template("error"));
    let mut world = World::start(&Arc::new(program), input(r#"{"items": [1, 2]}"#), 1);
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["a", "a-bar"]);
}
