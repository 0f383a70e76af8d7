//! Runs a scenario's workflow on an engine in this process, with real calls over loopback.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outlast_engine::{
    Action, Ask, Caller as CallerId, Engine, EngineOptions, Input, Output, Reply, Report, StartAsk,
    Which, WorkflowVersion,
};
use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_lineage::{ExecutionId, NodeId, Time};
use outlast_node::services::{Caller, NoSecrets};
use outlast_workflow::{Happening, Outcome, Program};
use serde_json::Value as Json;
use tokio::sync::mpsc;

use crate::run::{End, Run, What};

/// No scenario takes longer; one that does is stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is to be run.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// The document.
    pub(crate) definition: String,
    /// Further documents it may run.
    pub(crate) registered: Vec<String>,
    /// Its input.
    pub(crate) input: Option<Json>,
    /// Events published after the start.
    pub(crate) events: Vec<Json>,
}

/// Runs a job to its end, or says why it cannot be run.
pub(crate) async fn run(job: &Job, caller: Arc<Caller>) -> Result<Run, String> {
    let program = compile(&job.definition)?;
    let mut machine = Machine::new(caller);
    for text in &job.registered {
        machine.ask(Ask::Define { program: compile(text)?, text: Arc::from(text.as_str()) });
    }
    let text = Arc::from(job.definition.as_str());
    machine.ask(Ask::Define { program: Arc::clone(&program), text });
    let started = Instant::now();
    machine.ask(Ask::Start(Box::new(StartAsk {
        id: Machine::EXECUTION,
        name: None,
        namespace: program.namespace.clone(),
        workflow: program.name.clone(),
        version: WorkflowVersion::Latest,
        input: job.input.clone().map_or_else(|| value::object([]), value::from_json),
        salt: [7; 16],
    })));
    for event in &job.events {
        machine.ask(Ask::Publish { event: value::from_json(event.clone()) });
    }
    machine.ask(Ask::Wait(Which::Id(Machine::EXECUTION)));
    let outcome = tokio::time::timeout(PATIENCE, machine.until_the_end())
        .await
        .map_err(|_| format!("it did not end within {PATIENCE:?}"))?;
    let history = machine.history.iter().map(|happening| line(&program, happening)).collect();
    let operations = Vec::new();
    Ok(Run { end: end(outcome), history, took: started.elapsed(), operations })
}

fn compile(text: &str) -> Result<Arc<Program>, String> {
    openworkflow::compile(text).map_err(|report| report.render(text, false))
}

fn end(outcome: Outcome) -> End {
    match outcome {
        Outcome::Completed(output) => End::Completed(value::to_json(&output)),
        Outcome::Faulted(fault) => End::Faulted(value::to_json(&fault.to_value())),
        Outcome::Compensated(fault) => End::Compensated(value::to_json(&fault.to_value())),
        Outcome::Cancelled => End::Cancelled,
    }
}

fn line(program: &Program, happening: &Happening) -> (What, String) {
    let name = |task| program.task(task).name.clone();
    match happening {
        // The document's own `do` is no task of the document.
        Happening::TaskStarted(task, _) if *task != Program::ROOT => (What::Started, name(*task)),
        Happening::TaskSkipped(task, _) => (What::Skipped, name(*task)),
        Happening::TaskRetried(task, _) => (What::Retried, name(*task)),
        Happening::Undone(task) => (What::Undone, name(*task)),
        other => (What::Other, format!("{other:?}")),
    }
}

/// An engine, everything durable at once, calls and timers real.
struct Machine {
    engine: Engine,
    caller: Arc<Caller>,
    answers: (mpsc::UnboundedSender<Input>, mpsc::UnboundedReceiver<Input>),
    alarm: Option<Time>,
    history: Vec<Happening>,
    outcome: Option<Outcome>,
    asked: u64,
}

impl Machine {
    const EXECUTION: ExecutionId = ExecutionId::from_bytes([1; 16]);

    fn new(caller: Arc<Caller>) -> Self {
        let mut compile = |_: &_| Err("a new engine has nothing to compile".to_owned());
        let options = EngineOptions::new(NodeId(1));
        let (engine, outputs) =
            Engine::recover(options, now(), [], [], &mut compile).expect("a new engine starts");
        let mut machine = Self {
            engine,
            caller,
            answers: mpsc::unbounded_channel(),
            alarm: None,
            history: Vec::new(),
            outcome: None,
            asked: 0,
        };
        machine.carry_out(outputs);
        machine
    }

    fn ask(&mut self, ask: Ask) {
        self.asked += 1;
        self.step(Input::Asked { caller: CallerId(self.asked), ask });
    }

    fn step(&mut self, input: Input) {
        let outputs = self.engine.step(now(), input);
        self.carry_out(outputs);
    }

    async fn until_the_end(&mut self) -> Outcome {
        loop {
            if let Some(outcome) = self.outcome.take() {
                return outcome;
            }
            if self.engine.has_work() {
                self.step(Input::Turn);
                continue;
            }
            let wait = self.alarm.map_or(PATIENCE, |alarm| alarm.since(now()));
            match tokio::time::timeout(wait, self.answers.1.recv()).await {
                Ok(input) => self.step(input.expect("the machine holds a sender itself")),
                Err(_) => self.step(Input::AlarmRang),
            }
        }
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output.action {
                Action::Call { execution, ticket, request } => {
                    let (caller, sender) = (Arc::clone(&self.caller), self.answers.0.clone());
                    tokio::spawn(async move {
                        let answer = caller.call(*request, &NoSecrets).await;
                        drop(sender.send(Input::Answered { execution, ticket, answer }));
                    });
                }
                Action::Evaluate { request, .. } => panic!("no worker for `{}`", request.source),
                Action::SetAlarm(alarm) => self.alarm = alarm,
                Action::Report(Report::Happened { execution, happenings, .. })
                    if execution == Self::EXECUTION =>
                {
                    self.history.extend(happenings);
                }
                Action::Reply { reply: Reply::Refused(refusal), .. } => panic!("{refusal}"),
                Action::Reply { reply: Reply::Shown(detail), .. } => self.outcome = detail.outcome,
                _ => {}
            }
        }
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    Time::from_micros(u64::try_from(since.as_micros()).expect("it is before the year 500000"))
}
