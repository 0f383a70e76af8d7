//! A workflow as a value: `Program` is what it says, `Execution` is how far it has come.
//!
//! `Execution::advance` takes one event and says what changed (`Delta`), what is to be done
//! (`Command`) and what happened (`Happening`). Only the custodian of an execution advances it;
//! everyone else applies deltas. Nothing here performs IO, reads a clock or draws random numbers.

mod command;
pub mod drawing;
mod effect_note;
mod event;
mod execution;
mod fault;
mod history;
mod interpreter;
pub mod moment;
pub mod notation;
pub mod program;
mod request;
pub mod secret;

pub use command::{Command, EvaluationRequest};
pub use effect_note::EffectNote;
pub use event::{Answer, Author, Event, Resolution, Start, Ticket};
pub use execution::{
    Advance, DATA_BYTES_MAX, Delta, Detached, Emitted, Execution, Parked, SHARED_DATA_BYTES_MAX,
    Status, TaskProgress, Withdrawal,
};
pub use fault::{Fault, FaultKind};
pub use history::{Happening, Outcome};
pub use program::{Program, TaskId};
pub use request::{
    Request, ResolvedAuthentication, Seen, Sent, Target, build_http, judge, percent_encode,
    scalar_text,
};
