//! The answer to a pivot comes to the node that called, when another one leads: whoever leads is told, and no
//! person is asked. Nothing is told that is of no use, and nothing is taken that is not the answer to that very call.

mod cluster;
mod driver;

use std::sync::Arc;
use std::time::Duration;

use cluster::people::{parked, resolve};
use cluster::{Cluster, Provider, kind, program_of};
use driver::{id, text, wait};
use outlast_engine::{Ask, Condition, Input, Phase, Strategy, Survival, Which};
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::program::Kind;
use outlast_workflow::{Answer, Fault, FaultKind, Request, Resolution, TaskId, Ticket};

const SECOND: Duration = Duration::from_secs(1);
const STRATEGIES: [Strategy; 2] = [Strategy::Passive, Strategy::PartitionTolerant];

type Call = (ExecutionId, Ticket, Request);

/// When the answer comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comes {
    /// While the node that called is cut off, and leads for itself.
    BeforeHealing,
    /// When it follows whoever went on.
    AfterHealing,
}

fn names(calls: &[(u64, String)]) -> Vec<&str> {
    calls.iter().map(|(_, name)| name.as_str()).collect()
}

fn conditions(cluster: &mut Cluster) -> [Condition; 3] {
    [1, 2, 3].map(|node| cluster.node(node).show(id(1)).summary.condition)
}

fn leader_among(cluster: &mut Cluster, nodes: &[u64]) -> u64 {
    let leads = |node: &u64| cluster.node(*node).engine.phases().any(|it| it.1 == Phase::Leading);
    nodes.iter().copied().find(leads).expect("one goes on")
}

/// Three nodes; the third has made a pivot's call.
fn with_a_pivot(strategy: Strategy) -> Cluster {
    let calls = [("a", Provider::Keyed), ("pay", Provider::Pivot), ("b", Provider::Keyed)];
    let program = program_of("flow", &calls);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(strategy, 3));
    cluster.run_past_linger();
    let first = cluster.call_of(3);
    assert_eq!(cluster.answer(3, first), "a");
    cluster.run(SECOND);
    assert_eq!(cluster.open(3), ["pay"]);
    cluster
}

/// Three nodes; the third has made a pivot's call, and is cut off before that is answered. The others have
/// gone on, and parked it.
fn parked_elsewhere(strategy: Strategy) -> (Cluster, Call) {
    let mut cluster = with_a_pivot(strategy);
    let call = cluster.call_of(3);
    cluster.cut(3, &[1, 2]);
    cluster.run(3 * SECOND);
    let leader = leader_among(&mut cluster, &[1, 2]);
    assert_eq!(parked(&mut cluster, leader), 1);
    (cluster, call)
}

/// The same, and the third node follows whoever went on.
fn parked_at_its_leader(strategy: Strategy) -> (Cluster, Call, u64) {
    let (mut cluster, call) = parked_elsewhere(strategy);
    cluster.heal();
    cluster.run(3 * SECOND);
    let leader = leader_among(&mut cluster, &[1, 2]);
    assert_eq!([1, 2, 3].map(|node| parked(&mut cluster, node)), [1; 3]);
    (cluster, call, leader)
}

fn give(cluster: &mut Cluster, node: u64, (execution, ticket, _): Call, answer: Answer) {
    cluster.node(node).step(Input::Answered { execution, ticket, answer });
}

fn refusal(status: u16) -> Answer {
    let fault = Fault::new(FaultKind::Communication, "refused", "not today");
    Answer::Failed(fault.with_status(status))
}

/// What the third node has heard, as it tells it to whoever leads.
fn what_it_tells(cluster: &mut Cluster, call: Call) -> Vec<u8> {
    cluster.answer(3, call);
    let sent = std::mem::take(&mut cluster.node(3).sent);
    let told = sent.into_iter().find(|(_, message)| kind::kinds_of(message) == [kind::HEARD]);
    told.expect("it tells its leader").1
}

/// Nothing waits for a person, everyone has the end, and the pivot was made by nobody but the one who had.
fn has_completed(cluster: &mut Cluster, calls: &[(u64, String)], what: &str) {
    assert!(!names(calls).contains(&"pay"), "{what}: it is not made again: {calls:?}");
    assert_eq!(conditions(cluster), [Condition::Completed; 3], "{what}: {calls:?}");
    assert_eq!([1, 2, 3].map(|node| parked(cluster, node)), [0; 3], "{what}");
    assert_eq!(cluster.node(1).engine.phases().count(), 0, "{what}: all have forgotten it");
}

#[test]
fn who_went_on_is_told_of_an_answer_to_what_it_has_parked() {
    for strategy in STRATEGIES {
        for comes in [Comes::BeforeHealing, Comes::AfterHealing] {
            let (mut cluster, call) = parked_elsewhere(strategy);
            if comes == Comes::BeforeHealing {
                cluster.answer(3, call.clone());
                cluster.run(SECOND);
            }
            cluster.heal();
            if comes == Comes::AfterHealing {
                cluster.run(3 * SECOND);
                cluster.answer(3, call);
            }
            let calls = cluster.run_answering(10 * SECOND);
            has_completed(&mut cluster, &calls, &format!("{strategy:?} {comes:?}"));
            assert_eq!(cluster.count(kind::HEARD), 1, "{strategy:?} {comes:?}");
        }
    }
}

/// It goes on with what comes after the pivot, on a line that is lost then with what it did there.
#[test]
fn who_went_on_is_told_though_the_line_that_took_the_answer_was_lost_with_more() {
    let (mut cluster, call) = parked_elsewhere(Strategy::PartitionTolerant);
    cluster.answer(3, call);
    cluster.run(SECOND);
    assert_eq!(cluster.open(3), ["b"], "it goes on for itself");
    cluster.heal();
    let calls = cluster.run_answering(10 * SECOND);
    assert_eq!(names(&calls), ["b", "b"], "by the same key, on each line");
    has_completed(&mut cluster, &calls, "b");
}

/// A node that stood still is told of the new primary and of the answer at about the same time.
#[test]
fn an_answer_that_comes_before_what_the_new_primary_holds_is_told_when_that_has_come() {
    for strategy in STRATEGIES {
        let (mut cluster, call) = parked_elsewhere(strategy);
        // It hears of the other, and what it asks of it is lost.
        cluster.mute = vec![(3, kind::REPLICA)];
        cluster.heal();
        cluster.run(SECOND);
        assert_eq!(cluster.node(3).engine.phase_of(id(1)), Some(Phase::Following), "{strategy:?}");
        assert_eq!(parked(&mut cluster, 3), 0, "{strategy:?}: it holds what it did itself");
        cluster.answer(3, call);
        cluster.run(SECOND);
        assert_eq!(cluster.count(kind::HEARD), 0, "{strategy:?}");
        cluster.mute.clear();
        let calls = cluster.run_answering(20 * SECOND);
        has_completed(&mut cluster, &calls, &format!("{strategy:?}"));
    }
}

#[test]
fn what_was_heard_is_told_again_when_it_was_lost_and_no_more_when_it_was_taken() {
    for strategy in STRATEGIES {
        let (mut cluster, call, leader) = parked_at_its_leader(strategy);
        cluster.mute = vec![(3, kind::HEARD)];
        cluster.answer(3, call);
        cluster.run(5 * SECOND);
        assert_eq!(parked(&mut cluster, leader), 1, "{strategy:?}: it is lost");
        cluster.mute.clear();
        // Nobody answers the call that comes next, so that the run does not end.
        cluster.run(30 * SECOND);
        assert_eq!(parked(&mut cluster, leader), 0, "{strategy:?}");
        assert_eq!(cluster.open(leader), ["b"], "{strategy:?}");
        cluster.run(120 * SECOND);
        assert_eq!(cluster.count(kind::HEARD), 1, "{strategy:?}");
        let calls = cluster.run_answering(10 * SECOND);
        has_completed(&mut cluster, &calls, &format!("{strategy:?}"));
    }
}

#[test]
fn what_was_heard_and_comes_twice_is_taken_once() {
    for strategy in STRATEGIES {
        let (mut cluster, call, _) = parked_at_its_leader(strategy);
        cluster.doubled = vec![kind::HEARD];
        cluster.answer(3, call);
        let calls = cluster.run_answering(10 * SECOND);
        assert_eq!(names(&calls), ["b"], "{strategy:?}");
        has_completed(&mut cluster, &calls, &format!("{strategy:?}"));
    }
}

#[test]
fn what_a_person_has_said_before_counts() {
    let abandoned = Condition::Faulted;
    let said = [
        (Resolution::Done(text("paid")), vec!["b"], Condition::Completed),
        (Resolution::Abandon, vec![], abandoned),
        // A person wants it made again, and so it is: what the first call came to is the provider's affair.
        (Resolution::Retry, vec!["pay", "b"], Condition::Completed),
    ];
    for strategy in STRATEGIES {
        for (resolution, then, condition) in &said {
            let (mut cluster, call, leader) = parked_at_its_leader(strategy);
            let told = what_it_tells(&mut cluster, call);
            resolve(&mut cluster, leader, resolution.clone());
            cluster.run(SECOND);
            let records = cluster.node(leader).journal.len();
            cluster.node(leader).step(Input::Received { from: NodeId(3), message: told });
            let changed = cluster.node(leader).journal.len() - records;
            assert_eq!(changed, 0, "{strategy:?} {resolution:?}: it comes too late");
            let calls = cluster.run_answering(10 * SECOND);
            assert_eq!(names(&calls), *then, "{strategy:?} {resolution:?}");
            assert_eq!(conditions(&mut cluster), [*condition; 3], "{strategy:?} {resolution:?}");
            assert_eq!(cluster.count(kind::HEARD), 0, "{strategy:?}: it is not told any more");
        }
    }
}

/// The retried call waits for a person in its turn: the answer to the first one says nothing about it.
#[test]
fn the_answer_to_a_call_is_not_taken_for_that_to_a_later_one() {
    let (mut cluster, call, leader) = parked_at_its_leader(Strategy::Passive);
    let told = what_it_tells(&mut cluster, call);
    resolve(&mut cluster, leader, Resolution::Retry);
    cluster.run(SECOND);
    let (execution, ticket, _) = cluster.call_of(leader);
    let fault = Fault::new(FaultKind::Communication, "no answer", "the network failed");
    let answer = Answer::Unknown(fault);
    cluster.node(leader).step(Input::Answered { execution, ticket, answer });
    cluster.run(SECOND);
    assert_eq!(parked(&mut cluster, leader), 1);
    cluster.node(leader).step(Input::Received { from: NodeId(3), message: told });
    cluster.run(10 * SECOND);
    assert_eq!(parked(&mut cluster, leader), 1, "only a person knows");
    assert_eq!(cluster.count(kind::HEARD), 0);
}

#[test]
fn nobody_is_heard_on_a_call_but_who_made_it() {
    let (mut cluster, call, leader) = parked_at_its_leader(Strategy::Passive);
    let told = what_it_tells(&mut cluster, call);
    for from in [3 - leader, 9] {
        let message = told.clone();
        cluster.node(leader).step(Input::Received { from: NodeId(from), message });
        assert_eq!(parked(&mut cluster, leader), 1, "node {from}");
    }
    // Nor does who does not lead take it.
    let other = 3 - leader;
    let records = cluster.node(other).journal.len();
    cluster.node(other).step(Input::Received { from: NodeId(3), message: told.clone() });
    assert_eq!(cluster.node(other).journal.len(), records);
    cluster.node(leader).step(Input::Received { from: NodeId(3), message: told });
    assert_eq!(parked(&mut cluster, leader), 0);
}

/// It was lost until its receiver died: whoever goes on from there is told.
#[test]
fn who_leads_next_is_told_too() {
    for strategy in STRATEGIES {
        let (mut cluster, call) = made_by_the_second_highest(strategy);
        cluster.mute = vec![(4, kind::HEARD)];
        cluster.answer(4, call);
        cluster.run(SECOND);
        cluster.kill(3);
        cluster.run(5 * SECOND);
        assert_eq!(leader_among(&mut cluster, &[1, 2, 4, 5]), 5, "{strategy:?}");
        assert_eq!(parked(&mut cluster, 5), 1, "{strategy:?}");
        cluster.mute.clear();
        let calls = cluster.run_answering(40 * SECOND);
        assert_eq!(names(&calls), ["b"], "{strategy:?}");
        assert_eq!(conditions(&mut cluster)[0], Condition::Completed, "{strategy:?}");
    }
}

/// Five nodes; the fourth has made a pivot's call while the fifth was down, and was cut off. The third went on, and
/// all are back.
fn made_by_the_second_highest(strategy: Strategy) -> (Cluster, Call) {
    let calls = [("a", Provider::Keyed), ("pay", Provider::Pivot), ("b", Provider::Keyed)];
    let program = program_of("flow", &calls);
    let mut cluster = Cluster::new(5, &program);
    cluster.start(&program, id(1), Survival::new(strategy, 5));
    cluster.run(SECOND);
    cluster.kill(5);
    cluster.run(5 * SECOND);
    let first = cluster.call_of(4);
    assert_eq!(cluster.answer(4, first), "a");
    cluster.run(SECOND);
    assert_eq!(cluster.open(4), ["pay"]);
    let call = cluster.call_of(4);
    cluster.cut(4, &[1, 2, 3, 5]);
    cluster.run(5 * SECOND);
    cluster.revive(5);
    cluster.run(2 * SECOND);
    cluster.heal();
    cluster.run(5 * SECOND);
    assert_eq!(leader_among(&mut cluster, &[1, 2, 3, 4, 5]), 3);
    assert_eq!([1, 2, 3, 4, 5].map(|node| parked(&mut cluster, node)), [1; 5]);
    (cluster, call)
}

/// Whoever went on dies, and the node that made the call leads again, from where it was parked.
#[test]
fn who_made_the_call_takes_what_it_has_heard_when_it_leads_again() {
    for strategy in STRATEGIES {
        for comes in [Comes::BeforeHealing, Comes::AfterHealing] {
            let (mut cluster, call, leader) = parked_at_its_leader(strategy);
            cluster.mute = vec![(3, kind::HEARD)];
            if comes == Comes::BeforeHealing {
                cluster.answer(3, call.clone());
            }
            cluster.run(SECOND);
            cluster.kill(leader);
            cluster.run(5 * SECOND);
            if comes == Comes::AfterHealing {
                assert_eq!(parked(&mut cluster, 3), 1, "{strategy:?}");
                cluster.answer(3, call);
            }
            let calls = cluster.run_answering(5 * SECOND);
            assert_eq!(names(&calls), ["b"], "{strategy:?} {comes:?}");
            cluster.revive(leader);
            let more = cluster.run_answering(10 * SECOND);
            has_completed(&mut cluster, &more, &format!("{strategy:?} {comes:?}"));
        }
    }
}

/// What it heard is in memory only.
#[test]
fn who_was_restarted_has_nothing_to_tell_and_a_person_is_asked() {
    for strategy in STRATEGIES {
        let (mut cluster, call) = parked_elsewhere(strategy);
        cluster.answer(3, call);
        cluster.run(SECOND);
        cluster.kill(3);
        cluster.revive(3);
        cluster.heal();
        cluster.run_answering(20 * SECOND);
        let leader = leader_among(&mut cluster, &[1, 2]);
        assert_eq!(parked(&mut cluster, leader), 1, "{strategy:?}");
        resolve(&mut cluster, leader, Resolution::Done(text("paid")));
        let calls = cluster.run_answering(20 * SECOND);
        has_completed(&mut cluster, &calls, &format!("{strategy:?}"));
    }
}

/// It was the first time that anybody asked, so it did not happen, whatever the reason.
#[test]
fn that_it_was_refused_is_told_too() {
    for strategy in STRATEGIES {
        for status in [400, 503] {
            let (mut cluster, call, _) = parked_at_its_leader(strategy);
            give(&mut cluster, 3, call, refusal(status));
            let calls = cluster.run_answering(20 * SECOND);
            assert_eq!(names(&calls), [""; 0], "{strategy:?} {status}");
            assert_eq!(conditions(&mut cluster), [Condition::Faulted; 3], "{strategy:?} {status}");
            assert_eq!([1, 2, 3].map(|node| parked(&mut cluster, node)), [0; 3]);
        }
    }
}

#[test]
fn that_nothing_is_known_is_not_told() {
    let (mut cluster, call, leader) = parked_at_its_leader(Strategy::Passive);
    let fault = Fault::new(FaultKind::Communication, "no answer", "the network failed");
    give(&mut cluster, 3, call, Answer::Unknown(fault));
    cluster.run(60 * SECOND);
    assert_eq!((cluster.count(kind::HEARD), parked(&mut cluster, leader)), (0, 1));
}

/// An undo that must not be asked for again is parked like a pivot, and was decided on like one.
#[test]
fn what_became_of_an_undo_is_told_too() {
    for strategy in STRATEGIES {
        for answer in [Answer::Succeeded(text("undone")), refusal(400)] {
            let mut cluster = with_an_undo_under_way(strategy);
            let call = cluster.call_of(3);
            cluster.cut(3, &[1, 2]);
            cluster.run(3 * SECOND);
            let leader = leader_among(&mut cluster, &[1, 2]);
            assert_eq!(parked(&mut cluster, leader), 1, "{strategy:?}");
            let succeeds = matches!(answer, Answer::Succeeded(_));
            give(&mut cluster, 3, call, answer);
            cluster.run(SECOND);
            cluster.heal();
            let calls = cluster.run_answering(20 * SECOND);
            let again = if succeeds { vec![] } else { vec!["undo a"] };
            assert_eq!(names(&calls), again, "{strategy:?}");
            assert_eq!(conditions(&mut cluster), [Condition::Compensated; 3], "{strategy:?}");
            assert_eq!([1, 2, 3].map(|node| parked(&mut cluster, node)), [0; 3], "{strategy:?}");
        }
    }
}

/// Three nodes; the third has called to undo something, at a provider that knows no keys.
fn with_an_undo_under_way(strategy: Strategy) -> Cluster {
    let program = program_of("flow", &[("a", Provider::Keyless)]);
    let mut program = Arc::into_inner(program).expect("nobody else has it");
    let none = program.tasks.iter().find_map(|task| task.traits.idempotency.clone());
    let undo = program.tasks.iter_mut().find(|task| task.name == "undo a").expect("it is there");
    undo.traits.idempotency = none;
    let Kind::Sequence(order) = &mut program.tasks[0].kind else { panic!("a list") };
    order.push(TaskId(3));
    program.tasks.push(wait("an hour", "PT1H"));
    let program = Arc::new(program);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(strategy, 3));
    cluster.run_past_linger();
    let first = cluster.call_of(3);
    assert_eq!(cluster.answer(3, first), "a");
    cluster.run(SECOND);
    let reason = "a test".to_owned();
    cluster.node(3).send(Ask::Compensate { which: Which::Id(id(1)), reason });
    cluster.run(SECOND);
    assert_eq!(cluster.open(3), ["undo a"], "{strategy:?}");
    cluster
}

/// Nobody goes on in its place, so it takes its answer itself.
#[test]
fn where_every_node_executes_nothing_is_parked_and_nothing_told() {
    let calls = [("pay", Provider::Pivot), ("b", Provider::Keyed)];
    let program = program_of("flow", &calls);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::Active, 3));
    cluster.run(SECOND);
    let is_calling = |node: &u64| cluster.open(*node) == ["pay"];
    let calling = (1..=3).find(is_calling).expect("a line was decided on");
    let call = cluster.call_of(calling);
    let others: Vec<u64> = (1..=3).filter(|node| *node != calling).collect();
    cluster.cut(calling, &others);
    cluster.run(3 * SECOND);
    assert_eq!([1, 2, 3].map(|node| parked(&mut cluster, node)), [0; 3]);
    cluster.answer(calling, call);
    cluster.run(SECOND);
    cluster.heal();
    let calls = cluster.run_answering(10 * SECOND);
    has_completed(&mut cluster, &calls, "active");
    assert_eq!(cluster.count(kind::HEARD), 0);
}
