//! Answers of a node for people: columns, and members of JSON objects as text.
//!
//! What others wrote, such as the names of executions and tasks, is not to be obeyed by the terminal it is shown
//! on: control characters are escaped.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::Value as Json;

use crate::exit::Exit;

/// Rows in columns as wide as their widest cell; the last column is not padded.
pub(crate) fn columns(headings: &[&str], rows: &[Vec<String>]) -> String {
    let harmless = |row: &Vec<String>| row.iter().map(|cell| harmless(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(harmless).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..headings.len()).map(width).collect();
    let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&headings).chain(&rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(text, "{}", line.trim_end()).expect("text grows");
    }
    text
}

/// Names and values, one pair a line, the values in line.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in pairs {
        writeln!(text, "{name:<width$}  {}", harmless(value)).expect("text grows");
    }
    text
}

/// A text on one line, without anything that a terminal obeys.
pub(crate) fn harmless(text: &str) -> String {
    let escaped = text.chars().map(|character| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    });
    escaped.collect()
}

/// JSON as it was written, but for control characters that JSON leaves as they are within texts.
pub(crate) fn harmless_json(text: &str) -> String {
    let escaped = text.chars().map(|character| match character {
        '\u{7f}'..='\u{9f}' => format!("\\u{:04x}", u32::from(character)),
        character => character.to_string(),
    });
    escaped.collect()
}

/// A member as text; a dash if it is not there.
pub(crate) fn text(object: &Json, name: &str) -> String {
    match object.get(name) {
        None | Some(Json::Null) => "-".to_owned(),
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A time without its fraction of a second, as lists show it.
pub(crate) fn seconds(object: &Json, name: &str) -> String {
    let time = text(object, name);
    match time.split_once('.') {
        Some((whole, _)) => format!("{whole}Z"),
        None => time,
    }
}

/// Says which nodes did not answer, if a list lacks what only they know.
pub(crate) fn tell_unanswered<'a>(silent: impl IntoIterator<Item = &'a str>) {
    let silent: Vec<_> = silent.into_iter().collect();
    if !silent.is_empty() {
        tell!("no answer from {}: what only they hold is missing", silent.join(", "));
    }
}

/// The texts of a member that is a list of them.
pub(crate) fn texts<'a>(object: &'a Json, name: &str) -> impl Iterator<Item = &'a str> {
    object.get(name).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
}

/// Prints a value as JSON for programs and for people.
pub(crate) fn print_json(value: &Json) {
    print(&(harmless_json(&format!("{value:#}")) + "\n"));
}

/// Prints what was asked for.
pub(crate) fn print(text: &str) {
    let mut output = std::io::stdout().lock();
    if output.write_all(text.as_bytes()).and_then(|()| output.flush()).is_err() {
        // Whoever read it (`| head`) has seen enough and left: there is nobody to tell more.
        std::process::exit(Exit::Completed as i32);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows =
            [vec!["a".to_owned(), "long".to_owned()], vec!["bcd".to_owned(), "x".to_owned()]];
        assert_eq!(columns(&["id", "what"], &rows), "id   what\na    long\nbcd  x\n");
    }

    #[test]
    fn nothing_that_is_shown_is_obeyed_by_a_terminal() {
        let name = "a\u{1b}[2J\n\t\u{7f}\u{9b}ü".to_owned();
        let shown = r"a\u{1b}[2J\n\t\u{7f}\u{9b}ü";
        let expected = format!("name                         x\n{shown}  y\n");
        assert_eq!(columns(&["name", "x"], &[vec![name.clone(), "y".to_owned()]]), expected);
        assert_eq!(pairs(&[("name", name.clone())]), format!("name  {shown}\n"));
        let written = json!({ "name": name });
        let text = harmless_json(&format!("{written:#}"));
        assert!(!text.contains(|it: char| it.is_control() && it != '\n'), "{text}");
        assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), written);
    }

    #[test]
    fn what_is_not_there_is_a_dash() {
        let object = json!({"name": null, "number": 3, "time": "2026-01-01T00:00:00.123456Z"});
        assert_eq!((text(&object, "name"), text(&object, "other")), ("-".into(), "-".into()));
        assert_eq!(text(&object, "number"), "3");
        assert_eq!(seconds(&object, "time"), "2026-01-01T00:00:00Z");
    }
}
