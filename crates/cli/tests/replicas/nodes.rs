//! A cluster of real nodes on loopback, and the ledger that their calls go to.
//!
//! The ledger runs in the test's own process, so it outlives every node that is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use outlast_node::fixture::ledger::{Entry, Ledger, Options};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// Longer than anything here takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How often something is looked at again.
const PAUSE: Duration = Duration::from_millis(10);

/// Where the ledgers run.
static LEDGERS: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// The binary, with nothing of the surroundings.
pub(crate) fn outlast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    for name in ["OUTLAST_DATA", "OUTLAST_NODE", "OUTLAST_TOKEN", "OUTLAST_JOIN_TOKEN"] {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

/// Looks again and again until something holds.
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_within(PATIENCE, holds), "in vain: {what}");
}

/// The same, but it may not come to hold.
fn holds_within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        if holds() {
            return true;
        }
        LEDGERS.block_on(async { tokio::time::sleep(PAUSE).await });
    }
    false
}

/// Several nodes of one cluster.
pub(crate) struct Cluster {
    pub(crate) ledger: Ledger,
    /// In the order of their ids: the last one is the first primary.
    pub(crate) nodes: Vec<Node>,
    directory: TempDir,
}

/// One node, dead or alive.
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) address: SocketAddr,
    data: PathBuf,
    origin: String,
    child: Option<Child>,
}

impl Cluster {
    /// Founds a cluster, lets the others join, and waits until all are connected with all.
    pub(crate) fn of(count: usize) -> Self {
        let ledger = LEDGERS.block_on(Ledger::start(Options::default())).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut cluster = Self { ledger, nodes: Vec::new(), directory };
        let first = cluster.directory.path().join("1");
        let founded = outlast(&["cluster", "init", "--data"]).arg(&first).output().unwrap();
        assert!(founded.status.success(), "{founded:?}");
        for number in 1..=count {
            cluster.join(number);
        }
        cluster.nodes.sort_by(|left, right| left.id.cmp(&right.id));
        cluster.all_connected();
        cluster
    }

    /// One more node, invited by the first.
    fn join(&mut self, number: usize) {
        let origin = format!("http://ledger.test={}", self.ledger.uri(""));
        let data = self.directory.path().join(number.to_string());
        let token = (!self.nodes.is_empty()).then(|| self.token(0));
        self.nodes.push(Node::start(data, origin, token.as_deref()));
    }

    /// A token with which one more node may join.
    pub(crate) fn token(&self, inviter: usize) -> String {
        let (status, said) = self.nodes[inviter].ask("POST", "/v1/cluster/invitations", &json!({}));
        assert_eq!(status, 201, "{said}");
        said["token"].as_str().unwrap().to_owned()
    }

    /// Waits until every living node is connected with every other one.
    pub(crate) fn all_connected(&self) {
        let alive: Vec<&Node> = self.nodes.iter().filter(|node| node.child.is_some()).collect();
        for node in &alive {
            until("all are connected", || {
                let (_, seen) = node.ask("GET", "/v1/cluster", &Json::Null);
                let members = seen["members"].as_array().cloned().unwrap_or_default();
                let connected =
                    |id: &str| members.iter().any(|it| it["node"] == id && it["connected"] == true);
                alive.iter().all(|other| connected(&other.id))
            });
        }
    }

    /// Waits until so many calls have arrived at the ledger.
    pub(crate) fn until_called(&self, count: u64) {
        until("calls arrive", || count <= self.ledger.traffic().arrived);
    }

    /// Every call that came in, once all of them are written down.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        until("calls are written down", || {
            let traffic = self.ledger.traffic();
            traffic.arrived <= traffic.recorded
        });
        self.ledger.entries()
    }

    /// A file of the test's own.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Node {
    fn start(data: PathBuf, origin: String, token: Option<&str>) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut node = Self { id: String::new(), address, data, origin, child: None };
        node.restart(token);
        node
    }

    /// Starts it, as a new process on the same data.
    pub(crate) fn restart(&mut self, token: Option<&str>) {
        let mut command = outlast(&["node", "--no-token", "--json", "--test-faults"]);
        command.args(["--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0"]);
        command.args(["--origin", &self.origin]).arg("--data").arg(&self.data);
        token.map(|token| command.env("OUTLAST_JOIN_TOKEN", token));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        self.child = Some(child);
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            let _ = tell.send(line);
        });
        let line = told.recv_timeout(PATIENCE).unwrap();
        let said: Json = serde_json::from_str(&line).unwrap();
        self.id = said["node"].as_str().unwrap().to_owned();
        self.address = said["address"].as_str().unwrap().parse().unwrap();
    }

    /// Starts it where it is not to stay; says how it ended, and what it said.
    pub(crate) fn start_in_vain(&self) -> (Option<i32>, String) {
        let mut command = outlast(&["node", "--no-token"]);
        command.args(["--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0"]);
        let mut child =
            command.arg("--data").arg(&self.data).stderr(Stdio::piped()).spawn().unwrap();
        let mut ended = None;
        let in_time = holds_within(PATIENCE, || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        if !in_time {
            child.kill().unwrap();
        }
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        (ended.and_then(|status| status.code()), said)
    }

    /// Takes its disk away for good. The node must not run.
    pub(crate) fn lose_disk(&mut self) {
        assert!(self.child.is_none(), "it does not run");
        std::fs::remove_dir_all(&self.data).unwrap();
    }

    /// Ends it at once, as a power cut would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Asks it to end, as whoever looks after services does, and waits until it has.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            assert!(told.unwrap().success());
            assert!(child.wait().unwrap().success(), "it ended well");
        }
    }

    /// A command against this node.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = outlast(arguments);
        command.env("OUTLAST_NODE", format!("http://{}", self.address));
        command
    }

    /// What a command against this node prints as JSON.
    pub(crate) fn said(&self, arguments: &[&str]) -> Json {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Asks the API.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Json) -> (u16, Json) {
        self.try_ask(method, path, body).unwrap_or_else(|| panic!("{method} {path}: no answer"))
    }

    fn try_ask(&self, method: &str, path: &str, body: &Json) -> Option<(u16, Json)> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some((status, serde_json::from_str(body).unwrap_or(Json::Null)))
    }

    /// Waits here for the end of an execution, and says how it ended.
    pub(crate) fn end_of(&self, execution: &str) -> String {
        let (status, detail) =
            self.ask("GET", &format!("/v1/executions/{execution}/wait"), &Json::Null);
        assert_eq!(status, 200, "{detail}");
        detail["condition"].as_str().unwrap().to_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
