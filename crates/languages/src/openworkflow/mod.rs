//! The Open Workflow Specification (formerly CNCF Serverless Workflow), DSL 1.0.3 and `main`.
//!
//! Text is read into a tree that knows its places (`text`), compared with the language
//! (`structure`) and with the official schema (`schema`), and lowered to a `Program` (`lower`),
//! whose flow is judged as a whole (`outlast_workflow::program::check`). Every step reports what it
//! finds and leaves the next one something to work with, so that one run finds all problems.

mod duration;
mod expression;
mod found;
mod lower;
mod schema;
mod scope;
mod structure;
mod tasks;

use std::sync::Arc;

use outlast_workflow::Program;
use outlast_workflow::program::{Place, bundle, check as program_check};

use crate::text::{self, Cursor};
use crate::{Diagnostic, Report, Severity};

/// Checks a document and reports all its problems at once; compiles it if it is accepted.
pub fn check(file: &str, text: &str) -> Report {
    let (root, mut found) = text::read(text);
    let Some(root) = root else { return Report::new(file, found, None) };
    let document = Cursor::root(&root);
    let whole = found.is_empty();
    let structural = told_once(&mut found, structure::check(&root));
    let sound = whole && !structural.iter().any(is_error);
    let flow_is_sound = whole && !structural.iter().any(|it| is_error(it) && is_of_the_flow(it));
    found.extend(structural);
    let by_schema = if sound { schema::check(&document) } else { Vec::new() };
    if !document.is_map() {
        found.extend(by_schema);
        return Report::new(file, found, None);
    }
    let lowered = lower::lower(&document, text);
    found.extend(by_schema.into_iter().filter(|it| !is_told(it, &lowered.found)));
    found.extend(lowered.found);
    if flow_is_sound && lowered.flow_is_known {
        found.extend(judged(&document, &lowered.program));
    }
    Report::new(file, found, Some(lowered.program))
}

/// What could not be read is taken for text, which may not fit where it stands either: that is not told
/// a second time, and how to make text of it is no help there.
fn told_once(unread: &mut [Diagnostic], structural: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let is_new = |found: &Diagnostic| {
        let mut told = unread.iter_mut().filter(|it| it.place.span == found.place.span);
        let known = told.next();
        known.map(|it| it.help = None).is_none()
    };
    structural.into_iter().filter(is_new).collect()
}

/// Parts of a document that have no say in where its tasks lead to.
const ASIDE: [&str; 6] = ["document", "input", "output", "timeout", "schedule", "evaluate"];
/// Likewise parts of a task.
const ASIDE_IN_A_TASK: [&str; 8] =
    ["with", "set", "wait", "emit", "raise", "input", "output", "export"];

/// Whether what was found may change where tasks lead to, or what they are.
fn is_of_the_flow(found: &Diagnostic) -> bool {
    let steps: Vec<&str> = found.place.pointer.split('/').skip(1).collect();
    let is_aside = match steps.as_slice() {
        ["document", "metadata", ..] => false,
        [part, ..] if ASIDE.contains(part) => true,
        // What follows a number or `functions` is the name of a task.
        _ => steps.windows(2).any(|pair| {
            let is_name = pair[0] == "functions" || pair[0].parse::<usize>().is_ok();
            !is_name && ASIDE_IN_A_TASK.contains(&pair[1])
        }),
    };
    !is_aside
}

/// Whether an error says in our words what the schema finds at the same place.
fn is_told(by_schema: &Diagnostic, found: &[Diagnostic]) -> bool {
    found.iter().any(|it| is_error(it) && it.place.pointer == by_schema.place.pointer)
}

/// Compiles a document that was accepted, or a bundle of them, also if that was by an earlier release
/// which let more pass: what is stored must go on. The report says why it cannot.
pub fn compile(text: &str) -> Result<Arc<Program>, Report> {
    bundle::compile(text, compile_document)
}

fn compile_document(text: &str) -> Result<Arc<Program>, Report> {
    let report = check("workflow", text);
    match report.stored {
        Some(program) => Ok(program),
        None => Err(report),
    }
}

fn is_error(found: &Diagnostic) -> bool {
    found.severity == Severity::Error
}

/// What the flow of the whole program is judged by.
fn judged(document: &Cursor<'_>, program: &Program) -> Vec<Diagnostic> {
    let findings = program_check::check(program).into_iter();
    findings
        .filter(|it| !goes_on_by_design(document, program, it))
        .map(|it| {
            let task = program.task(it.task);
            let found = match it.weight {
                program_check::Weight::Error => {
                    Diagnostic::error(it.code, task.place.clone(), it.message)
                }
                program_check::Weight::Warning => {
                    Diagnostic::warning(it.code, task.place.clone(), it.message)
                }
            };
            let found = found.help(it.help);
            it.others.iter().fold(found, |found, (said, other)| {
                found.related(said.clone(), program.task(*other).place.clone())
            })
        })
        .collect()
}

/// A stream has no end, and is not meant to have one.
fn goes_on_by_design(
    document: &Cursor<'_>,
    program: &Program,
    finding: &program_check::Finding,
) -> bool {
    if finding.code != program_check::ENDLESS {
        return false;
    }
    let pointer = &program.task(finding.task).place.pointer;
    let mut steps: Vec<&str> = pointer.split('/').skip(1).collect();
    while !steps.is_empty() {
        let at = document.clone().follow(&format!("/{}", steps.join("/")));
        if at.get("metadata").and_then(|it| it.get("outlast")).is_some_and(|it| it.has("stream")) {
            return true;
        }
        steps.pop();
    }
    false
}

/// Where a JSON pointer leads in the text of a document: to the key there, or to the nearest place
/// above it that exists. Nothing if the text cannot be read.
pub fn locate(text: &str, pointer: &str) -> Option<Place> {
    let (root, _) = text::read(text);
    let root = root?;
    let found = Cursor::root(&root).follow(pointer);
    Some(found.key_place())
}

/// An error found only when the workflow ran, shown at the place it points to.
pub fn render_fault(
    file: &str,
    text: &str,
    pointer: &str,
    message: &str,
    help: Option<&str>,
    color: bool,
) -> String {
    let place = locate(text, pointer).unwrap_or_default();
    let found = Diagnostic::error("fault", place, message);
    let found = match help {
        Some(help) => found.help(help),
        None => found,
    };
    found.render(file, text, color)
}
