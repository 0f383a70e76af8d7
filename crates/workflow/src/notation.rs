//! Executions written as seed 3 writes them: continuations and compensation continuations.
//!
//! A branch is a stack of frames, and each frame knows what is left of its task. Read from the
//! innermost frame outwards, that is the paper's continuation; a branch ends where its join is, so
//! it goes on with what its parent will do once everything has come together.
//!
//! | the paper | here |
//! |---|---|
//! | `invoke(Sa,a,ā)` | a call that is ahead or under way; `ā` if something undoes it |
//! | `loop(n,…)` | what is left of a loop after the iteration under way |
//! | `join(id,n)` | the frame of the *parent* that waits for its n branches |
//! | `eos(-)` | the frame of a scope, and the end of the document's own list |
//! | `orch(-,Sp)`, `eorch(Sp)` | the program before it starts; the end of the trunk |
//! | compensation continuation | the plan of a scope, last entry first |
//!
//! Where ours differs:
//! - A call that is under way is written `invoke`, not `wait`: for whoever takes the branch over it
//!   is still ahead, and is made again under the same key.
//! - `join`, the outer `eos` and `eorch` do not travel with a branch. They are frames of the branch
//!   that waits, so a branch that was cut off has only its own part here, and `after_join` gives the
//!   rest where the trunk is.
//! - What a branch did for a scope around its fork stands in a plan of the branch, and is joined to
//!   the scope's own plan when the branches come together or are stopped.
//! - The document's own list is the outermost scope: every run can be rolled back as a whole.

use outlast_lineage::BranchId;

use crate::execution::{
    Activity, Branch, Execution, Frame, JoinId, PlanEntry, PlanId, has_happened,
};
use crate::program::{Kind, Program, Service, Task, Template, Undo};
use crate::{TaskId, Ticket};

/// The program as a message to the node that will run it: `orch(scope(-),Sp)`.
pub fn request(program: &Program) -> Vec<String> {
    vec![format!("orch(scope(-),{})", client(program))]
}

/// What a branch will do, the next thing first; the end of the run if it is over.
pub fn continuation(execution: &Execution, program: &Program, branch: BranchId) -> Vec<String> {
    let Some(found) = execution.branches.get(&branch) else {
        return vec![format!("eorch({})", client(program))];
    };
    let mut elements = Vec::new();
    for frame in found.frames().iter().rev() {
        elements.extend(rest_of_frame(execution, program, frame));
    }
    match found.birth.parent {
        None => elements.extend(["eos(-)".to_owned(), format!("eorch({})", client(program))]),
        Some(_) => elements.extend(after_join(execution, program, branch)),
    }
    elements
}

/// What comes after a branch, from its join on; nothing where its parent is not here.
pub fn after_join(execution: &Execution, program: &Program, branch: BranchId) -> Vec<String> {
    let parent = execution.branches.get(&branch).and_then(|branch| branch.birth.parent);
    match parent.filter(|parent| execution.branches.contains_key(parent)) {
        Some(parent) => continuation(execution, program, parent),
        None => Vec::new(),
    }
}

/// What undoes the scopes around the innermost task of a branch, the outermost scope first; in each
/// the next undo first. A scope with nothing to undo is an empty list (`nil`).
pub fn compensation(
    execution: &Execution,
    program: &Program,
    branch: BranchId,
) -> Vec<Vec<String>> {
    let Some(found) = execution.branches.get(&branch) else { return vec![Vec::new()] };
    let mut scopes = scopes_of(execution, program, found);
    if found.birth.parent.is_none_or(|parent| execution.branches.contains_key(&parent))
        && !scopes[0].is_empty()
    {
        scopes[0].extend(["eos(-)".to_owned(), format!("eorch({})", client(program))]);
    }
    scopes
}

/// Elements as the paper prints them; `nil` if there are none.
pub fn line(elements: &[String]) -> String {
    if elements.is_empty() { "nil".to_owned() } else { elements.join("·") }
}

fn scopes_of(execution: &Execution, program: &Program, branch: &Branch) -> Vec<Vec<String>> {
    let own = plan(execution, program, branch.birth.plan);
    let parent = branch.birth.parent.and_then(|parent| execution.branches.get(&parent));
    let mut scopes = match parent {
        None => vec![own],
        Some(parent) => {
            let mut scopes = scopes_of(execution, program, parent);
            let innermost = scopes.last_mut().expect("a run is a scope");
            let joined = parent.top().and_then(|frame| joined_by(execution, frame));
            let around = std::mem::take(innermost);
            innermost.extend(own.into_iter().chain(joined).chain(around));
            scopes
        }
    };
    // The plan of a task that rolls back is what it is working off: part of the continuation.
    let open = branch.frames().iter().filter(|frame| !rolls_back(frame));
    scopes.extend(open.filter_map(|frame| frame.plan).map(|id| plan(execution, program, id)));
    scopes
}

fn rolls_back(frame: &Frame) -> bool {
    matches!(frame.activity, Activity::Compensating(_))
}

fn plan(execution: &Execution, program: &Program, id: PlanId) -> Vec<String> {
    let entries = execution.plans.get(&id).map_or(&[][..], |plan| plan.entries());
    undos(program, entries)
}

fn undos(program: &Program, entries: &[PlanEntry]) -> Vec<String> {
    entries.iter().rev().filter_map(|entry| undo(program, entry)).collect()
}

fn undo(program: &Program, entry: &PlanEntry) -> Option<String> {
    match entry {
        PlanEntry::Undo { task, .. } => {
            let (provider, operation) = called(program, *task);
            Some(format!("invoke({provider},{operation}{BAR})"))
        }
        PlanEntry::Parallel(lists) => {
            let lists: Vec<String> = lists.iter().map(|list| line(&undos(program, list))).collect();
            Some(format!("fork({})", lists.join(",")))
        }
        PlanEntry::Child { task, .. } => Some(format!("undo({})", program.task(*task).name)),
        PlanEntry::Uncertain(frames) => {
            let (provider, operation) = called(program, frames.first()?.task);
            if has_happened(frames) {
                return Some(format!("invoke({provider},{operation}{BAR})"));
            }
            Some(format!("ask({provider},{operation})"))
        }
        PlanEntry::Milestone(_) => None,
    }
}

/// What is left of the task of a frame, once what runs inside it is done.
fn rest_of_frame(execution: &Execution, program: &Program, frame: &Frame) -> Vec<String> {
    let task = program.task(frame.task);
    let mut elements = match (&frame.activity, &task.kind) {
        (Activity::Sequence { next, .. }, Kind::Sequence(tasks)) => {
            let left = tasks.iter().skip(*next as usize);
            left.flat_map(|task| ahead(program, *task)).collect()
        }
        (Activity::Loop { items, index, inside }, Kind::Loop { body, .. }) => {
            let items = execution.large.value(items);
            let total = outlast_expressions::value::as_array(&items).map_or(0, <[_]>::len);
            let left = (total as u64).saturating_sub(index + u64::from(*inside));
            let again = || looped(program, &left.to_string(), *body);
            (left > 0).then(again).into_iter().collect()
        }
        (Activity::Gather(_) | Activity::Scatter { .. }, _) => {
            joined_by(execution, frame).into_iter().collect()
        }
        (Activity::Compensating(_), _) => {
            frame.plan.map(|id| plan(execution, program, id)).unwrap_or_default()
        }
        (Activity::Undoing(undoing), _) => {
            match undoing.child.or(undoing.delay.map(|a| a.ticket)) {
                Some(_) => undo(program, &undoing.entry).into_iter().collect(),
                None => Vec::new(),
            }
        }
        (Activity::Try(_) | Activity::Function { .. } | Activity::Item(..), _) => Vec::new(),
        (Activity::Output | Activity::Capture | Activity::Export | Activity::Failed(..), _) => {
            Vec::new()
        }
        _ => return ahead(program, frame.task),
    };
    let scope = frame.plan.is_some() && !rolls_back(frame);
    elements.extend((scope || matches!(task.kind, Kind::Try { .. })).then(|| "eos(-)".to_owned()));
    elements
}

fn joined_by(execution: &Execution, frame: &Frame) -> Option<String> {
    let id = match &frame.activity {
        Activity::Gather(join) | Activity::Scatter { join, .. } => *join,
        Activity::Compensating(compensating) => compensating.parts?,
        _ => return None,
    };
    let JoinId(Ticket { number, .. }) = id;
    let total = execution.joins.get(&id).map_or(0, |join| join.counts.total);
    Some(format!("join({number},{total})"))
}

/// A task that has not begun.
fn ahead(program: &Program, id: TaskId) -> Vec<String> {
    let task = program.task(id);
    if task.traits.scope {
        return vec!["scope(-)".to_owned()];
    }
    let word = match &task.kind {
        Kind::Sequence(tasks) => {
            return tasks.iter().flat_map(|task| ahead(program, *task)).collect();
        }
        Kind::Call { .. } | Kind::Function { .. } => return vec![invoke(program, id, task)],
        Kind::Loop { items, body, .. } => return vec![looped(program, &count(items), *body)],
        Kind::Compensate { .. } => return vec!["compensate".to_owned()],
        Kind::Try { .. } => "scope",
        Kind::Fork { .. } => "fork",
        Kind::Set(_) => "set",
        Kind::Switch(_) => "switch",
        Kind::Raise(_) => "raise",
        Kind::Wait(_) => "wait",
        Kind::Emit(_) => "emit",
        Kind::Listen { .. } => "listen",
        Kind::RunWorkflow { .. } => "run",
        Kind::Graph(_) => "graph",
        Kind::Unsupported(_) => "unsupported",
    };
    vec![format!("{word}(-)")]
}

fn looped(program: &Program, count: &str, body: TaskId) -> String {
    format!("loop({count},{})", line(&ahead(program, body)))
}

/// How many items a loop that has not begun will go over, if that is known.
fn count(items: &Template) -> String {
    match items {
        Template::Literal(items) => outlast_expressions::value::as_array(items)
            .map_or_else(|| "0".to_owned(), |items| items.len().to_string()),
        Template::Computed(_) => "n".to_owned(),
    }
}

fn invoke(program: &Program, id: TaskId, task: &Task) -> String {
    let (provider, operation) = called(program, id);
    let compensation = task.traits.compensation.as_ref();
    if compensation.is_some_and(|known| matches!(known.undo, Undo::Run(_))) {
        format!("invoke({provider},{operation},{operation}{BAR})")
    } else {
        format!("invoke({provider},{operation})")
    }
}

/// The provider and the operation of a call. The paper names a provider after its operation.
fn called(program: &Program, id: TaskId) -> (String, String) {
    let task = program.task(id);
    let operation = match &task.kind {
        Kind::Call { service: Service::Catalog { name, .. }, .. } => name,
        Kind::Function { body, .. } if task.name.is_empty() => return called(program, *body),
        _ => &task.name,
    };
    (format!("S{operation}"), operation.clone())
}

/// Who asked for the run.
fn client(program: &Program) -> String {
    format!("S{}", program.name)
}

/// The combining macron: `a` with it is the paper's reverse operation of `a`.
const BAR: char = '\u{304}';
