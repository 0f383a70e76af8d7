//! `outlast resume`: lets a suspended execution go on.

use serde_json::json;

use crate::client::Connection;
use crate::exit::Exit;

/// Let a suspended execution go on
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast resume 0197a1b2-6c1e-7d3a-8f4b-5a6978877665
  outlast resume orders/order-17                             by the name its starter gave it")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    #[command(flatten)]
    connection: Connection,
}

/// Asks the node for it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let said = "goes on";
    arguments.connection.change(&arguments.execution, "resume", &json!({}), said)
}
