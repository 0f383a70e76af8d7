//! `outlast compensate`: rolls an execution back and stops it.

use serde_json::json;

use crate::client::Connection;
use crate::exit::Exit;
use crate::table;

/// Roll an execution back: undo what it did, in reverse order, and stop it
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast compensate orders/order-17 --reason 'the customer changed their mind'")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    /// Why, for the history
    #[arg(long, default_value = "someone asked for it")]
    reason: String,
    #[command(flatten)]
    connection: Connection,
}

/// Asks the node for it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let path = ["v1", "executions", &arguments.execution, "compensate"];
    let body = json!({ "reason": arguments.reason });
    let answer = arguments.connection.talk(async |client| client.post(&path, &body).await)?;
    if arguments.connection.json {
        table::print_json(&answer);
    } else {
        eprintln!(
            "{} is being rolled back; `outlast history {0} --follow` shows how far it is",
            arguments.execution
        );
    }
    Ok(Exit::Completed)
}
