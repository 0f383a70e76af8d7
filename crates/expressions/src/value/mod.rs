//! The values that flow through workflows: JSON, shared, cheap to clone.
//!
//! A value is jaq's: integers of any size and decimals keep every digit they were written with, and
//! arrays and objects are shared, so that a clone copies a pointer. What enters from outside goes
//! through [`parse`], [`from_json`] or [`codec::decode`], which bound its size and depth; what an
//! expression makes is held to the same depth by the filter that made it.
//!
//! Invariant: no value is nested deeper than [`DEPTH_MAX`], and the keys of objects are texts.

mod canonical;
pub mod codec;
mod deferred;
mod parse;
mod text;

use std::sync::Arc;

use jaq_std::ValT as _;

pub use canonical::canonical_bytes;
pub use deferred::Deferred;
pub use parse::{ParseError, TEXT_BYTES_MAX, parse};
pub use text::{pretty, to_text};

/// A JSON value whose arrays and objects are shared, so that a clone copies nothing.
pub type Value = jaq_json::Val;

/// How deep arrays and objects may be nested. Values are walked by recursion when they are written,
/// compared and dropped, so this bounds the stack that any of these needs.
pub const DEPTH_MAX: usize = 256;

/// How many members an object has at most in which one is found by looking at all of them.
const FEW: usize = 12;

/// The empty value.
pub const fn null() -> Value {
    Value::Null
}

/// A truth value.
pub const fn boolean(truth: bool) -> Value {
    Value::Bool(truth)
}

/// A text value.
pub fn string(text: &str) -> Value {
    Value::utf8_str(text.as_bytes().to_vec())
}

/// A whole number.
pub fn integer(number: i64) -> Value {
    Value::Num(jaq_json::Num::from_integral(number))
}

/// A floating-point number. What is not finite is written as `null`.
pub fn float(number: f64) -> Value {
    Value::from(number)
}

/// An array of elements in the given order.
pub fn array(elements: impl IntoIterator<Item = Value>) -> Value {
    elements.into_iter().collect()
}

/// An object of members in the given order; of two members with one name the later counts.
pub fn object<'a>(members: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::obj(members.into_iter().map(|(name, value)| (string(name), value)).collect())
}

/// The member of an object, if the value is an object that has it.
pub fn get<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        // To look among few is quicker than to make the text that is looked up.
        Value::Obj(members) if members.len() <= FEW => {
            let has_name = |key: &Value| matches!(key, Value::TStr(text) if **text == *name);
            members.iter().find(|(key, _)| has_name(key)).map(|(_, value)| value)
        }
        Value::Obj(members) => members.get(&string(name)),
        _ => None,
    }
}

/// The members of an object in their order; nothing for any other value.
pub fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = match value {
        Value::Obj(members) => Some(members),
        _ => None,
    };
    members.into_iter().flat_map(|members| members.iter()).map(|(name, value)| {
        // The invariant of this module makes every key a text; a damaged one reads as empty.
        (as_str(name).unwrap_or_default(), value)
    })
}

/// The elements of an array, if the value is an array.
pub fn as_array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Arr(elements) => Some(elements),
        _ => None,
    }
}

/// The text, if the value is a text in valid UTF-8.
pub fn as_str(value: &Value) -> Option<&str> {
    match value {
        Value::TStr(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// The whole number, if the value is one that fits.
pub fn as_i64(value: &Value) -> Option<i64> {
    if let Some(number) = value.as_isize() {
        return i64::try_from(number).ok();
    }
    // 3.0 is a whole number too, as far as floating-point numbers tell them apart.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = value.as_f64()?;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// The number, rounded to a floating-point number, if the value is a number.
pub fn as_f64(value: &Value) -> Option<f64> {
    value.as_f64()
}

/// The truth value, if the value is one.
pub const fn as_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        _ => None,
    }
}

/// Whether the value is `null`.
pub const fn is_null(value: &Value) -> bool {
    matches!(value, Value::Null)
}

/// Truth as jq sees it: everything but `null` and `false` is true.
pub const fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

/// Whether two values are equal; `1` and `1.0` are, and the order of members does not count.
pub fn equal(left: &Value, right: &Value) -> bool {
    left == right
}

/// Whether two values are known to be the same, digit by digit and in the same order, without a look
/// into what they hold: one is a clone of the other, or both are simple.
pub fn same(left: &Value, right: &Value) -> bool {
    use jaq_json::Num::Int;
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Num(Int(left)), Value::Num(Int(right))) => left == right,
        (Value::TStr(left), Value::TStr(right)) => left == right,
        (Value::Arr(left), Value::Arr(right)) => Arc::ptr_eq(left, right),
        (Value::Obj(left), Value::Obj(right)) => Arc::ptr_eq(left, right),
        _ => false,
    }
}

/// What kind of value it is, in jq's words.
pub const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Num(_) => "number",
        Value::TStr(_) | Value::BStr(_) => "string",
        Value::Arr(_) => "array",
        Value::Obj(_) => "object",
    }
}

/// The size of the value as text, roughly, counted only until it is over `limit`.
pub fn weight(value: &Value, limit: usize) -> usize {
    let mut weight = 0;
    add_weight(value, limit, &mut weight);
    weight
}

/// Adds up; says whether more is to be added.
fn add_weight(value: &Value, limit: usize, weight: &mut usize) -> bool {
    *weight += match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Num(jaq_json::Num::BigInt(number)) => {
            // A decimal digit holds a little over three bits.
            usize::try_from(number.bits() / 3).unwrap_or(usize::MAX).saturating_add(2)
        }
        Value::Num(jaq_json::Num::Dec(digits)) => digits.len() + 1,
        Value::Num(_) => 12,
        Value::BStr(bytes) | Value::TStr(bytes) => bytes.len() + 3,
        Value::Arr(elements) => elements.len() + 2,
        Value::Obj(members) => 2 * members.len() + 2,
    };
    if *weight > limit {
        return false;
    }
    let mut add = |value| add_weight(value, limit, weight);
    match value {
        Value::Arr(elements) => elements.iter().all(add),
        Value::Obj(members) => members.iter().all(|(name, value)| add(name) && add(value)),
        _ => true,
    }
}

/// Whether the value keeps the invariant of this module, and if not, what is wrong with it.
pub fn check(value: &Value) -> Result<(), String> {
    fn walk(value: &Value, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("the value is nested more than {DEPTH_MAX} deep"));
        }
        match value {
            Value::Arr(elements) => elements.iter().try_for_each(|value| walk(value, depth + 1)),
            Value::Obj(members) => members.iter().try_for_each(|(key, value)| match key {
                Value::TStr(_) => walk(value, depth + 1),
                _ => Err(format!("the key of an object must be a string, not a {}", kind(key))),
            }),
            _ => Ok(()),
        }
    }
    walk(value, 0)
}

/// Takes over a JSON tree.
pub fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(truth),
        serde_json::Value::Number(number) => parse::number(&number.to_string()),
        serde_json::Value::String(text) => Value::from(text),
        serde_json::Value::Array(elements) => elements.into_iter().map(from_json).collect(),
        serde_json::Value::Object(members) => Value::obj(
            members
                .into_iter()
                .map(|(name, value)| (Value::from(name), from_json(value)))
                .collect(),
        ),
    }
}

/// Gives the value as a JSON tree; numbers that do not fit are rounded to floating-point numbers.
pub fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => serde_json::Value::Bool(*truth),
        Value::Num(number) => number_to_json(number, value),
        Value::TStr(bytes) | Value::BStr(bytes) => {
            serde_json::Value::String(String::from_utf8_lossy(bytes).into_owned())
        }
        Value::Arr(elements) => serde_json::Value::Array(elements.iter().map(to_json).collect()),
        Value::Obj(_) => serde_json::Value::Object(
            members(value).map(|(name, value)| (name.to_owned(), to_json(value))).collect(),
        ),
    }
}

fn number_to_json(number: &jaq_json::Num, value: &Value) -> serde_json::Value {
    if let Some(whole) = number.as_isize() {
        return serde_json::Value::from(whole);
    }
    if let jaq_json::Num::BigInt(_) = number
        && let Ok(whole) = number.to_string().parse::<u64>()
    {
        return serde_json::Value::from(whole);
    }
    value.as_f64().map_or(serde_json::Value::Null, serde_json::Value::from)
}

#[cfg(test)]
mod tests;
