//! What an engine is set up with.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_lineage::{Epoch, NodeId};

use crate::{ShardId, Times};

/// What an engine is set up with. Changing it between two lives of a node is allowed.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The node it runs on.
    pub node: NodeId,
    /// The least epoch of the life that begins: the one the driver counted, which a restored backup
    /// makes higher than anything the journal knows.
    pub epoch: Epoch,
    /// The shard it is; written into every record.
    pub shard: ShardId,
    /// Random bytes, fresh in every life: what children's secrets are hidden with.
    pub salt: [u8; 16],
    /// Sizes it accepts.
    pub limits: Limits,
    /// How long ended executions are kept.
    pub retention: Retention,
    /// The quota of every namespace that has none of its own.
    pub quota: Quota,
    /// Quotas of namespaces.
    pub quotas: BTreeMap<String, Quota>,
    /// How many idle executions are held ready; the others sleep as bytes until something happens.
    pub awake_max: usize,
    /// About how many bytes of them.
    pub awake_bytes_max: usize,
    /// How long nodes wait for each other.
    pub times: Times,
    /// Whether `Action::Report` outputs are wanted.
    pub reports: bool,
}

impl EngineOptions {
    /// Defaults for a node.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            epoch: Epoch(1),
            shard: ShardId(0),
            salt: [0; 16],
            limits: Limits::default(),
            retention: Retention::default(),
            quota: Quota::default(),
            quotas: BTreeMap::new(),
            awake_max: 1024,
            awake_bytes_max: 128 * 1024 * 1024,
            times: Times::default(),
            reports: true,
        }
    }
}

/// Sizes an engine accepts, in bytes of the encoded value unless said otherwise.
#[derive(Clone, Debug)]
pub struct Limits {
    /// A definition's text.
    pub definition_bytes: usize,
    /// An execution's input.
    pub input_bytes: usize,
    /// A CloudEvent.
    pub event_bytes: usize,
    /// One value that comes back from a call or an evaluation.
    pub value_bytes: usize,
    /// All data of one execution; beyond it, no more data comes in.
    pub execution_bytes: usize,
    /// A name that a caller gives an execution, in bytes of text.
    pub name_bytes: usize,
    /// How many early events are buffered for listeners still to come.
    pub buffered_events: usize,
    /// Their size together.
    pub buffered_event_bytes: usize,
    /// How long an early event is kept.
    pub buffered_event_age: Duration,
    /// How deep sub-workflows may nest.
    pub nesting: u32,
    /// How many executions one page of a list holds at most.
    pub page: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            definition_bytes: 4 * MIB,
            input_bytes: 4 * MIB,
            event_bytes: MIB,
            value_bytes: 4 * MIB,
            execution_bytes: 64 * MIB,
            name_bytes: 256,
            buffered_events: 10_000,
            buffered_event_bytes: 32 * MIB,
            buffered_event_age: Duration::from_secs(60 * 60),
            nesting: 32,
            page: 1000,
        }
    }
}

/// How long ended executions are kept.
#[derive(Clone, Debug)]
pub struct Retention {
    /// An ended execution is forgotten at this age.
    pub age: Duration,
    /// At most this many ended executions are kept, the newest ones.
    pub count: usize,
    /// After it was forgotten, its id and name are not given again for this long.
    pub tombstone: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self { age: DAY * 30, count: 100_000, tombstone: DAY * 7 }
    }
}

/// What one namespace may use.
#[derive(Clone, Debug)]
pub struct Quota {
    /// Executions that have not ended, children included.
    pub live: usize,
    /// Executions with something under way (not waiting for time, events or people).
    pub running: usize,
    /// Units of work waiting for their turn.
    pub queued: usize,
}

impl Default for Quota {
    fn default() -> Self {
        Self { live: 1_000_000, running: 100_000, queued: 1_000_000 }
    }
}
