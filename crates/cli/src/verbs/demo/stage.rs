//! The stage: the nodes, the service they call, and the ear that hears what happens to them.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use outlast_node::fixture::ledger::{Entry, Kind, Ledger, Options, Outcome};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout};

use super::nodes::{Directory, Nodes, START_MAX};
use super::story::{Event, Story, What};
use crate::table;
use crate::verbs::history::Events;

/// How long the service takes to answer.
pub(super) const STEP: Duration = Duration::from_millis(200);
/// How often the service is looked at.
const PAUSE: Duration = Duration::from_millis(15);
/// The flow that the nodes run.
const FLOW: &str = include_str!("../../../../../examples/tour.yaml");

/// Who said what, and when.
type Heard = (usize, u64, Json);

/// A demo as it runs.
pub(super) struct Stage {
    pub(super) nodes: Nodes,
    pub(super) ledger: Ledger,
    pub(super) story: Story,
    /// Whether stdout is for something else than the story.
    aside: bool,
    execution: String,
    /// The entries of the ledger that are in the story.
    read: usize,
    began_us: u64,
    hears: UnboundedReceiver<Heard>,
    tells: UnboundedSender<Heard>,
}

impl Stage {
    /// Starts the nodes and the service. The story is told on stdout, or aside, on stderr.
    pub(super) async fn set(
        count: usize,
        steps: u64,
        directory: Directory,
        aside: bool,
    ) -> anyhow::Result<Self> {
        let file = Some(directory.path.join("service.jsonl"));
        let mut ledger = Ledger::start(Options { file, ..Options::default() }).await?;
        let answer_after = u64::try_from(STEP.as_millis()).expect("a step is short");
        ledger.control(|control| control.all.answer_after_ms = Some(answer_after));
        let nodes = Nodes::start(count, &mut ledger, directory).await?;
        let (tells, hears) = unbounded_channel();
        let stage = Self {
            nodes,
            ledger,
            story: Story { nodes: count, steps, ..Story::default() },
            aside,
            execution: String::new(),
            read: 0,
            began_us: now_us(),
            hears,
            tells,
        };
        for number in 0..count {
            stage.listen_to(number).await?;
        }
        Ok(stage)
    }

    /// Starts the flow. Any node will do, and leads first; here the last one.
    pub(super) async fn begin(&mut self) -> anyhow::Result<()> {
        let client = self.nodes.list[self.story.nodes - 1].client()?;
        client.post_document(&["v1", "definitions"], FLOW).await?;
        let halls: Vec<String> =
            (1..=self.story.steps).map(|step| format!("hall-{step}")).collect();
        let body = json!({
            "namespace": "examples", "workflow": "tour", "input": { "halls": halls },
            "survival": format!("partition-tolerant:{}:1", self.story.nodes),
        });
        self.began_us = now_us();
        let started = client.post(&["v1", "executions"], &body).await?;
        self.execution = table::text(&started, "execution");
        self.tell(Event { at: 0, node: None, what: What::Began });
        Ok(())
    }

    /// Kills a node.
    pub(super) fn kill(&mut self, number: usize) {
        self.nodes.list[number].kill();
        self.happened(Some(number), What::Killed);
    }

    /// Starts a node again, on the side that it is on.
    pub(super) async fn restart(
        &mut self,
        number: usize,
        sides: &[Vec<usize>],
    ) -> anyhow::Result<()> {
        let beyond = self.nodes.beyond(number, sides);
        let saying = self.nodes.list[number].launch(None)?;
        self.watch(START_MAX, |_| saying.is_finished()).await;
        self.nodes.list[number].ready(saying).await?;
        self.nodes.list[number].cut_off(&beyond).await?;
        self.listen_to(number).await?;
        self.happened(Some(number), What::Restarted);
        Ok(())
    }

    /// Cuts the nodes apart.
    pub(super) async fn cut(&mut self, sides: &[Vec<usize>]) -> anyhow::Result<()> {
        self.nodes.cut(sides).await?;
        self.happened(None, What::Cut(sides.to_vec()));
        Ok(())
    }

    /// Lets all reach all again.
    pub(super) async fn heal(&mut self) -> anyhow::Result<()> {
        self.nodes.cut(&[]).await?;
        self.happened(None, What::Healed);
        Ok(())
    }

    /// Watches until something holds, or for so long. Says whether it came to hold.
    pub(super) async fn watch(
        &mut self,
        patience: Duration,
        holds: impl Fn(&Self) -> bool,
    ) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            self.read_ledger();
            if holds(self) {
                return true;
            }
            if deadline <= Instant::now() {
                return false;
            }
            if let Ok(Some(heard)) = timeout(PAUSE, self.hears.recv()).await {
                self.heard(&heard);
            }
        }
    }

    /// How the execution stands, as one node says.
    pub(super) async fn condition(&self, number: usize) -> anyhow::Result<String> {
        let client = self.nodes.list[number].client()?;
        let said = client.get(&["v1", "executions", &self.execution], &[]).await?;
        Ok(table::text(&said, "condition"))
    }

    /// Something happened now.
    pub(super) fn happened(&mut self, node: Option<usize>, what: What) {
        self.read_ledger();
        let at = now_us().saturating_sub(self.began_us);
        self.tell(Event { at, node, what });
    }

    fn tell(&mut self, event: Event) {
        if let Some(leads) = self.story.leads_from(&event) {
            self.say(&self.story.line(&leads));
            self.story.events.push(leads);
        }
        self.say(&self.story.line(&event));
        self.story.events.push(event);
    }

    /// Says a line of the story. If nobody reads it any more (`| head`), the nodes are still to be ended
    /// and what happens to be drawn: it goes on in silence.
    pub(super) fn say(&self, line: &str) {
        let _ = match self.aside {
            true => writeln!(std::io::stderr(), "{line}"),
            false => writeln!(std::io::stdout(), "{line}"),
        };
    }

    /// Hears from now on what a node reports.
    async fn listen_to(&self, number: usize) -> anyhow::Result<()> {
        let response = self.nodes.list[number].client()?.get_response(&["v1", "events"], &[]).await;
        let mut events = Events::new(response.context("a node does not tell what it does")?);
        let tells = self.tells.clone();
        tokio::spawn(async move {
            // It breaks off when the node is killed.
            while let Ok(Some(event)) = events.next().await {
                if tells.send((number, now_us(), event)).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    fn heard(&mut self, heard: &Heard) {
        let (node, time_us, said) = heard;
        let situation = said.get("situation").and_then(Json::as_str);
        // What a node said before it was killed may be heard after.
        let alive = self.nodes.list[*node].is_alive();
        if let Some(what) = situation.filter(|_| alive).and_then(What::of_situation) {
            let at = time_us.saturating_sub(self.began_us);
            self.tell(Event { at, node: Some(*node), what });
        }
    }

    /// Takes up what the service wrote down since.
    fn read_ledger(&mut self) {
        let entries = self.ledger.entries();
        for entry in &entries[self.read..] {
            if let Some(event) = self.event_of(entry) {
                self.tell(event);
            }
        }
        self.read = entries.len();
    }

    fn event_of(&self, entry: &Entry) -> Option<Event> {
        let node = entry.caller.as_ref()?.parse().ok()?;
        let step = entry.name.strip_prefix("hall-")?.parse().ok()?;
        let what = match (entry.kind, entry.outcome) {
            (Kind::Do, Outcome::Done) => What::Stepped { step, effect: entry.number },
            (Kind::Do, Outcome::Refused) => What::Refused { step },
            (Kind::Undo, Outcome::Done) => What::Undid { step, effect: entry.of },
            (Kind::Undo, Outcome::Nothing) => What::Undid { step, effect: None },
            _ => return None,
        };
        Some(Event { at: entry.time_us.saturating_sub(self.began_us), node: Some(node), what })
    }
}

fn now_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}
