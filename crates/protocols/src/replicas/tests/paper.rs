//! The claims of the paper, sections 3 and 4.1 to 4.3, one test each.

use outlast_lineage::{Epoch, NodeId};

use super::super::{
    Change, Input, Message, Mode, Note, Output, Replica, Situation, Standing, Timer,
};
use super::flow::{Activity, Plan};
use super::steps::{
    NOW, acknowledging, advance, begun, effect, elect, fire, head, held, intended, key, lose,
    point, receive, request, request_reaching, said_to, setup, state, timer_at, update, vote,
    written,
};
use super::world::{ELECTION_WAIT, Terms, World};

/// 4: "The replica with the highest identifier is the initial primary saving the overhead of an
/// election on start-up."
#[test]
fn the_highest_replica_begins_without_an_election() {
    let mut highest = Replica::new(setup(3, 3, 1));
    let outputs = highest.step(NOW, Input::Begun);
    assert_eq!(outputs, [Output::Persist(Change::Term(Epoch(1))), Output::Start]);
    let mut other = Replica::new(setup(2, 3, 1));
    let outputs = other.step(NOW, Input::Begun);
    assert!(!outputs.contains(&Output::Start));
    assert_eq!(other.leader(), Some(NodeId(3)));
}

/// 4.2: "The workflow client application sends an execution request message EXEC(eID, mID) to all
/// replicas […]. Upon receiving the message, a replica stores the execution identifier […]. If the
/// replica is the initial primary, i.e., the replica with the highest ID, it instantiates the loaded
/// workflow model and sets its primary indicator prim_r to true."
#[test]
fn whoever_is_told_of_the_execution_writes_that_down_and_the_highest_alone_begins_it() {
    for me in 1..=4 {
        let mut replica = Replica::new(setup(me, 4, 1));
        let outputs = replica.step(NOW, Input::Begun);
        let standing = written(&outputs, Standing::default());
        assert_ne!(standing, Standing::default(), "{me} has something to come back with");
        let begins = outputs.contains(&Output::Start);
        assert_eq!((begins, replica.leads().is_some()), (me == 4, me == 4), "replica {me}");
        assert_eq!(replica.leader(), Some(NodeId(4)), "replica {me}");
    }
    let mut world = World::new(4, Terms::of(4, 1, 3));
    world.run(30);
    assert_eq!(world.primaries(), [4]);
    let begun = |node: &u64| !world.owner(*node).disk.flow.cells.is_empty();
    assert!((1..=4).all(|node| begun(&node)), "and the others hold what it made");
    let mut calls = world.provider.calls.keys();
    assert!(calls.all(|effect| effect.point.author == NodeId(4)), "nobody else calls");
}

/// 4.1: "if r is primary, this is the last produced execution state. If r is a backup, eS_r is the last
/// execution state received from a primary."
#[test]
fn a_primary_holds_what_it_made_and_a_backup_what_it_received() {
    let (mut primary, mut backup) = (begun(setup(3, 3, 1)), begun(setup(1, 3, 1)));
    for progress in 0..3 {
        let outputs = advance(&mut primary, progress, Vec::new());
        assert_eq!(primary.head().lineage.head(), Some(point(3, 1, progress + 1)));
        assert_ne!(backup.head(), primary.head(), "it has not received it yet");
        let [news] = said_to(&outputs, 1)[..] else { panic!("{outputs:?}") };
        receive(&mut backup, 3, news.clone());
        assert_eq!(backup.head(), primary.head());
    }
}

/// 4.1: "All the above described variables are saved in volatile memory, which is wiped through crash
/// failures", among them "prim_r: the indicator on whether r is currently primary". Here the state held
/// is on disk.
#[test]
fn a_primary_that_crashed_is_none_when_it_comes_back_and_holds_what_it_held() {
    let mut primary = begun(setup(3, 3, 1));
    advance(&mut primary, 0, Vec::new());
    let mut again = Replica::restored(setup(3, 3, 1), primary.standing().clone());
    let outputs = again.step(NOW, Input::Restarted);
    assert_eq!((again.leads(), again.leader()), (None, None));
    let begins = |it: &Output| matches!(it, Output::Start | Output::GoOn | Output::Resume);
    assert!(!outputs.iter().any(begins), "{outputs:?}");
    assert_eq!(again.head(), primary.head());
}

/// 4.1: "f_r: the current failover counter of r. Each time r starts a failover, the counter is
/// incremented. Initially, f_r is 0." Here the beginning counts as the first.
#[test]
fn every_failover_counts_one_up() {
    assert_eq!(Standing::default().term, Epoch(0));
    let mut backup = begun(setup(2, 3, 3));
    assert_eq!(backup.standing().term, Epoch(1));
    lose(&mut backup, 3);
    for failover in 2..6 {
        assert_eq!(backup.standing().term, Epoch(failover));
        fire(&mut backup, Timer::ElectionOver);
        assert_eq!(backup.standing().term, Epoch(failover), "counting votes is none");
        fire(&mut backup, Timer::RetryElection);
    }
}

/// 4.1: "The execution record (eID, eS_input.sID, eS_prod.sID, comp(a_x)) contains […] the identifier of
/// the execution state eS_input that is used as input for the activity execution, the identifier of the
/// produced execution state eS_prod". "The execution history H_r is stored on stable storage for ensuring
/// that a replica never forgets an activity execution"; 4.5: "Upon recovery, a replica reads its
/// execution history."
#[test]
fn a_record_says_where_an_activity_began_and_ended_and_survives_crashes_and_lost_lines() {
    let mut primary = begun(setup(3, 3, 1));
    let (own, open) = (effect(3, 1, 1), effect(3, 1, 2));
    let mut outputs = advance(&mut primary, 0, vec![intended(own, "a", false)]);
    let notes = vec![super::steps::done(own), intended(open, "b", false)];
    outputs.extend(advance(&mut primary, 1, notes));
    let standing = written(&outputs, Standing::default());
    let numbers = |id| (standing.records[id].intended, standing.records[id].committed);
    assert_eq!((numbers(&own), numbers(&open)), ((1, Some(2)), (2, None)));

    let mut again = Replica::restored(setup(3, 3, 1), standing.clone());
    let mut outputs = again.step(NOW, Input::Restarted);
    outputs.extend(receive(&mut again, 2, state(2, head(&[(2, 2, 4)], 4))));
    let later = written(&outputs, standing);
    let mut known: Vec<_> = later.all_records().map(|(effect, _)| *effect).collect();
    known.sort_unstable();
    assert_eq!(known, [own, open], "the line it did them on is lost, and they are not forgotten");
}

/// 4.1: "sID consists of […] rID: the identifier of the replica that produced the execution state,
/// f: the value that the failover counter had […], s: the state number".
#[test]
fn a_state_is_named_by_its_author_its_failover_counter_and_its_number() {
    let mut replica = begun(setup(2, 3, 1));
    receive(&mut replica, 3, state(1, head(&[(3, 1, 4)], 2)));
    elect(&mut replica, 3, &[1]);
    advance(&mut replica, 3, Vec::new());
    assert_eq!(replica.head().lineage.head(), Some(point(2, 2, 5)));
}

/// 4.2: "First, r writes an execution record for the activity that is going to be executed into the
/// execution history H_r. Then, r executes the activity".
#[test]
fn the_record_of_an_effect_is_ordered_before_anything_that_could_let_it_happen() {
    let mut primary = begun(setup(3, 3, 1));
    let outputs = advance(&mut primary, 0, vec![intended(effect(3, 1, 1), "a", false)]);
    assert!(
        matches!(&outputs[0], Output::Persist(Change::Extended { notes, .. }) if notes.len() == 1)
    );
    let record = &primary.standing().records[&effect(3, 1, 1)];
    assert_eq!((record.intended, record.committed), (1, None));
}

/// 4.1: "The failover counter f_r is saved on stable storage to prevent crash failures from
/// resetting f_r."
#[test]
fn a_candidate_writes_its_term_down_before_anyone_hears_of_it() {
    let mut replica = begun(setup(2, 3, 1));
    let outputs = lose(&mut replica, 3);
    assert_eq!(outputs[0], Output::Persist(Change::Term(Epoch(2))));
    let standing = written(&outputs, super::super::Standing::default());
    let mut again = Replica::restored(setup(2, 3, 1), standing);
    again.step(NOW, Input::Restarted);
    fire(&mut again, Timer::RetryElection);
    assert_eq!(again.standing().term, Epoch(3));
}

/// 4.2: "Note that r sends the update asynchronously, i.e., r continues the workflow execution
/// while sending the update."
#[test]
fn a_primary_waits_for_nobody() {
    let mut primary = begun(setup(3, 3, 1));
    for progress in 0..3 {
        let outputs = advance(&mut primary, progress, Vec::new());
        assert!(matches!(said_to(&outputs, 1)[..], [Message::Update { .. }]));
        assert!(primary.may_leave(progress + 1));
    }
}

/// 4.2: "a backup applies the included execution state if the state number of the received state is
/// higher than the one that the backup currently stores".
#[test]
fn a_backup_takes_later_states_and_no_earlier_ones() {
    let mut backup = begun(setup(1, 3, 1));
    receive(&mut backup, 3, state(1, head(&[(3, 1, 1)], 0)));
    let news = update(Some(point(3, 1, 1)), point(3, 1, 2), 1);
    assert!(
        receive(&mut backup, 3, news.clone()).contains(&Output::Apply(b"delta".to_vec().into()))
    );
    let outputs = receive(&mut backup, 3, news);
    assert!(!outputs.iter().any(|output| matches!(output, Output::Apply(_) | Output::Persist(_))));
    let gap = update(Some(point(3, 1, 3)), point(3, 1, 4), 3);
    assert_eq!(said_to(&receive(&mut backup, 3, gap), 3), [&Message::Want]);
}

/// 4.3: "All backups monitor the primary by means of a heartbeat mechanism. If the primary becomes
/// unavailable through crashing or partitioning, the backups elect a new primary."
#[test]
fn backups_that_no_longer_reach_the_primary_elect_another_one() {
    for crashes in [true, false] {
        let mut world = World::new(6, Terms { work: 2000, ..Terms::of(4, 2, 20) });
        world.run(200);
        assert_eq!(world.primaries(), [4]);
        if crashes {
            world.crash(NodeId(4));
        } else {
            world.partition(&[&[4]]);
        }
        let followed = |world: &World| {
            [1, 2, 3].iter().all(|node| world.owner(*node).replica.leader() == Some(NodeId(3)))
        };
        assert!(world.run_until(600, followed), "crashed: {crashes}");
    }
}

/// 4.3: "Upon detecting a primary failure, a backup increments its failover counter […]. Then, it
/// requests VOTE messages from all replicas."
#[test]
fn a_backup_without_primary_asks_all_for_votes() {
    let mut backup = begun(setup(2, 4, 1));
    let outputs = lose(&mut backup, 4);
    let asked = request_reaching(2, head(&[], 0), 3);
    assert_eq!(said_to(&outputs, 1), [&asked]);
    assert_eq!(said_to(&outputs, 3), [&asked]);
    assert_eq!(timer_at(&outputs, Timer::ElectionOver), Some(ELECTION_WAIT));
}

/// 4.3: "All replicas with lower IDs reply with a VOTE that includes the execution state of the
/// voter."
#[test]
fn a_lower_replica_votes_and_shows_its_state_if_it_is_further() {
    let mut lower = begun(setup(1, 3, 1));
    let known = head(&[(3, 1, 2)], 1);
    receive(&mut lower, 3, state(1, known.clone()));
    lower.step(NOW, Input::PeerLost(NodeId(3)));
    let outputs = receive(&mut lower, 2, request(5, head(&[], 0)));
    let [Message::Vote { term, held: Some(held), .. }] = said_to(&outputs, 2)[..] else {
        panic!("a vote with a state, not {outputs:?}")
    };
    assert_eq!((*term, &held.head), (Epoch(5), &known));
}

/// 4.3: "Any replica with a higher ID sends a REJECT message"; algorithm 1, line 24: and asks for
/// votes itself if it does not yet.
#[test]
fn a_higher_replica_objects_and_stands_itself() {
    let mut higher = begun(setup(2, 3, 1));
    higher.step(NOW, Input::PeerLost(NodeId(3)));
    fire(&mut higher, Timer::ElectionOver);
    let mut higher = begun(setup(2, 3, 2));
    receive(&mut higher, 3, Message::StoodDown { leader: None });
    let outputs = receive(&mut higher, 1, request(5, head(&[], 0)));
    let said = said_to(&outputs, 1);
    assert!(matches!(said[0], Message::RequestVote { term: Epoch(6), .. }), "{said:?}");
    assert!(matches!(said[1], Message::Reject { term: Epoch(5), .. }), "{said:?}");
}

/// Algorithm 1, lines 20 and 21: a primary sends REJECT.
#[test]
fn a_primary_objects_whatever_its_id() {
    let mut primary = begun(setup(1, 3, 1));
    receive(&mut primary, 3, state(1, head(&[(3, 1, 1)], 0)));
    elect(&mut primary, 3, &[]);
    let outputs = receive(&mut primary, 2, request(9, head(&[], 0)));
    let said = said_to(&outputs, 2);
    assert!(matches!(said[..], [Message::Reject { leader: Some(NodeId(1)), .. }]), "{said:?}");
}

/// 4.3: "If a replica receives a single REJECT message, it will not become primary […]. It, however, might
/// be the case that a replica receives enough VOTE messages before receiving a REJECT."
#[test]
fn one_objection_is_enough() {
    let mut candidate = begun(setup(2, 4, 2));
    lose(&mut candidate, 4);
    receive(&mut candidate, 1, vote(Epoch(2), None));
    let objection = Message::Reject { term: Epoch(2), known: Epoch(7), leader: None };
    receive(&mut candidate, 3, objection);
    fire(&mut candidate, Timer::ElectionOver);
    assert_eq!(candidate.leads(), None);
    assert_eq!(candidate.standing().term, Epoch(7));
}

/// 4.3: "every replica that requested VOTE messages waits for the time threshold t_t even if the
/// replica already received enough VOTE messages."
#[test]
fn a_candidate_with_enough_votes_still_waits() {
    let mut candidate = begun(setup(2, 3, 2));
    receive(&mut candidate, 3, state(1, head(&[(3, 1, 1)], 0)));
    lose(&mut candidate, 3);
    assert_eq!(receive(&mut candidate, 1, vote(Epoch(2), None)), []);
    assert_eq!(candidate.leads(), None);
    assert!(fire(&mut candidate, Timer::ElectionOver).contains(&Output::GoOn));
}

/// 4.3: "A replica requires t_v votes for becoming primary."
#[test]
fn a_candidate_with_too_few_votes_waits_and_says_so() {
    let mut candidate = begun(setup(2, 3, 2));
    lose(&mut candidate, 3);
    let outputs = fire(&mut candidate, Timer::ElectionOver);
    assert!(outputs.contains(&Output::Report(Situation::TooFewVotes)));
    assert!(candidate.seeks_votes());
    assert!(!said_to(&fire(&mut candidate, Timer::RetryElection), 1).is_empty());
}

/// 4.3: "The replica uses the state with the highest state number from the received VOTE messages
/// as the take-over state."
#[test]
fn the_furthest_state_is_taken_over() {
    let mut candidate = begun(setup(3, 4, 2));
    receive(&mut candidate, 4, state(1, head(&[(4, 1, 1)], 0)));
    lose(&mut candidate, 4);
    let (near, far) = (head(&[(4, 1, 2)], 1), head(&[(4, 1, 4)], 3));
    receive(&mut candidate, 1, vote(Epoch(2), Some(held(far.clone()))));
    receive(&mut candidate, 2, vote(Epoch(2), Some(held(near))));
    let outputs = fire(&mut candidate, Timer::ElectionOver);
    assert!(outputs.contains(&Output::Adopt { state: b"state".to_vec(), remnant: None }));
    assert_eq!(candidate.head(), &far);
}

/// 4.3: "If a replica has received t_v VOTE messages and no REJECT after waiting for t_t, it becomes
/// primary […]. Now, the new primary returns to normal operation."
#[test]
fn whoever_is_elected_goes_on_as_any_primary() {
    let mut elected = begun(setup(2, 3, 2));
    receive(&mut elected, 3, state(1, head(&[(3, 1, 2)], 1)));
    let outputs = elect(&mut elected, 3, &[1]);
    assert_eq!(outputs.last(), Some(&Output::GoOn));
    let outputs = advance(&mut elected, 2, Vec::new());
    let [Message::Update { base, next, .. }] = said_to(&outputs, 1)[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!((*base, *next), (Some(point(3, 1, 2)), point(2, 2, 3)));
    assert!(elected.may_leave(3));
}

/// 4.3: "When there are multiple partitions each hosting a primary, the primaries will receive UPDATE
/// messages from each other after the partitions reconnect. […] Thereby, competing executions are stopped
/// without introducing additional coordination overhead."
#[test]
fn after_a_reconnect_the_furthest_goes_on_all_the_time_and_the_others_stop() {
    for seed in 0..20 {
        let mut world = World::new(seed, Terms { work: 600, ..Terms::of(5, 1, 60) });
        world.run(500);
        world.partition(&[&[1, 2], &[3], &[4, 5]]);
        world.run(5000);
        assert_eq!(world.primaries(), [2, 3, 5], "seed {seed}");
        let before = [2, 3, 5].map(|node| world.owner(node).disk.flow.progress());
        let terms = [2, 3, 5].map(|node| (node, world.owner(node).replica.leads()));
        world.heal();
        assert!(world.run_until(2000, |world| world.primaries().len() == 1), "seed {seed}");
        let [left] = world.primaries()[..] else { panic!("seed {seed}") };
        let term = (left, world.owner(left).replica.leads());
        assert!(terms.contains(&term), "seed {seed}: it went on all the time");
        let progress = world.owner(left).disk.flow.progress();
        assert!(before.iter().all(|other| *other <= progress), "seed {seed}: {progress}");
        world.run(1000);
        assert_eq!(world.primaries(), [left], "seed {seed}");
    }
}

/// 4.3: "When a primary receives an UPDATE that contains an execution state with a higher state
/// number than its own state, the primary stops its execution".
#[test]
fn a_lagging_primary_stops() {
    let mut lagging = begun(setup(3, 3, 1));
    advance(&mut lagging, 0, Vec::new());
    let further = update(Some(point(2, 2, 3)), point(2, 2, 4), 3);
    let outputs = receive(&mut lagging, 2, further);
    assert!(outputs.contains(&Output::Stop));
    assert_eq!(lagging.leader(), Some(NodeId(2)));
    assert_eq!(said_to(&outputs, 2).last(), Some(&&Message::Want));
}

/// 4.3: "Any partition with at least t_v replicas elects the replica with the highest ID in that
/// partition as primary."
#[test]
fn every_partition_with_enough_votes_has_its_highest_replica_as_primary() {
    let mut terms = Terms::of(5, 2, 20);
    terms.work = 2000;
    let mut world = World::new(1, terms);
    world.run(200);
    world.partition(&[&[1, 2], &[3], &[4, 5]]);
    world.run(4000);
    assert_eq!(world.primaries(), [2, 5], "3 is alone, and has one vote of two");
}

/// 3: with t_v = 1 "all replicas will elect themselves as primary and execute the workflow
/// independently"; with the majority "passive replication is unable to elect a new primary".
#[test]
fn without_a_majority_one_vote_goes_on_and_passive_does_not() {
    for (votes, acknowledge) in [(1, false), (3, true)] {
        let mut terms = Terms { acknowledge, ..Terms::of(5, votes, 30) };
        terms.work = 300;
        let mut world = World::new(2, terms);
        world.run(500);
        world.crash(NodeId(5));
        world.partition(&[&[1, 2], &[3, 4]]);
        world.run(1000);
        let before: Vec<_> = [2, 4].map(|node| world.owner(node).disk.flow.progress()).into();
        world.run(2500);
        let after: Vec<_> = [2, 4].map(|node| world.owner(node).disk.flow.progress()).into();
        assert_eq!(before == after, votes == 3, "{votes} votes: {before:?}, then {after:?}");
    }
}

/// 3: "Upon finishing the execution, the replicas agree on one of the workflow executions via
/// majority consensus and compensate all other executions": (n - 1) · 100 %.
#[test]
fn active_replication_compensates_all_executions_but_one() {
    let terms = Terms { mode: Mode::Active, ..Terms::of(3, 1, 4) };
    let mut world = World::new(3, terms);
    let settled = |world: &World| world.owners().all(|owner| owner.replica.standing().settled);
    assert!(world.run_until(20_000, settled));
    let flow = world.owner(1).disk.flow.clone();
    world.provider.assert_net_effects_are_those_of(&flow, &world.gone);
    // Who heard of the decision in the middle has less to undo.
    assert!((4..=8).contains(&world.provider.undone.len()), "{:?}", world.provider.undone);
}

/// 4: "the execution state contains not a single activity but a set of activities that have to be
/// executed next", "the execution state identifiers are decoupled from the workflow model".
#[test]
fn parallel_activities_survive_a_failover_between_them() {
    let activity = Activity { deduplicated: false, pivot: false };
    let layers = vec![vec![activity], vec![activity; 2], vec![activity]];
    for seed in 0..20 {
        let mut terms = Terms::of(3, 1, 0);
        (terms.plan, terms.work) = (Plan { layers: layers.clone(), ..Plan::default() }, 400);
        let mut world = World::new(seed, terms);
        let half = |world: &World| world.owner(3).disk.flow.progress() == 2;
        assert!(world.run_until(5000, half), "one of two is done");
        world.crash_for(NodeId(3), 1500);
        let settled = |world: &World| {
            world.owners().filter(|owner| owner.replica.standing().settled).count() == 3
        };
        assert!(world.run_until(30_000, settled));
        let flow = world.owner(1).disk.flow.clone();
        world.provider.assert_net_effects_are_those_of(&flow, &world.gone);
    }
}

/// 4: "our protocol supports XOR- and AND-branching because we identify the logged activity executions
/// based on the input execution state and the produced execution state, where the execution state
/// identifiers are decoupled from the workflow model." (That one way is taken, and the other dies, is shown
/// in `crates/workflow/tests/graphs.rs`.)
#[test]
fn of_lines_that_took_different_ways_the_effects_of_one_way_remain() {
    let activity = Activity { deduplicated: false, pivot: false };
    let mut parted = 0;
    for seed in 0..20 {
        // Which way is taken depends on all that was answered before.
        let before = 1 + seed as usize % 5;
        let ways = [before as u64, before as u64 + 1];
        let mut plan = Plan::sequence(before + 2, false);
        plan.layers[before] = vec![activity; 2];
        plan.exclusive.insert(before);
        let mut world = World::new(seed, Terms { plan, work: 300, ..Terms::of(3, 1, 0) });
        world.run(30);
        world.partition(&[&[3]]);
        world.run(4000);
        let way = |node: u64| {
            let done = world.owner(node).disk.flow.done().map(|(effect, _)| effect.branch.0);
            done.filter(|activity| ways.contains(activity)).collect::<Vec<_>>()
        };
        assert_eq!((way(3).len(), way(2).len()), (1, 1), "seed {seed}: one way on each side");
        parted += usize::from(way(3) != way(2));
        world.heal();
        let settled = |world: &World| world.owners().all(|owner| owner.replica.standing().settled);
        assert!(world.run_until(30_000, settled), "seed {seed}");
        let flow = world.owner(1).disk.flow.clone();
        world.provider.assert_net_effects_are_those_of(&flow, &world.gone);
        world.provider.assert_undone_in_order(&world.gone);
        let undone = &world.provider.undone;
        let left = world.provider.happened.iter().filter(|effect| !undone.contains(effect));
        let taken = left.filter(|effect| ways.contains(&effect.branch.0)).count();
        assert_eq!(taken, 1, "seed {seed}");
    }
    assert!((1..20).contains(&parted), "{parted} of 20 took different ways");
}

/// Not of the paper: where a call waits for a majority, a primary that was cut off stops by itself.
#[test]
fn with_acknowledgements_a_call_waits_for_a_majority() {
    let mut primary = begun(acknowledging(3, 3));
    advance(&mut primary, 0, vec![intended(effect(3, 1, 1), "a", false)]);
    assert!(!primary.may_leave(1));
    let confirmed = Some((Epoch(1), NodeId(3)));
    receive(&mut primary, 1, Message::Ack { point: point(3, 1, 1), confirmed });
    assert!(primary.may_leave(1));
}

/// Not of the paper: a minority primary whose undo would cost more than the budget pauses.
#[test]
fn a_primary_over_its_budget_pauses_until_a_majority_follows() {
    let mut primary = begun(super::super::Setup { budget: Some(5.0), ..setup(3, 3, 1) });
    advance(&mut primary, 0, vec![intended(effect(3, 1, 1), "a", false)]);
    assert!(primary.may_leave(1), "nothing was done yet");
    let says_so = |outputs: &[Output]| {
        let paused = Output::Report(Situation::OverBudget);
        outputs.iter().filter(|output| **output == paused).count()
    };
    let outputs = advance(&mut primary, 1, vec![super::steps::done(effect(3, 1, 1))]);
    assert!(primary.is_over_budget() && !primary.may_leave(2));
    assert_eq!(says_so(&outputs), 1, "it says that it pauses");
    let outputs = advance(&mut primary, 1, vec![]);
    assert_eq!(says_so(&outputs), 0, "once");
    receive(&mut primary, 1, Message::Ack { point: point(3, 1, 3), confirmed: None });
    assert!(!primary.is_over_budget() && primary.may_leave(3));
    advance(&mut primary, 1, vec![intended(effect(3, 1, 4), "b", false)]);
    let outputs = advance(&mut primary, 2, vec![super::steps::done(effect(3, 1, 4))]);
    assert_eq!(says_so(&outputs), 1, "and again when it pauses again");
}

/// Not of the paper: what undoing will cost counts before the call leaves, if it is known then. On real nodes
/// a budget of three activities let four of them happen.
#[test]
fn a_call_that_would_pass_the_budget_does_not_leave() {
    let mut primary = begun(super::super::Setup { budget: Some(20.0), ..setup(3, 3, 1) });
    let costly = |number| Note::Intended {
        effect: effect(3, 1, number),
        key: key("a"),
        deduplicated: false,
        cost: Some(10.0),
        pivot: false,
    };
    let mut at = 1;
    for _ in 0..2 {
        advance(&mut primary, at, vec![costly(at)]);
        assert!(primary.may_leave(at), "it can be afforded");
        advance(&mut primary, at, vec![super::steps::done(effect(3, 1, at))]);
        at += 2;
    }
    let outputs = advance(&mut primary, at, vec![costly(at)]);
    assert!(outputs.contains(&Output::Report(Situation::OverBudget)));
    assert!(!primary.may_leave(at), "with it, undoing would cost 30");
    receive(&mut primary, 1, Message::Ack { point: point(3, 1, at), confirmed: None });
    assert!(primary.may_leave(at), "a majority has it");
}

/// 4.2: "r sends an update containing the produced execution state to all replicas"; nothing else
/// is said for an activity, but that acknowledgements come together.
#[test]
fn an_activity_costs_one_update_for_each_backup() {
    for acknowledge in [false, true] {
        let terms = Terms { acknowledge, ..Terms::of(3, 1, 10) };
        let mut world = World::new(7, terms);
        let settled = |world: &World| world.owners().all(|owner| owner.replica.standing().settled);
        assert!(world.run_until(20_000, settled));
        // The beginning, and ten activities.
        assert_eq!(world.sent["Update"], 2 * 11);
        // In this world, which reorders, the end is sent whole to a replica that hears of the decision
        // before the update.
        let whole = world.sent.get("State").copied().unwrap_or(0);
        assert!(whole == 0 || (!acknowledge && whole <= 2), "{whole} whole states");
        let acknowledgements = world.sent["Ack"];
        assert!(if acknowledge { acknowledgements == 2 * 11 } else { acknowledgements <= 2 * 11 });
        let others = world
            .sent
            .iter()
            .filter(|(name, _)| !["Update", "State", "Ack"].contains(&name.as_str()));
        let others: u64 = others.map(|(_, count)| count).sum();
        assert!(others <= 12, "reminders, and looking after the primary: {:?}", world.sent);
    }
}
