//! Flows that users give, held in every way: what is right in them is no finding.

use std::sync::Arc;

use outlast_engine::Strategy;
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_simulator::{FaultKind, Situation, Swarm, Wanted, Workload};

const STRATEGIES: [Strategy; 4] =
    [Strategy::None, Strategy::Passive, Strategy::Active, Strategy::PartitionTolerant];

fn head(name: &str, on_fault: &str) -> String {
    format!(
        "document:
  dsl: '1.0.3'
  namespace: simulated
  name: {name}
  version: '1.0.0'
  metadata: {{ outlast: {{ version: '1.0', onFault: {on_fault} }} }}
use:
  functions:
    undo: {{ call: http, with: {{ method: post, endpoint: 'http://world.example/undo/work', body: '${{ . }}' }} }}
do:
"
    )
}

fn call(name: &str, says: &str) -> String {
    let with = format!("{{ method: post, endpoint: 'http://world.example/ok/{name}' }}");
    format!("  - {name}: {{ call: http, with: {with}, metadata: {{ outlast: {{ {says} }} }} }}\n")
}

fn run(name: &str, says: &str) -> String {
    let workflow = format!("{{ namespace: simulated, name: {name}, version: '1.0.0', {says} }}");
    format!("  - {name}: {{ run: {{ await: {}, workflow: {workflow} }} }}\n", name != "errand")
}

const UNDONE: &str = "compensation: { use: undo, capture: '${ { receipt: .receipt } }' }";

fn given(text: &str, others: &[&str]) -> Workload {
    let compiled = |text: &str| (openworkflow::compile(text).unwrap(), Arc::from(text));
    let flow = Workload::new(compiled(text).0, text, value::object([]));
    Workload { others: others.iter().map(|text| compiled(text)).collect(), ..flow }
}

/// Runs a flow in some worlds for each strategy; gives how often a situation came up.
fn nothing_is_found(
    flow: &Workload,
    wanted: &Wanted,
    seeds: impl Iterator<Item = u64> + Clone,
    situation: Situation,
) -> u64 {
    let mut times = 0;
    for strategy in STRATEGIES {
        let wanted = Wanted { strategy: Some(strategy), ..wanted.clone() };
        let mut swarm = Swarm::new(wanted, vec![flow.clone()]);
        for seed in seeds.clone() {
            let verdict = swarm.run(&swarm.scenario(seed));
            assert_eq!(verdict.finding, None, "{strategy:?}, seed {seed}");
            times += verdict.count(situation);
        }
    }
    times
}

/// Where calls wait for a majority only a call without a key is undone by a line that loses: a tolerant undo
/// names it though it never came to its service (17), or never left (250).
#[test]
fn a_tolerant_undo_of_a_call_without_a_key_that_never_acted() {
    let tolerant = "idempotency: { none: true }, \
                    compensation: { use: undo, tolerant: true, capture: '${ { receipt: .receipt } }' }";
    let tasks: String = ["one", "two", "three"].iter().map(|name| call(name, tolerant)).collect();
    let flow = given(&(head("tolerant", "compensate") + &tasks), &[]);
    let wanted = Wanted { keyless: Some(false), ..Wanted::default() };
    let seeds = [17, 60, 129, 250, 623, 747].into_iter();
    assert!(0 < nothing_is_found(&flow, &wanted, seeds, Situation::LineLost));
}

/// What an alternative does not say of keys, the call says in whose place it is tried.
#[test]
fn an_undo_of_an_alternative_to_a_call_without_a_key() {
    let says = "alternatives: [other], idempotency: { none: true }, \
                compensation: { use: undo, tolerant: true, capture: '${ { receipt: .receipt } }' }";
    let tasks = call("b", says).replace("/ok/b", "/fail/b") + "  - c: { wait: PT0.3S }\n";
    let with = "{ method: post, endpoint: 'http://world.example/ok/other' }";
    let other = format!("\n    other: {{ call: http, with: {with} }}\ndo:");
    let text = head("choices", "compensate").replace("\ndo:", &other) + &tasks;
    let seeds = [40, 56, 60, 107, 129, 165].into_iter();
    let lost = nothing_is_found(&given(&text, &[]), &Wanted::default(), seeds, Situation::LineLost);
    assert!(0 < lost);
}

/// How far one branch got when another failed is a matter of time, though that is caught and the run completes.
#[test]
fn a_branch_that_fails_beside_others_and_is_caught() {
    let task = |name: &str, says: &str| {
        let task = call(name, says);
        task.trim().trim_start_matches("- ").to_owned()
    };
    let bad = task("bad", UNDONE).replace("/ok/", "/fail/");
    let good =
        format!("good: {{ do: [{{ {} }}, {{ {} }}] }}", task("a", UNDONE), task("b", UNDONE));
    let both = format!("{{ both: {{ fork: {{ branches: [{{ {bad} }}, {{ {good} }}] }} }} }}");
    let caught = "catch: { do: [{ s: { set: { caught: true } } }] }";
    let text = head("beside", "compensate") + &format!("  - t: {{ try: [{both}], {caught} }}\n");
    let flow = given(&text, &[]);
    let calm = Wanted { faults: Some(Vec::new()), ..Wanted::default() };
    nothing_is_found(&flow, &calm, 1..=8, Situation::Undone);
    assert!(0 < nothing_is_found(&flow, &Wanted::default(), 1..=8, Situation::Undone));
}

/// Whether a timeout strikes before it comes to what can be neither undone nor repeated is a matter of time, in the
/// world in which nothing fails, too: of several executions some come to it there.
#[test]
fn a_timeout_before_a_pivot() {
    let wanted = Wanted { faults: Some(Vec::new()), executions: Some(4), ..Wanted::default() };
    for after in [15, 25] {
        let waits = format!("}}, timeout: {{ after: {{ milliseconds: {after} }} }} }}\n");
        let timed = call("a", "class: retriable").replacen("} } }\n", &format!("}} {waits}"), 1);
        let text = head("timed", "leave") + &timed + &call("pay", "class: pivot");
        let none = Wanted { nodes: Some(1), ..wanted.clone() };
        nothing_is_found(&given(&text, &[]), &none, 1..=10, Situation::Undone);
    }
}

/// What a call did whose answer was lost and whose error was caught is undone beside the run, while that goes on.
#[test]
fn an_undo_beside_the_run_of_what_a_catch_gave_up() {
    let one = call("one", "").replace(", metadata: { outlast: {  } }", "");
    let two = call("two", UNDONE).trim().trim_start_matches("- ").to_owned();
    let caught = "catch: { do: [{ s: { set: { caught: true } } }] }";
    let tried = format!("  - t: {{ try: [{{ {two} }}], {caught} }}\n");
    let text = head("order", "leave") + &one + &tried + &call("three", UNDONE);
    let kinds = Some(vec![FaultKind::LostAnswers]);
    let wanted = Wanted { kinds, ..Wanted::default() };
    let seeds = 1..=20;
    let lost = nothing_is_found(&given(&text, &[]), &wanted, seeds, Situation::AnswerLost);
    assert!(0 < lost);
}

/// One node goes on with what people have tried again, and holds alone what that starts.
#[test]
fn whoever_is_started_by_what_people_had_tried_again() {
    let text = |name: &str, tasks: &str| head(name, "leave") + tasks;
    let branch = |name: &str| {
        let says = format!("class: compensatable, {UNDONE}");
        call(name, &says).trim().trim_start_matches("- ").to_owned()
    };
    let branches = format!("[{{ {} }}, {{ {} }}]", branch("a"), branch("b"));
    let race = format!("  - race: {{ fork: {{ compete: true, branches: {branches} }} }}\n");
    let one = call("one", "").replace(", metadata: { outlast: {  } }", "");
    let parent = text("parent", &(one + &run("child", "").replace("await: true", "await: false")));
    let flow = given(&parent, &[&text("child", &race)]);
    let wanted = Wanted { strategy: Some(Strategy::Passive), ..Wanted::default() };
    let mut swarm = Swarm::new(wanted, vec![flow]);
    for seed in [53, 54, 55] {
        let verdict = swarm.run(&swarm.scenario(seed));
        assert_eq!(verdict.finding, None, "seed {seed}");
    }
}

/// Whom a run starts may do nothing when nothing fails, as its only call is refused, and undo that where the answer
/// is lost.
#[test]
fn whoever_is_started_and_does_nothing_when_nothing_fails() {
    let tolerant = "class: compensatable, \
                    compensation: { use: undo, tolerant: true, capture: '${ { receipt: .receipt } }' }";
    let child = head("c2", "compensate") + &call("a", tolerant).replace("/ok/", "/fail/");
    let parent = head("p2", "leave") + &run("c2", "").replace("await: true", "await: false");
    let flow = given(&parent, &[&child]);
    for (strategy, seed) in [(Strategy::Active, 40), (Strategy::PartitionTolerant, 16)] {
        let wanted = Wanted { strategy: Some(strategy), ..Wanted::default() };
        let mut swarm = Swarm::new(wanted, vec![flow.clone()]);
        let verdict = swarm.run(&swarm.scenario(seed));
        assert_eq!(verdict.finding, None, "{strategy:?}, seed {seed}");
    }
}

/// What several nodes hold goes by other ids than what one node holds: what it waits for is part of it.
#[test]
fn whoever_is_started_by_a_workflow_that_is_run() {
    let errand = include_str!("../src/flows/errand.yaml");
    let tasks = call("m1", UNDONE) + &run("errand", "input: { to: a }") + &call("m2", UNDONE);
    let middle = head("middle", "compensate") + &tasks;
    let tasks = call("one", UNDONE) + &run("middle", "") + &call("two", UNDONE);
    let flow = given(&(head("outer", "compensate") + &tasks), &[&middle, errand]);
    let started = nothing_is_found(&flow, &Wanted::default(), 1..=10, Situation::Detached);
    assert!(0 < started);
}

/// What a race no longer wants is asked about beside the run, and its answer is lost when the run has failed: that is
/// asked again only if the run is tried again, and no timer is set for it meanwhile (seed 7).
#[test]
fn what_is_asked_about_beside_a_run_that_has_failed_waits_for_no_timer() {
    let branch = |text: String| text.trim().replacen("- ", "          - ", 1) + "\n";
    let own_key = format!(
        "class: compensatable, {UNDONE}, idempotency: {{ key: '${{ \"a-\" + $workflow.id }}' }}"
    );
    let plain = call("b", "").replace(", metadata: { outlast: {  } }", "");
    let text = head("race", "leave")
        + "  - race:\n      fork:\n        compete: true\n        branches:\n"
        + &branch(call("a", &own_key))
        + &branch(plain);
    let wanted = Wanted {
        kinds: Some(vec![FaultKind::LostAnswers]),
        strategy: Some(Strategy::None),
        ..Wanted::default()
    };
    let mut swarm = Swarm::new(wanted, vec![given(&text, &[])]);
    for seed in 1..=10 {
        let verdict = swarm.run(&swarm.scenario(seed));
        assert_eq!(verdict.finding, None, "seed {seed}");
    }
}
