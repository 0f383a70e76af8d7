//! Worker processes: expressions that could run or grow without bound, under hard limits.
//!
//! A worker is this program again, started with the hidden command `expression-worker`. It limits its
//! own memory and processor time, reads requests from its input and answers on its output, one at a
//! time. The pool starts workers when they are needed, kills one that takes too long, and says what a
//! worker died of: of what the expression did, which is the expression's error, or of something else,
//! which is the node's fault and is tried again with another worker.
//!
//! Invariants:
//! - A worker that did not answer a request is never given another one.
//! - A budget that is spent is an error of the expression; a death from outside never is.

mod child;
mod pool;
mod verdict;

pub use child::serve_stdin;
pub use pool::{EvaluationFailure, Pool, Settings};
