//! `outlast cluster`: found a cluster, invite nodes into it, look at it, and remove lost ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlast_node::cluster;
use serde_json::{Value as Json, json};

use crate::client::{Connection, data_directory};
use crate::exit::{Exit, Failure};
use crate::joining::prepared;
use crate::place::is_loopback;
use crate::table;

/// Found a cluster, invite nodes into it, look at it, and remove lost ones
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast cluster init                            make a cluster of the node of this machine
  outlast node --cluster-listen 0.0.0.0:7181 --cluster-address first.example:7181
  outlast cluster invite --valid 15m              then, on another machine, which the others reach
                                                  on port 7181 (--cluster-listen chooses another):
  outlast node --join first.example:7181 --token TOKEN
  outlast cluster status                          who is there, and who does not answer
  outlast cluster remove 0123456789abcdef         it is lost for good, with its disk")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Make a cluster whose first member is the node of a data directory; the node must be stopped
    #[command(after_help = "\
Examples:
  outlast cluster init                            the node that `outlast node` starts here
  outlast cluster init --data /var/lib/outlast    then: outlast node --data /var/lib/outlast")]
    Init {
        /// The node's data directory; made if it is not there [env: OUTLAST_DATA] [default: where
        /// `outlast node` keeps it]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print the cluster and the node as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a token with which one node can join the cluster of a running node
    #[command(after_help = "\
Examples:
  outlast cluster invite --valid 15m              then: outlast node --join HOST:PORT --token TOKEN
  TOKEN=$(outlast cluster invite)                 the token alone is on stdout")]
    Invite {
        #[command(flatten)]
        connection: Connection,
        /// For how long: 90s, 15m, 1h or 2d, 30 days at most
        #[arg(long, default_value = "1h", value_name = "TIME", value_parser = time)]
        valid: Duration,
    },
    /// List the members: who answers, since when, and how many executions each holds and leads
    #[command(after_help = "\
Examples:
  outlast cluster status                          as the node of this machine sees it
  outlast cluster status --json | jq .unreachable

LIVE executions have not ended. HELD are those that other nodes hold as well, LED those of them
that this node goes on with, STALLED those that stand still: `outlast ps` says which.")]
    Status {
        #[command(flatten)]
        connection: Connection,
    },
    /// Remove a member that is lost for good; its id never comes back
    #[command(after_help = "\
Examples:
  outlast ps --holder 0123456789abcdef            what it holds with others: look at this first
  outlast cluster remove 0123456789abcdef         its disk is lost; in its place a new one may join

One that is heard now is removed only with --force: stop it first, after `outlast drain` there.
Executions no longer wait for it. If it comes up again it is told so, and ends. This cannot be taken
back, and what the node did in runs that do not count stays done: one that is only cut off or down
is better brought back. Where a majority of an execution's nodes is removed, the others go on by
what they know; those executions are named. What it alone holds (strategy `none`) is lost with it,
and only a node that still answers says how much that is.")]
    Remove {
        /// The member, as `status` names it
        member: String,
        /// Remove it although it is heard now
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        connection: Connection,
    },
}

/// Does one of the tasks.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match &arguments.task {
        Task::Init { data, json } => init(&data_directory(data.as_deref())?, *json),
        Task::Invite { connection, valid } => invite(connection, *valid),
        Task::Status { connection } => status(connection),
        Task::Remove { member, force, connection } => remove(connection, member, *force),
    }
}

fn init(directory: &Path, as_json: bool) -> anyhow::Result<Exit> {
    let (_lock, meta) = prepared(directory)?;
    let cluster = cluster::found(directory, meta.node)
        .map_err(|error| Failure::storage(format!("{:#}", anyhow::Error::from(error))))?;
    let node = format!("{:016x}", meta.node.0);
    if as_json {
        let cluster = cluster.to_string();
        println!("{}", json!({ "cluster": cluster, "node": node, "data": directory }));
        return Ok(Exit::Completed);
    }
    println!("cluster {cluster}, first member {node}");
    tell!(
        "next:\n  start it     outlast node --data {} --cluster-listen 0.0.0.0:7181 \
         --cluster-address HOST:7181\n  invite       outlast cluster invite\n\
         every member holds the cluster's authority: keep data directories to yourself",
        directory.display()
    );
    Ok(Exit::Completed)
}

fn invite(connection: &Connection, valid: Duration) -> anyhow::Result<Exit> {
    let body = json!({ "valid": valid.as_secs() });
    let said = connection
        .talk(async |client| client.post(&["v1", "cluster", "invitations"], &body).await)?;
    if connection.json {
        println!("{said}");
        return Ok(Exit::Completed);
    }
    let text = |name| said.get(name).and_then(Json::as_str).unwrap_or_default();
    let address = said["addresses"].get(0).and_then(Json::as_str).unwrap_or("HOST:7181");
    println!("{}", text("token"));
    tell!(
        "admits one node, until {}:\n  outlast node --join {address} --token TOKEN\n\
         OUTLAST_JOIN_TOKEN=TOKEN instead of --token keeps it from other users of that machine",
        text("expires")
    );
    if is_loopback(address) {
        tell!(
            "only nodes of its own machine reach the node that invites: for others, start it with \
             --cluster-listen 0.0.0.0:7181 --cluster-address HOST:7181"
        );
    }
    Ok(Exit::Completed)
}

fn status(connection: &Connection) -> anyhow::Result<Exit> {
    let seen = connection.talk(async |client| client.get(&["v1", "cluster"], &[]).await)?;
    if connection.json {
        table::print_json(&seen);
        return Ok(Exit::Completed);
    }
    println!("cluster {}, as node {} sees it", table::text(&seen, "cluster"), seen_by(&seen));
    let members = seen["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<_> = members.iter().map(row).collect();
    let headings =
        ["NODE", "STATE", "SINCE", "ADDRESS", "RELEASE", "LIVE", "HELD", "LED", "STALLED"];
    table::print(&table::columns(&headings, &rows));
    let count = |wanted| members.iter().filter(|member| missed(member) == Some(wanted)).count();
    let (silent, stuck) = (count(Missed::Unreachable), count(Missed::Stuck));
    let deaf = count(Missed::Deaf);
    for member in members {
        for warning in clock_warning(member).into_iter().chain(copy_warning(member)) {
            tell!("{warning}");
        }
    }
    if 0 < silent {
        tell!("{silent} of them cannot be reached: they are down, or the network is cut");
    }
    for (node, waiting) in awaited(members) {
        tell!(
            "{node} is waited for by {waiting} of them: before it has answered, nothing that they did in runs that do \
             not count is undone, and nothing that has ended is forgotten; if it is lost for good: \
             outlast cluster remove {node}"
        );
    }
    for node in table::texts(&seen, "expected") {
        tell!(
            "{node} was let in and has not come: it holds nothing, and nobody waits for it. It may still come, by \
             the same command with the same token; if it never will: outlast cluster remove {node}"
        );
    }
    if 0 < deaf {
        tell!(
            "heard, but without an answer to this node: {deaf} of them. They may not hear it, if the network is \
             cut in one direction (`outlast cluster status` there says who hears whom)"
        );
    }
    if 0 < stuck {
        tell!(
            "answering, but without heartbeats in time: {stuck} of them. Their disks may be full or slow, which \
             `GET /ready` and the log there say"
        );
    }
    Ok(Exit::Completed)
}

/// What whoever looks after the machines should know of a member's clock.
fn clock_warning(member: &Json) -> Option<String> {
    let (node, ahead) = (member["node"].as_str()?, member["clockAhead"].as_f64()?);
    let word = if ahead < 0.0 { "behind" } else { "ahead of" };
    let seconds = ahead.abs();
    Some(format!(
        "the clock of {node} is {seconds:.0} s {word} that of the node asked: one of them is wrong. Whoever goes on \
         with an execution reckons with it, but the times that workflows and histories show differ"
    ))
}

/// What whoever looks after the machines should know of a member that runs twice.
fn copy_warning(member: &Json) -> Option<String> {
    let (node, from) = (member["node"].as_str()?, member["turnedAway"].as_str()?);
    Some(format!(
        "a second process came from {from} as {node} within the last ten minutes, and was turned away: a copy of \
         its data directory is in use there. Only the one that was here first is heard; the other one ends, says so, \
         and does not start any more. Delete its directory, and have that machine join as a new node"
    ))
}

/// Who is missed and waited for before what does not count can be undone and what has ended can be
/// forgotten, and by how many.
fn awaited(members: &[Json]) -> BTreeMap<&str, usize> {
    let missed = members.iter().filter(|member| missed(member) == Some(Missed::Unreachable));
    let missed = missed.filter_map(|member| member["node"].as_str());
    let waiting = |node: &str| {
        let by = members.iter().map(|member| &member["share"]);
        by.filter(|share| table::texts(share, "awaited").any(|it| it == node)).count()
    };
    missed.map(|node| (node, waiting(node))).filter(|(_, waiting)| 0 < *waiting).collect()
}

/// Why the heartbeats of a member are missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Missed {
    /// It does not answer at all.
    Unreachable,
    /// It answers: a heartbeat says how long records wait for the disk, and does not count if that is
    /// too long.
    Stuck,
    /// Its heartbeats arrive, but it answers nothing: it may not hear this node.
    Deaf,
}

/// Whether a member is missed, and why. Whoever left is not.
fn missed(member: &Json) -> Option<Missed> {
    let is_heard = member["reachable"].as_bool() != Some(false);
    let (answers, state) = (member["share"].is_object(), member["state"].as_str());
    match (is_heard, state) {
        (_, Some("left")) => None,
        (true, Some("suspect" | "dead")) if !answers => Some(Missed::Deaf),
        (true, _) => None,
        (false, _) if answers => Some(Missed::Stuck),
        (false, _) => Some(Missed::Unreachable),
    }
}

fn seen_by(seen: &Json) -> String {
    table::text(seen, "node")
}

fn row(member: &Json) -> Vec<String> {
    let share = &member["share"];
    let state = table::text(member, "state");
    let state = match (missed(member), share["draining"].as_bool()) {
        (Some(Missed::Unreachable), _) => format!("{state}, unreachable"),
        (Some(Missed::Stuck), _) => format!("{state}, stuck"),
        (Some(Missed::Deaf), _) => format!("{state}, deaf"),
        (_, Some(true)) => format!("{state}, draining"),
        _ => state,
    };
    let address = member["addresses"].get(0).and_then(Json::as_str).unwrap_or("-");
    vec![
        table::text(member, "node"),
        state,
        table::seconds(member, "since"),
        address.to_owned(),
        table::text(member, "release"),
        table::text(share, "live"),
        table::text(share, "held"),
        table::text(share, "led"),
        table::text(share, "stalled"),
    ]
}

fn remove(connection: &Connection, node: &str, force: bool) -> anyhow::Result<Exit> {
    let path = ["v1", "cluster", "members", node];
    let query: &[_] = if force { &[("force", "true".to_owned())] } else { &[] };
    let done = connection.talk(async |client| client.delete(&path, query).await)?;
    if connection.json {
        table::print_json(&done);
    } else {
        tell!("{node} is removed; every member is told, and hears it no more");
    }
    if let Some(warning) = done.get("warning").and_then(Json::as_str) {
        tell!("warning: {warning}");
    }
    Ok(Exit::Completed)
}

/// A time such as 90s, 15m, 1h or 2d.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 90s, 15m, 1h or 2d".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let total = number.checked_mul(seconds).filter(|total| 0 < *total).ok_or_else(wrong)?;
    Ok(Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_answers_without_heartbeats_is_stuck_and_not_unreachable() {
        let state = |reachable: bool, state: &str, share: Json| {
            row(&json!({ "state": state, "reachable": reachable, "share": share })).remove(1)
        };
        let share = json!({ "live": 1 });
        assert_eq!(state(true, "alive", share.clone()), "alive");
        assert_eq!(state(false, "alive", share), "alive, stuck");
        assert_eq!(state(false, "suspect", Json::Null), "suspect, unreachable");
        assert_eq!(state(false, "left", Json::Null), "left");
        // Heard, and without an answer: it may not hear this node.
        assert_eq!(state(true, "suspect", Json::Null), "suspect, deaf");
        assert_eq!(state(true, "dead", Json::Null), "dead, deaf");
        assert_eq!(state(true, "joining", Json::Null), "joining");
    }

    #[test]
    fn whoever_is_missed_and_waited_for_is_named() {
        let member = |node: &str, reachable: bool, share: Json| json!({ "node": node, "state": "dead", "reachable": reachable, "share": share });
        let waits = || json!({ "awaited": ["c", "b"] });
        let members = [member("a", true, waits()), member("b", true, waits())];
        assert_eq!(awaited(&members), BTreeMap::new(), "all are there");
        let members = members.into_iter().chain([member("c", false, Json::Null)]);
        assert_eq!(awaited(&members.collect::<Vec<_>>()), BTreeMap::from([("c", 2)]));
    }

    #[test]
    fn a_time_has_a_number_and_a_unit() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("2d"), Ok(Duration::from_secs(2 * 24 * 60 * 60)));
        for wrong in ["", "h", "1", "0s", "-1h", "1 h", "1w", "99999999999999999999d", "1ü"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
