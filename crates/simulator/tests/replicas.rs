//! Executions that several nodes hold: whatever fails, one run's effects remain.

mod flows;

use std::sync::Arc;
use std::time::Duration;

use flows::{Tasks, plan};
use outlast_engine::{Acknowledge, Phase, Strategy, Survival};
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_lineage::ExecutionId;
use outlast_simulator::checkers::Expectation;
use outlast_simulator::{
    Act, Fault, FaultKind, Latency, Machine, Plan, Situation, StartPlan, Swarm, Wanted, Workload,
    World, WorldOptions, checkers,
};
use outlast_workflow::TaskId;
use outlast_workflow::program::OnFault;

/// Activities one after the other, each of which can be undone.
fn line(length: usize, survival: &Survival, dedup: bool) -> Plan {
    let mut tasks = Tasks::new();
    let order = (0..length).map(|number| {
        let task = tasks.undoable(&format!("ok {number}"));
        if !dedup {
            tasks.acts_every_time(task);
        }
        task
    });
    let order = order.collect();
    let program = tasks.program("line", order, OnFault::Leave);
    let mut plan = plan(&[program], 1);
    plan.starts[0].survival = Some(survival.clone());
    plan
}

/// The line that comes with the simulator: undoing any of its eight activities costs one.
fn costly_line(survival: &Survival) -> Plan {
    built_in("line", survival)
}

/// A flow that comes with the simulator.
fn built_in(name: &str, survival: &Survival) -> Plan {
    let flows = Workload::built_in();
    let flow = flows.iter().find(|flow| flow.name == name).unwrap();
    let start = StartPlan {
        id: ExecutionId::from_bytes([1; 16]),
        namespace: flow.program.namespace.clone(),
        workflow: flow.program.name.clone(),
        input: flow.input.clone(),
        survival: Some(survival.clone()),
        delay: Duration::ZERO,
    };
    let definitions = vec![(Arc::clone(&flow.program), Arc::clone(&flow.text))];
    Plan { definitions, starts: vec![start], events: Vec::new() }
}

fn world(options: WorldOptions, plan: Plan) -> World {
    let mut world = World::new(options, plan);
    world.run();
    world
}

fn faults(list: &[&str]) -> Vec<Fault> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

fn options(nodes: usize, list: &[&str]) -> WorldOptions {
    WorldOptions { nodes, faults: faults(list), nobody_denies: true, ..WorldOptions::default() }
}

fn survivals() -> Vec<Survival> {
    vec![
        Survival::new(Strategy::Passive, 3),
        Survival::new(Strategy::PartitionTolerant, 3),
        Survival::new(Strategy::Active, 3),
    ]
}

#[test]
fn a_run_without_failures_is_one_run() {
    for survival in survivals() {
        let calm = world(options(1, &[]), line(5, &Survival::solo(), true));
        let world = world(options(3, &[]), line(5, &survival, true));
        let finding = checkers::everything_that_always_holds(&world);
        assert_eq!(finding, Ok(()), "{survival:?}\n{}", world.trace);
        assert_eq!(
            checkers::outcomes_are_the_same(&calm, &world),
            Ok(()),
            "{survival:?}\n{}",
            world.trace
        );
    }
}

#[test]
fn a_primary_that_crashes_is_replaced() {
    for survival in survivals() {
        let world = world(options(3, &["crash@0.03+5:3"]), line(30, &survival, true));
        let finding = checkers::everything_that_always_holds(&world);
        assert_eq!(finding, Ok(()), "{survival:?}\n{}", world.trace);
        assert!(world.elapsed() < Duration::from_secs(4), "{:?}\n{}", world.elapsed(), world.trace);
    }
}

/// Its heartbeats go on, but say that nothing it has to write is written.
#[test]
fn a_primary_whose_disk_stands_still_is_replaced() {
    for survival in [Strategy::Passive, Strategy::PartitionTolerant] {
        let survival = Survival::new(survival, 3);
        // The client may ask where nothing moves; then it soon asks another.
        let options = WorldOptions {
            client_patience: Duration::from_millis(500),
            ..options(3, &["slow-disk@0.03+0.5:3=50000"])
        };
        let world = world(options, line(30, &survival, true));
        let finding = checkers::everything_that_always_holds(&world);
        assert_eq!(finding, Ok(()), "{survival:?}\n{}", world.trace);
        assert!(world.elapsed() < Duration::from_secs(6), "{:?}\n{}", world.elapsed(), world.trace);
    }
}

/// One run is left, everywhere the same, whatever was done besides is undone in order.
fn check(nodes: usize, list: &[&str], length: usize, survival: &Survival, dedup: bool, seed: u64) {
    let calm = world(options(1, &[]), line(length, &Survival::solo(), true));
    let expectation = Expectation::of(&calm);
    let options = WorldOptions { seed, deduplicating: dedup, ..options(nodes, list) };
    let mut world = World::new(options, line(length, survival, dedup));
    world.run_to_rest(&|world| checkers::everything_at_rest(&expectation, world).is_ok());
    let finding = checkers::everything_at_rest(&expectation, &world);
    assert_eq!(finding, Ok(()), "seed {seed} {list:?} {survival:?}\n{}", world.trace);
}

#[test]
fn no_majority_anywhere_and_one_run_remains() {
    let five = |strategy| Survival::new(strategy, 5);
    for seed in 0..5 {
        for dedup in [true, false] {
            let list = ["split@0.05+2:1,2", "isolate@0.05+2:5"];
            check(5, &list, 40, &five(Strategy::PartitionTolerant), dedup, seed);
            check(5, &list, 40, &five(Strategy::Passive), dedup, seed);
            check(5, &list, 40, &five(Strategy::Active), dedup, seed);
        }
    }
}

/// Short runs end before anyone could tell, and are right in the end whoever executed them.
#[test]
fn of_two_primaries_that_meet_one_stands_down_long_before_the_run_ends() {
    let survival = Survival { votes: 1, ..Survival::new(Strategy::PartitionTolerant, 3) };
    let options = WorldOptions {
        // A second there and a second back.
        service: Latency::Constant(1_000_000),
        ..options(3, &["split@1+9:1,2"])
    };
    let mut world = World::new(options, line(30, &survival, true));
    while world.elapsed() < Duration::from_secs(9) && world.step() {}
    let finding = checkers::nobody_leads_beside_another(&world, Duration::ZERO);
    assert!(finding.is_err_and(|finding| finding.contains("both lead")), "{}", world.states());
    // Ten heartbeats after they can hear each other again.
    while world.elapsed() < Duration::from_millis(11_500) && world.step() {}
    assert_eq!(
        checkers::nobody_leads_beside_another(&world, Duration::ZERO),
        Ok(()),
        "{}",
        world.trace
    );
    let leads = |machine: &Machine| {
        let engine = machine.node.engine().unwrap();
        engine.phases().any(|(_, phase)| phase == Phase::Leading)
    };
    assert_eq!(world.machines.iter().filter(|machine| leads(machine)).count(), 1, "never none");
    world.run();
    assert_eq!(checkers::everything_that_always_holds(&world), Ok(()), "{}", world.trace);
}

/// How often something was carried out while nobody reached anybody, and in the end: they are cut apart
/// while the booking is under way that the run begins with.
fn done_while_cut(
    survival: &Survival,
    then: fn(&mut Tasks) -> TaskId,
    on_fault: OnFault,
    what: &str,
) -> (usize, usize) {
    let mut tasks = Tasks::new();
    let order = vec![tasks.undoable("ok book"), then(&mut tasks)];
    let mut plan = plan(&[tasks.program("trip", order, on_fault)], 1);
    plan.starts[0].survival = Some(survival.clone());
    let options = WorldOptions {
        service: Latency::Constant(500_000),
        ..options(3, &["isolate@0.1+6:1", "isolate@0.1+6:2", "isolate@0.1+6:3"])
    };
    let mut world = World::new(options, plan);
    let done = |world: &World| {
        let name = |act: &Act| world.services.ledger.operation(act.operation).to_owned();
        world.services.ledger.iter().filter(|act| name(act).contains(what)).count()
    };
    while world.elapsed() < Duration::from_secs(5) && world.step() {}
    let meanwhile = done(&world);
    world.run();
    assert_eq!(checkers::everything_that_always_holds(&world), Ok(()), "{}", world.trace);
    (meanwhile, done(&world))
}

#[test]
fn a_pivot_waits_without_a_majority_unless_its_author_allows_otherwise() {
    let paid = |survival: &Survival| {
        done_while_cut(survival, |tasks| tasks.pivot("ok pay"), OnFault::Leave, "pay")
    };
    let waits = Survival { votes: 1, ..Survival::new(Strategy::PartitionTolerant, 3) };
    assert_eq!(paid(&waits), (0, 1));
    let anywhere = Survival { pivots_anywhere: true, ..waits };
    assert_eq!(paid(&anywhere).0, 1, "its provider acts once for each key");
}

/// The run that counts in the end may have gone on from what another one would have undone.
#[test]
fn a_run_that_rolls_back_waits_without_a_majority_whatever_its_pivots_may() {
    for pivots_anywhere in [false, true] {
        let three = Survival::new(Strategy::PartitionTolerant, 3);
        let survival = Survival { votes: 1, pivots_anywhere, ..three };
        let fails = |tasks: &mut Tasks| tasks.call("fail pay");
        let undone = done_while_cut(&survival, fails, OnFault::Compensate, "undo");
        assert_eq!(undone, (0, 1), "pivots anywhere: {pivots_anywhere}");
    }
}

#[test]
fn a_primary_without_a_majority_pauses_for_its_budget_and_says_so() {
    let survival =
        Survival { budget: Some(1.0), votes: 1, ..Survival::new(Strategy::PartitionTolerant, 3) };
    let mut world = World::new(options(3, &["isolate@0.1+4:3"]), costly_line(&survival));
    let phase_of = |world: &World, place: usize| {
        let engine = world.machines[place].node.engine().unwrap();
        engine.phases().next().map(|(_, phase)| phase)
    };
    while world.elapsed() < Duration::from_secs(3) && world.step() {}
    assert_eq!(phase_of(&world, 2), Some(Phase::Paused), "{}", world.trace);
    assert!(phase_of(&world, 2).and_then(Phase::why_it_waits).is_some());
    assert!(world.situations.count(Situation::BudgetPause) > 0);
    world.run();
    assert_eq!(checkers::everything_that_always_holds(&world), Ok(()), "{}", world.trace);
}

/// What it handles a failure with takes longer than it may while it is held back.
const HELD_BACK_TOO_LONG: &str = "
document: { dsl: '1.0.3', namespace: h, name: flow, version: '1.0.0' }
use:
  functions:
    undo: { call: http, with: { method: post, endpoint: 'http://w.example/undo/work', body: '${ . }' } }
do:
  - y:
      try:
        - a:
            call: http
            with: { method: post, endpoint: 'http://w.example/ok/a' }
            timeout: { after: { milliseconds: 200 } }
            metadata: { outlast: { class: retriable } }
      catch:
        do:
          - b:
              call: http
              with: { method: post, endpoint: 'http://w.example/ok/b' }
              timeout: { after: { milliseconds: 20 } }
              metadata:
                outlast:
                  class: compensatable
                  compensation: { use: undo, capture: '${ { receipt: .receipt } }' }
";

#[test]
fn what_took_too_long_while_it_was_held_back_is_not_made_in_order_to_undo_it() {
    let program = openworkflow::compile(HELD_BACK_TOO_LONG).unwrap();
    let flow = Workload::new(program, HELD_BACK_TOO_LONG, value::object([]));
    let wanted = Wanted {
        nodes: Some(3),
        strategy: Some(Strategy::Passive),
        kinds: Some(vec![FaultKind::Isolate]),
        service_latency: Some(Latency::Uniform(1_000, 5_000)),
        ..Wanted::default()
    };
    let mut swarm = Swarm::new(wanted, vec![flow]);
    for seed in 0..40 {
        let verdict = swarm.run(&swarm.scenario(seed));
        assert_eq!(verdict.finding, None, "seed {seed}");
    }
}

/// The second call takes too long while nobody can hear of it, and then all is rolled back.
const TOO_LATE: &str = "
document: { dsl: '1.0.3', namespace: h, name: late, version: '1.0.0', metadata: { outlast: { version: '1.0', onFault: compensate } } }
use:
  functions:
    undo: { call: http, with: { method: post, endpoint: 'http://w.example/undo/work', body: '${ . }' } }
do:
  - book:
      call: http
      with: { method: post, endpoint: 'http://w.example/ok/book' }
      metadata: { outlast: { class: compensatable, compensation: { use: undo, capture: '${ { receipt: .receipt } }' } } }
  - soon:
      timeout: { after: { seconds: 1 } }
      do:
        - pay:
            call: http
            with: { method: post, endpoint: 'http://w.example/ok/pay' }
            metadata: { outlast: { class: compensatable, compensation: { use: undo, capture: '${ { receipt: .receipt } }' } } }
";

#[test]
fn what_never_left_before_its_time_was_over_is_not_made_by_the_rollback_that_follows() {
    let program = openworkflow::compile(TOO_LATE).unwrap();
    let start = StartPlan {
        id: ExecutionId::from_bytes([1; 16]),
        namespace: program.namespace.clone(),
        workflow: program.name.clone(),
        input: value::object([]),
        survival: Some(Survival::new(Strategy::Passive, 3)),
        delay: Duration::ZERO,
    };
    let definitions = vec![(program, Arc::from(TOO_LATE))];
    let plan = Plan { definitions, starts: vec![start], events: Vec::new() };
    let options = WorldOptions {
        service: Latency::Constant(500_000),
        ..options(3, &["isolate@0.3+6:1", "isolate@0.3+6:2", "isolate@0.3+6:3"])
    };
    let world = world(options, plan);
    assert_eq!(checkers::everything_that_always_holds(&world), Ok(()), "{}", world.trace);
    let ledger = &world.services.ledger;
    let names: Vec<&str> = ledger.iter().map(|act| ledger.operation(act.operation)).collect();
    let came = |what: &str| names.iter().filter(|name| name.contains(what)).count();
    assert_eq!((came("book"), came("pay"), came("undo")), (1, 0, 1), "{names:?}\n{}", world.trace);
}

/// Calls what is undone for a race that it loses, and fails at something costly.
const RACE_BEFORE_A_FAILURE: &str = "
document:
  dsl: '1.0.3'
  namespace: h
  name: flow
  version: '1.0.0'
  metadata: { outlast: { version: '1.0', onFault: compensate } }
use:
  functions:
    undo: { call: http, with: { method: post, endpoint: 'http://w.example/undo/work', body: '${ . }' } }
do:
  - race:
      fork:
        compete: true
        branches:
          - slow:
              do:
                - a:
                    call: http
                    with: { method: get, endpoint: 'http://w.example/ok/a' }
                    metadata: { outlast: { class: readonly } }
                - b:
                    call: http
                    with: { method: post, endpoint: 'http://w.example/ok/b' }
                    metadata:
                      outlast:
                        class: compensatable
                        compensation: { use: undo, capture: '${ { receipt: .receipt } }' }
          - quick:
              call: http
              with: { method: get, endpoint: 'http://w.example/ok/q' }
              metadata: { outlast: { class: readonly } }
  - c:
      call: http
      with: { method: post, endpoint: 'http://w.example/fail/c' }
      metadata:
        outlast:
          class: compensatable
          compensation: { use: undo, capture: '${ { receipt: .receipt } }', cost: 4 }
";

#[test]
fn what_was_made_once_is_undone_though_it_never_left_a_second_time() {
    let program = openworkflow::compile(RACE_BEFORE_A_FAILURE).unwrap();
    let flow = Workload::new(program, RACE_BEFORE_A_FAILURE, value::object([]));
    let wanted = Wanted {
        nodes: Some(2),
        strategy: Some(Strategy::PartitionTolerant),
        replicas: Some(2),
        votes: Some(1),
        acknowledge: Some(Acknowledge::None),
        budget: Some(Some(1.0)),
        pivots_anywhere: Some(false),
        faults: Some(faults(&["one-way@0.585344+8.06896:2"])),
        gossip: Some(false),
        latency: Some(Latency::Uniform(1_000, 20_000)),
        service_latency: Some(Latency::Uniform(20_000, 200_000)),
        skew: Some(1_000),
        keyless: Some(false),
        executions: Some(4),
        ..Wanted::default()
    };
    let mut swarm = Swarm::new(wanted, vec![flow]);
    let verdict = swarm.run(&swarm.scenario(93));
    assert_eq!(verdict.finding, None);
}

/// Its leader is cut off with the pivot under way, and answered; the others have parked it, and hear of the answer
/// before people look.
#[test]
fn a_pivot_that_is_answered_where_nobody_leads_needs_no_person() {
    for strategy in [Strategy::Passive, Strategy::PartitionTolerant] {
        let mut answered = 0;
        for cut_off in 1..=3 {
            let split = format!("split@7+5:{cut_off}");
            let service = Latency::Uniform(1_000_000, 1_050_000);
            let options = WorldOptions { service, ..options(3, &[&split]) };
            let world = world(options, built_in("pivot", &Survival::new(strategy, 3)));
            let finding = checkers::everything_that_always_holds(&world);
            assert_eq!(finding, Ok(()), "{strategy:?} {cut_off}\n{}", world.trace);
            let ledger = &world.services.ledger;
            let pays = ledger.iter().filter(|act| ledger.operation(act.operation).contains("pay"));
            assert_eq!(pays.count(), 1, "{strategy:?} {cut_off}");
            answered += world.situations.count(Situation::AnsweredElsewhere);
        }
        assert!(0 < answered, "{strategy:?}: one of them leads");
    }
}
