//! `outlast cancel`: stops an execution; what it did stays done.

use serde_json::json;

use crate::client::Connection;
use crate::exit::Exit;

/// Stop an execution; what it did stays done
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast cancel 0197a1b2-6c1e-7d3a-8f4b-5a6978877665
  outlast cancel orders/order-17                             by the name its starter gave it")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    #[command(flatten)]
    connection: Connection,
}

/// Asks the node for it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let said = "is being cancelled";
    arguments.connection.change(&arguments.execution, "cancel", &json!({}), said)
}
