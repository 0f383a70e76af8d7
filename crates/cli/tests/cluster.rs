//! `outlast cluster` and joining, with real processes on loopback.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Any ports that are free.
const PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0"];

fn outlast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    for name in ["OUTLAST_DATA", "OUTLAST_NODE", "OUTLAST_TOKEN", "OUTLAST_JOIN_TOKEN"] {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeded(output: &Output) -> Json {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A node that runs as a process of its own, and is killed with the test.
struct Node {
    child: Child,
    data: PathBuf,
    said: Json,
}

impl Node {
    /// Starts a node, and waits until it has said where it is.
    fn start(data: &Path, arguments: &[&str]) -> Self {
        Self::launch(data, outlast(&["node"]).args(arguments))
    }

    /// Joins with the token in the environment, at the addresses in the token.
    fn start_joining(data: &Path, token: &str) -> Self {
        Self::launch(data, outlast(&["node"]).env("OUTLAST_JOIN_TOKEN", token))
    }

    fn launch(data: &Path, command: &mut Command) -> Self {
        let log = File::create(data.with_extension("log")).unwrap();
        Self::read(command.args(PORTS).arg("--json").arg("--data").arg(data).stderr(log), data)
    }

    /// Runs a command that starts a node, and waits until it has said where it is.
    fn read(command: &mut Command, data: &Path) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            let _ = tell.send(line);
        });
        let line = told.recv_timeout(PATIENCE).unwrap_or_default();
        let said = serde_json::from_str(&line).unwrap_or_else(|error| {
            let _ = child.kill();
            panic!("it did not start: {error}")
        });
        Self { child, data: data.to_owned(), said }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = outlast(arguments);
        let address = self.said["address"].as_str().unwrap();
        command.env("OUTLAST_NODE", format!("http://{address}")).env("OUTLAST_DATA", &self.data);
        command
    }

    fn invite(&self, arguments: &[&str]) -> Json {
        let invite = [&["cluster", "invite", "--json"], arguments].concat();
        succeeded(&self.command(&invite).output().unwrap())
    }

    /// What it said to people so far.
    fn log(&self) -> String {
        std::fs::read_to_string(self.data.with_extension("log")).unwrap()
    }

    fn id(&self) -> String {
        self.said["node"].as_str().unwrap().to_owned()
    }

    /// Asks the API.
    fn ask(&self, method: &str, path: &str, body: &Json) -> (u16, Json) {
        let address = self.said["address"].as_str().unwrap();
        let token = std::fs::read_to_string(self.data.join("token")).unwrap();
        let (method, url) = (method.parse().unwrap(), format!("http://{address}{path}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
            let request = client.request(method, url).bearer_auth(token.trim());
            let answer = request.body(body.to_string()).send().await.unwrap();
            let status = answer.status().as_u16();
            let body = answer.bytes().await.unwrap();
            (status, serde_json::from_slice(&body).unwrap_or_default())
        })
    }

    /// Waits until this one is connected to another, and says where it believes that one to be.
    fn address_of(&self, other: &str) -> Json {
        self.member(other, |member| member["connected"] == true)["addresses"][0].clone()
    }

    /// Waits until this one hears another, by heartbeats and by gossip.
    fn until_alive(&self, other: &str) {
        self.member(other, |member| {
            let is_heard = member["connected"] == true && member["reachable"] == true;
            is_heard && member["state"] == "alive"
        });
    }

    /// Waits until another one is as it should be.
    fn member(&self, other: &str, fits: impl Fn(&Json) -> bool) -> Json {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (status, seen) = self.ask("GET", "/v1/cluster", &Json::Null);
            assert_eq!(status, 200, "{seen}");
            let members = seen["members"].as_array().unwrap();
            let found = members.iter().find(|member| member["node"] == other);
            if let Some(found) = found.filter(|member| fits(member)) {
                return found.clone();
            }
            assert!(Instant::now() < deadline, "{seen}");
            thread::yield_now();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory for several nodes, the first of which has founded a cluster.
fn founded() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("first");
    let said = outlast(&["cluster", "init", "--json", "--data"]).arg(&data).output().unwrap();
    assert_eq!(succeeded(&said)["cluster"].as_str().unwrap().len(), 32);
    (directory, data)
}

#[test]
fn a_join_token_that_is_set_to_nothing_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start_joining(&folder.path().join("a"), "");
    assert!(!node.id().is_empty());
    let mut joining = outlast(&["node", "--join", "127.0.0.1:1", "--data"]);
    let refused = joining.arg(folder.path().join("b")).env("OUTLAST_JOIN_TOKEN", "").output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("give a token"), "{refused:?}");
}

#[test]
fn a_data_directory_that_is_set_to_nothing_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = outlast(&["node", "--json"]);
    command.env("OUTLAST_DATA", "").env("XDG_STATE_HOME", folder.path()).stderr(Stdio::null());
    let node = Node::read(command.args(PORTS), &folder.path().join("outlast").join("node"));
    assert_eq!(Path::new(node.said["data"].as_str().unwrap()), node.data);
    let mut asked = outlast(&["token"]);
    let token = asked.env("OUTLAST_DATA", "").env("XDG_STATE_HOME", folder.path()).output();
    let kept = std::fs::read_to_string(node.data.join("token")).unwrap();
    assert_eq!(text(&token.unwrap().stdout).trim(), kept.trim());
    let none = outlast(&["node", "--data", ""]).output().unwrap();
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}

/// An address at which so many callers are turned away before the rest gets through to a node.
fn door(closed_for: usize, node: Option<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for caller in listener.incoming().skip(closed_for).flatten() {
            let Some(node) = &node else { continue };
            let callee = TcpStream::connect(node).unwrap();
            let (back, forth) = (callee.try_clone().unwrap(), caller.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut &caller, &mut &callee));
            thread::spawn(move || std::io::copy(&mut &back, &mut &forth));
        }
    });
    address
}

#[test]
fn a_joiner_that_nobody_answers_asks_again() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
    let door = door(2, Some(first.said["clusterAddress"].as_str().unwrap().to_owned()));
    let arguments = ["--join", &door, "--token", &token];
    let second = Node::start(&directory.path().join("second"), &arguments);
    assert_eq!(first.said["cluster"], second.said["cluster"]);
}

/// An address at which a node is reached, but so many callers lose it when it answers what they asked.
fn silent_door(silent_for: usize, node: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for (number, caller) in listener.incoming().flatten().enumerate() {
            let callee = TcpStream::connect(&node).unwrap();
            let (back, forth) = (callee.try_clone().unwrap(), caller.try_clone().unwrap());
            // What a caller says first is its greeting, and all else is the question.
            let has_asked = Arc::new(AtomicBool::new(false));
            let asks = Arc::clone(&has_asked);
            thread::spawn(move || {
                pass_on(&caller, &callee, |times| {
                    asks.store(1 < times, Ordering::SeqCst);
                    true
                });
            });
            thread::spawn(move || {
                let is_heard = |_| number >= silent_for || !has_asked.load(Ordering::SeqCst);
                pass_on(&back, &forth, is_heard);
                let _ = forth.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

/// Passes on what is read, as long as that is wanted, which is asked with how often something was read.
fn pass_on(mut from: &TcpStream, mut to: &TcpStream, is_wanted: impl Fn(usize) -> bool) {
    let mut bytes = [0; 16 * 1024];
    for times in 1.. {
        let Ok(read @ 1..) = from.read(&mut bytes) else { return };
        if !is_wanted(times) || to.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}

#[test]
fn a_joiner_that_loses_the_inviter_after_it_has_asked_asks_again() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
    let at = first.said["clusterAddress"].as_str().unwrap();
    let second = directory.path().join("second");
    let silent = silent_door(usize::MAX, at.to_owned());
    let mut joining = outlast(&["node", "--join", &silent, "--token", &token, "--join-wait", "1"]);
    let given_up = joining.args(PORTS).arg("--data").arg(&second).output().unwrap();
    assert_eq!(given_up.status.code(), Some(1), "{given_up:?}");
    let said = text(&given_up.stderr);
    assert!(said.contains("nobody answered for 1s"), "{said}");
    assert!(said.contains("the same command can be given again"), "{said}");
    // It was certified, and is no member all the same: also not in the inviter's next life.
    drop(first);
    let first = Node::start(&data, &[]);
    let (status, seen) = first.ask("GET", "/v1/cluster", &Json::Null);
    assert_eq!((status, seen["members"].as_array().unwrap().len()), (200, 1), "{seen}");
    let door = silent_door(1, first.said["clusterAddress"].as_str().unwrap().to_owned());
    let second = Node::start(&second, &["--join", &door, "--token", &token]);
    first.address_of(&second.id());
}

/// The id that a node has drawn, which may never have come up.
fn id_in(data: &Path) -> String {
    let meta: Json =
        serde_json::from_str(&std::fs::read_to_string(data.join("meta.json")).unwrap()).unwrap();
    meta["node"].as_str().unwrap().to_owned()
}

#[test]
fn a_joiner_that_was_let_in_and_never_came_is_told_of_everywhere_and_removed_by_any_member() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let invite = || first.invite(&[])["token"].as_str().unwrap().to_owned();
    let second = Node::start_joining(&directory.path().join("second"), &invite());
    second.until_alive(&first.id());
    let (lost, token) = (directory.path().join("lost"), invite());
    let at = first.said["clusterAddress"].as_str().unwrap().to_owned();
    let joining = |at: &str| {
        let mut joining = outlast(&["node", "--join", at, "--token", &token, "--join-wait", "1"]);
        joining.args(PORTS).arg("--data").arg(&lost).output().unwrap()
    };
    let given_up = joining(&silent_door(usize::MAX, at.clone()));
    assert_eq!(given_up.status.code(), Some(1), "{given_up:?}");
    let lost_id = id_in(&lost);

    // Who has not let it in says so as well, and it is no member.
    for node in [&first, &second] {
        let seen = node.command(&["cluster", "status", "--json"]).output().unwrap();
        let seen = succeeded(&seen);
        assert_eq!(seen["expected"], json!([lost_id]), "{seen}");
        assert_eq!(seen["members"].as_array().unwrap().len(), 2, "{seen}");
        let told = node.command(&["cluster", "status"]).output().unwrap();
        let advice = format!("outlast cluster remove {lost_id}");
        assert!(text(&told.stderr).contains(&advice), "{told:?}");
    }
    let remove = || second.command(&["cluster", "remove", &lost_id]).output().unwrap();
    let removed = remove();
    assert!(removed.status.success(), "{removed:?}");
    for node in [&first, &second] {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, seen) = node.ask("GET", "/v1/cluster", &Json::Null);
            if seen["expected"] == json!([]) && seen["removed"] == json!([lost_id]) {
                break;
            }
            assert!(Instant::now() < deadline, "{seen}");
            thread::yield_now();
        }
    }
    let again = remove();
    assert!(text(&again.stderr).contains("no member"), "{again:?}");
    // Its token let it in again as long as it was only late.
    let late = joining(&at);
    assert_eq!(late.status.code(), Some(1), "{late:?}");
    assert!(text(&late.stderr).contains("was removed from the cluster before it came"), "{late:?}");
}

#[test]
fn a_joiner_says_what_it_waits_for_and_gives_up_in_the_end() {
    let (directory, data) = founded();
    let token = Node::start(&data, &[]).invite(&[])["token"].as_str().unwrap().to_owned();
    let door = door(0, None);
    let given_up = outlast(&["node", "--join", &door, "--token", &token, "--join-wait", "1"])
        .args(PORTS)
        .arg("--data")
        .arg(directory.path().join("second"))
        .output()
        .unwrap();
    assert_eq!(given_up.status.code(), Some(1), "{given_up:?}");
    let said = text(&given_up.stderr);
    assert!(said.contains("waiting up to 1s for a member of the cluster to answer"), "{said}");
    assert!(said.contains("nobody answered for 1s"), "{said}");
    assert!(said.contains(&door), "{said}");
}

#[test]
fn a_second_node_joins_and_both_know_where_the_other_is() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let token = first.invite(&["--valid", "10m"])["token"].as_str().unwrap().to_owned();
    let join = first.said["clusterAddress"].as_str().unwrap();
    let arguments = ["--join", join, "--token", &token];
    let second_data = directory.path().join("second");
    let second = Node::start(&second_data, &arguments);
    assert_eq!(first.said["cluster"], second.said["cluster"]);
    assert_eq!(first.address_of(&second.id()), second.said["clusterAddress"]);
    assert_eq!(second.address_of(&first.id()), first.said["clusterAddress"]);

    // A supervisor starts it again with the same words: it is a member, and stays one.
    let id = second.id();
    drop(second);
    let second = Node::start(&second_data, &arguments);
    assert_eq!(second.id(), id);
    assert_eq!(first.address_of(&id), second.said["clusterAddress"]);

    // Another one gets nothing for the same token.
    let third = outlast(&["node", "--listen", "127.0.0.1:0", "--data"])
        .arg(directory.path().join("third"))
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(third.status.code(), Some(1), "{third:?}");
    assert!(text(&third.stderr).contains("used by another node"), "{third:?}");
    let log = first.log();
    let told = log.lines().find(|line| line.contains("a request to join was refused"));
    assert!(told.is_some_and(|line| line.contains("used by another node")), "{log}");
}

/// Two that run as one node would both write in its name.
#[test]
fn a_copy_of_a_data_directory_beside_the_original_ends_and_everybody_says_what_to_do() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
    let (original, copy) = (directory.path().join("second"), directory.path().join("copy"));
    drop(Node::start_joining(&original, &token));
    let copied = Command::new("cp").arg("-r").args([&original, &copy]).status().unwrap();
    assert!(copied.success());
    let second = Node::start(&original, &[]);
    second.until_alive(&first.id());
    first.until_alive(&second.id());
    let start_copy = || outlast(&["node"]).args(PORTS).arg("--data").arg(&copy).output().unwrap();
    let mark = copy.join("cluster").join("turned-away");
    // In the same life as the original, and then in a later one.
    for _ in 0..2 {
        let ended = start_copy();
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(6), "{said}");
        assert!(said.contains("another process runs as this node"), "{said}");
        assert!(said.contains(&format!("delete {}", mark.display())), "{said}");
        let seen = first.member(&second.id(), |_| true);
        assert_eq!(
            (&seen["connected"], &seen["reachable"]),
            (&json!(true), &json!(true)),
            "{seen}"
        );
        assert_eq!(seen["turnedAway"], "127.0.0.1", "{seen}");
        // Nobody waits for it to come when the original is down.
        let again = start_copy();
        assert_eq!(again.status.code(), Some(6), "{again:?}");
        assert!(text(&again.stderr).contains("does not start"), "{again:?}");
        std::fs::remove_file(&mark).unwrap();
    }
    let told = first.command(&["cluster", "status"]).output().unwrap();
    let warning = format!("as {} within the last ten minutes, and was turned away", second.id());
    assert!(text(&told.stderr).contains(&warning), "{told:?}");

    // If it is heard while the original is down, the original is the one that is turned away.
    drop(second);
    let copied = Node::start(&copy, &[]);
    first.until_alive(&copied.id());
    let late = outlast(&["node"]).args(PORTS).arg("--data").arg(&original).output().unwrap();
    assert_eq!(late.status.code(), Some(6), "{late:?}");
    first.until_alive(&copied.id());
}

#[test]
fn what_a_member_is_told_of_joining_does_nothing_even_if_it_makes_no_sense() {
    let (_directory, data) = founded();
    let (nonsense, nowhere) = ("nonsense", "no address");
    let told: [&[&str]; 3] = [
        &["--token", nonsense],
        &["--join", nowhere, "--token", nonsense],
        &["--join", "127.0.0.1:1"],
    ];
    for arguments in told {
        let node = Node::start(&data, arguments);
        assert!(!node.said["cluster"].is_null(), "{arguments:?}: {}", node.log());
    }
}

#[test]
fn two_nodes_that_move_at_the_same_time_find_each_other_through_a_third() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let (second_data, third_data) =
        (directory.path().join("second"), directory.path().join("third"));
    let join = |data: &Path| {
        let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
        Node::start_joining(data, &token)
    };
    let (second, third) = (join(&second_data), join(&third_data));
    assert_eq!(second.address_of(&third.id()), third.said["clusterAddress"]);
    assert_eq!(third.address_of(&second.id()), second.said["clusterAddress"]);
    let before = [second.said["clusterAddress"].clone(), third.said["clusterAddress"].clone()];
    drop((second, third));

    // Both come back elsewhere, and what each remembers of the other is wrong.
    let (second, third) = (Node::start(&second_data, &[]), Node::start(&third_data, &[]));
    assert!(!before.contains(&second.said["clusterAddress"]), "it listens elsewhere");
    assert_eq!(second.address_of(&third.id()), third.said["clusterAddress"]);
    assert_eq!(third.address_of(&second.id()), second.said["clusterAddress"]);
}

#[test]
fn a_node_that_worked_alone_keeps_its_id_when_it_joins() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let second_data = directory.path().join("second");
    let alone = Node::start(&second_data, &[]);
    let id = alone.id();
    assert_eq!(alone.said["cluster"], Json::Null);
    let (status, refused) = alone.ask("GET", "/v1/cluster", &Json::Null);
    assert_eq!(status, 409, "{refused}");
    drop(alone);
    let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
    let second = Node::start_joining(&second_data, &token);
    assert_eq!(second.id(), id);
    assert_eq!(first.address_of(&id), second.said["clusterAddress"]);
}

#[test]
fn tests_can_cut_real_nodes_apart_and_only_if_the_node_was_started_for_it() {
    let (directory, data) = founded();
    let first = Node::start(&data, &["--test-faults"]);
    let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
    let second = Node::start_joining(&directory.path().join("second"), &token);
    first.address_of(&second.id());
    let cut = json!({ "block": [second.id()], "incoming": true, "outgoing": false });
    assert_eq!(first.ask("PUT", "/v1/faults", &cut).0, 204);
    assert_eq!(first.ask("PUT", "/v1/faults", &json!({ "block": [] })).0, 204);
    assert_eq!(first.ask("PUT", "/v1/faults", &json!({ "block": ["nobody"] })).0, 400);
    assert_eq!(second.ask("PUT", "/v1/faults", &cut).0, 404);
}

#[test]
fn a_member_that_is_heard_now_is_removed_only_by_force() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let join = |name: &str| {
        let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
        let node = Node::start_joining(&directory.path().join(name), &token);
        first.until_alive(&node.id());
        node
    };
    let remove =
        |more: &[&str]| first.command(&[&["cluster", "remove"], more].concat()).output().unwrap();
    let (second, third) = (join("second"), join("third"));

    let refused = remove(&[&second.id()]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = text(&refused.stderr);
    assert!(said.contains("is heard now") && said.contains("--force"), "{said}");
    let path = format!("/v1/cluster/members/{}", second.id());
    let (status, problem) = first.ask("DELETE", &format!("{path}?force=false"), &Json::Null);
    assert_eq!((status, &problem["status"]), (409, &json!(409)), "{problem}");
    assert_eq!(first.ask("DELETE", &format!("{path}?force=perhaps"), &Json::Null).0, 400);
    first.until_alive(&second.id());

    // Whose process is gone is not heard, however lately it was.
    let killed = third.id();
    drop(third);
    let removed = remove(&[&killed]);
    assert!(removed.status.success(), "{removed:?}");
    let removed = remove(&[&second.id(), "--force", "--json"]);
    let warning = succeeded(&removed)["warning"].as_str().unwrap().to_owned();
    assert!(warning.contains("is heard now"), "{warning}");
    let (_, seen) = first.ask("GET", "/v1/cluster", &Json::Null);
    assert_eq!(seen["removed"].as_array().unwrap().len(), 2, "{seen}");
}

#[test]
fn init_says_what_to_do_next_and_does_nothing_twice() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let init = || outlast(&["cluster", "init", "--data"]).arg(&data).output().unwrap();
    let first = init();
    assert!(first.status.success(), "{first:?}");
    assert!(text(&first.stderr).contains("outlast cluster invite"), "{first:?}");
    for output in [text(&first.stdout), text(&first.stderr)] {
        assert!(!output.contains("PRIVATE"), "{output}");
    }
    let again = init();
    assert_eq!(again.status.code(), Some(6), "{again:?}");
    assert!(text(&again.stderr).contains("is a member of cluster"), "{again:?}");
    // While a node runs, its directory is its own.
    let node = Node::start(&data, &[]);
    assert!(text(&init().stderr).contains("is in use by process"));
    drop(node);
}

/// As it is when a disk was lost and its node is started as before.
#[test]
fn a_node_that_is_to_be_reached_by_others_and_is_in_no_cluster_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = outlast(&["node", "--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0"])
        .arg("--data")
        .arg(directory.path().join("data"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(node.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = lines.take_while(|line| !line.contains("listens on")).collect();
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(said.iter().any(|line| line.contains("is in no cluster")), "{said:?}");
}

#[test]
fn what_is_no_token_and_what_is_no_cluster_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let join = outlast(&["node", "--listen", "127.0.0.1:0", "--token", "nonsense", "--data"])
        .arg(&data)
        .output()
        .unwrap();
    assert_eq!(join.status.code(), Some(2), "{join:?}");
    assert!(text(&join.stderr).contains("no join token"), "{join:?}");
    let alone = Node::start(&data, &[]);
    let invite = alone.command(&["cluster", "invite"]).output().unwrap();
    assert_eq!(invite.status.code(), Some(1), "{invite:?}");
    assert!(text(&invite.stderr).contains("in no cluster"), "{invite:?}");
}

#[test]
fn logs_in_a_file_have_no_colours_and_no_secrets() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
    let second = Node::start_joining(&directory.path().join("second"), &token);
    first.address_of(&second.id());
    for node in [&first, &second] {
        let log = node.log();
        assert!(log.contains("connected"), "{log}");
        assert!(!log.contains('\u{1b}'), "{log:?}");
        let shown = std::fs::read_to_string(node.data.join("token")).unwrap();
        assert!(!log.contains(&token) && !log.contains(shown.trim()), "{log}");
        assert!(log.contains("`outlast token --data"), "{log}");
    }
}

#[test]
fn an_invitation_for_longer_than_there_is_is_refused_not_shortened() {
    let (_directory, data) = founded();
    let node = Node::start(&data, &[]);
    let longest = node.command(&["cluster", "invite", "--valid", "30d"]).output().unwrap();
    assert!(longest.status.success(), "{longest:?}");
    let longer = node.command(&["cluster", "invite", "--valid", "31d"]).output().unwrap();
    assert!(!longer.status.success() && longer.stdout.is_empty(), "{longer:?}");
    assert!(text(&longer.stderr).contains("30 days at most"), "{longer:?}");
}

#[test]
fn an_invitation_of_a_node_that_only_its_own_machine_reaches_says_so() {
    let (_directory, data) = founded();
    let local = Node::start(&data, &[]).command(&["cluster", "invite"]).output().unwrap();
    assert!(text(&local.stderr).contains("only nodes of its own machine"), "{local:?}");
    let node = Node::start(&data, &["--cluster-address", "first.example:7181"]);
    let known = node.command(&["cluster", "invite"]).output().unwrap();
    assert!(!text(&known.stderr).contains("only nodes of its own machine"), "{known:?}");
}

/// Starts a node that is not to come up: what it ended with, if it did, and what it said until then.
fn told(command: &mut Command) -> (Option<i32>, String) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        said += &format!("{line}\n");
        if line.contains("listens on http") {
            child.kill().unwrap();
            break;
        }
    }
    (child.wait().unwrap().code(), said)
}

#[test]
fn a_node_that_cannot_listen_does_not_use_its_token_up() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let occupied = occupied.local_addr().unwrap().to_string();
    let any = "127.0.0.1:0";
    // The second is no address of this machine, nor of any other one.
    let places = [(any, &*occupied), (any, "192.0.2.1:7181"), (&*occupied, any)];
    for (number, (listen, cluster_listen)) in places.into_iter().enumerate() {
        let mut command = outlast(&["node", "--token", &token, "--listen", listen]);
        command.args(["--cluster-listen", cluster_listen]);
        command.arg("--data").arg(directory.path().join(number.to_string()));
        let (code, said) = told(&mut command);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("cannot listen") && !said.contains("joined cluster"), "{said}");
    }
    let second = Node::start_joining(&directory.path().join("second"), &token);
    assert_eq!(first.said["cluster"], second.said["cluster"]);
}

/// It would be a member that nobody reaches, and that executions are given to.
#[test]
fn a_node_that_the_inviter_does_not_find_where_it_says_does_not_use_its_token_up() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
    let second = directory.path().join("second");
    // Nobody listens there.
    let nowhere = "127.0.0.1:1";
    let joining = ["node", "--token", &token, "--cluster-address", nowhere, "--data"];
    let (code, said) = told(outlast(&joining).arg(&second).args(PORTS));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("cannot reach the node that joins at {nowhere}")), "{said}");
    assert!(
        said.contains("--cluster-address") && said.contains("the token was not used"),
        "{said}"
    );
    let (_, seen) = first.ask("GET", "/v1/cluster", &Json::Null);
    assert_eq!(seen["expected"], json!([]), "{seen}");
    let second = Node::start(&second, &["--token", &token]);
    first.until_alive(&second.id());
}

#[test]
fn a_first_node_that_listens_everywhere_has_to_be_told_where_it_is() {
    let (_directory, data) = founded();
    let mut command =
        outlast(&["node", "--listen", "127.0.0.1:0", "--cluster-listen", "0.0.0.0:0"]);
    let (code, said) = told(command.arg("--data").arg(&data));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("give --cluster-address"), "{said}");
}

#[test]
fn a_node_that_joined_and_did_not_start_says_that_it_needs_no_token_any_more() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let token = first.invite(&[])["token"].as_str().unwrap().to_owned();
    let second = directory.path().join("second");
    drop(Node::start(&second, &[]));
    std::fs::write(second.join("store.redb"), "this is no store").unwrap();
    let mut command = outlast(&["node", "--token", &token, "--data"]);
    let (code, said) = told(command.arg(&second).args(PORTS));
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("has joined cluster") && said.contains("needs no token"), "{said}");
}

#[test]
fn a_node_whose_place_in_the_cluster_is_damaged_says_which_file_and_ends_as_for_its_data() {
    for (file, damage) in [("node.pem", Some("this is none")), ("authority.pem", None)] {
        let (_directory, data) = founded();
        let path = data.join("cluster").join(file);
        match damage {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let (code, said) = told(outlast(&["node", "--data"]).arg(&data).args(PORTS));
        assert_eq!(code, Some(6), "{said}");
        assert!(said.contains(file), "{said}");
    }
}

#[test]
fn a_private_key_or_token_that_others_can_read_is_refused_with_what_to_run() {
    let (_directory, data) = founded();
    drop(Node::start(&data, &[]));
    for file in ["cluster/node.key", "cluster/authority.key", "token"] {
        let path = data.join(file);
        let set_mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode));
        set_mode(0o644).unwrap();
        let (code, said) = told(outlast(&["node", "--data"]).arg(&data).args(PORTS));
        assert_eq!(code, Some(6), "{said}");
        let advice = format!("(mode 644); run: chmod 600 {}", path.display());
        assert!(said.contains(&advice), "{said}");
        set_mode(0o600).unwrap();
    }
    drop(Node::start(&data, &[]));
}

#[test]
fn a_member_without_its_certificate_does_not_go_on_alone_and_is_let_in_again_by_its_inviter() {
    let (directory, data) = founded();
    let first = Node::start(&data, &[]);
    let invite = || first.invite(&[])["token"].as_str().unwrap().to_owned();
    let second = directory.path().join("second");
    let id = Node::start_joining(&second, &invite()).id();
    let certificate = second.join("cluster/node.pem");
    std::fs::remove_file(&certificate).unwrap();
    for arguments in [&["node"][..], &["cluster", "init"]] {
        let ports: &[&str] = if arguments == ["node"] { &PORTS } else { &[] };
        let (code, said) = told(outlast(arguments).args(ports).arg("--data").arg(&second));
        assert_eq!(code, Some(6), "{said}");
        let missing = format!("{} is missing", certificate.display());
        assert!(said.contains(&missing) && said.contains("--token"), "{said}");
    }
    let again = Node::start_joining(&second, &invite());
    assert_eq!(again.id(), id);
    first.until_alive(&id);
}

#[test]
fn a_cluster_that_was_founded_in_part_is_to_be_founded_again() {
    let (_directory, data) = founded();
    std::fs::remove_file(data.join("cluster/node.pem")).unwrap();
    let (code, said) = told(outlast(&["node", "--data"]).arg(&data).args(PORTS));
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("node.pem is missing") && said.contains("cluster init"), "{said}");
    succeeded(&outlast(&["cluster", "init", "--json", "--data"]).arg(&data).output().unwrap());
    drop(Node::start(&data, &[]));
}
