//! `outlast run`: runs a workflow here, durably, and goes on with it if it was interrupted.

mod ending;
mod progress;
mod started;
mod untold;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use outlast_engine::{
    Ask, Condition, Detail, Filter, Refusal, Reply, StartAsk, Summary, Survival, Which,
    WorkflowVersion,
};
use outlast_expressions::{Value, value};
use outlast_lineage::ExecutionId;
use outlast_node::{Configuration, Node, NodeHandle, Stopped, random};
use outlast_workflow::Program;
use tokio::runtime::Runtime;

use crate::exit::{self, Exit, Failure};
use crate::input::{self, Document};
use crate::services::ServiceArguments;
use crate::verbs::start::named;
use crate::{directories, log, signals};
use progress::Progress;
use untold::Untold;

const EXAMPLES: &str = "\
Examples:
  outlast run order.yaml
  outlast run order.yaml --input '{\"item\": 7}' --data order-data
  outlast run order.yaml --input @order.json --id order-17 --secrets secrets.json
  outlast run order.yaml --define payment.yaml       with the workflow that it runs";
/// How long the runtime may take to end what is under way.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// Run a workflow here, durably; run it again after an interruption to go on where it was
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::HELP))]
pub(crate) struct Arguments {
    /// The workflow document
    flow: PathBuf,
    /// Its input: JSON, or @FILE
    #[arg(long, allow_negative_numbers = true, value_name = "JSON|@FILE", default_value = "{}")]
    input: String,
    /// Where what happened is kept; by default a directory of its own for every text of a document,
    /// under $XDG_STATE_HOME/outlast/run
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// An id or a name for the execution: running it again with the same one runs nothing twice
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Print how it ended as JSON
    #[arg(long)]
    json: bool,
    /// Say nothing about progress
    #[arg(long, short)]
    quiet: bool,
    /// Another document whose workflow this one runs; may be given several times
    #[arg(long = "define", value_name = "FLOW")]
    definitions: Vec<PathBuf>,
    /// What is to be survived: `none` and `solo` (this machine's crashes) are what one machine can do
    #[arg(long, value_name = "MODE")]
    survival: Option<String>,
    #[command(flatten)]
    services: ServiceArguments,
}

/// Runs a workflow to its end.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    log::start("warn");
    check_survival(arguments.survival.as_deref())?;
    if let Some(id) = &arguments.id {
        named("--id", id)?;
    }
    let flow = Document::read(&arguments.flow)?;
    let others: Vec<_> =
        arguments.definitions.iter().map(|path| Document::read(path)).collect::<Result<_, _>>()?;
    let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
    for document in others.iter().chain([&flow]) {
        if !document.report.diagnostics.is_empty() {
            eprint!("{}", document.problems(color));
        }
    }
    if others.iter().chain([&flow]).any(|document| !document.report.is_accepted()) {
        return Ok(Exit::BadDocument);
    }
    if arguments.survival.is_none() && !arguments.quiet {
        say_alone(program_of(&flow));
    }
    let input = input::json("--input", &arguments.input)?;
    let directory = match &arguments.data {
        Some(directory) => directory.clone(),
        None => default_directory(program_of(&flow))?,
    };
    let mut configuration = Configuration::new(&directory);
    arguments.services.apply(&mut configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let node = Node::start(configuration, runtime.handle())?;
    let session = Session { node, arguments, flow: &flow, directory: &directory };
    let exit = session.drive(&runtime, &others, input);
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    exit
}

/// A run under way.
struct Session<'a> {
    node: NodeHandle,
    arguments: &'a Arguments,
    flow: &'a Document,
    directory: &'a Path,
}

/// What ends a run.
enum Event {
    Ended(Box<Detail>),
    Stopped(Stopped),
    Signal(Exit),
}

impl Session<'_> {
    fn drive(&self, runtime: &Runtime, others: &[Document], input: Value) -> anyhow::Result<Exit> {
        runtime.block_on(async {
            let mut programs = BTreeMap::new();
            for document in others.iter().chain([self.flow]) {
                let program = program_of(document);
                self.define(program, &document.text).await?;
                programs.insert(program.digest, Arc::clone(program));
            }
            let mut progress = Progress::new(&self.node, programs, self.arguments.quiet);
            let execution = self.begin(input).await?;
            let event = self.watch(execution, &mut progress).await?;
            let event = self.watch_started(execution, event, &mut progress).await?;
            progress.finish();
            self.end(execution, event).await
        })
    }

    async fn define(&self, program: &Arc<Program>, text: &str) -> anyhow::Result<()> {
        let ask = Ask::Define { program: Arc::clone(program), text: text.into() };
        match self.ask(ask).await? {
            Reply::Defined { .. } => Ok(()),
            reply => bail!("unexpected reply to a definition: {reply:?}"),
        }
    }

    /// Finds the execution to go on with, or starts one.
    async fn begin(&self, input: Value) -> anyhow::Result<ExecutionId> {
        let program = program_of(self.flow);
        if self.arguments.id.is_none()
            && let Some(summary) = self.unfinished(program, &input).await?
        {
            self.say_resumed(&summary);
            return Ok(summary.execution);
        }
        if self.arguments.id.is_none()
            && let Some(execution) = self.untold(program, &input).await?
        {
            self.say_started(execution, false).await?;
            return Ok(execution);
        }
        let given = self.arguments.id.as_deref();
        let id = given.and_then(|text| text.parse().ok()).unwrap_or_else(|| self.node.new_id());
        if given.is_none() {
            let noted = Untold::of(self.directory).note(id);
            noted.map_err(|error| Failure::storage(format!("cannot note the start: {error}")))?;
        }
        let start = StartAsk {
            id,
            given: true,
            name: given.filter(|text| text.parse::<ExecutionId>().is_err()).map(str::to_owned),
            namespace: program.namespace.clone(),
            workflow: program.name.clone(),
            version: WorkflowVersion::Digest(program.digest),
            input,
            salt: random::bytes(),
            survival: Some(Survival::solo()),
        };
        match self.ask(Ask::Start(Box::new(start))).await? {
            Reply::Started { execution, new, .. } => {
                self.say_started(execution, new).await?;
                Ok(execution)
            }
            reply => bail!("unexpected reply to a start: {reply:?}"),
        }
    }

    /// The unfinished execution of this very text with this very input, if there is one.
    async fn unfinished(
        &self,
        program: &Program,
        input: &Value,
    ) -> anyhow::Result<Option<Summary>> {
        let mut after = None;
        loop {
            let filter = Filter {
                namespace: Some(program.namespace.clone()),
                workflow: Some(program.name.clone()),
                after,
                ..Filter::default()
            };
            let Reply::Listed { executions, next } = self.ask(Ask::List(filter)).await? else {
                bail!("unexpected reply to a list");
            };
            for summary in executions {
                let candidate = !summary.condition.is_end()
                    && summary.definition == program.digest
                    && summary.parent.is_none();
                if candidate && self.input_of(summary.execution).await? == *input {
                    return Ok(Some(summary));
                }
            }
            after = next;
            if after.is_none() {
                return Ok(None);
            }
        }
    }

    /// The ended execution of this very text with this very input whose end was not told, if there
    /// is one.
    async fn untold(
        &self,
        program: &Program,
        input: &Value,
    ) -> anyhow::Result<Option<ExecutionId>> {
        let notes = Untold::of(self.directory);
        for execution in notes.executions().context("cannot read what was left to tell")? {
            match self.node.ask(Ask::Show(Which::Id(execution))).await {
                Ok(Reply::Shown(detail)) => {
                    let same = detail.summary.definition == program.digest;
                    if same && detail.input == *input {
                        return Ok(Some(execution));
                    }
                }
                // It was never started, or is forgotten: there is nothing to tell.
                _ => notes.told(execution).context("cannot clear a note")?,
            }
        }
        Ok(None)
    }

    async fn input_of(&self, execution: ExecutionId) -> anyhow::Result<Value> {
        match self.ask(Ask::Show(Which::Id(execution))).await? {
            Reply::Shown(detail) => Ok(detail.input),
            reply => bail!("unexpected reply to a show: {reply:?}"),
        }
    }

    /// Shows progress until something ends the run.
    async fn watch(
        &self,
        execution: ExecutionId,
        progress: &mut Progress,
    ) -> anyhow::Result<Event> {
        let waiting = self.node.ask(Ask::Wait(Which::Id(execution)));
        // Listened for once: what comes while progress is shown would be lost between two times.
        let told = signals::told_to_end();
        tokio::pin!(waiting, told);
        loop {
            tokio::select! {
                biased;
                signal = &mut told => return Ok(Event::Signal(signal?)),
                stopped = self.node.stopped() => return Ok(Event::Stopped(stopped)),
                () = progress.next() => {}
                reply = &mut waiting => match reply {
                    Ok(Reply::Shown(detail)) => {
                        progress.drain().await;
                        return Ok(Event::Ended(detail));
                    }
                    Ok(reply) => bail!("unexpected reply to a wait: {reply:?}"),
                    Err(_) => return Ok(Event::Stopped(self.node.stopped().await)),
                },
            }
        }
    }

    async fn end(&self, execution: ExecutionId, event: Event) -> anyhow::Result<Exit> {
        match event {
            Event::Ended(detail) => {
                let stopped = self.node.shutdown().await;
                if stopped != Stopped::Asked {
                    tell!("outlast: {stopped}");
                }
                let exit = ending::tell(&detail, self.flow, self.arguments.json);
                if let Err(error) = Untold::of(self.directory).told(execution) {
                    tell!("outlast: the end will be told once more: {error}");
                }
                Ok(exit)
            }
            Event::Stopped(stopped) => Err(Failure::storage(stopped.to_string()).into()),
            Event::Signal(exit) => {
                self.node.shutdown().await;
                signals::last_word(&format!(
                    "interrupted: execution {execution} goes on where it was when the same command \
                     is run again"
                ));
                Ok(exit)
            }
        }
    }

    async fn ask(&self, ask: Ask) -> anyhow::Result<Reply> {
        match self.node.ask(ask).await {
            Ok(Reply::Refused(Refusal::StorageFull)) => {
                Err(Failure::storage(Refusal::StorageFull.to_string()).into())
            }
            Ok(Reply::Refused(refusal)) => Err(Failure::usage(refusal.to_string()).into()),
            Ok(reply) => Ok(reply),
            Err(_) => Err(Failure::storage(self.node.stopped().await.to_string()).into()),
        }
    }

    fn say_resumed(&self, summary: &Summary) {
        if !self.arguments.quiet {
            let Summary { execution, .. } = summary;
            tell!("resuming execution {execution} from {}", self.directory.display());
        }
    }

    async fn say_started(&self, execution: ExecutionId, new: bool) -> anyhow::Result<()> {
        if self.arguments.quiet {
            return Ok(());
        }
        let directory = self.directory.display();
        if new {
            tell!("execution {execution}, kept in {directory}");
            return Ok(());
        }
        let Reply::Shown(detail) = self.ask(Ask::Show(Which::Id(execution))).await? else {
            bail!("unexpected reply to a show");
        };
        let condition = detail.summary.condition;
        if condition.is_end() {
            tell!("execution {execution} has {} before", participle(condition));
        } else {
            self.say_resumed(&detail.summary);
        }
        Ok(())
    }
}

const fn participle(condition: Condition) -> &'static str {
    match condition {
        Condition::Compensated => "been compensated",
        Condition::Cancelled => "been cancelled",
        other => other.word(),
    }
}

fn program_of(document: &Document) -> &Arc<Program> {
    document.report.program.as_ref().expect("only accepted documents are run")
}

/// One machine can do without anything, or survive its own crashes.
fn check_survival(mode: Option<&str>) -> anyhow::Result<()> {
    match mode {
        None | Some("none" | "solo") => Ok(()),
        Some(
            mode @ ("passive" | "active" | "partition-tolerant" | "backups" | "ring" | "monitors"),
        ) => Err(Failure::usage(format!(
            "--survival {mode} needs several nodes, which `run` does not start; use `none` or \
             `solo`, which survive every crash of this machine while its disk is whole"
        ))
        .into()),
        Some(other) => {
            let modes = "none, solo, passive, active, partition-tolerant, backups, ring, monitors";
            Err(Failure::usage(format!("--survival {other}: expected one of {modes}")).into())
        }
    }
}

/// Says so if a document wants more nodes than there are here.
fn say_alone(program: &Program) {
    let Survival { replicas, .. } = Survival::of(program);
    if 1 < replicas {
        tell!(
            "the document wants {replicas} replicas: `run` is one node and survives its own crashes; \
             `outlast start` starts it in a cluster"
        );
    }
}

/// A directory for this very text: another text is another directory, so that editing a document
/// never disturbs what an earlier text left unfinished.
fn default_directory(program: &Program) -> anyhow::Result<PathBuf> {
    let digest = program.digest.to_string();
    let name = format!("{}.{}-{}", program.namespace, program.name, &digest[..12]);
    Ok(directories::state()?.join("run").join(name))
}

/// The value as one line of JSON.
fn line(output: &Value) -> String {
    value::to_text(output)
}
