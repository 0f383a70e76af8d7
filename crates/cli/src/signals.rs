//! Being told to end: from the keyboard, by another process, or because the terminal is closed.

use std::fs;
use std::future::pending;
use std::io::{Write as _, stderr};

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
        hung_up = hung_up() => hung_up,
    }
}

/// Waits until the terminal is closed, unless that is to be outlived: `nohup` lets it be ignored.
async fn hung_up() -> anyhow::Result<Exit> {
    let hangup = SignalKind::hangup();
    if is_ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default(), hangup) {
        return pending().await;
    }
    signal(hangup).context("cannot listen for the end of the terminal")?.recv().await;
    Ok(Exit::HungUp)
}

/// Whether a process ignores a signal, by what Linux says about it. Where nothing is said it does not.
fn is_ignored(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signals are counted from one.
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// A last word on stderr, which may be a terminal that is closed: then nobody is there to hear it.
pub(crate) fn last_word(said: &str) {
    let _ = writeln!(stderr(), "{said}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_a_process_says_what_it_ignores() {
        let status = "Name:\toutlast\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(status, SignalKind::hangup()));
        assert!(is_ignored(status, SignalKind::pipe()));
        assert!(!is_ignored(status, SignalKind::terminate()));
        assert!(!is_ignored("", SignalKind::hangup()));
    }
}
