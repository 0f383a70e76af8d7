//! What makes `outlast node` a member of a cluster: its flags, joining, and its connections.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use outlast_lineage::NodeId;
use outlast_node::cluster::{self, Cluster, ClusterError, JoinToken};
use outlast_node::transport::{ClusterId, Settings, is_address};
use outlast_node::{NodeHandle, Relay, data, random};

use crate::exit::Failure;

/// How long to wait before whoever did not answer is asked again.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Where a node listens for others unless it is said.
const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7181));

/// How a node reaches others of its cluster, and they it.
#[derive(clap::Args)]
pub(crate) struct ClusterArguments {
    /// Where to listen for other nodes, if it is in a cluster; port 0 takes any free one [default:
    /// 127.0.0.1:7181]
    #[arg(long, value_name = "ADDRESS")]
    cluster_listen: Option<SocketAddr>,
    /// Where other nodes reach this one [default: where it listens for them]
    #[arg(long, value_name = "HOST:PORT")]
    cluster_address: Vec<String>,
    /// Join a cluster: the address of the node that gave out the token [default: those in the token]
    #[arg(long, value_name = "HOST:PORT")]
    join: Vec<String>,
    /// For how long a node that is to join tries again if nobody answers
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    join_wait: u64,
    /// The token to join with, which `outlast cluster invite` prints; nothing happens if the node has
    /// joined already
    #[arg(long, env = "OUTLAST_JOIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    /// Let tests cut connections to other nodes (PUT /v1/faults)
    #[arg(long, hide = true)]
    pub(crate) test_faults: bool,
}

impl ClusterArguments {
    /// Joins the cluster that the node was told to join, if any. The node must not run yet.
    pub(crate) async fn join(&self, directory: &Path) -> anyhow::Result<()> {
        check_addresses(&self.cluster_address)?;
        let was_member = cluster::is_member(directory);
        let token = match self.join_token() {
            Ok(Some(token)) => token,
            Ok(None) => return Ok(()),
            // What made no sense when it joined would have been told then: now it does nothing.
            Err(_) if was_member => return Ok(()),
            Err(wrong) => return Err(wrong.into()),
        };
        let (lock, meta) = prepared(directory)?;
        let cluster = self.join_in_time(directory, meta.node, &token).await?;
        drop(lock);
        if !was_member {
            tell!("joined cluster {cluster}");
        }
        Ok(())
    }

    /// The token to join with, if the node is told to.
    fn join_token(&self) -> Result<Option<JoinToken>, Failure> {
        check_addresses(&self.join)?;
        // A variable that is set to nothing says nothing.
        match self.token.as_ref().filter(|token| !token.trim().is_empty()) {
            Some(token) => match token.parse() {
                Ok(token) => Ok(Some(token)),
                Err(error) => Err(Failure::usage(format!("--token: {error}"))),
            },
            None if self.join.is_empty() => Ok(None),
            None => Err(Failure::usage("--join: give a token, too")),
        }
    }

    /// Joins as soon as somebody answers: nodes that are started together come up in any order.
    async fn join_in_time(
        &self,
        directory: &Path,
        node: NodeId,
        token: &JoinToken,
    ) -> anyhow::Result<ClusterId> {
        let wait = Duration::from_secs(self.join_wait);
        let deadline = Instant::now() + wait;
        let mut is_told = false;
        loop {
            let error = match cluster::join(directory, node, token, &self.join).await {
                Ok(cluster) => return Ok(cluster),
                Err(error) => error,
            };
            if !matches!(&error, ClusterError::NotJoined(why) if why.may_pass()) {
                return Err(error.into());
            }
            if deadline <= Instant::now() {
                let waited = format!("nobody answered for {wait:?}, which --join-wait allows");
                return Err(error).context(waited);
            }
            if !std::mem::replace(&mut is_told, true) {
                let why = anyhow::Error::from(error);
                tell!("waiting up to {wait:?} for a member of the cluster to answer: {why:#}");
            }
            tokio::time::sleep(ASKED_AGAIN_AFTER).await;
        }
    }

    /// Connects a node to the others, if it is in a cluster.
    pub(crate) async fn start(
        &self,
        directory: &Path,
        node: &NodeHandle,
    ) -> anyhow::Result<Option<(Cluster, Relay)>> {
        let meta = node.meta();
        let settings = Settings {
            listen: self.cluster_listen.unwrap_or(LISTEN),
            advertised: self.cluster_address.clone(),
            incarnation: meta.epoch.0,
            ..Settings::default()
        };
        let Some((cluster, events)) = Cluster::start(directory, meta.node, settings).await? else {
            if self.cluster_listen.is_some() || !self.cluster_address.is_empty() {
                tell!("warning: {}", alone(directory));
            }
            return Ok(None);
        };
        let relay = node.connect(&cluster, events);
        Ok(Some((cluster, relay)))
    }
}

fn check_addresses(addresses: &[String]) -> Result<(), Failure> {
    match addresses.iter().find(|address| !is_address(address)) {
        None => Ok(()),
        Some(wrong) => {
            let message = format!("{wrong}: expected an address such as node.example:7181");
            Err(Failure::usage(message))
        }
    }
}

/// What a node says that is told where others reach it, and that is in no cluster: its disk may have been
/// lost.
fn alone(directory: &Path) -> String {
    format!(
        "the node of {} is in no cluster, so it listens for no other nodes: if it was in one, its data \
         was lost, and it joins as a new node with --join and a token of `outlast cluster invite`; \
         `outlast cluster init` makes a cluster of it",
        directory.display()
    )
}

/// Locks a data directory, or makes a new one, and says whose it is.
pub(crate) fn prepared(directory: &Path) -> anyhow::Result<(data::Lock, data::Meta)> {
    data::prepare(directory, u64::from_le_bytes(random::bytes()))
        .map_err(|error| Failure::storage(format!("{:#}", anyhow::Error::from(error))).into())
}

/// Where other nodes reach this one.
pub(crate) fn describe(cluster: &Cluster) -> String {
    let transport = cluster.transport();
    let first = transport.advertised().first().cloned();
    first.unwrap_or_else(|| transport.address().to_string())
}
