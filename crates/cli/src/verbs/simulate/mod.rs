//! `outlast simulate`: the same flow in worlds that break, many at a time.
//!
//! Every seed is a world of its own; a swarm of them is run until one breaks a sentence that must
//! hold. Then faults are left out for as long as it still does, and the command is printed that shows
//! the same again. `docs/simulator.md` says what can go wrong and what must hold.

mod command;
mod fitting;
mod replay;
mod report;
mod span;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use outlast_engine::{Acknowledge, Strategy};
use outlast_expressions::{Value, value};
use outlast_simulator::{Fault, FaultKind, Latency, Recording, Scenario, Swarm, Wanted, Workload};

use crate::exit::{Exit, Failure};
use crate::input::{self, Document};
use crate::output::Output;
use crate::table;
use report::Tally;

/// Run a workflow in simulated worlds that break
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast simulate                                      a hundred worlds, with flows of its own
  outlast simulate flow.yaml --nodes 5 --runs 1000      your flow, on five nodes each
  outlast simulate --seed 7 --runs 1 --trace            one world, a line for everything that occurs
  outlast simulate --faults crash,partition --runs 500  only these go wrong; also none, all
  outlast simulate --seed 7 --runs 1 --fault 'split@1+3:1,2' --fault 'crash@2+1:3'
  outlast simulate --latency 5ms..80ms --service-latency 100ms~400ms --clock-skew 2s
  outlast simulate --services keyless --strategy active
  outlast simulate --seed 7 --runs 1 --record run.txt && outlast simulate --replay run.txt")]
pub(crate) struct Arguments {
    /// The workflow; without one, flows that come with the simulator are drawn
    #[arg(value_name = "FLOW")]
    flow: Option<PathBuf>,
    /// What every execution is given: JSON, or @FILE
    #[arg(long, value_name = "JSON", requires = "flow")]
    input: Option<String>,
    /// Another document whose workflow this one runs; may be given several times
    #[arg(long = "define", value_name = "FLOW", requires = "flow")]
    definitions: Vec<PathBuf>,
    /// How many nodes [default: drawn, one to five]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=64))]
    nodes: Option<u8>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many worlds, one for each seed from the first on
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// What may go wrong: kinds or groups of faults, `all` or `none`; beside --fault only these two, for
    /// how rough the network is all the time [default: all, but one world in ten is left in peace]
    #[arg(long, value_name = "KINDS")]
    faults: Option<String>,
    /// Exactly this fault, in place of drawn ones: KIND@START+DURATION:NODES=AMOUNT, or none; may be
    /// repeated
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// How executions survive: none, passive, active or partition-tolerant [default: drawn]
    #[arg(long)]
    strategy: Option<Strategy>,
    /// How many replicas, of a world with fewer nodes all of them [default: drawn]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64))]
    replicas: Option<u16>,
    /// How many votes make a primary of a partition-tolerant execution, at most a majority [default:
    /// drawn]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=33))]
    votes: Option<u16>,
    /// What must be known where before a call leaves, where a primary is elected: none or majority
    /// [default: as the strategy has it, the other one in every fourth world]
    #[arg(long, value_name = "WHERE")]
    acknowledge: Option<Acknowledge>,
    /// What undoing may cost before a primary without a majority pauses, or none [default: drawn]
    #[arg(long, value_name = "COST")]
    budget: Option<String>,
    /// Whether what can be neither undone nor repeated waits until its line is decided on, or is done
    /// anywhere [default: anywhere in one world in seven]
    #[arg(long, value_name = "WHEN")]
    pivots: Option<Pivots>,
    /// Whether nodes find out by gossip who is there [default: drawn]
    #[arg(long, value_name = "BOOL")]
    gossip: Option<bool>,
    /// How long a message between nodes takes: 5ms, 1ms..50ms for anything between, or 1ms~20ms for
    /// at least the first and on average so much more; in us, ms or s [default: drawn]
    #[arg(long, value_name = "TIME", value_parser = span::message_latency)]
    latency: Option<Latency>,
    /// How long a call takes to its service, and its answer back, likewise [default: drawn]
    #[arg(long, value_name = "TIME", value_parser = span::latency)]
    service_latency: Option<Latency>,
    /// How far clocks are off at most, to either side: 0s, 20ms, 5s [default: drawn]
    #[arg(long, value_name = "TIME", value_parser = span::micros)]
    clock_skew: Option<u64>,
    /// Whether services act once for each key, or again whenever they are asked again [default: drawn;
    /// keyed for a flow that is given]
    #[arg(long, value_name = "KIND")]
    services: Option<Services>,
    /// How many executions a world has [default: drawn, one to four]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=200))]
    executions: Option<u16>,
    /// Print a line for everything that occurs
    #[arg(long)]
    trace: bool,
    /// Write the world down: the one that failed, or else the last one
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Step through a world that was written down, one event at a time; in a pipe, print everything that
    /// occurs. Ends with code 1 if an engine is given or wants anything else than was recorded
    #[arg(long, value_name = "FILE", conflicts_with_all = DRAWN)]
    replay: Option<PathBuf>,
    #[command(flatten)]
    shown: replay::Shown,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What pivots wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Pivots {
    /// A decision on whose line counts.
    Decided,
    /// Nothing: each line may do them.
    Anywhere,
}

/// What services do about keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Services {
    /// They act once for each key.
    Keyed,
    /// They act again whenever they are asked again, but for undos.
    Keyless,
}

/// What says which worlds are run; a recording says so itself.
const DRAWN: [&str; 21] = [
    "flow",
    "definitions",
    "input",
    "nodes",
    "seed",
    "runs",
    "faults",
    "fault",
    "strategy",
    "replicas",
    "votes",
    "acknowledge",
    "budget",
    "pivots",
    "gossip",
    "latency",
    "service_latency",
    "clock_skew",
    "services",
    "executions",
    "record",
];

/// Runs worlds until one breaks a sentence, or all are done.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if let Some(file) = &arguments.replay {
        return replay::replay(file, &arguments.shown, arguments.json);
    }
    arguments.shown.check_unused()?;
    let flows = match flows(arguments)? {
        Ok(flows) => flows,
        Err(exit) => return Ok(exit),
    };
    let mut swarm = Swarm::new(wanted(arguments)?, flows);
    if arguments.flow.is_some() {
        // What never ends is no failure of a world.
        swarm.try_flows().map_err(Failure::document)?;
    }
    let recording = arguments.record.as_deref().map(Output::open).transpose()?;
    let bar = bar(arguments);
    let mut tally = Tally::new(arguments.trace);
    let began = Instant::now();
    let mut last = None;
    let last_seed = fitting::last_seed(arguments)?;
    for seed in arguments.seed..=last_seed {
        let mut scenario = swarm.scenario(seed);
        fitting::check_places(arguments, &scenario)?;
        swarm.try_flow_of(&scenario).map_err(fitting::too_many)?;
        scenario.options.trace = arguments.trace;
        let verdict = swarm.run(&scenario);
        bar.inc(1);
        match (arguments.trace, arguments.json) {
            (true, false) => {
                if 1 < arguments.runs {
                    table::print(&format!("world of seed {seed}\n"));
                }
                table::print(&verdict.trace);
            }
            (true, true) => tally.keep_trace(&verdict),
            (false, _) => {}
        }
        tally.add(seed, &verdict);
        let failed = verdict.finding.is_some();
        last = Some(scenario);
        if failed {
            break;
        }
    }
    bar.finish_and_clear();
    tally.seconds = began.elapsed().as_secs_f64();
    let failed = tally.finding.is_some();
    if let Some(scenario) = last.as_mut().filter(|_| failed) {
        shrink(arguments, &mut swarm, scenario, &mut tally);
    }
    tally.print(arguments.json);
    if let (Some(output), Some(scenario)) = (recording, last) {
        record(arguments, &mut swarm, scenario, output)?;
    }
    Ok(if failed { Exit::Faulted } else { Exit::Completed })
}

/// The flows to draw from, or what ends the command because the given one is rejected.
fn flows(arguments: &Arguments) -> anyhow::Result<Result<Vec<Workload>, Exit>> {
    let Some(path) = &arguments.flow else { return Ok(Ok(Workload::built_in())) };
    let mut documents = Vec::new();
    for path in std::iter::once(path).chain(&arguments.definitions) {
        let document = Document::read(path)?;
        eprint!("{}", document.problems(std::io::stderr().is_terminal()));
        let Some(program) = document.report.program.clone() else {
            return Ok(Err(Exit::BadDocument));
        };
        documents.push((program, document.text));
    }
    let (program, text) = documents.remove(0);
    let others = documents.into_iter().map(|(program, text)| (program, text.into())).collect();
    let flow = Workload { others, ..Workload::new(program, &text, given(arguments)?) };
    match flow.missing() {
        None => Ok(Ok(vec![flow])),
        Some(missing) => {
            let problem = format!("it runs {missing}: give that document with --define");
            Err(Failure::usage(format!("{}: {problem}", path.display())).into())
        }
    }
}

fn given(arguments: &Arguments) -> anyhow::Result<Value> {
    match &arguments.input {
        Some(text) => input::json("--input", text),
        None => Ok(value::object([])),
    }
}

fn wanted(arguments: &Arguments) -> anyhow::Result<Wanted> {
    let kinds = arguments.faults.as_deref().map(FaultKind::parse_list).transpose();
    fitting::check_flags(arguments)?;
    Ok(Wanted {
        nodes: arguments.nodes.map(usize::from),
        strategy: arguments.strategy,
        replicas: arguments.replicas.map(usize::from),
        votes: arguments.votes,
        acknowledge: arguments.acknowledge,
        budget: arguments.budget.as_deref().map(budget).transpose()?,
        pivots_anywhere: arguments.pivots.map(|pivots| pivots == Pivots::Anywhere),
        kinds: kinds.map_err(Failure::usage)?,
        faults: given_faults(&arguments.fault)?,
        gossip: arguments.gossip,
        latency: arguments.latency,
        service_latency: arguments.service_latency,
        skew: arguments.clock_skew,
        keyless: arguments.services.map(|services| services == Services::Keyless),
        executions: arguments.executions.map(usize::from),
    })
}

/// A cost, or `none` for no bound.
fn budget(text: &str) -> Result<Option<f64>, Failure> {
    if text == "none" {
        return Ok(None);
    }
    let cost = text.parse().ok().filter(|cost: &f64| 0.0 <= *cost);
    cost.map(Some).ok_or_else(|| Failure::usage(format!("--budget {text}: a cost, or none")))
}

/// The faults that are given one by one, if any are; `none` is none.
fn given_faults(texts: &[String]) -> anyhow::Result<Option<Vec<Fault>>> {
    let named = texts.iter().filter(|text| *text != "none");
    let faults: Result<Vec<Fault>, String> = named.map(|text| text.parse()).collect();
    Ok((!texts.is_empty()).then_some(faults.map_err(Failure::usage)?))
}

fn bar(arguments: &Arguments) -> ProgressBar {
    if !std::io::stderr().is_terminal() || arguments.trace {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} worlds, {per_sec}");
    ProgressBar::new(arguments.runs).with_style(style.expect("the template is right"))
}

/// Leaves out faults for as long as the world still fails, and says how to see it again.
fn shrink(arguments: &Arguments, swarm: &mut Swarm, scenario: &mut Scenario, tally: &mut Tally) {
    tell!("a sentence does not hold; looking for fewer faults that break it");
    let hook = std::panic::take_hook();
    // An engine that panics would do so once for every try.
    std::panic::set_hook(Box::new(|_| {}));
    *scenario = swarm.shrink(scenario, |_| {});
    // Fewer faults may break another sentence than all of them do.
    tally.finding_of_fewer = swarm.run(scenario).finding;
    std::panic::set_hook(hook);
    tally.faults = scenario.options.faults.iter().map(ToString::to_string).collect();
    tally.command = Some(command::that_replays(arguments, scenario));
}

fn record(
    arguments: &Arguments,
    swarm: &mut Swarm,
    mut scenario: Scenario,
    output: Output,
) -> anyhow::Result<()> {
    scenario.options.records_run = true;
    let verdict = swarm.run(&scenario);
    let flow = arguments.flow.as_ref().map(|_| swarm.flows()[0].clone());
    let run = verdict.run_events.iter().map(ToString::to_string).collect();
    output.write(&Recording { scenario, flow, run }.to_text())
}
