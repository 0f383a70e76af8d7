//! `outlast definitions`: the documents a node knows.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::Value as Json;

use crate::client::Connection;
use crate::exit::{Exit, Failure};
use crate::input::Document;
use crate::table;

/// List, show or register the documents a node knows
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast definitions                         list them
  outlast definitions add order.yaml          register a document
  outlast definitions get orders/order        print the newest version
  outlast definitions get orders/order:1.0.0  print a version")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(clap::Subcommand)]
enum Task {
    /// List all definitions, or those of a namespace
    #[command(after_help = "\
Examples:
  outlast definitions list --namespace orders
  outlast definitions list --json | jq -r '.definitions[].name'")]
    List {
        /// Only those of this namespace
        #[arg(long)]
        namespace: Option<String>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Register a document
    #[command(after_help = "\
Examples:
  outlast definitions add order.yaml              then: outlast start orders/order
  outlast definitions add order.yaml --json       with the digest that executions are pinned to")]
    Add {
        /// The document
        file: PathBuf,
        #[command(flatten)]
        connection: Connection,
    },
    /// Print the text of a definition
    #[command(after_help = "\
Examples:
  outlast definitions get orders/order            the newest version
  outlast definitions get orders/order:1.0.0 > order.yaml")]
    Get {
        /// namespace/name, with :version for an older one
        name: String,
        #[command(flatten)]
        connection: Connection,
    },
}

/// Does one of the tasks; lists if none is said.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match &arguments.task {
        None => list(&arguments.connection, None),
        Some(Task::List { namespace, connection }) => list(connection, namespace.as_deref()),
        Some(Task::Add { file, connection }) => {
            let document = Document::read(file)?;
            add(connection, &document)
        }
        Some(Task::Get { name, connection }) => get(connection, name),
    }
}

fn list(connection: &Connection, namespace: Option<&str>) -> anyhow::Result<Exit> {
    let query: Vec<_> = namespace.map(|name| ("namespace", name.to_owned())).into_iter().collect();
    let answer =
        connection.talk(async |client| client.get(&["v1", "definitions"], &query).await)?;
    table::tell_unanswered(table::texts(&answer, "unanswered"));
    let definitions = answer.get("definitions").and_then(Json::as_array);
    if connection.json {
        table::print_json(&answer);
    } else if definitions.is_none_or(Vec::is_empty) {
        tell!("no definitions; register one with `outlast definitions add FILE`");
    } else {
        let row = |it: &Json| {
            ["namespace", "name", "version", "digest"].map(|name| table::text(it, name)).to_vec()
        };
        let rows: Vec<_> = definitions.into_iter().flatten().map(row).collect();
        table::print(&table::columns(&["NAMESPACE", "NAME", "VERSION", "DIGEST"], &rows));
    }
    Ok(Exit::Completed)
}

/// Tells the problems of a document here, where its lines can be shown, and whether it is accepted.
pub(super) fn accepted(document: &Document) -> bool {
    if !document.report.diagnostics.is_empty() {
        eprint!("{}", document.problems(std::io::stderr().is_terminal()));
    }
    document.report.is_accepted()
}

fn add(connection: &Connection, document: &Document) -> anyhow::Result<Exit> {
    if !accepted(document) {
        return Ok(Exit::BadDocument);
    }
    let answer = connection
        .talk(async |client| client.post_document(&["v1", "definitions"], &document.text).await)
        .with_context(|| format!("cannot register {}", document.file))?;
    if connection.json {
        table::print_json(&answer);
    } else {
        let [namespace, name, version] =
            ["namespace", "name", "version"].map(|name| table::text(&answer, name));
        println!("{namespace}/{name}:{version}");
    }
    Ok(Exit::Completed)
}

fn get(connection: &Connection, name: &str) -> anyhow::Result<Exit> {
    let (namespace, rest) = name.split_once('/').ok_or_else(|| {
        Failure::usage(format!("{name}: expected namespace/name or namespace/name:version"))
    })?;
    let (name, version) = rest.split_once(':').unwrap_or((rest, "latest"));
    let path = ["v1", "definitions", namespace, name, version];
    let answer = connection.talk(async |client| client.get(&path, &[]).await)?;
    if connection.json {
        table::print_json(&answer);
    } else {
        table::print(&table::text(&answer, "text"));
    }
    Ok(Exit::Completed)
}
