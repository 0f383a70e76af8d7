//! `outlast resolve`: says what became of parked effects, one or many.

use anyhow::ensure;
use outlast_expressions::value;
use serde_json::{Map, Value as Json, json};

use super::parked::provenance;
use crate::client::Connection;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::table;

/// The ways in which something parked can be resolved.
const RESOLUTIONS: [&str; 4] = ["done", "not-done", "retry", "abandon"];

/// Say what became of parked effects
#[derive(clap::Args)]
#[command(
    override_usage = "outlast resolve <EXECUTION> [EFFECT] <done|not-done|retry|abandon> [OPTIONS]\n       \
                      outlast resolve --all <done|not-done|retry|abandon> [OPTIONS]",
    after_help = "\
What became of it:
  done      it happened; --result is what it answered
  not-done  it did not happen; an undo is made again, with a new key
  retry     ask again
  abandon   leave it as it is

Examples:
  outlast resolve orders/order-17 done --result '{\"id\": 5}'
  outlast resolve 0197a1b2-6c1e-7d3a-8f4b-5a6978877665 not-done
  outlast resolve --all --namespace orders retry"
)]
pub(crate) struct Arguments {
    /// The execution (its id, or namespace/name), perhaps one of its effects, and what became of it
    #[arg(required = true, num_args = 1..=3, value_name = "EXECUTION EFFECT RESOLUTION")]
    words: Vec<String>,
    /// What it answered, if it is done: JSON, or @FILE
    #[arg(long, allow_negative_numbers = true, value_name = "JSON|@FILE")]
    result: Option<String>,
    /// Everything that is parked and fits --namespace and --workflow
    #[arg(long)]
    all: bool,
    /// Only of this namespace
    #[arg(long, requires = "all")]
    namespace: Option<String>,
    /// Only of the workflow with this name
    #[arg(long, requires = "all")]
    workflow: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Tells the node.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let body = request(arguments)?;
    let answer = arguments
        .connection
        .talk(async |client| client.post(&["v1", "parked", "resolve"], &body).await)?;
    let count = answer.get("resolved").and_then(Json::as_u64).unwrap_or(0);
    if arguments.connection.json {
        table::print_json(&answer);
    } else if 0 < count {
        println!("{count} resolved");
        let items = answer.get("items").and_then(Json::as_array);
        for item in items.into_iter().flatten() {
            println!("  {} of {}", table::text(item, "place"), table::text(item, "execution"));
            println!("  {}", provenance(item));
        }
    }
    ensure!(0 < count, "nothing that is parked fits; `outlast parked` lists what there is");
    Ok(Exit::Completed)
}

/// How it is said what became of something parked.
pub(super) fn command(parked: &Json) -> String {
    let text = |name| table::text(parked, name);
    let choices: Vec<&str> = table::texts(parked, "choices").collect();
    format!("outlast resolve {} {} {}", text("execution"), text("effect"), choices.join("|"))
}

fn request(arguments: &Arguments) -> anyhow::Result<Json> {
    let mut body = Map::new();
    let words: Vec<_> = arguments.words.iter().map(String::as_str).collect();
    let resolution = match (words.as_slice(), arguments.all) {
        ([resolution], true) => resolution,
        ([execution, resolution], false) => {
            body.insert("execution".to_owned(), json!(execution));
            resolution
        }
        ([execution, effect, resolution], false) => {
            body.insert("execution".to_owned(), json!(execution));
            body.insert("effect".to_owned(), json!(effect));
            resolution
        }
        ([_], false) => return Err(usage("name the execution, or give --all")),
        _ => return Err(usage("--all takes a resolution and filters only, no execution")),
    };
    if !RESOLUTIONS.contains(resolution) {
        let said = format!("{resolution}: expected one of {}", RESOLUTIONS.join(", "));
        return Err(usage(&said));
    }
    body.insert("resolution".to_owned(), json!(resolution));
    for (name, value) in [("namespace", &arguments.namespace), ("workflow", &arguments.workflow)] {
        if let Some(value) = value {
            body.insert(name.to_owned(), json!(value));
        }
    }
    match &arguments.result {
        Some(_) if *resolution != "done" => return Err(usage("--result goes with `done` only")),
        Some(result) => {
            body.insert("result".to_owned(), value::to_json(&input::json("--result", result)?));
        }
        None => {}
    }
    Ok(Json::Object(body))
}

fn usage(message: &str) -> anyhow::Error {
    Failure::usage(message).into()
}
