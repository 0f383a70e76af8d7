//! The part of the library that an expression needs.
//!
//! Much of jq's library is written in jq, the rest in Rust. Linking all of it with every filter would
//! make each a hundred times as costly as its own text, and as large for as long as it is kept, and a
//! definition may have thousands of expressions. So the library is parsed once, and a filter gets only
//! what it calls, and what that calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::native::Fun;
use jaq_core::path::{Part, Path};

use crate::library::{self, Data};

/// A filter by its name and number of arguments.
type Signature<'a> = (&'a str, usize);

struct Library {
    definitions: Vec<Def<&'static str>>,
    calls: Vec<Vec<Signature<'static>>>,
    /// Where filters are defined; a later definition of one name may call an earlier one.
    places: BTreeMap<Signature<'static>, Vec<usize>>,
}

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let definitions: Vec<Def<&'static str>> = library::definitions();
    let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, definition) in definitions.iter().enumerate() {
        places.entry((definition.name, definition.args.len())).or_default().push(index);
    }
    let calls = definitions.iter().map(|definition| calls(&definition.body)).collect();
    Library { definitions, calls, places }
});

/// What is linked with a term.
pub(crate) struct Needed {
    /// Filters that are defined in jq, in the order of the library.
    pub(crate) definitions: Vec<Def<&'static str>>,
    /// Filters that are written in Rust.
    pub(crate) functions: Vec<Fun<Data>>,
}

/// The part of the library that a term needs.
pub(crate) fn needed(term: &Term<&str>) -> Needed {
    let Library { definitions, calls: inner, places } = &*LIBRARY;
    let mut taken = vec![false; definitions.len()];
    let mut called: BTreeSet<Signature<'_>> = BTreeSet::new();
    let mut open: Vec<Signature<'_>> = calls(term);
    while let Some(signature) = open.pop() {
        called.insert(signature);
        for index in places.get(&signature).into_iter().flatten() {
            if !taken[*index] {
                taken[*index] = true;
                open.extend(&inner[*index]);
            }
        }
    }
    let definitions = definitions.iter().zip(taken);
    let definitions = definitions.filter(|(_, taken)| *taken).map(|(it, _)| it.clone()).collect();
    let is_called = |(name, arguments, _): &Fun<Data>| called.contains(&(*name, arguments.len()));
    Needed { definitions, functions: library::functions().filter(is_called).collect() }
}

/// Every filter that a term mentions, its own definitions and arguments included.
fn calls<'a>(term: &Term<&'a str>) -> Vec<Signature<'a>> {
    let mut found = Vec::new();
    collect(term, &mut found);
    found
}

fn collect<'a>(term: &Term<&'a str>, found: &mut Vec<Signature<'a>>) {
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Var(_) | Term::Break(_) => {}
        Term::Arr(None) => {}
        Term::Str(format, parts) => {
            found.extend(format.iter().map(|format| (*format, 0)));
            for part in parts {
                if let StrPart::Term(term) = part {
                    collect(term, found);
                }
            }
        }
        Term::Arr(Some(inner)) | Term::Neg(inner) | Term::Label(_, inner) => collect(inner, found),
        Term::Obj(members) => {
            for (key, value) in members {
                collect(key, found);
                value.iter().for_each(|value| collect(value, found));
            }
        }
        Term::BinOp(left, operator, right) => {
            if let BinaryOp::Pipe(Some(pattern)) = operator {
                collect_pattern(pattern, found);
            }
            collect(left, found);
            collect(right, found);
        }
        Term::Fold(_, stream, pattern, arguments) => {
            collect(stream, found);
            collect_pattern(pattern, found);
            arguments.iter().for_each(|argument| collect(argument, found));
        }
        Term::TryCatch(body, handler) => {
            collect(body, found);
            handler.iter().for_each(|handler| collect(handler, found));
        }
        Term::IfThenElse(branches, otherwise) => {
            for (condition, branch) in branches {
                collect(condition, found);
                collect(branch, found);
            }
            otherwise.iter().for_each(|otherwise| collect(otherwise, found));
        }
        Term::Def(definitions, body) => {
            definitions.iter().for_each(|definition| collect(&definition.body, found));
            collect(body, found);
        }
        Term::Call(name, arguments) => {
            found.push((*name, arguments.len()));
            arguments.iter().for_each(|argument| collect(argument, found));
        }
        Term::Path(root, Path(parts)) => {
            collect(root, found);
            for (part, _) in parts {
                match part {
                    Part::Index(index) => collect(index, found),
                    Part::Range(from, to) => {
                        from.iter().chain(to).for_each(|bound| collect(bound, found));
                    }
                }
            }
        }
    }
}

fn collect_pattern<'a>(pattern: &Pattern<&'a str>, found: &mut Vec<Signature<'a>>) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(patterns) => patterns.iter().for_each(|it| collect_pattern(it, found)),
        Pattern::Obj(members) => {
            for (key, pattern) in members {
                collect(key, found);
                collect_pattern(pattern, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::needed;
    use crate::{Filter, library, syntax};

    fn names(source: &str) -> Vec<&'static str> {
        let needed = needed(&syntax::parse(source).unwrap());
        let definitions = needed.definitions.iter().map(|definition| definition.name);
        definitions.chain(needed.functions.iter().map(|(name, _, _)| *name)).collect()
    }

    #[test]
    fn a_path_needs_nothing_of_the_library() {
        assert_eq!(names(".a.b[0] + 1"), [""; 0]);
    }

    #[test]
    fn what_is_called_brings_what_it_calls() {
        let needed = names("map(.a) | from_entries");
        assert!(needed.contains(&"map") && needed.contains(&"from_entries"), "{needed:?}");
        let whole = library::definitions().len() + library::functions().count();
        assert!(needed.len() < whole / 10, "{needed:?} of {whole}");
    }

    #[test]
    fn everything_in_the_library_links_on_its_own() {
        for (name, arity) in library::signatures() {
            let arguments = vec!["."; *arity].join(";");
            let source = match arity {
                0 => (*name).to_owned(),
                _ => format!("{name}({arguments})"),
            };
            assert!(Filter::compile(&source, &[]).is_ok(), "{source}");
        }
    }
}
