//! What it costs that several nodes hold an execution: workflows on three nodes of one machine, beside
//! a node alone.
//!
//! Workflows are those of `bench steps`, which do nothing, so that all that is measured is the engine, or
//! they make calls over HTTP, as orchestrations do. Every node is a process with a journal of its own, sync
//! on, and they talk over mutual TLS. The clients are spread over the nodes in the order of their ids, or
//! over the first few of them, and a node leads what its clients start. A node alone and each way to
//! survive take turns, with as many clients, in the same directory.

use std::time::Duration;

use outlast_node::fixture::ledger::{Ledger, Options};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::load::{Account, Driven, Load, Table, Throughput, WARMING};
use super::measure;
use super::member::{Drive, Order};
use super::members::{self, Member};
use super::scratch::Scratch;
use super::steps;
use crate::exit::Exit;

/// How many nodes hold every execution.
const REPLICAS: usize = 3;
/// How long a turn takes at most. Clients start and end with it, so a shorter one would count against
/// whoever takes longer for a workflow.
const TURN: Duration = Duration::from_secs(2);
/// How long nodes have after a turn for what nobody waits for.
const SETTLING: Duration = Duration::from_millis(200);
/// How nodes survive that hold alone what they are asked for.
const NONE: &str = "none";
/// Where workflows have the service.
const SERVICE: &str = "http://service.test";

/// Run workflows that three nodes hold, beside a node alone
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast bench replicas --concurrency 16 --survival passive
  outlast bench replicas --work calls --answer-after 20
  outlast bench replicas --asked 1                one node leads everything")]
pub(super) struct Arguments {
    #[command(flatten)]
    load: Load,
    /// What the steps of a workflow do; several are measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "steps,calls")]
    work: Vec<Work>,
    /// How long the service takes to answer a call, in milliseconds
    #[arg(long, default_value_t = 0, value_name = "MILLISECONDS")]
    answer_after: u64,
    /// Which ways to survive on the three nodes; with none, each holds alone what its clients start
    #[arg(long, value_delimiter = ',', default_value = "none,partition-tolerant,passive")]
    #[arg(value_parser = way)]
    survival: Vec<String>,
    /// How many of the three nodes clients turn to: a node leads what its own clients start
    #[arg(long, default_value_t = REPLICAS, value_parser = asked)]
    asked: usize,
}

/// What the steps of a workflow do.
#[derive(Clone, Copy, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Work {
    /// Nothing, durably and in the node's own process: all that is measured is the engine
    Steps,
    /// An HTTP call each, to a service on this machine
    Calls,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Steps => "steps",
        }
    }

    /// A workflow of so many steps.
    fn document(self, steps: usize) -> String {
        match self {
            Self::Calls => {
                let endpoint = format!("{SERVICE}/do/step");
                let with = format!("{{ method: post, endpoint: '{endpoint}' }}");
                steps::document(steps, &format!("call: http, with: {with}"))
            }
            Self::Steps => steps::document(steps, steps::NOTHING),
        }
    }
}

/// A way to survive, without numbers.
fn way(text: &str) -> Result<String, String> {
    match text {
        NONE => Ok(NONE.to_owned()),
        held => super::held(held).map_err(|expected| format!("{expected}, or none")),
    }
}

fn asked(text: &str) -> Result<usize, String> {
    let asked = text.parse().ok().filter(|asked| (1..=REPLICAS).contains(asked));
    asked.ok_or_else(|| format!("a number from 1 to {REPLICAS}"))
}

/// The figures of one way to survive at one concurrency.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    work: Work,
    nodes: usize,
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

/// Measures all work at every concurrency in turn: a node alone beside each way to survive.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let load = &arguments.load;
    let scratch = load.scratch()?;
    let mut table = Table::new(load, &headings(), line);
    for work in &arguments.work {
        for concurrency in &load.concurrency {
            let case = Case { arguments, work: *work, concurrency: *concurrency };
            for figures in case.figures(&scratch)? {
                table.add(figures);
            }
        }
    }
    table.end()?;
    Ok(Exit::Completed)
}

/// What is run, however it survives.
#[derive(Clone, Copy)]
struct Case<'arguments> {
    arguments: &'arguments Arguments,
    work: Work,
    concurrency: usize,
}

impl Case<'_> {
    /// Measures a node alone and each way to survive, in turns: a machine whose speed changes meanwhile is
    /// as fast for one as for the other.
    fn figures(self, scratch: &Scratch) -> anyhow::Result<Vec<Figures>> {
        let ways = self.arguments.survival.iter().map(|way| Some(way.as_str()));
        let mut contenders = std::iter::once(None)
            .chain(ways)
            .map(|survival| self.contender(scratch, survival))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let whole = self.arguments.load.duration();
        let turns = u32::try_from(whole.as_nanos().div_ceil(TURN.as_nanos()))?;
        for _ in 0..turns {
            for contender in &mut contenders {
                contender.take_turn(whole / turns)?;
            }
        }
        let mut all = Vec::<Figures>::new();
        for contender in contenders {
            let mut figures = self.account(contender)?;
            let solo = all.first().map(|solo| solo.throughput.steps_per_second);
            figures.to_solo = solo.map(|solo| figures.throughput.steps_per_second / solo);
            all.push(figures);
        }
        Ok(all)
    }

    /// New nodes that are warm, and a service of their own.
    fn contender(self, scratch: &Scratch, survival: Option<&str>) -> anyhow::Result<Contender> {
        let Self { arguments, work, concurrency } = self;
        let name = format!("{}-{}-{concurrency}", work.name(), survival.unwrap_or("alone"));
        let directory = scratch.join(&name);
        let service = match work {
            Work::Steps => None,
            Work::Calls => Some(Service::start(arguments.answer_after)?),
        };
        let origin = || service.as_ref().map_or_else(Vec::new, Service::origin);
        let (mut members, asked) = match survival {
            None => (vec![Member::alone(directory, origin())?], 1),
            Some(_) => (members::cluster(&directory, REPLICAS, |_| origin())?, arguments.asked),
        };
        let text = work.document(arguments.load.steps);
        for member in &mut members {
            let () = member.ask(&Order::Define(text.clone()))?;
        }
        let clients = |index| match index < asked {
            true => (concurrency + asked - 1 - index) / asked,
            false => 0,
        };
        let clients = (0..members.len()).map(clients).collect();
        let mut contender = Contender {
            survival: survival.map(str::to_owned),
            members,
            clients,
            _service: service,
            driven: Driven { seconds: 0.0, latencies: Vec::new() },
            spent: Vec::new(),
        };
        contender.drive(WARMING)?;
        Ok(contender)
    }

    /// What came of all its turns.
    fn account(self, contender: Contender) -> anyhow::Result<Figures> {
        let Contender { survival, driven, spent, .. } = contender;
        let cpu = spent.iter().map(|one| one.cpu).sum();
        let throughput = self.arguments.load.throughput(self.concurrency, driven, cpu)?;
        Ok(figures(self.work, survival.as_deref(), throughput, &spent))
    }
}

/// Nodes that run the workflows in one way, whenever it is their turn.
struct Contender {
    survival: Option<String>,
    members: Vec<Member>,
    /// How many clients turn to each of them.
    clients: Vec<usize>,
    _service: Option<Service>,
    driven: Driven,
    /// By each of them, in all turns.
    spent: Vec<Account>,
}

impl Contender {
    /// Runs workflows, and then leaves the machine to the others: what they still have to forget is done.
    fn take_turn(&mut self, duration: Duration) -> anyhow::Result<()> {
        let before = self.accounts()?;
        let driven = self.drive(duration)?;
        let resting = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        resting.block_on(async { tokio::time::sleep(SETTLING).await });
        let after = self.accounts()?;
        let spent = after.iter().zip(&before).map(|(after, before)| after.since(before));
        match self.spent.is_empty() {
            true => self.spent = spent.collect(),
            false => self.spent.iter_mut().zip(spent).for_each(|(all, turn)| all.add(&turn)),
        }
        self.driven.seconds += driven.seconds;
        self.driven.latencies.extend(driven.latencies);
        Ok(())
    }

    /// Lets clients run workflows, all at the same time.
    fn drive(&mut self, duration: Duration) -> anyhow::Result<Driven> {
        for (member, clients) in self.members.iter_mut().zip(&self.clients) {
            let survival = self.survival.as_ref().map(|way| match way.as_str() {
                NONE => NONE.to_owned(),
                held => format!("{held}:{REPLICAS}"),
            });
            member.tell(&Order::Drive(Drive { clients: *clients, duration, survival }))?;
        }
        let mut all = Driven { seconds: 0.0, latencies: Vec::new() };
        for member in &mut self.members {
            let driven: Driven = member.answer()?;
            all.seconds = all.seconds.max(driven.seconds);
            all.latencies.extend(driven.latencies);
        }
        Ok(all)
    }

    fn accounts(&mut self) -> anyhow::Result<Vec<Account>> {
        self.members.iter_mut().map(|member| member.ask(&Order::Account)).collect()
    }
}

/// The service that is called; it runs in this process, beside those of the nodes.
struct Service {
    ledger: Ledger,
    _runtime: Runtime,
}

impl Service {
    fn start(answer_after: u64) -> anyhow::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let ledger = runtime.block_on(Ledger::start(Options::default()))?;
        ledger.control(|control| {
            control.all.answer_after_ms = Some(answer_after).filter(|time| *time != 0);
        });
        Ok(Self { ledger, _runtime: runtime })
    }

    /// How a node is told where it is.
    fn origin(&self) -> Vec<String> {
        vec!["--origin".to_owned(), format!("{SERVICE}={}", self.ledger.uri(""))]
    }
}

fn figures(
    work: Work,
    survival: Option<&str>,
    throughput: Throughput,
    spent: &[Account],
) -> Figures {
    let count = throughput.workflows as f64;
    let each = |share: &dyn Fn(&Account) -> f64| spent.iter().map(share).collect::<Vec<f64>>();
    Figures {
        work,
        nodes: spent.len(),
        survival: survival.unwrap_or(NONE).to_owned(),
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
        "{:<5} {:>11} {:>5} {:<18} {:>11} {:>9} {:>8} {:>8} {:>7} {:>9} | {:>18} {:>16} {:>19} | {:>8}",
        "work",
        "concurrency",
        "nodes",
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
        "to alone"
    )
}

fn line(figures: &Figures) -> String {
    let throughput = &figures.throughput;
    let list = |numbers: &[f64]| {
        numbers.iter().map(|number| format!("{number:.1}")).collect::<Vec<_>>().join(" ")
    };
    format!(
        "{:<5} {:>11} {:>5} {:<18} {:>11.0} {:>9.0} {:>8.2} {:>8.2} {:>7.2} {:>9.1} | {:>18} {:>16} {:>19} | {:>8}",
        figures.work.name(),
        throughput.concurrency,
        figures.nodes,
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
