//! What several lost lines did by the same key is one effect: who undoes it, when, and how the others
//! hear of it. And whom wishes are repeated to.

use std::time::Duration;

use outlast_lineage::{EffectId, Epoch, NodeId};

use super::super::{Asked, Change, Choice, Input, Message, Output, Replica, Timer, Verdict};
use super::steps::{
    NOW, advance, begun, decide, done, effect, elect, fire, head, intended, key, line, lose, point,
    receive, said_to, setup, state, timer_at,
};

/// One of four replicas, which did an operation that everyone does and then one of its own, and lost
/// that line to the fourth.
fn loser(me: u64) -> Replica {
    let mut loser = begun(setup(me, 4, 1));
    elect(&mut loser, 4, &[]);
    let (first, second) = (shared(me), own(me));
    advance(&mut loser, 0, vec![intended(first, "shared", true)]);
    advance(&mut loser, 1, vec![done(first), intended(second, &format!("of {me}"), true)]);
    advance(&mut loser, 2, vec![done(second)]);
    receive(&mut loser, 4, state(9, head(&[(4, 9, 5)], 5)));
    decide(&mut loser, 0, line(&[(4, 9, 5)]));
    loser
}

fn shared(of: u64) -> EffectId {
    effect(of, 2, 1)
}

fn own(of: u64) -> EffectId {
    effect(of, 2, 2)
}

/// Another loser wants to undo what all of them did.
fn wish(from: u64) -> Message {
    let choice = Choice { lineage: line(&[(4, 9, 5)]), is_final: true };
    let asked =
        Asked { effect: shared(from), intended: point(from, 2, 1), key: Some(key("shared")) };
    Message::MayUndo { instance: 0, choice, effects: vec![asked] }
}

fn undone(replica: &mut Replica, effect: EffectId) -> Vec<Output> {
    replica.step(NOW, Input::Undone(vec![effect]))
}

fn allow_all(replica: &mut Replica, effects: &[EffectId]) -> Vec<Output> {
    let allow = || Message::Allow { effects: effects.to_vec() };
    [1, 2, 3, 4].into_iter().flat_map(|peer| receive(replica, peer, allow())).collect()
}

#[test]
fn the_highest_that_did_an_operation_undoes_it_for_all() {
    let mut highest = loser(3);
    let leave = Message::Leave { effects: vec![shared(2)] };
    assert_eq!(said_to(&receive(&mut highest, 2, wish(2)), 2), [&leave]);
    assert!(said_to(&undone(&mut highest, own(3)), 2).is_empty());
    let keep = Message::Keep { effects: vec![shared(2)] };
    assert_eq!(said_to(&undone(&mut highest, shared(3)), 2), [&keep], "without being asked again");
    assert_eq!(
        said_to(&receive(&mut highest, 1, wish(1)), 1),
        [&Message::Keep { effects: vec![shared(1)] }]
    );
}

#[test]
fn whoever_is_told_to_leave_an_undo_does_not_do_it() {
    let mut lower = loser(2);
    let effects = vec![shared(2)];
    receive(&mut lower, 3, Message::Leave { effects: effects.clone() });
    allow_all(&mut lower, &[own(2)]);
    undone(&mut lower, own(2));
    for peer in [1, 4] {
        let allow = Message::Allow { effects: effects.clone() };
        assert_eq!(receive(&mut lower, peer, allow), [], "it is left to replica 3");
    }
    let asked = fire(&mut lower, Timer::AnswersOverdue);
    assert!(said_to(&asked, 1).is_empty() && said_to(&asked, 4).is_empty());
    assert!(
        matches!(said_to(&asked, 3)[..], [Message::MayUndo { .. }]),
        "it is asked how far it is"
    );
    let outputs = receive(&mut lower, 3, Message::Keep { effects: effects.clone() });
    let judged = Change::Judged { verdict: Verdict::Kept, effects };
    assert!(outputs.contains(&Output::Persist(judged)) && outputs.contains(&Output::Settled));
}

#[test]
fn leave_that_was_lost_is_said_again_to_whoever_asks_again() {
    let mut highest = loser(3);
    let leave = Message::Leave { effects: vec![shared(2)] };
    for _ in 0..3 {
        assert!(said_to(&receive(&mut highest, 2, wish(2)), 2).contains(&&leave));
    }
    let mut lower = loser(2);
    let asked = fire(&mut lower, Timer::AnswersOverdue);
    assert!(matches!(said_to(&asked, 3)[..], [Message::MayUndo { .. }]), "it never heard it");
}

#[test]
fn leave_that_comes_twice_or_too_late_changes_nothing() {
    let effects = vec![shared(2)];
    let leave = || Message::Leave { effects: effects.clone() };
    let mut lower = loser(2);
    allow_all(&mut lower, &[own(2)]);
    undone(&mut lower, own(2));
    receive(&mut lower, 3, leave());
    let once = lower.clone();
    assert_eq!(receive(&mut lower, 3, leave()), []);
    assert_eq!(lower.standing(), once.standing());
    receive(&mut lower, 3, Message::Keep { effects: effects.clone() });
    assert!(lower.standing().settled);
    assert_eq!(receive(&mut lower, 3, leave()), [], "it is settled");
    assert!(lower.standing().settled);
}

/// The other found out that its copy never was, and said so; what it had said before came later.
#[test]
fn leave_that_comes_after_it_was_taken_back_is_asked_about_again() {
    let effects = vec![shared(2)];
    let mut lower = loser(2);
    allow_all(&mut lower, &[own(2)]);
    undone(&mut lower, own(2));
    receive(&mut lower, 3, Message::Allow { effects: effects.clone() });
    receive(&mut lower, 3, Message::Leave { effects: effects.clone() });
    for peer in [1, 4] {
        receive(&mut lower, peer, Message::Allow { effects: effects.clone() });
    }
    let asked = fire(&mut lower, Timer::AnswersOverdue);
    assert!(matches!(said_to(&asked, 3)[..], [Message::MayUndo { .. }]));
    let outputs = receive(&mut lower, 3, Message::Allow { effects: effects.clone() });
    assert_eq!(outputs, [Output::Undo { line: Epoch(2), effects }]);
}

#[test]
fn what_never_was_is_left_to_whoever_did_it() {
    let mut highest = loser(3);
    receive(&mut highest, 2, wish(2));
    undone(&mut highest, own(3));
    let outputs = highest.step(NOW, Input::NeverWere(vec![shared(3)]));
    assert_eq!(said_to(&outputs, 2), [&Message::Allow { effects: vec![shared(2)] }]);

    let mut lower = loser(2);
    receive(&mut lower, 3, Message::Leave { effects: vec![shared(2)] });
    allow_all(&mut lower, &[own(2)]);
    undone(&mut lower, own(2));
    let outputs = allow_all(&mut lower, &[shared(2)]);
    assert!(outputs.contains(&Output::Undo { line: Epoch(2), effects: vec![shared(2)] }));
}

#[test]
fn a_replica_that_is_gone_undoes_nothing_for_others() {
    let mut lower = loser(2);
    receive(&mut lower, 3, Message::Leave { effects: vec![shared(2)] });
    allow_all(&mut lower, &[own(2)]);
    undone(&mut lower, own(2));
    for peer in [1, 4] {
        receive(&mut lower, peer, Message::Allow { effects: vec![shared(2)] });
    }
    let outputs = lower.step(NOW, Input::Fenced(NodeId(3)));
    assert_eq!(outputs, [Output::Undo { line: Epoch(2), effects: vec![shared(2)] }]);
}

/// The copy of replica 2 was the start of more, which goes first.
#[test]
fn an_operation_is_undone_after_what_started_from_any_of_its_copies() {
    let mut lower = loser(2);
    let nothing: [&Message; 0] = [];
    assert_eq!(said_to(&receive(&mut lower, 3, wish(3)), 3), nothing);
    allow_all(&mut lower, &[shared(2), own(2)]);
    let allow = Message::Allow { effects: vec![shared(3)] };
    assert_eq!(said_to(&undone(&mut lower, own(2)), 3), [&allow], "without being asked again");
}

/// Replica 2 is asked by replica 3 for what it cannot allow, and asks all others in vain for so many
/// rounds; says after how many it no longer insists. Each round, they tell what is given: whether they
/// stand still, for how many rounds.
fn insists_for(rounds: u32, told: impl Fn(u32, u64) -> Option<u32>) -> Option<u32> {
    let mut lower = loser(2);
    receive(&mut lower, 3, wish(3));
    let allow = Message::Allow { effects: vec![shared(3)] };
    (0..rounds).find(|round| {
        for peer in [1, 3, 4] {
            if let Some(rounds) = told(*round, peer) {
                receive(&mut lower, peer, Message::Still { rounds });
            }
        }
        said_to(&fire(&mut lower, Timer::AnswersOverdue), 3).contains(&&allow)
    })
}

/// Two branches that overtook each other can make lines wait in a circle.
#[test]
fn whoever_waits_in_a_circle_no_longer_insists() {
    let given_up = insists_for(20, |round, _| Some(round)).expect("a circle has an end");
    assert!(5 < given_up, "it did insist, for longer than there are replicas");
}

#[test]
fn whoever_waits_for_one_that_undoes_something_insists_however_long_it_takes() {
    let busy = |_, peer| Some(if peer == 3 { 0 } else { 100 });
    assert_eq!(insists_for(200, busy), None);
    // The fourth undoes something, the third waits for it, and the first for the third.
    let in_a_row = |_, peer| Some(if peer == 4 { 0 } else { 3 - u32::try_from(peer).unwrap() / 2 });
    assert_eq!(insists_for(200, in_a_row), None);
}

#[test]
fn whoever_waits_for_one_that_says_nothing_insists() {
    assert_eq!(insists_for(200, |_, peer| (peer != 3).then_some(100)), None);
    let often_lost = |round: u32, peer| (peer != 3 || round.is_multiple_of(3)).then_some(round);
    assert!(insists_for(60, often_lost).is_some(), "what is lost is told again");
}

/// Words may come twice, and those that are on their way when something moves come too late.
#[test]
fn that_nothing_moved_before_something_did_counts_for_nothing() {
    let mut lower = loser(2);
    receive(&mut lower, 3, wish(3));
    let all_stand_still = |lower: &mut Replica| {
        for peer in [1, 3, 4, 1, 3, 4] {
            receive(lower, peer, Message::Still { rounds: 100 });
        }
    };
    let said = |lower: &mut Replica| {
        fire(lower, Timer::AnswersOverdue);
        said_to(&receive(lower, 3, wish(3)), 3).into_iter().cloned().collect::<Vec<_>>()
    };
    all_stand_still(&mut lower);
    assert_eq!(said(&mut lower), [Message::Still { rounds: 1 }]);
    all_stand_still(&mut lower);
    receive(&mut lower, 1, Message::Allow { effects: vec![own(2)] });
    assert_eq!(said(&mut lower), [Message::Still { rounds: 0 }]);
}

#[test]
fn only_whoever_asks_again_is_told_that_nothing_moves_and_not_while_something_does() {
    let mut lower = loser(2);
    let still = |outputs: &[Output]| -> Vec<Message> {
        let said = said_to(outputs, 3).into_iter().cloned();
        said.filter(|message| matches!(message, Message::Still { .. })).collect()
    };
    assert_eq!(still(&receive(&mut lower, 3, wish(3))), []);
    for round in 0..3 {
        assert_eq!(still(&receive(&mut lower, 3, wish(3))), [Message::Still { rounds: round }]);
        for peer in [1, 3, 4] {
            receive(&mut lower, peer, Message::Still { rounds: 100 });
        }
        fire(&mut lower, Timer::AnswersOverdue);
    }
    let ordered = allow_all(&mut lower, &[own(2)]);
    assert!(ordered.contains(&Output::Undo { line: Epoch(2), effects: vec![own(2)] }));
    for _ in 0..3 {
        assert_eq!(still(&receive(&mut lower, 3, wish(3))), [Message::Still { rounds: 0 }]);
        fire(&mut lower, Timer::AnswersOverdue);
    }
}

/// Each time it went on it asked for what the other had asked for, and each time it was too late.
#[test]
fn what_was_asked_for_again_on_several_lines_is_judged_once_for_all() {
    let open = effect(3, 1, 1);
    let mut late = begun(setup(2, 3, 1));
    for number in 1..=2 {
        let term = 10 * number;
        receive(&mut late, 3, state(term, head(&[(3, 1, 1), (3, term, number)], number)));
        elect(&mut late, 3, &[]);
        advance(&mut late, number, vec![intended(open, "a", true)]);
        late.step(NOW, Input::PeerFound(NodeId(3)));
    }
    let decided = [(3, 1, 1), (3, 20, 2), (3, 30, 5)];
    receive(&mut late, 3, state(30, head(&decided, 9)));
    let outputs = decide(&mut late, 0, line(&decided));
    let lines = late.standing().remnants.values().filter(|it| !it.records.is_empty());
    assert_eq!(lines.count(), 2, "it is on two lines");
    assert!(!outputs.contains(&Output::Settled));

    let mut told = late.clone();
    let outputs = receive(&mut told, 3, Message::Keep { effects: vec![open] });
    assert!(outputs.contains(&Output::Settled), "{outputs:?}");

    let allow = || Message::Allow { effects: vec![open] };
    let ordered = [1, 3].map(|peer| receive(&mut late, peer, allow())).concat();
    assert_eq!(ordered.iter().filter(|it| matches!(it, Output::Undo { .. })).count(), 1);
    assert!(undone(&mut late, open).contains(&Output::Settled));
}

/// Whoever did not do it allows its undo, and may be gone: only its author knows that the line that counts has
/// it, too.
#[test]
fn what_its_author_did_once_more_on_the_decided_line_is_kept_without_asking() {
    let mut author = begun(setup(2, 4, 1));
    elect(&mut author, 4, &[]);
    let lost = shared(2);
    advance(&mut author, 0, vec![intended(lost, "shared", true)]);
    advance(&mut author, 1, vec![done(lost)]);
    receive(&mut author, 4, state(9, head(&[(4, 9, 5)], 5)));
    elect(&mut author, 4, &[]);
    let again = effect(2, author.standing().term.0, 6);
    advance(&mut author, 5, vec![intended(again, "shared", true)]);
    advance(&mut author, 6, vec![done(again)]);
    for gone in [1, 3, 4] {
        author.step(NOW, Input::Fenced(NodeId(gone)));
    }
    let decided = author.standing().head.lineage.clone();
    let outputs = decide(&mut author, 0, decided);
    let judged = Change::Judged { verdict: Verdict::Kept, effects: vec![again, lost] };
    assert!(outputs.contains(&Output::Persist(judged)), "{outputs:?}");
    assert!(!outputs.iter().any(|it| matches!(it, Output::Undo { .. })), "{outputs:?}");
    assert!(outputs.contains(&Output::Settled), "{outputs:?}");
}

/// The state was kept apart when its author came back and asked for something again.
#[test]
fn what_was_kept_apart_is_undone_before_what_it_started_from() {
    let mut author = begun(setup(3, 3, 1));
    let (first, open) = (effect(3, 1, 1), effect(3, 1, 2));
    advance(&mut author, 0, vec![intended(first, "a", false)]);
    advance(&mut author, 1, vec![done(first), intended(open, "b", false)]);
    let mut author = Replica::restored(setup(3, 3, 1), author.standing().clone());
    author.step(NOW, Input::Restarted);
    fire(&mut author, Timer::RetryElection);
    fire(&mut author, Timer::ElectionOver);
    assert!(author.leads().is_some());
    receive(&mut author, 2, state(9, head(&[(2, 9, 5)], 5)));
    decide(&mut author, 0, line(&[(2, 9, 5)]));
    let allow = || Message::Allow { effects: vec![first, open] };
    receive(&mut author, 1, allow());
    let outputs = receive(&mut author, 2, allow());
    let orders = |outputs: &[Output]| -> Vec<EffectId> {
        let orders = outputs.iter().filter_map(|output| match output {
            Output::Undo { effects, .. } => Some(effects.clone()),
            _ => None,
        });
        orders.flatten().collect()
    };
    assert_eq!(orders(&outputs), [open]);
    assert_eq!(orders(&undone(&mut author, open)), [first]);
}

#[test]
fn only_those_who_have_not_answered_are_asked_again_and_ever_more_rarely() {
    let mut replica = loser(3);
    let patience = replica.setup().patience;
    for peer in [1, 2] {
        let effects = vec![shared(3), own(3)];
        receive(&mut replica, peer, Message::Allow { effects });
    }
    let mut waits: Vec<Duration> = Vec::new();
    for _ in 0..6 {
        let outputs = fire(&mut replica, Timer::AnswersOverdue);
        assert!(said_to(&outputs, 1).is_empty() && said_to(&outputs, 2).is_empty());
        assert!(matches!(said_to(&outputs, 4)[..], [Message::MayUndo { .. }]));
        waits.extend(timer_at(&outputs, Timer::AnswersOverdue));
    }
    assert_eq!(waits, [2, 4, 8, 16, 16, 16].map(|factor| patience * factor));
    lose(&mut replica, 4);
    assert_eq!(fire(&mut replica, Timer::AnswersOverdue), [], "who is away is not asked");
    let outputs = replica.step(NOW, Input::PeerFound(NodeId(4)));
    assert!(matches!(said_to(&outputs, 4)[..], [Message::MayUndo { .. }]), "but at once when back");
    assert_eq!(timer_at(&outputs, Timer::AnswersOverdue), Some(patience * 2));
}
