//! What it costs that several nodes hold an execution: the workflows of `bench steps` on three nodes
//! of one machine, beside a node alone.
//!
//! Every node is a process with a journal of its own, sync on, and they talk over mutual TLS. The
//! clients are spread over the nodes in the order of their ids, or over the first few of them, and a
//! node leads what its clients start. A node alone is measured right before, in the same directory, with
//! as many clients.

use std::time::Duration;

use serde::Serialize;

use super::load::{Account, Driven, Load, Table, Throughput, WARMING};
use super::measure;
use super::member::{Drive, Order};
use super::members::{self, Member};
use super::steps::document;
use crate::exit::Exit;

/// How many nodes hold every execution.
const REPLICAS: usize = 3;

/// Run workflows of durable steps that three nodes hold, beside a node alone
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast bench replicas --concurrency 16 --survival passive
  outlast bench replicas --asked 1                one node leads everything")]
pub(super) struct Arguments {
    #[command(flatten)]
    load: Load,
    /// Which ways to survive, besides none
    #[arg(long, value_delimiter = ',', default_value = "partition-tolerant,passive")]
    #[arg(value_parser = super::held)]
    survival: Vec<String>,
    /// How many of the three nodes clients turn to: a node leads what its own clients start
    #[arg(long, default_value_t = REPLICAS, value_parser = asked)]
    asked: usize,
}

fn asked(text: &str) -> Result<usize, String> {
    let asked = text.parse().ok().filter(|asked| (1..=REPLICAS).contains(asked));
    asked.ok_or_else(|| format!("a number from 1 to {REPLICAS}"))
}

/// The figures of one way to survive at one concurrency.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    survival: String,
    #[serde(flatten)]
    throughput: Throughput,
    cpu_micros_per_step: f64,
    /// Of each node, in the order of their ids.
    records_per_workflow: Vec<f64>,
    record_bytes: Vec<f64>,
    syncs_per_workflow: Vec<f64>,
    syncs_per_second: Vec<f64>,
    messages_per_workflow: Vec<f64>,
    /// Steps per second, as a share of those of a node alone.
    to_solo: Option<f64>,
}

/// Measures every concurrency in turn: a node alone, then each way to survive.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let load = &arguments.load;
    let scratch = load.scratch()?;
    let mut table = Table::new(load, &headings(), line);
    for concurrency in &load.concurrency {
        let folder = |what: &str| scratch.join(&format!("{what}-{concurrency}"));
        let clients = (*concurrency, arguments.asked);
        let mut alone = [Member::alone(folder("none"))?];
        let solo = measured(load, &mut alone, (*concurrency, 1), None)?;
        drop(alone);
        let solo_steps = solo.throughput.steps_per_second;
        table.add(solo);
        for survival in &arguments.survival {
            let mut members = members::cluster(&folder(survival), REPLICAS, |_| Vec::new())?;
            let mut figures = measured(load, &mut members, clients, Some(survival))?;
            figures.to_solo = Some(figures.throughput.steps_per_second / solo_steps);
            table.add(figures);
        }
    }
    table.end()?;
    Ok(Exit::Completed)
}

/// Measures new nodes in one way, with so many clients at so many of them.
fn measured(
    load: &Load,
    members: &mut [Member],
    (concurrency, asked): (usize, usize),
    survival: Option<&str>,
) -> anyhow::Result<Figures> {
    let text = document(load.steps);
    for member in &mut *members {
        let () = member.ask(&Order::Define(text.clone()))?;
    }
    let clients = |index| match index < asked {
        true => (concurrency + asked - 1 - index) / asked,
        false => 0,
    };
    drive(members, clients, WARMING, survival)?;
    let before = accounts(members)?;
    let driven = drive(members, clients, load.duration(), survival)?;
    let after = accounts(members)?;
    let spent: Vec<Account> =
        after.iter().zip(&before).map(|(after, before)| after.since(before)).collect();
    let throughput = load.throughput(concurrency, driven, spent.iter().map(|one| one.cpu).sum())?;
    Ok(figures(survival, throughput, &spent))
}

/// Lets clients run workflows, so many at each node, all at the same time.
fn drive(
    members: &mut [Member],
    clients: impl Fn(usize) -> usize,
    duration: Duration,
    survival: Option<&str>,
) -> anyhow::Result<Driven> {
    for (index, member) in members.iter_mut().enumerate() {
        let clients = clients(index);
        let survival = survival.map(|way| format!("{way}:{REPLICAS}"));
        member.tell(&Order::Drive(Drive { clients, duration, survival }))?;
    }
    let mut all = Driven { seconds: 0.0, latencies: Vec::new() };
    for member in members {
        let driven: Driven = member.answer()?;
        all.seconds = all.seconds.max(driven.seconds);
        all.latencies.extend(driven.latencies);
    }
    Ok(all)
}

fn accounts(members: &mut [Member]) -> anyhow::Result<Vec<Account>> {
    members.iter_mut().map(|member| member.ask(&Order::Account)).collect()
}

fn figures(survival: Option<&str>, throughput: Throughput, spent: &[Account]) -> Figures {
    let count = throughput.workflows as f64;
    let each = |share: &dyn Fn(&Account) -> f64| spent.iter().map(share).collect::<Vec<f64>>();
    Figures {
        survival: survival.unwrap_or("none").to_owned(),
        cpu_micros_per_step: throughput.cpu_seconds * 1e6 / (count * throughput.steps as f64),
        records_per_workflow: each(&|one| one.records as f64 / count),
        record_bytes: each(&Account::bytes_of_a_record),
        syncs_per_workflow: each(&|one| one.syncs as f64 / count),
        syncs_per_second: each(&|one| one.syncs as f64 / throughput.seconds),
        messages_per_workflow: each(&|one| one.messages as f64 / count),
        to_solo: None,
        throughput,
    }
}

fn headings() -> String {
    format!(
        "{:>11} {:<18} {:>11} {:>9} {:>8} {:>8} {:>7} {:>9} | {:>18} {:>16} {:>19} | {:>7}",
        "concurrency",
        "survival",
        "workflows/s",
        "steps/s",
        "p50 ms",
        "p99 ms",
        "cpu s",
        "us / step",
        "records / workflow",
        "syncs / workflow",
        "messages / workflow",
        "to none"
    )
}

fn line(figures: &Figures) -> String {
    let throughput = &figures.throughput;
    let list = |numbers: &[f64]| {
        numbers.iter().map(|number| format!("{number:.1}")).collect::<Vec<_>>().join(" ")
    };
    format!(
        "{:>11} {:<18} {:>11.0} {:>9.0} {:>8.2} {:>8.2} {:>7.2} {:>9.1} | {:>18} {:>16} {:>19} | {:>7}",
        throughput.concurrency,
        figures.survival,
        throughput.workflows_per_second,
        throughput.steps_per_second,
        throughput.p50_ms,
        throughput.p99_ms,
        throughput.cpu_seconds,
        figures.cpu_micros_per_step,
        list(&figures.records_per_workflow),
        list(&figures.syncs_per_workflow),
        list(&figures.messages_per_workflow),
        measure::optional(figures.to_solo, 2)
    )
}
