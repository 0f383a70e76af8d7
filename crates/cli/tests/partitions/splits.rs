//! A cluster in parts none of which has a majority.

use std::net::IpAddr;
use std::time::Duration;

use super::flows::{Line, Provider, last_number};
use super::nodes::Cluster;
use super::processes::pause;
use super::sandbox::in_a_sandbox;

#[test]
fn five_nodes_in_three_parts_go_on_with_one_vote_and_wait_with_a_majority() {
    in_a_sandbox(|| {
        let cluster = Cluster::of(5);
        cluster.answer_slowly();
        let passive = Line::new("passive", 100, Provider::Keyed);
        let passive_keyless = Line::new("keyless", 100, Provider::Keyless);
        let tolerant = Line::new("tolerant", 100, Provider::Keyless);
        let executions = [
            cluster.start(&passive.document(), "passive:5"),
            cluster.start(&passive_keyless.document(), "passive:5"),
            cluster.start(&tolerant.document(), "partition-tolerant:5:1"),
        ];
        let waiting = [&passive, &passive_keyless];
        waiting.iter().for_each(|line| line.until_done(&cluster, 4));
        tolerant.until_done(&cluster, 4);

        let parts: [&[usize]; 3] = [&[0, 1], &[2, 3], &[4]];
        cluster.split(&parts);
        // What had left by then still arrives.
        pause(Duration::from_millis(300));
        let cut = last_number(&cluster.entries());
        for part in parts {
            let who: Vec<IpAddr> = part.iter().map(|node| cluster.nodes[*node].ip()).collect();
            tolerant.until_done_by(&cluster, &who, cut, 3);
        }
        let all: Vec<IpAddr> = cluster.nodes.iter().map(|node| node.ip()).collect();
        for line in waiting {
            let gone_on = line.deeds_by(&cluster.entries(), &all, cut);
            assert_eq!(gone_on, 0, "no part has a majority");
        }

        cluster.heal();
        cluster.answer_at_once();
        executions.iter().for_each(|execution| cluster.completes(execution));
        // Each of the two parts that lose had done three things at least.
        assert!(6 <= tolerant.one_run_remains(&cluster));
        tolerant.undone_in_reverse_order(&cluster);
        assert_eq!(passive.one_run_remains(&cluster), 0, "whoever waited has nothing to undo");
        // But for the call that was under way when the network was cut: if another node is elected
        // before its caller is back, it makes it anew, because its provider knows no keys.
        assert!(passive_keyless.one_run_remains(&cluster) <= 1);
    });
}
