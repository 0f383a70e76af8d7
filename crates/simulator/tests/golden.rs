//! The records of executions that several nodes hold, kept as they were once written: a later release
//! must read them.
//!
//! If this fails because records are written differently now, the format has changed: either undo
//! that, or keep reading this file as one of the older ones, add a new one
//! (`UPDATE_GOLDEN=1 cargo test -p outlast-simulator --test golden` writes it), and raise the record
//! version if what a release wrote could be taken for something else. What a node decides may change
//! from release to release, so the run itself is not compared, only how it is written.

mod flows;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use flows::{Tasks, plan};
use outlast_engine::{
    Action, Ask, Caller, Condition, Definition, Engine, EngineOptions, Input, Record, RecordKind,
    Reply, Strategy, Survival, Which,
};
use outlast_lineage::{Digest, Time};
use outlast_simulator::{World, WorldOptions, checkers};
use outlast_workflow::Program;
use outlast_workflow::program::OnFault;

/// As records are written now: what a task was given is there once.
const GOLDEN: &str = include_str!("golden/replicas-v1-given-once.journal");

/// As they were first: what a task was given is there before and after `input.from`, and as the data.
const OLDER: &str = include_str!("golden/replicas-v1.journal");

/// Activities one after the other at services without keys: what two parts do is done twice.
fn program() -> Arc<Program> {
    let mut tasks = Tasks::new();
    let order = (0..20).map(|number| {
        let task = tasks.undoable(&format!("ok {number}"));
        tasks.acts_every_time(task);
        task
    });
    let order = order.collect();
    let program = tasks.program("line", order, OnFault::Leave);
    let program = Arc::try_unwrap(program).expect("it was just made");
    Arc::new(Program { digest: Digest::of(b"golden line"), ..program })
}

fn kind_of(record: &[u8]) -> &'static str {
    match Record::decode(record).expect("it is readable").kind {
        RecordKind::Custodial(_) => "custodial",
        RecordKind::RemnantDropped(_) => "remnant dropped",
        _ => "of a node alone",
    }
}

/// The journal of a node that lost a line and undid what was on it.
fn recorded() -> Vec<Vec<u8>> {
    let mut plan = plan(&[program()], 1);
    plan.starts[0].survival = Some(Survival::new(Strategy::PartitionTolerant, 3));
    let faults = vec!["split@0.05+2:1,2".parse().unwrap()];
    let options =
        WorldOptions { nodes: 3, faults, deduplicating: false, ..WorldOptions::default() };
    let mut world = World::new(options, plan);
    let is_over = |world: &World| checkers::everything_that_always_holds(world).is_ok();
    world.run_to_rest(&is_over);
    let mut journals = world.machines.iter_mut().map(|machine| machine.node.disk.records());
    let lost = |journal: &Vec<Vec<u8>>| journal.iter().any(|it| kind_of(it) == "remnant dropped");
    journals.find(lost).expect("a line was lost")
}

fn read(journal: &str) -> Vec<Vec<u8>> {
    let byte =
        |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    journal.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

fn update() {
    let mut lines = String::new();
    for record in recorded() {
        record.iter().for_each(|byte| write!(lines, "{byte:02x}").unwrap());
        lines.push('\n');
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/replicas-v1-given-once.journal");
    std::fs::write(path, lines).unwrap();
}

#[test]
fn what_was_written_once_is_read_and_written_the_same() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return update();
    }
    for (index, bytes) in read(GOLDEN).iter().enumerate() {
        let record = Record::decode(bytes).expect("it is readable");
        assert_eq!(record.encode(), *bytes, "record {} is written differently", index + 1);
    }
    let kinds: BTreeSet<_> = read(GOLDEN).iter().map(|bytes| kind_of(bytes)).collect();
    assert_eq!(kinds.len(), 3, "{kinds:?}");
}

#[test]
fn a_run_that_was_recorded_once_is_known_again() {
    know_again(GOLDEN);
}

#[test]
fn a_run_that_was_recorded_in_the_older_form_is_known_again() {
    know_again(OLDER);
}

fn know_again(journal: &str) {
    let mut compile = |definition: &Definition| {
        let program = program();
        (program.digest == definition.digest).then_some(program).ok_or_else(|| "no".to_owned())
    };
    let records = read(journal);
    let RecordKind::Opened { node, .. } = Record::decode(&records[0]).unwrap().kind else {
        panic!("a journal begins with a life of its node")
    };
    let now = Time::from_millis(1_000_000_000);
    let options = EngineOptions::new(node);
    let (mut engine, _) = Engine::recover(options, now, [], records, &mut compile).unwrap();
    engine.assert_invariants();
    let id = plan(&[program()], 1).starts[0].id;
    let ask = Ask::Show(Which::Id(id));
    let outputs = engine.step(now, Input::Asked { caller: Caller(1), ask });
    let shown = outputs.into_iter().find_map(|output| match output.action {
        Action::Reply { reply: Reply::Shown(detail), .. } => Some(detail),
        _ => None,
    });
    assert_eq!(shown.expect("it is known").summary.condition, Condition::Completed);
}
