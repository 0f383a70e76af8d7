//! Schemas for data: what `input.schema`, `output.schema` and `export.schema` hold.

use std::fmt;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use outlast_expressions::{Value, value};
use outlast_workflow::program::Schema;
use serde_json::Value as Json;

/// How many violations of one value are listed.
const VIOLATIONS_MAX: usize = 10;

/// A JSON schema, compiled. References to other documents are refused: nothing is fetched.
pub(in super::super) struct DataSchema(Validator);

impl DataSchema {
    /// Compiles a schema, or says where and why it is none.
    pub(in super::super) fn compile(schema: &Json) -> Result<Self, (String, String)> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err((String::new(), "a JSON schema is an object".to_owned()));
        }
        jsonschema::options().build(schema).map(Self).map_err(|error| {
            let place = error.instance_path().to_string();
            let message = match error.kind() {
                ValidationErrorKind::Referencing(_) => {
                    "it refers to something outside of the document, or to nothing".to_owned()
                }
                ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => {
                    format!("{} cannot stand here", error.instance())
                }
                _ => error.to_string(),
            };
            (place, message)
        })
    }
}

impl Schema for DataSchema {
    fn violations(&self, value: &Value) -> Vec<String> {
        let json = value::to_json(value);
        let errors = self.0.iter_errors(&json).take(VIOLATIONS_MAX);
        errors
            .map(|error| match error.instance_path().to_string() {
                place if place.is_empty() => error.to_string(),
                place => format!("{place}: {error}"),
            })
            .collect()
    }
}

impl fmt::Debug for DataSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DataSchema")
    }
}
