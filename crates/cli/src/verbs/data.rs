//! `outlast data`: what a node has on disk, checked, compacted, copied and brought back.

use std::path::{Path, PathBuf};

use outlast_node::data::{self, DataError, Report};
use outlast_node::random;
use serde_json::json;

use crate::client::Connection;
use crate::exit::{Exit, Failure};

/// Check, compact, back up or restore the data of a node
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast data check /var/lib/outlast                   read everything, change nothing
  outlast data compact /var/lib/outlast                 give unused space back to the disk
  outlast data backup /var/lib/outlast /backup/monday   copy it, with checksums
  outlast data backup --running /backup/tuesday         the same of a node that goes on meanwhile
  outlast data restore /backup/monday /var/lib/new      make a new data directory of a copy

Exit codes: 0 done, 2 bad usage, 6 the data is damaged or cannot be used.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Read every record and the whole store, and tell of all that is wrong
    #[command(after_help = "\
Examples:
  outlast data check /var/lib/outlast                   0 if all is well, 6 if not
  outlast data check /backup/monday --json              a copy is checked likewise")]
    Check {
        /// The data directory
        directory: PathBuf,
        /// Print what was found as JSON
        #[arg(long)]
        json: bool,
    },
    /// Give space that the store no longer uses back to the disk
    #[command(after_help = "\
Examples:
  outlast data compact /var/lib/outlast                 prints the size before and after")]
    Compact {
        /// The data directory
        directory: PathBuf,
        /// Print the sizes as JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy the data into a new directory
    #[command(override_usage = "outlast data backup <DIRECTORY> <TARGET> [--json]\n       \
                                outlast data backup --running <TARGET> [--node URL] [--token TOKEN] [--json]")]
    #[command(after_help = "\
Examples:
  outlast data backup /var/lib/outlast /backup/monday   the node is stopped
  outlast data backup --running /backup/tuesday         the node makes the copy, and goes on")]
    Backup {
        /// The data directory of a stopped node, and where the copy goes, which must be new or empty
        #[arg(required = true, num_args = 1..=2, value_name = "DIRECTORY TARGET")]
        paths: Vec<PathBuf>,
        /// Have a node that runs on this machine make the copy; it goes on meanwhile
        #[arg(long)]
        running: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Make a new data directory of a copy; its node is a new incarnation
    #[command(after_help = "\
Examples:
  outlast data restore /backup/monday /var/lib/new      then: outlast node --data /var/lib/new")]
    Restore {
        /// The copy
        backup: PathBuf,
        /// The new data directory; must be new or empty
        directory: PathBuf,
        /// Print who the new node is as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does one of the tasks. The node must be stopped, but for a backup that it makes itself.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match &arguments.task {
        Task::Check { directory, json } => check(directory, *json),
        Task::Compact { directory, json } => compact(directory, *json),
        Task::Backup { paths, running, connection } => match (paths.as_slice(), running) {
            ([target], true) => backup_running(target, connection),
            ([directory, target], false) => backup(directory, target, connection.json),
            (_, true) => Err(usage("with --running, name only where the copy goes")),
            (_, false) => Err(usage("name the data directory and where the copy goes")),
        },
        Task::Restore { backup, directory, json } => restore(backup, directory, *json),
    }
}

fn check(directory: &Path, json: bool) -> anyhow::Result<Exit> {
    let report = data::check(directory).map_err(told)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_report(&report);
    }
    Ok(if report.is_sound() { Exit::Completed } else { Exit::Storage })
}

fn print_report(report: &Report) {
    let journal = &report.journal;
    println!("node       {} (incarnation {})", report.node, report.incarnation);
    println!("epoch      {} (rises with every start)", report.epoch);
    println!(
        "journal    {} records in {} segments, {}",
        journal.records,
        journal.segments,
        if journal.closed { "closed in good order" } else { "not closed: the node was killed" }
    );
    if journal.torn.is_some() {
        println!("           a half-written end, which the next start cuts off");
    }
    for problem in &report.problems {
        println!("damaged    {problem}");
    }
    if report.is_sound() {
        println!("sound");
    } else {
        tell!("the data is damaged: restore a backup with `outlast data restore`");
    }
}

fn compact(directory: &Path, json: bool) -> anyhow::Result<Exit> {
    let (before, after) = data::compact(directory).map_err(told)?;
    if json {
        println!("{}", json!({ "bytesBefore": before, "bytesAfter": after }));
    } else {
        println!("the store has {after} bytes now; it had {before}");
    }
    Ok(Exit::Completed)
}

fn backup(directory: &Path, target: &Path, json: bool) -> anyhow::Result<Exit> {
    data::backup(directory, target).map_err(told)?;
    if json {
        println!("{}", json!({ "directory": directory, "backup": target }));
    } else {
        println!("{} is copied to {}", directory.display(), target.display());
    }
    Ok(Exit::Completed)
}

/// The node writes it, so the path must mean the same to it.
fn backup_running(target: &Path, connection: &Connection) -> anyhow::Result<Exit> {
    let target = std::path::absolute(target)?;
    let body = json!({ "target": target });
    let answer = connection.talk(async |client| client.post(&["v1", "backups"], &body).await)?;
    if connection.json {
        println!("{answer}");
    } else {
        println!("the node's data is copied to {}", target.display());
    }
    Ok(Exit::Completed)
}

fn usage(message: &str) -> anyhow::Error {
    Failure::usage(message).into()
}

fn restore(backup: &Path, directory: &Path, json: bool) -> anyhow::Result<Exit> {
    let random = u64::from_le_bytes(random::bytes());
    let meta = data::restore(backup, directory, random).map_err(told)?;
    if json {
        let (node, incarnation) = (meta.node.0, meta.incarnation);
        println!(
            "{}",
            json!({
                "directory": directory,
                "node": format!("{node:016x}"),
                "incarnation": format!("{incarnation:016x}"),
            })
        );
    } else {
        println!("{} is ready: start it with `outlast node --data {0}`", directory.display());
    }
    Ok(Exit::Completed)
}

/// What went wrong and what to do, with the exit code of its kind.
fn told(error: DataError) -> anyhow::Error {
    let message = format!("{:#}", anyhow::Error::from(error));
    Failure::storage(message).into()
}
