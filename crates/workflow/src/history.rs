//! What happened in an execution, for people; and how executions end.

use minicbor::{Decode, Encode};
use outlast_expressions::{Value, value};

use crate::{Fault, TaskId};

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Outcome {
    /// It ran to its end; its output.
    #[n(0)]
    Completed(#[cbor(n(0), with = "value::codec")] Value),
    /// An uncaught error.
    #[n(1)]
    Faulted(#[n(0)] Fault),
    /// Someone stopped it.
    #[n(2)]
    Cancelled,
    /// It was rolled back, because of an error or because someone asked.
    #[n(3)]
    Compensated(#[n(0)] Fault),
}

/// One line of an execution's history.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Happening {
    /// The execution began.
    #[n(0)]
    Started,
    /// A task began: its number, and the innermost loop index if it is in one.
    #[n(1)]
    TaskStarted(#[n(0)] TaskId, #[n(1)] Option<u64>),
    /// A task ended well.
    #[n(2)]
    TaskCompleted(#[n(0)] TaskId, #[n(1)] Option<u64>),
    /// A task's `if` did not hold.
    #[n(3)]
    TaskSkipped(#[n(0)] TaskId, #[n(1)] Option<u64>),
    /// A task raised an error.
    #[n(4)]
    TaskFaulted(#[n(0)] TaskId, #[n(1)] Fault),
    /// A task was stopped from outside.
    #[n(5)]
    TaskCancelled(#[n(0)] TaskId),
    /// A `try` will be tried again: which retry, from one.
    #[n(6)]
    TaskRetried(#[n(0)] TaskId, #[n(1)] u64),
    /// A call left, with the key its provider is given.
    #[n(7)]
    Called(#[n(0)] TaskId, #[n(1)] String),
    /// A completed task is being undone.
    #[n(8)]
    UndoStarted(#[n(0)] TaskId),
    /// A completed task is undone.
    #[n(9)]
    Undone(#[n(0)] TaskId),
    /// An undo failed for good.
    #[n(10)]
    UndoFailed(#[n(0)] TaskId, #[n(1)] Fault),
    /// Something waits for a person, and why.
    #[n(11)]
    Parked(#[n(0)] TaskId, #[n(1)] String),
    /// A person said what became of something parked.
    #[n(12)]
    Resolved(#[n(0)] TaskId, #[n(1)] String),
    /// Someone asked the execution to hold.
    #[n(13)]
    Suspended,
    /// Someone asked the execution to go on.
    #[n(14)]
    Resumed,
    /// Someone asked to try the failed task again.
    #[n(15)]
    RetryRequested,
    /// Rolling back began, and why.
    #[n(16)]
    CompensationStarted(#[n(0)] String),
    /// Two branches wrote the same context key; the later in declaration order wins.
    #[n(17)]
    ContextConflict(#[n(0)] TaskId, #[n(1)] String),
    /// The execution ended.
    #[n(18)]
    Ended(#[n(0)] Outcome),
    /// An event was published: its type.
    #[n(19)]
    Published(#[n(0)] TaskId, #[n(1)] String),
    /// An event was consumed: its type.
    #[n(20)]
    Consumed(#[n(0)] TaskId, #[n(1)] String),
    /// The run of other nodes took the place of the one that was told of so far: how many activities
    /// it had completed. What led to it is told where it was run.
    #[n(21)]
    Adopted(#[n(0)] u64),
    /// The same of a run that was told of before and does not count: what is undone of it.
    #[n(22)]
    OfLostRun(#[n(0)] Box<Self>),
}

impl Happening {
    /// How a call was resolved (`Resolved`) that another node had made, and that was answered there.
    pub const ANSWERED_ELSEWHERE: &str = "answered at another node";

    /// What is to be told of a run that does not count; nothing for what is of no consequence then.
    #[must_use]
    pub fn of_lost_run(self) -> Option<Self> {
        let is_told = matches!(
            self,
            Self::Called(..)
                | Self::UndoStarted(_)
                | Self::Undone(_)
                | Self::UndoFailed(..)
                | Self::Parked(..)
                | Self::Resolved(..)
        );
        is_told.then(|| Self::OfLostRun(Box::new(self)))
    }
}
