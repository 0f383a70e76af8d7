//! What a swarm has to say: for people, or as JSON.

use std::collections::BTreeMap;

use outlast_simulator::{Situations, Verdict};
use serde::Serialize;

/// What was counted over all worlds.
#[derive(Default)]
pub(super) struct Tally {
    worlds: u64,
    events: u64,
    occurrences: u64,
    simulated: f64,
    situations: Situations,
    seed: u64,
    /// How long it took.
    pub(super) seconds: f64,
    /// The sentence that did not hold.
    pub(super) finding: Option<String>,
    /// The faults that are enough to break it.
    pub(super) faults: Vec<String>,
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
}

#[derive(Serialize)]
struct Failed<'t> {
    seed: u64,
    finding: &'t str,
    faults: &'t [String],
    command: Option<&'t str>,
}

impl Tally {
    /// Adds how a world went.
    pub(super) fn add(&mut self, seed: u64, verdict: &Verdict) {
        self.worlds += 1;
        self.events += verdict.steps;
        self.occurrences += verdict.occurrences;
        self.simulated += verdict.elapsed.as_secs_f64();
        self.situations.add(&verdict.situations);
        self.seed = seed;
        self.finding.clone_from(&verdict.finding);
    }

    /// Prints it on stdout.
    pub(super) fn print(&self, json: bool) {
        if json {
            let text = serde_json::to_string_pretty(&self.shown());
            println!("{}", text.expect("what is shown can be written as JSON"));
        } else {
            self.print_for_people();
        }
    }

    fn shown(&self) -> Shown<'_> {
        let words = self.situations.iter().map(|(situation, count)| (situation.words(), count));
        let failed = self.finding.as_deref().map(|finding| Failed {
            seed: self.seed,
            finding,
            faults: &self.faults,
            command: self.command.as_deref(),
        });
        Shown {
            worlds: self.worlds,
            events: self.events,
            occurrences: self.occurrences,
            wall_seconds: self.seconds,
            simulated_seconds: self.simulated,
            events_per_second: self.events as f64 / self.seconds.max(1e-9),
            situations: words.collect(),
            failed,
        }
    }

    fn print_for_people(&self) {
        let rate = self.events as f64 / self.seconds.max(1e-9);
        println!(
            "{} worlds, {} engine events in {:.2} s ({rate:.0}/s), {:.0} s simulated",
            self.worlds, self.events, self.seconds, self.simulated
        );
        for (situation, count) in self.situations.iter().filter(|(_, count)| *count > 0) {
            println!("  {count:>8}  {}", situation.words());
        }
        let Some(finding) = &self.finding else { return println!("every sentence held") };
        println!("seed {}: {finding}", self.seed);
        for fault in &self.faults {
            println!("  {fault}");
        }
        if let Some(command) = &self.command {
            println!("to see it: {command}");
        }
    }
}
