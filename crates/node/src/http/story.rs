//! Histories in the words of JSON: one line for each thing that happened.

use outlast_workflow::moment::iso8601;
use outlast_workflow::{Fault, Happening, Outcome, Program, TaskId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::driver::HistoryLine;

/// What it is called that a node was given the run of others, and does not know how they came to it.
pub(super) const GAP: &str = "adopted";

/// One thing that happened.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Line {
    /// The record that holds it.
    position: u64,
    time: String,
    /// What: started, taskStarted, taskCompleted, taskSkipped, taskFaulted, taskCancelled, taskRetried,
    /// called, undoStarted, undone, undoFailed, parked, resolved, suspended, resumed,
    /// retryRequested, compensationStarted, contextConflict, published, consumed, adopted, ended.
    what: &'static str,
    /// Whether it is about a run of this node that does not count, because others decided on another one:
    /// called, undoStarted, undone, undoFailed, parked and resolved are told of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
    /// The task's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    /// JSON pointer to the task in the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// The innermost loop index.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    /// The key of a call, the reason of a fault, the type of an event, how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// One page of a history.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct History {
    pub(super) lines: Vec<Line>,
    /// Give this as `from` for the next page; null if this was the last.
    pub(super) next: Option<u64>,
    /// The last record that the node had when it was asked, if there is a next page. Whoever reads on
    /// until `next` has passed it has read all there was, though there be more by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recorded: Option<u64>,
}

/// Everything a record says, line by line.
pub(super) fn lines(line: &HistoryLine, program: Option<&Program>) -> impl Iterator<Item = Line> {
    line.happenings.iter().map(move |happening| {
        let (lost, happening) = match happening {
            Happening::OfLostRun(happening) => (true, &**happening),
            happening => (false, happening),
        };
        let Told { what, task, index, detail } = tell(happening);
        let task =
            task.map(|id| (id, program.and_then(|program| program.tasks.get(id.0 as usize))));
        Line {
            position: line.position.0,
            time: iso8601(line.time),
            what,
            lost,
            task: task.map(|(id, task)| {
                task.map_or_else(|| format!("task {}", id.0), |task| task.name.clone())
            }),
            place: task.and_then(|(_, task)| Some(task?.place.pointer.clone())),
            index,
            detail,
        }
    })
}

/// Whether an execution is at its end after this.
pub(super) const fn is_ended(before: bool, happening: &Happening) -> bool {
    match happening {
        Happening::Ended(_) => true,
        Happening::RetryRequested | Happening::CompensationStarted(_) | Happening::Adopted(_) => {
            false
        }
        _ => before,
    }
}

/// The same of what `tell` calls it.
pub(super) fn is_ended_by(before: bool, what: &str) -> bool {
    match what {
        "ended" => true,
        "retryRequested" | "compensationStarted" | GAP => false,
        _ => before,
    }
}

struct Told {
    what: &'static str,
    task: Option<TaskId>,
    index: Option<u64>,
    detail: Option<String>,
}

impl Told {
    const fn of(what: &'static str, task: TaskId, index: Option<u64>) -> Self {
        Self { what, task: Some(task), index, detail: None }
    }

    fn with(what: &'static str, task: TaskId, detail: impl Into<String>) -> Self {
        Self { what, task: Some(task), index: None, detail: Some(detail.into()) }
    }

    const fn whole(what: &'static str, detail: Option<String>) -> Self {
        Self { what, task: None, index: None, detail }
    }
}

fn tell(happening: &Happening) -> Told {
    match happening {
        Happening::Started => Told::whole("started", None),
        Happening::TaskStarted(task, index) => Told::of("taskStarted", *task, *index),
        Happening::TaskCompleted(task, index) => Told::of("taskCompleted", *task, *index),
        Happening::TaskSkipped(task, index) => Told::of("taskSkipped", *task, *index),
        Happening::TaskFaulted(task, fault) => Told::with("taskFaulted", *task, reason(fault)),
        Happening::TaskCancelled(task) => Told::of("taskCancelled", *task, None),
        Happening::TaskRetried(task, retry) => {
            Told::with("taskRetried", *task, format!("retry {retry}"))
        }
        Happening::Called(task, key) => Told::with("called", *task, key),
        Happening::UndoStarted(task) => Told::of("undoStarted", *task, None),
        Happening::Undone(task) => Told::of("undone", *task, None),
        Happening::UndoFailed(task, fault) => Told::with("undoFailed", *task, reason(fault)),
        Happening::Parked(task, why) => Told::with("parked", *task, why),
        Happening::Resolved(task, how) => Told::with("resolved", *task, how),
        Happening::Suspended => Told::whole("suspended", None),
        Happening::Resumed => Told::whole("resumed", None),
        Happening::RetryRequested => Told::whole("retryRequested", None),
        Happening::CompensationStarted(why) => {
            Told::whole("compensationStarted", Some(why.clone()))
        }
        Happening::ContextConflict(task, key) => Told::with("contextConflict", *task, key),
        Happening::Ended(outcome) => Told::whole("ended", Some(ending(outcome))),
        Happening::Published(task, kind) => Told::with("published", *task, kind),
        Happening::Consumed(task, kind) => Told::with("consumed", *task, kind),
        Happening::OfLostRun(happening) => tell(happening),
        Happening::Adopted(progress) => {
            let activities = if *progress == 1 { "activity" } else { "activities" };
            let detail = format!(
                "the run of other nodes, {progress} {activities} completed: it counts here from now on, \
                 and their histories tell how it came to that"
            );
            Told::whole(GAP, Some(detail))
        }
    }
}

fn ending(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed(_) => "completed".to_owned(),
        Outcome::Faulted(fault) => format!("faulted: {}", reason(fault)),
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::Compensated(fault) => format!("compensated: {}", reason(fault)),
    }
}

fn reason(fault: &Fault) -> String {
    let title = fault.title.as_deref().unwrap_or(&fault.kind);
    match &fault.detail {
        Some(detail) => format!("{title}: {detail}"),
        None => title.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_the_same_by_either_name() {
        let happenings = [
            Happening::Started,
            Happening::Ended(Outcome::Cancelled),
            Happening::Suspended,
            Happening::RetryRequested,
            Happening::CompensationStarted(String::new()),
            Happening::Adopted(1),
        ];
        for happening in &happenings {
            for before in [false, true] {
                let named = is_ended_by(before, tell(happening).what);
                assert_eq!(named, is_ended(before, happening), "{happening:?}");
            }
        }
    }
}
