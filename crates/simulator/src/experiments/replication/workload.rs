//! What is executed: a hundred activities in a line, with their times and what undoing them costs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::ranked;
use outlast_expressions::Value;
use outlast_languages::openworkflow;
use outlast_lineage::ExecutionId;
use outlast_workflow::Program;

use crate::world::node_at;
use crate::{Plan, Random, StartPlan};

/// How many activities a workflow has.
pub(super) const ACTIVITIES: usize = 100;

/// The standard deviation of the execution times, in microseconds; their mean before the sign is
/// taken off is zero.
const DEVIATION: f64 = 500_000.0;

/// The most that undoing one activity costs.
const COST_MAX: u64 = 100;

/// The only execution of a world.
pub(super) const EXECUTION: ExecutionId = ExecutionId::from_bytes([1; 16]);

/// The place of the node that leads it while nothing fails.
pub(super) fn first_primary(replicas: usize) -> usize {
    let first = ranked(EXECUTION, (0..replicas).map(node_at))[0];
    (0..replicas).find(|place| node_at(*place) == first).unwrap_or_default()
}

/// The definitions, compiled once for all runs.
#[derive(Clone, Debug)]
pub struct Stage {
    replicated: (Arc<Program>, Arc<str>),
    alone: (Arc<Program>, Arc<str>),
}

impl Stage {
    /// Compiles the definitions.
    pub fn new() -> Self {
        Self { replicated: compiled("idempotency: { none: true }"), alone: compiled("") }
    }

    /// What the client does: it registers the workflow, starts it once and waits for its result.
    pub(super) fn plan(&self, survival: outlast_engine::Survival) -> Plan {
        // A node alone asks again, with the same key, for what it had asked for when it crashed. A
        // provider without keys would make it wait for a person, which the paper does not know.
        let definition = if survival.is_replicated() { &self.replicated } else { &self.alone };
        let start = StartPlan {
            id: EXECUTION,
            namespace: definition.0.namespace.clone(),
            workflow: definition.0.name.clone(),
            input: Value::Null,
            survival: Some(survival),
            delay: Duration::ZERO,
        };
        Plan { definitions: vec![definition.clone()], starts: vec![start], events: Vec::new() }
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

fn compiled(idempotency: &str) -> (Arc<Program>, Arc<str>) {
    let text = document(idempotency);
    let program = openworkflow::compile(&text).expect("the document is the same in every run");
    // Nodes send each other the text; the world compiles what its digest names.
    (program, "a line".into())
}

/// The workflow as a user would write it: every activity can be undone, even if nobody knows whether
/// it ran.
fn document(idempotency: &str) -> String {
    let mut text = String::from(
        "document: { dsl: '1.0.3', namespace: experiment, name: line, version: '1.0.0' }\ndo:\n",
    );
    for activity in 0..ACTIVITIES {
        write!(
            text,
            "  - a{activity}:
      call: http
      with: {{ method: post, endpoint: 'http://world.example/activity/{activity}' }}
      metadata:
        outlast:
          class: compensatable
          {idempotency}
          compensation:
            capture: {{ activity: {activity} }}
            tolerant: true
            do:
              - undo:
                  call: http
                  with: {{ method: delete, endpoint: 'http://world.example/activity/{activity}' }}
"
        )
        .expect("text grows");
    }
    text
}

/// One workflow: how long each activity takes, and what it costs to undo it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Workload {
    times: Vec<Duration>,
    costs: Vec<f64>,
}

impl Workload {
    pub(super) fn draw(random: &mut Random) -> Self {
        let times = (0..ACTIVITIES).map(|_| {
            let micros = half_normal(random) * DEVIATION;
            Duration::from_micros(micros as u64)
        });
        let times = times.collect();
        let costs = (0..ACTIVITIES).map(|_| random.between(0, COST_MAX * 1_000) as f64 / 1_000.0);
        Self { times, costs: costs.collect() }
    }

    /// How long all activities take together.
    pub(super) fn length(&self) -> Duration {
        self.times.iter().sum()
    }

    /// How long services work, by the name of the operation.
    pub(super) fn work(&self) -> BTreeMap<String, Duration> {
        let times = self.times.iter().enumerate();
        times.map(|(activity, time)| (format!("POST activity/{activity}"), *time)).collect()
    }

    /// What undoing some activities costs, in per cent of undoing the whole workflow once.
    pub(super) fn percent(&self, undone: impl Iterator<Item = usize>) -> f64 {
        let whole: f64 = self.costs.iter().sum();
        let cost = undone.fold(0.0, |cost, activity| cost + self.costs[activity]);
        cost / whole * 100.0
    }
}

/// The activity that an operation of a service is, or undoes.
pub(super) fn activity_of(operation: &str) -> Option<usize> {
    operation.rsplit('/').next().and_then(|number| number.parse().ok())
}

/// An exponentially distributed number with mean one: von Neumann's method, which compares uniform
/// numbers only and so gives the same everywhere.
pub(super) fn exponential(random: &mut Random) -> f64 {
    for whole in 0_u32.. {
        let first = random.next();
        let (mut last, mut length) = (first, 1_u32);
        loop {
            let next = random.next();
            if next >= last {
                break;
            }
            last = next;
            length += 1;
        }
        // The first of a descending run of odd length is the fraction of such a number.
        if !length.is_multiple_of(2) {
            return f64::from(whole) + unit(first);
        }
    }
    unreachable!("a run of odd length comes soon")
}

/// The amount of a number with the standard normal distribution: an exponential one, taken as often
/// as the two densities differ.
pub(super) fn half_normal(random: &mut Random) -> f64 {
    loop {
        let (candidate, bound) = (exponential(random), exponential(random));
        if (candidate - 1.0) * (candidate - 1.0) <= 2.0 * bound {
            return candidate;
        }
    }
}

/// A number below one.
pub(super) fn unit(number: u64) -> f64 {
    // A double has 53 bits.
    (number >> 11) as f64 / (1_u64 << 53) as f64
}
