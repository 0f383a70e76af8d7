//! What nodes say to each other, as machines without IO: one folder per protocol.
//!
//! Every machine keeps the same contract with its driver:
//! - `step(now, input)` gives outputs, in order. An output may leave only when every record that
//!   this machine ordered before it, in this step or an earlier one, is durable.
//! - A record is whole: the last one is all that a machine needs to come back, by `restored` and
//!   then `Input::Restarted`. What is not in it was never promised to anyone.
//!   `replicas` writes changes instead, and comes back from all of them in order.
//! - `SetTimer` replaces the timer of the same name. A timer that fires late or twice does no harm.
//! - The sender of a message is what the channel says. A node that lost its disk comes back under
//!   another id, and so is nobody to an instance that names the old one.
//!
//! Which instance a message, a record or a timer belongs to is the owner's to say: it wraps them.

mod members;

pub mod membership;
pub mod paxos;
pub mod replicas;
pub mod two_phase;

pub use members::Members;
