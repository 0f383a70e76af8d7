//! A cluster of real nodes, one on each host, and the ledger that their calls go to.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use outlast_node::fixture::ledger::{Entry, Ledger, Options};
use outlast_node::http::read_token;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::network::{self, Network, SWITCH};
use super::processes::{
    Api, Process, RUNTIME, body_of, entries_of, is_connected, outlast, until, without_surroundings,
};

/// How long a slow call takes to be answered.
const ANSWER: Duration = Duration::from_millis(60);

/// Several nodes of one cluster, each on a host of its own.
pub(crate) struct Cluster {
    pub(crate) ledger: Ledger,
    /// In the order of their ids.
    pub(crate) nodes: Vec<Node>,
    network: Network,
    directory: TempDir,
}

/// One node, dead or alive.
pub(crate) struct Node {
    id: String,
    host: usize,
    data: PathBuf,
    origin: String,
    process: Process,
}

impl Cluster {
    /// Founds a cluster, lets the others join, and waits until all are connected with all.
    pub(crate) fn of(count: usize) -> Self {
        let network = Network::of(count);
        let address = SocketAddr::from((SWITCH, 0));
        let ledger = RUNTIME.block_on(Ledger::start(Options { address, ..Options::default() }));
        let directory = tempfile::tempdir().unwrap();
        let mut cluster = Self { ledger: ledger.unwrap(), nodes: Vec::new(), network, directory };
        cluster.found();
        for host in 1..=count {
            cluster.join(host);
        }
        cluster.nodes.sort_by(|left, right| left.id.cmp(&right.id));
        cluster.all_connected();
        cluster
    }

    fn found(&self) {
        let first = self.directory.path().join("1");
        let founded = outlast(&["cluster", "init", "--data"]).arg(first).output().unwrap();
        assert!(founded.status.success(), "{founded:?}");
    }

    /// One more node, invited by the first.
    fn join(&mut self, host: usize) {
        let token = self.nodes.first().map(Node::invite);
        let data = self.directory.path().join(host.to_string());
        let caller = network::address(host).to_string();
        let door = RUNTIME.block_on(self.ledger.door(&caller)).unwrap();
        let origin = format!("http://ledger.test=http://{door}");
        let mut node = Node { id: String::new(), host, data, origin, process: Process::default() };
        node.start(token.as_deref());
        self.nodes.push(node);
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

    /// Starts an execution of a document at the last node, which leads it, and gives its id.
    pub(crate) fn start(&self, document: &str, survival: &str) -> String {
        // Everywhere, so that whoever is cut off soon afterwards need not be sent it first.
        let register = |node: &Node| node.ask_text("POST", "/v1/definitions", document);
        let registered: Vec<(u16, Json)> = self.nodes.iter().map(register).collect();
        let [(status, defined), ..] = &registered[..] else { panic!("there are nodes") };
        assert!((200..300).contains(status), "{defined}");
        let start = json!({
            "namespace": defined["namespace"], "workflow": defined["name"], "survival": survival,
        });
        let last = self.nodes.last().expect("there are nodes");
        let (status, started) = last.ask("POST", "/v1/executions", &start);
        assert!((200..300).contains(&status), "{started}");
        started["execution"].as_str().unwrap().to_owned()
    }

    /// Waits on every living node for the end of an execution: all say that it completed, with the
    /// same output.
    pub(crate) fn completes(&self, execution: &str) {
        let path = format!("/v1/executions/{execution}/wait");
        let alive = self.nodes.iter().filter(|node| node.process.runs());
        let ends: Vec<Json> = alive
            .map(|node| {
                let mut said = (404, Json::Null);
                // Whoever was away may still have to hear of it.
                until("every node knows of it", || {
                    said = node.ask("GET", &path, &Json::Null);
                    said.0 != 404
                });
                let (status, detail) = said;
                assert_eq!(status, 200, "{detail}");
                assert_eq!(detail["condition"], "completed", "{detail}");
                detail["output"].clone()
            })
            .collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "one result: {ends:?}");
    }

    /// Cuts every link between nodes of different parts. Whoever is in no part reaches everybody.
    pub(crate) fn split(&self, parts: &[&[usize]]) {
        let part = |node: usize| parts.iter().position(|part| part.contains(&node));
        self.links(|from, to| match (part(from), part(to)) {
            (Some(from), Some(to)) => from == to,
            _ => true,
        });
    }

    /// Lets frames pass from one node to another only where it is said that they do.
    pub(crate) fn links(&self, passes: impl Fn(usize, usize) -> bool) {
        let node_on = |host| self.nodes.iter().position(|node| node.host == host).unwrap();
        self.network.set(|from, to| passes(node_on(from), node_on(to)));
    }

    /// Lets everybody reach everybody.
    pub(crate) fn heal(&self) {
        self.network.heal();
    }

    /// Has calls answered only after a while, so that what is to break breaks in the middle of them.
    pub(crate) fn answer_slowly(&self) {
        self.answer_after(ANSWER);
    }

    /// Has calls answered a time after they have had their effect.
    pub(crate) fn answer_after(&self, time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap();
        self.ledger.control(|control| control.all.answer_after_ms = Some(time));
    }

    /// Has calls answered at once again: now it may end.
    pub(crate) fn answer_at_once(&self) {
        self.ledger.control(|control| control.all.answer_after_ms = None);
    }

    /// What waits for a person, on any node that lives.
    pub(crate) fn parked(&self) -> Vec<Json> {
        let alive = self.nodes.iter().filter(|node| node.process.runs());
        alive.map(|node| node.ask("GET", "/v1/parked", &Json::Null).1).collect()
    }

    /// Every call that came in, once all of them are written down.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        entries_of(&self.ledger)
    }
}

impl Node {
    /// Starts it: the first time, or as a new process on the same data.
    pub(crate) fn start(&mut self, token: Option<&str>) {
        let mut command = network::on(self.host, env!("CARGO_BIN_EXE_outlast"));
        without_surroundings(&mut command);
        let address = network::address(self.host);
        command.args(["node", "--json", "--allow-private"]);
        command.arg("--listen").arg(self.address().to_string());
        command.arg("--cluster-listen").arg(format!("{address}:7181"));
        command.args(["--origin", &self.origin]).arg("--data").arg(&self.data);
        let said = self.process.start(command, token);
        self.id = said["node"].as_str().unwrap().to_owned();
    }

    /// Who it is, since it was last started.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Gives out a token with which a new node can join.
    pub(crate) fn invite(&self) -> String {
        let (status, said) = self.ask("POST", "/v1/cluster/invitations", &json!({}));
        assert_eq!(status, 201, "{said}");
        said["token"].as_str().unwrap().to_owned()
    }

    /// Loses all that it had written down.
    pub(crate) fn lose_disk(&mut self) {
        assert!(!self.process.runs(), "it does not run");
        std::fs::remove_dir_all(&self.data).unwrap();
    }

    /// Ends it at once, as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it where it is, or wakes it: `STOP` or `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Where its calls come from.
    pub(crate) fn ip(&self) -> IpAddr {
        IpAddr::V4(network::address(self.host))
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip(), 7180)
    }

    /// What it knows of an execution.
    pub(crate) fn show(&self, execution: &str) -> Json {
        self.ask("GET", &format!("/v1/executions/{execution}"), &Json::Null).1
    }

    /// Whether it is a replica of an execution and has not forgotten that yet.
    pub(crate) fn holds(&self, execution: &str) -> bool {
        self.show(execution)["nodes"].is_array()
    }

    /// Asks the API.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Json) -> (u16, Json) {
        self.ask_text(method, path, &body_of(body))
    }

    fn ask_text(&self, method: &str, path: &str, body: &str) -> (u16, Json) {
        let token = Some(read_token(&self.data).unwrap());
        Api { address: self.address(), token }.ask(method, path, body)
    }
}
