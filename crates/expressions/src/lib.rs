//! jq by jaq: values, compiled filters, and the judgement whether a filter is bounded.

mod compiler;
mod filter;
mod judge;
mod library;
mod resolve;
pub mod value;

pub use filter::{CompileError, EvaluationError, Filter, Judgement};
pub use value::Value;
