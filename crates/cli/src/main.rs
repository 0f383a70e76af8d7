//! The `outlast` binary: one file per verb, and the table that finds it.
//!
//! Data goes to stdout, talk to stderr. What a verb's end means is in `exit`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "talking to people is its business")]

mod directories;
mod exit;
mod input;
mod log;
mod services;
mod signals;
mod verbs;

use clap::{Parser, Subcommand};

use exit::Exit;

/// Workflows that outlast the machines they run on.
#[derive(Parser)]
#[command(name = "outlast", version, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

/// Every verb: what it takes is in the file of its name.
#[derive(Subcommand)]
enum Verb {
    Run(Box<verbs::run::Arguments>),
    Check(verbs::check::Arguments),
    Data(verbs::data::Arguments),
    Bench(verbs::bench::Arguments),
    Node(Box<verbs::node::Arguments>),
    #[command(hide = true)]
    ExpressionWorker,
    #[command(hide = true)]
    Fixture(verbs::fixture::Arguments),
}

fn main() -> std::process::ExitCode {
    let Arguments { verb } = Arguments::parse();
    let ended = match verb {
        Verb::Run(arguments) => verbs::run::run(&arguments),
        Verb::Check(arguments) => verbs::check::run(&arguments),
        Verb::Data(arguments) => verbs::data::run(&arguments),
        Verb::Bench(arguments) => verbs::bench::run(&arguments),
        Verb::Node(arguments) => verbs::node::run(&arguments),
        Verb::ExpressionWorker => verbs::expression_worker::run(),
        Verb::Fixture(arguments) => verbs::fixture::run(arguments),
    };
    let exit = ended.unwrap_or_else(|error| {
        eprintln!("outlast: {error:#}");
        Exit::of_error(&error)
    });
    exit.into()
}
