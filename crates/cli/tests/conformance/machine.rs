//! Runs a scenario's workflow on a node in this process: real journal, real clock, real calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outlast_engine::{Ask, Position, Reply, StartAsk, Which, WorkflowVersion};
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_lineage::ExecutionId;
use outlast_node::{Configuration, Node, NodeHandle, random, services, workers};
use outlast_workflow::{Happening, Outcome, Program};
use serde_json::Value as Json;
use tokio::runtime::Handle;

use crate::run::{End, Run, What};

/// No scenario takes longer; one that does is stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// No scenario has more lines of history.
const LINES_MAX: usize = 10_000;

/// What is to be run.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// The document.
    pub(crate) definition: String,
    /// Further documents it may run.
    pub(crate) registered: Vec<String>,
    /// Its input.
    pub(crate) input: Option<Json>,
    /// Events published after the start.
    pub(crate) events: Vec<Json>,
}

/// Runs a job to its end on a node of its own, or says why it cannot be run.
pub(crate) async fn run(job: &Job, services: services::Options) -> Result<Run, String> {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let configuration = Configuration {
        services,
        workers: Some(workers()),
        ..Configuration::new(directory.path())
    };
    let starting = tokio::task::spawn_blocking(|| Node::start(configuration, &Handle::current()));
    let node = starting.await.expect("starting does not panic").expect("a new node starts");
    let run = tokio::time::timeout(PATIENCE, run_on(&node, job)).await;
    node.shutdown().await;
    run.unwrap_or_else(|_| Err(format!("it did not end within {PATIENCE:?}")))
}

/// The tests are not the program that evaluates; the binary under test is.
fn workers() -> workers::Settings {
    let settings = workers::Settings::of_this_program().expect("this program has a path");
    workers::Settings { program: env!("CARGO_BIN_EXE_outlast").into(), ..settings }
}

async fn run_on(node: &NodeHandle, job: &Job) -> Result<Run, String> {
    for text in &job.registered {
        define(node, text).await?;
    }
    let program = define(node, &job.definition).await?;
    let started = Instant::now();
    let execution = start(node, &program, job).await?;
    for event in &job.events {
        ask(node, Ask::Publish { event: value::from_json(event.clone()) }).await?;
    }
    let Reply::Shown(detail) = ask(node, Ask::Wait(Which::Id(execution))).await? else {
        return Err("waiting is answered with the execution".to_owned());
    };
    let took = started.elapsed();
    let lines = node.history(execution, Position(0), LINES_MAX).await;
    let lines = lines.map_err(|error| error.to_string())?;
    let happenings = lines.iter().flat_map(|line| &line.happenings);
    let history = happenings.map(|happening| describe(&program, happening)).collect();
    let outcome = detail.outcome.ok_or("it has not ended")?;
    Ok(Run { end: end(outcome), history, took, operations: Vec::new() })
}

async fn define(node: &NodeHandle, text: &str) -> Result<Arc<Program>, String> {
    let program = openworkflow::compile(text).map_err(|report| report.render(text, false))?;
    ask(node, Ask::Define { program: Arc::clone(&program), text: text.into() }).await?;
    Ok(program)
}

async fn start(node: &NodeHandle, program: &Program, job: &Job) -> Result<ExecutionId, String> {
    let start = StartAsk {
        id: node.new_id(),
        given: false,
        name: None,
        namespace: program.namespace.clone(),
        workflow: program.name.clone(),
        version: WorkflowVersion::Digest(program.digest),
        input: job.input.clone().map_or_else(|| value::object([]), value::from_json),
        salt: random::bytes(),
        survival: None,
    };
    match ask(node, Ask::Start(Box::new(start))).await? {
        Reply::Started { execution, .. } => Ok(execution),
        other => Err(format!("starting is not answered with {other:?}")),
    }
}

async fn ask(node: &NodeHandle, ask: Ask) -> Result<Reply, String> {
    match node.ask(ask).await {
        Ok(Reply::Refused(refusal)) => Err(refusal.to_string()),
        Ok(reply) => Ok(reply),
        Err(gone) => Err(gone.to_string()),
    }
}

fn end(outcome: Outcome) -> End {
    match outcome {
        Outcome::Completed(output) => End::Completed(value::to_json(&output)),
        Outcome::Faulted(fault) => End::Faulted(value::to_json(&fault.to_value())),
        Outcome::Compensated(fault) => End::Compensated(value::to_json(&fault.to_value())),
        Outcome::Cancelled => End::Cancelled,
    }
}

fn describe(program: &Program, happening: &Happening) -> (What, String) {
    let name = |task| program.task(task).name.clone();
    match happening {
        // The document's own `do` is no task of the document.
        Happening::TaskStarted(task, _) if *task != Program::ROOT => (What::Started, name(*task)),
        Happening::TaskSkipped(task, _) => (What::Skipped, name(*task)),
        Happening::TaskRetried(task, _) => (What::Retried, name(*task)),
        Happening::Undone(task) => (What::Undone, name(*task)),
        other => (What::Other, format!("{other:?}")),
    }
}
