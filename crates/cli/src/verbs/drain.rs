//! `outlast drain`: has a node hand over what it leads, before it is stopped.

use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::{Value as Json, json};

use crate::client::Connection;
use crate::exit::Exit;
use crate::table;

/// How often the node is asked how far it is.
const PAUSE: Duration = Duration::from_millis(100);

/// Have a node of a cluster hand over its work, so that it can be stopped
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast drain --node http://third.example:7180    then stop it, upgrade it, start it again
  outlast drain --undo                              it is not to be stopped after all

Executions that several nodes hold go on elsewhere. Those that only this node holds stay, and go on
when it is started again. A node that was started again is not drained any more.")]
pub(crate) struct Arguments {
    /// Take part as before
    #[arg(long)]
    undo: bool,
    /// How many seconds to wait until others have taken over
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    wait: u64,
    #[command(flatten)]
    connection: Connection,
}

/// Asks until the node leads nothing any more.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let body = json!({ "drain": !arguments.undo });
    let deadline = Instant::now() + Duration::from_secs(arguments.wait);
    let share = arguments.connection.talk(async |client| {
        loop {
            let share = client.post(&["v1", "cluster", "drain"], &body).await?;
            if arguments.undo || count(&share, "led") == 0 || deadline <= Instant::now() {
                return Ok(share);
            }
            tokio::time::sleep(PAUSE).await;
        }
    })?;
    if arguments.connection.json {
        table::print_json(&share);
    }
    if arguments.undo {
        tell!("the node takes part as before");
        return Ok(Exit::Completed);
    }
    match count(&share, "led") {
        0 => {
            tell!("the node leads nothing any more and can be stopped");
            match count(&share, "alone") {
                0 => {}
                1 => tell!("1 execution stays, and goes on when the node is started again"),
                alone => {
                    tell!("{alone} executions stay, and go on when the node is started again");
                }
            }
            Ok(Exit::Completed)
        }
        led => bail!(still_leads(led, count(&share, "hearing"), arguments.wait)),
    }
}

/// Why a node leads executions yet, of which some wait for answers that only this node will hear.
fn still_leads(led: u64, hearing: u64, seconds: u64) -> String {
    let (executions, them) = if led == 1 { ("execution", "it") } else { ("executions", "them") };
    let leads = format!("the node still leads {led} {executions} after {seconds} s");
    if hearing == 0 {
        return format!(
            "{leads}: the other nodes that hold {them} cannot be reached, or have not taken over yet; `outlast \
             cluster status` says who is there"
        );
    }
    let (wait, they_are) = if hearing == 1 { ("waits", "it is") } else { ("wait", "they are") };
    format!(
        "{leads}: {hearing} of those that run here {wait} for the answer to a call that must not be made twice (a \
         pivot, say), which only this node will hear; {they_are} handed over when it has come. `outlast drain --wait \
         SECONDS` waits for longer; if the node is stopped before that, a person has to find out what became of \
         such calls"
    )
}

fn count(share: &Json, name: &str) -> u64 {
    share.get(name).and_then(Json::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_execution_is_not_said_to_be_several() {
        let silent = [1, 2].map(|led| still_leads(led, 0, 30));
        assert!(silent[0].contains("leads 1 execution after 30 s: the other nodes that hold it"));
        assert!(
            silent[1].contains("leads 2 executions after 30 s: the other nodes that hold them")
        );
        let heard = still_leads(1, 1, 30);
        assert!(heard.contains("leads 1 execution after 30 s: 1 of those that run here waits for"));
        assert!(still_leads(3, 2, 30).contains("2 of those that run here wait for the answer"));
    }
}
