//! `outlast ps`: the executions of a node.

use std::collections::BTreeSet;
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
  outlast ps --namespace orders --limit 20      twenty of a namespace, by their ids
  outlast ps --holder 0123456789abcdef          those that a member of the cluster holds with others
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
    /// Only those that this member of the cluster holds together with others
    #[arg(long, value_name = "NODE")]
    holder: Option<String>,
    /// At most this many: those with the lowest ids
    #[arg(long, value_name = "COUNT", value_parser = count)]
    limit: Option<NonZeroUsize>,
    #[command(flatten)]
    connection: Connection,
}

/// Lists them all, page by page.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let (mut executions, unanswered) =
        arguments.connection.talk(async |client| list(&client, arguments).await)?;
    // Nodes list by id, and only an id that a node made itself says when: one that a person gave, or
    // that stands for a name, may be any.
    executions.sort_by_cached_key(|execution| table::text(execution, "started"));
    table::tell_unanswered(unanswered.iter().map(String::as_str));
    if arguments.connection.json {
        let mut listed = json!({ "executions": executions });
        if !unanswered.is_empty() {
            listed["unanswered"] = json!(unanswered);
        }
        table::print_json(&listed);
    } else if executions.is_empty() {
        tell!("{}", nothing_found(arguments));
    } else {
        // A node that is alone need not say who holds what.
        let several = executions.iter().any(|execution| execution.get("nodes").is_some());
        let rows: Vec<_> = executions.iter().map(|execution| row(execution, several)).collect();
        let mut headings = vec!["EXECUTION", "WORKFLOW", "CONDITION", "STARTED", "NAME"];
        if several {
            headings.push("NODES");
        }
        table::print(&table::columns(&headings, &rows));
    }
    Ok(Exit::Completed)
}

fn count(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "expected a whole number from 1 on")
}

/// Whoever asked for some of them is not told that there are none.
const fn nothing_found(arguments: &Arguments) -> &'static str {
    match arguments {
        Arguments { status: None, namespace: None, name: None, holder: None, .. } => {
            "no executions; start one with `outlast start FLOW`"
        }
        _ => "no such executions; `outlast ps` lists all",
    }
}

/// The executions, and the nodes that did not answer.
async fn list(
    client: &Client,
    arguments: &Arguments,
) -> anyhow::Result<(Vec<Json>, BTreeSet<String>)> {
    let mut executions: Vec<Json> = Vec::new();
    let mut unanswered = BTreeSet::new();
    let mut after: Option<String> = None;
    loop {
        let left = arguments.limit.map(|limit| limit.get() - executions.len());
        let query: Vec<_> = [
            ("condition", arguments.status.clone()),
            ("namespace", arguments.namespace.clone()),
            ("workflow", arguments.name.clone()),
            ("holder", arguments.holder.clone()),
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
        unanswered.extend(table::texts(&page, "unanswered").map(ToOwned::to_owned));
        after = page.get("next").and_then(Json::as_str).map(ToOwned::to_owned);
        let enough = arguments.limit.is_some_and(|limit| limit.get() <= executions.len());
        if enough || after.is_none() {
            return Ok((executions, unanswered));
        }
    }
}

fn row(execution: &Json, several: bool) -> Vec<String> {
    let parked = execution.get("parked").and_then(Json::as_bool) == Some(true);
    let condition = table::text(execution, "condition");
    let workflow = format!(
        "{}/{}:{}",
        table::text(execution, "namespace"),
        table::text(execution, "workflow"),
        table::text(execution, "version")
    );
    let nodes = several.then(|| nodes(execution, ","));
    let cells = [
        table::text(execution, "execution"),
        workflow,
        match (parked, execution.get("phase").and_then(Json::as_str)) {
            (true, _) => format!("{condition}, parked"),
            (_, Some(phase)) if execution.get("stalled").is_some() => {
                format!("{condition}, {phase}")
            }
            _ => condition,
        },
        table::seconds(execution, "started"),
        table::text(execution, "name"),
    ];
    cells.into_iter().chain(nodes).collect()
}

/// The nodes that hold it, the one that leads it first.
pub(super) fn nodes(execution: &Json, separator: &str) -> String {
    let leader = execution.get("leader").and_then(Json::as_str);
    let others = table::texts(execution, "nodes").filter(|node| Some(*node) != leader);
    let all: Vec<_> = leader.into_iter().chain(others).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(separator) }
}
