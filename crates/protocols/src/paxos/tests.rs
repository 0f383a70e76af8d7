//! Step tests: whole lists of outputs, and what lost, late, doubled and old messages do.

mod losing;

use std::time::Duration;

use outlast_lineage::{NodeId, Time};

use super::{
    Ballot, Input, Message, Output, Paxos, Record, Timer, VALUE_BYTES_MAX, Value, ValueTooLong,
    Vote,
};
use crate::Members;

const NOW: Time = Time::from_millis(1000);
const PATIENCE: Duration = Duration::from_millis(100);

fn value(text: &str) -> Value {
    Value::new(text.as_bytes().to_vec()).unwrap()
}

fn ballot(round: u64, node: u64) -> Ballot {
    Ballot { round, node: NodeId(node) }
}

fn vote(round: u64, node: u64, text: &str) -> Vote {
    Vote { ballot: ballot(round, node), value: value(text) }
}

fn members() -> Members {
    (1..=3).map(NodeId).collect()
}

fn member(me: u64) -> Paxos {
    Paxos::new(NodeId(me), members(), PATIENCE)
}

/// A member of four, of whom two are no quorum.
fn one_of_four(me: u64) -> Paxos {
    Paxos::new(NodeId(me), (1..=4).map(NodeId).collect(), PATIENCE)
}

fn restored(me: u64, record: Record) -> Paxos {
    Paxos::restored(NodeId(me), members(), PATIENCE, record)
}

fn receive(paxos: &mut Paxos, from: u64, message: Message) -> Vec<Output> {
    paxos.step(NOW, Input::Received { from: NodeId(from), message })
}

fn fire(paxos: &mut Paxos, timer: Timer) -> Vec<Output> {
    paxos.step(NOW, Input::TimerFired(timer))
}

fn persist(promised: Ballot, accepted: Option<Vote>, decided: Option<Value>) -> Output {
    Output::Persist(Record { promised: Some(promised), accepted, decided })
}

fn send(to: u64, message: Message) -> Output {
    Output::Send { to: NodeId(to), message }
}

fn timer(timer: Timer, after: Duration) -> Output {
    Output::SetTimer { timer, at: NOW.after(after) }
}

fn round_timer(paxos: &Paxos, round: u64) -> Output {
    timer(Timer::RoundOverdue, paxos.pause(round))
}

fn decision_timer() -> Output {
    timer(Timer::DecisionOverdue, PATIENCE * 4)
}

fn prepare(round: u64, node: u64) -> Message {
    Message::Prepare { ballot: ballot(round, node) }
}

fn promised(round: u64, node: u64, accepted: Option<Vote>) -> Message {
    Message::Promised { ballot: ballot(round, node), accepted }
}

fn accept(round: u64, node: u64, text: &str) -> Message {
    Message::Accept { ballot: ballot(round, node), value: value(text) }
}

fn accepted(round: u64, node: u64) -> Message {
    Message::Accepted { ballot: ballot(round, node) }
}

fn decide(text: &str) -> Message {
    Message::Decide { value: value(text) }
}

fn reject(round: u64, node: u64, promised: Ballot) -> Message {
    Message::Reject { ballot: ballot(round, node), promised }
}

/// Member 1 with its round prepared by itself.
fn proposer() -> Paxos {
    let mut paxos = member(1);
    paxos.step(NOW, Input::Propose(value("a")));
    paxos
}

/// Member 1 with its value accepted by itself.
fn accepting() -> Paxos {
    let mut paxos = proposer();
    receive(&mut paxos, 2, promised(1, 1, None));
    paxos
}

/// Member 1 with its value decided.
fn decider() -> Paxos {
    let mut paxos = accepting();
    receive(&mut paxos, 2, accepted(1, 1));
    paxos
}

#[test]
fn writes_its_ballot_down_before_it_speaks_of_it() {
    let mut paxos = member(1);
    let outputs = paxos.step(NOW, Input::Propose(value("a")));
    let expected = [
        persist(ballot(1, 1), None, None),
        send(2, prepare(1, 1)),
        send(3, prepare(1, 1)),
        round_timer(&paxos, 1),
    ];
    assert_eq!(outputs, expected);
}

#[test]
fn seeks_acceptance_once_a_quorum_has_promised() {
    let mut paxos = proposer();
    let outputs = receive(&mut paxos, 3, promised(1, 1, None));
    let expected = [
        persist(ballot(1, 1), Some(vote(1, 1, "a")), None),
        send(2, accept(1, 1, "a")),
        send(3, accept(1, 1, "a")),
        round_timer(&paxos, 1),
    ];
    assert_eq!(outputs, expected);
}

#[test]
fn takes_over_the_value_of_the_highest_accepted_ballot() {
    let old =
        Record { promised: Some(ballot(2, 2)), accepted: Some(vote(1, 3, "old")), decided: None };
    let mut paxos = restored(1, old);
    paxos.step(NOW, Input::Propose(value("a")));
    let outputs = receive(&mut paxos, 2, promised(3, 1, Some(vote(2, 2, "b"))));
    assert_eq!(outputs[0], persist(ballot(3, 1), Some(vote(3, 1, "b")), None));
    assert_eq!(outputs[1], send(2, accept(3, 1, "b")));
}

/// Seed 0, 4.4: "If a majority of replicas accept the proposal, it is guaranteed that all replicas will
/// eventually accept the proposal. Thus, a majority can decide".
#[test]
fn decides_once_a_quorum_has_accepted() {
    let mut paxos = one_of_four(1);
    paxos.step(NOW, Input::Propose(value("a")));
    for node in [2, 3] {
        receive(&mut paxos, node, promised(1, 1, None));
    }
    assert_eq!(receive(&mut paxos, 2, accepted(1, 1)), []);
    let outputs = receive(&mut paxos, 3, accepted(1, 1));
    let expected = [
        // What a quorum has accepted need not wait for the disk of whoever counted.
        send(2, decide("a")),
        send(3, decide("a")),
        send(4, decide("a")),
        timer(Timer::AcknowledgementsOverdue, PATIENCE),
        persist(ballot(1, 1), Some(vote(1, 1, "a")), Some(value("a"))),
        Output::Decided(value("a")),
    ];
    assert_eq!(outputs, expected);
    assert_eq!(paxos.decided(), Some(&value("a")));
}

#[test]
fn where_two_are_a_quorum_whoever_accepts_knows_the_decision() {
    let mut paxos = member(2);
    let outputs = receive(&mut paxos, 1, accept(1, 1, "a"));
    let expected = [
        persist(ballot(1, 1), Some(vote(1, 1, "a")), Some(value("a"))),
        send(1, accepted(1, 1)),
        Output::Decided(value("a")),
        timer(Timer::AcknowledgementsOverdue, PATIENCE * 4),
    ];
    assert_eq!(outputs, expected);
    // Its proposer may be gone: then nobody else tells the third.
    let outputs = fire(&mut paxos, Timer::AcknowledgementsOverdue);
    assert_eq!(outputs[..2], [send(1, decide("a")), send(3, decide("a"))]);
}

/// Whoever had reason to say nothing is asked again when its owner thinks that it has none any more.
#[test]
fn a_proposer_that_is_told_again_asks_those_again_who_have_not_accepted() {
    let mut proposer = one_of_four(4);
    let mine = proposer.step(NOW, Input::Propose(value("mine")));
    let asked = |outputs: &[Output]| -> Vec<u64> {
        let accepts = outputs.iter().filter_map(|output| match output {
            Output::Send { to, message: Message::Accept { ballot: of, value: it } } => {
                assert_eq!((of.node, it), (NodeId(4), &value("mine")));
                Some(to.0)
            }
            _ => None,
        });
        accepts.collect()
    };
    assert_eq!(asked(&mine), [1, 2, 3], "the highest owns the first round");
    receive(&mut proposer, 2, accepted(0, 4));
    let again = proposer.step(NOW, Input::Propose(value("another")));
    assert_eq!((asked(&again), again.len()), (vec![1, 3], 2), "and for nothing else");
}

#[test]
fn where_two_are_a_quorum_a_proposer_tells_only_those_who_have_not_accepted() {
    let mut paxos = accepting();
    let outputs = receive(&mut paxos, 3, accepted(1, 1));
    let expected = [
        timer(Timer::AcknowledgementsOverdue, PATIENCE / 4),
        persist(ballot(1, 1), Some(vote(1, 1, "a")), Some(value("a"))),
        Output::Decided(value("a")),
    ];
    assert_eq!(outputs, expected);
    let mut silent = paxos.clone();
    let told = [send(2, decide("a")), timer(Timer::AcknowledgementsOverdue, PATIENCE)];
    assert_eq!(fire(&mut silent, Timer::AcknowledgementsOverdue), told);
    assert_eq!(receive(&mut paxos, 2, accepted(1, 1)), []);
    assert_eq!(fire(&mut paxos, Timer::AcknowledgementsOverdue), [], "all have accepted");
}

#[test]
fn a_single_member_decides_alone() {
    let mut paxos = Paxos::new(NodeId(1), [NodeId(1)].into_iter().collect(), PATIENCE);
    let outputs = paxos.step(NOW, Input::Propose(value("a")));
    let expected = [
        persist(ballot(0, 1), Some(vote(0, 1, "a")), None),
        round_timer(&paxos, 0),
        persist(ballot(0, 1), Some(vote(0, 1, "a")), Some(value("a"))),
        Output::Decided(value("a")),
    ];
    assert_eq!(outputs, expected);
}

#[test]
fn the_highest_member_needs_no_promises_in_the_first_round() {
    let mut paxos = member(3);
    let outputs = paxos.step(NOW, Input::Propose(value("a")));
    let expected = [
        persist(ballot(0, 3), Some(vote(0, 3, "a")), None),
        send(1, accept(0, 3, "a")),
        send(2, accept(0, 3, "a")),
        round_timer(&paxos, 0),
    ];
    assert_eq!(outputs, expected);
    let mut other = member(1);
    let outputs = receive(&mut other, 3, accept(0, 3, "a"));
    assert!(outputs.contains(&send(3, accepted(0, 3))));
    let outputs = receive(&mut paxos, 1, accepted(0, 3));
    assert!(outputs.contains(&Output::Decided(value("a"))));
}

#[test]
fn the_first_round_is_used_once_and_by_nobody_else() {
    let mut highest = member(3);
    highest.step(NOW, Input::Propose(value("a")));
    let mut again = restored(3, highest.record().clone());
    let outputs = again.step(NOW, Input::Propose(value("b")));
    assert!(outputs.contains(&send(1, prepare(1, 3))), "{outputs:?}");
    let mut promised_before = member(3);
    receive(&mut promised_before, 1, prepare(1, 1));
    let outputs = promised_before.step(NOW, Input::Propose(value("b")));
    assert!(outputs.contains(&send(1, prepare(2, 3))), "{outputs:?}");
    assert_eq!(receive(&mut member(1), 2, accept(0, 2, "b")), []);
    assert_eq!(receive(&mut member(1), 3, prepare(0, 3)), []);
}

#[test]
fn which_member_is_the_highest_their_order_says_and_not_their_ids() {
    let ordered = || [3, 2, 1].map(NodeId).into_iter().collect();
    let mut first = Paxos::new(NodeId(1), ordered(), PATIENCE);
    let outputs = first.step(NOW, Input::Propose(value("a")));
    assert!(outputs.contains(&send(2, accept(0, 1, "a"))), "{outputs:?}");
    let mut other = Paxos::new(NodeId(2), ordered(), PATIENCE);
    assert_eq!(receive(&mut other, 3, accept(0, 3, "b")), []);
    let outputs = receive(&mut other, 1, accept(0, 1, "a"));
    assert!(outputs.contains(&send(1, accepted(0, 1))), "{outputs:?}");
}

#[test]
fn promises_and_accepts_after_writing_it_down() {
    let mut paxos = one_of_four(3);
    let outputs = receive(&mut paxos, 1, prepare(1, 1));
    let expected =
        [persist(ballot(1, 1), None, None), send(1, promised(1, 1, None)), decision_timer()];
    assert_eq!(outputs, expected);
    let outputs = receive(&mut paxos, 1, accept(1, 1, "a"));
    let expected = [
        persist(ballot(1, 1), Some(vote(1, 1, "a")), None),
        send(1, accepted(1, 1)),
        decision_timer(),
    ];
    assert_eq!(outputs, expected);
}

#[test]
fn rejects_ballots_below_its_promise() {
    let mut paxos = member(3);
    receive(&mut paxos, 2, prepare(1, 2));
    let refused = [send(1, reject(1, 1, ballot(1, 2)))];
    assert_eq!(receive(&mut paxos, 1, prepare(1, 1)), refused);
    assert_eq!(receive(&mut paxos, 1, accept(1, 1, "a")), refused);
}

#[test]
fn steps_back_from_a_higher_ballot_and_goes_above_it() {
    let mut paxos = accepting();
    let outputs = receive(&mut paxos, 2, reject(1, 1, ballot(7, 3)));
    assert_eq!(outputs, [round_timer(&paxos, 7)]);
    assert_eq!(receive(&mut paxos, 3, reject(1, 1, ballot(8, 3))), []);
    assert_eq!(receive(&mut paxos, 2, accepted(1, 1)), [], "a round given up is not won");
    let outputs = fire(&mut paxos, Timer::RoundOverdue);
    assert_eq!(outputs[0], persist(ballot(9, 1), Some(vote(1, 1, "a")), None));
}

#[test]
fn a_promise_to_another_ends_the_own_round() {
    let mut paxos = accepting();
    let outputs = receive(&mut paxos, 2, prepare(2, 2));
    let expected = [
        round_timer(&paxos, 2),
        persist(ballot(2, 2), Some(vote(1, 1, "a")), None),
        send(2, promised(2, 2, Some(vote(1, 1, "a")))),
        decision_timer(),
    ];
    assert_eq!(outputs, expected);
    assert_eq!(receive(&mut paxos, 3, accepted(1, 1)), []);
}

#[test]
fn pauses_grow_and_differ_between_members() {
    let (first, second) = (member(1), member(2));
    for round in 1..10 {
        let doubled = PATIENCE * (1 << (round - 1).min(6));
        assert_ne!(first.pause(round), second.pause(round), "round {round}");
        assert!(doubled <= first.pause(round), "round {round}");
        assert!(first.pause(round) < doubled * 2, "round {round}");
    }
}

#[test]
fn a_lost_message_is_made_good_by_the_next_round() {
    let mut paxos = proposer();
    let outputs = fire(&mut paxos, Timer::RoundOverdue);
    let expected = [
        persist(ballot(2, 1), None, None),
        send(2, prepare(2, 1)),
        send(3, prepare(2, 1)),
        round_timer(&paxos, 2),
    ];
    assert_eq!(outputs, expected);
}

/// Seed 0, 4.4: "the proposer repeatedly sends the decided final execution state to all replicas until
/// all replicas have acknowledged the reception." Here: its name; who lacks the state asks for it.
#[test]
fn a_lost_decision_is_sent_until_it_is_acknowledged() {
    let mut paxos = decider();
    assert_eq!(receive(&mut paxos, 2, Message::Learned), []);
    let again = [send(3, decide("a")), timer(Timer::AcknowledgementsOverdue, PATIENCE)];
    assert_eq!(fire(&mut paxos, Timer::AcknowledgementsOverdue), again);
    assert_eq!(receive(&mut paxos, 3, Message::Learned), []);
    assert_eq!(fire(&mut paxos, Timer::AcknowledgementsOverdue), []);
}

#[test]
fn a_late_answer_does_not_count_in_a_later_round() {
    let mut paxos = proposer();
    fire(&mut paxos, Timer::RoundOverdue);
    assert_eq!(receive(&mut paxos, 2, promised(1, 1, None)), []);
    receive(&mut paxos, 2, promised(2, 1, None));
    assert_eq!(receive(&mut paxos, 2, accepted(1, 1)), []);
    assert_eq!(receive(&mut paxos, 2, reject(1, 1, ballot(9, 2))), []);
}

#[test]
fn a_doubled_request_is_answered_again_and_written_once() {
    let mut paxos = one_of_four(3);
    receive(&mut paxos, 1, prepare(1, 1));
    let again = [send(1, promised(1, 1, None)), decision_timer()];
    assert_eq!(receive(&mut paxos, 1, prepare(1, 1)), again);
    receive(&mut paxos, 1, accept(1, 1, "a"));
    let again = [send(1, accepted(1, 1)), decision_timer()];
    assert_eq!(receive(&mut paxos, 1, accept(1, 1, "a")), again);
}

#[test]
fn a_doubled_answer_counts_once() {
    let five = (1..=5).map(NodeId).collect();
    let mut paxos = Paxos::new(NodeId(1), five, PATIENCE);
    paxos.step(NOW, Input::Propose(value("a")));
    assert_eq!(receive(&mut paxos, 2, promised(1, 1, None)), []);
    assert_eq!(receive(&mut paxos, 2, promised(1, 1, None)), []);
    assert!(!receive(&mut paxos, 3, promised(1, 1, None)).is_empty());
    assert_eq!(receive(&mut paxos, 2, accepted(1, 1)), []);
    assert_eq!(receive(&mut paxos, 2, accepted(1, 1)), []);
    assert!(!receive(&mut paxos, 3, accepted(1, 1)).is_empty());
}

#[test]
fn an_answer_to_an_earlier_life_does_not_count() {
    let mut paxos = restored(1, proposer().record().clone());
    assert_eq!(receive(&mut paxos, 2, promised(1, 1, None)), []);
    let outputs = paxos.step(NOW, Input::Propose(value("b")));
    assert_eq!(outputs[0], persist(ballot(2, 1), None, None), "no ballot is used twice");
    assert_eq!(receive(&mut paxos, 3, promised(1, 1, None)), []);
}

#[test]
fn who_is_no_member_is_not_heard() {
    let mut paxos = proposer();
    for message in [promised(1, 1, None), prepare(9, 4), decide("z"), Message::Ask] {
        let untouched = paxos.clone();
        assert_eq!(receive(&mut paxos, 4, message), []);
        assert_eq!(paxos, untouched);
    }
}

#[test]
fn nobody_speaks_for_another_or_from_beyond_all_rounds() {
    let mut paxos = member(3);
    assert_eq!(receive(&mut paxos, 1, prepare(1, 2)), []);
    assert_eq!(receive(&mut paxos, 1, accept(1, 2, "a")), []);
    assert_eq!(receive(&mut paxos, 1, prepare(u64::MAX, 1)), []);
    let mut paxos = proposer();
    assert_eq!(receive(&mut paxos, 2, reject(1, 1, ballot(u64::MAX, 2))), []);
}

#[test]
fn learns_once_and_acknowledges_every_time() {
    let mut paxos = member(3);
    let record = Record { decided: Some(value("a")), ..Record::default() };
    let learned = send(1, Message::Learned);
    let expected = [Output::Persist(record), Output::Decided(value("a")), learned.clone()];
    assert_eq!(receive(&mut paxos, 1, decide("a")), expected);
    assert_eq!(receive(&mut paxos, 1, decide("a")), [learned]);
    assert_eq!(receive(&mut paxos, 1, decide("b")), [], "a decision never changes");
    assert_eq!(paxos.decided(), Some(&value("a")));
}

#[test]
fn whoever_comes_late_is_told_the_decision() {
    let mut paxos = decider();
    for message in [Message::Ask, prepare(5, 3), accept(5, 3, "c")] {
        assert_eq!(receive(&mut paxos, 3, message), [send(3, decide("a"))]);
    }
    assert_eq!(paxos.step(NOW, Input::Propose(value("c"))), [Output::Decided(value("a"))]);
    assert_eq!(fire(&mut paxos, Timer::RoundOverdue), []);
}

#[test]
fn one_that_took_part_asks_for_the_decision_until_it_knows() {
    let mut paxos = member(3);
    assert_eq!(fire(&mut paxos, Timer::DecisionOverdue), [], "it knows of nothing to ask for");
    receive(&mut paxos, 1, prepare(1, 1));
    let asks = [send(1, Message::Ask), send(2, Message::Ask), decision_timer()];
    assert_eq!(fire(&mut paxos, Timer::DecisionOverdue), asks);
    assert_eq!(receive(&mut paxos, 2, Message::Ask), [], "it knows nothing either");
    receive(&mut paxos, 1, decide("a"));
    assert_eq!(fire(&mut paxos, Timer::DecisionOverdue), []);
}

#[test]
fn a_new_life_goes_on_from_its_record() {
    assert_eq!(member(1).step(NOW, Input::Restarted), []);
    let mut undecided = restored(1, accepting().record().clone());
    let asks = [send(2, Message::Ask), send(3, Message::Ask), decision_timer()];
    assert_eq!(undecided.step(NOW, Input::Restarted), asks);
    let mut decided = restored(1, decider().record().clone());
    let spreads = [
        Output::Decided(value("a")),
        send(2, decide("a")),
        send(3, decide("a")),
        timer(Timer::AcknowledgementsOverdue, PATIENCE),
    ];
    assert_eq!(decided.step(NOW, Input::Restarted), spreads);
}

#[test]
fn messages_and_records_survive_their_encoding() {
    let messages = [
        prepare(1, 2),
        promised(1, 2, None),
        promised(3, 2, Some(vote(1, 1, "a"))),
        accept(1, 2, "a"),
        accepted(1, 2),
        reject(1, 2, ballot(3, 1)),
        decide("a"),
        Message::Learned,
        Message::Ask,
    ];
    for message in messages {
        let bytes = minicbor::to_vec(&message).unwrap();
        assert_eq!(minicbor::decode::<Message>(&bytes).unwrap(), message);
    }
    for record in [Record::default(), proposer().record().clone(), decider().record().clone()] {
        let bytes = minicbor::to_vec(&record).unwrap();
        assert_eq!(minicbor::decode::<Record>(&bytes).unwrap(), record);
    }
}

#[test]
fn the_encoding_is_this_one() {
    let bytes = minicbor::to_vec(promised(3, 2, Some(vote(1, 1, "a")))).unwrap();
    let expected = [0x82, 0x01, 0x82, 0x82, 0x03, 0x02, 0x82, 0x82, 0x01, 0x01, 0x41, b'a'];
    assert_eq!(bytes, expected);
}

#[test]
fn a_value_has_a_longest_length() {
    let long = vec![0; VALUE_BYTES_MAX + 1];
    assert_eq!(Value::new(long.clone()), Err(ValueTooLong { bytes: VALUE_BYTES_MAX + 1 }));
    let bytes = minicbor::to_vec(minicbor::bytes::ByteVec::from(long)).unwrap();
    assert!(minicbor::decode::<Value>(&bytes).is_err());
    assert!(Value::new(vec![0; VALUE_BYTES_MAX]).is_ok());
}
