//! Definitions: register, list, read.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use outlast_engine::{Ask, Reply, WorkflowVersion};
use outlast_languages::openworkflow;
use serde::Deserialize;
use utoipa::IntoParams;

use super::payload::{Parameters, Payload};
use super::{Api, Problem, model};

/// Which definitions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    /// Only of this namespace.
    namespace: Option<String>,
}

/// Register a definition. The body is the document as it is, YAML or JSON.
#[utoipa::path(
    post, path = "/v1/definitions", tag = "definitions", request_body = String,
    responses(
        (status = 201, description = "It is registered", body = model::Defined),
        (status = 200, description = "It was registered before", body = model::Defined),
        (status = 409, description = "The version is registered with another text", body = Problem),
        (status = 422, description = "The document is rejected", body = Problem),
    )
)]
pub(super) async fn register(
    State(api): State<Arc<Api>>,
    payload: Payload,
) -> Result<(StatusCode, Json<model::Defined>), Problem> {
    let text: Arc<str> = payload.text()?.into();
    let checked = Arc::clone(&text);
    // Compiling a large document takes a while, and others wait on this thread.
    let report = tokio::task::spawn_blocking(move || openworkflow::check("document", &checked))
        .await
        .map_err(|error| Problem::invalid(format!("the document cannot be read: {error}")))?;
    let Some(program) = &report.program else { return Err(Problem::rejected(&report, &text)) };
    let ask = Ask::Define { program: Arc::clone(program), text };
    match api.ask(ask).await? {
        Reply::Defined { new, .. } => {
            let status = if new { StatusCode::CREATED } else { StatusCode::OK };
            Ok((status, Json(model::Defined::new(program, new))))
        }
        other => Err(Problem::unexpected(&other)),
    }
}

/// All registered definitions.
#[utoipa::path(
    get, path = "/v1/definitions", tag = "definitions", params(Selection),
    responses((status = 200, body = model::Definitions))
)]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Parameters(Selection { namespace }): Parameters<Selection>,
) -> Result<Json<model::Definitions>, Problem> {
    match api.ask(Ask::Definitions { namespace }).await? {
        Reply::Definitions(found) => {
            let definitions = found.into_iter().map(Into::into).collect();
            Ok(Json(model::Definitions { definitions, unanswered: Vec::new() }))
        }
        other => Err(Problem::unexpected(&other)),
    }
}

/// One definition with its text; the version may be `latest`.
#[utoipa::path(
    get, path = "/v1/definitions/{namespace}/{name}/{version}", tag = "definitions",
    params(("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    responses(
        (status = 200, body = model::Definition),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn get(
    State(api): State<Arc<Api>>,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Json<model::Definition>, Problem> {
    let version = WorkflowVersion::of(&version);
    match api.ask(Ask::Definition { namespace, name, version }).await? {
        Reply::Definition { summary, text } => {
            let text = text.to_string();
            Ok(Json(model::Definition { summary: summary.into(), text }))
        }
        other => Err(Problem::unexpected(&other)),
    }
}
