//! `outlast expression-worker`: what a node starts to evaluate expressions under hard limits.

use crate::exit::Exit;

/// Evaluates what comes on stdin until it ends.
pub(crate) fn run() -> anyhow::Result<Exit> {
    outlast_node::workers::serve_stdin()?;
    Ok(Exit::Completed)
}
