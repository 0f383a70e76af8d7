//! Values to JSON text: always valid JSON, whatever an expression made.
//!
//! What JSON cannot say is said as nearly as it can: numbers that are not finite become `null`, bytes
//! that are not UTF-8 become the replacement character.

use std::fmt::Write as _;

use jaq_json::Num;

use super::{Value, members, parse};

/// The value as compact JSON.
pub fn to_text(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, None);
    text
}

/// The value as JSON for people, indented by two spaces.
pub fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, Some(0));
    text
}

fn write(text: &mut String, value: &Value, indent: Option<usize>) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Num(number) => write_number(text, number),
        Value::TStr(bytes) | Value::BStr(bytes) => {
            write_string(text, &String::from_utf8_lossy(bytes));
        }
        Value::Arr(elements) => {
            write_list(text, indent, ('[', ']'), elements.iter(), |text, value, indent| {
                write(text, value, indent);
            });
        }
        Value::Obj(_) => {
            write_list(text, indent, ('{', '}'), members(value), |text, (name, value), indent| {
                write_string(text, name);
                text.push_str(if indent.is_some() { ": " } else { ":" });
                write(text, value, indent);
            });
        }
    }
}

fn write_list<T>(
    text: &mut String,
    indent: Option<usize>,
    (open, close): (char, char),
    items: impl Iterator<Item = T>,
    write_item: impl Fn(&mut String, T, Option<usize>),
) {
    let deeper = indent.map(|indent| indent + 1);
    let mut empty = true;
    text.push(open);
    for item in items {
        if !empty {
            text.push(',');
        }
        empty = false;
        new_line(text, deeper);
        write_item(text, item, deeper);
    }
    if !empty {
        new_line(text, indent);
    }
    text.push(close);
}

fn new_line(text: &mut String, indent: Option<usize>) {
    if let Some(indent) = indent {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", indent));
    }
}

fn write_number(text: &mut String, number: &Num) {
    match number {
        Num::Int(_) | Num::BigInt(_) => text.push_str(&number.to_string()),
        Num::Float(number) => write_float(text, *number),
        Num::Dec(digits) if parse::is_number(digits) => text.push_str(digits),
        // A literal such as `007.5` is a number for jq but not for JSON.
        Num::Dec(digits) => write_float(text, digits.parse().unwrap_or(f64::NAN)),
    }
}

fn write_float(text: &mut String, number: f64) {
    if number.is_finite() {
        write!(text, "{number:?}").expect("writing to a string cannot fail");
    } else {
        text.push_str("null");
    }
}

fn write_string(text: &mut String, content: &str) {
    text.push('"');
    for character in content.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{0}'..='\u{1f}' | '\u{7f}' => {
                write!(text, "\\u{:04x}", u32::from(character))
                    .expect("writing to a string cannot fail");
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}
