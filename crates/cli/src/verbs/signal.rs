//! `outlast signal`: gives an event to one execution.

use outlast_expressions::value;
use serde_json::json;

use crate::client::Connection;
use crate::exit::Exit;
use crate::input;
use crate::table;

/// Give an event to one execution that listens
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast signal orders/order-17 --type com.example.paid.v1
  outlast signal orders/order-17 --type com.example.paid.v1 --data '{\"amount\": 12}'
  outlast signal orders/order-17 --type com.example.paid.v1 --data @paid.json")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    /// The type of the event
    #[arg(long = "type", value_name = "TYPE")]
    kind: String,
    /// Its data: JSON, or @FILE
    #[arg(long, allow_negative_numbers = true, value_name = "JSON|@FILE")]
    data: Option<String>,
    /// Where it comes from
    #[arg(long, default_value = "urn:outlast:cli", value_name = "URI")]
    source: String,
    #[command(flatten)]
    connection: Connection,
}

/// Gives the event.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut event = json!({ "type": arguments.kind, "source": arguments.source });
    if let Some(data) = &arguments.data {
        event["data"] = value::to_json(&input::json("--data", data)?);
    }
    let path = ["v1", "executions", &arguments.execution, "signal"];
    let answer = arguments.connection.talk(async |client| client.post(&path, &event).await)?;
    if arguments.connection.json {
        table::print_json(&answer);
    } else {
        tell!("{} is told of {}", arguments.execution, arguments.kind);
    }
    Ok(Exit::Completed)
}
