//! Forgetting an execution that is over, wherever there is a copy of it.
//!
//! Whoever is asked tells all, the keeper first: if it goes on there, no other copy is forgotten either. A copy
//! on a node that is silent comes back with it: so whoever has it deleted is told that it is not done yet, if
//! that node has one or nobody knows who has. What has no end any more goes only if all that are left lack it
//! (`giving_up`).

use std::sync::Arc;

use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use outlast_lineage::NodeId;

use super::copies::{self, without_word};
use super::giving_up;
use super::one::{NOT_LED_HERE, decoded, leaderless, unknown};
use super::{Api, CHANGE_TIME_MAX, Problem, Whole, ask_all, response, text_of};
use crate::relay::Relay;

/// Forgets an execution wherever it is held.
pub(super) async fn answer(
    api: &Arc<Api>,
    relay: &Relay,
    execution: &str,
    whole: Whole,
    next: Next,
) -> Result<Response, Problem> {
    // Before it is done: then nobody knows any more.
    let left = match is_forced(&whole) {
        true => giving_up::those_left(api, relay, execution).await?,
        false => None,
    };
    let copies = match left {
        Some(left) => Some(left),
        None => copies::list(api, relay, execution).await?,
    };
    let passed = whole.passed();
    let keeper = match copies.as_deref().and_then(|copies| copies::keeper_of(relay, copies)) {
        Some(node) if node == relay.node() => Some(next.clone().run(whole.request()).await),
        Some(node) => relay.ask(node, passed.clone(), CHANGE_TIME_MAX).await.ok().map(response),
        None => None,
    };
    let keeper = match keeper {
        Some(goes_on) if goes_on.status() == StatusCode::CONFLICT => return Ok(goes_on),
        keeper => keeper,
    };
    let (here, there) =
        tokio::join!(next.run(whole.request()), ask_all(relay, &passed, CHANGE_TIME_MAX));
    let silent = without_word(&there);
    let mut answers: Vec<Response> =
        there.into_iter().filter_map(|(_, it)| it.ok().map(response)).collect();
    answers.insert(0, here);
    answers.extend(keeper);
    let is = |status: StatusCode| answers.iter().position(|it| it.status() == status);
    let refused = is(StatusCode::CONFLICT);
    let done = answers.iter().position(|it| it.status().is_success());
    let gone = is(StatusCode::GONE);
    // It is held, has not ended, and nobody who answers leads it: to nobody is it unknown, and nobody else leads it.
    if refused.or(done).is_none() && is(NOT_LED_HERE).is_some() {
        return Err(Problem::leaderless(leaderless(None, &silent)));
    }
    let copies = if done.is_some() { copies.as_deref() } else { Some(&[][..]) };
    let missed = missed(&silent, copies);
    if refused.is_none() && !missed.is_empty() {
        return Err(match done.or(gone) {
            Some(_) => not_everywhere(execution, &missed),
            None => unknown(execution, &missed),
        });
    }
    // Whoever does not know it has nothing to say, unless nobody does.
    let known = answers.iter().position(|it| it.status() != StatusCode::NOT_FOUND);
    Ok(answers.swap_remove(refused.or(done).or(known).unwrap_or(0)))
}

/// Whether it is to be forgotten also if its end is lost.
fn is_forced(whole: &Whole) -> bool {
    whole.uri.query().is_some_and(|query| query.split('&').any(|it| it == "force=true"))
}

/// Those that are silent and have a copy, or may have: no list is of what one node held alone, and an empty
/// one says that nobody knows.
fn missed(silent: &[String], copies: Option<&[NodeId]>) -> Vec<String> {
    let has = |node: &&String| match copies {
        None => false,
        Some([]) => true,
        Some(copies) => copies.iter().any(|copy| text_of(*copy) == **node),
    };
    silent.iter().filter(has).cloned().collect()
}

/// Some copies are deleted, and some could not be.
fn not_everywhere(execution: &str, missed: &[String]) -> Problem {
    let (execution, missed) = (decoded(execution), missed.join(", "));
    let detail = format!(
        "execution {execution} is deleted where it was reached, but not at {missed}, silent at the moment: a \
         copy there would come back; ask again when they answer"
    );
    Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_silent_is_missed_if_it_may_have_a_copy() {
        let silent = [NodeId(1), NodeId(2)].map(text_of);
        assert!(missed(&silent, None).is_empty(), "one node held it");
        assert_eq!(missed(&silent, Some(&[])), silent, "nobody knows who held it");
        assert_eq!(missed(&silent, Some(&[NodeId(2), NodeId(3)])), [text_of(NodeId(2))]);
    }
}
