//! What waits for a person: list it, and say what became of it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use outlast_engine::{Ask, ParkedFilter, Reply};
use outlast_expressions::Value;
use outlast_workflow::Resolution;
use serde::Deserialize;
use serde_json::Value as JsonValue;
use utoipa::{IntoParams, ToSchema};

use super::payload::{Parameters, Payload, which};
use super::{Api, Problem, model};

/// Which parked effects.
#[derive(Deserialize, Default, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    /// Only of this execution: its id, or `namespace/name`.
    execution: Option<String>,
    /// Only this effect.
    effect: Option<String>,
    /// Only of this namespace.
    namespace: Option<String>,
    /// Only of the definition with this name.
    workflow: Option<String>,
}

impl Selection {
    fn filter(self) -> Result<ParkedFilter, Problem> {
        let Self { execution, effect, namespace, workflow } = self;
        let effect = effect.map(|text| {
            model::effect_of(&text)
                .ok_or_else(|| Problem::invalid(format!("{text} is no effect; list them first")))
        });
        Ok(ParkedFilter {
            which: execution.as_deref().map(which).transpose()?,
            effect: effect.transpose()?,
            namespace,
            workflow,
        })
    }
}

/// What became of parked effects: of all that fit.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body for the API's document; it is read by hand")]
pub(super) struct ResolveRequest {
    /// done, not-done, retry or abandon.
    resolution: String,
    /// What it answered, if it is done.
    #[schema(value_type = Option<Object>)]
    result: Option<JsonValue>,
    execution: Option<String>,
    effect: Option<String>,
    namespace: Option<String>,
    workflow: Option<String>,
}

/// What waits for a person.
#[utoipa::path(
    get, path = "/v1/parked", tag = "parked", params(Selection),
    responses((status = 200, body = model::Parked))
)]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Parameters(selection): Parameters<Selection>,
) -> Result<Json<model::Parked>, Problem> {
    match api.ask(Ask::Parked(selection.filter()?)).await? {
        Reply::Parked(items) => {
            let parked = items.into_iter().map(Into::into).collect();
            Ok(Json(model::Parked { parked, unanswered: Vec::new() }))
        }
        other => Err(Problem::unexpected(&other)),
    }
}

/// Say what became of parked effects, one or many.
#[utoipa::path(
    post, path = "/v1/parked/resolve", tag = "parked", request_body = ResolveRequest,
    responses((status = 200, body = model::Resolved), (status = 400, body = Problem))
)]
pub(super) async fn resolve(
    State(api): State<Arc<Api>>,
    payload: Payload,
) -> Result<Json<model::Resolved>, Problem> {
    let known = ["resolution", "result", "execution", "effect", "namespace", "workflow"];
    let body = payload.members(&known)?;
    let selection = Selection {
        execution: body.text("execution")?,
        effect: body.text("effect")?,
        namespace: body.text("namespace")?,
        workflow: body.text("workflow")?,
    };
    let filter = selection.filter()?;
    let resolution = resolution(body.text("resolution")?.as_deref(), body.get("result"))?;
    match api.ask(Ask::Resolve { filter, resolution }).await? {
        Reply::Resolved(items) => {
            let items: Vec<_> = items.into_iter().map(Into::into).collect();
            Ok(Json(model::Resolved { resolved: items.len(), items }))
        }
        other => Err(Problem::unexpected(&other)),
    }
}

fn resolution(word: Option<&str>, result: Option<&Value>) -> Result<Resolution, Problem> {
    match word {
        Some("done") => Ok(Resolution::Done(result.cloned().unwrap_or(Value::Null))),
        Some("not-done") => Ok(Resolution::NotDone),
        Some("retry") => Ok(Resolution::Retry),
        Some("abandon") => Ok(Resolution::Abandon),
        _ => Err(Problem::invalid("`resolution` is one of done, not-done, retry, abandon")),
    }
}
