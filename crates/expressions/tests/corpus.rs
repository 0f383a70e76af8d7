//! Every expression of the specification's examples and of our own compiles and is bounded.

use outlast_expressions::{Filter, Judgement};

fn variables(source: &str) -> Vec<&str> {
    source
        .split('$')
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap())
        .collect()
}

#[test]
fn the_expressions_of_the_examples_compile_and_are_bounded() {
    let sources: Vec<String> = serde_json::from_str(include_str!("corpus.json")).unwrap();
    assert_eq!(sources.len(), 290);
    let judge = |source: &String| {
        let filter = Filter::compile(source, &variables(source));
        filter.unwrap_or_else(|error| panic!("{source}: {error}")).judgement().clone()
    };
    let unbounded: Vec<&String> =
        sources.iter().filter(|source| judge(source) != Judgement::Bounded).collect();
    assert!(unbounded.is_empty(), "{unbounded:#?}");
}
