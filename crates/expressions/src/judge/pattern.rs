//! Regular expressions: which of them match in linear time.
//!
//! The engine is linear in one search, but a search for all matches starts anew after each match, and
//! may look at the whole rest every time. That cannot happen when no part may repeat. The text of the
//! expression must be known, because counted repetition multiplies the size of what it is compiled to.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::Term;

/// How many copies of a part counted repetition may make.
const COPIES_MAX: u64 = 1_000;

/// Why the search cannot be done in place, if it cannot.
pub(super) fn culprit(
    pattern: &Term<&str>,
    flags: Option<&Term<&str>>,
    all: bool,
) -> Option<String> {
    let Some(pattern) = literal(pattern) else {
        return Some("the regular expression is not a literal text".to_owned());
    };
    let flags = match flags.map(literal) {
        None => String::new(),
        Some(Some(flags)) => flags,
        Some(None) => return Some("the flags are not a literal text".to_owned()),
    };
    if copies(&pattern) > COPIES_MAX {
        return Some("the regular expression repeats a part too often".to_owned());
    }
    let repeats = pattern.contains(['*', '+']) || pattern.contains(",}");
    if repeats && (all || flags.contains('g')) {
        return Some("a search for all matches of a part that may repeat".to_owned());
    }
    None
}

/// The text of a term that is a text without interpolation.
pub(super) fn literal(term: &Term<&str>) -> Option<String> {
    let Term::Str(None, parts) = term else { return None };
    parts
        .iter()
        .map(|part| match part {
            StrPart::Str(text) => Some((*text).to_owned()),
            StrPart::Char(character) => Some(character.to_string()),
            StrPart::Term(_) => None,
        })
        .collect()
}

/// At most how many copies of one part the counts in the pattern ask for, were they all nested.
fn copies(pattern: &str) -> u64 {
    let mut copies = 1_u64;
    for count in pattern.split('{').skip(1) {
        let numbers = count.split('}').next().unwrap_or_default();
        let largest =
            numbers.split(',').filter_map(|number| number.trim().parse::<u64>().ok()).max();
        copies = copies.saturating_mul(largest.unwrap_or(1).max(1));
    }
    copies
}
