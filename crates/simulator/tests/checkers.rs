//! The checkers notice what they are there to notice: worlds that are right are spoiled by hand.

use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Strategy, Survival};
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_lineage::{
    BranchId, Digest, EffectId, Epoch, ExecutionId, NodeId, OperationKey, Point, Time,
};
use outlast_simulator::checkers::{self, Expectation};
use outlast_simulator::{
    Latency, Plan, Scenario, Situation, StartPlan, Swarm, Wanted, Workload, World, WorldOptions,
};
use outlast_workflow::program::HttpOutput;
use outlast_workflow::{Request, Target};

const ID: ExecutionId = ExecutionId::from_bytes([1; 16]);

fn plan(flow: &str) -> Plan {
    plan_with(flow, Survival::solo())
}

fn plan_with(flow: &str, survival: Survival) -> Plan {
    let flows = Workload::built_in();
    let line = flows.iter().find(|known| known.name == flow).unwrap();
    let start = StartPlan {
        id: ID,
        namespace: line.program.namespace.clone(),
        workflow: line.program.name.clone(),
        input: value::object([]),
        survival: Some(survival),
        delay: Duration::ZERO,
    };
    let definitions = vec![(Arc::clone(&line.program), Arc::clone(&line.text))];
    Plan { definitions, starts: vec![start], events: Vec::new() }
}

/// A world at rest in which everything holds, and what is expected of it.
fn at_rest() -> (Expectation, World) {
    at_rest_with("line")
}

fn at_rest_with(flow: &str) -> (Expectation, World) {
    let options = WorldOptions { nobody_denies: true, ..WorldOptions::default() };
    let mut world = World::new(options, plan(flow));
    world.run_to_rest(&|_| true);
    let expectation = Expectation::of(&world);
    assert_eq!(checkers::everything_at_rest(&expectation, &world), Ok(()));
    (expectation, world)
}

/// A request that nobody made.
fn request(path: &str, number: u64, undo: bool, receipt: Option<&str>) -> Request {
    let point = Point { author: NodeId(1), epoch: Epoch(9), number };
    let body = receipt.map(|receipt| value::object([("receipt", value::string(receipt))]));
    let digest = Digest::of(&[u8::try_from(number).unwrap(), u8::from(undo)]);
    Request {
        effect: EffectId { branch: BranchId::TRUNK, point },
        key: OperationKey::new(ID, &digest, &digest),
        own_key: None,
        key_header: None,
        deadline: None,
        readonly: false,
        undo,
        target: Target::Http {
            method: "POST".to_owned(),
            uri: format!("http://world.example/{path}"),
            headers: Vec::new(),
            body: body.unwrap_or(value::null()),
            output: HttpOutput::Content,
            redirect: false,
            authentication: None,
        },
        salt: [0; 16],
        undoes: None,
        own_undoes: None,
    }
}

/// Has a service do something; gives the receipt of it, and what must not be.
fn visit(world: &mut World, second: u64, request: &Request) -> (String, Option<String>) {
    let now = Time::from_millis(10_000_000 + second * 1000);
    let visited = world.services.visit(now, NodeId(1), ID, request, false);
    let receipt = format!("{:016x}", request.key.digest().short());
    (receipt, visited.finding)
}

#[test]
fn something_done_twice_is_noticed() {
    let (expectation, mut world) = at_rest();
    visit(&mut world, 1, &request("ok/a1", 1, false, None));
    let finding = checkers::net_effects_are_those_of_one_run(&expectation, &world).unwrap_err();
    assert!(finding.contains("POST ok/a1 stands 2 times, and should at most 1"), "{finding}");
}

#[test]
fn something_done_twice_and_undone_once_is_right_but_not_without_a_fault() {
    let (expectation, mut world) = at_rest();
    let (receipt, _) = visit(&mut world, 1, &request("ok/a1", 1, false, None));
    visit(&mut world, 2, &request("undo/work", 2, true, Some(&receipt)));
    assert_eq!(checkers::net_effects_are_those_of_one_run(&expectation, &world), Ok(()));
    let finding = checkers::no_compensation_without_a_fault(&expectation, &world).unwrap_err();
    assert!(finding.contains("undid 1 things"), "{finding}");
}

/// One of three iterations fails while others go on, and all that was done is undone: how much that is
/// depends on how long calls take.
const FAILS_BESIDE_OTHERS: &str = "
document: { dsl: '1.0.3', namespace: simulated, name: beside, version: '1.0.0' }
use:
  functions:
    undo: { call: http, with: { method: post, endpoint: 'http://world.example/undo/work', body: '${ . }' } }
do:
  - attempt:
      try:
        - all:
            for: { each: item, in: '${ [1, 2, 3] }' }
            metadata: { outlast: { concurrency: 2 } }
            do:
              - one:
                  call: http
                  with: { method: post, endpoint: 'http://world.example/ok/one', body: { item: '${ $item }' } }
                  metadata:
                    outlast: { class: compensatable, compensation: { use: undo, capture: '${ { receipt: .receipt } }' } }
              - which: { switch: [ { bad: { when: '$item == 2', then: no } }, { good: { then: exit } } ] }
              - no: { raise: { error: { type: 'https://world.example/no', status: 418, title: no } } }
      catch:
        do: [ { back: { call: 'compensate:1.0.0@default', with: {} } } ]
";

#[test]
fn how_much_is_undone_beside_others_is_no_finding() {
    let program = openworkflow::compile(FAILS_BESIDE_OTHERS).unwrap();
    let flow = Workload::new(program, FAILS_BESIDE_OTHERS, value::object([]));
    let service_latency = Some(Latency::Exponential(20_000, 200_000));
    let latency = Some(Latency::Uniform(200, 800));
    let wanted = Wanted { faults: Some(Vec::new()), service_latency, latency, ..Wanted::default() };
    let mut swarm = Swarm::new(wanted, vec![flow]);
    for seed in 1..=30 {
        let scenario = swarm.scenario(seed);
        assert_eq!(swarm.run(&scenario).finding, None, "seed {seed}");
    }
}

/// Which branch wins depends on how long calls take, so nobody can tell what a run does.
const RACE: &str = "
document: { dsl: '1.0.3', namespace: simulated, name: race, version: '1.0.0' }
use:
  functions:
    undo: { call: http, with: { method: post, endpoint: 'http://world.example/undo/work', body: '${ . }' } }
do:
  - first:
      call: http
      with: { method: post, endpoint: 'http://world.example/ok/first' }
      metadata:
        outlast: { class: compensatable, compensation: { use: undo, capture: '${ { receipt: .receipt } }' } }
  - either: { fork: { compete: true, branches: [ { one: { wait: PT0.01S } }, { other: { wait: PT0.02S } } ] } }
";

/// What every replica did by one key, at services that know no keys, stands several times.
#[test]
fn what_stands_twice_by_one_key_is_noticed_whatever_way_a_run_takes() {
    for keyless in [false, true] {
        let flow = Workload::new(openworkflow::compile(RACE).unwrap(), RACE, value::object([]));
        let wanted = Wanted {
            strategy: Some(Strategy::Active),
            nodes: Some(3),
            faults: Some(Vec::new()),
            keyless: Some(keyless),
            ..Wanted::default()
        };
        let mut swarm = Swarm::new(wanted, vec![flow]);
        let scenario = swarm.scenario(1);
        let finding = swarm.run(&scenario).finding;
        let noticed = finding.as_ref().is_some_and(|it| it.contains("stands twice by one key"));
        assert_eq!(noticed, keyless, "{finding:?}");
    }
}

/// Where nothing is to fail nobody dies, also when people come back to what failed.
#[test]
fn without_faults_no_node_dies() {
    let wanted = Wanted { faults: Some(Vec::new()), ..Wanted::default() };
    let mut swarm = Swarm::new(wanted, Workload::built_in());
    let mut again = 0;
    for seed in 300..340 {
        let verdict = swarm.run(&swarm.scenario(seed));
        let count = |situation| verdict.situations.count(situation);
        assert_eq!(verdict.finding, None, "seed {seed}");
        assert_eq!(count(Situation::CrashWithUnsynced) + count(Situation::AllDown), 0, "{seed}");
        again += count(Situation::TriedAgainLater) + count(Situation::TakenBackLater);
    }
    assert!(again > 0, "people do come back to something");
}

/// Does something, starts another execution that it does not wait for, and is rolled back.
const ROLLED_BACK_WITH_AN_ERRAND: &str = "
document:
  dsl: '1.0.3'
  namespace: simulated
  name: sender
  version: '1.0.0'
  metadata: { outlast: { version: '1.0', onFault: compensate } }
use:
  functions:
    undo: { call: http, with: { method: post, endpoint: 'http://world.example/undo/work', body: '${ . }' } }
do:
  - one:
      call: http
      with: { method: post, endpoint: 'http://world.example/ok/one' }
      metadata:
        outlast: { class: compensatable, compensation: { use: undo, capture: '${ { receipt: .receipt } }' } }
  - send: { run: { await: false, workflow: { namespace: simulated, name: errand, version: '1.0.0', input: { to: a } } } }
  - no: { raise: { error: { type: 'https://world.example/no', status: 418, title: no } } }
";

#[test]
fn what_was_rolled_back_by_people_before_it_started_another_is_no_finding() {
    let compiled = |text: &str| openworkflow::compile(text).unwrap();
    let errand = include_str!("../src/flows/errand.yaml");
    let text = ROLLED_BACK_WITH_AN_ERRAND;
    let flow = Workload::new(compiled(text), text, value::object([]));
    let flow = Workload { others: vec![(compiled(errand), Arc::from(errand))], ..flow };
    let service_latency = Some(Latency::Constant(500_000));
    let (strategy, latency) = (Some(Strategy::Passive), Some(Latency::Constant(500)));
    let (nodes, gossip) = (Some(3), Some(false));
    let wanted = Wanted { strategy, nodes, gossip, latency, service_latency, ..Wanted::default() };
    // By 0.2 s it is under way to its first activity; by 60 s all is over.
    for at in ["0.2", "60"] {
        let faults = Some(vec![format!("compensate@{at}+1=1").parse().unwrap()]);
        let mut swarm = Swarm::new(Wanted { faults, ..wanted.clone() }, vec![flow.clone()]);
        let scenario = Scenario { delays: vec![Duration::ZERO], ..swarm.scenario(1) };
        let verdict = swarm.run(&scenario);
        assert_eq!(verdict.finding, None, "at {at}");
        assert_eq!(verdict.count(Situation::RollbackWished), u64::from(at == "0.2"));
    }
}

#[test]
fn something_done_on_two_lines_without_a_fault_is_noticed_however_much_is_undone() {
    let (mut expectation, mut world) = at_rest_with("rollback");
    expectation.is_forked = true;
    assert_eq!(checkers::no_compensation_without_a_fault(&expectation, &world), Ok(()));
    let (receipt, _) = visit(&mut world, 1, &request("ok/r1", 1, false, None));
    visit(&mut world, 2, &request("undo/work", 2, true, Some(&receipt)));
    let finding = checkers::no_compensation_without_a_fault(&expectation, &world).unwrap_err();
    assert!(finding.contains("did POST ok/r1 on two lines"), "{finding}");
}

#[test]
fn an_undo_of_a_line_that_a_majority_lacked_is_noticed_where_calls_wait_for_a_majority() {
    for (strategy, is_noticed) in [(Strategy::Passive, true), (Strategy::PartitionTolerant, false)]
    {
        let options = WorldOptions { nodes: 3, nobody_denies: true, ..WorldOptions::default() };
        let mut world = World::new(options, plan_with("line", Survival::new(strategy, 3)));
        world.run_to_rest(&|_| true);
        assert_eq!(checkers::nothing_is_undone_that_a_majority_lacked(&world), Ok(()));
        let (receipt, _) = visit(&mut world, 1, &request("ok/a1", 1, false, None));
        visit(&mut world, 2, &request("undo/work", 2, true, Some(&receipt)));
        let finding = checkers::nothing_is_undone_that_a_majority_lacked(&world);
        assert_eq!(finding.is_err(), is_noticed, "{strategy:?}: {finding:?}");
    }
}

#[test]
fn a_pivot_that_is_done_twice_is_noticed() {
    let (expectation, mut world) = at_rest_with("pivot");
    assert_eq!(checkers::a_pivot_runs_in_one_line(&expectation, &world), Ok(()));
    visit(&mut world, 1, &request("ok/pay", 1, false, None));
    let finding = checkers::a_pivot_runs_in_one_line(&expectation, &world).unwrap_err();
    assert!(finding.contains("POST ok/pay") && finding.contains("2 times"), "{finding}");
}

#[test]
fn something_undone_twice_is_noticed_at_once() {
    let (_, mut world) = at_rest();
    let (receipt, _) = visit(&mut world, 1, &request("ok/a1", 1, false, None));
    let (_, fine) = visit(&mut world, 2, &request("undo/work", 2, true, Some(&receipt)));
    assert_eq!(fine, None);
    let (_, finding) = visit(&mut world, 3, &request("undo/work", 3, true, Some(&receipt)));
    assert!(finding.unwrap().contains("was undone twice"));
}

/// All that an undo calls is part of it, with the receipt of what it undoes or without.
#[test]
fn an_undo_of_several_calls_undoes_once_unless_one_of_them_is_made_twice() {
    let (_, mut world) = at_rest();
    let booked = request("ok/a1", 1, false, None);
    let (receipt, _) = visit(&mut world, 1, &booked);
    let of_it = |path, number, receipt| Request {
        undoes: Some(booked.key),
        ..request(path, number, true, receipt)
    };
    for (number, path, receipt) in
        [(2, "ok/tell", None), (3, "undo/work", Some(&*receipt)), (4, "ok/file", None)]
    {
        let (_, finding) = visit(&mut world, number, &of_it(path, number, receipt));
        assert_eq!(finding, None, "{path}");
    }
    let (_, finding) = visit(&mut world, 5, &of_it("ok/tell", 5, None));
    assert!(finding.unwrap().contains("was undone twice"));
}

#[test]
fn undoing_in_the_wrong_order_is_noticed() {
    let (_, mut world) = at_rest();
    let (first, _) = visit(&mut world, 1, &request("ok/a1", 1, false, None));
    let (second, _) = visit(&mut world, 2, &request("ok/a2", 2, false, None));
    visit(&mut world, 3, &request("undo/work", 3, true, Some(&first)));
    visit(&mut world, 4, &request("undo/work", 4, true, Some(&second)));
    let finding = checkers::undos_come_in_reverse_order(&world).unwrap_err();
    assert!(finding.contains("POST ok/a1"), "{finding}");
}

#[test]
fn a_key_that_carries_two_requests_is_noticed_at_once() {
    let (_, mut world) = at_rest();
    visit(&mut world, 1, &request("ok/a1", 1, false, None));
    let (_, finding) = visit(&mut world, 2, &request("ok/a2", 1, false, None));
    assert!(finding.unwrap().contains("carried POST ok/a1 and then POST ok/a2"));
}

#[test]
fn a_start_that_was_acknowledged_and_is_lost_is_noticed() {
    let (_, mut world) = at_rest();
    world.client.ended.clear();
    let finding = checkers::nothing_acknowledged_is_lost(&world).unwrap_err();
    assert!(finding.contains("nobody knows how it ended"), "{finding}");
    world.client.said.clear();
    let finding = checkers::every_node_says_the_same(&world).unwrap_err();
    assert!(finding.contains("no node knows"), "{finding}");
}

#[test]
fn something_that_waits_for_a_person_in_vain_is_noticed() {
    let options =
        WorldOptions { deduplicating: false, lost_per_mille: 1000, ..WorldOptions::default() };
    let mut world = World::new(options, plan("line-keyless"));
    world.run();
    let finding = checkers::nothing_waits_for_people_in_vain(&world).unwrap_err();
    assert!(finding.contains("waits for a person at node 1"), "{finding}");
}

#[test]
fn an_event_that_two_lines_tell_differently_is_noticed() {
    let (_, mut world) = at_rest();
    let event = |data: i64| {
        let text = value::string;
        value::object([("source", text("s")), ("id", text("i")), ("data", value::integer(data))])
    };
    world.hears(NodeId(1), &event(1));
    world.hears(NodeId(2), &event(1));
    assert_eq!(world.finding(), None, "it is heard on every node");
    world.hears(NodeId(3), &event(2));
    assert_eq!(world.finding(), Some("the event \"s\" \"i\" says 1 and 2"));
}

/// A flow with these tasks, whose undos are called `undo` and whose alternatives `other`.
fn given(tasks: &str, on_fault: &str) -> Workload {
    let text = format!(
        "document:
  dsl: '1.0.3'
  namespace: simulated
  name: given
  version: '1.0.0'
  metadata: {{ outlast: {{ version: '1.0', onFault: {on_fault} }} }}
use:
  functions:
    undo: {{ call: http, with: {{ method: post, endpoint: 'http://world.example/undo/work', body: '${{ . }}' }} }}
    other: {{ call: http, with: {{ method: post, endpoint: 'http://world.example/ok/other' }} }}
do:
{tasks}"
    );
    Workload::new(openworkflow::compile(&text).unwrap(), &text, value::object([]))
}

fn call(name: &str, path: &str, says: &str) -> String {
    let with = format!("{{ method: post, endpoint: 'http://world.example/{path}' }}");
    format!("{name}: {{ call: http, with: {with}, {says} }}")
}

/// Runs a flow in some worlds, and says in how many of them a situation came up.
fn every_sentence_holds(
    flow: &Workload,
    wanted: &Wanted,
    seeds: u64,
    situation: Situation,
) -> usize {
    let mut swarm = Swarm::new(wanted.clone(), vec![flow.clone()]);
    let mut worlds = 0;
    for seed in 1..=seeds {
        let scenario = swarm.scenario(seed);
        let verdict = swarm.run(&scenario);
        assert_eq!(verdict.finding, None, "seed {seed}");
        worlds += usize::from(0 < verdict.count(situation));
    }
    worlds
}

fn faults(list: &[&str]) -> Option<Vec<outlast_simulator::Fault>> {
    Some(list.iter().map(|text| text.parse().unwrap()).collect())
}

const UNDONE: &str = "metadata: { outlast: { compensation: { use: undo } } }";

#[test]
fn an_alternative_in_place_of_a_call_that_failed_is_no_finding() {
    let says = "metadata: { outlast: { alternatives: [other] } }";
    let flow = given(&format!("  - {}\n", call("one", "ok/one", says)), "leave");
    let wanted = Wanted {
        strategy: Some(Strategy::Passive),
        nodes: Some(3),
        faults: faults(&["service-errors@0+12=400"]),
        ..Wanted::default()
    };
    assert!(0 < every_sentence_holds(&flow, &wanted, 15, Situation::ServiceFailed));
}

/// What a call did that was given up for an alternative is undone beside the run.
#[test]
fn an_undo_beside_the_run_of_an_alternative_is_no_finding() {
    let says = "metadata: { outlast: { compensation: { use: undo }, alternatives: [other] } }";
    let tasks = [call("one", "ok/one", says), call("two", "ok/two", UNDONE)];
    let last = [call("three", "ok/three", UNDONE), call("four", "ok/four", UNDONE)];
    let tasks: String = tasks.iter().chain(&last).map(|task| format!("  - {task}\n")).collect();
    let wanted = Wanted {
        strategy: Some(Strategy::None),
        service_latency: Some(Latency::Exponential(1_000, 300_000)),
        faults: faults(&["lost-answers@0+20=480"]),
        executions: Some(4),
        ..Wanted::default()
    };
    let flow = given(&tasks, "compensate");
    assert!(0 < every_sentence_holds(&flow, &wanted, 15, Situation::AnswerLost));
}

/// What loses a race may be undone before its call reaches the service.
#[test]
fn a_tolerant_undo_that_overtakes_its_call_is_no_finding() {
    let tolerant = "metadata: { outlast: { compensation: { use: undo, tolerant: true } } }";
    let both = [call("one", "ok/one", "then: continue"), call("two", "ok/two", tolerant)];
    let both = format!("branches: [{{ {} }}, {{ {} }}]", both[0], both[1]);
    let tasks = format!(
        "  - race: {{ fork: {{ compete: true, {both} }} }}
  - no: {{ raise: {{ error: {{ type: 'https://world.example/no', status: 402, title: no }} }} }}\n"
    );
    let (strategy, faults) = (Some(Strategy::None), faults(&[]));
    let wanted = Wanted { strategy, faults, executions: Some(4), ..Wanted::default() };
    let flow = given(&tasks, "leave");
    assert!(0 < every_sentence_holds(&flow, &wanted, 15, Situation::TakenBackLater));
}

/// How far the branches beside one that fails get is a matter of time, and so is whom they start.
#[test]
fn what_was_started_beside_a_branch_that_failed_is_no_finding() {
    let errand = include_str!("../src/flows/errand.yaml");
    let sent = "run: { await: false, workflow: { namespace: simulated, name: errand, \
                version: '1.0.0', input: { to: a } } }";
    let slow =
        format!("do: [{{ {} }}, {{ send: {{ {sent} }} }}]", call("a", "ok/a", "then: continue"));
    let fails = call("b", "flaky/b", "then: continue");
    let tasks =
        format!("  - both: {{ fork: {{ branches: [{{ {fails} }}, {{ s: {{ {slow} }} }}] }} }}\n");
    let flow = given(&tasks, "leave");
    let others = vec![(openworkflow::compile(errand).unwrap(), Arc::from(errand))];
    let wanted = Wanted {
        strategy: Some(Strategy::Passive),
        nodes: Some(2),
        faults: faults(&[]),
        executions: Some(4),
        ..Wanted::default()
    };
    let flow = Workload { others, ..flow };
    assert!(0 < every_sentence_holds(&flow, &wanted, 15, Situation::Detached));
}

/// An undo is tried again as a whole: one that makes two calls makes the first again if the second fails.
#[test]
fn an_undo_of_two_calls_that_is_tried_again_is_no_finding() {
    let undo = |name: &str| {
        let path = format!("http://world.example/undo/{name}");
        let with = format!("{{ method: post, endpoint: '{path}', body: '${{ . }}' }}");
        format!("{{ {name}: {{ call: http, with: {with}, output: {{ as: '${{ $input }}' }} }} }}")
    };
    let capture = "capture: '${ { receipt: .receipt } }'";
    let undone = format!("compensation: {{ {capture}, do: [{}, {}] }}", undo("u1"), undo("u2"));
    let says = format!("metadata: {{ outlast: {{ {undone} }} }}");
    let tasks = format!(
        "  - {}
  - no: {{ raise: {{ error: {{ type: 'https://world.example/no', status: 402, title: no }} }} }}\n",
        call("one", "ok/one", &says)
    );
    let wanted = Wanted {
        strategy: Some(Strategy::None),
        nodes: Some(1),
        service_latency: Some(Latency::Exponential(1_000, 300_000)),
        faults: faults(&["lost-answers@0+20=480"]),
        executions: Some(4),
        ..Wanted::default()
    };
    let flow = given(&tasks, "compensate");
    assert!(0 < every_sentence_holds(&flow, &wanted, 15, Situation::AnswerLost));
}

/// Each line asks with keys of its own, so that one of them may find the service in order.
#[test]
fn a_flaky_service_without_keys_that_works_for_one_of_several_lines_is_no_finding() {
    let says = "metadata: { outlast: { idempotency: { none: true } } }";
    let flow = given(&format!("  - {}\n", call("one", "flaky/one", says)), "compensate");
    let wanted = Wanted {
        strategy: Some(Strategy::Active),
        nodes: Some(5),
        service_latency: Some(Latency::Exponential(20_000, 200_000)),
        faults: faults(&["crash-agreeing@0.2+20", "slow-disk@0.3+1.7:2=168"]),
        ..Wanted::default()
    };
    every_sentence_holds(&flow, &wanted, 40, Situation::RunDecided);
}

#[test]
fn a_timeout_before_something_that_cannot_be_undone_is_no_finding() {
    let timed = call("one", "ok/one", "timeout: { after: { milliseconds: 500 } }");
    let rest = [call("two", "ok/two", "then: continue"), call("no", "fail/no", "then: continue")];
    let tasks = format!("  - {timed}\n  - {}\n  - {}\n", rest[0], rest[1]);
    let wanted = Wanted {
        strategy: Some(Strategy::Passive),
        nodes: Some(5),
        service_latency: Some(Latency::Exponential(20_000, 200_000)),
        faults: faults(&[]),
        ..Wanted::default()
    };
    every_sentence_holds(&given(&tasks, "compensate"), &wanted, 15, Situation::Undone);
}

/// In a world in which nothing fails it may come to nothing of what can be undone.
#[test]
fn what_can_be_undone_is_known_wherever_it_is_done() {
    let says = format!("timeout: {{ after: {{ milliseconds: 5 }} }}, {UNDONE}");
    let flow = given(&format!("  - {}\n", call("one", "ok/one", &says)), "leave");
    let known = |service: u64| {
        let service = Latency::Constant(service);
        let plan = flow.plan(&[Duration::ZERO], &Survival::solo());
        let mut world = World::new(WorldOptions { service, ..WorldOptions::default() }, plan);
        world.run_out(10_000);
        // Its call may still be on its way to the service.
        while world.is_executing() && world.step() {}
        world.undoable().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(known(1_000), ["POST ok/one"]);
    assert_eq!(known(35_000), ["POST ok/one"], "though nobody waits for it any more");
}
