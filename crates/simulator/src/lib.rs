//! A virtual world for production engines: clock, disks, services with a ledger, faults, checkers.
//!
//! The world runs the same engine as a node does, under the same rule of what may leave when, but
//! with a clock that jumps from one occurrence to the next, disks that forget what was not synced,
//! and services that write down everything they are asked. The same seed gives the same trace, byte
//! for byte.

mod agenda;
pub mod checkers;
mod client;
mod clock;
mod crash_points;
mod disk;
pub mod experiments;
mod faults;
mod latency;
mod ledger;
mod machine;
mod network;
mod node;
mod plan;
mod random;
mod services;
mod situations;
mod swarm;
mod world;

pub use client::Client;
pub use crash_points::{Flow, Trial, try_every_crash_point};
pub use disk::Disk;
pub use faults::{Fault, FaultKind, FaultPlan, generate as generate_faults};
pub use latency::Latency;
pub use ledger::{Act, Ledger};
pub use machine::Machine;
pub use network::{NetworkOptions, Places};
pub use node::{CrashPoint, Moment, Node};
pub use plan::{Plan, StartPlan};
pub use random::Random;
pub use services::{Services, Visited};
pub use situations::{Situation, Situations};
pub use swarm::{Recording, RecordingError, Scenario, Swarm, Verdict, Wanted, Workload};
pub use world::{RunEvent, Watcher, World, WorldOptions};
