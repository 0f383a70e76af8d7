//! Looking on: after every occurrence a watcher may look at the world, and have it stop.

use std::fmt::{self, Write as _};

use outlast_engine::Input;
use outlast_lineage::Digest;

use super::World;

/// Whoever looks on; says whether the world is to go on.
pub type Watcher = Box<dyn FnMut(&World) -> bool>;

/// A watcher, if there is one.
#[derive(Default)]
pub(super) struct Watching(Option<Watcher>);

impl fmt::Debug for Watching {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "watched" } else { "not watched" })
    }
}

/// One input that an engine was given: an event of a recorded run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunEvent {
    /// When, on the clock of the node, in microseconds.
    pub time: u64,
    /// Which node.
    pub node: u64,
    /// Which shard of it.
    pub shard: u32,
    /// What kind of input it was.
    pub kind: String,
    /// The digest of the input.
    pub input: Digest,
    /// The digest of everything that the engine wanted done.
    pub outputs: Digest,
}

impl RunEvent {
    /// The event of an input and what came of it.
    pub(crate) fn new(
        (time, node, shard): (u64, u64, u32),
        input: &str,
        outputs: &dyn fmt::Debug,
    ) -> Self {
        let kind = input.chars().take_while(char::is_ascii_alphanumeric).collect();
        let digest = |text: &str| Digest::of(text.as_bytes());
        let (input, outputs) = (digest(input), digest(&format!("{outputs:?}")));
        Self { time, node, shard, kind, input, outputs }
    }

    /// The text of an input that its digest is made of.
    pub(crate) fn text_of(input: &Input) -> String {
        format!("{input:?}")
    }
}

impl fmt::Display for RunEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, node, shard, kind, input, outputs } = self;
        // Eight bytes tell one from another; a recorded run has many events.
        let (input, outputs) = (input.short(), outputs.short());
        write!(formatter, "{time} {node} {shard} {kind} {input:016x} {outputs:016x}")
    }
}

impl World {
    /// Has someone look on from now on.
    pub fn watch(&mut self, watcher: Watcher) {
        self.watching = Watching(Some(watcher));
    }

    /// Whoever looks on sees what has just occurred.
    pub(super) fn show(&mut self) {
        if let Some(mut watcher) = self.watching.0.take() {
            self.stopped |= !watcher(self);
            self.watching = Watching(Some(watcher));
        }
    }

    /// Every machine in a line: whether its node is up, what waits, and what it does for which
    /// execution.
    pub fn states(&self) -> String {
        let mut text = String::new();
        for (place, machine) in self.machines.iter().enumerate() {
            let node = &machine.node;
            let up = match (node.is_up(), machine.paused > 0) {
                (false, _) => "down",
                (true, true) => "paused",
                (true, false) => "up",
            };
            let cut: Vec<_> = (0..self.machines.len())
                .filter(|other| self.network.is_cut(place, *other))
                .map(|other| self.machines[other].id().0.to_string())
                .collect();
            let line = write!(
                text,
                "  node {} {up}, life {}, {} records, {} unsynced, {} calls, {} waiting",
                machine.id().0,
                node.life,
                node.records,
                node.disk.unsynced_count(),
                machine.calls,
                machine.inbox.len(),
            );
            line.expect("writing to memory does not fail");
            if !cut.is_empty() {
                write!(text, ", cut off from {}", cut.join(","))
                    .expect("writing to memory does not fail");
            }
            for (execution, phase) in node.engine().into_iter().flat_map(|it| it.phases()) {
                write!(text, "; {} {}", super::words::short(execution), phase.word())
                    .expect("writing to memory does not fail");
            }
            text.push('\n');
        }
        text
    }
}
