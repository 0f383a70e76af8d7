//! What a request is answered with when it is not done: a problem document (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outlast_engine::{Refusal, Reply};
use outlast_languages::Diagnostic;
use outlast_lineage::NodeId;
use serde::Serialize;
use serde_json::Value as Json;
use utoipa::ToSchema;

use crate::node::Gone;
use crate::store::StoreError;

/// Why a request was not done.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// What kind of problem it is, for programs.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The same in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What happened, and what to do.
    detail: String,
    /// What is wrong with a rejected document.
    #[serde(flatten)]
    document: Option<Box<Rejected>>,
    /// When it may be worth trying again, in seconds.
    #[serde(skip)]
    retry_after: Option<u64>,
    /// Who can do it instead.
    #[serde(skip)]
    nodes: Vec<NodeId>,
}

/// Who can do what this node does not do: for whoever passes requests on.
#[derive(Clone, Debug, Default)]
pub(super) struct AskInstead(pub(super) Vec<NodeId>);

/// What is wrong with a rejected document. Other problems have none of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Rejected {
    /// The problems, each with its place.
    #[schema(value_type = Vec<Object>, required = false)]
    diagnostics: Json,
    /// The problems as text, with the lines underlined.
    #[schema(required = false)]
    rendered: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let (kind, title) = named(status);
        Self {
            kind,
            title,
            status: status.as_u16(),
            detail: detail.into(),
            document: None,
            retry_after: None,
            nodes: Vec::new(),
        }
    }

    /// The request itself is wrong.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Nobody leads the execution that is to be changed: nothing is wrong with this node.
    pub(super) fn leaderless(detail: impl Into<String>) -> Self {
        let (kind, title) = ("urn:outlast:problem:leaderless", "Nobody leads the execution");
        Self { kind, title, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// What is under way stands in the way, for a moment.
    fn not_yet(detail: impl Into<String>) -> Self {
        let (kind, title) = ("urn:outlast:problem:not-yet", "It is not possible yet");
        let retry_after = Some(1);
        Self { kind, title, retry_after, ..Self::new(StatusCode::CONFLICT, detail) }
    }

    /// There is no answer within the time in which whoever asks would hear something.
    pub(super) fn no_answer_yet() -> Self {
        let (kind, title) = ("urn:outlast:problem:no-answer-yet", "There is no answer yet");
        let detail =
            "there is no answer yet, and the request prefers not to wait for longer; ask again";
        Self { kind, title, ..Self::new(StatusCode::GATEWAY_TIMEOUT, detail) }
    }

    /// The engine answered something else than was asked.
    pub(super) fn unexpected(reply: &Reply) -> Self {
        tracing::error!(?reply, "a reply that was not asked for");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the node answered something else")
    }

    /// A document was rejected.
    pub(super) fn rejected(report: &outlast_languages::Report, text: &str) -> Self {
        let detail = match report.diagnostics.len() {
            1 => "the document has a problem".to_owned(),
            count => format!("the document has {count} problems"),
        };
        let diagnostics = report.diagnostics.iter().map(Diagnostic::to_json).collect();
        let rendered = report.render(text, false);
        let document = Some(Box::new(Rejected { diagnostics, rendered }));
        Self { document, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }
}

/// The kinds of problems: none of the address is meant to be visited.
const fn named(status: StatusCode) -> (&'static str, &'static str) {
    match status.as_u16() {
        400 => ("urn:outlast:problem:invalid", "The request is wrong"),
        401 => ("urn:outlast:problem:token", "A token is needed"),
        403 => ("urn:outlast:problem:origin", "The request comes from elsewhere"),
        404 => ("urn:outlast:problem:unknown", "There is no such thing"),
        405 => ("urn:outlast:problem:method", "Not this method"),
        408 => ("urn:outlast:problem:slow", "The request took too long"),
        409 => ("urn:outlast:problem:conflict", "It is not possible as things are"),
        410 => ("urn:outlast:problem:forgotten", "It was there and is deleted"),
        413 => ("urn:outlast:problem:too-large", "It is too large"),
        421 => ("urn:outlast:problem:elsewhere", "It is for another node to do"),
        422 => ("urn:outlast:problem:document", "The document is rejected"),
        429 => ("urn:outlast:problem:busy", "Too much at once"),
        503 => ("urn:outlast:problem:stopped", "The node takes no work"),
        504 => ("urn:outlast:problem:unanswered", "Another node did not answer"),
        507 => ("urn:outlast:problem:storage-full", "The disk is full"),
        _ => ("urn:outlast:problem:internal", "Something is wrong with the node"),
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match &refusal {
            Refusal::NotYet(reason) => return Self::not_yet(reason),
            Refusal::UnknownExecution(_) | Refusal::UnknownDefinition(_) => StatusCode::NOT_FOUND,
            Refusal::Forgotten(_) => StatusCode::GONE,
            Refusal::Conflict(_)
            | Refusal::NotPossible(_)
            | Refusal::NotKept(_)
            | Refusal::Busy { retry_after: None, .. } => StatusCode::CONFLICT,
            Refusal::PerhapsOld { .. } => StatusCode::GATEWAY_TIMEOUT,
            Refusal::Invalid(_) => StatusCode::BAD_REQUEST,
            Refusal::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Elsewhere { .. } => StatusCode::MISDIRECTED_REQUEST,
            Refusal::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
            Refusal::Unreadable { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let retry_after = match &refusal {
            Refusal::Busy { retry_after, .. } => retry_after.map(|later| later.as_secs().max(1)),
            Refusal::StorageFull => Some(10),
            Refusal::Elsewhere { .. } => Some(1),
            _ => None,
        };
        let nodes = match &refusal {
            Refusal::Elsewhere { nodes } => nodes.clone(),
            _ => Vec::new(),
        };
        Self { retry_after, nodes, ..Self::new(status, refusal.to_string()) }
    }
}

impl From<Gone> for Problem {
    fn from(gone: Gone) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, gone.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store cannot be read");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).expect("texts and numbers encode");
        let mut response = (status, body).into_response();
        if !self.nodes.is_empty() {
            response.extensions_mut().insert(AskInstead(self.nodes));
        }
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
