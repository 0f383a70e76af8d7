//! Documents as users write them, interrupted at every point.

use std::sync::Arc;

use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_lineage::ExecutionId;
use outlast_simulator::{Flow, Plan, StartPlan, WorldOptions, try_every_crash_point};
use outlast_workflow::Program;

/// Books a trip: a fork, a loop, a retry with a timer, a child, and undos for what costs money.
const TRIP: &str = r#"
document:
  dsl: '1.0.3'
  namespace: test
  name: trip
  version: '1.0.0'
  metadata:
    outlast:
      version: '1.0'
      onFault: compensate
use:
  functions:
    cancelFlight:
      call: http
      with: { method: delete, endpoint: 'http://world.example/ok/flight' }
    cancelHotel:
      call: http
      with: { method: delete, endpoint: 'http://world.example/ok/hotel' }
do:
  - travel:
      fork:
        branches:
          - flight:
              call: http
              with: { method: post, endpoint: 'http://world.example/ok/flight' }
              metadata:
                outlast: { class: compensatable, compensation: { use: cancelFlight } }
          - hotel:
              call: http
              with: { method: post, endpoint: 'http://world.example/ok/hotel' }
              metadata:
                outlast: { class: compensatable, compensation: { use: cancelHotel } }
  - guests:
      for: { each: guest, in: '${ ["ada", "bob"] }' }
      do:
        - invite:
            call: http
            with:
              method: post
              endpoint: http://world.example/ok/invite
              body: { guest: '${ $guest }' }
            metadata:
              outlast: { class: retriable }
  - weather:
      try:
        - ask:
            call: http
            with: { method: get, endpoint: 'http://world.example/flaky/weather' }
            metadata:
              outlast: { class: readonly }
      catch:
        retry:
          delay: { seconds: 1 }
          limit: { attempt: { count: 5 } }
  - pause:
      wait: { seconds: 5 }
  - papers:
      run:
        workflow: { namespace: test, name: papers, version: '1.0.0' }
      metadata:
        outlast: { class: retriable }
"#;

const PAPERS: &str = r"
document: { dsl: '1.0.3', namespace: test, name: papers, version: '1.0.0' }
do:
  - print:
      call: http
      with: { method: post, endpoint: 'http://world.example/ok/print' }
";

/// The end of a trip that nobody pays for.
const UNPAID: &str = r"
  - unpaid:
      raise:
        error: { type: 'https://world.example/unpaid', status: 402, title: Nobody paid }
";

fn compiled(text: &str) -> (Arc<Program>, Arc<str>) {
    let program = openworkflow::compile(text).unwrap_or_else(|report| panic!("{report:?}"));
    (program, Arc::from(text))
}

fn plan(texts: &[&str]) -> Plan {
    let definitions: Vec<_> = texts.iter().map(|text| compiled(text)).collect();
    let first = &definitions[0].0;
    let start = StartPlan {
        id: ExecutionId::from_bytes([1; 16]),
        namespace: first.namespace.clone(),
        workflow: first.name.clone(),
        input: value::object([]),
        survival: None,
        delay: std::time::Duration::ZERO,
    };
    Plan { starts: vec![start], events: Vec::new(), definitions }
}

fn acts(texts: &[&str], snapshot_every: u64) -> Vec<(String, usize)> {
    let options = WorldOptions { snapshot_every, ..WorldOptions::default() };
    let flow = Flow { plan: plan(texts), options };
    let trial = try_every_crash_point(&flow).unwrap_or_else(|finding| panic!("{finding}"));
    assert_eq!(trial.crashes, trial.records * 6);
    trial.acts.into_iter().collect()
}

#[test]
fn a_trip_is_booked_once_wherever_the_node_stops() {
    let names: Vec<_> = acts(&[TRIP, PAPERS], 0).into_iter().map(|(name, _)| name).collect();
    let expected = [
        "GET flaky/weather",
        "POST ok/flight",
        "POST ok/hotel",
        "POST ok/invite {\"guest\":\"ada\"}",
        "POST ok/invite {\"guest\":\"bob\"}",
        "POST ok/print",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_trip_that_nobody_pays_for_is_cancelled_once_wherever_the_node_stops() {
    let text = format!("{TRIP}{}", UNPAID.trim_start_matches('\n'));
    let acts = acts(&[&text, PAPERS], 3);
    let times = |name: &str| acts.iter().find(|(of, _)| of == name).map_or(0, |(_, times)| *times);
    for name in ["POST ok/flight", "POST ok/hotel", "DELETE ok/flight", "DELETE ok/hotel"] {
        assert_eq!(times(name), 1, "{name} in {acts:?}");
    }
}
