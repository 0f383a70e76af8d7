//! Flow directives, and what they may name.

use std::collections::BTreeMap;

use outlast_workflow::program::Flow;

use super::Lowering;
use crate::Diagnostic;
use crate::openworkflow::expression::unwrapped;
use crate::text::{Cursor, did_you_mean};

const DIRECTIVES: [&str; 3] = ["continue", "exit", "end"];

/// The names of the tasks of one list.
#[derive(Default)]
pub(super) struct Siblings<'a> {
    places: BTreeMap<&'a str, u32>,
}

impl<'a> Siblings<'a> {
    pub(super) fn of(tasks: &[Cursor<'a>]) -> Self {
        let mut places = BTreeMap::new();
        for (index, task) in (0..).zip(tasks) {
            places.entry(task.name()).or_insert(index);
        }
        Self { places }
    }
}

impl<'a> Lowering<'a> {
    /// What `then` says. `siblings` are the tasks it may name.
    pub(super) fn flow(&mut self, at: Option<&Cursor<'a>>, siblings: &Siblings<'_>) -> Flow {
        let Some((at, target)) = at.and_then(|at| Some((at, at.text()?))) else {
            return Flow::Continue;
        };
        match (target, siblings.places.get(target)) {
            ("continue", _) => Flow::Continue,
            ("exit", _) => Flow::Exit,
            ("end", _) => Flow::End,
            (_, Some(index)) => Flow::Goto(*index),
            (_, None) => {
                self.flow_is_known = false;
                self.unknown_target(at, target, siblings);
                Flow::Continue
            }
        }
    }

    fn unknown_target(&mut self, at: &Cursor<'a>, target: &str, siblings: &Siblings<'_>) {
        if self.reported_jumps.contains(&at.pointer) || self.compiler.found.is_hopeless() {
            return;
        }
        let elsewhere = self.names.tasks.get(target);
        let found = match elsewhere {
            Some((place, _)) => {
                let message = format!("`{target}` is a task of another list");
                Diagnostic::error("unknown-target", at.place(), message)
                    .help("`then` names a task of its own list, or `continue`, `exit` or `end`")
                    .related("it is here", place.clone())
            }
            None => {
                let message = format!("there is no task `{target}` to go to");
                let names = siblings.places.keys().copied().chain(DIRECTIVES);
                let help = did_you_mean(target, names, "");
                Diagnostic::error("unknown-target", at.place(), message).help(help)
            }
        };
        self.report(found);
    }

    /// With several iterations in flight, none sees the output of the one before.
    pub(super) fn check_concurrent_loop(&mut self, task: &Cursor<'a>) {
        let at = task.clone().follow("/metadata/outlast/concurrency");
        if let Some(condition) = task.get("while") {
            let message =
                "`while` looks at the iteration before, and `concurrency` has several at once";
            let found = Diagnostic::error("concurrent-chain", at.key_place(), message)
                .help("remove `while` (filter the items in `in`), or set `concurrency` to 1")
                .related("the condition", condition.key_place());
            self.report(found);
        }
        if let Some(reading) = first_reading(task) {
            let message = "the first task of the loop reads the data, which is the output of the \
                           iteration before; `concurrency` has several at once";
            let found = Diagnostic::error("concurrent-chain", at.key_place(), message)
                .help("use the loop's item, `$context` or `$workflow.input` there instead of `.`")
                .related("it is read here", reading.place());
            self.report(found);
        }
    }
}

/// The expression of the first task of a loop's body that reads the data given to it.
fn first_reading<'a>(task: &Cursor<'a>) -> Option<Cursor<'a>> {
    let list = task.get("do").or_else(|| task.get("try"))?;
    let first = list.named_items().next()?;
    let before = [first.get("if"), first.get("input").and_then(|it| it.get("from"))];
    let before: Vec<_> = before.into_iter().flatten().collect();
    if let Some(reading) = before.iter().find(|it| reads_data(it, true)) {
        return Some(reading.clone());
    }
    if first.get("input").is_some_and(|it| it.has("from")) {
        // What the rest of the task sees is what `from` made.
        return None;
    }
    if first.has("do") || first.has("try") {
        return first_reading(&first);
    }
    let parts = ["set", "with", "switch", "for", "wait", "raise", "emit"];
    parts.iter().filter_map(|part| first.get(part)).find(|it| reads_data(it, false))
}

/// Whether any expression in a tree has a path from the data itself.
fn reads_data(at: &Cursor<'_>, bare: bool) -> bool {
    if let Some(text) = at.text() {
        let source = unwrapped(text).or(if bare { Some(text) } else { None });
        return source.is_some_and(has_own_path);
    }
    at.items().chain(at.entries()).any(|inner| {
        let bare = ["when", "in"].contains(&inner.name());
        reads_data(&inner, bare)
    })
}

/// Whether a `.` of an expression begins a path rather than going on with one.
fn has_own_path(source: &str) -> bool {
    let mut previous = ' ';
    let mut in_text = false;
    for letter in source.chars() {
        if letter == '"' && previous != '\\' {
            in_text = !in_text;
        }
        let continues = previous.is_alphanumeric() || "_)]}\"?.".contains(previous);
        if letter == '.' && !continues && !in_text {
            return true;
        }
        previous = letter;
    }
    false
}
