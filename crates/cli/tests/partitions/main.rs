//! Real nodes on a real network that breaks: cuts in one or both directions, bridges, links that
//! come and go, nodes that are killed, stopped and woken, all at once or one at a time, a disk that is lost.
//!
//! Every test has a network of its own (`sandbox`, `network`), real processes of the binary on it
//! (`nodes`), and the ledger, which everybody reaches all the time, so that what each part of the
//! cluster does can be seen (`flows`). What is asked is always the same: afterwards there is one
//! result, the same from every node, and the effects of exactly one run.

#![expect(clippy::print_stderr, reason = "a swarm tells what it breaks")]

mod cuts;
mod disks;
mod flows;
mod joining;
mod kills;
mod network;
mod nodes;
mod pauses;
#[path = "../processes/mod.rs"]
mod processes;
mod sandbox;
mod splits;
mod swarm;
