//! What the form of an expression says about what it gives, whatever it is evaluated on.

use jaq_core::load::parse::Term;

use crate::syntax::parse;

/// Whether an expression gives no number by its form alone: it is a text, a list, an object, a truth
/// value or null. Of others nothing is known before they are evaluated.
pub fn is_never_a_number(source: &str) -> bool {
    match parse(source) {
        Ok(Term::Str(..) | Term::Arr(_) | Term::Obj(_)) => true,
        Ok(Term::Call(name, _)) => ["null", "true", "false"].contains(&name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_shows_it_is_known_to_be_no_number() {
        for source in ["\"abc\"", "\"\\(.a)\"", "[1]", "{}", " { a: .b } ", "null", "true"] {
            assert!(is_never_a_number(source), "{source}");
        }
        for source in ["1", "-1", ".", ".a", "length", "{ a: 1 } | .a", "{ a: 1 }.a", "[1][0]"] {
            assert!(!is_never_a_number(source), "{source}");
        }
    }
}
