//! Faults at random: a seed decides which links are cut, who is killed, who is stopped, and when.
//!
//! `OUTLAST_PARTITIONS` says how many seeds to try, `OUTLAST_PARTITION_SEED` names the first.

use std::time::Duration;

use outlast_node::fixture::ledger::Kind;

use super::flows::{Line, Provider};
use super::nodes::Cluster;
use super::processes::pause;
use super::sandbox::in_a_sandbox;

/// How many nodes there are.
const NODES: usize = 5;

/// Numbers that look random and are the same for the same seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn node(&mut self) -> usize {
        usize::try_from(self.below(NODES as u64)).unwrap()
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn whatever_breaks_one_run_remains() {
    in_a_sandbox(|| {
        let mut cluster = Cluster::of(NODES);
        let first = number("OUTLAST_PARTITION_SEED", 1);
        for seed in first..first + number("OUTLAST_PARTITIONS", 1) {
            eprintln!("OUTLAST_PARTITION_SEED={seed}");
            broken(&mut cluster, seed);
        }
    });
}

fn broken(cluster: &mut Cluster, seed: u64) {
    let mut draw = Draw(seed);
    let kills = draw.below(2) == 0;
    let survival = match draw.below(3) {
        0 => "passive:5",
        1 => "partition-tolerant:5:1",
        _ => "partition-tolerant:5:2",
    };
    // What a dead node asked of a provider without keys, nobody knows.
    let provider = if kills { Provider::Keyed } else { Provider::Keyless };
    let name: &'static str = format!("seed{seed}").leak();
    let line = Line::new(name, 60, provider);
    eprintln!("{survival}, {provider:?}");
    cluster.answer_slowly();
    let execution = cluster.start(&line.document(), survival);
    for _ in 0..2 + draw.below(4) {
        pause(Duration::from_millis(100 + draw.below(900)));
        fault(cluster, &mut draw, kills);
    }
    cluster.heal();
    cluster.answer_at_once();
    cluster.all_connected();
    cluster.completes(&execution);
    let undone = line.one_run_remains(cluster);
    let calls = cluster.entries().iter().filter(|entry| entry.kind == Kind::Do).count();
    eprintln!("one run remains; {undone} undone, {calls} calls so far");
}

/// Something breaks, perhaps for a while only.
fn fault(cluster: &mut Cluster, draw: &mut Draw, kills: bool) {
    match draw.below(if kills { 6 } else { 5 }) {
        0 => {
            let parts = draw.below(1 << NODES);
            eprintln!("two parts: {parts:05b}");
            cluster.links(|from, to| parts >> from & 1 == parts >> to & 1);
        }
        1 => {
            let parts: Vec<u64> = (0..NODES).map(|_| draw.below(3)).collect();
            eprintln!("three parts: {parts:?}");
            cluster.links(|from, to| parts[from] == parts[to]);
        }
        2 => {
            let cut: Vec<bool> = (0..NODES * NODES).map(|_| draw.below(3) == 0).collect();
            eprintln!("links at random: {cut:?}");
            cluster.links(|from, to| !cut[from * NODES + to]);
        }
        3 => {
            eprintln!("whole");
            cluster.heal();
        }
        4 => {
            let (node, time) = (draw.node(), Duration::from_millis(300 + draw.below(1200)));
            eprintln!("node {node} stands still for {time:?}");
            cluster.nodes[node].signal("STOP");
            pause(time);
            cluster.nodes[node].signal("CONT");
        }
        _ => {
            let node = draw.node();
            eprintln!("node {node} is killed and comes back");
            cluster.nodes[node].kill();
            cluster.nodes[node].start(None);
        }
    }
}
