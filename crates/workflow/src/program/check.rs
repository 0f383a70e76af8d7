//! Rules that every program must keep, whatever language it came from.
//!
//! `flow` is seed 1's Definition 4.7: one start, every task reachable from it, and from every task a
//! way to an end. `pivot` is its guaranteed termination: once something happened that cannot be
//! undone, only what is sure to succeed may follow. `attempts` warns of what being tried again makes
//! vain. A language turns findings into diagnostics with the places of the tasks.

mod attempts;
mod flow;
mod pivot;
#[cfg(test)]
mod tests;

use super::{Kind, Program, Task, TaskId};

/// The code of tasks that go round for ever. A language that knows streams may drop it.
pub const ENDLESS: &str = "endless-loop";

/// How much a finding weighs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Weight {
    /// The program must not run.
    Error,
    /// The program may run, but its author should know.
    Warning,
}

/// A rule that a program breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which rule, in kebab-case.
    pub code: &'static str,
    /// Whether the program may run all the same.
    pub weight: Weight,
    /// The task that breaks it.
    pub task: TaskId,
    /// What is wrong; names the tasks.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// Other tasks that have to do with it, and how.
    pub others: Vec<(String, TaskId)>,
}

/// Every rule the program breaks, by task.
pub fn check(program: &Program) -> Vec<Finding> {
    let mut findings = flow::check(program);
    findings.extend(pivot::check(program));
    findings.extend(attempts::check(program));
    findings.sort_by(|one, other| (one.task, one.code).cmp(&(other.task, other.code)));
    findings
}

/// The tasks that belong to a task and are run by it; functions it calls do not belong to it.
fn members(task: &Task) -> Vec<TaskId> {
    match &task.kind {
        Kind::Sequence(tasks) | Kind::Fork { branches: tasks, .. } => tasks.clone(),
        Kind::Loop { body, .. } => vec![*body],
        Kind::Try { body, catch } => [Some(*body), catch.body].into_iter().flatten().collect(),
        Kind::Listen { each, .. } => each.iter().filter_map(|each| each.body).collect(),
        Kind::Graph(graph) => graph.steps.iter().map(|step| step.task).collect(),
        _ => Vec::new(),
    }
}

/// Names in a row: `a`, `b` and `c`.
fn listed(program: &Program, tasks: &[TaskId]) -> String {
    let names: Vec<String> =
        tasks.iter().map(|id| format!("`{}`", program.task(*id).name)).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}
