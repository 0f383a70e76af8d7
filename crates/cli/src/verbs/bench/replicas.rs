//! What it costs that several nodes hold an execution: the workflows of `bench steps` on three nodes
//! of one machine, beside a node alone.
//!
//! Every node is a process with a journal of its own, sync on, and they talk over mutual TLS. The
//! clients are spread over the nodes in the order of their ids; the last node leads every execution.
//! So a single client is at a node that does not lead. A node alone is measured right before, in the
//! same directory, with as many clients.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use serde::Serialize;

use super::measure;
use super::member::{Account, Drive, Driven, Order};
use super::members::{self, Member};
use super::scratch::Scratch;
use super::steps::{WARMING, document};
use crate::exit::{Exit, Failure};

/// How many nodes hold every execution.
const REPLICAS: usize = 3;

/// Run workflows of durable steps that three nodes hold, beside a node alone
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
    /// Which ways to survive, besides none
    #[arg(long, value_delimiter = ',', default_value = "partition-tolerant,passive")]
    survival: Vec<String>,
    /// Where to write: the disk that is measured [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// The figures of one way to survive at one concurrency.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    survival: String,
    concurrency: usize,
    steps: usize,
    seconds: f64,
    workflows: usize,
    workflows_per_second: f64,
    steps_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Of all nodes together, their clients included.
    cpu_seconds: f64,
    cpu_micros_per_step: f64,
    /// Of each node, in the order of their ids: the last one leads.
    records_per_workflow: Vec<f64>,
    record_bytes: Vec<f64>,
    syncs_per_second: Vec<f64>,
    messages_per_workflow: Vec<f64>,
    /// Steps per second, as a share of those of a node alone.
    to_solo: Option<f64>,
}

/// Measures every concurrency in turn: a node alone, then each way to survive.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if arguments.concurrency.contains(&0) || arguments.steps == 0 || arguments.seconds == 0 {
        return Err(Failure::usage("concurrency, steps and seconds start at 1").into());
    }
    let scratch = Scratch::new(arguments.data.as_deref())?;
    let mut all = Vec::new();
    if !arguments.json {
        println!("{}", headings());
    }
    for concurrency in &arguments.concurrency {
        let folder = |what: &str| scratch.join(&format!("{what}-{concurrency}"));
        let mut alone = [Member::alone(folder("none"))?];
        let solo = measured(arguments, &mut alone, *concurrency, None)?;
        drop(alone);
        let solo_steps = solo.steps_per_second;
        show(arguments, &mut all, solo);
        for survival in &arguments.survival {
            let mut members = members::cluster(&folder(survival), REPLICAS, |_| Vec::new())?;
            let mut figures = measured(arguments, &mut members, *concurrency, Some(survival))?;
            figures.to_solo = Some(figures.steps_per_second / solo_steps);
            show(arguments, &mut all, figures);
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(Exit::Completed)
}

fn show(arguments: &Arguments, all: &mut Vec<Figures>, figures: Figures) {
    if !arguments.json {
        println!("{}", line(&figures));
    }
    all.push(figures);
}

/// Measures new nodes in one way.
fn measured(
    arguments: &Arguments,
    members: &mut [Member],
    concurrency: usize,
    survival: Option<&str>,
) -> anyhow::Result<Figures> {
    let text = document(arguments.steps);
    for member in &mut *members {
        let () = member.ask(&Order::Define(text.clone()))?;
    }
    drive(members, concurrency, WARMING, survival)?;
    let before = accounts(members)?;
    let duration = Duration::from_secs(arguments.seconds);
    let driven = drive(members, concurrency, duration, survival)?;
    let spent: Vec<Account> = accounts(members)?
        .into_iter()
        .zip(before)
        .map(|(after, before)| Account {
            cpu: after.cpu - before.cpu,
            records: after.records - before.records,
            record_bytes: after.record_bytes - before.record_bytes,
            syncs: after.syncs - before.syncs,
            messages: after.messages - before.messages,
        })
        .collect();
    if driven.latencies.is_empty() {
        bail!("no workflow ended within {} s; give it more --seconds", arguments.seconds);
    }
    Ok(figures(arguments.steps, concurrency, survival, driven, &spent))
}

/// Lets clients at all nodes run workflows, spread evenly, at the same time.
fn drive(
    members: &mut [Member],
    concurrency: usize,
    duration: Duration,
    survival: Option<&str>,
) -> anyhow::Result<Driven> {
    let count = members.len();
    for (index, member) in members.iter_mut().enumerate() {
        let clients = (concurrency + count - 1 - index) / count;
        let survival = survival.map(|way| format!("{way}:{REPLICAS}"));
        member.tell(&Order::Drive(Drive { clients, duration, survival }))?;
    }
    let mut all = Driven { seconds: 0.0, latencies: Vec::new() };
    for member in members {
        let driven: Driven = member.answer()?;
        all.seconds = all.seconds.max(driven.seconds);
        all.latencies.extend(driven.latencies);
    }
    all.latencies.sort_unstable();
    Ok(all)
}

fn accounts(members: &mut [Member]) -> anyhow::Result<Vec<Account>> {
    members.iter_mut().map(|member| member.ask(&Order::Account)).collect()
}

fn figures(
    steps: usize,
    concurrency: usize,
    survival: Option<&str>,
    driven: Driven,
    spent: &[Account],
) -> Figures {
    let Driven { seconds, latencies } = driven;
    let workflows = latencies.len();
    let count = workflows as f64;
    let cpu_seconds: f64 = spent.iter().map(|one| one.cpu.as_secs_f64()).sum();
    let each = |share: &dyn Fn(&Account) -> f64| spent.iter().map(share).collect::<Vec<f64>>();
    Figures {
        survival: survival.unwrap_or("none").to_owned(),
        concurrency,
        steps,
        seconds,
        workflows,
        workflows_per_second: count / seconds,
        steps_per_second: count * steps as f64 / seconds,
        p50_ms: measure::quantile_ms(&latencies, 0.5),
        p99_ms: measure::quantile_ms(&latencies, 0.99),
        cpu_seconds,
        cpu_micros_per_step: cpu_seconds * 1e6 / (count * steps as f64),
        records_per_workflow: each(&|one| one.records as f64 / count),
        record_bytes: each(&|one| one.record_bytes as f64 / one.records.max(1) as f64),
        syncs_per_second: each(&|one| one.syncs as f64 / seconds),
        messages_per_workflow: each(&|one| one.messages as f64 / count),
        to_solo: None,
    }
}

fn headings() -> String {
    format!(
        "{:>11} {:<18} {:>11} {:>9} {:>8} {:>8} {:>7} {:>9} | {:>20} {:>20} | {:>7}",
        "concurrency",
        "survival",
        "workflows/s",
        "steps/s",
        "p50 ms",
        "p99 ms",
        "cpu s",
        "us / step",
        "records / workflow",
        "messages / workflow",
        "to none"
    )
}

fn line(figures: &Figures) -> String {
    let list = |numbers: &[f64]| {
        numbers.iter().map(|number| format!("{number:.1}")).collect::<Vec<_>>().join(" ")
    };
    format!(
        "{:>11} {:<18} {:>11.0} {:>9.0} {:>8.2} {:>8.2} {:>7.2} {:>9.1} | {:>20} {:>20} | {:>7}",
        figures.concurrency,
        figures.survival,
        figures.workflows_per_second,
        figures.steps_per_second,
        figures.p50_ms,
        figures.p99_ms,
        figures.cpu_seconds,
        figures.cpu_micros_per_step,
        list(&figures.records_per_workflow),
        list(&figures.messages_per_workflow),
        measure::optional(figures.to_solo, 2)
    )
}
