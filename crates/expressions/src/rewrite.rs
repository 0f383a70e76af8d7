//! Three operations of jq that are made safe before an expression is compiled.
//!
//! In jq, `*` repeats a text as often as a number says, an index may be an array, for which the whole
//! input is searched, and `<` sorts the keys of objects it compares. They make `.price * .quantity`,
//! `.[$name]` and `.score > $limit` unbounded for everyone because of uses that hardly anyone has. Here
//! a text can be repeated to a short text only, an array is refused as an index, and large objects have
//! no order; these are errors of the expression, in place and in workers alike.

use std::cmp::Ordering;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::native::{Fun, bome, run, v};
use jaq_core::path::{Part, Path};
use jaq_core::{Error, ops};
use jaq_std::ValT as _;

use crate::Value;
use crate::library::Data;

/// The function that stands for `*`.
pub(crate) const MULTIPLY: &str = "unchecked_multiply";

/// The function that an index goes through.
pub(crate) const INDEX: &str = "unchecked_index";

/// The variable that holds the right side of `*=`; no expression can name it.
const FACTOR: &str = "$*";

/// How long a text may become by repetition.
pub(crate) const REPETITION_BYTES_MAX: usize = 1_024;

/// The functions that stand for `<`, `<=`, `>` and `>=`.
pub(crate) const ORDERS: [&str; 4] =
    ["unchecked_lt", "unchecked_le", "unchecked_gt", "unchecked_ge"];

/// How many members an object may have to be put in order with another by `<` and its kin.
const ORDERED_MEMBERS_MAX: usize = 256;

/// The functions that rewritten terms call.
pub(crate) fn functions() -> [Fun<Data>; 6] {
    [
        run::<Data>((ORDERS[0], v(2), |cv| ordered(cv, Ordering::is_lt))),
        run::<Data>((ORDERS[1], v(2), |cv| ordered(cv, Ordering::is_le))),
        run::<Data>((ORDERS[2], v(2), |cv| ordered(cv, Ordering::is_gt))),
        run::<Data>((ORDERS[3], v(2), |cv| ordered(cv, Ordering::is_ge))),
        run::<Data>((MULTIPLY, v(2), |mut cv| {
            let right = cv.0.pop_var();
            let left = cv.0.pop_var();
            bome(multiply(left, right))
        })),
        run::<Data>((INDEX, v(1), |mut cv| {
            let index = cv.0.pop_var();
            bome(match index {
                Value::Arr(_) => Err(Error::str("an index cannot be an array; use indices")),
                _ => Ok(index),
            })
        })),
    ]
}

fn multiply(left: Value, right: Value) -> Result<Value, Error<Value>> {
    let length = |value: &Value| value.as_bytes().map(<[u8]>::len);
    let repetition = match (length(&left), length(&right)) {
        (Some(length), None) => right.as_f64().map(|times| length as f64 * times),
        (None, Some(length)) => left.as_f64().map(|times| length as f64 * times),
        _ => None,
    };
    if repetition.is_some_and(|length| length > REPETITION_BYTES_MAX as f64) {
        let limit = REPETITION_BYTES_MAX;
        return Err(Error::str(format_args!("`*` repeats a text to at most {limit} bytes")));
    }
    left * right
}

fn ordered<'a>(
    mut cv: jaq_core::Cv<'a, Data>,
    holds: fn(Ordering) -> bool,
) -> jaq_core::ValXs<'a, Value> {
    let right = cv.0.pop_var();
    let left = cv.0.pop_var();
    bome(order(&left, &right).map(|order| Value::from(holds(order))))
}

/// jq's order of values, but for objects that are large.
fn order(left: &Value, right: &Value) -> Result<Ordering, Error<Value>> {
    match (left, right) {
        (Value::Arr(left), Value::Arr(right)) => {
            for (left, right) in left.iter().zip(right.iter()) {
                match order(left, right)? {
                    Ordering::Equal => {}
                    decided => return Ok(decided),
                }
            }
            Ok(left.len().cmp(&right.len()))
        }
        (Value::Obj(left_members), Value::Obj(right_members)) => {
            let members = left_members.len().max(right_members.len());
            if members > ORDERED_MEMBERS_MAX {
                let limit = ORDERED_MEMBERS_MAX;
                let message = format_args!("objects of more than {limit} members have no order");
                return Err(Error::str(message));
            }
            Ok(left.cmp(right))
        }
        _ => Ok(left.cmp(right)),
    }
}

/// Replaces what is made safe, everywhere in a term.
pub(crate) fn rewrite(term: Term<&str>) -> Term<&str> {
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Var(_) | Term::Break(_) => term,
        Term::Str(format, parts) => Term::Str(format, each(parts, part_of_string)),
        Term::Arr(content) => Term::Arr(content.map(boxed)),
        Term::Obj(members) => {
            Term::Obj(each(members, |(key, value)| (rewrite(key), value.map(rewrite))))
        }
        Term::Neg(term) => Term::Neg(boxed(term)),
        Term::BinOp(left, operator, right) => operation(*left, operator, *right),
        Term::Label(name, body) => Term::Label(name, boxed(body)),
        Term::Fold(name, stream, pattern, arguments) => {
            Term::Fold(name, boxed(stream), rewrite_pattern(pattern), each(arguments, rewrite))
        }
        Term::TryCatch(body, handler) => Term::TryCatch(boxed(body), handler.map(boxed)),
        Term::IfThenElse(branches, otherwise) => {
            let branch = |(condition, branch)| (rewrite(condition), rewrite(branch));
            Term::IfThenElse(each(branches, branch), otherwise.map(boxed))
        }
        Term::Def(definitions, body) => {
            let definition = |Def { name, args, body }| Def { name, args, body: rewrite(body) };
            Term::Def(each(definitions, definition), boxed(body))
        }
        Term::Call(name, arguments) => Term::Call(name, each(arguments, rewrite)),
        Term::Path(root, Path(parts)) => {
            Term::Path(boxed(root), Path(each(parts, |(part, opt)| (part_of_path(part), opt))))
        }
    }
}

fn boxed(mut term: Box<Term<&str>>) -> Box<Term<&str>> {
    *term = rewrite(std::mem::take(&mut *term));
    term
}

fn each<T>(items: Vec<T>, rewrite: impl Fn(T) -> T) -> Vec<T> {
    items.into_iter().map(rewrite).collect()
}

fn part_of_string<'s>(part: StrPart<&'s str, Term<&'s str>>) -> StrPart<&'s str, Term<&'s str>> {
    match part {
        StrPart::Term(term) => StrPart::Term(rewrite(term)),
        StrPart::Str(_) | StrPart::Char(_) => part,
    }
}

fn part_of_path(part: Part<Term<&str>>) -> Part<Term<&str>> {
    match part {
        Part::Index(index @ (Term::Str(..) | Term::Num(_) | Term::Neg(_))) => {
            Part::Index(rewrite(index))
        }
        Part::Index(index) => Part::Index(Term::Call(INDEX, vec![rewrite(index)])),
        Part::Range(from, to) => Part::Range(from.map(rewrite), to.map(rewrite)),
    }
}

fn rewrite_pattern(pattern: Pattern<&str>) -> Pattern<&str> {
    match pattern {
        Pattern::Var(_) => pattern,
        Pattern::Arr(patterns) => Pattern::Arr(each(patterns, rewrite_pattern)),
        Pattern::Obj(members) => Pattern::Obj(each(members, |(key, pattern)| {
            let key = match key {
                Term::Str(..) => rewrite(key),
                _ => Term::Call(INDEX, vec![rewrite(key)]),
            };
            (key, rewrite_pattern(pattern))
        })),
    }
}

fn operation<'s>(
    left: Term<&'s str>,
    operator: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Term<&'s str> {
    let (left, right) = (rewrite(left), rewrite(right));
    match operator {
        BinaryOp::Math(ops::Math::Mul) => Term::Call(MULTIPLY, vec![left, right]),
        BinaryOp::Cmp(ops::Cmp::Lt) => Term::Call(ORDERS[0], vec![left, right]),
        BinaryOp::Cmp(ops::Cmp::Le) => Term::Call(ORDERS[1], vec![left, right]),
        BinaryOp::Cmp(ops::Cmp::Gt) => Term::Call(ORDERS[2], vec![left, right]),
        BinaryOp::Cmp(ops::Cmp::Ge) => Term::Call(ORDERS[3], vec![left, right]),
        // `path *= value` is `value as $factor | path |= . * $factor`.
        BinaryOp::UpdateMath(ops::Math::Mul) => {
            let product = Term::Call(MULTIPLY, vec![Term::Id, Term::Var(FACTOR)]);
            let update = Term::BinOp(Box::new(left), BinaryOp::Update, Box::new(product));
            let bind = BinaryOp::Pipe(Some(Pattern::Var(FACTOR)));
            Term::BinOp(Box::new(right), bind, Box::new(update))
        }
        BinaryOp::Pipe(Some(pattern)) => {
            let bind = BinaryOp::Pipe(Some(rewrite_pattern(pattern)));
            Term::BinOp(Box::new(left), bind, Box::new(right))
        }
        operator => Term::BinOp(Box::new(left), operator, Box::new(right)),
    }
}
