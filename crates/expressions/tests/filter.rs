//! Filters: what they give, and how they refuse.

use outlast_expressions::{EvaluationError, Filter, Judgement, Value, value};

fn evaluate(source: &str, input: &str) -> Result<String, EvaluationError> {
    let filter = Filter::compile(source, &["x"]).unwrap();
    let binding = |_: &str| value::integer(7);
    let value: Value = filter.evaluate(&value::parse(input).unwrap(), &binding)?;
    Ok(value::to_text(&value))
}

fn refused(source: &str) -> (String, String) {
    let error = Filter::compile(source, &["context", "input"]).unwrap_err();
    (error.message, source[error.span].to_owned())
}

#[test]
fn evaluates_paths_construction_and_variables() {
    let input = r#"{"a":{"b":[1,2.50,"z"]}}"#;
    assert_eq!(evaluate(".a.b", input).unwrap(), r#"[1,2.50,"z"]"#);
    assert_eq!(evaluate(r#"{x: $x, n: (.a.b|length)}"#, input).unwrap(), r#"{"x":7,"n":3}"#);
    assert_eq!(evaluate("[.a.b[] | numbers | . * 2]", input).unwrap(), "[2,5.0]");
}

#[test]
fn no_output_is_null_and_several_are_an_error() {
    assert_eq!(evaluate("empty", "1").unwrap(), "null");
    let message = evaluate(".[]", "[1,2]").unwrap_err().message;
    assert!(message.contains("wrap it in [ ]"), "{message}");
}

#[test]
fn names_the_variables_it_uses_once() {
    let filter = Filter::compile("$b + $a + $b | . as $c | $c", &["a", "b", "c"]).unwrap();
    assert_eq!(filter.uses(), ["b", "a"]);
}

#[test]
fn says_what_is_wrong_and_where() {
    assert_eq!(
        refused(".a | lenght"),
        ("there is no function `lenght`; did you mean `length`?".into(), "lenght".into())
    );
    let (message, place) = refused("$contxt.a");
    assert_eq!(
        (message.as_str(), place.as_str()),
        ("there is no variable `$contxt`; did you mean `$context`?", "$contxt")
    );
    assert!(refused("now").0.starts_with("`now` is not available: use $task.startedAt"));
    assert!(refused("$ENV.PATH").0.starts_with("`$ENV` is not available"));
    assert_eq!(refused(". | )").1, ")");
}

#[test]
fn simple_expressions_are_bounded() {
    let filter = Filter::compile(".a.b | map(select(. > 1))", &[]).unwrap();
    assert_eq!(*filter.judgement(), Judgement::Bounded);
    let filter = Filter::compile("def f: f; f", &[]).unwrap();
    assert!(matches!(filter.judgement(), Judgement::Unbounded(_)));
}

#[test]
fn a_path_into_a_large_input_copies_nothing() {
    let large = value::array((0..10_000).map(value::integer));
    let input = value::object([("a", value::object([("b", large.clone())]))]);
    let elements = |value: &Value| match value {
        Value::Arr(elements) => elements.as_ptr(),
        other => panic!("{other} is no array"),
    };
    for source in [".a.b", "{x: .a.b} | .x", "$x.a.b", ".a as {b: $b} | if true then $b else 1 end"]
    {
        let filter = Filter::compile(source, &["x"]).unwrap();
        let found = filter.evaluate(&input, &|_| input.clone()).unwrap();
        assert_eq!(elements(&found), elements(&large), "{source}");
    }
}

#[test]
fn errors_are_readable_and_short() {
    let long = format!("\"{}\"", "x".repeat(10_000));
    let message = evaluate(". - 1", &long).unwrap_err().message;
    assert!(message.starts_with("cannot calculate \"xxx") && message.len() < 500, "{message}");
    assert_eq!(evaluate("error(\"no stock\")", "1").unwrap_err().message, "no stock");
    assert!(evaluate("{(.a): 1}", "{\"a\":5}").unwrap_err().message.contains("must be a string"));
    assert!(evaluate("\"ab\" * 1000", "1").unwrap_err().message.contains("at most 1024 bytes"));
    assert!(evaluate(".[[1]]", "[1]").unwrap_err().message.contains("use indices"));
}

#[test]
fn what_is_made_safe_otherwise_does_what_jq_does() {
    let cases = [
        ("\"ab\" * 3", "\"ababab\""),
        ("{a: {b: 1}} * {a: {c: 2}}", r#"{"a":{"b":1,"c":2}}"#),
        ("{a: 2, b: 3} | .a *= 5 | .[] *= 2", r#"{"a":20,"b":6}"#),
        ("[(1, 2) * (3, 4)]", "[3,4,6,8]"),
        (
            "[[1, 2] < [1, 3], {} < [], null < false, \"a\" >= \"b\", {a: 1} <= {a: 2}]",
            "[true,false,true,false,true]",
        ),
        ("[[1, 2, 3] | .[1, 2]]", "[2,3]"),
        ("\"2026-11-15T10:00:00Z\" | fromdate | todate", "\"2026-11-15T10:00:00Z\""),
        ("\"a-b_c\" | gsub(\"[-_]\"; \" \")", "\"a b c\""),
        ("[\"abc\" | sub(\"(?<x>b)\"; \"<\\(.x)>\", \"\")]", r#"["a<b>c","ac"]"#),
        ("[1, \"a\\\"b\", null] | @csv", r#""1,\"a\"\"b\",""#),
        ("\"[1, 2]\" | fromjson | add", "3"),
        ("\"10:30\" | strptime(\"%H:%M\")? // \"none\"", "\"none\""),
        ("[.[] | IN(2, 3)]", "[false,true]"),
        ("[limit(1; .[])]", "[1]"),
    ];
    for (source, expected) in cases {
        assert_eq!(evaluate(source, "[1,2]").unwrap(), expected, "{source}");
    }
}

#[test]
fn what_looks_at_the_world_is_not_available() {
    for source in [
        "now",
        "env",
        "$ENV",
        "input",
        "inputs",
        "debug",
        "debug(1)",
        "stderr",
        "halt",
        "halt_error",
        "input_filename",
        "localtime",
        "strflocaltime(\"%H\")",
        "$__loc__",
        "tobytes",
        "input_line_number",
    ] {
        let (message, _) = refused(source);
        assert!(message.contains("is not available:"), "{source}: {message}");
    }
    assert!(
        evaluate("strptime(\"%H %Q\")", "\"10 Europe/Paris\"")
            .unwrap_err()
            .message
            .contains("offset")
    );
}

#[test]
fn an_expression_that_makes_the_evaluator_panic_is_an_error() {
    assert!(evaluate("[2026, 127, 1, 0, 0, 0] | mktime", "null").is_err());
}
