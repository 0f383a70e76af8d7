//! The conformance kit of the Open Workflow Specification, and our supplement to it.
//!
//! The kit is not part of this repository: its feature files are read from the folder that
//! `OUTLAST_CTK` names, by default beside the repository. The supplement, in the same dialect, is in
//! `tests/features` and covers what the kit leaves out. Run with `--nocapture` to see each scenario.

mod fixture;
mod machine;
mod run;
mod scenario;
mod yaml;

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use outlast_node::fixture::ledger::{self, Ledger};
use outlast_node::fixture::skip;
use outlast_node::services::{Options, OriginMap};

use machine::Job;
use run::Run;
use scenario::{Scenario, Step};

/// Scenarios that need what this version does not do yet, and what that is.
const SKIPPED: [(&str, &str); 2] = [
    ("Call OpenAPI With Content Output", "call: openapi"),
    ("Call OpenAPI With Response Output", "call: openapi"),
];

#[tokio::test]
async fn passes_the_conformance_kit() {
    let folder = env::var_os("OUTLAST_CTK").map_or_else(
        || repository().join("../shared/conformance/open-workflow/ctk"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        return skip(&format!(
            "the kit is not there: {} is no folder; point OUTLAST_CTK at the folder `ctk/features` of \
             the specification",
            folder.display()
        ));
    }
    let passed = run_folder("conformance kit", &folder).await;
    assert_eq!(passed, 19, "the kit has 21 scenarios, and all but two must pass");
}

#[tokio::test]
async fn passes_the_supplement() {
    let folder = repository().join("crates/cli/tests/features");
    let passed = run_folder("supplement", &folder).await;
    assert!(0 < passed, "the supplement has scenarios");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs every scenario of a folder, says how each fared, and fails if one that must pass did not.
async fn run_folder(what: &str, folder: &Path) -> usize {
    let public = fixture::start().await;
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for scenario in scenario::read_folder(folder) {
        let title = format!("{}: {}", scenario.feature, scenario.name);
        if let Some((_, reason)) = SKIPPED.iter().find(|(name, _)| *name == scenario.name) {
            skipped += 1;
            say(&format!("skipped  {title} ({reason} is not part of this version)"));
            continue;
        }
        match run_scenario(&scenario, public).await {
            Ok(()) => {
                passed += 1;
                say(&format!("passed   {title}"));
            }
            Err(why) => {
                say(&format!("FAILED   {title}: {why}"));
                failed.push(format!("{title}: {why}"));
            }
        }
    }
    say(&format!("{what}: {passed} passed, {skipped} skipped, {} failed", failed.len()));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    passed
}

async fn run_scenario(scenario: &Scenario, public: SocketAddr) -> Result<(), String> {
    let ledger = Ledger::start(ledger::Options::default()).await.expect("the ledger starts");
    let services = services(public, ledger.address());
    let mut job = Job::default();
    let mut run: Option<Run> = None;
    for step in &scenario.steps {
        match step {
            Step::Definition(text) => job.definition.clone_from(text),
            Step::Registered(text) => job.registered.push(text.clone()),
            Step::Input(input) => job.input = Some(input.clone()),
            Step::Event(event) => job.events.push(event.clone()),
            Step::Execute => {
                let mut ended = machine::run(&job, services.clone()).await?;
                ended.operations = operations(&ledger);
                run = Some(ended);
            }
            expectation => {
                let run = run.as_ref().ok_or("nothing was executed before the expectation")?;
                run.check(expectation)?;
            }
        }
    }
    run.map(drop).ok_or_else(|| "nothing was executed".to_owned())
}

fn services(public: SocketAddr, ledger: SocketAddr) -> Options {
    let mut origins = OriginMap::default();
    for (from, to) in [
        ("https://petstore.swagger.io", public),
        ("https://httpbin.org", public),
        ("https://service.example", ledger),
    ] {
        origins.insert(from, &format!("http://{to}")).expect("both are origins");
    }
    Options { origins, ..Options::default() }
}

/// What the service did, in order: `name`, or `undo name`.
fn operations(ledger: &Ledger) -> Vec<String> {
    let done = |entry: &ledger::Entry| entry.outcome == ledger::Outcome::Done;
    let name = |entry: ledger::Entry| match entry.kind {
        ledger::Kind::Do => entry.name,
        ledger::Kind::Undo => format!("undo {}", entry.name),
    };
    ledger.entries().into_iter().filter(done).map(name).collect()
}

#[expect(clippy::print_stdout, reason = "the report of a test")]
fn say(line: &str) {
    println!("{line}");
}
