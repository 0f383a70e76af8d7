//! jq by jaq: values, compiled filters, and the judgement whether a filter is bounded.

mod filter;
pub mod value;

pub use filter::{CompileError, EvaluationError, Filter, Judgement};
pub use value::Value;
