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
use outlast_engine::{Ask, Counters, Reply, StartAsk, Survival, Which, WorkflowVersion};
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_node::journal::{FloorReport, bench_floor};
use outlast_node::{Configuration, Node, NodeHandle, random};
use serde::{Deserialize, Serialize};

use super::measure;
use super::scratch::Scratch;
use crate::exit::Exit;

/// The first workflows pay for what is made once; so long they are not counted.
pub(super) const WARMING: Duration = Duration::from_millis(200);

/// Run workflows of durable in-process steps, and the floor: a log that does the same writes
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// How many workflows run at once; several are measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_name = "NUMBERS")]
    concurrency: Vec<usize>,
    /// Steps of a workflow
    #[arg(long, default_value_t = 10)]
    steps: usize,
    /// How long each measurement runs
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Where to write: the disk that is measured [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// The figures of one concurrency.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    concurrency: usize,
    steps: usize,
    seconds: f64,
    workflows: u64,
    workflows_per_second: f64,
    steps_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    records_per_workflow: f64,
    record_bytes: f64,
    syncs_per_second: f64,
    /// Processor time of the whole process, the clients included.
    cpu_seconds: f64,
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
    seconds: f64,
    latencies: Vec<Duration>,
    cpu: Duration,
    records: u64,
    record_bytes: u64,
    syncs: u64,
    resident_megabytes: Option<f64>,
}

/// Measures every concurrency in turn.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if arguments.concurrency.contains(&0) || arguments.steps == 0 || arguments.seconds == 0 {
        return Err(crate::exit::Failure::usage("concurrency, steps and seconds start at 1").into());
    }
    let scratch = Scratch::new(arguments.data.as_deref())?;
    let mut all = Vec::new();
    if !arguments.json {
        println!("{}", headings());
    }
    for concurrency in &arguments.concurrency {
        let figures = match arguments.concurrency.len() {
            1 => measure_one(arguments, &scratch, *concurrency)?,
            _ => measure_apart(arguments, &scratch, *concurrency)?,
        };
        if !arguments.json {
            println!("{}", line(&figures));
        }
        all.push(figures);
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(Exit::Completed)
}

/// Measures one concurrency in a process of its own.
fn measure_apart(
    arguments: &Arguments,
    scratch: &Scratch,
    concurrency: usize,
) -> anyhow::Result<Figures> {
    let output = Command::new(std::env::current_exe()?)
        .args(["bench", "steps", "--json", "--data"])
        .arg(scratch.path())
        .args(["--concurrency", &concurrency.to_string()])
        .args(["--steps", &arguments.steps.to_string()])
        .args(["--seconds", &arguments.seconds.to_string()])
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

fn measure_one(
    arguments: &Arguments,
    scratch: &Scratch,
    concurrency: usize,
) -> anyhow::Result<Figures> {
    let duration = Duration::from_secs(arguments.seconds);
    let directory = scratch.join(&format!("node-{concurrency}"));
    let measured = measure_node(directory, arguments.steps, concurrency, duration)?;
    let workflows = measured.latencies.len() as u64;
    if workflows == 0 {
        bail!("no workflow ended within {} s; give it more --seconds", arguments.seconds);
    }
    let records = measured.records as f64 / workflows as f64;
    let bytes = measured.record_bytes as f64 / measured.records as f64;
    let writes = (records.round() as usize, bytes.round() as usize);
    let cpu = measure::cpu_time();
    let floor = bench_floor(scratch.path(), concurrency, writes.0, writes.1, duration)
        .context("cannot measure the floor")?;
    let floor_cpu = measure::cpu_time() - cpu;
    Ok(figures(measured, (floor, floor_cpu), arguments.steps, concurrency))
}

fn figures(
    measured: Measured,
    (floor, floor_cpu): (FloorReport, Duration),
    steps: usize,
    concurrency: usize,
) -> Figures {
    let workflows = measured.latencies.len() as u64;
    let (count, seconds) = (workflows as f64, measured.seconds);
    let cpu_seconds = measured.cpu.as_secs_f64();
    let steps_per_second = count * steps as f64 / seconds;
    let floor_steps = (floor.workflows * steps as u64) as f64;
    let floor_steps_per_second = floor_steps / floor.seconds;
    let p50_ms = measure::quantile_ms(&measured.latencies, 0.5);
    Figures {
        concurrency,
        steps,
        seconds,
        workflows,
        workflows_per_second: count / seconds,
        steps_per_second,
        p50_ms,
        p99_ms: measure::quantile_ms(&measured.latencies, 0.99),
        records_per_workflow: measured.records as f64 / count,
        record_bytes: measured.record_bytes as f64 / measured.records as f64,
        syncs_per_second: measured.syncs as f64 / seconds,
        cpu_seconds,
        steps_per_cpu_second: count * steps as f64 / cpu_seconds,
        resident_megabytes: measured.resident_megabytes,
        floor_steps_per_second,
        floor_steps_per_cpu_second: floor_steps / floor_cpu.as_secs_f64(),
        p50_to_floor: p50_ms / floor.p50_ms,
        steps_to_floor: steps_per_second / floor_steps_per_second,
        floor,
    }
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
        define(&node, &document(steps)).await?;
        run_clients(&node, None, concurrency, WARMING).await?;
        let (before, syncs, cpu) =
            (node.counts().await?.engine, node.journal().syncs, measure::cpu_time());
        let started = Instant::now();
        let mut latencies = run_clients(&node, None, concurrency, duration).await?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu = measure::cpu_time() - cpu;
        let after = node.counts().await?.engine;
        let resident_megabytes = measure::resident_megabytes("self");
        latencies.sort_unstable();
        let Counters { records, record_bytes, .. } = after;
        anyhow::Ok(Measured {
            seconds,
            latencies,
            cpu,
            records: records - before.records,
            record_bytes: record_bytes - before.record_bytes,
            syncs: node.journal().syncs - syncs,
            resident_megabytes,
        })
    });
    runtime.block_on(node.shutdown());
    measured
}

/// Runs as many clients as asked for, and gives how long each of their workflows took.
pub(super) async fn run_clients(
    node: &NodeHandle,
    survival: Option<&Survival>,
    concurrency: usize,
    duration: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let until = Instant::now() + duration;
    let client = || tokio::spawn(client(node.clone(), survival.cloned(), until));
    let clients: Vec<_> = (0..concurrency).map(|_| client()).collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await.context("a client ended early")??);
    }
    Ok(latencies)
}

async fn client(
    node: NodeHandle,
    survival: Option<Survival>,
    until: Instant,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let started = Instant::now();
        let id = node.new_id();
        let start = Ask::Start(Box::new(StartAsk {
            id,
            given: false,
            name: None,
            namespace: "bench".to_owned(),
            workflow: "steps".to_owned(),
            version: WorkflowVersion::Latest,
            input: value::object([]),
            salt: random::bytes(),
            survival: survival.clone(),
        }));
        // Both at once, as `start --wait` does; the inbox keeps their order.
        let (started_as, ended) = tokio::join!(node.ask(start), node.ask(Ask::Wait(Which::Id(id))));
        match (started_as?, ended?) {
            (Reply::Started { .. }, Reply::Shown(detail)) if detail.outcome.is_some() => {}
            (start, end) => bail!("a workflow did not run: {start:?}, {end:?}"),
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

/// A workflow of so many steps.
pub(super) fn document(steps: usize) -> String {
    let mut text =
        "document: { dsl: '1.0.3', namespace: bench, name: steps, version: '1.0.0' }\ndo:\n"
            .to_owned();
    for step in 1..=steps {
        writeln!(text, "  - step{step}: {{ call: 'noop:1.0.0@default' }}").expect("text grows");
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
    format!(
        "{:>11} {:>11.0} {:>9.0} {:>8.2} {:>8.2} {:>7.2} {:>11.0} {:>7} | {:>9.2} {:>9.0} {:>11.0} | {:>8.2} {:>9.0}%",
        figures.concurrency,
        figures.workflows_per_second,
        figures.steps_per_second,
        figures.p50_ms,
        figures.p99_ms,
        figures.cpu_seconds,
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
            let text = document(steps);
            let program = openworkflow::compile(&text).expect("it is accepted");
            assert_eq!(program.tasks.len(), steps + 1);
        }
    }

    #[test]
    fn measures_a_node_and_its_floor() {
        let scratch = Scratch::new(None).unwrap();
        let arguments =
            Arguments { concurrency: vec![2], steps: 3, seconds: 1, data: None, json: true };
        let figures = measure_one(&arguments, &scratch, 2).unwrap();
        assert!(0 < figures.workflows);
        assert!(3.0 <= figures.records_per_workflow, "a step is a record");
        assert!(0.0 < figures.p50_to_floor && 0.0 < figures.steps_to_floor);
    }
}
