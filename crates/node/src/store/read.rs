//! Reading: snapshots as a stream, histories in pages.

use outlast_lineage::ExecutionId;
use redb::{ReadTransaction, ReadableTableMetadata};
use serde::Serialize;

use super::error::{Failure, StoreError};
use super::tables::{self, HISTORY, MARKS, SUBJECTS};
use super::{Store, checkpoint};

/// Every subject's snapshot of one moment, read while you go.
pub struct Subjects {
    range: redb::Range<'static, &'static [u8], &'static [u8]>,
    path: std::path::PathBuf,
}

impl Iterator for Subjects {
    type Item = Result<Vec<u8>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.range.next()?;
        let read = || {
            let (key, value) = entry?;
            let (_, bytes) = tables::open("subjects", key.value(), value.value())?;
            Ok(bytes.to_vec())
        };
        Some(read().map_err(|failure: Failure| failure.at(&self.path)))
    }
}

/// How much there is in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Census {
    /// The journal position up to which everything is here.
    pub mark: u64,
    /// Snapshots: of definitions, executions, events, and the node itself.
    pub subjects: u64,
    /// Lines of history.
    pub history: u64,
}

impl Store {
    /// The journal position up to which everything is in the store; nought if it is new.
    pub fn mark(&self) -> Result<u64, StoreError> {
        self.read(|transaction| checkpoint::stored_mark(&transaction.open_table(MARKS)?))
    }

    /// The snapshot of every subject, in the order of their keys.
    pub fn load_subjects(&self) -> Result<Subjects, StoreError> {
        let range =
            self.read(|transaction| Ok(transaction.open_table(SUBJECTS)?.range::<&[u8]>(..)?))?;
        Ok(Subjects { range, path: self.path().to_owned() })
    }

    /// The snapshot of one subject, by its key.
    pub fn subject(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|transaction| {
            let Some(value) = transaction.open_table(SUBJECTS)?.get(key)? else { return Ok(None) };
            let (_, bytes) = tables::open("subjects", key, value.value())?;
            Ok(Some(bytes.to_vec()))
        })
    }

    /// What happened in an execution: from a number on, at most so many.
    pub fn history(
        &self,
        execution: ExecutionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let id = execution.as_bytes();
        self.read(|transaction| {
            let table = transaction.open_table(HISTORY)?;
            let lines = table.range((id, from)..=(id, u64::MAX))?.take(limit);
            lines
                .map(|entry| {
                    let (_, value) = entry?;
                    let (number, bytes) = tables::open("history", id, value.value())?;
                    Ok((number, bytes.to_vec()))
                })
                .collect()
        })
    }

    /// How much there is.
    pub fn census(&self) -> Result<Census, StoreError> {
        self.read(census)
    }
}

pub(super) fn census(transaction: &ReadTransaction) -> Result<Census, Failure> {
    Ok(Census {
        mark: checkpoint::stored_mark(&transaction.open_table(MARKS)?)?,
        subjects: transaction.open_table(SUBJECTS)?.len()?,
        history: transaction.open_table(HISTORY)?.len()?,
    })
}
