//! Expression text to syntax tree, within bounds.
//!
//! jaq's lexer, parser, compiler and evaluator recurse once per level of the text, and a stack that
//! overflows takes the whole node with it. So the text is measured before each of them sees it:
//! first its brackets, then, from the tokens, how tall the tree can become.

use std::ops::Range;

use jaq_core::load::lex::{Lexer, StrPart, Tok, Token};
use jaq_core::load::parse::{Parser, Term};

use crate::filter::CompileError;

/// How long the text of an expression may be.
const SOURCE_BYTES_MAX: usize = 64 * 1024;

/// How deep brackets and interpolations may be nested.
const BRACKETS_MAX: usize = 100;

/// How tall the syntax tree may become. The tests evaluate expressions of this height on the stack
/// of an ordinary thread.
const HEIGHT_MAX: usize = 128;

/// The syntax tree of an expression; its names are parts of `source`.
pub(crate) fn parse(source: &str) -> Result<Term<&str>, CompileError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(too_large(source, format!("longer than {SOURCE_BYTES_MAX} bytes")));
    }
    check_brackets(source)?;
    let tokens = Lexer::new(source).lex().map_err(|errors| {
        let (expected, found) = &errors[0];
        unexpected(source, expected.as_str(), found)
    })?;
    if height(&tokens) > HEIGHT_MAX {
        let problem =
            "too long in one piece; put parts of it into parentheses or tasks of their own";
        return Err(too_large(source, problem.to_owned()));
    }
    Parser::new(&tokens).parse(|parser| parser.term()).map_err(|errors| {
        let (expected, found) = &errors[0];
        unexpected(source, expected.as_str(), Token::opt_as_str(*found, source))
    })
}

/// Where a part of the source is in it.
pub(crate) fn span(source: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(source.as_ptr() as usize);
    if start <= source.len() { start..(start + part.len()).min(source.len()) } else { 0..0 }
}

fn too_large(source: &str, problem: String) -> CompileError {
    CompileError { message: format!("the expression is {problem}"), span: 0..source.len() }
}

fn unexpected(source: &str, expected: &str, found: &str) -> CompileError {
    let shown: String = found.chars().take(20).collect();
    let found_text = if shown.is_empty() { "the end".to_owned() } else { format!("`{shown}`") };
    let message = format!("expected {expected}, found {found_text}");
    CompileError { message, span: span(source, found) }
}

/// Follows brackets, strings and comments as jaq's lexer does, with a stack of its own.
fn check_brackets(source: &str) -> Result<(), CompileError> {
    let bytes = source.as_bytes();
    let mut open = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let in_string = open.last() == Some(&b'"');
        match byte {
            b'\\' if in_string => match bytes.get(at + 1) {
                Some(b'(') => {
                    open.push(b')');
                    at += 1;
                }
                Some(b'\\' | b'/' | b'"' | b'b' | b'f' | b'n' | b'r' | b't' | b'u') => at += 1,
                _ => {}
            },
            b'"' if in_string => drop(open.pop()),
            _ if in_string => {}
            b'"' => open.push(b'"'),
            b'(' => open.push(b')'),
            b'[' => open.push(b']'),
            b'{' => open.push(b'}'),
            // The lexer stops at a bracket that closes nothing, and so may we.
            b')' | b']' | b'}' if open.pop() != Some(byte) => return Ok(()),
            b'#' => at = comment_end(source, at)?,
            _ => {}
        }
        if open.len() > BRACKETS_MAX {
            return Err(CompileError {
                message: format!("brackets are nested more than {BRACKETS_MAX} deep"),
                span: at..(at + 1),
            });
        }
        at += 1;
    }
    Ok(())
}

/// Where the line of a comment ends.
fn comment_end(source: &str, start: usize) -> Result<usize, CompileError> {
    let line = source[start..].split('\n').next().unwrap_or_default();
    let end = start + line.len();
    // jq goes on with such a comment in the next line, which readers do not expect.
    if line.trim_end_matches('\r').ends_with('\\') {
        let message = "a comment must not end with a backslash".to_owned();
        return Err(CompileError { message, span: start..end });
    }
    Ok(end)
}

/// Words and signs that put one term above another.
const LEVELS: [&str; 32] = [
    "if", "elif", "try", "def", "label", "reduce", "foreach", "as", "and", "or", "|", ",", "-",
    "+", "*", "/", "%", "=", "|=", "+=", "-=", "*=", "/=", "%=", "<", ">", "<=", ">=", "==", "!=",
    "//", "//=",
];

/// At least the height of the tree that these tokens can form, whatever they are.
fn height(tokens: &[Token<&str>]) -> usize {
    let (mut levels, mut path, mut longest_path, mut tallest) = (1, 0, 0, 0);
    for token in tokens {
        let Token(text, kind) = token;
        let in_path = text.starts_with('.') || *text == "?" || text.starts_with('[');
        path = if in_path { path + 1 } else { 0 };
        longest_path = longest_path.max(path);
        levels += usize::from(matches!(kind, Tok::Word | Tok::Sym) && LEVELS.contains(text));
        tallest = tallest.max(token_height(token));
    }
    levels + longest_path + tallest
}

fn token_height(Token(text, token): &Token<&str>) -> usize {
    match token {
        Tok::Block(tokens) if text.starts_with('{') => object_height(tokens),
        Tok::Block(tokens) => height(tokens),
        Tok::Str(parts) => {
            let inner = parts.iter().filter_map(|part| match part {
                StrPart::Term(token) => Some(token_height(token)),
                StrPart::Str(_) | StrPart::Char(_) => None,
            });
            parts.len() + inner.max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// Members of an object stand side by side: each adds one level, and the largest its own height.
fn object_height(tokens: &[Token<&str>]) -> usize {
    const KEYWORDS: [&str; 6] = ["if", "try", "def", "label", "reduce", "foreach"];
    if tokens.iter().any(|Token(text, _)| KEYWORDS.contains(text)) {
        // A comma may belong to one of these rather than separate members.
        return height(tokens);
    }
    let members = tokens.split(|Token(text, _)| *text == ",");
    let (mut count, mut tallest) = (0, 0);
    for member in members {
        count += 1;
        tallest = tallest.max(height(member));
    }
    count + tallest
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::Filter;

    fn message(source: &str) -> String {
        Filter::compile(source, &[]).unwrap_err().message
    }

    #[test]
    fn refuses_what_would_overflow_the_stack() {
        for (open, close) in [("(", ")"), ("[", "]"), ("{a:", "}"), ("\"\\(", ")\""), ("f(", ")")] {
            let source = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
            assert!(message(&source).contains("nested more than"), "{open}");
            assert!(message(&open.repeat(10_000)).contains("nested more than"), "{open}");
        }
        for piece in
            ["-", "try ", "if 1 then ", ".a", ".a|", "1+", "1,", "[0]", ". as $x|", "def f:"]
        {
            let source = format!("{}1", piece.repeat(5_000));
            assert!(message(&source).contains("too long in one piece"), "{piece}");
        }
        assert!(message(&" ".repeat(70_000)).contains("longer than"));
    }

    #[test]
    fn is_not_fooled_by_brackets_in_strings_and_comments() {
        assert!(parse(&format!("\"{}\"", "(".repeat(1_000))).is_ok());
        assert!(parse(&format!("1 # {}", "(".repeat(1_000))).is_ok());
        assert!(message("1 # a\\\n+1").contains("backslash"));
        // The closing brackets here are inside strings, so the open ones stay open.
        assert!(message(&"(\"))\" ".repeat(1_000)).contains("nested more than"));
    }
}
