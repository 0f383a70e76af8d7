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
        let rows: Vec<_> = items.into_iter().flatten().map(row).collect();
        let headings = ["EXECUTION", "EFFECT", "PLACE", "CHOICES", "REASON"];
        table::print(&table::columns(&headings, &rows));
        tell!("say what became of one with `outlast resolve EXECUTION EFFECT CHOICE`");
    }
    Ok(Exit::Completed)
}

fn row(item: &Json) -> Vec<String> {
    let choices: Vec<&str> = table::texts(item, "choices").collect();
    vec![
        table::text(item, "execution"),
        table::text(item, "effect"),
        table::text(item, "place"),
        choices.join("|"),
        table::text(item, "reason"),
    ]
}
