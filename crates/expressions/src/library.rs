//! What an expression may call: jq's library without everything that looks at the world.
//!
//! The value of an expression is recorded once and then believed for ever, on every node that holds a
//! copy. So nothing here may depend on when or where it is evaluated: no clock, no time zone of the
//! machine, no environment, no input but `.`, nothing that writes or ends the process.

use std::sync::LazyLock;

use jaq_core::data::JustLut;
use jaq_core::load::parse::Def;
use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Bind, Cv, Error, ValXs, load};

use crate::Value;
use crate::filter::SEVERAL_OUTPUTS;
use crate::{rewrite, value};

/// The kind of data that filters run on: our values, and nothing beside them.
pub(crate) type Data = JustLut<Value>;

/// Names that jq has and we leave out, with what to do instead.
const UNAVAILABLE: [(&str, &str); 24] = [
    (
        "now",
        "use $task.startedAt or $workflow.startedAt, which stay the same when a step is repeated",
    ),
    ("localtime", "the time zone of the machine differs from node to node; use gmtime"),
    ("strflocaltime", "the time zone of the machine differs from node to node; use strftime"),
    ("env", "the environment differs from node to node; pass the value as input or as a secret"),
    ("$ENV", "the environment differs from node to node; pass the value as input or as a secret"),
    ("input", "an expression has one input, which is `.`"),
    ("inputs", "an expression has one input, which is `.`"),
    ("input_filename", "an expression has one input, which is `.`"),
    ("input_line_number", "an expression has one input, which is `.`"),
    ("$__loc__", "an expression has no place of its own in a file"),
    ("$__prog_args", "an expression has no command line"),
    ("debug", "an expression cannot write; put the value into the output of a task"),
    ("debug_empty", "an expression cannot write; put the value into the output of a task"),
    ("stderr", "an expression cannot write; put the value into the output of a task"),
    ("stderr_empty", "an expression cannot write; put the value into the output of a task"),
    ("halt", "an expression cannot end the program; use `error` or a raise task"),
    ("halt_error", "an expression cannot end the program; use `error` or a raise task"),
    ("get_search_list", "an expression cannot load modules"),
    ("modulemeta", "an expression cannot load modules"),
    ("import", "an expression cannot load modules"),
    ("include", "an expression cannot load modules"),
    ("tobytes", "a value is JSON and has no byte strings; use @base64"),
    ("rand", "a random number would differ each time; use $workflow.id or an input"),
    ("random", "a random number would differ each time; use $workflow.id or an input"),
];

/// Why a name of jq is left out and what to use instead, if it is one of those.
pub(crate) fn advice(name: &str) -> Option<&'static str> {
    UNAVAILABLE.iter().find(|(unavailable, _)| *unavailable == name).map(|(_, advice)| *advice)
}

/// Filters that are defined in jq itself.
pub(crate) fn definitions() -> Vec<Def<&'static str>> {
    let all = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(own());
    all.filter(|definition| advice(definition.name).is_none()).collect()
}

/// Filters that are written in Rust.
pub(crate) fn functions() -> impl Iterator<Item = Fun<Data>> {
    let all = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    all.filter(|(name, _, _)| advice(name).is_none() && *name != "fromjson")
        .map(|(name, arguments, function)| match name {
            "strptime" => ("unchecked_strptime", arguments, function),
            _ => (name, arguments, function),
        })
        .chain([
            run::<Data>(("fromjson", v(0), |cv| bome(from_json(&cv.1)))),
            run::<Data>(("single", [Bind::Fun(())].into(), single)),
        ])
        .chain(rewrite::functions())
}

static SIGNATURES: LazyLock<Vec<(&'static str, usize)>> = LazyLock::new(|| {
    let defined = definitions().into_iter().map(|it| (it.name, it.args.len()));
    let native = functions().map(|(name, arguments, _)| (name, arguments.len()));
    defined.chain(native).filter(|(name, _)| !name.starts_with("unchecked_")).collect()
});

/// The names and numbers of arguments of all that an expression can call.
pub(crate) fn signatures() -> &'static [(&'static str, usize)] {
    &SIGNATURES
}

/// `fromjson` by our own reader: jaq's follows any depth and would overflow the stack.
fn from_json(input: &Value) -> Result<Value, Error<Value>> {
    let text = value::as_str(input).ok_or_else(|| Error::typ(input.clone(), "string"))?;
    value::parse(text).map_err(|error| Error::str(format_args!("cannot parse as JSON: {error}")))
}

/// The one output of a filter, or null. It stands around every expression of a template, and in jq it
/// would be most of what such a filter holds.
fn single(mut cv: Cv<'_, Data>) -> ValXs<'_, Value> {
    let (filter, context) = cv.0.pop_fun();
    let mut outputs = filter.run((context, cv.1));
    let first = outputs.next().unwrap_or(Ok(Value::Null));
    let one = first.and_then(|value| match outputs.next() {
        None => Ok(value),
        Some(Ok(_)) => Err(Error::str(SEVERAL_OUTPUTS).into()),
        Some(Err(exception)) => Err(exception),
    });
    Box::new(std::iter::once(one))
}

/// Definitions that replace what would look at the machine's time zones, or that jaq lacks.
fn own() -> Vec<Def<&'static str>> {
    let text = include_str!("library.jq");
    load::parse(text, |parser| parser.defs()).expect("library.jq is part of this crate and tested")
}
