//! Compiled jq filters.
//!
//! A filter is compiled once per definition and evaluated often, or never: what evaluates it is made
//! when that happens for the first time, and kept. It asks only for the variables it mentions, and a
//! path into a large input copies nothing.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use jaq_core::{Ctx, Vars};

use crate::library::Data;
use crate::{Value, compiler, value};

/// What is wrong with an expression that has several values.
pub(crate) const SEVERAL_OUTPUTS: &str =
    "the expression has more than one output; wrap it in [ ] to get them as an array";

/// How much of a value an error message shows.
const MESSAGE_BYTES_MAX: usize = 400;

/// A compiled expression. Cheap to clone; compile once per definition.
#[derive(Clone)]
pub struct Filter(Arc<Compiled>);

pub(crate) struct Compiled {
    pub(crate) source: String,
    pub(crate) judgement: Judgement,
    pub(crate) uses: Vec<String>,
    /// Whether it only selects parts of what it is given, so that its value is as sound as they are.
    pub(crate) selects: bool,
    /// What evaluates it, since somebody wanted its value.
    pub(crate) filter: OnceLock<jaq_core::Filter<Data>>,
}

impl Compiled {
    fn filter(&self) -> &jaq_core::Filter<Data> {
        self.filter.get_or_init(|| compiler::link_again(&self.source, &self.uses))
    }
}

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
    pub fn compile(source: &str, variables: &[&str]) -> Result<Self, CompileError> {
        compiler::compile(source, variables).map(|compiled| Self(Arc::new(compiled)))
    }

    /// The source text.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Whether it may be evaluated in place.
    pub fn judgement(&self) -> &Judgement {
        &self.0.judgement
    }

    /// The variables it mentions, without `$`, each once.
    pub fn uses(&self) -> &[String] {
        &self.0.uses
    }

    /// Evaluates a bounded filter in place; only the variables it mentions are asked for.
    ///
    /// The expression must have one output; if it has none, the value is `null`.
    pub fn evaluate(
        &self,
        input: &Value,
        binding: &dyn Fn(&str) -> Value,
    ) -> Result<Value, EvaluationError> {
        // jaq has corners that panic, such as a month of 127; no expression may end the node.
        let evaluated = catch_unwind(AssertUnwindSafe(|| self.run(input, binding)));
        evaluated.unwrap_or_else(|_| {
            let message = "the expression is more than the evaluator can do".to_owned();
            Err(EvaluationError { message })
        })
    }

    fn run(
        &self,
        input: &Value,
        binding: &dyn Fn(&str) -> Value,
    ) -> Result<Value, EvaluationError> {
        let (filter, Compiled { uses, selects, .. }) = (self.0.filter(), &*self.0);
        let variables = Vars::new(uses.iter().map(|name| binding(name)));
        let context = Ctx::<Data>::new(&filter.lut, variables);
        let mut outputs = filter.id.run((context, input.clone()));
        let value = match outputs.next() {
            None => Value::Null,
            Some(Ok(value)) => value,
            Some(Err(exception)) => return Err(failure(exception)),
        };
        match outputs.next() {
            None => {}
            Some(Ok(_)) => return Err(several_outputs()),
            Some(Err(exception)) => return Err(failure(exception)),
        }
        if !selects {
            value::check(&value).map_err(|message| EvaluationError { message })?;
        }
        Ok(value)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Filter").field(&self.0.source).finish()
    }
}

fn several_outputs() -> EvaluationError {
    EvaluationError { message: SEVERAL_OUTPUTS.to_owned() }
}

fn failure(exception: jaq_core::Exn<'_, Value>) -> EvaluationError {
    let message = match exception.get_err() {
        Ok(error) => excerpt(&error),
        Err(_) => "the expression was left by a break without its label".to_owned(),
    };
    EvaluationError { message }
}

/// The beginning of an error's message, which may show values of any size.
fn excerpt(error: &jaq_core::Error<Value>) -> String {
    struct Excerpt(String);
    impl fmt::Write for Excerpt {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push_str(text);
            if self.0.len() > MESSAGE_BYTES_MAX { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut excerpt = Excerpt(String::new());
    if fmt::write(&mut excerpt, format_args!("{error}")).is_err() {
        excerpt.0.truncate(excerpt.0.floor_char_boundary(MESSAGE_BYTES_MAX));
        return excerpt.0 + "…";
    }
    // `error("text")` raises a value, which is shown as JSON; people want the text.
    match value::parse(&excerpt.0) {
        Ok(Value::TStr(text)) => String::from_utf8_lossy(&text).into_owned(),
        _ => excerpt.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_evaluates_it_is_made_for_the_first_value_and_kept() {
        let filter = Filter::compile("map(.a) + [$b]", &["b"]).unwrap();
        assert!(filter.0.filter.get().is_none(), "nobody wanted its value yet");
        let input = value::parse(r#"[{"a":1}]"#).unwrap();
        let evaluate = |filter: &Filter| filter.evaluate(&input, &|_| value::integer(2)).unwrap();
        assert_eq!(evaluate(&filter), value::parse("[1,2]").unwrap());
        let made: *const _ = filter.0.filter.get().unwrap();
        assert_eq!(evaluate(&filter.clone()), value::parse("[1,2]").unwrap());
        assert!(std::ptr::eq(made, filter.0.filter.get().unwrap()), "made once");
    }
}
