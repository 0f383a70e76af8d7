//! How an execution is to survive: the `survival` block of a definition, or what a starter says.

use std::str::FromStr;
use std::time::Duration;

use minicbor::{Decode, Encode};
use outlast_expressions::value;
use outlast_workflow::{Program, moment};

/// How many replicas there are if nothing is said.
const REPLICAS: usize = 3;

/// How an execution is to survive.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Survival {
    /// The way.
    #[n(0)]
    pub strategy: Strategy,
    /// How many nodes hold it.
    #[n(1)]
    pub replicas: u16,
    /// How many votes make a primary (seed 0's t_v), itself included.
    #[n(2)]
    pub votes: u16,
    /// What must be known where before a call leaves.
    #[n(3)]
    pub acknowledge: Acknowledge,
    /// How long a candidate waits for objections, in microseconds (seed 0's t_t); zero is the
    /// node's default.
    #[n(4)]
    pub election_wait: u64,
    /// The most that undoing may cost before a primary without a majority pauses.
    #[n(5)]
    pub budget: Option<f64>,
    /// Whether an activity that can be neither undone nor repeated may run before it is decided that
    /// its line counts: its author waives that it runs on one line at most.
    #[n(6)]
    pub pivots_anywhere: bool,
}

/// A way to survive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Strategy {
    /// One node, its journal.
    #[default]
    #[n(0)]
    None,
    /// A primary that a majority elects, and backups.
    #[n(1)]
    Passive,
    /// Every replica executes; one result is kept, the others are undone.
    #[n(2)]
    Active,
    /// A primary in every partition with enough votes; one result is kept, the others are undone.
    #[n(3)]
    PartitionTolerant,
}

/// What must be known where before a call leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum Acknowledge {
    /// The intent is on the disk of the node that calls; the others learn of it meanwhile.
    #[n(0)]
    None,
    /// The intent is at a majority of the replicas.
    #[n(1)]
    Majority,
}

impl Survival {
    /// One node, its journal.
    pub const fn solo() -> Self {
        Self {
            strategy: Strategy::None,
            replicas: 1,
            votes: 1,
            acknowledge: Acknowledge::None,
            election_wait: 0,
            budget: None,
            pivots_anywhere: false,
        }
    }

    /// A strategy with a number of replicas and its defaults.
    pub fn new(strategy: Strategy, replicas: usize) -> Self {
        let replicas = u16::try_from(replicas).unwrap_or(u16::MAX).max(1);
        match strategy {
            Strategy::None => Self::solo(),
            Strategy::Passive => Self {
                strategy,
                replicas,
                votes: replicas / 2 + 1,
                acknowledge: Acknowledge::Majority,
                ..Self::solo()
            },
            Strategy::Active | Strategy::PartitionTolerant => {
                Self { strategy, replicas, ..Self::solo() }
            }
        }
    }

    /// What a program says: its `survival` block. Strategies that this release does not know are
    /// none, as the language check has said.
    pub fn of(program: &Program) -> Self {
        let Some(block) = value::get(&program.extension, "survival") else { return Self::solo() };
        let text = |key: &str| value::get(block, key).and_then(value::as_str);
        let number = |key: &str| value::get(block, key).and_then(value::as_f64);
        let strategy = text("strategy").and_then(|it| it.parse().ok()).unwrap_or_default();
        let replicas = number("replicas").map_or(REPLICAS, |count| count as usize);
        let mut survival = Self::new(strategy, replicas);
        if let Some(votes) = number("voteThreshold").filter(|_| strategy != Strategy::Passive) {
            survival.votes = (votes as u16).clamp(1, survival.replicas / 2 + 1);
        }
        match text("acknowledge") {
            Some("none") => survival.acknowledge = Acknowledge::None,
            Some("majority") => survival.acknowledge = Acknowledge::Majority,
            _ => {}
        }
        let wait = text("electionWait").and_then(|it| moment::duration_of_text(it).ok());
        let wait = wait.unwrap_or(Duration::ZERO);
        survival.election_wait = u64::try_from(wait.as_micros()).unwrap_or(0);
        survival.budget = number("budget");
        survival.pivots_anywhere = text("pivots") == Some("anywhere");
        survival
    }

    /// Whether more than one node holds it.
    pub const fn is_replicated(&self) -> bool {
        !matches!(self.strategy, Strategy::None)
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        match text {
            "none" => Ok(Self::None),
            "passive" => Ok(Self::Passive),
            "active" => Ok(Self::Active),
            "partition-tolerant" => Ok(Self::PartitionTolerant),
            _ => Err(UnknownStrategy),
        }
    }
}

/// The text names no way to survive that this release knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected none, passive, active or partition-tolerant")]
pub struct UnknownStrategy;
