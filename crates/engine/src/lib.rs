//! One node's whole behaviour, without IO: `Engine::step(now, input)` gives outputs.
//!
//! A driver (the `node` crate, or the `simulator`) feeds `Input`s and carries out `Output`s. A step
//! writes at most one journal record; every output says which record must be durable before it may
//! leave. Same inputs, same outputs, byte for byte. See `docs/engine.md` for the contract.

mod ask;
mod engine;
mod happenings;
mod input;
mod options;
mod output;
mod phase;
mod record;
mod reply;
mod survival;
mod writing;

pub use ask::{Ask, Filter, ParkedFilter, StartAsk, Which, WorkflowVersion};
pub use engine::{Engine, REMNANT_TERMS, RecoveryError, Spoken, Times, ranked};
pub use happenings::Happenings;
pub use input::{Caller, Input};
pub use options::{EngineOptions, Limits, Quota, Retention};
pub use output::{Action, Output, Report, Subject};
pub use phase::Phase;
pub use record::{
    Advanced, Custodial, Definition, Origin, Parent, Position, Publication, Record, RecordError,
    RecordKind, Sent, ShardId, Started,
};
pub use reply::{
    ClusterStanding, Condition, Counters, DefinitionSummary, Detail, Holders, MemberStanding,
    ParkedItem, Refusal, Reply, Summary,
};
pub use survival::{Acknowledge, Strategy, Survival};

pub use outlast_protocols::replicas::Situation;
