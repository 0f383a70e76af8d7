//! `outlast experiment replication`: the figures 2 and 4 of seed 0.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread;

use outlast_engine::Acknowledge;
use outlast_simulator::experiments::replication::{
    Case, Claim, Experiment, Figure, Measured, Mode, Results, Row, Stage,
};
use serde_json::{Value as Json, json};

use super::measuring::measure_all;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::table;

/// How many executions of each case there are if nothing is said: 40,320 in all for figure 4.
const RUNS_OF_FAILURES: u32 = 320;
const RUNS_OF_NO_MAJORITY: u32 = 200;

/// So many findings are told; one seed is enough to begin with.
const FINDINGS_TOLD: usize = 10;

/// Replicated executions under failures: execution time, time without progress, compensation cost
/// (Schäfer, Rothermel, Tariq: Exploring the Search Space between Active and Passive Workflow
/// Replication)
#[derive(clap::Args)]
#[command(after_help = super::EXAMPLES)]
pub(super) struct Arguments {
    /// The figure of the paper: 2 (no partition has a majority) or 4 (failures at random times)
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=4))]
    figure: u8,
    /// Executions of each case [default: 320 for figure 4, 200 for figure 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Where all random numbers come from; the same seed gives the same rows
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Numbers of replicas [default: 3,5,9 for figure 4, 5 for figure 2]
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    replicas: Vec<usize>,
    /// What must be known where before a call of a passive primary leaves: `majority` is the
    /// product's default, `none` is the paper's way
    #[arg(long, value_enum, default_value_t = Known::Majority)]
    acknowledge: Known,
    /// Threads [default: one for each core]; they do not change what is measured
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Draw the figure into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print rows and claims as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Known {
    None,
    Majority,
}

/// Measures, and prints rows and claims on stdout. What must not be is told by the exit code.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let experiment = experiment(arguments)?;
    let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = arguments.threads.map_or_else(cores, usize::from);
    let plot = arguments.plot.as_deref().map(Output::open).transpose()?;
    let (results, findings) = measure(&experiment, threads);
    if arguments.json {
        table::print_json(&as_json(&experiment, &results, &findings));
    } else {
        table::print(&as_text(&results));
    }
    if let Some(plot) = plot {
        plot.write(&results.draw())?;
    }
    for finding in findings.iter().take(FINDINGS_TOLD) {
        tell!("outlast: {finding}");
    }
    if findings.is_empty() {
        return Ok(Exit::Completed);
    }
    tell!("outlast: {} executions did what must not be", findings.len());
    Ok(Exit::Faulted)
}

fn experiment(arguments: &Arguments) -> Result<Experiment, Failure> {
    if let Some(plot) = &arguments.plot
        && plot.extension().is_some_and(|extension| extension != "svg")
    {
        let reason = "figures are drawn as SVG; end its name with .svg";
        return Err(Failure::usage(format!("--plot {}: {reason}", plot.display())));
    }
    let figure = match arguments.figure {
        2 => Figure::NoMajority,
        4 => Figure::Failures,
        other => return Err(Failure::usage(format!("--figure {other}: there are 2 and 4"))),
    };
    let (runs, replicas) = match figure {
        Figure::NoMajority => (RUNS_OF_NO_MAJORITY, vec![5]),
        Figure::Failures => (RUNS_OF_FAILURES, vec![3, 5, 9]),
    };
    let mut replicas =
        if arguments.replicas.is_empty() { replicas } else { arguments.replicas.clone() };
    // The same number twice is not measured twice.
    replicas.sort_unstable();
    replicas.dedup();
    if let Some(number) = replicas.iter().find(|number| !(2..=32).contains(*number)) {
        return Err(Failure::usage(format!("--replicas {number}: 2 to 32 can be measured")));
    }
    if figure == Figure::NoMajority
        && let Some(number) = replicas.iter().find(|number| **number < 3 || **number % 2 == 0)
    {
        let reason = "that no partition has a majority takes an odd number, 3 or more";
        return Err(Failure::usage(format!("--replicas {number}: {reason}")));
    }
    Ok(Experiment {
        figure,
        replicas,
        runs: arguments.runs.unwrap_or(runs),
        seed: arguments.seed,
        acknowledge: match arguments.acknowledge {
            Known::None => Acknowledge::None,
            Known::Majority => Acknowledge::Majority,
        },
    })
}

/// Measures every run of every case; says which of them did what must not be.
fn measure(experiment: &Experiment, threads: usize) -> (Results, Vec<String>) {
    let (stage, cases) = (Stage::new(), experiment.cases());
    let of = |index: usize| {
        let run = u32::try_from(index / cases.len()).expect("there are as many runs as asked for");
        (cases[index % cases.len()], run)
    };
    // One run of every case after the other: what is left to do is always a fair sample.
    let measured = measure_all(cases.len() * experiment.runs as usize, threads, |index| {
        let (case, run) = of(index);
        experiment.measure(&stage, case, run)
    });
    let mut findings = Vec::new();
    let mut of_cases: Vec<Vec<Measured>> = vec![Vec::new(); cases.len()];
    for (index, one) in measured.into_iter().enumerate() {
        let (case, run) = of(index);
        if let Some(finding) = &one.finding {
            findings.push(format!("seed {}, run {run}, {case:?}: {finding}", experiment.seed));
        }
        of_cases[index % cases.len()].push(one);
    }
    let rows = cases.iter().zip(&of_cases).map(|(case, measured)| Row::of(*case, measured));
    (Results { figure: experiment.figure, rows: rows.collect() }, findings)
}

fn as_json(experiment: &Experiment, results: &Results, findings: &[String]) -> Json {
    let acknowledge = match experiment.acknowledge {
        Acknowledge::None => "none",
        Acknowledge::Majority => "majority",
    };
    let claim = |claim: &Claim| json!({ "paper": claim.paper, "measured": claim.measured, "holds": claim.holds });
    json!({
        "figure": results.figure.number(),
        "seed": experiment.seed,
        "passive_acknowledge": acknowledge,
        "rows": results.rows.iter().map(row_as_json).collect::<Vec<_>>(),
        "claims": results.claims().iter().map(claim).collect::<Vec<_>>(),
        "findings": findings,
    })
}

fn row_as_json(row: &Row) -> Json {
    // A thousandth of a second or of a per cent is less than chance makes of it.
    let rounded = |value: f64| (value * 1_000.0).round() / 1_000.0;
    json!({
        "replicas": row.case.replicas,
        "mode": row.case.mode.word(),
        "votes": votes(row.case),
        "failures": row.case.failures,
        "executions": row.executions,
        "execution_time_s": rounded(row.execution_time),
        "unavailable_s": rounded(row.unavailable),
        "compensation_percent": rounded(row.compensation),
        "parked": row.parked,
    })
}

/// The votes that make a primary, where there are elections.
const fn votes(case: Case) -> Option<usize> {
    match case.mode {
        Mode::None | Mode::Active => None,
        Mode::Passive => Some(case.replicas / 2 + 1),
        Mode::PartitionTolerant(votes) => Some(votes),
    }
}

fn as_text(results: &Results) -> String {
    const HEADINGS: [&str; 8] = [
        "REPLICAS",
        "MODE",
        "VOTES",
        "FAILURES",
        "EXECUTIONS",
        "TIME (s)",
        "UNAVAILABLE (s)",
        "COMPENSATION (%)",
    ];
    let cells = |row: &Row| {
        vec![
            row.case.replicas.to_string(),
            row.case.mode.word().to_owned(),
            votes(row.case).map_or_else(|| "-".to_owned(), |votes| votes.to_string()),
            row.case.failures.to_string(),
            row.executions.to_string(),
            format!("{:.2}", row.execution_time),
            format!("{:.2}", row.unavailable),
            format!("{:.2}", row.compensation),
        ]
    };
    let mut text = table::columns(&HEADINGS, &results.rows.iter().map(cells).collect::<Vec<_>>());
    let parked: u64 = results.rows.iter().map(|row| row.parked).sum();
    if parked > 0 {
        writeln!(text, "\n{parked} effects were left to a person").expect("text grows");
    }
    writeln!(
        text,
        "\nWhat the paper says of figure {}, and what we measured:\n",
        results.figure.number()
    )
    .expect("text grows");
    for Claim { paper, measured, holds } in results.claims() {
        let verdict = if holds { "holds" } else { "does not hold" };
        writeln!(text, "{verdict:<13}  {paper}\n{:<13}  {measured}", "").expect("text grows");
    }
    text
}
