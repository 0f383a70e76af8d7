//! The net: the official schema and that of the extension, for whatever our own checks let through.
//!
//! The official schema nests `oneOf` in `oneOf` at every task, so validating a deep document as a
//! whole takes time exponential in its depth. Every task is therefore validated on its own, with
//! the lists inside it emptied; together that says the same, in time linear in the document.

use std::sync::LazyLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Registry, ValidationError, Validator};
use outlast_workflow::program::Place;
use serde_json::{Value as Json, json};

use crate::Diagnostic;
use crate::openworkflow::tasks;
use crate::text::{Cursor, read};

const OFFICIAL_ID: &str = "https://open-workflow-specification.org/schemas/1.0.3/workflow.yaml";
const EXTENSION_ID: &str = "https://outlast.dev/schemas/1.0/outlast.yaml";

/// The compiled schemas of a whole document, a task, and the extension blocks of both.
struct Net {
    document: Validator,
    task: Validator,
    document_block: Validator,
    task_block: Validator,
}

static NET: LazyLock<Net> = LazyLock::new(Net::new);

impl Net {
    fn new() -> Self {
        let official = schema(include_str!("workflow.yaml"));
        let extension = schema(include_str!("outlast.yaml"));
        let registry = Registry::new()
            .add(OFFICIAL_ID, official)
            .and_then(|registry| registry.add(EXTENSION_ID, extension))
            .and_then(|registry| registry.prepare())
            .expect("the embedded schemas name themselves");
        let part = |reference: String| {
            jsonschema::options()
                .with_registry(&registry)
                .build(&json!({ "$ref": reference }))
                .expect("the embedded schemas are schemas")
        };
        Self {
            document: part(OFFICIAL_ID.to_owned()),
            task: part(format!("{OFFICIAL_ID}#/$defs/task")),
            document_block: part(format!("{EXTENSION_ID}#/$defs/document")),
            task_block: part(format!("{EXTENSION_ID}#/$defs/task")),
        }
    }
}

fn schema(text: &str) -> Json {
    let (root, problems) = read(text);
    assert!(problems.is_empty(), "the embedded schemas are YAML");
    root.expect("the embedded schemas are not empty").to_json()
}

/// What the schemas reject, the most telling error of each part.
pub(in super::super) fn check(document: &Cursor<'_>) -> Vec<Diagnostic> {
    let net = &*NET;
    let mut found = Vec::new();
    let mut shallow = document.node.to_json();
    empty(&mut shallow, &["do"]);
    if let Some(functions) = shallow.pointer_mut("/use/functions") {
        *functions = json!({});
    }
    if let Some(Json::Array(extensions)) = shallow.pointer_mut("/use/extensions") {
        for extension in extensions.iter_mut().filter_map(Json::as_object_mut) {
            for body in extension.values_mut() {
                empty(body, &["before"]);
                empty(body, &["after"]);
            }
        }
    }
    found.extend(reject(&net.document, &shallow, document));
    let block = document.clone().follow("/document/metadata/outlast");
    if block.pointer.ends_with("/outlast") {
        found.extend(reject(&net.document_block, &block.node.to_json(), &block));
    }
    tasks::visit(document, |task| check_task(net, task, &mut found));
    found
}

fn check_task(net: &Net, task: &Cursor<'_>, found: &mut Vec<Diagnostic>) {
    let mut shallow = task.node.to_json();
    for inner in tasks::inner_lists(task) {
        let path = inner.list().pointer[task.pointer.len()..].to_owned();
        if let Some(list @ Json::Array(_)) = shallow.pointer_mut(&path) {
            *list = json!([]);
        }
    }
    empty(&mut shallow, &["with", "subscription", "foreach", "do"]);
    found.extend(reject(&net.task, &shallow, task));
    let Some(block) = shallow.pointer("/metadata/outlast") else { return };
    let at = task.clone().follow("/metadata/outlast");
    found.extend(reject(&net.task_block, block, &at));
}

/// Empties the list at a path, if there is one.
fn empty(value: &mut Json, path: &[&str]) {
    let pointer: String = path.iter().map(|step| format!("/{step}")).collect();
    if let Some(list @ Json::Array(_)) = value.pointer_mut(&pointer) {
        *list = json!([]);
    }
}

fn reject(validator: &Validator, value: &Json, at: &Cursor<'_>) -> Option<Diagnostic> {
    let error = validator.validate(value).err()?;
    let error = most_telling(&error);
    let pointer = error.instance_path().to_string();
    let place = at.clone().follow(&pointer);
    let place = Place { pointer: format!("{}{pointer}", at.pointer), span: place.key_place().span };
    let message = format!("the official schema does not allow this: {error}");
    let help =
        "compare with the reference of the language, https://open-workflow-specification.org";
    Some(Diagnostic::error("schema", place, message).help(help))
}

/// Of the errors of all alternatives, the one that got furthest into the value.
fn most_telling<'e, 'a>(error: &'e ValidationError<'a>) -> &'e ValidationError<'a> {
    let alternatives = match error.kind() {
        ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context } => {
            context
        }
        _ => return error,
    };
    let depth =
        |error: &ValidationError<'_>| error.instance_path().to_string().matches('/').count();
    alternatives
        .iter()
        .flatten()
        .map(most_telling)
        .filter(|inner| depth(inner) > depth(error))
        .max_by_key(|inner| depth(inner))
        .unwrap_or(error)
}
