//! Executions that several real nodes hold: processes, sockets and disks, killed and started again.

mod anywhere;
mod bereaved;
mod events;
mod hearsay;
mod holders;
mod nested;
mod nodes;
#[path = "../processes/mod.rs"]
mod processes;
mod standstill;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nodes::{Cluster, Node};
use outlast_node::fixture::ledger::{Entry, Expected, Verdict, check};
use processes::{outlast, until};
use serde_json::{Value as Json, json};

/// Calls one after the other, each of which can be undone.
fn line(steps: usize) -> String {
    let mut text = String::from(
        "document: { dsl: '1.0.3', namespace: test, name: line, version: '1.0.0' }\ndo:\n",
    );
    for step in 1..=steps {
        let call = |path: &str| {
            let endpoint = format!("http://ledger.test/{path}/step-{step}");
            format!("call: http, with: {{ method: post, endpoint: '{endpoint}' }}")
        };
        let compensation = format!("do: [ {{ undo: {{ {} }} }} ], tolerant: true", call("cancel"));
        writeln!(
            text,
            "  - step{step}: {{ {}, metadata: {{ outlast: {{ class: compensatable, \
             compensation: {{ {compensation} }} }} }} }}",
            call("do"),
        )
        .unwrap();
    }
    text
}

/// What so many executions of the line are to leave.
fn expected(steps: usize, runs: usize) -> Expected {
    let effect = |step| (format!("step-{step}"), runs as u64);
    Expected { effects: (1..=steps).map(effect).collect(), ..Expected::default() }
}

/// What they leave.
fn verdict(steps: usize, runs: usize, entries: &[Entry]) -> Verdict {
    check(entries, &expected(steps, runs))
        .unwrap_or_else(|problems| panic!("{problems:?}\n{entries:#?}"))
}

#[test]
fn the_primary_is_killed_and_another_node_finishes_what_it_began() {
    const STEPS: usize = 12;
    let mut cluster = Cluster::of(3);
    let flow = cluster.file("line.yaml", &line(STEPS));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(50));
    let execution = start(&cluster.nodes[2], &flow, &["--survival", "partition-tolerant:3"]);
    cluster.until_called(4);
    cluster.nodes[2].kill();
    // Whoever asks, wherever, hears the same.
    for node in &cluster.nodes[..2] {
        assert_eq!(node.end_of(&execution), "completed");
    }
    assert_eq!(verdict(STEPS, 1, &cluster.entries()), Verdict::Complete);
}

#[test]
fn what_cannot_be_held_to_is_refused() {
    let start = |survival: &str| {
        let said = outlast(&["start", "test/line", "--survival", survival]).output().unwrap();
        (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let (code, said) = start("ring");
    assert!(code == Some(2) && said.contains("partition-tolerant"), "{said}");
    let (code, said) = start("active:3:3");
    assert!(code == Some(2) && said.contains("from 1 to 2"), "{said}");

    let cluster = Cluster::of(1);
    let node = &cluster.nodes[0];
    let flow = cluster.file("line.yaml", &line(1));
    let few = node.command(&["start", flow.to_str().unwrap(), "--survival", "passive:3"]);
    let few = { few }.output().unwrap();
    let said = String::from_utf8_lossy(&few.stderr);
    assert!(!few.status.success() && said.contains("3 replicas are wanted"), "{few:?}");
    assert!(!said.contains("try again"), "no node comes by itself: {said}");
    let body = json!({ "namespace": "test", "workflow": "line", "survival": "passive:3" });
    assert_eq!(node.ask("POST", "/v1/executions", &body).0, 409);
    let body = json!({ "namespace": "test", "workflow": "line", "survival": { "replicas": 3 } });
    let (status, problem) = node.ask("POST", "/v1/executions", &body);
    assert_eq!(status, 400, "{problem}");
}

/// Waits for an hour.
const NAP: &str = "document: { dsl: '1.0.3', namespace: test, name: nap, version: '1.0.0' }
do:
  - nap: { wait: { hours: 1 } }
";

/// Starts an execution on a node, and gives its id.
fn start(node: &Node, flow: &Path, arguments: &[&str]) -> String {
    let words = [&["start", flow.to_str().unwrap(), "--json"], arguments].concat();
    node.said(&words)["execution"].as_str().unwrap().to_owned()
}

#[test]
fn any_node_takes_any_command() {
    let mut cluster = Cluster::of(3);
    let nap = cluster.file("nap.yaml", NAP);
    let [first, second, third] = &cluster.nodes[..] else { panic!("three nodes") };
    let alone = start(first, &nap, &["--name", "alone"]);
    let shared = start(second, &nap, &["--survival", "passive:3"]);

    // Shown by those who do not hold it; started once, wherever it is asked for again.
    let shown = third.said(&["show", &alone, "--json"]);
    assert_eq!(shown["condition"], "waiting", "{shown}");
    assert_eq!(start(second, &nap, &["--name", "alone"]), alone);
    let history = second.ask("GET", &format!("/v1/executions/{alone}/history"), &Json::Null);
    assert_eq!(history.0, 200, "{history:?}");
    for node in &cluster.nodes {
        until("its history is told from the beginning", || {
            let told = node.command(&["history", &shared]).output().unwrap();
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            let begins = told.lines().next().is_some_and(|line| line.ends_with("  started"));
            begins && told.contains("task started")
        });
    }
    until("the leader is known everywhere", || {
        let shown = first.said(&["show", &shared, "--json"]);
        shown["leader"] == second.id.as_str()
    });

    // Listed once, with whoever holds it.
    for node in &cluster.nodes {
        let listed = node.said(&["ps", "--json"]);
        let lines = listed["executions"].as_array().unwrap();
        let of = |id: &str| lines.iter().filter(|it| it["execution"] == id).collect::<Vec<_>>();
        let ([one], [many]) = (&of(&alone)[..], &of(&shared)[..]) else { panic!("{listed}") };
        assert_eq!(one["nodes"], json!([first.id]), "{listed}");
        assert_eq!(many["nodes"].as_array().map(Vec::len), Some(3), "{listed}");
        assert_eq!(many["leader"], second.id.as_str(), "whoever is asked leads: {listed}");
    }

    // Changed by whoever leads it, whoever is asked.
    for (id, node) in [(&alone, second), (&shared, first)] {
        let done = node.ask("POST", &format!("/v1/executions/{id}/suspend"), &json!({}));
        assert_eq!(done.0, 202, "{done:?}");
        let cancel = node.command(&["cancel", id]).output().unwrap();
        assert!(cancel.status.success(), "{cancel:?}");
        for node in &cluster.nodes {
            assert_eq!(node.end_of(id), "cancelled");
        }
    }

    // Whoever cannot be asked is named, and not waited for long.
    let gone = cluster.nodes[2].id.clone();
    cluster.nodes[2].kill();
    let first = &cluster.nodes[0];
    until("the loss is noticed", || {
        let (_, listed) = first.ask("GET", "/v1/executions", &Json::Null);
        listed["unanswered"] == json!([gone])
    });
    // Whoever is silent may hold what nobody else knows: that there is none is not said.
    let unknown = first.ask("GET", "/v1/executions/nobody", &Json::Null);
    assert_eq!(unknown.0, 504);
    assert!(unknown.1["detail"].as_str().unwrap().contains(&gone), "{unknown:?}");
}

#[test]
fn nodes_learn_of_each_other_and_the_lost_are_removed_everywhere() {
    let mut cluster = Cluster::of(3);
    let state_of = |node: &Node, other: &str| {
        let seen = node.said(&["cluster", "status", "--json"]);
        let members = seen["members"].as_array().cloned().unwrap_or_default();
        members.into_iter().find(|it| it["node"] == other)
    };
    for node in &cluster.nodes {
        for other in &cluster.nodes {
            until("gossip has told of everyone", || {
                state_of(node, &other.id).is_some_and(|it| it["state"] == "alive")
            });
        }
    }
    let shown = cluster.nodes[0].command(&["cluster", "status"]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("RELEASE") && shown.contains(&cluster.nodes[1].id), "{shown}");

    let lost = cluster.nodes[2].id.clone();
    cluster.nodes[2].kill();
    until("it is missed", || {
        let seen = cluster.nodes[0].said(&["cluster", "status", "--json"]);
        seen["unreachable"] == json!([lost])
    });
    let removed = cluster.nodes[0].command(&["cluster", "remove", &lost]).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    for node in &cluster.nodes[..2] {
        until("everyone has heard", || {
            let seen = node.said(&["cluster", "status", "--json"]);
            seen["removed"] == json!([lost]) && state_of(node, &lost).is_none()
        });
    }
    // Nobody hears it any more, should it come back, and it is told.
    let (code, said) = cluster.nodes[2].start_in_vain();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("was removed from its cluster"), "{said}");
    let seen = cluster.nodes[0].said(&["cluster", "status", "--json"]);
    assert_eq!(seen["members"].as_array().map(Vec::len), Some(2), "{seen}");
    let again = cluster.nodes[0].command(&["cluster", "remove", &lost]).output().unwrap();
    assert!(!again.status.success(), "{again:?}");
}

#[test]
fn nodes_that_are_stopped_leave_closed_journals() {
    let mut cluster = Cluster::of(2);
    let nap = cluster.file("nap.yaml", NAP);
    let execution = start(&cluster.nodes[0], &nap, &["--survival", "passive:2"]);
    // Whoever does not lead it has the other one asked, too.
    for node in &cluster.nodes {
        assert_eq!(node.said(&["show", &execution, "--json"])["condition"], "waiting");
    }
    for node in &mut cluster.nodes {
        node.stop();
        let found = node.check();
        assert_eq!(found["journal"]["closed"], true, "{found}");
    }
    // Whoever is up alone then says since when, and that the others are not there.
    let gone = cluster.nodes[1].id.clone();
    cluster.nodes[0].restart(None);
    let alone = &cluster.nodes[0];
    until("the other one is not heard", || {
        alone.said(&["cluster", "status", "--json"])["unreachable"] == json!([gone])
    });
    let seen = alone.said(&["cluster", "status", "--json"]);
    for member in seen["members"].as_array().unwrap() {
        let is_gone = member["node"] == gone.as_str();
        assert_eq!(member["state"], if is_gone { "dead" } else { "alive" }, "{seen}");
        assert!(!member["since"].as_str().unwrap().starts_with("1970"), "{seen}");
    }
}

#[test]
fn nodes_are_restarted_one_after_the_other_under_load_and_nothing_fails() {
    const STEPS: usize = 30;
    let mut cluster = Cluster::of(3);
    let flow = cluster.file("line.yaml", &line(STEPS));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(100));
    let mut executions: Vec<String> = (0..6)
        .map(|number| {
            let node = &cluster.nodes[number % 3];
            start(node, &flow, &["--survival", "passive:3"])
        })
        .collect();
    for number in (0..3).rev() {
        let drained = cluster.nodes[number].said(&["drain", "--json"]);
        assert_eq!(drained["led"], 0, "{drained}");
        let refused = cluster.nodes[number].ask("POST", "/v1/cluster/drain", &json!({}));
        assert_eq!(refused.1["draining"], true, "{refused:?}");
        // New work is taken by another one.
        let taken = start(&cluster.nodes[number], &flow, &["--survival", "passive:2"]);
        let shown = cluster.nodes[(number + 1) % 3].said(&["show", &taken, "--json"]);
        assert_ne!(shown["leader"], cluster.nodes[number].id.as_str(), "{shown}");
        executions.push(taken);
        cluster.nodes[number].stop();
        cluster.nodes[number].restart(None);
        cluster.all_connected();
    }
    for execution in &executions {
        for node in &cluster.nodes {
            assert_eq!(node.end_of(execution), "completed");
        }
    }
    let verdict = verdict(STEPS, executions.len(), &cluster.entries());
    assert_eq!(verdict, Verdict::Complete);
}

/// Nobody else would hear its answer, and a person would have to find out what became of it.
#[test]
fn a_node_that_is_drained_or_stopped_hears_the_answer_to_its_pivot_first() {
    let mut cluster = Cluster::of(3);
    let pay = "call: http, with: { method: post, endpoint: 'http://ledger.test/do/step-1' }";
    let flow = format!(
        "document: {{ dsl: '1.0.3', namespace: test, name: pay, version: '1.0.0' }}\n\
         do: [ {{ pay: {{ {pay}, metadata: {{ outlast: {{ class: pivot }} }} }} }} ]\n"
    );
    let flow = cluster.file("pay.yaml", &flow);
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(1000));
    for (number, survival) in ["none", "passive:3"].into_iter().enumerate() {
        let execution = start(&cluster.nodes[0], &flow, &["--survival", survival]);
        cluster.until_called(number as u64 + 1);
        if survival != "none" {
            let drained = cluster.nodes[0].said(&["drain", "--json"]);
            assert_eq!((&drained["led"], &drained["hearing"]), (&json!(0), &json!(0)));
        }
        cluster.nodes[0].stop();
        cluster.nodes[0].restart(None);
        cluster.all_connected();
        assert_eq!(cluster.nodes[0].end_of(&execution), "completed", "{survival}");
    }
    assert_eq!(verdict(1, 2, &cluster.entries()), Verdict::Complete);
}

/// A node that is told to end makes no more calls that only it would hear the answers to, though one after the other is
/// to be made: others go on with those at once.
#[test]
fn a_node_that_is_stopped_leaves_the_next_pivots_to_others() {
    const PAYMENTS: usize = 10;
    const APART: u64 = 500;
    let mut cluster = Cluster::of(3);
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(2 * APART));
    let pay = |number: usize| {
        let call = format!(
            "call: http, with: {{ method: post, endpoint: 'http://ledger.test/do/step-{}' }}",
            number + 1
        );
        let flow = format!(
            "document: {{ dsl: '1.0.3', namespace: test, name: pay-{number}, version: '1.0.0' }}\n\
             do:\n\
             - later: {{ wait: {{ milliseconds: {} }} }}\n\
             - pay: {{ {call}, metadata: {{ outlast: {{ class: pivot }} }} }}\n",
            APART * number as u64
        );
        let flow = cluster.file(&format!("pay-{number}.yaml"), &flow);
        start(&cluster.nodes[0], &flow, &["--survival", "passive:3"])
    };
    let executions: Vec<String> = (0..PAYMENTS).map(pay).collect();
    cluster.until_called(1);
    let began = Instant::now();
    cluster.nodes[0].stop();
    let took = began.elapsed();
    assert!(took < Duration::from_millis(APART * 7), "it stopped only after {took:?}");
    for execution in executions {
        assert_eq!(cluster.nodes[1].end_of(&execution), "completed");
    }
    assert_eq!(verdict(PAYMENTS, 1, &cluster.entries()), Verdict::Complete);
}
