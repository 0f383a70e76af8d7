//! A node's data directory: its lock, who it belongs to, its journal and its store.
//!
//! ```text
//! lock        held by the process that uses the directory
//! meta.json   node, incarnation, epoch
//! cluster/    what makes the node a member of a cluster (see `cluster`)
//! journal/    the segments of the journal
//! store.redb  the store
//! ```
//!
//! Opening raises the epoch durably before anything else. A directory that has been made ready once
//! must have its journal and its store; what is missing then is a loss, and is reported as one.

mod backup;
mod check;
mod lock;
mod meta;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use outlast_lineage::Epoch;

pub use backup::{backup, backup_running, restore};
pub use check::{JournalReport, Problem, Report, check};
pub use lock::{Lock, LockError};
pub use meta::{Meta, MetaError};

use crate::journal::segment::create_directory;
use crate::journal::{self, Journal, JournalError, Recovered};
use crate::store::{Store, StoreError};

/// Why a data directory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Another process has it.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The meta file.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is no directory.
    #[error("{} is a file, and a directory is wanted, new or of this node", path.display())]
    File {
        /// What was given for one.
        path: PathBuf,
    },
    /// There is something in it, but not what makes a data directory.
    #[error(
        "{} is neither empty nor a data directory (it has no meta.json); use another one, or \
         restore a backup into an empty one",
        directory.display()
    )]
    NotOurs {
        /// The directory.
        directory: PathBuf,
    },
    /// There is no data directory.
    #[error("{} is not a data directory (it has no meta.json)", directory.display())]
    Absent {
        /// The directory.
        directory: PathBuf,
    },
    /// A backup or a restored directory would be written over something.
    #[error("{} is not empty; nothing was changed: name a new directory", directory.display())]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
    },
    /// The data is damaged, so there is nothing to be gained from copying it.
    #[error("{} is damaged: {problem}", directory.display())]
    Damaged {
        /// The directory.
        directory: PathBuf,
        /// The first problem.
        problem: String,
    },
    /// A backup is not what was written.
    #[error("the backup in {} is not whole: {why}; use another one", directory.display())]
    BadBackup {
        /// The backup.
        directory: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

impl DataError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// A data directory that is open.
#[derive(Debug)]
pub struct Opened {
    /// Who it belongs to, in the epoch that has just begun.
    pub meta: Meta,
    /// The store.
    pub store: Store,
    /// The journal.
    pub journal: Journal,
    /// What is in the journal. Records up to the store's mark are in the store as well.
    pub recovered: Recovered,
    /// Held as long as the directory is in use.
    pub lock: Lock,
}

/// Opens a data directory, or makes a new one, and begins a new epoch.
///
/// The random number names the node if the directory is new. The incarnation, the checkpoint and
/// whether the journal may be new are filled into the options here.
pub fn open(
    directory: &Path,
    random: u64,
    options: journal::Options,
    on_event: impl FnMut(journal::Event) + Send + 'static,
) -> Result<Opened, DataError> {
    let (lock, mut meta) = claim_or_make(directory, random)?;
    meta.epoch = Epoch(meta.epoch.0 + 1);
    meta.write(directory)?;
    let store = open_store(directory, &meta)?;
    let options = journal::Options {
        incarnation: meta.incarnation,
        checkpoint: store.mark()?,
        may_be_new: !meta.ready,
        ..options
    };
    let (journal, recovered) = Journal::open(&journal_path(directory), options, on_event)?;
    if !meta.ready {
        meta.ready = true;
        meta.write(directory)?;
    }
    Ok(Opened { meta, store, journal, recovered, lock })
}

/// Locks a data directory, or makes a new one, without opening what is in it: for those who must know
/// whose it is before the node starts. The random number names the node if the directory is new.
pub fn prepare(directory: &Path, random: u64) -> Result<(Lock, Meta), DataError> {
    let (lock, meta) = claim_or_make(directory, random)?;
    // Who the node is must not change after somebody was told.
    meta.write(directory)?;
    Ok((lock, meta))
}

fn claim_or_make(directory: &Path, random: u64) -> Result<(Lock, Meta), DataError> {
    if directory.is_file() {
        return Err(DataError::File { path: directory.to_owned() });
    }
    create_directory(directory).map_err(DataError::io("create", directory))?;
    let lock = Lock::acquire(directory)?;
    match Meta::read(directory)? {
        Some(meta) => Ok((lock, meta)),
        None if holds_nothing(directory)? => Ok((lock, Meta::new(random))),
        None => Err(DataError::NotOurs { directory: directory.to_owned() }),
    }
}

/// Gives space that the store no longer uses back to the disk, while the node is stopped. Returns
/// the bytes of the store before and after.
pub fn compact(directory: &Path) -> Result<(u64, u64), DataError> {
    let (_lock, _) = claim(directory)?;
    let path = store_path(directory);
    let size = || fs::metadata(&path).map(|file| file.len()).map_err(DataError::io("read", &path));
    let store = Store::open(&path)?;
    let before = size()?;
    store.compact()?;
    drop(store);
    Ok((before, size()?))
}

/// Locks a directory that must be a data directory.
fn claim(directory: &Path) -> Result<(Lock, Meta), DataError> {
    let absent = || DataError::Absent { directory: directory.to_owned() };
    // Without this, locking would leave a lock file wherever it is told to look.
    Meta::read(directory)?.ok_or_else(absent)?;
    let lock = Lock::acquire(directory)?;
    let meta = Meta::read(directory)?.ok_or_else(absent)?;
    Ok((lock, meta))
}

fn open_store(directory: &Path, meta: &Meta) -> Result<Store, StoreError> {
    let path = store_path(directory);
    if meta.ready || path.exists() { Store::open(&path) } else { Store::create(&path) }
}

fn store_path(directory: &Path) -> PathBuf {
    directory.join("store.redb")
}

fn journal_path(directory: &Path) -> PathBuf {
    directory.join("journal")
}

/// Whether a directory holds nothing but our lock, and what a crash left of writing the first
/// meta file.
fn holds_nothing(directory: &Path) -> Result<bool, DataError> {
    let entries = fs::read_dir(directory).map_err(DataError::io("read", directory))?;
    for entry in entries {
        let name = entry.map_err(DataError::io("read", directory))?.file_name();
        if name != lock::LOCK_FILE && name != meta::UNFINISHED_FILE {
            return Ok(false);
        }
    }
    Ok(true)
}
