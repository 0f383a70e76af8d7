//! The world of one execution: its documents, its data directory, and the ledger its calls go to.
//!
//! The ledger runs in the test's own process, so it outlives every process that is killed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use outlast_node::fixture::ledger::{Entry, Ledger, Options, Traffic};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::flows::Flow;
use crate::life::Life;

/// Where the ledgers run.
static LEDGERS: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

/// How long anything may take before it counts as stuck. Far more than it takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// One execution's world.
pub(crate) struct World {
    pub(crate) flow: &'static Flow,
    pub(crate) ledger: Ledger,
    /// What the execution is called if it is given a name.
    pub(crate) id: &'static str,
    data: PathBuf,
    directory: TempDir,
}

impl World {
    /// A world with the data in a temporary directory.
    pub(crate) fn new(flow: &'static Flow) -> Self {
        let mut world = Self::with_data(flow, Path::new(""));
        world.data = world.directory.path().join("data");
        world
    }

    /// A world with the data somewhere else.
    pub(crate) fn with_data(flow: &'static Flow, data: &Path) -> Self {
        let ledger = LEDGERS.block_on(Ledger::start(Options::default())).unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self { flow, ledger, id: "proof", data: data.to_owned(), directory }
    }

    /// From now on its data is somewhere else.
    pub(crate) fn move_to(&mut self, data: &Path) {
        self.data = data.to_owned();
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// A folder of the test's own.
    pub(crate) fn folder(&self) -> &Path {
        self.directory.path()
    }

    /// `outlast run` of the flow, by a name or not.
    pub(crate) fn command(&self, named: bool) -> Command {
        self.command_under(&[], named)
    }

    /// The same, started by another program (which traces it, or lies to it about the time).
    pub(crate) fn command_under(&self, wrapper: &[&str], named: bool) -> Command {
        let words = [wrapper, &[env!("CARGO_BIN_EXE_outlast"), "run"]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(self.flow.file());
        for child in self.flow.child_files() {
            command.arg("--define").arg(child);
        }
        if named {
            command.args(["--id", self.id]);
        }
        self.place(&mut command);
        command
    }

    /// `outlast node`, with `outlast run`'s data and ledger.
    pub(crate) fn node_command(&self, wrapper: &[&str]) -> Command {
        let words = [wrapper, &[env!("CARGO_BIN_EXE_outlast"), "node"]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["--no-token", "--json", "--listen", "127.0.0.1:0"]);
        self.place(&mut command);
        command
    }

    fn place(&self, command: &mut Command) {
        let origin = format!("http://ledger.test={}", self.ledger.uri(""));
        command.args(["--origin", &origin, "--data"]).arg(&self.data);
    }

    /// Starts `outlast run`.
    pub(crate) fn start(&self) -> Life {
        Life::start(&mut self.command(true))
    }

    /// Keeps the data for whoever looks into a failure, and says where it is.
    pub(crate) fn keep(&mut self) -> &Path {
        self.directory.disable_cleanup(true);
        &self.data
    }

    /// Waits until every call that came in, from the living or the dead, has been written down.
    pub(crate) fn settled_entries(&self) -> Vec<Entry> {
        let begin = Instant::now();
        let unsettled = |traffic: Traffic| traffic.recorded < traffic.arrived;
        LEDGERS.block_on(async {
            while unsettled(self.ledger.traffic()) {
                assert!(begin.elapsed() < PATIENCE, "calls are held in the ledger");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        self.ledger.entries()
    }

    /// Whether the journal has no record yet.
    pub(crate) fn has_no_record(&self) -> bool {
        let first = self.data.join("journal/0000000000000001.segment");
        std::fs::read(first).map_or(true, |bytes| bytes.iter().skip(4096).all(|byte| *byte == 0))
    }
}

/// The calls as a table, for a failed test.
pub(crate) fn table(entries: &[Entry]) -> String {
    let begin = entries.first().map_or(0, |entry| entry.time_us);
    let line = |entry: &Entry| {
        let key: String = entry.key.iter().flat_map(|key| key.chars()).take(12).collect();
        let time = entry.time_us.saturating_sub(begin) / 1000;
        let Entry { number, kind, name, outcome, of, status, .. } = entry;
        format!("{number:4} {time:6} ms  {kind:?} {name} {outcome:?} of {of:?} {status} {key}\n")
    };
    entries.iter().map(line).collect()
}
