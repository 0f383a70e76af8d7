//! Any text as an expression, on a small value.
//!
//! An input is the text of an expression and, after a line `---`, a value in JSON, which is what `.`
//! and every variable are. What is judged bounded is evaluated: the fuzzer's limits on time, memory
//! and stack are what holds the judgement to its word.

use outlast_expressions::value::{self, codec};
use outlast_expressions::{Composed, Filter, Judgement, Value, compose};
use serde_json::json;

const SEPARATOR: &str = "\n---\n";

/// Names in scope, as a document gives them.
const VARIABLES: [&str; 8] =
    ["context", "input", "output", "workflow", "task", "error", "item", "x"];

/// How many times as large as all that it is given a value may become. The judgement counts values
/// and allows 1,024 for each; a value of eight bytes is the smallest that it counts.
const GROWTH_MAX: usize = 8 * 1_024;

pub(crate) fn hold(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (source, input) = text.split_once(SEPARATOR).unwrap_or((&text, "null"));
    let Ok(input) = value::parse(input) else { return };
    survives_writing(&input);
    match Filter::compile(source, &VARIABLES) {
        Ok(filter) => {
            assert_eq!(filter.source(), source);
            assert!(filter.uses().iter().all(|name| VARIABLES.contains(&name.as_str())));
            if *filter.judgement() == Judgement::Bounded {
                is_bounded(&filter, &input);
            }
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            assert!(source.get(error.span.clone()).is_some(), "{:?} of {source:?}", error.span);
        }
    }
}

fn is_bounded(filter: &Filter, input: &Value) {
    let evaluated = filter.evaluate(input, &|_| input.clone());
    let again = filter.evaluate(input, &|_| input.clone());
    assert_eq!(
        evaluated.as_ref().map(value::to_text),
        again.as_ref().map(value::to_text),
        "another value the second time"
    );
    let Ok(made) = evaluated else { return };
    let given = value::weight(input, usize::MAX) + filter.source().len();
    let weight = value::weight(&made, usize::MAX);
    assert!(weight <= given * GROWTH_MAX, "{weight} bytes from {given}: {}", filter.source());
    value::check(&made).expect("what an expression makes keeps the invariant of values");
    survives_writing(&made);
    is_the_same_in_a_tree(filter, input, &made);
}

/// A value that was written, as text or as a record, is read as the same value.
fn survives_writing(written: &Value) {
    let text = value::to_text(written);
    let read = value::parse(&text).expect("what we write we can read");
    assert_eq!(value::to_text(&read), text);
    let mut encoder = minicbor::Encoder::new(Vec::new());
    codec::encode(written, &mut encoder, &mut ()).expect("a value keeps its depth");
    let bytes = encoder.into_writer();
    let decoded = codec::decode(&mut minicbor::Decoder::new(&bytes), &mut ());
    assert_eq!(value::to_text(&decoded.expect("what we write we can read")), text);
}

/// In a tree of arguments the expression has the value it has alone, and nothing else changes.
fn is_the_same_in_a_tree(filter: &Filter, input: &Value, made: &Value) {
    let marked = |text: &str| (text == "here").then(|| filter.source().to_owned());
    let tree = json!({ "before": 1, "list": ["here", "text"], "after": { "here": null } });
    let Composed::Source(source) = compose(&tree, &marked) else {
        panic!("there is an expression in the tree");
    };
    // The tree makes the text longer and deeper, perhaps over a limit, and the cost higher.
    let Ok(composed) = Filter::compile(&source, &VARIABLES) else { return };
    if *composed.judgement() != Judgement::Bounded {
        return;
    }
    let Ok(built) = composed.evaluate(input, &|_| input.clone()) else { return };
    let list = value::array([made.clone(), value::string("text")]);
    let after = value::object([("here", value::null())]);
    let members = [("before", value::integer(1)), ("list", list), ("after", after)];
    let expected = value::object(members);
    assert_eq!(value::to_text(&built), value::to_text(&expected), "{source}");
}
