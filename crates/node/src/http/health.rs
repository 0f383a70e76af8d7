//! Whether the node is there, whether it takes work, and what it counted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value as JsonValue, json};

use super::{Api, Problem};
use crate::metrics;

/// Whether the node is there.
#[utoipa::path(get, path = "/health", tag = "node", responses((status = 200, body = Object)))]
pub(super) async fn health(State(api): State<Arc<Api>>) -> Json<JsonValue> {
    let node = format!("{:016x}", api.node.meta().node.0);
    Json(json!({ "node": node, "version": env!("CARGO_PKG_VERSION") }))
}

/// Whether the node takes work.
#[utoipa::path(
    get, path = "/ready", tag = "node",
    responses((status = 200, body = Object), (status = 503, body = Problem))
)]
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Result<Json<JsonValue>, Problem> {
    api.node.counts().await?;
    match api.node.storage() {
        Ok(()) => Ok(Json(json!({ "ready": true }))),
        Err(error) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}

/// What was counted, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "node", responses((status = 200, body = String)))]
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Result<impl IntoResponse, Problem> {
    let transport = api.options.cluster.as_ref().map(|cluster| cluster.transport().statistics());
    let text = metrics::text(&api.node.counts().await?, &api.node.journal(), transport.as_ref());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text))
}

/// This description.
pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], super::openapi())
}
