//! `outlast compensate`: rolls an execution back and stops it.

use serde_json::json;

use crate::client::Connection;
use crate::exit::Exit;

/// Roll an execution back: undo what it did, in reverse order, and stop it
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast compensate orders/order-17 --reason 'the customer changed their mind'

What cannot be undone stays: a pivot that is done, and a call without a class, which counts as
one. What was done before it is undone all the same, and the execution is `compensated` then.
Look before you roll back: `outlast history EXECUTION` says which tasks have completed, and
`outlast graph EXECUTION` draws them.")]
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
    let Arguments { execution, reason, connection } = arguments;
    let body = json!({ "reason": reason });
    let said = format!(
        "is being rolled back, but for what cannot be undone (a pivot that is done stays); `outlast history \
         {execution} --follow` shows how far it is"
    );
    connection.change(execution, "compensate", &body, &said)
}
