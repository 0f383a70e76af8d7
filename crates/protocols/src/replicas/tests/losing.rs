//! So many replicas are lost for good that the others are no majority: what needed one needs all that are left.

use outlast_lineage::NodeId;

use super::super::{Choice, Input, Message, Output, Replica, Setup, Timer};
use super::steps::{
    NOW, acknowledging, advance, begun, effect, finish, fire, head, intended, lead, line, lose,
    point, receive, said_to, setup, state, vote,
};

fn fence(replica: &mut Replica, node: u64) -> Vec<Output> {
    replica.step(NOW, Input::Fenced(NodeId(node)))
}

fn proposes(outputs: &[Output]) -> bool {
    outputs.iter().any(|output| matches!(output, Output::Propose { .. }))
}

#[test]
fn a_call_that_waits_for_a_majority_leaves_when_all_that_are_left_know_of_it() {
    let mut primary = begun(acknowledging(5, 5));
    advance(&mut primary, 0, vec![intended(effect(5, 1, 1), "a", false)]);
    let confirmed = Some((primary.standing().term, NodeId(5)));
    let ack = Message::Ack { point: point(5, 1, 1), confirmed };
    receive(&mut primary, 1, ack.clone());
    [2, 3].iter().for_each(|lost| drop(fence(&mut primary, *lost)));
    assert!(!primary.may_leave(1), "two of five have it, and three are left");
    fence(&mut primary, 4);
    assert!(primary.may_leave(1), "two have it, and two are left");
}

/// Nobody reads its disk any more: the others must have what it had.
#[test]
fn what_a_lost_replica_acknowledged_is_on_no_disk() {
    let mut primary = begun(acknowledging(3, 3));
    advance(&mut primary, 0, vec![intended(effect(3, 1, 1), "a", false)]);
    let confirmed = Some((primary.standing().term, NodeId(3)));
    let ack = Message::Ack { point: point(3, 1, 1), confirmed };
    receive(&mut primary, 1, ack.clone());
    let outputs = fence(&mut primary, 1);
    assert!(!primary.may_leave(1), "only this replica has it");
    let told = said_to(&outputs, 2);
    assert!(matches!(told[..], [Message::Lead { .. }]), "the other one is asked: {told:?}");
    receive(&mut primary, 2, ack);
    assert!(primary.may_leave(1));
}

#[test]
fn as_many_votes_are_enough_as_there_can_be() {
    for setup in [setup(1, 5, 3), acknowledging(1, 5)] {
        let mut backup = begun(setup);
        receive(&mut backup, 5, lead(1, head(&[(5, 1, 1)], 1)));
        lose(&mut backup, 5);
        let term = backup.standing().term;
        receive(&mut backup, 2, vote(term, None));
        [3, 4].iter().for_each(|lost| drop(fence(&mut backup, *lost)));
        assert_eq!(backup.votes_needed(), 3);
        fence(&mut backup, 5);
        assert_eq!(backup.votes_needed(), 2);
        fire(&mut backup, Timer::ElectionOver);
        assert!(backup.leads().is_some());
    }
}

#[test]
fn the_vote_of_a_lost_replica_does_not_count() {
    let mut backup = begun(acknowledging(1, 3));
    receive(&mut backup, 3, lead(1, head(&[(3, 1, 1)], 1)));
    lose(&mut backup, 3);
    let term = backup.standing().term;
    receive(&mut backup, 2, vote(term, None));
    fence(&mut backup, 2);
    fire(&mut backup, Timer::ElectionOver);
    assert_eq!(backup.leads(), None, "it is one of two that are left");
    fence(&mut backup, 3);
    fire(&mut backup, Timer::ElectionOver);
    assert!(backup.leads().is_some(), "it stood again at once, being the last");
}

#[test]
fn the_last_one_has_its_end_decided_on() {
    for setup in [setup(3, 3, 1), acknowledging(3, 3)] {
        let mut primary = begun(setup);
        advance(&mut primary, 0, Vec::new());
        [1, 2].iter().for_each(|peer| drop(lose(&mut primary, *peer)));
        assert!(!proposes(&finish(&mut primary, 1)), "too few can be reached");
        assert!(!proposes(&fence(&mut primary, 1)), "the other one may come back");
        assert!(proposes(&fence(&mut primary, 2)));
    }
}

#[test]
fn a_primary_over_its_budget_goes_on_when_nobody_else_is_left() {
    let mut primary = begun(Setup { budget: Some(0.0), ..setup(3, 3, 1) });
    advance(&mut primary, 0, vec![intended(effect(3, 1, 1), "a", false)]);
    let cost = primary.standing().records[&effect(3, 1, 1)].cost;
    assert_eq!(primary.is_over_budget(), 0.0 < cost);
    [1, 2].iter().for_each(|lost| drop(fence(&mut primary, *lost)));
    assert!(!primary.is_over_budget());
}

/// What was decided counts, whoever was there: those that are left wait for whoever has it.
#[test]
fn what_was_decided_with_those_that_are_lost_still_counts() {
    let mut last = begun(setup(1, 3, 1));
    receive(&mut last, 3, state(1, head(&[(3, 1, 1)], 1)));
    let choice = Choice { lineage: line(&[(3, 1, 3)]), is_final: true };
    last.step(NOW, Input::Decided { instance: 0, choice });
    [2, 3].iter().for_each(|lost| drop(fence(&mut last, *lost)));
    assert!(last.is_settling() && !last.holds_the_end());
}
