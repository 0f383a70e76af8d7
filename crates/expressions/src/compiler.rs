//! Expression text to compiled filter: parse, resolve, make safe, judge, link with the library.
//!
//! What links is dropped again: of the expressions of a definition many are never evaluated, and a
//! linked one is twenty times as large as its text. It is linked once more when it is evaluated for
//! the first time.

use std::sync::OnceLock;

use jaq_core::Compiler;
use jaq_core::load::parse::{Def, Term};
use jaq_core::load::{Arena, File, Loader};

use crate::filter::{CompileError, Compiled};
use crate::library::Data;
use crate::needed::{self, Needed};
use crate::{judge, resolve, rewrite, syntax};

/// The name under which the expression is linked, as the last definition of the library.
const MAIN: &str = "main_expression";

pub(crate) fn compile(source: &str, variables: &[&str]) -> Result<Compiled, CompileError> {
    let term = syntax::parse(source)?;
    let uses = resolve::resolve(source, &term, variables)?;
    let selects = judge::selects(&term);
    let term = rewrite::rewrite(term);
    let judgement = judge::judge(&term);
    link(source, term, &uses)?;
    let (source, filter) = (source.to_owned(), OnceLock::new());
    Ok(Compiled { source, judgement, uses, selects, filter })
}

/// Links an expression that was compiled before; `uses` are the variables it mentions.
pub(crate) fn link_again(source: &str, uses: &[String]) -> jaq_core::Filter<Data> {
    let linked = syntax::parse(source).and_then(|term| link(source, rewrite::rewrite(term), uses));
    linked.expect("an expression that was compiled links")
}

/// Compiles a term whose names are all known.
fn link<'s>(
    source: &'s str,
    term: Term<&'s str>,
    uses: &[String],
) -> Result<jaq_core::Filter<Data>, CompileError> {
    let globals: Vec<String> = uses.iter().map(|name| format!("${name}")).collect();
    let Needed { definitions, functions } = needed::needed(&term);
    let mut definitions: Vec<Def<&str>> = definitions;
    definitions.push(Def { name: MAIN, args: Vec::new(), body: term });
    let refused = || CompileError {
        message: "the expression uses a name that does not exist".to_owned(),
        span: 0..source.len(),
    };
    let arena = Arena::default();
    let file = File { code: MAIN, path: () };
    let modules = Loader::new(definitions).load(&arena, file).map_err(|_| refused())?;
    Compiler::default()
        .with_funs(functions)
        .with_global_vars(globals.iter().map(String::as_str))
        .compile(modules)
        .map_err(|_| refused())
}
