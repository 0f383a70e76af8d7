//! `outlast experiment`: the evaluation of a paper, repeated with production engines in the simulator.

mod measuring;
mod replication;

use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  outlast experiment replication                        figure 4: 40,000 executions, minutes
  outlast experiment replication --runs 20              the same with fewer executions
  outlast experiment replication --figure 2 --plot figure-2.svg
  outlast experiment replication --replicas 3,5 --seed 7 --json";

/// Repeat the evaluation of a paper in the simulator
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand)]
enum Experiment {
    Replication(replication::Arguments),
}

/// Runs an experiment, and prints its results on stdout.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match &arguments.experiment {
        Experiment::Replication(arguments) => replication::run(arguments),
    }
}
