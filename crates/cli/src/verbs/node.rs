//! `outlast node`: a node with its API, until it is told to end.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use outlast_engine::{Ask, Reply};
use outlast_node::cluster::{self, Cluster};
use outlast_node::data::Meta;
use outlast_node::http::{self, check_token, read_token, rotate_token};
use outlast_node::{Configuration, Node, NodeHandle, Stopped};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use crate::client::data_directory;
use crate::exit::{Exit, Failure};
use crate::joining::{ClusterArguments, Membership, describe, prepared};
use crate::services::ServiceArguments;
use crate::{log, signals};

/// How long the runtime may take to end what is under way.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// How often it is looked whether answers have come that a node waits for before it ends.
const HEARING: Duration = Duration::from_millis(50);

/// Start a node: it keeps executions and runs them, and answers requests
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast node                                    on this machine, at http://127.0.0.1:7180
  outlast node --data /var/lib/outlast --listen 0.0.0.0:7180 --host outlast.example.org
  outlast node --join first.example:7181 --token TOKEN   become a member of a cluster; others
                                                  reach it on port 7181 of this machine

The token that requests must show is printed at the first start on a terminal; `outlast token`
prints it again.")]
pub(crate) struct Arguments {
    /// Where the node keeps everything [env: OUTLAST_DATA] [default: $XDG_STATE_HOME/outlast/node]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where to listen; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:7180", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A name of this node, besides addresses and localhost; requests for others are refused
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Answer without a token; only where nobody else can reach it
    #[arg(long)]
    no_token: bool,
    /// How many connections there may be at once
    #[arg(long, default_value_t = 512, value_name = "COUNT")]
    connections: usize,
    /// How many days ended executions are kept
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<u64>,
    /// How many ended executions are kept
    #[arg(long, value_name = "COUNT")]
    keep_count: Option<usize>,
    /// How many executions of a namespace, or of each namespace, may be under way or waiting;
    /// may be given several times
    #[arg(long, value_name = "[NAMESPACE=]COUNT", value_parser = share)]
    quota: Vec<Share>,
    /// How many seconds it waits, when it is told to end, for the answers to calls that must not be made twice
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    finish_within: u64,
    /// Print where it listens as one line of JSON on stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    services: ServiceArguments,
}

/// Runs a node until it is told to end or its storage fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    log::start("info");
    let directory = data_directory(arguments.data.as_deref())?;
    let mut configuration = Configuration::new(&directory);
    arguments.services.apply(&mut configuration)?;
    if let Some(days) = arguments.keep_days {
        configuration.retention.age = Duration::from_secs(days * 24 * 60 * 60);
    }
    if let Some(count) = arguments.keep_count {
        configuration.retention.count = count;
    }
    set_quotas(&mut configuration, &arguments.quota);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let (door, membership) = runtime.block_on(enter(arguments, &directory))?;
    let joined = membership.joined;
    let up = Node::start(configuration, runtime.handle())
        .map_err(anyhow::Error::from)
        .and_then(|node| bring_up(arguments, &directory, node, door, membership, runtime.handle()));
    let exit = match (up, joined) {
        (Ok(up), _) => runtime.block_on(serve(arguments, &directory, up)),
        // Whoever does not know that it has joined would ask for another token.
        (Err(error), Some(cluster)) => Err(error.context(format!(
            "the node has joined cluster {cluster} and needs no token any more, but it did not start"
        ))),
        (Err(error), None) => Err(error),
    };
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    exit
}

/// Where the API is going to be.
struct Door {
    listener: TcpListener,
    options: http::Options,
}

/// A node that can be asked.
struct Up {
    node: NodeHandle,
    server: http::Server,
    cluster: Option<Cluster>,
}

/// Listens for whoever asks and for other nodes, and joins if it is told to: in this order, because a node
/// that has joined and cannot be reached is missed by the others.
async fn enter(arguments: &Arguments, directory: &Path) -> anyhow::Result<(Door, Membership)> {
    let (lock, meta) = prepared(directory)?;
    cluster::may_start(directory)?;
    if !arguments.no_token {
        check_token(directory).map_err(|error| Failure::storage(error.to_string()))?;
    }
    let options = http::Options {
        listen: arguments.listen,
        hosts: arguments.hosts.clone(),
        token: (!arguments.no_token).then(|| directory.to_owned()),
        connections_max: arguments.connections.max(1),
        test_faults: arguments.cluster.test_faults,
        ..http::Options::default()
    };
    let listener = http::listen(&options)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let membership = arguments.cluster.join(directory, meta.node).await?;
    drop(lock);
    if let Some(cluster) = membership.joined {
        tell!("joined cluster {cluster}");
    }
    Ok((Door { listener, options }, membership))
}

/// Connects a node to the others, and answers from now on.
fn bring_up(
    arguments: &Arguments,
    directory: &Path,
    node: NodeHandle,
    door: Door,
    membership: Membership,
    runtime: &Handle,
) -> anyhow::Result<Up> {
    let _runtime = runtime.enter();
    if !arguments.no_token {
        ensure_token(directory)?;
    }
    let (cluster, relay) = arguments.cluster.start(directory, &node, membership)?.unzip();
    if cluster.is_none()
        && let Some(warning) = arguments.cluster.warning_if_alone(directory)
    {
        tell!("warning: {warning}");
    }
    let options = http::Options { cluster: cluster.clone(), relay, ..door.options };
    let server = http::serve_at(door.listener, node.clone(), options)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    Ok(Up { node, server, cluster })
}

/// How many executions that have not ended a namespace may have; all of them, if none is named.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Share {
    namespace: Option<String>,
    live: usize,
}

fn share(text: &str) -> Result<Share, String> {
    let (namespace, count) = match text.rsplit_once('=') {
        Some(("", _)) => return Err("there is no namespace before `=`".to_owned()),
        Some((namespace, count)) => (Some(namespace.to_owned()), count),
        None => (None, text),
    };
    let live = count.parse().map_err(|_| format!("`{count}` is no number of executions"))?;
    Ok(Share { namespace, live })
}

/// What is said of a namespace counts more than what is said of all, in whichever order.
fn set_quotas(configuration: &mut Configuration, shares: &[Share]) {
    for share in shares.iter().filter(|share| share.namespace.is_none()) {
        configuration.quota.live = share.live;
    }
    for share in shares {
        if let Some(namespace) = &share.namespace {
            let mut quota = configuration.quota.clone();
            quota.live = share.live;
            configuration.quotas.insert(namespace.clone(), quota);
        }
    }
}

/// Runs a node until it is told to end or its storage fails.
async fn serve(arguments: &Arguments, directory: &Path, up: Up) -> anyhow::Result<Exit> {
    let Up { node, server, cluster } = up;
    let address = server.address();
    let id = format!("{:016x}", node.meta().node.0);
    let reached = cluster.as_ref().map(describe);
    if arguments.json {
        let cluster = cluster.as_ref().map(|it| it.transport().identity().cluster.to_string());
        let said = json!({
            "address": address, "data": directory, "node": id,
            "cluster": cluster, "clusterAddress": reached,
        });
        println!("{said}");
    }
    tell!("node {id} listens on http://{address}, kept in {}", directory.display());
    if let Some(reached) = reached {
        tell!("other nodes reach it at {reached}");
    }
    let ended = tokio::select! {
        told = signals::told_to_end() => Ok(told?),
        stopped = node.stopped() => Err(stopped),
    };
    if ended.is_ok() && cluster.is_some() {
        // Others lead from now on what it led: while it waits for answers, it makes no calls that it would not hear.
        let _ = node.ask(Ask::Drain(true)).await;
    }
    server.stop().await;
    let stopped = match ended {
        Ok(_) => {
            hear_answers(&node, Duration::from_secs(arguments.finish_within)).await?;
            node.shutdown().await
        }
        Err(stopped) => stopped,
    };
    if let Some(cluster) = &cluster {
        cluster.leave().await;
    }
    match stopped {
        Stopped::Asked => Ok(Exit::Completed),
        Stopped::Removed { .. } => Err(stopped.into()),
        Stopped::TurnedAway { .. } => Err(put_aside(directory, node.meta(), &stopped).into()),
        stopped => Err(Failure::storage(stopped.to_string()).into()),
    }
}

/// What is to be done about a node that runs twice. A supervisor would start it again and again, until it comes
/// at a moment when the other one is down, and is heard in its place.
fn put_aside(directory: &Path, meta: &Meta, stopped: &Stopped) -> Failure {
    let kept = Meta::read(directory).ok().flatten();
    // On a disk that has moved to another machine, it is the next life of this one that is heard.
    if kept.is_none_or(|kept| kept.epoch != meta.epoch) {
        return Failure::storage(format!(
            "{stopped}\n  its data directory is used by another process"
        ));
    }
    let what_to_do = cluster::put_aside(directory, &stopped.to_string())
        .and_then(|()| cluster::may_start(directory))
        .map_or_else(|said| said.to_string(), |()| String::new());
    Failure::storage(format!("{stopped}\n  {what_to_do}"))
}

/// Waits for the answers to calls that must not be made twice: nobody else would hear them, and a person would
/// have to find out. Whoever does not want to wait says a second time that it is to end.
async fn hear_answers(node: &NodeHandle, patience: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + patience;
    let mut told = false;
    while let Ok(Reply::Standing(standing)) = node.ask(Ask::Standing).await
        && 0 < standing.hearing
        && Instant::now() < deadline
    {
        if !told {
            tell!("{}", what_it_waits_for(standing.hearing, patience.as_secs()));
        }
        told = true;
        tokio::select! {
            again = signals::told_to_end() => return again.map(drop),
            () = tokio::time::sleep(HEARING) => {}
        }
    }
    Ok(())
}

fn what_it_waits_for(hearing: u64, seconds: u64) -> String {
    let executions = if hearing == 1 { "execution" } else { "executions" };
    format!(
        "waits up to {seconds} s for the answers to calls of {hearing} {executions} that must not be made twice"
    )
}

/// Makes a token if there is none. It is shown this once, to whoever sits at a terminal: in a log it
/// would stay, for everybody who reads logs.
fn ensure_token(directory: &Path) -> anyhow::Result<()> {
    if read_token(directory).is_ok_and(|token| !token.is_empty()) {
        return Ok(());
    }
    let token = rotate_token(directory)
        .with_context(|| format!("cannot write the token in {}", directory.display()))?;
    let again = format!("`outlast token --data {}` prints it", directory.display());
    match std::io::stderr().is_terminal() {
        true => tell!("the token of this node, shown this once ({again} again):\n{token}"),
        false => tell!("a token was made, which requests must show: {again}"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_execution_that_is_waited_for_is_not_said_to_be_several() {
        assert!(what_it_waits_for(1, 30).contains("calls of 1 execution that"));
        assert!(what_it_waits_for(2, 30).contains("calls of 2 executions that"));
    }

    #[test]
    fn a_quota_is_of_a_namespace_or_of_all() {
        let shares = ["orders=5", "10"].map(|text| share(text).unwrap());
        let mut configuration = Configuration::new("data");
        set_quotas(&mut configuration, &shares);
        assert_eq!(configuration.quota.live, 10);
        assert_eq!(configuration.quotas["orders"].live, 5);
        for wrong in ["", "=5", "orders=", "orders=many", "-1"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
