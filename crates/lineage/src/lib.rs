//! The laws that hold between copies of one execution: ids, time, lineage, effect ledger, operation keys.
//!
//! Nothing here performs IO, reads a clock or draws a random number. Everything that is written to
//! a journal or sent to a peer derives a numbered encoding, so that fields can be added later. What
//! the laws are, and which test holds each, is in `docs/laws.md`.

mod conduct;
mod decision;
mod digest;
mod head;
mod id;
mod key;
mod ledger;
mod line;
mod owed;
mod pivot;
mod time;

pub use conduct::{Conduct, Recourse, Repetition, Reversal};
pub use decision::Decision;
pub use digest::{Digest, Digester};
pub use head::{Head, Heads, Knowledge};
pub use id::{BranchId, Epoch, ExecutionId, NodeId, ParseIdError};
pub use key::OperationKey;
pub use ledger::{Effect, EffectId, EffectState, Ledger, Links};
pub use line::{Lineage, Order, Point, Segment, StateId};
pub use owed::{Dropped, Owed, ParkReason, Parked, Undo, UndoWay, depends_on, owed};
pub use pivot::{Pivot, pivot_conflict};
pub use time::Time;
