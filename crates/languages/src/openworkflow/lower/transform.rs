//! `input`, `output`, `export`, data schemas and timeouts.

use std::sync::Arc;

use outlast_expressions::Value;
use outlast_workflow::program::{Schema, Template, Transform};

use super::Lowering;
use crate::Diagnostic;
use crate::openworkflow::schema::DataSchema;
use crate::openworkflow::scope::{Scope, Site};
use crate::text::{Cursor, did_you_mean};

/// A schema that is somewhere else. Nothing is fetched, so no data is known to fit it.
#[derive(Debug)]
struct Elsewhere(String);

impl Schema for Elsewhere {
    fn violations(&self, _value: &Value) -> Vec<String> {
        vec![format!("{} is not read by this release, so nothing can be checked", self.0)]
    }
}

impl<'a> Lowering<'a> {
    /// A schema and an expression under `key` (`from` or `as`).
    pub(super) fn transform(
        &mut self,
        at: Option<&Cursor<'a>>,
        key: &str,
        site: Site,
        scope: &Scope,
    ) -> Transform {
        let Some(at) = at else { return Transform::default() };
        let schema = at.get("schema").and_then(|it| self.schema(&it));
        let template = at.get(key).and_then(|it| self.compiler.transform(&it, site, scope));
        Transform { schema, template }
    }

    fn schema(&mut self, at: &Cursor<'a>) -> Option<Arc<dyn Schema>> {
        let format = at.text_of("format").unwrap_or("json");
        if format != "json" && !format.starts_with("json:") {
            return Some(self.elsewhere(at, &format!("a schema of the format `{format}`")));
        }
        if let Some(resource) = at.get("resource") {
            let endpoint = resource.get("endpoint");
            let uri = endpoint.as_ref().and_then(|it| it.text().or_else(|| it.text_of("uri")));
            let what = format!("the schema at `{}`", uri.unwrap_or_default());
            return Some(self.elsewhere(&resource, &what));
        }
        let document = at.get("document")?;
        match DataSchema::compile(&document.node.to_json()) {
            Ok(schema) => Some(Arc::new(schema)),
            Err((pointer, problem)) => {
                let message = format!("this is not a JSON schema: {problem}");
                let place = document.follow(&pointer).key_place();
                let found = Diagnostic::error("bad-schema", place, message);
                let help = "schemas follow JSON Schema 2020-12, and cannot refer to other files";
                self.report(found.help(help));
                None
            }
        }
    }

    fn elsewhere(&mut self, at: &Cursor<'a>, what: &str) -> Arc<dyn Schema> {
        let message = format!("this release does not read {what}");
        let help = "put the schema into the document; data that reaches it is refused";
        self.report(Diagnostic::warning("unsupported", at.key_place(), message).help(help));
        Arc::new(Elsewhere(what.to_owned()))
    }

    /// `timeout`: `{ after }`, or the name of one in `use.timeouts`.
    pub(super) fn timeout(
        &mut self,
        at: &Cursor<'a>,
        site: Site,
        scope: &Scope,
    ) -> Option<Template> {
        let definition = match at.text() {
            None => at.clone(),
            Some(name) => match self.names.timeouts.get(name) {
                Some(definition) => definition.clone(),
                None => {
                    self.unknown_timeout(at, name);
                    return None;
                }
            },
        };
        let after = definition.get("after")?;
        self.compiler.template(&after, site, scope)
    }

    fn unknown_timeout(&mut self, at: &Cursor<'a>, name: &str) {
        let message = format!("there is no timeout `{name}` in `use.timeouts`");
        let names: Vec<&str> = self.names.timeouts.keys().copied().collect();
        let duration = super::super::duration::check(name).is_ok();
        let help = match duration {
            true => format!("a duration goes under `after`: `{{ after: {name} }}`"),
            false => did_you_mean(name, names, "add it there, or write `{ after: PT30S }` here"),
        };
        self.report(Diagnostic::error("unknown-timeout", at.place(), message).help(help));
    }
}
