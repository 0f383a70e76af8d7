//! `outlast delete`: forgets an execution that has ended.

use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::client::{Client, Connection, Refused};
use crate::exit::Exit;
use crate::table;

/// For how long it is asked again where the node says that this will help: its nodes agree on an end that was just
/// told, or choose who leads it, in less.
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// How long to wait before it is asked again.
const PAUSE: Duration = Duration::from_millis(100);

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
    let answer = arguments.connection.talk(async |client| delete(&client, arguments).await)?;
    if arguments.connection.json {
        table::print_json(&answer);
    } else {
        tell!("{} is forgotten; its id and name stay taken for a while", arguments.execution);
    }
    Ok(Exit::Completed)
}

/// Asks again for a moment if that may help: whoever was just told of an end deletes it in the same breath.
async fn delete(client: &Client, arguments: &Arguments) -> anyhow::Result<Json> {
    let path = ["v1", "executions", &arguments.execution];
    let query: &[_] = if arguments.force { &[("force", "true".to_owned())] } else { &[] };
    let deadline = Instant::now() + AGAIN_MAX;
    loop {
        match client.delete(&path, query).await {
            Err(error) if may_pass(&error) && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            answered => return answered,
        }
    }
}

fn may_pass(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(Refused::may_pass)
}
