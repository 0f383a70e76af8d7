//! One expression out of a tree of values with expressions in it.
//!
//! A task's arguments are a tree whose texts may be expressions. Composing the tree into one text means
//! one filter per task, one judgement, and one evaluation, in place or in a worker.
//!
//! Each expression becomes `single(…)`: without an output it is `null` in its place, where jq would let
//! the whole object vanish; with several it is an error, where jq would make several objects.

use crate::{Value, value};

/// How many members or elements stand side by side in the text, so that the syntax tree of a large
/// object stays low.
const SIBLINGS_MAX: usize = 8;

/// What a tree has become.
#[derive(Clone, PartialEq, Debug)]
pub enum Composed {
    /// There is no expression in the tree.
    Literal(Value),
    /// The text of one expression that builds the tree.
    Source(String),
}

/// Composes a tree. `is_expression` gives the expression that a text stands for, without `${ }`.
///
/// Each expression should have been compiled on its own before, so that its errors point into it.
pub fn compose(
    tree: &serde_json::Value,
    is_expression: &dyn Fn(&str) -> Option<String>,
) -> Composed {
    if let serde_json::Value::String(text) = tree
        && let Some(source) = is_expression(text)
    {
        return Composed::Source(source);
    }
    match build(tree, is_expression) {
        Some(source) => Composed::Source(source),
        None => Composed::Literal(value::from_json(tree.clone())),
    }
}

/// The text that builds the tree, if there is an expression in it.
fn build(
    tree: &serde_json::Value,
    is_expression: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    match tree {
        // The line break ends a comment that the expression may end with.
        serde_json::Value::String(text) => is_expression(text).map(|it| format!("single({it}\n)")),
        serde_json::Value::Array(elements) => {
            let elements = build_all(elements.iter(), is_expression)?;
            Some(format!("[{}]", balance(&elements, ",", &|elements| elements.join(","))))
        }
        serde_json::Value::Object(members) => {
            let values = build_all(members.values(), is_expression)?;
            let names = members.keys().map(|name| value::to_text(&value::string(name)));
            let members = names.zip(values).map(|(name, value)| format!("{name}:{value}"));
            let members: Vec<String> = members.collect();
            Some(balance(&members, "+", &|members| format!("{{{}}}", members.join(","))))
        }
        _ => None,
    }
}

/// The texts that build each of these trees, if there is an expression in any of them.
fn build_all<'a>(
    trees: impl Iterator<Item = &'a serde_json::Value> + Clone,
    is_expression: &dyn Fn(&str) -> Option<String>,
) -> Option<Vec<String>> {
    let built: Vec<Option<String>> = trees.clone().map(|tree| build(tree, is_expression)).collect();
    if built.iter().all(Option::is_none) {
        return None;
    }
    let or_literal = |(built, tree): (Option<String>, _)| built.unwrap_or_else(|| literal(tree));
    Some(built.into_iter().zip(trees).map(or_literal).collect())
}

/// Joins items in a tree of parentheses rather than in a row, which would nest as deep as it is long.
fn balance(items: &[String], operator: &str, leaf: &dyn Fn(&[String]) -> String) -> String {
    if items.len() <= SIBLINGS_MAX {
        return leaf(items);
    }
    let (left, right) = items.split_at(items.len() / 2);
    let (left, right) = (balance(left, operator, leaf), balance(right, operator, leaf));
    format!("(({left}){operator}({right}))")
}

/// A tree without expressions as jq text, which for this is JSON.
fn literal(tree: &serde_json::Value) -> String {
    value::to_text(&value::from_json(tree.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Filter;

    fn is_expression(text: &str) -> Option<String> {
        text.strip_prefix("${")?.strip_suffix('}').map(str::to_owned)
    }

    fn composed(tree: &serde_json::Value, input: &serde_json::Value) -> serde_json::Value {
        let Composed::Source(source) = compose(tree, &is_expression) else {
            panic!("there is an expression in {tree}")
        };
        let filter = Filter::compile(&source, &[]).unwrap();
        let input = value::from_json(input.clone());
        value::to_json(&filter.evaluate(&input, &|_| value::null()).unwrap())
    }

    #[test]
    fn a_tree_without_expressions_stays_a_value() {
        let tree = json!({"a": [1, "${", {"b": null}]});
        assert_eq!(compose(&tree, &is_expression), Composed::Literal(value::from_json(tree)));
    }

    #[test]
    fn builds_the_tree_around_its_expressions() {
        let tree =
            json!({"a": "${ .x }", "b \"q\" \\(1)": [1.5, -2, "${ .x + 1 # one more}"], "c": {}});
        let expected = json!({"a": 1, "b \"q\" \\(1)": [1.5, -2, 2], "c": {}});
        assert_eq!(composed(&tree, &json!({"x": 1})), expected);
    }

    #[test]
    fn an_expression_without_output_is_null_in_its_place() {
        assert_eq!(
            composed(&json!({"a": "${ empty }", "b": 1}), &json!(0)),
            json!({"a": null, "b": 1})
        );
    }

    #[test]
    fn an_expression_with_several_outputs_is_an_error() {
        let Composed::Source(source) = compose(&json!(["${ 1, 2 }"]), &is_expression) else {
            panic!("there is an expression")
        };
        let filter = Filter::compile(&source, &[]).unwrap();
        let error = filter.evaluate(&value::null(), &|_| value::null()).unwrap_err();
        assert!(error.message.contains("wrap it in [ ]"), "{error}");
    }

    #[test]
    fn large_trees_keep_their_order_and_stay_low() {
        let names: Vec<String> = (0..500).map(|number| format!("m{number}")).collect();
        let mut tree = serde_json::Map::new();
        let mut expected = serde_json::Map::new();
        for (number, name) in names.iter().enumerate() {
            tree.insert(name.clone(), json!([format!("${{ . + {number} }}"), number]));
            expected.insert(name.clone(), json!([number + 1, number]));
        }
        let built = composed(&tree.into(), &json!(1));
        assert_eq!(built.to_string(), serde_json::Value::Object(expected).to_string());
        let row: Vec<_> = (0..1_000).map(|_| json!("${ . }")).collect();
        assert_eq!(composed(&json!(row), &json!(3)), json!(vec![3; 1_000]));
    }
}
