//! What a node is set up with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Limits, Quota, Retention};

use crate::services::{self, Builtin, Catalog, NoSecrets, SecretSource};
use crate::{journal, workers};

/// What a node is set up with. Changing it between two lives of a node is allowed.
#[derive(Clone)]
pub struct Configuration {
    /// The data directory; made if it is not there.
    pub directory: PathBuf,
    /// How the journal is kept.
    pub journal: journal::Options,
    /// When the journal is shortened.
    pub checkpoints: Checkpoints,
    /// How calls are made. The clock in it is replaced by the node's.
    pub services: services::Options,
    /// Services that are called without a socket.
    pub catalog: Arc<dyn Catalog>,
    /// Where secrets come from.
    pub secrets: Arc<dyn SecretSource>,
    /// Who evaluates what is not bounded; nothing is this very program.
    pub workers: Option<workers::Settings>,
    /// Sizes that are accepted.
    pub limits: Limits,
    /// How long ended executions are kept.
    pub retention: Retention,
    /// What each namespace may use that has no quota of its own.
    pub quota: Quota,
    /// Quotas of namespaces.
    pub quotas: BTreeMap<String, Quota>,
    /// How many idle executions are held ready; the others sleep as bytes.
    pub awake_max: usize,
    /// How many requests may wait for the driver before more are refused.
    pub asks_max: usize,
    /// How many calls over the network are under way at most; the others wait for their turn.
    pub calls_max: usize,
}

/// When the journal is shortened.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoints {
    /// After this many bytes of records.
    pub bytes: u64,
    /// At the latest this long after a record that only the journal has.
    pub age: Duration,
    /// How many snapshots are taken at once, between other work.
    pub slice: usize,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { bytes: 4 * 1024 * 1024, age: Duration::from_secs(15 * 60), slice: 256 }
    }
}

impl Configuration {
    /// The defaults, with the data in a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            journal: journal::Options::default(),
            checkpoints: Checkpoints::default(),
            services: services::Options::default(),
            catalog: Arc::new(Builtin),
            secrets: Arc::new(NoSecrets),
            workers: None,
            limits: Limits::default(),
            retention: Retention::default(),
            quota: Quota::default(),
            quotas: BTreeMap::new(),
            awake_max: 1024,
            asks_max: 16 * 1024,
            calls_max: 1024,
        }
    }
}
