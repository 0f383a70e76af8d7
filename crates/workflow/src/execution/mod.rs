//! How far a run has come, as a value.
//!
//! Invariants:
//! - Everything that changes between two events is in a delta; `apply` on a copy gives the same value.
//! - History is not in it: a loop of a million iterations leaves it as small as it was.
//! - Every datum that names a large value finds it in the store.

mod branch;
mod composing;
mod cut;
mod datum;
mod delta;
mod exchange;
mod few;
mod frame;
mod join;
mod plan;
mod questions;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use outlast_lineage::{BranchId, Digest, EffectId, ExecutionId, Ledger, Time};

pub(crate) use branch::{Birth, Branch, BranchState, Nested};
pub use datum::{DATA_BYTES_MAX, SHARED_DATA_BYTES_MAX};
pub(crate) use datum::{Datum, LARGE, LargeValues};
pub use delta::Delta;
pub(crate) use delta::Touched;
pub(crate) use exchange::{Departure, Exchange, ExchangePatch, Outgoing};
pub(crate) use frame::{
    Activity, Alarm, Calling, Compensating, Evaluating, Failure, Frame, ItemPhase, Listening, Path,
    TryStage, Trying, Undoing,
};
pub(crate) use join::{Join, JoinId, Slot};
pub(crate) use plan::{Plan, PlanEntry, PlanId, has_happened};
pub use questions::{Detached, Emitted, Parked, Status, TaskProgress, Withdrawal};
pub(crate) use surroundings::Surroundings;

use crate::{Command, EffectNote, Fault, Happening, Outcome};

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Execution {
    #[n(0)]
    pub(crate) id: ExecutionId,
    /// The definition it is pinned to.
    #[n(1)]
    pub(crate) definition: Digest,
    /// Makes the stand-ins for secrets impossible to guess.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub(crate) salt: [u8; 16],
    #[n(3)]
    pub(crate) started_at: Time,
    /// The raw input of the workflow.
    #[n(4)]
    pub(crate) input: Datum,
    /// Whether the plan stays after completion: someone may still roll this back.
    #[n(5)]
    pub(crate) keep_plan: bool,
    #[n(6)]
    pub(crate) head: Head,
    #[n(7)]
    pub(crate) branches: BTreeMap<BranchId, Branch>,
    #[n(8)]
    pub(crate) plans: BTreeMap<PlanId, Plan>,
    #[n(9)]
    pub(crate) joins: BTreeMap<JoinId, Join>,
    #[n(10)]
    pub(crate) ledger: Ledger,
    #[n(11)]
    pub(crate) large: LargeValues,
    /// Numbers of events that were consumed, from `passed` on.
    #[n(12)]
    pub(crate) consumed: BTreeSet<u64>,
    #[n(13)]
    pub(crate) passed: u64,
    /// Its events, if several nodes hold it.
    #[n(14)]
    pub(crate) exchange: Option<Box<Exchange>>,
}

/// The parts of an execution that are so small that they travel whole.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode)]
pub(crate) struct Head {
    #[n(0)]
    pub(crate) suspended: bool,
    #[n(1)]
    pub(crate) stage: Stage,
    #[n(2)]
    pub(crate) outcome: Option<Outcome>,
    /// Completed activities; retries and undos do not count.
    #[n(3)]
    pub(crate) progress: u64,
    /// When the whole run has taken too long.
    #[n(4)]
    pub(crate) deadline: Option<Alarm>,
    /// Branches that can move on but have not had their turn.
    #[n(5)]
    pub(crate) ready: Vec<BranchId>,
    /// How often it was tried again after its end, if several nodes held it until then and one goes on with
    /// it alone: what is asked for since is another operation than what other lines asked for, and may have
    /// undone. None of them if it is only rolled back; nothing before its end.
    #[n(6)]
    pub(crate) revivals: Option<u64>,
}

/// What the whole run is doing.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode)]
pub(crate) enum Stage {
    /// Going forward.
    #[default]
    #[n(0)]
    Forward,
    /// Being rolled back, for a reason that becomes part of the outcome.
    #[n(1)]
    RollingBack(#[n(0)] Fault),
    /// The trunk is done; undos of losers are still under way.
    #[n(2)]
    Closing(#[n(0)] Outcome),
    /// Over.
    #[n(3)]
    Ended,
    /// Another line of the execution was decided on. Nothing goes on but what completes calls that
    /// are under way; the effects are those that are to be undone as soon as that is done.
    #[n(4)]
    Lost(#[n(0)] Option<BTreeSet<EffectId>>),
    /// What this line did is being undone, as far as that was asked.
    #[n(5)]
    Withdrawing,
    /// Over, and only what others keep is left.
    #[n(6)]
    Withdrawn,
}

/// What one event did.
#[derive(Clone, Debug, PartialEq)]
pub struct Advance {
    /// What changed; write it down before any command leaves.
    pub delta: Delta,
    /// What is to be done, in order.
    pub commands: Vec<Command>,
    /// What happened, for the history.
    pub happenings: Vec<Happening>,
    /// What it did to the ledger, in order.
    pub effects: Vec<EffectNote>,
}

/// How many consumed event numbers are remembered; older ones count as consumed.
const CONSUMED_MAX: usize = 1024;

impl Execution {
    /// Remembers only so many consumed events: an execution that listens for ever stays small.
    pub(crate) fn trim_consumed(&mut self) {
        while self.consumed.len() > CONSUMED_MAX {
            let oldest = self.consumed.pop_first().expect("it is longer than its limit");
            self.passed = oldest + 1;
        }
    }

    pub(crate) fn forget_consumed_before(&mut self, number: u64) {
        if self.passed != number {
            self.passed = number;
            self.consumed = self.consumed.split_off(&number);
        }
    }
}
