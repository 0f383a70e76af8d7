//! `outlast delete`: forgets an execution that has ended.

use crate::client::Connection;
use crate::exit::Exit;
use crate::table;

/// Forget an execution that has ended, its history included
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast delete 0197a1b2-6c1e-7d3a-8f4b-5a6978877665")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    #[command(flatten)]
    connection: Connection,
}

/// Asks the node for it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let path = ["v1", "executions", &arguments.execution];
    let answer = arguments.connection.talk(async |client| client.delete(&path, &[]).await)?;
    if arguments.connection.json {
        table::print_json(&answer);
    } else {
        tell!("{} is forgotten; its id and name stay taken for a while", arguments.execution);
    }
    Ok(Exit::Completed)
}
