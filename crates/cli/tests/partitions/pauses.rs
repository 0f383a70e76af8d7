//! A primary that stands still, and wakes up when others have long gone on.

use super::flows::{Line, Provider, last_number};
use super::nodes::Cluster;
use super::sandbox::in_a_sandbox;

#[test]
fn a_primary_that_wakes_up_stops_and_undoes_what_was_done_again_without_it() {
    in_a_sandbox(|| {
        let cluster = Cluster::of(3);
        cluster.answer_slowly();
        let line = Line::new("line", 100, Provider::Keyless);
        let execution = cluster.start(&line.document(), "partition-tolerant:3:1");
        line.until_done(&cluster, 4);
        cluster.nodes[2].signal("STOP");
        let stopped = last_number(&cluster.entries());
        let others = [cluster.nodes[0].ip(), cluster.nodes[1].ip()];
        line.until_done_by(&cluster, &others, stopped, 5);
        let woken = last_number(&cluster.entries());
        cluster.nodes[2].signal("CONT");
        line.until_done_by(&cluster, &others, woken, 10);
        let own = line.deeds_by(&cluster.entries(), &[cluster.nodes[2].ip()], woken);
        assert!(own < 5, "it goes on until it hears of the others, and did {own} things");
        cluster.answer_at_once();
        cluster.completes(&execution);
        // It was stopped while a call was under way, which whoever went on has made again.
        assert!(0 < line.one_run_remains(&cluster));
        line.undone_in_reverse_order(&cluster);
    });
}
