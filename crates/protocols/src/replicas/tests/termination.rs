//! The claims of the paper on termination and recovery (sections 4.4 and 4.5, and what 2 and 4 say of
//! them), one test each.

use outlast_lineage::{Epoch, NodeId, Point};

use super::super::{
    Asked, Change, Choice, Input, Message, Output, Replica, Setup, Situation, Standing, Timer,
    Verdict,
};
use super::steps::{
    NOW, advance, begun, decide, done, effect, elect, finish, fire, head, held, intended, key,
    lead, line, lose, point, receive, request_reaching, said_to, setup, state, written,
};
use super::world::{Terms, World};

/// A replica that executed two activities on a line of its own (states 1 to 3), and lost it to one
/// that replica 2 brought to its end. Says what it did when the decision came.
fn loser(setup: Setup, deduplicated: bool) -> (Replica, Vec<Output>) {
    let mut loser = begun(setup);
    let (first, second) = (effect(3, 1, 1), effect(3, 1, 2));
    advance(&mut loser, 0, vec![intended(first, "a", deduplicated)]);
    advance(&mut loser, 1, vec![done(first), intended(second, "b", deduplicated)]);
    advance(&mut loser, 2, vec![done(second)]);
    receive(&mut loser, 2, state(2, head(&[(2, 2, 4)], 4)));
    let outputs = decide(&mut loser, 0, line(&[(2, 2, 4)]));
    (loser, outputs)
}

fn may_undo(effect: outlast_lineage::EffectId, intended: Point) -> Message {
    let choice = Choice { lineage: line(&[(2, 2, 4)]), is_final: true };
    Message::MayUndo { instance: 0, choice, effects: vec![Asked { effect, intended, key: None }] }
}

fn undone(replica: &mut Replica, effect: outlast_lineage::EffectId) -> Vec<Output> {
    replica.step(NOW, Input::Undone(vec![effect]))
}

/// 4.4: "When a primary has executed the last activity of the workflow, it initiates the termination".
#[test]
fn the_end_is_proposed_to_those_who_have_it() {
    let mut primary = begun(setup(3, 3, 1));
    let outputs = finish(&mut primary, 1);
    let choice = Choice { lineage: line(&[(3, 1, 1)]), is_final: true };
    let proposal = Output::Propose { instance: 0, choice: choice.clone() };
    assert_eq!(outputs.last(), Some(&proposal), "after the update that carries the end");
    assert!(primary.needs_holders(&choice));
    let stored = Message::Ack { point: point(3, 1, 1), confirmed: None };
    let again = receive(&mut primary, 2, stored.clone());
    assert_eq!(again, [proposal], "a majority has it now, and may have had reason to say nothing");
    assert_eq!(receive(&mut primary, 1, stored), [], "who has it by then has it to agree to");
    assert!(primary.needs_holders(&choice), "whoever acknowledged it may have left it since");
    let other = Choice { lineage: line(&[(2, 2, 1)]), is_final: true };
    assert!(!primary.needs_holders(&other), "what consensus takes over from others is for all");
    let mut ahead = begun(setup(3, 3, 1));
    (0..3).for_each(|progress| drop(advance(&mut ahead, progress, Vec::new())));
    let before = Choice { lineage: line(&[(3, 1, 2)]), is_final: false };
    assert!(ahead.needs_holders(&before), "other branches went on meanwhile");
}

/// 4.4: "a leader which proposes an execution state of a finished workflow execution as the final
/// execution state": of no other.
#[test]
fn a_run_that_has_not_ended_is_not_proposed() {
    let mut primary = begun(setup(3, 3, 1));
    let mut outputs = advance(&mut primary, 0, Vec::new());
    let stored = Message::Ack { point: point(3, 1, 1), confirmed: None };
    outputs.extend(receive(&mut primary, 2, stored.clone()));
    outputs.extend(receive(&mut primary, 1, stored));
    outputs.extend(fire(&mut primary, Timer::AnswersOverdue));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Propose { .. })));
}

/// 4.4: "the final execution state also determines the result that is then sent to the workflow client
/// application": by everyone who holds it, and not before it is decided on.
#[test]
fn the_result_is_told_when_it_is_decided_on_and_not_before() {
    let concludes = |outputs: &[Output]| outputs.contains(&Output::Concluded);
    let mut primary = begun(setup(3, 3, 1));
    assert!(!concludes(&finish(&mut primary, 1)));
    let stored = Message::Ack { point: point(3, 1, 1), confirmed: None };
    assert!(!concludes(&receive(&mut primary, 2, stored)));
    assert!(concludes(&decide(&mut primary, 0, line(&[(3, 1, 1)]))));
    let mut backup = begun(setup(1, 3, 1));
    let end = super::super::Held { ended: true, ..held(head(&[(3, 1, 1)], 1)) };
    let told = Message::State { held: end, term: Some(Epoch(1)) };
    assert!(!concludes(&receive(&mut backup, 3, told)));
    assert!(concludes(&decide(&mut backup, 0, line(&[(3, 1, 1)]))));
}

/// The same where acknowledgements count.
#[test]
fn the_end_is_proposed_when_a_majority_has_it() {
    let is_proposal = |output: &Output| matches!(output, Output::Propose { .. });
    let mut acknowledging = begun(super::steps::acknowledging(3, 3));
    assert!(!finish(&mut acknowledging, 1).iter().any(is_proposal));
    let confirmed = Some((outlast_lineage::Epoch(1), outlast_lineage::NodeId(3)));
    let stored = Message::Ack { point: point(3, 1, 1), confirmed };
    assert!(receive(&mut acknowledging, 2, stored).iter().any(is_proposal));
}

/// 4: "The agreement requires a majority of replicas to be operational." Who knows that there is none does
/// not even begin it; that fewer never agree is shown with consensus
/// (`crates/engine/tests/ending.rs`, `an_agreement_that_arrives_twice_makes_no_majority`).
#[test]
fn without_a_majority_the_end_is_proposed_to_nobody_and_with_one_it_is() {
    let is_proposal = |output: &Output| matches!(output, Output::Propose { .. });
    let mut primary = begun(setup(5, 5, 1));
    (1..=3).for_each(|peer| drop(lose(&mut primary, peer)));
    let mut outputs = finish(&mut primary, 1);
    let stored = Message::Ack { point: point(5, 1, 1), confirmed: None };
    outputs.extend(receive(&mut primary, 4, stored.clone()));
    (0..5).for_each(|_| outputs.extend(fire(&mut primary, Timer::AnswersOverdue)));
    assert!(!outputs.iter().any(is_proposal), "two of five: {outputs:?}");
    primary.step(NOW, Input::PeerFound(NodeId(3)));
    assert!(receive(&mut primary, 3, stored).iter().any(is_proposal), "three of five");
}

/// Who holds a line may agree to it.
#[test]
fn a_replica_holds_what_its_state_goes_on_from() {
    let mut backup = begun(setup(1, 3, 1));
    receive(&mut backup, 3, state(1, head(&[(3, 1, 2)], 2)));
    let choice = |runs| Choice { lineage: line(runs), is_final: true };
    assert!(backup.holds(&choice(&[(3, 1, 2)])) && backup.holds(&choice(&[(3, 1, 1)])));
    assert!(!backup.holds(&choice(&[(3, 1, 3)])) && !backup.holds(&choice(&[(2, 1, 1)])));
}

/// 4.4: "In the second phase, all replicas learn of the decided workflow execution".
#[test]
fn who_does_not_hold_the_decided_state_asks_for_it() {
    let mut backup = begun(setup(1, 3, 1));
    let outputs = decide(&mut backup, 0, line(&[(2, 2, 4)]));
    assert_eq!(said_to(&outputs, 2), [&Message::Want]);
    assert_eq!(said_to(&fire(&mut backup, Timer::AnswersOverdue), 2), [&Message::Want]);
    let outputs = receive(&mut backup, 2, state(2, head(&[(2, 2, 4)], 4)));
    assert!(outputs.contains(&Output::Concluded) && outputs.contains(&Output::Settled));
}

/// 4.4: "For each executed activity, a replica sends a COMP_REQ message to all replicas". Here:
/// for each that the decided run has not taken up.
#[test]
fn everyone_is_asked_about_what_is_to_be_undone() {
    let (_, outputs) = loser(setup(3, 3, 1), false);
    for peer in [1, 2] {
        let said = said_to(&outputs, peer);
        let [Message::MayUndo { effects, .. }] = said[..] else { panic!("{said:?}") };
        assert_eq!(effects.len(), 2);
        assert_eq!(effects[0].intended, point(3, 1, 1));
    }
}

/// 4.4: "A replica can only compensate the activity after all replicas replied with an ALLOW
/// message […]. Afterwards, the replicas writes a compensation record", in reverse order (section 2),
/// and each once: 4.1, "The Compensation Unit filters duplicate compensation requests based on the
/// eS_prod.ID."
#[test]
fn effects_are_undone_newest_first_once_everyone_allows() {
    let (mut loser, _) = loser(setup(3, 3, 1), false);
    let (first, second) = (effect(3, 1, 1), effect(3, 1, 2));
    let all = || Message::Allow { effects: vec![first, second] };
    assert_eq!(receive(&mut loser, 1, all()), []);
    let order = Output::Undo { line: Epoch(1), effects: vec![second, first] };
    assert_eq!(receive(&mut loser, 2, all()), [order]);
    assert_eq!(receive(&mut loser, 2, all()), [], "what is ordered is not ordered again");
    let outputs = undone(&mut loser, second);
    let judged = Change::Judged { verdict: Verdict::Compensated, effects: vec![second] };
    assert_eq!(outputs, [Output::Persist(judged)]);
    assert_eq!(undone(&mut loser, second), [], "what is undone is not undone again");
    assert!(undone(&mut loser, first).contains(&Output::Settled));
}

/// 2: "An activity a can only be compensated after all causally succeeding activities have been compensated,
/// i.e., after all activities that used the internal state produced by a have been compensated." So an older
/// one waits although everyone allows it.
#[test]
fn an_older_effect_waits_for_a_newer_one_that_is_not_allowed_yet() {
    let (mut loser, _) = loser(setup(3, 3, 1), false);
    for peer in [1, 2] {
        let allowed = Message::Allow { effects: vec![effect(3, 1, 1)] };
        assert_eq!(receive(&mut loser, peer, allowed), []);
    }
}

/// What was begun while it was under way, in another branch, did not use the state that it produced.
#[test]
fn an_effect_does_not_wait_for_what_was_begun_while_it_was_under_way() {
    let mut loser = begun(setup(3, 3, 1));
    let (slow, quick) = (effect(3, 1, 1), effect(3, 1, 2));
    advance(&mut loser, 0, vec![intended(slow, "a", false)]);
    advance(&mut loser, 0, vec![intended(quick, "b", false)]);
    advance(&mut loser, 1, vec![done(slow)]);
    advance(&mut loser, 2, vec![done(quick)]);
    receive(&mut loser, 2, state(9, head(&[(2, 9, 5)], 5)));
    decide(&mut loser, 0, line(&[(2, 9, 5)]));
    let allow = || Message::Allow { effects: vec![slow] };
    receive(&mut loser, 1, allow());
    let order = Output::Undo { line: Epoch(1), effects: vec![slow] };
    assert_eq!(receive(&mut loser, 2, allow()), [order]);
}

/// 4: "The last two termination phases require all replicas to be operational. However, this is not critical
/// as this phase is completely decoupled from the workflow client application." Here of the second; of the
/// third in `crates/engine/tests/ending.rs`.
#[test]
fn undoing_waits_for_all_replicas_and_the_result_for_a_majority_only() {
    let mut world = World::new(1, Terms::of(3, 1, 6));
    world.run(150);
    world.partition(&[&[3]]);
    let told = |nodes: &'static [u64]| {
        move |world: &World| nodes.iter().all(|node| world.owner(*node).concluded == 1)
    };
    assert!(world.run_until(10_000, told(&[1, 2])), "two of three decide");
    world.crash(NodeId(1));
    world.heal();
    assert!(world.run_until(10_000, told(&[2, 3])), "who waits at the third is told as well");
    world.run(20_000);
    assert_eq!(world.provider.undone, [], "one of three has not allowed it");
    assert!(!world.owner(3).replica.standing().settled);
    world.restart(NodeId(1));
    let settled = |world: &World| world.owners().all(|owner| owner.replica.standing().settled);
    assert!(world.run_until(10_000, settled));
    assert_ne!(world.provider.undone, []);
}

/// 4.4: "a replica, say r, uses the included execution state identifier for checking whether r used the
/// state as input for any of its activity executions. If not, then r can allow the compensation by
/// replying with an ALLOW message. However, if r used the execution state as input, it can only allow the
/// compensation after compensating the activity execution for which the state was used."
#[test]
fn an_undo_is_withheld_as_long_as_something_came_after_it() {
    // Replica 3 went on from a state of replica 1, which now wants to undo what led to it.
    let mut later = begun(setup(3, 3, 1));
    receive(&mut later, 1, state(2, head(&[(1, 2, 2)], 1)));
    elect(&mut later, 1, &[]);
    let own = effect(3, 2, 3);
    advance(&mut later, 1, vec![intended(own, "b", false)]);
    advance(&mut later, 2, vec![done(own)]);
    receive(&mut later, 2, state(2, head(&[(2, 2, 4)], 4)));
    decide(&mut later, 0, line(&[(2, 2, 4)]));
    let wish = || may_undo(effect(1, 2, 1), point(1, 2, 1));
    assert_eq!(receive(&mut later, 1, wish()), [Output::Report(Situation::UndoWithheld)]);
    undone(&mut later, own);
    let allowed = Message::Allow { effects: vec![effect(1, 2, 1)] };
    assert_eq!(said_to(&receive(&mut later, 1, wish()), 1), [&allowed]);
    let unrelated = may_undo(effect(1, 9, 1), point(1, 9, 1));
    assert!(matches!(said_to(&receive(&mut later, 1, unrelated), 1)[..], [Message::Allow { .. }]));
}

/// 4.4: "in case this activity execution belongs to the decided execution, it has to be kept. In
/// this case, r replies with a KEEP message." Here: if it is the same operation at the provider.
#[test]
fn what_the_decided_run_has_by_the_same_key_is_kept() {
    let (mut loser, _) = loser(setup(3, 3, 1), true);
    let first = effect(3, 1, 1);
    let outputs = receive(&mut loser, 2, Message::Keep { effects: vec![first] });
    let judged = Change::Judged { verdict: Verdict::Kept, effects: vec![first] };
    assert!(outputs.contains(&Output::Persist(judged)));

    let mut winner = begun(setup(2, 3, 1));
    receive(&mut winner, 3, state(1, head(&[(3, 1, 1)], 0)));
    elect(&mut winner, 3, &[]);
    advance(&mut winner, 0, vec![intended(effect(2, 2, 2), "a", true)]);
    finish(&mut winner, 1);
    let decided = winner.head().lineage.clone();
    decide(&mut winner, 0, decided.clone());
    let asked = Asked { effect: first, intended: point(3, 1, 9), key: Some(key("a")) };
    let choice = Choice { lineage: decided, is_final: true };
    let wish = Message::MayUndo { instance: 0, choice, effects: vec![asked] };
    let kept = Message::Keep { effects: vec![first] };
    assert_eq!(said_to(&receive(&mut winner, 3, wish), 3), [&kept]);
}

/// 4.4: "the activity execution belongs to the decided workflow execution and the activity is not
/// compensated. In this case, the replica writes a keep record". Here: without asking anybody.
#[test]
fn what_is_on_the_decided_line_is_written_down_as_kept() {
    let mut primary = begun(setup(3, 3, 1));
    let own = [effect(3, 1, 1), effect(3, 1, 3)];
    for effect in own {
        advance(&mut primary, 0, vec![intended(effect, "a", false)]);
        advance(&mut primary, 1, vec![done(effect)]);
    }
    finish(&mut primary, 2);
    let decided = primary.head().lineage.clone();
    let outputs = decide(&mut primary, 0, decided);
    let judged = Change::Judged { verdict: Verdict::Kept, effects: own.to_vec() };
    assert!(outputs.contains(&Output::Persist(judged)), "{outputs:?}");
    let asks = |message: &&Message| matches!(message, Message::MayUndo { .. });
    assert!(!said_to(&outputs, 1).iter().any(asks), "{outputs:?}");
    assert!(outputs.contains(&Output::Settled));
}

/// 4.4: "The replica regularly repeats the COMP_REQ messages until it has written a keep or
/// compensation record for each activity that it has executed."
#[test]
fn the_question_is_repeated_until_everything_is_settled() {
    let (mut loser, _) = loser(setup(3, 3, 1), false);
    let asks = |outputs: &[Output]| matches!(said_to(outputs, 1)[..], [Message::MayUndo { .. }]);
    assert!(asks(&fire(&mut loser, Timer::AnswersOverdue)));
    for peer in [1, 2] {
        let effects = vec![effect(3, 1, 1), effect(3, 1, 2)];
        receive(&mut loser, peer, Message::Allow { effects });
    }
    undone(&mut loser, effect(3, 1, 2));
    undone(&mut loser, effect(3, 1, 1));
    assert_eq!(fire(&mut loser, Timer::AnswersOverdue), []);
    assert!(loser.standing().settled);
}

/// 4.4: "After all records have been written, the second phase is finished. […] However, the replica has to
/// keep the execution's data in volatile memory because the other replicas still might be in the second
/// phase."
#[test]
fn who_has_settled_still_answers_those_who_have_not() {
    let mut settled = begun(setup(2, 3, 1));
    receive(&mut settled, 3, state(1, head(&[(2, 2, 4)], 4)));
    decide(&mut settled, 0, line(&[(2, 2, 4)]));
    assert!(settled.standing().settled);
    let outputs = receive(&mut settled, 3, may_undo(effect(3, 1, 1), point(3, 1, 1)));
    let allowed = Message::Allow { effects: vec![effect(3, 1, 1)] };
    assert_eq!(said_to(&outputs, 3), [&allowed]);
    let outputs = receive(&mut settled, 1, Message::Want);
    let sends = |it: &&Message| matches!(it, Message::State { held, .. } if held.head == head(&[(2, 2, 4)], 4));
    assert!(said_to(&outputs, 1).iter().any(sends), "{outputs:?}");
}

/// 4.5, UNKNOWN: "a replica that recovers in the UNKNOWN state cannot initiate any recovery steps";
/// all is settled, and it waits for the others to forget.
#[test]
fn a_replica_that_has_settled_says_nothing_when_it_comes_back() {
    let mut backup = begun(setup(1, 3, 1));
    receive(&mut backup, 2, state(2, head(&[(2, 2, 4)], 4)));
    decide(&mut backup, 0, line(&[(2, 2, 4)]));
    let mut again = Replica::restored(setup(1, 3, 1), backup.standing().clone());
    assert_eq!(again.step(NOW, Input::Restarted), [Output::Concluded]);
}

/// 4.5, ACTIVE: "it requests the data from all replicas by sending a RECOV_REQ message", and "the
/// replica returns to normal operation acting as a backup".
#[test]
fn a_replica_in_the_middle_of_a_run_asks_where_it_is() {
    let mut first = begun(setup(3, 3, 1));
    let outputs = advance(&mut first, 0, Vec::new());
    let standing = written(&outputs, Standing { term: Epoch(1), ..Standing::default() });
    let mut again = Replica::restored(setup(3, 3, 1), standing);
    let outputs = again.step(NOW, Input::Restarted);
    let asked = Message::RecoveryRequest { head: head(&[(3, 1, 1)], 0) };
    assert_eq!((said_to(&outputs, 1), said_to(&outputs, 2)), (vec![&asked], vec![&asked]));
    let further = head(&[(3, 1, 1), (2, 2, 3)], 3);
    let reply =
        Message::RecoveryReply { leader: Some(NodeId(2)), held: Some(held(further.clone())) };
    receive(&mut again, 2, reply);
    assert_eq!((again.leader(), again.head()), (Some(NodeId(2)), &further));
}

/// 4.5: "Otherwise, the replica sends a RECOV_RPLY, which contains the workflow model identifier, the vote
/// threshold, and execution state that the replica currently stores." Here the state goes along if it is
/// further; the model and the threshold are the owner's to tell, before (`Begin`).
#[test]
fn who_is_asked_in_the_middle_of_a_run_shows_its_state_and_whom_it_follows() {
    let known = head(&[(3, 1, 2)], 1);
    let mut backup = begun(setup(2, 3, 1));
    receive(&mut backup, 3, state(1, known.clone()));
    let asked = |head| Message::RecoveryRequest { head };
    let outputs = receive(&mut backup, 1, asked(head(&[(3, 1, 1)], 0)));
    let [Message::RecoveryReply { leader: Some(NodeId(3)), held: Some(held) }] =
        said_to(&outputs, 1)[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!(held.head, known);
    let outputs = receive(&mut backup, 1, asked(known));
    let nothing_new = Message::RecoveryReply { leader: Some(NodeId(3)), held: None };
    assert_eq!(said_to(&outputs, 1), [&nothing_new]);
}

/// 4.5: "if the execution has already finished the first phase of termination, the replica sends a
/// DECISION message", and whoever gets it "directly starts the second phase of termination".
#[test]
fn who_asks_after_the_decision_is_told_the_decision() {
    let (mut settling, _) = loser(setup(3, 3, 1), false);
    let asked = Message::RecoveryRequest { head: head(&[], 0) };
    let outputs = receive(&mut settling, 1, asked);
    let said = said_to(&outputs, 1);
    let [decision @ Message::Decided { .. }] = said[..] else { panic!("{said:?}") };
    let mut again = Replica::restored(setup(1, 3, 1), Standing::default());
    again.step(NOW, Input::Restarted);
    assert_eq!(said_to(&receive(&mut again, 3, decision.clone()), 3), [&Message::Want]);
    assert!(again.is_settling());
}

/// 4.5: a primary that comes back is none any more; whoever followed it asks for votes.
#[test]
fn who_follows_a_primary_that_was_restarted_stands() {
    let mut backup = begun(setup(2, 3, 1));
    let outputs = receive(&mut backup, 3, Message::RecoveryRequest { head: head(&[], 0) });
    assert!(said_to(&outputs, 1).contains(&&request_reaching(2, head(&[], 0), 3)));
    assert!(said_to(&outputs, 3).contains(&&Message::RecoveryReply { leader: None, held: None }));
    receive(&mut backup, 3, lead(3, head(&[], 0)));
    assert_eq!(backup.leader(), Some(NodeId(3)), "unless it leads again");
}
