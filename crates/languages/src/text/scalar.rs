//! What a scalar means: YAML 1.2's core schema, which JSON agrees with.
//!
//! `on`, `off`, `yes` and `no` are text here; only YAML 1.1 made them booleans.

use saphyr_parser::{ScalarStyle, Tag};
use serde_json::Number;

use super::NodeKind;

/// Why a scalar has no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) message: String,
    /// What to do about it, where any value may stand.
    pub(super) help: Option<&'static str>,
}

/// The value of a scalar, or why it has none.
pub(super) fn resolve(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<NodeKind, Refusal> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() => tagged(text, &tag.suffix),
        Some(tag) => Err(refusal(format!("the tag `{tag}` has no meaning here"))),
        None if style == ScalarStyle::Plain => plain(text),
        None => Ok(NodeKind::Text(text.to_owned())),
    }
}

/// What a text without quotes around it is; text if it is nothing else.
pub(crate) fn unquoted(text: &str) -> Option<NodeKind> {
    plain(text).ok()
}

const fn refusal(message: String) -> Refusal {
    Refusal { message, help: None }
}

fn tagged(text: &str, kind: &str) -> Result<NodeKind, Refusal> {
    let value = match kind {
        "str" => return Ok(NodeKind::Text(text.to_owned())),
        "null" | "bool" | "int" | "float" => plain(text)?,
        _ => return Err(refusal(format!("the tag `!!{kind}` has no meaning here"))),
    };
    let fits = match (&value, kind) {
        (NodeKind::Null, "null") | (NodeKind::Boolean(_), "bool") => true,
        (NodeKind::Number(number), "int") => !number.is_f64(),
        (NodeKind::Number(_), "float") => true,
        _ => false,
    };
    fits.then_some(value).ok_or_else(|| refusal(format!("`{text}` is not a `!!{kind}`")))
}

fn plain(text: &str) -> Result<NodeKind, Refusal> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeKind::Null,
        "true" | "True" | "TRUE" => NodeKind::Boolean(true),
        "false" | "False" | "FALSE" => NodeKind::Boolean(false),
        _ => match number(text) {
            Some(number) => NodeKind::Number(number?),
            None => NodeKind::Text(text.to_owned()),
        },
    })
}

/// The number a plain scalar spells, if it looks like one.
fn number(text: &str) -> Option<Result<Number, Refusal>> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits(unsigned) {
        return Some(integer(text.parse::<i64>().ok(), text.parse::<u64>().ok(), text));
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(rest) = text.strip_prefix(prefix)
            && !rest.is_empty()
            && rest.chars().all(|digit| digit.is_digit(radix))
        {
            return Some(integer(None, u64::from_str_radix(rest, radix).ok(), text));
        }
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Err(refusal(format!("`{text}` cannot be written in JSON"))));
    }
    looks_like_float(unsigned).then(|| {
        let finite = text.parse::<f64>().ok().and_then(Number::from_f64);
        finite.ok_or_else(|| too_big(text))
    })
}

fn integer(signed: Option<i64>, unsigned: Option<u64>, text: &str) -> Result<Number, Refusal> {
    let number = signed.map(Number::from).or_else(|| unsigned.map(Number::from));
    number.ok_or_else(|| too_big(text))
}

fn too_big(text: &str) -> Refusal {
    let message = format!("the number `{text}` is too big");
    Refusal { message, help: Some("put it in quotes to keep it as text") }
}

/// `digits [. digits] [e digits]` with digits on at least one side of the point.
fn looks_like_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let whole_and_part = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(whole_and_part.0)
        && digits(whole_and_part.1)
        && mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_fits && exponent_fits
}
