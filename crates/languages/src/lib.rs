//! Workflow languages: text to `Program`, with diagnostics that point.
//!
//! Everything here is pure: a definition arrives as text with the name of its file, and a program
//! or a list of problems comes out.

mod diagnostic;
pub mod openworkflow;
mod render;
mod text;

pub use diagnostic::{Diagnostic, Related, Report, Severity};
