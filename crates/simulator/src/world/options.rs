//! What a world is like.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{CrashPoint, Fault, Latency, NetworkOptions};

/// What a world is like.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Where its random numbers come from.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// What goes wrong, and when.
    pub faults: Vec<Fault>,
    /// What the network between nodes is like.
    pub network: NetworkOptions,
    /// How long a sync of a disk takes.
    pub sync: Latency,
    /// How long a call takes to its service, and its answer back.
    pub service: Latency,
    /// How long services work on what they are asked before it is done, by the name of the operation;
    /// what is not named is done at once.
    pub work: BTreeMap<String, Duration>,
    /// How long the client waits for a node before it turns to another.
    pub client_patience: Duration,
    /// How far clocks are off at most, in microseconds, to either side.
    pub skew: u64,
    /// Whether every input of every engine is kept, with what came of it.
    pub records_run: bool,
    /// Whether nodes find out by gossip who is there; if not, the world tells them.
    pub gossip: bool,
    /// How long until a node that lost its disk is given up by the others.
    pub fence_after: Duration,
    /// When the first node crashes.
    pub crashes: Vec<CrashPoint>,
    /// How many releases of outputs in a thousand are followed by a crash besides.
    pub crash_per_mille: u64,
    /// How many answers in a thousand are lost on their way.
    pub lost_per_mille: u64,
    /// Whether services act once for each key.
    pub deduplicating: bool,
    /// After how many records a node writes snapshots; zero is never.
    pub snapshot_every: u64,
    /// How many executions a node holds awake.
    pub awake_max: usize,
    /// How long the world may take at most.
    pub patience: Duration,
    /// How long everything may take to come to an end once the last fault is over.
    pub healing: Duration,
    /// After how many steps an engine is looked through; zero is never.
    pub invariants_every: u64,
    /// Whether what occurs is written down.
    pub trace: bool,
    /// Whether people have everything asked for again that was not done, as in the world off which an
    /// `Expectation` is read.
    pub nobody_denies: bool,
    /// Whether engines report what happens, which the counting of situations needs.
    pub reports: bool,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            nodes: 1,
            faults: Vec::new(),
            network: NetworkOptions::default(),
            sync: Latency::Uniform(100, 2_000),
            service: Latency::Uniform(100, 20_000),
            work: BTreeMap::new(),
            client_patience: Duration::from_secs(5),
            skew: 0,
            records_run: false,
            gossip: false,
            fence_after: Duration::from_secs(5),
            crashes: Vec::new(),
            crash_per_mille: 0,
            lost_per_mille: 0,
            deduplicating: true,
            snapshot_every: 0,
            awake_max: 2,
            patience: Duration::from_secs(24 * 60 * 60),
            healing: Duration::from_secs(600),
            // A large execution takes as long to look through as for everything else it does.
            invariants_every: if cfg!(debug_assertions) { 1 } else { 0 },
            trace: true,
            nobody_denies: false,
            reports: true,
        }
    }
}
