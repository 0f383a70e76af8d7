//! Expression text to compiled filter: parse, resolve, judge, compile.

use std::ops::Range;

use jaq_core::Compiler;
use jaq_core::load::lex::{Lexer, Token};
use jaq_core::load::parse::{Def, Parser, Term};
use jaq_core::load::{Arena, File, Loader};

use crate::filter::{CompileError, Compiled};
use crate::library::{self, Data};
use crate::{judge, resolve};

/// How long the text of an expression may be.
const SOURCE_BYTES_MAX: usize = 64 * 1024;

pub(crate) fn compile(source: &str, variables: &[&str]) -> Result<Compiled, CompileError> {
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("the expression is longer than {SOURCE_BYTES_MAX} bytes");
        return Err(CompileError { message, span: 0..0 });
    }
    let term = parse(source)?;
    let uses = resolve::resolve(source, &term, variables)?;
    let judgement = judge::judge(&term);
    let selects = judge::selects(&term);
    let filter = link(source, term, &uses)?;
    Ok(Compiled { source: source.to_owned(), judgement, uses, selects, filter })
}

fn parse(source: &str) -> Result<Term<&str>, CompileError> {
    let tokens = Lexer::new(source).lex().map_err(|errors| {
        let (expected, found) = &errors[0];
        unexpected(source, expected.as_str(), found)
    })?;
    Parser::new(&tokens).parse(|parser| parser.term()).map_err(|errors| {
        let (expected, found) = &errors[0];
        unexpected(source, expected.as_str(), Token::opt_as_str(*found, source))
    })
}

fn unexpected(source: &str, expected: &str, found: &str) -> CompileError {
    let shown: String = found.chars().take(20).collect();
    let found_text = if shown.is_empty() { "the end".to_owned() } else { format!("`{shown}`") };
    let message = format!("expected {expected}, found {found_text}");
    CompileError { message, span: span(source, found) }
}

/// Where a part of the source is in it.
pub(crate) fn span(source: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(source.as_ptr() as usize);
    if start <= source.len() { start..(start + part.len()).min(source.len()) } else { 0..0 }
}

fn link<'s>(
    source: &'s str,
    term: Term<&'s str>,
    uses: &[String],
) -> Result<jaq_core::Filter<Data>, CompileError> {
    let globals: Vec<String> = uses.iter().map(|name| format!("${name}")).collect();
    let main = Def { name: "main_expression", args: Vec::new(), body: term };
    let arena = Arena::default();
    let mut definitions: Vec<Def<&'s str>> = library::definitions().collect();
    definitions.push(main);
    let loader = Loader::new(definitions);
    let file = File { code: "main_expression", path: () };
    let refused = |_| CompileError {
        message: "the expression uses a name that does not exist".to_owned(),
        span: 0..source.len(),
    };
    let modules = loader.load(&arena, file).map_err(|_| refused(()))?;
    Compiler::default()
        .with_funs(library::functions())
        .with_global_vars(globals.iter().map(String::as_str))
        .compile(modules)
        .map_err(|_| refused(()))
}
