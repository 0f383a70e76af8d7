//! The laws that hold between copies of one execution: ids, time, lineage, effect ledger, operation keys.
//!
//! Nothing here performs IO, reads a clock or draws a random number. Everything that is written to
//! a journal or sent to a peer derives a numbered encoding, so that fields can be added later.

mod digest;
mod id;
mod key;
mod ledger;
mod line;
mod time;

pub use digest::{Digest, Digester};
pub use id::{BranchId, Epoch, ExecutionId, NodeId, ParseIdError};
pub use key::OperationKey;
pub use ledger::{Effect, EffectId, EffectState, Ledger};
pub use line::{Lineage, Order, Point, Segment};
pub use time::Time;
