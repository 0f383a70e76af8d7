//! Starting anywhere: whoever knows an execution of that id or name answers; otherwise it is started
//! by the node that is to start it, or, if it has no id and no name yet, by any that can.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use outlast_engine::{Ask, MemberStanding, Reply, Which};
use outlast_expressions::{Value, value};
use outlast_lineage::NodeId;
use tokio::time::Instant;

use super::super::problem::AskInstead;
use super::{Api, CHANGE_TIME_MAX, Problem, Whole, known_by, no_answer, response, text_of};
use crate::name::Name;
use crate::relay::{Answer, Relay, Unanswered};

/// How long a start is tried at most.
const START_TIME_MAX: Duration = Duration::from_secs(12);
/// How long one node may take to start what can be asked for again elsewhere.
const ONE_START_TIME_MAX: Duration = Duration::from_secs(3);
/// How long the others may take to hear that a node takes no new work.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);
/// How long to wait before the same nodes are asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts an execution: here, or where it is to be started.
pub(super) async fn answer(
    api: &Arc<Api>,
    relay: &Relay,
    whole: Whole,
    next: Next,
) -> Result<Response, Problem> {
    let Ok(body) = value::parse(&whole.body) else { return Ok(next.run(whole.request()).await) };
    let named = named(&body);
    if let Some(which) = &named {
        let here = api.node.ask(Ask::Show(which.clone())).await?;
        if matches!(here, Reply::Refused(_))
            && let Some(known) = ask_who_knows(api, relay, which, &whole, &body).await?
        {
            return Ok(known);
        }
    }
    let began = Instant::now();
    let deadline = began + START_TIME_MAX;
    loop {
        let here = next.clone().run(whole.request()).await;
        if !CANNOT.contains(&here.status()) {
            return Ok(here);
        }
        let instead = here.extensions().get::<AskInstead>().cloned().unwrap_or_default();
        let is_others = here.status() == StatusCode::MISDIRECTED_REQUEST;
        let elsewhere = start_elsewhere(relay, &whole, &instead, named.is_some()).await?;
        let waits = !matches!(elsewhere, Elsewhere::Started(_)) && named.is_some();
        if waits && let Some(drain) = all_drain(api, relay, &instead, began).await? {
            return Err(drain);
        }
        match elsewhere {
            Elsewhere::Started(started) => return Ok(started),
            // Whoever is to start it may be about to be missed; then another one starts it. If it is this
            // node, it is about to be told what it lacks.
            Elsewhere::Passed if Instant::now() < deadline => tokio::time::sleep(PAUSE).await,
            Elsewhere::Nowhere if is_others && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            _ if is_others => return Err(nobody_starts(&instead)),
            _ if here.status() != StatusCode::SERVICE_UNAVAILABLE => return Ok(here),
            _ => return everybody_drains(api, relay).await?.map_or(Ok(here), Err),
        }
    }
}

/// Has a node that knows the execution answer, if there is one: if that one is lost meanwhile, the next one.
/// Asking again elsewhere starts nothing twice.
async fn ask_who_knows(
    api: &Api,
    relay: &Relay,
    which: &Which,
    whole: &Whole,
    body: &Value,
) -> Result<Option<Response>, Problem> {
    let deadline = Instant::now() + START_TIME_MAX;
    while let Some(holder) = known_by::find(api, relay, which, body).await? {
        match relay.ask(holder, whole.passed(), CHANGE_TIME_MAX).await {
            Ok(answer) => return Ok(Some(response(answer))),
            Err(Unanswered::Unsent | Unanswered::Lost) if Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(unanswered) => return Err(no_answer(holder, unanswered)),
        }
    }
    Ok(None)
}

/// What it came to that others were asked to start it.
enum Elsewhere {
    Started(Response),
    /// None did, and one that knows what to start says that this is for another to do.
    Passed,
    Nowhere,
}

/// None of the nodes that are to hold an execution can be asked to start it.
fn nobody_starts(instead: &AskInstead) -> Problem {
    let nodes: Vec<String> = instead.0.iter().copied().map(text_of).collect();
    let detail = format!(
        "the nodes that are to hold the execution cannot be reached or do not answer: {}; ask again, \
         which starts nothing twice",
        nodes.join(", ")
    );
    Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
}

/// Whether all who could start it take no new work: waiting changes nothing then. Who that would be a node
/// that takes none itself does not know: if nobody is missed, those who do know are right in a moment.
async fn all_drain(
    api: &Api,
    relay: &Relay,
    instead: &AskInstead,
    began: Instant,
) -> Result<Option<Problem>, Problem> {
    let Reply::Standing(standing) = api.node.ask(Ask::Standing).await? else { return Ok(None) };
    let draining = standing.members.iter().filter(|other| other.draining).map(|other| other.node);
    let draining: Vec<NodeId> = draining.chain(standing.draining.then(|| relay.node())).collect();
    let all = match standing.draining {
        true => {
            let all_of = |fits: fn(&MemberStanding) -> bool| standing.members.iter().all(fits);
            let nobody_is_missed = all_of(|other| other.reachable);
            all_of(|other| other.draining) || nobody_is_missed && DRAIN_TIME_MAX <= began.elapsed()
        }
        false => !instead.0.is_empty() && instead.0.iter().all(|node| draining.contains(node)),
    };
    let named = if standing.draining { &draining } else { &instead.0 };
    Ok(all.then(|| taken_by_none(named)))
}

/// Whether every node that can be reached, this one among them, takes no new work: then there is none to ask.
async fn everybody_drains(api: &Api, relay: &Relay) -> Result<Option<Problem>, Problem> {
    let Reply::Standing(standing) = api.node.ask(Ask::Standing).await? else { return Ok(None) };
    let mut there = standing.members.iter().filter(|other| other.reachable);
    if !standing.draining || !there.clone().all(|other| other.draining) || there.next().is_none() {
        return Ok(None);
    }
    let others = standing.members.iter().filter(|other| other.draining).map(|other| other.node);
    let draining: Vec<NodeId> = [relay.node()].into_iter().chain(others).collect();
    Ok(Some(taken_nowhere(&draining)))
}

/// What takes part again, of nodes that hand over their work.
const TAKES_PART_AGAIN: &str =
    "when one of them takes part again (`outlast drain --undo`, or when it was started anew)";

fn taken_nowhere(draining: &[NodeId]) -> Problem {
    let nodes: Vec<String> = draining.iter().copied().map(text_of).collect();
    let detail = format!(
        "all nodes that can be reached hand over their work and take no more; nothing was started. Draining are {}: \
         ask again {TAKES_PART_AGAIN}",
        nodes.join(", ")
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}

fn taken_by_none(draining: &[NodeId]) -> Problem {
    let nodes: Vec<String> = draining.iter().copied().map(text_of).collect();
    let detail = format!(
        "those of the nodes that are to hold the execution which can be reached hand over their work and take no \
         more; nothing was started, and no other node can. Draining are {}: ask again {TAKES_PART_AGAIN}, or start \
         it without an id and name, so that it falls to others",
        nodes.join(", ")
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}

/// What a node answers that does not start it, and another one might.
const CANNOT: [StatusCode; 4] = [
    StatusCode::NOT_FOUND,
    StatusCode::MISDIRECTED_REQUEST,
    StatusCode::INSUFFICIENT_STORAGE,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// Asks the others, those first that this node says are to start it.
async fn start_elsewhere(
    relay: &Relay,
    whole: &Whole,
    instead: &AskInstead,
    named: bool,
) -> Result<Elsewhere, Problem> {
    let mut others: Vec<NodeId> = relay
        .others()
        .into_iter()
        .filter_map(|(node, connected)| connected.then_some(node))
        .collect();
    let rank = |node: &NodeId| instead.0.iter().position(|it| it == node).unwrap_or(usize::MAX);
    others.sort_by_key(rank);
    // What is named is one execution, however often it is asked for.
    let patience = if named { ONE_START_TIME_MAX } else { CHANGE_TIME_MAX };
    let mut passed = false;
    for node in others {
        match relay.ask(node, whole.passed(), patience).await {
            // It may start it yet, and so may the next one: it is one execution.
            Ok(answer) if named && is_too_late(&answer) => {}
            Ok(answer) if !CANNOT.iter().any(|status| *status == answer.status) => {
                return Ok(Elsewhere::Started(response(answer)));
            }
            Ok(answer) => passed |= answer.status == StatusCode::MISDIRECTED_REQUEST,
            Err(Unanswered::Unsent) => {}
            Err(_) if named => {}
            // It may have been started there, and is not to be started twice.
            Err(unanswered) => return Err(no_answer(node, unanswered)),
        }
    }
    Ok(if passed { Elsewhere::Passed } else { Elsewhere::Nowhere })
}

/// Whether a node had to leave a request before it came to an answer.
fn is_too_late(answer: &Answer) -> bool {
    answer.status == StatusCode::GATEWAY_TIMEOUT && answer.body.is_empty()
}

/// The execution that the starter names; none by what can be no name, for whoever is to start it refuses that.
fn named(body: &Value) -> Option<Which> {
    let text = |name: &str| value::get(body, name).and_then(value::as_str);
    if let Some(name) = text("name") {
        name.parse::<Name>().ok()?;
        let namespace = text("namespace")?.to_owned();
        return Some(Which::Named { namespace, name: name.to_owned() });
    }
    text("id")?.parse().ok().map(Which::Id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_cannot_be_asked_to_start_it_is_named() {
        let told = format!("{:?}", nobody_starts(&AskInstead(vec![NodeId(1), NodeId(0xab)])));
        assert!(told.contains("0000000000000001, 00000000000000ab"), "{told}");
        let told = format!("{:?}", taken_by_none(&[NodeId(1), NodeId(0xab)]));
        assert!(told.contains("Draining are 0000000000000001, 00000000000000ab:"), "{told}");
    }
}
