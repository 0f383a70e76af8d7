//! Expression text to compiled filter: parse, resolve, make safe, judge, link with the library.

use jaq_core::Compiler;
use jaq_core::load::parse::{Def, Term};
use jaq_core::load::{Arena, File, Loader};

use crate::filter::{CompileError, Compiled};
use crate::library::{self, Data};
use crate::{judge, needed, resolve, rewrite, syntax};

/// The name under which the expression is linked, as the last definition of the library.
const MAIN: &str = "main_expression";

pub(crate) fn compile(source: &str, variables: &[&str]) -> Result<Compiled, CompileError> {
    let term = syntax::parse(source)?;
    let uses = resolve::resolve(source, &term, variables)?;
    let selects = judge::selects(&term);
    let term = rewrite::rewrite(term);
    let judgement = judge::judge(&term);
    let filter = link(source, term, &uses)?;
    Ok(Compiled { source: source.to_owned(), judgement, uses, selects, filter })
}

/// Compiles a term whose names are all known.
fn link<'s>(
    source: &'s str,
    term: Term<&'s str>,
    uses: &[String],
) -> Result<jaq_core::Filter<Data>, CompileError> {
    let globals: Vec<String> = uses.iter().map(|name| format!("${name}")).collect();
    let mut definitions: Vec<Def<&str>> = needed::needed(&term);
    definitions.push(Def { name: MAIN, args: Vec::new(), body: term });
    let refused = || CompileError {
        message: "the expression uses a name that does not exist".to_owned(),
        span: 0..source.len(),
    };
    let arena = Arena::default();
    let file = File { code: MAIN, path: () };
    let modules = Loader::new(definitions).load(&arena, file).map_err(|_| refused())?;
    Compiler::default()
        .with_funs(library::functions())
        .with_global_vars(globals.iter().map(String::as_str))
        .compile(modules)
        .map_err(|_| refused())
}
