//! Most of the nodes that hold an execution are lost for good: those that are left go on with what they know, and
//! decide together how it ends.

mod cluster;
mod driver;

use std::time::Duration;

use cluster::{Cluster, Provider, kind, program_of};
use driver::id;
use outlast_engine::{Ask, Condition, Input, Refusal, Reply, Strategy, Survival, Which};
use outlast_lineage::NodeId;

const SECOND: Duration = Duration::from_secs(1);
const STRATEGIES: [Strategy; 3] =
    [Strategy::PartitionTolerant, Strategy::Passive, Strategy::Active];

/// Nodes that hold an execution of two calls, of which the first is under way at the highest.
fn held_by(nodes: u64, strategy: Strategy, second: Provider) -> Cluster {
    let program = program_of("flow", &[("a", Provider::Keyed), ("b", second)]);
    let mut cluster = Cluster::new(nodes, &program);
    cluster.start(&program, id(1), Survival::new(strategy, nodes as usize));
    cluster.run(SECOND);
    cluster
}

fn condition(cluster: &mut Cluster, node: u64) -> Condition {
    cluster.node(node).show(id(1)).summary.condition
}

fn standstill(cluster: &mut Cluster, node: u64) -> Option<String> {
    cluster.node(node).show(id(1)).summary.holders.and_then(|holders| holders.standstill)
}

fn names(calls: &[(u64, String)]) -> Vec<(u64, &str)> {
    calls.iter().map(|(node, name)| (*node, name.as_str())).collect()
}

/// It was held for ever: nothing could be decided on, and it could not even be deleted.
#[test]
fn the_last_of_three_comes_to_an_end_whether_it_led_or_not() {
    for strategy in STRATEGIES {
        for last in [1, 3] {
            let mut cluster = held_by(3, strategy, Provider::Keyed);
            let others: Vec<u64> = (1..=3).filter(|node| *node != last).collect();
            others.iter().for_each(|other| cluster.lose(*other));
            let calls = cluster.run_answering(10 * SECOND);
            assert_eq!(names(&calls), [(last, "a"), (last, "b")], "{strategy:?} {last}");
            assert_eq!(condition(&mut cluster, last), Condition::Completed, "{strategy:?} {last}");
            let delete = Ask::Delete(Which::Id(id(1)));
            assert_eq!(cluster.node(last).ask(delete), Reply::Done, "{strategy:?} {last}");
        }
    }
}

/// One that is only away may come back with another run.
#[test]
fn the_last_of_three_waits_while_another_one_may_come_back() {
    for strategy in STRATEGIES {
        let mut cluster = held_by(3, strategy, Provider::Keyed);
        cluster.kill(1);
        cluster.kill(2);
        cluster.run_answering(5 * SECOND);
        assert_eq!(condition(&mut cluster, 3), Condition::Running, "{strategy:?}");
        assert!(standstill(&mut cluster, 3).is_some(), "{strategy:?}");
        // The first is given up, and then the second.
        for left in [vec![2, 3], vec![3]] {
            assert_eq!(condition(&mut cluster, 3), Condition::Running, "{strategy:?}");
            let known = left.into_iter().map(NodeId).collect();
            cluster.node(3).step(Input::PeersKnown(known));
            cluster.run_answering(5 * SECOND);
        }
        assert_eq!(condition(&mut cluster, 3), Condition::Completed, "{strategy:?}");
    }
}

/// Neither may decide without the other: it might have heard of something else.
#[test]
fn two_of_five_that_are_left_end_it_together_and_not_apart() {
    for strategy in STRATEGIES {
        let mut cluster = held_by(5, strategy, Provider::Keyed);
        [1, 3, 5].into_iter().for_each(|node| cluster.lose(node));
        cluster.cut(2, &[4]);
        cluster.run_answering(10 * SECOND);
        let both = |cluster: &mut Cluster| [2, 4].map(|node| condition(cluster, node));
        assert_eq!(both(&mut cluster), [Condition::Running; 2], "{strategy:?}");
        cluster.heal();
        cluster.run_answering(20 * SECOND);
        assert_eq!(both(&mut cluster), [Condition::Completed; 2], "{strategy:?}");
    }
}

/// A pivot waits for a decision, and whoever is left makes that alone.
#[test]
fn the_last_of_three_makes_a_pivot() {
    for strategy in [Strategy::PartitionTolerant, Strategy::Passive] {
        let mut cluster = held_by(3, strategy, Provider::Pivot);
        let first = cluster.call_of(3);
        cluster.kill(1);
        cluster.kill(2);
        cluster.answer(3, first);
        cluster.run(5 * SECOND);
        assert_eq!(cluster.open(3), [""; 0], "{strategy:?}: it waits for a majority");
        cluster.lose(1);
        assert_eq!(names(&cluster.run_answering(5 * SECOND)), [(3, "b")], "{strategy:?}");
        assert_eq!(condition(&mut cluster, 3), Condition::Completed, "{strategy:?}");
    }
}

/// That others are lost is not written down with the execution: it is said again in every life.
#[test]
fn the_last_of_three_comes_to_an_end_in_another_life() {
    for strategy in STRATEGIES {
        let mut cluster = held_by(3, strategy, Provider::Keyed);
        cluster.kill(1);
        cluster.kill(2);
        cluster.run_answering(5 * SECOND);
        cluster.kill(3);
        cluster.revive(3);
        cluster.lose(1);
        cluster.run_answering(10 * SECOND);
        assert_eq!(condition(&mut cluster, 3), Condition::Completed, "{strategy:?}");
    }
}

/// Two nodes decide on an end and tell a third one that they did, but not which it was; then they are lost for good.
fn without_its_end(strategy: Strategy) -> Cluster {
    let mut cluster = held_by(3, strategy, Provider::Keyless);
    cluster.cut(1, &[2, 3]);
    cluster.run_answering(5 * SECOND);
    assert_eq!(condition(&mut cluster, 3), Condition::Completed);
    // What it asks of the others is lost, and what they ask it to agree to is not.
    cluster.mute = vec![(1, kind::REPLICA)];
    cluster.heal();
    cluster.run(3 * SECOND);
    cluster
}

fn end_is_missing(cluster: &mut Cluster, node: u64) -> bool {
    cluster.node(node).show(id(1)).summary.holders.is_some_and(|it| it.end_is_missing)
}

/// It may have been told by those that are lost: any end that it was given now might be another one.
#[test]
fn an_end_that_is_lost_with_those_who_had_it_is_given_up_when_a_person_says_so() {
    for strategy in [Strategy::PartitionTolerant, Strategy::Passive] {
        let mut cluster = without_its_end(strategy);
        let give_up = || Ask::GiveUp(Which::Id(id(1)));
        let early = cluster.node(1).ask(give_up());
        assert!(matches!(early, Reply::Refused(_)), "{strategy:?}: they have it: {early:?}");
        cluster.lose(2);
        cluster.lose(3);
        cluster.run(10 * SECOND);
        assert_eq!(condition(&mut cluster, 1), Condition::Running, "{strategy:?}");
        assert!(end_is_missing(&mut cluster, 1), "{strategy:?}");
        let told = standstill(&mut cluster, 1).expect("it stands still");
        assert!(
            told.starts_with("how it ended was decided with nodes that were removed"),
            "{told}"
        );
        let deleted = cluster.node(1).ask(Ask::Delete(Which::Id(id(1))));
        assert!(matches!(deleted, Reply::Refused(_)), "nobody deletes it by mistake: {deleted:?}");

        let waiting = cluster.node(1).send(Ask::Wait(Which::Id(id(1))));
        assert_eq!(cluster.node(1).ask(give_up()), Reply::Done, "{strategy:?}");
        let forgotten = Reply::Refused(Refusal::Forgotten(id(1).to_string()));
        assert_eq!(cluster.node(1).replies.get(&waiting), Some(&forgotten), "{strategy:?}");
        for _ in 0..2 {
            cluster.run(5 * SECOND);
            assert_eq!(cluster.node(1).ask(Ask::Show(Which::Id(id(1)))), forgotten);
            assert_eq!(cluster.node(1).ask(give_up()), forgotten, "once is enough");
            cluster.node(1).engine.assert_invariants();
            cluster.kill(1);
            cluster.revive(1);
        }
    }
}

/// Its lost line goes first: what is left of an execution without it would be undone by nobody.
#[test]
fn the_lost_lines_of_what_is_given_up_go_with_it_whenever_the_node_dies() {
    let calls = ["a", "b", "c"].map(|name| (name, Provider::Keyless));
    let program = program_of("flow", &calls);
    for dies_after in 0..4 {
        let mut cluster = Cluster::new(3, &program);
        cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 3));
        cluster.run(SECOND);
        // Both go on, the first of them less far.
        cluster.cut(1, &[2, 3]);
        cluster.run(5 * SECOND);
        for node in [1, 3, 3] {
            let call = cluster.call_of(node);
            cluster.answer(node, call);
            cluster.run(SECOND);
        }
        cluster.heal();
        cluster.run(5 * SECOND);
        assert!(2 <= cluster.node(1).engine.extent(), "it has a lost line");
        cluster.cut(1, &[2, 3]);
        let call = cluster.call_of(3);
        assert_eq!(cluster.answer(3, call), "c");
        cluster.run(SECOND);
        cluster.mute = vec![(1, kind::REPLICA)];
        cluster.heal();
        cluster.run(3 * SECOND);
        cluster.lose(2);
        cluster.lose(3);
        cluster.run(SECOND);
        assert!(end_is_missing(&mut cluster, 1));

        cluster.node(1).send(Ask::GiveUp(Which::Id(id(1))));
        cluster.dies_after = (0 < dies_after).then_some((1, dies_after));
        cluster.run(SECOND);
        if cluster.is_down(1) {
            cluster.revive(1);
            cluster.lose(2);
        }
        cluster.run(SECOND);
        let again = cluster.node(1).ask(Ask::GiveUp(Which::Id(id(1))));
        let forgotten = Reply::Refused(Refusal::Forgotten(id(1).to_string()));
        assert!(again == Reply::Done || again == forgotten, "{dies_after}: {again:?}");
        assert_eq!(cluster.node(1).engine.extent(), 0, "{dies_after}: nothing is left of it");
        cluster.node(1).engine.assert_invariants();
    }
}
