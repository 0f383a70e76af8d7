//! Compiled jq filters.

use crate::Value;

/// A compiled expression. Cheap to clone; compile once per definition.
#[derive(Clone, Debug)]
pub struct Filter;

/// Whether an expression is bounded by the size of its input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Evaluated in place.
    Bounded,
    /// Evaluated by a worker; says what makes it unbounded.
    Unbounded(String),
}

/// The text is not an expression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// What is wrong and what to do.
    pub message: String,
    /// Where in the source text, in bytes.
    pub span: std::ops::Range<usize>,
}

/// The expression has no value for this input.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct EvaluationError {
    /// What went wrong.
    pub message: String,
}

impl Filter {
    /// Compiles `source` (without `${ }`); `variables` are the names in scope, without `$`.
    pub fn compile(_source: &str, _variables: &[&str]) -> Result<Self, CompileError> {
        todo!()
    }

    /// The source text.
    pub fn source(&self) -> &str {
        todo!()
    }

    /// Whether it may be evaluated in place.
    pub fn judgement(&self) -> &Judgement {
        todo!()
    }

    /// The variables it mentions, without `$`, each once.
    pub fn uses(&self) -> &[String] {
        todo!()
    }

    /// Evaluates a bounded filter in place; only the variables it mentions are asked for.
    pub fn evaluate(
        &self,
        _input: &Value,
        _binding: &dyn Fn(&str) -> Value,
    ) -> Result<Value, EvaluationError> {
        todo!()
    }
}
