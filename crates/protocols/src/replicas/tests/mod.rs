//! Claims of the paper, the mends of its gaps, and whole worlds of replicas under random faults.

mod acknowledging;
mod active;
mod copies;
mod electing;
mod flow;
mod healing;
mod losing;
mod mends;
mod owner;
mod paper;
mod passing;
mod provider;
mod random;
mod steps;
mod termination;
mod world;
mod yielding;
