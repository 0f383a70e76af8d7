//! How calls and their providers behave, as far as the document tells.

use outlast_lineage::{Conduct, Repetition, Reversal};

use crate::execution::{Activity, Branch, Frame};
use crate::program::{Class, Program, Task, Undo};

/// What the innermost of some frames says, or the tasks that call it as a function.
pub(super) fn said_of<'p, T>(
    program: &'p Program,
    frames: &[Frame],
    of: impl Fn(&'p Task) -> Option<T>,
) -> Option<T> {
    let start = start_of_call(frames);
    frames[start..].iter().rev().find_map(|frame| of(program.task(frame.task)))
}

/// Where a call begins: at the outermost of the tasks that call it as a function.
pub(super) fn start_of_call(frames: &[Frame]) -> usize {
    let is_function = |frame: &Frame| matches!(frame.activity, Activity::Function { .. });
    let mut start = frames.len().saturating_sub(1);
    while start > 0 && is_function(&frames[start - 1]) {
        start -= 1;
    }
    start
}

/// How a call and its provider behave, as far as the document tells. The call is the innermost frame;
/// what undoes it may belong to a task around it.
pub(super) fn conduct(program: &Program, frames: &[Frame]) -> Conduct {
    let class = said_of(program, frames, |task| task.traits.class);
    let idempotency = said_of(program, frames, |task| task.traits.idempotency.as_ref());
    let undo = frames.iter().rev().find_map(|frame| {
        let compensation = program.task(frame.task).traits.compensation.as_ref()?;
        matches!(compensation.undo, Undo::Run(_)).then_some(compensation)
    });
    Conduct {
        repetition: match (class, idempotency) {
            (Some(Class::Readonly), _) => Repetition::Harmless,
            (_, Some(idempotency)) if idempotency.none => Repetition::Acts,
            // A pivot whose provider is not said to deduplicate is asked once.
            (Some(Class::Pivot), None) => Repetition::Acts,
            _ => Repetition::Deduplicated,
        },
        reversal: match (undo, class) {
            (Some(compensation), _) if compensation.tolerant => Reversal::Tolerant,
            (Some(_), _) => Reversal::WithResult,
            (None, Some(Class::Pivot)) => Reversal::Impossible,
            (None, _) => Reversal::Needless,
        },
    }
}

/// Whether the call of a branch, once made, is not made again by itself.
pub(super) fn must_not_repeat(program: &Program, branch: &Branch) -> bool {
    conduct(program, branch.frames()).repetition == Repetition::Acts
}

pub(super) fn is_pivot(program: &Program, branch: &Branch) -> bool {
    said_of(program, branch.frames(), |task| task.traits.class) == Some(Class::Pivot)
}

/// Whether a branch only asks what became of a call, in order to undo it.
pub(super) fn is_finding_out(branch: &Branch) -> bool {
    let mut frames = branch.frames().iter().rev();
    let nearest = frames
        .find(|frame| matches!(frame.activity, Activity::Undoing(_) | Activity::Compensating(_)));
    nearest.is_some_and(|frame| matches!(frame.activity, Activity::Compensating(_)))
}

/// Whether the innermost of some frames of a branch is part of an undo.
pub(super) fn is_undoing<'f>(
    branch: &Branch,
    mut frames: impl DoubleEndedIterator<Item = &'f Frame>,
) -> bool {
    let nearest = frames
        .rfind(|frame| matches!(frame.activity, Activity::Undoing(_) | Activity::Compensating(_)));
    let undoes = |frame: &Frame| matches!(frame.activity, Activity::Undoing(_));
    nearest.map_or(branch.birth.undo.is_some(), undoes)
}
