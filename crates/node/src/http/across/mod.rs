//! Any node takes any command: what this node does not hold or lead is passed on to one that does.
//!
//! A request about one execution is answered here if it is held here, and changes are made where it is
//! led. Otherwise every node that can be reached is asked whether it knows it, within a bounded time.
//! Lists are those of all nodes, each execution once. Whatever could not be asked is named in the
//! answer. What was passed on is answered by whoever got it, and never passed on again.

mod copies;
mod deleting;
mod following;
mod giving_up;
mod known_by;
mod lists;
mod one;
mod starting;

pub(super) use one::leading;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use outlast_lineage::NodeId;
use serde::Deserialize;

use super::cluster::Share;
use super::payload::Payload;
use super::{Api, Problem};
use crate::relay::{Answer, PassedBy, Relay, Request as Passed, Unanswered};

/// How long a look at another node may take.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);
/// How long a change at another node may take.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(10);

/// What a path is about.
enum Subject {
    /// This node.
    Here,
    /// One execution; the rest of the path.
    One(String, String),
    /// Everything that happens in one execution, as it happens.
    Follow(String),
    /// A list that every node has a part of.
    List,
    /// A new execution.
    Start,
    /// A definition, which any node may know.
    Definition,
}

/// A request that can be sent more than once.
#[derive(Clone)]
struct Whole {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// What the router found out about the path.
    extensions: Extensions,
    body: Bytes,
}

/// Answers a request here, or has another node answer it.
pub(super) async fn pass(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let subject = subject(&request);
    let Some(relay) = api.options.relay.clone() else { return next.run(request).await };
    if request.extensions().get::<PassedBy>().is_some() {
        return one::answer_passed(&api, &relay, &subject, request, next).await;
    }
    if matches!(subject, Subject::Here) {
        return next.run(request).await;
    }
    let whole = match Whole::read(request).await {
        Ok(whole) => whole,
        Err(problem) => return problem.into_response(),
    };
    let answered = match subject {
        Subject::Here => unreachable!("answered above"),
        Subject::One(execution, rest) => {
            one::answer(&api, &relay, (&execution, &rest), whole, next).await
        }
        Subject::Follow(execution) => {
            following::answer(&api, &relay, &execution, whole, next).await
        }
        Subject::List => lists::answer(&relay, whole, next).await,
        Subject::Start => starting::answer(&api, &relay, whole, next).await,
        Subject::Definition => definition(&relay, whole, next).await,
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

fn subject(request: &Request) -> Subject {
    let path = request.uri().path();
    match path {
        "/v1/executions" if request.method() == Method::POST => return Subject::Start,
        "/v1/executions" | "/v1/parked" | "/v1/parked/resolve" => return Subject::List,
        "/v1/definitions" if request.method() == Method::GET => return Subject::List,
        _ if path.starts_with("/v1/definitions/") => return Subject::Definition,
        _ => {}
    }
    let Some(rest) = path.strip_prefix("/v1/executions/") else { return Subject::Here };
    let (execution, rest) = rest.split_once('/').unwrap_or((rest, ""));
    match rest {
        "events" => Subject::Follow(execution.to_owned()),
        _ => Subject::One(execution.to_owned(), rest.to_owned()),
    }
}

impl Whole {
    async fn read(request: Request) -> Result<Self, Problem> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let extensions = request.extensions().clone();
        let Payload { headers, bytes } = Payload::from_request(request, &()).await?;
        Ok(Self { method, uri, headers, extensions, body: bytes })
    }

    fn request(&self) -> Request {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        request
    }

    fn passed(&self) -> Passed {
        let media = self.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        Passed {
            method: self.method.as_str().to_owned(),
            path: path.to_owned(),
            media: media.unwrap_or_default().to_owned(),
            body: self.body.to_vec(),
            patience_ms: 0,
        }
    }
}

/// A request without a body.
fn look(path: String) -> Passed {
    Passed {
        method: "GET".to_owned(),
        path,
        media: String::new(),
        body: Vec::new(),
        patience_ms: 0,
    }
}

/// Asks every other node the same at once; those that cannot be reached are not waited for.
async fn ask_all(
    relay: &Relay,
    request: &Passed,
    patience: Duration,
) -> Vec<(NodeId, Result<Answer, Unanswered>)> {
    let asking = relay.others().into_iter().map(|(node, connected)| async move {
        let answered = match connected {
            true => relay.ask(node, request.clone(), patience).await,
            false => Err(Unanswered::Unsent),
        };
        (node, answered)
    });
    futures_util::future::join_all(asking).await
}

/// A definition as this node knows it, or else as another one does: whoever runs it can show it.
async fn definition(relay: &Relay, whole: Whole, next: Next) -> Result<Response, Problem> {
    let here = next.run(whole.request()).await;
    if here.status() != StatusCode::NOT_FOUND {
        return Ok(here);
    }
    let answers = ask_all(relay, &whole.passed(), LOOK_TIME_MAX).await;
    let known = answers.into_iter().find_map(|(_, it)| it.ok().filter(|it| it.status == 200));
    Ok(known.map_or(here, response))
}

/// What each of the other nodes that answer has to do with executions.
pub(super) async fn shares(relay: &Relay) -> BTreeMap<NodeId, Share> {
    let answers = ask_all(relay, &look("/v1/cluster".to_owned()), LOOK_TIME_MAX).await;
    let share = |answer: Answer| {
        let view: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
        Share::deserialize(view.get("own")?).ok()
    };
    let answered = answers.into_iter().filter_map(|(node, it)| Some((node, share(it.ok()?)?)));
    answered.collect()
}

/// The executions that a node holds together with others, as the other nodes that answer list them, at
/// most so many of each; and whether there are more.
pub(super) async fn held_with(
    relay: &Relay,
    node: &str,
    limit: usize,
) -> (Vec<(String, Vec<String>)>, bool) {
    let path = format!("/v1/executions?holder={node}&limit={limit}");
    let answers = ask_all(relay, &look(path), LOOK_TIME_MAX).await;
    let (mut executions, mut more) = (Vec::new(), false);
    for answer in answers.into_iter().filter_map(|(_, it)| it.ok()) {
        let listed: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let lines = listed["executions"].as_array().into_iter().flatten();
        executions.extend(lines.filter_map(|line| {
            let nodes = line["nodes"].as_array().into_iter().flatten();
            let nodes = nodes.filter_map(|node| Some(node.as_str()?.to_owned())).collect();
            Some((line["execution"].as_str()?.to_owned(), nodes))
        }));
        more |= listed["next"].is_string();
    }
    (executions, more)
}

/// The nodes that did not answer, as text.
fn silent<T>(answers: &[(NodeId, Result<T, Unanswered>)]) -> Vec<String> {
    let silent = answers.iter().filter(|(_, answered)| answered.is_err());
    silent.map(|(node, _)| text_of(*node)).collect()
}

fn text_of(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

/// What another node answered, as an answer of this one.
fn response(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    if answer.body.is_empty() && status.as_u16() >= StatusCode::BAD_REQUEST.as_u16() {
        return Problem::new(status, why_without_words(status)).into_response();
    }
    let mut response = (status, answer.body).into_response();
    if let Ok(media) = HeaderValue::from_str(&answer.media) {
        response.headers_mut().insert(header::CONTENT_TYPE, media);
    }
    response
}

/// Why the node that was asked answers that there is no answer to pass on.
fn why_without_words(status: StatusCode) -> &'static str {
    match status {
        StatusCode::GATEWAY_TIMEOUT => {
            "the node that was asked came to no answer in time; whether it was done is not known: look, or ask \
             again, which starts nothing twice that has an id or a name"
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            "the node that was asked has too much to answer, or is about to stop; nothing was done, ask again"
        }
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::INSUFFICIENT_STORAGE => {
            "the answer is too large to be passed on between nodes; ask a node that holds the execution"
        }
        _ => "the node that was asked could make nothing of the request",
    }
}

/// A node did not answer.
fn no_answer(node: NodeId, unanswered: Unanswered) -> Problem {
    let node = text_of(node);
    let detail = match unanswered {
        Unanswered::Unsent => format!("node {node} cannot be reached; nothing was done"),
        Unanswered::Lost => format!(
            "node {node} was lost before it answered; whether it was done is not known: look, or ask again, which \
             another node answers if one holds it"
        ),
        Unanswered::Unknown => {
            format!("node {node} did not answer in time; whether it was done is not known")
        }
    };
    Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn an_answer_without_words_is_passed_on_as_a_problem() {
        for status in [400, 413, 503, 504, 507] {
            let answer = Answer { status, media: String::new(), body: Vec::new() };
            let response = response(answer);
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
            let body = to_bytes(response.into_body(), 4096).await.unwrap();
            assert!(String::from_utf8_lossy(&body).contains("\"detail\":\"the "), "{body:?}");
        }
        let done = Answer { status: 204, media: String::new(), body: Vec::new() };
        assert_eq!(response(done).status(), StatusCode::NO_CONTENT);
    }
}
