//! How long nothing happens when the node that leads is killed: from the kill until the next call of
//! each execution arrives at its service, from another node.
//!
//! Some nodes, each a process of its own, hold a number of executions that make one call after the
//! other. Each node reaches the service at an address of its own, so that it is seen who calls.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use outlast_node::fixture::ledger::{Ledger, Options};
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Runtime;

use super::measure;
use super::member::{Order, Start};
use super::members::{self, Member};
use super::scratch::Scratch;
use crate::exit::{Exit, Failure};

/// How often the service is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// How long a run may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many calls each execution makes: more than fit into a run.
const CALLS: usize = 500;
/// Calls one after the other.
const DOCUMENT: &str = r#"
document: { dsl: '1.0.3', namespace: bench, name: calls, version: '1.0.0' }
do:
  - calls:
      for: { each: number, in: '${ .numbers }' }
      do:
        - call:
            call: http
            with: { method: post, endpoint: '${ "http://service.test/do/" + $workflow.input.name }' }
            output: { as: '${ {} }' }
"#;

/// Kill the node that leads, and measure when its executions go on elsewhere
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast bench failover --runs 20 --concurrency 64
  outlast bench failover --replicas 5 --survival passive --json")]
pub(super) struct Arguments {
    /// How many nodes there are; all of them hold every execution
    #[arg(long, default_value_t = 3)]
    replicas: usize,
    /// How often to kill
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// How many executions are under way at each kill
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// How long the service takes to answer a call, in milliseconds
    #[arg(long, default_value_t = 20, value_name = "MILLISECONDS")]
    answer_after: u64,
    /// How the executions survive
    #[arg(long, default_value = "partition-tolerant", value_parser = super::held)]
    survival: String,
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
    survival: String,
    replicas: usize,
    runs: usize,
    executions: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// Of each run: when the first and when the last of its executions went on.
    of_runs: Vec<RunFigures>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunFigures {
    first_ms: f64,
    last_ms: f64,
}

/// The cluster, and the service as each of its nodes sees it.
struct World {
    runtime: Runtime,
    /// In the order of their ids: the last one leads.
    members: Vec<Member>,
    /// The service of each node, in the same order.
    ledgers: Vec<Ledger>,
}

/// Kills again and again.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if arguments.runs == 0 || arguments.concurrency == 0 || arguments.replicas < 2 {
        let needs = "runs and concurrency start at 1, and it takes 2 replicas to go on without one";
        return Err(Failure::usage(needs).into());
    }
    let scratch = Scratch::new(arguments.data.as_deref())?;
    let mut all = Vec::new();
    let mut of_runs = Vec::new();
    for run in 0..arguments.runs {
        let mut world = World::new(arguments, &scratch.join(&format!("run-{run}")))?;
        let mut gaps = world.killed(arguments)?;
        gaps.sort_unstable();
        let ends = [gaps.first(), gaps.last()].map(|gap| gap.map_or(0.0, milliseconds));
        if !arguments.json {
            println!("first after {:>7.0} ms, all after {:>7.0} ms", ends[0], ends[1]);
        }
        of_runs.push(RunFigures { first_ms: ends[0], last_ms: ends[1] });
        all.extend(gaps);
    }
    all.sort_unstable();
    print_figures(arguments, &all, of_runs)?;
    Ok(Exit::Completed)
}

fn milliseconds(time: &Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn print_figures(
    arguments: &Arguments,
    all: &[Duration],
    of_runs: Vec<RunFigures>,
) -> anyhow::Result<()> {
    let figures = Figures {
        survival: arguments.survival.clone(),
        replicas: arguments.replicas,
        runs: arguments.runs,
        executions: all.len(),
        p50_ms: measure::quantile_ms(all, 0.5),
        p99_ms: measure::quantile_ms(all, 0.99),
        max_ms: measure::quantile_ms(all, 1.0),
        of_runs,
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        println!(
            "{} of {}, {} kills, {} executions: p50 {:.0} ms, p99 {:.0} ms, at most {:.0} ms",
            figures.survival,
            figures.replicas,
            figures.runs,
            figures.executions,
            figures.p50_ms,
            figures.p99_ms,
            figures.max_ms
        );
    }
    Ok(())
}

impl World {
    /// New nodes, and a service for each.
    fn new(arguments: &Arguments, directory: &std::path::Path) -> anyhow::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mut ledgers = Vec::new();
        for _ in 0..arguments.replicas {
            let ledger = runtime.block_on(Ledger::start(Options::default()))?;
            ledger.control(|control| control.all.answer_after_ms = Some(arguments.answer_after));
            ledgers.push(ledger);
        }
        let origin = |number: usize| {
            vec!["--origin".to_owned(), format!("http://service.test={}", ledgers[number].uri(""))]
        };
        let members = members::cluster(directory, arguments.replicas, origin)?;
        let order = members.iter().map(|member| member.number).collect::<Vec<_>>();
        let mut by_number: BTreeMap<usize, Ledger> = ledgers.into_iter().enumerate().collect();
        let ledgers = order.iter().filter_map(|number| by_number.remove(number)).collect();
        Ok(Self { runtime, members, ledgers })
    }

    /// Starts executions, kills who leads them, and gives how long each took to go on.
    fn killed(&mut self, arguments: &Arguments) -> anyhow::Result<Vec<Duration>> {
        // Whoever is asked to start something leads it.
        let leader = self.members.len() - 1;
        let last = &mut self.members[leader];
        let () = last.ask(&Order::Define(DOCUMENT.to_owned()))?;
        for number in 0..arguments.concurrency {
            let () = last.ask(&Order::Start(Start {
                workflow: "calls".to_owned(),
                survival: format!("{}:{}", arguments.survival, arguments.replicas),
                input: json!({ "name": format!("execution-{number}"), "numbers": vec![0; CALLS] }),
            }))?;
        }
        self.until("every execution is under way", |world| {
            arguments.concurrency <= calls_since(&world.ledgers[leader], 0).len()
        })?;
        // Into the middle of their calls.
        let while_running = Duration::from_millis(500);
        self.runtime.block_on(async move { tokio::time::sleep(while_running).await });
        ensure!(
            self.ledgers[..leader].iter().all(|ledger| ledger.traffic().arrived == 0),
            "only the last node leads what was started there"
        );
        let killed = now_us();
        self.members[leader].kill();
        let mut arrived = BTreeMap::new();
        self.until("every execution goes on", |world| {
            for ledger in &world.ledgers[..leader] {
                for (name, time) in calls_since(ledger, killed) {
                    let first = arrived.entry(name).or_insert(time);
                    *first = time.min(*first);
                }
            }
            arguments.concurrency <= arrived.len()
        })?;
        Ok(arrived.values().map(|time| Duration::from_micros(time - killed)).collect())
    }

    fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) -> anyhow::Result<()> {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !holds(self) {
            ensure!(std::time::Instant::now() < deadline, "in vain: {what}");
            self.runtime.block_on(async { tokio::time::sleep(LOOK).await });
        }
        Ok(())
    }
}

/// The first call of each execution that arrived at a service after a time.
fn calls_since(ledger: &Ledger, since_us: u64) -> BTreeMap<String, u64> {
    let mut first = BTreeMap::new();
    for entry in ledger.entries() {
        if since_us <= entry.time_us {
            first.entry(entry.name).or_insert(entry.time_us);
        }
    }
    first
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
