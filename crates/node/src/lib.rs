//! The shell: driver, clock, journal, services, workers and the HTTP API.
//!
//! `Node::start` opens a data directory and drives an engine with it; everything else asks through
//! the `NodeHandle` it returns.

mod bell;
mod causes;
mod clock;
pub mod cluster;
mod configuration;
pub mod data;
mod driver;
pub mod fixture;
pub mod http;
pub mod journal;
mod metrics;
mod name;
mod node;
mod private;
pub mod random;
mod relay;
pub mod services;
pub mod store;
pub mod transport;
pub mod workers;

pub use clock::Clock;
pub use configuration::{Checkpoints, Configuration};
pub use driver::{Counts, HistoryLine, StartError, Stopped};
pub use name::{Name, NotAName};
pub use node::{Gone, JournalCounts, Node, NodeHandle};
pub use relay::Relay;
