//! Answers that an execution has no room for. The call has happened, so its task fails and what it did is
//! undone like anything else: what its undo is told is taken from the answer while that is in hand, and
//! the rest of the answer is dropped.

use outlast_expressions::{Value, value};

use super::compensation::stripped;
use super::evaluation::Sight;
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, Frame, LARGE, PlanEntry};
use crate::program::{Flow, Kind};
use crate::{Fault, Request};

impl Machine<'_> {
    /// The call of the innermost task was answered with more than may be held.
    pub(super) fn succeeded_in_excess(
        &mut self,
        branch: &mut Branch,
        request: &Request,
        output: &Value,
        fault: Fault,
    ) -> Turn {
        if request.undo && self.ends_undo(branch) {
            // It is undone, and nothing looks at what was answered.
            return self.succeeded(branch, request, Value::default());
        }
        self.keep_what_undoes(branch, request, output, &fault);
        self.raise(branch, fault)
    }

    /// Keeps of an answer what undoes its call. If that cannot be said here, or is itself too large, the
    /// call is undone as any that has happened and has no result.
    pub(super) fn keep_what_undoes(
        &mut self,
        branch: &mut Branch,
        request: &Request,
        output: &Value,
        fault: &Fault,
    ) {
        if !request.readonly && !request.undo {
            self.effect_done(branch, request);
        }
        self.set_activity(branch, Activity::Output);
        let Some(owner) = self.owner_of_result(branch) else { return };
        match self.undo_from(branch, owner, output) {
            Some(entry) => {
                let plan = self.scope_around(branch, owner);
                self.plan_mut(plan).push(entry);
            }
            None => self.owe_in_spite_of(branch, fault),
        }
        // The undo is put down: whatever fails now does not owe it once more.
        self.set_activity(branch, Activity::Export);
        if owner + 1 < branch.frames().len() {
            branch.frame_mut(owner).effect = None;
        }
    }

    /// The undo of the task at a depth, if the innermost one, which it calls as a function or is itself,
    /// was answered with this.
    fn undo_from(
        &mut self,
        branch: &mut Branch,
        owner: usize,
        output: &Value,
    ) -> Option<PlanEntry> {
        let mut output = output.clone();
        for (depth, frame) in branch.frames().iter().enumerate().skip(owner).rev() {
            if let Some(template) = &self.program.task(frame.task).output.template {
                let sight = Sight { depth: depth + 1, ..Sight::from_top(branch, output) };
                output = self.evaluate_template_here(branch, template, &sight).ok()?;
            }
        }
        let frame = stripped(branch.frames()[owner].clone());
        branch.push(Frame { activity: Activity::Capture, ..frame });
        let captured = self.captured_of(branch, output).ok();
        // There is no room for what is large: that is why the answer was not taken.
        let captured = captured.filter(|captured| value::weight(captured, LARGE) <= LARGE);
        let entry = captured.map(|captured| self.undo_with(branch, captured));
        branch.pop();
        entry
    }

    /// Whether nothing of the innermost undo comes after its call.
    fn ends_undo(&self, branch: &Branch) -> bool {
        let frames = branch.frames();
        let undo = frames.iter().rposition(|it| matches!(it.activity, Activity::Undoing(_)));
        let Some(undo) = undo else { return false };
        frames[undo + 1..].iter().all(|frame| {
            let task = self.program.task(frame.task);
            let is_last = match (&frame.activity, &task.kind) {
                (Activity::Sequence { next, .. }, Kind::Sequence(tasks)) => {
                    tasks.len() <= *next as usize
                }
                (Activity::Function { .. } | Activity::Calling(_), _) => true,
                _ => false,
            };
            is_last && !matches!(task.then, Flow::Goto(_))
        })
    }
}
