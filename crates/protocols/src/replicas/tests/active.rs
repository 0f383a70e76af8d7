//! Where every replica executes: what becomes of that when a line is decided on before the end.

use outlast_lineage::{Epoch, NodeId};

use super::super::{Choice, Input, Message, Output, Replica, Timer};
use super::steps::{
    NOW, active, advance, begun, effect, fire, head, intended, line, lose, point, receive, said_to,
    state, update,
};

/// It did something of its own, and then the line of replica 3 was decided on.
fn stood_down() -> Replica {
    let mut replica = begun(active(1, 3));
    advance(&mut replica, 0, vec![intended(effect(1, 1, 1), "a", false)]);
    decide(&mut replica, &[(3, 1, 2)]);
    assert_eq!(replica.leads(), None, "another line was chosen");
    replica
}

fn decide(replica: &mut Replica, runs: &[(u64, u64, u64)]) -> Vec<Output> {
    let choice = Choice { lineage: line(runs), is_final: false };
    replica.step(NOW, Input::Decided { instance: 0, choice })
}

/// Tries to become primary until it is one, a few times.
fn try_to_lead(replica: &mut Replica) {
    for _ in 0..4 {
        fire(replica, Timer::RetryElection);
        fire(replica, Timer::ElectionOver);
    }
}

#[test]
fn whose_line_was_decided_on_goes_on_and_tells_the_others() {
    let mut replica = begun(active(3, 3));
    advance(&mut replica, 0, Vec::new());
    let before = advance(&mut replica, 1, Vec::new());
    assert!(said_to(&before, 1).is_empty(), "every replica executes");
    let outputs = decide(&mut replica, &[(3, 1, 2)]);
    assert_eq!(replica.leads(), Some(Epoch(1)));
    assert!(matches!(said_to(&outputs, 1)[..], [Message::Lead { .. }]));
    let after = advance(&mut replica, 2, Vec::new());
    assert!(matches!(said_to(&after, 1)[..], [Message::Update { .. }]), "{after:?}");
}

#[test]
fn whose_line_was_not_follows_the_one_that_was() {
    let mut replica = stood_down();
    receive(&mut replica, 3, state(1, head(&[(3, 1, 2)], 1)));
    assert_eq!(replica.leader(), Some(NodeId(3)));
    receive(&mut replica, 3, update(Some(point(3, 1, 2)), point(3, 1, 3), 2));
    assert_eq!(*replica.head(), head(&[(3, 1, 3)], 2));
}

/// What stood still for ever, whenever a disk was lost after a pivot.
#[test]
fn whoever_has_the_line_of_one_that_is_lost_for_good_goes_on_with_it() {
    let mut replica = stood_down();
    receive(&mut replica, 3, state(1, head(&[(3, 1, 2)], 1)));
    lose(&mut replica, 3);
    try_to_lead(&mut replica);
    assert_eq!(replica.leads(), None, "it may come back, and make its pivot's call then");
    replica.step(NOW, Input::Fenced(NodeId(3)));
    try_to_lead(&mut replica);
    assert!(replica.leads().is_some());
    assert_eq!(*replica.head(), head(&[(3, 1, 2)], 1));
}

#[test]
fn nobody_goes_on_with_a_line_that_cannot_count_though_the_other_is_lost_for_good() {
    let mut replica = stood_down();
    replica.step(NOW, Input::Fenced(NodeId(3)));
    try_to_lead(&mut replica);
    assert_eq!(replica.leads(), None);
}

/// It may not know yet that its line counts, and nobody else goes on with it: it needs no other's leave.
#[test]
fn whose_line_was_decided_on_leads_again_after_a_restart() {
    let mut replica = begun(active(3, 3));
    advance(&mut replica, 0, Vec::new());
    decide(&mut replica, &[(3, 1, 1)]);
    let mut again = Replica::restored(active(3, 3), replica.standing().clone());
    again.step(NOW, Input::Restarted);
    try_to_lead(&mut again);
    assert!(again.leads().is_some());
    let mut other = stood_down();
    receive(&mut other, 3, state(1, head(&[(3, 1, 2)], 1)));
    lose(&mut other, 3);
    let request = super::steps::request(7, head(&[(3, 1, 2)], 1));
    let answer = receive(&mut other, 3, request);
    assert!(matches!(said_to(&answer, 3)[..], [Message::Vote { .. }]), "{answer:?}");
}

/// Seen in a world of three: one asked whom to follow, was told *me* by one who does not lead, and asked again, for
/// ever, as fast as the network carries it.
#[test]
fn whoever_is_told_to_follow_the_one_it_asked_does_not_ask_again() {
    let mut unaware = begun(active(2, 3));
    advance(&mut unaware, 0, Vec::new());
    let answer = receive(&mut unaware, 1, Message::Inquire);
    assert!(matches!(said_to(&answer, 1)[..], [Message::StoodDown { leader: None }]), "{answer:?}");
    let mut replica = stood_down();
    receive(&mut replica, 2, state(1, head(&[(3, 1, 2)], 1)));
    assert_eq!(replica.leader(), Some(NodeId(2)));
    let told = receive(&mut replica, 2, Message::StoodDown { leader: Some(NodeId(2)) });
    assert!(said_to(&told, 2).is_empty(), "{told:?}");
    assert_eq!(replica.leader(), None);
}
