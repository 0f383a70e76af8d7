//! `outlast token`: the token of a node on this machine.

use std::path::PathBuf;

use anyhow::Context as _;
use outlast_node::http::rotate_token;
use serde_json::json;

use crate::client::{data_directory, token_in};
use crate::exit::Exit;

/// Print the token of a node on this machine
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast token                                   of the node with the default data directory
  OUTLAST_TOKEN=$(outlast token --data DIR) outlast ps
  outlast token --rotate                          a new one; the one before is worth nothing")]
pub(crate) struct Arguments {
    /// The node's data directory [env: OUTLAST_DATA] [default: where `outlast node` keeps it]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Make a new one, which takes the place of the one before at once
    #[arg(long)]
    rotate: bool,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the token on stdout.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let directory = data_directory(arguments.data.as_deref())?;
    // Also when it is rotated: a directory without a token is no node's.
    let mut token = token_in(&directory)?;
    if arguments.rotate {
        token = rotate_token(&directory)
            .with_context(|| format!("cannot write a token in {}", directory.display()))?;
    }
    if arguments.json {
        println!("{}", json!({ "token": token }));
    } else {
        println!("{token}");
    }
    Ok(Exit::Completed)
}
