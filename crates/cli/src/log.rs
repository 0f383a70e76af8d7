//! Logs, on stderr: what the program says about itself, not about the work.

use tracing_subscriber::EnvFilter;

/// Sends logs to stderr from a level on; `OUTLAST_LOG` says more precisely which.
pub(crate) fn start(level: &str) {
    let filter = EnvFilter::try_from_env("OUTLAST_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call in one process would only say the same.
    let _ = logs.try_init();
}
