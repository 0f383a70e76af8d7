//! The structure of a document: which keys there are, and what may stand under them.
//!
//! The official schema says the same, but its errors say "not valid under any of the given
//! schemas". Here the language is a table of shapes (`grammar`, `calls`, `extension`), and a walker
//! (`walk`) compares the document with it and says what is wrong in the language's own words.

mod calls;
mod extension;
mod grammar;
mod scalar;
mod shape;
mod walk;

pub(super) use extension::COST;
pub(super) use scalar::is_wrapped;
pub(super) use walk::{check, task_kinds};
