//! A swarm of worlds: whatever goes wrong, what must hold holds; the same seed is the same world; and
//! a world that fails is found, made smaller and kept.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use outlast_engine::Survival;
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_lineage::Digest;
use outlast_simulator::{
    Fault, Latency, Recording, Scenario, Situation, Situations, Swarm, Wanted, Workload, World,
};

/// The seeds that the default test run tries, among which every rare situation comes up;
/// `SWARM_SEEDS=FROM..TO` asks for others.
const SEEDS: Range<u64> = 10_200..10_400;

/// How many of them at a time.
const WORKERS: usize = 2;

/// What must come up among them, or they prove little.
const MUST_COME_UP: [Situation; 46] = [
    Situation::CrashWithUnsynced,
    Situation::CrashWithCall,
    Situation::TornRecord,
    Situation::RotFound,
    Situation::DiskLost,
    Situation::Fenced,
    Situation::SyncFailed,
    Situation::WriteFailed,
    Situation::StartUnreadable,
    Situation::ReadFailed,
    Situation::DiskFull,
    Situation::AllDown,
    Situation::WokeToBacklog,
    Situation::AnswerLost,
    Situation::Deduplicated,
    Situation::ActedAgain,
    Situation::ServiceFailed,
    Situation::Undone,
    Situation::CancelWished,
    Situation::RollbackWished,
    Situation::SuspensionWished,
    Situation::WishGranted,
    Situation::Denied,
    Situation::TriedAgainLater,
    Situation::TakenBackLater,
    Situation::RefusedForNow,
    Situation::Joined,
    Situation::Suspected,
    Situation::SuspicionRefuted,
    Situation::TakenForDead,
    Situation::Left,
    Situation::Rejoined,
    Situation::Elected,
    Situation::TooFewVotes,
    Situation::Rejected,
    Situation::TwoPrimaries,
    Situation::VoteTie,
    Situation::FurtherStateTaken,
    Situation::OldStateTaken,
    Situation::LineLost,
    Situation::LineDecided,
    Situation::CrashInAgreement,
    Situation::CrashInCompensation,
    Situation::CrashInForgetting,
    Situation::Detached,
    Situation::BudgetPause,
];

fn swarm() -> Swarm {
    Swarm::new(Wanted::default(), Workload::built_in())
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("SWARM_SEEDS") else { return SEEDS };
    let (from, to) = text.split_once("..").expect("SWARM_SEEDS is FROM..TO");
    from.parse().unwrap()..to.parse().unwrap()
}

/// Tries seeds until there are no more; says which failed, and what came up.
fn try_seeds(next: &AtomicU64) -> (Vec<String>, Situations) {
    let mut swarm = swarm();
    let (mut failed, mut situations) = (Vec::new(), Situations::default());
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seeds().end <= seed {
            return (failed, situations);
        }
        let scenario = swarm.scenario(seed);
        let verdict = swarm.run(&scenario);
        situations.add(&verdict.situations);
        if let Some(finding) = verdict.finding {
            let (nodes, flow) = (scenario.options.nodes, scenario.flow);
            failed.push(format!("seed {seed}, {nodes} nodes, {flow}: {finding}"));
        }
    }
}

#[test]
fn whatever_goes_wrong_what_must_hold_holds() {
    let next = AtomicU64::new(seeds().start);
    let (failed, situations) = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| try_seeds(&next))).collect();
        let tried = workers.into_iter().map(|worker| worker.join().expect("panics are findings"));
        tried.fold(
            (Vec::new(), Situations::default()),
            |(mut all, mut situations), (failed, saw)| {
                all.extend(failed);
                situations.add(&saw);
                (all, situations)
            },
        )
    });
    assert!(failed.is_empty(), "{} of {:?}:\n{}", failed.len(), seeds(), failed.join("\n"));
    for situation in MUST_COME_UP.into_iter().filter(|_| seeds() == SEEDS) {
        assert!(situations.count(situation) > 0, "never: {}", situation.words());
    }
}

/// The worlds that are drawn are those of one building. Where messages take as long as nodes are patient, or
/// longer, answers come when they are about to be asked for again.
#[test]
fn it_holds_too_where_messages_take_as_long_as_nodes_are_patient() {
    for millis in [200, 300, 400] {
        let latency = Some(Latency::Constant(millis * 1000));
        let mut swarm = Swarm::new(Wanted { latency, ..Wanted::default() }, Workload::built_in());
        for seed in 0..30 {
            let verdict = swarm.run(&swarm.scenario(seed));
            assert_eq!(verdict.finding, None, "seed {seed}, {millis} ms");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    let (mut first, mut second) = (swarm(), swarm());
    let mut traces = Vec::new();
    for seed in 0..10 {
        let mut scenario = first.scenario(seed);
        scenario.options.trace = true;
        let trace = first.run(&scenario).trace;
        let mut again = second.scenario(seed);
        again.options.trace = true;
        assert_eq!(trace, second.run(&again).trace, "seed {seed}");
        assert!(trace.lines().count() > 20, "seed {seed}: {trace}");
        traces.push(Digest::of(trace.as_bytes()));
    }
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 10, "every seed is another world");
}

#[test]
fn asking_for_what_was_drawn_changes_nothing() {
    let mut swarm = swarm();
    for seed in 0..10 {
        let mut drawn = swarm.scenario(seed);
        drawn.options.trace = true;
        let wanted = Wanted {
            nodes: Some(drawn.options.nodes),
            strategy: Some(drawn.survival.strategy),
            replicas: Some(usize::from(drawn.survival.replicas)),
            votes: Some(drawn.survival.votes),
            acknowledge: Some(drawn.survival.acknowledge),
            budget: Some(drawn.survival.budget),
            pivots_anywhere: Some(drawn.survival.pivots_anywhere),
            gossip: Some(drawn.options.gossip),
            latency: Some(drawn.options.network.latency),
            service_latency: Some(drawn.options.service),
            skew: Some(drawn.options.skew),
            keyless: Some(!drawn.options.deduplicating),
            executions: Some(drawn.delays.len()),
            faults: Some(drawn.options.faults.clone()),
            kinds: None,
        };
        let mut asked = Scenario::draw(seed, &wanted, swarm.flows());
        asked.options.trace = true;
        assert_eq!(swarm.run(&drawn).trace, swarm.run(&asked).trace, "seed {seed}");
    }
}

#[test]
fn times_and_services_are_as_they_are_asked_for_and_all_else_as_it_is_drawn() {
    let mut swarm = swarm();
    let (network, service) = (Latency::Uniform(3_000, 70_000), Latency::Exponential(9_000, 90_000));
    let lines = |scenario: &Scenario| -> Vec<String> {
        let recording = Recording { scenario: scenario.clone(), flow: None, run: Vec::new() };
        recording.to_text().lines().map(str::to_owned).collect()
    };
    let asked_for = ["flow ", "network ", "service ", "skew ", "deduplicating "];
    let is_drawn = |line: &&String| !asked_for.iter().any(|key| line.starts_with(key));
    for (seed, keyless) in (0..40).zip([true, false].into_iter().cycle()) {
        let wanted = Wanted {
            latency: Some(network),
            service_latency: Some(service),
            skew: Some(2_000_000),
            keyless: Some(keyless),
            ..Wanted::default()
        };
        let (drawn, asked) = (swarm.scenario(seed), Scenario::draw(seed, &wanted, swarm.flows()));
        assert_eq!(asked.flow.ends_with("-keyless"), keyless, "the flow knows its services");
        let (then, now) = (lines(&drawn), lines(&asked));
        assert!(then.iter().filter(is_drawn).eq(now.iter().filter(is_drawn)), "{then:?} {now:?}");
        for line in ["network 3000..70000", "service 9000~90000", "skew 2000000"] {
            assert!(now.iter().any(|it| it == line), "{line}: {now:?}");
        }
        assert_eq!(asked.options.deduplicating, !keyless);
        assert_eq!(swarm.run(&asked).finding, None, "seed {seed}");
    }
}

#[test]
fn a_world_that_was_written_down_is_the_same_world() {
    let mut swarm = swarm();
    // One that differs from what its strategy usually is like, too.
    let is_unusual = |scenario: &Scenario| {
        let usual = Survival::new(scenario.survival.strategy, 3);
        scenario.survival.acknowledge != usual.acknowledge
    };
    let mut scenario = (3..).map(|seed| swarm.scenario(seed)).find(is_unusual).unwrap();
    scenario.options.trace = true;
    let trace = swarm.run(&scenario).trace;
    scenario.options.records_run = true;
    let events = swarm.run(&scenario).run_events;
    let run: Vec<_> = events.iter().map(ToString::to_string).collect();
    assert!(run.len() > 100, "{}", run.len());
    let text = Recording { scenario, flow: None, run: run.clone() }.to_text();
    let mut read: Recording = text.parse().unwrap();
    assert_eq!(read.run, run);
    (read.scenario.options.trace, read.scenario.options.records_run) = (true, true);
    let again = swarm.run(&read.scenario);
    assert_eq!(again.run_events, events, "the same inputs, and the same outputs");
    assert_eq!(again.trace, trace);
}

#[test]
fn a_failing_world_is_made_smaller_until_only_what_breaks_it_is_left() {
    let mut swarm = swarm();
    let texts = [
        "loss@0.1+1=100",
        "clock-jump@0.2+0:1=5000",
        "crash@0.05+500:1",
        "slow-disk@0.3+1:1=20",
        "disk-full@0.4+0.2:1",
    ];
    let mut scenario = swarm.scenario(1);
    scenario.options.nodes = 1;
    scenario.survival = Survival::solo();
    scenario.options.faults = texts.iter().map(|text| text.parse().unwrap()).collect();
    // Whoever is down for longer than anybody's patience breaks the sentence that executions end.
    scenario.options.patience = Duration::from_secs(300);
    assert!(swarm.run(&scenario).finding.unwrap().contains("still waits"));
    let smallest = swarm.shrink(&scenario, |_| {});
    let left: Vec<_> = smallest.options.faults.iter().map(Fault::to_string).collect();
    assert_eq!(left, ["crash@0.05+500:1"]);
}

/// A flow that is given, with these tasks.
fn flow(tasks: &str) -> Workload {
    let head = "dsl: '1.0.3', namespace: demo, name: given, version: '1.0.0'";
    let text = format!("document: {{ {head} }}\ndo:\n{tasks}");
    Workload::new(openworkflow::compile(&text).unwrap(), &text, value::object([]))
}

/// What a run does without faults does not tell what one does that services broke off.
#[test]
fn a_flow_that_services_break_off_or_lead_elsewhere_has_done_nothing_wrong() {
    let call = |name: &str| {
        let endpoint = format!("http://world.example/{name}");
        format!("{{ call: http, with: {{ method: post, endpoint: '{endpoint}' }} }}")
    };
    let (book, fails, other) = (call("ok/book"), call("fail/pay"), call("ok/other"));
    let faults = flow(&format!("  - book: {book}\n  - pay: {fails}\n"));
    let caught = format!("try: [ {{ book: {book} }} ], catch: {{ do: [ {{ other: {other} }} ] }}");
    let catches = flow(&format!("  - attempt: {{ {caught} }}\n"));
    assert!(catches.takes_other_ways() && !faults.takes_other_ways());
    for flow in [faults, catches] {
        let faults = vec!["service-errors@0+20=500".parse().unwrap()];
        let wanted = Wanted { faults: Some(faults), nodes: Some(3), ..Wanted::default() };
        let mut swarm = Swarm::new(wanted, vec![flow]);
        let mut failed = 0;
        for seed in 0..40 {
            let verdict = swarm.run(&swarm.scenario(seed));
            assert_eq!(verdict.finding, None, "seed {seed}");
            failed += verdict.count(Situation::ServiceFailed);
        }
        assert!(failed > 10, "{failed}");
    }
}

/// Two activities, each undone by two calls, and then nothing goes on.
const UNDONE_BY_TWO_CALLS: &str = "
document:
  { dsl: '1.0.3', namespace: demo, name: two, version: '1.0.0', metadata: { outlast: { onFault: compensate } } }
use:
  functions:
    tell: { call: http, with: { method: post, endpoint: 'http://world.example/ok/tell' } }
    free: { call: http, with: { method: post, endpoint: 'http://world.example/undo/work', body: '${ . }' } }
do:
  - book:
      call: http
      with: { method: post, endpoint: 'http://world.example/ok/book' }
      metadata: &undone
        outlast:
          class: compensatable
          compensation:
            capture: '${ { receipt: .receipt } }'
            do: [ { tell: { call: tell, output: { as: '${ $input }' } } }, { free: { call: free } } ]
  - order:
      call: http
      with: { method: post, endpoint: 'http://world.example/ok/order' }
      metadata: *undone
  - no: { raise: { error: { type: 'https://world.example/no', status: 500 } } }
";

#[test]
fn an_undo_may_make_several_calls() {
    let program = openworkflow::compile(UNDONE_BY_TWO_CALLS).unwrap();
    let flow = Workload::new(program, UNDONE_BY_TWO_CALLS, value::object([]));
    let mut swarm = Swarm::new(Wanted::default(), vec![flow]);
    assert_eq!(swarm.try_flows(), Ok(()));
    for seed in 0..60 {
        let verdict = swarm.run(&swarm.scenario(seed));
        assert_eq!((verdict.finding, verdict.unpaired), (None, 0), "seed {seed}");
    }
}

/// Whoever looks for the cause has nothing else to go by.
#[test]
fn what_occurred_before_a_panic_is_kept() {
    let mut swarm = swarm();
    let mut scenario = swarm.scenario(1);
    (scenario.options.trace, scenario.options.records_run) = (true, true);
    let whole = swarm.run(&scenario);
    let bound = whole.occurrences / 2;
    let watcher = move |world: &World| {
        assert!(world.occurrences < bound, "an invariant is broken");
        true
    };
    let verdict = swarm.run_watched(&scenario, Some(Box::new(watcher)));
    assert_eq!(verdict.finding.as_deref(), Some("panic: an invariant is broken"));
    assert_eq!(verdict.occurrences, bound);
    assert!(verdict.steps > 0 && whole.run_events.starts_with(&verdict.run_events));
    assert!(verdict.trace.lines().count() > 20 && whole.trace.starts_with(&verdict.trace));
}

#[test]
fn worlds_that_once_failed_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut swarm = swarm();
    let mut kept = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "{} says what was wrong", path.display());
        let recording: Recording = text.parse().unwrap();
        let verdict = match recording.flow {
            Some(flow) => Swarm::new(Wanted::default(), vec![flow]).run(&recording.scenario),
            None => swarm.run(&recording.scenario),
        };
        assert_eq!(verdict.finding, None, "{}", path.display());
        kept += 1;
    }
    assert!(kept > 0, "some worlds are kept");
}
