//! Is an expression bounded by the size of its input?

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::path::{Part, Path};

use crate::filter::Judgement;

/// Whether the term only selects parts of its input and variables.
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

pub(crate) fn judge(term: &Term<&str>) -> Judgement {
    match culprit(term) {
        None => Judgement::Bounded,
        Some(reason) => Judgement::Unbounded(reason),
    }
}

fn culprit(term: &Term<&str>) -> Option<String> {
    let own = match term {
        Term::Call(name, _) if !BOUNDED.contains(name) => Some(format!("`{name}` is not bounded")),
        Term::Def(..) => Some("it defines functions of its own".to_owned()),
        Term::Fold(name, ..) => Some(format!("`{name}` may grow without bound")),
        Term::Label(..) | Term::Break(_) => Some("it uses labels".to_owned()),
        _ => None,
    };
    own.or_else(|| children(term).into_iter().find_map(culprit))
}

fn children<'t, 's>(term: &'t Term<&'s str>) -> Vec<&'t Term<&'s str>> {
    match term {
        Term::Str(_, parts) => parts
            .iter()
            .filter_map(|part| match part {
                StrPart::Term(term) => Some(term),
                _ => None,
            })
            .collect(),
        Term::Arr(Some(term)) | Term::Neg(term) => vec![term],
        Term::Obj(members) => {
            members.iter().flat_map(|(key, value)| std::iter::once(key).chain(value)).collect()
        }
        Term::BinOp(left, _, right) => vec![left, right],
        Term::TryCatch(body, handler) => {
            std::iter::once(&**body).chain(handler.as_deref()).collect()
        }
        Term::IfThenElse(branches, otherwise) => {
            let branches = branches.iter().flat_map(|(condition, branch)| [condition, branch]);
            branches.chain(otherwise.as_deref()).collect()
        }
        Term::Call(_, arguments) => arguments.iter().collect(),
        Term::Path(root, Path(parts)) => std::iter::once(&**root)
            .chain(parts.iter().flat_map(|(part, _)| match part {
                Part::Index(index) => vec![index],
                Part::Range(from, to) => from.iter().chain(to).collect(),
            }))
            .collect(),
        _ => Vec::new(),
    }
}

const BOUNDED: [&str; 61] = [
    "true",
    "false",
    "null",
    "empty",
    "error",
    "not",
    "select",
    "map",
    "map_values",
    "length",
    "keys",
    "keys_unsorted",
    "has",
    "in",
    "inside",
    "contains",
    "add",
    "any",
    "all",
    "to_entries",
    "from_entries",
    "with_entries",
    "sort",
    "sort_by",
    "group_by",
    "unique",
    "unique_by",
    "min",
    "min_by",
    "max",
    "max_by",
    "join",
    "split",
    "test",
    "match",
    "capture",
    "ascii_downcase",
    "ascii_upcase",
    "tostring",
    "tonumber",
    "tojson",
    "fromjson",
    "type",
    "first",
    "last",
    "reverse",
    "floor",
    "ceil",
    "round",
    "startswith",
    "endswith",
    "ltrimstr",
    "rtrimstr",
    "trim",
    "values",
    "index",
    "flatten",
    "del",
    "@json",
    "@base64",
    "single",
];
