//! jq by jaq: values, compiled filters, and the judgement whether a filter is bounded.

mod compiler;
mod compose;
mod filter;
mod form;
mod judge;
mod library;
mod needed;
mod opaque;
mod resolve;
mod rewrite;
mod syntax;
pub mod value;
pub mod worker;

pub use compose::{Composed, compose};
pub use filter::{CompileError, EvaluationError, Filter, Judgement};
pub use form::is_never_a_number;
pub use opaque::opaque_paths;
pub use value::Value;
