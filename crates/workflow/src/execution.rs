//! How far a run has come, as a value. (Contract only; the interpreter follows.)

use std::sync::Arc;

use outlast_lineage::{ExecutionId, Time};

use crate::{Author, Command, Event, Happening, Outcome, Program, Start};

/// How far a run has come.
#[derive(Clone, Debug)]
pub struct Execution;

/// What one event changed. Applying it to a copy of the execution gives the same execution.
#[derive(Clone, Debug, minicbor::Encode, minicbor::Decode)]
pub struct Delta;

/// What one event did.
#[derive(Clone, Debug)]
pub struct Advance {
    /// What changed; write it down before any command leaves.
    pub delta: Delta,
    /// What is to be done.
    pub commands: Vec<Command>,
    /// What happened, for the history.
    pub happenings: Vec<Happening>,
}

/// What an execution is doing, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Something is under way.
    Running,
    /// Everything that is under way waits for time or for events.
    Waiting,
    /// On hold because someone asked.
    Suspended,
    /// Being rolled back.
    Compensating,
    /// Ended.
    Ended,
}

impl Execution {
    /// Begins a run.
    pub fn start(
        _program: &Arc<Program>,
        _start: Start,
        _author: Author,
        _now: Time,
    ) -> (Self, Advance) {
        todo!()
    }

    /// Takes one event.
    pub fn advance(
        &mut self,
        _program: &Program,
        _event: Event,
        _author: Author,
        _now: Time,
    ) -> Advance {
        todo!()
    }

    /// Takes over what another copy's `advance` changed.
    pub fn apply(&mut self, _delta: &Delta) {
        todo!()
    }

    /// Everything still open: asked for again after a restart.
    pub fn open_commands(&self, _program: &Program, _now: Time) -> Vec<Command> {
        todo!()
    }

    /// The id.
    pub fn id(&self) -> ExecutionId {
        todo!()
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        todo!()
    }

    /// How it ended, if it did.
    pub fn outcome(&self) -> Option<&Outcome> {
        todo!()
    }
}
