//! Writing: everything a checkpoint brings, in one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use outlast_lineage::ExecutionId;
use redb::{ReadableTable, WriteTransaction};

use super::error::Failure;
use super::tables::{self, CHECKPOINT, HISTORY, MARKS, SUBJECTS};

/// Lines of history: execution and number, and what happened.
pub type Lines = BTreeMap<(ExecutionId, u64), Vec<u8>>;

/// What goes into the store at once: all of it, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// Everything up to this journal position is in the store afterwards. Never lower than before.
    pub mark: u64,
    /// The key of what an engine keeps, the position its snapshot was taken at, and the snapshot;
    /// nothing removes it.
    pub subjects: Vec<(Vec<u8>, u64, Option<Bytes>)>,
    /// Executions whose history is no longer wanted; removed before new lines are written.
    pub histories_dropped: Vec<ExecutionId>,
    /// New lines of history; shared with whoever reads them meanwhile.
    pub history: Arc<Lines>,
}

/// Writes a checkpoint into a transaction.
pub(super) fn write(
    transaction: &WriteTransaction,
    checkpoint: &Checkpoint,
) -> Result<(), Failure> {
    write_mark(transaction, checkpoint.mark)?;
    write_subjects(transaction, &checkpoint.subjects)?;
    drop_histories(transaction, &checkpoint.histories_dropped)?;
    write_history(transaction, &checkpoint.history)
}

/// The mark that is stored, in a table that is open for writing or reading.
pub(super) fn stored_mark(
    marks: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<u64, Failure> {
    match marks.get(CHECKPOINT)? {
        Some(sealed) => Ok(tables::open("marks", CHECKPOINT.as_bytes(), sealed.value())?.0),
        None => Ok(0),
    }
}

fn write_mark(transaction: &WriteTransaction, mark: u64) -> Result<(), Failure> {
    let mut marks = transaction.open_table(MARKS)?;
    let stored = stored_mark(&marks)?;
    if mark < stored {
        return Err(Failure::Backwards { mark, stored });
    }
    let sealed = tables::seal("marks", CHECKPOINT.as_bytes(), mark, &[]);
    marks.insert(CHECKPOINT, sealed.as_slice())?;
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
                let sealed = tables::seal("subjects", key, *position, bytes);
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

fn write_history(transaction: &WriteTransaction, history: &Lines) -> Result<(), Failure> {
    let mut table = transaction.open_table(HISTORY)?;
    for ((execution, number), bytes) in history {
        let id = execution.as_bytes();
        let sealed = tables::seal("history", id, *number, bytes);
        table.insert((id, *number), sealed.as_slice())?;
    }
    Ok(())
}
