//! `outlast retry`: tries the failed task of a faulted execution again.

use serde_json::json;

use crate::client::Connection;
use crate::exit::Exit;
use crate::table;

/// Try the failed task of a faulted execution again
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast retry 0197a1b2-6c1e-7d3a-8f4b-5a6978877665
  outlast retry orders/order-17                             by the name its starter gave it")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    #[command(flatten)]
    connection: Connection,
}

/// Asks the node for it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let path = ["v1", "executions", &arguments.execution, "retry"];
    let answer = arguments.connection.talk(async |client| client.post(&path, &json!({})).await)?;
    if arguments.connection.json {
        table::print_json(&answer);
    } else {
        eprintln!("{} tries its failed task again", arguments.execution);
    }
    Ok(Exit::Completed)
}
