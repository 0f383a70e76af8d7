//! Who holds an execution, on real nodes: any node is asked, names meet, and a disk is lost for good.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use outlast_node::fixture::ledger::{Behaviour, Outcome, Verdict};
use serde_json::{Value as Json, json};

use super::nodes::{Cluster, Node};
use super::processes::{Api, until};
use super::{NAP, line, start, verdict};

/// How many executions a node holds together with others.
fn held(cluster: &Cluster, node: usize) -> Json {
    let (status, seen) = cluster.nodes[node].ask("GET", "/v1/cluster", &Json::Null);
    assert_eq!(status, 200, "{seen}");
    seen["own"]["held"].clone()
}

#[test]
fn a_disk_is_lost_for_good_and_one_run_remains_that_everybody_forgets() {
    const STEPS: usize = 20;
    let mut cluster = Cluster::of(3);
    let flow = cluster.file("line.yaml", &line(STEPS));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(50));
    let execution = start(&cluster.nodes[2], &flow, &["--survival", "partition-tolerant:3"]);
    cluster.until_called(5);

    // The first primary dies, and its disk with it. In its place comes a new node.
    let lost = cluster.nodes[2].id.clone();
    let shown = cluster.nodes[2].said(&["show", &execution, "--json"]);
    assert_eq!(shown["leader"], lost.as_str(), "whoever is asked leads: {shown}");
    cluster.nodes[2].kill();
    cluster.nodes[2].lose_disk();
    let token = cluster.token(0);
    cluster.nodes[2].restart(Some(&token));
    assert_ne!(cluster.nodes[2].id, lost, "who lost its disk is another one");
    for node in &cluster.nodes {
        assert_eq!(node.end_of(&execution), "completed");
    }

    // It is waited for until someone says that it does not come back; then it is forgotten.
    let waits = [0, 1].iter().any(|node| held(&cluster, *node) != json!(0));
    assert!(waits, "nobody forgets what a node may still have to undo");
    until("who waits names the one that is lost", || {
        let shown = [0, 1].map(|node| cluster.nodes[node].said(&["show", &execution, "--json"]));
        let misses = |shown: &Json| {
            shown["awaited"] == json!([lost]) && shown["unreachable"] == json!([lost])
        };
        shown.iter().all(misses)
    });
    let removed = cluster.nodes[1].command(&["cluster", "remove", &lost]).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    for node in 0..3 {
        until("everybody has forgotten it", || held(&cluster, node) == json!(0));
    }
    assert_eq!(verdict(STEPS, 1, &cluster.entries()), Verdict::Complete);

    // What is started from now on has three copies again.
    let nap = cluster.file("nap.yaml", NAP);
    let next = start(&cluster.nodes[0], &nap, &["--survival", "passive:3"]);
    let shown = cluster.nodes[1].said(&["show", &next, "--json"]);
    let nodes: BTreeSet<&str> =
        shown["nodes"].as_array().unwrap().iter().filter_map(Json::as_str).collect();
    let all: BTreeSet<&str> = cluster.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(nodes, all, "{shown}");
}

/// It reaches nobody who hears it, and would go on alone with what may go on alone.
#[test]
fn a_copy_of_a_node_beside_the_original_calls_nothing() {
    const STEPS: usize = 50;
    let mut cluster = Cluster::of(3);
    let flow = cluster.file("line.yaml", &line(STEPS));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(100));
    let execution = start(&cluster.nodes[2], &flow, &["--survival", "partition-tolerant:3"]);
    cluster.until_called(3);
    cluster.nodes[0].kill();
    let copy = cluster.nodes[0].copied();
    cluster.nodes[0].restart(None);
    cluster.all_connected();
    let (code, said) = copy.start_in_vain();
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("another process runs as this node"), "{said}");
    let called = cluster.ledger.traffic().arrived;
    assert!(called < STEPS as u64, "it ran while there was something to call: {called}");
    assert_eq!(cluster.nodes[0].end_of(&execution), "completed");
    let entries = cluster.entries();
    assert_eq!(verdict(STEPS, 1, &entries), Verdict::Complete);
    assert_eq!(entries.len(), STEPS, "nobody called anything twice");
}

#[test]
fn whoever_removes_a_node_that_may_only_be_cut_off_is_told_what_is_lost_by_it() {
    let mut cluster = Cluster::of(3);
    let nap = cluster.file("nap.yaml", NAP);
    let execution = start(&cluster.nodes[1], &nap, &["--survival", "partition-tolerant:3"]);
    let lost = cluster.nodes[2].id.clone();
    until("its holders have it", || held(&cluster, 2) == json!(1));
    cluster.nodes[2].stop();
    let listed = cluster.nodes[0].said(&["ps", "--holder", &lost, "--json"]);
    assert_eq!(listed["executions"][0]["execution"], execution.as_str(), "{listed}");
    let nobody =
        cluster.nodes[0].command(&["ps", "--holder", "00000000000000ff"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1), "there is no such member");

    let removing = ["cluster", "remove", &lost, "--json"];
    let removed = cluster.nodes[0].command(&removing).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    let (said, told): (String, Json) = (
        String::from_utf8_lossy(&removed.stderr).into_owned(),
        serde_json::from_slice(&removed.stdout).unwrap(),
    );
    assert_eq!(told["executions"], json!([execution]), "{told}");
    let warning = told["warning"].as_str().unwrap();
    assert!(warning.contains("what it did in runs of them that do not count stays done"), "{told}");
    assert!(warning.contains("is heard now") || warning.contains("was heard of"), "{told}");
    assert_eq!(said.trim(), format!("warning: {warning}"));

    // It can do nothing any more for what it held, and says what that was.
    let (code, said) = cluster.nodes[2].start_in_vain();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("had not ended for it: 1 ({execution})")), "{said}");
}

/// Starts what three of four nodes hold, of which the first leads it: its id, and who does not hold it.
fn held_by_three(cluster: &Cluster, flow: &Path) -> (String, usize) {
    let execution = start(&cluster.nodes[0], flow, &["--survival", "partition-tolerant:3"]);
    let shown = cluster.nodes[0].said(&["show", &execution, "--json"]);
    assert_eq!(shown["leader"], cluster.nodes[0].id.as_str(), "whoever is asked leads");
    let holders = shown["nodes"].as_array().unwrap();
    let is_outside = |node: &Node| !holders.contains(&json!(node.id));
    let outside = cluster.nodes.iter().position(is_outside).unwrap();
    (execution, outside)
}

#[test]
fn whoever_waits_where_it_is_not_held_hears_the_end_though_the_holder_that_was_asked_goes() {
    const STEPS: usize = 10;
    // Less than the next time it is asked at the latest.
    const SOON: Duration = Duration::from_secs(10);
    let mut cluster = Cluster::of(4);
    let flow = cluster.file("line.yaml", &line(STEPS));
    let goes: [fn(&mut Node); 2] = [Node::kill, Node::stop];
    for (run, go) in goes.into_iter().enumerate() {
        cluster.ledger.control(|control| control.all.answer_after_ms = Some(100));
        let (execution, outside) = held_by_three(&cluster, &flow);
        let waiting = cluster.nodes[outside].address;
        let path = format!("/v1/executions/{execution}/wait");
        let waits = thread::spawn(move || {
            let told = Api { address: waiting, token: None }.ask("GET", &path, "");
            (told, Instant::now())
        });
        cluster.until_called((run * STEPS) as u64 + 3);
        go(&mut cluster.nodes[0]);
        let holder = if outside == 1 { 2 } else { 1 };
        assert_eq!(cluster.nodes[holder].end_of(&execution), "completed");
        let ended = Instant::now();
        let ((status, detail), told) = waits.join().unwrap();
        assert_eq!((status, &detail["condition"]), (200, &json!("completed")), "{detail}");
        assert!(told.saturating_duration_since(ended) < SOON, "{:?}", told - ended);
        cluster.nodes[0].restart(None);
        cluster.all_connected();
    }
}

#[test]
fn those_who_wait_for_an_end_keep_nobody_else_from_being_answered() {
    const WAITING: usize = 300;
    let cluster = Cluster::of(4);
    let nap = cluster.file("nap.yaml", NAP);
    let (execution, outside) = held_by_three(&cluster, &nap);
    let node = &cluster.nodes[outside];
    let ends: Vec<String> = thread::scope(|scope| {
        let ends: Vec<_> = (0..WAITING)
            .map(|_| scope.spawn(|| cluster.nodes[outside].end_of(&execution)))
            .collect();
        until("more wait than are answered at once", || {
            let (_, metrics) = cluster.nodes[0].ask("GET", "/metrics", &Json::Null);
            let mut lines = metrics.as_str().unwrap().lines();
            let waiting = lines.find_map(|line| line.strip_prefix("outlast_requests_waiting "));
            256.0 <= waiting.unwrap().parse::<f64>().unwrap()
        });
        let cancel = format!("/v1/executions/{execution}/cancel");
        let (status, cancelled) = node.ask("POST", &cancel, &json!({}));
        assert_eq!(status, 202, "{cancelled}");
        ends.into_iter().map(|end| end.join().unwrap()).collect()
    });
    assert!(ends.iter().all(|end| end == "cancelled"), "{ends:?}");
}

#[test]
fn what_is_over_is_tried_again_or_rolled_back_once_whoever_is_asked() {
    const STEPS: usize = 3;
    let cluster = Cluster::of(3);
    let flow = cluster.file("line.yaml", &line(STEPS));
    for (verb, end) in [("retry", "completed"), ("compensate", "compensated")] {
        let execution = faulted_after_one_step(&cluster, &flow, "passive:3");
        // Asked for at one node, told by all, and not to be asked for again at another.
        let asked = cluster.nodes[1].command(&[verb, &execution]).output().unwrap();
        assert!(asked.status.success(), "{asked:?}");
        for node in &cluster.nodes {
            until("every node tells of it", || {
                node.said(&["show", &execution, "--json"])["condition"] == end
            });
            assert_eq!(node.end_of(&execution), end);
            let again = node.command(&[verb, &execution]).output().unwrap();
            assert_eq!(again.status.code(), Some(1), "{again:?}");
        }
    }
    let entries = cluster.entries();
    let acts = |outcome| entries.iter().filter(|entry| entry.outcome == outcome).count();
    // All steps of one, a step of the other and its undo.
    assert_eq!((acts(Outcome::Done), acts(Outcome::Repeated)), (STEPS + 2, 0), "{entries:#?}");
}

/// Starts what fails after its first step, and waits until all nodes have forgotten that they held it.
fn faulted_after_one_step(cluster: &Cluster, flow: &Path, survival: &str) -> String {
    let called = cluster.ledger.traffic().arrived;
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(200));
    let execution = start(&cluster.nodes[0], flow, &["--survival", survival]);
    cluster.until_called(called + 1);
    cluster.ledger.control(|control| control.all.fail = Some(409));
    for node in 0..cluster.nodes.len() {
        assert_eq!(cluster.nodes[node].end_of(&execution), "faulted");
        until("everybody has forgotten it", || held(cluster, node) == json!(0));
    }
    cluster.ledger.control(|control| control.all = Behaviour::default());
    execution
}

/// A line of three steps whose undos are no undos of another line's steps.
fn line_of(cluster: &Cluster, name: &str) -> PathBuf {
    let text = line(3)
        .replace("step-", &format!("{name}-"))
        .replace("name: line", &format!("name: line-{name}"));
    cluster.file(&format!("line-{name}.yaml"), &text)
}

/// What a node answers when it is asked to change an execution.
fn changed(node: &Node, execution: &str, verb: &str) -> (u16, Json) {
    node.ask("POST", &format!("/v1/executions/{execution}/{verb}"), &json!({}))
}

/// What every node says of an execution that is over, once all say the same.
fn end_told_by_all(cluster: &Cluster, execution: &str) -> String {
    let mut ends = BTreeSet::new();
    until("all nodes tell of one end", || {
        ends = cluster.nodes.iter().map(|node| node.end_of(execution)).collect();
        ends.len() == 1
    });
    for node in &cluster.nodes {
        let shown = node.said(&["show", execution, "--json"]);
        assert!(ends.contains(shown["condition"].as_str().unwrap()), "{ends:?}: {shown}");
    }
    ends.pop_first().unwrap()
}

#[test]
fn what_is_over_goes_on_in_one_copy_also_for_those_who_have_none() {
    let mut cluster = Cluster::of(4);
    // Whoever rolls it back, whoever is asked to try it again: it is not done to another copy.
    for (asked, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let execution = faulted_after_one_step(&cluster, &line_of(&cluster, name), "passive:2");
        let (status, said) = changed(&cluster.nodes[asked], &execution, "compensate");
        assert_eq!(status, 202, "{said}");
        until("it is rolled back", || {
            cluster.nodes[asked].said(&["show", &execution, "--json"])["condition"] == "compensated"
        });
        for node in &cluster.nodes {
            let (status, said) = changed(node, &execution, "retry");
            assert_eq!(status, 409, "{said}");
        }
        assert_eq!(end_told_by_all(&cluster, &execution), "compensated");
    }

    // Two people who want different things at once get one of them.
    let execution = faulted_after_one_step(&cluster, &line_of(&cluster, "f"), "passive:3");
    let wishes = ["retry", "compensate", "retry", "compensate"];
    let done: Vec<u16> = thread::scope(|scope| {
        let execution = &execution;
        let asked = cluster.nodes.iter().zip(wishes);
        let asked: Vec<_> = asked
            .map(|(node, verb)| scope.spawn(move || changed(node, execution, verb).0))
            .collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert!(done.contains(&202) && done.iter().all(|it| [202, 409].contains(it)), "{done:?}");
    end_told_by_all(&cluster, &execution);

    // Whoever alone goes on with it is waited for, and named.
    let execution = faulted_after_one_step(&cluster, &line_of(&cluster, "g"), "passive:3");
    let shown = cluster.nodes[0].said(&["show", &execution, "--json"]);
    let keeper = shown["copies"][0].as_str().unwrap().to_owned();
    let place = cluster.nodes.iter().position(|node| node.id == keeper).unwrap();
    cluster.nodes[place].kill();
    for node in cluster.nodes.iter().filter(|node| node.id != keeper) {
        until("the loss is noticed", || {
            node.said(&["cluster", "status", "--json"])["unreachable"] == json!([keeper])
        });
        let (status, said) = changed(node, &execution, "retry");
        assert_eq!(status, 504, "{said}");
        assert!(said["detail"].as_str().unwrap().contains(&keeper), "{said}");
        assert_eq!(node.end_of(&execution), "faulted");
    }
    cluster.nodes[place].restart(None);
    cluster.all_connected();
    let (status, said) = changed(&cluster.nodes[(place + 1) % 4], &execution, "retry");
    assert_eq!(status, 202, "{said}");
    until("it is tried again", || cluster.nodes[place].end_of(&execution) == "completed");
    assert_eq!(end_told_by_all(&cluster, &execution), "completed");

    // Whoever is gone for good keeps nothing.
    let execution = faulted_after_one_step(&cluster, &line_of(&cluster, "e"), "passive:3");
    let shown = cluster.nodes[0].said(&["show", &execution, "--json"]);
    let keeper = shown["copies"][0].as_str().unwrap().to_owned();
    let place = cluster.nodes.iter().position(|node| node.id == keeper).unwrap();
    cluster.nodes[place].kill();
    let removing = ["cluster", "remove", &keeper];
    let removed = cluster.nodes[(place + 1) % 4].command(&removing).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    until("another one goes on with it", || {
        changed(&cluster.nodes[(place + 2) % 4], &execution, "retry").0 == 202
    });
    let last = &cluster.nodes[(place + 3) % 4];
    until("it is tried again by the next one", || last.end_of(&execution) == "completed");
}

#[test]
fn what_goes_on_in_one_copy_is_deleted_in_none() {
    let cluster = Cluster::of(4);
    let execution = faulted_after_one_step(&cluster, &line_of(&cluster, "h"), "passive:3");
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(2_000));
    let (status, said) = changed(&cluster.nodes[0], &execution, "retry");
    assert_eq!(status, 202, "{said}");
    for node in &cluster.nodes {
        let (status, said) =
            node.ask("DELETE", &format!("/v1/executions/{execution}"), &Json::Null);
        assert_eq!(status, 409, "{said}");
    }
    cluster.ledger.control(|control| control.all = Behaviour::default());
    assert_eq!(end_told_by_all(&cluster, &execution), "completed");

    // Once it is over it is deleted everywhere, by whoever is asked.
    let path = format!("/v1/executions/{execution}");
    let (status, said) = cluster.nodes[3].ask("DELETE", &path, &Json::Null);
    assert_eq!(status, 202, "{said}");
    for node in &cluster.nodes {
        let (status, said) = node.ask("GET", &path, &Json::Null);
        assert!([404, 410].contains(&status), "{said}");
    }
}

#[test]
fn whoever_was_told_of_an_end_can_delete_it_in_the_same_breath() {
    let cluster = Cluster::of(4);
    let flow = line_of(&cluster, "h");
    for node in cluster.nodes.iter().cycle().take(8) {
        let mut starting = node.command(&["start", "--wait", "--survival", "passive:3"]);
        let told = starting.arg(&flow).output().unwrap();
        assert!(told.status.success(), "{told:?}");
        let said = String::from_utf8_lossy(&told.stderr);
        let execution = said.trim_start_matches("execution ").trim();
        let deleted = node.command(&["delete", execution]).output().unwrap();
        assert!(deleted.status.success(), "{deleted:?}");
    }
}

#[test]
fn what_nobody_leads_is_not_deleted_and_not_said_to_be_led_or_unknown() {
    let mut cluster = Cluster::of(4);
    let nap = cluster.file("nap.yaml", NAP);
    let execution = start(&cluster.nodes[0], &nap, &["--survival", "passive:3"]);
    let shown = cluster.nodes[0].said(&["show", &execution, "--json"]);
    let held = shown["nodes"].as_array().unwrap();
    let (holders, others): (Vec<usize>, Vec<usize>) =
        (0..4).partition(|node| held.contains(&json!(cluster.nodes[*node].id)));
    // The one that is left has no majority to lead with.
    let lost = [holders[0], holders[1]].map(|node| {
        cluster.nodes[node].kill();
        cluster.nodes[node].id.clone()
    });
    let asked = &cluster.nodes[others[0]];
    let deleting = || asked.command(&["delete", &execution, "--force"]).output().unwrap();
    let mut said = String::new();
    until("it is not waited for those that are lost", || {
        said = String::from_utf8(deleting().stderr).unwrap();
        said.contains("nobody leads the execution")
    });
    assert!(lost.iter().all(|node| said.contains(node)), "{said}");
    assert!(said.contains("nothing was done"), "{said}");
}

#[test]
fn one_id_or_name_that_is_asked_for_everywhere_at_once_is_one_execution() {
    let cluster = Cluster::of(4);
    let nap = cluster.file("nap.yaml", NAP);
    // So that all know the definition.
    start(&cluster.nodes[0], &nap, &["--survival", "passive:2"]);
    let id = "0197a1b2-0000-7000-8000-00000000002a";
    for named in [json!({ "name": "order-17" }), json!({ "id": id })] {
        let mut body = json!({ "namespace": "test", "workflow": "nap", "survival": "passive:2" });
        body.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
        let started: Vec<(u16, Json)> = thread::scope(|scope| {
            let asked: Vec<_> = cluster
                .nodes
                .iter()
                .map(|node| scope.spawn(|| node.ask("POST", "/v1/executions", &body)))
                .collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        let ids: BTreeSet<&str> =
            started.iter().filter_map(|(_, said)| said["execution"].as_str()).collect();
        assert_eq!(ids.len(), 1, "{started:?}");
        assert!(started.iter().all(|(status, _)| [200, 201].contains(status)), "{started:?}");
        let new = started.iter().filter(|(status, _)| *status == 201).count();
        assert_eq!(new, 1, "{started:?}");

        // Something else under the same id or name is refused, wherever that is asked for.
        body["input"] = json!({ "something": "else" });
        for node in &cluster.nodes {
            let (status, said) = node.ask("POST", "/v1/executions", &body);
            assert_eq!(status, 409, "{said}");
        }
    }
}

#[test]
fn what_one_node_may_hold_is_not_started_again_by_name_while_that_one_is_silent() {
    let mut cluster = Cluster::of(3);
    let nap = cluster.file("nap.yaml", NAP);
    let alone = start(&cluster.nodes[0], &nap, &["--name", "order-1"]);
    let silent = cluster.nodes[0].id.clone();
    cluster.nodes[0].kill();
    let again = |name: &str, more: &[&str]| {
        let words = [&["start", nap.to_str().unwrap(), "--name", name], more].concat();
        let said = cluster.nodes[1].command(&words).output().unwrap();
        (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    // Also what nobody has heard of: the silent one may have.
    for name in ["order-1", "order-2"] {
        let (code, said) = again(name, &[]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("test/{name} may be known to {silent}")), "{said}");
        assert!(said.contains("cluster remove"), "{said}");
    }
    // What has no name, or falls to certain nodes by its name, does not wait.
    start(&cluster.nodes[1], &nap, &[]);
    start(&cluster.nodes[2], &nap, &["--name", "shared", "--survival", "passive:3"]);
    cluster.nodes[0].restart(None);
    cluster.all_connected();
    assert_eq!(start(&cluster.nodes[1], &nap, &["--name", "order-1"]), alone);
}

/// Its node alone knows that it was: whoever asks for the same elsewhere is not to have it run again.
#[test]
fn what_one_node_held_and_deleted_keeps_its_id_and_name_at_all_nodes() {
    let cluster = Cluster::of(3);
    let nap = cluster.file("nap.yaml", NAP);
    let id = "0197a1b2-0000-7000-8000-00000000002b";
    for named in [["--name", "once"], ["--id", id]] {
        let execution = start(&cluster.nodes[0], &nap, &named);
        assert_eq!(changed(&cluster.nodes[1], &execution, "cancel").0, 202);
        until("it has ended", || cluster.nodes[0].end_of(&execution) == "cancelled");
        let path = format!("/v1/executions/{execution}");
        let (status, said) = cluster.nodes[1].ask("DELETE", &path, &Json::Null);
        assert_eq!(status, 202, "{said}");
        for node in &cluster.nodes {
            let words = [&["start", nap.to_str().unwrap()], &named[..]].concat();
            let again = node.command(&words).output().unwrap();
            let said = String::from_utf8_lossy(&again.stderr);
            assert_eq!(again.status.code(), Some(1), "{again:?}");
            assert!(said.contains("was deleted"), "{said}");
            let (status, said) = node.ask("GET", &path, &Json::Null);
            assert_eq!(status, 410, "{said}");
        }
    }
}

#[test]
fn what_a_silent_node_has_is_neither_deleted_nor_unknown() {
    let mut cluster = Cluster::of(3);
    let nap = cluster.file("nap.yaml", NAP);
    let alone = start(&cluster.nodes[0], &nap, &[]);
    let shared = start(&cluster.nodes[1], &nap, &["--survival", "passive:3"]);
    for execution in [&alone, &shared] {
        assert_eq!(changed(&cluster.nodes[1], execution, "cancel").0, 202);
    }
    for node in 0..3 {
        until("everybody has forgotten it", || held(&cluster, node) == json!(0));
    }
    let silent = cluster.nodes[0].id.clone();
    cluster.nodes[0].kill();
    let delete = |node: &Node, execution: &str| {
        node.ask("DELETE", &format!("/v1/executions/{execution}"), &Json::Null)
    };
    let names_the_silent = |(status, said): (u16, Json), words: &str| {
        assert_eq!(status, 504, "{said}");
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.contains(&silent) && detail.contains(words), "{said}");
    };
    let other = &cluster.nodes[1];
    until("the loss is noticed", || {
        other.said(&["cluster", "status", "--json"])["unreachable"] == json!([silent])
    });
    names_the_silent(delete(other, &alone), "no node that answers knows execution");
    let resolution = json!({ "execution": alone, "resolution": "done" });
    let resolved = other.ask("POST", "/v1/parked/resolve", &resolution);
    names_the_silent(resolved, "no node that answers knows execution");
    // However often it is asked for while a copy is left.
    for _ in 0..2 {
        names_the_silent(delete(other, &shared), "is deleted where it was reached");
    }
    cluster.nodes[0].restart(None);
    cluster.all_connected();
    for execution in [&alone, &shared] {
        let (status, said) = delete(&cluster.nodes[1], execution);
        assert_eq!(status, 202, "{said}");
        let (status, said) =
            cluster.nodes[0].ask("GET", &format!("/v1/executions/{execution}"), &Json::Null);
        assert_eq!(status, 410, "{said}");
    }
}

#[test]
fn an_execution_that_one_node_holds_stays_through_drain_and_restart() {
    let mut cluster = Cluster::of(2);
    let nap = cluster.file("nap.yaml", NAP);
    let alone = start(&cluster.nodes[0], &nap, &[]);
    let drained = cluster.nodes[0].command(&["drain"]).output().unwrap();
    let said = String::from_utf8_lossy(&drained.stderr).into_owned();
    assert!(drained.status.success(), "{said}");
    assert!(said.contains("1 execution stays"), "{said}");
    cluster.nodes[0].stop();
    cluster.nodes[0].restart(None);
    let shown = cluster.nodes[0].said(&["show", &alone, "--json"]);
    assert_eq!(shown["condition"], "waiting", "{shown}");
}
