//! Small worlds, explored whole: every interleaving of calls, answers, losses, restarts, gossip and
//! take-overs, on the crate's own lineages, ledgers and keys.
//!
//! There is no action for a partition: a partition is a stretch in which no gossip is delivered, and
//! every such stretch is among the interleavings. What is assumed of the world: a call that left is
//! delivered or lost before the undoing starts. Its answer may still come later.

mod compete;
mod provider;
mod replicas;
mod rules;

use std::collections::BTreeSet;

use outlast_lineage::{Conduct, Repetition, Reversal};
use replicas::{Break, Replicas};
use stateright::{Checker, HasDiscoveries, Model};

const fn conduct(repetition: Repetition, reversal: Reversal) -> Conduct {
    Conduct { repetition, reversal }
}

const ONCE: Conduct = conduct(Repetition::Deduplicated, Reversal::WithResult);
const PIVOT: Conduct = conduct(Repetition::Deduplicated, Reversal::Impossible);
const BLIND_PIVOT: Conduct = conduct(Repetition::Acts, Reversal::Impossible);
const EACH_TIME: Conduct = conduct(Repetition::Acts, Reversal::WithResult);
const TOLERANT: Conduct = conduct(Repetition::Acts, Reversal::Tolerant);

/// Two replicas that run these activities, in a world where nothing is lost and nobody restarts; one
/// may once follow the other before all decide.
fn world(activities: &[Conduct]) -> Replicas {
    let activities = activities.to_vec();
    Replicas { nodes: 2, activities, restarts: 0, losses: 0, reunions: 1, broken: None }
}

/// Explores a world whole, and requires every law and every situation named.
fn holds(model: Replicas, situations: &[&'static str]) {
    let checker = model.checker().spawn_bfs().join();
    for (law, _) in rules::LAWS {
        checker.assert_no_discovery(law);
    }
    for situation in situations {
        checker.assert_any_discovery(situation);
    }
}

/// Explores a world in which one law is broken until a property notices, and requires that it does.
fn notices(model: Replicas, broken: Break, property: &'static str) {
    let model = Replicas { restarts: 1, losses: 1, broken: Some(broken), ..model };
    let until = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let checker = model.checker().finish_when(until).spawn_bfs().join();
    assert!(checker.discovery(property).is_some(), "{broken:?} was not noticed by {property:?}");
}

#[test]
fn one_line_remains_where_providers_deduplicate() {
    let situations = ["clash", "duplicate dropped", "late answer", "all settled"];
    let once = Replicas { restarts: 1, losses: 1, reunions: 2, ..world(&[ONCE]) };
    holds(once, &situations);
    holds(Replicas { losses: 1, ..world(&[ONCE, ONCE]) }, &situations);
}

#[test]
fn one_line_remains_where_every_call_acts() {
    let situations = ["clash", "loser undone", "parked", "late answer", "all settled"];
    holds(Replicas { restarts: 1, losses: 1, reunions: 2, ..world(&[EACH_TIME]) }, &situations);
    holds(Replicas { losses: 1, ..world(&[EACH_TIME, EACH_TIME]) }, &situations);
}

#[test]
fn one_line_remains_where_undoing_tolerates_what_never_ran() {
    let situations = ["clash", "loser undone", "loser asked first", "late answer", "all settled"];
    holds(Replicas { losses: 1, ..world(&[TOLERANT, ONCE]) }, &situations);
}

#[test]
fn a_pivot_runs_on_one_line() {
    let deduplicated = ["clash", "duplicate dropped", "late answer", "all settled"];
    holds(Replicas { losses: 1, ..world(&[ONCE, PIVOT]) }, &deduplicated);
    holds(world(&[ONCE, PIVOT, ONCE]), &deduplicated);
    let acting = ["clash", "loser undone", "late answer", "all settled"];
    holds(Replicas { restarts: 1, ..world(&[EACH_TIME, BLIND_PIVOT, EACH_TIME]) }, &acting);
}

#[test]
fn one_of_three_clashing_lines_remains() {
    let three = |activity| Replicas { nodes: 3, ..world(&[activity]) };
    holds(three(ONCE), &["clash", "duplicate dropped", "late answer", "all settled"]);
    holds(three(EACH_TIME), &["clash", "loser undone", "late answer", "all settled"]);
}

#[test]
fn breaking_a_law_is_noticed() {
    notices(world(&[ONCE]), Break::UndoesDuplicates, rules::NET_EFFECTS);
    notices(world(&[EACH_TIME]), Break::AsksAgainBlindly, rules::NET_EFFECTS);
    notices(world(&[EACH_TIME]), Break::ForgetsLosers, rules::NET_EFFECTS);
    notices(world(&[EACH_TIME, ONCE]), Break::UndoesInOrderOfDoing, rules::UNDO_ORDER);
    notices(world(&[ONCE]), Break::ResumesItsTerm, rules::STATE_IDS);
    notices(world(&[PIVOT]), Break::RunsPivotsUnasked, rules::PIVOTS);
    notices(world(&[TOLERANT]), Break::LateAnswersAdvance, rules::LATE_ANSWERS);
    notices(world(&[TOLERANT]), Break::LateAnswersVanish, rules::LATE_ANSWERS);
}
