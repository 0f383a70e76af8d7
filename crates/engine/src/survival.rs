//! How an execution is to survive: the `survival` block of a definition, or what a starter says.

use std::str::FromStr;
use std::time::Duration;

use minicbor::{Decode, Encode};
use outlast_expressions::{Value, value};
use outlast_workflow::program::survival::{REPLICAS, REPLICAS_MAX, refuse_election_wait};
use outlast_workflow::{Program, moment};

/// What a block may say.
const KEYS: [&str; 8] = [
    "strategy",
    "replicas",
    "voteThreshold",
    "acknowledge",
    "electionWait",
    "heartbeat",
    "budget",
    "pivots",
];

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
        value::get(&program.extension, "survival").map_or_else(Self::solo, Self::of_block)
    }

    /// What a starter says: a text such as `passive`, `passive:5` or `partition-tolerant:5:2`
    /// (replicas, votes), or an object with the words of a definition's block.
    pub fn read(said: &Value) -> Result<Self, String> {
        if let Some(text) = value::as_str(said) {
            return text.parse();
        }
        check(said)?;
        let survival = Self::of_block(said);
        survival.strategy.refuse_unread(said)?;
        Ok(survival)
    }

    /// What a block says that was checked.
    fn of_block(block: &Value) -> Self {
        let text = |key: &str| value::get(block, key).and_then(value::as_str);
        let number = |key: &str| value::get(block, key).and_then(value::as_f64);
        let strategy = text("strategy").and_then(|it| it.parse().ok()).unwrap_or_default();
        let replicas = number("replicas").map_or(REPLICAS.into(), |count| count as usize);
        let mut survival = Self::new(strategy, replicas);
        if let Some(votes) = number("voteThreshold").filter(|_| strategy != Strategy::Passive) {
            survival.votes = (votes as u16).clamp(1, survival.replicas / 2 + 1);
        }
        if let Some(acknowledge) = text("acknowledge").and_then(|it| it.parse().ok()) {
            survival.acknowledge = acknowledge;
        }
        let wait = value::get(block, "electionWait").and_then(|it| moment::duration(it).ok());
        let wait = wait.unwrap_or(Duration::ZERO);
        survival.election_wait = u64::try_from(wait.as_micros()).unwrap_or(0);
        survival.budget = number("budget");
        survival.pivots_anywhere = text("pivots") == Some("anywhere");
        survival
    }

    /// The same for another number of replicas: votes stay what they are, as far as they can.
    pub fn among(&self, replicas: usize) -> Self {
        let whole = Self::new(self.strategy, replicas);
        let votes = match self.strategy {
            Strategy::Passive => whole.votes,
            _ => self.votes.clamp(1, whole.replicas / 2 + 1),
        };
        Self { replicas: whole.replicas, votes, ..self.clone() }
    }

    /// Whether more than one node holds it.
    pub const fn is_replicated(&self) -> bool {
        !matches!(self.strategy, Strategy::None)
    }
}

impl Strategy {
    /// What a block may say besides the strategy; `heartbeat` is read by none.
    const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Passive => &["replicas", "electionWait", "acknowledge", "budget", "pivots"],
            Self::Active => &["replicas", "electionWait", "pivots"],
            Self::PartitionTolerant => {
                &["replicas", "voteThreshold", "electionWait", "acknowledge", "budget", "pivots"]
            }
        }
    }

    /// Refuses what nobody looks at: whoever says it means something else.
    fn refuse_unread(self, block: &Value) -> Result<(), String> {
        let read = self.parameters();
        let mut said = value::members(block).map(|(key, _)| key).filter(|key| *key != "strategy");
        let Some(unread) = said.find(|key| !read.contains(key)) else { return Ok(()) };
        let strategy = value::get(block, "strategy").and_then(value::as_str).unwrap_or_default();
        let rest = match read {
            [] => String::new(),
            read => format!("; there is {}", read.join(", ")),
        };
        Err(format!("the strategy {strategy} does not read `{unread}`; leave it out{rest}"))
    }
}

impl Strategy {
    const ALL: [Self; 4] = [Self::None, Self::Passive, Self::Active, Self::PartitionTolerant];

    /// Its word, as documents have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Passive => "passive",
            Self::Active => "active",
            Self::PartitionTolerant => "partition-tolerant",
        }
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL.into_iter().find(|strategy| strategy.word() == text).ok_or(UnknownStrategy)
    }
}

/// The text names no way to survive that this release knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected none, passive, active or partition-tolerant")]
pub struct UnknownStrategy;

impl Acknowledge {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Majority => "majority",
        }
    }
}

impl FromStr for Acknowledge {
    type Err = UnknownAcknowledgement;

    fn from_str(text: &str) -> Result<Self, UnknownAcknowledgement> {
        let mut known = [Self::None, Self::Majority].into_iter();
        known.find(|it| it.word() == text).ok_or(UnknownAcknowledgement)
    }
}

/// The text does not say who must know of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected none or majority")]
pub struct UnknownAcknowledgement;

impl FromStr for Survival {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let strategy = parts.next().unwrap_or_default();
        let mut block = vec![("strategy", value::string(strategy))];
        for key in ["replicas", "voteThreshold"] {
            if let Some(count) = parts.next() {
                let number: i64 =
                    count.parse().map_err(|_| format!("{text}: `{count}` is no number"))?;
                block.push((key, value::integer(number)));
            }
        }
        if parts.next().is_some() {
            return Err(format!(
                "{text}: expected a strategy, replicas and votes, as in passive:3"
            ));
        }
        let block = value::object(block);
        check(&block).map_err(|reason| format!("{text}: {reason}"))?;
        let survival = Self::of_block(&block);
        let has = |key: &str| value::get(&block, key).is_some();
        // Whoever gives a number that nobody looks at means something else.
        match survival.strategy {
            Strategy::None if has("replicas") => {
                Err(format!("{text}: one node alone holds it; leave the numbers out"))
            }
            Strategy::Passive | Strategy::Active if has("voteThreshold") => {
                Err(format!("{text}: votes are for partition-tolerant; leave them out"))
            }
            _ => Ok(survival),
        }
    }
}

/// Whether a block is one that this release can hold to.
fn check(block: &Value) -> Result<(), String> {
    if !matches!(block, Value::Obj(_)) {
        return Err("it is neither a text nor an object".to_owned());
    }
    if let Some((key, _)) = value::members(block).find(|(key, _)| !KEYS.contains(key)) {
        return Err(format!("`{key}` is not known; there are {}", KEYS.join(", ")));
    }
    let get = |key: &str| value::get(block, key);
    let strategy = get("strategy").and_then(value::as_str).ok_or("`strategy` is missing")?;
    strategy.parse::<Strategy>().map_err(|error| format!("`strategy`: {error}"))?;
    let replicas = count(get("replicas"), "replicas", REPLICAS_MAX)?.unwrap_or(REPLICAS);
    count(get("voteThreshold"), "voteThreshold", replicas / 2 + 1)?;
    one_of(get("acknowledge"), "acknowledge", &["none", "majority"])?;
    one_of(get("pivots"), "pivots", &["anywhere"])?;
    let budget = get("budget").map(|it| value::as_f64(it).filter(|it| 0.0 <= *it));
    budget.is_none_or(|it| it.is_some()).then_some(()).ok_or("`budget` is no cost")?;
    for key in ["electionWait", "heartbeat"] {
        let Some(wait) = get(key) else { continue };
        let wait = moment::duration(wait).map_err(|error| format!("`{key}`: {error}"))?;
        if let Some(reason) = refuse_election_wait(wait).filter(|_| key == "electionWait") {
            return Err(format!("`{key}` {reason}"));
        }
    }
    Ok(())
}

fn count(said: Option<&Value>, key: &str, most: u16) -> Result<Option<u16>, String> {
    let Some(said) = said else { return Ok(None) };
    let count = value::as_i64(said).and_then(|count| u16::try_from(count).ok());
    match count.filter(|count| (1..=most).contains(count)) {
        Some(count) => Ok(Some(count)),
        None => Err(format!("`{key}` is from 1 to {most} here")),
    }
}

fn one_of(said: Option<&Value>, key: &str, words: &[&str]) -> Result<(), String> {
    match said.map(|said| value::as_str(said).is_some_and(|said| words.contains(&said))) {
        Some(false) => Err(format!("`{key}` is one of {}", words.join(", "))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Survival, String> {
        Survival::read(&value::parse(text).unwrap())
    }

    #[test]
    fn a_text_names_strategy_replicas_and_votes() {
        assert_eq!("none".parse(), Ok(Survival::solo()));
        assert_eq!("passive".parse(), Ok(Survival::new(Strategy::Passive, 3)));
        let wanted = Survival { votes: 2, ..Survival::new(Strategy::PartitionTolerant, 5) };
        assert_eq!("partition-tolerant:5:2".parse(), Ok(wanted));
        for wrong in
            ["", "ring", "passive:0", "passive:x", "active:3:1:1", "active:3:3", "active:65"]
        {
            assert!(wrong.parse::<Survival>().is_err(), "{wrong}");
        }
        for unread in ["none:3", "passive:3:1", "passive:3:2", "active:3:1"] {
            let reason = unread.parse::<Survival>().unwrap_err();
            assert!(reason.contains("out"), "{unread}: {reason}");
        }
    }

    #[test]
    fn among_another_number_of_nodes_votes_are_a_majority_at_most() {
        let tolerant = Survival { votes: 3, ..Survival::new(Strategy::PartitionTolerant, 5) };
        assert_eq!((tolerant.among(3).replicas, tolerant.among(3).votes), (3, 2));
        assert_eq!(tolerant.among(9).votes, 3);
        assert_eq!(Survival::new(Strategy::Passive, 3).among(5).votes, 3);
    }

    #[test]
    fn an_object_says_the_same_as_a_definition() {
        let said = r#"{"strategy": "partition-tolerant", "replicas": 5, "voteThreshold": 3,
            "acknowledge": "majority", "pivots": "anywhere", "electionWait": "PT1S", "budget": 7}"#;
        let survival = read(said).unwrap();
        assert_eq!((survival.replicas, survival.votes), (5, 3));
        assert_eq!(survival.acknowledge, Acknowledge::Majority);
        assert!(survival.pivots_anywhere);
        assert_eq!((survival.election_wait, survival.budget), (1_000_000, Some(7.0)));
    }

    #[test]
    fn a_time_is_written_in_both_ways_of_the_language() {
        let wait = |said| {
            let text = format!(r#"{{"strategy": "passive", "electionWait": {said}}}"#);
            read(&text).map(|survival| survival.election_wait)
        };
        assert_eq!(wait(r#""PT0.3S""#), Ok(300_000));
        assert_eq!(wait(r#"{"milliseconds": 300}"#), Ok(300_000));
        assert!(wait(r#"{"moments": 3}"#).is_err() && wait("3").is_err());
    }

    #[test]
    fn what_cannot_be_held_to_is_refused_with_a_reason() {
        let wrong = [
            (r"3", "neither"),
            (r#"{"replicas": 3}"#, "`strategy` is missing"),
            (r#"{"strategy": "passive", "copies": 3}"#, "`copies` is not known"),
            (r#"{"strategy": "active", "voteThreshold": 3}"#, "from 1 to 2"),
            (r#"{"strategy": "active", "acknowledge": "all"}"#, "none, majority"),
            (r#"{"strategy": "active", "budget": -1}"#, "`budget`"),
            (r#"{"strategy": "active", "electionWait": "soon"}"#, "`electionWait`"),
            (r#"{"strategy": "active", "electionWait": "PT0S"}"#, "at least PT0.001S"),
            (r#"{"strategy": "active", "electionWait": "PT1000H"}"#, "at most PT1H"),
            (r#"{"strategy": "none", "replicas": 3}"#, "does not read `replicas`; leave it out"),
            (r#"{"strategy": "passive", "voteThreshold": 1}"#, "passive does not read `voteThr"),
            (r#"{"strategy": "active", "budget": 5}"#, "there is replicas, electionWait, pivots"),
            (r#"{"strategy": "active", "heartbeat": "PT1S"}"#, "does not read `heartbeat`"),
        ];
        for (said, reason) in wrong {
            let refused = read(said).unwrap_err();
            assert!(refused.contains(reason), "{said}: {refused}");
        }
    }
}
