//! Names that people give to executions.
//!
//! They are listed on terminals, which obey control characters: with those in a name, whoever starts something
//! could hide lines from whoever looks, or write others. Names are checked where they come from people, and
//! nowhere else: journals of earlier releases have any.

use std::str::FromStr;

/// A name that can be listed as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name(String);

/// Why a text is no name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAName {
    /// Nobody could ask for it.
    #[error("a name has at least one character")]
    Empty,
    /// With the first one in it.
    #[error(
        "a name has no control characters, which terminals would obey, and this one has {}",
        .0.escape_default()
    )]
    Control(char),
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        if text.is_empty() {
            return Err(NotAName::Empty);
        }
        match text.chars().find(|character| character.is_control()) {
            Some(character) => Err(NotAName::Control(character)),
            None => Ok(Self(text.to_owned())),
        }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_something() {
        assert_eq!("".parse::<Name>(), Err(NotAName::Empty));
    }

    #[test]
    fn a_name_has_no_control_characters() {
        for name in ["order-17", "with spaces", "ümläute/≠"] {
            assert_eq!(name.parse::<Name>().map(String::from).as_deref(), Ok(name));
        }
        for (text, said) in [("a\u{1b}[2J", r"\u{1b}"), ("a\nb", r"\n"), ("\u{9b}", r"\u{9b}")] {
            let refused = text.parse::<Name>().unwrap_err().to_string();
            assert!(refused.ends_with(said), "{refused}");
        }
    }
}
