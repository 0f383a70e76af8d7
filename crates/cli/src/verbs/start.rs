//! `outlast start`: starts an execution on a node.

use std::path::Path;

use anyhow::Context as _;
use outlast_engine::Survival;
use outlast_expressions::value;
use outlast_lineage::Digest;
use outlast_node::Name;
use reqwest::StatusCode;
use serde_json::{Map, Value as Json, json};

use crate::client::{Client, Connection, Refused, exit_of};
use crate::exit::{Exit, Failure};
use crate::fault;
use crate::input::{self, Document};
use crate::signals;
use crate::table;
use crate::verbs::definitions::accepted;

/// Start an execution on a node
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast start order.yaml --input '{\"item\": 7}'        register the document and start it
  outlast start orders/order:1.0.0 --input @order.json  start what is registered already
  outlast start order.yaml --name order-17 --wait       wait for the end and print the output
  outlast start order.yaml --survival passive:3         three nodes of a cluster hold it

Starting again with the same --id or --name, document and input starts nothing: it is the same
execution.")]
pub(crate) struct Arguments {
    /// A document, or the name of a registered one: namespace/name, with :version, or else the latest that
    /// the asked node knows
    #[arg(value_name = "FLOW|NAME")]
    flow: String,
    /// Its input: JSON, or @FILE
    #[arg(long, allow_negative_numbers = true, value_name = "JSON|@FILE", default_value = "{}")]
    input: String,
    /// An id of your choice (a UUID): asking again with it starts nothing twice
    #[arg(long)]
    id: Option<String>,
    /// A name of your choice, unique in the namespace, without control characters
    #[arg(long)]
    name: Option<String>,
    /// How it is to survive, if not as its document says: none, passive, active or
    /// partition-tolerant, with how many replicas and votes
    #[arg(long, value_name = "WAY[:REPLICAS[:VOTES]]", value_parser = survival)]
    survival: Option<String>,
    /// Wait for the end; print the output, and end with the exit code of its condition
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What is to be started.
struct Definition {
    namespace: String,
    name: String,
    version: String,
    /// The digest of the document, if it is given: its version may mean another one.
    digest: Option<Digest>,
}

/// Starts it, and waits for its end if wanted.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if let Some(name) = &arguments.name {
        named("--name", name)?;
    }
    let input = value::to_json(&input::json("--input", &arguments.input)?);
    let document = document_at(&arguments.flow)?;
    if let Some(document) = &document
        && !accepted(document)
    {
        return Ok(Exit::BadDocument);
    }
    arguments.connection.talk(async |client| {
        let definition = match &document {
            Some(document) => register(&client, document).await?,
            None => parse_name(&arguments.flow)?,
        };
        let started = start(&client, arguments, &definition, input).await?;
        let id = table::text(&started, "execution");
        if arguments.wait {
            return wait(&client, &id, document.as_ref(), arguments.connection.json).await;
        }
        if arguments.connection.json {
            table::print_json(&started);
        } else {
            println!("{id}");
        }
        Ok(Exit::Completed)
    })
}

async fn start(
    client: &Client,
    arguments: &Arguments,
    definition: &Definition,
    input: Json,
) -> anyhow::Result<Json> {
    let mut body = Map::new();
    body.insert("namespace".to_owned(), json!(definition.namespace));
    body.insert("workflow".to_owned(), json!(definition.name));
    body.insert("version".to_owned(), json!(definition.version));
    if let Some(digest) = definition.digest {
        body.insert("digest".to_owned(), json!(digest.to_string()));
    }
    body.insert("input".to_owned(), input);
    let Arguments { id, name, survival, .. } = arguments;
    for (name, value) in [("id", id), ("name", name), ("survival", survival)] {
        if let Some(value) = value {
            body.insert(name.to_owned(), json!(value));
        }
    }
    client.post(&["v1", "executions"], &Json::Object(body)).await
}

async fn wait(
    client: &Client,
    id: &str,
    document: Option<&Document>,
    json: bool,
) -> anyhow::Result<Exit> {
    let path = ["v1", "executions", id, "wait"];
    let waiting = async {
        tell!("execution {id}");
        client.get_late(&path).await
    };
    let waited = tokio::select! {
        // First, so that whoever has read the id may interrupt.
        biased;
        told = signals::told_to_end() => {
            let exit = told?;
            signals::last_word(&format!(
                "{id} goes on; `outlast history {id} --follow` waits for its end again, and `outlast show \
                 {id}` says how far it is"
            ));
            return Ok(exit);
        }
        waited = waiting => waited,
    };
    // Whoever reads only that no node answers would start it anew, and whoever reads only the code of a
    // failure would take the workflow for faulted.
    let ended = waited.map_err(|error| {
        error.context(Failure::untold(format!(
            "{id} was started and goes on; `outlast show {id}` says how far it is, at any node of its \
             cluster"
        )))
    })?;
    Ok(tell_end(&ended, document, json))
}

/// Tells how it ended: an error at its place, if the document is at hand.
fn tell_end(ended: &Json, document: Option<&Document>, json: bool) -> Exit {
    let condition = table::text(ended, "condition");
    if json {
        table::print_json(ended);
    }
    let error = ended.get("error").filter(|error| !error.is_null());
    match (document, error.and_then(fault::read)) {
        (Some(document), Some(fault)) => {
            eprint!("{}", fault::render(&fault, document));
            tell!("{condition}");
        }
        _ if json => {}
        _ if condition == "completed" => {
            println!("{:#}", ended.get("output").unwrap_or(&Json::Null));
        }
        _ => {
            let error = error.map_or_else(String::new, |error| format!(": {error}"));
            tell!("{condition}{error}");
        }
    }
    exit_of(&condition)
}

/// A name for an execution, as an option gives it.
pub(super) fn named(option: &str, name: &str) -> Result<Name, Failure> {
    name.parse().map_err(|error| Failure::usage(format!("{option}: {error}")))
}

/// A way to survive, as it is written.
fn survival(text: &str) -> Result<String, String> {
    text.parse::<Survival>().map(|_| text.to_owned())
}

/// The document, if the text names a file.
fn document_at(flow: &str) -> anyhow::Result<Option<Document>> {
    let path = Path::new(flow);
    let looks_like_a_file = path.extension().is_some_and(|it| {
        ["yaml", "yml", "json"].iter().any(|ending| it.eq_ignore_ascii_case(ending))
    });
    if path.is_file() || looks_like_a_file { Document::read(path).map(Some) } else { Ok(None) }
}

/// Has the node know the document, which was accepted.
async fn register(client: &Client, document: &Document) -> anyhow::Result<Definition> {
    let program = document.report.program.as_ref().context("the document has problems")?;
    match client.post_document(&["v1", "definitions"], &document.text).await {
        // Its version means another text. Whoever starts it is told so, unless it was started before, as this text.
        Err(error) if is_conflict(&error) => {}
        registered => {
            registered.with_context(|| format!("cannot register {}", document.file))?;
        }
    }
    let [namespace, name, version] =
        [&program.namespace, &program.name, &program.version].map(ToOwned::to_owned);
    Ok(Definition { namespace, name, version, digest: Some(program.digest) })
}

fn is_conflict(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.status == StatusCode::CONFLICT)
}

fn parse_name(text: &str) -> Result<Definition, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "{text} is neither a file nor the name of a definition (namespace/name or \
             namespace/name:version); `outlast definitions` lists what is registered"
        ))
    };
    let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
    let (name, version) = rest.split_once(':').unwrap_or((rest, "latest"));
    if namespace.is_empty() || name.is_empty() || version.is_empty() {
        return Err(wrong());
    }
    let [namespace, name, version] = [namespace, name, version].map(ToOwned::to_owned);
    Ok(Definition { namespace, name, version, digest: None })
}
