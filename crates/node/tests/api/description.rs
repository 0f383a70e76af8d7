//! The API's description is kept beside the documents, for readers without a node.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value as Json;

#[test]
fn the_committed_description_is_the_one_that_is_served() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let served = format!("{}\n", outlast_node::http::openapi());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &served).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == served, "docs/openapi.json is old: run the test with UPDATE_EXPECT=1");
}

#[test]
fn every_route_is_described() {
    let served: serde_json::Value = serde_json::from_str(&outlast_node::http::openapi()).unwrap();
    let paths = served["paths"].as_object().unwrap();
    for path in ["/v1/executions", "/v1/executions/{execution}/graph", "/v1/events", "/metrics"] {
        assert!(paths.contains_key(path), "{path}");
    }
    let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(operations, 29);
}

#[test]
fn problems_fit_their_description() {
    let served: serde_json::Value = serde_json::from_str(&outlast_node::http::openapi()).unwrap();
    let schemas = &served["components"]["schemas"];
    assert!(schemas["Problem"].is_object());
    assert!(schemas["Rejected"]["required"].is_null(), "most problems are not of a document");
    for path in served["paths"].as_object().unwrap().values() {
        for operation in path.as_object().unwrap().values() {
            assert!(operation["responses"]["default"].is_object(), "{operation}");
        }
    }
}

#[test]
fn parameters_are_in_the_path_if_it_names_them_and_else_in_the_query_where_none_is_required() {
    let served: Json = serde_json::from_str(&outlast_node::http::openapi()).unwrap();
    let mut asked = 0;
    for (path, item) in served["paths"].as_object().unwrap() {
        let named: BTreeSet<&str> =
            path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}')).collect();
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
            let (in_path, others): (Vec<&Json>, Vec<&Json>) =
                parameters.iter().partition(|parameter| parameter["in"] == "path");
            let said: BTreeSet<&str> =
                in_path.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
            assert_eq!(said, named, "{method} {path}");
            for parameter in others {
                assert_eq!(parameter["in"], "query", "{method} {path}: {parameter}");
                assert_eq!(parameter["required"], false, "{method} {path}: {parameter}");
                asked += 1;
            }
        }
    }
    assert!(0 < asked, "lists are asked for by parts");
}
