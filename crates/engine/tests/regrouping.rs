//! Two groups that hold one execution: it was asked for on both sides of a cut, and one of its holders was
//! replaced meanwhile. The group that cannot decide any more joins the one that has decided.

mod cluster;
mod driver;

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::{Cluster, Provider, program_of};
use driver::{id, start_of};
use outlast_engine::{Ask, Condition, Detail, Input, Reply, StartAsk, Strategy, Survival, Which};
use outlast_lineage::NodeId;
use outlast_workflow::Program;

const SECOND: Duration = Duration::from_secs(1);

fn knows(cluster: &mut Cluster, node: u64, others: &[u64]) {
    let others: BTreeSet<NodeId> = others.iter().copied().map(NodeId).collect();
    cluster.node(node).step(Input::PeersKnown(others));
}

fn start(cluster: &mut Cluster, program: &Program, node: u64, survival: &Survival) {
    let Ask::Start(ask) = start_of(program, id(1)) else { unreachable!() };
    let (given, survival) = (true, Some(survival.clone()));
    cluster.node(node).send(Ask::Start(Box::new(StartAsk { given, survival, ..*ask })));
}

fn shown(cluster: &mut Cluster, node: u64) -> Detail {
    match cluster.node(node).ask(Ask::Show(Which::Id(id(1)))) {
        Reply::Shown(detail) => *detail,
        other => panic!("shown, not {other:?}"),
    }
}

/// Node 3 is cut off and runs the execution by itself, for nodes 1, 2 and 3. Node 2 is lost for good, node 4
/// comes in its place, and is asked for the same id: nodes 1 and 4 run it for 1, 3 and 4, and decide on it.
fn two_groups(survival: &Survival) -> Cluster {
    let program = program_of("two", &[("a", Provider::Keyless), ("b", Provider::Keyless)]);
    let mut cluster = Cluster::new(4, &program);
    knows(&mut cluster, 4, &[]);
    (1..=3).for_each(|node| knows(&mut cluster, node, &[1, 2, 3]));
    cluster.cut(3, &[1, 2, 4]);
    cluster.run(2 * SECOND);
    start(&mut cluster, &program, 3, survival);
    cluster.run_answering(3 * SECOND);

    cluster.kill(2);
    knows(&mut cluster, 1, &[3, 4]);
    knows(&mut cluster, 4, &[1, 3]);
    cluster.run(2 * SECOND);
    start(&mut cluster, &program, 4, survival);
    let called = cluster.run_answering(3 * SECOND);
    assert_eq!(called, [(4, "a".to_owned()), (4, "b".to_owned())]);
    assert_eq!(shown(&mut cluster, 4).summary.condition, Condition::Completed);
    let (first, second) = (shown(&mut cluster, 3), shown(&mut cluster, 4));
    assert_ne!(members(&first), members(&second), "there are two groups");
    cluster
}

fn members(detail: &Detail) -> Option<Vec<NodeId>> {
    detail.summary.holders.as_ref().map(|holders| holders.members.clone())
}

fn meet(cluster: &mut Cluster) {
    cluster.heal();
    knows(cluster, 3, &[1, 4]);
}

/// All know one end, and nobody has anything left to do for it.
fn is_over(cluster: &mut Cluster) {
    let ends = [1, 3, 4].map(|node| shown(cluster, node));
    for end in &ends {
        assert_eq!(end.summary.condition, Condition::Completed);
        assert_eq!(end.outcome, ends[0].outcome);
        assert_eq!(members(end), None, "it is forgotten that several held it");
    }
}

fn node_3_undoes_its_run(cluster: &mut Cluster) {
    let called = cluster.run_answering(10 * SECOND);
    assert_eq!(called, [(3, "undo b".to_owned()), (3, "undo a".to_owned())]);
    is_over(cluster);
}

#[test]
fn what_a_group_did_that_cannot_decide_is_undone_once_another_one_has_decided() {
    let mut cluster = two_groups(&Survival::new(Strategy::PartitionTolerant, 3));
    assert_eq!(shown(&mut cluster, 3).summary.condition, Condition::Running);
    meet(&mut cluster);
    node_3_undoes_its_run(&mut cluster);
}

#[test]
fn a_group_that_never_had_a_majority_did_nothing_and_joins_the_other() {
    let mut cluster = two_groups(&Survival::new(Strategy::Passive, 3));
    meet(&mut cluster);
    assert_eq!(cluster.run_answering(10 * SECOND), [], "nothing is called, and nothing undone");
    is_over(&mut cluster);
}

/// It is killed when it has joined the others, and has yet to undo what it did.
#[test]
fn whoever_joined_another_group_still_knows_in_its_next_life() {
    let mut cluster = two_groups(&Survival::new(Strategy::PartitionTolerant, 3));
    meet(&mut cluster);
    let joined = |cluster: &mut Cluster| members(&shown(cluster, 3)) == members(&shown(cluster, 4));
    let mut waited = 0;
    while !joined(&mut cluster) {
        waited += 1;
        assert!(waited < 5000, "it joins them");
        cluster.run(Duration::from_millis(1));
    }
    cluster.kill(3);
    cluster.revive(3);
    knows(&mut cluster, 3, &[1, 4]);
    assert!(joined(&mut cluster));
    node_3_undoes_its_run(&mut cluster);
}

/// Of a cluster that only grew, the first group may still decide: it is left to itself.
#[test]
fn a_group_that_may_still_decide_joins_nobody() {
    let mut cluster = two_groups(&Survival::new(Strategy::PartitionTolerant, 3));
    cluster.heal();
    cluster.revive(2);
    knows(&mut cluster, 2, &[1, 3, 4]);
    knows(&mut cluster, 3, &[1, 2, 4]);
    let before = members(&shown(&mut cluster, 3));
    assert_eq!(cluster.run_answering(10 * SECOND), [], "nothing that it did is undone");
    let after = shown(&mut cluster, 3);
    assert_eq!(after.summary.condition, Condition::Completed, "nodes 2 and 3 decide");
    assert!([None, before].contains(&members(&after)));
}
