//! What every Rust file must have, and what it must not have.

use crate::{Finding, PURE_CRATES, Source};

/// Longest production file; longer ones hide a seam (STYLE.md).
const LINES_MAX: usize = 800;
/// Longest test file.
const TEST_LINES_MAX: usize = 1200;

/// Names that say nothing of the domain.
const BANNED_NAMES: [&str; 14] = [
    "core", "common", "utils", "util", "helpers", "helper", "manager", "managers", "handler",
    "handlers", "types", "misc", "shared", "stuff",
];

/// What reaches outside from code that must be a function of its inputs, and what to do instead.
const IMPURE: [(&str, &str); 14] = [
    ("std::fs", "only `node` and `cli` touch files"),
    ("std::net", "only `node` and `cli` open sockets"),
    ("std::thread", "the driver owns threads; a machine spawns nothing"),
    ("std::process", "only `node` and `cli` run processes"),
    ("std::env", "settings come in as arguments"),
    ("Instant::now", "time comes in as an argument: `step(now, input)`"),
    ("SystemTime", "time comes in as an argument: `step(now, input)`"),
    ("Timestamp::now", "time comes in as an argument: `step(now, input)`"),
    ("Zoned::now", "time comes in as an argument: `step(now, input)`"),
    ("HashMap", "its order differs from run to run: use BTreeMap"),
    ("HashSet", "its order differs from run to run: use BTreeSet"),
    ("RandomState", "randomness comes in as an argument"),
    ("thread_local!", "state belongs into the machine's value"),
    ("tokio::", "pure crates are driven; they await nothing"),
];

/// Every rule for one Rust file.
pub fn check(source: &Source) -> Vec<Finding> {
    let rules = [module_doc, length, names, unfinished, weak_tests, sleeps, impurity]
        .map(|rule| rule(source));
    rules.into_iter().flatten().collect()
}

/// The file begins with a sentence that says what it is.
fn module_doc(source: &Source) -> Vec<Finding> {
    let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let said = first.strip_prefix("//!").is_some_and(|doc| !doc.trim().is_empty());
    if said {
        return Vec::new();
    }
    let message = "no module doc: begin the file with `//!` and a sentence that says what it is";
    vec![Finding::new(&source.path, 1, message)]
}

fn length(source: &Source) -> Vec<Finding> {
    let max = if source.is_test_file() { TEST_LINES_MAX } else { LINES_MAX };
    let lines = source.text.lines().count();
    if lines <= max {
        return Vec::new();
    }
    let message = format!("{lines} lines, {max} at most: find the seam and split it (STYLE.md)");
    vec![Finding::new(&source.path, max + 1, message)]
}

/// Modules are nouns of the domain.
fn names(source: &Source) -> Vec<Finding> {
    let stems = source.path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    stems
        .filter(|stem| BANNED_NAMES.contains(stem))
        .map(|stem| {
            let message = format!("`{stem}` says nothing: name it by what it is in the domain");
            Finding::new(&source.path, 1, message)
        })
        .collect()
}

/// What is left to do is an issue that one can look up.
fn unfinished(source: &Source) -> Vec<Finding> {
    let marks = ["TODO", "FIXME", "XXX"];
    source
        .comment_lines()
        .filter(|(_, text)| !names_an_issue(text))
        .filter_map(|(line, text)| {
            let mark = marks.iter().find(|mark| has_word(text, mark))?;
            let message = format!("{mark} without an issue: do it, or write `{mark} #12: …`");
            Some(Finding::new(&source.path, line, message))
        })
        .collect()
}

fn names_an_issue(text: &str) -> bool {
    text.split('#').skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// A test runs, and says what it expects.
fn weak_tests(source: &Source) -> Vec<Finding> {
    let weak = [
        ("#[ignore", "a test that does not run proves nothing: make it fast or delete it"),
        ("#[should_panic", "says neither what panics nor why: assert on the returned error"),
    ];
    search(source, source.code_lines(), &weak)
}

/// Only the shells may sleep, only in production code, and they say why.
fn sleeps(source: &Source) -> Vec<Finding> {
    let shell = matches!(source.crate_folder(), Some("node" | "cli"));
    let excused = |line: usize| {
        shell
            && source.production_lines().any(|(number, _)| number == line)
            && source.has_comment_at(line)
    };
    let sleep = [(
        "thread::sleep",
        "wait for a message with a timeout; in production code of a shell, say why above it",
    )];
    let mut findings = search(source, source.code_lines(), &sleep);
    findings.retain(|finding| !excused(finding.line));
    findings
}

/// Pure crates are functions of their inputs.
fn impurity(source: &Source) -> Vec<Finding> {
    match source.crate_folder() {
        Some(folder) if PURE_CRATES.contains(&folder) => {
            let mut findings = search(source, source.production_lines(), &IMPURE);
            findings.extend(grouped_imports(source));
            findings
        }
        _ => Vec::new(),
    }
}

/// `use std::{fs, net}` on one line: the same ban in another spelling.
fn grouped_imports(source: &Source) -> Vec<Finding> {
    let grouped = |line: &str| line.split_once("std::{").map(|(_, rest)| rest.to_owned());
    source
        .production_lines()
        .filter_map(|(line, text)| Some((line, grouped(text)?)))
        .flat_map(|(line, group)| {
            let banned = IMPURE.iter().filter_map(|(name, advice)| {
                let module = name.strip_prefix("std::")?;
                has_word(&group, module).then_some((name, advice))
            });
            banned
                .map(|(name, advice)| {
                    Finding::new(&source.path, line, format!("`{name}` in a pure crate: {advice}"))
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

fn search<'a>(
    source: &Source,
    lines: impl Iterator<Item = (usize, &'a str)>,
    banned: &[(&str, &str)],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in lines {
        for (words, advice) in banned {
            if has_word(text, words) {
                let message = format!("`{words}` does not belong here: {advice}");
                findings.push(Finding::new(&source.path, line, message));
            }
        }
    }
    findings
}

/// Whether the words occur, and not as part of a longer name.
fn has_word(text: &str, words: &str) -> bool {
    let part_of_name = |character: char| character.is_alphanumeric() || character == '_';
    let open_end = !words.ends_with(part_of_name);
    text.match_indices(words).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + words.len()..].chars().next();
        let begins = !words.starts_with(part_of_name) || !before.is_some_and(part_of_name);
        begins && (open_end || !after.is_some_and(part_of_name))
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::Source;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).iter().map(ToString::to_string).collect()
    }

    fn assert_bites(path: &str, text: &str, expected: &str) {
        let found = findings(path, text);
        assert!(found.iter().any(|finding| finding.contains(expected)), "{expected}: {found:?}");
    }

    fn assert_passes(path: &str, text: &str) {
        assert_eq!(findings(path, text), Vec::<String>::new());
    }

    #[test]
    fn passes_a_file_in_order() {
        assert_passes("crates/engine/src/shard.rs", "//! A shard.\n\nuse std::time::Duration;\n");
    }

    #[test]
    fn asks_for_a_module_doc() {
        assert_bites("crates/engine/src/shard.rs", "use a::B;\n", "shard.rs:1: no module doc");
        assert_bites("crates/engine/src/shard.rs", "//!\nuse a::B;\n", "no module doc");
    }

    #[test]
    fn asks_for_a_seam_in_a_long_file() {
        let long = "//! Long.\n".repeat(801);
        assert_bites("crates/node/src/a.rs", &long, "a.rs:801: 801 lines, 800 at most");
        assert_passes("crates/node/tests/a.rs", &long);
        let longer = "//! Long.\n".repeat(1201);
        assert_bites("crates/node/tests/a.rs", &longer, "1200 at most");
    }

    #[test]
    fn rejects_names_that_say_nothing() {
        for path in
            ["crates/node/src/utils.rs", "crates/common/src/lib.rs", "crates/a/src/core/b.rs"]
        {
            assert_bites(path, "//! Things.\n", "says nothing");
        }
    }

    #[test]
    fn asks_for_the_issue_behind_a_mark() {
        let path = "crates/node/src/a.rs";
        assert_bites(path, "//! A.\n// TODO: better\n", "a.rs:2: TODO without an issue");
        assert_bites(path, "//! A.\n/* FIXME */\n", "FIXME without an issue");
        assert_passes(path, "//! A.\n// TODO #12: better\nlet text = \"TODO\";\n");
    }

    #[test]
    fn rejects_tests_that_do_not_run_or_say_nothing() {
        let path = "crates/node/tests/a.rs";
        assert_bites(path, "//! A.\n#[ignore = \"slow\"]\nfn a() {}\n", "a.rs:2: `#[ignore`");
        assert_bites(path, "//! A.\n#[should_panic]\nfn a() {}\n", "`#[should_panic`");
    }

    #[test]
    fn lets_only_shells_sleep_and_only_with_a_reason() {
        let silent = "//! A.\n\nfn a() { std::thread::sleep(b); }\n";
        let reasoned =
            "//! A.\n\n// The device needs a pause.\nfn a() { std::thread::sleep(b); }\n";
        assert_bites("crates/node/src/a.rs", silent, "a.rs:3: `thread::sleep`");
        assert_passes("crates/node/src/a.rs", reasoned);
        assert_bites("crates/node/tests/a.rs", reasoned, "`thread::sleep`");
        assert_bites("crates/tidy/src/a.rs", reasoned, "`thread::sleep`");
    }

    #[test]
    fn keeps_pure_crates_pure() {
        for line in [
            "use std::fs;",
            "use std::{fmt, net};",
            "let now = Instant::now();",
            "let now: SystemTime = a;",
            "let map: HashMap<A, B> = b;",
            "std::thread::spawn(a);",
            "tokio::spawn(a);",
        ] {
            let text = format!("//! A.\n{line}\n");
            assert_bites("crates/workflow/src/a.rs", &text, "a.rs:2: `");
            assert_passes("crates/node/src/a.rs", &text);
            assert_passes("crates/workflow/tests/a.rs", &text);
        }
        assert_passes(
            "crates/workflow/src/a.rs",
            "//! A HashMap.\nuse my_std::fs_of::IndexHashMapping;\n",
        );
    }
}
