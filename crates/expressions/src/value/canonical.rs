//! One byte string per value, however it is written: for digests.
//!
//! Members are sorted by name and numbers that are equal give the same bytes, so two requests that
//! mean the same have the same digest. Every part carries its length, so no two different values give
//! the same bytes.

use jaq_json::Num;
use jaq_std::ValT as _;

use super::Value;

/// The bytes that stand for this value in a digest.
pub fn canonical_bytes(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, value);
    bytes
}

fn write(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.push(b'n'),
        Value::Bool(truth) => bytes.push(if *truth { b't' } else { b'f' }),
        Value::Num(number) => write_part(bytes, b'#', number_text(number, value).as_bytes()),
        Value::TStr(text) | Value::BStr(text) => write_part(bytes, b's', text),
        Value::Arr(elements) => {
            write_length(bytes, b'[', elements.len());
            elements.iter().for_each(|value| write(bytes, value));
        }
        Value::Obj(members) => {
            write_length(bytes, b'{', members.len());
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            for (name, value) in sorted {
                write(bytes, name);
                write(bytes, value);
            }
        }
    }
}

/// Whole numbers in plain digits, others in the shortest form that reads back the same.
fn number_text(number: &Num, value: &Value) -> String {
    if matches!(number, Num::Int(_) | Num::BigInt(_)) {
        return number.to_string();
    }
    /// Beyond this, a floating-point number no longer tells whole numbers apart.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() <= EXACT => (float as i64).to_string(),
        Some(float) if float.is_finite() => format!("{float:?}"),
        // Too large for a floating-point number: only its own digits tell it apart.
        _ => number.to_string(),
    }
}

fn write_part(bytes: &mut Vec<u8>, kind: u8, content: &[u8]) {
    write_length(bytes, kind, content.len());
    bytes.extend_from_slice(content);
}

fn write_length(bytes: &mut Vec<u8>, kind: u8, length: usize) {
    bytes.push(kind);
    bytes.extend_from_slice(&(length as u64).to_be_bytes());
}
