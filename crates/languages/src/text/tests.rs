//! Tests of reading: YAML's traps, limits, and places.

use outlast_workflow::program::Span;
use serde_json::json;

use super::{Cursor, read};
use crate::Diagnostic;

fn json_of(text: &str) -> serde_json::Value {
    let (root, problems) = read(text);
    assert_eq!(problems, [], "{text}");
    root.unwrap().to_json()
}

fn first_problem(text: &str) -> Diagnostic {
    let (_, problems) = read(text);
    problems.into_iter().next().unwrap_or_else(|| panic!("no problem in {text}"))
}

fn key_span(text: &str, pointer: &str) -> Span {
    let (root, _) = read(text);
    Cursor::root(&root.unwrap()).follow(pointer).key_place().span
}

#[test]
fn reads_yaml_1_2_and_not_1_1() {
    let text = "on: on\nyes: no\noctal: 0o17\nzeros: 012\ndate: 2026-11-15\nsexagesimal: 12:30\n";
    let expected = json!({
        "on": "on", "yes": "no", "octal": 15, "zeros": 12, "date": "2026-11-15",
        "sexagesimal": "12:30",
    });
    assert_eq!(json_of(text), expected);
}

#[test]
fn reads_the_core_schema() {
    let text = "[null, ~, true, False, -3, +4, 0x1F, 1.5, 1e3, .5, 'true', \"1\", !!str 1, a b]";
    let expected =
        json!([null, null, true, false, -3, 4, 31, 1.5, 1000.0, 0.5, "true", "1", "1", "a b"]);
    assert_eq!(json_of(text), expected);
}

#[test]
fn takes_the_text_of_keys_as_it_stands() {
    assert_eq!(json_of("true: 1\n1: 2\nnull: 3\n"), json!({ "true": 1, "1": 2, "null": 3 }));
}

#[test]
fn reads_json_indented_with_tabs() {
    let text = "{\n\t\"document\": {\n\t\t\"name\": \"a\\u00e9\\n\"\n\t},\n\t\"do\": []\n}\n";
    assert_eq!(json_of(text), json!({ "document": { "name": "aé\n" }, "do": [] }));
}

#[test]
fn keeps_block_texts() {
    assert_eq!(json_of("a: |\n  one\n  two\nb: >\n  one\n  two\n"), {
        json!({ "a": "one\ntwo\n", "b": "one two\n" })
    });
}

#[test]
fn copies_what_an_alias_names() {
    assert_eq!(json_of("a: &x [1, 2]\nb: *x\n"), json!({ "a": [1, 2], "b": [1, 2] }));
}

#[test]
fn knows_where_keys_and_values_stand() {
    let text = "do:\n  - first:\n      set: { né: 1 }\n  - second:\n      wait: PT1S\n";
    assert_eq!(key_span(text, "/do"), Span { line: 1, column: 1, length: 2 });
    assert_eq!(key_span(text, "/do/1/second"), Span { line: 4, column: 5, length: 6 });
    assert_eq!(key_span(text, "/do/0/first/set/né"), Span { line: 3, column: 14, length: 2 });
    let (root, _) = read(text);
    let value = Cursor::root(root.as_ref().unwrap()).follow("/do/1/second/wait").place().span;
    assert_eq!(value, Span { line: 5, column: 13, length: 4 });
}

#[test]
fn knows_where_a_collection_in_brackets_ends() {
    let text = "a: [1, [2, 3]] # not this\nb: { c: {}, d: [e: 1, f] } # nor this\ng: &h [1] #\n\
                i: [1,\n  2] #\nj:\n  k: 1\n";
    let (root, _) = read(text);
    let root = root.unwrap();
    let span = |pointer: &str| Cursor::root(&root).follow(pointer).place().span;
    let found = ["/a", "/a/1", "/b", "/b/c", "/b/d", "/b/d/0", "/g", "/i", "/j"].map(span);
    let expected = [
        (1, 4, 11),
        (1, 8, 6),
        (2, 4, 23),
        (2, 9, 2),
        (2, 16, 9),
        // What has no brackets of its own goes on to the end of its line.
        (2, 17, 21),
        (3, 4, 6),
        // One that goes on below is underlined as far as its first line goes.
        (4, 4, 3),
        (7, 3, 4),
    ];
    assert_eq!(found, expected.map(|(line, column, length)| Span { line, column, length }));
}

#[test]
fn follows_a_pointer_as_far_as_it_leads() {
    let (root, _) = read("a~b:\n  c/d: 1\n");
    let root = root.unwrap();
    let found = Cursor::root(&root).follow("/a~0b/c~1d/none/of/this");
    assert_eq!(found.pointer, "/a~0b/c~1d");
}

#[test]
fn reports_both_places_of_a_key_given_twice() {
    let found = first_problem("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n");
    assert_eq!(found.code, "duplicate-key");
    assert_eq!(found.place.pointer, "/b/c");
    assert_eq!((found.place.span.line, found.related[0].place.span.line), (5, 3));
}

#[test]
fn refuses_to_grow_by_aliases() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let previous = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{previous}]\n"));
    }
    assert_eq!(first_problem(&text).code, "document-too-big");
}

#[test]
fn refuses_an_alias_inside_what_it_names() {
    assert_eq!(first_problem("a: &x [1, *x]\n").code, "endless-alias");
}

#[test]
fn refuses_documents_beyond_the_limits() {
    assert_eq!(first_problem(&"[".repeat(200)).code, "too-deep");
    assert_eq!(first_problem(&"[".repeat(5000)).code, "too-deep");
    assert_eq!(first_problem(&format!("a: '{}'", "x".repeat(1 << 20))).code, "document-too-big");
    assert_eq!(first_problem(&format!("[{}]", "1,".repeat(250_000))).code, "document-too-big");
}

/// Every value tells the keys that lead to it: their length times the number of values is the work
/// that a document can make.
#[test]
fn refuses_keys_that_lead_further_than_a_bound() {
    let long = |length: usize| format!("{{ \"{}\": [1, 2] }}", "k".repeat(length));
    assert_eq!(first_problem(&long(4096)).code, "bad-key");
    assert!(read(&long(4000)).1.is_empty());
    let nested = |length: usize| {
        let key = format!("{{ \"{}\": ", "k".repeat(length));
        format!("{}1{}", key.repeat(100), "}".repeat(100))
    };
    assert_eq!(first_problem(&nested(50)).code, "bad-key");
    assert!(read(&nested(30)).1.is_empty());
}

#[test]
fn refuses_what_json_cannot_hold() {
    assert_eq!(first_problem("a: .nan\n").code, "bad-value");
    assert_eq!(first_problem("a: 123456789012345678901234567890\n").code, "bad-value");
    assert_eq!(first_problem("? [a, b]\n: 1\n").code, "bad-key");
    assert_eq!(first_problem("a: !mine 1\n").code, "bad-value");
}

#[test]
fn refuses_merge_keys_and_several_documents() {
    assert_eq!(first_problem("a: &x { b: 1 }\nc:\n  <<: *x\n").code, "merge-key");
    assert_eq!(first_problem("a: 1\n---\nb: 2\n").code, "several-documents");
    assert_eq!(first_problem("# nothing\n").code, "empty-document");
}

#[test]
fn what_is_missing_at_the_end_is_missing_behind_the_last_character() {
    for text in ["a:\n  b: [1,\n", "a: \"b\n\n", "a: {b: 1\n"] {
        let span = first_problem(text).place.span;
        let line = text.lines().nth(span.line as usize - 1);
        let length = line.unwrap_or_else(|| panic!("{span:?} is below {text:?}")).chars().count();
        assert!(span.column as usize <= length + 1, "{span:?} is beside {text:?}");
    }
}
