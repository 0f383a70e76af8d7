//! Progress on stderr: a line that changes on a terminal, plain lines in a pipe.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use outlast_engine::{Ask, Reply, Report, Which};
use outlast_lineage::{Digest, ExecutionId};
use outlast_node::NodeHandle;
use outlast_workflow::program::{Kind, Task};
use outlast_workflow::{Fault, Happening, Program, TaskId};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Shows what happens.
pub(super) struct Progress {
    node: NodeHandle,
    reports: Receiver<Arc<Report>>,
    programs: BTreeMap<Digest, Arc<Program>>,
    /// The programs of executions seen so far; nothing for one that is not known.
    executions: BTreeMap<ExecutionId, Option<Arc<Program>>>,
    bar: Option<ProgressBar>,
    completed: u64,
    quiet: bool,
}

impl Progress {
    /// Watches a node from now on.
    pub(super) fn new(
        node: &NodeHandle,
        programs: BTreeMap<Digest, Arc<Program>>,
        quiet: bool,
    ) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(bar);
        Self {
            node: node.clone(),
            reports: node.subscribe(),
            programs,
            executions: BTreeMap::new(),
            bar,
            completed: 0,
            quiet,
        }
    }

    /// Shows the next thing that happens.
    pub(super) async fn next(&mut self) {
        match self.reports.recv().await {
            Ok(report) => self.show(&report).await,
            Err(RecvError::Lagged(missed)) => self.say(&format!("… {missed} more")),
            // The node has ended, which someone else tells.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }

    /// Shows what has happened already.
    pub(super) async fn drain(&mut self) {
        loop {
            match self.reports.try_recv() {
                Ok(report) => self.show(&report).await,
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Leaves the terminal as it was.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    async fn show(&mut self, report: &Report) {
        let Report::Happened { execution, happenings, .. } = report else { return };
        if self.quiet {
            return;
        }
        let program = self.program_of(*execution).await;
        for happening in &happenings.read() {
            if let Happening::TaskCompleted(..) = happening {
                self.completed += 1;
            }
            if let Some(line) = describe(happening, program.as_deref()) {
                self.say(&line);
            }
        }
    }

    /// Shows a line.
    pub(super) fn say(&self, line: &str) {
        if self.quiet {
            return;
        }
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.completed);
                bar.set_message(line.to_owned());
            }
            None => tell!("{line}"),
        }
    }

    async fn program_of(&mut self, execution: ExecutionId) -> Option<Arc<Program>> {
        if let Some(known) = self.executions.get(&execution) {
            return known.clone();
        }
        let program = match self.node.ask(Ask::Show(Which::Id(execution))).await {
            Ok(Reply::Shown(detail)) => self.programs.get(&detail.summary.definition).cloned(),
            _ => None,
        };
        self.executions.insert(execution, program.clone());
        program
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {pos} done, {elapsed}: {wide_msg}");
    let bar = ProgressBar::new_spinner();
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// One line for people; nothing for what only fills the screen.
fn describe(happening: &Happening, program: Option<&Program>) -> Option<String> {
    let name = |task: &TaskId| match program {
        Some(program) if is_body(program.task(*task)) => None,
        Some(program) => Some(program.task(*task).name.clone()),
        None => Some(format!("task {}", task.0)),
    };
    let indexed = |task: &TaskId, index: &Option<u64>| {
        Some(match index {
            Some(index) => format!("{}[{index}]", name(task)?),
            None => name(task)?,
        })
    };
    Some(match happening {
        Happening::TaskStarted(task, index) => format!("started     {}", indexed(task, index)?),
        Happening::TaskCompleted(task, index) => format!("completed   {}", indexed(task, index)?),
        Happening::TaskSkipped(task, index) => format!("skipped     {}", indexed(task, index)?),
        Happening::TaskFaulted(task, fault) => {
            format!("faulted     {}: {}", name(task)?, reason(fault))
        }
        Happening::TaskCancelled(task) => format!("cancelled   {}", name(task)?),
        Happening::TaskRetried(task, retry) => format!("retried     {} ({retry})", name(task)?),
        Happening::UndoStarted(task) => format!("undoing     {}", name(task)?),
        Happening::Undone(task) => format!("compensated {}", name(task)?),
        Happening::UndoFailed(task, fault) => {
            format!("not undone  {}: {}", name(task)?, reason(fault))
        }
        Happening::Parked(task, why) => format!(
            "parked      {}: {why}; start `outlast node` on this data and say what became of it \
             with `outlast resolve`",
            name(task)?
        ),
        Happening::Resolved(task, how) => format!("resolved    {}: {how}", name(task)?),
        Happening::CompensationStarted(why) => format!("rolling back: {why}"),
        Happening::Published(task, kind) => format!("published   {} ({kind})", name(task)?),
        Happening::Consumed(task, kind) => format!("consumed    {} ({kind})", name(task)?),
        Happening::ContextConflict(task, key) => {
            format!("conflict    {}: two branches wrote {key}; the later one counts", name(task)?)
        }
        Happening::Started
        | Happening::Called(..)
        | Happening::Suspended
        | Happening::Resumed
        | Happening::RetryRequested
        | Happening::Adopted(_)
        | Happening::OfLostRun(_)
        | Happening::Ended(_) => return None,
    })
}

/// Whether a task is only the list in another one, which says all there is to say.
fn is_body(task: &Task) -> bool {
    let pointer = &task.place.pointer;
    matches!(task.kind, Kind::Sequence(_))
        && (pointer.ends_with("/do") || pointer.ends_with("/try"))
}

fn reason(fault: &Fault) -> &str {
    fault.title.as_deref().or(fault.detail.as_deref()).unwrap_or(&fault.kind)
}
