//! What is run in a simulated world: flows that come with it, or one that is given.

use std::sync::Arc;
use std::time::Duration;

use outlast_engine::Survival;
use outlast_expressions::{Value, value};
use outlast_languages::openworkflow;
use outlast_lineage::ExecutionId;
use outlast_workflow::program::{Backoff, Class, Flow, Kind, RetryPolicy, Task, Template, bundle};
use outlast_workflow::{Program, moment};

use crate::{Plan, StartPlan};

/// The flows that come with the simulator.
const FLOWS: [&str; 4] = [
    include_str!("../flows/line.yaml"),
    include_str!("../flows/trip.yaml"),
    include_str!("../flows/rollback.yaml"),
    include_str!("../flows/pivot.yaml"),
];

/// Flows that run others, listen or emit, each with what it runs. Drawn apart from the first ones.
const NESTED: [(&str, &[&str]); 3] = [
    (include_str!("../flows/tour.yaml"), &[include_str!("../flows/stay.yaml")]),
    (include_str!("../flows/news.yaml"), &[]),
    (include_str!("../flows/echo.yaml"), &[]),
];

/// Flows that start others without waiting for their end. Drawn apart from all of them.
const DETACHED: [(&str, &[&str]); 1] =
    [(include_str!("../flows/office.yaml"), &[include_str!("../flows/errand.yaml")])];

/// Flows that end while something is under way. Drawn apart from all of them.
const BROKEN_OFF: [&str; 1] = [include_str!("../flows/quarrel.yaml")];

/// Flows in which something is stopped, or tried again, in the midst of what has to be undone. Drawn apart
/// from all of them.
const STOPPED: [(&str, &[&str]); 2] = [
    (include_str!("../flows/feast.yaml"), &[include_str!("../flows/dish.yaml")]),
    (include_str!("../flows/attempts.yaml"), &[]),
];

/// What the name of a flow ends with that is written for services that know no keys.
const KEYLESS: &str = "-keyless";

/// The types of the events that are published in a world, whoever listens for them.
const EVENTS: [&str; 3] = ["news.evening", "news.noise", "news.morning"];

/// For how much longer at most something is waited for because a flow tries it again late.
const DELAYS_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A flow to be run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What it is called.
    pub name: String,
    /// The compiled text.
    pub program: Arc<Program>,
    /// The text.
    pub text: Arc<str>,
    /// What every execution is given.
    pub input: Value,
    /// Whether it says that its services know no keys.
    pub keyless: bool,
    /// The workflows that it runs.
    pub others: Vec<(Arc<Program>, Arc<str>)>,
    /// Whether it listens for events from outside.
    pub listens: bool,
    /// Whether it comes with the simulator: whatever its services do, what it then does is the same.
    pub built_in: bool,
    /// With which others it came: later ones are drawn so that earlier seeds are what they were.
    pub wave: usize,
}

impl Workload {
    /// A flow that is given.
    pub fn new(program: Arc<Program>, text: &str, input: Value) -> Self {
        Self {
            name: program.name.clone(),
            program,
            text: Arc::from(text),
            input,
            keyless: false,
            others: Vec::new(),
            listens: false,
            built_in: false,
            wave: 0,
        }
    }

    /// Whether it may do something else when a service fails than it does when none does: it catches
    /// errors, or has alternatives.
    pub fn takes_other_ways(&self) -> bool {
        let catches = |task: &Task| matches!(task.kind, Kind::Try { .. });
        self.has_given_task(|task| catches(task) || !task.traits.alternatives.is_empty())
    }

    /// Whether it does several things at once that count.
    pub fn is_forked(&self) -> bool {
        self.has_given_task(has_branches)
    }

    /// Whether it may end in another way when things take longer.
    pub fn is_timed(&self) -> bool {
        let programs = std::iter::once(&self.program).chain(self.others.iter().map(|(it, _)| it));
        let whole = programs.into_iter().any(|program| program.timeout.is_some());
        let races = |task: &Task| matches!(task.kind, Kind::Fork { compete: true, .. });
        !self.built_in && whole
            || self.has_given_task(|it| it.timeout.is_some() || races(it))
            || self.ends_beside_others()
    }

    /// How often a run makes calls at most that can be neither undone nor repeated, whatever way it takes: as
    /// often as they stand in its text, or nobody knows how often.
    pub(super) fn pivots_at_most(&self) -> usize {
        let programs = std::iter::once(&self.program).chain(self.others.iter().map(|(it, _)| it));
        let tasks: Vec<&Task> = programs.flat_map(|program| &program.tasks).collect();
        let pivots = tasks.iter().filter(|task| task.traits.class == Some(Class::Pivot)).count();
        if tasks.into_iter().any(may_run_several_times) { usize::MAX } else { pivots }
    }

    /// How long it may wait besides when services fail: before it tries again what failed, and where it handles
    /// that. What it says in other words than a number is taken for short.
    pub(super) fn delays(&self) -> Duration {
        let programs = std::iter::once(&self.program).chain(self.others.iter().map(|(it, _)| it));
        let waits = programs.flat_map(|program| &program.tasks).map(|task| {
            let undo = task.traits.compensation.as_ref().and_then(|it| it.retry.as_deref());
            let itself = match &task.kind {
                Kind::Wait(duration) => said(duration),
                Kind::Try { catch, .. } => longest_delay(catch.retry.as_deref()),
                _ => Duration::ZERO,
            };
            itself + longest_delay(undo)
        });
        waits.fold(Duration::ZERO, |sum, wait| sum.saturating_add(wait).min(DELAYS_MAX))
    }

    /// Whether a workflow that it runs starts others without waiting for their end. Where several nodes hold
    /// an execution, what it waits for is part of it, and whom that starts goes by other ids.
    pub(super) fn starts_others_in_parts(&self) -> bool {
        let starts = |task: &Task| matches!(task.kind, Kind::RunWorkflow { wait: false, .. });
        self.others.iter().any(|(program, _)| program.tasks.iter().any(starts))
    }

    /// Whether it ends as a whole in a branch, however far the others are.
    fn ends_beside_others(&self) -> bool {
        let ends = |task: &Task| match &task.kind {
            Kind::Switch(cases) => cases.iter().any(|case| case.then == Flow::End),
            _ => task.then == Flow::End,
        };
        let is_in = |task: &Task, outer: &Task| {
            let inner = task.place.pointer.strip_prefix(&outer.place.pointer);
            inner.is_some_and(|rest| rest.starts_with('/'))
        };
        let programs = std::iter::once(&self.program).chain(self.others.iter().map(|(it, _)| it));
        programs.into_iter().any(|program| {
            let mut forks = program.tasks.iter().filter(|task| has_branches(task));
            let has_end = |fork| program.tasks.iter().any(|task| ends(task) && is_in(task, fork));
            !self.built_in && forks.any(has_end)
        })
    }

    /// Whether a task is like this, in a flow that does not come with the simulator: of those it is known
    /// that they always do the same.
    fn has_given_task(&self, is_like: impl Fn(&Task) -> bool) -> bool {
        let programs = std::iter::once(&self.program).chain(self.others.iter().map(|(it, _)| it));
        !self.built_in && programs.flat_map(|program| &program.tasks).any(is_like)
    }

    /// A workflow that it runs, or that is run by what it runs, and that is not there.
    pub fn missing(&self) -> Option<String> {
        let find = |namespace: &str, name: &str, version: &str| {
            let fits = |program: &&Arc<Program>| {
                let named = program.namespace == namespace && program.name == name;
                named && (version == "latest" || program.version == version)
            };
            let all = std::iter::once(&self.program).chain(self.others.iter().map(|(it, _)| it));
            let found = all.into_iter().find(fits).cloned();
            found.ok_or_else(|| bundle::reference(namespace, name, version))
        };
        bundle::gather(&self.program, find).err()
    }

    /// The flows that come with the simulator, each also for services that know no keys.
    pub fn built_in() -> Vec<Self> {
        let first = FLOWS.iter().map(|text| (*text, &[][..], 0));
        let nested = NESTED.iter().map(|(text, others)| (*text, *others, 1));
        let detached = DETACHED.iter().map(|(text, others)| (*text, *others, 2));
        let broken_off = BROKEN_OFF.iter().map(|text| (*text, &[][..], 3));
        let stopped = STOPPED.iter().map(|(text, others)| (*text, *others, 4));
        let flow = |(text, others, wave): (&str, &[&str], usize)| {
            [false, true].map(|keyless| Self { wave, ..Self::given(text, others, keyless) })
        };
        let all = first.chain(nested).chain(detached).chain(broken_off).chain(stopped);
        all.flat_map(flow).collect()
    }

    /// The same flow as it is written for services that know no keys, or for those that do, if that is
    /// asked for. A flow that is given is written for its own services only.
    pub(super) fn told_of_keys<'a>(&'a self, keyless: Option<bool>, flows: &'a [Self]) -> &'a Self {
        let plain = |flow: &Self| flow.name.strip_suffix(KEYLESS).unwrap_or(&flow.name).to_owned();
        let is_it = |flow: &&Self| Some(flow.keyless) == keyless && plain(flow) == plain(self);
        flows.iter().filter(|flow| flow.built_in).find(is_it).unwrap_or(self)
    }

    fn given(text: &str, others: &[&str], keyless: bool) -> Self {
        let compiled = |text: &str| {
            let text = if keyless { without_keys(text) } else { text.to_owned() };
            let program = openworkflow::compile(&text).expect("the simulator's flows are right");
            (program, Arc::from(text))
        };
        let (program, text): (_, Arc<str>) = compiled(text);
        let others = others.iter().map(|text| compiled(text)).collect();
        let listens = program.name.starts_with("news");
        let new = Self::new(program, &text, value::object([]));
        Self { keyless, others, listens, built_in: true, ..new }
    }

    /// A plan that starts it so many times, each after a delay.
    pub fn plan(&self, delays: &[Duration], survival: &Survival) -> Plan {
        let start = |(index, delay): (usize, &Duration)| {
            let number = u8::try_from(index + 1).expect("a world has few executions");
            StartPlan {
                id: ExecutionId::from_bytes([number; 16]),
                namespace: self.program.namespace.clone(),
                workflow: self.program.name.clone(),
                input: self.input.clone(),
                survival: Some(survival.clone()),
                delay: *delay,
            }
        };
        Plan {
            definitions: std::iter::once((Arc::clone(&self.program), Arc::clone(&self.text)))
                .chain(self.others.iter().cloned())
                .collect(),
            starts: delays.iter().enumerate().map(start).collect(),
            events: if self.listens { EVENTS.map(event).to_vec() } else { Vec::new() },
        }
    }
}

/// Whether a task may have what is in it, or what it names, done more than once.
fn may_run_several_times(task: &Task) -> bool {
    let goes_back = |then: &Flow| matches!(then, Flow::Goto(_));
    let repeats = match &task.kind {
        Kind::Loop { .. } | Kind::Graph(_) | Kind::Listen { each: Some(_), .. } => true,
        Kind::Function { .. } | Kind::RunWorkflow { wait: true, .. } => true,
        Kind::Try { catch, .. } => {
            catch.retry.is_some() || catch.then.as_ref().is_some_and(goes_back)
        }
        Kind::Switch(cases) => cases.iter().any(|case| goes_back(&case.then)),
        _ => false,
    };
    repeats || goes_back(&task.then)
}

/// How long a policy waits before its last retry.
fn longest_delay(policy: Option<&RetryPolicy>) -> Duration {
    let Some(policy) = policy else { return Duration::ZERO };
    let delay = policy.delay.as_ref().map_or(Duration::ZERO, said);
    let retries = u32::try_from(policy.attempts.unwrap_or(1)).unwrap_or(u32::MAX).max(1);
    let times = match policy.backoff {
        Backoff::Constant => 1,
        Backoff::Linear => retries,
        Backoff::Exponential => 2_u32.saturating_pow(retries - 1),
    };
    let jitter = policy.jitter.as_ref().map_or(Duration::ZERO, |(_, most)| said(most));
    delay.saturating_mul(times).saturating_add(jitter)
}

/// A duration that is written as a number.
fn said(duration: &Template) -> Duration {
    match duration {
        Template::Literal(given) => moment::duration(given).unwrap_or_default(),
        Template::Computed(_) => Duration::ZERO,
    }
}

/// Whether parts of a task run beside each other.
pub(crate) fn has_branches(task: &Task) -> bool {
    match task.kind {
        Kind::Fork { .. } | Kind::Graph(_) => true,
        Kind::Loop { concurrency, .. } => 1 < concurrency,
        _ => false,
    }
}

/// An event from outside.
fn event(kind: &str) -> Value {
    let text = value::string;
    let data = value::object([("says", text(kind))]);
    let source = text("http://world.example/outside");
    value::object([("type", text(kind)), ("id", text(kind)), ("source", source), ("data", data)])
}

/// The same flow, saying that its services know no keys.
fn without_keys(text: &str) -> String {
    let mut keyless = text.to_owned();
    for class in ["compensatable", "pivot", "retriable"] {
        let said = format!("class: {class}");
        keyless = keyless.replace(&said, &format!("idempotency: {{ none: true }}, {said}"));
    }
    let names = [
        "line", "trip", "rollback", "pivot", "tour", "stay", "news", "echo", "office", "errand",
        "quarrel", "feast", "dish", "attempts",
    ];
    for name in names {
        keyless =
            keyless.replace(&format!("  name: {name}\n"), &format!("  name: {name}{KEYLESS}\n"));
    }
    keyless
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(tasks: &str) -> Workload {
        let document = "document: { dsl: '1.0.3', namespace: test, name: ends, version: '1.0.0' }";
        let text = format!("{document}\ndo:\n{tasks}");
        Workload::new(openworkflow::compile(&text).unwrap(), &text, value::object([]))
    }

    #[test]
    fn what_ends_in_a_branch_may_end_before_the_others_have_done_anything() {
        let both = |quick: &str| {
            let quick = format!("{{ quick: {{ do: [{{ last: {{ {quick} }} }}] }} }}");
            format!(
                "  - both: {{ fork: {{ branches: [{{ slow: {{ wait: PT1S }} }}, {quick}] }} }}\n"
            )
        };
        let after_it = format!(
            "{}  - end: {{ set: {{ done: true }}, then: end }}\n",
            both("set: { done: true }")
        );
        assert!(flow(&both("set: { done: true }, then: end")).is_timed());
        assert!(flow(&both("switch: [{ anyway: { then: end } }]")).is_timed());
        assert!(!flow(&after_it).is_timed());
    }
}
