//! A program drawn with the state of each task, as SVG or as a Mermaid flowchart.
//!
//! Programs are structured, so drawing is recursive: `shape` says how tasks nest and what follows
//! what, `layout` gives every shape a rectangle and every arrow its corners, and `svg` writes them
//! down. `Progress` reads the states off a history. Mermaid lays out by itself and needs the shape only. Same program, same states: the same
//! bytes.

mod layers;
mod layout;
mod mermaid;
mod progress;
mod shape;
mod svg;
mod text;
mod words;

#[cfg(test)]
mod tests;

use crate::{Program, TaskId};

pub use progress::Progress;

/// How far a task has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum TaskState {
    /// Nothing happened yet.
    #[default]
    NotStarted,
    /// Under way.
    Running,
    /// Under way, and waiting for time, an event, a child or a person.
    Waiting,
    /// Ended well.
    Completed,
    /// Ended with an error.
    Faulted,
    /// Its condition did not hold.
    Skipped,
    /// Stopped from outside.
    Cancelled,
    /// Completed and then undone.
    Compensated,
}

impl TaskState {
    const ALL: [Self; 8] = [
        Self::NotStarted,
        Self::Running,
        Self::Waiting,
        Self::Completed,
        Self::Faulted,
        Self::Skipped,
        Self::Cancelled,
        Self::Compensated,
    ];

    /// The state in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotStarted => "not started",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Faulted => "faulted",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Compensated => "compensated",
        }
    }

    /// The name of the state in style sheets.
    const fn class(self) -> &'static str {
        match self {
            Self::NotStarted => "idle",
            _ => self.words(),
        }
    }
}

/// What is to be shown of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskView {
    /// How far it has come.
    pub state: TaskState,
    /// How often: the iterations of a loop, the completed runs of a task in one.
    pub count: Option<u64>,
}

impl From<TaskState> for TaskView {
    fn from(state: TaskState) -> Self {
        Self { state, count: None }
    }
}

/// Draws a program as a picture that needs nothing else: light and dark, with a legend.
pub fn svg(program: &Program, view: &dyn Fn(TaskId) -> TaskView) -> String {
    let shape = shape::of(program);
    svg::write(&shape, &layout::place(&shape), view)
}

/// Writes a program as a Mermaid flowchart, for pages that draw those themselves.
pub fn mermaid(program: &Program, view: &dyn Fn(TaskId) -> TaskView) -> String {
    mermaid::write(&shape::of(program), view)
}
