//! Shapes: what may stand at a place of a document.

use crate::text::listed;

/// What may stand at a place.
pub(super) enum Shape {
    /// Anything at all.
    Any,
    /// Text.
    Text,
    /// A jq expression, in `${ }` or bare.
    Expression,
    /// A jq expression in `${ }`.
    Wrapped,
    /// A duration: object, ISO 8601 text or expression in `${ }`.
    Duration,
    /// The same, but years and months are allowed: schedules know the calendar.
    CalendarDuration,
    /// A semantic version.
    Version,
    /// A DNS label.
    Label,
    /// A URI, perhaps with `{names}` in it.
    Uri,
    /// True or false.
    Boolean,
    /// A whole number, not below the bound.
    Integer(i64),
    /// A number.
    Number,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// A list of one shape.
    List(&'static Self),
    /// Anything under any key.
    Map(&'static Self),
    /// A list of objects with one member each: name and what it names.
    Named(&'static str, &'static Self),
    /// An object with known keys.
    Object(&'static Object),
    /// An object, or the text described; such as a policy or the name of one.
    ObjectOr(&'static Object, &'static Self, &'static str),
    /// A map, or an expression.
    MapOr(&'static Self, &'static Self),
    /// A list, or an expression.
    ListOr(&'static Self, &'static Self),
    /// One of two scalars, described together.
    Either(&'static Self, &'static Self, &'static str),
    /// Any one task.
    Task,
    /// `metadata`, with the extension block of a document or a task in it.
    Metadata(&'static Object),
}

/// An object with known keys.
pub(super) struct Object {
    /// What it is called in messages.
    pub(super) what: &'static str,
    /// Its keys.
    pub(super) keys: &'static [Key],
    /// Keys of which exactly one must be there; none if there is no such rule.
    pub(super) one_of: &'static [&'static str],
    /// Whether other keys may be there as well.
    pub(super) open: bool,
}

/// A key of an object.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) shape: &'static Shape,
    pub(super) required: bool,
}

pub(super) const fn object(what: &'static str, keys: &'static [Key]) -> Object {
    Object { what, keys, one_of: &[], open: false }
}

pub(super) const fn choice_object(
    what: &'static str,
    one_of: &'static [&'static str],
    keys: &'static [Key],
) -> Object {
    Object { what, keys, one_of, open: false }
}

pub(super) const fn must(name: &'static str, shape: &'static Shape) -> Key {
    Key { name, shape, required: true }
}

pub(super) const fn may(name: &'static str, shape: &'static Shape) -> Key {
    Key { name, shape, required: false }
}

impl Shape {
    /// What to write where it is missing, in words that follow "with".
    pub(super) fn wanted(&self) -> String {
        let Self::Object(object) = self else { return self.describe() };
        let names = |required: bool| {
            let keys = object.keys.iter().filter(|key| key.required == required);
            keys.map(|key| key.name).collect::<Vec<_>>()
        };
        match (object.one_of, names(true).as_slice()) {
            ([], []) => format!("any of {}", listed(&names(false))),
            ([], required) => listed(required),
            (one_of, _) => format!("one of {}", listed(one_of)),
        }
    }

    /// What fits, in words that follow "must be".
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Any | Self::Task => "a value".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Expression => "a jq expression".to_owned(),
            Self::Wrapped => "a jq expression in `${ }`".to_owned(),
            Self::Duration | Self::CalendarDuration => {
                "a duration, such as `PT30S` or `{ seconds: 30 }`".to_owned()
            }
            Self::Version => "a version of three numbers, such as '1.0.0'".to_owned(),
            Self::Label => {
                "at most 63 letters, digits and hyphens, with no hyphen at either end".to_owned()
            }
            Self::Uri => "a URI".to_owned(),
            Self::Boolean => "`true` or `false`".to_owned(),
            Self::Integer(i64::MIN) => "a whole number".to_owned(),
            Self::Integer(least) => format!("a whole number of at least {least}"),
            Self::Number => "a number".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "an object".to_owned(),
            Self::Named(what, _) => format!("a list of named {what}s, such as `- name: …`"),
            Self::Object(object) => format!("an object: {}", object.what),
            Self::ObjectOr(object, _, text) => format!("{text}, or an object: {}", object.what),
            Self::MapOr(..) => "an object, or a jq expression in `${ }`".to_owned(),
            Self::ListOr(..) => "a list, or a jq expression".to_owned(),
            Self::Either(_, _, text) => (*text).to_owned(),
            Self::Metadata(_) => "an object".to_owned(),
        }
    }
}
