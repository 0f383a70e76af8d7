//! Many executions that wait: what they cost in memory, and how long a restart takes.
//!
//! Every figure is of a process of its own: one fills a node and is killed, one comes back after
//! the kill and is stopped in good order, one comes back after that.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail};
use outlast_engine::{Ask, Reply, StartAsk, WorkflowVersion};
use outlast_expressions::value;
use outlast_node::{Configuration, Node, NodeHandle, random};
use serde::{Deserialize, Serialize};

use super::measure;
use super::scratch::Scratch;
use super::steps::define;
use crate::exit::Exit;

/// Starts under way at once while a node is being filled.
const STARTERS: usize = 256;

const DOCUMENT: &str = "\
document: { dsl: '1.0.3', namespace: bench, name: waiting, version: '1.0.0' }
do:
  - pause: { wait: { days: 7 } }
";

/// Start many executions that wait; measure their memory and a restart
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast bench waiting --count 10000             fewer than by default
  outlast bench waiting --data /mnt/disk --json")]
pub(super) struct Arguments {
    /// How many
    #[arg(long, default_value_t = 100_000)]
    count: usize,
    /// Where to write [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Fill a node and wait to be killed
#[derive(clap::Args)]
pub(super) struct FillArguments {
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    count: usize,
}

/// Open a node, measure, and stop it
#[derive(clap::Args)]
pub(super) struct ReopenArguments {
    #[arg(long)]
    data: PathBuf,
}

/// What one process saw.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    /// Seconds until all were started, or until the node was ready again.
    seconds: f64,
    /// Executions that wait.
    live: u64,
    resident_megabytes: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    filled: Figures,
    after_a_kill: Figures,
    after_a_stop: Figures,
}

/// Fills, kills, reopens, stops and reopens.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let scratch = Scratch::new(arguments.data.as_deref())?;
    let data = scratch.join("node");
    let count = arguments.count.to_string();
    let mut filler = spawn(&["fill", "--count", &count], &data)?;
    let filled = figures_of(&mut filler);
    filler.kill().context("cannot kill the process that filled the node")?;
    filler.wait()?;
    let report =
        Report { filled: filled?, after_a_kill: reopened(&data)?, after_a_stop: reopened(&data)? };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_report(&report);
    }
    Ok(Exit::Completed)
}

fn print_report(report: &Report) {
    println!("{:<22} {:>8} {:>10} {:>8}", "", "seconds", "executions", "rss MB");
    for (what, figures) in [
        ("started", &report.filled),
        ("again after a kill -9", &report.after_a_kill),
        ("again after a stop", &report.after_a_stop),
    ] {
        let resident = measure::optional(figures.resident_megabytes, 1);
        println!("{what:<22} {:>8.2} {:>10} {resident:>8}", figures.seconds, figures.live);
    }
}

fn reopened(data: &Path) -> anyhow::Result<Figures> {
    let mut child = spawn(&["reopen"], data)?;
    let figures = figures_of(&mut child);
    child.wait()?;
    figures
}

/// Starts this program again for one part of the measurement.
fn spawn(part: &[&str], data: &Path) -> anyhow::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("bench")
        .args(part)
        .arg("--data")
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a process to measure")
}

/// The one line that a part prints when it is done.
fn figures_of(child: &mut Child) -> anyhow::Result<Figures> {
    let output = child.stdout.take().context("the output is a pipe")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    serde_json::from_str(&line).context("the measured process ended early; its message is above")
}

/// Fills a node, prints its figures and waits until it is killed.
pub(super) fn fill(arguments: &FillArguments) -> anyhow::Result<Exit> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let node = Node::start(Configuration::new(&arguments.data), runtime.handle())?;
    let seconds = runtime.block_on(start_all(&node, arguments.count))?;
    print_figures(&node, &runtime, seconds)?;
    // Whoever started this process kills it, or goes away and closes the pipe.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(Exit::Completed)
}

/// Opens a node, prints its figures and stops it in good order.
pub(super) fn reopen(arguments: &ReopenArguments) -> anyhow::Result<Exit> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let started = Instant::now();
    let node = Node::start(Configuration::new(&arguments.data), runtime.handle())?;
    // Ready is when it answers.
    runtime.block_on(node.counts())?;
    print_figures(&node, &runtime, started.elapsed().as_secs_f64())?;
    runtime.block_on(node.shutdown());
    Ok(Exit::Completed)
}

fn print_figures(
    node: &NodeHandle,
    runtime: &tokio::runtime::Runtime,
    seconds: f64,
) -> anyhow::Result<()> {
    let live = runtime.block_on(node.counts())?.engine.live;
    let resident_megabytes = measure::resident_megabytes("self");
    println!("{}", serde_json::to_string(&Figures { seconds, live, resident_megabytes })?);
    Ok(())
}

async fn start_all(node: &NodeHandle, count: usize) -> anyhow::Result<f64> {
    define(node, DOCUMENT).await?;
    let (started, left) = (Instant::now(), Arc::new(AtomicUsize::new(count)));
    let starters: Vec<_> =
        (0..STARTERS).map(|_| tokio::spawn(starter(node.clone(), Arc::clone(&left)))).collect();
    for starter in starters {
        starter.await??;
    }
    Ok(started.elapsed().as_secs_f64())
}

async fn starter(node: NodeHandle, left: Arc<AtomicUsize>) -> anyhow::Result<()> {
    let take = |left: usize| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let start = StartAsk {
            id: node.new_id(),
            given: false,
            name: None,
            namespace: "bench".to_owned(),
            workflow: "waiting".to_owned(),
            version: WorkflowVersion::Latest,
            input: value::object([]),
            salt: random::bytes(),
            survival: None,
        };
        match node.ask(Ask::Start(Box::new(start))).await? {
            Reply::Started { .. } => {}
            other => bail!("an execution was not started: {other:?}"),
        }
    }
    Ok(())
}
