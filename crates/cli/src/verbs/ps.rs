//! `outlast ps`: the executions of a node.

use std::num::NonZeroUsize;

use serde_json::{Value as Json, json};

use crate::client::{Client, Connection};
use crate::exit::Exit;
use crate::table;

/// List executions, oldest first
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast ps                                    every execution the node knows
  outlast ps --status faulted                   those that ended with an error
  outlast ps --namespace orders --limit 20      the first twenty of a namespace
  outlast ps --json | jq -r '.executions[].execution'")]
pub(crate) struct Arguments {
    /// Only those in this condition: running, waiting, suspended, compensating, completed, faulted,
    /// cancelled or compensated
    #[arg(long, value_name = "CONDITION")]
    status: Option<String>,
    /// Only those of this namespace
    #[arg(long)]
    namespace: Option<String>,
    /// Only those of the workflow with this name
    #[arg(long, value_name = "WORKFLOW")]
    name: Option<String>,
    /// At most this many
    #[arg(long, value_name = "COUNT")]
    limit: Option<NonZeroUsize>,
    #[command(flatten)]
    connection: Connection,
}

/// Lists them all, page by page.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let executions = arguments.connection.talk(async |client| list(&client, arguments).await)?;
    if arguments.connection.json {
        table::print_json(&json!({ "executions": executions }));
    } else if executions.is_empty() {
        eprintln!("no executions; start one with `outlast start FLOW`");
    } else {
        let rows: Vec<_> = executions.iter().map(row).collect();
        let headings = ["EXECUTION", "WORKFLOW", "CONDITION", "STARTED", "NAME"];
        table::print(&table::columns(&headings, &rows));
    }
    Ok(Exit::Completed)
}

async fn list(client: &Client, arguments: &Arguments) -> anyhow::Result<Vec<Json>> {
    let mut executions: Vec<Json> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let left = arguments.limit.map(|limit| limit.get() - executions.len());
        let query: Vec<_> = [
            ("condition", arguments.status.clone()),
            ("namespace", arguments.namespace.clone()),
            ("workflow", arguments.name.clone()),
            ("after", after.take()),
            ("limit", left.map(|left| left.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        let mut page = client.get(&["v1", "executions"], &query).await?;
        if let Some(Json::Array(items)) = page.get_mut("executions").map(Json::take) {
            executions.extend(items);
        }
        after = page.get("next").and_then(Json::as_str).map(ToOwned::to_owned);
        let enough = arguments.limit.is_some_and(|limit| limit.get() <= executions.len());
        if enough || after.is_none() {
            return Ok(executions);
        }
    }
}

fn row(execution: &Json) -> Vec<String> {
    let parked = execution.get("parked").and_then(Json::as_bool) == Some(true);
    let condition = table::text(execution, "condition");
    let workflow = format!(
        "{}/{}:{}",
        table::text(execution, "namespace"),
        table::text(execution, "workflow"),
        table::text(execution, "version")
    );
    vec![
        table::text(execution, "execution"),
        workflow,
        if parked { format!("{condition}, parked") } else { condition },
        table::seconds(execution, "started"),
        table::text(execution, "name"),
    ]
}
