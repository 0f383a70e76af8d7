//! Is an expression bounded by the size of what it is given?
//!
//! A bounded expression is evaluated in place, where nothing can stop it, so the judgement must be
//! right whenever it says *bounded* and may err the other way: what it does not know goes to a worker.
//! It walks the syntax tree and computes upper bounds (see [`cost`]) of what each term makes and does.
//! In place we take what makes and does at most a constant times as much as it is given: iterating,
//! selecting, building, sorting, folding with an accumulator that grows by what is added. We do not
//! take own definitions, recursion, ranges, repetition, what compares everything with everything, or
//! what doubles.

mod calls;
mod cost;
mod pattern;
mod terms;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::path::{Part, Path};

use crate::filter::Judgement;

/// How many times as large as what it is given a value may become in place.
const GROWTH_MAX: u64 = 1_024;

/// How many times as much as what it is given an expression may look at in place.
const WORK_MAX: u64 = 1_000_000;

/// How many bytes of text in an expression count as much as one value.
const LITERAL_UNIT: u64 = 64;

/// Judges a term whose names are all known.
pub(crate) fn judge(term: &Term<&str>) -> Judgement {
    match terms::Judge::default().judge(term) {
        Ok(()) => Judgement::Bounded,
        Err(reason) => Judgement::Unbounded(reason),
    }
}

/// Whether the term only selects parts of its input and variables, so that its value keeps whatever
/// invariants they keep.
pub(crate) fn selects(term: &Term<&str>) -> bool {
    match term {
        Term::Id | Term::Var(_) | Term::Num(_) => true,
        Term::Str(None, parts) => parts.iter().all(|part| !matches!(part, StrPart::Term(_))),
        Term::BinOp(left, BinaryOp::Pipe(None) | BinaryOp::Alt | BinaryOp::Cmp(_), right) => {
            selects(left) && selects(right)
        }
        Term::Path(root, Path(parts)) => {
            selects(root)
                && parts.iter().all(|(part, _)| match part {
                    Part::Index(index) => selects(index),
                    Part::Range(from, to) => from.iter().chain(to).all(selects),
                })
        }
        _ => false,
    }
}
