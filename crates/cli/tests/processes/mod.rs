//! Nodes as processes of the binary, whatever network they are on: started, asked, killed. Shared by the
//! tests of replicas (on loopback) and of partitions (each node on a host of its own).
#![allow(dead_code, reason = "each of the tests uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use outlast_node::fixture::ledger::{Entry, Ledger};
use serde_json::Value as Json;
use tokio::runtime::{Builder, Runtime};

/// Longer than anything here takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How often something is looked at again.
const PAUSE: Duration = Duration::from_millis(5);

/// Where ledgers run, and where waiting is done.
pub(crate) static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// Lets some time pass.
pub(crate) fn pause(time: Duration) {
    RUNTIME.block_on(async { tokio::time::sleep(time).await });
}

/// Looks again and again until something holds.
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_in_time(holds), "in vain: {what}");
}

/// The same, for whoever has more to say if it does not come to hold.
pub(crate) fn holds_in_time(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        if deadline <= Instant::now() {
            return false;
        }
        pause(PAUSE);
    }
    true
}

/// The binary, with nothing of the surroundings.
pub(crate) fn outlast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    without_surroundings(&mut command).args(arguments);
    command
}

/// Takes away from a command what the surroundings say of nodes.
pub(crate) fn without_surroundings(command: &mut Command) -> &mut Command {
    for name in ["OUTLAST_DATA", "OUTLAST_NODE", "OUTLAST_TOKEN", "OUTLAST_JOIN_TOKEN"] {
        command.env_remove(name);
    }
    command
}

/// Whether the tests are run under `nohup`, or as it does: then whatever they start outlives a terminal,
/// and cannot be shown to end with it.
pub(crate) fn outlives_terminals() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1)
}

/// A process of a node, if it runs.
#[derive(Default)]
pub(crate) struct Process(Option<Child>);

impl Process {
    /// Starts a node, and gives what it says of itself once it is ready.
    pub(crate) fn start(&mut self, mut command: Command, token: Option<&str>) -> Json {
        token.map(|token| command.env("OUTLAST_JOIN_TOKEN", token));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        self.0 = Some(child);
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            let _ = tell.send(line);
        });
        serde_json::from_str(&told.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    pub(crate) const fn runs(&self) -> bool {
        self.0.is_some()
    }

    /// Ends it at once, as a power cut would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let process = self.0.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &process]).status().unwrap();
        assert!(sent.success(), "{signal}");
    }

    /// Asks it to end, as whoever looks after services does, and waits until it has.
    pub(crate) fn stop(&mut self) {
        if self.runs() {
            self.signal("TERM");
        }
        if self.runs() {
            assert!(self.wait().success(), "it ended well");
        }
    }

    /// Waits until it has ended, and says how.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.0.take().expect("it runs").wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The API of a node.
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

impl Api {
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Json) {
        self.try_ask(method, path, body).unwrap_or_else(|| panic!("{method} {path}: no answer"))
    }

    fn try_ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, Json)> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let token = self.token.as_ref();
        let bearer = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{}connection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.address,
            bearer.unwrap_or_default(),
            body.len()
        );
        stream.write_all((head + body).as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some((status, serde_json::from_str(body).unwrap_or_else(|_| Json::from(body))))
    }
}

/// A body as the API takes it; `null` is none.
pub(crate) fn body_of(body: &Json) -> String {
    if body.is_null() { String::new() } else { body.to_string() }
}

/// Whether a node that says this of its cluster is connected with another one.
pub(crate) fn is_connected(seen: &Json, other: &str) -> bool {
    let members = seen["members"].as_array();
    members.into_iter().flatten().any(|it| it["node"] == other && it["connected"] == true)
}

/// Every call that came in, once all of them are written down.
pub(crate) fn entries_of(ledger: &Ledger) -> Vec<Entry> {
    until("calls are written down", || {
        let traffic = ledger.traffic();
        traffic.arrived <= traffic.recorded
    });
    ledger.entries()
}
