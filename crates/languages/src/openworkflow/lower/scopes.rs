//! Traits that follow from the rest: scopes that nobody wrote down, and milestones.
//!
//! A `try` with something to undo in it, such as a sub-workflow that it waits for, is a scope; a task
//! that some `compensate` names in `until` is a milestone.

use std::collections::BTreeSet;

use outlast_workflow::program::{Class, Kind, Undo};
use outlast_workflow::{Program, TaskId};

/// Marks scopes and milestones.
pub(super) fn imply(program: &mut Program) {
    let milestones: Vec<TaskId> = program
        .tasks
        .iter()
        .filter_map(|task| match &task.kind {
            Kind::Compensate { until, .. } => *until,
            _ => None,
        })
        .collect();
    for id in milestones {
        program.tasks[id.0 as usize].traits.milestone = true;
    }
    let implied: Vec<TaskId> = (0..program.tasks.len())
        .filter_map(|number| u32::try_from(number).ok().map(TaskId))
        .filter(|id| match &program.task(*id).kind {
            Kind::Try { body, .. } => holds_undo(program, *body),
            _ => false,
        })
        .collect();
    for id in implied {
        program.tasks[id.0 as usize].traits.scope = true;
    }
}

fn holds_undo(program: &Program, root: TaskId) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let task = program.task(id);
        let undone = task.traits.compensation.as_ref();
        let undone = undone.is_some_and(|it| matches!(it.undo, Undo::Run(_)));
        let classed =
            matches!(task.traits.class, Some(Class::Compensatable | Class::CompensatableRetriable));
        // What a sub-workflow does is undone with the scope that runs it, whatever that is.
        let runs = matches!(task.kind, Kind::RunWorkflow { wait: true, .. });
        if undone || classed || runs {
            return true;
        }
        open.extend(children(&task.kind));
        open.extend(&task.traits.alternatives);
    }
    false
}

/// The tasks that a task runs, functions included.
pub(super) fn children(kind: &Kind) -> Vec<TaskId> {
    match kind {
        Kind::Sequence(tasks) | Kind::Fork { branches: tasks, .. } => tasks.clone(),
        Kind::Loop { body, .. } | Kind::Function { body, .. } => vec![*body],
        Kind::Try { body, catch } => [Some(*body), catch.body].into_iter().flatten().collect(),
        Kind::Listen { each, .. } => each.iter().filter_map(|each| each.body).collect(),
        Kind::Graph(graph) => graph.steps.iter().map(|step| step.task).collect(),
        _ => Vec::new(),
    }
}
