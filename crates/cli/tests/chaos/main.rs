//! Proof in real processes: `outlast` is killed, starved of disk, stopped and lied to about the time;
//! afterwards the ledger of the outside world shows exactly one run, or exactly its compensation.
//!
//! `docs/proof.md` says which promise each test holds, and how to run more of them.

#![expect(clippy::print_stderr, reason = "a proof tells what it reached")]

mod disks;
mod flows;
mod journals;
mod judge;
mod kills;
mod life;
mod nodes;
mod person;
mod plan;
mod processes;
mod served;
mod server;
mod world;
