//! What is said of executions that stand still, and of those that only move.

use outlast_node::fixture::ledger::{Verdict, check};
use serde_json::{Value as Json, json};

use crate::nodes::{Cluster, Node};
use crate::processes::{holds_in_time, until};
use crate::{NAP, expected, line, start};

/// Three activities that no majority knows of, and no more: more than there are in a cluster that is whole.
const SURVIVAL: &str =
    "survival: { strategy: partition-tolerant, replicas: 4, voteThreshold: 2, budget: 3 }";

#[test]
fn whoever_follows_a_leader_that_stands_still_shows_that_it_does_and_why() {
    const STEPS: usize = 40;
    let mut cluster = Cluster::of(4);
    let flow = line(STEPS).replace("tolerant: true", "tolerant: true, cost: 1").replace(
        "version: '1.0.0'",
        &format!("version: '1.0.0', metadata: {{ outlast: {{ {SURVIVAL} }} }}"),
    );
    let flow = cluster.file("costly.yaml", &flow);
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(100));
    let execution = start(&cluster.nodes[3], &flow, &[]);
    let shown = |node: &Node| node.said(&["show", &execution, "--json"]);
    until("the others follow, and hear that it goes on", || {
        let (shown, at_leader) = (shown(&cluster.nodes[2]), shown(&cluster.nodes[3]));
        assert_eq!(at_leader["leaderPhase"], Json::Null, "it says so as its own phase");
        let goes_on = shown["leaderPhase"] == "leading" && shown["stalled"] == Json::Null;
        goes_on && shown["phase"] == "following"
    });

    for lost in 0..2 {
        cluster.nodes[lost].kill();
    }
    until("half of the nodes are no majority", || shown(&cluster.nodes[3])["phase"] == "paused");
    let (follower, leader) = (&cluster.nodes[2], &cluster.nodes[3]);
    let told = shown(follower);
    assert_eq!(told["leader"], leader.id.as_str(), "{told}");
    assert_eq!((&told["phase"], &told["leaderPhase"]), (&"following".into(), &"paused".into()));
    assert_eq!(told["stalled"], shown(leader)["stalled"]);
    let said = follower.command(&["show", &execution]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let line = |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("leader").ends_with(&format!("{}, paused", leader.id)), "{said}");
    let stalled = line("stalled");
    assert!(stalled.contains("more than the budget"), "{said}");
    assert!(stalled.contains("and the budget is 3"), "{said}");
    assert!(cluster.nodes[..2].iter().all(|lost| stalled.contains(&lost.id)), "{said}");

    // Whoever leads may be gone before it is noticed: what is known here is shown all the same.
    cluster.nodes[3].kill();
    let told = shown(&cluster.nodes[2]);
    assert_eq!(told["leaderPhase"], Json::Null, "{told}");

    for back in [0, 1, 3] {
        cluster.nodes[back].restart(None);
    }
    assert_eq!(cluster.nodes[2].end_of(&execution), "completed");
}

#[test]
fn a_pivot_that_waits_for_a_majority_is_told_with_the_nodes_that_are_missing() {
    let mut cluster = Cluster::of(3);
    let pivot = "  - charge: { call: http, with: { method: post, endpoint: 'http://ledger.test/do/charge' }, \
                 metadata: { outlast: { class: pivot } } }\n";
    let flow = cluster.file("pivot.yaml", &(line(1) + pivot));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(500));
    let execution = start(&cluster.nodes[2], &flow, &["--survival", "partition-tolerant:3"]);
    cluster.until_called(1);
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    let shown = || cluster.nodes[2].said(&["show", &execution, "--json"]);
    until("it waits", || shown()["phase"] == "without-majority");
    let told = shown();
    let stalled = told["stalled"].as_str().unwrap();
    assert!(stalled.contains("what waits is a pivot"), "{told}");
    assert!(cluster.nodes[..2].iter().all(|lost| stalled.contains(&lost.id)), "{told}");
}

/// At a provider that knows no keys every one of the runs acts, and all but one of them are undone.
#[test]
fn what_is_undone_only_when_a_lost_node_has_answered_is_told_with_whom_it_waits_for() {
    const STEPS: usize = 6;
    let mut cluster = Cluster::of(3);
    let keyless = "class: compensatable, idempotency: { none: true }";
    // Each undo takes back one effect of a name, not all of them.
    let flow = line(STEPS).replace("class: compensatable", keyless).replace("/cancel/", "/undo/");
    let flow = cluster.file("line.yaml", &flow);
    // So slowly that nobody is done before all have begun.
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(300));
    let execution = start(&cluster.nodes[0], &flow, &["--survival", "active:3"]);
    until("all have begun", || {
        let entries = cluster.entries();
        entries.iter().filter(|entry| entry.path == "/do/step-1").count() == 3
    });
    cluster.nodes[2].kill();
    let lost = cluster.nodes[2].id.clone();
    assert_eq!(cluster.nodes[0].end_of(&execution), "completed");
    let waits = |node: &Node| {
        let shown = node.said(&["show", &execution, "--json"]);
        let misses = |name: &str| shown[name] == json!([lost]);
        shown["phase"] == "compensating" && misses("awaited") && misses("unreachable")
    };
    until("one of the others lost its run", || cluster.nodes[..2].iter().any(waits));
    let loser = cluster.nodes[..2].iter().find(|node| waits(node)).unwrap();
    let remedy = format!("outlast cluster remove {lost}");
    let shown = loser.command(&["show", &execution]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("is undone") && shown.contains(&remedy), "{shown}");
    until("the lost one is missed", || {
        let status = loser.command(&["cluster", "status"]).output().unwrap();
        let said = String::from_utf8(status.stderr).unwrap();
        said.contains("undo") && said.contains(&remedy)
    });

    cluster.nodes[2].restart(None);
    let is_one_run = || check(&cluster.entries(), &expected(STEPS, 1)) == Ok(Verdict::Complete);
    let comes = holds_in_time(is_one_run);
    assert!(comes, "everything but one run is undone: {:#?}", cluster.entries());
}

/// Whoever looked at the wrong moment was told that everything stands still.
#[test]
fn executions_that_move_away_from_a_node_that_is_stopped_do_not_stand_still() {
    let mut cluster = Cluster::of(3);
    let nap = cluster.file("nap.yaml", NAP);
    let executions: Vec<String> =
        (0..8).map(|_| start(&cluster.nodes[2], &nap, &["--survival", "passive:3"])).collect();
    let gone = cluster.nodes[2].id.clone();
    let led_by_others = |cluster: &Cluster| {
        let looks = [0, 1].map(|node| {
            let (_, seen) = cluster.nodes[node].ask("GET", "/v1/cluster", &Json::Null);
            let members = seen["members"].as_array().cloned().unwrap_or_default();
            let left = members.into_iter().filter(|it| it["node"] != gone.as_str());
            // Whoever does not answer in time says nothing of its share.
            let shares = left.map(|it| it["share"].clone()).filter(Json::is_object);
            let shares: Vec<Json> = shares.collect();
            assert!(shares.iter().all(|share| share["stalled"] == 0), "{seen}");
            shares.iter().filter_map(|share| share["led"].as_u64()).sum::<u64>()
        });
        looks == [executions.len() as u64; 2]
    };
    until("the others follow", || {
        [0, 1].iter().all(|node| {
            let (_, seen) = cluster.nodes[*node].ask("GET", "/v1/cluster", &Json::Null);
            seen["own"]["held"] == executions.len() && seen["own"]["stalled"] == 0
        })
    });
    cluster.nodes[2].stop();
    until("the others lead all of them", || led_by_others(&cluster));
}

#[test]
fn a_change_without_a_majority_is_not_said_to_be_done_for_good() {
    let mut cluster = Cluster::of(3);
    let flow = cluster.file("nap.yaml", NAP);
    let [waits, goes_on] = ["passive:3", "partition-tolerant:3"]
        .map(|way| start(&cluster.nodes[2], &flow, &["--survival", way]));
    let followed = start(&cluster.nodes[0], &flow, &["--survival", "passive:3"]);
    let lost = [0, 1].map(|node| cluster.nodes[node].id.clone());
    for node in [0, 1] {
        cluster.nodes[node].kill();
    }
    let last = &cluster.nodes[2];
    until("it knows that it is alone", || {
        let seen = last.said(&["cluster", "status", "--json"]);
        seen["unreachable"].as_array().is_some_and(|others| others.len() == 2)
    });
    let suspended = last.command(&["suspend", &goes_on]).output().unwrap();
    let said = String::from_utf8_lossy(&suspended.stderr);
    assert!(suspended.status.success() && said.contains("reaches no majority"), "{said}");
    let resumed = last.said(&["resume", &goes_on, "--json"]);
    assert!(resumed["done"] == true && resumed["provisional"].is_string(), "{resumed}");

    let (status, said) =
        last.ask("POST", &format!("/v1/executions/{waits}/suspend"), &serde_json::json!({}));
    let detail = said["detail"].as_str().unwrap_or_default();
    assert!(status == 504 && detail.contains("too few of the nodes that hold"), "{said}");

    let (status, said) =
        last.ask("POST", &format!("/v1/executions/{followed}/suspend"), &serde_json::json!({}));
    let detail = said["detail"].as_str().unwrap_or_default();
    assert!(status == 503 && detail.contains("nobody leads the execution"), "{said}");
    assert_eq!(said["type"], "urn:outlast:problem:leaderless", "nothing is wrong with the node");
    assert!(lost.iter().all(|node| detail.contains(node)), "{said}");
    assert!(detail.contains("outlast cluster status"), "{said}");
}
