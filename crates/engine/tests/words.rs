//! What nodes that hold an execution together say in one message: it is one step and one record at
//! whoever hears it, and what does not belong together is not taken together.

mod cluster;
mod driver;

use std::time::Duration;

use cluster::{Cluster, Provider, kind, program_of};
use driver::id;
use outlast_engine::{Ask, Condition, Input, Reply, StartAsk, Strategy, Survival};
use outlast_lineage::NodeId;

const MOMENT: Duration = Duration::from_millis(5);
const SECOND: Duration = Duration::from_secs(1);

fn one_call(strategy: Strategy) -> Cluster {
    let program = program_of("one", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(strategy, 3));
    cluster
}

fn answer(cluster: &mut Cluster) {
    let call = cluster.call_of(3);
    cluster.answer(3, call);
}

fn has_completed(cluster: &mut Cluster) -> bool {
    (1..=3).all(|node| cluster.node(node).show(id(1)).summary.condition == Condition::Completed)
}

#[test]
fn an_end_and_what_follows_from_it_is_one_record_at_a_backup_and_forgetting_is_another() {
    let mut cluster = one_call(Strategy::PartitionTolerant);
    cluster.run_past_linger();
    let before = cluster.node(1).journal.len();
    answer(&mut cluster);
    cluster.run(MOMENT);
    assert!(has_completed(&mut cluster));
    assert_eq!(cluster.node(1).journal.len(), before + 2);
}

#[test]
fn that_it_holds_an_execution_is_said_by_a_backup_if_somebody_waits_for_that() {
    for (strategy, said) in [(Strategy::PartitionTolerant, 0), (Strategy::Passive, 2)] {
        let mut cluster = one_call(strategy);
        cluster.run_past_linger();
        assert_eq!(cluster.count(kind::BEGIN), 2, "{strategy:?}");
        assert_eq!(cluster.count(kind::HOLDS), said, "{strategy:?}");
        // Whoever speaks of it in any other way is not told of it again.
        cluster.run(SECOND);
        assert_eq!(cluster.count(kind::BEGIN), 2, "{strategy:?}");
    }
}

#[test]
fn a_beginning_that_is_lost_is_told_again_and_that_is_confirmed() {
    let mut cluster = one_call(Strategy::PartitionTolerant);
    cluster.mute = vec![(3, kind::BEGIN), (3, kind::REPLICA)];
    cluster.run(MOMENT);
    assert_eq!(cluster.count(kind::BEGIN), 0);
    cluster.mute.clear();
    cluster.run(SECOND);
    assert_eq!((cluster.count(kind::BEGIN), cluster.count(kind::HOLDS)), (2, 2));
    answer(&mut cluster);
    cluster.run(SECOND);
    assert!(has_completed(&mut cluster));
}

/// A state is taken up once in a step: were it twice, the record would have lost one of the two.
#[test]
fn a_second_word_between_replicas_and_all_that_follows_is_not_taken() {
    let mut cluster = one_call(Strategy::PartitionTolerant);
    cluster.run_past_linger();
    answer(&mut cluster);
    cluster.node(3).work();
    let position = cluster.node(3).engine.position();
    cluster.node(3).step(Input::Durable(position));
    let sent = std::mem::take(&mut cluster.node(3).sent);
    let (_, whole) = sent.iter().find(|(to, _)| *to == NodeId(1)).expect("node 1 is told");
    assert_eq!(kind::kinds_of(whole), [kind::REPLICA, kind::PAXOS_OF_HOLDERS]);
    let twice = kind::twice(whole, kind::REPLICA);
    assert_eq!(kind::kinds_of(&twice), [kind::REPLICA, kind::REPLICA, kind::PAXOS_OF_HOLDERS]);
    let (strange, records) =
        (cluster.node(1).engine.counters().strange_messages, cluster.node(1).journal.len());
    cluster.node(1).step(Input::Received { from: NodeId(3), message: twice });
    assert_eq!(cluster.node(1).engine.counters().strange_messages, strange + 1);
    assert_eq!(
        cluster.node(1).journal.len(),
        records + 1,
        "the state is taken up, and nothing else"
    );
    cluster.run(SECOND);
    assert!(has_completed(&mut cluster));
}

/// Nobody becomes a replica because a node says so that is none itself.
#[test]
fn a_beginning_is_taken_from_those_only_who_hold_it() {
    let program = program_of("one", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::new(4, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 3));
    let leader = (1..=4).find(|node| !cluster.node(*node).sent.is_empty()).expect("it is started");
    let is_begin = |message: &[u8]| kind::kinds_of(message).contains(&kind::BEGIN);
    let mut told = std::mem::take(&mut cluster.node(leader).sent);
    told.retain(|(_, message)| is_begin(message));
    let [(NodeId(backup), begin), (NodeId(other), _)] = told.make_contiguous() else {
        panic!("two are told, not {}", told.len())
    };
    let stranger = (1..=4).find(|node| ![leader, *backup, *other].contains(node)).unwrap();
    for (from, records) in [(stranger, 0), (leader, 1)] {
        let before = cluster.node(*backup).journal.len();
        let (from, message) = (NodeId(from), begin.clone());
        cluster.node(*backup).step(Input::Received { from, message });
        assert_eq!(cluster.node(*backup).journal.len(), before + records, "from {from:?}");
    }
}

/// Nobody writes down who else holds an execution: whoever comes back finds it out again before it says
/// that enough do. Seen as seeds 5100285 and 5138863: a start was acknowledged that one disk had, and lost.
#[test]
fn whoever_comes_back_does_not_take_it_that_others_hold_an_execution() {
    let program = program_of("one", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.cut(3, &[1, 2]);
    let Ask::Start(start) = cluster.start_with(&program, id(1), "input") else { unreachable!() };
    let survival = Some(Survival::new(Strategy::Passive, 3));
    let start = Ask::Start(Box::new(StartAsk { survival, ..*start }));
    let first = cluster.node(3).send(start.clone());
    cluster.run(SECOND);
    assert!(!cluster.node(3).replies.contains_key(&first), "nobody else holds it");
    cluster.kill(3);
    cluster.revive(3);
    let again = cluster.node(3).send(start);
    cluster.run(SECOND);
    assert!(!cluster.node(3).replies.contains_key(&again), "still nobody else holds it");
    cluster.heal();
    cluster.run(SECOND);
    let reply = cluster.node(3).replies.get(&again);
    assert!(matches!(reply, Some(Reply::Started { new: false, .. })), "{reply:?}");
}
