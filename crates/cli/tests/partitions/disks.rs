//! A disk that is lost while the network is cut: its node comes back as another one.

use std::net::IpAddr;

use serde_json::Value as Json;

use super::flows::{Line, Provider};
use super::nodes::Cluster;
use super::processes::until;
use super::sandbox::in_a_sandbox;

#[test]
fn a_disk_is_lost_in_one_of_three_parts_and_one_run_remains_that_everybody_forgets() {
    in_a_sandbox(|| {
        let mut cluster = Cluster::of(5);
        cluster.answer_slowly();
        let line = Line::new("lost", 100, Provider::Keyless);
        let execution = cluster.start(&line.document(), "partition-tolerant:5:1");
        line.until_done(&cluster, 4);
        cluster.split(&[&[0, 1], &[2, 3], &[4]]);
        let ips: Vec<IpAddr> = cluster.nodes.iter().map(|node| node.ip()).collect();
        let mut leading = line.who_goes_on(&cluster, 1);
        until("both nodes of a pair are not needed: one goes on", || {
            leading = line.who_goes_on(&cluster, 6);
            [0, 2]
                .iter()
                .all(|first| leading.contains(&ips[*first]) != leading.contains(&ips[first + 1]))
        });

        // What a primary alone did nobody else could undo; the other one of a pair has copies only.
        let victim = usize::from(leading.contains(&ips[0]));
        let lost = cluster.nodes[victim].id().to_owned();
        cluster.nodes[victim].kill();
        cluster.nodes[victim].lose_disk();
        cluster.heal();
        let token = cluster.nodes[4].invite();
        cluster.nodes[victim].start(Some(&token));
        assert_ne!(cluster.nodes[victim].id(), lost, "who lost its disk is another one");
        cluster.all_connected();
        cluster.answer_at_once();
        cluster.completes(&execution);

        // Whoever is waited for to the end is waited for until someone says that it does not come back.
        let path = format!("/v1/cluster/members/{lost}");
        let (status, said) = cluster.nodes[4].ask("DELETE", &path, &Json::Null);
        assert!((200..300).contains(&status), "{said}");
        assert!(0 < line.one_run_remains(&cluster), "the parts that lost had done something");
        until("everybody has forgotten it", || {
            cluster.nodes.iter().all(|node| !node.holds(&execution))
        });
    });
}
