//! Compares a document with the shapes of the language.

use super::calls;
use super::grammar::{self, BASE, DOCUMENT, TASK_KINDS, kind_keys};
use super::scalar::{fits, is_collection, is_wrapped, title, type_help, value_help};
use super::shape::{Key, Object, Shape};
use crate::Diagnostic;
use crate::openworkflow::duration::{self, Fault, UNITS};
use crate::text::{Cursor, Node, NodeKind, closest, did_you_mean, listed};

/// Every problem of structure in a document.
pub(in super::super) fn check(document: &Node) -> Vec<Diagnostic> {
    let mut walker = Walker { found: Vec::new() };
    let root = Cursor::root(document);
    match root.is_map() {
        true => walker.object(&root, &DOCUMENT),
        false => walker.found.push(
            Diagnostic::error(
                "wrong-type",
                root.place(),
                format!("a workflow must be an object, not {}", document.describe()),
            )
            .help("a workflow begins with `document:` and has a list of tasks under `do:`"),
        ),
    }
    walker.found
}

struct Walker {
    found: Vec<Diagnostic>,
}

impl Walker {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    fn value(&mut self, at: &Cursor<'_>, shape: &Shape) {
        match (shape, &at.node.kind) {
            (Shape::Any, _) => {}
            (Shape::Task, _) => self.task(at),
            (Shape::Duration, _) => self.duration(at, false),
            (Shape::CalendarDuration, _) => self.duration(at, true),
            (Shape::Choice(words), NodeKind::Text(text)) => self.choice(at, words, text),
            (Shape::Integer(least), NodeKind::Number(number)) => {
                let whole = number.as_i64().or_else(|| number.as_u64().map(|_| i64::MAX));
                if whole.is_none_or(|whole| whole < *least) {
                    self.unfit(at, shape, &number.to_string());
                }
            }
            (Shape::List(item), NodeKind::List(_))
            | (Shape::ListOr(item, _), NodeKind::List(_)) => {
                at.items().for_each(|at| self.value(&at, item));
            }
            (Shape::Map(item), NodeKind::Map(_)) | (Shape::MapOr(item, _), NodeKind::Map(_)) => {
                at.entries().for_each(|at| self.value(&at, item));
            }
            (Shape::Named(what, item), NodeKind::List(_)) => self.named(at, what, item),
            (Shape::Object(object), NodeKind::Map(_))
            | (Shape::ObjectOr(object, _, _), NodeKind::Map(_)) => self.object(at, object),
            (Shape::Metadata(block), NodeKind::Map(_)) => self.metadata(at, block),
            (Shape::MapOr(_, other), NodeKind::Text(_))
            | (Shape::ListOr(_, other), NodeKind::Text(_))
            | (Shape::ObjectOr(_, other, _), NodeKind::Text(_)) => self.value(at, other),
            (Shape::Either(one, other, _), _) => self.either(at, shape, one, other),
            _ if fits(shape, at.node) => {}
            _ => self.mistyped(at, shape),
        }
    }

    /// Two scalar shapes: the value must fit one of them.
    fn either(&mut self, at: &Cursor<'_>, shape: &Shape, one: &Shape, other: &Shape) {
        if !fits(one, at.node) && !fits(other, at.node) {
            self.mistyped(at, shape);
        }
    }

    fn mistyped(&mut self, at: &Cursor<'_>, shape: &Shape) {
        if let NodeKind::Text(text) = &at.node.kind
            && !matches!(shape, Shape::Boolean | Shape::Number | Shape::Integer(_))
            && !is_collection(shape)
        {
            return self.unfit(at, shape, &format!("`{text}`"));
        }
        let wanted = shape.describe();
        let message = format!("{} must be {wanted}, not {}", title(at), at.node.describe());
        let found = Diagnostic::error("wrong-type", at.place(), message);
        self.report(match type_help(at.node, shape) {
            Some(help) => found.help(help),
            None => found,
        });
    }

    /// The type is right and the value is not.
    fn unfit(&mut self, at: &Cursor<'_>, shape: &Shape, value: &str) {
        let message = format!("{} must be {}, not {value}", title(at), shape.describe());
        let found = Diagnostic::error("bad-value", at.place(), message);
        self.report(match value_help(at, shape) {
            Some(help) => found.help(help),
            None => found,
        });
    }

    fn choice(&mut self, at: &Cursor<'_>, words: &[&str], text: &str) {
        if words.contains(&text) {
            return;
        }
        let message = format!("{} cannot be `{text}`", title(at));
        let help = did_you_mean(text, words.iter().copied(), "");
        self.report(Diagnostic::error("bad-value", at.place(), message).help(help));
    }

    fn duration(&mut self, at: &Cursor<'_>, calendar: bool) {
        match &at.node.kind {
            NodeKind::Map(entries) => {
                if entries.is_empty() {
                    let message = format!("{} is an empty duration", title(at));
                    let found = Diagnostic::error("bad-duration", at.place(), message);
                    self.report(found.help("say how long, such as `{ seconds: 30 }`"));
                }
                at.entries().for_each(|part| self.duration_part(&part));
            }
            NodeKind::Text(text) if is_wrapped(text) => {}
            NodeKind::Text(text) => match duration::check(text) {
                Ok(()) => {}
                Err(Fault::Calendar) if calendar => {}
                Err(fault) => self.bad_duration(at, text, fault),
            },
            _ => self.mistyped(at, &Shape::Duration),
        }
    }

    fn duration_part(&mut self, part: &Cursor<'_>) {
        if UNITS.contains(&part.name()) {
            return self.value(part, &Shape::Integer(0));
        }
        let message = format!("`{}` is not a unit of a duration", part.name());
        let help = did_you_mean(part.name(), UNITS, "");
        self.report(Diagnostic::error("unknown-key", part.key_place(), message).help(help));
    }

    fn bad_duration(&mut self, at: &Cursor<'_>, text: &str, fault: Fault) {
        let (message, help) = match fault {
            Fault::Malformed => (
                format!("{} is not a duration: `{text}`", title(at)),
                "write ISO 8601, such as `PT30S`, `PT5M` or `P1DT12H`, or an object, such as \
                 `{ seconds: 30 }`",
            ),
            Fault::Calendar => (
                format!("{} counts in years or months, which have no fixed length", title(at)),
                "count in days or smaller units; only `schedule` knows the calendar",
            ),
        };
        self.report(Diagnostic::error("bad-duration", at.place(), message).help(help));
    }

    /// A list of objects with one member each.
    fn named(&mut self, list: &Cursor<'_>, what: &str, shape: &Shape) {
        for item in list.items() {
            match &item.node.kind {
                NodeKind::Map(entries) if entries.len() == 1 => {}
                NodeKind::Map(entries) => {
                    let message = match entries.len() {
                        0 => format!("this {what} has no name"),
                        count => format!("this {what} has {count} names"),
                    };
                    let help =
                        format!("each item is `- name: …` with the {what} indented below its name");
                    self.report(Diagnostic::error("bad-item", item.place(), message).help(help));
                    continue;
                }
                _ => {
                    let found = item.node.describe();
                    let message = format!("a {what} must be `- name: …`, not {found}");
                    self.report(Diagnostic::error("bad-item", item.place(), message));
                    continue;
                }
            }
            item.entries().for_each(|member| self.value(&member, shape));
        }
        self.duplicate_names(list, what);
    }

    fn duplicate_names(&mut self, list: &Cursor<'_>, what: &str) {
        let mut seen = std::collections::BTreeMap::new();
        for member in list.named_items() {
            if let Some(first) = seen.insert(member.name(), member.key_place()) {
                let name = member.name();
                let message = format!("two {what}s of one list are named `{name}`");
                self.report(
                    Diagnostic::error("duplicate-name", member.key_place(), message)
                        .help("rename one of them; `then` could not tell them apart")
                        .related("first named here", first),
                );
            }
        }
    }

    fn object(&mut self, at: &Cursor<'_>, object: &Object) {
        self.known_keys(at, object.what, object.keys, object.open);
        self.required_keys(at, object.what, object.keys);
        self.one_of(at, object);
    }

    fn known_keys(&mut self, at: &Cursor<'_>, what: &str, keys: &[Key], open: bool) {
        for member in at.entries() {
            match keys.iter().find(|key| key.name == member.name()) {
                Some(key) => self.value(&member, key.shape),
                None if open => self.open_key(&member, what, keys),
                None => self.unknown_key(&member, what, keys),
            }
        }
    }

    /// A key that is allowed but unknown: a warning if it looks like a slip of the pen.
    fn open_key(&mut self, member: &Cursor<'_>, what: &str, keys: &[Key]) {
        if let Some(meant) = closest(member.name(), keys.iter().map(|key| key.name)) {
            let message = format!("`{}` has no meaning in {what}", member.name());
            let found = Diagnostic::warning("unknown-key", member.key_place(), message);
            self.report(found.help(format!("did you mean `{meant}`?")));
        }
    }

    fn unknown_key(&mut self, member: &Cursor<'_>, what: &str, keys: &[Key]) {
        let message = format!("`{}` is not a key of {what}", member.name());
        let help = did_you_mean(member.name(), keys.iter().map(|key| key.name), "remove it");
        self.report(Diagnostic::error("unknown-key", member.key_place(), message).help(help));
    }

    fn required_keys(&mut self, at: &Cursor<'_>, what: &str, keys: &[Key]) {
        let names = || keys.iter().map(|key| key.name);
        let meant: Vec<&str> = at
            .entries()
            .filter(|it| names().all(|name| name != it.name()))
            .filter_map(|it| closest(it.name(), names()))
            .collect();
        for key in keys.iter().filter(|key| key.required && !at.has(key.name)) {
            // A key that is only misspelt has been reported as such.
            if meant.contains(&key.name) {
                continue;
            }
            let message = format!("{what} lacks `{}`", key.name);
            let help = format!("add `{}:` with {}", key.name, key.shape.wanted());
            self.report(Diagnostic::error("missing-key", at.key_place(), message).help(help));
        }
    }

    fn one_of(&mut self, at: &Cursor<'_>, object: &Object) {
        let given: Vec<_> =
            at.entries().filter(|member| object.one_of.contains(&member.name())).collect();
        match given.as_slice() {
            _ if object.one_of.is_empty() => {}
            [_] => {}
            [] => {
                let message = format!("{} lacks one of {}", object.what, listed(object.one_of));
                let found = Diagnostic::error("missing-key", at.key_place(), message);
                self.report(found.help("add exactly one of them"));
            }
            [first, second, ..] => {
                let message =
                    format!("{} has both `{}` and `{}`", object.what, first.name(), second.name());
                let found = Diagnostic::error("conflicting-keys", second.key_place(), message);
                let help = format!("keep exactly one of {}", listed(object.one_of));
                self.report(found.help(help).related("the other one", first.key_place()));
            }
        }
    }

    fn metadata(&mut self, at: &Cursor<'_>, block: &Object) {
        let Some(outlast) = at.get("outlast") else { return };
        match outlast.is_map() {
            true => self.object(&outlast, block),
            false => self.mistyped(&outlast, &Shape::Map(&grammar::ANY)),
        }
        self.only_true(&outlast, "compensation", "remove it and say `use` or `do` instead");
        self.only_true(
            &outlast,
            "idempotency",
            "remove it; providers know keys unless said otherwise",
        );
    }

    /// `none` under a key of the block.
    fn only_true(&mut self, block: &Cursor<'_>, key: &str, help: &str) {
        if let Some(none) = block.get(key).and_then(|it| it.get("none"))
            && none.boolean() == Some(false)
        {
            let found = Diagnostic::error("bad-value", none.place(), "`none` can only be `true`");
            self.report(found.help(help));
        }
    }

    fn task(&mut self, at: &Cursor<'_>) {
        if !at.is_map() {
            let message = format!("the task `{}` must be an object, not {}", at.name(), {
                at.node.describe()
            });
            let found = Diagnostic::error("wrong-type", at.key_place(), message);
            let help = format!("say what it does with one of {}", listed(TASK_KINDS));
            return self.report(found.help(help));
        }
        match task_kinds(at).as_slice() {
            [] => self.no_kind(at),
            [kind] => self.task_of_kind(at, kind.name()),
            [first, second, ..] => {
                let message = format!(
                    "the task `{}` is both a `{}` and a `{}`",
                    at.name(),
                    first.name(),
                    second.name()
                );
                self.report(
                    Diagnostic::error("two-task-kinds", second.key_place(), message)
                        .help("make two tasks of it; a task does one thing")
                        .related("the other one", first.key_place()),
                );
            }
        }
    }

    fn no_kind(&mut self, at: &Cursor<'_>) {
        let message = format!("the task `{}` does not say what it does", at.name());
        let found = Diagnostic::error("unknown-task-kind", at.key_place(), message);
        let base = BASE.iter().map(|key| key.name);
        let strangers: Vec<_> =
            at.entries().filter(|it| !base.clone().any(|name| name == it.name())).collect();
        let meant = strangers
            .iter()
            .find_map(|it| Some((it, closest(it.name(), TASK_KINDS.iter().copied())?)));
        self.report(match (meant, strangers.first()) {
            (Some((stranger, meant)), _) => {
                let help = format!("did you mean `{meant}` instead of `{}`?", stranger.name());
                Diagnostic { place: stranger.key_place(), ..found }.help(help)
            }
            (None, Some(catch)) if catch.name() == "catch" => {
                found.help("`catch` belongs to a task with `try`")
            }
            _ => found.help(format!("give it one of {}", listed(TASK_KINDS))),
        });
    }

    fn task_of_kind(&mut self, at: &Cursor<'_>, kind: &str) {
        let keys = kind_keys(kind);
        for member in at.entries() {
            let known = keys.iter().chain(BASE).find(|key| key.name == member.name());
            match known {
                Some(_) if kind == "call" && member.name() == "with" => self.arguments(at, &member),
                Some(key) => self.value(&member, key.shape),
                None => self.unknown_task_key(&member, kind),
            }
        }
        self.required_keys(at, &format!("a `{kind}` task"), keys);
        if kind == "call"
            && let Some(function) = at.text_of("call")
            && calls::arguments(function).is_some()
            && !at.has("with")
        {
            let message = format!("a call of `{function}` lacks `with`");
            let found = Diagnostic::error("missing-key", at.key_place(), message);
            self.report(found.help("add `with:` and the arguments of the call"));
        }
    }

    fn arguments(&mut self, task: &Cursor<'_>, with: &Cursor<'_>) {
        let known = task.text_of("call").and_then(calls::arguments);
        match known {
            Some(object) => self.value(with, &Shape::Object(object)),
            None => self.value(with, &grammar::ANY_MAP),
        }
    }

    fn unknown_task_key(&mut self, member: &Cursor<'_>, kind: &str) {
        let name = member.name();
        let message = format!("`{name}` is not a key of a `{kind}` task");
        let owner =
            TASK_KINDS.iter().find(|other| kind_keys(other).iter().any(|key| key.name == name));
        let help = match (name, owner) {
            ("outlast", _) => {
                "the extension block goes under `metadata: { outlast: … }`".to_owned()
            }
            (_, Some(owner)) => format!("`{name}` belongs to a task with `{owner}`"),
            _ => {
                let keys = kind_keys(kind).iter().chain(BASE).map(|key| key.name);
                did_you_mean(name, keys, "remove it")
            }
        };
        self.report(Diagnostic::error("unknown-key", member.key_place(), message).help(help));
    }
}

/// The keys of a task that say what it does. `do` belongs to `for` where there is a `for`.
pub(in super::super) fn task_kinds<'a>(task: &Cursor<'a>) -> Vec<Cursor<'a>> {
    let has_for = task.has("for");
    task.entries()
        .filter(|it| TASK_KINDS.contains(&it.name()) && !(has_for && it.name() == "do"))
        .collect()
}
