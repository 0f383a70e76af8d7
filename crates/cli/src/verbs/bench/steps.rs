//! Workflows of durable in-process steps, and the floor below them.
//!
//! Each measurement has a new process and in it a new node with a new journal, sync on, so that no
//! figure has what another one left behind in it. A client is a loop that starts one
//! workflow and waits for its end. Then the floor does the same number and size of writes with the
//! same concurrency in the same directory, so that both see the same disk.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use outlast_engine::{Ask, Reply, StartAsk, Survival, Which, WorkflowVersion};
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_node::journal::{FloorReport, bench_floor};
use outlast_node::{Configuration, Node, NodeHandle, random};
use serde::{Deserialize, Serialize};

use super::load::{Account, Driven, Load, Table, Throughput, WARMING};
use super::measure;
use super::scratch::Scratch;
use crate::exit::Exit;

/// Run workflows of durable in-process steps, and the floor: a log that does the same writes
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast bench steps --concurrency 64 --seconds 20
  outlast bench steps --data /mnt/disk            measure that disk
  outlast bench steps --steps 1 --json            one step in each workflow")]
pub(super) struct Arguments {
    #[command(flatten)]
    load: Load,
}

/// The figures of one concurrency.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    #[serde(flatten)]
    throughput: Throughput,
    records_per_workflow: f64,
    record_bytes: f64,
    syncs_per_second: f64,
    steps_per_cpu_second: f64,
    resident_megabytes: Option<f64>,
    floor: FloorReport,
    /// Steps of workflows per second, had the floor run them.
    floor_steps_per_second: f64,
    /// The same per second of the processor time that the floor used.
    floor_steps_per_cpu_second: f64,
    p50_to_floor: f64,
    steps_to_floor: f64,
}

/// What the node did while it was measured.
struct Measured {
    driven: Driven,
    spent: Account,
    resident_megabytes: Option<f64>,
}

/// Measures every concurrency in turn.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let load = &arguments.load;
    let scratch = load.scratch()?;
    let mut table = Table::new(load, &headings(), line);
    for concurrency in &load.concurrency {
        table.add(match load.concurrency.len() {
            1 => measure_one(load, &scratch, *concurrency)?,
            _ => measure_apart(load, &scratch, *concurrency)?,
        });
    }
    table.end()?;
    Ok(Exit::Completed)
}

/// Measures one concurrency in a process of its own.
fn measure_apart(load: &Load, scratch: &Scratch, concurrency: usize) -> anyhow::Result<Figures> {
    let output = Command::new(std::env::current_exe()?)
        .args(["bench", "steps", "--json", "--data"])
        .arg(scratch.path())
        .args(["--concurrency", &concurrency.to_string()])
        .args(["--steps", &load.steps.to_string()])
        .args(["--seconds", &load.seconds.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start a process to measure in")?;
    if !output.status.success() {
        bail!("the process that measured ended with {}", output.status);
    }
    let figures: [Figures; 1] = serde_json::from_slice(&output.stdout)?;
    let [figures] = figures;
    Ok(figures)
}

fn measure_one(load: &Load, scratch: &Scratch, concurrency: usize) -> anyhow::Result<Figures> {
    let directory = scratch.join(&format!("node-{concurrency}"));
    let Measured { driven, spent, resident_megabytes } =
        measure_node(directory, load.steps, concurrency, load.duration())?;
    let throughput = load.throughput(concurrency, driven, spent.cpu)?;
    let records_per_workflow = spent.records as f64 / throughput.workflows as f64;
    let record_bytes = spent.bytes_of_a_record();
    let writes = (records_per_workflow.round() as usize, record_bytes.round() as usize);
    let cpu = measure::cpu_time();
    let floor = bench_floor(scratch.path(), concurrency, writes.0, writes.1, load.duration())
        .context("cannot measure the floor")?;
    let floor_cpu = measure::cpu_time() - cpu;
    let floor_steps = (floor.workflows * load.steps as u64) as f64;
    let floor_steps_per_second = floor_steps / floor.seconds;
    Ok(Figures {
        records_per_workflow,
        record_bytes,
        syncs_per_second: spent.syncs as f64 / throughput.seconds,
        steps_per_cpu_second: (throughput.workflows * load.steps) as f64 / throughput.cpu_seconds,
        resident_megabytes,
        floor_steps_per_second,
        floor_steps_per_cpu_second: floor_steps / floor_cpu.as_secs_f64(),
        p50_to_floor: throughput.p50_ms / floor.p50_ms,
        steps_to_floor: throughput.steps_per_second / floor_steps_per_second,
        throughput,
        floor,
    })
}

/// Runs workflows on a node of its own.
fn measure_node(
    directory: PathBuf,
    steps: usize,
    concurrency: usize,
    duration: Duration,
) -> anyhow::Result<Measured> {
    // One thread for all clients: what the node itself does has threads of its own.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let node = Node::start(Configuration::new(directory), runtime.handle())?;
    let measured = runtime.block_on(async {
        define(&node, &document(steps, NOTHING)).await?;
        run_clients(&node, None, concurrency, WARMING).await?;
        let before = Account::of(&node, 0).await?;
        let driven = run_clients(&node, None, concurrency, duration).await?;
        let spent = Account::of(&node, 0).await?.since(&before);
        let resident_megabytes = measure::resident_megabytes("self");
        anyhow::Ok(Measured { driven, spent, resident_megabytes })
    });
    runtime.block_on(node.shutdown());
    measured
}

/// Runs as many clients as asked for, and gives what they saw.
pub(super) async fn run_clients(
    node: &NodeHandle,
    survival: Option<&Survival>,
    concurrency: usize,
    duration: Duration,
) -> anyhow::Result<Driven> {
    let started = Instant::now();
    let until = started + duration;
    let client = || tokio::spawn(client(node.clone(), survival.cloned(), until));
    let clients: Vec<_> = (0..concurrency).map(|_| client()).collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await.context("a client ended early")??);
    }
    Ok(Driven { seconds: started.elapsed().as_secs_f64(), latencies })
}

async fn client(
    node: NodeHandle,
    survival: Option<Survival>,
    until: Instant,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let started = Instant::now();
        let start = Ask::Start(Box::new(StartAsk {
            id: node.new_id(),
            given: false,
            name: None,
            namespace: "bench".to_owned(),
            workflow: "steps".to_owned(),
            version: WorkflowVersion::Latest,
            input: value::object([]),
            salt: random::bytes(),
            survival: survival.clone(),
        }));
        // Whoever starts it may choose another id, so that it falls to the right nodes.
        let Reply::Started { execution, .. } = node.ask(start).await? else {
            bail!("a workflow was not started")
        };
        match node.ask(Ask::Wait(Which::Id(execution))).await? {
            Reply::Shown(detail) if detail.outcome.is_some() => {}
            end => bail!("a workflow did not run: {end:?}"),
        }
        latencies.push(started.elapsed());
    }
    Ok(latencies)
}

/// Registers a document.
pub(super) async fn define(node: &NodeHandle, text: &str) -> anyhow::Result<()> {
    let program = openworkflow::compile(text)
        .map_err(|report| anyhow::anyhow!("{}", report.render(text, false)))?;
    match node.ask(Ask::Define { program, text: text.into() }).await? {
        Reply::Defined { .. } => Ok(()),
        other => bail!("the document was not registered: {other:?}"),
    }
}

/// A durable step in the node's own process.
pub(super) const NOTHING: &str = "call: 'noop:1.0.0@default'";

/// A workflow of so many steps that are all alike.
pub(super) fn document(steps: usize, task: &str) -> String {
    let mut text =
        "document: { dsl: '1.0.3', namespace: bench, name: steps, version: '1.0.0' }\ndo:\n"
            .to_owned();
    for step in 1..=steps {
        writeln!(text, "  - step{step}: {{ {task} }}").expect("text grows");
    }
    text
}

fn headings() -> String {
    format!(
        "{:>11} {:>11} {:>9} {:>8} {:>8} {:>7} {:>11} {:>7} | {:>9} {:>9} {:>11} | {:>8} {:>9}",
        "concurrency",
        "workflows/s",
        "steps/s",
        "p50 ms",
        "p99 ms",
        "cpu s",
        "steps/cpu s",
        "rss MB",
        "floor p50",
        "steps/s",
        "steps/cpu s",
        "p50 / it",
        "steps / it"
    )
}

fn line(figures: &Figures) -> String {
    let throughput = &figures.throughput;
    format!(
        "{:>11} {:>11.0} {:>9.0} {:>8.2} {:>8.2} {:>7.2} {:>11.0} {:>7} | {:>9.2} {:>9.0} {:>11.0} | {:>8.2} {:>9.0}%",
        throughput.concurrency,
        throughput.workflows_per_second,
        throughput.steps_per_second,
        throughput.p50_ms,
        throughput.p99_ms,
        throughput.cpu_seconds,
        figures.steps_per_cpu_second,
        measure::optional(figures.resident_megabytes, 1),
        figures.floor.p50_ms,
        figures.floor_steps_per_second,
        figures.floor_steps_per_cpu_second,
        figures.p50_to_floor,
        figures.steps_to_floor * 100.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_any_length_is_accepted() {
        for steps in [1, 10, 100] {
            let text = document(steps, NOTHING);
            let program = openworkflow::compile(&text).expect("it is accepted");
            assert_eq!(program.tasks.len(), steps + 1);
        }
    }

    #[test]
    fn measures_a_node_and_its_floor() {
        let scratch = Scratch::new(None).unwrap();
        let figures = measure_one(&Load::small(), &scratch, 2).unwrap();
        assert!(0 < figures.throughput.workflows);
        assert!(3.0 <= figures.records_per_workflow, "a step is a record");
        assert!(0.0 < figures.p50_to_floor && 0.0 < figures.steps_to_floor);
    }
}
