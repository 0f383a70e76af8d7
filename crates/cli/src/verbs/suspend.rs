//! `outlast suspend`: holds an execution until it is resumed.

use serde_json::json;

use crate::client::Connection;
use crate::exit::Exit;

/// Hold an execution; what is under way is finished, nothing new begins
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast suspend 0197a1b2-6c1e-7d3a-8f4b-5a6978877665
  outlast suspend orders/order-17                             by the name its starter gave it")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    #[command(flatten)]
    connection: Connection,
}

/// Asks the node for it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let said = "is suspended; let it go on with `outlast resume`";
    arguments.connection.change(&arguments.execution, "suspend", &json!({}), said)
}
