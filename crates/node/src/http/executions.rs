//! Executions: start, list, look at, wait for, change.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use outlast_engine::{
    Ask, Condition, Detail, Filter, Reply, StartAsk, Summary, Survival, Which, WorkflowVersion,
};
use outlast_expressions::{Value, value};
use outlast_lineage::{Digest, ExecutionId, NodeId};
use serde::Deserialize;
use serde_json::Value as JsonValue;
use utoipa::{IntoParams, ToSchema};

use super::payload::{Members, Parameters, Payload, which};
use super::{Api, Problem, across, cluster, model};
use crate::name::Name;
use crate::random;
use crate::relay::PassedBy;

/// How long a start or a change waits for other nodes: less than whoever passed it on waits for the answer.
const ACKNOWLEDGED_TIME_MAX: Duration = Duration::from_secs(8);
/// What is told of a change that others may never hear of.
const PROVISIONAL: &str = "this node reaches no majority of the nodes that hold the execution: if they go on \
    without it, their run may be the one that counts, and this change is lost";
/// A disk that takes longer for a record is slow enough to be the reason.
const LAG_MAX: Duration = Duration::from_secs(1);

/// A new execution.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body for the API's document; it is read by hand")]
pub(super) struct StartRequest {
    /// The definition's namespace.
    namespace: String,
    /// The definition's name.
    workflow: String,
    /// The definition's version; the latest if none is given.
    version: Option<String>,
    /// The digest of the document that is meant, beside `version`: nothing is started if that version means another
    /// one, as it may where two nodes that did not hear of each other registered different texts.
    digest: Option<String>,
    /// Its input; an empty object if none is given.
    #[schema(value_type = Option<Object>)]
    input: Option<JsonValue>,
    /// Its id, a UUID of the caller's choice: asking again with it starts nothing twice.
    id: Option<String>,
    /// A name of the caller's choice, unique in the namespace, not empty, without control characters; likewise.
    name: Option<String>,
    /// How it is to survive, if not as its definition says: a text such as `passive`, `active:5` or
    /// `partition-tolerant:5:2` (replicas, votes), or an object as in a definition.
    #[schema(value_type = Option<Object>)]
    survival: Option<JsonValue>,
}

/// Which executions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    /// Only of this namespace.
    namespace: Option<String>,
    /// Only of the definition with this name.
    workflow: Option<String>,
    /// Only in this condition.
    condition: Option<String>,
    /// Only those that this node holds together with others.
    holder: Option<String>,
    /// After this id: where the page before ended.
    after: Option<String>,
    /// At most this many.
    limit: Option<usize>,
}

/// Start an execution. Asking again with the same id or name, definition and input starts nothing.
#[utoipa::path(
    post, path = "/v1/executions", tag = "executions", request_body = StartRequest,
    responses(
        (status = 201, description = "It is started", body = model::Started),
        (status = 200, description = "It was started before", body = model::Started),
        (status = 404, description = "There is no such definition", body = Problem),
        (status = 409, description = "The id or name is taken, the version means another document than `digest`, or there are fewer nodes than replicas", body = Problem),
        (status = 429, description = "The namespace has used up its share", body = Problem),
        (status = 504, description = "Too few of the nodes that are to hold it answer in time; asking again by an id or a name starts nothing twice", body = Problem),
        (status = 507, description = "The disk is full", body = Problem),
    )
)]
pub(super) async fn start(
    State(api): State<Arc<Api>>,
    payload: Payload,
) -> Result<(StatusCode, Json<model::Started>), Problem> {
    let known = ["namespace", "workflow", "version", "digest", "input", "id", "name", "survival"];
    let ask = start_ask(&api, &payload.members(&known)?)?;
    match acknowledged(&api, Ask::Start(Box::new(ask)), Awaited::Start).await? {
        Reply::Started { execution, definition, new } => {
            let status = if new { StatusCode::CREATED } else { StatusCode::OK };
            let (execution, definition) = (execution.to_string(), definition.to_string());
            Ok((status, Json(model::Started { execution, definition, new })))
        }
        other => Err(Problem::unexpected(&other)),
    }
}

/// What waits for other nodes to have it.
#[derive(Clone, Copy)]
enum Awaited {
    Start,
    Change,
}

/// Waits for something to be acknowledged, but not for ever: what several nodes hold, or are to, is
/// acknowledged when enough of them have it, and whoever asks where they cannot be reached is told so.
async fn acknowledged(api: &Api, ask: Ask, awaited: Awaited) -> Result<Reply, Problem> {
    let asked = api.ask(ask);
    if api.options.cluster.is_none() {
        return asked.await;
    }
    match tokio::time::timeout(ACKNOWLEDGED_TIME_MAX, asked).await {
        Ok(answered) => answered,
        Err(_) => {
            let missed = cluster::missed(api).await?;
            let detail = why_not_yet(awaited, api.node.journal().lag, &missed);
            Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, detail))
        }
    }
}

/// Why something is not acknowledged yet, as far as the node that was asked can tell, and what to do.
fn why_not_yet(awaited: Awaited, lag: Duration, missed: &cluster::Missed) -> String {
    let (who, follows) = match awaited {
        Awaited::Start => (
            "the nodes that are to hold the execution",
            "it is kept here, listed by `outlast ps`, and begins when they do: ask again, with the same id or \
             name",
        ),
        Awaited::Change => (
            "the nodes that hold the execution",
            "it is done here, and counts when they have it, unless they go on without this node: look at the \
             execution before you ask again",
        ),
    };
    if LAG_MAX <= lag {
        let lag = lag.as_secs();
        return format!(
            "the disk of this node is slow: a record has been waiting for {lag} s; {follows}"
        );
    }
    let reason = match (&missed.silent[..], &missed.deaf[..]) {
        ([], []) => format!(
            "too few of {who} have stored it, though all are heard: a disk of theirs may be full or slow \
             (`GET /ready` and the log of each say so), or they do not hear this node"
        ),
        ([], deaf) => format!(
            "too few of {who} answer: {} are heard here, but do not answer, so they may not hear this node: \
             what leaves it may be cut off, in this one direction",
            deaf.join(", ")
        ),
        (silent, _) => format!(
            "too few of {who} answer: nothing is heard from {}, which are down or cut off, or their disks are \
             full or slow (`outlast cluster status` says which)",
            silent.join(", ")
        ),
    };
    format!("{reason}; {follows}")
}

fn start_ask(api: &Api, body: &Members) -> Result<StartAsk, Problem> {
    let needed = |name: &str| {
        body.text(name)?.ok_or_else(|| Problem::invalid(format!("`{name}` is missing")))
    };
    let id = body.text("id")?.map(|id| {
        id.parse::<ExecutionId>().map_err(|error| Problem::invalid(format!("`id` is {error}")))
    });
    let survival = body.get("survival").filter(|said| **said != Value::Null).map(|said| {
        Survival::read(said).map_err(|reason| Problem::invalid(format!("`survival`: {reason}")))
    });
    let name = body.text("name")?.map(|name| {
        name.parse::<Name>().map_err(|error| Problem::invalid(format!("`name`: {error}")))
    });
    let id = id.transpose()?;
    Ok(StartAsk {
        id: id.unwrap_or_else(|| api.node.new_id()),
        given: id.is_some(),
        name: name.transpose()?.map(Into::into),
        namespace: needed("namespace")?,
        workflow: needed("workflow")?,
        version: version_of(body)?,
        input: body.get("input").cloned().unwrap_or_else(|| value::object([])),
        salt: random::bytes(),
        survival: survival.transpose()?,
    })
}

/// Which version is to be started, and which document it is to be.
fn version_of(body: &Members) -> Result<WorkflowVersion, Problem> {
    let version = body.text("version")?;
    let Some(digest) = body.text("digest")? else {
        return Ok(WorkflowVersion::of(version.as_deref().unwrap_or("latest")));
    };
    let digest = Digest::parse(&digest)
        .ok_or_else(|| Problem::invalid("`digest` is 64 hexadecimal digits"))?;
    match version.map(|version| WorkflowVersion::of(&version)) {
        Some(WorkflowVersion::Exactly(version)) => Ok(WorkflowVersion::Pinned { version, digest }),
        _ => Err(Problem::invalid("with `digest`, `version` says which version it is")),
    }
}

/// Executions in order of their ids, a page at a time.
#[utoipa::path(
    get, path = "/v1/executions", tag = "executions", params(Selection),
    responses((status = 200, body = model::Executions))
)]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Parameters(selection): Parameters<Selection>,
) -> Result<Json<model::Executions>, Problem> {
    let Selection { namespace, workflow, condition, holder, after, limit } = selection;
    let condition = condition.map(|word| {
        Condition::parse(&word).ok_or_else(|| {
            let words = Condition::ALL.map(Condition::word).join(", ");
            Problem::invalid(format!("{word} is no condition; there are {words}"))
        })
    });
    let after = after.map(|id| id.parse().map_err(|_| Problem::invalid("`after` is no id")));
    let filter = Filter {
        namespace,
        workflow,
        condition: condition.transpose()?,
        holder: holder.as_deref().map(|node| cluster::holder_of(&api, node)).transpose()?,
        after: after.transpose()?,
        limit: limit.unwrap_or_default(),
    };
    match api.ask(Ask::List(filter)).await? {
        Reply::Listed { executions, next } => {
            let executions = executions.into_iter().map(Into::into).collect();
            let next = next.map(|id| id.to_string());
            Ok(Json(model::Executions { executions, next, unanswered: Vec::new() }))
        }
        other => Err(Problem::unexpected(&other)),
    }
}

/// One execution. The path is its id, or `namespace/name` with the slash encoded.
#[utoipa::path(
    get, path = "/v1/executions/{execution}", tag = "executions",
    params(("execution" = String, Path)),
    responses((status = 200, body = model::Detail), (status = 404, body = Problem))
)]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    passed: Option<Extension<PassedBy>>,
    Path(execution): Path<String>,
) -> Result<Json<model::Detail>, Problem> {
    let detail = detail(&api, Ask::Show(which(&execution)?)).await?;
    let (execution, leader) = (detail.summary.execution, leader_of(&detail.summary));
    let mut shown = model::Detail::from(detail);
    if let (Some(relay), Some(leader), None) = (&api.options.relay, leader, passed)
        && let Some(leading) = across::leading(relay, leader, execution).await
    {
        shown.add_leader(leading);
    }
    Ok(Json(shown))
}

/// Who goes on with an execution that has not ended, as far as the node knows.
fn leader_of(summary: &Summary) -> Option<NodeId> {
    let holders = summary.holders.as_ref().filter(|_| !summary.condition.is_end());
    holders.and_then(|holders| holders.leader)
}

/// Wait for the end of an execution. With the header `Prefer: wait=SECONDS` it is said after that time that there is
/// no answer yet (504, `urn:outlast:problem:no-answer-yet`).
#[utoipa::path(
    get, path = "/v1/executions/{execution}/wait", tag = "executions",
    params(("execution" = String, Path)),
    responses((status = 200, body = model::Detail), (status = 404, body = Problem))
)]
pub(super) async fn wait(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
) -> Result<Json<model::Detail>, Problem> {
    Ok(Json(detail(&api, Ask::Wait(which(&execution)?)).await?.into()))
}

async fn detail(api: &Api, ask: Ask) -> Result<Detail, Problem> {
    match api.ask(ask).await? {
        Reply::Shown(detail) => Ok(*detail),
        other => Err(Problem::unexpected(&other)),
    }
}

/// Stop an execution.
#[utoipa::path(
    post, path = "/v1/executions/{execution}/cancel", tag = "executions",
    params(("execution" = String, Path)),
    responses(
        (status = 202, body = model::Done),
        (status = 409, body = Problem),
        (status = 504, description = "Too few of the nodes that hold it have it yet, or are heard", body = Problem),
    )
)]
pub(super) async fn cancel(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
) -> Result<(StatusCode, Json<model::Done>), Problem> {
    done(&api, &execution, Ask::Cancel).await
}

/// Hold an execution.
#[utoipa::path(
    post, path = "/v1/executions/{execution}/suspend", tag = "executions",
    params(("execution" = String, Path)),
    responses(
        (status = 202, body = model::Done),
        (status = 409, body = Problem),
        (status = 504, description = "Too few of the nodes that hold it have it yet, or are heard", body = Problem),
    )
)]
pub(super) async fn suspend(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
) -> Result<(StatusCode, Json<model::Done>), Problem> {
    done(&api, &execution, Ask::Suspend).await
}

/// Let an execution go on.
#[utoipa::path(
    post, path = "/v1/executions/{execution}/resume", tag = "executions",
    params(("execution" = String, Path)),
    responses(
        (status = 202, body = model::Done),
        (status = 409, body = Problem),
        (status = 504, description = "Too few of the nodes that hold it have it yet, or are heard", body = Problem),
    )
)]
pub(super) async fn resume(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
) -> Result<(StatusCode, Json<model::Done>), Problem> {
    done(&api, &execution, Ask::Resume).await
}

/// Try the failed task of a faulted execution again.
#[utoipa::path(
    post, path = "/v1/executions/{execution}/retry", tag = "executions",
    params(("execution" = String, Path)),
    responses(
        (status = 202, body = model::Done),
        (status = 409, body = Problem),
        (status = 504, description = "Too few of the nodes that hold it are heard", body = Problem),
    )
)]
pub(super) async fn retry(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
) -> Result<(StatusCode, Json<model::Done>), Problem> {
    done(&api, &execution, Ask::Retry).await
}

/// Why an execution is rolled back.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body for the API's document; it is read by hand")]
pub(super) struct CompensateRequest {
    /// For the history.
    reason: Option<String>,
}

/// Roll an execution back and stop it.
#[utoipa::path(
    post, path = "/v1/executions/{execution}/compensate", tag = "executions",
    params(("execution" = String, Path)), request_body = CompensateRequest,
    responses(
        (status = 202, body = model::Done),
        (status = 409, body = Problem),
        (status = 504, description = "Too few of the nodes that hold it have it yet, or are heard", body = Problem),
    )
)]
pub(super) async fn compensate(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
    payload: Payload,
) -> Result<(StatusCode, Json<model::Done>), Problem> {
    let reason = payload.members(&["reason"])?.text("reason")?;
    let reason = reason.unwrap_or_else(|| "someone asked for it".to_owned());
    done(&api, &execution, |which| Ask::Compensate { which, reason }).await
}

/// What is forgotten.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Deletion {
    /// Whether also an execution whose end is lost with nodes that were removed (`endIsMissing` at all that are
    /// left): what was done stays done, and whoever waits for the end is told that it is forgotten.
    force: Option<bool>,
}

/// Forget an execution that has ended.
#[utoipa::path(
    delete, path = "/v1/executions/{execution}", tag = "executions",
    params(("execution" = String, Path), Deletion),
    responses(
        (status = 202, body = model::Done),
        (status = 409, body = Problem),
        (status = 504, description = "Some that have or may have it are not heard", body = Problem),
    )
)]
pub(super) async fn delete(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
    Parameters(deletion): Parameters<Deletion>,
) -> Result<(StatusCode, Json<model::Done>), Problem> {
    let ask = if deletion.force == Some(true) { Ask::GiveUp } else { Ask::Delete };
    done(&api, &execution, ask).await
}

async fn done(
    api: &Api,
    execution: &str,
    ask: impl FnOnce(Which) -> Ask,
) -> Result<(StatusCode, Json<model::Done>), Problem> {
    let provisional = match acknowledged(api, ask(which(execution)?), Awaited::Change).await? {
        Reply::Done => None,
        Reply::DoneHere => Some(PROVISIONAL.to_owned()),
        other => return Err(Problem::unexpected(&other)),
    };
    Ok((StatusCode::ACCEPTED, Json(model::Done { done: true, provisional })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_not_answered_is_told_whether_a_disk_or_a_node_is_waited_for() {
        let (quick, slow) = (Duration::from_millis(3), Duration::from_secs(7));
        let nobody = cluster::Missed::default();
        assert!(
            why_not_yet(Awaited::Start, slow, &nobody).starts_with("the disk of this node is slow")
        );
        let nodes = vec!["a".to_owned(), "b".to_owned()];
        let silent = cluster::Missed { silent: nodes.clone(), ..Default::default() };
        assert!(
            why_not_yet(Awaited::Start, quick, &silent)
                .contains("nothing is heard from a, b, which")
        );
        assert!(
            why_not_yet(Awaited::Start, quick, &nobody)
                .contains("a disk of theirs may be full or slow")
        );
        let deaf = cluster::Missed { deaf: nodes, ..Default::default() };
        assert!(
            why_not_yet(Awaited::Change, quick, &deaf)
                .contains("a, b are heard here, but do not answer")
        );
    }
}
