//! What can go wrong with the store, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::tables::Broken;

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// What is on disk is not what was written.
    #[error(
        "{} is damaged ({what}); nothing was changed: restore a backup (`outlast data restore`)",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The file should be there and is not.
    #[error("{} is missing; restore a backup (`outlast data restore`)", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// There is one already.
    #[error("{} exists already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another process has it.
    #[error("{} is in use by another process; stop that first", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Written by a release whose format this one does not read.
    #[error("{} has format {format}, which this release does not read", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format found.
        format: u8,
    },
    /// The disk is full; nothing of the checkpoint was stored.
    #[error("no space left to write {}; free some and try again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The mark of a checkpoint lies before the one that is stored.
    #[error("a checkpoint at record {mark} cannot follow one at record {stored}")]
    Backwards {
        /// The mark that was given.
        mark: u64,
        /// The one that is stored.
        stored: u64,
    },
    /// The disk or the operating system refused.
    #[error("cannot read or write {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// The database refused.
    #[error("the store in {} failed", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: Box<redb::Error>,
    },
}

/// A failure inside a transaction.
#[derive(Debug)]
pub(super) enum Failure {
    Database(redb::Error),
    Broken(Broken),
    Backwards { mark: u64, stored: u64 },
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl Failure {
    /// Whether the database must be opened anew before it can be used again.
    pub(super) fn needs_reopening(&self) -> bool {
        matches!(self, Self::Database(redb::Error::Io(_) | redb::Error::PreviousIo))
    }

    /// The same, with its place and what to do.
    pub(super) fn at(self, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::Broken(Broken { table }) => {
                let what = format!("a value in table `{table}` has a wrong checksum");
                StoreError::Corrupt { path, what }
            }
            Self::Backwards { mark, stored } => StoreError::Backwards { mark, stored },
            Self::Database(error) => of_database(error, path),
        }
    }
}

fn of_database(error: redb::Error, path: PathBuf) -> StoreError {
    use io::ErrorKind;
    match error {
        redb::Error::Corrupted(what) => StoreError::Corrupt { path, what },
        redb::Error::TableDoesNotExist(table) => {
            StoreError::Corrupt { path, what: format!("table `{table}` is missing") }
        }
        redb::Error::DatabaseAlreadyOpen => StoreError::InUse { path },
        redb::Error::UpgradeRequired(format) => StoreError::Format { path, format },
        redb::Error::Io(source) => match source.kind() {
            ErrorKind::NotFound => StoreError::Missing { path },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full { path },
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
                StoreError::Corrupt { path, what: source.to_string() }
            }
            _ => StoreError::Io { path, source },
        },
        other => StoreError::Database { path, source: Box::new(other) },
    }
}
