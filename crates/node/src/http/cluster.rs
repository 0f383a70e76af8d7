//! The cluster that a node is a member of: who is in it, and invitations to it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlast_expressions::{Value, value};
use outlast_lineage::{NodeId, Time};
use outlast_workflow::moment::iso8601;
use serde::Serialize;
use utoipa::ToSchema;

use super::payload::Payload;
use super::{Api, Problem};
use crate::cluster::{Cluster, ClusterError};
use crate::transport::{Direction, PeerStatistics};

/// How long an invitation is valid unless it is said.
const VALID: Duration = Duration::from_secs(60 * 60);

/// A cluster, as one of its members sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ClusterView {
    /// The cluster's id.
    cluster: String,
    /// The node that answers.
    node: String,
    /// Every member it has heard of, itself included.
    members: Vec<MemberView>,
}

/// A member, as another one sees it.
#[derive(Debug, Serialize, ToSchema)]
struct MemberView {
    node: String,
    /// Where it can be reached.
    addresses: Vec<String>,
    /// Whether messages can leave for it; of the node that answers, always.
    connected: bool,
    /// Messages sent to it.
    sent: u64,
    /// Messages received from it.
    received: u64,
    /// Messages to it that had to make room for newer ones.
    displaced: u64,
}

/// An invitation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct InvitationView {
    /// What the joiner gives as `--token`. It admits one node, and is shown this once.
    token: String,
    /// Until when it is valid.
    expires: String,
    /// Where the joiner finds the inviting node.
    addresses: Vec<String>,
}

/// For how long to invite.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body for the API's document; it is read by hand")]
pub(super) struct InvitationRequest {
    /// In seconds; an hour unless it is said, 30 days at most.
    valid: Option<u64>,
}

/// The cluster that the node is a member of.
#[utoipa::path(
    get, path = "/v1/cluster", tag = "cluster",
    responses((status = 200, body = ClusterView), (status = 409, body = Problem))
)]
pub(super) async fn show(State(api): State<Arc<Api>>) -> Result<Json<ClusterView>, Problem> {
    let cluster = member(&api)?;
    let (identity, mut peers) =
        (cluster.transport().identity(), cluster.transport().statistics().peers);
    let members = cluster.places().into_iter().map(|(node, addresses)| {
        let PeerStatistics { connected, sent, received, displaced, .. } =
            peers.remove(&node).unwrap_or_default();
        let connected = connected || node == identity.node;
        MemberView { node: text_of(node), addresses, connected, sent, received, displaced }
    });
    Ok(Json(ClusterView {
        cluster: identity.cluster.to_string(),
        node: text_of(identity.node),
        members: members.collect(),
    }))
}

/// Invite one node into the cluster.
#[utoipa::path(
    post, path = "/v1/cluster/invitations", tag = "cluster", request_body = InvitationRequest,
    responses((status = 201, body = InvitationView), (status = 409, body = Problem))
)]
pub(super) async fn invite(
    State(api): State<Arc<Api>>,
    payload: Payload,
) -> Result<(StatusCode, Json<InvitationView>), Problem> {
    let cluster = member(&api)?.clone();
    let valid = match value::get(&payload.json()?, "valid") {
        None => VALID,
        Some(seconds) => seconds_of(seconds)?,
    };
    let inviting = tokio::task::spawn_blocking(move || cluster.invite(valid));
    let invitation = inviting.await.expect("inviting does not panic")?;
    let expires = invitation.expires.duration_since(UNIX_EPOCH).unwrap_or_default();
    let expires = Time::from_millis(u64::try_from(expires.as_millis()).unwrap_or(u64::MAX));
    let view = InvitationView {
        token: invitation.token.to_text(),
        expires: iso8601(expires),
        addresses: invitation.token.addresses,
    };
    Ok((StatusCode::CREATED, Json(view)))
}

/// Drop messages from and to exactly these nodes. Only for nodes that were started for tests.
pub(super) async fn cut(
    State(api): State<Arc<Api>>,
    payload: Payload,
) -> Result<StatusCode, Problem> {
    let cluster = member(&api)?;
    let body = payload.json()?;
    let nodes = nodes_of(value::get(&body, "block"))?;
    let transport = cluster.transport();
    let ways = [("incoming", Direction::Incoming), ("outgoing", Direction::Outgoing)];
    transport.unblock_all();
    for (name, direction) in ways {
        if matches!(value::get(&body, name), None | Some(Value::Bool(true))) {
            nodes.iter().for_each(|node| transport.block(*node, direction));
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

fn member(api: &Api) -> Result<&Cluster, Problem> {
    api.options.cluster.as_ref().ok_or_else(|| {
        let detail = "this node is in no cluster: `outlast cluster init` founds one, and \
                      `outlast node --join` joins one";
        Problem::new(StatusCode::CONFLICT, detail)
    })
}

fn seconds_of(seconds: &Value) -> Result<Duration, Problem> {
    let seconds = value::as_i64(seconds).and_then(|seconds| u64::try_from(seconds).ok());
    seconds.filter(|seconds| 0 < *seconds).map(Duration::from_secs).ok_or_else(|| {
        Problem::invalid("`valid` is for how many seconds the invitation is to be good")
    })
}

fn nodes_of(list: Option<&Value>) -> Result<Vec<NodeId>, Problem> {
    let nodes = list.and_then(value::as_array);
    let nodes = nodes.ok_or_else(|| Problem::invalid("`block` is a list of nodes"))?;
    let node = |text: &Value| u64::from_str_radix(value::as_str(text)?, 16).ok().map(NodeId);
    nodes
        .iter()
        .map(|text| node(text).ok_or_else(|| Problem::invalid("a node is 16 hexadecimal digits")))
        .collect()
}

fn text_of(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

impl From<ClusterError> for Problem {
    fn from(error: ClusterError) -> Self {
        let status = match error {
            ClusterError::NotReachable => StatusCode::CONFLICT,
            ClusterError::TooManyInvitations { .. } => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
