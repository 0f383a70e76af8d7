//! CloudEvents that come in, in structured, batched and binary mode.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outlast_engine::{Ask, Reply};
use outlast_expressions::{Value, value};
use outlast_workflow::moment::iso8601;

use super::payload::{Payload, which};
use super::{Api, Problem, model};

/// How many events a batch has at most.
const BATCH_MAX: usize = 1000;

/// Give events to whoever listens, on any node of the cluster: one (`application/cloudevents+json`),
/// several (`application/cloudevents-batch+json`), or one with its attributes in `ce-` headers.
#[utoipa::path(
    post, path = "/v1/events", tag = "events", request_body = Object,
    responses(
        (status = 202, description = "They are recorded", body = model::EventsTaken),
        (status = 400, description = "It is no CloudEvent", body = Problem),
    )
)]
pub(super) async fn publish(
    State(api): State<Arc<Api>>,
    payload: Payload,
) -> Result<(StatusCode, Json<model::EventsTaken>), Problem> {
    let mut numbers = Vec::new();
    for event in read(&api, &payload)? {
        numbers.push(taken(&api, Ask::Publish { event }).await?);
    }
    Ok((StatusCode::ACCEPTED, Json(model::EventsTaken { numbers })))
}

/// Give an event to one execution only.
#[utoipa::path(
    post, path = "/v1/executions/{execution}/signal", tag = "executions",
    params(("execution" = String, Path)), request_body = Object,
    responses(
        (status = 202, description = "It is recorded", body = model::EventsTaken),
        (status = 409, description = "The execution has ended", body = Problem),
    )
)]
pub(super) async fn signal(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
    payload: Payload,
) -> Result<(StatusCode, Json<model::EventsTaken>), Problem> {
    let which = which(&execution)?;
    let mut numbers = Vec::new();
    for event in read(&api, &payload)? {
        numbers.push(taken(&api, Ask::Signal { which: which.clone(), event }).await?);
    }
    Ok((StatusCode::ACCEPTED, Json(model::EventsTaken { numbers })))
}

async fn taken(api: &Api, ask: Ask) -> Result<u64, Problem> {
    match api.ask(ask).await? {
        Reply::EventTaken { number } => Ok(number),
        other => Err(Problem::unexpected(&other)),
    }
}

/// The events of a request, each with what it left out.
fn read(api: &Api, payload: &Payload) -> Result<Vec<Value>, Problem> {
    let events = if payload.headers.contains_key("ce-type") {
        vec![binary(payload)?]
    } else {
        let body = payload.json()?;
        match value::as_array(&body) {
            Some(events) if BATCH_MAX < events.len() => {
                let detail = format!("a batch has at most {BATCH_MAX} events");
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
            }
            Some(events) => events.to_vec(),
            None => vec![body],
        }
    };
    events.iter().map(|event| complete(api, event)).collect()
}

/// An event whose attributes are headers and whose data is the body.
fn binary(payload: &Payload) -> Result<Value, Problem> {
    let mut members: Vec<(String, Value)> = attributes(&payload.headers)?;
    let kind = payload.media_type();
    let is_json = kind == "application/json" || kind.ends_with("+json");
    if !kind.is_empty() {
        members.push(("datacontenttype".to_owned(), value::string(kind)));
    }
    if !payload.bytes.is_empty() {
        let (name, data) = match payload.text() {
            _ if is_json || kind.is_empty() => ("data", payload.json()?),
            Ok(text) => ("data", value::string(text)),
            Err(_) => ("data_base64", value::string(&STANDARD.encode(&payload.bytes))),
        };
        members.push((name.to_owned(), data));
    }
    Ok(value::object(members.iter().map(|(name, value)| (name.as_str(), value.clone()))))
}

fn attributes(headers: &HeaderMap) -> Result<Vec<(String, Value)>, Problem> {
    let attributes = headers.iter().filter_map(|(name, given)| {
        let name = name.as_str().strip_prefix("ce-")?;
        let text = given.to_str().map_err(|_| Problem::invalid(format!("ce-{name} is no text")));
        Some(text.map(|text| (name.to_owned(), value::string(text))))
    });
    attributes.collect()
}

/// The event with an id, a source, a version and a time, if it has none. Those it has are texts: by
/// source, type and id it is told from others.
fn complete(api: &Api, event: &Value) -> Result<Value, Problem> {
    let is_text = |given: &Value| value::as_str(given).is_some_and(|text| !text.is_empty());
    if !value::get(event, "type").is_some_and(is_text) {
        return Err(Problem::invalid("an event is an object with a `type`"));
    }
    let wrong = ["id", "source", "specversion", "time"]
        .into_iter()
        .find(|name| value::get(event, name).is_some_and(|given| !is_text(given)));
    if let Some(name) = wrong {
        return Err(Problem::invalid(format!("the `{name}` of an event is not a text")));
    }
    let id = api.node.new_id().to_string();
    let defaults = [
        ("specversion", "1.0".to_owned()),
        ("id", id),
        ("source", "urn:outlast:api".to_owned()),
        ("time", iso8601(api.node.now())),
    ];
    let missing = defaults.iter().filter(|(name, _)| value::get(event, name).is_none());
    let given = value::members(event).map(|(name, given)| (name, given.clone()));
    Ok(value::object(given.chain(missing.map(|(name, text)| (*name, value::string(text))))))
}
