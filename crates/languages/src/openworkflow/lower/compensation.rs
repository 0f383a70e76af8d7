//! `metadata.outlast` of a task: class, compensation, scope, alternatives, idempotency.

use outlast_expressions::is_never_a_number;
use outlast_workflow::TaskId;
use outlast_workflow::program::{Class, Compensation, Idempotency, Traits, Undo};

use super::Lowering;
use crate::Diagnostic;
use crate::openworkflow::expression::unwrapped;
use crate::openworkflow::scope::{Scope, Site};
use crate::openworkflow::structure::COST;
use crate::openworkflow::tasks::{Inner, inner_lists};
use crate::text::{Cursor, did_you_mean};

impl<'a> Lowering<'a> {
    pub(super) fn traits(&mut self, task: &Cursor<'a>, scope: &Scope) -> Traits {
        let block = task.get("metadata").and_then(|it| it.get("outlast"));
        let Some(block) = block.filter(Cursor::is_map) else { return Traits::default() };
        self.task_block(task, &block, scope);
        let class = block.text_of("class").and_then(class);
        let compensation = block.get("compensation");
        let compensation = compensation.and_then(|it| self.compensation(&it, scope));
        self.check_class(task, &block, class, compensation.as_ref());
        Traits {
            class,
            compensation,
            scope: block.get("scope").and_then(|it| it.boolean()).unwrap_or(false),
            alternatives: self.alternatives(task, &block),
            idempotency: block.get("idempotency").map(|it| self.idempotency(&it, scope)),
            milestone: false,
        }
    }

    fn compensation(&mut self, at: &Cursor<'a>, scope: &Scope) -> Option<Compensation> {
        let undo = self.undo(at, scope);
        let captured = scope.of_compensation();
        let capture = at.get("capture");
        let capture = capture.and_then(|it| self.compiler.transform(&it, Site::Export, scope));
        let cost = at.get("cost");
        self.check_cost(cost.as_ref());
        let cost = cost.and_then(|it| self.compiler.transform(&it, Site::Captured, &captured));
        let failed = captured.with(&["error"]);
        let retry = at.get("retry").and_then(|it| self.retry(&it, &failed));
        let timeout = at.get("timeout");
        let timeout = timeout.and_then(|it| self.timeout(&it, Site::Definition, &captured));
        let tolerant = at.get("tolerant").and_then(|it| it.boolean()).unwrap_or(false);
        Some(Compensation { undo: undo?, capture, cost, retry, timeout, tolerant })
    }

    /// A cost that is wrong whatever was captured: a number below 0, or what is no number by its form.
    fn check_cost(&mut self, cost: Option<&Cursor<'a>>) {
        let Some(at) = cost else { return };
        let source = at.text().map(|text| unwrapped(text).unwrap_or(text).trim());
        let number = source.map_or_else(|| at.number(), |source| source.parse().ok());
        let is_below = number.is_some_and(|cost| cost < 0.0);
        if !is_below && !source.is_some_and(is_never_a_number) {
            return;
        }
        let written = source.map_or_else(|| at.node.to_json().to_string(), str::to_owned);
        let message = format!("`cost` must be {COST}, not `{written}`");
        let help = "it is what undoing the task costs, in the unit of `budget`; 0 without it";
        self.report(Diagnostic::error("bad-value", at.place(), message).help(help).newly());
    }

    fn undo(&mut self, at: &Cursor<'a>, scope: &Scope) -> Option<Undo> {
        if at.has("none") {
            return Some(Undo::Nothing);
        }
        if let Some(list) = at.get("do") {
            self.check_not_recursive(&list, &at.key_place());
            return self.sequence(&list, &scope.of_compensation()).map(Undo::Run);
        }
        let name = at.get("use")?;
        self.used_function(&name).map(Undo::Run)
    }

    /// A function named by `use` or `alternatives`.
    fn used_function(&mut self, at: &Cursor<'a>) -> Option<TaskId> {
        let name = at.text()?;
        let Some(function) = self.names.functions.get(name) else {
            let message = format!("there is no function `{name}` in `use.functions`");
            let names = self.names.functions.keys().copied();
            let help = did_you_mean(name, names, "add it there");
            self.report(Diagnostic::error("unknown-function", at.place(), message).help(help));
            return None;
        };
        let function = function.clone();
        if at.name() == "use" {
            self.check_task_not_recursive(&function, &at.place());
        }
        self.numbers.at(&function.pointer)
    }

    /// What undoes something is not itself undone.
    fn check_not_recursive(&mut self, list: &Cursor<'a>, place: &outlast_workflow::program::Place) {
        for task in list.named_items() {
            self.check_task_not_recursive(&task, place);
        }
    }

    fn check_task_not_recursive(
        &mut self,
        task: &Cursor<'a>,
        place: &outlast_workflow::program::Place,
    ) {
        let inner = task.clone().follow("/metadata/outlast/compensation");
        if inner.pointer.ends_with("/metadata/outlast/compensation") && !inner.has("none") {
            let message = format!(
                "the task `{}` undoes something and has a `compensation` of its own",
                task.name()
            );
            let found = Diagnostic::error("recursive-compensation", inner.key_place(), message)
                .help("remove it; an undo that fails is tried again (`retry`) or parked")
                .related("it is part of this compensation", place.clone());
            self.report(found);
        }
        for list in inner_lists(task) {
            if let Inner::Sequence(list) | Inner::Members(list) = list
                && !list.pointer.ends_with("/compensation/do")
            {
                self.check_not_recursive(&list, place);
            }
        }
    }

    fn check_class(
        &mut self,
        task: &Cursor<'a>,
        block: &Cursor<'a>,
        class: Option<Class>,
        compensation: Option<&Compensation>,
    ) {
        let Some(at) = block.get("class") else { return };
        let undone = compensation.is_some_and(|it| matches!(it.undo, Undo::Run(_)));
        let compensatable =
            matches!(class, Some(Class::Compensatable | Class::CompensatableRetriable));
        // A sub-workflow that is waited for is undone by what it says itself.
        let undoes_itself = task.get("run").is_some_and(|it| {
            it.has("workflow") && it.get("await").and_then(|it| it.boolean()) != Some(false)
        });
        if compensatable && !undoes_itself && !block.has("compensation") {
            let message = "the task is called compensatable, and nothing says how to undo it";
            let help = "add `compensation: { use: … }` or `compensation: { do: [ … ] }`";
            let found = Diagnostic::error("missing-compensation", at.place(), message);
            return self.report(found.help(help));
        }
        if compensatable
            && !undoes_itself
            && let Some(none) = block.get("compensation").and_then(|it| it.get("none"))
        {
            let message =
                "the task is called compensatable, and `none` says that nothing undoes it";
            let help = "say how to undo it with `use` or `do`; if nothing needs to be undone, remove \
                        the `class`, or say `retriable` or `readonly`";
            let found = Diagnostic::error("class-mismatch", at.place(), message).help(help);
            return self.report(found.related("said here", none.key_place()).newly());
        }
        let clash = match class {
            Some(Class::Pivot) if undone => "a pivot cannot be undone, and this one has an undo",
            Some(Class::Readonly) if undone => "a readonly task has nothing to undo",
            _ => return,
        };
        let found = Diagnostic::error("class-mismatch", at.place(), clash);
        self.report(found.help("say `class: compensatable`, or remove the `compensation`"));
    }

    fn alternatives(&mut self, task: &Cursor<'a>, block: &Cursor<'a>) -> Vec<TaskId> {
        let Some(list) = block.get("alternatives") else { return Vec::new() };
        if !task.has("call") {
            let message = "only a `call` has alternatives";
            let found = Diagnostic::error("misplaced-key", list.key_place(), message);
            self.report(found.help("for other tasks use `try` and `catch`"));
        }
        list.items().filter_map(|it| self.used_function(&it)).collect()
    }

    fn idempotency(&mut self, at: &Cursor<'a>, scope: &Scope) -> Idempotency {
        let key = at.get("key");
        let header = at.get("header");
        let none = at.get("none").filter(|none| none.boolean() == Some(true));
        if let (Some(none), Some(told)) = (none, key.as_ref().or(header.as_ref())) {
            let name = told.name();
            let message =
                format!("`none` says that the provider knows no keys, and `{name}` tells one");
            let found = Diagnostic::error("conflicting-keys", none.key_place(), message);
            let help =
                format!("remove `none` if the provider acts once per key, otherwise `{name}`");
            self.report(found.help(help).related("the other one", told.key_place()).newly());
        }
        if let Some((at, name)) = header.as_ref().and_then(|it| Some((it, it.text()?))) {
            let fits =
                |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
            if name.is_empty() || !name.chars().all(fits) {
                let message = format!("`{name}` cannot be the name of a header");
                let found = Diagnostic::error("bad-name", at.place(), message);
                self.report(found.help("use letters, digits and hyphens"));
            }
        }
        Idempotency {
            key: key.and_then(|it| self.compiler.template(&it, Site::Definition, scope)),
            header: header.and_then(|it| it.text().map(str::to_owned)),
            none: at.get("none").is_some(),
        }
    }
}

fn class(word: &str) -> Option<Class> {
    Some(match word {
        "readonly" => Class::Readonly,
        "compensatable" => Class::Compensatable,
        "retriable" => Class::Retriable,
        "compensatable-retriable" => Class::CompensatableRetriable,
        "pivot" => Class::Pivot,
        _ => return None,
    })
}
