//! A run written down: everything its world is made of, and every input of every engine.
//!
//! The text has a line for each option, `key value`; lines that begin with `#` are for people. Each
//! `event` is one input: when, at which node and shard, of which kind, and the digests of the input and
//! of what the engine wanted done. If the flow does not come with the simulator, its text follows after
//! a line `---`, and then, as in a bundle, the texts of the workflows that it runs.

use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Acknowledge, Strategy, Survival};
use outlast_expressions::{Value, value};
use outlast_languages::openworkflow;
use outlast_workflow::program::bundle;

use super::{Scenario, Workload};
use crate::WorldOptions;

/// The first line.
const TITLE: &str = "outlast simulation 1";

/// A world written down.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What it is made of.
    pub scenario: Scenario,
    /// The flow, if it does not come with the simulator.
    pub flow: Option<Workload>,
    /// Every input of every engine, as `RunEvent` writes it; nothing if only the world is kept.
    pub run: Vec<String>,
}

/// The text is not a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordingError(String);

impl std::fmt::Display for RecordingError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for RecordingError {}

impl Recording {
    /// The text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{TITLE}\n");
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            writeln!(text, "{key} {value}").expect("writing to memory does not fail");
        };
        let Scenario { flow, survival, delays, options } = &self.scenario;
        line("flow", flow);
        line("strategy", &survival.strategy.word());
        line("replicas", &survival.replicas);
        line("votes", &survival.votes);
        line("acknowledge", &survival.acknowledge.word());
        survival.budget.iter().for_each(|budget| line("budget", budget));
        line("pivots-anywhere", &survival.pivots_anywhere);
        delays.iter().for_each(|delay| line("start-after", &delay.as_micros()));
        line("seed", &options.seed);
        line("nodes", &options.nodes);
        line("network", &options.network.latency);
        line("network-lost", &options.network.lost_per_mille);
        line("network-doubled", &options.network.doubled_per_mille);
        line("network-reordered", &options.network.reordered_per_mille);
        line("network-bytes", &options.network.bytes_per_second);
        line("sync", &options.sync);
        line("service", &options.service);
        line("skew", &options.skew);
        line("gossip", &options.gossip);
        line("deduplicating", &options.deduplicating);
        line("snapshot-every", &options.snapshot_every);
        line("awake-max", &options.awake_max);
        options.faults.iter().for_each(|fault| line("fault", fault));
        self.run.iter().for_each(|event| line("event", event));
        if let Some(flow) = &self.flow {
            line("input", &value::to_text(&flow.input));
            write!(text, "---\n{}", documents_of(flow)).expect("writing to memory does not fail");
        }
        text
    }

    /// What it runs: the flow that it holds, or the one of that name that comes with the simulator.
    pub fn workload(&self) -> Result<Workload, RecordingError> {
        let named = &self.scenario.flow;
        match &self.flow {
            Some(flow) if flow.name == *named => Ok(flow.clone()),
            Some(flow) => {
                let held = &flow.name;
                Err(RecordingError(format!("its flow is {named}, and the text that of {held}")))
            }
            None => {
                let found = Workload::built_in().into_iter().find(|flow| flow.name == *named);
                let missing = format!("its flow, {named}, is not in it: it is cut off");
                found.ok_or(RecordingError(missing))
            }
        }
    }
}

impl FromStr for Recording {
    type Err = RecordingError;

    fn from_str(text: &str) -> Result<Self, RecordingError> {
        let (head, document) = match text.split_once("\n---\n") {
            Some((head, document)) => (head, Some(document)),
            None => (text, None),
        };
        let mut lines = head.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        if lines.next() != Some(TITLE) {
            return Err(RecordingError(format!("a recording begins with `{TITLE}`")));
        }
        if document.is_none() && !text.ends_with('\n') {
            return Err(RecordingError("its last line has no end: it is cut off".to_owned()));
        }
        let mut reader = Reader::new();
        for line in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            reader.take(key, value).map_err(|error| RecordingError(format!("{line}: {error}")))?;
        }
        reader.finish(document)
    }
}

/// What was read so far.
struct Reader {
    recording: Recording,
    strategy: Strategy,
    replicas: usize,
    votes: Option<u16>,
    acknowledge: Option<Acknowledge>,
    budget: Option<f64>,
    pivots_anywhere: bool,
    input: Value,
    has_seed: bool,
}

impl Reader {
    fn new() -> Self {
        let options = WorldOptions { trace: false, ..WorldOptions::default() };
        let scenario = Scenario {
            flow: String::new(),
            survival: Survival::solo(),
            delays: Vec::new(),
            options,
        };
        Self {
            recording: Recording { scenario, flow: None, run: Vec::new() },
            strategy: Strategy::None,
            replicas: 1,
            votes: None,
            acknowledge: None,
            budget: None,
            pivots_anywhere: false,
            input: value::object([]),
            has_seed: false,
        }
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let Scenario { flow, delays, options, .. } = &mut self.recording.scenario;
        match key {
            "flow" => value.clone_into(flow),
            "strategy" => self.strategy = parse(value)?,
            "replicas" => self.replicas = parse(value)?,
            "votes" => self.votes = Some(parse(value)?),
            "acknowledge" => self.acknowledge = Some(parse(value)?),
            "budget" => self.budget = Some(parse(value)?),
            "pivots-anywhere" => self.pivots_anywhere = parse(value)?,
            "start-after" => delays.push(Duration::from_micros(parse(value)?)),
            "seed" => {
                options.seed = parse(value)?;
                self.has_seed = true;
            }
            "nodes" => options.nodes = parse(value)?,
            "network" => options.network.latency = parse(value)?,
            "network-lost" => options.network.lost_per_mille = parse(value)?,
            "network-doubled" => options.network.doubled_per_mille = parse(value)?,
            "network-reordered" => options.network.reordered_per_mille = parse(value)?,
            "network-bytes" => options.network.bytes_per_second = parse(value)?,
            "sync" => options.sync = parse(value)?,
            "service" => options.service = parse(value)?,
            "skew" => options.skew = parse(value)?,
            "gossip" => options.gossip = parse(value)?,
            "deduplicating" => options.deduplicating = parse(value)?,
            "snapshot-every" => options.snapshot_every = parse(value)?,
            "awake-max" => options.awake_max = parse(value)?,
            "fault" => options.faults.push(parse(value)?),
            "event" => self.recording.run.push(value.to_owned()),
            "input" => self.input = value::parse(value).map_err(|error| error.to_string())?,
            _ => return Err("an unknown option".to_owned()),
        }
        Ok(())
    }

    fn finish(self, document: Option<&str>) -> Result<Recording, RecordingError> {
        let mut recording = self.recording;
        let nodes = recording.scenario.options.nodes;
        if !(1..=64).contains(&nodes) || recording.scenario.delays.is_empty() {
            let why = "a recording has one to 64 nodes, and starts something";
            return Err(RecordingError(why.to_owned()));
        }
        if !self.has_seed {
            return Err(RecordingError("it has no seed".to_owned()));
        }
        let mut survival = Survival::new(self.strategy, self.replicas);
        survival.votes = self.votes.unwrap_or(survival.votes);
        survival.acknowledge = self.acknowledge.unwrap_or(survival.acknowledge);
        survival.budget = self.budget;
        survival.pivots_anywhere = self.pivots_anywhere;
        recording.scenario.survival = survival;
        if let Some(text) = document {
            recording.flow = Some(flow_of(text, self.input)?);
        }
        Ok(recording)
    }
}

/// The texts of a flow and of all that comes with it, as one.
fn documents_of(flow: &Workload) -> String {
    let others = flow.others.iter().map(|(program, text)| {
        let name = bundle::reference(&program.namespace, &program.name, &program.version);
        (vec![name], text.as_ref())
    });
    bundle::join(&flow.text, others)
}

/// The flow of such a text.
fn flow_of(text: &str, input: Value) -> Result<Workload, RecordingError> {
    let compiled = |text: &str| {
        openworkflow::compile(text)
            .map_err(|_| RecordingError("the flow of the recording is rejected".to_owned()))
    };
    let (text, others) = bundle::split(text);
    let others = others.into_iter().map(|(_, text)| Ok((compiled(text)?, Arc::from(text))));
    let others = others.collect::<Result<Vec<_>, RecordingError>>()?;
    Ok(Workload { others, ..Workload::new(compiled(text)?, text, input) })
}

fn parse<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::Wanted;

    #[test]
    fn is_written_as_it_is_read() {
        let flows = Workload::built_in();
        for seed in 0..20 {
            let scenario = Scenario::draw(seed, &Wanted::default(), &flows);
            let run = vec!["1000 1 0 Turn 00 ff".to_owned()];
            let recording = Recording { scenario, flow: Some(flows[0].clone()), run };
            let text = recording.to_text();
            assert_eq!(text.parse::<Recording>().unwrap().to_text(), text);
        }
    }

    #[test]
    fn carries_what_its_flow_runs() {
        let flows = Workload::built_in();
        let tour = flows.iter().find(|flow| flow.name == "tour").unwrap();
        let scenario = Scenario::draw(1, &Wanted::default(), std::slice::from_ref(tour));
        let recording = Recording { scenario, flow: Some(tour.clone()), run: Vec::new() };
        let read: Recording = recording.to_text().parse().unwrap();
        let flow = read.flow.unwrap();
        assert_eq!(flow.text, tour.text);
        assert_eq!(flow.others.len(), 1);
        assert_eq!(
            (flow.others[0].0.name.as_str(), &flow.others[0].1),
            ("stay", &tour.others[0].1)
        );
    }

    #[test]
    fn says_which_line_is_wrong() {
        let error = format!("{TITLE}\nnodes many\n").parse::<Recording>().unwrap_err();
        assert!(error.to_string().starts_with("nodes many"), "{error}");
        assert!("something else".parse::<Recording>().is_err());
    }
}
