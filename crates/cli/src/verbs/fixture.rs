//! `outlast fixture`: services that tests run against.

use std::net::SocketAddr;
use std::path::PathBuf;

use outlast_node::fixture::ledger;

use crate::exit::Exit;

/// Run a service that tests run against
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    fixture: Fixture,
}

#[derive(clap::Subcommand)]
enum Fixture {
    /// An HTTP service that records every call and can be told to misbehave
    Ledger {
        /// Where to listen; port 0 takes any free one
        #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
        listen: SocketAddr,
        /// Where to append every call
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Have every call on disk before it is answered
        #[arg(long)]
        sync: bool,
        /// Act again when a key comes again
        #[arg(long)]
        no_deduplication: bool,
    },
}

/// Runs until the process is ended.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let Fixture::Ledger { listen, file, sync, no_deduplication } = arguments.fixture;
    let options = ledger::Options { address: listen, file, sync, deduplicate: !no_deduplication };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(ledger::serve(options))?;
    Ok(Exit::Completed)
}
