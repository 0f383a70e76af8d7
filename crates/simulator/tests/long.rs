//! Flows that take long by themselves: how long everything may take to heal is as much longer.

use std::sync::Arc;
use std::time::Duration;

use outlast_engine::Strategy;
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_simulator::{FaultKind, Swarm, Wanted, Workload};
use outlast_workflow::Program;

fn compiled(name: &str, tasks: &str) -> (Arc<Program>, Arc<str>) {
    let document = format!("dsl: '1.0.3', namespace: simulated, name: {name}, version: '1.0.0'");
    let text = format!("document: {{ {document} }}\ndo:\n{tasks}");
    (openworkflow::compile(&text).unwrap(), Arc::from(text))
}

fn flow(tasks: &str) -> Workload {
    let (program, text) = compiled("long", tasks);
    Workload::new(program, &text, value::object([]))
}

fn run_beside(name: &str) -> String {
    let workflow = format!("{{ namespace: simulated, name: {name}, version: '1.0.0' }}");
    format!("  - go: {{ run: {{ await: false, workflow: {workflow} }} }}\n")
}

fn call(name: &str, path: &str) -> String {
    let with = format!("{{ method: post, endpoint: 'http://world.example/{path}' }}");
    format!("{name}: {{ call: http, with: {with} }}")
}

fn nothing_is_found(flow: &Workload, wanted: &Wanted, seeds: u64) -> Duration {
    let mut swarm = Swarm::new(wanted.clone(), vec![flow.clone()]);
    let mut longest = Duration::ZERO;
    for seed in 1..=seeds {
        let verdict = swarm.run(&swarm.scenario(seed));
        assert_eq!(verdict.finding, None, "seed {seed}");
        longest = longest.max(verdict.elapsed);
    }
    longest
}

#[test]
fn a_flow_that_waits_for_longer_than_healing_takes() {
    let tasks =
        format!("  - approve: {{ wait: {{ minutes: 15 }} }}\n  - {}\n", call("pay", "ok/pay"));
    let alone = Wanted {
        strategy: Some(Strategy::None),
        nodes: Some(1),
        kinds: Some(Vec::new()),
        executions: Some(1),
        ..Wanted::default()
    };
    let longest = nothing_is_found(&flow(&tasks), &alone, 1);
    assert!(Duration::from_secs(900) < longest, "{longest:?}");
    let crashes = Wanted { kinds: Some(vec![FaultKind::Crash]), ..Wanted::default() };
    nothing_is_found(&flow(&tasks), &crashes, 3);
}

#[test]
fn a_loop_of_short_waits_that_is_long_in_all() {
    let body =
        format!("[{{ nap: {{ wait: {{ minutes: 1 }} }} }}, {{ {} }}]", call("look", "ok/look"));
    let each = "{ each: item, in: '${ [range(20)] }' }";
    let tasks = format!("  - poll: {{ for: {each}, do: {body} }}\n");
    let wanted = Wanted { kinds: Some(Vec::new()), ..Wanted::default() };
    nothing_is_found(&flow(&tasks), &wanted, 2);
}

/// What is tried again only after a while takes as much longer, though not when nothing fails.
#[test]
fn a_failure_that_is_tried_again_late() {
    let retry = "{ retry: { delay: { minutes: 20 }, limit: { attempt: { count: 5 } } } }";
    let tasks = format!("  - visit: {{ try: [{{ {} }}], catch: {retry} }}\n", call("a", "ok/a"));
    let wanted = Wanted {
        strategy: Some(Strategy::None),
        faults: Some(vec!["service-errors@0+20=900".parse().unwrap()]),
        ..Wanted::default()
    };
    let longest = nothing_is_found(&flow(&tasks), &wanted, 2);
    assert!(Duration::from_secs(1_200) < longest, "{longest:?}");
}

#[test]
fn what_does_not_end_when_nothing_fails_is_told_with_the_reason() {
    let told = |tasks: &str| {
        let mut swarm = Swarm::new(Wanted::default(), vec![flow(tasks)]);
        swarm.try_flows().unwrap_err()
    };
    let never = told("  - hear: { listen: { to: { one: { with: { type: never } } } } }\n");
    assert!(never.contains("long has not ended after 0 s"), "{never}");
    assert!(never.contains("such as an event that nobody sends"), "{never}");
    let late = told("  - rest: { wait: { days: 30 } }\n");
    assert!(
        late.contains("after 86400 s in which nothing failed, and a world lasts no longer"),
        "{late}"
    );
    let started = run_beside("never");
    let child = "  - hear: { listen: { to: { one: { with: { type: never } } } } }\n";
    let flow = Workload { others: vec![compiled("never", child)], ..flow(&started) };
    let others = Swarm::new(Wanted::default(), vec![flow]).try_flows().unwrap_err();
    assert!(
        others.contains("long has, and what it started has not ended after 86400 s"),
        "{others}"
    );
    let endless = told(
        "  - rest: { wait: { seconds: 1 } }
  - again: { switch: [ { more: { when: '${ true }', then: rest } } ] }\n",
    );
    assert!(endless.contains("has not ended after"), "{endless}");
}
