//! Any text as a workflow definition.
//!
//! A document comes from strangers. Whatever it holds, it is judged within bounded time and memory,
//! every problem points into it, and what is accepted means the same each time it is compiled.

use outlast_languages::{Report, Severity, openworkflow};
use outlast_workflow::program::{Place, Program};
use outlast_workflow::{TaskId, drawing};

const FILE: &str = "flow.yaml";

pub(crate) fn hold(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let report = openworkflow::check(FILE, &text);
    for found in &report.diagnostics {
        points_into(&text, &found.place);
        found.related.iter().for_each(|related| points_into(&text, &related.place));
    }
    is_shown(&report, &text);
    let rejected = report.count(Severity::Error) > 0;
    assert!(!(rejected && report.is_accepted()), "accepted in spite of its errors");
    assert!(rejected || report.unlisted > 0 || report.is_accepted(), "rejected without a word");
    let again = openworkflow::check(FILE, &text);
    assert_eq!(report.diagnostics, again.diagnostics, "another judgement the second time");
    if let (Some(program), Some(again)) = (&report.program, &again.program) {
        assert_eq!(format!("{program:?}"), format!("{again:?}"), "another program the second time");
        is_sound(program, &text);
    }
}

/// A place is in the text, or says that it is unknown. An underline may stand behind the last
/// character of its line, where something is missing.
fn points_into(text: &str, place: &Place) {
    let span = place.span;
    if span.line == 0 {
        return;
    }
    let line = text.lines().nth(span.line as usize - 1).unwrap_or_default();
    let length = line.chars().count();
    let (column, end) = (span.column as usize, span.column as usize - 1 + span.length as usize);
    assert!(span.line as usize <= text.lines().count().max(1), "{place:?} is below the text");
    assert!(1 <= column && column <= length + 1, "{place:?} begins outside `{line}`");
    assert!(end <= length.max(column), "{place:?} ends outside `{line}`");
}

fn is_shown(report: &Report, text: &str) {
    let plain = report.render(text, false);
    assert!(report.diagnostics.iter().all(|found| plain.contains(&found.message)));
    assert!(plain.len() <= report.render(text, true).len());
    let listed = report.to_json()["diagnostics"].as_array().map_or(0, Vec::len);
    assert_eq!(listed, report.diagnostics.len());
}

fn is_sound(program: &Program, text: &str) {
    assert!(!program.tasks.is_empty());
    for task in &program.tasks {
        points_into(text, &task.place);
        let found = openworkflow::locate(text, &task.place.pointer);
        assert!(found.is_some(), "{:?} cannot be found again", task.place);
    }
    let idle = |_: TaskId| drawing::TaskView::default();
    assert!(drawing::svg(program, &idle).ends_with("</svg>\n"));
    assert!(!drawing::mermaid(program, &idle).is_empty());
}
