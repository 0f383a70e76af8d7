//! Variables whose values only pass through: secrets may be placed, never computed on.
//!
//! `$secrets.name.field` may stand alone, in a text, an object, a list, a branch of a condition, or
//! beside `+` and `//`. What looks into it (a pipe into a function, a comparison, `@base64`) would
//! see the stand-in of the secret instead of its value, and is refused.

use std::ops::Range;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::ops::Math;
use jaq_core::path::{Part, Path};

use crate::filter::CompileError;
use crate::syntax::{parse, span};

/// The paths by which an expression reads `variable` (without `$`), each a list of member names.
///
/// An error says where the expression reads it otherwise than by a path of names, or computes on
/// what it read.
pub fn opaque_paths(source: &str, variable: &str) -> Result<Vec<Vec<String>>, CompileError> {
    let term = parse(source)?;
    let mut reader = Reader { source, variable, paths: Vec::new() };
    reader.placed(&term)?;
    Ok(reader.paths)
}

struct Reader<'a> {
    source: &'a str,
    variable: &'a str,
    paths: Vec<Vec<String>>,
}

type Checked = Result<(), CompileError>;

impl<'a> Reader<'a> {
    /// A term whose value is placed where it stands: the variable may be read in it.
    fn placed(&mut self, term: &Term<&'a str>) -> Checked {
        if self.read(term)? {
            return Ok(());
        }
        match term {
            Term::Str(None, parts) => parts.iter().try_for_each(|part| match part {
                StrPart::Term(term) => self.placed(term),
                StrPart::Str(_) | StrPart::Char(_) => Ok(()),
            }),
            Term::Arr(Some(inner)) => self.placed(inner),
            Term::Obj(members) => members.iter().try_for_each(|(key, value)| {
                self.hidden(key, "it would become the name of a member")?;
                value.iter().try_for_each(|value| self.placed(value))
            }),
            Term::BinOp(
                left,
                BinaryOp::Math(Math::Add) | BinaryOp::Alt | BinaryOp::Comma,
                right,
            ) => {
                self.placed(left)?;
                self.placed(right)
            }
            Term::BinOp(left, BinaryOp::Pipe(None), right) => {
                self.hidden(left, "it is piped into something else")?;
                self.placed(right)
            }
            // Composed trees wrap each of their expressions in this.
            Term::Call("single", arguments) => {
                arguments.iter().try_for_each(|argument| self.placed(argument))
            }
            Term::IfThenElse(branches, otherwise) => {
                branches.iter().try_for_each(|(condition, branch)| {
                    self.hidden(condition, "it is compared")?;
                    self.placed(branch)
                })?;
                otherwise.iter().try_for_each(|otherwise| self.placed(otherwise))
            }
            other => self.hidden(other, "something is computed from it"),
        }
    }

    /// Whether the term reads the variable by a path of names; notes the path.
    fn read(&mut self, term: &Term<&'a str>) -> Result<bool, CompileError> {
        let (root, parts) = match term {
            Term::Path(root, Path(parts)) => (&**root, parts.as_slice()),
            root => (root, [].as_slice()),
        };
        let Term::Var(name) = root else { return Ok(false) };
        if name.trim_start_matches('$') != self.variable {
            return Ok(false);
        }
        let names: Option<Vec<String>> = parts.iter().map(|(part, _)| member(part)).collect();
        match names {
            Some(names) if !names.is_empty() => {
                self.paths.push(names);
                Ok(true)
            }
            _ => Err(self.refused(name, "it is not read by a plain path such as `.name.field`")),
        }
    }

    /// A term that is looked into: the variable must not be read anywhere in it.
    fn hidden(&mut self, term: &Term<&'a str>, why: &str) -> Checked {
        match find(term, self.variable) {
            Some(name) => Err(self.refused(name, why)),
            None => Ok(()),
        }
    }

    fn refused(&self, name: &str, why: &str) -> CompileError {
        CompileError { message: why.to_owned(), span: self.whole(name) }
    }

    /// The name and the path after it, so that people see what is meant.
    fn whole(&self, name: &str) -> Range<usize> {
        let start = span(self.source, name);
        let path = |letter: char| letter.is_alphanumeric() || "._$".contains(letter);
        let rest = &self.source[start.end..];
        let length = rest.find(|letter| !path(letter)).unwrap_or(rest.len());
        start.start..start.end + length
    }
}

/// The name of a member, if the part is one.
fn member(part: &Part<Term<&str>>) -> Option<String> {
    let Part::Index(Term::Str(None, parts)) = part else { return None };
    match parts.as_slice() {
        [StrPart::Str(name)] => Some((*name).to_owned()),
        _ => None,
    }
}

/// The first mention of a variable in a term.
fn find<'a>(term: &Term<&'a str>, variable: &str) -> Option<&'a str> {
    let look = |term: &Term<&'a str>| find(term, variable);
    match term {
        Term::Var(name) => (name.trim_start_matches('$') == variable).then_some(*name),
        Term::Id | Term::Recurse | Term::Num(_) | Term::Arr(None) | Term::Break(_) => None,
        Term::Str(_, parts) => parts.iter().find_map(|part| match part {
            StrPart::Term(term) => look(term),
            StrPart::Str(_) | StrPart::Char(_) => None,
        }),
        Term::Arr(Some(inner)) | Term::Neg(inner) | Term::Label(_, inner) => look(inner),
        Term::Obj(members) => members
            .iter()
            .find_map(|(key, value)| look(key).or_else(|| value.as_ref().and_then(look))),
        Term::BinOp(left, _, right) => look(left).or_else(|| look(right)),
        Term::Fold(_, stream, _, arguments) => {
            look(stream).or_else(|| arguments.iter().find_map(look))
        }
        Term::TryCatch(body, handler) => look(body).or_else(|| handler.as_deref().and_then(look)),
        Term::IfThenElse(branches, otherwise) => branches
            .iter()
            .find_map(|(condition, branch)| look(condition).or_else(|| look(branch)))
            .or_else(|| otherwise.as_deref().and_then(look)),
        Term::Def(definitions, body) => {
            definitions.iter().find_map(|it| look(&it.body)).or_else(|| look(body))
        }
        Term::Call(_, arguments) => arguments.iter().find_map(look),
        Term::Path(root, Path(parts)) => look(root).or_else(|| {
            parts.iter().find_map(|(part, _)| match part {
                Part::Index(index) => look(index),
                Part::Range(from, to) => from.iter().chain(to).find_map(look),
            })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::opaque_paths;

    #[test]
    fn finds_the_paths_of_what_is_only_placed() {
        let cases = [
            ("$secrets.a.b", vec![vec!["a", "b"]]),
            ("\"Bearer \\($secrets.token)\"", vec![vec!["token"]]),
            ("\"Bearer \" + $secrets.api.key", vec![vec!["api", "key"]]),
            ("{ x: $secrets.a, y: [$secrets[\"b\"].c, .d] }", vec![vec!["a"], vec!["b", "c"]]),
            ("if .test then $secrets.a else $secrets.b end", vec![vec!["a"], vec!["b"]]),
            (".a + 1", vec![]),
            ("{\"x\":single( $secrets.a\n),\"y\":single($secrets[\"b-c\"].d)}", {
                vec![vec!["a"], vec!["b-c", "d"]]
            }),
        ];
        for (source, expected) in cases {
            assert_eq!(opaque_paths(source, "secrets").unwrap(), expected, "{source}");
        }
    }

    #[test]
    fn refuses_what_looks_into_it() {
        let cases = [
            "$secrets",
            "$secrets.a | length",
            "$secrets.a | @base64",
            "@base64 \"\\($secrets.a)\"",
            "$secrets.a == .b",
            "$secrets[.name]",
            "{ ($secrets.a): 1 }",
            "if $secrets.a then 1 else 2 end",
            "$secrets.a as $x | $x",
            "$secrets.list[0]",
            "[$secrets.a] | map(. + \"x\")",
            "($secrets.a | ascii_upcase) + .b",
        ];
        for source in cases {
            assert!(opaque_paths(source, "secrets").is_err(), "{source}");
        }
    }

    #[test]
    fn points_at_the_use_it_refuses() {
        let error = opaque_paths(".x + ($secrets.a.b | length)", "secrets").unwrap_err();
        assert_eq!(error.span, 6..18);
    }
}
