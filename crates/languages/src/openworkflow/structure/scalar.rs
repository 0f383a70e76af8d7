//! Scalars: whether one fits its shape, and what to do if it does not.

use super::shape::Shape;
use crate::openworkflow::duration::UNITS;
use crate::text::{Cursor, Node, NodeKind, unquoted};

/// Whether a scalar fits a scalar shape.
pub(super) fn fits(shape: &Shape, node: &Node) -> bool {
    match (shape, &node.kind) {
        (Shape::Text, NodeKind::Text(_)) => true,
        (Shape::Expression, NodeKind::Text(text)) => !text.trim().is_empty(),
        (Shape::Wrapped, NodeKind::Text(text)) => is_wrapped(text),
        (Shape::Version, NodeKind::Text(text)) => is_version(text),
        (Shape::Label, NodeKind::Text(text)) => is_label(text),
        (Shape::Uri, NodeKind::Text(text)) => {
            !text.is_empty() && !is_wrapped(text) && !text.contains(char::is_whitespace)
        }
        (Shape::Boolean, NodeKind::Boolean(_)) | (Shape::Number, NodeKind::Number(_)) => true,
        (Shape::Integer(least), NodeKind::Number(number)) => {
            number.as_i64().is_some_and(|whole| whole >= *least)
        }
        _ => false,
    }
}

pub(super) const fn is_collection(shape: &Shape) -> bool {
    matches!(
        shape,
        Shape::List(_) | Shape::Map(_) | Shape::Named(..) | Shape::Object(_) | Shape::Metadata(_)
    )
}

/// Whether a text is an expression by strict mode: `${ … }` and nothing around it.
pub(in super::super) fn is_wrapped(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("${") && text.ends_with('}')
}

fn is_version(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or("");
    let parts: Vec<&str> = core.split('.').collect();
    let numeric = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
    };
    parts.len() == 3 && parts.iter().all(numeric)
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

pub(super) fn title(at: &Cursor<'_>) -> String {
    match at.key {
        Some(entry) => format!("`{}`", entry.name),
        None => "this item".to_owned(),
    }
}

/// What to do about a value of the wrong type.
pub(super) fn type_help(node: &Node, shape: &Shape) -> Option<String> {
    Some(match (&node.kind, shape) {
        (NodeKind::Number(number), Shape::Version) => {
            let parts = number.to_string().matches('.').count() + 1;
            let rest = ".0".repeat(3usize.saturating_sub(parts));
            format!("put it in quotes and give all three parts, such as '{number}{rest}'")
        }
        (NodeKind::Number(_) | NodeKind::Boolean(_), Shape::Text | Shape::Label) => {
            "put it in quotes".to_owned()
        }
        (NodeKind::Text(text), Shape::Boolean)
            if ["yes", "no", "on", "off"].contains(&text.to_lowercase().as_str()) =>
        {
            format!("`{text}` is text in YAML 1.2; write `true` or `false`")
        }
        (NodeKind::Text(text), Shape::Boolean | Shape::Number | Shape::Integer(_)) => {
            return text_help(node, text, shape);
        }
        (NodeKind::Map(_), Shape::Named(what, _)) => {
            format!("write a list: put `- ` before the name of each {what}")
        }
        (NodeKind::Boolean(value), Shape::Expression) => {
            format!("write it as an expression: '${{ {value} }}'")
        }
        (NodeKind::Number(_), Shape::Duration | Shape::CalendarDuration) => {
            "say in which unit, such as `{ seconds: 30 }`".to_owned()
        }
        (NodeKind::Null, _) => "give it a value, or remove the key".to_owned(),
        _ => return None,
    })
}

/// What to do about a text where a number or a boolean is wanted. There are quotes around it only if
/// it would be something else without them.
fn text_help(node: &Node, text: &str, shape: &Shape) -> Option<String> {
    if is_wrapped(text) {
        return Some("it cannot be an expression; write the value itself".to_owned());
    }
    let unquoted = Node { kind: unquoted(text)?, span: node.span };
    fits(shape, &unquoted).then(|| "remove the quotes".to_owned())
}

/// What to do about a value of the right type that does not fit.
pub(super) fn value_help(at: &Cursor<'_>, shape: &Shape) -> Option<String> {
    if let (NodeKind::Number(number), Shape::Integer(_)) = (&at.node.kind, shape) {
        let has_smaller = number.is_f64() && UNITS.contains(&at.name());
        return has_smaller.then(|| "use a smaller unit, or round it".to_owned());
    }
    let NodeKind::Text(text) = &at.node.kind else { return None };
    Some(match shape {
        Shape::Version => "semantic versions have three numbers: major.minor.patch".to_owned(),
        Shape::Label => {
            let label: String = text
                .chars()
                .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
                .take(63)
                .collect();
            let label = label.trim_matches('-');
            match label.is_empty() {
                true => return None,
                false => format!("such as `{label}`"),
            }
        }
        Shape::Wrapped => format!("wrap it: '${{ {text} }}'"),
        Shape::Either(Shape::Uri, ..) | Shape::Uri if text.contains(char::is_whitespace) => {
            "a URI has no spaces; write `%20` for one".to_owned()
        }
        Shape::Expression => "write `.` to take the data as it is".to_owned(),
        _ => return None,
    })
}
