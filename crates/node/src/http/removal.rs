//! Removing a node from the cluster, and what is lost with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use outlast_engine::{Ask, Filter, MemberStanding, Reply};
use outlast_lineage::{NodeId, Time};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::cluster::{expected_by, member, node_of, standing, text_of};
use super::payload::Parameters;
use super::{Api, Problem, across};
use crate::cluster::Cluster;

/// How long nothing may have been heard of a node before it is taken to be lost rather than cut off.
const HEARD_LATELY: Duration = Duration::from_secs(10 * 60);
/// How many executions are named when a node is removed.
const NAMED_MAX: usize = 10;

/// How a node is removed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Removal {
    /// Whether also if it is heard now.
    force: Option<bool>,
}

/// A node was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Removed {
    done: bool,
    /// What is lost by it, if it may be something: the node was heard of lately, or holds executions
    /// with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    /// Executions that it held together with others and that waited for it, or would have: ten at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    executions: Vec<String>,
    /// Whether there are more of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
    /// Those of `executions` of whose nodes a majority is removed with it: the others go on without any word of
    /// what only the removed ones knew.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bereft: Vec<String>,
}

/// How lately a node was heard of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    /// It is heard, and connected.
    Now,
    /// Its connection has ended, so lately that nobody misses it yet.
    JustNow,
    /// So long ago.
    Before(Duration),
}

impl fmt::Display for Heard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => write!(formatter, "is heard now"),
            Self::JustNow => write!(formatter, "was heard of a moment ago"),
            Self::Before(silent) => write!(formatter, "was heard of {} s ago", silent.as_secs()),
        }
    }
}

/// Executions that a node holds together with others.
struct Held {
    /// Their ids, and all that hold them.
    executions: BTreeMap<String, Vec<String>>,
    /// Whether there are more.
    more: bool,
}

impl Held {
    /// Those of whose nodes no majority is left when these are gone.
    fn bereft(&self, gone: &BTreeSet<String>) -> Vec<String> {
        let is_bereft = |nodes: &Vec<String>| {
            let left = nodes.iter().filter(|node| !gone.contains(*node)).count();
            left <= nodes.len() / 2
        };
        let bereft = self.executions.iter().filter(|(_, nodes)| is_bereft(nodes));
        bereft.map(|(execution, _)| execution.clone()).collect()
    }

    /// Their ids, as text.
    fn named(&self) -> String {
        let ids: Vec<&str> = self.executions.keys().map(String::as_str).collect();
        format!("{}{}", ids.join(", "), if self.more { " and more" } else { "" })
    }
}

/// Remove a node that is lost for good: no member hears it any more, and its id never comes back.
#[utoipa::path(
    delete, path = "/v1/cluster/members/{node}", tag = "cluster",
    params(("node" = String, Path), Removal),
    responses(
        (status = 202, body = Removed),
        (status = 404, description = "Nobody who answers has let such a node in, or it was removed", body = Problem),
        (status = 409, description = "It is heard now, and is not removed unless that is forced", body = Problem),
    )
)]
pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Path(node): Path<String>,
    Parameters(removal): Parameters<Removal>,
) -> Result<(StatusCode, Json<Removed>), Problem> {
    let cluster = member(&api)?;
    let node = node_of(&node)?;
    if !cluster.places().contains_key(&node) && !is_expected(&api, cluster, node).await {
        let detail = format!("there is no member {}, or no longer", text_of(node));
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    }
    // Before it is done: then nobody waits for it any more.
    let held = held_with(&api, node).await?;
    let alone = held_alone(&api, node).await;
    // After it was asked, too: by then the connection of one that died just now has ended.
    let standing = standing(&api, Ask::Standing).await?;
    let heard = standing.members.iter().find(|other| other.node == node);
    let connected =
        cluster.transport().statistics().peers.get(&node).is_some_and(|it| it.connected);
    let heard = heard.and_then(|other| heard_of(other, connected, api.node.now()));
    if heard == Some(Heard::Now) && removal.force != Some(true) {
        return Err(refused(node));
    }
    let gone = standing.removed.iter().chain([&node]).copied().map(text_of).collect();
    let bereft = held.bereft(&gone);
    match api.ask(Ask::Remove(node)).await? {
        Reply::Done => {
            let warning = warning(node, heard, (&held, &bereft), alone);
            let Held { executions, more } = held;
            let executions = executions.into_keys().collect();
            let removed = Removed { done: true, warning, executions, more, bereft };
            Ok((StatusCode::ACCEPTED, Json(removed)))
        }
        other => Err(Problem::unexpected(&other)),
    }
}

/// Whether a node was let in and has not come: whoever let it in says so.
async fn is_expected(api: &Api, cluster: &Cluster, node: NodeId) -> bool {
    if cluster.expected().contains(&node) {
        return true;
    }
    let Some(relay) = &api.options.relay else { return false };
    let shares = across::shares(relay).await;
    expected_by(cluster, shares.values()).contains(&text_of(node))
}

/// How lately a member was heard of, if that is so lately that it may only be cut off.
fn heard_of(other: &MemberStanding, connected: bool, now: Time) -> Option<Heard> {
    // By its heartbeats here, or by somebody who says so in gossip. Both take some seconds to be sure that it
    // is lost, and its connection ends with it.
    if other.reachable || other.state == "alive" {
        return Some(if connected { Heard::Now } else { Heard::JustNow });
    }
    let silent = now.since(other.since?);
    (silent < HEARD_LATELY).then_some(Heard::Before(silent))
}

/// Why a node that is heard is not removed: it would end, and could not come back.
fn refused(node: NodeId) -> Problem {
    let detail = format!(
        "{} is heard now, and a node that is removed never comes back: stop it first (`outlast drain` there has \
         it hand over what it leads), or say that it is to be removed all the same (`--force`; `?force=true` \
         of the API)",
        text_of(node)
    );
    Problem::new(StatusCode::CONFLICT, detail)
}

/// The executions that a node holds together with others, as far as the members that answer know.
async fn held_with(api: &Api, node: NodeId) -> Result<Held, Problem> {
    let filter = Filter { holder: Some(node), limit: NAMED_MAX, ..Filter::default() };
    let (mut executions, mut more) = match api.ask(Ask::List(filter)).await? {
        Reply::Listed { executions, next } => {
            let held = executions.into_iter().filter_map(|held| {
                let nodes = held.holders?.members.into_iter().map(text_of).collect();
                Some((held.execution.to_string(), nodes))
            });
            (held.collect::<BTreeMap<_, _>>(), next.is_some())
        }
        other => return Err(Problem::unexpected(&other)),
    };
    if let Some(relay) = &api.options.relay {
        let (others, others_more) = across::held_with(relay, &text_of(node), NAMED_MAX).await;
        executions.extend(others);
        more |= others_more;
    }
    more |= NAMED_MAX < executions.len();
    Ok(Held { executions: executions.into_iter().take(NAMED_MAX).collect(), more })
}

/// How many executions that have not ended a node alone holds, if it still says so.
async fn held_alone(api: &Api, node: NodeId) -> u64 {
    let Some(relay) = &api.options.relay else { return 0 };
    across::shares(relay).await.remove(&node).map_or(0, |share| share.alone)
}

/// What whoever has a node removed should know, if there is something.
fn warning(
    node: NodeId,
    heard: Option<Heard>,
    (held, bereft): (&Held, &[String]),
    alone: u64,
) -> Option<String> {
    let node = text_of(node);
    let alone = (0 < alone).then(|| {
        format!("{node} alone holds {alone} executions that have not ended, which are lost with it")
    });
    let held = (!held.executions.is_empty()).then(|| {
        format!(
            "{node} holds executions with others, which no longer wait for it: {}; what it did in runs \
             of them that do not count stays done, and only its disk knows of it",
            held.named()
        )
    });
    let bereft = (!bereft.is_empty()).then(|| {
        format!(
            "a majority of the nodes that hold {} is removed with it, so the others go on by what they know: what \
             only the removed ones knew is lost, and what they did then may be done again",
            bereft.join(", ")
        )
    });
    let heard = heard.map(|heard| {
        format!(
            "{node} {heard}, so it may only have been cut off or down: such a node, brought back, undoes \
             what does not count itself"
        )
    });
    let told: Vec<String> = held.into_iter().chain(bereft).chain(alone).chain(heard).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_removes_a_node_hears_what_is_lost_with_it() {
        let (node, nothing) = (NodeId(7), Held { executions: BTreeMap::new(), more: false });
        assert_eq!(warning(node, None, (&nothing, &[]), 0), None);
        let told = warning(node, None, (&nothing, &[]), 3).unwrap();
        assert!(told.starts_with("0000000000000007 alone holds 3 executions"), "{told}");
        let held = Held { executions: BTreeMap::from([("a".to_owned(), Vec::new())]), more: true };
        let told = warning(node, Some(Heard::Now), (&held, &["a".to_owned()]), 3).unwrap();
        let parts = [
            "holds executions with others",
            "a and more",
            "a majority of the nodes that hold a is removed",
            "alone holds 3",
            "is heard now",
        ];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }

    #[test]
    fn what_loses_a_majority_of_its_nodes_is_named() {
        let nodes = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect();
        let executions = [("two", &["a", "b"][..]), ("three", &["a", "b", "c"]), ("one", &["a"])];
        let executions = executions.map(|(id, holders)| (id.to_owned(), nodes(holders)));
        let held = Held { executions: executions.into(), more: false };
        let bereft = |gone: &[&str]| held.bereft(&gone.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(bereft(&[]), [""; 0]);
        assert_eq!(bereft(&["a"]), ["one", "two"]);
        assert_eq!(bereft(&["b", "c"]), ["three", "two"]);
    }

    #[test]
    fn whoever_was_lost_a_moment_ago_is_not_said_to_be_heard() {
        let other = MemberStanding {
            node: NodeId(7),
            state: "alive",
            since: None,
            release: String::new(),
            reachable: true,
            draining: false,
        };
        let heard = |connected| heard_of(&other, connected, Time::default()).unwrap();
        assert_eq!([heard(true), heard(false)], [Heard::Now, Heard::JustNow]);
    }
}
