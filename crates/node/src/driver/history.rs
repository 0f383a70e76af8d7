//! What happened in executions: in memory until a checkpoint has stored it, then in the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minicbor::{Decode, Encode};
use outlast_engine::{Happenings, Position};
use outlast_lineage::{ExecutionId, Time};
use outlast_workflow::Happening;

use crate::store::{Lines, Store, StoreError};

/// What one record says about the history of an execution.
#[derive(Clone, PartialEq, Debug)]
pub struct HistoryLine {
    /// The record.
    pub position: Position,
    /// When.
    pub time: Time,
    /// What happened.
    pub happenings: Vec<Happening>,
}

#[derive(Encode, Decode)]
struct StoredLine {
    #[n(0)]
    time: Time,
    #[n(1)]
    happenings: Happenings,
}

/// The same, to be written.
#[derive(Encode)]
struct Kept<'a> {
    #[n(0)]
    time: Time,
    #[n(1)]
    happenings: &'a Happenings,
}

/// What a line needs besides what happened.
const LINE_BYTES: usize = 16;

/// Lines that the store does not have yet.
#[derive(Default)]
pub(crate) struct History {
    state: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    fresh: Lines,
    /// What the store is being given.
    leaving: Arc<Lines>,
}

impl History {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a line.
    pub(crate) fn keep(
        &self,
        execution: ExecutionId,
        position: Position,
        time: Time,
        happenings: &Happenings,
    ) {
        let mut bytes = Vec::with_capacity(LINE_BYTES + happenings.bytes());
        let line = Kept { time, happenings };
        minicbor::encode(line, &mut bytes).expect("writing to memory does not fail");
        self.lock().fresh.insert((execution, position.0), bytes);
    }

    /// Drops the lines of an execution that is forgotten.
    pub(crate) fn forget(&self, execution: ExecutionId) {
        let of_it = (execution, 0)..=(execution, u64::MAX);
        let mut pending = self.lock();
        let keys: Vec<_> = pending.fresh.range(of_it).map(|(key, _)| *key).collect();
        for key in keys {
            pending.fresh.remove(&key);
        }
    }

    /// Gives all lines to be stored. They can be read until `stored` says that they are.
    pub(crate) fn leave(&self) -> Arc<Lines> {
        let mut pending = self.lock();
        assert!(pending.leaving.is_empty(), "one checkpoint at a time");
        pending.leaving = Arc::new(std::mem::take(&mut pending.fresh));
        Arc::clone(&pending.leaving)
    }

    /// What left is in the store now.
    pub(crate) fn stored(&self) {
        self.lock().leaving = Arc::default();
    }

    /// The lines of an execution from a position on, at most so many, in order.
    pub(crate) fn read(
        &self,
        store: &Store,
        execution: ExecutionId,
        from: Position,
        limit: usize,
    ) -> Result<Vec<HistoryLine>, StoreError> {
        // First what the store may not have yet: read in this order, no line can slip between.
        let mut lines = self.pending(execution, from, limit);
        for (position, bytes) in store.history(execution, from.0, limit)? {
            lines.insert(position, bytes);
        }
        let whole = lines.into_iter().take(limit).map(|(position, bytes)| {
            let StoredLine { time, happenings } = minicbor::decode(&bytes).map_err(|error| {
                let what = format!("line {position} of the history of {execution}: {error}");
                StoreError::Corrupt { path: store.path().to_owned(), what }
            })?;
            Ok(HistoryLine { position: Position(position), time, happenings: happenings.read() })
        });
        whole.collect()
    }

    fn pending(
        &self,
        execution: ExecutionId,
        from: Position,
        limit: usize,
    ) -> BTreeMap<u64, Vec<u8>> {
        let pending = self.lock();
        let of_it = (execution, from.0)..=(execution, u64::MAX);
        let leaving = pending.leaving.range(of_it.clone()).take(limit);
        let lines = leaving.chain(pending.fresh.range(of_it).take(limit));
        lines.map(|((_, position), bytes)| (*position, bytes.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Checkpoint;

    fn id(number: u8) -> ExecutionId {
        ExecutionId::from_bytes([number; 16])
    }

    fn keep(history: &History, execution: u8, position: u64) {
        let time = Time::from_micros(position);
        let happenings = Happenings::from(&[Happening::Started][..]);
        history.keep(id(execution), Position(position), time, &happenings);
    }

    #[test]
    fn lines_can_be_read_before_while_and_after_they_are_stored() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("store")).unwrap();
        let history = History::default();
        let read = |from| -> Vec<u64> {
            let lines = history.read(&store, id(1), Position(from), 10).unwrap();
            lines.into_iter().map(|line| line.position.0).collect()
        };
        keep(&history, 1, 1);
        keep(&history, 2, 2);
        let leaving = history.leave();
        keep(&history, 1, 3);
        assert_eq!(read(0), [1, 3]);
        let checkpoint = Checkpoint { history: leaving, ..Checkpoint::default() };
        store.checkpoint(&checkpoint).unwrap();
        assert_eq!(read(0), [1, 3]);
        history.stored();
        assert_eq!(read(0), [1, 3]);
        assert_eq!(read(2), [3]);
        history.forget(id(1));
        assert_eq!(read(0), [1]);
    }
}
