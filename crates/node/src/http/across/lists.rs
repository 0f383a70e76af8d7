//! Lists that every node has a part of: executions and definitions, each once, and what is parked.

use std::collections::BTreeMap;

use axum::Json as JsonBody;
use axum::body::to_bytes;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use outlast_expressions::value;
use outlast_lineage::NodeId;
use serde_json::{Map, Value as Json, json};

use super::known_by::escaped;
use super::one::unknown;
use super::{CHANGE_TIME_MAX, LOOK_TIME_MAX, Problem, Whole, ask_all, response, silent, text_of};
use crate::relay::Relay;

/// The largest list of one node.
const LIST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The lists of all nodes as one.
pub(super) async fn answer(relay: &Relay, whole: Whole, next: Next) -> Result<Response, Problem> {
    let passed = whole.passed();
    let patience = if whole.method == Method::GET { LOOK_TIME_MAX } else { CHANGE_TIME_MAX };
    let (here, there) = tokio::join!(next.run(whole.request()), ask_all(relay, &passed, patience));
    // What is wrong with the request is wrong everywhere; what is unknown may be known elsewhere.
    let refused = !here.status().is_success() && here.status() != StatusCode::NOT_FOUND;
    if refused {
        return Ok(here);
    }
    let silent = silent(&there);
    let mut parts = Vec::new();
    let mut others = Vec::new();
    for (node, answered) in there {
        match answered {
            Ok(answer) if answer.status == 200 => {
                parts.push((node, serde_json::from_slice(&answer.body).unwrap_or(Json::Null)));
            }
            Ok(answer) => others.push(answer),
            Err(_) => {}
        }
    }
    if here.status().is_success() {
        let body = to_bytes(here.into_body(), LIST_BYTES_MAX).await;
        let body = body.map_err(|error| Problem::invalid(error.to_string()))?;
        parts.push((relay.node(), serde_json::from_slice(&body).unwrap_or(Json::Null)));
    } else if parts.is_empty() {
        let known = others.into_iter().find(|answer| answer.status != 404);
        return match (known, execution_of(&whole)) {
            (Some(known), _) => Ok(response(known)),
            (None, Some(execution)) if !silent.is_empty() => Err(unknown(&execution, &silent)),
            (None, _) => Ok(here),
        };
    }
    let mut merged = match whole.uri.path() {
        "/v1/executions" => executions(parts, limit_of(&whole)),
        "/v1/definitions" => definitions(parts),
        "/v1/parked" => parked(parts),
        _ => resolved(parts),
    };
    if !silent.is_empty() {
        merged.insert("unanswered".to_owned(), json!(silent));
    }
    Ok(JsonBody(Json::Object(merged)).into_response())
}

/// The execution that a list is to be of, as a segment of a path.
fn execution_of(whole: &Whole) -> Option<String> {
    let asked = whole.uri.query().unwrap_or_default().split('&');
    let asked = asked.filter_map(|pair| pair.strip_prefix("execution=")).next().map(str::to_owned);
    asked.or_else(|| {
        let body = value::parse(&whole.body).ok()?;
        value::get(&body, "execution").and_then(value::as_str).map(escaped)
    })
}

fn limit_of(whole: &Whole) -> usize {
    let pairs = whole.uri.query().unwrap_or_default().split('&');
    let limit = pairs.filter_map(|pair| pair.strip_prefix("limit=")).find_map(|it| it.parse().ok());
    limit.filter(|limit| 0 < *limit).unwrap_or(usize::MAX)
}

/// Each execution once, as whoever leads it tells of it, or else whoever knows the latest of it.
fn executions(parts: Vec<(NodeId, Json)>, limit: usize) -> Map<String, Json> {
    let mut merged: BTreeMap<String, (bool, Json)> = BTreeMap::new();
    // Of a list that goes on, what comes after its last line is not known.
    let mut complete_to: Option<String> = None;
    for (node, mut part) in parts {
        if let Some(next) = part.get("next").and_then(Json::as_str) {
            let earlier = complete_to.as_deref().is_none_or(|so_far| next < so_far);
            complete_to = if earlier { Some(next.to_owned()) } else { complete_to };
        }
        let Some(Json::Array(lines)) = part.get_mut("executions").map(Json::take) else { continue };
        for mut line in lines {
            let id = text(&line, "execution").to_owned();
            let leads = line.get("leader").and_then(Json::as_str) == Some(&text_of(node));
            if let Some(line) = line.as_object_mut()
                && !line.contains_key("nodes")
            {
                line.insert("nodes".to_owned(), json!([text_of(node)]));
            }
            let better = merged.get(&id).is_none_or(|(other_leads, other)| {
                (*other_leads, text(other, "changed")) < (leads, text(&line, "changed"))
            });
            if better {
                let held = merged.remove(&id).map(|(_, other)| other);
                unite_nodes(&mut line, held.as_ref());
                merged.insert(id, (leads, line));
            } else if let Some((_, other)) = merged.get_mut(&id) {
                unite_nodes(other, Some(&line));
            }
        }
    }
    if let Some(last) = &complete_to {
        merged.retain(|id, _| id <= last);
    }
    let cut = limit < merged.len();
    let lines: Vec<(String, Json)> =
        merged.into_iter().take(limit).map(|(id, (_, line))| (id, line)).collect();
    let next = if cut { lines.last().map(|(id, _)| id.clone()) } else { complete_to };
    let lines: Vec<Json> = lines.into_iter().map(|(_, line)| line).collect();
    Map::from_iter([("executions".to_owned(), json!(lines)), ("next".to_owned(), json!(next))])
}

/// What two nodes hold, both hold.
fn unite_nodes(line: &mut Json, other: Option<&Json>) {
    let nodes = |line: &Json| -> Vec<String> {
        let nodes = line.get("nodes").and_then(Json::as_array);
        nodes.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let Some(other) = other else { return };
    let mut all = nodes(line);
    all.extend(nodes(other));
    all.sort();
    all.dedup();
    line["nodes"] = json!(all);
}

/// Each definition once. Two texts of one version, which different nodes were given, are both there.
fn definitions(parts: Vec<(NodeId, Json)>) -> Map<String, Json> {
    let mut merged = BTreeMap::new();
    for (_, mut part) in parts {
        let Some(Json::Array(items)) = part.get_mut("definitions").map(Json::take) else {
            continue;
        };
        for item in items {
            let key =
                ["namespace", "name", "version", "digest"].map(|it| text(&item, it).to_owned());
            merged.entry(key).or_insert(item);
        }
    }
    let items: Vec<Json> = merged.into_values().collect();
    Map::from_iter([("definitions".to_owned(), json!(items))])
}

/// Each parked effect once.
fn parked(parts: Vec<(NodeId, Json)>) -> Map<String, Json> {
    let mut merged = BTreeMap::new();
    for (_, mut part) in parts {
        let Some(Json::Array(items)) = part.get_mut("parked").map(Json::take) else { continue };
        for item in items {
            let key = (text(&item, "execution").to_owned(), text(&item, "effect").to_owned());
            merged.entry(key).or_insert(item);
        }
    }
    let items: Vec<Json> = merged.into_values().collect();
    Map::from_iter([("parked".to_owned(), json!(items))])
}

/// How much was resolved, and what, as far as it is told.
fn resolved(parts: Vec<(NodeId, Json)>) -> Map<String, Json> {
    let (mut count, mut all) = (0, Vec::new());
    for (_, mut part) in parts {
        count += part.get("resolved").and_then(Json::as_u64).unwrap_or(0);
        if let Some(Json::Array(items)) = part.get_mut("items").map(Json::take) {
            all.extend(items);
        }
    }
    Map::from_iter([("resolved".to_owned(), json!(count)), ("items".to_owned(), json!(all))])
}

fn text<'a>(line: &'a Json, name: &str) -> &'a str {
    line.get(name).and_then(Json::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);

    fn line(id: &str, changed: &str, leader: Option<NodeId>) -> Json {
        match leader {
            Some(leader) => json!({
                "execution": id, "changed": changed, "leader": text_of(leader),
                "nodes": [text_of(ONE), text_of(TWO)],
            }),
            None => json!({ "execution": id, "changed": changed }),
        }
    }

    fn ids(list: &Map<String, Json>) -> Vec<&str> {
        list["executions"].as_array().unwrap().iter().map(|it| text(it, "execution")).collect()
    }

    #[test]
    fn an_execution_is_listed_once_as_its_leader_tells_of_it() {
        let one = json!({ "executions": [line("a", "9", Some(TWO)), line("b", "1", None)] });
        let two = json!({ "executions": [line("a", "8", Some(TWO)), line("c", "1", None)] });
        let list = executions(vec![(ONE, one), (TWO, two)], usize::MAX);
        assert_eq!(ids(&list), ["a", "b", "c"]);
        assert_eq!(text(&list["executions"][0], "changed"), "8");
        assert_eq!(list["executions"][1]["nodes"], json!([text_of(ONE)]));
        assert_eq!(list["next"], Json::Null);
    }

    #[test]
    fn a_page_ends_where_one_of_the_lists_ends() {
        let one =
            json!({ "executions": [line("a", "1", None), line("b", "1", None)], "next": "b" });
        let two =
            json!({ "executions": [line("a", "1", None), line("d", "1", None)], "next": null });
        let list = executions(vec![(ONE, one.clone()), (TWO, two.clone())], 2);
        assert_eq!((ids(&list), &list["next"]), (vec!["a", "b"], &json!("b")));
        assert_eq!(list["executions"][0]["nodes"], json!([text_of(ONE), text_of(TWO)]));
        let list = executions(vec![(ONE, one), (TWO, two)], 1);
        assert_eq!((ids(&list), &list["next"]), (vec!["a"], &json!("a")));
    }

    #[test]
    fn what_several_nodes_resolved_is_told_together() {
        let of = |place: &str| json!({ "resolved": 1, "items": [{ "place": place }] });
        let nothing = json!({ "resolved": 0, "items": [] });
        let told = resolved(vec![(ONE, of("/a")), (TWO, of("/b")), (NodeId(3), nothing)]);
        let items = json!([{ "place": "/a" }, { "place": "/b" }]);
        assert_eq!(Json::Object(told), json!({ "resolved": 2, "items": items }));
    }

    #[test]
    fn a_definition_is_listed_once_and_two_texts_of_it_are_two() {
        let of = |name: &str, digest: &str| json!({ "name": name, "digest": digest });
        let one = json!({ "definitions": [of("a", "1"), of("b", "1")] });
        let two = json!({ "definitions": [of("a", "1"), of("b", "2")] });
        let list = definitions(vec![(ONE, one), (TWO, two)]);
        assert_eq!(list["definitions"], json!([of("a", "1"), of("b", "1"), of("b", "2")]));
    }
}
