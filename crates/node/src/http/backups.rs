//! A copy of the node's data, made while it runs.

use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa::ToSchema;

use super::payload::Payload;
use super::{Api, Problem, model};
use crate::data::DataError;

/// Where the copy goes.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body for the API's document; it is read by hand")]
pub(super) struct BackupRequest {
    /// An absolute path on the node's machine, of a directory that is new or empty.
    target: String,
}

/// Copy the node's data into a directory on its machine. The node goes on meanwhile.
#[utoipa::path(
    post, path = "/v1/backups", tag = "node", request_body = BackupRequest,
    responses(
        (status = 201, description = "The copy is whole", body = model::Backup),
        (status = 400, description = "The path is not absolute", body = Problem),
        (status = 409, description = "There is something in the directory", body = Problem),
    )
)]
pub(super) async fn make(
    State(api): State<Arc<Api>>,
    payload: Payload,
) -> Result<(StatusCode, Json<model::Backup>), Problem> {
    let target = payload.members(&["target"])?.text("target")?;
    let Some(target) = target.as_deref().map(Path::new).filter(|path| path.is_absolute()) else {
        return Err(Problem::invalid("`target` is the absolute path of a directory"));
    };
    api.node.backup(target.to_owned()).await.map_err(|error| match error {
        DataError::NotEmpty { .. } => Problem::new(StatusCode::CONFLICT, error.to_string()),
        error => {
            let detail = format!("the copy was not made: {:#}", anyhow::Error::from(error));
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
        }
    })?;
    Ok((StatusCode::CREATED, Json(model::Backup { backup: target.display().to_string() })))
}
