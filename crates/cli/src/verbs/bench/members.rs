//! The nodes of a measured cluster, from outside: started, told what to do, killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use outlast_node::cluster;
use serde::de::DeserializeOwned;

use super::member::Order;
use crate::joining::prepared;

/// One node, a process of its own.
pub(super) struct Member {
    /// Who it is.
    id: u64,
    /// The how many-th it was to join.
    pub(super) number: usize,
    data: PathBuf,
    /// What it is started with besides its data.
    arguments: Vec<String>,
    process: Option<Process>,
}

struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Member {
    /// A node that is in no cluster.
    pub(super) fn alone(data: PathBuf, arguments: Vec<String>) -> anyhow::Result<Self> {
        Self::begin(data, 0, arguments, None)
    }

    fn begin(
        data: PathBuf,
        number: usize,
        arguments: Vec<String>,
        token: Option<&str>,
    ) -> anyhow::Result<Self> {
        let mut member = Self { id: 0, number, data, arguments, process: None };
        member.start(token)?;
        Ok(member)
    }

    fn start(&mut self, token: Option<&str>) -> anyhow::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "member", "--cluster-listen", "127.0.0.1:0", "--data"]);
        command.arg(&self.data).args(&self.arguments);
        command.env_remove("OUTLAST_JOIN_TOKEN");
        token.map(|token| command.env("OUTLAST_JOIN_TOKEN", token));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a node to measure")?;
        let orders = child.stdin.take().context("the input is a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("the output is a pipe")?);
        self.process = Some(Process { child, orders, answers });
        self.id = self.answer()?;
        Ok(())
    }

    /// Tells it to do something, without waiting for the answer.
    pub(super) fn tell(&mut self, order: &Order) -> anyhow::Result<()> {
        let process = self.process.as_mut().context("it was killed")?;
        writeln!(process.orders, "{}", serde_json::to_string(order)?)
            .context("the node to measure has ended")
    }

    /// Waits for the answer to the oldest order that is not answered.
    pub(super) fn answer<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let process = self.process.as_mut().context("it was killed")?;
        let mut line = String::new();
        process.answers.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the node to measure ended early; its message is above");
        Ok(serde_json::from_str(&line)?)
    }

    /// Tells it to do something, and waits for the answer.
    pub(super) fn ask<T: DeserializeOwned>(&mut self, order: &Order) -> anyhow::Result<T> {
        self.tell(order)?;
        self.answer()
    }

    /// Ends it at once, as a power cut would.
    pub(super) fn kill(&mut self) {
        if let Some(Process { mut child, .. }) = self.process.take() {
            // It may have ended by itself; then there is nothing to end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes a cluster of new nodes, all connected, in the order of their ids. Each is started with
/// arguments of its own.
pub(super) fn cluster(
    directory: &Path,
    count: usize,
    arguments: impl Fn(usize) -> Vec<String>,
) -> anyhow::Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    for number in 0..count {
        let data = directory.join(number.to_string());
        let token: Option<String> = match members.first_mut() {
            Some(first) => Some(first.ask(&Order::Invite)?),
            None => {
                found(&data)?;
                None
            }
        };
        members.push(Member::begin(data, number, arguments(number), token.as_deref())?);
    }
    members.sort_by_key(|member| member.id);
    meet(&mut members)?;
    Ok(members)
}

fn found(data: &Path) -> anyhow::Result<()> {
    let (_lock, meta) = prepared(data)?;
    cluster::found(data, meta.node)?;
    Ok(())
}

/// Waits until all nodes are connected with all.
pub(super) fn meet(members: &mut [Member]) -> anyhow::Result<()> {
    let others = members.len() - 1;
    members.iter_mut().try_for_each(|member| member.ask(&Order::Meet(others)))
}
