//! Someone outside the node: publishes the events that a flow waits for, looks at what is parked, finds
//! out from the provider what became of it, and says so with `outlast resolve`.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::judge;
use crate::server::Client;
use crate::world::World;

/// How often the person looks.
const LOOK: Duration = Duration::from_millis(5);

/// One person, who outlives the nodes and remembers what was acknowledged.
pub(crate) struct Person<'a> {
    world: &'a World,
    /// The types of the events that a node has taken.
    published: Mutex<BTreeSet<&'static str>>,
    /// The effects whose fate a node was told, and has taken.
    settled: Mutex<BTreeSet<String>>,
    /// Whether what was broken is repaired.
    repaired: AtomicBool,
    /// Whether something is parked that nobody has said anything about yet.
    is_asked: AtomicBool,
    /// How the execution ended.
    end: Mutex<Option<String>>,
    problems: Mutex<Vec<String>>,
}

impl<'a> Person<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        Self {
            world,
            published: Mutex::default(),
            settled: Mutex::default(),
            repaired: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            end: Mutex::default(),
            problems: Mutex::default(),
        }
    }

    /// How the execution ended, once the person has seen it.
    pub(crate) fn end(&self) -> Option<String> {
        self.end.lock().unwrap().clone()
    }

    /// Whether something waits for the person.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// How many events a node has taken.
    pub(crate) fn published(&self) -> usize {
        self.published.lock().unwrap().len()
    }

    /// Whether what was broken is repaired.
    pub(crate) fn has_repaired(&self) -> bool {
        self.repaired.load(Ordering::Relaxed)
    }

    /// Of how many parked calls the person has said what became of them.
    pub(crate) fn settled(&self) -> usize {
        self.settled.lock().unwrap().len()
    }

    /// What went wrong between the person and the nodes.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.lock().unwrap().clone()
    }

    /// Looks after the execution until it ends, or until there is no node to talk to any more.
    pub(crate) fn attend(&self, node: Client, gone: &Receiver<()>) {
        while self.end().is_none() && gone.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            self.publish(node);
            self.look(node);
        }
    }

    fn publish(&self, node: Client) {
        let entries = self.world.ledger.entries();
        for (deed, kind) in self.world.flow.told {
            let due = judge::deeds(&entries).any(|entry| entry.name == *deed);
            if !due || self.published.lock().unwrap().contains(kind) {
                continue;
            }
            let event = json!({ "type": kind, "source": "https://person.test", "data": {} });
            if let Some((202, _)) = node.ask("POST", "/v1/events", &event.to_string()) {
                self.published.lock().unwrap().insert(kind);
            }
        }
    }

    fn look(&self, node: Client) {
        let path = format!("/v1/executions/chaos%2F{}", self.world.id);
        let Some((200, detail)) = node.ask("GET", &path, "") else { return };
        let condition = detail["condition"].as_str().unwrap_or_default();
        if matches!(condition, "completed" | "compensated" | "faulted" | "cancelled") {
            *self.end.lock().unwrap() = Some(condition.to_owned());
            return;
        }
        let parked = detail["parked"].as_array().cloned().unwrap_or_default();
        self.is_asked.store(!parked.is_empty(), Ordering::Relaxed);
        for item in &parked {
            self.resolve(node, item);
        }
    }

    /// Says what became of something, as the provider shows it.
    fn resolve(&self, node: Client, item: &Value) {
        let effect = item["effect"].as_str().unwrap_or_default();
        if self.settled.lock().unwrap().contains(effect) {
            self.problems.lock().unwrap().push(format!("asked again about {effect}"));
        }
        if let Some(broken) = self.world.flow.broken {
            self.world.ledger.control(|control| control.paths.retain(|path, _| path != broken));
            self.repaired.store(true, Ordering::Relaxed);
            // The provider remembers what it refused under a key: it is to be a new operation.
            self.tell(node, effect, &["not-done"]);
            return;
        }
        // The dead may have said something that the provider has not come to yet.
        let entries = self.world.settled_entries();
        let launched = judge::deeds(&entries).find(|entry| entry.name == "launch");
        let told = match launched {
            Some(entry) => {
                let result = json!({ "name": entry.name, "number": entry.number }).to_string();
                self.tell(node, effect, &["done", "--result", &result])
            }
            None => self.tell(node, effect, &["not-done"]),
        };
        if told {
            self.settled.lock().unwrap().insert(effect.to_owned());
        }
    }

    /// `outlast resolve`; whether the node has taken it.
    fn tell(&self, node: Client, effect: &str, words: &[&str]) -> bool {
        let execution = format!("chaos/{}", self.world.id);
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
        command.args(["resolve", &execution, effect]).args(words);
        command.args(["--json", "--node", &format!("http://{}", node.address)]);
        let said = command.stdin(Stdio::null()).output().unwrap();
        let answer: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        said.status.success() && answer["resolved"] == 1
    }
}
