//! Makes the inputs that fuzzing begins with, from what the repository has: its examples, its
//! broken documents, the expressions of the specification, and records of simulated runs.
//!
//! They go where the fuzzer keeps what it finds; `-merge=1` then takes over what covers more than
//! the corpus does. Run it again after the format of a record has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Record, RecordKind};
use outlast_expressions::{value, worker};
use outlast_languages::openworkflow;
use outlast_lineage::ExecutionId;
use outlast_simulator::{Plan, StartPlan, World, WorldOptions};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Inputs for the runs, each with the example it is for.
const RUNS: [(&str, &str); 4] = [
    ("voyage", "{}"),
    ("linear-100", r#"{"base": "http://sea/ok"}"#),
    ("linear-100", r#"{"base": "http://sea/fail"}"#),
    ("reviewer-assignment", r#"{"papers": [{"id": 1}], "pool": ["ada", "bob"], "threshold": 0.5}"#),
];

const REQUESTS: [&str; 3] = [
    r#"{"method": "post", "endpoint": "http://x/rounds/{id,b}?a=1#f", "headers": {"X-Count": 3},
        "query": {"tag": ["a", 2], "on": true, "off": null}, "body": {"a": 1}}
---
{"id": "a/b é", "b": 1}
---
200
content-type: application/json; charset=utf-8
set-cookie: a
set-cookie: b

{"said": "open, \"sesame\"/\u00e9", "again": ["b3BlbiwgInNlc2FtZSIvw6k="]}"#,
    r#"{"method": "get", "endpoint": {"uri": "https://x/y", "authentication":
        {"basic": {"username": "u", "password": "⟦secret:door.word:0123456789abcdef0123456789abcdef⟧"}}}}
---
null
---
503
retry-after: 5

no open, "sesame"/é today"#,
    r#"{"method": "delete", "endpoint": "http://x"}
---
[]
---
302
content-type: text/plain
location: /open%2C%20%22sesame%22%2F%C3%A9

open, "sesame"/é"#,
];

/// A change of each kind to the journals, and none.
const JOURNALS: [&[u8]; 8] = [
    &[0],
    &[1],
    &[0, 0, 0, 0, 16, 1, 9],
    &[1, 1, 1, 100, 18, 0, 0],
    &[1, 2, 0, 64, 17, 8, 1, 3, 0, 0, 20, 0, 0],
    &[0, 4, 0, 0, 16, 3, 40],
    &[1, 5, 1, 0, 0, 0, 0],
    &[1, 6, 0, 0, 0, 1, 0],
];

fn main() {
    let documents = ["examples", "crates/languages/tests/broken"].map(yaml_files);
    keep("documents", documents.concat());
    let text = fs::read(Path::new(ROOT).join("crates/expressions/tests/corpus.json"));
    let sources: Vec<String> = serde_json::from_slice(&text.expect("it is there")).expect("a list");
    let input = r#"{"a": [1, "x", null], "b": {"c": 1.5}, "papers": [{"id": 1, "score": 2}]}"#;
    let with_input = |source: &String| format!("{source}\n---\n{input}").into_bytes();
    keep("expressions", sources.iter().map(with_input).collect());
    keep("records", RUNS.iter().flat_map(|(name, input)| records(name, input)).collect());
    keep("requests", REQUESTS.map(|it| it.as_bytes().to_vec()).to_vec());
    keep("journal", JOURNALS.map(<[u8]>::to_vec).to_vec());
}

fn keep(target: &str, inputs: Vec<Vec<u8>>) {
    let folder: PathBuf = [ROOT, "fuzz/target/found", target].iter().collect();
    fs::create_dir_all(&folder).expect("the disk has room");
    for (number, input) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:04}")), input).expect("the disk has room");
    }
}

fn yaml_files(folder: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).expect("it is there");
    entries
        .map(|entry| entry.expect("it is there").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| fs::read(path).expect("it is there"))
        .collect()
}

/// The records of a run with crashes and lost answers, what is inside them, and a worker's frames.
fn records(name: &str, input: &str) -> Vec<Vec<u8>> {
    let file = Path::new(ROOT).join("examples").join(format!("{name}.yaml"));
    let text = fs::read_to_string(file).expect("it is there");
    let program = openworkflow::compile(&text).expect("examples are accepted");
    let input = value::parse(input).expect("it is JSON");
    let start = StartPlan {
        id: ExecutionId::from_bytes([5; 16]),
        namespace: program.namespace.clone(),
        workflow: program.name.clone(),
        input: input.clone(),
        survival: None,
        delay: Duration::ZERO,
    };
    let definitions = vec![(program, Arc::from(text))];
    let plan = Plan { definitions, starts: vec![start], events: vec![input.clone()] };
    // Long enough for a voyage; what fails for ever is tried again for ever.
    let patience = Duration::from_secs(60);
    let options =
        WorldOptions { crash_per_mille: 20, lost_per_mille: 50, patience, ..Default::default() };
    let mut world = World::new(options, plan);
    world.run();
    let mut records = world.machines[0].node.disk.records();
    let parts: Vec<Vec<u8>> = records.iter().filter_map(|record| part(record)).collect();
    let bindings = vec![("x".to_owned(), input.clone())];
    let request = worker::Request { source: ".".to_owned(), input: input.clone(), bindings };
    let frames = [request.to_frame().expect("it is short"), worker::Reply::Value(input).to_frame()];
    records.extend(parts);
    records.extend(frames.map(|frame| frame[4..].to_vec()));
    records
}

/// What a record holds that is written on its own elsewhere.
fn part(record: &[u8]) -> Option<Vec<u8>> {
    match Record::decode(record).expect("it was written by this release").kind {
        RecordKind::Started(started) => Some(started.state.into()),
        RecordKind::Advanced(advanced) => minicbor::to_vec(&advanced.delta).ok(),
        _ => None,
    }
}
