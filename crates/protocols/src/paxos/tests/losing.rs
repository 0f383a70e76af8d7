//! Members that are lost for good: nobody waits for them, and all that are left decide together if they are no majority.

use super::*;

fn lose(paxos: &mut Paxos, node: u64) -> Vec<Output> {
    paxos.step(NOW, Input::Fenced(NodeId(node)))
}

/// Member 1 of four, which has accepted its own value after two others promised.
fn accepting_of_four() -> Paxos {
    let mut paxos = one_of_four(1);
    paxos.step(NOW, Input::Propose(value("a")));
    [2, 3].iter().for_each(|from| drop(receive(&mut paxos, *from, promised(1, 1, None))));
    paxos
}

#[test]
fn the_last_one_decides_alone() {
    let mut paxos = accepting();
    assert_eq!(lose(&mut paxos, 2), [], "of three, two still decide");
    let expected = [
        persist(ballot(1, 1), Some(vote(1, 1, "a")), Some(value("a"))),
        Output::Decided(value("a")),
    ];
    assert_eq!(lose(&mut paxos, 3), expected);
}

#[test]
fn two_that_are_left_of_four_decide_together() {
    let mut paxos = accepting_of_four();
    receive(&mut paxos, 2, accepted(1, 1));
    assert_eq!((lose(&mut paxos, 3), paxos.decided()), (vec![], None), "three of four decide");
    let outputs = lose(&mut paxos, 4);
    assert!(outputs.contains(&Output::Decided(value("a"))), "{outputs:?}");
    let mut paxos = accepting_of_four();
    [3, 4].iter().for_each(|lost| drop(lose(&mut paxos, *lost)));
    assert_eq!(paxos.decided(), None, "not one without the other");
}

/// Nobody reads its disk any more, and the next one may be lost, too.
#[test]
fn what_a_lost_member_promised_or_accepted_does_not_count() {
    let mut paxos = one_of_four(1);
    paxos.step(NOW, Input::Propose(value("a")));
    receive(&mut paxos, 4, promised(1, 1, None));
    assert_eq!(lose(&mut paxos, 4), []);
    assert_eq!(receive(&mut paxos, 2, promised(1, 1, None)), [], "two of four have promised");
    let outputs = receive(&mut paxos, 3, promised(1, 1, None));
    assert_eq!(outputs[1..3], [send(2, accept(1, 1, "a")), send(3, accept(1, 1, "a"))]);
    assert!(!outputs.contains(&send(4, accept(1, 1, "a"))), "nobody asks it any more");
}

/// It may have told more to those who are left than its loss undoes: what they accepted binds them.
#[test]
fn a_value_that_a_lost_member_had_accepted_here_is_taken_over() {
    let mut paxos = one_of_four(1);
    receive(&mut paxos, 4, accept(1, 4, "theirs"));
    [3, 4].iter().for_each(|lost| drop(lose(&mut paxos, *lost)));
    paxos.step(NOW, Input::Propose(value("mine")));
    receive(&mut paxos, 2, promised(2, 1, None));
    let outputs = receive(&mut paxos, 2, accepted(2, 1));
    assert!(outputs.contains(&Output::Decided(value("theirs"))), "{outputs:?}");
}

#[test]
fn whoever_is_lost_is_not_heard_and_not_told() {
    let mut paxos = decider();
    lose(&mut paxos, 3);
    assert_eq!(fire(&mut paxos, Timer::AcknowledgementsOverdue), [], "two has accepted it");
    assert_eq!(receive(&mut paxos, 3, Message::Ask), []);
    let mut paxos = proposer();
    lose(&mut paxos, 2);
    assert_eq!(receive(&mut paxos, 2, promised(1, 1, None)), [], "it is late");
}

#[test]
fn a_loss_that_is_told_twice_or_of_a_stranger_changes_nothing() {
    let mut paxos = accepting();
    lose(&mut paxos, 2);
    let before = paxos.clone();
    for node in [1, 2, 9] {
        assert_eq!((lose(&mut paxos, node), &paxos), (vec![], &before), "{node}");
    }
}

#[test]
fn whoever_begins_without_the_lost_decides_without_them() {
    let lost = [NodeId(2), NodeId(3)].into();
    let mut paxos = member(1).without(&lost);
    let outputs = paxos.step(NOW, Input::Propose(value("a")));
    assert_eq!(outputs.last(), Some(&Output::Decided(value("a"))));
}
