//! Doc strings as values.

use saphyr::{LoadableYamlNode, ScalarOwned, YamlOwned};
use serde_json::Value as Json;

/// The value a YAML text stands for.
pub(crate) fn parse(text: &str) -> Json {
    let documents = YamlOwned::load_from_str(text).expect("a doc string is YAML");
    documents.first().map_or(Json::Null, to_json)
}

fn to_json(node: &YamlOwned) -> Json {
    match node {
        YamlOwned::Value(ScalarOwned::Null) => Json::Null,
        YamlOwned::Value(ScalarOwned::Boolean(truth)) => Json::from(*truth),
        YamlOwned::Value(ScalarOwned::Integer(number)) => Json::from(*number),
        YamlOwned::Value(ScalarOwned::FloatingPoint(number)) => Json::from(number.0),
        YamlOwned::Value(ScalarOwned::String(text)) => Json::from(text.as_str()),
        YamlOwned::Sequence(items) => items.iter().map(to_json).collect(),
        YamlOwned::Mapping(members) => {
            let member = |(key, value): (&YamlOwned, &YamlOwned)| {
                (key.as_str().expect("keys are texts").to_owned(), to_json(value))
            };
            members.iter().map(member).collect()
        }
        other => panic!("a doc string holds plain data, not {other:?}"),
    }
}
