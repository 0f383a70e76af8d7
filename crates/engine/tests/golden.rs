//! The format of records, held by a journal that was written once and must stay readable.
//!
//! If this test fails because records are written differently now, the format has changed: either
//! undo that, or keep reading this file as one of the older ones, add a new one
//! (`UPDATE_GOLDEN=1 cargo test -p outlast-engine --test golden` writes it), and raise the record
//! version if what a release wrote could be taken for something else.

mod driver;

use std::fmt::Write as _;
use std::sync::Arc;

use driver::{
    Driver, START, any_id as id, call, child, classed, emit, listen, options, text, wait,
};
use outlast_engine::{Ask, Condition, Definition, Engine, Input, Record, RecordKind, Which};
use outlast_expressions::{Value, value};
use outlast_lineage::Digest;
use outlast_workflow::program::Class;
use outlast_workflow::{Answer, Fault, FaultKind, Program};

/// As records are written now: what a task was given is there once.
const GOLDEN: &str = include_str!("golden/v1-given-once.journal");

/// As they were first: what a task was given is there before and after `input.from`, and as the data.
const OLDER: &str = include_str!("golden/v1.journal");

fn programs() -> [Arc<Program>; 2] {
    let fixed = |program: Arc<Program>, digest: &str| {
        let program = Arc::try_unwrap(program).expect("it was just made");
        Arc::new(Program { digest: Digest::of(digest.as_bytes()), ..program })
    };
    let inner = driver::program("inner", "1.0.0", vec![call("deep"), emit("e", "news")]);
    let outer = driver::program(
        "outer",
        "1.0.0",
        vec![
            call("first"),
            wait("pause", "PT10S"),
            child("nested", "inner", true),
            listen("hear", "go"),
            classed(Class::Pivot, call("pay")),
        ],
    );
    [fixed(inner, "golden inner"), fixed(outer, "golden outer")]
}

/// A run with every kind of record.
fn run() -> Vec<Vec<u8>> {
    let mut driver = Driver::new();
    let [inner, outer] = programs();
    driver.define(&inner);
    driver.define(&outer);
    let input = value::object([("order", value::integer(7)), ("rate", text("0.5"))]);
    driver.ask(driver::named_start(&outer, id(1), "order-7", input));
    driver.start(&outer, id(2));
    driver.answer_next();
    let (execution, ticket, _) = driver.calls.pop_front().unwrap();
    let fault = Fault::new(FaultKind::Communication, "No", "it said no");
    driver.step(Input::Answered { execution, ticket, answer: Answer::Failed(fault) });
    driver.now = driver.alarm.unwrap();
    driver.step(Input::AlarmRang);
    driver.work();
    driver.answer_next();
    driver.restart();
    let go = value::object([("type", text("go")), ("data", Value::Null)]);
    driver.ask(Ask::Signal { which: Which::Id(id(1)), event: go });
    driver.answer_next();
    driver.ask(Ask::Delete(Which::Id(id(2))));
    driver.journal
}

fn hexadecimal(journal: &[Vec<u8>]) -> String {
    let mut lines = String::new();
    for record in journal {
        record.iter().for_each(|byte| write!(lines, "{byte:02x}").unwrap());
        lines.push('\n');
    }
    lines
}

fn read(journal: &str) -> Vec<Vec<u8>> {
    let byte =
        |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    journal.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

#[test]
fn records_are_written_as_they_always_were() {
    let written = hexadecimal(&run());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1-given-once.journal");
        std::fs::write(path, &written).unwrap();
        return;
    }
    for (number, (now, then)) in written.lines().zip(GOLDEN.lines()).enumerate() {
        assert_eq!(now, then, "record {} is written differently", number + 1);
    }
    assert_eq!(written.lines().count(), GOLDEN.lines().count());
}

#[test]
fn the_golden_journal_holds_every_kind_of_record() {
    let kinds: std::collections::BTreeSet<_> = read(GOLDEN)
        .iter()
        .map(|bytes| match Record::decode(bytes).unwrap().kind {
            RecordKind::Opened { .. } => "opened",
            RecordKind::Defined(_) => "defined",
            RecordKind::Started(_) => "started",
            RecordKind::Advanced(_) => "advanced",
            RecordKind::EventTaken(_) => "event taken",
            RecordKind::Forgotten { .. } => "forgotten",
            // Written by nodes of a cluster only: those have a journal of their own.
            RecordKind::Custodial(_) | RecordKind::RemnantDropped(_) => "custodial",
        })
        .collect();
    assert_eq!(kinds.len(), 6, "{kinds:?}");
}

#[test]
fn the_golden_journal_can_be_recovered_from() {
    recover_from(GOLDEN);
}

#[test]
fn a_journal_of_the_older_form_can_be_recovered_from() {
    assert!(GOLDEN.len() < OLDER.len(), "less is written down twice");
    recover_from(OLDER);
}

fn recover_from(journal: &str) {
    let library = programs();
    let mut compile = |definition: &Definition| {
        let found = library.iter().find(|program| program.digest == definition.digest);
        found.cloned().ok_or_else(|| "unknown".to_owned())
    };
    let (engine, _) =
        Engine::recover(options(), START, [], read(journal), &mut compile).expect("it is readable");
    engine.assert_invariants();
    let mut driver = Driver::new();
    driver.engine = engine;
    let detail = driver.show(id(1));
    assert_eq!(detail.summary.condition, Condition::Completed);
    assert_eq!(detail.summary.name.as_deref(), Some("order-7"));
    let refused = driver.ask(Ask::Show(Which::Id(id(2))));
    assert!(format!("{refused:?}").contains("Forgotten"), "{refused:?}");
}
