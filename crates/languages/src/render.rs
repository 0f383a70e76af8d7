//! Diagnostics as text, in the manner of rustc: the line, underlined, and what to do.

use std::fmt::Write;

use outlast_workflow::program::Place;

use crate::{Diagnostic, Report, Severity};

/// Columns of a source line that are shown; documents may have lines of any length.
const COLUMNS_MAX: usize = 160;

/// What is written before and after coloured text.
struct Paint {
    error: &'static str,
    warning: &'static str,
    frame: &'static str,
    strong: &'static str,
    end: &'static str,
}

const PLAIN: Paint = Paint { error: "", warning: "", frame: "", strong: "", end: "" };
const COLORED: Paint = Paint {
    error: "\u{1b}[1;31m",
    warning: "\u{1b}[1;33m",
    frame: "\u{1b}[1;34m",
    strong: "\u{1b}[1m",
    end: "\u{1b}[0m",
};

impl Paint {
    const fn of(color: bool) -> &'static Self {
        if color { &COLORED } else { &PLAIN }
    }

    const fn severity(&self, severity: Severity) -> &'static str {
        match severity {
            Severity::Error => self.error,
            Severity::Warning => self.warning,
        }
    }
}

/// The whole report: every problem, then how many there are.
pub(crate) fn report(report: &Report, text: &str, color: bool) -> String {
    let mut out = String::new();
    for found in &report.diagnostics {
        out.push_str(&diagnostic(found, &report.file, text, color));
        out.push('\n');
    }
    out.push_str(&summary(report));
    out
}

fn summary(report: &Report) -> String {
    let plural = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let errors = report.count(Severity::Error);
    let warnings = report.count(Severity::Warning);
    let mut parts = Vec::new();
    if errors > 0 {
        parts.push(plural(errors, "error"));
    }
    if warnings > 0 {
        parts.push(plural(warnings, "warning"));
    }
    if report.unlisted > 0 {
        parts.push(format!("{} more not listed", report.unlisted));
    }
    match parts.is_empty() {
        true => format!("{}: no problems\n", report.file),
        false => format!("{}: {}\n", report.file, parts.join(", ")),
    }
}

/// One problem with its source lines.
pub(crate) fn diagnostic(found: &Diagnostic, file: &str, text: &str, color: bool) -> String {
    let paint = Paint::of(color);
    let tint = paint.severity(found.severity);
    let width = gutter_width(found);
    let mut out = format!(
        "{tint}{}[{}]{}{}: {}{}\n",
        found.severity.word(),
        found.code,
        paint.end,
        paint.strong,
        found.message,
        paint.end
    );
    snippet(&mut out, &found.place, file, text, width, ("-->", '^', ""), (paint, tint));
    for related in &found.related {
        let marks = (":::", '-', related.message.as_str());
        snippet(&mut out, &related.place, file, text, width, marks, (paint, paint.frame));
    }
    if let Some(help) = &found.help {
        let frame = format!("{}{:width$} ={}", paint.frame, "", paint.end);
        writeln!(out, "{frame} help: {help}").expect("text grows");
    }
    out
}

fn gutter_width(found: &Diagnostic) -> usize {
    let related = found.related.iter().map(|related| related.place.span.line);
    let last = related.fold(found.place.span.line, u32::max);
    last.to_string().len()
}

/// The place's line with its part underlined; only the file if the place is unknown.
fn snippet(
    out: &mut String,
    place: &Place,
    file: &str,
    text: &str,
    width: usize,
    (arrow, mark, label): (&str, char, &str),
    (paint, tint): (&Paint, &str),
) {
    let (frame, end) = (paint.frame, paint.end);
    let span = place.span;
    let Some(line) = text.lines().nth((span.line as usize).wrapping_sub(1)) else {
        writeln!(out, "{frame}{:width$}{arrow}{end} {file}", "").expect("text grows");
        return;
    };
    let column = span.column.max(1) as usize;
    let (shown, indent) = visible(line, column);
    let room = shown.chars().count().saturating_sub(indent).max(1);
    let underline = mark.to_string().repeat((span.length as usize).clamp(1, room));
    let line_number = span.line;
    writeln!(out, "{frame}{:width$}{arrow}{end} {file}:{line_number}:{column}", "")
        .and_then(|()| writeln!(out, "{frame}{:width$} |{end}", ""))
        .and_then(|()| writeln!(out, "{frame}{line_number:width$} |{end} {shown}"))
        .and_then(|()| {
            let gap = " ".repeat(indent);
            let label = if label.is_empty() { String::new() } else { format!(" {label}") };
            writeln!(out, "{frame}{:width$} |{end} {gap}{tint}{underline}{label}{end}", "")
        })
        .expect("text grows");
}

/// The part of a line that is shown, and where in it the column is. Tabs and control characters
/// become single spaces so that the underline stays in line with what it marks.
fn visible(line: &str, column: usize) -> (String, usize) {
    let start = (column - 1).saturating_sub(COLUMNS_MAX / 2);
    let start = if line.chars().count() <= COLUMNS_MAX { 0 } else { start };
    let shown = line
        .chars()
        .skip(start)
        .take(COLUMNS_MAX)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect::<String>();
    (shown.trim_end().to_owned(), column - 1 - start)
}
