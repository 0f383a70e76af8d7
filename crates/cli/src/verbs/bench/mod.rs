//! `outlast bench`: what this machine reaches, measured on the spot.
//!
//! `steps` runs workflows of durable steps and, in the same run, the floor: a bare group-commit log
//! that does the same writes. `waiting` fills a node with executions that wait and measures what they
//! cost and how long a restart takes. `idle` measures what a node costs that does nothing. `replicas`
//! runs the workflows of `steps` on three nodes, and `failover` kills the one that leads.
//! `docs/performance.md` says how to read the figures.

mod failover;
mod idle;
mod load;
mod measure;
mod member;
mod members;
mod replicas;
mod scratch;
mod steps;
mod waiting;

use outlast_engine::Strategy;

use crate::exit::Exit;

/// Measure what this machine reaches
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast bench steps                                   concurrency 1, 16 and 64, ten steps each
  outlast bench steps --concurrency 64 --seconds 20     longer, at one concurrency
  outlast bench waiting --count 100000                  memory and restart with many waiting
  outlast bench idle                                    what a node costs that does nothing
  outlast bench replicas                                three nodes hold it, beside one alone
  outlast bench failover --runs 20                      kill -9 of the node that leads, under load")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    Steps(steps::Arguments),
    Waiting(waiting::Arguments),
    Idle(idle::Arguments),
    Replicas(replicas::Arguments),
    Failover(failover::Arguments),
    #[command(hide = true)]
    Member(Box<member::Arguments>),
    #[command(hide = true)]
    Fill(waiting::FillArguments),
    #[command(hide = true)]
    Reopen(waiting::ReopenArguments),
}

/// Measures, and prints the figures on stdout.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match &arguments.bench {
        Bench::Steps(arguments) => steps::run(arguments),
        Bench::Waiting(arguments) => waiting::run(arguments),
        Bench::Idle(arguments) => idle::run(arguments),
        Bench::Replicas(arguments) => replicas::run(arguments),
        Bench::Failover(arguments) => failover::run(arguments),
        Bench::Member(arguments) => member::run(arguments),
        Bench::Fill(arguments) => waiting::fill(arguments),
        Bench::Reopen(arguments) => waiting::reopen(arguments),
    }
}

/// A way to survive in which several nodes hold an execution; how many is the command's to say.
fn held(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(Strategy::None) | Err(_) => {
            Err("expected passive, active or partition-tolerant, without numbers".to_owned())
        }
        Ok(_) => Ok(text.to_owned()),
    }
}
