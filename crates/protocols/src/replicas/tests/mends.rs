//! Where the paper is silent or wrong: each test first shows what its rule leads to, as a small
//! model of that rule, and then what happens here.

use std::collections::BTreeSet;

use outlast_lineage::{EffectId, Epoch, Head, NodeId, Time};

use super::super::{
    Asked, Change, Choice, Held, Input, Message, Note, Output, Record, Replica, Situation, Timer,
};
use super::flow::Plan;
use super::owner::{Disk, Order, Owner};
use super::steps::{
    NOW, acknowledging, active, advance, begun, decide, done, effect, elect, finish, fire, head,
    intended, key, lead, line, lose, point, receive, request, said_to, setup, state, update,
};
use super::world::{Terms, World};

fn settled(world: &World) -> bool {
    world.owners().all(|owner| owner.replica.standing().settled)
}

/// Algorithm 2, lines 6 to 19: what becomes of executions (input state, produced state), when each
/// is allowed to be undone if no replica used its state as input, or only for what is undone.
fn paper_undoes(executions: &[(u64, u64)]) -> BTreeSet<u64> {
    let mut undone = BTreeSet::new();
    while let Some((_, produced)) = executions.iter().find(|(_, produced)| {
        let mut users = executions.iter().filter(|(input, _)| input == produced);
        !undone.contains(produced) && users.all(|(_, later)| undone.contains(later))
    }) {
        undone.insert(*produced);
    }
    undone
}

/// The second algorithm has no base case: nobody used the final state as input.
#[test]
fn the_decided_run_is_kept() {
    assert_eq!(paper_undoes(&[(0, 1), (1, 2), (2, 3)]), BTreeSet::from([1, 2, 3]), "all of it");
    let mut world = World::new(1, Terms::of(3, 1, 3));
    assert!(world.run_until(10_000, settled));
    assert_eq!(world.provider.undone, []);
    assert_eq!(world.provider.happened.len(), 3);
}

/// Algorithm 1, lines 3 to 8 and 11 to 14: the state is named before the activity runs, and an
/// update may put another one in its place meanwhile.
struct PaperPrimary {
    name: (u64, u64),
    state: Vec<&'static str>,
}

impl PaperPrimary {
    fn begin(&mut self, me: u64) {
        self.name = (me, self.name.1 + 1);
    }

    fn finish(&mut self, result: &'static str) {
        self.state.push(result);
    }
}

/// An owner in its first life, and the call that it makes when it leads.
fn calling(owner: &mut Owner, orders: &[Order]) -> (usize, EffectId) {
    assert!(owner.replica.leads().is_some());
    let call = orders.iter().find_map(|order| match order {
        Order::Call { index, effect } => Some((*index, *effect)),
        _ => None,
    });
    call.expect("a primary calls")
}

/// Loses a peer and becomes primary.
fn goes_on_without(owner: &mut Owner, peer: u64) -> Vec<Order> {
    owner.tell(NOW, Input::PeerLost(NodeId(peer)));
    owner.tell(NOW, Input::TimerFired(Timer::ElectionOver))
}

/// What runs is held apart from the state: an answer that comes after another line was taken over
/// belongs to the line that was left, whatever its replica does by then.
#[test]
fn an_answer_to_a_line_that_was_left_does_not_change_the_state() {
    let theirs = PaperPrimary { name: (2, 5), state: vec!["a2", "b2"] };
    let mut paper = PaperPrimary { name: (3, 1), state: vec![] };
    paper.begin(3);
    (paper.name, paper.state) = (theirs.name, theirs.state.clone());
    paper.finish("a3");
    assert_eq!(paper.name, theirs.name);
    assert_ne!(paper.state, theirs.state, "one name for two states");

    let owner = |me| Owner::new(setup(me, 3, 1), Plan::sequence(3, false), Disk::default());
    let (mut left, mut other) = (owner(3), owner(2));
    let orders = left.wake(NOW);
    let (index, open) = calling(&mut left, &orders);
    other.wake(NOW);
    let mut orders = goes_on_without(&mut other, 3);
    for _ in 0..2 {
        let (index, effect) = calling(&mut other, &orders);
        orders = other.answer(NOW, index, effect);
    }
    let (head, flow) = (other.replica.head().clone(), other.disk.flow.clone());
    let held = Held { head: head.clone(), ended: false, state: flow.encode() };
    let term = other.replica.leads();
    let message = Message::State { held, term };
    left.tell(NOW, Input::Received { from: NodeId(2), message });
    assert_eq!((left.replica.leads(), left.replica.head()), (None, &head));

    left.answer(NOW, index, open);
    assert_eq!((&left.disk.flow, left.replica.head()), (&flow, &head), "while it follows");
    goes_on_without(&mut left, 2);
    let (head, flow) = (left.replica.head().clone(), left.disk.flow.clone());
    assert_eq!(flow.progress(), 2);
    left.answer(NOW, index, open);
    assert_eq!((&left.disk.flow, left.replica.head()), (&flow, &head), "while it leads again");
    assert!(left.replica.standing().remnants[&Epoch(1)].records.contains_key(&open));
    assert_eq!(left.disk.remnants[&Epoch(1)].progress(), 0, "the line that was left, as it was");
}

/// Two candidates of which the lower does not hear the objection of the higher: both have the vote
/// of replica 1, and each a majority of three.
fn two_primaries(acknowledge: bool) -> (Replica, Replica, Replica) {
    let make = |me| {
        let setup = if acknowledge { acknowledging(me, 3) } else { setup(me, 3, 2) };
        let mut replica = begun(setup);
        receive(&mut replica, 3, state(1, head(&[(3, 1, 1)], 0)));
        replica
    };
    let (mut voter, mut lower, mut higher) = (make(1), make(2), begun(make(3).setup().clone()));
    let notes = Vec::new();
    higher.step(NOW, Input::Advanced { bytes: 5, progress: 0, ended: false, notes });
    lose(&mut voter, 3);
    lose(&mut lower, 3);
    let asked = request(lower.standing().term.0, lower.head().clone());
    let outputs = receive(&mut voter, 2, asked);
    let granted = said_to(&outputs, 2).last().copied().cloned().expect("a vote");
    receive(&mut lower, 1, granted);
    fire(&mut lower, Timer::ElectionOver);
    assert!(lower.leads().is_some() && higher.leads().is_some());
    (voter, lower, higher)
}

/// Votes are not exclusive, so that a majority of votes does not make one primary. What makes one
/// is that a majority acknowledges, and promises not to acknowledge anyone before.
#[test]
fn only_one_of_two_primaries_with_a_majority_of_votes_gets_calls_out() {
    let (_, mut lower, mut higher) = two_primaries(false);
    advance(&mut lower, 0, Vec::new());
    advance(&mut higher, 0, Vec::new());
    assert!(lower.may_leave(2) && higher.may_leave(2), "the paper's rule: both act");

    let (mut voter, mut lower, mut higher) = two_primaries(true);
    for (primary, me) in [(&mut lower, 2), (&mut higher, 3)] {
        let outputs = advance(primary, 0, Vec::new());
        let news = said_to(&outputs, 1)[0].clone();
        let outputs = receive(&mut voter, me, news);
        for answer in said_to(&outputs, me) {
            receive(primary, 1, answer.clone());
        }
    }
    assert!(lower.may_leave(2) && !higher.may_leave(2));
    assert_eq!(higher.leads(), None, "it learns of it, and stands again");
}

/// A replica as algorithm 1 has it, as far as elections and updates go.
#[derive(Clone, Copy)]
struct Published {
    id: u64,
    is_primary: bool,
    number: u64,
}

impl Published {
    const fn new(id: u64) -> Self {
        Self { id, is_primary: false, number: 0 }
    }

    /// Lines 19 to 27: VOTE, or REJECT.
    const fn votes_for(&self, candidate: u64) -> bool {
        !self.is_primary && self.id <= candidate
    }

    /// Lines 15 to 18 and 28 to 32; a single REJECT is enough (4.3).
    fn stand(&mut self, asked: &[Self], votes: usize) {
        let agree = asked.iter().all(|other| other.votes_for(self.id));
        self.is_primary = agree && votes <= 1 + asked.len();
    }

    /// Lines 11 to 14.
    fn take_update(&mut self, number: u64) {
        if self.number < number {
            (self.is_primary, self.number) = (false, number);
        }
    }
}

/// A higher replica that cannot win must not object for ever.
#[test]
fn an_objection_expires_when_the_objector_could_not_win() {
    // Three votes of five; replica 2 reaches 1 and 3, and replica 3 reaches nobody else.
    let (one, mut two, mut three) = (Published::new(1), Published::new(2), Published::new(3));
    for _ in 0..100 {
        three.stand(&[two], 3);
        two.stand(&[one, three], 3);
        assert!(!two.is_primary && !three.is_primary, "however often they ask");
    }
    let mut higher = begun(setup(3, 5, 3));
    lose(&mut higher, 5);
    receive(&mut higher, 2, request(4, head(&[], 0)));
    fire(&mut higher, Timer::ElectionOver);
    let outputs = receive(&mut higher, 2, request(5, head(&[], 0)));
    assert!(matches!(said_to(&outputs, 2)[..], [Message::Vote { .. }]), "{outputs:?}");
}

/// With concurrent branches, where an activity started from and where it was taken up are two
/// things: the paper's record has one produced state, named when the activity starts.
#[test]
fn what_started_on_the_decided_line_but_ended_on_another_is_undone() {
    let record = |committed| Record {
        key: key("a"),
        deduplicated: false,
        intended: 1,
        committed: Some(committed),
        cost: 1.0,
        verdict: None,
        pivot: false,
    };
    let (one, other) = (record(2), record(3));
    let paper_keeps = |record: &Record, common: u64| record.intended <= common;
    assert!(paper_keeps(&other, 2), "its result is on no line that counts");
    assert!(!one.is_lost_after(2) && other.is_lost_after(2));

    let mut primary = begun(setup(3, 3, 1));
    let (left, right) = (effect(3, 1, 1), effect(3, 1, 7));
    advance(&mut primary, 0, vec![intended(left, "l", false), intended(right, "r", false)]);
    advance(&mut primary, 1, vec![done(left)]);
    advance(&mut primary, 2, vec![done(right)]);
    receive(&mut primary, 2, state(2, head(&[(3, 1, 2), (2, 2, 3)], 4)));
    assert!(primary.standing().records.contains_key(&left));
    assert!(primary.standing().remnants[&Epoch(1)].records.contains_key(&right));
}

/// The paper does not say that the decision ends votes and runs: whoever does not know it yet could
/// be elected by those who do, and execute what nobody keeps.
#[test]
fn who_knows_the_decision_neither_votes_nor_lets_others_run() {
    // Replica 1 knows the decision; nothing in algorithm 1 asks for that.
    let mut late = Published::new(2);
    late.stand(&[Published::new(1)], 2);
    assert!(late.is_primary, "and so it executes");
    let mut settled = begun(setup(1, 3, 1));
    receive(&mut settled, 3, state(1, head(&[(3, 1, 2)], 2)));
    decide(&mut settled, 0, line(&[(3, 1, 2)]));
    for word in [request(9, head(&[], 0)), lead(9, head(&[(2, 9, 5)], 5)), Message::Inquire] {
        let outputs = receive(&mut settled, 2, word);
        assert!(matches!(said_to(&outputs, 2)[..], [Message::Decided { .. }]), "{outputs:?}");
    }
    // And a question about undoing carries the decision to a primary that has not heard of it.
    let mut late = begun(setup(3, 3, 1));
    advance(&mut late, 0, Vec::new());
    let choice = Choice { lineage: line(&[(2, 2, 4)]), is_final: true };
    let asked = Asked { effect: effect(1, 1, 1), intended: point(1, 1, 1), key: None };
    let wish = Message::MayUndo { instance: 0, choice, effects: vec![asked] };
    assert!(receive(&mut late, 1, wish).contains(&Output::Stop));
    assert!(late.is_settling());
}

/// A call whose author died may have happened. The paper's record is on the line, so it is kept or
/// undone with the line; here it stays the debt of its author, apart from the line.
#[test]
fn a_call_in_the_air_is_spared_when_someone_goes_on() {
    let mut author = begun(setup(3, 3, 1));
    let open = effect(3, 1, 1);
    advance(&mut author, 0, vec![intended(open, "a", false)]);
    let record = author.standing().records[&open].clone();
    let paper_keeps = |record: &Record, common: u64| record.intended <= common;
    assert!(paper_keeps(&record, 1), "and the new primary's own call as well: twice");
    let news = update(Some(point(3, 1, 1)), point(2, 2, 2), 0);
    let outputs = receive(&mut author, 2, news);
    assert!(outputs.contains(&Output::Spare(Epoch(1))));
    assert!(author.standing().remnants[&Epoch(1)].records.contains_key(&open));
    decide(&mut author, 0, line(&[(3, 1, 1), (2, 2, 1)]));
    for peer in [1, 2] {
        receive(&mut author, peer, Message::Allow { effects: vec![open] });
    }
    assert!(!author.standing().settled, "until its undo is done");
    assert!(author.step(NOW, Input::Undone(vec![open])).contains(&Output::Settled));
}

/// At a deduplicating provider whoever goes on asks again with the same key: nothing is spared.
#[test]
fn a_call_in_the_air_at_a_deduplicating_provider_is_everyones() {
    let mut author = begun(setup(3, 3, 1));
    advance(&mut author, 0, vec![intended(effect(3, 1, 1), "a", true)]);
    receive(&mut author, 2, update(Some(point(3, 1, 1)), point(2, 2, 2), 0));
    assert!(author.standing().remnants.is_empty());
}

/// The paper's second phase needs all replicas; one that is lost for good would hold it up for ever.
#[test]
fn a_replica_that_is_lost_for_good_is_not_waited_for() {
    let allowed_by = BTreeSet::from([1]);
    let paper_may_undo = |everyone: &[u64]| everyone.iter().all(|peer| allowed_by.contains(peer));
    assert!(!paper_may_undo(&[1, 2]));
    let mut loser = begun(setup(3, 3, 1));
    let own = effect(3, 1, 1);
    advance(&mut loser, 0, vec![intended(own, "a", false)]);
    advance(&mut loser, 1, vec![done(own)]);
    receive(&mut loser, 1, state(2, head(&[(1, 2, 4)], 4)));
    decide(&mut loser, 0, line(&[(1, 2, 4)]));
    receive(&mut loser, 1, Message::Allow { effects: vec![own] });
    let outputs = loser.step(NOW, Input::Fenced(NodeId(2)));
    assert_eq!(outputs, [Output::Undo { line: Epoch(1), effects: vec![own] }]);
    assert_eq!(receive(&mut loser, 2, Message::Inquire), [], "it is not heard any more");
}

/// And so a whole world settles without it.
#[test]
fn a_world_settles_without_a_replica_that_is_lost_for_good() {
    let mut world = World::new(5, Terms::of(3, 1, 6));
    world.run(150);
    world.partition(&[&[1], &[2, 3]]);
    world.run(800);
    world.fence(NodeId(3));
    world.heal();
    assert!(world.run_until(30_000, settled));
}

/// Algorithm 1, line 12: a primary stops if the other's number is higher. With equal numbers both
/// go on; here the higher replica does.
#[test]
fn of_two_primaries_with_equal_progress_the_higher_goes_on() {
    let [mut two, mut three] =
        [2, 3].map(|id| Published { is_primary: true, number: 2, ..Published::new(id) });
    two.take_update(three.number);
    three.take_update(two.number);
    assert!(two.is_primary && three.is_primary);
    let mut lower = begun(setup(2, 3, 1));
    receive(&mut lower, 3, state(1, head(&[(3, 1, 1)], 0)));
    let mut higher = begun(setup(3, 3, 1));
    advance(&mut higher, 0, Vec::new());
    elect(&mut lower, 3, &[]);
    advance(&mut lower, 1, Vec::new());
    advance(&mut higher, 1, Vec::new());
    let (ours, theirs) = (lead(2, lower.head().clone()), lead(1, higher.head().clone()));
    assert!(receive(&mut higher, 2, ours).contains(&Output::Report(Situation::Tie)));
    assert!(higher.leads().is_some());
    assert!(receive(&mut lower, 3, theirs).contains(&Output::Stop));
}

/// Two primaries may even hold the same state, and neither is further: the higher goes on, and they
/// do not tell each other so for ever.
#[test]
fn of_two_primaries_with_the_same_state_the_higher_goes_on() {
    let shared = head(&[(3, 1, 1)], 0);
    let mut lower = begun(setup(1, 3, 1));
    receive(&mut lower, 3, state(1, shared.clone()));
    elect(&mut lower, 3, &[]);
    let outputs = receive(&mut lower, 2, lead(2, shared.clone()));
    assert!(outputs.contains(&Output::Stop));
    assert!(!said_to(&outputs, 2).iter().any(|said| matches!(said, Message::Lead { .. })));
}

/// As long as one of two primaries does not know a decision that the other knows, both take their own line for
/// the better one. They tell each other so from time to time, not as fast as the network carries it.
#[test]
fn two_primaries_that_both_think_they_are_right_do_not_answer_each_other_without_end() {
    let mut primary = begun(setup(3, 3, 1));
    advance(&mut primary, 0, Vec::new());
    advance(&mut primary, 1, Vec::new());
    let wait = primary.setup().election_wait;
    let mut answers = |now: Time| {
        let message = lead(2, head(&[(2, 2, 1)], 0));
        let outputs = primary.step(now, Input::Received { from: NodeId(2), message });
        let said = said_to(&outputs, 2);
        said.iter().filter(|said| matches!(said, Message::Lead { .. })).count()
    };
    assert_eq!(answers(NOW), 1, "the other is told at once");
    assert_eq!((0..100).map(|_| answers(NOW)).sum::<usize>(), 0);
    assert_eq!(answers(NOW.after(wait)), 1, "what was said may have been lost");
}

/// A line that was lost comes back if someone else went on from it: its effects count again.
#[test]
fn effects_on_a_line_that_comes_back_are_kept() {
    let mut author = begun(setup(3, 3, 1));
    let own = effect(3, 1, 1);
    advance(&mut author, 0, vec![intended(own, "a", false)]);
    advance(&mut author, 1, vec![done(own)]);
    receive(&mut author, 2, state(2, head(&[(2, 2, 3)], 2)));
    assert!(author.standing().records.is_empty(), "the line is lost");
    let back = head(&[(3, 1, 2), (1, 3, 2)], 3);
    receive(&mut author, 1, state(3, back.clone()));
    assert!(author.standing().records.contains_key(&own), "and found again");
    assert!(decide(&mut author, 0, back.lineage).contains(&Output::Settled));
}

/// Whoever may have proposed the end of its run keeps it until something is decided: otherwise
/// nobody might hold the decided state.
#[test]
fn the_end_of_a_run_is_not_given_up_before_the_decision() {
    let mut primary = begun(setup(2, 3, 1));
    receive(&mut primary, 3, state(1, head(&[(3, 1, 1)], 0)));
    elect(&mut primary, 3, &[]);
    finish(&mut primary, 1);
    let own = primary.head().clone();
    let other = Message::Lead { head: head(&[(3, 1, 3)], 1), term: Epoch(1), ended: true };
    let outputs = receive(&mut primary, 3, other);
    assert_eq!(primary.leader(), Some(NodeId(3)), "it stops");
    assert!(!said_to(&outputs, 3).contains(&&Message::Want));
    receive(&mut primary, 3, state(1, head(&[(3, 1, 3)], 1)));
    assert_eq!(*primary.head(), own, "but keeps what it has");
    decide(&mut primary, 0, line(&[(3, 1, 3)]));
    receive(&mut primary, 3, state(1, head(&[(3, 1, 3)], 1)));
    assert!(primary.holds_the_end(), "until it is known what counts");
}

/// The same holds for a line that was proposed before a pivot.
#[test]
fn a_line_proposed_for_a_pivot_is_kept_until_the_decision() {
    let mut primary = begun(setup(3, 3, 1));
    advance(&mut primary, 0, vec![intended(effect(3, 1, 1), "p", true)]);
    primary.step(NOW, Input::DecisionWanted { number: 1 });
    let stored = Message::Ack { point: point(3, 1, 1), confirmed: None };
    let outputs = receive(&mut primary, 1, stored);
    let choice = Choice { lineage: line(&[(3, 1, 1)]), is_final: false };
    let proposal = Output::Propose { instance: 0, choice: choice.clone() };
    assert_eq!(outputs, [Output::Persist(Change::Pledged(0)), proposal]);
    receive(&mut primary, 2, state(2, head(&[(2, 2, 5)], 4)));
    assert_eq!(primary.head().lineage, line(&[(3, 1, 1)]));
    primary.step(NOW, Input::Decided { instance: 0, choice });
    assert!(primary.is_decided_up_to(1));
}

/// A primary may be gone although its node answers; a backup asks, and in the end stands.
#[test]
fn a_backup_looks_after_its_primary() {
    let mut backup = begun(setup(2, 3, 1));
    receive(&mut backup, 3, state(1, head(&[(3, 1, 1)], 0)));
    assert_eq!(said_to(&fire(&mut backup, Timer::WordOverdue), 3), Vec::<&Message>::new());
    for _ in 0..3 {
        assert_eq!(said_to(&fire(&mut backup, Timer::WordOverdue), 3), [&Message::Inquire]);
    }
    let outputs = fire(&mut backup, Timer::WordOverdue);
    assert!(matches!(said_to(&outputs, 1)[..], [Message::RequestVote { .. }]));
}

/// A backup that holds more than its primary shows it: it would never acknowledge the other line.
#[test]
fn a_primary_takes_over_a_further_state_of_its_backup() {
    let mut backup = begun(setup(1, 3, 1));
    receive(&mut backup, 2, state(2, head(&[(2, 2, 5)], 4)));
    lose(&mut backup, 2);
    let outputs = receive(&mut backup, 3, lead(3, head(&[(3, 3, 2)], 1)));
    let [shown @ Message::State { term: None, .. }] = said_to(&outputs, 3)[..] else {
        panic!("{outputs:?}")
    };
    let mut primary = begun(setup(3, 3, 1));
    advance(&mut primary, 0, Vec::new());
    receive(&mut primary, 1, shown.clone());
    assert_eq!(primary.head(), backup.head());
    fire(&mut primary, Timer::ElectionOver);
    assert_eq!(primary.leads(), Some(Epoch(3)), "in a new term");
}

/// Who runs alone on purpose waits neither for acknowledgements nor for a budget.
#[test]
fn an_active_replica_waits_for_nobody() {
    let setup = super::super::Setup { acknowledge: true, budget: Some(0.0), ..active(1, 3) };
    let mut replica = begun(setup);
    let own = effect(1, 1, 1);
    advance(&mut replica, 0, vec![intended(own, "a", false)]);
    advance(&mut replica, 1, vec![Note::Done { effect: own, cost: 5.0 }]);
    assert!(replica.may_leave(2));
}

/// Seen in a world of five: a replica whose line could not count any more executed on after a restart,
/// and everything it did was undone.
#[test]
fn who_runs_alone_does_not_go_on_with_a_line_that_cannot_count() {
    let mut replica = begun(active(3, 3));
    let open = effect(3, 1, 1);
    advance(&mut replica, 0, vec![intended(open, "a", false)]);
    let choice = Choice { lineage: line(&[(2, 1, 4)]), is_final: false };
    replica.step(NOW, Input::Decided { instance: 0, choice });
    assert_eq!(replica.leads(), None, "another line was chosen");
    let mut again = Replica::restored(active(3, 3), replica.standing().clone());
    let outputs = again.step(NOW, Input::Restarted);
    assert_eq!(again.leads(), None);
    assert!(matches!(said_to(&outputs, 2)[..], [Message::RecoveryRequest { .. }]));
}

/// A primary that pauses until a majority follows, while those whom it reaches keep a line that they proposed:
/// neither would ever end. Seen as seeds 5162980 and 5217804. A decision ends both; without a majority to make
/// it, nothing is proposed.
#[test]
fn a_primary_that_pauses_for_ever_has_its_line_decided_on() {
    let proposes = |outputs: &[Output]| {
        outputs.iter().any(|output| matches!(output, Output::Propose { instance: 0, .. }))
    };
    for lost in [false, true] {
        let mut primary = begun(super::super::Setup { budget: Some(0.0), ..setup(2, 2, 1) });
        advance(&mut primary, 0, vec![intended(effect(2, 1, 1), "a", false)]);
        advance(&mut primary, 1, vec![done(effect(2, 1, 1))]);
        assert!(primary.is_over_budget());
        if lost {
            lose(&mut primary, 1);
        }
        let rounds = [Timer::AnswersOverdue; 3].map(|timer| fire(&mut primary, timer));
        assert!(!proposes(&rounds[0]), "everyone has time to follow");
        let proposed = rounds.iter().filter(|outputs| proposes(outputs)).count();
        assert_eq!(proposed, usize::from(!lost), "once, if a majority can be reached");
    }
}

/// One that counts wrongly would keep whoever believes it busy for ever, or leave it nothing to count on with.
#[test]
fn nobody_goes_on_from_what_no_execution_can_come_to() {
    const FAR: u64 = u64::MAX - 1;
    let nonsense = [
        update(None, point(3, 1, FAR), 1),
        update(None, point(3, FAR, 1), 1),
        update(None, point(3, 1, 1), FAR),
        Message::Lead { head: head(&[(3, FAR, 1)], 1), term: Epoch(1), ended: false },
        Message::Lead { head: head(&[(3, 1, 1)], FAR), term: Epoch(1), ended: false },
        Message::RequestVote { term: Epoch(FAR), head: head(&[], 0), reaches: None },
        Message::Reject { term: Epoch(1), known: Epoch(FAR), leader: None },
        Message::Decided {
            instance: u32::MAX,
            choice: Choice { lineage: line(&[(3, 1, 1)]), is_final: true },
        },
    ];
    for message in nonsense {
        let mut backup = begun(setup(1, 3, 1));
        let before = backup.clone();
        assert_eq!(receive(&mut backup, 3, message.clone()), [], "{message:?}");
        assert_eq!(backup, before, "{message:?}");
    }
}

/// The paper: whoever is asked agrees. What was decided on must be held by somebody, though its proposer be lost
/// for good.
#[test]
fn whoever_agreed_to_a_line_that_it_holds_keeps_it_until_something_is_decided() {
    let ours = || head(&[(4, 1, 2)], 1);
    let theirs = || head(&[(3, 2, 5)], 4);
    let choice = |head: Head| Choice { lineage: head.lineage, is_final: false };
    let agree = |replica: &mut Replica, head: Head| {
        replica.step(NOW, Input::Agreed { instance: 0, choice: choice(head) });
    };
    let follower = || {
        let mut follower = begun(setup(1, 4, 1));
        receive(&mut follower, 4, state(1, ours()));
        follower
    };
    // One that agreed to nothing follows who has come further.
    let mut free = follower();
    assert!(free.may_agree(&choice(ours())) && !free.may_agree(&choice(theirs())));
    receive(&mut free, 3, state(2, theirs()));
    assert_eq!(free.head(), &theirs());

    let mut bound = follower();
    agree(&mut bound, ours());
    receive(&mut bound, 3, state(2, theirs()));
    assert_eq!(bound.head(), &ours());
    assert!(
        bound.may_agree(&choice(theirs())),
        "it would never take that up: two would wait for each other"
    );
    bound.step(NOW, Input::Decided { instance: 0, choice: choice(theirs()) });
    receive(&mut bound, 3, state(2, theirs()));
    assert_eq!(bound.head(), &theirs());

    // What it does not hold it need not keep, and an agreement of before binds nobody.
    let mut other = follower();
    agree(&mut other, theirs());
    other.step(NOW, Input::Decided { instance: 0, choice: choice(ours()) });
    agree(&mut other, ours());
    assert!(!other.may_agree(&choice(theirs())));
}

/// A primary that keeps its line does not take up a better one that it is shown. If nobody agreed to its own
/// either, neither would ever be decided on.
#[test]
fn whoever_has_shown_its_primary_a_better_line_in_vain_agrees_to_the_other() {
    let (ours, theirs) = (head(&[(3, 2, 5)], 4), head(&[(4, 1, 2)], 1));
    let choice = Choice { lineage: theirs.lineage.clone(), is_final: false };
    let mut backup = begun(setup(1, 4, 1));
    receive(&mut backup, 3, state(2, ours));
    lose(&mut backup, 3);
    assert!(!backup.may_agree(&choice), "it may yet be taken up");
    let shown = receive(&mut backup, 4, lead(3, theirs));
    assert!(matches!(said_to(&shown, 4)[..], [Message::State { .. }]), "{shown:?}");
    assert!(backup.may_agree(&choice));
}

/// Found by a tester: of a word that came late, a replica took its primary to lag behind. From then on it agreed to
/// lines that it did not hold, and one was decided on that was lost with its primary.
#[test]
fn an_old_word_of_the_primary_is_not_taken_for_one_that_lags_behind() {
    let (before, now) = (head(&[(4, 1, 2)], 1), head(&[(4, 1, 3)], 2));
    let later = Choice { lineage: line(&[(4, 1, 4)]), is_final: true };
    let mut backup = begun(setup(1, 4, 1));
    receive(&mut backup, 4, state(1, now));
    let answer = receive(&mut backup, 4, lead(1, before));
    assert!(matches!(said_to(&answer, 4)[..], [Message::Ack { .. }]), "{answer:?}");
    assert!(!backup.may_agree(&later));
}

/// What it had shown in vain says nothing of the line that it has taken up since.
#[test]
fn whoever_has_taken_up_the_line_of_its_primary_agrees_to_what_it_holds() {
    let mut backup = begun(setup(1, 4, 1));
    receive(&mut backup, 3, state(2, head(&[(3, 2, 5)], 4)));
    lose(&mut backup, 3);
    receive(&mut backup, 4, lead(3, head(&[(4, 1, 2)], 1)));
    receive(&mut backup, 4, state(3, head(&[(4, 1, 6)], 5)));
    let later = Choice { lineage: line(&[(4, 1, 7)]), is_final: true };
    assert!(!backup.may_agree(&later));
}
