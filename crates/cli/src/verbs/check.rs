//! `outlast check`: every problem of a document, each with its place.

use std::io::IsTerminal;
use std::path::PathBuf;

use crate::exit::Exit;
use crate::input::Document;

/// Report all problems of workflow documents
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast check order.yaml
  outlast check flows/*.yaml --json | jq -c '.diagnostics[]'

Exit codes: 0 all are accepted (there may be warnings), 5 one is rejected, 2 one cannot be read.")]
pub(crate) struct Arguments {
    /// The documents
    #[arg(required = true, value_name = "FLOW")]
    flows: Vec<PathBuf>,
    /// Print the problems as JSON, one object per document
    #[arg(long)]
    json: bool,
}

/// Checks every document. Rejecting one is told by the exit code.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut exit = Exit::Completed;
    for flow in &arguments.flows {
        let document = Document::read(flow)?;
        if arguments.json {
            println!("{}", document.report.to_json());
        } else {
            print!("{}", document.problems(std::io::stdout().is_terminal()));
        }
        if !document.report.is_accepted() {
            exit = Exit::BadDocument;
        }
    }
    Ok(exit)
}
