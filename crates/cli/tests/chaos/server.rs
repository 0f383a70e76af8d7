//! A real `outlast node`, and a client that says exactly what it is told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::time::Duration;

use serde_json::{Value, json};

use crate::life::{Life, Waited};
use crate::world::{PATIENCE, World};

/// How long a client waits for an answer. A node on a full disk holds back what it has not stored.
const ANSWER: Duration = Duration::from_secs(2);

/// A node that runs.
pub(crate) struct Server {
    pub(crate) life: Life,
    client: Client,
}

/// Someone who talks to a node, dead or alive.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
}

impl Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Server {
    /// Starts a node on a world's data, perhaps under another program.
    pub(crate) fn start(world: &World, wrapper: &[&str]) -> Self {
        Self::try_start(world, wrapper).unwrap_or_else(|life| panic!("{}", life.kill().story()))
    }

    /// The same, unless it ends before it listens.
    pub(crate) fn try_start(world: &World, wrapper: &[&str]) -> Result<Self, Life> {
        let mut life = Life::start(&mut world.node_command(wrapper));
        let said = life.stdout_so_far();
        let listens = || said.lock().unwrap().contains('\n');
        if life.until(PATIENCE, listens) != Waited::Holds {
            return Err(life);
        }
        let line: Value = serde_json::from_str(&life.stdout()).unwrap();
        let address = line["address"].as_str().unwrap().parse().unwrap();
        Ok(Self { life, client: Client { address } })
    }

    /// The memory it holds, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let statistics =
            std::fs::read_to_string(format!("/proc/{}/statm", self.life.id())).unwrap();
        statistics.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Client {
    /// Sends a request without listening for the answer.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + body).as_bytes()).ok()?;
        Some(stream)
    }

    /// Sends a request; nothing if it was not answered.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        self.ask_for(ANSWER, method, path, body)
    }

    fn ask_for(
        &self,
        time: Duration,
        method: &str,
        path: &str,
        body: &str,
    ) -> Option<(u16, Value)> {
        let mut stream = self.send(method, path, body)?;
        stream.set_read_timeout(Some(time)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }

    /// Registers the world's flow.
    pub(crate) fn define(&self, world: &World) -> Option<(u16, Value)> {
        let text = std::fs::read_to_string(world.flow.file()).unwrap();
        self.ask_for(PATIENCE, "POST", "/v1/definitions", &text)
    }

    /// Starts an execution of a name; the status, if it was answered.
    pub(crate) fn begin(&self, name: &str, ballast: usize) -> Option<u16> {
        let answer = self.ask("POST", "/v1/executions", &order(name, ballast))?;
        Some(answer.0)
    }

    /// Waits for the end of an execution and tells how it ended.
    pub(crate) fn end_of(&self, name: &str) -> String {
        let path = format!("/v1/executions/chaos%2F{name}/wait");
        let (status, detail) = self.ask_for(PATIENCE, "GET", &path, "").expect("it is answered");
        assert_eq!(status, 200, "{name}: {detail}");
        detail["condition"].as_str().unwrap().to_owned()
    }
}

/// What starts an execution of a name, with so many bytes of input that mean nothing.
pub(crate) fn order(name: &str, ballast: usize) -> String {
    let input = json!({ "name": name, "ballast": "x".repeat(ballast) });
    json!({ "namespace": "chaos", "workflow": "order", "name": name, "input": input }).to_string()
}
