//! Who tells of an execution, and who changes it, of all those that know it.
//!
//! As long as several nodes hold it together, the one that leads does both. Once it is over and all have
//! forgotten that, each has a copy for itself; but a faulted one may be tried again or rolled back. That is
//! done by one of them, the same whoever is asked and whoever else asks at that moment: every copy keeps the
//! list of those who held it, and the first of them that is still in the cluster is the *keeper*. When a copy
//! changed says nothing about which one is the latest: each has its own clock, and forgot at its own time.
//!
//! Invariant: no copy but the keeper's goes on. So while the keeper is silent nobody changes it, and the
//! others tell of its first end.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use outlast_engine::{Ask, Condition, Detail, Refusal, Reply};
use outlast_lineage::NodeId;
use outlast_workflow::moment::iso8601;
use serde_json::Value as Json;

use super::super::payload::which;
use super::one::{decoded, unknown};
use super::{Api, LOOK_TIME_MAX, Problem, ask_all, look, text_of};
use crate::relay::{Answer, Relay, Unanswered};

/// What a node says of an execution that it knows.
#[derive(Clone, Debug)]
struct Told {
    node: NodeId,
    /// Whether it leads a run that has not ended.
    leads: bool,
    /// Whether it has not ended, or can go on all the same.
    may_go_on: bool,
    changed: String,
    /// Who has a copy of it, if several nodes held it and have forgotten that. Empty if it is not known.
    copies: Option<Vec<NodeId>>,
}

/// Whom to ask about an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// Who tells of it.
    pub(super) teller: NodeId,
    /// Who changes it: need not have answered.
    pub(super) changer: NodeId,
}

/// What the others say of an execution of which none of them tells anything.
#[derive(Clone, Debug)]
pub(super) struct NotFound {
    /// Those that did not answer.
    pub(super) silent: Vec<String>,
    /// One that had it and deleted it: its id and name stay taken for a while.
    pub(super) deleted_at: Option<NodeId>,
}

impl NotFound {
    /// Whether it is certain that no node knows of it.
    pub(super) fn is_nowhere(&self) -> bool {
        self.silent.is_empty() && self.deleted_at.is_none()
    }

    /// What whoever looks for it is answered.
    pub(super) fn problem(&self, execution: &str) -> Problem {
        match self.deleted_at {
            Some(_) => Refusal::Forgotten(decoded(execution)).into(),
            None => unknown(execution, &self.silent),
        }
    }
}

/// Whom to ask about an execution that is not known here.
pub(super) async fn find(relay: &Relay, execution: &str) -> Result<Found, NotFound> {
    let Answers { told, mut silent, deleted_at } = ask(relay, execution).await;
    // Somebody may have been waited for, and another one that had answered be lost by now.
    let (told, lost): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|told| is_connected(relay, told.node));
    silent.extend(lost.into_iter().map(|told| text_of(told.node)));
    found(&told, |node| is_member(relay, node)).ok_or(NotFound { silent, deleted_at })
}

/// Who else tells of an execution than some of those that know it.
pub(super) async fn teller_besides(
    relay: &Relay,
    execution: &str,
    some: &BTreeSet<NodeId>,
) -> Option<NodeId> {
    let told = ask(relay, execution).await.told;
    besides(told, some, |node| is_member(relay, node))
}

fn besides(
    mut told: Vec<Told>,
    some: &BTreeSet<NodeId>,
    is_member: impl Fn(NodeId) -> bool,
) -> Option<NodeId> {
    // Once all have forgotten that they held it, what becomes of it is told by its keeper alone.
    let is_kept = told.iter().any(|told| told.copies.is_some() && told.may_go_on);
    told.retain(|told| !some.contains(&told.node));
    let teller = found(&told, is_member)?.teller;
    (!is_kept).then_some(teller)
}

/// What the others say of an execution.
struct Answers {
    told: Vec<Told>,
    /// Who says nothing.
    silent: Vec<String>,
    /// One that has deleted it.
    deleted_at: Option<NodeId>,
}

async fn ask(relay: &Relay, execution: &str) -> Answers {
    let answers = ask_all(relay, &look(format!("/v1/executions/{execution}")), LOOK_TIME_MAX).await;
    let silent = without_word(&answers);
    let is_gone = |answered: &Result<Answer, Unanswered>| {
        answered.as_ref().is_ok_and(|answer| answer.status == StatusCode::GONE)
    };
    let deleted_at = answers.iter().find(|(_, answered)| is_gone(answered)).map(|(node, _)| *node);
    let told = answers.into_iter().filter_map(|(node, answered)| {
        let answer = answered.ok().filter(|answer| answer.status == 200)?;
        Told::read(node, &serde_json::from_slice(&answer.body).ok()?)
    });
    Answers { told: told.collect(), silent, deleted_at }
}

/// Who has a copy of an execution that several nodes held, as whoever has one says. Empty if it is not known.
pub(super) async fn list(
    api: &Api,
    relay: &Relay,
    execution: &str,
) -> Result<Option<Vec<NodeId>>, Problem> {
    if let Reply::Shown(here) = api.node.ask(Ask::Show(which(&decoded(execution))?)).await? {
        return Ok(here.copies);
    }
    let told = ask(relay, execution).await.told;
    Ok(told.into_iter().find_map(|told| told.copies))
}

/// Those who did not say whether they know an execution: one that has too much to do says nothing of it.
pub(super) fn without_word(answers: &[(NodeId, Result<Answer, Unanswered>)]) -> Vec<String> {
    let said = |answered: &Result<Answer, Unanswered>| {
        answered.as_ref().is_ok_and(|answer| answer.status < 500)
    };
    let silent = answers.iter().filter(|(_, answered)| !said(answered));
    silent.map(|(node, _)| text_of(*node)).collect()
}

fn found(told: &[Told], is_member: impl Fn(NodeId) -> bool) -> Option<Found> {
    let both = |node: NodeId| Found { teller: node, changer: node };
    if let Some(leading) = told.iter().find(|told| told.leads) {
        return Some(both(leading.node));
    }
    let copies = told.iter().filter_map(|told| told.copies.as_deref());
    let keeper = copies.filter_map(|copies| keeper(copies, &is_member)).next();
    if let Some(keeper) = keeper {
        let has_answered = told.iter().any(|told| told.node == keeper);
        // Whoever was there when it ended saw more of it than whoever heard of it later.
        let first = told.iter().min_by_key(|told| (&told.changed, told.node))?.node;
        let teller = if has_answered { keeper } else { first };
        // What ended for good in one copy did so in all.
        let changer = if told.iter().any(|told| told.may_go_on) { keeper } else { teller };
        return Some(Found { teller, changer });
    }
    told.iter().max_by_key(|told| (&told.changed, told.node)).map(|told| both(told.node))
}

/// Of those who have a copy, the one that changes it.
fn keeper(copies: &[NodeId], is_member: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    copies.iter().copied().find(|node| is_member(*node))
}

/// The same, as this node knows the cluster.
pub(super) fn keeper_of(relay: &Relay, copies: &[NodeId]) -> Option<NodeId> {
    keeper(copies, |node| is_member(relay, node))
}

/// Whether a node is still in the cluster, as this one knows it.
pub(super) fn is_member(relay: &Relay, node: NodeId) -> bool {
    node == relay.node() || relay.others().iter().any(|(other, _)| *other == node)
}

/// Who changes an execution that is over here, by what this node knows of it.
pub(super) async fn changer(
    relay: &Relay,
    execution: &str,
    here: &Detail,
) -> Result<NodeId, Problem> {
    match here.copies.as_deref() {
        None => Ok(relay.node()),
        // What ended for good in one copy did so in all: this node can say that nothing changes it.
        _ if !may_go_on(here.summary.condition, here.summary.parked) => Ok(relay.node()),
        Some([]) => latest(relay, execution, here).await,
        Some(copies) => Ok(keeper_of(relay, copies).unwrap_or_else(|| relay.node())),
    }
}

/// Who knows the latest of an execution whose holders forgot it when they did not write down who they were:
/// by when it changed, and only if everybody answers.
async fn latest(relay: &Relay, execution: &str, here: &Detail) -> Result<NodeId, Problem> {
    let Answers { told, silent, .. } = ask(relay, execution).await;
    let others = told.into_iter().map(|told| (told.changed, told.node));
    let copies = others.chain([(iso8601(here.summary.changed), relay.node())]);
    if silent.is_empty() {
        return Ok(copies.max().map_or_else(|| relay.node(), |(_, node)| node));
    }
    let detail = format!(
        "execution {} is {} here, and each of those who held it has a copy of it: {} may have gone on with \
         theirs, and are silent; nothing was done, ask again when they answer",
        decoded(execution),
        here.summary.condition.word(),
        silent.join(", ")
    );
    Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, detail))
}

/// The other node that tells of an execution which is over here, if that may have gone on there.
pub(super) async fn later_elsewhere(
    api: &Api,
    relay: &Relay,
    execution: &str,
) -> Result<Option<NodeId>, Problem> {
    let Reply::Shown(here) = api.node.ask(Ask::Show(which(&decoded(execution))?)).await? else {
        return Ok(None);
    };
    let is_over = here.summary.condition.is_end() && here.summary.holders.is_none();
    if !is_over {
        return Ok(None);
    }
    // Whoever cannot be asked leaves this node with what it knows itself.
    let teller = changer(relay, execution, &here).await.ok();
    Ok(teller.filter(|node| is_connected(relay, *node)))
}

/// Whether an execution has not ended, or a person can have it go on: tried again or rolled back, or by what
/// became of something parked.
fn may_go_on(condition: Condition, parked: bool) -> bool {
    !condition.is_end() || condition == Condition::Faulted || parked
}

/// Whether another node can be asked.
pub(super) fn is_connected(relay: &Relay, node: NodeId) -> bool {
    relay.is_connected(node)
}

/// The node that alone may change what is over cannot be asked, or does not answer.
pub(super) fn keeper_is_silent(execution: &str, keeper: NodeId, unanswered: Unanswered) -> Problem {
    let (execution, keeper) = (decoded(execution), text_of(keeper));
    let done = match unanswered {
        Unanswered::Unsent => "cannot be reached; nothing was done",
        Unanswered::Lost => "was lost before it answered; whether it was done is not known",
        Unanswered::Unknown => "did not answer in time; whether it was done is not known",
    };
    let detail = format!(
        "execution {execution} is over for those who held it together, and only node {keeper} goes on with \
         it: that one {done}; ask again when it answers (`outlast cluster remove` if it is gone for good)"
    );
    Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
}

impl Told {
    /// What a node shows of an execution.
    fn read(node: NodeId, shown: &Json) -> Option<Self> {
        let text = |name: &str| shown.get(name).and_then(Json::as_str);
        let condition = text("condition").and_then(Condition::parse)?;
        let node_of = |it: &Json| u64::from_str_radix(it.as_str()?, 16).ok().map(NodeId);
        let copies = shown.get("copies").and_then(Json::as_array);
        let parked = shown.get("parked").and_then(Json::as_array).is_some_and(|it| !it.is_empty());
        Some(Self {
            node,
            may_go_on: may_go_on(condition, parked),
            leads: !condition.is_end() && text("leader") == Some(&text_of(node)),
            changed: text("changed").unwrap_or_default().to_owned(),
            copies: copies.map(|nodes| nodes.iter().filter_map(node_of).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);
    const THREE: NodeId = NodeId(3);

    /// A copy of what the third, the first and the second node held.
    fn copy(node: NodeId, condition: &str, changed: &str) -> Told {
        let copies = [THREE, ONE, TWO].map(text_of);
        let shown = json!({ "condition": condition, "changed": changed, "copies": copies });
        Told::read(node, &shown).unwrap()
    }

    fn held(node: NodeId, condition: &str, leader: NodeId) -> Told {
        let (leader, nodes) = (text_of(leader), [ONE, TWO].map(text_of));
        let shown = json!({ "condition": condition, "leader": leader, "nodes": nodes });
        Told::read(node, &shown).unwrap()
    }

    const fn all(_: NodeId) -> bool {
        true
    }

    #[test]
    fn the_keeper_tells_and_changes_whenever_the_others_forgot() {
        // The second one forgot after the third had gone on.
        let told = [copy(TWO, "faulted", "9"), copy(THREE, "compensated", "5")];
        assert_eq!(found(&told, all), Some(Found { teller: THREE, changer: THREE }));
    }

    #[test]
    fn while_the_keeper_is_silent_the_others_tell_and_do_not_change() {
        let told = [copy(TWO, "faulted", "9"), copy(ONE, "faulted", "5")];
        assert_eq!(found(&told, all), Some(Found { teller: ONE, changer: THREE }));
        let without_third = |node| node != THREE;
        assert_eq!(found(&told, without_third), Some(Found { teller: ONE, changer: ONE }));
        // What ended for good needs nobody to say that it cannot be changed.
        let told = [copy(TWO, "completed", "9"), copy(ONE, "completed", "5")];
        assert_eq!(found(&told, all), Some(Found { teller: ONE, changer: ONE }));
    }

    #[test]
    fn whoever_has_not_forgotten_it_yet_does_not_change_who_keeps_it() {
        let told = [held(ONE, "faulted", ONE), copy(THREE, "running", "5")];
        assert_eq!(found(&told, all), Some(Found { teller: THREE, changer: THREE }));
    }

    #[test]
    fn whoever_leads_tells_and_changes_what_has_not_ended() {
        let told = [held(ONE, "running", TWO), held(TWO, "running", TWO)];
        assert_eq!(found(&told, all), Some(Found { teller: TWO, changer: TWO }));
        assert_eq!(found(&[], all), None);
    }

    #[test]
    fn another_one_tells_what_is_held_together_or_over_for_good() {
        let besides = |told: &[Told], some: &[NodeId]| {
            besides(told.to_vec(), &some.iter().copied().collect(), all)
        };
        let told = [held(ONE, "running", TWO), held(TWO, "running", TWO)];
        assert_eq!(besides(&told, &[]), Some(TWO));
        assert_eq!(besides(&told, &[TWO]), Some(ONE));
        assert_eq!(besides(&told, &[ONE, TWO]), None);
        let told = [copy(TWO, "completed", "9"), copy(THREE, "completed", "5")];
        assert_eq!(besides(&told, &[THREE]), Some(TWO));
        // The keeper may have it tried again, and no other copy hears of that.
        let told = [copy(TWO, "faulted", "9"), copy(THREE, "faulted", "5")];
        assert_eq!(besides(&told, &[THREE]), None);
    }

    #[test]
    fn of_copies_that_do_not_say_who_keeps_them_the_latest_counts() {
        let old =
            |node, changed| Told { copies: Some(Vec::new()), ..copy(node, "faulted", changed) };
        let told = [old(ONE, "5"), old(TWO, "9")];
        assert_eq!(found(&told, all), Some(Found { teller: TWO, changer: TWO }));
    }
}
