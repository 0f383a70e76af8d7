//! `outlast parked`: what waits for a person.

use serde_json::Value as Json;

use crate::client::Connection;
use crate::exit::Exit;
use crate::table;

/// List effects whose fate could not be found out, or that could not be undone
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast parked                          everything that waits for a person
  outlast parked --namespace orders       in a namespace

Say what became of one with `outlast resolve EXECUTION EFFECT done|not-done|retry|abandon`.")]
pub(crate) struct Arguments {
    /// Only of this execution: its id, or namespace/name
    #[arg(long, value_name = "EXECUTION")]
    execution: Option<String>,
    /// Only of this namespace
    #[arg(long)]
    namespace: Option<String>,
    /// Only of the workflow with this name
    #[arg(long)]
    workflow: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Lists them.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let query: Vec<_> = [
        ("execution", &arguments.execution),
        ("namespace", &arguments.namespace),
        ("workflow", &arguments.workflow),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value.clone()?)))
    .collect();
    let answer =
        arguments.connection.talk(async |client| client.get(&["v1", "parked"], &query).await)?;
    table::tell_unanswered(table::texts(&answer, "unanswered"));
    let items = answer.get("parked").and_then(Json::as_array);
    if arguments.connection.json {
        table::print_json(&answer);
    } else if items.is_none_or(Vec::is_empty) {
        tell!("nothing is parked");
    } else {
        table::print(&describe(items.map(Vec::as_slice).unwrap_or_default()));
        tell!("say what became of one with `outlast resolve EXECUTION EFFECT CHOICE`");
    }
    Ok(Exit::Completed)
}

/// What is parked, for people: what names it in one line, and below it what it is.
fn describe(items: &[Json]) -> String {
    let names = |item: &Json| ["execution", "effect", "place"].map(|name| table::text(item, name));
    let rows: Vec<_> = items.iter().map(|item| names(item).to_vec()).collect();
    let rows = table::columns(&["EXECUTION", "EFFECT", "PLACE"], &rows);
    let mut lines: Vec<String> = rows.lines().take(1).map(str::to_owned).collect();
    for (row, item) in rows.lines().skip(1).zip(items) {
        let choices: Vec<&str> = table::texts(item, "choices").collect();
        let (reason, choices) = (table::text(item, "reason"), choices.join("|"));
        lines.extend([row.to_owned(), format!("  {}", provenance(item)), format!("  {reason}")]);
        lines.push(format!("  {choices}"));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Which call of a task it is: by what its provider knows it, whose it is, and whether its run counts.
pub(super) fn provenance(item: &Json) -> String {
    let is = |name| item.get(name).and_then(Json::as_bool) == Some(true);
    let what = if is("undo") { "undo, key" } else { "key" };
    let run = if is("lost") { ", its run does not count" } else { "" };
    let (key, node) = (table::text(item, "key"), table::text(item, "node"));
    format!("{what} {key}, made by {node}{run}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn two_calls_of_one_task_can_be_told_apart() {
        let item = |key: &str, node: &str, lost: bool| {
            json!({
                "execution": "0197a1b2-6c1e-7d3a-8f4b-5a6978877665",
                "effect": "8200831b0123456789abcdef0101", "place": "/do/0/pay", "key": key.repeat(32),
                "node": node.repeat(16), "undo": lost, "lost": lost, "reason": "why",
                "choices": ["done", "not-done", "retry", "abandon"],
            })
        };
        let shown = describe(&[item("1", "a", false), item("2", "b", true)]);
        let lines: Vec<&str> = shown.lines().map(str::trim).collect();
        assert_eq!(lines.len(), 9, "{shown}");
        assert_eq!(lines[2], format!("key {}, made by {}", "1".repeat(32), "a".repeat(16)));
        assert_eq!(&lines[3..5], ["why", "done|not-done|retry|abandon"]);
        assert!(lines[6].starts_with("undo, key 2222"), "{shown}");
        assert!(lines[6].ends_with("bbbb, its run does not count"), "{shown}");
        assert!(lines.iter().all(|line| line.len() < 98), "{shown}");
    }
}
