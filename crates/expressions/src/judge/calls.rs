//! The cost of each function of the library that is known to be bounded.
//!
//! A function that is not here is not bounded as far as we know.

use jaq_core::load::parse::Term;

use super::cost::{Bound, Cost, Size};
use super::terms::{Culprit, Judge, check_path};
use super::{LITERAL_UNIT, pattern};
use crate::rewrite;

/// One output of constant size, found by looking at the whole input.
const FOUND: [&str; 47] = [
    "length",
    "utf8bytelength",
    "not",
    "type",
    "isboolean",
    "isnumber",
    "isstring",
    "isarray",
    "isobject",
    "isnan",
    "isinfinite",
    "isfinite",
    "isnormal",
    "any",
    "all",
    "tonumber",
    "toboolean",
    "floor",
    "ceil",
    "round",
    "trunc",
    "abs",
    "fabs",
    "sqrt",
    "cbrt",
    "exp",
    "exp2",
    "exp10",
    "log",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "todate",
    "fromdate",
    "todateiso8601",
    "fromdateiso8601",
    "gmtime",
    "mktime",
    "error",
    "nan",
    "infinite",
    "ascii",
];

/// One output made from the whole input, at most so many times as large.
const WHOLE: [(&str, u64); 42] = [
    ("keys", 1),
    ("keys_unsorted", 1),
    ("add", 1),
    ("to_entries", 12),
    ("from_entries", 2),
    ("sort", 1),
    ("reverse", 1),
    ("unique", 1),
    ("min", 1),
    ("max", 1),
    ("tostring", 6),
    ("tojson", 6),
    ("fromjson", 2),
    ("ascii_downcase", 1),
    ("ascii_upcase", 1),
    ("trim", 1),
    ("ltrim", 1),
    ("rtrim", 1),
    ("explode", 1),
    ("implode", 4),
    ("flatten", 1),
    ("first", 1),
    ("last", 1),
    ("values", 1),
    ("nulls", 1),
    ("booleans", 1),
    ("numbers", 1),
    ("strings", 1),
    ("arrays", 1),
    ("objects", 1),
    ("iterables", 1),
    ("scalars", 1),
    ("toarray", 2),
    ("@text", 6),
    ("@json", 6),
    ("@csv", 8),
    ("@tsv", 8),
    ("@html", 36),
    ("@uri", 18),
    ("@sh", 24),
    ("@base64", 8),
    ("@base64d", 6),
];

impl<'a> Judge<'a> {
    /// The cost of calling a function of the library.
    pub(super) fn call(
        &mut self,
        name: &'a str,
        arguments: &'a [Term<&'a str>],
    ) -> Result<Cost, Culprit> {
        match arguments {
            [] => plain(name),
            [argument] => self.call_one(name, argument),
            [first, second] => self.call_two(name, first, second),
            [pattern, replacement, flags] if matches!(name, "sub" | "gsub") => {
                self.substitution(pattern, Some(flags), replacement, name == "gsub")
            }
            _ => Err(unknown(name)),
        }
    }

    fn call_one(&mut self, name: &'a str, argument: &'a Term<&'a str>) -> Result<Cost, Culprit> {
        let elements = Cost::elements();
        Ok(match name {
            "map" => elements.pipe(&self.term(argument)?).collected(),
            "map_values" => {
                let made = elements.pipe(&self.term(argument)?).collected();
                made.either(&Cost::whole(1)).at_most_one()
            }
            "select" => {
                let condition = self.term(argument)?;
                let unused = self.fresh();
                condition.bind(&[unused], &Cost::part_of(Size::Input))
            }
            "with_entries" => {
                let entries =
                    Cost::whole(12).pipe(&elements.pipe(&self.term(argument)?).collected());
                entries.pipe(&Cost::whole(2))
            }
            "sort_by" | "group_by" | "unique_by" | "min_by" | "max_by" => {
                let keys = elements.pipe(&self.term(argument)?).collected();
                Cost { work: keys.work, ..Cost::whole(2) }
            }
            "any" | "all" => elements.pipe(&self.term(argument)?).collected().reduced(),
            "add" => self.term(argument)?.collected(),
            "first" | "last" | "isempty" => self.term(argument)?.at_most_one(),
            "single" => self.term(argument)?.collected(),
            "error" | rewrite::INDEX => self.term(argument)?,
            "has" | "startswith" | "endswith" | "in" => {
                Cost::found().pairs(&self.term(argument)?).reduced()
            }
            // Each may compare everything on one side with everything on the other.
            "contains" | "inside" | "indices" | "index" | "rindex" | "IN" => {
                let other = self.term(argument)?;
                let all = Bound::size(Size::Input).times(&other.total);
                let found = Cost::found().pairs(&other).reduced();
                let total = if name == "indices" { Bound::size(Size::Input) } else { found.total };
                Cost { total, work: found.work.plus(&all), ..found }
            }
            "ltrimstr" | "rtrimstr" | "split" | "strftime" | "strptime" => {
                Cost::whole(2).pairs(&self.term(argument)?)
            }
            "join" => {
                let separator = self.term(argument)?;
                let between = Bound::size(Size::Input).times(&separator.total);
                let joined = Cost::whole(6).pairs(&separator);
                Cost {
                    total: joined.total.plus(&between),
                    work: joined.work.plus(&between),
                    ..joined
                }
            }
            "del" => {
                check_path(argument)?;
                let parts = self.term(argument)?;
                Cost { work: parts.work, ..Cost::part_of(Size::Input) }
            }
            "getpath" => {
                let path = self.term(argument)?;
                Cost { work: path.work.plus(&path.total), ..Cost::part_of(Size::Input) }
            }
            "test" => self.search(argument, None, false)?.reduced().at_most_one(),
            "match" | "capture" => self.search(argument, None, false)?.at_most_one(),
            "scan" | "splits" => self.search(argument, None, true)?,
            _ => return Err(unknown(name)),
        })
    }

    fn call_two(
        &mut self,
        name: &'a str,
        first: &'a Term<&'a str>,
        second: &'a Term<&'a str>,
    ) -> Result<Cost, Culprit> {
        Ok(match name {
            "any" | "all" => self.term(first)?.pipe(&self.term(second)?).collected().reduced(),
            "limit" | "skip" | "nth" => {
                let count = self.term(first)?;
                if !count.count.is_at_most_one() {
                    return Err(format!("`{name}` with several numbers"));
                }
                let stream = self.term(second)?;
                Cost { work: stream.work.plus(&count.work), ..stream }
            }
            "pow" | "atan2" | "fmin" | "fmax" | "fmod" => {
                self.term(first)?.pairs(&self.term(second)?).reduced()
            }
            _ if rewrite::ORDERS.contains(&name) => self.term(first)?.compared(&self.term(second)?),
            rewrite::MULTIPLY => {
                // A repeated text is short; see `rewrite`.
                let product = self.term(first)?.pairs(&self.term(second)?);
                let repeated =
                    product.count.scaled(rewrite::REPETITION_BYTES_MAX as u64 / LITERAL_UNIT);
                Cost { total: product.total.plus(&repeated), ..product }
            }
            "test" => self.search(first, Some(second), false)?.reduced().at_most_one(),
            "match" | "capture" => self.search(first, Some(second), false)?,
            "scan" | "splits" | "split" => self.search(first, Some(second), true)?,
            "sub" => self.substitution(first, None, second, false)?,
            "gsub" => self.substitution(first, None, second, true)?,
            _ => return Err(unknown(name)),
        })
    }

    fn search(
        &mut self,
        pattern: &'a Term<&'a str>,
        flags: Option<&'a Term<&'a str>>,
        all: bool,
    ) -> Result<Cost, Culprit> {
        if let Some(culprit) = pattern::culprit(pattern, flags, all) {
            return Err(culprit);
        }
        // A match is an object of a few members for each group.
        let found = Bound::size(Size::Input).scaled(64);
        Ok(Cost { count: Bound::size(Size::Input), total: found.clone(), work: found })
    }

    fn substitution(
        &mut self,
        pattern: &'a Term<&'a str>,
        flags: Option<&'a Term<&'a str>>,
        replacement: &'a Term<&'a str>,
        all: bool,
    ) -> Result<Cost, Culprit> {
        let matches = self.search(pattern, flags, all)?;
        let replacement = self.term(replacement)?;
        if !replacement.count.is_at_most_one() {
            return Err("a substitution with several replacements".to_owned());
        }
        let replaced = matches.pipe(&replacement).collected();
        Ok(replaced.either(&Cost::whole(1)).at_most_one())
    }
}

fn plain(name: &str) -> Result<Cost, Culprit> {
    if matches!(name, "true" | "false" | "null" | "empty") {
        return Ok(Cost::scalar());
    }
    if matches!(name, "recurse" | "paths" | "leaf_paths") {
        let depth = crate::value::DEPTH_MAX as u64;
        let total = Bound::size(Size::Input).scaled(depth);
        return Ok(Cost { work: total.clone(), total, ..Cost::elements() });
    }
    if FOUND.contains(&name) {
        return Ok(Cost::found());
    }
    let whole = WHOLE.iter().find(|(whole, _)| *whole == name);
    whole.map(|(_, factor)| Cost::whole(*factor)).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Culprit {
    format!("`{name}` is not known to be bounded")
}
