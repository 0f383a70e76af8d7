//! The cluster that a node is a member of: who is in it, and invitations to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use outlast_engine::{Ask, ClusterStanding, MemberStanding, Reply};
use outlast_expressions::{Value, value};
use outlast_lineage::{NodeId, Time};
use outlast_workflow::moment::iso8601;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::payload::Payload;
use super::{Api, Problem, across};
use crate::causes::chain;
use crate::cluster::{Cluster, ClusterError, VALID_MAX};
use crate::relay::PassedBy;
use crate::transport::{Direction, PeerStatistics};

/// How long an invitation is valid unless it is said.
const VALID: Duration = Duration::from_secs(60 * 60);
/// The state of a member that said that it leaves.
const LEFT: &str = "left";
/// The states of a member that did not answer when gossip asked.
const UNANSWERING: [&str; 2] = ["suspect", "dead"];

/// A cluster, as one of its members sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ClusterView {
    /// The cluster's id.
    cluster: String,
    /// The node that answers.
    node: String,
    /// Every member it has heard of, itself included.
    members: Vec<MemberView>,
    /// Members that should be there and whose heartbeats do not arrive here: they are down, or the
    /// network is cut. Those that said that they leave are not among them.
    unreachable: Vec<String>,
    /// Nodes that were removed for good.
    removed: Vec<String>,
    /// Nodes that were let in and have not come, as far as the members that answer know: they hold nothing and
    /// are waited for by nobody.
    expected: Vec<String>,
    /// Of the node that answers.
    own: Share,
}

/// What a node has to do with executions.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Share {
    /// Executions there that have not ended.
    live: u64,
    /// Executions that it holds together with others.
    held: u64,
    /// Of these, those that it advances.
    led: u64,
    /// Of those it holds, those that stand still there: too few nodes can be reached to go on, or
    /// undoing would cost more than the budget.
    #[serde(default)]
    stalled: u64,
    /// Executions there that have not ended and that nobody else holds.
    #[serde(default)]
    pub(super) alone: u64,
    /// Executions that wait there for the answer to a call that must not be made twice.
    #[serde(default)]
    hearing: u64,
    /// Whether it takes no new work.
    draining: bool,
    /// Nodes whose word it waits for before it undoes what it did in runs that do not count, or forgets
    /// executions that have ended, and that it holds together with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    awaited: Vec<String>,
    /// Nodes that it has let in and that have not come since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) expected: Vec<String>,
}

/// A member, as another one sees it.
#[derive(Debug, Serialize, ToSchema)]
struct MemberView {
    node: String,
    /// Where it can be reached.
    addresses: Vec<String>,
    /// joining, alive, suspect, dead or left, as gossip has it; of the node that answers, always alive.
    state: &'static str,
    /// Since when.
    since: Option<String>,
    /// Which release it runs; empty if it has not said.
    release: String,
    /// Whether its heartbeats arrive here.
    reachable: bool,
    /// By how many seconds its clock is ahead of that of the node that answers, if it differs by one or more.
    #[serde(rename = "clockAhead", skip_serializing_if = "Option::is_none")]
    clock_ahead: Option<f64>,
    /// Where another process came from that spoke as this member, beside the one that is heard, and was turned
    /// away within the last ten minutes: a copy of its data directory is in use.
    #[serde(rename = "turnedAway", skip_serializing_if = "Option::is_none")]
    turned_away: Option<String>,
    /// What it has to do with executions, if it answered.
    share: Option<Share>,
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
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    passed: Option<Extension<PassedBy>>,
) -> Result<Json<ClusterView>, Problem> {
    let cluster = member(&api)?;
    let standing = standing(&api, Ask::Standing).await?;
    let mut shares = match (&api.options.relay, passed) {
        (Some(relay), None) => across::shares(relay).await,
        _ => BTreeMap::new(),
    };
    let expected = cluster.expected().into_iter().map(text_of).collect();
    let own = Share { expected, ..Share::of(&standing) };
    let (identity, mut peers) =
        (cluster.transport().identity(), cluster.transport().statistics().peers);
    shares.insert(identity.node, own.clone());
    let ahead: BTreeMap<NodeId, f64> =
        standing.clocks.iter().map(|(node, micros)| (*node, *micros as f64 / 1e6)).collect();
    let expected = expected_by(cluster, shares.values());
    let members = cluster.places().into_iter().map(|(node, addresses)| {
        let PeerStatistics { connected, sent, received, displaced, second, .. } =
            peers.remove(&node).unwrap_or_default();
        let here = node == identity.node;
        let other = standing.members.iter().find(|other| other.node == node);
        let since = if here { standing.since } else { other.and_then(|other| other.since) };
        let release = match here {
            true => env!("CARGO_PKG_VERSION"),
            false => other.map_or("", |other| &other.release),
        };
        MemberView {
            node: text_of(node),
            addresses,
            state: if here { "alive" } else { other.map_or("joining", |other| other.state) },
            since: since.map(iso8601),
            release: release.to_owned(),
            reachable: here || other.is_some_and(|other| other.reachable),
            clock_ahead: ahead.get(&node).copied(),
            turned_away: second.map(|from| from.to_string()),
            share: shares.remove(&node),
            connected: connected || here,
            sent,
            received,
            displaced,
        }
    });
    let missed = |other: &&MemberStanding| !other.reachable && other.state != LEFT;
    let silent = standing.members.iter().filter(missed);
    Ok(Json(ClusterView {
        cluster: identity.cluster.to_string(),
        node: text_of(identity.node),
        members: members.collect(),
        unreachable: silent.map(|other| text_of(other.node)).collect(),
        removed: standing.removed.iter().copied().map(text_of).collect(),
        expected: expected.into_iter().collect(),
        own,
    }))
}

/// Nodes that were let in by any of those that say what they have to do with executions, and that have not come.
/// Whoever has let one in may not have heard yet that it came to somebody else, or was removed.
pub(super) fn expected_by<'a>(
    cluster: &Cluster,
    shares: impl Iterator<Item = &'a Share>,
) -> BTreeSet<String> {
    let expected = shares.flat_map(|share| share.expected.iter().cloned());
    let came = |text: &String| node_of(text).is_ok_and(|node| cluster.has_heard_of(node));
    expected.filter(|text| !came(text)).collect()
}

/// Other members that are not as they should be, as text.
#[derive(Default)]
pub(super) struct Missed {
    /// Those whose heartbeats do not arrive here.
    pub(super) silent: Vec<String>,
    /// Those whose heartbeats do, and who do not answer: they may not hear this node.
    pub(super) deaf: Vec<String>,
}

/// The other members that cannot be reached from here.
pub(super) async fn missed(api: &Api) -> Result<Missed, Problem> {
    let standing = standing(api, Ask::Standing).await?;
    let those = |fits: fn(&MemberStanding) -> bool| {
        let fitting = standing.members.iter().filter(|other| fits(other));
        fitting.map(|other| text_of(other.node)).collect()
    };
    Ok(Missed {
        silent: those(|other| !other.reachable),
        deaf: those(|other| other.reachable && UNANSWERING.contains(&other.state)),
    })
}

/// Whether to hand over.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body for the API's document; it is read by hand")]
pub(super) struct DrainRequest {
    /// Whether the node is to hand over; if not, it takes part as before.
    drain: Option<bool>,
}

/// Have the node hand over what it leads and take no new work, before it is stopped. Ask again until
/// it leads nothing.
#[utoipa::path(
    post, path = "/v1/cluster/drain", tag = "cluster", request_body = DrainRequest,
    responses((status = 200, body = Share), (status = 409, body = Problem))
)]
pub(super) async fn drain(
    State(api): State<Arc<Api>>,
    payload: Payload,
) -> Result<Json<Share>, Problem> {
    member(&api)?;
    let drain = match payload.members(&["drain"])?.get("drain") {
        None | Some(Value::Bool(true)) => true,
        Some(Value::Bool(false)) => false,
        Some(_) => return Err(Problem::invalid("`drain` is neither true nor false")),
    };
    Ok(Json(Share::of(&*standing(&api, Ask::Drain(drain)).await?)))
}

pub(super) async fn standing(api: &Api, ask: Ask) -> Result<Box<ClusterStanding>, Problem> {
    match api.ask(ask).await? {
        Reply::Standing(standing) => Ok(standing),
        other => Err(Problem::unexpected(&other)),
    }
}

impl Share {
    fn of(standing: &ClusterStanding) -> Self {
        let ClusterStanding { live, held, led, stalled, alone, hearing, draining, .. } = *standing;
        let awaited = standing.awaited.iter().map(|node| format!("{:016x}", node.0)).collect();
        let expected = Vec::new();
        Self { live, held, led, stalled, alone, hearing, draining, awaited, expected }
    }
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
    let valid = match payload.members(&["valid"])?.get("valid") {
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

pub(super) fn member(api: &Api) -> Result<&Cluster, Problem> {
    api.options.cluster.as_ref().ok_or_else(|| {
        let detail = "this node is in no cluster: `outlast cluster init` founds one, and \
                      `outlast node --join` joins one";
        Problem::new(StatusCode::CONFLICT, detail)
    })
}

fn seconds_of(seconds: &Value) -> Result<Duration, Problem> {
    let seconds = value::as_i64(seconds).and_then(|seconds| u64::try_from(seconds).ok());
    let valid = seconds.map(Duration::from_secs).filter(|valid| !valid.is_zero());
    // Whoever asks for longer would not look at when it ends.
    valid.filter(|valid| *valid <= VALID_MAX).ok_or_else(|| {
        let max = VALID_MAX.as_secs() / (24 * 60 * 60);
        Problem::invalid(format!(
            "an invitation is good for a second at least and {max} days at most (`valid`, a number of seconds \
             for the API)"
        ))
    })
}

fn nodes_of(list: Option<&Value>) -> Result<Vec<NodeId>, Problem> {
    let nodes = list.and_then(value::as_array);
    let nodes = nodes.ok_or_else(|| Problem::invalid("`block` is a list of nodes"))?;
    nodes.iter().map(|text| node_of(value::as_str(text).unwrap_or_default())).collect()
}

pub(super) fn node_of(text: &str) -> Result<NodeId, Problem> {
    let node = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
    node.map(NodeId).ok_or_else(|| Problem::invalid("a node is 16 hexadecimal digits"))
}

/// A node that may hold executions: a member, or one that was removed and whose executions go on without it.
pub(super) fn holder_of(api: &Api, text: &str) -> Result<NodeId, Problem> {
    let node = node_of(text)?;
    let is_known = match &api.options.cluster {
        Some(cluster) => cluster.has_heard_of(node),
        None => node == api.node.meta().node,
    };
    if is_known {
        return Ok(node);
    }
    let detail =
        format!("there is no member {}; `outlast cluster status` lists them", text_of(node));
    Err(Problem::new(StatusCode::NOT_FOUND, detail))
}

pub(super) fn text_of(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

impl From<ClusterError> for Problem {
    fn from(error: ClusterError) -> Self {
        let status = match error {
            ClusterError::NotReachable => StatusCode::CONFLICT,
            ClusterError::TooManyInvitations { .. } => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, chain(&error))
    }
}
