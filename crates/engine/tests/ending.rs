//! How a run that several nodes hold ends: what is proposed together with the end, and to whom.

mod cluster;
mod driver;

use std::time::Duration;

use cluster::{Cluster, Provider, kind, program_of};
use driver::id;
use outlast_engine::{
    Ask, Condition, EngineOptions, Input, ParkedFilter, Refusal, Reply, Retention, Strategy,
    Survival, Which,
};
use outlast_lineage::{ExecutionId, NodeId, OperationKey};
use outlast_workflow::program::Kind;
use outlast_workflow::{Answer, Fault, FaultKind, Outcome, Request, Resolution, Ticket};

const MOMENT: Duration = Duration::from_millis(5);
const SECOND: Duration = Duration::from_secs(1);

/// Three nodes with a run of one call, which is open at node 3.
fn one_call() -> Cluster {
    let program = program_of("one", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 3));
    cluster.run_past_linger();
    cluster
}

fn answer(cluster: &mut Cluster) {
    let call = cluster.call_of(3);
    cluster.answer(3, call);
}

fn has_ended(cluster: &mut Cluster, node: u64) -> bool {
    match cluster.node(node).ask(Ask::Show(Which::Id(id(1)))) {
        Reply::Shown(detail) => detail.summary.condition == Condition::Completed,
        other => panic!("shown, not {other:?}"),
    }
}

fn outcome(cluster: &mut Cluster, node: u64) -> Option<Outcome> {
    match cluster.node(node).ask(Ask::Show(Which::Id(id(1)))) {
        Reply::Shown(detail) => detail.outcome,
        other => panic!("shown, not {other:?}"),
    }
}

#[test]
fn the_end_and_its_proposal_take_one_exchange() {
    let mut cluster = one_call();
    answer(&mut cluster);
    cluster.run(MOMENT);
    assert!((1..=3).all(|node| has_ended(&mut cluster, node)));
    assert_eq!(cluster.count(kind::PAXOS_OF_HOLDERS), 2, "one proposal to each of the others");
}

/// The update that carries the end is lost, the proposal is not: were it agreed to, the decided run
/// would be on one disk alone.
#[test]
fn nobody_agrees_to_a_run_that_it_does_not_hold() {
    let mut cluster = one_call();
    cluster.mute = vec![(3, kind::REPLICA)];
    answer(&mut cluster);
    cluster.run(MOMENT);
    assert_eq!(cluster.count(kind::PAXOS_OF_HOLDERS), 2, "it arrived");
    assert!(!(1..=3).any(|node| has_ended(&mut cluster, node)));
    cluster.mute.clear();
    cluster.run(3 * SECOND);
    assert!((1..=3).all(|node| has_ended(&mut cluster, node)));
}

/// Seed 0, 4: "The agreement requires a majority of replicas to be operational." Whoever agrees is counted
/// once, however often that arrives.
#[test]
fn an_agreement_that_arrives_twice_makes_no_majority() {
    let program = program_of("one", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::new(5, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 5));
    cluster.run_past_linger();
    (1..=3).for_each(|node| cluster.kill(node));
    cluster.doubled = vec![kind::PAXOS, kind::PAXOS_OF_HOLDERS];
    let call = cluster.call_of(5);
    cluster.answer(5, call);
    cluster.run(2 * SECOND);
    assert!(0 < cluster.count(kind::PAXOS_OF_HOLDERS), "it was proposed");
    assert!(![4, 5].into_iter().any(|node| has_ended(&mut cluster, node)), "two of five agree");
    cluster.revive(1);
    cluster.run(3 * SECOND);
    assert!([1, 4, 5].into_iter().all(|node| has_ended(&mut cluster, node)));
}

/// The proposal is lost, the end is not.
#[test]
fn a_proposal_that_is_lost_is_made_again() {
    let mut cluster = one_call();
    cluster.mute = vec![(3, kind::PAXOS_OF_HOLDERS)];
    answer(&mut cluster);
    cluster.run(MOMENT);
    assert!(!(1..=3).any(|node| has_ended(&mut cluster, node)));
    cluster.mute.clear();
    cluster.run(3 * SECOND);
    assert!((1..=3).all(|node| has_ended(&mut cluster, node)));
}

/// Whoever asks again is told the same, so nobody is told the end of a run that may yet lose.
#[test]
fn what_a_run_gave_is_not_shown_before_it_is_decided_on() {
    let mut cluster = one_call();
    cluster.cut(3, &[1, 2]);
    answer(&mut cluster);
    cluster.run(3 * SECOND);
    assert_eq!(outcome(&mut cluster, 3), None, "it has ended here, and is not decided on");
    let call = cluster.call_of(2);
    cluster.answer(2, call);
    cluster.heal();
    cluster.run(3 * SECOND);
    let told = outcome(&mut cluster, 2);
    assert!(told.is_some());
    assert!((1..=3).all(|node| outcome(&mut cluster, node) == told));
}

/// A node that had come back from a snapshot was told to forget before it had looked at what it holds: it
/// forgot an execution that it still took for a running one. Seen as seed 81015920.
#[test]
fn whoever_is_told_to_forget_first_thing_in_a_new_life_knows_that_it_is_over() {
    let mut cluster = one_call();
    cluster.mute = vec![(3, kind::FORGETTING)];
    answer(&mut cluster);
    cluster.run(MOMENT);
    assert!(has_ended(&mut cluster, 1), "it is decided on, and not forgotten");
    let node = cluster.node(1);
    node.step(Input::SnapshotWanted { max: 100 });
    let position = node.engine.position();
    node.step(Input::Durable(position));
    cluster.kill(1);

    let coordinator = cluster.node(3);
    coordinator.now = coordinator.now.after(SECOND);
    coordinator.step(Input::AlarmRang);
    coordinator.work();
    let to_node_1 = |(to, message): &(NodeId, Vec<u8>)| {
        *to == NodeId(1) && kind::kinds_of(message) == [kind::FORGETTING]
    };
    let forget = coordinator.sent.iter().find(|sent| to_node_1(sent)).cloned();
    let (_, message) = forget.expect("whoever has not forgotten is told again");
    cluster.revive(1);
    cluster.node(1).step(Input::Received { from: NodeId(3), message });
    cluster.node(1).work();
    assert!(has_ended(&mut cluster, 1));
}

/// Whoever executes by itself asks once, when it comes back, where the execution is. Nobody could be
/// reached then, and whoever had the end decided on, and would have told it again and again, is gone: all
/// that it still hears is whether it is ready to forget. Seen as seed 81029786.
#[test]
fn whoever_lost_its_line_and_came_back_alone_hears_how_it_ended() {
    let program = program_of("pay", &[("a", Provider::Keyed), ("pay", Provider::Pivot)]);
    let mut cluster = Cluster::new(5, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::Active, 5));
    cluster.run_past_linger();
    // Node 2 is the first to come to the pivot: its line is decided on, and those of the others are lost.
    for node in [2, 1, 3, 4, 5] {
        let a = cluster.call_of(node);
        cluster.answer(node, a);
        cluster.run(MOMENT);
    }
    let open: Vec<_> = (1..=5).map(|node| cluster.open(node)).collect();
    assert_eq!(open.concat(), ["pay"], "one line goes on");
    cluster.kill(1);
    let pay = cluster.call_of(2);
    cluster.answer(2, pay);
    cluster.run(SECOND);
    assert!((2..=5).all(|node| has_ended(&mut cluster, node)));
    cluster.kill(2);

    cluster.cut(1, &[3, 4, 5]);
    cluster.revive(1);
    cluster.run(SECOND);
    cluster.heal();
    cluster.delivered.clear();
    cluster.run(5 * SECOND);
    assert!(cluster.delivered.contains(&(5, 1, kind::FORGETTING)), "it is asked to forget");
    assert!(has_ended(&mut cluster, 1));
    assert_eq!(outcome(&mut cluster, 1), outcome(&mut cluster, 5));
}

/// It is shown as running until its end is decided on; whoever cancels it twice is told what it waits for.
#[test]
fn whoever_cancels_what_has_ended_undecided_hears_what_it_waits_for() {
    let mut cluster = one_call();
    cluster.cut(3, &[1, 2]);
    cluster.run(SECOND);
    assert_eq!(cluster.node(3).ask(Ask::Cancel(Which::Id(id(1)))), Reply::DoneHere);
    let again = cluster.node(3).ask(Ask::Cancel(Which::Id(id(1))));
    let Reply::Refused(Refusal::NotPossible(reason)) = again else { panic!("{again:?}") };
    assert!(reason.contains("still have to agree on"), "{reason}");
}

/// The open call at node 3 is refused, once node 1 is gone: it has faulted, and not all know.
fn faulted_and_not_known_to_all() -> Cluster {
    let mut cluster = one_call();
    cluster.kill(1);
    let (execution, ticket, _) = cluster.call_of(3);
    let fault = Fault::new(FaultKind::Runtime, "no", "it says no").with_status(400);
    cluster.node(3).step(Input::Answered { execution, ticket, answer: Answer::Failed(fault) });
    cluster.run(3 * SECOND);
    assert_eq!(condition(&mut cluster, 3), Condition::Faulted);
    cluster
}

fn refusal(cluster: &mut Cluster, ask: Ask) -> String {
    match cluster.node(3).ask(ask) {
        Reply::Refused(Refusal::NotPossible(reason) | Refusal::NotYet(reason)) => reason,
        other => panic!("refused, not {other:?}"),
    }
}

/// Whoever does not know of the end may still have something to undo: until then nobody goes on from it.
#[test]
fn what_is_over_is_not_changed_before_all_know_of_it_and_that_is_said() {
    let mut cluster = faulted_and_not_known_to_all();
    let which = Which::Id(id(1));
    let retry = Ask::Retry(which.clone());
    let compensate = Ask::Compensate { which: which.clone(), reason: "no".to_owned() };
    let delete = Ask::Delete(which);
    for ask in [retry.clone(), compensate, delete.clone()] {
        let reason = refusal(&mut cluster, ask);
        let later = "before all nodes that hold it together know of its end; ask again then";
        assert!(reason.ends_with(later), "{reason}");
    }
    let deleted = cluster.node(3).ask(delete);
    assert!(
        matches!(deleted, Reply::Refused(Refusal::NotYet(_))),
        "worth asking again: {deleted:?}"
    );
    cluster.revive(1);
    cluster.run(10 * SECOND);
    assert_eq!(cluster.node(3).ask(retry), Reply::Done, "as was said");
}

#[test]
fn what_can_never_be_done_is_not_said_to_be_possible_when_all_know_of_the_end() {
    for is_cancelled in [true, false] {
        let mut cluster = one_call();
        cluster.kill(1);
        let which = Which::Id(id(1));
        match is_cancelled {
            // It is answered when a majority knows of it.
            true => drop(cluster.node(3).send(Ask::Cancel(which.clone()))),
            false => answer(&mut cluster),
        }
        cluster.run(3 * SECOND);
        let condition = condition(&mut cluster, 3);
        assert!(condition.is_end() && condition != Condition::Faulted, "{condition:?}");
        let reason = refusal(&mut cluster, Ask::Retry(which.clone()));
        let never = "it can not be retried, as only a faulted one can; start a new one";
        assert!(reason.ends_with(&format!("is {}: {never}", condition.word())), "{reason}");
        for ask in
            [Ask::Compensate { which: which.clone(), reason: "no".to_owned() }, Ask::Cancel(which)]
        {
            let reason = refusal(&mut cluster, ask);
            assert!(!reason.contains("before all nodes"), "{reason}");
        }
        cluster.revive(1);
        cluster.run(10 * SECOND);
        let reason = refusal(&mut cluster, Ask::Retry(Which::Id(id(1))));
        assert!(reason.ends_with(never), "{reason}");
    }
}

/// The answer a client was given never changes: not by rolling back what it was told has completed, either.
#[test]
fn what_has_completed_and_is_forgotten_by_all_can_not_be_rolled_back() {
    let mut cluster = one_call();
    answer(&mut cluster);
    cluster.run(3 * SECOND);
    let reason = "no".to_owned();
    let asked = cluster.node(3).ask(Ask::Compensate { which: Which::Id(id(1)), reason });
    let Reply::Refused(Refusal::NotPossible(reason)) = asked else { panic!("not {asked:?}") };
    assert!(reason.ends_with("is completed: it can not be rolled back"), "{reason}");
}

/// Seed 0, 4: "The last two termination phases require all replicas to be operational. However, this is not
/// critical as this phase is completely decoupled from the workflow client application." Here of the third;
/// and 4.4: "For saving space on stable storage any workflow execution with a begin and end record may be pruned
/// from the execution history", which one without an end record is not, however old it is.
#[test]
fn what_not_all_have_forgotten_is_told_and_not_pruned_and_what_all_have_is_and_stays_so() {
    let program = program_of("one", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::with(3, &program, |node| {
        let retention = Retention { age: 10 * SECOND, ..Retention::default() };
        EngineOptions { retention, ..EngineOptions::new(node) }
    });
    cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 3));
    cluster.run_past_linger();
    cluster.kill(1);
    answer(&mut cluster);
    cluster.run(60 * SECOND);
    for node in [2, 3] {
        assert!(has_ended(&mut cluster, node), "whoever asks node {node} is told");
        assert_eq!(cluster.node(node).show(id(1)).copies, None, "node {node} holds it yet");
    }
    cluster.revive(1);
    cluster.node(1).work();
    let late: Vec<_> = cluster.node(1).sent.iter().cloned().collect();
    assert!(!late.is_empty(), "it asks where the execution is");
    cluster.run(20 * SECOND);
    let is_there = |cluster: &mut Cluster, node: u64| {
        matches!(cluster.node(node).ask(Ask::Show(Which::Id(id(1)))), Reply::Shown(_))
    };
    assert!(!(1..=3).any(|node| is_there(&mut cluster, node)), "all have forgotten, and pruned it");
    for (to, message) in late {
        cluster.node(to.0).step(Input::Received { from: NodeId(1), message });
    }
    cluster.run(5 * SECOND);
    assert!(!(1..=3).any(|node| is_there(&mut cluster, node)), "a late word revives nothing");
}

/// One of those who held it changes it then, the same for all: so each must know who they were.
#[test]
fn who_held_it_together_is_known_when_all_have_forgotten_that_and_in_later_lives() {
    let mut cluster = one_call();
    assert_eq!(cluster.node(1).show(id(1)).copies, None, "they hold it");
    answer(&mut cluster);
    cluster.run(3 * SECOND);
    let copies = Some(vec![NodeId(3), NodeId(2), NodeId(1)]);
    for is_saved in [false, true] {
        let node = cluster.node(1);
        assert_eq!(node.show(id(1)).copies, copies, "saved: {is_saved}");
        if is_saved {
            node.step(Input::SnapshotWanted { max: 100 });
            let position = node.engine.position();
            node.step(Input::Durable(position));
            node.journal.clear();
        }
        cluster.kill(1);
        cluster.revive(1);
    }
    assert_eq!(cluster.node(1).show(id(1)).copies, copies);
}

/// A run of two calls side by side, one of which failed, so that it has come to an end while the other
/// is still open at node 3.
fn ended_beside_a_call(strategy: Strategy) -> (Cluster, (ExecutionId, Ticket, Request)) {
    let program = program_of("beside", &[("a", Provider::Keyless), ("b", Provider::Keyless)]);
    let mut program = std::sync::Arc::into_inner(program).expect("nobody else has it");
    let Kind::Sequence(branches) = program.tasks[0].kind.clone() else { panic!("a list") };
    program.tasks[0].kind = Kind::Fork { branches, compete: false };
    let program = std::sync::Arc::new(program);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(strategy, 3));
    cluster.run(SECOND);
    let (open, failing) = (cluster.call_of(3), cluster.call_of(3));
    let fault = Fault::new(FaultKind::Communication, "no", "it says no").with_status(400);
    let (execution, ticket, _) = failing;
    cluster.node(3).step(Input::Answered { execution, ticket, answer: Answer::Failed(fault) });
    (cluster, open)
}

fn condition(cluster: &mut Cluster, node: u64) -> Condition {
    cluster.node(node).show(id(1)).summary.condition
}

/// Whatever is decided on is a state that somebody holds. The answer would have made another one of it.
#[test]
fn what_is_answered_after_the_end_leaves_the_end_as_it_is() {
    for strategy in [Strategy::PartitionTolerant, Strategy::Passive] {
        for late in [Duration::ZERO, MOMENT, SECOND] {
            let (mut cluster, open) = ended_beside_a_call(strategy);
            cluster.run(late);
            cluster.answer(3, open);
            cluster.run(10 * SECOND);
            for node in 1..=3 {
                assert_eq!(
                    condition(&mut cluster, node),
                    Condition::Faulted,
                    "{strategy:?} {late:?}"
                );
                let held = cluster.node(node).engine.phases().count();
                assert_eq!(held, 0, "{strategy:?} {late:?}: all have forgotten it");
            }
        }
    }
}

/// The provider knows no keys: it would act again.
#[test]
fn what_was_answered_between_the_end_and_the_decision_is_not_asked_again_when_it_is_retried() {
    let (mut cluster, open) = ended_beside_a_call(Strategy::PartitionTolerant);
    cluster.answer(3, open);
    cluster.run(10 * SECOND);
    assert_eq!(cluster.node(3).ask(Ask::Retry(Which::Id(id(1)))), Reply::Done);
    cluster.run(SECOND);
    assert_eq!(cluster.open(3), ["b"]);
    assert!(cluster.node(3).show(id(1)).parked.is_empty());
}

/// The node that took over did so in a term that none of its lives has the number of.
#[test]
fn a_faulted_run_that_was_taken_over_can_be_tried_again_and_rolled_back() {
    for ask in [
        Ask::Retry(Which::Id(id(1))),
        Ask::Compensate { which: Which::Id(id(1)), reason: "a test".into() },
    ] {
        let program = program_of("two", &[("a", Provider::Keyed), ("b", Provider::Keyed)]);
        let mut cluster = Cluster::new(3, &program);
        cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 3));
        cluster.run_past_linger();
        answer(&mut cluster);
        cluster.run_past_linger();
        cluster.kill(3);
        cluster.run(5 * SECOND);
        let leader = (1..=2).find(|node| !cluster.open(*node).is_empty()).expect("one goes on");
        let (execution, ticket, _) = cluster.call_of(leader);
        let fault = Fault::new(FaultKind::Runtime, "no", "it says no");
        let failed = Answer::Failed(fault.with_status(400));
        cluster.node(leader).step(Input::Answered { execution, ticket, answer: failed });
        cluster.revive(3);
        cluster.run(20 * SECOND);
        assert_eq!(condition(&mut cluster, leader), Condition::Faulted);
        assert_eq!(cluster.node(leader).ask(ask.clone()), Reply::Done);
        cluster.run_answering(SECOND);
        assert!(condition(&mut cluster, leader).is_end());
        assert_ne!(condition(&mut cluster, leader), Condition::Faulted, "{ask:?}");
    }
}

/// Three nodes that hold a run of two calls. The highest was cut off and did both; the others came to their
/// end with the first one refused, which was decided on. Gives the key by which the second call was asked for.
fn faulted_beside_a_lost_line() -> (Cluster, u64, OperationKey) {
    let program = program_of("two", &[("a", Provider::Keyed), ("b", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 3));
    cluster.run_past_linger();
    cluster.cut(3, &[1, 2]);
    let first = cluster.call_of(3);
    cluster.answer(3, first);
    cluster.run(MOMENT);
    let second = cluster.call_of(3);
    let key = second.2.key;
    cluster.answer(3, second);
    cluster.run(5 * SECOND);
    let leader = (1..=2).find(|node| !cluster.open(*node).is_empty()).expect("one goes on");
    let (execution, ticket, _) = cluster.call_of(leader);
    let fault = Fault::new(FaultKind::Runtime, "no", "it says no");
    let answer = Answer::Failed(fault.with_status(400));
    cluster.node(leader).step(Input::Answered { execution, ticket, answer });
    cluster.run(SECOND);
    assert_eq!(condition(&mut cluster, leader), Condition::Faulted);
    cluster.heal();
    let undone = cluster.run_answering(20 * SECOND);
    assert!(undone.contains(&(3, "undo b".to_owned())), "{undone:?}");
    (cluster, leader, key)
}

/// Found by worlds of given flows: the provider only answered again, and the run was called completed though
/// the call had been undone with the line that was lost.
#[test]
fn what_goes_on_after_its_end_asks_for_nothing_by_a_key_of_a_lost_line() {
    let (mut cluster, leader, key) = faulted_beside_a_lost_line();
    assert_eq!(cluster.node(leader).ask(Ask::Retry(Which::Id(id(1)))), Reply::Done);
    cluster.run(SECOND);
    let first = cluster.call_of(leader);
    cluster.answer(leader, first);
    cluster.run(SECOND);
    assert_eq!(cluster.open(leader), ["b"]);
    let (execution, ticket, request) = cluster.call_of(leader);
    assert_ne!(request.key, key);
    // What this run itself asked for is the same operation when it is asked for again after one more end.
    let fault = Fault::new(FaultKind::Communication, "no answer", "the network failed");
    let answer = Answer::Unknown(fault);
    cluster.node(leader).step(Input::Answered { execution, ticket, answer });
    cluster.run(SECOND);
    assert_eq!(condition(&mut cluster, leader), Condition::Faulted);
    assert_eq!(cluster.node(leader).ask(Ask::Retry(Which::Id(id(1)))), Reply::Done);
    cluster.run(SECOND);
    assert_eq!(cluster.call_of(leader).2.key, request.key);
}

fn parked(cluster: &mut Cluster, node: u64) -> usize {
    cluster.node(node).show(id(1)).parked.len()
}

fn compensate(cluster: &mut Cluster, node: u64) {
    let ask = Ask::Compensate { which: Which::Id(id(1)), reason: "a test".into() };
    assert_eq!(cluster.node(node).ask(ask), Reply::Done);
    cluster.run(SECOND);
}

/// A person finds out that the call which was open at the end had happened.
fn it_was_done(cluster: &mut Cluster, node: u64) -> Vec<(u64, String)> {
    let filter = ParkedFilter { which: Some(Which::Id(id(1))), ..ParkedFilter::default() };
    let ask = Ask::Resolve { filter, resolution: Resolution::Done(driver::text("a")) };
    let told = cluster.node(node).ask(ask);
    assert!(matches!(&told, Reply::Resolved(items) if items.len() == 1), "{told:?}");
    cluster.run_answering(2 * SECOND)
}

/// The provider knows no keys, and nobody is left who could find out about it or undo it later.
#[test]
fn a_call_that_was_open_at_the_end_waits_for_a_person_when_the_run_is_rolled_back() {
    for strategy in [Strategy::PartitionTolerant, Strategy::Passive] {
        for node in 1..=3 {
            for restarts in [false, true] {
                let (mut cluster, open) = ended_beside_a_call(strategy);
                cluster.run(10 * SECOND);
                assert!((1..=3).all(|node| cluster.node(node).engine.phases().count() == 0));
                // Nobody who could go on hears of it.
                cluster.answer(3, open);
                compensate(&mut cluster, node);
                if restarts {
                    cluster.kill(node);
                    cluster.revive(node);
                    cluster.run(SECOND);
                }
                assert_eq!(condition(&mut cluster, node), Condition::Compensating);
                assert_eq!(parked(&mut cluster, node), 1, "{strategy:?} {node}");
                let undone = it_was_done(&mut cluster, node);
                assert_eq!(undone, [(node, "undo a".to_owned())], "{strategy:?}");
                assert_eq!(condition(&mut cluster, node), Condition::Compensated);
            }
        }
    }
}

/// What came before all had forgotten is known where it came.
#[test]
fn a_call_that_was_answered_after_the_end_is_undone_where_it_is_known_and_asked_about_elsewhere() {
    for node in 1..=3 {
        let (mut cluster, open) = ended_beside_a_call(Strategy::PartitionTolerant);
        cluster.answer(3, open);
        cluster.run(10 * SECOND);
        let ask = Ask::Compensate { which: Which::Id(id(1)), reason: "a test".into() };
        assert_eq!(cluster.node(node).ask(ask), Reply::Done);
        let mut undone = cluster.run_answering(SECOND);
        assert_eq!(parked(&mut cluster, node), usize::from(node != 3));
        if node != 3 {
            undone.extend(it_was_done(&mut cluster, node));
        }
        assert_eq!(undone, [(node, "undo a".to_owned())]);
        assert_eq!(condition(&mut cluster, node), Condition::Compensated);
    }
}

/// Its author led again from the end, and took the call for one that whoever goes on leaves to it; but nobody goes on
/// from an end before all have forgotten, and then it is whoever does that answers for it.
#[test]
fn a_call_that_was_open_at_the_end_is_asked_about_once_though_its_author_died() {
    for strategy in [Strategy::PartitionTolerant, Strategy::Passive] {
        let (mut cluster, _) = ended_beside_a_call(strategy);
        let decisions = [kind::PAXOS, kind::PAXOS_OF_HOLDERS];
        let mute = (1..=3).flat_map(|node| decisions.map(|kind| (node, kind)));
        cluster.mute = mute.collect();
        cluster.run_past_linger();
        (1..=3).for_each(|node| cluster.kill(node));
        cluster.mute.clear();
        (1..=3).for_each(|node| cluster.revive(node));
        cluster.run(20 * SECOND);
        for node in 1..=3 {
            assert_eq!(condition(&mut cluster, node), Condition::Faulted, "{strategy:?}");
            assert_eq!(parked(&mut cluster, node), 0, "{strategy:?} {node}: nobody is asked yet");
            assert_eq!(cluster.node(node).engine.phases().count(), 0, "{strategy:?} {node}");
        }
        compensate(&mut cluster, 2);
        assert_eq!([1, 2, 3].map(|node| parked(&mut cluster, node)), [0, 1, 0]);
        assert_eq!(it_was_done(&mut cluster, 2), [(2, "undo a".to_owned())]);
        assert_eq!(condition(&mut cluster, 2), Condition::Compensated);
    }
}
