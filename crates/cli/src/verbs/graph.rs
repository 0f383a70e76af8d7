//! `outlast graph`: an execution drawn with the state of each task.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::client::Connection;
use crate::exit::Exit;
use crate::table;

/// Draw an execution with the state of each task
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast graph orders/order-17 --output order.svg       a picture for a browser
  outlast graph orders/order-17 --format mermaid         text for a page that draws Mermaid")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    /// What to draw
    #[arg(long, value_enum, default_value_t = Format::Svg)]
    format: Format,
    /// Where to write it [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A picture that needs nothing else
    Svg,
    /// A Mermaid flowchart
    Mermaid,
}

/// Draws it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let format = match arguments.format {
        Format::Svg => "svg",
        Format::Mermaid => "mermaid",
    };
    let path = ["v1", "executions", &arguments.execution, "graph"];
    let query = [("format", format.to_owned())];
    let drawing = arguments.connection.talk(async |client| client.get_text(&path, &query).await)?;
    match &arguments.output {
        _ if arguments.connection.json => {
            println!("{}", serde_json::json!({ "format": format, "drawing": drawing }));
        }
        None => table::print(&drawing),
        Some(file) => {
            std::fs::write(file, drawing)
                .with_context(|| format!("cannot write {}", file.display()))?;
            tell!("drawn in {}", file.display());
        }
    }
    Ok(Exit::Completed)
}
