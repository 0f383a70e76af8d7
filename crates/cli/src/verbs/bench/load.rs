//! What is run and what it cost: shared by all measurements that run workflows of durable steps.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use outlast_node::NodeHandle;
use serde::{Deserialize, Serialize};

use super::measure;
use super::scratch::Scratch;
use crate::exit::Failure;

/// The first workflows pay for what is made once; so long they are not counted.
pub(super) const WARMING: Duration = Duration::from_millis(200);

/// What is run, for how long and where.
#[derive(clap::Args)]
pub(super) struct Load {
    /// How many workflows run at once; several are measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_name = "NUMBERS")]
    pub(super) concurrency: Vec<usize>,
    /// Steps of a workflow
    #[arg(long, default_value_t = 10)]
    pub(super) steps: usize,
    /// How long each measurement runs
    #[arg(long, default_value_t = 5)]
    pub(super) seconds: u64,
    /// Where to write: the disk that is measured [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

impl Load {
    /// A place to write to, if what was asked for can be run.
    pub(super) fn scratch(&self) -> anyhow::Result<Scratch> {
        if self.concurrency.contains(&0) || self.steps == 0 || self.seconds == 0 {
            return Err(Failure::usage("concurrency, steps and seconds start at 1").into());
        }
        Scratch::new(self.data.as_deref())
    }

    /// Enough to see that it works.
    #[cfg(test)]
    pub(super) fn small() -> Self {
        Self { concurrency: vec![2], steps: 3, seconds: 1, data: None, json: true }
    }

    /// How long each measurement runs.
    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// What clients saw, as figures.
    pub(super) fn throughput(
        &self,
        concurrency: usize,
        driven: Driven,
        cpu: Duration,
    ) -> anyhow::Result<Throughput> {
        let Driven { seconds, mut latencies } = driven;
        if latencies.is_empty() {
            bail!("no workflow ended within {} s; give it more --seconds", self.seconds);
        }
        latencies.sort_unstable();
        let (workflows, steps) = (latencies.len(), self.steps);
        Ok(Throughput {
            concurrency,
            steps,
            seconds,
            workflows,
            workflows_per_second: workflows as f64 / seconds,
            steps_per_second: (workflows * steps) as f64 / seconds,
            p50_ms: measure::quantile_ms(&latencies, 0.5),
            p99_ms: measure::quantile_ms(&latencies, 0.99),
            cpu_seconds: cpu.as_secs_f64(),
        })
    }
}

/// What clients saw.
#[derive(Serialize, Deserialize)]
pub(super) struct Driven {
    pub(super) seconds: f64,
    /// How long each workflow took.
    pub(super) latencies: Vec<Duration>,
}

/// How fast it was. Processor time is that of all processes, their clients included.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Throughput {
    pub(super) concurrency: usize,
    pub(super) steps: usize,
    pub(super) seconds: f64,
    pub(super) workflows: usize,
    pub(super) workflows_per_second: f64,
    pub(super) steps_per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) cpu_seconds: f64,
}

/// What a node has done so far.
#[derive(Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) cpu: Duration,
    pub(super) records: u64,
    pub(super) record_bytes: u64,
    pub(super) syncs: u64,
    /// Messages that were sent to others.
    pub(super) messages: u64,
}

impl Account {
    /// Of a node in this process.
    pub(super) async fn of(node: &NodeHandle, messages: u64) -> anyhow::Result<Self> {
        let engine = node.counts().await?.engine;
        Ok(Self {
            cpu: measure::cpu_time(),
            records: engine.records,
            record_bytes: engine.record_bytes,
            syncs: node.journal().syncs,
            messages,
        })
    }

    /// What it has done since then.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            cpu: self.cpu - before.cpu,
            records: self.records - before.records,
            record_bytes: self.record_bytes - before.record_bytes,
            syncs: self.syncs - before.syncs,
            messages: self.messages - before.messages,
        }
    }

    /// What it has done at another time as well.
    pub(super) fn add(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.records += other.records;
        self.record_bytes += other.record_bytes;
        self.syncs += other.syncs;
        self.messages += other.messages;
    }

    /// Bytes of a record.
    pub(super) fn bytes_of_a_record(&self) -> f64 {
        self.record_bytes as f64 / self.records.max(1) as f64
    }
}

/// Figures that are printed as they come, or together as JSON.
pub(super) struct Table<'load, Figures> {
    load: &'load Load,
    line: fn(&Figures) -> String,
    all: Vec<Figures>,
}

impl<'load, Figures: Serialize> Table<'load, Figures> {
    /// Prints the headings.
    pub(super) fn new(load: &'load Load, headings: &str, line: fn(&Figures) -> String) -> Self {
        if !load.json {
            println!("{headings}");
        }
        Self { load, line, all: Vec::new() }
    }

    pub(super) fn add(&mut self, figures: Figures) {
        if !self.load.json {
            println!("{}", (self.line)(&figures));
        }
        self.all.push(figures);
    }

    pub(super) fn end(self) -> anyhow::Result<()> {
        if self.load.json {
            println!("{}", serde_json::to_string_pretty(&self.all)?);
        }
        Ok(())
    }
}
