//! What makes `outlast node` a member of a cluster: its flags, joining, and its connections.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use outlast_lineage::NodeId;
use outlast_node::cluster::{self, Cluster, ClusterError, Inviter, JoinToken, Way};
use outlast_node::transport::{ClusterId, Settings, is_address};
use outlast_node::{NodeHandle, Relay, data, random};

use crate::exit::Failure;
use crate::place::{Place, Wanted};

/// How long to wait before whoever did not answer is asked again.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// What whoever cannot be reached by others is told before anything else.
const NOT_USED: &str = "the node has not joined, and its token can still be used";

/// How a node reaches others of its cluster, and they it.
#[derive(clap::Args)]
pub(crate) struct ClusterArguments {
    /// Where to listen for other nodes, if it is in a cluster; port 0 takes any free one [default:
    /// port 7181 of the address from which it reaches the others; 127.0.0.1:7181 if they are on this
    /// machine or there are none]
    #[arg(long, value_name = "ADDRESS")]
    cluster_listen: Option<SocketAddr>,
    /// Where other nodes reach this one [default: where it listens for them; if that is everywhere
    /// (0.0.0.0), the address from which it reaches them]
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

/// What a node is among others before it runs.
#[derive(Default)]
pub(crate) struct Membership {
    /// Where it is; nothing if it is in no cluster.
    place: Option<Place>,
    /// The cluster that it has joined just now.
    pub(crate) joined: Option<ClusterId>,
}

impl ClusterArguments {
    /// Finds a place for a node among others, and joins the cluster that it was told to join, if any. The
    /// node must not run yet, and its directory must be locked.
    pub(crate) async fn join(&self, directory: &Path, node: NodeId) -> anyhow::Result<Membership> {
        check_addresses(&self.cluster_address)?;
        let is_member = cluster::is_member(directory);
        let token = match self.join_token() {
            // What made no sense when it joined would have been told then: now it does nothing.
            Err(_) if is_member => None,
            token => token?,
        };
        if let Some(token) = token
            && cluster::joined(directory, &token)?.is_none()
        {
            let (place, joined) = self.join_in_time(directory, node, &token).await?;
            return Ok(Membership { place: Some(place), joined: Some(joined) });
        }
        match is_member {
            true => Ok(Membership { place: Some(self.stay(directory, node).await?), joined: None }),
            false => {
                cluster::may_be_alone(directory)?;
                Ok(Membership::default())
            }
        }
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
    ) -> anyhow::Result<(Place, ClusterId)> {
        let wait = Duration::from_secs(self.join_wait);
        let deadline = Instant::now() + wait;
        let mut is_told = false;
        loop {
            let error = match self.join_now(directory, node, token).await {
                Ok(joined) => return Ok(joined),
                Err(error) => error,
            };
            let may_pass = matches!(
                error.downcast_ref(),
                Some(ClusterError::NotJoined(why)) if why.may_pass()
            );
            if !may_pass {
                return Err(error);
            }
            if deadline <= Instant::now() {
                // A token that was shown is kept for this node, whatever became of the answer.
                let waited = format!(
                    "nobody answered for {wait:?}, which --join-wait allows; the same command can be given \
                     again, with the same token while that is valid"
                );
                return Err(error.context(waited));
            }
            if !std::mem::replace(&mut is_told, true) {
                tell!("waiting up to {wait:?} for a member of the cluster to answer: {error:#}");
            }
            tokio::time::sleep(ASKED_AGAIN_AFTER).await;
        }
    }

    /// Joins if somebody answers. Whatever may keep the node from being reached comes first: the token is
    /// used up when it is shown.
    async fn join_now(
        &self,
        directory: &Path,
        node: NodeId,
        token: &JoinToken,
    ) -> anyhow::Result<(Place, ClusterId)> {
        let wanted = self.wanted().await.context(NOT_USED)?;
        let inviter = Inviter::reach(token, &self.join).await?;
        let way = inviter.local().ip();
        let place = wanted.on(Way::From(way)).await.context(NOT_USED)?;
        place.check_reached_from(way).context(NOT_USED)?;
        let joined = inviter.join(directory, node, &place.advertised).await?;
        Ok((place, joined))
    }

    /// The place of a node that is a member: its way to those it remembers says what was not said.
    async fn stay(&self, directory: &Path, node: NodeId) -> anyhow::Result<Place> {
        let way = cluster::way_to_others(directory, node).await?;
        self.wanted().await?.on(way).await
    }

    async fn wanted(&self) -> anyhow::Result<Wanted<'_>> {
        Wanted::new(self.cluster_listen, &self.cluster_address).await
    }

    /// Connects a node to the others, if it is in a cluster.
    pub(crate) fn start(
        &self,
        directory: &Path,
        node: &NodeHandle,
        membership: Membership,
    ) -> anyhow::Result<Option<(Cluster, Relay)>> {
        let Some(Place { listener, advertised }) = membership.place else { return Ok(None) };
        let meta = node.meta();
        let settings = Settings { advertised, incarnation: meta.epoch.0, ..Settings::default() };
        let started = Cluster::start(directory, meta.node, settings, listener)?;
        Ok(started.map(|(cluster, events)| {
            let relay = node.connect(&cluster, events);
            (cluster, relay)
        }))
    }

    /// What a node says that is told where others reach it, and that is in no cluster: its disk may have
    /// been lost.
    pub(crate) fn warning_if_alone(&self, directory: &Path) -> Option<String> {
        let is_told = self.cluster_listen.is_some() || !self.cluster_address.is_empty();
        is_told.then(|| {
            format!(
                "the node of {} is in no cluster, so it listens for no other nodes: if it was in one, \
                 its data was lost, and it joins as a new node with --join and a token of `outlast \
                 cluster invite`; `outlast cluster init` makes a cluster of it",
                directory.display()
            )
        })
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
