//! Values with expressions in them, compiled to at most one filter each.

use outlast_expressions::{Filter, Value};

/// A value that is known when the document is compiled, or the filter that computes it.
///
/// An object with several expressions in it is compiled to one filter that builds the object, so a
/// template is evaluated (or handed to a worker) in one go.
#[derive(Clone, Debug)]
pub enum Template {
    /// No expression in it.
    Literal(Value),
    /// Computed.
    Computed(Expression),
}

/// A compiled expression and where it stands.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The compiled filter.
    pub filter: Filter,
    /// Where the text of it stands in the document.
    pub place: Place,
}

/// A place in a document, for people.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Place {
    /// JSON pointer into the document.
    pub pointer: String,
    /// Where in the text, if the document came as text.
    pub span: Span,
}

/// A part of the definition's text: line and column of its start, from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Line, from one; zero if unknown.
    pub line: u32,
    /// Column in characters, from one.
    pub column: u32,
    /// How many characters of that line.
    pub length: u32,
}
