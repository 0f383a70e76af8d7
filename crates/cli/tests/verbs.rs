//! The verbs that talk to a node, run against a real one on loopback.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use outlast_engine::{Ask, Reply, StartAsk, WorkflowVersion};
use outlast_expressions::value;
use outlast_node::http::{self, Server, rotate_token};
use outlast_node::{Configuration, Node, NodeHandle};
use serde_json::Value as Json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const GREET: &str = "\
document: { dsl: '1.0.3', namespace: test, name: greet, version: '1.0.0' }
do:
  - greet: { set: { greeting: '${ \"hello \" + .name }' } }
";

const LISTEN: &str = "\
document: { dsl: '1.0.3', namespace: test, name: listen, version: '1.0.0' }
do:
  - hear:
      listen: { to: { one: { with: { type: com.example.said.v1 } } } }
";

const FAIL: &str = "\
document: { dsl: '1.0.3', namespace: test, name: fail, version: '1.0.0' }
do:
  - explode:
      raise: { error: { type: 'https://example.com/errors/broken', status: 418, title: Broken } }
";

const UNKNOWN: &str = "\
document: { dsl: '1.0.3', namespace: test, name: unknown, version: '1.0.0' }
do:
  - charge:
      call: fail:1.0.0@default
      with: { unknown: true }
      metadata: { outlast: { class: pivot } }
";

/// A node with its API, ended with the test.
struct World {
    directory: TempDir,
    runtime: Runtime,
    node: NodeHandle,
    server: Option<Server>,
    address: SocketAddr,
    token: String,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let data = directory.path().join("data");
        let node = Node::start(Configuration::new(&data), runtime.handle()).unwrap();
        let token = rotate_token(&data).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = http::Options { listen, token: Some(data), ..http::Options::default() };
        let server = runtime.block_on(http::serve(node.clone(), options)).unwrap();
        let address = server.address();
        Self { directory, runtime, node, server: Some(server), address, token }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
        command
            .env_remove("OUTLAST_DATA")
            .env("OUTLAST_NODE", format!("http://{}", self.address))
            .env("OUTLAST_TOKEN", &self.token);
        command
    }

    fn run(&self, arguments: &[&str]) -> Said {
        Said::of(self.command().args(arguments).output().unwrap())
    }

    /// Runs a verb that must succeed, and gives what it says on stdout.
    fn ok(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        said.data
    }

    fn json(&self, arguments: &[&str]) -> Json {
        let text = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn condition(&self, execution: &str) -> String {
        self.json(&["show", execution])["condition"].as_str().unwrap().to_owned()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let server = self.server.take().expect("stopped once");
        self.runtime.block_on(async {
            server.stop().await;
            self.node.shutdown().await;
        });
    }
}

/// What a command said, and how it ended.
#[derive(Debug)]
struct Said {
    code: i32,
    data: String,
    talk: String,
}

impl Said {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it was not killed"),
            data: String::from_utf8(output.stdout).unwrap(),
            talk: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Ids and times are different each time; what stands for them is as wide.
fn settled(text: &str, ids: &[&str]) -> String {
    let mut text = text.to_owned();
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(id, &format!("{:-<36}", format!("id-{number}")));
    }
    let time = |word: &str| word.starts_with("20") && word.ends_with('Z');
    let settle = |word: &str| {
        let zeroed = word.replace(|letter: char| letter.is_ascii_digit(), "0");
        if time(word) { zeroed } else { word.to_owned() }
    };
    text.split_inclusive([' ', '\n'])
        .map(|word| {
            let (bare, end) = word.split_at(word.trim_end().len());
            settle(bare) + end
        })
        .collect()
}

#[test]
fn starting_and_waiting_prints_the_output() {
    let world = World::new();
    let flow = world.file("greet.yaml", GREET);
    let said = world.run(&["start", &flow, "--input", r#"{"name": "you"}"#, "--wait"]);
    assert_eq!((said.code, said.data.as_str()), (0, "{\n  \"greeting\": \"hello you\"\n}\n"));
    assert!(said.talk.starts_with("execution "), "{said:?}");
}

#[test]
fn a_changed_document_of_a_known_version_is_not_started_and_both_texts_are_told_apart() {
    let world = World::new();
    let flow = world.file("greet.yaml", GREET);
    world.ok(&["start", &flow]);
    let known =
        world.json(&["definitions"])["definitions"][0]["digest"].as_str().unwrap()[..16].to_owned();
    let changed = world.file("changed.yaml", &GREET.replace("hello", "goodbye"));
    let said = world.run(&["start", &changed]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.talk.contains("test/greet version 1.0.0 is registered with another text"),
        "{said:?}"
    );
    assert!(said.talk.contains(&known), "{said:?}");
    assert!(said.talk.contains("give the document a new version"), "{said:?}");
    assert_eq!(world.json(&["ps"])["executions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn whoever_stops_waiting_is_told_that_the_execution_goes_on_and_how_to_wait_again() {
    let world = World::new();
    let flow = world.file("listen.yaml", LISTEN);
    let mut command = world.command();
    command.args(["start", &flow, "--wait"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut waiting = command.spawn().unwrap();
    let talk = BufReader::new(waiting.stderr.take().unwrap());
    let mut lines = talk.lines().map(Result::unwrap);
    let id = lines.find_map(|line| line.strip_prefix("execution ").map(str::to_owned)).unwrap();
    let sent = Command::new("kill").args(["-s", "INT", &waiting.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let rest: Vec<String> = lines.collect();
    let follow = format!("outlast history {id} --follow");
    assert!(rest.iter().any(|it| it.contains("goes on") && it.contains(&follow)), "{rest:?}");
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
    assert_eq!(world.condition(&id), "waiting");
}

#[test]
fn a_list_of_what_nobody_holds_says_that_there_is_no_such_member() {
    let world = World::new();
    let said = world.run(&["ps", "--holder", "0123456789abcdef"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.talk.contains("there is no member 0123456789abcdef"), "{said:?}");
    let own = format!("{:016x}", world.node.meta().node.0);
    assert_eq!(world.run(&["ps", "--holder", &own]).code, 0);
}

#[test]
fn a_name_makes_starting_idempotent() {
    let world = World::new();
    let flow = world.file("greet.yaml", GREET);
    let input = world.file("input.json", r#"{"name": "you"}"#);
    let input = format!("@{input}");
    let start = ["start", "test/greet", "--input", &input, "--name", "once"];
    assert_eq!(world.run(&start).code, 1, "nothing is registered yet");
    world.ok(&["definitions", "add", &flow]);
    let first = world.ok(&start);
    assert_eq!(world.ok(&start), first);
    assert_eq!(world.json(&["show", "test/once"])["execution"], first.trim());
    let other = world.run(&["start", "test/greet", "--input", "{}", "--name", "once"]);
    assert_eq!(other.code, 1, "{other:?}");
}

#[test]
fn a_name_with_control_characters_is_refused_before_anything_is_done() {
    let world = World::new();
    let flow = world.file("greet.yaml", GREET);
    for name in ["\u{1b}[2J", "two\nlines", "bell\u{7}"] {
        for words in [["start", &flow, "--name", name], ["run", &flow, "--id", name]] {
            let said = world.run(&words);
            assert_eq!(said.code, 2, "{said:?}");
            assert!(said.talk.contains("control character"), "{said:?}");
            assert!(!said.talk.contains(name), "{said:?}");
        }
    }
    assert_eq!(world.json(&["definitions"])["definitions"], serde_json::json!([]));
}

#[test]
fn what_was_named_by_an_earlier_release_does_nothing_to_a_terminal() {
    let world = World::new();
    world.ok(&["definitions", "add", &world.file("greet.yaml", GREET)]);
    let name = "old\u{1b}[2J\u{9b}1m\nx\u{7}\u{7f}";
    let ask = Ask::Start(Box::new(StartAsk {
        id: world.node.new_id(),
        given: false,
        name: Some(name.to_owned()),
        namespace: "test".to_owned(),
        workflow: "greet".to_owned(),
        version: WorkflowVersion::Latest,
        input: value::object([("name", value::string(name))]),
        salt: [0; 16],
        survival: None,
    }));
    let Ok(Reply::Started { execution, .. }) = world.runtime.block_on(world.node.ask(ask)) else {
        panic!("it was not started")
    };
    let id = execution.to_string();
    for words in [&["ps"][..], &["show", &id], &["history", &id], &["ps", "--json"]] {
        let said = world.ok(words);
        let is_obeyed = |letter: char| letter.is_control() && letter != '\n';
        assert!(!said.contains(is_obeyed), "{words:?}: {said:?}");
    }
    assert!(world.ok(&["ps"]).contains(r"old\u{1b}[2J\u{9b}1m\nx\u{7}\u{7f}"));
    assert_eq!(world.json(&["show", &id])["name"], name, "programs read what it is");
}

#[test]
fn lists_and_details_are_readable() {
    let world = World::new();
    let (greet, listen) = (world.file("greet.yaml", GREET), world.file("listen.yaml", LISTEN));
    assert!(world.run(&["ps"]).talk.contains("start one with `outlast start FLOW`"));
    let input = r#"{"name": "you"}"#;
    let one = world.ok(&["start", &greet, "--input", input, "--name", "first"]);
    let two = world.ok(&["start", &listen]);
    let (one, two) = (one.trim(), two.trim());
    insta::assert_snapshot!(settled(&world.ok(&["ps"]), &[one, two]), @r"
    EXECUTION                             WORKFLOW           CONDITION  STARTED               NAME
    id-0--------------------------------  test/greet:1.0.0   completed  0000-00-00T00:00:00Z  first
    id-1--------------------------------  test/listen:1.0.0  waiting    0000-00-00T00:00:00Z  -
    ");
    assert_eq!(world.json(&["ps", "--status", "waiting"])["executions"][0]["execution"], two);
    let none = world.run(&["ps", "--limit", "0"]);
    assert!(none.code == 2 && none.talk.contains("a whole number from 1 on"), "{none:?}");
    assert_eq!(world.json(&["ps", "--limit", "1"])["executions"].as_array().unwrap().len(), 1);
    assert_eq!(world.run(&["ps", "--status", "asleep"]).code, 2);
    insta::assert_snapshot!(settled(&world.ok(&["show", one]), &[one]), @r#"
    execution  id-0--------------------------------
    workflow   test/greet:1.0.0
    condition  completed
    started    0000-00-00T00:00:00.000Z
    changed    0000-00-00T00:00:00.000Z
    progress   0 activities completed
    name       first
    input      {"name":"you"}
    output     {"greeting":"hello you"}
    "#);
    insta::assert_snapshot!(settled(&world.ok(&["history", one]), &[one]), @r"
    0000-00-00T00:00:00.000Z  started
    0000-00-00T00:00:00.000Z  task started          greet
    0000-00-00T00:00:00.000Z  task completed        greet
    0000-00-00T00:00:00.000Z  ended                 completed
    ");
}

#[test]
fn executions_are_listed_by_age_whatever_their_ids() {
    let world = World::new();
    let listen = world.file("listen.yaml", LISTEN);
    let ids = [3, 1, 2].map(|digit| format!("{digit}0000000-0000-4000-8000-000000000000"));
    for id in &ids {
        world.ok(&["start", &listen, "--id", id]);
    }
    let listed = world.json(&["ps"]);
    let listed = listed["executions"].as_array().unwrap().iter();
    assert_eq!(listed.map(|one| one["execution"].as_str().unwrap()).collect::<Vec<_>>(), ids);
    let told = world.ok(&["ps"]);
    let first = told.lines().nth(1).unwrap();
    assert!(first.starts_with(&ids[0]), "{told}");
}

#[test]
fn a_signal_reaches_the_execution_and_following_ends_with_it() {
    let world = World::new();
    let flow = world.file("listen.yaml", LISTEN);
    world.ok(&["start", &flow, "--name", "ear"]);
    let signal = ["signal", "test/ear", "--type", "com.example.said.v1", "--data", r#"{"n": 3}"#];
    world.ok(&signal);
    let followed = world.ok(&["history", "test/ear", "--follow"]);
    assert!(followed.trim_end().ends_with("completed"), "{followed}");
    assert_eq!(world.json(&["show", "test/ear"])["output"][0]["n"], 3);
    assert_eq!(world.run(&signal).code, 1, "it has ended");
}

#[test]
fn executions_are_held_cancelled_and_forgotten() {
    let world = World::new();
    let flow = world.file("listen.yaml", LISTEN);
    let id = world.ok(&["start", &flow]);
    let id = id.trim();
    world.ok(&["suspend", id]);
    assert_eq!(world.condition(id), "suspended");
    world.ok(&["resume", id]);
    assert_eq!(world.condition(id), "waiting");
    assert_eq!(world.run(&["delete", id]).code, 1, "it has not ended");
    world.ok(&["cancel", id]);
    assert_eq!(world.condition(id), "cancelled");
    world.ok(&["delete", id]);
    assert_eq!(world.run(&["show", id]).code, 1);
}

#[test]
fn a_running_execution_is_rolled_back() {
    let world = World::new();
    let flow = world.file("listen.yaml", LISTEN);
    let id = world.ok(&["start", &flow]);
    world.ok(&["compensate", id.trim(), "--reason", "no longer wanted"]);
    let shown = world.json(&["show", id.trim()]);
    assert_eq!(shown["condition"], "compensated", "{shown}");
    assert!(world.ok(&["history", id.trim()]).contains("no longer wanted"));
}

#[test]
fn a_faulted_execution_is_told_by_the_exit_code_and_can_be_retried() {
    let world = World::new();
    let flow = world.file("fail.yaml", FAIL);
    let said = world.run(&["start", &flow, "--name", "bad", "--wait"]);
    assert_eq!((said.code, said.data.as_str()), (1, ""));
    assert!(said.talk.contains("Broken"), "{said:?}");
    assert!(said.talk.contains("fail.yaml:3:5"), "at its place: {said:?}");
    world.ok(&["retry", "test/bad"]);
    assert!(world.ok(&["history", "test/bad"]).contains("retry requested"));
}

#[test]
fn what_is_parked_is_listed_and_resolved() {
    let world = World::new();
    assert!(world.run(&["parked"]).talk.contains("nothing is parked"));
    let flow = world.file("unknown.yaml", UNKNOWN);
    let id = world.ok(&["start", &flow, "--name", "bill"]);
    let id = id.trim();
    let parked = world.json(&["parked"]);
    assert_eq!(parked["parked"][0]["execution"], id, "{parked}");
    let effect = parked["parked"][0]["effect"].as_str().unwrap();
    assert!(world.ok(&["ps"]).contains("parked"));
    let listed = world.run(&["parked", "--namespace", "test"]);
    assert!(listed.data.contains(effect) && listed.talk.contains("outlast resolve"), "{listed:?}");
    let [key, node] = ["key", "node"].map(|name| parked["parked"][0][name].as_str().unwrap());
    assert_eq!((key.len(), node.len()), (32, 16), "{parked}");
    assert!(world.ok(&["history", id]).contains(key), "it is what the provider received");
    assert_eq!([&parked["parked"][0]["undo"], &parked["parked"][0]["lost"]], [false, false]);
    let which = format!("key {key}, made by {node}\n");
    assert!(listed.data.contains(&which), "{listed:?}");
    assert!(world.ok(&["show", id]).contains(&which));
    let answer = format!("outlast resolve {id} {effect} done|not-done|");
    assert!(world.ok(&["show", id]).contains(&answer), "{}", world.ok(&["show", id]));
    assert_eq!(world.run(&["resolve", "done"]).code, 2);
    assert_eq!(world.run(&["resolve", id, "perhaps"]).code, 2);
    let resolved = world.ok(&["resolve", id, effect, "done", "--result", r#"{"paid": 5}"#]);
    assert!(resolved.starts_with("1 resolved\n") && resolved.contains(&which), "{resolved}");
    assert_eq!(world.json(&["show", id])["output"]["paid"], 5);
    for nothing in [&["resolve", id, "done"][..], &["resolve", "--all", "retry", "--json"]] {
        let said = world.run(nothing);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.talk.contains("nothing that is parked fits"), "{said:?}");
    }
}

#[test]
fn drawings_go_to_stdout_or_into_a_file() {
    let world = World::new();
    let flow = world.file("greet.yaml", GREET);
    let id = world.ok(&["start", &flow, "--input", r#"{"name": "x"}"#]);
    let mermaid = world.ok(&["graph", id.trim(), "--format", "mermaid"]);
    assert!(mermaid.contains("flowchart") && mermaid.contains("class t1 completed"), "{mermaid}");
    let picture = world.directory.path().join("greet.svg");
    world.ok(&["graph", id.trim(), "--output", &picture.display().to_string()]);
    assert!(fs::read_to_string(picture).unwrap().starts_with("<svg"));
}

#[test]
fn definitions_are_listed_and_printed() {
    let world = World::new();
    let flow = world.file("greet.yaml", GREET);
    assert_eq!(world.ok(&["definitions", "add", &flow]), "test/greet:1.0.0\n");
    assert_eq!(world.ok(&["definitions", "get", "test/greet"]), GREET);
    assert!(world.ok(&["definitions"]).contains("test       greet  1.0.0"));
    let broken = world.file("broken.yaml", "document: { dsl: '1.0.3' }\ndo: []\n");
    let said = world.run(&["definitions", "add", &broken]);
    assert_eq!((said.code, said.data.as_str()), (5, ""));
    assert!(said.talk.contains("broken.yaml:1:"), "{said:?}");
}

#[test]
fn without_the_token_nothing_is_told_but_where_it_is() {
    let world = World::new();
    let said = Said::of(world.command().env_remove("OUTLAST_TOKEN").arg("ps").output().unwrap());
    assert_eq!(said.code, 1);
    assert!(said.talk.contains("OUTLAST_TOKEN"), "{said:?}");
    let data = world.directory.path().join("data");
    let mut with_directory = world.command();
    with_directory.env_remove("OUTLAST_TOKEN").env("OUTLAST_DATA", &data).arg("ps");
    assert_eq!(Said::of(with_directory.output().unwrap()).code, 0);
    assert_eq!(token(&data, &[]), world.token);
    let fresh = token(&data, &["--rotate"]);
    assert_ne!(fresh, world.token);
    assert_eq!(world.run(&["ps"]).code, 1, "the old token is worth nothing");
    assert_eq!(world.run(&["ps", "--token", &fresh]).code, 0);
    assert_eq!(world.run(&["ps", "--token", "-x"]).code, 1, "a token may begin with a hyphen");
}

#[test]
fn a_node_and_a_token_that_are_set_to_nothing_are_not_said() {
    let world = World::new();
    let data = world.directory.path().join("data");
    let ask = |node: &str, more: &[&str]| {
        let mut command = world.command();
        command.env("OUTLAST_NODE", node).env("OUTLAST_TOKEN", "").env("OUTLAST_DATA", &data);
        Said::of(command.arg("ps").args(more).output().unwrap())
    };
    assert_eq!(ask(&world.address.to_string(), &[]).code, 0, "the token is that of the directory");
    // Somebody's own node may listen at the default address, so this one only must not be bad usage.
    assert_ne!(ask("", &[]).code, 2);
    assert_eq!(ask("", &["--node", ""]).code, 2);
}

#[test]
fn a_token_that_can_be_no_nodes_is_said_to_be_wrong_before_anybody_is_asked() {
    let world = World::new();
    for wrong in ["a\nb", "t\u{f6}ken", "", " "] {
        let said = world.run(&["ps", "--token", wrong]);
        assert_eq!(said.code, 2, "{wrong:?}: {said:?}");
        assert!(said.talk.contains("--token"), "{wrong:?}: {said:?}");
        assert!(said.talk.contains("`outlast token"), "{wrong:?}: {said:?}");
        for untrue in ["no node answers", "another node's"] {
            assert!(!said.talk.contains(untrue), "{wrong:?}: {said:?}");
        }
    }
    let mut command = world.command();
    let said = Said::of(command.env("OUTLAST_TOKEN", "a\nb").arg("ps").output().unwrap());
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.talk.contains("OUTLAST_TOKEN"), "{said:?}");
    // Whoever reads it from a file gets its last line break, too.
    let with_break = format!("{}\n", world.token);
    assert_eq!(world.run(&["ps", "--token", &with_break]).code, 0);
}

fn token(data: &Path, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command.args(["token", "--data"]).arg(data).args(more);
    Said::of(command.output().unwrap()).data.trim().to_owned()
}

#[test]
fn a_node_that_is_not_there_is_told_with_what_to_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_outlast"))
        .args(["ps", "--node", "http://127.0.0.1:1"])
        .output()
        .unwrap();
    let said = Said::of(output);
    assert_eq!((said.code, said.data.as_str()), (1, ""));
    assert!(said.talk.contains("start one with `outlast node`"), "{said:?}");
}
