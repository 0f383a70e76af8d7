//! The store: what outlives the journal's segments, in one redb file.
//!
//! A snapshot of every subject that the engine keeps, and the histories of executions. It is written
//! at checkpoints only, each of them atomic, and says up to which journal position it is complete;
//! the journal from there on is the rest. What the bytes mean is no business of the store.
//!
//! Invariants:
//! - The mark never goes back.
//! - A file that is missing or damaged is reported, never made anew.

mod check;
mod checkpoint;
mod error;
mod overlay;
mod read;
mod tables;
#[cfg(test)]
mod tests;

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use redb::{Builder, Database, ReadTransaction, ReadableDatabase, WriteTransaction};

pub(crate) use check::check;
pub use checkpoint::{Checkpoint, Lines};
pub use error::StoreError;
pub use read::{Census, Subjects};

use crate::journal::segment::sync_directory;
use error::Failure;
use tables::{CopyTables, EveryTable};

/// Memory for pages. The store is read at start and written at checkpoints, so little is enough.
const CACHE_BYTES: usize = 2 * 1024 * 1024;

/// An open store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// Nothing only after an error that even opening it again did not cure.
    database: RwLock<Option<Database>>,
}

impl Store {
    /// Makes a new store. It gets its name only once it is whole, so a crash leaves none.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        if path.exists() {
            return Err(StoreError::Exists { path: path.to_owned() });
        }
        let unfinished = path.with_extension("tmp");
        let failed = |source| StoreError::Io { path: path.to_owned(), source };
        if unfinished.exists() {
            fs::remove_file(&unfinished).map_err(failed)?;
        }
        new_database(&unfinished).map_err(|failure| failure.at(&unfinished))?;
        fs::rename(&unfinished, path)
            .and_then(|()| sync_directory(path.parent().unwrap_or(Path::new("."))))
            .map_err(failed)?;
        Self::open(path)
    }

    /// Opens a store that must be there. After a crash it repairs itself in an instant.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let database = guarded(|| open_database(path)).map_err(|failure| failure.at(path))?;
        Ok(Self { path: path.to_owned(), database: RwLock::new(Some(database)) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores a checkpoint, durably: all of it, or on any error nothing.
    pub fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        self.with(|database| {
            let transaction = begin(database)?;
            checkpoint::write(&transaction, checkpoint)?;
            transaction.commit()?;
            Ok(())
        })
    }

    /// Copies the store as it is at this moment into a new file, while it goes on being used.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        self.with(|from| {
            let database = builder().create(path)?;
            let transaction = begin(&database)?;
            CopyTables { from: from.begin_read()?, to: &transaction }.every_table()?;
            transaction.commit()?;
            Ok(())
        })
    }

    /// Gives space that is no longer used back to the disk.
    pub fn compact(&self) -> Result<(), StoreError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let outcome = match database.as_mut() {
            Some(database) => database.compact().map_err(Failure::from),
            None => Err(Failure::Database(redb::Error::PreviousIo)),
        };
        outcome.map(|_| ()).map_err(|failure| failure.at(&self.path))
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.with(|database| read(&database.begin_read()?))
    }

    /// Does something with the database. An error of the disk closes a redb database for good, so
    /// after one it is opened again: a disk that was full is so no longer than it is full.
    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Failure>) -> Result<T, StoreError> {
        let outcome = {
            let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
            match database.as_ref() {
                Some(database) => work(database),
                None => Err(Failure::Database(redb::Error::PreviousIo)),
            }
        };
        outcome.map_err(|failure| {
            if failure.needs_reopening() {
                let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
                drop(database.take());
                *database = guarded(|| open_database(&self.path)).ok();
            }
            failure.at(&self.path)
        })
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn new_database(path: &Path) -> Result<(), Failure> {
    Ok(tables::make(&builder().create(path)?)?)
}

fn open_database(path: &Path) -> Result<Database, Failure> {
    let database = builder().open(path)?;
    if tables::are_there(&database)? {
        Ok(database)
    } else {
        Err(Failure::Database(redb::Error::Corrupted("its tables are missing".to_owned())))
    }
}

/// Begins a durable transaction that leaves the file repairable in an instant.
fn begin(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// The database may panic over a file that is damaged beyond its own checks.
fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let what = "the database gave up reading it".to_owned();
        Err(Failure::Database(redb::Error::Corrupted(what)))
    })
}
