//! Expressions and templates: text to filters, with errors that point into the text.

use std::collections::BTreeMap;

use outlast_expressions::{CompileError, Composed, Filter, compose, value};
use outlast_workflow::program::{Expression, Place, Span, Template};
use serde_json::Value as Json;

use super::found::Found;
use super::scope::{Scope, Site};
use super::structure::is_wrapped;
use crate::Diagnostic;
use crate::text::{Cursor, NodeKind, closest};

/// How many expressions a document has at most: compiling one takes about a millisecond, however short
/// it is, and documents come from strangers.
const EXPRESSIONS_MAX: usize = 5000;

/// Compiles the expressions of one document.
pub(super) struct Compiler<'a> {
    lines: Vec<&'a str>,
    /// How many more may be compiled.
    left: usize,
    /// Whether there were more, and it was told.
    is_full: bool,
    secrets: Vec<String>,
    /// What was compiled before, by its text and the variables in scope: the tasks of a document resemble
    /// each other, and what is equal is one filter.
    known: BTreeMap<(String, Vec<String>), Filter>,
    pub(super) found: Found,
}

/// The expression inside `${ }`, if the text is one.
pub(super) fn unwrapped(text: &str) -> Option<&str> {
    text.trim().strip_prefix("${")?.strip_suffix('}')
}

impl<'a> Compiler<'a> {
    pub(super) fn new(text: &'a str, secrets: Vec<String>) -> Self {
        let (lines, left) = (text.lines().collect(), EXPRESSIONS_MAX);
        let known = BTreeMap::new();
        Self { lines, left, is_full: false, secrets, known, found: Found::default() }
    }

    /// A filter of this text, the same for the same.
    fn filter(&mut self, source: &str, variables: &[&str]) -> Result<Filter, CompileError> {
        let variables_in_full = variables.iter().map(|it| (*it).to_owned()).collect();
        let key = (source.to_owned(), variables_in_full);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let filter = Filter::compile(source, variables)?;
        self.known.insert(key, filter.clone());
        Ok(filter)
    }

    /// An expression in `${ }` or bare: `if`, `when`, `while`, `until`, `from`, `as`, `in`.
    pub(super) fn expression(
        &mut self,
        at: &Cursor<'_>,
        site: Site,
        scope: &Scope,
    ) -> Option<Expression> {
        let text = at.text()?;
        let filter = self.compile(at, unwrapped(text).unwrap_or(text), site, scope)?;
        Some(Expression { filter, place: at.place() })
    }

    /// A template whose top-level text is an expression even without `${ }`.
    pub(super) fn transform(
        &mut self,
        at: &Cursor<'_>,
        site: Site,
        scope: &Scope,
    ) -> Option<Template> {
        match at.text() {
            Some(_) => self.expression(at, site, scope).map(Template::Computed),
            None => self.template(at, site, scope),
        }
    }

    /// A template in strict mode: a text is an expression if and only if it is `${ … }`.
    pub(super) fn template(
        &mut self,
        at: &Cursor<'_>,
        site: Site,
        scope: &Scope,
    ) -> Option<Template> {
        if at.text().is_some_and(is_wrapped) {
            return self.expression(at, site, scope).map(Template::Computed);
        }
        if !self.leaves(at, site, scope) {
            return None;
        }
        self.composed(&at.node.to_json(), at.place(), site, scope)
    }

    /// A template from a tree whose expressions have been compiled one by one before.
    pub(super) fn composed(
        &mut self,
        tree: &Json,
        place: Place,
        site: Site,
        scope: &Scope,
    ) -> Option<Template> {
        let source = match compose(tree, &|text| unwrapped(text).map(str::to_owned)) {
            Composed::Literal(value) => return Some(Template::Literal(value)),
            Composed::Source(source) => source,
        };
        match self.filter(&source, &scope.names(site)) {
            Ok(filter) => Some(Template::Computed(Expression { filter, place })),
            Err(error) => {
                let message = format!("these expressions are too much together: {error}");
                let found = Diagnostic::error("bad-expression", place, message);
                self.found.push(found.help("split the task in two"));
                None
            }
        }
    }

    /// Compiles every expression in a tree on its own; whether all of them are sound.
    pub(super) fn leaves(&mut self, at: &Cursor<'_>, site: Site, scope: &Scope) -> bool {
        let mut sound = true;
        let mut open = vec![at.clone()];
        while let Some(at) = open.pop() {
            match &at.node.kind {
                NodeKind::Text(text) => match unwrapped(text) {
                    Some(inner) => sound &= self.compile(&at, inner, site, scope).is_some(),
                    None => self.nearly_wrapped(&at, text),
                },
                _ => open.extend(at.items().chain(at.entries())),
            }
        }
        sound
    }

    fn compile(
        &mut self,
        at: &Cursor<'_>,
        source: &str,
        site: Site,
        scope: &Scope,
    ) -> Option<Filter> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => {
                self.too_many(at);
                return None;
            }
        }
        match self.filter(source, &scope.names(site)) {
            Ok(filter) => {
                self.secrets(at, source, &filter);
                Some(filter)
            }
            Err(error) => {
                let found = self.refused(at, source, &error, site, scope);
                self.found.push(found);
                None
            }
        }
    }

    /// Told once: all others are too many for the same reason.
    fn too_many(&mut self, at: &Cursor<'_>) {
        if std::mem::replace(&mut self.is_full, true) {
            return;
        }
        let message = format!("the document has more than {EXPRESSIONS_MAX} expressions");
        let found = Diagnostic::error("document-too-big", at.place(), message);
        let help = "pass data as input instead of writing it out, or split the workflow";
        self.found.push(found.help(help));
    }

    fn refused(
        &self,
        at: &Cursor<'_>,
        source: &str,
        error: &CompileError,
        site: Site,
        scope: &Scope,
    ) -> Diagnostic {
        let place = self.part(at, source, error.span.clone());
        let named = source.get(error.span.clone()).unwrap_or_default();
        if let Some(name) = named.strip_prefix('$') {
            return unknown_variable(place, name, site, scope, &error.message);
        }
        if let Some((name, advice)) = error.message.split_once(" is not available: ") {
            let message = format!("{name} is not available");
            return Diagnostic::error("unknown-function", place, message).help(advice);
        }
        if error.message.starts_with("there is no function") || error.message.contains("argument") {
            return Diagnostic::error("unknown-function", place, error.message.clone())
                .help("expressions are jq; functions of a workflow are called by tasks");
        }
        let message = format!("this is not a jq expression: {}", error.message);
        let found = Diagnostic::error("bad-expression", place, message);
        match source.contains("${") {
            true => found.help(
                "one `${ }` holds one expression; join texts inside it: '${ \"\\(.a) \\(.b)\" }'",
            ),
            false => found.help("the expression between `${` and `}` must be jq"),
        }
    }

    /// A text with `${` somewhere inside is text, and rarely meant to be.
    fn nearly_wrapped(&mut self, at: &Cursor<'_>, text: &str) {
        if !text.contains("${") || is_wrapped(text) {
            return;
        }
        let message =
            "this is text, not an expression: `${` is not at its start or `}` not at its end";
        let found = Diagnostic::warning("literal-expression", at.place(), message);
        self.found.push(found.help("put the text inside: '${ \"text \\(.field)\" }'"));
    }

    fn secrets(&mut self, at: &Cursor<'_>, source: &str, filter: &Filter) {
        if !filter.uses().iter().any(|name| name == "secrets") {
            return;
        }
        match outlast_expressions::opaque_paths(source, "secrets") {
            Err(misuse) => {
                let place = self.part(at, source, misuse.span);
                let message = format!("a secret cannot be computed on: {}", misuse.message);
                let help = "put `$secrets.name.field` as it is into a text, a list or an object; \
                            its value is filled in when the call is made";
                self.found.push(Diagnostic::error("secret-computed", place, message).help(help));
            }
            Ok(paths) => {
                for path in paths {
                    let unknown = path.first().filter(|name| !self.secrets.contains(name));
                    if let Some(name) = unknown {
                        let found = self.unknown_secret(name, at.place());
                        self.found.push(found);
                    }
                }
            }
        }
    }

    /// A secret that the document does not declare.
    pub(super) fn unknown_secret(&self, name: &str, place: Place) -> Diagnostic {
        let message = format!("the secret `{name}` is not declared");
        let help = match closest(name, self.secrets.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("add it to `use: {{ secrets: [ {name} ] }}`"),
        };
        Diagnostic::error("unknown-secret", place, message).help(help)
    }

    /// Whether the document declares a secret.
    pub(super) fn declares_secret(&self, name: &str) -> bool {
        self.secrets.iter().any(|declared| declared == name)
    }

    /// Where a part of an expression stands, as exactly as quoting and folding allow.
    fn part(&self, at: &Cursor<'_>, source: &str, part: std::ops::Range<usize>) -> Place {
        let whole = at.place();
        let Some(text) = at.text() else { return whole };
        let start = (source.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        let exact = text
            .get(start..)
            .filter(|_| start <= text.len())
            .and_then(|_| self.exact(text, start + part.start, part.len(), whole.span));
        Place { span: exact.unwrap_or(whole.span), ..whole }
    }

    fn exact(&self, text: &str, start: usize, length: usize, whole: Span) -> Option<Span> {
        let before = text.get(..start)?;
        // What goes on over several lines is underlined on the first of them.
        let part = text.get(start..start + length)?.lines().next().unwrap_or_default();
        let length = part.chars().count().max(1);
        let line_index = before.matches('\n').count();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = text[line_start..].lines().next().unwrap_or_default();
        let first = whole.line as usize - 1;
        let number = first + line_index;
        let skipped = if line_index == 0 { whole.column as usize - 1 } else { 0 };
        let raw: String = self.lines.get(number)?.chars().skip(skipped).collect();
        let found = raw.find(line.trim_end())?;
        let column = skipped + raw[..found].chars().count() + before[line_start..].chars().count();
        let span = |value: usize| u32::try_from(value).ok();
        Some(Span { line: span(number + 1)?, column: span(column + 1)?, length: span(length)? })
    }
}

fn unknown_variable(
    place: Place,
    name: &str,
    site: Site,
    scope: &Scope,
    message: &str,
) -> Diagnostic {
    if let Some(advice) = site.advice(name) {
        let message = format!("`${name}` is not available here");
        return Diagnostic::error("unknown-variable", place, message).help(advice);
    }
    if scope.hidden.iter().any(|hidden| hidden == name) {
        let message = format!("`${name}` does not exist any more when this is undone");
        let help = format!("keep it: `capture: '${{ {{ {name}: ${name} }} }}'`, then `.{name}`");
        return Diagnostic::error("unknown-variable", place, message).help(help);
    }
    if message.contains("not available") {
        return Diagnostic::error("unknown-variable", place, message.to_owned());
    }
    let names = scope.names(site);
    let found = Diagnostic::error(
        "unknown-variable",
        place,
        format!("there is no variable `${name}` here"),
    );
    match closest(name, names.iter().copied()) {
        Some(meant) => found.help(format!("did you mean `${meant}`?")),
        None => {
            let names: Vec<String> = names.iter().map(|name| format!("${name}")).collect();
            found.help(format!("there is {}", names.join(", ")))
        }
    }
}

/// A literal text as a template.
pub(super) fn literal_text(text: &str) -> Template {
    Template::Literal(value::string(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::read;

    #[test]
    fn compiles_no_more_expressions_than_a_bound_and_says_so_once() {
        let text = "[ '${ .a }', '${ .b }', '${ .c }', '${ .d }', '${ .e }' ]";
        let root = read(text).0.unwrap();
        let scope = Scope::default();
        let compiled = |left: usize| {
            let mut compiler = Compiler { left, ..Compiler::new(text, Vec::new()) };
            let sound = compiler.leaves(&Cursor::root(&root), Site::Definition, &scope);
            (sound, left - compiler.left, compiler.found.into_list())
        };
        let (sound, count, found) = compiled(5);
        assert_eq!((sound, count, found.len()), (true, 5, 0));
        let (sound, count, found) = compiled(2);
        assert_eq!((sound, count), (false, 2));
        assert_eq!(found.iter().map(|it| it.code).collect::<Vec<_>>(), ["document-too-big"]);
    }
}
