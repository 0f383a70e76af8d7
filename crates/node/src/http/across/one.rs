//! Requests about one execution: answered where it is held, changed where it is led. What is over each of
//! those who held it has for itself; one of them answers for all, and alone changes it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use outlast_engine::{Ask, Detail, Holders, Reply};
use outlast_lineage::{ExecutionId, NodeId};
use tokio::time::Instant;

use super::super::cluster;
use super::super::model::Leading;
use super::super::payload::which;
use super::copies::{changer, find, is_connected, keeper_is_silent, later_elsewhere};
use super::{
    Api, CHANGE_TIME_MAX, LOOK_TIME_MAX, Problem, Subject, Whole, deleting, look, no_answer,
    response, text_of,
};
use crate::relay::{Relay, Unanswered};

/// How long a change waits for an execution to have a leader: an election takes less.
const LEADER_TIME_MAX: Duration = Duration::from_secs(8);
/// How often it looks.
const LEADER_PAUSE: Duration = Duration::from_millis(100);
/// For how long another node is asked to wait for an end at a time.
const WAIT_TIME: Duration = Duration::from_secs(20);
/// What is answered by a node on which an execution has not ended in time, or which is about to stop.
const NOT_YET: [StatusCode; 2] = [StatusCode::GATEWAY_TIMEOUT, StatusCode::SERVICE_UNAVAILABLE];
/// Says that this node does not lead the execution.
pub(super) const NOT_LED_HERE: StatusCode = StatusCode::MISDIRECTED_REQUEST;
/// What is answered by a node that does not have an execution, or not any more.
const NOT_HERE: [StatusCode; 2] = [StatusCode::NOT_FOUND, StatusCode::GONE];

/// Where an execution is.
enum Place {
    /// Held and led here, or by nobody but this node.
    Here,
    /// Led by another node.
    There(NodeId),
    /// Held here, and nobody leads it at the moment; why it stands still, if it does.
    Leaderless(Option<String>),
    /// Over, and held here for itself.
    Over(Box<Detail>),
    /// Not held here.
    Elsewhere,
}

/// Answers what another node passed on; what this node does not lead, it does not change.
pub(super) async fn answer_passed(
    api: &Arc<Api>,
    relay: &Relay,
    subject: &Subject,
    request: Request,
    next: Next,
) -> Response {
    let Subject::One(execution, _) = subject else { return next.run(request).await };
    if is_change(request.method()) {
        match place(api, relay, execution).await {
            // What has lost its end nobody leads: whoever is left of those that held it gives up its own copy.
            Ok(Place::There(_) | Place::Leaderless(_))
                if request.method() == Method::DELETE && lacks_its_end(api, execution).await => {}
            Ok(Place::There(_) | Place::Leaderless(_)) => return not_led_here(),
            // Every copy can be deleted; but only one of them goes on.
            Ok(Place::Over(here)) if request.method() != Method::DELETE => {
                match changer(relay, execution, &here).await {
                    Ok(node) if node == relay.node() => {}
                    Ok(_) => return not_led_here(),
                    Err(problem) => return problem.into_response(),
                }
            }
            Ok(Place::Here | Place::Over(_) | Place::Elsewhere) => {}
            Err(problem) => return problem.into_response(),
        }
    }
    next.run(request).await
}

fn not_led_here() -> Response {
    Problem::new(NOT_LED_HERE, "another node leads the execution").into_response()
}

/// Whether its end was decided on, and this node lacks it.
async fn lacks_its_end(api: &Api, execution: &str) -> bool {
    let Ok(which) = which(&decoded(execution)) else { return false };
    match api.node.ask(Ask::Show(which)).await {
        Ok(Reply::Shown(shown)) => shown.summary.holders.is_some_and(|it| it.end_is_missing),
        _ => false,
    }
}

/// Answers a request about an execution.
pub(super) async fn answer(
    api: &Arc<Api>,
    relay: &Relay,
    (execution, rest): (&str, &str),
    whole: Whole,
    next: Next,
) -> Result<Response, Problem> {
    if whole.method == Method::DELETE {
        return deleting::answer(api, relay, execution, whole, next).await;
    }
    if is_change(&whole.method) {
        return change(api, relay, execution, whole, next).await;
    }
    while let Some(holder) = later_elsewhere(api, relay, execution).await? {
        let patience = if rest == "wait" { WAIT_TIME } else { CHANGE_TIME_MAX };
        match relay.ask(holder, whole.passed(), patience).await {
            // It goes on there: its end is waited for, not the one that is known here.
            Ok(answer) if rest == "wait" && is_one_of(&NOT_YET, answer.status) => {
                tokio::time::sleep(LEADER_PAUSE).await;
            }
            Ok(answer) if !is_one_of(&[NOT_YET, NOT_HERE].concat(), answer.status) => {
                return Ok(response(answer));
            }
            _ => break,
        }
    }
    let answered = next.run(whole.request()).await;
    if answered.status() != StatusCode::NOT_FOUND {
        return Ok(answered);
    }
    if rest == "wait" {
        return wait(relay, execution, &whole, answered).await;
    }
    look_elsewhere(relay, execution, &whole).await
}

/// Has another node answer what changes nothing: if that one is lost meanwhile, the next one.
async fn look_elsewhere(
    relay: &Relay,
    execution: &str,
    whole: &Whole,
) -> Result<Response, Problem> {
    let deadline = Instant::now() + CHANGE_TIME_MAX;
    loop {
        let found = find(relay, execution).await.map_err(|missing| missing.problem(execution))?;
        match relay.ask(found.teller, whole.passed(), CHANGE_TIME_MAX).await {
            Ok(answer) => return Ok(response(answer)),
            Err(Unanswered::Unsent | Unanswered::Lost) if Instant::now() < deadline => {
                tokio::time::sleep(LEADER_PAUSE).await;
            }
            Err(unanswered) => return Err(no_answer(found.teller, unanswered)),
        }
    }
}

fn is_one_of(statuses: &[StatusCode], status: u16) -> bool {
    statuses.iter().any(|one| *one == status)
}

/// Waits for the end of an execution that other nodes hold.
async fn wait(
    relay: &Relay,
    execution: &str,
    whole: &Whole,
    unknown_here: Response,
) -> Result<Response, Problem> {
    let mut was_known = false;
    loop {
        let holder = match find(relay, execution).await {
            Ok(found) => found.teller,
            Err(missing) if missing.is_nowhere() && !was_known => return Ok(unknown_here),
            Err(missing) if missing.silent.is_empty() || !was_known => {
                return Err(missing.problem(execution));
            }
            // Whoever held it may come back.
            Err(_) => {
                tokio::time::sleep(LEADER_PAUSE).await;
                continue;
            }
        };
        was_known = true;
        match relay.ask(holder, whole.passed(), WAIT_TIME).await {
            Ok(answer) if !is_one_of(&NOT_YET, answer.status) => return Ok(response(answer)),
            // Another one may know the end, or the same one when it is back.
            _ => tokio::time::sleep(LEADER_PAUSE).await,
        }
    }
}

/// Has a change made by whoever leads the execution.
async fn change(
    api: &Arc<Api>,
    relay: &Relay,
    execution: &str,
    whole: Whole,
    next: Next,
) -> Result<Response, Problem> {
    let deadline = Instant::now() + LEADER_TIME_MAX;
    let mut standstill = None;
    loop {
        let asked = match place(api, relay, execution).await? {
            Place::Here => return Ok(next.run(whole.request()).await),
            Place::Over(here) => match changer(relay, execution, &here).await? {
                node if node == relay.node() => return Ok(next.run(whole.request()).await),
                keeper => Some((keeper, true)),
            },
            Place::There(leader) => Some((leader, false)),
            Place::Leaderless(why) => {
                standstill = why;
                None
            }
            Place::Elsewhere => match find(relay, execution).await {
                Ok(found) => Some((found.changer, found.changer != found.teller)),
                Err(missing) => return Err(missing.problem(execution)),
            },
        };
        if let Some((leader, alone)) = asked {
            let answered = match alone && !is_connected(relay, leader) {
                true => Err(Unanswered::Unsent),
                false => relay.ask(leader, whole.passed(), CHANGE_TIME_MAX).await,
            };
            match answered {
                // Nobody comes in its place.
                Err(unanswered) if alone => {
                    return Err(keeper_is_silent(execution, leader, unanswered));
                }
                Ok(answer) if answer.status != NOT_LED_HERE.as_u16() => {
                    return Ok(response(answer));
                }
                // Nothing was done yet: whoever leads next is asked.
                Ok(_) | Err(Unanswered::Unsent) => {}
                Err(unanswered) => return Err(no_answer(leader, unanswered)),
            }
        }
        if deadline <= Instant::now() {
            let silent = cluster::missed(api).await?.silent;
            return Err(Problem::leaderless(leaderless(standstill.as_deref(), &silent)));
        }
        tokio::time::sleep(LEADER_PAUSE).await;
    }
}

/// Why nobody could make a change, as far as this node can tell, and what to do.
pub(super) fn leaderless(standstill: Option<&str>, silent: &[String]) -> String {
    let who = "`outlast cluster status` says who is there";
    match (standstill, silent) {
        (Some(why), _) => {
            format!("nobody leads the execution, and nothing was done: {why}; {who}")
        }
        (None, []) => {
            "nobody leads the execution at the moment; nothing was done, try again".to_owned()
        }
        (None, silent) => format!(
            "nobody leads the execution at the moment, and nothing was done: too few of the nodes that hold it may \
             be there to choose who does, for nothing is heard from {}; try again when they answer, or ask a node \
             that reaches them ({who})",
            silent.join(", ")
        ),
    }
}

/// Where an execution is, as far as this node knows.
async fn place(api: &Api, relay: &Relay, execution: &str) -> Result<Place, Problem> {
    let execution = decoded(execution);
    let shown = match api.node.ask(Ask::Show(which(&execution)?)).await? {
        Reply::Shown(detail) => detail,
        _ => return Ok(Place::Elsewhere),
    };
    let is_over = shown.summary.condition.is_end();
    // What has ended and is still held together is the same everywhere.
    Ok(match &shown.summary.holders {
        None if is_over => Place::Over(shown),
        Some(_) if is_over => Place::Here,
        None => Place::Here,
        Some(Holders { leader: Some(leader), .. }) if *leader == relay.node() => Place::Here,
        Some(Holders { leader: Some(leader), .. }) => Place::There(*leader),
        Some(Holders { leader: None, standstill, .. }) => Place::Leaderless(standstill.clone()),
    })
}

/// What the leader of an execution, another node, says of it. Nothing if it does not answer soon, or says
/// that it does not lead it any more.
pub(in super::super) async fn leading(
    relay: &Relay,
    leader: NodeId,
    execution: ExecutionId,
) -> Option<Leading> {
    if leader == relay.node() {
        return None;
    }
    let request = look(format!("/v1/executions/{execution}"));
    let answer = relay.ask(leader, request, LOOK_TIME_MAX).await.ok()?;
    let told: Leading = serde_json::from_slice(&answer.body).ok()?;
    (told.leader == Some(text_of(leader))).then_some(told)
}

pub(super) fn unknown(execution: &str, silent: &[String]) -> Problem {
    let execution = decoded(execution);
    if silent.is_empty() {
        return Problem::new(StatusCode::NOT_FOUND, format!("there is no execution {execution}"));
    }
    let silent = silent.join(", ");
    let detail = format!(
        "no node that answers knows execution {execution}; silent are {silent}: one of them may hold it, \
         ask again when they answer"
    );
    Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
}

const fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

/// A segment of a path as the routes see it.
pub(super) fn decoded(segment: &str) -> String {
    let bytes = segment.as_bytes();
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let (mut bytes_so_far, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let pair =
            (bytes[at] == b'%').then(|| Some(digit(at + 1)? * 16 + digit(at + 2)?)).flatten();
        match pair.and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => {
                bytes_so_far.push(byte);
                at += 3;
            }
            None => {
                bytes_so_far.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&bytes_so_far).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_decoded_once() {
        assert_eq!(decoded("test%2Forder%20%zz%"), "test/order %zz%");
        assert_eq!(decoded("%252F"), "%2F");
    }

    #[test]
    fn whoever_finds_no_leader_is_told_who_is_silent_or_why_it_stands_still() {
        let nobody_is_silent = leaderless(None, &[]);
        assert!(nobody_is_silent.ends_with("nothing was done, try again"));
        let silent = leaderless(None, &["a".to_owned(), "b".to_owned()]);
        assert!(silent.contains("nothing is heard from a, b;"), "{silent}");
        let known = leaderless(Some("too few can be reached"), &["a".to_owned()]);
        assert!(known.contains("nothing was done: too few can be reached;"), "{known}");
        assert!([silent, known].iter().all(|it| it.contains("`outlast cluster status`")));
    }
}
