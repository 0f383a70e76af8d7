//! One node of a measured cluster: a process that does what it is told, line by line.
//!
//! An order is a line of JSON on its stdin, the answer a line on its stdout; it ends when stdin does.
//! Its clients are in the process of the node, as those of `bench steps` are, so that what is
//! measured is the node and not a way to talk to it.

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use outlast_engine::{Ask, Reply, StartAsk, Survival, WorkflowVersion};
use outlast_expressions::value;
use outlast_node::cluster::Cluster;
use outlast_node::{Configuration, Node, NodeHandle, random};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::load::Account;
use super::steps;
use crate::exit::Exit;
use crate::joining::{ClusterArguments, prepared};
use crate::services::ServiceArguments;

/// How often it is looked whether all are connected.
const LOOK: Duration = Duration::from_millis(10);
/// For how long a node of a measurement is invited.
const INVITED: Duration = Duration::from_secs(600);

/// Be one node of a measured cluster
#[derive(clap::Args)]
pub(super) struct Arguments {
    #[arg(long)]
    data: PathBuf,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    services: ServiceArguments,
}

/// What a node of a measured cluster can be told.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Order {
    /// To invite one more node: the token.
    Invite,
    /// To wait until so many others are connected with it.
    Meet(usize),
    /// To register a document.
    Define(String),
    /// To run workflows with clients of its own: how long each took.
    Drive(Drive),
    /// To start one execution.
    Start(Start),
    /// To tell what it has used so far.
    Account,
}

/// How to run workflows.
#[derive(Serialize, Deserialize)]
pub(super) struct Drive {
    pub(super) clients: usize,
    pub(super) duration: Duration,
    pub(super) survival: Option<String>,
}

/// What to start.
#[derive(Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) workflow: String,
    pub(super) survival: String,
    pub(super) input: Json,
}

/// Starts a node and does what it is told until nobody tells it anything any more.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    crate::log::start("warn");
    let mut configuration = Configuration::new(&arguments.data);
    arguments.services.apply(&mut configuration)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (lock, meta) = prepared(&arguments.data)?;
    let membership = runtime.block_on(arguments.cluster.join(&arguments.data, meta.node))?;
    drop(lock);
    let node = Node::start(configuration, runtime.handle())?;
    let _runtime = runtime.enter();
    let started = arguments.cluster.start(&arguments.data, &node, membership)?;
    let cluster = started.as_ref().map(|(cluster, _relay)| cluster);
    answer(&json!(node.meta().node.0))?;
    for line in std::io::stdin().lock().lines() {
        let order = serde_json::from_str(&line?).context("that is no order")?;
        answer(&runtime.block_on(obey(&node, cluster, order))?)?;
    }
    runtime.block_on(node.shutdown());
    Ok(Exit::Completed)
}

fn answer(answer: &Json) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{answer}")?;
    Ok(output.flush()?)
}

async fn obey(node: &NodeHandle, cluster: Option<&Cluster>, order: Order) -> anyhow::Result<Json> {
    match order {
        Order::Invite => {
            let cluster = cluster.context("it is in no cluster")?;
            Ok(json!(cluster.invite(INVITED)?.token.to_text()))
        }
        Order::Meet(others) => {
            let cluster = cluster.context("it is in no cluster")?;
            let met = || cluster.transport().statistics().peers;
            while met().values().filter(|peer| peer.connected).count() < others {
                tokio::time::sleep(LOOK).await;
            }
            Ok(Json::Null)
        }
        Order::Define(text) => Ok(json!(steps::define(node, &text).await?)),
        Order::Drive(Drive { clients, duration, survival }) => {
            let survival = survival.as_deref().map(parsed).transpose()?;
            let driven = steps::run_clients(node, survival.as_ref(), clients, duration).await?;
            Ok(serde_json::to_value(driven)?)
        }
        Order::Start(start) => started(node, start).await,
        Order::Account => {
            let peers = cluster.map(|cluster| cluster.transport().statistics().peers);
            let sent = peers.iter().flatten().map(|(_, peer)| peer.sent).sum();
            Ok(serde_json::to_value(Account::of(node, sent).await?)?)
        }
    }
}

async fn started(node: &NodeHandle, start: Start) -> anyhow::Result<Json> {
    let ask = StartAsk {
        id: node.new_id(),
        given: false,
        name: None,
        namespace: "bench".to_owned(),
        workflow: start.workflow,
        version: WorkflowVersion::Latest,
        input: value::from_json(start.input),
        salt: random::bytes(),
        survival: Some(parsed(&start.survival)?),
    };
    match node.ask(Ask::Start(Box::new(ask))).await? {
        Reply::Started { .. } => Ok(Json::Null),
        other => bail!("an execution was not started: {other:?}"),
    }
}

fn parsed(survival: &str) -> anyhow::Result<Survival> {
    survival.parse().map_err(anyhow::Error::msg)
}
