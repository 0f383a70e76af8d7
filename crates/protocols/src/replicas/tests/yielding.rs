//! Links that are missing without dividing anybody into sides: whoever reaches a majority goes on.

use outlast_lineage::{Epoch, NodeId};

use super::super::{Input, Message, Output, Setup, Situation, Timer};
use super::steps::{
    NOW, acknowledging, advance, begun, fire, head, lead, lose, point, receive, request_reaching,
    said_to, setup,
};
use super::world::{Terms, World};

/// A primary of five that reaches nobody but node 1.
fn bridged(setup: Setup) -> super::super::Replica {
    let mut primary = begun(setup);
    advance(&mut primary, 0, Vec::new());
    [2, 3, 4].iter().for_each(|peer| drop(lose(&mut primary, *peer)));
    primary
}

fn missed(reaches: u32) -> Message {
    Message::Missed { reaches }
}

/// Found by a tester: four of five that all reach each other stood still as long as one of them heard the primary
/// that the others had lost.
#[test]
fn whoever_objects_for_a_primary_tells_it_that_it_is_missed() {
    let mut backup = begun(setup(3, 5, 1));
    receive(&mut backup, 5, lead(1, head(&[(5, 1, 1)], 0)));
    let outputs = receive(&mut backup, 4, request_reaching(2, head(&[], 0), 4));
    assert!(matches!(said_to(&outputs, 4)[..], [Message::Reject { leader: Some(NodeId(5)), .. }]));
    assert_eq!(said_to(&outputs, 5), [&missed(5)], "it reaches all of them itself");
    [1, 2, 4].iter().for_each(|peer| drop(lose(&mut backup, *peer)));
    let outputs = receive(&mut backup, 4, request_reaching(3, head(&[], 0), 2));
    let nothing: [&Message; 0] = [];
    assert_eq!(said_to(&outputs, 5), nothing, "neither of them reaches a majority");
}

#[test]
fn a_primary_that_reaches_no_majority_gives_way_to_whoever_does() {
    for setup in [setup(5, 5, 1), acknowledging(5, 5)] {
        let mut primary = bridged(setup.clone());
        assert_eq!(receive(&mut primary, 1, missed(2)), [], "nor does that one");
        let outputs = receive(&mut primary, 1, missed(4));
        assert_eq!(primary.leads(), None);
        assert!(outputs.contains(&Output::Stop));
        assert!(outputs.contains(&Output::Report(Situation::GaveWay)));
        // The other one has the vote of whoever objected before, and nobody stands against it.
        assert_eq!(said_to(&outputs, 1), [&Message::StoodDown { leader: None }]);
        let term = Epoch(primary.standing().term.0 + 1);
        let outputs = receive(&mut primary, 1, request_reaching(term.0, head(&[], 0), 5));
        assert!(matches!(said_to(&outputs, 1)[..], [Message::Vote { .. }]), "{outputs:?}");
    }
}

#[test]
fn a_primary_that_a_majority_hears_stays() {
    let mut primary = begun(setup(5, 5, 1));
    advance(&mut primary, 0, Vec::new());
    let term = primary.leads().expect("it leads");
    lose(&mut primary, 4);
    let outputs = receive(&mut primary, 1, missed(4));
    for peer in [1, 2, 3] {
        assert!(matches!(said_to(&outputs, peer)[..], [Message::Lead { .. }]), "{peer}");
    }
    [1, 2].iter().for_each(|peer| {
        let ack = Message::Ack { point: point(5, term.0, 1), confirmed: None };
        receive(&mut primary, *peer, ack);
    });
    assert_eq!(fire(&mut primary, Timer::ChallengeOver), [], "three of five");
    assert_eq!(primary.leads(), Some(term));
}

#[test]
fn a_primary_that_is_told_twice_that_it_is_missed_asks_once() {
    let mut primary = begun(setup(5, 5, 1));
    advance(&mut primary, 0, Vec::new());
    assert_ne!(receive(&mut primary, 1, missed(4)), []);
    assert_eq!(receive(&mut primary, 1, missed(4)), [], "the same once more");
    assert_eq!(receive(&mut primary, 2, missed(5)), [], "nor of anybody else");
}

/// Whoever hears everybody is not heard by everybody.
#[test]
fn a_primary_that_no_majority_answers_gives_way_after_a_while() {
    let mut primary = begun(setup(5, 5, 1));
    advance(&mut primary, 0, Vec::new());
    receive(&mut primary, 1, missed(4));
    receive(&mut primary, 1, Message::Want);
    for _ in 0..3 {
        let outputs = fire(&mut primary, Timer::ChallengeOver);
        assert!(matches!(said_to(&outputs, 2)[..], [Message::Lead { .. }]), "it is asked again");
        assert!(primary.leads().is_some());
    }
    fire(&mut primary, Timer::ChallengeOver);
    assert_eq!(primary.leads(), None);
}

#[test]
fn who_is_missed_and_leads_no_more_has_nobody_to_give_way_to() {
    let mut primary = begun(setup(5, 5, 1));
    receive(&mut primary, 1, missed(4));
    primary.step(NOW, Input::Retiring(true));
    assert_eq!(fire(&mut primary, Timer::ChallengeOver), []);
    let mut backup = begun(setup(4, 5, 1));
    assert_eq!(receive(&mut backup, 1, missed(4)), []);
}

/// Which links of five nodes are cut, once node 5 leads.
type Cuts = fn(u64, u64) -> bool;

/// Whether the run comes to its end while the links are missing.
fn ends(seed: u64, acknowledge: bool, one_way: bool, is_cut: Cuts) -> bool {
    let mut terms = Terms { acknowledge, ..Terms::of(5, 1, 8) };
    terms.work = 300;
    let mut world = World::new(seed, terms);
    world.hears_one_way = one_way;
    world.run(500);
    for (from, to) in (1..=5).flat_map(|from| (1..=5).map(move |to| (from, to))) {
        if is_cut(from, to) {
            world.cut.insert((NodeId(from), NodeId(to)));
        }
    }
    world.run_until(60_000, |world| world.owners().any(|owner| 0 < owner.concluded))
}

#[test]
fn whoever_reaches_a_majority_comes_to_an_end_though_links_are_missing() {
    let bridge: Cuts = |from, to| from != to && [from, to].contains(&5) && ![from, to].contains(&3);
    let hub: Cuts = |from, to| from != to && ![from, to].contains(&3);
    let unheard: Cuts = |from, to| from == 5 && to != 3;
    for seed in 0..60 {
        for acknowledge in [false, true] {
            assert!(ends(seed, acknowledge, false, bridge), "bridge {seed} {acknowledge}");
            assert!(ends(seed, acknowledge, false, hub), "hub {seed} {acknowledge}");
            assert!(ends(seed, acknowledge, true, unheard), "unheard {seed} {acknowledge}");
        }
    }
}
