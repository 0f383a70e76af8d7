//! The house rules that no compiler checks.
//!
//! Each rule is a function from text (or from what cargo says of a package) to findings; `tree`
//! reads the workspace, and the test `tidy` runs every rule on it, so the rules hold wherever
//! `cargo test --workspace` passes. A finding names a place and says what to do about it.
//!
//! - `packages`: arrows between crates, names of packages, dependencies that perform IO;
//! - `code`: what Rust files must have and must not have, and the purity of the pure crates;
//! - `documents`: README, links, the map of the docs, places of this or that machine.

pub mod code;
pub mod documents;
mod finding;
pub mod packages;
mod source;
pub mod tree;

pub use finding::Finding;
pub use source::Source;

/// Crates that perform no IO, read no clock and draw no random numbers.
pub const PURE_CRATES: [&str; 9] = [
    "lineage",
    "expressions",
    "workflow",
    "data",
    "jobs",
    "languages",
    "protocols",
    "engine",
    "simulator",
];
