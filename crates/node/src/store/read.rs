//! Reading: snapshots as a stream, the rest by key or in pages.

use outlast_lineage::{Digest, ExecutionId, Time};
use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata};
use serde::Serialize;

use super::checkpoint::{DefinitionName, Finished};
use super::error::{Failure, StoreError};
use super::tables::{
    self, DEFINITIONS, FINISHED, FINISHED_BY_TIME, HISTORY, INDEX, NAMES, SNAPSHOTS, SUBJECTS,
    TOMBSTONES,
};
use super::{MARKS, Store, checkpoint};

/// An execution as it was at a position of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Which execution.
    pub execution: ExecutionId,
    /// The position of the last record that it includes.
    pub position: u64,
    /// The snapshot.
    pub bytes: Vec<u8>,
}

/// Every snapshot of one moment, read while you go.
pub struct Snapshots {
    range: redb::Range<'static, &'static [u8; 16], &'static [u8]>,
    path: std::path::PathBuf,
}

impl Iterator for Snapshots {
    type Item = Result<Snapshot, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.range.next()?;
        let read = || {
            let (key, value) = entry?;
            let id = key.value();
            let (position, bytes) = tables::open("snapshots", &[id], value.value())?;
            let execution = ExecutionId::from_bytes(*id);
            Ok(Snapshot { execution, position, bytes: bytes.to_vec() })
        };
        Some(read().map_err(|failure: Failure| failure.at(&self.path)))
    }
}

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
            let (_, bytes) = tables::open("subjects", &[key.value()], value.value())?;
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
    /// Snapshots of executions that go on.
    pub snapshots: u64,
    /// Lines of history.
    pub history: u64,
    /// Executions that have ended.
    pub finished: u64,
    /// Executions that were forgotten.
    pub tombstones: u64,
    /// Texts of definitions.
    pub definitions: u64,
}

impl Store {
    /// The journal position up to which everything is in the store; nought if it is new.
    pub fn mark(&self) -> Result<u64, StoreError> {
        self.read(|transaction| checkpoint::stored_mark(&transaction.open_table(MARKS)?))
    }

    /// Every snapshot, in the order of their ids.
    pub fn load_snapshots(&self) -> Result<Snapshots, StoreError> {
        let range = self
            .read(|transaction| Ok(transaction.open_table(SNAPSHOTS)?.range::<&[u8; 16]>(..)?))?;
        Ok(Snapshots { range, path: self.path().to_owned() })
    }

    /// The snapshot of every subject, in the order of their keys.
    pub fn load_subjects(&self) -> Result<Subjects, StoreError> {
        let range =
            self.read(|transaction| Ok(transaction.open_table(SUBJECTS)?.range::<&[u8]>(..)?))?;
        Ok(Subjects { range, path: self.path().to_owned() })
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
                    let (number, bytes) = tables::open("history", &[id], value.value())?;
                    Ok((number, bytes.to_vec()))
                })
                .collect()
        })
    }

    /// How an execution ended, if it did and is not forgotten.
    pub fn finished(&self, execution: ExecutionId) -> Result<Option<Finished>, StoreError> {
        let id = execution.as_bytes();
        self.read(|transaction| {
            let Some(sealed) = transaction.open_table(FINISHED)?.get(id)? else { return Ok(None) };
            let (ended, record) = tables::open("finished", &[id], sealed.value())?;
            let (ended, record) = (Time::from_micros(ended), record.to_vec());
            Ok(Some(Finished { execution, ended, record }))
        })
    }

    /// The executions that ended first, and when: what retention looks at.
    pub fn finished_first(&self, limit: usize) -> Result<Vec<(Time, ExecutionId)>, StoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(FINISHED_BY_TIME)?;
            table.iter()?.take(limit).map(|entry| Ok(ending(entry?.0.value()))).collect()
        })
    }

    /// The executions that ended last, and when, the latest first.
    pub fn finished_last(&self, limit: usize) -> Result<Vec<(Time, ExecutionId)>, StoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(FINISHED_BY_TIME)?;
            table.iter()?.rev().take(limit).map(|entry| Ok(ending(entry?.0.value()))).collect()
        })
    }

    /// When an execution was forgotten, while its tombstone is kept.
    pub fn tombstone(&self, execution: ExecutionId) -> Result<Option<Time>, StoreError> {
        let id = execution.as_bytes();
        self.read(|transaction| {
            let Some(sealed) = transaction.open_table(TOMBSTONES)?.get(id)? else {
                return Ok(None);
            };
            let (at, _) = tables::open("tombstones", &[id], sealed.value())?;
            Ok(Some(Time::from_micros(at)))
        })
    }

    /// The text of a definition.
    pub fn definition(&self, digest: Digest) -> Result<Option<String>, StoreError> {
        let key = digest.as_bytes();
        self.read(|transaction| {
            let Some(sealed) = transaction.open_table(DEFINITIONS)?.get(key)? else {
                return Ok(None);
            };
            let (_, text) = tables::open("definitions", &[key], sealed.value())?;
            Ok(Some(String::from_utf8_lossy(text).into_owned()))
        })
    }

    /// The digest of the definition that has a name now.
    pub fn definition_named(&self, name: &DefinitionName) -> Result<Option<Digest>, StoreError> {
        let DefinitionName { namespace, name, version } = name;
        let key = (namespace.as_str(), name.as_str(), version.as_str());
        self.read(|transaction| match transaction.open_table(NAMES)?.get(key)? {
            Some(sealed) => Ok(Some(named_digest(key, sealed.value())?)),
            None => Ok(None),
        })
    }

    /// Every name of a definition, in order, with its digest.
    pub fn definitions(&self) -> Result<Vec<(DefinitionName, Digest)>, StoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(NAMES)?;
            let names = table.iter()?.map(|entry| {
                let (key, sealed) = entry?;
                let digest = named_digest(key.value(), sealed.value())?;
                let (namespace, name, version) = key.value();
                let name = DefinitionName {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    version: version.to_owned(),
                };
                Ok((name, digest))
            });
            names.collect()
        })
    }

    /// The executions under a key of an index, in the order of their ids, at most so many.
    pub fn find(
        &self,
        index: &str,
        key: &str,
        limit: usize,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let (first, last) = ([0; 16], [u8::MAX; 16]);
        self.read(|transaction| {
            let table = transaction.open_table(INDEX)?;
            let found = table.range((index, key, &first)..=(index, key, &last))?.take(limit);
            found.map(|entry| Ok(ExecutionId::from_bytes(*entry?.0.value().2))).collect()
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
        snapshots: transaction.open_table(SNAPSHOTS)?.len()?,
        history: transaction.open_table(HISTORY)?.len()?,
        finished: transaction.open_table(FINISHED)?.len()?,
        tombstones: transaction.open_table(TOMBSTONES)?.len()?,
        definitions: transaction.open_table(DEFINITIONS)?.len()?,
    })
}

fn ending((ended, id): (u64, &[u8; 16])) -> (Time, ExecutionId) {
    (Time::from_micros(ended), ExecutionId::from_bytes(*id))
}

fn named_digest(
    (namespace, name, version): (&str, &str, &str),
    sealed: &[u8],
) -> Result<Digest, Failure> {
    let key = [namespace.as_bytes(), name.as_bytes(), version.as_bytes()];
    let (_, bytes) = tables::open("names", &key, sealed)?;
    let digest = bytes.try_into().map_err(|_| tables::Broken { table: "names" })?;
    Ok(Digest::from_bytes(digest))
}
