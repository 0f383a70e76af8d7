//! Sequences, switches, loops one after the other, and functions.

use outlast_expressions::{Value, value};

use super::evaluation::{Sight, evaluated, shortened};
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, Frame};
use crate::program::{Kind, Template};
use crate::{Fault, FaultKind, TaskId};

impl Machine<'_> {
    pub(super) fn next_of_sequence(&mut self, branch: &mut Branch) -> Turn {
        let Kind::Sequence(tasks) = &self.definition(branch).kind else {
            unreachable!("only sequences run lists")
        };
        let Some(Activity::Sequence { next, jumps }) = branch.top().map(|frame| &frame.activity)
        else {
            unreachable!("the turn was given for a sequence")
        };
        let (next, jumps) = (*next, *jumps);
        let Some(task) = tasks.get(next as usize) else { return self.complete(branch) };
        self.set_activity(branch, Activity::Sequence { next: next + 1, jumps });
        self.enter(branch, *task, jumps);
        Turn::Again
    }

    pub(super) fn next_case(&mut self, branch: &mut Branch) -> Turn {
        let Kind::Switch(cases) = &self.definition(branch).kind else {
            unreachable!("only switches have cases")
        };
        let Some(Activity::Switch(from)) = branch.top().map(|frame| &frame.activity) else {
            unreachable!("the turn was given for a switch")
        };
        let mut fallback = None;
        let from = *from;
        for (index, case) in cases.iter().enumerate() {
            let Some(when) = &case.when else {
                fallback.get_or_insert(index as u32);
                continue;
            };
            if (index as u32) < from {
                continue;
            }
            if from != index as u32 {
                self.set_activity(branch, Activity::Switch(index as u32));
            }
            let sight = Sight::from_top(branch, self.value(branch.data()));
            let holds = evaluated!(self, branch, self.evaluate_expression(branch, when, &sight));
            if value::truthy(&holds) {
                return self.choose(branch, Some(index as u32));
            }
        }
        self.choose(branch, fallback)
    }

    fn choose(&mut self, branch: &mut Branch, case: Option<u32>) -> Turn {
        branch.top_mut().expect("a task is being run").chosen = case;
        self.complete(branch)
    }

    pub(super) fn begin_loop(&mut self, branch: &mut Branch) -> Turn {
        let Kind::Loop { items, concurrency, .. } = &self.definition(branch).kind else {
            unreachable!("only loops go over lists")
        };
        let sight = Sight::from_top(branch, self.value(branch.data()));
        let list = evaluated!(self, branch, self.evaluate(branch, items, &sight));
        let list = match list {
            Value::Arr(_) => list,
            // Upstream leaves this open; nothing to go over is no iteration.
            Value::Null => value::array([]),
            other => return self.raise(branch, not_a_list(&other)),
        };
        let items = self.share(list);
        if *concurrency > 1 {
            return self.begin_concurrent_loop(branch, items);
        }
        self.set_activity(branch, Activity::Loop { items, index: 0, inside: false });
        Turn::Again
    }

    pub(super) fn next_iteration(&mut self, branch: &mut Branch) -> Turn {
        let Kind::Loop { condition, body, .. } = &self.definition(branch).kind else {
            unreachable!("only loops have iterations")
        };
        let Some(Activity::Loop { items, index, .. }) = branch.top().map(|frame| &frame.activity)
        else {
            unreachable!("the turn was given for a loop")
        };
        let (items, index) = (items.clone(), *index);
        if length(&self.value(&items)) <= index {
            return self.complete(branch);
        }
        if let Some(condition) = condition {
            let sight = Sight::from_top(branch, self.value(branch.data()));
            let holds =
                evaluated!(self, branch, self.evaluate_expression(branch, condition, &sight));
            if !value::truthy(&holds) {
                return self.complete(branch);
            }
        }
        self.set_activity(branch, Activity::Loop { items, index, inside: true });
        self.enter(branch, *body, index);
        Turn::Again
    }

    pub(super) fn begin_function(
        &mut self,
        branch: &mut Branch,
        body: TaskId,
        arguments: Option<&Template>,
    ) -> Turn {
        if let Some(template) = arguments {
            let sight = Sight::from_top(branch, self.value(branch.data()));
            let value = evaluated!(self, branch, self.evaluate(branch, template, &sight));
            let data = self.intern(value);
            branch.set_data(data);
        }
        let arguments = branch.data().clone();
        self.set_activity(branch, Activity::Function { alternative: 0, arguments });
        self.enter(branch, body, 0);
        Turn::Again
    }

    /// Whether a call that failed has an alternative left.
    pub(super) fn has_alternative(&self, branch: &Branch, depth: usize) -> bool {
        let frame = &branch.frames()[depth];
        alternatives_used(frame) < self.program.task(frame.task).traits.alternatives.len()
    }

    /// Runs the next alternative of a call that failed.
    pub(super) fn begin_alternative(&mut self, branch: &mut Branch, depth: usize) -> Turn {
        let frame = &branch.frames()[depth];
        let used = alternatives_used(frame);
        let arguments = match &frame.activity {
            Activity::Function { arguments, .. } => arguments.clone(),
            _ => frame.input().clone(),
        };
        let task = self.program.task(frame.task).traits.alternatives[used];
        let mut entries = self.unwind_inside(branch, depth);
        if matches!(branch.frames()[depth].activity, Activity::Calling(_)) {
            entries.push(self.uncertain_in_place(branch, depth));
        }
        // What the first choice may have done is not wanted beside what the alternative does.
        self.undo_aside(branch, entries);
        branch.set_data(arguments.clone());
        let activity = Activity::Function { alternative: used as u32 + 1, arguments };
        self.set_activity(branch, activity);
        self.enter(branch, task, used as u64 + 1);
        Turn::Again
    }
}

/// How many of the alternatives of a call have been begun.
pub(super) fn alternatives_used(frame: &Frame) -> usize {
    match &frame.activity {
        Activity::Function { alternative, .. } => *alternative as usize,
        _ => 0,
    }
}

pub(super) fn length(list: &Value) -> u64 {
    value::as_array(list).map_or(0, |list| list.len() as u64)
}

fn not_a_list(value: &Value) -> Fault {
    let text = shortened(&value::to_text(value), 80);
    let detail = format!("`for.in` must give a list, but gave {text}");
    Fault::new(FaultKind::Expression, "there is no list to go over", detail)
}
