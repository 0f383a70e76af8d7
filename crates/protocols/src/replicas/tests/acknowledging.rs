//! Where a call waits for a majority: what was acknowledged is never given up, so that passive
//! replication undoes nothing. The paper has no acknowledgements.

use outlast_lineage::{Epoch, NodeId};

use super::super::{Choice, Input, Message, Output, Replica, Setup, Timer};
use super::steps::{
    NOW, acknowledging, advance, begun, effect, fire, head, held, intended, lead, line, lose,
    point, receive, request, said_to, setup, state, timer_at, vote,
};
use crate::Members;

/// What a majority acknowledged to a new primary is not given up for a line of a later state that
/// no majority ever had (in Raft's paper this is figure 8).
#[test]
fn what_was_acknowledged_again_outranks_later_states_of_earlier_terms() {
    let old = head(&[(3, 1, 2)], 1);
    let stray = head(&[(3, 1, 1), (2, 2, 2)], 2);
    let mut voter = begun(acknowledging(1, 5));
    receive(&mut voter, 5, state(1, head(&[(5, 1, 1)], 0)));
    receive(&mut voter, 3, state(3, old.clone()));
    assert_eq!(voter.standing().confirmed, Some((Epoch(3), NodeId(3))), "of a state of term 1");

    let mut candidate = begun(acknowledging(4, 5));
    receive(&mut candidate, 2, state(2, stray));
    lose(&mut candidate, 2);
    let term = candidate.standing().term;
    let confirmed = voter.standing().confirmed;
    let offer = Some(held(old.clone()));
    let granted = Message::Vote { term, head: old.clone(), held: offer, confirmed };
    receive(&mut candidate, 1, granted);
    receive(&mut candidate, 3, vote(term, None));
    fire(&mut candidate, Timer::ElectionOver);
    assert_eq!((candidate.leads(), candidate.head()), (Some(term), &old));
}

/// A new primary is acknowledged before its first own state: what was open may be waiting for it.
#[test]
fn a_new_primary_is_acknowledged_for_a_state_that_is_not_its_own() {
    let shared = head(&[(3, 1, 1)], 0);
    let mut voter = begun(acknowledging(1, 3));
    receive(&mut voter, 3, state(1, shared.clone()));
    voter.step(NOW, Input::PeerLost(NodeId(3)));
    receive(&mut voter, 2, request(5, shared.clone()));
    let outputs = receive(&mut voter, 2, lead(5, shared));
    let confirmed = Some((Epoch(5), NodeId(2)));
    assert_eq!(said_to(&outputs, 2), [&Message::Ack { point: point(3, 1, 1), confirmed }]);
}

/// Where acknowledgements count, a minority of votes is not enough, whatever was asked for.
#[test]
fn acknowledgements_need_a_majority_of_votes() {
    assert_eq!(Replica::new(acknowledging(1, 5)).votes_needed(), 3);
    assert_eq!(Replica::new(setup(1, 5, 1)).votes_needed(), 1);
}

/// The first term is everyone's, so that no candidate can be primary in a term before it.
#[test]
fn nobody_stands_in_the_first_term() {
    let mut backup = begun(acknowledging(1, 3));
    lose(&mut backup, 3);
    assert_eq!(backup.standing().term, Epoch(2));
}

/// Whoever promised a later term does not vote for an earlier one, and says which it should be.
#[test]
fn a_candidate_in_a_term_that_is_over_is_told_the_later_one() {
    let mut voter = begun(acknowledging(1, 3));
    lose(&mut voter, 3);
    receive(&mut voter, 3, request(7, head(&[], 0)));
    let outputs = receive(&mut voter, 2, request(4, head(&[], 0)));
    let objection = Message::Reject { term: Epoch(4), known: Epoch(7), leader: None };
    assert_eq!(said_to(&outputs, 2), [&objection]);
}

/// Of those who lose their primary at the same time, all stand in one term. Who promised it to a lower one
/// can promise it to the highest, whichever node has the greater id, and not the other way round.
#[test]
fn of_all_who_stand_in_one_term_the_highest_gets_every_vote() {
    let members: Members = [1, 4, 3, 2, 5].map(NodeId).into_iter().collect();
    let setup = || Setup { members: members.clone(), ..acknowledging(1, 5) };
    let votes = |outputs: &[Output], to| {
        matches!(said_to(outputs, to)[..], [Message::Vote { term: Epoch(2), .. }])
    };
    let mut voter = begun(setup());
    lose(&mut voter, 5);
    for candidate in [4, 2] {
        let outputs = receive(&mut voter, candidate, request(2, head(&[], 0)));
        assert!(votes(&outputs, candidate), "{candidate}: {outputs:?}");
    }
    let outputs = receive(&mut voter, 3, request(2, head(&[], 0)));
    let objection = Message::Reject { term: Epoch(2), known: Epoch(2), leader: None };
    assert_eq!(said_to(&outputs, 3), [&objection]);
    assert_eq!(voter.standing().promised, Some((Epoch(2), NodeId(2))));
    // Whoever hears that leaves it to the higher one, which has its votes by then.
    let mut lower = begun(Setup { me: NodeId(3), ..setup() });
    lose(&mut lower, 5);
    let outputs = receive(&mut lower, 1, objection);
    assert!(outputs.is_empty(), "{outputs:?}");
}

/// Of two votes the one counts that comes from the line of the later primary: of one term, the higher's.
#[test]
fn of_two_primaries_of_one_term_the_higher_is_the_later() {
    let members: Members = [1, 4, 3, 2, 5].map(NodeId).into_iter().collect();
    let mut candidate = begun(Setup { me: NodeId(3), members, ..acknowledging(3, 5) });
    lose(&mut candidate, 5);
    let term = candidate.standing().term;
    let offers = [(1, head(&[(4, 1, 3)], 0), 4), (4, head(&[(2, 1, 1)], 0), 2)];
    for (voter, head, primary) in offers {
        let confirmed = Some((Epoch(1), NodeId(primary)));
        let offer = Some(held(head.clone()));
        receive(&mut candidate, voter, Message::Vote { term, head, held: offer, confirmed });
    }
    fire(&mut candidate, Timer::ElectionOver);
    assert_eq!((candidate.leads(), candidate.head()), (Some(term), &head(&[(2, 1, 1)], 0)));
}

/// A lower one promised a later term to someone else: the next after it need not wait.
#[test]
fn the_highest_candidate_stands_again_at_once_when_its_term_is_over() {
    let over =
        |term, known| Message::Reject { term: Epoch(term), known: Epoch(known), leader: None };
    let mut highest = begun(acknowledging(4, 5));
    lose(&mut highest, 5);
    let outputs = receive(&mut highest, 2, over(2, 6));
    let asked = |message: &&Message| matches!(message, Message::RequestVote { term: Epoch(7), .. });
    assert!(said_to(&outputs, 1).iter().any(asked), "{outputs:?}");
    assert!(receive(&mut highest, 1, over(2, 6)).is_empty(), "that one is over already");
    receive(&mut highest, 1, vote(Epoch(7), None));
    receive(&mut highest, 2, vote(Epoch(7), None));
    fire(&mut highest, Timer::ElectionOver);
    assert_eq!(highest.leads(), Some(Epoch(7)));

    // Whoever is objected to by a higher one leaves it to that one.
    let mut lower = begun(acknowledging(3, 5));
    lose(&mut lower, 5);
    let outputs = receive(&mut lower, 4, over(2, 6));
    assert!(said_to(&outputs, 1).is_empty(), "{outputs:?}");
}

/// A lower one that was primary, and asks for votes to go on, objects to everyone for a while: to stand
/// again each time would be to ask as fast as messages travel.
#[test]
fn a_candidate_does_not_stand_again_for_ever() {
    let mut highest = begun(acknowledging(4, 5));
    lose(&mut highest, 5);
    let mut asked = 1;
    for _ in 0..20 {
        let term = highest.standing().term;
        let known = Epoch(term.0 + 1);
        let objection = Message::Reject { term, known, leader: None };
        asked += said_to(&receive(&mut highest, 2, objection), 1).len();
    }
    assert_eq!(asked, 4, "once, and three times more at once");
    assert!(timer_at(&fire(&mut highest, Timer::ElectionOver), Timer::RetryElection).is_some());
}

/// An acknowledgement counts for the primary it was given to: the replica may have left the line
/// since.
#[test]
fn an_acknowledgement_of_an_earlier_term_does_not_count() {
    let mut primary = begun(acknowledging(3, 3));
    advance(&mut primary, 0, Vec::new());
    let earlier = Some((Epoch(1), NodeId(3)));
    receive(&mut primary, 1, Message::Reject { term: Epoch(1), known: Epoch(4), leader: None });
    receive(&mut primary, 2, vote(Epoch(5), None));
    fire(&mut primary, Timer::ElectionOver);
    assert_eq!(primary.leads(), Some(Epoch(5)));
    receive(&mut primary, 1, Message::Ack { point: point(3, 1, 1), confirmed: earlier });
    assert!(!primary.may_leave(1));
    let confirmed = Some((Epoch(5), NodeId(3)));
    receive(&mut primary, 1, Message::Ack { point: point(3, 1, 1), confirmed });
    assert!(primary.may_leave(1));
}

/// A backup takes over even an earlier state of a new primary, but never goes back with it.
#[test]
fn a_late_state_of_the_same_primary_takes_nothing_back() {
    let mut backup = begun(acknowledging(1, 3));
    receive(&mut backup, 3, state(1, head(&[(3, 1, 4)], 3)));
    let shorter = head(&[(3, 1, 2)], 1);
    receive(&mut backup, 2, state(2, shorter.clone()));
    assert_eq!(backup.head(), &shorter, "the new primary has less, and is right");
    let longer = head(&[(3, 1, 2), (2, 2, 1)], 2);
    receive(&mut backup, 2, state(2, longer.clone()));
    receive(&mut backup, 2, state(2, shorter));
    assert_eq!(backup.head(), &longer);
}

/// What somebody else had asked for, and was asked for again here, is where it was asked for here.
#[test]
fn an_effect_of_somebody_else_is_off_the_line_if_it_was_asked_for_off_the_line_here() {
    let others = effect(5, 1, 1);
    let mut second = begun(acknowledging(4, 5));
    receive(&mut second, 5, state(1, head(&[(5, 1, 1)], 0)));
    lose(&mut second, 5);
    let term = second.standing().term;
    [1, 2].iter().for_each(|peer| drop(receive(&mut second, *peer, vote(term, None))));
    fire(&mut second, Timer::ElectionOver);
    advance(&mut second, 0, vec![intended(others, "a", true)]);
    assert!(!second.standing().is_off_the_line(&others), "it is on the line held");

    receive(&mut second, 3, state(9, head(&[(5, 1, 1), (3, 9, 2)], 1)));
    assert_eq!(second.standing().remnants.len(), 1, "the line was lost");
    assert!(second.standing().is_off_the_line(&others));
}

/// Node 4 of five, elected where node 5 had come to its second state, with one state of its own.
fn gone_on() -> (Replica, u64) {
    let mut second = begun(setup(4, 5, 1));
    receive(&mut second, 5, state(1, head(&[(5, 1, 2)], 1)));
    lose(&mut second, 5);
    let term = second.standing().term;
    fire(&mut second, Timer::ElectionOver);
    advance(&mut second, 1, Vec::new());
    (second, term.0)
}

/// Something is decided on a line before its end.
fn decide_on(replica: &mut Replica, instance: u32, runs: &[(u64, u64, u64)]) {
    let choice = Choice { lineage: line(runs), is_final: false };
    replica.step(NOW, Input::Decided { instance, choice });
}

/// What waits for a decision leaves when it is made. Whoever goes on knows that none was made on a state of another
/// when the next one is on its own.
#[test]
fn whoever_goes_on_knows_what_was_undecided_when_its_own_state_is_decided_on() {
    let (mut second, term) = gone_on();
    assert_eq!(second.was_undecided(2), None, "nothing was decided on");
    decide_on(&mut second, 0, &[(5, 1, 2), (4, term, 1)]);
    assert_eq!(second.was_undecided(2), Some(true));
    assert_eq!(second.was_undecided(1), Some(true));

    let (mut second, term) = gone_on();
    decide_on(&mut second, 0, &[(5, 1, 1)]);
    assert_eq!(second.was_undecided(2), None, "it was decided on what another did");
    decide_on(&mut second, 1, &[(5, 1, 2), (4, term, 1)]);
    assert_eq!((second.was_undecided(1), second.was_undecided(2)), (Some(false), Some(true)));
    advance(&mut second, 1, Vec::new());
    decide_on(&mut second, 2, &[(5, 1, 2), (4, term, 2)]);
    assert_eq!(second.was_undecided(2), Some(true), "that it was is still known");
}

#[test]
fn whoever_missed_a_decision_does_not_know_what_was_undecided() {
    let (mut second, term) = gone_on();
    decide_on(&mut second, 1, &[(5, 1, 2), (4, term, 1)]);
    assert_eq!(second.was_undecided(2), Some(false));
}
