//! Being told to end, from the keyboard or by another process.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;

/// Waits until the process is told to end, and says what that end means.
pub(crate) async fn told_to_end() -> anyhow::Result<Exit> {
    let mut terminate =
        signal(SignalKind::terminate()).context("cannot listen for requests to end")?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("cannot listen for interrupts")?;
            Ok(Exit::Interrupted)
        }
        _ = terminate.recv() => Ok(Exit::Terminated),
    }
}
