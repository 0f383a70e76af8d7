//! The shell: driver, clock, journal, services, workers and the HTTP API.

pub mod data;
pub mod fixture;
pub mod journal;
pub mod services;
pub mod store;
pub mod workers;
