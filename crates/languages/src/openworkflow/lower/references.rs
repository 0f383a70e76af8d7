//! References that need the whole document: scopes, milestones, recursion, and what nobody uses.

use std::collections::{BTreeMap, BTreeSet};

use outlast_workflow::program::Kind;
use outlast_workflow::{Program, TaskId};

use super::Lowering;
use super::scopes::children;
use crate::Diagnostic;
use crate::openworkflow::scope::{Scope, Site};
use crate::text::{Cursor, did_you_mean};

/// How many names are compared for a suggestion.
const NAMES_MAX: usize = 200;

impl<'a> Lowering<'a> {
    /// The enclosing task that `scope` names, the innermost if there are several of that name.
    pub(super) fn enclosing(
        &mut self,
        at: &Cursor<'a>,
        name: &str,
        scope: &Scope,
    ) -> Option<TaskId> {
        // The innermost task is the compensating call itself.
        let (_, around) = scope.around.split_last()?;
        if let Some(found) = around.iter().rev().find(|it| it.name == name) {
            return Some(found.id);
        }
        let message = format!("`{name}` is not a task around this one");
        let names = around.iter().map(|it| it.name.as_str());
        let help = did_you_mean(name, names, "leave `scope` out to roll back the whole run");
        self.report(Diagnostic::error("unknown-scope", at.place(), message).help(help));
        None
    }

    /// The task that `until` names: one inside the scope that is rolled back.
    pub(super) fn milestone(&mut self, at: &Cursor<'a>, scope: Option<TaskId>) -> Option<TaskId> {
        let name = at.text()?;
        let scope = scope.and_then(|id| self.pointers.get(&id)).cloned().unwrap_or_default();
        let inside = |pointer: &&String| {
            pointer.strip_prefix(scope.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let pointers = self.names.tasks.get(name).map(|(_, pointers)| pointers.as_slice());
        let found = pointers.unwrap_or_default().iter().find(inside);
        let found = found.and_then(|pointer| self.numbers.at(pointer));
        if found.is_none() && !self.compiler.found.is_hopeless() {
            let message = format!("`until` names `{name}`, which is not a task of that scope");
            let names = self.names.tasks.iter();
            let names = names.filter(|(_, (_, pointers))| pointers.iter().any(|it| inside(&it)));
            let names: Vec<&str> = names.map(|(name, _)| *name).take(NAMES_MAX).collect();
            let help = did_you_mean(name, names, "name a task that has completed by then");
            self.report(Diagnostic::error("unknown-scope", at.place(), message).help(help));
        }
        found
    }

    /// Checks that look at the program as a whole.
    pub(super) fn check_references(&mut self, program: &Program) {
        self.check_recursion(program);
        for task in &program.tasks {
            let Kind::Compensate { scope: Some(scope), .. } = &task.kind else { continue };
            let target = program.task(*scope);
            if !target.traits.scope {
                let message =
                    format!("`{}` is not a compensation scope: nothing in it is undone by this", {
                        &target.name
                    });
                let found = Diagnostic::warning("no-scope", task.place.clone(), message)
                    .help("give it `metadata: { outlast: { scope: true } }`")
                    .related("the task", target.place.clone());
                self.report(found);
            }
        }
    }

    /// A function that calls itself, directly or through others, would never end.
    fn check_recursion(&mut self, program: &Program) {
        let functions: BTreeMap<TaskId, &'a str> = self
            .names
            .functions
            .iter()
            .filter_map(|(name, at)| Some((self.numbers.at(&at.pointer)?, *name)))
            .collect();
        let calls: BTreeMap<TaskId, Vec<TaskId>> = functions
            .keys()
            .map(|function| (*function, called(program, *function, &functions)))
            .collect();
        let mut reported: Vec<TaskId> = Vec::new();
        for function in functions.keys() {
            let Some(cycle) = cycle(*function, &calls) else { continue };
            if cycle.iter().any(|it| reported.contains(it)) {
                continue;
            }
            let names: Vec<&str> = cycle.iter().map(|it| functions[it]).collect();
            let message = format!("functions call each other in a circle: {}", {
                names.iter().chain(names.first()).copied().collect::<Vec<_>>().join(" → ")
            });
            let place = program.task(*function).place.clone();
            let found = Diagnostic::error("recursive-function", place, message);
            self.report(found.help("use `for`, or `run: { workflow }` for recursion with an end"));
            self.flow_is_known = false;
            reported.extend(cycle);
        }
    }

    /// Definitions under `use` that no task mentions are compiled too, so that they are checked.
    pub(super) fn check_unused_names(&mut self, scope: &Scope) {
        let caught = scope.with(&["error"]);
        let mentioned = self.mentioned();
        let unused = |name: &str| !mentioned.contains(name);
        let retries: Vec<_> = self.names.retries.iter().map(|(n, at)| (*n, at.clone())).collect();
        for (_, at) in retries.iter().filter(|(name, _)| unused(name)) {
            self.retry_policy(at, &caught);
        }
        let others = [&self.names.errors, &self.names.timeouts, &self.names.authentications];
        let others: Vec<_> =
            others.iter().flat_map(|names| names.iter()).map(|(n, at)| (*n, at.clone())).collect();
        for (_, at) in others.iter().filter(|(name, _)| unused(name)) {
            self.compiler.leaves(at, Site::Definition, scope);
        }
    }

    /// Every text that stands where a name under `use` may be mentioned.
    fn mentioned(&self) -> BTreeSet<&'a str> {
        let mut texts = BTreeSet::new();
        let mut open = vec![self.document.clone()];
        while let Some(at) = open.pop() {
            if ["use", "retry", "timeout", "error"].contains(&at.name()) {
                texts.extend(at.text());
            }
            open.extend(at.items().chain(at.entries()));
        }
        texts
    }

    /// Another major version may give another meaning to the same words.
    pub(super) fn check_dsl(&mut self) {
        let dsl = self.document.clone().follow("/document/dsl");
        let major = dsl.text().and_then(|text| text.split('.').next());
        if dsl.pointer == "/document/dsl" && major.is_some_and(|major| major != "1") {
            let message = "this release reads the language of version 1";
            let found = Diagnostic::warning("unsupported", dsl.place(), message);
            self.report(found.help("the document is read as one of version 1.0.3"));
        }
    }

    pub(super) fn check_evaluation(&mut self) {
        let Some(evaluate) = self.document.get("evaluate") else { return };
        if let Some(language) = evaluate.get("language")
            && language.text().is_some_and(|text| text != "jq")
        {
            let message = format!("expressions in `{}` cannot be read", {
                language.text().unwrap_or_default()
            });
            let found = Diagnostic::error("bad-value", language.place(), message);
            self.report(found.help("write expressions in `jq`"));
        }
        if let Some(mode) = evaluate.get("mode").filter(|it| it.text() == Some("loose")) {
            let message = "the loose mode is read as the strict one";
            let found = Diagnostic::warning("unsupported", mode.place(), message);
            self.report(found.help("write `${ }` around every expression"));
        }
    }
}

/// The functions that a function calls, however deep inside.
fn called(program: &Program, function: TaskId, functions: &BTreeMap<TaskId, &str>) -> Vec<TaskId> {
    let mut found = Vec::new();
    let mut open = vec![function];
    while let Some(id) = open.pop() {
        let task = program.task(id);
        let next = children(&task.kind).into_iter().chain(task.traits.alternatives.iter().copied());
        for child in next {
            match functions.contains_key(&child) {
                true => found.push(child),
                false => open.push(child),
            }
        }
    }
    found
}

/// A way from a function back to itself.
fn cycle(start: TaskId, calls: &BTreeMap<TaskId, Vec<TaskId>>) -> Option<Vec<TaskId>> {
    let mut paths = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while let Some(path) = paths.pop() {
        let last = *path.last().expect("paths are not empty");
        for next in &calls[&last] {
            if *next == start {
                return Some(path);
            }
            if seen.insert(*next) {
                let mut longer = path.clone();
                longer.push(*next);
                paths.push(longer);
            }
        }
    }
    None
}
