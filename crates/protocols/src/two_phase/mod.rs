//! Two-phase commit, as it is used for forgetting: nobody forgets before everyone can.
//!
//! A coordinator asks every participant whether it is ready, and orders all to forget when all
//! are. There is no abort: a participant that is not ready yet says nothing until it is, and once
//! ready it stays so. So several coordinators may work on the same forgetting without harm, and one
//! that was lost is replaced by beginning another.
//!
//! Nothing is presumed from the absence of a record: a coordinator writes down that it began, that
//! all were ready, and that all have forgotten; a participant that it is ready, and that it has
//! forgotten. Whoever comes back goes on from there.

pub mod coordinator;
mod message;
pub mod participant;
#[cfg(test)]
mod tests;

pub use coordinator::Coordinator;
pub use message::Message;
pub use participant::Participant;
