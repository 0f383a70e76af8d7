//! Problems of a document, each with its place.

use std::sync::Arc;

use outlast_workflow::Program;
use outlast_workflow::program::Place;
use serde_json::{Value as Json, json};

use crate::render;

/// How many problems a report lists; a document with more is better fixed from the top.
const DIAGNOSTICS_MAX: usize = 100;

/// Whether a problem keeps the document from being run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The document is rejected.
    Error,
    /// The document is accepted, but probably does not do what its author means.
    Warning,
}

impl Severity {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One problem of a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Whether the document is rejected for it.
    pub severity: Severity,
    /// What kind of problem it is, in kebab-case; stable, for programs.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Where.
    pub place: Place,
    /// Other places that have to do with it.
    pub related: Vec<Related>,
    /// Whether a document that is stored runs in spite of it, because an earlier release accepted it.
    pub(crate) is_new: bool,
}

/// Another place that has to do with a problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Related {
    /// What is there.
    pub message: String,
    /// Where.
    pub place: Place,
}

impl Diagnostic {
    /// A problem for which the document is rejected.
    pub fn error(code: &'static str, place: Place, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            help: None,
            place,
            related: Vec::new(),
            is_new: false,
        }
    }

    /// A problem to think about.
    pub fn warning(code: &'static str, place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, place, message) }
    }

    /// The same with what to do about it.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The same with another place that has to do with it.
    pub fn related(mut self, message: impl Into<String>, place: Place) -> Self {
        self.related.push(Related { message: message.into(), place });
        self
    }

    /// The same for an error that earlier releases let pass: a program can be made all the same, and
    /// nodes that hold such a document go on with it.
    pub(crate) fn newly(self) -> Self {
        Self { is_new: true, ..self }
    }

    /// The problem with its source line underlined, as `Report::render` shows it.
    pub fn render(&self, file: &str, text: &str, color: bool) -> String {
        render::diagnostic(self, file, text, color)
    }

    /// The problem as data, as `Report::to_json` lists it.
    pub fn to_json(&self) -> Json {
        let place = |place: &Place| {
            json!({
                "pointer": place.pointer,
                "line": place.span.line,
                "column": place.span.column,
                "length": place.span.length,
            })
        };
        let related = self
            .related
            .iter()
            .map(|related| json!({ "message": related.message, "place": place(&related.place) }));
        json!({
            "severity": self.severity.word(),
            "code": self.code,
            "message": self.message,
            "help": self.help,
            "place": place(&self.place),
            "related": related.collect::<Vec<_>>(),
        })
    }
}

/// Everything there is to say about a document.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the file the text came from, for people.
    pub file: String,
    /// All problems, by place.
    pub diagnostics: Vec<Diagnostic>,
    /// How many more problems there are than are listed.
    pub unlisted: usize,
    /// The program, unless the document is rejected.
    pub program: Option<Arc<Program>>,
    /// The program, also if only this release rejects the document.
    pub(crate) stored: Option<Arc<Program>>,
}

impl Report {
    /// Sorts the problems by place, drops repetitions and keeps the first hundred.
    pub(crate) fn new(
        file: &str,
        mut diagnostics: Vec<Diagnostic>,
        program: Option<Program>,
    ) -> Self {
        let is_error = |found: &&Diagnostic| found.severity == Severity::Error;
        let rejected = diagnostics.iter().any(|found| is_error(&found));
        let was_rejected = diagnostics.iter().filter(is_error).any(|found| !found.is_new);
        diagnostics.sort_by(|one, other| {
            let key = |found: &Diagnostic| (found.place.span.line, found.place.span.column);
            (key(one), one.severity, one.code, &one.message).cmp(&(
                key(other),
                other.severity,
                other.code,
                &other.message,
            ))
        });
        diagnostics.dedup_by(|one, other| {
            one.code == other.code
                && one.message == other.message
                && one.place.span == other.place.span
        });
        let unlisted = diagnostics.len().saturating_sub(DIAGNOSTICS_MAX);
        diagnostics.truncate(DIAGNOSTICS_MAX);
        let stored = program.filter(|_| !was_rejected).map(Arc::new);
        let program = stored.clone().filter(|_| !rejected);
        Self { file: file.to_owned(), diagnostics, unlisted, program, stored }
    }

    /// Whether the document is accepted.
    pub fn is_accepted(&self) -> bool {
        self.program.is_some()
    }

    /// How many problems of a severity are listed.
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|found| found.severity == severity).count()
    }

    /// All problems as text, each with its source line underlined. `text` is the document.
    pub fn render(&self, text: &str, color: bool) -> String {
        render::report(self, text, color)
    }

    /// All problems as data.
    pub fn to_json(&self) -> Json {
        json!({
            "file": self.file,
            "accepted": self.is_accepted(),
            "diagnostics": self.diagnostics.iter().map(Diagnostic::to_json).collect::<Vec<_>>(),
            "unlisted": self.unlisted,
        })
    }
}
