//! What a node costs that does nothing: the processor time of an `outlast node` over a while.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use super::measure;
use super::scratch::Scratch;
use crate::exit::Exit;

/// How long a node may take to settle before it counts as idle.
const SETTLING: Duration = Duration::from_secs(2);

/// Measure a node that does nothing
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast bench idle --seconds 60                 processor time of a minute")]
pub(super) struct Arguments {
    /// How long to measure
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Where to write [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    seconds: u64,
    cpu_seconds: f64,
    /// Per cent of one core.
    core_percent: f64,
    resident_megabytes: Option<f64>,
}

/// A node that is ended with the measurement. Its talk is a pipe that must stay open.
struct Idler {
    node: Child,
    talk: BufReader<ChildStderr>,
}

impl Drop for Idler {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

/// Starts a node, waits, and reads its processor time.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let scratch = Scratch::new(arguments.data.as_deref())?;
    let idler = start(&scratch.join("node"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let process = idler.node.id();
    let unknown = "this system does not tell the processor time of a process";
    let wait = |time| runtime.block_on(async move { tokio::time::sleep(time).await });
    wait(SETTLING);
    let before = measure::cpu_time_of(process).context(unknown)?;
    wait(Duration::from_secs(arguments.seconds));
    let cpu = measure::cpu_time_of(process).context(unknown)? - before;
    let figures = Figures {
        seconds: arguments.seconds,
        cpu_seconds: cpu.as_secs_f64(),
        core_percent: cpu.as_secs_f64() / arguments.seconds as f64 * 100.0,
        resident_megabytes: measure::resident_megabytes(&process.to_string()),
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        println!(
            "{:.4} s of processor time in {} s: {:.3} % of a core; {} MB resident",
            figures.cpu_seconds,
            figures.seconds,
            figures.core_percent,
            measure::optional(figures.resident_megabytes, 1)
        );
    }
    Ok(Exit::Completed)
}

/// Starts a node and waits until it says that it serves.
fn start(data: &Path) -> anyhow::Result<Idler> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["node", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a node to measure")?;
    let talk = child.stderr.take().context("the talk is a pipe")?;
    let mut idler = Idler { node: child, talk: BufReader::new(talk) };
    let mut said = String::new();
    while !said.contains("listens on") {
        let read = idler.talk.read_line(&mut said)?;
        anyhow::ensure!(0 < read, "the node to measure ended early: {said}");
    }
    Ok(idler)
}
