//! One task: what every task has, and which kind it is.

use std::collections::BTreeSet;

use outlast_workflow::TaskId;
use outlast_workflow::program::{Case, Flow, Kind, Place, Task, Template, Traits, Transform};

use super::Lowering;
use super::flow::Siblings;
use crate::Diagnostic;
use crate::openworkflow::scope::{Scope, Site};
use crate::openworkflow::structure::task_kinds;
use crate::text::Cursor;

/// A task that has nothing but a kind.
pub(super) fn bare(name: String, place: Place, kind: Kind) -> Task {
    Task {
        name,
        place,
        condition: None,
        input: Transform::default(),
        output: Transform::default(),
        export: Transform::default(),
        timeout: None,
        then: Flow::Continue,
        kind,
        traits: Traits::default(),
    }
}

impl<'a> Lowering<'a> {
    /// A list that is a task of its own: the document's `do`, bodies of loops and handlers.
    pub(super) fn sequence(&mut self, list: &Cursor<'a>, scope: &Scope) -> Option<TaskId> {
        let id = self.numbers.at(&list.pointer)?;
        let children = self.members(list, scope);
        // Lists have no name: histories and pictures tell of the tasks people named.
        let task = bare(String::new(), list.key_place(), Kind::Sequence(children));
        self.tasks.insert(id, task);
        Some(id)
    }

    /// The tasks of a list, which may name each other in `then`.
    pub(super) fn members(&mut self, list: &Cursor<'a>, scope: &Scope) -> Vec<TaskId> {
        let tasks: Vec<Cursor<'a>> = list.named_items().collect();
        let siblings = Siblings::of(&tasks);
        if tasks.len() != list.items().count() {
            self.flow_is_known = false;
        }
        tasks.iter().filter_map(|task| self.task(task, &siblings, scope)).collect()
    }

    /// One task. `siblings` are the tasks of its list.
    pub(super) fn task(
        &mut self,
        at: &Cursor<'a>,
        siblings: &Siblings<'_>,
        scope: &Scope,
    ) -> Option<TaskId> {
        let id = self.numbers.at(&at.pointer)?;
        let inner = scope.inside(at.name(), id);
        self.pointers.insert(id, at.pointer.clone());
        let part = |name: &str| at.get(name);
        let condition =
            part("if").and_then(|it| self.compiler.expression(&it, Site::Before, scope));
        let kind = self.kind(at, siblings, &inner);
        let task = Task {
            name: at.name().to_owned(),
            place: at.key_place(),
            condition,
            input: self.transform(part("input").as_ref(), "from", Site::Before, scope),
            output: self.transform(part("output").as_ref(), "as", Site::Output, scope),
            export: self.transform(part("export").as_ref(), "as", Site::Export, scope),
            timeout: part("timeout").and_then(|it| self.timeout(&it, Site::Definition, scope)),
            then: self.flow(part("then").as_ref(), siblings),
            kind,
            traits: self.traits(at, scope),
        };
        self.tasks.insert(id, task);
        self.pointers.remove(&id);
        Some(id)
    }

    fn kind(&mut self, at: &Cursor<'a>, siblings: &Siblings<'_>, scope: &Scope) -> Kind {
        let kinds = task_kinds(at);
        let [key] = kinds.as_slice() else {
            self.flow_is_known = false;
            return Kind::Unsupported("a task of no known kind".to_owned());
        };
        let kind = match key.name() {
            "call" => self.call(at, scope),
            "do" => Kind::Sequence(self.members(key, scope)),
            "emit" => self.emit(key, scope),
            "for" => self.for_loop(at, key, scope),
            "fork" => self.fork(key, scope),
            "listen" => self.listen(at, key, scope),
            "raise" => self.raise(key, scope),
            "run" => self.run_process(key, scope),
            "set" => self.set(key, scope),
            "switch" => self.switch(key, siblings, scope),
            "try" => self.try_task(at, key, siblings, scope),
            _ => self.wait(key, scope),
        };
        match self.names.extension_of(key.name()) {
            None => kind,
            Some(extension) => {
                let what = format!("the extension `{extension}`, which changes this task");
                self.unsupported(&key.key_place(), &what)
            }
        }
    }

    /// Valid language that this release does not run: said now, and again when it is reached.
    pub(super) fn unsupported(&mut self, place: &Place, what: &str) -> Kind {
        let message = format!("this release does not support {what}");
        let help = "the document is accepted; reaching this task is a configuration error";
        self.report(Diagnostic::warning("unsupported", place.clone(), message).help(help));
        Kind::Unsupported(what.to_owned())
    }

    /// A template that must be there; a stand-in if it could not be compiled.
    pub(super) fn template(&mut self, at: &Cursor<'a>, scope: &Scope) -> Template {
        let template = self.compiler.template(at, Site::Definition, scope);
        template.unwrap_or(Template::Literal(outlast_expressions::value::null()))
    }

    fn set(&mut self, at: &Cursor<'a>, scope: &Scope) -> Kind {
        if let Some(text) = at.text()
            && !text.contains("${")
        {
            let message = "this sets the data to a text, not to the value of an expression";
            let found = Diagnostic::warning("literal-expression", at.place(), message);
            self.report(found.help(format!("if it is an expression, wrap it: '${{ {text} }}'")));
        }
        Kind::Set(self.template(at, scope))
    }

    fn wait(&mut self, at: &Cursor<'a>, scope: &Scope) -> Kind {
        Kind::Wait(self.template(at, scope))
    }

    fn switch(&mut self, at: &Cursor<'a>, siblings: &Siblings<'_>, scope: &Scope) -> Kind {
        let mut cases = Vec::new();
        let mut default: Option<(Case, Place)> = None;
        for case in at.named_items() {
            let when = case.get("when");
            let lowered = Case {
                name: case.name().to_owned(),
                when: when
                    .as_ref()
                    .and_then(|it| self.compiler.expression(it, Site::Definition, scope)),
                then: self.flow(case.get("then").as_ref(), siblings),
            };
            match (when.is_some(), &default) {
                (true, _) => cases.push(lowered),
                (false, None) => default = Some((lowered, case.key_place())),
                (false, Some((_, first))) => {
                    let message = "a `switch` has one case without `when`, its default";
                    let found = Diagnostic::error("two-defaults", case.key_place(), message)
                        .help("give this one a `when`, or remove it")
                        .related("the other default", first.clone());
                    self.report(found);
                }
            }
        }
        // The default is what is left when nothing else holds, wherever it was written.
        cases.extend(default.map(|(case, _)| case));
        Kind::Switch(cases)
    }

    fn fork(&mut self, at: &Cursor<'a>, scope: &Scope) -> Kind {
        let Some(list) = at.get("branches") else { return Kind::Sequence(Vec::new()) };
        let compete = at.get("compete").and_then(|it| it.boolean()).unwrap_or(false);
        let branches: Vec<Cursor<'a>> = list.named_items().collect();
        let names: BTreeSet<&str> = branches.iter().map(Cursor::name).collect();
        for branch in &branches {
            self.branch_directive(branch, &names);
        }
        let lowered = branches.iter().filter_map(|it| self.task(it, &Siblings::default(), scope));
        Kind::Fork { branches: lowered.collect(), compete }
    }

    /// Branches run beside each other: none comes after another.
    fn branch_directive(&mut self, branch: &Cursor<'a>, branches: &BTreeSet<&str>) {
        let Some(then) = branch.get("then") else { return };
        let target = then.text().unwrap_or_default();
        if branches.contains(target) {
            let message = format!("a branch cannot go on to the branch `{target}`");
            let found = Diagnostic::error("unknown-target", then.place(), message);
            self.report(found.help("branches run beside each other; put both tasks in one `do`"));
            self.reported_jumps.insert(then.pointer);
        }
    }

    fn for_loop(&mut self, task: &Cursor<'a>, at: &Cursor<'a>, scope: &Scope) -> Kind {
        let each = self.variable(at.get("each"), "item");
        let index = self.variable(at.get("at"), "index");
        let items = at
            .get("in")
            .and_then(|it| self.compiler.transform(&it, Site::Definition, scope))
            .unwrap_or(Template::Literal(outlast_expressions::value::null()));
        let inner = scope.with(&[&each, &index]);
        let condition = task
            .get("while")
            .and_then(|it| self.compiler.expression(&it, Site::Definition, &inner));
        let body = task.get("do").and_then(|it| self.sequence(&it, &inner));
        let concurrency = task.clone().follow("/metadata/outlast/concurrency").count();
        let concurrency = concurrency.and_then(|it| u32::try_from(it).ok()).unwrap_or(1);
        if concurrency > 1 {
            self.check_concurrent_loop(task);
        }
        match body {
            Some(body) => Kind::Loop { each, at: index, items, condition, body, concurrency },
            None => Kind::Sequence(Vec::new()),
        }
    }

    /// The name of a variable that a task introduces.
    pub(super) fn variable(&mut self, at: Option<Cursor<'a>>, default: &str) -> String {
        let Some(at) = at else { return default.to_owned() };
        let name = at.text().unwrap_or(default);
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let fits = name.chars().all(plain)
            && name.chars().next().is_some_and(|first| !first.is_ascii_digit());
        if !fits {
            let message = format!("`{name}` cannot be the name of a variable");
            let help = match name.strip_prefix('$') {
                Some(rest) => format!("write it without `$` here: `{rest}`"),
                None => "use letters, digits and `_`, beginning with a letter".to_owned(),
            };
            self.report(Diagnostic::error("bad-name", at.place(), message).help(help));
        }
        name.trim_start_matches('$').to_owned()
    }
}
