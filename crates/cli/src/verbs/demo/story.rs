//! What happened, in order, and the questions that the demo and the drawing ask about it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Event {
    /// When, in microseconds since the demo began.
    pub(super) at: u64,
    /// Where; nothing if it is about all nodes.
    pub(super) node: Option<usize>,
    pub(super) what: What,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// The flow was started.
    Began,
    /// A step was done: the number of its effect at the service.
    Stepped { step: u64, effect: u64 },
    /// A step was asked for and refused, because it had been taken back before.
    Refused { step: u64 },
    /// A step was taken back: the effect that this undid, if there was any.
    Undid { step: u64, effect: Option<u64> },
    /// It leads without having been elected: the first primary.
    Leads,
    /// It asked for votes.
    Candidacy,
    /// It became primary.
    Elected,
    /// It has not enough votes.
    TooFewVotes,
    /// It met a primary that had come further, and stopped.
    StoodDown,
    /// What it did alone does not count any more.
    LineLost,
    /// It knows which run counts.
    Decided,
    /// Its process was killed.
    Killed,
    /// Its process was started again.
    Restarted,
    /// The nodes were cut into these sides.
    Cut(Vec<Vec<usize>>),
    /// The nodes reach each other again.
    Healed,
    /// The flow ended.
    Ended(String),
}

/// Everything that happened.
#[derive(Default)]
pub(super) struct Story {
    pub(super) nodes: usize,
    pub(super) steps: u64,
    pub(super) events: Vec<Event>,
}

impl Story {
    /// How many events there are: a moment to look back to.
    pub(super) fn now(&self) -> usize {
        self.events.len()
    }

    /// The highest step that anyone has begun.
    pub(super) fn furthest(&self) -> u64 {
        self.stepped(0).map(|(_, step, _)| step).max().unwrap_or(0)
    }

    /// Who did the furthest step; the last one, if there are several.
    pub(super) fn leader(&self) -> Option<usize> {
        self.stepped(0).max_by_key(|(_, step, _)| *step).map(|(node, _, _)| node)
    }

    /// Who did a step since a moment.
    pub(super) fn steppers(&self, since: usize) -> BTreeSet<usize> {
        self.stepped(since).map(|(node, _, _)| node).collect()
    }

    /// That the first primary leads, if an event is its first step.
    pub(super) fn leads_from(&self, event: &Event) -> Option<Event> {
        let leads = |event: &Event| matches!(event.what, What::Leads | What::Elected);
        let is_step = matches!(event.what, What::Stepped { .. });
        let is_first = is_step && !self.events.iter().any(leads);
        is_first.then(|| Event { what: What::Leads, ..event.clone() })
    }

    /// Puts everything in the order in which it happened; it may have been heard in another.
    pub(super) fn sort(&mut self) {
        self.events.sort_by_key(|event| event.at);
    }

    /// Whether a run was decided on.
    pub(super) fn is_decided(&self) -> bool {
        self.events.iter().any(|event| event.what == What::Decided)
    }

    /// Node, step and effect of each step that was done since a moment.
    pub(super) fn stepped(&self, since: usize) -> impl Iterator<Item = (usize, u64, u64)> {
        self.events[since..].iter().filter_map(|event| match event.what {
            What::Stepped { step, effect } => Some((event.node?, step, effect)),
            _ => None,
        })
    }

    /// The effects that were taken back.
    pub(super) fn undone(&self) -> BTreeSet<u64> {
        let undone = self.events.iter().filter_map(|event| match event.what {
            What::Undid { effect, .. } => effect,
            _ => None,
        });
        undone.collect()
    }

    /// For each step, who did it for good: one node each, if all is well.
    pub(super) fn kept(&self) -> BTreeMap<u64, Vec<usize>> {
        let undone = self.undone();
        let mut kept: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (node, step, _) in self.stepped(0).filter(|(_, _, effect)| !undone.contains(effect)) {
            kept.entry(step).or_default().push(node);
        }
        kept
    }

    /// How many events are of a kind.
    pub(super) fn count(&self, is_it: impl Fn(&What) -> bool) -> usize {
        self.events.iter().filter(|event| is_it(&event.what)).count()
    }

    /// The longest time between two steps, from when on, in microseconds.
    pub(super) fn longest_pause(&self) -> (u64, u64) {
        let steps = self.events.iter().filter(|event| matches!(event.what, What::Stepped { .. }));
        let times: Vec<u64> = steps.map(|event| event.at).collect();
        let pauses = times.windows(2).map(|pair| (pair[1] - pair[0], pair[0]));
        pauses.max().unwrap_or_default()
    }

    /// The event as one line for people.
    pub(super) fn line(&self, event: &Event) -> String {
        let seconds = event.at as f64 / 1e6;
        let whom = event.node.map_or_else(String::new, |node| format!("node {}", node + 1));
        format!("{seconds:6.2} s  {whom:<7} {}", event.what.sentence())
    }

    /// The event for programs.
    pub(super) fn json(event: &Event) -> Json {
        let mut said = json!({ "ms": event.at / 1000, "what": event.what.word() });
        if let Some(node) = event.node {
            said["node"] = json!(node + 1);
        }
        match &event.what {
            What::Stepped { step, effect } => {
                said["step"] = json!(step);
                said["effect"] = json!(effect);
            }
            What::Undid { step, effect } => {
                said["step"] = json!(step);
                said["effect"] = json!(effect);
            }
            What::Refused { step } => said["step"] = json!(step),
            What::Cut(sides) => said["sides"] = json!(numbered(sides)),
            What::Ended(condition) => said["condition"] = json!(condition),
            _ => {}
        }
        said
    }
}

impl What {
    /// What a situation that a node reports is in the story, if it is in it.
    pub(super) fn of_situation(word: &str) -> Option<Self> {
        Some(match word {
            "candidacy" => Self::Candidacy,
            "elected" => Self::Elected,
            "too-few-votes" => Self::TooFewVotes,
            "stood-down" => Self::StoodDown,
            "line-lost" => Self::LineLost,
            "run-decided" => Self::Decided,
            _ => return None,
        })
    }

    /// One word for programs.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Stepped { .. } => "step",
            Self::Refused { .. } => "refused",
            Self::Undid { .. } => "undo",
            Self::Leads => "leads",
            Self::Candidacy => "candidacy",
            Self::Elected => "elected",
            Self::TooFewVotes => "too-few-votes",
            Self::StoodDown => "stood-down",
            Self::LineLost => "line-lost",
            Self::Decided => "decided",
            Self::Killed => "killed",
            Self::Restarted => "restarted",
            Self::Cut(_) => "cut",
            Self::Healed => "healed",
            Self::Ended(_) => "ended",
        }
    }

    /// A few words for people, after who it is about.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Began => "the flow begins".to_owned(),
            Self::Stepped { step, .. } => format!("step {step}"),
            Self::Refused { step } => format!("step {step} comes too late and is refused"),
            Self::Undid { step, effect: Some(_) } => format!("takes its step {step} back"),
            Self::Undid { step, effect: None } => {
                format!("takes step {step} back, which never happened")
            }
            Self::Leads => "leads: it is the primary".to_owned(),
            Self::Candidacy => "misses a primary and asks for votes".to_owned(),
            Self::Elected => "is elected and goes on".to_owned(),
            Self::TooFewVotes => "has too few votes".to_owned(),
            Self::StoodDown => "meets a primary that is further, and stops".to_owned(),
            Self::LineLost => "loses its line: what only it did will be taken back".to_owned(),
            Self::Decided => "knows the decision: which run counts".to_owned(),
            Self::Killed => "KILLED (-9)".to_owned(),
            Self::Restarted => "is started again".to_owned(),
            Self::Cut(sides) => format!("CUT into {}", sides_text(sides)),
            Self::Healed => "HEALED: all reach all again".to_owned(),
            Self::Ended(condition) => format!("the flow is {condition}"),
        }
    }
}

/// Sides of a cut as people write them: `1 3 | 2 4`.
pub(super) fn sides_text(sides: &[Vec<usize>]) -> String {
    let side = |side: &Vec<usize>| side.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    numbered(sides).iter().map(side).collect::<Vec<_>>().join(" | ")
}

/// People count from one.
fn numbered(sides: &[Vec<usize>]) -> Vec<Vec<usize>> {
    sides.iter().map(|side| side.iter().map(|node| node + 1).collect()).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A story of three nodes: the primary is killed, the others are cut apart, one line is lost.
    pub(crate) fn sample() -> Story {
        let cut = What::Cut(vec![vec![0], vec![1, 2]]);
        let step = |step, effect| What::Stepped { step, effect };
        let list = [
            (None, What::Began),
            (Some(2), step(1, 1)),
            (Some(2), What::Killed),
            (Some(1), What::Candidacy),
            (Some(1), What::Elected),
            (Some(1), step(2, 2)),
            (None, cut),
            (Some(0), What::Elected),
            (Some(0), step(3, 3)),
            (Some(1), step(3, 4)),
            (Some(2), What::Restarted),
            (None, What::Healed),
            (Some(0), What::LineLost),
            (Some(1), step(4, 5)),
            (Some(1), What::Decided),
            (Some(0), What::Undid { step: 3, effect: Some(3) }),
            (None, What::Ended("completed".to_owned())),
        ];
        let events = list.into_iter().zip(0..);
        let events = events.map(|((node, what), at)| Event { at: at * 500_000, node, what });
        Story { nodes: 3, steps: 4, events: events.collect() }
    }

    #[test]
    fn what_is_kept_is_what_was_done_and_not_taken_back() {
        let story = sample();
        let kept = [(1, vec![2]), (2, vec![1]), (3, vec![1]), (4, vec![1])];
        assert_eq!(story.kept(), BTreeMap::from(kept));
        assert_eq!(story.furthest(), 4);
        assert_eq!(story.steppers(6), BTreeSet::from([0, 1]));
    }

    #[test]
    fn the_longest_pause_is_between_two_steps() {
        assert_eq!(sample().longest_pause(), (2_000_000, 4_500_000));
    }

    #[test]
    fn a_line_says_when_who_and_what() {
        let story = sample();
        assert_eq!(story.line(&story.events[2]), "  1.00 s  node 3  KILLED (-9)");
        assert_eq!(story.line(&story.events[6]), "  3.00 s          CUT into 1 | 2 3");
    }
}
