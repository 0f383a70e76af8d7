//! What any node can be asked for, whoever holds it: what happens, what is known, and who is there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::nodes::{Cluster, Node};
use crate::processes::{pause, until};
use crate::{line, start};

/// Waits for an event, and is over.
const LISTENER: &str =
    "document: { dsl: '1.0.3', namespace: test, name: listener, version: '1.0.0' }
do:
  - hear: { listen: { to: { one: { with: { type: go } } } } }
";

/// What a command says to people.
fn talk(node: &Node, arguments: &[&str]) -> String {
    let output = node.command(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_happens_is_followed_at_a_node_that_does_not_hold_it() {
    let cluster = Cluster::of(2);
    let flow = cluster.file("listener.yaml", LISTENER);
    let [holder, other] = &cluster.nodes[..] else { panic!("two nodes") };
    let execution = start(holder, &flow, &["--name", "listening"]);
    let mut command = other.command(&["history", "test/listening", "--follow"]);
    let mut following = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines =
        BufReader::new(following.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.next().is_some_and(|line| line.ends_with("  started")));
    assert!(lines.next().is_some_and(|line| line.ends_with("task started          hear")));
    // It has told all there was, and goes on with what happens now.
    let signalled = other.command(&["signal", &execution, "--type", "go"]).output().unwrap();
    assert!(signalled.status.success(), "{signalled:?}");
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.ends_with("task completed        hear")), "{rest:?}");
    assert!(rest.last().is_some_and(|line| line.contains("  ended ")), "{rest:?}");
    assert!(following.wait().unwrap().success());

    let unknown = talk(other, &["history", "test/nobody", "--follow"]);
    assert!(unknown.contains("there is no execution test/nobody"), "{unknown}");
}

#[test]
fn whoever_follows_is_told_when_the_holder_dies() {
    let mut cluster = Cluster::of(2);
    let flow = cluster.file("listener.yaml", LISTENER);
    let execution = start(&cluster.nodes[0], &flow, &[]);
    let mut command = cluster.nodes[1].command(&["history", &execution, "--follow"]);
    let mut following = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines =
        BufReader::new(following.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line.ends_with("hear")));
    cluster.nodes[0].kill();
    let ended = following.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    let advice = format!("`outlast history {execution} --follow` asks again");
    assert!(said.contains("the execution is not affected") && said.contains(&advice), "{said}");
}

#[test]
fn what_happens_is_followed_on_when_the_holder_that_told_it_dies() {
    let mut cluster = Cluster::of(4);
    let flow = cluster.file("listener.yaml", LISTENER);
    let execution = start(&cluster.nodes[0], &flow, &["--survival", "passive:3"]);
    let shown = cluster.nodes[0].said(&["show", &execution, "--json"]);
    let holders: Vec<_> = shown["nodes"].as_array().unwrap().iter().collect();
    let is_apart = |node: &&Node| !holders.contains(&&json!(node.id));
    let mut command = cluster.nodes.iter().find(is_apart).unwrap().command(&["history"]);
    let mut following =
        command.args([&execution, "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines =
        BufReader::new(following.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let told: Vec<_> = lines.by_ref().take(2).collect();
    assert!(told[1].ends_with("task started          hear"), "{told:?}");
    // Whoever leads is asked first.
    let leader = cluster.nodes.iter().position(|node| shown["leader"] == json!(node.id)).unwrap();
    cluster.nodes[leader].kill();
    let other = cluster.nodes.iter().find(|node| shown["leader"] != json!(node.id)).unwrap();
    until("another one leads", || {
        let signalled = other.command(&["signal", &execution, "--type", "go"]).output().unwrap();
        signalled.status.success()
    });
    let rest: Vec<String> = lines.collect();
    assert!(following.wait().unwrap().success(), "{rest:?}");
    assert!(rest.iter().any(|line| line.ends_with("task completed        hear")), "{rest:?}");
    assert!(!rest.iter().any(|line| line.ends_with("task started          hear")), "{rest:?}");
    assert!(rest.last().is_some_and(|line| line.contains("  ended ")), "{rest:?}");
}

/// A holder that was away does not know how the others came to what it is given when it is back.
#[test]
fn what_happens_while_the_holder_that_tells_it_is_away_is_told_by_another() {
    const STEPS: usize = 30;
    let mut cluster = Cluster::of(4);
    let flow = cluster.file("line.yaml", &line(STEPS));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(200));
    let execution = start(&cluster.nodes[0], &flow, &["--survival", "passive:3"]);
    let shown = cluster.nodes[0].said(&["show", &execution, "--json"]);
    let is = |node: &Node, of: &Json| *of == json!(node.id);
    let holders = shown["nodes"].as_array().unwrap();
    let is_apart = |node: &&Node| !holders.iter().any(|holder| is(node, holder));
    let mut command = cluster.nodes.iter().find(is_apart).unwrap().command(&["history"]);
    let mut following =
        command.args([&execution, "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines =
        BufReader::new(following.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let before: Vec<_> = lines.by_ref().take_while(|line| !line.ends_with("step3")).collect();
    let leader = cluster.nodes.iter().position(|node| is(node, &shown["leader"])).unwrap();
    // Nothing new is told meanwhile, so that nobody waits for its answer when it dies: whoever does hears of it.
    pause(Duration::from_millis(100));
    cluster.nodes[leader].kill();
    cluster.until_called(cluster.ledger.traffic().arrived + 1);
    cluster.nodes[leader].restart(None);
    let told: Vec<String> = before.into_iter().chain(lines).collect();
    assert!(following.wait().unwrap().success(), "{told:#?}");
    for step in 1..=STEPS {
        let line = format!("task completed        step{step}");
        assert!(told.iter().any(|told| told.ends_with(&line)), "{line}: {told:#?}");
    }
    assert!(told.last().is_some_and(|line| line.contains("  ended ")), "{told:#?}");
}

#[test]
fn the_history_of_what_is_over_is_told_by_whoever_saw_it() {
    const STEPS: usize = 20;
    let mut cluster = Cluster::of(3);
    let flow = cluster.file("line.yaml", &line(STEPS));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(200));
    let execution = start(&cluster.nodes[2], &flow, &["--survival", "passive:3"]);
    cluster.until_called(2);
    cluster.nodes[2].kill();
    cluster.until_called(8);
    // Whoever comes back is given the state, and is done with the execution later than all others.
    cluster.nodes[2].restart(None);
    until("all have forgotten that they held it together", || {
        let is_over = |node: &Node| {
            let shown = node.said(&["show", &execution, "--json"]);
            shown["condition"] == "completed" && shown["nodes"] == Json::Null
        };
        cluster.nodes.iter().all(is_over)
    });
    // A backup that lagged behind when the primary died took a state over from the other one, and says so.
    let mut whole = 0;
    for node in &cluster.nodes[..2] {
        let told = node.command(&["history", &execution]).output().unwrap();
        let told = String::from_utf8_lossy(&told.stdout);
        let adopted = told.lines().rev().find_map(completed_before).unwrap_or(0);
        for step in adopted + 1..=STEPS {
            let line = format!("task completed        step{step}");
            assert!(told.lines().any(|told| told.ends_with(&line)), "{line}: {told}");
        }
        whole += usize::from(adopted == 0);
    }
    assert!(0 < whole, "one of them saw it all");
}

/// How many activities were completed in a run that was taken over, if a line of a history tells of one.
fn completed_before(line: &str) -> Option<usize> {
    let (_, adopted) = line.split_once("adopted               the run of other nodes, ")?;
    adopted.split(' ').next()?.parse().ok()
}

/// Starts something at the first node and waits there for its end: the process, what was started, and what
/// is said from then on.
fn waiting_at_the_first(
    cluster: &Cluster,
) -> (Child, String, impl Iterator<Item = String> + use<>) {
    let flow = cluster.file("listener.yaml", LISTENER);
    let mut command = cluster.nodes[0].command(&["start", "--wait"]);
    let mut waiting = command.arg(&flow).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines =
        BufReader::new(waiting.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let first = lines.next().unwrap();
    let execution = first.strip_prefix("execution ").unwrap().to_owned();
    (waiting, execution, lines)
}

#[test]
fn whoever_waits_for_an_end_at_a_node_that_stops_is_told_whom_to_ask() {
    let mut cluster = Cluster::of(2);
    let (mut waiting, execution, lines) = waiting_at_the_first(&cluster);
    let mut asked = asked_for_the_end(&cluster.nodes[0], &execution);
    cluster.nodes[0].stop();
    let mut answer = String::new();
    asked.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("this node is about to stop") && answer.contains("ask another node"));
    // What it asks may have been on its way when the node took no more; it is told what to do in any case.
    let rest: Vec<String> = lines.collect();
    let advice = format!("{execution} was started and goes on; `outlast show {execution}`");
    assert!(rest.iter().any(|line| line.contains(&advice)), "{rest:?}");
    // Nobody takes it for a workflow that has faulted.
    assert_eq!(waiting.wait().unwrap().code(), Some(7), "{rest:?}");
}

/// Asks a node for the end of an execution, and returns when the node has begun to answer: that it wants the
/// body is the only thing that it says before the end.
fn asked_for_the_end(node: &Node, execution: &str) -> TcpStream {
    let mut stream = TcpStream::connect(node.address).unwrap();
    let head = format!(
        "GET /v1/executions/{execution}/wait HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
         Content-Length: 2\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{}").unwrap();
    stream
}

#[test]
fn whoever_starts_what_falls_to_drained_nodes_alone_is_told_who_they_are() {
    let cluster = Cluster::of(3);
    let flow = cluster.file("listener.yaml", LISTENER);
    let [first, second, third] = &cluster.nodes[..] else { panic!("three nodes") };
    for node in [second, third] {
        let drained = node.ask("POST", "/v1/cluster/drain", &json!({ "drain": true }));
        assert_eq!(drained.0, 200, "{drained:?}");
    }
    let start_at = |node: &Node, number: usize| {
        let id = format!("00000000-0000-7000-8000-{number:012}");
        let mut command = node.command(&["start", "--survival", "passive:2", "--id", &id]);
        let started = command.arg(&flow).output().unwrap();
        (!started.status.success()).then(|| String::from_utf8_lossy(&started.stderr).into_owned())
    };
    // One of three ids falls to these two.
    let mut refused = (0..40).filter_map(|number| Some((number, start_at(first, number)?)));
    let (number, told) = refused.next().expect("one falls to them");
    for told in [told, start_at(second, number).expect("whoever is drained is asked")] {
        let names = told.contains(&second.id) && told.contains(&third.id);
        assert!(told.contains("Draining are") && names, "{told}");
    }

    // Without an id it may fall to any node; now there is none.
    let drained = first.ask("POST", "/v1/cluster/drain", &json!({ "drain": true }));
    assert_eq!(drained.0, 200, "{drained:?}");
    until("whoever starts without an id is told who drains", || {
        let started = second.command(&["start"]).arg(&flow).output().unwrap();
        let told = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(!started.status.success(), "{told}");
        told.contains("Draining are") && cluster.nodes.iter().all(|node| told.contains(&node.id))
    });
}

/// Somebody who is silent is waited for before whoever leads is asked; the leader dies meanwhile.
#[test]
fn what_was_for_a_node_that_died_meanwhile_is_asked_of_another() {
    let mut cluster = Cluster::of(5);
    let flow = cluster.file("listener.yaml", LISTENER);
    let again = start(&cluster.nodes[0], &flow, &["--survival", "passive:3"]);
    let shown = cluster.nodes[0].said(&["show", &again, "--json"]);
    let holders = shown["nodes"].as_array().unwrap();
    let apart = |node: &&Node| !holders.contains(&json!(node.id));
    let [asked, silent] = cluster.nodes.iter().filter(apart).collect::<Vec<_>>()[..] else {
        panic!("two of five: {shown}")
    };
    // It does not hear the other one, and is heard.
    let deaf = json!({ "block": [asked.id], "incoming": true, "outgoing": false });
    let cut = silent.ask("PUT", "/v1/faults", &deaf);
    assert_eq!(cut.0, 204, "{cut:?}");
    let mut starting = asked.command(&["start", "--survival", "passive:3", "--id", &again]);
    let starting =
        starting.arg(&flow).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut cancelling = asked.command(&["cancel", &again]);
    let cancelling = cancelling.stderr(Stdio::piped()).spawn().unwrap();
    pause(Duration::from_millis(700));
    let leader = cluster.nodes.iter().position(|node| shown["leader"] == json!(node.id)).unwrap();
    cluster.nodes[leader].kill();
    let started = starting.wait_with_output().unwrap();
    assert!(started.status.success(), "{started:?}");
    assert_eq!(String::from_utf8_lossy(&started.stdout).trim(), again);
    let cancelled = cancelling.wait_with_output().unwrap();
    assert!(cancelled.status.success(), "{cancelled:?}");
}

/// A primary that is cut off comes to an end of its own, which does not count.
#[test]
fn whoever_follows_a_node_that_is_cut_off_hears_of_the_end_that_counts() {
    let mut cluster = Cluster::of(3);
    // Without keys, what both runs did was done twice.
    let keyless = "class: compensatable, idempotency: { none: true }";
    let flow = cluster.file("line.yaml", &line(10).replace("class: compensatable", keyless));
    cluster.ledger.control(|control| control.all.answer_after_ms = Some(100));
    let [first, second, third] = &cluster.nodes[..] else { panic!("three nodes") };
    let execution = start(first, &flow, &["--survival", "partition-tolerant:3"]);
    let cut = first.ask("PUT", "/v1/faults", &json!({ "block": [second.id, third.id] }));
    assert_eq!(cut.0, 204, "{cut:?}");
    let mut command = first.command(&["history", &execution, "--follow"]);
    let mut following = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines =
        BufReader::new(following.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line.contains("  ended ")), "it comes to an end by itself");
    assert_eq!(second.end_of(&execution), "completed");
    let shown = second.said(&["show", &execution, "--json"]);
    let leader = if shown["leader"] == second.id.as_str() { second } else { third };
    let path = format!("/v1/executions/{execution}/history");
    let told = leader.ask("GET", &path, &Json::Null);
    assert_eq!(told.0, 200, "{told:?}");

    let healed = first.ask("PUT", "/v1/faults", &json!({ "block": [] }));
    assert_eq!(healed.0, 204, "{healed:?}");
    let rest: Vec<String> = lines.collect();
    assert!(following.wait().unwrap().success());
    assert!(rest.first().is_some_and(|line| line.contains("  adopted ")), "{rest:?}");
    assert!(rest.last().is_some_and(|line| line.contains("  ended ")), "{rest:?}");
    until("all have forgotten that they held it together", || {
        cluster
            .nodes
            .iter()
            .all(|node| node.ask("GET", "/v1/cluster", &Json::Null).1["own"]["held"] == json!(0))
    });
    assert_eq!(leader.ask("GET", &path, &Json::Null), told, "its own history, still");
    let undone = undone_of_lost_run(first, &execution);
    assert!(undone.len() > 5 && undone.is_sorted_by(|one, next| next < one), "{undone:?}");
    cluster.nodes[0].kill();
    cluster.nodes[0].restart(None);
    assert_eq!(undone_of_lost_run(&cluster.nodes[0], &execution), undone);
}

/// Which steps a node undid because the run they belong to does not count, in the order of its history.
fn undone_of_lost_run(node: &Node, execution: &str) -> Vec<u64> {
    let told = node.ask("GET", &format!("/v1/executions/{execution}/history"), &Json::Null).1;
    let lines = told["lines"].as_array().expect("a list");
    let undone = lines.iter().filter(|line| line["what"] == "undone");
    undone
        .map(|line| {
            assert_eq!(line["lost"], json!(true), "the run that counts undid nothing: {line}");
            let task = line["task"].as_str().expect("a task was undone");
            task.strip_prefix("step").and_then(|step| step.parse().ok()).expect("one of the line")
        })
        .collect()
}

#[test]
fn whoever_waits_for_an_end_at_a_node_that_dies_is_told_that_it_goes_on() {
    let mut cluster = Cluster::of(2);
    let (mut waiting, execution, lines) = waiting_at_the_first(&cluster);
    cluster.nodes[0].kill();
    let rest: Vec<String> = lines.collect();
    let advice = format!("{execution} was started and goes on; `outlast show {execution}`");
    assert!(rest.iter().any(|line| line.contains(&advice)), "{rest:?}");
    // Nobody takes it for a workflow that has faulted.
    assert_eq!(waiting.wait().unwrap().code(), Some(7), "{rest:?}");
}

#[test]
fn whoever_starts_where_too_few_are_reached_is_told_and_it_begins_when_they_are() {
    let cluster = Cluster::of(3);
    let flow = cluster.file("listener.yaml", LISTENER);
    let [first, second, third] = &cluster.nodes[..] else { panic!("three nodes") };
    let cut = first.ask("PUT", "/v1/faults", &json!({ "block": [second.id, third.id] }));
    assert_eq!(cut.0, 204, "{cut:?}");
    until("the others are missed", || {
        let seen = first.said(&["cluster", "status", "--json"]);
        seen["unreachable"].as_array().map(Vec::len) == Some(2)
    });
    let mut command = first.command(&["start", "--survival", "passive:3"]);
    let mut starting = command.arg(&flow).stderr(Stdio::piped()).spawn().unwrap();
    until("the start is answered", || starting.try_wait().unwrap().is_some());
    let starting = starting.wait_with_output().unwrap();
    assert_eq!(starting.status.code(), Some(1), "{starting:?}");
    let said = String::from_utf8_lossy(&starting.stderr);
    assert!(said.contains("too few of the nodes"), "{said}");
    assert!(said.contains(&second.id) && said.contains(&third.id), "{said}");

    let listed = first.said(&["ps", "--json"]);
    let [kept] = &listed["executions"].as_array().unwrap()[..] else { panic!("{listed}") };
    let execution = kept["execution"].as_str().unwrap();
    let healed = first.ask("PUT", "/v1/faults", &json!({ "block": [] }));
    assert_eq!(healed.0, 204, "{healed:?}");
    until("it begins", || third.said(&["show", execution, "--json"])["condition"] == "waiting");
    let signalled = third.command(&["signal", execution, "--type", "go"]).output().unwrap();
    assert!(signalled.status.success(), "{signalled:?}");
    assert_eq!(second.end_of(execution), "completed");
}

#[test]
fn a_definition_is_known_at_every_node() {
    let mut cluster = Cluster::of(2);
    let flow = cluster.file("listener.yaml", LISTENER);
    let [first, second] = &cluster.nodes[..] else { panic!("two nodes") };
    let added = first.command(&["definitions", "add"]).arg(&flow).output().unwrap();
    assert!(added.status.success(), "{added:?}");
    let known = second.said(&["definitions", "--json"]);
    assert_eq!(known["definitions"][0]["name"], "listener", "{known}");
    assert_eq!(known, first.said(&["definitions", "--json"]));
    let text = second.command(&["definitions", "get", "test/listener"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&text.stdout), LISTENER);

    // What may be missing is said, with whom to blame.
    let gone = cluster.nodes[0].id.clone();
    cluster.nodes[0].kill();
    let second = &cluster.nodes[1];
    until("the loss is noticed", || {
        let (_, listed) = second.ask("GET", "/v1/definitions", &json!(null));
        listed["unanswered"] == json!([gone])
    });
    for list in ["definitions", "parked", "ps"] {
        let said = talk(second, &[list]);
        assert!(said.contains(&format!("no answer from {gone}")), "{list}: {said}");
    }
}

#[test]
fn the_text_that_lost_its_version_to_another_one_in_a_cut_is_not_started_as_that_one() {
    let cluster = Cluster::of(2);
    let [first, second] = &cluster.nodes[..] else { panic!("two nodes") };
    let cut = first.ask("PUT", "/v1/faults", &json!({ "block": [second.id] }));
    assert_eq!(cut.0, 204, "{cut:?}");
    let texts = ["go", "now"].map(|kind| {
        cluster
            .file(&format!("{kind}.yaml"), &LISTENER.replace("type: go", &format!("type: {kind}")))
    });
    let digest = |known: &Json| known["digest"].as_str().unwrap().to_owned();
    let add = |node: &Node, text| {
        digest(&node.said(&["definitions", "add", "--json", Path::to_str(text).unwrap()]))
    };
    let mut known = [(add(first, &texts[0]), &texts[0]), (add(second, &texts[1]), &texts[1])];
    known.sort();
    let [(meant, by_all), (lost, by_none)] = known;
    let healed = first.ask("PUT", "/v1/faults", &json!({ "block": [] }));
    assert_eq!(healed.0, 204, "{healed:?}");
    for node in [first, second] {
        until("the same text is meant everywhere", || {
            // Lists are those of all nodes; what is read is what the node itself means.
            let known = node.ask("GET", "/v1/definitions/test/listener/1.0.0", &Json::Null).1;
            digest(&known) == meant
        });
        let refused = talk(node, &["start", by_none.to_str().unwrap()]);
        assert!(refused.contains("version 1.0.0 is registered with another text"), "{refused}");
        assert!(refused.contains(&meant[..16]) && refused.contains(&lost[..16]), "{refused}");
        start(node, by_all, &[]);
    }
    let listed = first.said(&["ps", "--json"]);
    assert_eq!(listed["executions"].as_array().map(Vec::len), Some(2), "{listed}");
}

#[test]
fn whoever_was_told_to_end_has_left_and_is_not_missed() {
    let mut cluster = Cluster::of(3);
    let gone = cluster.nodes[2].id.clone();
    cluster.nodes[2].stop();
    for node in &cluster.nodes[..2] {
        until("it is heard of no more", || {
            let seen = node.said(&["cluster", "status", "--json"]);
            let members = seen["members"].as_array().cloned().unwrap_or_default();
            members.iter().any(|it| it["node"] == gone.as_str() && it["reachable"] == false)
        });
        let seen = node.said(&["cluster", "status", "--json"]);
        assert_eq!(seen["unreachable"], json!([]), "{seen}");
        let shown = node.command(&["cluster", "status"]).output().unwrap();
        let (shown, said) = (String::from_utf8_lossy(&shown.stdout), shown.stderr);
        let line = shown.lines().find(|line| line.starts_with(&gone)).unwrap();
        assert!(line.contains("  left  "), "{line}");
        assert_eq!(String::from_utf8_lossy(&said), "", "nothing is wrong");
    }
}
