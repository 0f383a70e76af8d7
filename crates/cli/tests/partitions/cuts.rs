//! Links that are cut in one direction, between some nodes only, or again and again.

use std::time::Duration;

use super::flows::{Line, Provider, last_number};
use super::nodes::Cluster;
use super::processes::pause;
use super::sandbox::in_a_sandbox;

/// Longer than it takes to count a node as lost.
const NOTICED: Duration = Duration::from_millis(1000);

/// Three nodes in the middle of a line of calls whose provider knows no keys.
fn under_way() -> (Cluster, Line, String) {
    let cluster = Cluster::of(3);
    cluster.answer_slowly();
    let line = Line::new("line", 100, Provider::Keyless);
    let execution = cluster.start(&line.document(), "partition-tolerant:3:1");
    line.until_done(&cluster, 3);
    (cluster, line, execution)
}

#[test]
fn a_primary_that_is_not_heard_any_more_is_replaced_and_stops_when_it_is_heard_again() {
    in_a_sandbox(|| {
        let (cluster, line, execution) = under_way();
        cluster.links(|from, _| from != 2);
        let cut = last_number(&cluster.entries());
        let others = [cluster.nodes[0].ip(), cluster.nodes[1].ip()];
        line.until_done_by(&cluster, &others, cut, 2);
        cluster.heal();
        pause(NOTICED);
        assert_eq!(line.who_goes_on(&cluster, 5).len(), 1, "one of the two has stopped");
        cluster.answer_at_once();
        cluster.completes(&execution);
        assert!(0 < line.one_run_remains(&cluster));
        line.undone_in_reverse_order(&cluster);
    });
}

#[test]
fn a_primary_that_hears_nobody_goes_on_with_one_vote() {
    in_a_sandbox(|| {
        let (cluster, line, execution) = under_way();
        cluster.links(|_, to| to != 2);
        pause(NOTICED);
        let cut = last_number(&cluster.entries());
        line.until_done_by(&cluster, &[cluster.nodes[2].ip()], cut, 2);
        cluster.heal();
        cluster.answer_at_once();
        cluster.completes(&execution);
        line.one_run_remains(&cluster);
        line.undone_in_reverse_order(&cluster);
    });
}

#[test]
fn two_nodes_that_only_a_third_one_reaches_end_with_one_run() {
    in_a_sandbox(|| {
        let (cluster, line, execution) = under_way();
        cluster.links(|from, to| from.abs_diff(to) != 2);
        pause(NOTICED);
        cluster.answer_at_once();
        // A bridge is enough for a majority: it ends without being healed.
        cluster.completes(&execution);
        cluster.heal();
        line.one_run_remains(&cluster);
    });
}

#[test]
fn a_link_that_comes_and_goes_leaves_one_run() {
    in_a_sandbox(|| {
        let (cluster, line, execution) = under_way();
        for _ in 0..3 {
            cluster.split(&[&[0, 1], &[2]]);
            pause(NOTICED);
            cluster.heal();
            pause(NOTICED / 4);
        }
        cluster.answer_at_once();
        cluster.completes(&execution);
        line.one_run_remains(&cluster);
    });
}

#[test]
fn a_majority_goes_on_passively_and_nothing_is_undone() {
    in_a_sandbox(|| {
        let cluster = Cluster::of(3);
        cluster.answer_slowly();
        let line = Line::new("line", 50, Provider::Keyed);
        let execution = cluster.start(&line.document(), "passive:3");
        line.until_done(&cluster, 3);
        cluster.split(&[&[0, 1], &[2]]);
        pause(Duration::from_millis(300));
        let cut = last_number(&cluster.entries());
        let others = [cluster.nodes[0].ip(), cluster.nodes[1].ip()];
        line.until_done_by(&cluster, &others, cut, 3);
        assert_eq!(line.deeds_by(&cluster.entries(), &[cluster.nodes[2].ip()], cut), 0);
        cluster.heal();
        cluster.answer_at_once();
        cluster.completes(&execution);
        assert_eq!(line.one_run_remains(&cluster), 0);
    });
}

/// Found by a tester: one of four that all reach each other still heard the primary, and objected for ever.
#[test]
fn four_of_five_go_on_though_one_of_them_still_hears_the_old_primary() {
    in_a_sandbox(|| {
        let cluster = Cluster::of(5);
        cluster.answer_slowly();
        let line = Line::new("line", 60, Provider::Keyed);
        let execution = cluster.start(&line.document(), "passive:5");
        line.until_done(&cluster, 3);
        cluster.links(|from, to| ![from, to].contains(&4) || [from, to].contains(&1));
        pause(Duration::from_millis(300));
        let cut = last_number(&cluster.entries());
        let others: Vec<_> = cluster.nodes[..4].iter().map(|node| node.ip()).collect();
        line.until_done_by(&cluster, &others, cut, 3);
        cluster.heal();
        cluster.answer_at_once();
        cluster.completes(&execution);
        assert_eq!(line.one_run_remains(&cluster), 0);
    });
}
