//! What is given on the command line: documents, and values as JSON or as a file of it.

use std::path::Path;

use anyhow::Context;
use outlast_expressions::{Value, value};
use outlast_languages::{Report, openworkflow};

use crate::exit::Failure;

/// A document that was read, and what there is to say about it.
pub(crate) struct Document {
    /// The name of its file, for people.
    pub(crate) file: String,
    /// Its text.
    pub(crate) text: String,
    /// Its problems and its program.
    pub(crate) report: Report,
}

impl Document {
    /// Reads and checks a document.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let file = path.display().to_string();
        let bytes = std::fs::read(path)
            .map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::document(format!("{file} is not text in UTF-8")))?;
        let report = openworkflow::check(&file, &text);
        Ok(Self { file, text, report })
    }

    /// What there is to say, as people read it.
    pub(crate) fn problems(&self, color: bool) -> String {
        self.report.render(&self.text, color)
    }
}

/// Reads what an option gives: JSON, or with `@` the file that holds it.
pub(crate) fn json(option: &str, text: &str) -> anyhow::Result<Value> {
    let read = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?,
        None => text.to_owned(),
    };
    value::parse(&read)
        .map_err(|error| Failure::usage(format!("{text} is not JSON: {error}")))
        .with_context(|| format!("{option} takes JSON, or @FILE"))
}
