//! Nodes that find out by gossip who is there: they join, are suspected, given up, leave, come back and
//! are removed, over a network that breaks.

use std::time::Duration;

use outlast_engine::{Strategy, Survival};
use outlast_simulator::{Scenario, Situation, Swarm, Verdict, Wanted, Workload, WorldOptions};

/// A world of three nodes with gossip in which these things go wrong.
fn run(faults: &[&str], survival: Survival) -> Verdict {
    let options = WorldOptions {
        nodes: 3,
        gossip: true,
        faults: faults.iter().map(|text| text.parse().unwrap()).collect(),
        ..WorldOptions::default()
    };
    let delays = vec![Duration::ZERO];
    let scenario = Scenario { flow: "line".to_owned(), survival, delays, options };
    let verdict = Swarm::new(Wanted::default(), Workload::built_in()).run(&scenario);
    assert_eq!(verdict.finding, None, "{faults:?}\n{}", verdict.trace);
    verdict
}

fn replicas() -> Survival {
    Survival::new(Strategy::PartitionTolerant, 3)
}

#[test]
fn nodes_that_know_only_who_invited_them_find_everyone() {
    let verdict = run(&[], replicas());
    assert!(verdict.count(Situation::Joined) >= 6, "each of three found two others");
    assert_eq!(verdict.count(Situation::TakenForDead), 0);
}

#[test]
fn whoever_was_cut_off_is_given_up_and_is_back_once_the_network_is() {
    let verdict = run(&["isolate@1+15:3"], replicas());
    assert!(verdict.count(Situation::Suspected) > 0);
    assert!(verdict.count(Situation::TakenForDead) > 0);
    assert!(verdict.count(Situation::Rejoined) > 0);
}

#[test]
fn whoever_stops_in_good_order_is_said_to_have_left_and_comes_back() {
    let verdict = run(&["stop@1+8:2"], replicas());
    assert!(verdict.count(Situation::Left) > 0);
    assert!(verdict.count(Situation::Rejoined) > 0);
    assert_eq!(verdict.count(Situation::TakenForDead), 0);
}

#[test]
fn whoever_lost_its_disk_is_removed_everywhere_and_comes_back_as_another() {
    let verdict = run(&["lost-disk@1+1:2"], Survival::solo());
    assert_eq!(verdict.count(Situation::Fenced), 1);
    // The third node is down when the person removes the second, and hears of it later.
    let verdict = run(&["lost-disk@1+1:2", "crash@3+20:3"], Survival::solo());
    assert_eq!(verdict.count(Situation::Fenced), 1);
}

/// There is no cluster left that anyone could join, and whoever operates it founds it anew.
#[test]
fn all_who_have_joined_lose_their_disks_before_anything_is_started() {
    for (nodes, lost) in [(2, "lost-disk@0.01+1:1,2"), (5, "lost-disk@0.01+1:1,2,3")] {
        let wanted = Wanted {
            nodes: Some(nodes),
            gossip: Some(true),
            faults: Some(vec![lost.parse().unwrap()]),
            ..Wanted::default()
        };
        let mut swarm = Swarm::new(wanted, Workload::built_in());
        for seed in 1..=5 {
            let verdict = swarm.run(&swarm.scenario(seed));
            assert_eq!(verdict.finding, None, "{nodes} nodes, seed {seed}");
            assert!(0 < verdict.count(Situation::FoundedAnew));
        }
    }
}

#[test]
fn whoever_finds_nobody_to_join_comes_up_when_somebody_is_there() {
    let verdict = run(&["lost-disk@1+0.5:1", "crash@0.9+5:2,3"], Survival::solo());
    assert_eq!(verdict.count(Situation::Fenced), 1);
}
