//! Coming back: from any prefix of the journal, with snapshots taken anywhere.

mod driver;

use std::collections::BTreeMap;
use std::sync::Arc;

use driver::{Driver, call, child, emit, id, listen, options, program, start_of, text, wait};
use outlast_engine::{
    Action, Ask, Condition, Definition, Engine, EngineOptions, Input, Output, Position, Record,
    RecordError, RecoveryError, StartAsk,
};
use outlast_expressions::value;
use outlast_workflow::{Answer, Program};
use proptest::prelude::*;

fn programs() -> Vec<Arc<Program>> {
    vec![
        program("calls", "1.0.0", vec![call("a"), wait("w", "PT5S"), call("b")]),
        program("speaks", "1.0.0", vec![emit("e", "news"), call("c")]),
        program("hears", "1.0.0", vec![listen("l", "news"), call("d")]),
        program("parent", "1.0.0", vec![child("x", "calls", true), call("e")]),
    ]
}

/// Everything an engine holds, as it would store it.
fn fingerprint(engine: &mut Engine, now: outlast_lineage::Time) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let outputs = engine.step(now, Input::SnapshotWanted { max: usize::MAX });
    let snapshot = |output: Output| match output.action {
        Action::Snapshot { subject, bytes, .. } => Some((subject.key(), bytes)),
        _ => None,
    };
    outputs.into_iter().filter_map(snapshot).collect()
}

fn recover(
    options: EngineOptions,
    now: outlast_lineage::Time,
    snapshots: Vec<Vec<u8>>,
    records: Vec<Vec<u8>>,
) -> Result<(Engine, Vec<Output>), RecoveryError> {
    let library = programs();
    let mut compile = |definition: &Definition| {
        let found = library.iter().find(|program| program.digest == definition.digest);
        found.cloned().ok_or_else(|| "unknown".to_owned())
    };
    Engine::recover(options, now, snapshots, records, &mut compile)
}

/// A run in which every choice is made by a number; gives the driver at its end.
fn run(choices: &[u8], snapshot_at: usize, options: EngineOptions) -> (Driver, Vec<Vec<u8>>) {
    let mut driver = Driver::with(options);
    for program in programs() {
        driver.define(&program);
    }
    let mut saved = Vec::new();
    for (index, choice) in choices.iter().enumerate() {
        if index == snapshot_at {
            driver.step(Input::SnapshotWanted { max: usize::from(*choice) });
            saved = driver.snapshots.values().cloned().collect();
        }
        choose(&mut driver, *choice, u8::try_from(index).unwrap() + 1);
    }
    (driver, saved)
}

fn choose(driver: &mut Driver, choice: u8, number: u8) {
    let library = programs();
    match choice % 7 {
        which @ 0..4 => drop(driver.send(start_of(&library[usize::from(which)], id(number)))),
        4 => drop(driver.step(Input::Turn)),
        5 if !driver.calls.is_empty() => {
            let open = driver.calls.len();
            let (execution, ticket, _) = driver.calls.remove(usize::from(choice) % open).unwrap();
            let answer = Answer::Succeeded(text("x"));
            driver.step(Input::Answered { execution, ticket, answer });
        }
        _ => {
            driver.now = driver.now.after(std::time::Duration::from_secs(3));
            driver.step(Input::AlarmRang);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn where_snapshots_were_taken_makes_no_difference(
        choices in prop::collection::vec(any::<u8>(), 1..40),
        at in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (driver, saved) = run(&choices, at.index(choices.len()), options());
        let newest = |bytes: &Vec<u8>| Record::decode(bytes).unwrap().position;
        // Everything from the snapshots on may be lost, but nothing before them.
        let first = driver.journal.len() - cut.index(driver.journal.len());
        let saved_up_to = saved_position(&saved);
        let records: Vec<_> = driver.journal.iter().enumerate()
            .filter(|(index, bytes)| *index < first || newest(bytes) <= saved_up_to)
            .map(|(_, bytes)| bytes.clone())
            .collect();
        let (mut plain, without) =
            recover(options(), driver.now, Vec::new(), records.clone()).unwrap();
        let (mut quick, with) = recover(options(), driver.now, saved, records).unwrap();
        plain.assert_invariants();
        quick.assert_invariants();
        prop_assert_eq!(ordered(without), ordered(with));
        let all = fingerprint(&mut plain, driver.now);
        for (key, bytes) in fingerprint(&mut quick, driver.now) {
            prop_assert_eq!(all.get(&key), Some(&bytes));
        }
    }

    #[test]
    fn a_recovered_engine_shows_what_the_lost_one_showed(
        choices in prop::collection::vec(any::<u8>(), 1..40),
        awake_max in 0_usize..3,
    ) {
        let options = EngineOptions { awake_max, ..options() };
        let (mut driver, _) = run(&choices, usize::MAX, options);
        let before: Vec<_> = driver.list(Default::default());
        let details: Vec<_> = before.iter().map(|one| driver.show(one.execution)).collect();
        let (engine, _) = recover(
            driver.options.clone(), driver.now, Vec::new(), driver.journal.clone(),
        ).unwrap();
        driver.engine = engine;
        for detail in details {
            let id = detail.summary.execution;
            let caller = outlast_engine::Caller(1_000_000 + u64::from(id.as_bytes()[0]));
            let ask = Ask::Show(outlast_engine::Which::Id(id));
            let outputs = driver.engine.step(driver.now, Input::Asked { caller, ask });
            let shown = outputs.iter().find_map(|output| match &output.action {
                Action::Reply { reply: outlast_engine::Reply::Shown(shown), .. } => Some(shown),
                _ => None,
            });
            prop_assert_eq!(shown.map(|shown| shown.as_ref()), Some(&detail));
        }
    }

    #[test]
    fn sleeping_makes_no_difference(choices in prop::collection::vec(any::<u8>(), 1..40)) {
        let (awake, _) = run(&choices, usize::MAX, options());
        let asleep = EngineOptions { awake_max: 0, ..options() };
        let (asleep, _) = run(&choices, usize::MAX, asleep);
        prop_assert_eq!(awake.journal, asleep.journal);
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut versioned = vec![1];
        versioned.extend(&bytes);
        for garbage in [bytes, versioned] {
            prop_assert!(Record::decode(&garbage).is_err());
            let now = driver::START;
            prop_assert!(recover(options(), now, vec![garbage.clone()], vec![]).is_err());
            prop_assert!(recover(options(), now, vec![], vec![garbage]).is_err());
        }
    }
}

fn saved_position(saved: &[Vec<u8>]) -> Position {
    // Snapshots do not say their position to the outside; recovering from them alone does.
    match recover(options(), driver::START, saved.to_vec(), Vec::new()) {
        Ok((engine, _)) => Position(engine.position().0 - 1),
        Err(_) => Position(u64::MAX),
    }
}

/// Outputs in an order that does not depend on when they were made.
fn ordered(outputs: Vec<Output>) -> Vec<String> {
    let mut lines: Vec<_> = outputs.iter().map(|output| format!("{output:?}")).collect();
    lines.sort();
    lines
}

#[test]
fn asks_again_with_the_same_tickets_and_keys_after_a_new_life_was_opened() {
    let mut driver = Driver::with(EngineOptions { reports: false, ..options() });
    let flow = &programs()[0];
    driver.define(flow);
    driver.start(flow, id(1));
    let before = driver.calls[0].clone();
    let outputs = driver.restart();
    assert_eq!(driver::transcript(&outputs), "persist 4\nafter 4: call a\n");
    assert_eq!(driver.calls[0], before);
}

#[test]
fn timers_survive_a_restart() {
    let mut driver = Driver::new();
    let flow = &programs()[0];
    driver.define(flow);
    driver.start(flow, id(1));
    driver.answer_next();
    let alarm = driver.alarm;
    assert!(alarm.is_some());
    driver.step(Input::SnapshotWanted { max: 100 });
    driver.restart();
    assert_eq!(driver.alarm, alarm);
    assert_eq!(driver.engine.counters().woken, 0, "it is held asleep");
    assert_eq!(driver.finish(), ["b"]);
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed);
}

#[test]
fn a_timer_that_fired_and_was_not_taken_fires_again_after_a_restart() {
    let mut driver = Driver::new();
    let flow = &programs()[0];
    driver.define(flow);
    driver.start(flow, id(1));
    driver.answer_next();
    driver.now = driver.alarm.unwrap();
    driver.step(Input::AlarmRang);
    driver.step(Input::SnapshotWanted { max: 100 });
    driver.restart();
    assert_eq!(driver.finish(), ["b"]);
}

#[test]
fn no_epoch_is_used_twice() {
    let mut driver = Driver::new();
    for _ in 0..3 {
        driver.restart();
        driver.step(Input::SnapshotWanted { max: 100 });
    }
    let epochs: Vec<_> = driver
        .journal
        .iter()
        .filter_map(|bytes| match Record::decode(bytes).unwrap().kind {
            outlast_engine::RecordKind::Opened { epoch, .. } => Some(epoch.0),
            _ => None,
        })
        .collect();
    assert_eq!(epochs, [1, 2, 3, 4]);
    // The epoch is also known from snapshots alone.
    driver.journal.clear();
    driver.restart();
    let record = Record::decode(&driver.journal[0]).unwrap();
    let expected = outlast_lineage::Epoch(5);
    assert!(matches!(
        record.kind,
        outlast_engine::RecordKind::Opened { epoch, .. } if epoch == expected
    ));
}

#[test]
fn says_from_where_records_are_needed() {
    let mut driver = Driver::new();
    let flow = &programs()[0];
    driver.define(flow);
    driver.start(flow, id(1));
    let needed = |outputs: &[Output]| match outputs.last().unwrap().action {
        Action::Compactable { replay_from } => replay_from,
        ref other => panic!("not the last: {other:?}"),
    };
    let outputs = driver.step(Input::SnapshotWanted { max: 1 });
    assert_eq!(needed(&outputs), Position(2));
    let outputs = driver.step(Input::SnapshotWanted { max: 1 });
    assert_eq!(needed(&outputs), Position(3));
    let outputs = driver.step(Input::SnapshotWanted { max: 10 });
    assert_eq!(needed(&outputs), Position(4));
    driver.journal.clear();
    driver.restart();
    assert_eq!(driver.finish(), ["a", "b"]);
}

#[test]
fn reports_a_gap_with_its_place() {
    let mut driver = Driver::new();
    driver.define(&programs()[0]);
    driver.start(&programs()[0], id(1));
    driver.journal.remove(1);
    let error = recover(options(), driver.now, Vec::new(), driver.journal).unwrap_err();
    assert_eq!(error.to_string(), "record 3 follows record 1; what lies between is missing");
}

#[test]
fn reports_a_flipped_bit_in_a_snapshot() {
    let mut driver = Driver::new();
    driver.define(&programs()[0]);
    driver.step(Input::SnapshotWanted { max: 10 });
    let mut snapshots: Vec<_> = driver.snapshots.values().cloned().collect();
    *snapshots[0].last_mut().unwrap() ^= 1;
    let error = recover(options(), driver.now, snapshots, Vec::new()).unwrap_err();
    assert!(matches!(error, RecoveryError::Snapshot(RecordError::Damaged)), "{error}");
}

#[test]
fn refuses_a_record_of_a_later_format() {
    let error = Record::decode(&[9, 0, 0]).unwrap_err();
    assert!(matches!(error, RecordError::Version { found: 9 }));
    assert!(error.to_string().contains("version 9"), "{error}");
}

#[test]
fn a_definition_that_no_longer_compiles_is_named() {
    let mut driver = Driver::new();
    driver.define(&program("unknown", "1.0.0", vec![call("a")]));
    let error = recover(options(), driver.now, Vec::new(), driver.journal).unwrap_err();
    let expected = "the stored definition test/unknown:1.0.0 does not compile: unknown";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn waiting_executions_are_small() {
    // What the engine holds for an execution that waits: its state as bytes and a few facts.
    let mut driver = Driver::with(EngineOptions { awake_max: 0, ..options() });
    let flow = program("flow", "1.0.0", vec![wait("w", "PT1H"), call("a")]);
    driver.define(&flow);
    let input = value::object([("order", value::integer(7)), ("who", text("someone"))]);
    driver.ask(driver::named_start(&flow, id(1), "order-7", input));
    let outputs = driver.step(Input::SnapshotWanted { max: 100 });
    let sizes: Vec<_> = outputs
        .iter()
        .filter_map(|output| match &output.action {
            Action::Snapshot { subject: outlast_engine::Subject::Execution(_), bytes, .. } => {
                Some(bytes.len())
            }
            _ => None,
        })
        .collect();
    assert_eq!(sizes.len(), 1);
    assert!(sizes[0] < 700, "{} bytes", sizes[0]);
}

#[test]
fn snapshots_do_not_leave_everything_awake() {
    let mut driver = Driver::with(EngineOptions { awake_max: 2, ..options() });
    let flow = program("flow", "1.0.0", vec![wait("w", "PT1H"), call("a")]);
    driver.define(&flow);
    for number in 1..=40 {
        driver.start(&flow, id(number));
    }
    driver.step(Input::SnapshotWanted { max: 100 });
    let counters = driver.engine.counters();
    let awake = counters.started + counters.woken - counters.put_to_sleep;
    assert!(awake <= 10, "{awake} are awake");
}

/// A few large executions take as much memory as many small ones.
#[test]
fn large_executions_sleep_long_before_there_are_many() {
    let mut driver = Driver::with(EngineOptions { awake_bytes_max: 100_000, ..options() });
    let flow = program("flow", "1.0.0", vec![wait("w", "PT1H"), call("a")]);
    driver.define(&flow);
    for number in 1..=40 {
        let Ask::Start(start) = start_of(&flow, id(number)) else { unreachable!() };
        let input = text(&"x".repeat(10_000));
        driver.ask(Ask::Start(Box::new(StartAsk { input, ..*start })));
    }
    let counters = driver.engine.counters();
    let awake = counters.started + counters.woken - counters.put_to_sleep;
    assert!((8..=12).contains(&awake), "{awake} are awake");
    driver.engine.assert_invariants();
}
