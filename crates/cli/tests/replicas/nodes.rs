//! A cluster of real nodes on loopback, and the ledger that their calls go to.
//!
//! The ledger runs in the test's own process, so it outlives every node that is killed.

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use outlast_node::fixture::ledger::{Entry, Ledger, Options};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::processes::{
    Api, Process, RUNTIME, body_of, entries_of, holds_in_time, is_connected, outlast, until,
};

/// Several nodes of one cluster.
pub(crate) struct Cluster {
    pub(crate) ledger: Ledger,
    /// In the order of their ids.
    pub(crate) nodes: Vec<Node>,
    directory: TempDir,
}

/// One node, dead or alive.
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) address: SocketAddr,
    data: PathBuf,
    origin: String,
    process: Process,
}

impl Cluster {
    /// Founds a cluster, lets the others join, and waits until all are connected with all.
    pub(crate) fn of(count: usize) -> Self {
        let ledger = RUNTIME.block_on(Ledger::start(Options::default())).unwrap();
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
        let alive: Vec<&Node> = self.nodes.iter().filter(|node| node.process.runs()).collect();
        for node in &alive {
            until("all are connected", || {
                let (_, seen) = node.ask("GET", "/v1/cluster", &Json::Null);
                alive.iter().all(|other| is_connected(&seen, &other.id))
            });
        }
    }

    /// Waits until so many calls have arrived at the ledger.
    pub(crate) fn until_called(&self, count: u64) {
        until("calls arrive", || count <= self.ledger.traffic().arrived);
    }

    /// Every call that came in, once all of them are written down.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        entries_of(&self.ledger)
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
        let mut node =
            Self { id: String::new(), address, data, origin, process: Process::default() };
        node.restart(token);
        node
    }

    /// Starts it, as a new process on the same data.
    pub(crate) fn restart(&mut self, token: Option<&str>) {
        let mut command = outlast(&["node", "--no-token", "--json", "--test-faults"]);
        command.args(["--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0"]);
        command.args(["--origin", &self.origin]).arg("--data").arg(&self.data);
        command.stderr(Stdio::null());
        let said = self.process.start(command, token);
        self.id = said["node"].as_str().unwrap().to_owned();
        self.address = said["address"].as_str().unwrap().parse().unwrap();
    }

    /// Starts it where it is not to stay; says how it ended, and what it said.
    pub(crate) fn start_in_vain(&self) -> (Option<i32>, String) {
        let mut command = outlast(&["node", "--no-token", "--origin", &self.origin]);
        command.args(["--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0"]);
        let mut child =
            command.arg("--data").arg(&self.data).stderr(Stdio::piped()).spawn().unwrap();
        let mut ended = None;
        let in_time = holds_in_time(|| {
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

    /// A copy of its data, with which it can be started a second time. The node must not run.
    pub(crate) fn copied(&self) -> Self {
        assert!(!self.process.runs(), "it does not run");
        let data = self.data.with_extension("copy");
        let copied = Command::new("cp").arg("-r").args([&self.data, &data]).status().unwrap();
        assert!(copied.success());
        let Self { id, address, origin, .. } = self;
        let (id, origin) = (id.clone(), origin.clone());
        Self { id, address: *address, data, origin, process: Process::default() }
    }

    /// Takes its disk away for good. The node must not run.
    pub(crate) fn lose_disk(&mut self) {
        assert!(!self.process.runs(), "it does not run");
        std::fs::remove_dir_all(&self.data).unwrap();
    }

    /// Ends it at once, as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends it a signal, such as `STOP` and `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.process.stop();
    }

    /// What is found on its disk. The node must not run.
    pub(crate) fn check(&self) -> Json {
        let checked = outlast(&["data", "check", "--json"]).arg(&self.data).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
        serde_json::from_slice(&checked.stdout).unwrap()
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
        Api { address: self.address, token: None }.ask(method, path, &body_of(body))
    }

    /// Waits here for the end of an execution, and says how it ended.
    pub(crate) fn end_of(&self, execution: &str) -> String {
        let (status, detail) =
            self.ask("GET", &format!("/v1/executions/{execution}/wait"), &Json::Null);
        assert_eq!(status, 200, "{detail}");
        detail["condition"].as_str().unwrap().to_owned()
    }
}
