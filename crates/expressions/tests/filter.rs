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
