//! What a swarm has to say: for people, or as JSON.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use outlast_simulator::{Situations, Verdict};
use serde::Serialize;

use crate::table;

/// What was counted over all worlds.
#[derive(Default)]
pub(super) struct Tally {
    worlds: u64,
    events: u64,
    occurrences: u64,
    simulated: f64,
    situations: Situations,
    seed: u64,
    /// In how many worlds nobody can tell what stands.
    unjudged: u64,
    /// How long it took.
    pub(super) seconds: f64,
    /// The sentence that did not hold.
    pub(super) finding: Option<String>,
    /// The sentence that does not hold when only these faults are left.
    pub(super) finding_of_fewer: Option<String>,
    /// The faults that are enough to break it.
    pub(super) faults: Vec<String>,
    /// The first event that is not the one that was recorded.
    pub(super) difference: Option<String>,
    trace: Option<String>,
    /// A trace was printed before it: what a clock on the wall says then goes to stderr, so that the same
    /// world prints the same bytes.
    beside_trace: bool,
    /// The command that shows it.
    pub(super) command: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'t> {
    worlds: u64,
    /// Steps of engines.
    events: u64,
    occurrences: u64,
    wall_seconds: f64,
    simulated_seconds: f64,
    events_per_second: f64,
    situations: BTreeMap<&'static str, u64>,
    failed: Option<Failed<'t>>,
    /// Worlds with undos that name nothing that was done: what stands in the end is not judged there.
    worlds_without_net_effects: u64,
    /// How a run differs from the one that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'t str>,
    /// What occurred, a line each.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Vec<&'t str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failed<'t> {
    seed: u64,
    finding: &'t str,
    /// What is found when only these faults are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    finding_of_fewer: Option<&'t str>,
    faults: &'t [String],
    command: Option<&'t str>,
}

impl Tally {
    /// Nothing was counted yet; whether a trace is printed before it.
    pub(super) fn new(beside_trace: bool) -> Self {
        Self { beside_trace, ..Self::default() }
    }

    /// Adds how a world went.
    pub(super) fn add(&mut self, seed: u64, verdict: &Verdict) {
        self.worlds += 1;
        self.events += verdict.steps;
        self.occurrences += verdict.occurrences;
        self.simulated += verdict.elapsed.as_secs_f64();
        self.situations.add(&verdict.situations);
        self.unjudged += u64::from(verdict.unpaired > 0);
        self.seed = seed;
        self.finding.clone_from(&verdict.finding);
    }

    /// Keeps what occurred in a world, for programs.
    pub(super) fn keep_trace(&mut self, verdict: &Verdict) {
        self.trace.get_or_insert_default().push_str(&verdict.trace);
    }

    /// Prints it on stdout.
    pub(super) fn print(&self, json: bool) {
        if json {
            let text = serde_json::to_string_pretty(&self.shown());
            let text = text.expect("what is shown can be written as JSON");
            table::print(&format!("{text}\n"));
        } else {
            let mut text = String::new();
            self.write_for_people(&mut text).expect("text grows");
            table::print(&text);
            if self.beside_trace {
                tell!("{} engine events in {}", self.events, self.pace());
            }
        }
    }

    fn shown(&self) -> Shown<'_> {
        let words = self.situations.iter().map(|(situation, count)| (situation.words(), count));
        let failed = self.finding.as_deref().map(|finding| Failed {
            seed: self.seed,
            finding,
            finding_of_fewer: self.other_finding(),
            faults: &self.faults,
            command: self.command.as_deref(),
        });
        Shown {
            worlds: self.worlds,
            events: self.events,
            occurrences: self.occurrences,
            wall_seconds: self.seconds,
            simulated_seconds: self.simulated,
            events_per_second: self.rate(),
            situations: words.collect(),
            failed,
            worlds_without_net_effects: self.unjudged,
            difference: self.difference.as_deref(),
            trace: self.trace.as_deref().map(|trace| trace.lines().collect()),
        }
    }

    /// What is found with fewer faults, if that is something else.
    fn other_finding(&self) -> Option<&str> {
        self.finding_of_fewer.as_deref().filter(|fewer| Some(*fewer) != self.finding.as_deref())
    }

    /// Engine events in a second.
    fn rate(&self) -> f64 {
        self.events as f64 / self.seconds.max(1e-9)
    }

    /// How long it took, and how fast that is.
    fn pace(&self) -> String {
        format!("{:.2} s ({:.0}/s)", self.seconds, self.rate())
    }

    fn write_for_people(&self, text: &mut String) -> fmt::Result {
        let worlds = if self.worlds == 1 { "world" } else { "worlds" };
        write!(text, "{} {worlds}, {} engine events", self.worlds, self.events)?;
        if !self.beside_trace {
            write!(text, " in {}", self.pace())?;
        }
        writeln!(text, ", {:.0} s simulated", self.simulated)?;
        for (situation, count) in self.situations.iter().filter(|(_, count)| *count > 0) {
            writeln!(text, "  {count:>8}  {}", situation.words())?;
        }
        if self.unjudged > 0 {
            writeln!(
                text,
                "not judged in {} of them: what stands in the end, as undos do not",
                self.unjudged
            )?;
            writeln!(
                text,
                "  carry the `receipt` that the simulator's services answer with (use `capture`)"
            )?;
        }
        let Some(finding) = &self.finding else { return writeln!(text, "every sentence held") };
        writeln!(text, "seed {}: {finding}", self.seed)?;
        if let Some(other) = self.other_finding() {
            writeln!(text, "with only these faults: {other}")?;
        }
        for fault in &self.faults {
            writeln!(text, "  {fault}")?;
        }
        match &self.command {
            Some(command) => writeln!(text, "to see it: {command}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fewer_faults_break_is_told_if_it_is_something_else() {
        let words = |fewer: &str| {
            let (finding, fewer) = (Some("it never ended".to_owned()), Some(fewer.to_owned()));
            let tally = Tally { finding, finding_of_fewer: fewer, ..Tally::default() };
            let mut text = String::new();
            tally.write_for_people(&mut text).unwrap();
            text
        };
        assert!(!words("it never ended").contains("with only these faults"));
        assert!(words("it ended twice").contains("with only these faults: it ended twice\n"));
    }

    #[test]
    fn what_could_not_be_judged_is_said() {
        let told = |unjudged| {
            let mut text = String::new();
            Tally { unjudged, ..Tally::default() }.write_for_people(&mut text).unwrap();
            text
        };
        assert!(told(3).contains("not judged in 3 of them"));
        assert!(!told(0).contains("judged"));
    }
}
