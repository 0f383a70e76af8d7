//! The nodes: processes of this same binary on loopback, each with its own data, ended with the demo.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use outlast_node::fixture::ledger::Ledger;
use outlast_node::{cluster, data, random};
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::client::Client;
use crate::joining::prepared;
use crate::signals;
use crate::table;

/// Longer than a node takes to start, also on a busy machine.
pub(super) const START_MAX: Duration = Duration::from_secs(30);
/// How often something is looked at again.
const PAUSE: Duration = Duration::from_millis(20);

/// The nodes of a demo, in the order of their ids; the last one is asked first, and leads.
pub(super) struct Nodes {
    pub(super) list: Vec<Node>,
    // After the nodes, so that it is removed when they are gone.
    _directory: Directory,
}

/// One node, dead or alive.
pub(super) struct Node {
    id: String,
    client: Option<Client>,
    data: PathBuf,
    origin: String,
    child: Option<Child>,
}

/// The line in which a node says where it is, when it comes.
pub(super) type Saying = JoinHandle<io::Result<String>>;

/// A folder of the demo's own, removed with it unless it is to be kept.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    keep: bool,
}

impl Nodes {
    /// Founds a cluster, lets the others join, and waits until all are connected with all.
    pub(super) async fn start(
        count: usize,
        ledger: &mut Ledger,
        directory: Directory,
    ) -> anyhow::Result<Self> {
        let mut ids: Vec<u64> = (0..count).map(|_| u64::from_le_bytes(random::bytes())).collect();
        ids.sort_unstable();
        let mut list = Vec::new();
        for (number, id) in ids.into_iter().enumerate() {
            // The ledger tells the nodes apart by the door they come through.
            let door = ledger.door(&number.to_string()).await?;
            list.push(Node::new(&directory.path, number, id, door)?);
        }
        let mut nodes = Self { list, _directory: directory };
        nodes.join().await?;
        nodes.all_connected().await?;
        Ok(nodes)
    }

    async fn join(&mut self) -> anyhow::Result<()> {
        let (first, others) = self.list.split_first_mut().expect("a demo has nodes");
        first.found()?;
        let saying = first.launch(None)?;
        first.ready(saying).await?;
        for node in others {
            let client = first.client()?;
            let invited = client.post(&["v1", "cluster", "invitations"], &json!({})).await?;
            let token = table::text(&invited, "token");
            let saying = node.launch(Some(&token))?;
            node.ready(saying).await?;
        }
        Ok(())
    }

    /// Waits until every living node is connected with every other one.
    pub(super) async fn all_connected(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_MAX;
        let alive: Vec<&Node> = self.list.iter().filter(|node| node.is_alive()).collect();
        for node in &alive {
            let client = node.client()?;
            loop {
                let seen = client.get(&["v1", "cluster"], &[]).await?;
                let members = seen["members"].as_array().map(Vec::as_slice).unwrap_or_default();
                let connected =
                    |id: &str| members.iter().any(|it| it["node"] == id && it["connected"] == true);
                if alive.iter().all(|other| connected(&other.id)) {
                    break;
                }
                ensure!(Instant::now() < deadline, "the nodes do not find each other");
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Cuts the nodes into sides; one side is no cut. Who is dead is cut off when it comes back,
    /// because the others do not hear it.
    pub(super) async fn cut(&self, sides: &[Vec<usize>]) -> anyhow::Result<()> {
        for (number, node) in self.list.iter().enumerate().filter(|(_, node)| node.is_alive()) {
            node.cut_off(&self.beyond(number, sides)).await?;
        }
        Ok(())
    }

    /// The ids of the nodes on other sides.
    pub(super) fn beyond(&self, number: usize, sides: &[Vec<usize>]) -> Vec<String> {
        let others = sides.iter().filter(|side| !side.contains(&number)).flatten();
        others.map(|other| self.list[*other].id.clone()).collect()
    }
}

impl Node {
    /// A node that was never started.
    fn new(below: &Path, number: usize, id: u64, door: SocketAddr) -> anyhow::Result<Self> {
        let data = below.join(format!("node-{}", number + 1));
        let (_lock, meta) = data::prepare(&data, id).context("cannot make a data directory")?;
        Ok(Self {
            id: format!("{:016x}", meta.node.0),
            client: None,
            data,
            origin: format!("http://halls.example=http://{door}"),
            child: None,
        })
    }

    /// Makes a cluster whose first member it is.
    fn found(&self) -> anyhow::Result<()> {
        let (_lock, meta) = prepared(&self.data)?;
        cluster::found(&self.data, meta.node).map(drop).context("cannot found a cluster")
    }

    /// Starts it as a new process on its data. What comes is the line in which it says where it is.
    pub(super) fn launch(&mut self, token: Option<&str>) -> anyhow::Result<Saying> {
        let mut child = self.command(token)?.spawn().context("cannot start a node")?;
        let output = child.stdout.take().expect("it was asked for");
        self.child = Some(child);
        Ok(tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).map(|_| line)
        }))
    }

    /// Waits until it has said where it is.
    pub(super) async fn ready(&mut self, saying: Saying) -> anyhow::Result<()> {
        let line = timeout(START_MAX, saying).await.context("a node does not start")???;
        let said: Json = serde_json::from_str(&line)
            .with_context(|| format!("a node did not start: {}", last_line(&self.log())))?;
        let address: SocketAddr = table::text(&said, "address").parse()?;
        self.client = Some(Client::at(address)?);
        Ok(())
    }

    fn command(&self, token: Option<&str>) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        for name in ["OUTLAST_DATA", "OUTLAST_NODE", "OUTLAST_TOKEN", "OUTLAST_JOIN_TOKEN"] {
            command.env_remove(name);
        }
        command.args(["node", "--no-token", "--json", "--test-faults"]);
        command.args(["--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0"]);
        command.args(["--origin", &self.origin]).arg("--data").arg(&self.data);
        token.map(|token| command.env("OUTLAST_JOIN_TOKEN", token));
        let log = File::options().create(true).append(true).open(self.log())?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        Ok(command)
    }

    /// What it says to people goes here.
    fn log(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    /// Someone who can ask it.
    pub(super) fn client(&self) -> anyhow::Result<&Client> {
        self.client.as_ref().context("the node was not started")
    }

    /// Drops all messages between it and these.
    pub(super) async fn cut_off(&self, others: &[String]) -> anyhow::Result<()> {
        self.client()?.put(&["v1", "faults"], &json!({ "block": others })).await.map(drop)
    }

    pub(super) const fn is_alive(&self) -> bool {
        self.child.is_some()
    }

    /// Ends its process at once (SIGKILL), as a power cut would.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Directory {
    /// A new one, in the system's place for temporary files. It must not be there: one that was kept, or
    /// that somebody else has made, is not the demo's.
    pub(super) fn new(keep: bool) -> anyhow::Result<Self> {
        let number = u64::from_le_bytes(random::bytes());
        let path = std::env::temp_dir().join(format!("outlast-demo-{number:016x}"));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path, keep })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let path = self.path.display();
        if self.keep {
            signals::last_word(&format!("the data of the nodes is in {path}"));
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            signals::last_word(&format!("outlast: {path} could not be removed: {error}"));
        }
    }
}

fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("it said nothing").to_owned()
}
