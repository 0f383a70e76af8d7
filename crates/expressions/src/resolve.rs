//! Names of an expression: that each exists, and which variables from outside are used.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::path::{Part, Path};

use crate::filter::CompileError;
use crate::library;
use crate::syntax::span;

/// Checks every name and gives the outer variables the term mentions, without `$`, each once.
pub(crate) fn resolve(
    source: &str,
    term: &Term<&str>,
    variables: &[&str],
) -> Result<Vec<String>, CompileError> {
    let mut resolver = Resolver {
        source,
        outer: variables,
        uses: Vec::new(),
        variables: Vec::new(),
        labels: Vec::new(),
        filters: Vec::new(),
        library: library::signatures(),
    };
    resolver.term(term)?;
    Ok(resolver.uses)
}

struct Resolver<'a> {
    source: &'a str,
    outer: &'a [&'a str],
    uses: Vec<String>,
    /// Variables bound by the expression itself, innermost last, with `$`.
    variables: Vec<&'a str>,
    labels: Vec<&'a str>,
    /// Filters and filter arguments defined by the expression itself, innermost last.
    filters: Vec<(&'a str, usize)>,
    library: &'a [(&'static str, usize)],
}

type Resolved = Result<(), CompileError>;

impl<'a> Resolver<'a> {
    fn term(&mut self, term: &Term<&'a str>) -> Resolved {
        match term {
            Term::Id | Term::Recurse | Term::Num(_) | Term::Arr(None) => Ok(()),
            Term::Str(format, parts) => self.string(*format, parts),
            Term::Arr(Some(term)) | Term::Neg(term) => self.term(term),
            Term::Obj(members) => members.iter().try_for_each(|(key, value)| {
                self.term(key)?;
                value.iter().try_for_each(|value| self.term(value))
            }),
            Term::BinOp(left, BinaryOp::Pipe(Some(pattern)), right) => {
                self.term(left)?;
                self.binding(pattern, |resolver| resolver.term(right))
            }
            Term::BinOp(left, _, right) => {
                self.term(left)?;
                self.term(right)
            }
            Term::Label(label, body) => {
                self.labels.push(label);
                let resolved = self.term(body);
                self.labels.pop();
                resolved
            }
            Term::Break(label) => self.label(label),
            Term::Fold(_, stream, pattern, arguments) => self.fold(stream, pattern, arguments),
            Term::TryCatch(body, handler) => {
                self.term(body)?;
                handler.iter().try_for_each(|handler| self.term(handler))
            }
            Term::IfThenElse(branches, otherwise) => {
                branches.iter().try_for_each(|(condition, branch)| {
                    self.term(condition)?;
                    self.term(branch)
                })?;
                otherwise.iter().try_for_each(|otherwise| self.term(otherwise))
            }
            Term::Def(definitions, body) => self.definitions(definitions, body),
            Term::Call(name, arguments) => {
                self.filter(name, arguments.len())?;
                arguments.iter().try_for_each(|argument| self.term(argument))
            }
            Term::Var(name) => self.variable(name),
            Term::Path(root, Path(parts)) => {
                self.term(root)?;
                parts.iter().try_for_each(|(part, _)| self.part(part))
            }
        }
    }

    fn string(
        &mut self,
        format: Option<&'a str>,
        parts: &[StrPart<&'a str, Term<&'a str>>],
    ) -> Resolved {
        format.map_or(Ok(()), |format| self.filter(format, 0))?;
        parts.iter().try_for_each(|part| match part {
            StrPart::Term(term) => self.term(term),
            StrPart::Str(_) | StrPart::Char(_) => Ok(()),
        })
    }

    fn part(&mut self, part: &Part<Term<&'a str>>) -> Resolved {
        match part {
            Part::Index(index) => self.term(index),
            Part::Range(from, to) => from.iter().chain(to).try_for_each(|bound| self.term(bound)),
        }
    }

    fn fold(
        &mut self,
        stream: &Term<&'a str>,
        pattern: &Pattern<&'a str>,
        arguments: &[Term<&'a str>],
    ) -> Resolved {
        self.term(stream)?;
        let Some((start, steps)) = arguments.split_first() else { return Ok(()) };
        self.term(start)?;
        self.binding(pattern, |resolver| steps.iter().try_for_each(|step| resolver.term(step)))
    }

    /// Resolves something inside which the variables of a pattern are bound.
    fn binding(
        &mut self,
        pattern: &Pattern<&'a str>,
        inside: impl FnOnce(&mut Self) -> Resolved,
    ) -> Resolved {
        let outside = self.variables.len();
        self.pattern(pattern)?;
        let resolved = inside(self);
        self.variables.truncate(outside);
        resolved
    }

    fn pattern(&mut self, pattern: &Pattern<&'a str>) -> Resolved {
        match pattern {
            Pattern::Var(name) => self.variables.push(name),
            Pattern::Arr(patterns) => {
                patterns.iter().try_for_each(|pattern| self.pattern(pattern))?;
            }
            Pattern::Obj(members) => members.iter().try_for_each(|(key, pattern)| {
                self.term(key)?;
                self.pattern(pattern)
            })?,
        }
        Ok(())
    }

    fn definitions(&mut self, definitions: &[Def<&'a str>], body: &Term<&'a str>) -> Resolved {
        let outside = self.filters.len();
        for definition in definitions {
            self.filters.push((definition.name, definition.args.len()));
            let (filters, variables) = (self.filters.len(), self.variables.len());
            for argument in &definition.args {
                if argument.starts_with('$') {
                    self.variables.push(argument);
                } else {
                    self.filters.push((argument, 0));
                }
            }
            let resolved = self.term(&definition.body);
            self.filters.truncate(filters);
            self.variables.truncate(variables);
            resolved?;
        }
        let resolved = self.term(body);
        self.filters.truncate(outside);
        resolved
    }

    fn variable(&mut self, name: &'a str) -> Resolved {
        if self.variables.contains(&name) {
            return Ok(());
        }
        let plain = name.trim_start_matches('$');
        if self.outer.contains(&plain) {
            if !self.uses.iter().any(|used| used == plain) {
                self.uses.push(plain.to_owned());
            }
            return Ok(());
        }
        let bound = self.variables.iter().map(|name| (*name).to_owned());
        let known = bound.chain(self.outer.iter().map(|name| format!("${name}")));
        Err(self.unknown("variable", name, None, known.collect()))
    }

    fn label(&self, label: &'a str) -> Resolved {
        if self.labels.contains(&label) {
            return Ok(());
        }
        let known = self.labels.iter().map(|label| (*label).to_owned()).collect();
        Err(self.unknown("label", label, None, known))
    }

    fn filter(&self, name: &'a str, arity: usize) -> Resolved {
        let own = self.filters.iter().copied();
        let library = self.library.iter().copied();
        let known: Vec<(&str, usize)> = own.chain(library).collect();
        if known.contains(&(name, arity)) {
            return Ok(());
        }
        let arities: Vec<usize> =
            known.iter().filter(|(known, _)| *known == name).map(|(_, arity)| *arity).collect();
        if !arities.is_empty() {
            return Err(self.wrong_arity(name, arity, arities));
        }
        let names = known.iter().map(|(name, _)| (*name).to_owned()).collect();
        Err(self.unknown("function", name, library::advice(name), names))
    }

    fn wrong_arity(&self, name: &str, arity: usize, mut arities: Vec<usize>) -> CompileError {
        arities.sort_unstable();
        arities.dedup();
        let arities: Vec<String> = arities.iter().map(usize::to_string).collect();
        let arities = arities.join(" or ");
        let message = format!("`{name}` takes {arities} arguments, not {arity}");
        CompileError { message, span: span(self.source, name) }
    }

    fn unknown(
        &self,
        kind: &str,
        name: &str,
        advice: Option<&str>,
        known: Vec<String>,
    ) -> CompileError {
        let message = match advice.or_else(|| library::advice(name)) {
            Some(advice) => format!("`{name}` is not available: {advice}"),
            None => match nearest(name, &known) {
                Some(nearest) => {
                    format!("there is no {kind} `{name}`; did you mean `{nearest}`?")
                }
                None => format!("there is no {kind} `{name}`"),
            },
        };
        CompileError { message, span: span(self.source, name) }
    }
}

/// The known name that is fewest edits away, if it is near enough to be meant.
fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let near = |known: &'a String| (distance(name, known), known.as_str());
    let tolerance = 1 + name.len() / 4;
    known
        .iter()
        .map(near)
        .filter(|(distance, _)| *distance <= tolerance)
        .min()
        .map(|(_, name)| name)
}

/// How many insertions, removals, changes and swaps of neighbours lead from one name to the other.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for i in 0..=left.len() {
        for j in 0..=right.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
                let mut best = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let swapped =
                    i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
                if swapped {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[left.len()][right.len()]
}
