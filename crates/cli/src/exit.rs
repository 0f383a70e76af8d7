//! What the end of a command means.

use std::process::ExitCode;

use outlast_node::StartError;
use outlast_node::cluster::ClusterError;

/// What the end of a command means, as `--help` and `docs/operations.md` say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// It did what it was asked; a workflow ran to its end.
    Completed = 0,
    /// A workflow ended with an error, or the command failed.
    Faulted = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A workflow was rolled back.
    Compensated = 3,
    /// A workflow was cancelled.
    Cancelled = 4,
    /// A document was rejected.
    BadDocument = 5,
    /// The data directory cannot be used, or the disk failed.
    Storage = 6,
    /// A workflow was started and goes on, and whoever waited for its end was not told of it.
    Untold = 7,
    /// The terminal was closed; running it again goes on.
    HungUp = 129,
    /// An interrupt from the keyboard; running it again goes on.
    Interrupted = 130,
    /// A request to end; running it again goes on.
    Terminated = 143,
}

/// The codes for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done; a workflow completed
    1  a workflow faulted, or the command failed
    2  the command line makes no sense
    3  a workflow was compensated (rolled back)
    4  a workflow was cancelled
    5  a document was rejected
    6  the data directory cannot be used, or the disk failed
    7  a workflow was started and goes on, but its end could not be waited for
  130  interrupted (129: by a closed terminal, 143: told to end); run it again to go on";

/// An error whose end is not the usual one.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// What its end means.
    pub(crate) exit: Exit,
    message: String,
}

impl Failure {
    /// The command line makes no sense, and why.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// A document cannot be what it is given for, and why.
    pub(crate) fn document(message: impl Into<String>) -> Self {
        Self { exit: Exit::BadDocument, message: message.into() }
    }

    /// Somebody waited for an end in vain, and what to do.
    pub(crate) fn untold(message: impl Into<String>) -> Self {
        Self { exit: Exit::Untold, message: message.into() }
    }

    /// The disk, and why.
    pub(crate) fn storage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Storage, message: message.into() }
    }
}

impl Exit {
    /// What an error means.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            failure.exit
        } else if error.is::<StartError>()
            || error.downcast_ref::<ClusterError>().is_some_and(ClusterError::is_of_the_folder)
        {
            Self::Storage
        } else {
            Self::Faulted
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
