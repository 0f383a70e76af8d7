//! Failover when not everyone notices at the same time, and leaving being primary to others.

use std::time::Duration;

use outlast_lineage::{Epoch, NodeId};

use super::super::{Input, Message, Output, Replica, Setup, Situation, Timer};
use super::steps::{
    NOW, advance, begun, elect, fire, head, lead, lose, receive, request, said_to, setup, state,
    timer_at, vote,
};
use super::world::{ELECTION_WAIT, Terms, World};

/// An objection of someone who still follows the lost primary.
fn not_yet(term: u64, leader: u64) -> Message {
    Message::Reject { term: Epoch(term), known: Epoch(term), leader: Some(NodeId(leader)) }
}

/// The order of the replicas of this execution: 1 is the highest, then 2, then 3.
fn turned(me: u64) -> Setup {
    Setup { members: [3, 2, 1].map(NodeId).into_iter().collect(), ..setup(me, 3, 1) }
}

#[test]
fn who_goes_first_is_said_by_the_execution_and_not_by_the_ids_of_nodes() {
    assert!(Replica::new(turned(1)).step(NOW, Input::Begun).contains(&Output::Start));
    assert_eq!(begun(turned(3)).leader(), Some(NodeId(1)));
    // The second stands and is voted for; the third would have to let it go first.
    let mut second = begun(turned(2));
    assert!(lose(&mut second, 1).contains(&Output::Report(Situation::Candidacy)));
    let mut third = begun(turned(3));
    lose(&mut third, 1);
    let said = receive(&mut third, 2, request(3, head(&[], 0)));
    assert!(matches!(said_to(&said, 2)[..], [Message::Vote { .. }]), "{said:?}");
    let said = receive(&mut second, 3, request(3, head(&[], 0)));
    assert!(
        matches!(said_to(&said, 3)[..], [.., Message::Reject { leader: None, .. }]),
        "{said:?}"
    );
}

#[test]
fn who_was_asked_too_early_votes_when_it_loses_the_primary_itself() {
    let mut voter = begun(setup(1, 3, 1));
    let asked = request(2, head(&[], 0));
    assert_eq!(said_to(&receive(&mut voter, 2, asked), 2), [&not_yet(2, 3)]);
    let outputs = lose(&mut voter, 3);
    assert!(matches!(said_to(&outputs, 2)[..], [Message::Vote { term: Epoch(2), .. }]));
    assert!(!outputs.contains(&Output::Report(Situation::Candidacy)), "it does not stand itself");
}

#[test]
fn of_several_who_asked_too_early_the_highest_gets_the_vote() {
    let mut voter = begun(setup(1, 5, 1));
    for candidate in [3, 4, 2] {
        receive(&mut voter, candidate, request(2, head(&[], 0)));
    }
    let outputs = lose(&mut voter, 5);
    assert!(matches!(said_to(&outputs, 4)[..], [Message::Vote { .. }]), "{outputs:?}");
    assert_eq!(said_to(&outputs, 3), Vec::<&Message>::new());
}

#[test]
fn a_higher_replica_that_was_asked_too_early_stands_when_it_loses_the_primary() {
    let mut higher = begun(setup(2, 3, 1));
    receive(&mut higher, 1, request(2, head(&[], 0)));
    let outputs = lose(&mut higher, 3);
    let said = said_to(&outputs, 1);
    assert!(matches!(said[0], Message::RequestVote { term: Epoch(3), .. }), "{said:?}");
    assert!(matches!(said[1], Message::Reject { term: Epoch(2), leader: None, .. }), "{said:?}");
}

#[test]
fn a_request_that_nobody_waits_for_any_more_is_not_answered() {
    let mut voter = begun(setup(1, 3, 1));
    receive(&mut voter, 2, request(2, head(&[], 0)));
    let later = NOW.after(ELECTION_WAIT * 5);
    let outputs = voter.step(later, Input::PeerLost(NodeId(3)));
    assert!(outputs.contains(&Output::Report(Situation::Candidacy)));
    let mut voter = begun(setup(1, 3, 1));
    receive(&mut voter, 2, request(2, head(&[], 0)));
    lose(&mut voter, 2);
    assert!(lose(&mut voter, 3).contains(&Output::Report(Situation::Candidacy)));
}

#[test]
fn a_candidate_waits_for_who_has_not_noticed_and_is_elected_when_it_has() {
    let mut candidate = begun(setup(2, 3, 1));
    receive(&mut candidate, 3, state(1, head(&[(3, 1, 1)], 0)));
    lose(&mut candidate, 3);
    receive(&mut candidate, 1, not_yet(2, 3));
    let outputs = fire(&mut candidate, Timer::ElectionOver);
    assert_eq!(timer_at(&outputs, Timer::ElectionOver), Some(ELECTION_WAIT));
    let outputs = receive(&mut candidate, 1, vote(Epoch(2), None));
    assert!(outputs.contains(&Output::GoOn), "it has waited long enough");
    assert_eq!(candidate.leads(), Some(Epoch(2)));
}

#[test]
fn who_has_not_noticed_and_is_lost_itself_is_not_waited_for() {
    let mut candidate = begun(setup(2, 3, 1));
    lose(&mut candidate, 3);
    receive(&mut candidate, 1, not_yet(2, 3));
    fire(&mut candidate, Timer::ElectionOver);
    assert!(lose(&mut candidate, 1).contains(&Output::Start));
}

/// Someone reaches the primary that this candidate does not: there is one, and it stays.
#[test]
fn who_goes_on_following_the_lost_primary_objects_in_the_end() {
    let mut candidate = begun(setup(2, 3, 1));
    lose(&mut candidate, 3);
    receive(&mut candidate, 1, not_yet(2, 3));
    for _ in 0..3 {
        let outputs = fire(&mut candidate, Timer::ElectionOver);
        assert!(timer_at(&outputs, Timer::ElectionOver).is_some());
    }
    let outputs = fire(&mut candidate, Timer::ElectionOver);
    assert_eq!(candidate.leads(), None);
    // Twice the waiting time, three times over, and a quarter for the one replica above.
    let wait = timer_at(&outputs, Timer::RetryElection);
    assert_eq!(wait, Some(ELECTION_WAIT * 2 * 3 + ELECTION_WAIT / 2));
}

/// An objection to a candidate that has lost nobody names a primary for it to heed: it is one.
#[test]
fn a_primary_that_is_not_lost_here_is_no_reason_to_wait() {
    let mut candidate = begun(setup(1, 3, 1));
    receive(&mut candidate, 3, Message::StoodDown { leader: None });
    fire(&mut candidate, Timer::RetryElection);
    receive(&mut candidate, 2, not_yet(2, 3));
    assert_eq!(timer_at(&fire(&mut candidate, Timer::ElectionOver), Timer::ElectionOver), None);
}

/// However irregularly five replicas notice that the primary is gone, the highest of the others
/// leads after one waiting time and the time it took the last of them to notice.
#[test]
fn the_highest_of_the_others_wins_the_first_round() {
    for seed in 0..200 {
        let mut terms = Terms::of(5, 1, 40);
        terms.work = 300;
        let mut world = World::new(seed, terms);
        world.run(500);
        world.crash(NodeId(5));
        let began = world.now;
        let noticed = |world: &World| {
            [1, 2, 3, 4].iter().all(|node| world.owner(*node).replica.leader() != Some(NodeId(5)))
        };
        assert!(world.run_until(5000, noticed));
        let slack = Duration::from_millis(50);
        let last = world.now.max(began.after(ELECTION_WAIT));
        assert!(world.run_until(5000, |world| !world.primaries().is_empty()));
        let took = world.now.since(last);
        assert!(took <= ELECTION_WAIT + slack, "seed {seed}: {took:?} after all had noticed");
        assert_eq!(world.primaries(), [4], "seed {seed}");
    }
}

/// After a heal, two primaries have not met yet, but a backup knows both: the one that lags behind
/// follows the other. If it went on from what it is shown, its work would be undone.
#[test]
fn a_lagging_primary_follows_whom_a_backup_of_the_other_names() {
    let further = head(&[(3, 1, 9)], 8);
    let mut backup = begun(setup(1, 3, 1));
    receive(&mut backup, 3, state(1, further.clone()));
    let mut lagging = begun(setup(2, 3, 1));
    receive(&mut lagging, 3, state(1, head(&[(3, 1, 2)], 1)));
    elect(&mut lagging, 3, &[]);
    lagging.step(NOW, Input::PeerFound(NodeId(3)));
    let outputs = receive(&mut backup, 2, lead(2, lagging.head().clone()));
    assert_eq!(backup.leader(), Some(NodeId(3)), "it stays with the one that is further");
    let [reference] = said_to(&outputs, 2)[..] else { panic!("{outputs:?}") };
    let outputs = receive(&mut lagging, 1, reference.clone());
    assert!(outputs.contains(&Output::Stop));
    assert_eq!((lagging.leader(), lagging.head()), (Some(NodeId(3)), &further));
    assert!(said_to(&outputs, 3).contains(&&Message::Inquire));
}

/// If the further primary cannot be reached from here, there are two partitions and a replica in
/// both: what it shows is gone on from, if it does not object.
#[test]
fn a_lagging_primary_does_not_follow_whom_it_cannot_reach() {
    let mut lagging = begun(setup(2, 3, 1));
    receive(&mut lagging, 3, state(1, head(&[(3, 1, 2)], 1)));
    elect(&mut lagging, 3, &[]);
    let held = Some(super::steps::held(head(&[(3, 1, 9)], 8)));
    let reference = Message::RecoveryReply { leader: Some(NodeId(3)), held };
    let outputs = receive(&mut lagging, 1, reference);
    assert!(matches!(said_to(&outputs, 1).last(), Some(Message::RequestVote { .. })));
    assert_eq!(lagging.leader(), None);
}

#[test]
fn a_primary_that_retires_names_the_highest_that_can_be_reached() {
    let mut primary = begun(setup(4, 4, 1));
    advance(&mut primary, 0, Vec::new());
    lose(&mut primary, 3);
    let outputs = primary.step(NOW, Input::Retiring(true));
    assert!(outputs.contains(&Output::Stop));
    let named = Message::StoodDown { leader: Some(NodeId(2)) };
    assert_eq!(said_to(&outputs, 1), [&named]);
    assert_eq!(said_to(&outputs, 2), [&named]);
    assert_eq!(primary.leader(), Some(NodeId(2)));
    let mut successor = begun(setup(2, 4, 1));
    let outputs = receive(&mut successor, 4, named);
    assert!(matches!(said_to(&outputs, 4)[..], [Message::RequestVote { .. }]), "it stands");
}

/// It has the highest id, and would object; but it is about to stop.
#[test]
fn a_replica_that_retires_lets_lower_ones_have_its_vote_and_does_not_stand() {
    let mut retiring = begun(setup(4, 4, 1));
    retiring.step(NOW, Input::Retiring(true));
    let outputs = receive(&mut retiring, 3, request(2, head(&[], 0)));
    assert!(matches!(said_to(&outputs, 3)[..], [Message::Vote { .. }]), "{outputs:?}");
    let outputs = fire(&mut retiring, Timer::RetryElection);
    assert!(!outputs.contains(&Output::Report(Situation::Candidacy)));
}

/// All of them may be about to stop, and none of them does for a while.
#[test]
fn replicas_that_all_retire_do_not_leave_it_to_each_other_for_ever() {
    let mut retiring = begun(setup(3, 3, 1));
    advance(&mut retiring, 0, Vec::new());
    retiring.step(NOW, Input::Retiring(true));
    receive(&mut retiring, 2, Message::StoodDown { leader: None });
    let stands = |outputs: &[Output]| outputs.contains(&Output::Report(Situation::Candidacy));
    let tries: Vec<bool> =
        (0..3).map(|_| stands(&fire(&mut retiring, Timer::RetryElection))).collect();
    assert_eq!(tries, [false, false, true]);
    let outputs = receive(&mut retiring, 2, request(9, head(&[], 0)));
    assert!(matches!(said_to(&outputs, 2)[..], [Message::Reject { .. }]), "{outputs:?}");
}

#[test]
fn a_primary_that_retires_alone_goes_on_and_one_that_stays_after_all_may_lead_again() {
    let mut primary = begun(setup(3, 3, 1));
    advance(&mut primary, 0, Vec::new());
    lose(&mut primary, 1);
    lose(&mut primary, 2);
    assert_eq!(primary.step(NOW, Input::Retiring(true)), [], "there is nobody to go on");
    assert!(primary.leads().is_some());

    let mut primary = begun(setup(3, 3, 1));
    advance(&mut primary, 0, Vec::new());
    primary.step(NOW, Input::Retiring(true));
    assert_eq!(primary.leader(), Some(NodeId(2)));
    primary.step(NOW, Input::Retiring(false));
    assert!(lose(&mut primary, 2).contains(&Output::Report(Situation::Candidacy)));
}

/// Heartbeats come, and still nobody votes: it is not said for ever that there will soon be a primary.
#[test]
fn who_is_elected_by_nobody_for_long_is_not_between_primaries_though_enough_can_be_reached() {
    let mut candidate = begun(setup(4, 5, 3));
    assert!(!candidate.is_between_primaries(), "it has a primary");
    lose(&mut candidate, 5);
    for _ in 0..3 {
        assert!(candidate.seeks_votes() && candidate.is_between_primaries());
        fire(&mut candidate, Timer::ElectionOver);
        fire(&mut candidate, Timer::RetryElection);
    }
    assert!(candidate.seeks_votes() && !candidate.is_between_primaries());
    receive(&mut candidate, 3, lead(9, head(&[], 0)));
    assert!(!candidate.seeks_votes() && !candidate.is_between_primaries());

    let mut candidate = begun(setup(4, 5, 3));
    for lost in [1, 2, 5] {
        lose(&mut candidate, lost);
    }
    assert!(candidate.seeks_votes() && !candidate.is_between_primaries(), "two are too few");
}

/// A replica that asked for votes in vain, ever more patiently, because too few could be reached.
fn disheartened() -> Replica {
    let mut replica = begun(setup(3, 5, 3));
    for other in [5, 4, 2, 1] {
        lose(&mut replica, other);
    }
    for _ in 0..5 {
        fire(&mut replica, Timer::ElectionOver);
        fire(&mut replica, Timer::RetryElection);
    }
    replica
}

#[test]
fn whoever_finds_others_again_is_as_quick_as_ever() {
    let wait = setup(3, 5, 3).election_wait;
    let mut waiting = disheartened();
    fire(&mut waiting, Timer::ElectionOver);
    let outputs = waiting.step(NOW, Input::PeerFound(NodeId(2)));
    assert!(matches!(said_to(&outputs, 2)[..], [Message::RequestVote { .. }]));
    assert_eq!(timer_at(&outputs, Timer::ElectionOver), Some(wait));
}

#[test]
fn whoever_is_found_while_votes_are_asked_for_is_asked_too() {
    let wait = setup(3, 5, 3).election_wait;
    let mut candidate = disheartened();
    let outputs = candidate.step(NOW, Input::PeerFound(NodeId(2)));
    assert!(matches!(said_to(&outputs, 2)[..], [Message::RequestVote { .. }]));
    assert_eq!(timer_at(&outputs, Timer::ElectionOver), Some(wait));
    let outputs = candidate.step(NOW, Input::PeerFound(NodeId(1)));
    assert!(matches!(said_to(&outputs, 1)[..], [Message::RequestVote { .. }]));
    assert_eq!(
        timer_at(&outputs, Timer::ElectionOver),
        None,
        "whoever comes and goes delays nothing"
    );
}
