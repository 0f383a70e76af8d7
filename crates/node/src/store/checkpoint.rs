//! Writing: everything a checkpoint brings, in one transaction.

use bytes::Bytes;
use outlast_lineage::{Digest, ExecutionId, Time};
use redb::{ReadableTable, WriteTransaction};

use super::error::Failure;
use super::tables::{
    self, CHECKPOINT, DEFINITIONS, FINISHED, FINISHED_BY_TIME, HISTORY, INDEX, INDEX_OF, MARKS,
    NAMES, SNAPSHOTS, SUBJECTS, TOMBSTONES, TOMBSTONES_BY_TIME,
};

/// What goes into the store at once: all of it, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// Everything up to this journal position is in the store afterwards. Never lower than before.
    pub mark: u64,
    /// Execution, the position its snapshot was taken at, and the snapshot; nothing removes it.
    pub snapshots: Vec<(ExecutionId, u64, Option<Bytes>)>,
    /// The key of what an engine keeps, the position its snapshot was taken at, and the snapshot;
    /// nothing removes it.
    pub subjects: Vec<(Vec<u8>, u64, Option<Bytes>)>,
    /// Executions whose history is no longer wanted; removed before new lines are written.
    pub histories_dropped: Vec<ExecutionId>,
    /// Execution, number, and what happened.
    pub history: Vec<(ExecutionId, u64, Vec<u8>)>,
    /// Definitions, each with its name.
    pub definitions: Vec<Definition>,
    /// Executions that have ended.
    pub finished: Vec<Finished>,
    /// Entries of indexes.
    pub index: Vec<IndexEntry>,
    /// Executions of which only a tombstone stays: when they were forgotten.
    pub forgotten: Vec<(ExecutionId, Time)>,
    /// Removes the tombstones of executions that were forgotten before this time.
    pub tombstones_until: Time,
}

/// A workflow's text under its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// Which one it is.
    pub name: DefinitionName,
    /// The digest that executions are pinned to.
    pub digest: Digest,
    /// The document.
    pub text: String,
}

/// What a definition is called.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DefinitionName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
}

/// An execution that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Which one.
    pub execution: ExecutionId,
    /// When it ended.
    pub ended: Time,
    /// How it ended, and what else is to be kept.
    pub record: Vec<u8>,
}

/// A way to find an execution: under a key of a named index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    /// The index, such as `name` or `workflow`.
    pub index: String,
    /// The key.
    pub key: String,
    /// The execution that is found there.
    pub execution: ExecutionId,
}

/// Writes a checkpoint into a transaction.
pub(super) fn write(
    transaction: &WriteTransaction,
    checkpoint: &Checkpoint,
) -> Result<(), Failure> {
    write_mark(transaction, checkpoint.mark)?;
    write_definitions(transaction, &checkpoint.definitions)?;
    write_snapshots(transaction, &checkpoint.snapshots)?;
    write_subjects(transaction, &checkpoint.subjects)?;
    drop_histories(transaction, &checkpoint.histories_dropped)?;
    write_history(transaction, &checkpoint.history)?;
    write_finished(transaction, &checkpoint.finished)?;
    write_index(transaction, &checkpoint.index)?;
    for (execution, at) in &checkpoint.forgotten {
        forget(transaction, execution, *at)?;
    }
    remove_tombstones(transaction, checkpoint.tombstones_until)
}

/// The mark that is stored, in a table that is open for writing or reading.
pub(super) fn stored_mark(
    marks: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<u64, Failure> {
    match marks.get(CHECKPOINT)? {
        Some(sealed) => Ok(tables::open("marks", &[CHECKPOINT.as_bytes()], sealed.value())?.0),
        None => Ok(0),
    }
}

fn write_mark(transaction: &WriteTransaction, mark: u64) -> Result<(), Failure> {
    let mut marks = transaction.open_table(MARKS)?;
    let stored = stored_mark(&marks)?;
    if mark < stored {
        return Err(Failure::Backwards { mark, stored });
    }
    let sealed = tables::seal("marks", &[CHECKPOINT.as_bytes()], mark, &[]);
    marks.insert(CHECKPOINT, sealed.as_slice())?;
    Ok(())
}

fn write_definitions(
    transaction: &WriteTransaction,
    definitions: &[Definition],
) -> Result<(), Failure> {
    let mut texts = transaction.open_table(DEFINITIONS)?;
    let mut names = transaction.open_table(NAMES)?;
    for Definition { name, digest, text } in definitions {
        let DefinitionName { namespace, name, version } = name;
        let digest = digest.as_bytes();
        let sealed = tables::seal("definitions", &[digest], 0, text.as_bytes());
        texts.insert(digest, sealed.as_slice())?;
        let key = [namespace.as_bytes(), name.as_bytes(), version.as_bytes()];
        let sealed = tables::seal("names", &key, 0, digest);
        names.insert((namespace.as_str(), name.as_str(), version.as_str()), sealed.as_slice())?;
    }
    Ok(())
}

fn write_snapshots(
    transaction: &WriteTransaction,
    snapshots: &[(ExecutionId, u64, Option<Bytes>)],
) -> Result<(), Failure> {
    let mut table = transaction.open_table(SNAPSHOTS)?;
    for (execution, position, snapshot) in snapshots {
        let id = execution.as_bytes();
        match snapshot {
            Some(bytes) => {
                let sealed = tables::seal("snapshots", &[id], *position, bytes);
                table.insert(id, sealed.as_slice())?;
            }
            None => drop(table.remove(id)?),
        }
    }
    Ok(())
}

fn write_subjects(
    transaction: &WriteTransaction,
    subjects: &[(Vec<u8>, u64, Option<Bytes>)],
) -> Result<(), Failure> {
    let mut table = transaction.open_table(SUBJECTS)?;
    for (key, position, snapshot) in subjects {
        match snapshot {
            Some(bytes) => {
                let sealed = tables::seal("subjects", &[key], *position, bytes);
                table.insert(key.as_slice(), sealed.as_slice())?;
            }
            None => drop(table.remove(key.as_slice())?),
        }
    }
    Ok(())
}

fn drop_histories(
    transaction: &WriteTransaction,
    executions: &[ExecutionId],
) -> Result<(), Failure> {
    let mut table = transaction.open_table(HISTORY)?;
    for execution in executions {
        let id = execution.as_bytes();
        table.retain_in((id, 0)..=(id, u64::MAX), |_, _| false)?;
    }
    Ok(())
}

fn write_history(
    transaction: &WriteTransaction,
    history: &[(ExecutionId, u64, Vec<u8>)],
) -> Result<(), Failure> {
    let mut table = transaction.open_table(HISTORY)?;
    for (execution, number, bytes) in history {
        let id = execution.as_bytes();
        let sealed = tables::seal("history", &[id], *number, bytes);
        table.insert((id, *number), sealed.as_slice())?;
    }
    Ok(())
}

fn write_finished(transaction: &WriteTransaction, finished: &[Finished]) -> Result<(), Failure> {
    let mut table = transaction.open_table(FINISHED)?;
    let mut by_time = transaction.open_table(FINISHED_BY_TIME)?;
    for Finished { execution, ended, record } in finished {
        let id = execution.as_bytes();
        let ended = ended.as_micros();
        let sealed = tables::seal("finished", &[id], ended, record);
        // An execution that was tried again ends a second time; only the last end counts.
        if let Some(earlier) = table.insert(id, sealed.as_slice())? {
            by_time.remove((tables::open("finished", &[id], earlier.value())?.0, id))?;
        }
        by_time.insert((ended, id), ())?;
    }
    Ok(())
}

fn write_index(transaction: &WriteTransaction, entries: &[IndexEntry]) -> Result<(), Failure> {
    let mut index = transaction.open_table(INDEX)?;
    let mut index_of = transaction.open_table(INDEX_OF)?;
    for entry in entries {
        let id = entry.execution.as_bytes();
        index.insert((entry.index.as_str(), entry.key.as_str(), id), ())?;
        index_of.insert((id, entry.index.as_str(), entry.key.as_str()), ())?;
    }
    Ok(())
}

/// Removes all there is of an execution and leaves a tombstone.
fn forget(
    transaction: &WriteTransaction,
    execution: &ExecutionId,
    at: Time,
) -> Result<(), Failure> {
    let id = execution.as_bytes();
    transaction.open_table(SNAPSHOTS)?.remove(id)?;
    transaction.open_table(HISTORY)?.retain_in((id, 0)..=(id, u64::MAX), |_, _| false)?;
    if let Some(sealed) = transaction.open_table(FINISHED)?.remove(id)? {
        let (ended, _) = tables::open("finished", &[id], sealed.value())?;
        transaction.open_table(FINISHED_BY_TIME)?.remove((ended, id))?;
    }
    forget_index(transaction, id)?;
    let at = at.as_micros();
    let sealed = tables::seal("tombstones", &[id], at, &[]);
    let mut tombstones = transaction.open_table(TOMBSTONES)?;
    if tombstones.get(id)?.is_none() {
        tombstones.insert(id, sealed.as_slice())?;
        transaction.open_table(TOMBSTONES_BY_TIME)?.insert((at, id), ())?;
    }
    Ok(())
}

fn forget_index(transaction: &WriteTransaction, id: &[u8; 16]) -> Result<(), Failure> {
    let mut index = transaction.open_table(INDEX)?;
    let mut index_of = transaction.open_table(INDEX_OF)?;
    let mut entries = Vec::new();
    for entry in index_of.range((id, "", "")..)? {
        let (key, ()) = entry.map(|(key, _)| (key, ()))?;
        let (owner, name, key) = key.value();
        if owner != id {
            break;
        }
        entries.push((name.to_owned(), key.to_owned()));
    }
    for (name, key) in entries {
        index.remove((name.as_str(), key.as_str(), id))?;
        index_of.remove((id, name.as_str(), key.as_str()))?;
    }
    Ok(())
}

fn remove_tombstones(transaction: &WriteTransaction, until: Time) -> Result<(), Failure> {
    let mut tombstones = transaction.open_table(TOMBSTONES)?;
    let mut by_time = transaction.open_table(TOMBSTONES_BY_TIME)?;
    let nobody = [0; 16];
    let mut old = Vec::new();
    for entry in by_time.range((0, &nobody)..(until.as_micros(), &nobody))? {
        let (key, _) = entry?;
        let (at, id) = key.value();
        old.push((at, *id));
    }
    for (at, id) in &old {
        by_time.remove((*at, id))?;
        tombstones.remove(id)?;
    }
    Ok(())
}
