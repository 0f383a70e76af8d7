//! Nodes that are killed with kill -9: the primary in every phase of an execution, and all at once.

use std::time::Duration;

use outlast_node::fixture::ledger::{Entry, Kind};

use super::flows::{Line, Provider, from, last_number};
use super::nodes::Cluster;
use super::processes::{pause, until};
use super::sandbox::in_a_sandbox;

/// How many calls there are in a short line.
const STEPS: usize = 5;

#[test]
fn the_primary_is_killed_while_it_runs_agrees_and_forgets() {
    in_a_sandbox(|| {
        let mut cluster = Cluster::of(3);
        // In the middle; then after the last call was answered, sooner and later, while the nodes
        // agree on the run and then on forgetting it.
        running(&mut cluster);
        for (name, delay_ms) in
            [("agreed-0", 0), ("agreed-4", 4), ("agreed-12", 12), ("agreed-40", 40)]
        {
            at_the_end(&mut cluster, name, Duration::from_millis(delay_ms));
        }
    });
}

fn running(cluster: &mut Cluster) {
    cluster.answer_slowly();
    let line = Line::new("running", STEPS, Provider::Keyed);
    let execution = cluster.start(&line.document(), "partition-tolerant:3:1");
    line.until_done(cluster, 3);
    killed_and_back(cluster, &line, &execution);
    cluster.answer_at_once();
}

fn at_the_end(cluster: &mut Cluster, name: &'static str, delay: Duration) {
    let answered = cluster.ledger.traffic().answered;
    let line = Line::new(name, STEPS, Provider::Keyed);
    let execution = cluster.start(&line.document(), "partition-tolerant:3:1");
    until("the last call is answered", || {
        answered + STEPS as u64 <= cluster.ledger.traffic().answered
    });
    pause(delay);
    killed_and_back(cluster, &line, &execution);
}

/// Kills the primary; those who are left finish, and when it is back it says the same.
fn killed_and_back(cluster: &mut Cluster, line: &Line, execution: &str) {
    cluster.nodes[2].kill();
    cluster.completes(execution);
    cluster.nodes[2].start(None);
    cluster.all_connected();
    cluster.completes(execution);
    assert_eq!(line.one_run_remains(cluster), 0, "a provider that knows keys acted once");
}

/// Nobody is left to agree with: the others stand still from before the last answer on.
#[test]
fn the_primary_is_killed_while_it_waits_for_the_others_to_agree() {
    in_a_sandbox(|| {
        let mut cluster = Cluster::of(3);
        cluster.answer_after(Duration::from_millis(500));
        let line = Line::new("agreeing", STEPS, Provider::Keyed);
        let execution = cluster.start(&line.document(), "partition-tolerant:3:1");
        line.until_done(&cluster, STEPS);
        let (backups, primary) = cluster.nodes.split_at(2);
        backups.iter().for_each(|backup| backup.signal("STOP"));
        until("the last call is answered", || cluster.ledger.traffic().answered == STEPS as u64);
        pause(Duration::from_millis(200));
        assert_eq!(primary[0].show(&execution)["condition"], "running", "nobody agreed to the end");
        cluster.nodes[2].kill();
        cluster.nodes[..2].iter().for_each(|backup| backup.signal("CONT"));
        cluster.completes(&execution);
        cluster.nodes[2].start(None);
        cluster.all_connected();
        cluster.completes(&execution);
        assert_eq!(line.one_run_remains(&cluster), 0, "a provider that knows keys acted once");
    });
}

/// Forgetting takes all of them, and one stands still.
#[test]
fn the_primary_is_killed_while_it_waits_for_the_others_to_forget() {
    in_a_sandbox(|| {
        let mut cluster = Cluster::of(3);
        cluster.answer_slowly();
        let line = Line::new("forgetting", STEPS, Provider::Keyed);
        let execution = cluster.start(&line.document(), "partition-tolerant:3:1");
        line.until_done(&cluster, 2);
        cluster.nodes[0].signal("STOP");
        until("the run is decided on", || {
            cluster.nodes[2].show(&execution)["condition"] == "completed"
        });
        pause(Duration::from_millis(200));
        assert!(cluster.nodes[2].holds(&execution), "nobody forgets before all can");
        cluster.nodes[2].kill();
        cluster.nodes[0].signal("CONT");
        cluster.nodes[2].start(None);
        cluster.all_connected();
        cluster.completes(&execution);
        for node in &cluster.nodes {
            until("all have forgotten", || !node.holds(&execution));
        }
        assert_eq!(line.one_run_remains(&cluster), 0, "a provider that knows keys acted once");
    });
}

#[test]
fn whoever_undoes_is_killed_meanwhile_and_undoes_the_rest_when_it_is_back() {
    in_a_sandbox(|| killed_while_undoing(|undoing| undoing));
}

#[test]
fn whoever_won_is_killed_while_the_others_undo() {
    in_a_sandbox(|| killed_while_undoing(|undoing| if undoing == 2 { 1 } else { 2 }));
}

/// Two parts go on and meet again; a node is killed as soon as the first undo arrives.
fn killed_while_undoing(victim: impl Fn(usize) -> usize) {
    let mut cluster = Cluster::of(3);
    cluster.answer_slowly();
    let line = Line::new("line", 100, Provider::Keyless);
    let execution = cluster.start(&line.document(), "partition-tolerant:3:1");
    line.until_done(&cluster, 3);
    cluster.split(&[&[0, 1], &[2]]);
    let cut = last_number(&cluster.entries());
    let ips: Vec<_> = cluster.nodes.iter().map(|node| node.ip()).collect();
    line.until_done_by(&cluster, &ips[..2], cut, 5);
    line.until_done_by(&cluster, &ips[2..], cut, 5);
    cluster.heal();
    let mut undoing = None;
    until("something is undone", || {
        let undoes = |entry: &Entry| entry.kind == Kind::Undo && Some(cut) < entry.of;
        let first = cluster.entries().into_iter().find(undoes);
        undoing = first.as_ref().and_then(from);
        undoing.is_some()
    });
    let undoing = ips.iter().position(|ip| Some(*ip) == undoing).unwrap();
    let victim = victim(undoing);
    cluster.nodes[victim].kill();
    cluster.answer_at_once();
    cluster.nodes[victim].start(None);
    cluster.all_connected();
    cluster.completes(&execution);
    assert!(5 <= line.one_run_remains(&cluster));
    line.undone_in_reverse_order(&cluster);
}

#[test]
fn all_nodes_are_killed_at_once_and_go_on_when_they_are_back() {
    in_a_sandbox(|| {
        let mut cluster = Cluster::of(3);
        cluster.answer_slowly();
        let tolerant = Line::new("tolerant", 30, Provider::Keyed);
        let passive = Line::new("passive", 30, Provider::Keyed);
        let executions = [
            cluster.start(&tolerant.document(), "partition-tolerant:3:1"),
            cluster.start(&passive.document(), "passive:3"),
        ];
        tolerant.until_done(&cluster, 4);
        passive.until_done(&cluster, 4);
        cluster.nodes.iter_mut().for_each(|node| node.kill());
        cluster.nodes.iter_mut().for_each(|node| node.start(None));
        cluster.all_connected();
        executions.iter().for_each(|execution| cluster.completes(execution));
        assert_eq!(tolerant.one_run_remains(&cluster), 0);
        assert_eq!(passive.one_run_remains(&cluster), 0);
    });
}
