//! The `outlast` binary: one file per verb, and the table that finds it.
//!
//! Data goes to stdout, talk to stderr. What a verb's end means is in `exit`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "talking to people is its business")]

#[macro_use]
mod talk;

mod client;
mod directories;
mod exit;
mod fault;
mod input;
mod joining;
mod log;
mod output;
mod patience;
mod place;
mod services;
mod signals;
mod table;
mod verbs;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

use exit::Exit;

/// Steps make and drop thousands of small values, many of which outlive the step: with the C library's
/// allocator that is a quarter of the time of a busy node. Huge pages would cost a third more memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

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
    Node(Box<verbs::node::Arguments>),
    Demo(verbs::demo::Arguments),
    Cluster(verbs::cluster::Arguments),
    Start(verbs::start::Arguments),
    Ps(verbs::ps::Arguments),
    Show(verbs::show::Arguments),
    History(verbs::history::Arguments),
    Graph(verbs::graph::Arguments),
    Cancel(verbs::cancel::Arguments),
    Compensate(verbs::compensate::Arguments),
    Suspend(verbs::suspend::Arguments),
    Drain(verbs::drain::Arguments),
    Resume(verbs::resume::Arguments),
    Signal(verbs::signal::Arguments),
    Retry(verbs::retry::Arguments),
    Delete(verbs::delete::Arguments),
    Definitions(verbs::definitions::Arguments),
    Parked(verbs::parked::Arguments),
    Resolve(verbs::resolve::Arguments),
    Token(verbs::token::Arguments),
    Data(verbs::data::Arguments),
    Bench(verbs::bench::Arguments),
    Simulate(Box<verbs::simulate::Arguments>),
    Experiment(verbs::experiment::Arguments),
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
        Verb::Node(arguments) => verbs::node::run(&arguments),
        Verb::Demo(arguments) => verbs::demo::run(&arguments),
        Verb::Cluster(arguments) => verbs::cluster::run(&arguments),
        Verb::Start(arguments) => verbs::start::run(&arguments),
        Verb::Ps(arguments) => verbs::ps::run(&arguments),
        Verb::Show(arguments) => verbs::show::run(&arguments),
        Verb::History(arguments) => verbs::history::run(&arguments),
        Verb::Graph(arguments) => verbs::graph::run(&arguments),
        Verb::Cancel(arguments) => verbs::cancel::run(&arguments),
        Verb::Compensate(arguments) => verbs::compensate::run(&arguments),
        Verb::Suspend(arguments) => verbs::suspend::run(&arguments),
        Verb::Drain(arguments) => verbs::drain::run(&arguments),
        Verb::Resume(arguments) => verbs::resume::run(&arguments),
        Verb::Signal(arguments) => verbs::signal::run(&arguments),
        Verb::Retry(arguments) => verbs::retry::run(&arguments),
        Verb::Delete(arguments) => verbs::delete::run(&arguments),
        Verb::Definitions(arguments) => verbs::definitions::run(&arguments),
        Verb::Parked(arguments) => verbs::parked::run(&arguments),
        Verb::Resolve(arguments) => verbs::resolve::run(&arguments),
        Verb::Token(arguments) => verbs::token::run(&arguments),
        Verb::Data(arguments) => verbs::data::run(&arguments),
        Verb::Bench(arguments) => verbs::bench::run(&arguments),
        Verb::Simulate(arguments) => verbs::simulate::run(&arguments),
        Verb::Experiment(arguments) => verbs::experiment::run(&arguments),
        Verb::ExpressionWorker => verbs::expression_worker::run(),
        Verb::Fixture(arguments) => verbs::fixture::run(arguments),
    };
    let exit = ended.unwrap_or_else(|error| {
        tell!("outlast: {error:#}");
        Exit::of_error(&error)
    });
    exit.into()
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use super::*;

    /// Longer lines are broken, wherever that is, and columns with them.
    const WIDTH_MAX: usize = 100;

    fn too_wide(command: &Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let wide = help.lines().filter(|line| WIDTH_MAX < line.chars().count()).map(str::to_owned);
        wide.chain(command.get_subcommands().flat_map(too_wide)).collect()
    }

    #[test]
    fn examples_fit_the_width_of_the_help() {
        assert_eq!(too_wide(&Arguments::command()), Vec::<String>::new());
    }

    /// Every command that people are shown, with the words that lead to it.
    fn shown(command: &Command, words: &str) -> Vec<(String, Command)> {
        let named = format!("{words}{}", command.get_name());
        let subcommands = command.get_subcommands().filter(|it| !it.is_hide_set());
        let below: Vec<_> = subcommands.flat_map(|it| shown(it, &format!("{named} "))).collect();
        [(named, command.clone())].into_iter().chain(below).collect()
    }

    /// The lines of a help that begin with the name of the binary.
    fn examples(command: &Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().map(str::trim).filter(|line| line.starts_with("outlast "));
        lines.map(str::to_owned).collect()
    }

    /// The words of the first command of a line, without what is said about it.
    fn words_of(line: &str) -> Vec<String> {
        let line = ["  ", " | ", " > ", " && "]
            .iter()
            .fold(line, |line, end| line.split_once(end).map_or(line, |(before, _)| before));
        // Between quotes every second part is one word, whatever is in it.
        let parts = line.split('\'').enumerate().flat_map(|(number, part)| match number % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        parts.collect()
    }

    #[test]
    fn every_command_has_examples_of_itself() {
        let without = shown(&Arguments::command(), "").into_iter().filter(|(named, command)| {
            let own = |line: &String| line.starts_with(named.as_str());
            named != "outlast" && !examples(command).iter().any(own)
        });
        let without: Vec<String> = without.map(|(named, _)| named).collect();
        assert_eq!(without, Vec::<String>::new());
    }

    #[test]
    fn examples_are_taken() {
        for (named, command) in shown(&Arguments::command(), "") {
            for line in examples(&command) {
                let taken = Arguments::try_parse_from(words_of(&line)).map(drop);
                assert!(taken.is_ok(), "{named}: {line}: {}", taken.unwrap_err());
            }
        }
    }
}
