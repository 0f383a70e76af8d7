//! Logs, on stderr: what the program says about itself, not about the work.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::EnvFilter;

/// Sends logs to stderr from a level on; `OUTLAST_LOG` says more precisely which. Colours are for
/// terminals: in a file they would be noise between the words that people search for.
pub(crate) fn start(level: &str) {
    let filter = EnvFilter::try_from_env("OUTLAST_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let logs = tracing_subscriber::fmt().with_env_filter(filter);
    let logs = logs.with_ansi(stderr().is_terminal()).with_writer(stderr);
    // A terminal that was closed takes no logs, nor that they could not be written.
    let logs = logs.log_internal_errors(false);
    // A second call in one process would only say the same.
    let _ = logs.try_init();
}
