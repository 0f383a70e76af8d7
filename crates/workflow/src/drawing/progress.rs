//! How far each task has come, read off the history of an execution.
//!
//! A history may be long (a loop leaves lines for each iteration), so it is read line by line and
//! only what a drawing shows is kept. A task that ran several times shows its last run, and how
//! many runs completed.

use std::collections::BTreeMap;

use super::{TaskState, TaskView};
use crate::program::Kind;
use crate::{Happening, Program, TaskId};

/// How far the tasks of one execution have come.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    tasks: BTreeMap<TaskId, Seen>,
    ended: bool,
}

/// What is known of one task.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    state: TaskState,
    started: u64,
    completed: u64,
}

impl Progress {
    /// Takes the next line of the history.
    pub fn record(&mut self, happening: &Happening) {
        match happening {
            Happening::TaskStarted(task, _) => {
                self.task(*task).started += 1;
                self.enter(*task, TaskState::Running);
            }
            Happening::TaskCompleted(task, _) => {
                self.task(*task).completed += 1;
                self.enter(*task, TaskState::Completed);
            }
            Happening::TaskSkipped(task, _) => self.enter(*task, TaskState::Skipped),
            Happening::TaskFaulted(task, _) | Happening::UndoFailed(task, _) => {
                self.enter(*task, TaskState::Faulted);
            }
            Happening::TaskCancelled(task) => self.enter(*task, TaskState::Cancelled),
            Happening::TaskRetried(task, _)
            | Happening::UndoStarted(task)
            | Happening::Resolved(task, _) => self.enter(*task, TaskState::Running),
            Happening::Undone(task) => self.enter(*task, TaskState::Compensated),
            Happening::Parked(task, _) => self.enter(*task, TaskState::Waiting),
            Happening::Ended(_) => self.ended = true,
            // A faulted or cancelled execution can be taken up again, and that of others need not be over.
            Happening::RetryRequested
            | Happening::CompensationStarted(_)
            | Happening::Adopted(_) => self.ended = false,
            _ => {}
        }
    }

    /// What is to be shown of a task.
    pub fn view(&self, program: &Program, task: TaskId) -> TaskView {
        let seen = self.tasks.get(&task).copied().unwrap_or_default();
        let state = match seen.state {
            // Nothing goes on in an execution that ended: what was under way was stopped with it.
            TaskState::Running | TaskState::Waiting if self.ended => TaskState::Cancelled,
            TaskState::Running if waits(&program.task(task).kind) => TaskState::Waiting,
            state => state,
        };
        TaskView {
            state,
            count: (1 < seen.started && 0 < seen.completed).then_some(seen.completed),
        }
    }

    fn task(&mut self, task: TaskId) -> &mut Seen {
        self.tasks.entry(task).or_default()
    }

    fn enter(&mut self, task: TaskId, state: TaskState) {
        self.task(task).state = state;
    }
}

/// Whether a task of this kind does nothing but wait while it is under way.
const fn waits(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Wait(_) | Kind::Listen { each: None, .. } | Kind::RunWorkflow { wait: true, .. }
    )
}
