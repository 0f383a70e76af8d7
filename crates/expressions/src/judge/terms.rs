//! The cost of each kind of term.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern, Term};
use jaq_core::ops::Math;
use jaq_core::path::{Part, Path};

use super::cost::{Bound, Cost, Size};
use super::{GROWTH_MAX, LITERAL_UNIT, WORK_MAX};

/// What makes a term unbounded.
pub(super) type Culprit = String;

/// Walks a term, knowing the variables that are bound around it.
#[derive(Default)]
pub(super) struct Judge<'a> {
    variables: Vec<(&'a str, Size)>,
    sizes: usize,
}

impl<'a> Judge<'a> {
    /// Whether the whole expression is bounded.
    pub(super) fn judge(mut self, term: &'a Term<&'a str>) -> Result<(), Culprit> {
        let cost = self.term(term)?;
        let given = Bound::size(Size::Given);
        let one = Bound::constant(1);
        let total = cost.total.over(&[Size::Input], &given, &one);
        let work = cost.work.over(&[Size::Input], &given, &one);
        if total.degree() > 1 || total.factor() > GROWTH_MAX {
            return Err("its value can be much larger than what it is given".to_owned());
        }
        if work.degree() > 1 || work.factor() > WORK_MAX {
            return Err("it looks at everything for each of many things".to_owned());
        }
        Ok(())
    }

    pub(super) fn term(&mut self, term: &'a Term<&'a str>) -> Result<Cost, Culprit> {
        Ok(match term {
            Term::Id => Cost::part_of(Size::Input),
            Term::Recurse => Cost::elements().either(&deep()),
            Term::Num(_) => Cost::scalar(),
            Term::Str(format, parts) => self.string(format.is_some(), parts)?,
            Term::Arr(None) => Cost::scalar(),
            Term::Arr(Some(content)) => self.term(content)?.collected(),
            Term::Obj(members) => self.object(members)?,
            Term::Neg(term) => self.term(term)?,
            Term::BinOp(left, operator, right) => self.operation(left, operator, right)?,
            Term::Fold(name, stream, pattern, arguments) => {
                self.fold(name, stream, pattern, arguments)?
            }
            Term::TryCatch(body, handler) => self.attempt(body, handler.as_deref())?,
            Term::IfThenElse(branches, otherwise) => {
                self.choice(branches, otherwise.as_deref(), Self::term)?
            }
            Term::Call(name, arguments) => self.call(name, arguments)?,
            Term::Var(name) => self.variable(name),
            Term::Path(root, Path(parts)) => self.path(root, parts)?,
            Term::Def(..) => return Err("it defines functions of its own".to_owned()),
            Term::Label(..) | Term::Break(_) => return Err("it uses a label".to_owned()),
        })
    }

    fn variable(&self, name: &str) -> Cost {
        let bound = self.variables.iter().rev().find(|(bound, _)| *bound == name);
        Cost::part_of(bound.map_or(Size::Given, |(_, size)| *size))
    }

    fn string(
        &mut self,
        formatted: bool,
        parts: &'a [StrPart<&'a str, Term<&'a str>>],
    ) -> Result<Cost, Culprit> {
        let mut cost = Cost::scalar();
        for part in parts {
            let text = match part {
                StrPart::Char(_) => continue,
                // A literal is copied each time it is evaluated.
                StrPart::Str(text) => Cost::constant(1 + text.len() as u64 / LITERAL_UNIT),
                StrPart::Term(term) => {
                    let factor = if formatted { 48 } else { 6 };
                    self.term(term)?.pipe(&Cost::whole(factor))
                }
            };
            cost = cost.pairs(&text);
        }
        Ok(cost)
    }

    fn object(
        &mut self,
        members: &'a [(Term<&'a str>, Option<Term<&'a str>>)],
    ) -> Result<Cost, Culprit> {
        let mut cost = Cost::scalar();
        for (key_term, value) in members {
            let key = self.term(key_term)?;
            let value = match value {
                Some(value) => self.term(value)?,
                // `{$x}` stands for `{x: $x}`, and `{a}` for `{a: .a}`.
                None if matches!(key_term, Term::Var(_)) => key.clone(),
                None => Cost::part_of(Size::Input),
            };
            cost = cost.pairs(&key.pairs(&value));
        }
        Ok(cost)
    }

    fn operation(
        &mut self,
        left: &'a Term<&'a str>,
        operator: &'a BinaryOp<&'a str>,
        right: &'a Term<&'a str>,
    ) -> Result<Cost, Culprit> {
        if let BinaryOp::Pipe(Some(pattern)) = operator {
            let stream = self.term(left)?;
            return self.binding(stream, pattern, |judge| judge.term(right));
        }
        if matches!(
            operator,
            BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt
        ) {
            return self.update(left, operator, right);
        }
        let (left, right) = (self.term(left)?, self.term(right)?);
        Ok(match operator {
            BinaryOp::Pipe(_) => left.pipe(&right),
            BinaryOp::Comma => left.either(&right),
            BinaryOp::Alt => left.one_of(&right),
            BinaryOp::Math(_) => left.pairs(&right),
            _ => left.compared(&right),
        })
    }

    /// Does something for each output of a stream, whose parts are bound to variables.
    pub(super) fn binding(
        &mut self,
        stream: Cost,
        pattern: &'a Pattern<&'a str>,
        then: impl FnOnce(&mut Self) -> Result<Cost, Culprit>,
    ) -> Result<Cost, Culprit> {
        let outside = self.variables.len();
        let size = self.fresh();
        self.bind(pattern, size)?;
        let then = then(self);
        self.variables.truncate(outside);
        Ok(stream.bind(&[size], &then?))
    }

    /// A size of its own for something that is bound.
    pub(super) fn fresh(&mut self) -> Size {
        self.sizes += 1;
        Size::Local(self.sizes)
    }

    fn bind(&mut self, pattern: &'a Pattern<&'a str>, size: Size) -> Result<(), Culprit> {
        match pattern {
            Pattern::Var(name) => self.variables.push((name, size)),
            Pattern::Arr(patterns) => {
                patterns.iter().try_for_each(|pattern| self.bind(pattern, size))?;
            }
            Pattern::Obj(members) => {
                for (key, pattern) in members {
                    if super::pattern::literal(key).is_none() {
                        return Err("it takes apart an object by a computed key".to_owned());
                    }
                    self.bind(pattern, size)?;
                }
            }
        }
        Ok(())
    }

    fn fold(
        &mut self,
        name: &str,
        stream: &'a Term<&'a str>,
        pattern: &'a Pattern<&'a str>,
        arguments: &'a [Term<&'a str>],
    ) -> Result<Cost, Culprit> {
        let [start, step] = arguments else {
            return Err(format!("`{name}` with a projection"));
        };
        if name != "reduce" {
            return Err(format!("`{name}` gives each of its intermediate values"));
        }
        let stream = self.term(stream)?;
        let start = self.term(start)?;
        let accumulator = self.fresh();
        let grown = self.binding(stream, pattern, |judge| judge.step(step, accumulator))?;
        if !start.count.is_at_most_one() {
            return Err("`reduce` with several values to start from".to_owned());
        }
        Ok(Cost {
            count: Bound::constant(1),
            total: start.total.plus(&grown.total),
            work: start.work.plus(&grown.work),
        })
    }

    /// One step of a fold: by how much it lets the accumulator grow.
    fn step(&mut self, step: &'a Term<&'a str>, accumulator: Size) -> Result<Cost, Culprit> {
        let cost = Cost::part_of(accumulator).pipe(&self.extension(step)?);
        if !cost.count.is_at_most_one() {
            return Err("a fold with several outputs in a step".to_owned());
        }
        if cost.work.mentions(accumulator) {
            return Err("a fold looks at its whole accumulator in each step".to_owned());
        }
        match cost.total.split(accumulator) {
            Some((0 | 1, added)) => Ok(Cost { total: added, ..cost }),
            _ => Err("a fold doubles its accumulator in each step".to_owned()),
        }
    }

    /// A term that may add to its input in place, because nobody else holds it: then it costs what is
    /// added, and not what is already there. Anything else that builds upon the accumulator looks at
    /// all of it, which `step` refuses; so an accumulator can neither be nested nor doubled.
    fn extension(&mut self, term: &'a Term<&'a str>) -> Result<Cost, Culprit> {
        match term {
            Term::BinOp(left, BinaryOp::Math(Math::Add), right) if matches!(**left, Term::Id) => {
                let added = self.term(right)?;
                let sum = Cost::part_of(Size::Input).pairs(&added);
                Ok(Cost { work: added.work.plus(&added.total), ..sum })
            }
            Term::IfThenElse(branches, otherwise) => {
                self.choice(branches, otherwise.as_deref(), Self::extension)
            }
            _ => self.term(term),
        }
    }

    fn attempt(
        &mut self,
        body: &'a Term<&'a str>,
        handler: Option<&'a Term<&'a str>>,
    ) -> Result<Cost, Culprit> {
        let body = self.term(body)?;
        let Some(handler) = handler else { return Ok(body) };
        let handler = self.term(handler)?;
        // A message shows the values that did not fit, as text.
        let message = body.pipe(&Cost::whole(6)).either(&Cost::whole(6)).at_most_one();
        Ok(body.either(&message.pipe(&handler)))
    }

    fn choice(
        &mut self,
        branches: &'a [(Term<&'a str>, Term<&'a str>)],
        otherwise: Option<&'a Term<&'a str>>,
        branch_cost: fn(&mut Self, &'a Term<&'a str>) -> Result<Cost, Culprit>,
    ) -> Result<Cost, Culprit> {
        let mut cost = match otherwise {
            Some(otherwise) => branch_cost(self, otherwise)?,
            None => Cost::part_of(Size::Input),
        };
        for (condition, branch) in branches.iter().rev() {
            let condition = self.term(condition)?;
            let unused = self.fresh();
            cost = condition.bind(&[unused], &branch_cost(self, branch)?.one_of(&cost));
        }
        Ok(cost)
    }

    fn path(
        &mut self,
        root: &'a Term<&'a str>,
        parts: &'a [(Part<Term<&'a str>>, jaq_core::path::Opt)],
    ) -> Result<Cost, Culprit> {
        let mut cost = self.term(root)?;
        for (part, _) in parts {
            cost = match part {
                Part::Index(index) => {
                    // The index is computed from the input of the whole path, not from the part.
                    let index = self.term(index)?;
                    let part = Cost { count: cost.count.times(&index.count), ..cost.clone() };
                    let work = cost.work.plus(&cost.count.times(&index.work.plus(&index.total)));
                    Cost { total: cost.total.times(&index.count), work, ..part }
                }
                Part::Range(None, None) => cost.pipe(&Cost::elements()),
                Part::Range(from, to) => {
                    let mut work = cost.work.plus(&cost.total);
                    for bound in from.iter().chain(to) {
                        let bound = self.term(bound)?;
                        if !bound.count.is_at_most_one() {
                            return Err("a slice with several bounds".to_owned());
                        }
                        work = work.plus(&cost.count.times(&bound.work));
                    }
                    Cost { work, ..cost }
                }
            };
        }
        Ok(cost)
    }

    /// `path = value`, `path |= value` and their kin: the input with some of its parts replaced.
    pub(super) fn update(
        &mut self,
        path: &'a Term<&'a str>,
        operator: &'a BinaryOp<&'a str>,
        value: &'a Term<&'a str>,
    ) -> Result<Cost, Culprit> {
        check_path(path)?;
        let parts = self.term(path)?;
        let value = self.term(value)?;
        if !value.count.is_at_most_one() {
            return Err("an update with several values".to_owned());
        }
        let replaced = match operator {
            BinaryOp::Update => parts.pipe(&value),
            // The value is computed once, from the input of the whole update.
            _ => Cost {
                total: parts.count.times(&value.total),
                work: parts.work.plus(&value.work).plus(&parts.count),
                count: parts.count,
            },
        };
        Ok(Cost {
            count: Bound::constant(1),
            total: Bound::size(Size::Input).plus(&replaced.total),
            work: replaced.work,
        })
    }
}

/// The values inside the input, each as often as it is nested.
fn deep() -> Cost {
    let depth = crate::value::DEPTH_MAX as u64;
    Cost { total: Bound::size(Size::Input).scaled(depth), ..Cost::elements() }
}

/// Whether a path can be updated in place: jaq updates others by recursion over data, or over and over.
pub(super) fn check_path(path: &Term<&str>) -> Result<(), Culprit> {
    match path {
        Term::Id => Ok(()),
        Term::Path(root, _) => check_path(root),
        Term::BinOp(left, BinaryOp::Pipe(None), right) => {
            check_path(left)?;
            check_path(right)
        }
        Term::Call("select" | "first" | "last", arguments) if arguments.len() < 2 => Ok(()),
        _ => Err("an update of something other than a plain path".to_owned()),
    }
}
