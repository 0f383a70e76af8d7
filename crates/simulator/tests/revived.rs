//! Runs of several nodes that failed, and that people have tried again or taken back when all have forgotten
//! them: what such a run publishes and starts leaves, and whatever it did and does not count is undone.

use std::sync::Arc;

use outlast_engine::Strategy;
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_simulator::{FaultKind, Situation, Swarm, Wanted, Workload};

/// Hears what it tells itself.
const TALKER: &str = "
document: { dsl: '1.0.3', namespace: t, name: flow, version: '1.0.0' }
do:
  - a: { call: http, with: { method: post, endpoint: 'http://w.example/ok/a' } }
  - e: { emit: { event: { with: { type: e, data: { who: '${ $workflow.id }' } } } } }
  - h: { listen: { to: { one: { with: { type: e, data: '${ .who == $workflow.id }' } } } } }
";

/// Starts another that it does not wait for.
const STARTER: &str = "
document: { dsl: '1.0.3', namespace: t, name: flow, version: '1.0.0' }
do:
  - a: { call: http, with: { method: post, endpoint: 'http://w.example/ok/a' } }
  - z: { run: { await: false, workflow: { namespace: t, name: child, version: '1.0.0' } } }
";
const CHILD: &str = "
document: { dsl: '1.0.3', namespace: t, name: child, version: '1.0.0' }
do:
  - c: { call: http, with: { method: post, endpoint: 'http://w.example/ok/c' } }
";

/// Fails while a call is under way whose provider knows no keys.
const SIBLING: &str = "
document: { dsl: '1.0.3', namespace: t, name: flow, version: '1.0.0' }
use:
  functions:
    undo: { call: http, with: { method: post, endpoint: 'http://w.example/undo/work', body: '${ . }' } }
do:
  - f:
      fork:
        branches:
          - a:
              call: http
              with: { method: post, endpoint: 'http://w.example/ok/a' }
              metadata:
                outlast:
                  class: compensatable
                  idempotency: { none: true }
                  compensation: { use: undo, capture: '${ { receipt: .receipt } }' }
          - b: { call: http, with: { method: post, endpoint: 'http://w.example/fail/b' } }
";

/// Runs as part of it a workflow whose call takes longer than that part may, and whose provider knows no keys.
const HURRIED: &str = "
document: { dsl: '1.0.3', namespace: t, name: flow, version: '1.0.0' }
do:
  - part:
      run: { workflow: { namespace: t, name: part, version: '1.0.0', input: {} } }
      timeout: { after: { milliseconds: 20 } }
";
const PART: &str = "
document:
  dsl: '1.0.3'
  namespace: t
  name: part
  version: '1.0.0'
  metadata: { outlast: { version: '1.0', onFault: compensate } }
use:
  functions:
    undo: { call: http, with: { method: post, endpoint: 'http://w.example/undo/work', body: '${ . }' } }
do:
  - a:
      call: http
      with: { method: post, endpoint: 'http://w.example/ok/a' }
      metadata:
        outlast:
          class: compensatable
          idempotency: { none: true }
          compensation: { use: undo, capture: '${ { receipt: .receipt } }' }
";

/// Some worlds with a flow, in every way in which three nodes can hold it; says how often people came back to it.
fn check(text: &str, others: &[&str], faults: &[FaultKind], seeds: std::ops::Range<u64>) -> u64 {
    let mut revived = 0;
    for strategy in [Strategy::Passive, Strategy::PartitionTolerant, Strategy::Active] {
        let compiled = |text: &str| openworkflow::compile(text).unwrap();
        let flow = Workload::new(compiled(text), text, value::object([]));
        let others = others.iter().map(|text| (compiled(text), Arc::from(*text))).collect();
        let wanted = Wanted {
            nodes: Some(3),
            strategy: Some(strategy),
            kinds: Some(faults.to_vec()),
            executions: Some(1),
            ..Wanted::default()
        };
        let mut swarm = Swarm::new(wanted, vec![Workload { others, ..flow }]);
        for seed in seeds.clone() {
            let verdict = swarm.run(&swarm.scenario(seed));
            assert_eq!(verdict.finding, None, "{strategy:?}, seed {seed}");
            let come_back = [Situation::TriedAgainLater, Situation::TakenBackLater];
            revived += come_back.map(|it| verdict.situations.count(it)).iter().sum::<u64>();
        }
    }
    revived
}

#[test]
fn what_is_told_after_the_end_is_heard() {
    assert!(0 < check(TALKER, &[], &[FaultKind::ServiceErrors], 7_002_000..7_002_060));
}

#[test]
fn what_is_started_after_the_end_starts() {
    assert!(0 < check(STARTER, &[CHILD], &[FaultKind::ServiceErrors], 7_003_000..7_003_060));
}

#[test]
fn what_was_under_way_at_the_end_is_undone_or_asked_about() {
    assert!(0 < check(SIBLING, &[], &[], 7_006_000..7_006_020));
}

#[test]
fn a_part_that_is_run_again_has_calls_of_its_own() {
    assert!(0 < check(HURRIED, &[PART], &[], 7_008_000..7_008_100));
}
