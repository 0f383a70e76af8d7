//! `outlast delete`: forgets an execution that has ended.

use crate::client::Connection;
use crate::exit::Exit;
use crate::table;

/// Forget an execution that has ended, its history included
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast delete 0197a1b2-6c1e-7d3a-8f4b-5a6978877665

With --force also one whose end is lost with nodes that were removed, if none of those that are left
has it: `outlast show` says so. What was done stays done; look at `outlast history` at each of its
nodes first, for that is forgotten, too.")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    /// Also if its end is lost with nodes that were removed
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Asks the node for it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let path = ["v1", "executions", &arguments.execution];
    let query: &[_] = if arguments.force { &[("force", "true".to_owned())] } else { &[] };
    let answer = arguments.connection.talk(async |client| client.delete(&path, query).await)?;
    if arguments.connection.json {
        table::print_json(&answer);
    } else {
        tell!("{} is forgotten; its id and name stay taken for a while", arguments.execution);
    }
    Ok(Exit::Completed)
}
