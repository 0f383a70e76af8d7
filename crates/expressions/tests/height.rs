//! The tallest expressions that are accepted fit on the stack of an ordinary thread.

use outlast_expressions::{Filter, value};

/// The longest repetition that still compiles; it must be one that people could want.
fn tallest(source: &dyn Fn(usize) -> String) -> Filter {
    let compiled = |times| Filter::compile(&source(times), &[]).ok();
    let times = (1..=400).rev().find(|times| compiled(*times).is_some()).unwrap();
    assert!(times >= 40, "only {times} times: {}", source(1));
    compiled(times).unwrap()
}

#[test]
fn the_longest_expressions_are_evaluated_without_overflow() {
    let pieces = [
        ("", "1+", "1"),
        ("", "-", "1"),
        ("", ".|", "."),
        ("[", "1,", "1]"),
        ("{", "a:1,", "b:1}"),
        ("", ". as $x|", "."),
        ("if . then 1 ", "elif . then 1 ", "else 1 end"),
        ("\"", "\\(1)", "\""),
        ("", ".a?", ""),
        ("", "try ", "1"),
        ("", "1//", "1"),
        ("", "def f: 1; ", "1"),
        ("", "label $x|", "."),
    ];
    for (before, piece, after) in pieces {
        let filter = tallest(&|times| format!("{before}{}{after}", piece.repeat(times)));
        let result = filter.evaluate(&value::null(), &|_| value::null());
        assert!(result.is_ok(), "{piece}: {result:?}");
    }
}

#[test]
fn the_deepest_expressions_are_evaluated_without_overflow() {
    let pairs =
        [("(", ")"), ("[", "]"), ("{a:", "}"), ("\"\\(", ")\""), ("map(", ")"), ("first(", ")")];
    for (open, close) in pairs {
        let filter = tallest(&|times| format!("{}1{}", open.repeat(times), close.repeat(times)));
        let input = value::array([value::null()]);
        // `map(map(…))` rightly fails; what counts is that it comes back.
        drop(filter.evaluate(&input, &|_| value::null()));
    }
}
