//! Forgetting an execution whose end is lost with nodes that were removed: only if none of those that are left has
//! it. Whoever has it once has it until all forget, so it is enough that each of them says so, at whatever time; and
//! one that is silent may have it.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use outlast_engine::{Ask, Reply};
use outlast_lineage::NodeId;
use serde_json::Value as Json;

use super::super::payload::which;
use super::copies::{is_member, without_word};
use super::one::decoded;
use super::{Api, LOOK_TIME_MAX, Problem, ask_all, look, text_of};
use crate::relay::Relay;

/// What a node says of an execution that it knows.
#[derive(Clone, Debug)]
struct Told {
    node: NodeId,
    /// Those that hold it together.
    holders: Vec<NodeId>,
    /// Whether its end was decided on, and the node does not have it.
    lacks_its_end: bool,
}

/// Why it is not forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Obstacle {
    /// These may have the end, and say nothing.
    Silent(Vec<String>),
    /// These may have the end, or still come to one.
    Going(Vec<String>),
}

/// The nodes that are left of those that hold an execution whose end is missing, if all lack it; nothing if it is
/// missing nowhere, and the execution is deleted like any other.
pub(super) async fn those_left(
    api: &Api,
    relay: &Relay,
    execution: &str,
) -> Result<Option<Vec<NodeId>>, Problem> {
    let answers = ask_all(relay, &look(format!("/v1/executions/{execution}")), LOOK_TIME_MAX).await;
    let silent = without_word(&answers);
    let mut told: Vec<Told> = answers
        .into_iter()
        .filter_map(|(node, answered)| {
            let answer = answered.ok().filter(|answer| answer.status == 200)?;
            Some(Told::read(node, &serde_json::from_slice(&answer.body).ok()?))
        })
        .collect();
    if let Reply::Shown(here) = api.node.ask(Ask::Show(which(&decoded(execution))?)).await? {
        told.extend(here.summary.holders.map(|held| Told {
            node: relay.node(),
            holders: held.members,
            lacks_its_end: held.end_is_missing,
        }));
    }
    judged(&told, &silent, |node| is_member(relay, node))
        .map_err(|why| why.problem(&decoded(execution)))
}

fn judged(
    told: &[Told],
    silent: &[String],
    is_left: impl Fn(NodeId) -> bool,
) -> Result<Option<Vec<NodeId>>, Obstacle> {
    if !told.iter().any(|told| told.lacks_its_end) {
        return Ok(None);
    }
    let holders: BTreeSet<NodeId> = told.iter().flat_map(|told| told.holders.clone()).collect();
    let left: Vec<NodeId> = holders.into_iter().filter(|node| is_left(*node)).collect();
    let silent: Vec<String> =
        left.iter().map(|node| text_of(*node)).filter(|node| silent.contains(node)).collect();
    if !silent.is_empty() {
        return Err(Obstacle::Silent(silent));
    }
    // Whoever knows nothing of it lacks the end, too.
    let going = told.iter().filter(|told| !told.lacks_its_end).map(|told| text_of(told.node));
    let going: Vec<String> = going.collect();
    if going.is_empty() { Ok(Some(left)) } else { Err(Obstacle::Going(going)) }
}

impl Told {
    fn read(node: NodeId, shown: &Json) -> Self {
        let holders = shown["nodes"].as_array().into_iter().flatten();
        let holders = holders.filter_map(|node| u64::from_str_radix(node.as_str()?, 16).ok());
        let lacks_its_end = shown["endIsMissing"] == true;
        Self { node, holders: holders.map(NodeId).collect(), lacks_its_end }
    }
}

impl Obstacle {
    fn problem(&self, execution: &str) -> Problem {
        match self {
            Self::Silent(silent) => {
                let detail = format!(
                    "how execution {execution} ended was decided, and {} may have the end, silent at the moment: \
                     ask again when they answer, or when they were removed",
                    silent.join(", ")
                );
                Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
            }
            Self::Going(going) => {
                let detail = format!(
                    "how execution {execution} ended was decided, and {} may still tell: ask again",
                    going.join(", ")
                );
                Problem::new(StatusCode::CONFLICT, detail)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);
    const THREE: NodeId = NodeId(3);

    fn told(node: NodeId, lacks_its_end: bool) -> Told {
        Told { node, holders: vec![ONE, TWO, THREE], lacks_its_end }
    }

    #[test]
    fn what_has_no_end_is_forgotten_only_if_all_that_are_left_lack_it() {
        let without_three = |node| node != THREE;
        let three = [text_of(THREE)];
        let lack = [told(ONE, true), told(TWO, true)];
        assert_eq!(judged(&lack, &[], without_three), Ok(Some(vec![ONE, TWO])));
        assert_eq!(judged(&lack, &three, |_| true), Err(Obstacle::Silent(three.to_vec())));
        let going = Err(Obstacle::Going(vec![text_of(TWO)]));
        assert_eq!(judged(&[told(ONE, true), told(TWO, false)], &[], without_three), going);
        // Whoever knows nothing of it lacks the end.
        assert_eq!(judged(&lack[..1], &[], without_three), Ok(Some(vec![ONE, TWO])));
        // Where the end is missing nowhere, it is deleted like any other.
        assert_eq!(judged(&[told(ONE, false)], &three, |_| true), Ok(None));
        assert_eq!(judged(&[], &three, |_| true), Ok(None));
    }
}
