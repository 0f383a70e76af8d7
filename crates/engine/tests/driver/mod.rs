//! Programs written by hand, and a driver that follows the contract: shared by the engine's tests.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{
    Action, Ask, Caller, Definition, Detail, Engine, EngineOptions, Filter, Input, Output, Reply,
    Report, StartAsk, Subject, Summary, Which, WorkflowVersion, ranked,
};
use outlast_expressions::{Value, value};
use outlast_lineage::{Digest, ExecutionId, NodeId, Time};
use outlast_workflow::program::{
    Class, EventFilter, EventStrategy, Flow, Kind, OnFault, Place, ReadMode, Service, Task,
    Template, Traits, Transform, bundle,
};
use outlast_workflow::{Answer, Program, Request, Target, TaskId, Ticket};

pub(crate) const START: Time = Time::from_millis(1_000_000);

/// An id; of the nodes from 1 to 5 that hold it, the one with the highest number leads, and the next
/// comes after it: who leads is nothing that tests about other things should have to know.
pub(crate) fn id(number: u8) -> ExecutionId {
    let ids = (0_u32..).map(|draw| {
        let mut bytes = [number; 16];
        bytes[12..].copy_from_slice(&draw.to_be_bytes());
        ExecutionId::from_bytes(bytes)
    });
    let in_order = |id: &ExecutionId| ranked(*id, (1..=5).map(NodeId)).iter().rev().is_sorted();
    ids.into_iter().find(in_order).expect("one of 120 is")
}

/// An id that may fall to any nodes, in any order.
pub(crate) fn any_id(number: u8) -> ExecutionId {
    ExecutionId::from_bytes([number; 16])
}

pub(crate) fn text(text: &str) -> Value {
    value::string(text)
}

/// A task of some kind, with nothing special about it.
pub(crate) fn task(name: &str, kind: Kind) -> Task {
    Task {
        name: name.to_owned(),
        place: Place { pointer: format!("/do/{name}"), ..Place::default() },
        condition: None,
        input: Transform::default(),
        output: Transform::default(),
        export: Transform::default(),
        timeout: None,
        then: Flow::Continue,
        kind,
        traits: Traits::default(),
    }
}

pub(crate) fn call(name: &str) -> Task {
    let service = Service::Catalog { name: name.to_owned(), version: "1.0.0".to_owned() };
    task(name, Kind::Call { service, arguments: Some(Template::Literal(text(name))) })
}

pub(crate) fn classed(class: Class, task: Task) -> Task {
    Task { traits: Traits { class: Some(class), ..Traits::default() }, ..task }
}

pub(crate) fn wait(name: &str, duration: &str) -> Task {
    task(name, Kind::Wait(Template::Literal(text(duration))))
}

pub(crate) fn emit(name: &str, kind: &str) -> Task {
    let event = value::object([("type", text(kind)), ("source", text("https://here.example"))]);
    task(name, Kind::Emit(Template::Literal(event)))
}

pub(crate) fn listen(name: &str, kind: &str) -> Task {
    let with = vec![("type".to_owned(), Template::Literal(text(kind)))];
    let to = EventStrategy::One(EventFilter { with, correlate: Vec::new() });
    task(name, Kind::Listen { to, read: ReadMode::Data, each: None })
}

pub(crate) fn set(name: &str, data: Value) -> Task {
    task(name, Kind::Set(Template::Literal(data)))
}

pub(crate) fn child(name: &str, workflow: &str, wait: bool) -> Task {
    task(
        name,
        Kind::RunWorkflow {
            namespace: "test".to_owned(),
            name: workflow.to_owned(),
            version: "latest".to_owned(),
            input: None,
            wait,
        },
    )
}

/// A program of tasks one after the other.
pub(crate) fn program(name: &str, version: &str, tasks: Vec<Task>) -> Arc<Program> {
    program_in("test", name, version, tasks)
}

pub(crate) fn program_in(
    namespace: &str,
    name: &str,
    version: &str,
    tasks: Vec<Task>,
) -> Arc<Program> {
    let order = (1..=tasks.len()).map(|index| TaskId(u32::try_from(index).unwrap())).collect();
    let mut all = vec![task("do", Kind::Sequence(order))];
    all.extend(tasks);
    raw_program(namespace, name, version, all)
}

/// A program of tasks as they are; the first is the root.
pub(crate) fn raw_program(
    namespace: &str,
    name: &str,
    version: &str,
    tasks: Vec<Task>,
) -> Arc<Program> {
    let text = format!("{namespace} {name} {version} {tasks:?}");
    Arc::new(Program {
        digest: Digest::of(text.as_bytes()),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        version: version.to_owned(),
        dsl: "1.0.3".to_owned(),
        definition: Value::Null.into(),
        tasks,
        input: Transform::default(),
        output: Transform::default(),
        timeout: None,
        on_fault: OnFault::Leave,
        secrets: Vec::new(),
        extension: Value::Null,
        linked: Default::default(),
    })
}

/// A driver with everything durable at once, and services that wait to be told what to answer.
pub(crate) struct Driver {
    pub(crate) engine: Engine,
    pub(crate) now: Time,
    pub(crate) journal: Vec<Vec<u8>>,
    pub(crate) snapshots: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) calls: VecDeque<(ExecutionId, Ticket, Request)>,
    pub(crate) alarm: Option<Time>,
    pub(crate) replies: BTreeMap<Caller, Reply>,
    pub(crate) library: BTreeMap<Digest, Arc<Program>>,
    /// Programs by their texts, for bundles.
    texts: BTreeMap<String, Arc<Program>>,
    pub(crate) options: EngineOptions,
    /// States the engine asked for.
    pub(crate) fetches: VecDeque<ExecutionId>,
    /// Messages that were not delivered yet.
    pub(crate) sent: VecDeque<(NodeId, Vec<u8>)>,
    /// What it told whoever listens.
    pub(crate) reports: Vec<Report>,
    /// How many slices of snapshots are stored and not yet spoken of.
    stored: usize,
    callers: u64,
}

pub(crate) fn options() -> EngineOptions {
    EngineOptions::new(NodeId(1))
}

impl Driver {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    pub(crate) fn with(options: EngineOptions) -> Self {
        let (engine, outputs) =
            Engine::recover(options.clone(), START, [], [], &mut |_| Err("none".to_owned()))
                .unwrap();
        let mut driver = Self {
            engine,
            now: START,
            journal: Vec::new(),
            snapshots: BTreeMap::new(),
            calls: VecDeque::new(),
            alarm: None,
            replies: BTreeMap::new(),
            library: BTreeMap::new(),
            texts: BTreeMap::new(),
            options,
            fetches: VecDeque::new(),
            sent: VecDeque::new(),
            reports: Vec::new(),
            stored: 0,
            callers: 0,
        };
        driver.carry_out(&outputs);
        driver
    }

    /// Stops the node and starts it again with what it stored.
    pub(crate) fn restart(&mut self) -> Vec<Output> {
        let (snapshots, journal) = (self.snapshots.values().cloned(), self.journal.clone());
        let (library, texts) = (&self.library, &self.texts);
        let mut compile = |definition: &Definition| compiled(library, texts, definition);
        let (engine, outputs) =
            Engine::recover(self.options.clone(), self.now, snapshots, journal, &mut compile)
                .unwrap();
        self.engine = engine;
        self.calls.clear();
        self.fetches.clear();
        self.sent.clear();
        self.stored = 0;
        self.alarm = None;
        self.carry_out(&outputs);
        outputs
    }

    pub(crate) fn step(&mut self, input: Input) -> Vec<Output> {
        let outputs = self.engine.step(self.now, input);
        self.engine.assert_invariants();
        self.carry_out(&outputs);
        for output in &outputs {
            if let Action::Compile(definition) = &output.action
                && let Ok(program) = compiled(&self.library, &self.texts, definition)
            {
                self.step(Input::Compiled { definition: definition.clone(), program });
            }
        }
        outputs
    }

    fn carry_out(&mut self, outputs: &[Output]) {
        let records =
            outputs.iter().filter(|output| matches!(output.action, Action::Persist { .. }));
        assert!(records.count() <= 1, "a step writes at most one record");
        for output in outputs {
            match output.action.clone() {
                Action::Persist { record, .. } => self.journal.push(record),
                Action::Call { execution, ticket, request, .. } => {
                    self.calls.push_back((execution, ticket, *request));
                }
                Action::SetAlarm(alarm) => self.alarm = alarm,
                Action::Reply { caller, reply } => {
                    assert!(self.replies.insert(caller, reply).is_none(), "one reply each");
                }
                Action::Snapshot { subject, bytes, .. } => {
                    self.snapshots.insert(subject.key(), bytes);
                }
                Action::Forget(subject) => drop(self.snapshots.remove(&subject.key())),
                Action::Compactable { .. } => self.stored += 1,
                Action::Fetch(execution) => self.fetches.push_back(execution),
                Action::Send { to, message } | Action::Mention { to, message } => {
                    self.sent.push_back((to, message));
                }
                Action::Report(report) => self.reports.push(report),
                _ => {}
            }
        }
    }

    /// Takes turns until there is no work left.
    pub(crate) fn work(&mut self) {
        loop {
            if self.stored > 0 {
                self.stored -= 1;
                self.step(Input::Stored);
            } else if let Some(execution) = self.fetches.pop_front() {
                let stored = self.snapshots.get(&Subject::Execution(execution).key()).cloned();
                let snapshot = stored.ok_or_else(|| "it is not there".to_owned());
                self.step(Input::Fetched { execution, snapshot });
            } else if self.engine.has_work() {
                self.step(Input::Turn);
            } else {
                return;
            }
        }
    }

    /// Asks, takes turns, and gives the reply.
    pub(crate) fn ask(&mut self, ask: Ask) -> Reply {
        let caller = self.send(ask);
        self.work();
        self.replies.get(&caller).cloned().expect("it was replied to")
    }

    /// Asks without waiting for the reply.
    pub(crate) fn send(&mut self, ask: Ask) -> Caller {
        self.callers += 1;
        let caller = Caller(self.callers);
        self.step(Input::Asked { caller, ask });
        caller
    }

    pub(crate) fn define(&mut self, program: &Arc<Program>) -> Reply {
        self.library.insert(program.digest, Arc::clone(program));
        self.ask(Ask::Define { program: Arc::clone(program), text: Arc::from("the text") })
    }

    /// The same with a text of its own: it can be part of a bundle.
    pub(crate) fn define_as(&mut self, program: &Arc<Program>, text: &str) -> Reply {
        self.library.insert(program.digest, Arc::clone(program));
        self.texts.insert(text.to_owned(), Arc::clone(program));
        self.ask(Ask::Define { program: Arc::clone(program), text: Arc::from(text) })
    }

    pub(crate) fn start(&mut self, program: &Program, id: ExecutionId) -> Reply {
        self.ask(start_of(program, id))
    }

    /// Answers the oldest open call with its service's name.
    pub(crate) fn answer_next(&mut self) -> String {
        let (execution, ticket, request) = self.calls.pop_front().expect("a call is open");
        let name = service_of(&request);
        let answer = Answer::Succeeded(text(&name));
        self.step(Input::Answered { execution, ticket, answer });
        self.work();
        name
    }

    /// Answers calls and rings alarms until nothing is left to do; gives the calls' names.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            self.work();
            if !self.calls.is_empty() {
                names.push(self.answer_next());
            } else if let Some(at) = self.alarm.take().filter(|at| at.since(START) < YEAR) {
                self.now = self.now.max(at);
                self.step(Input::AlarmRang);
            } else {
                return names;
            }
        }
    }

    pub(crate) fn show(&mut self, id: ExecutionId) -> Detail {
        match self.ask(Ask::Show(Which::Id(id))) {
            Reply::Shown(detail) => *detail,
            other => panic!("not shown: {other:?}"),
        }
    }

    pub(crate) fn list(&mut self, filter: Filter) -> Vec<Summary> {
        match self.ask(Ask::List(filter)) {
            Reply::Listed { executions, .. } => executions,
            other => panic!("not listed: {other:?}"),
        }
    }
}

/// The program of a definition, or of a bundle of them.
fn compiled(
    library: &BTreeMap<Digest, Arc<Program>>,
    texts: &BTreeMap<String, Arc<Program>>,
    definition: &Definition,
) -> Result<Arc<Program>, String> {
    let unknown = || "unknown".to_owned();
    match library.get(&definition.digest) {
        Some(program) => Ok(Arc::clone(program)),
        None => {
            bundle::compile(&definition.text, |text| texts.get(text).cloned().ok_or_else(unknown))
        }
    }
}

/// Longer than any wait of a test, shorter than any retention.
const YEAR: Duration = Duration::from_secs(20 * 24 * 60 * 60);

pub(crate) fn start_of(program: &Program, id: ExecutionId) -> Ask {
    Ask::Start(Box::new(StartAsk {
        id,
        given: true,
        name: None,
        namespace: program.namespace.clone(),
        workflow: program.name.clone(),
        version: WorkflowVersion::Exactly(program.version.clone()),
        input: Value::Null,
        salt: [7; 16],
        survival: None,
    }))
}

pub(crate) fn named_start(program: &Program, id: ExecutionId, name: &str, input: Value) -> Ask {
    let Ask::Start(start) = start_of(program, id) else { unreachable!() };
    Ask::Start(Box::new(StartAsk { name: Some(name.to_owned()), input, ..*start }))
}

pub(crate) fn service_of(request: &Request) -> String {
    match &request.target {
        Target::Catalog { name, .. } => name.clone(),
        Target::Http { uri, .. } => uri.clone(),
    }
}

/// Outputs as lines that can be read and compared.
pub(crate) fn transcript(outputs: &[Output]) -> String {
    let mut lines = String::new();
    for Output { after, action } in outputs {
        let after = after.map_or(String::new(), |position| format!("after {}: ", position.0));
        let line = match action {
            Action::Persist { position, .. } => format!("persist {}", position.0),
            Action::Call { request, .. } => format!("call {}", service_of(request)),
            Action::Abandon { .. } => "abandon".to_owned(),
            Action::Evaluate { request, .. } => format!("evaluate {}", request.source),
            Action::SetAlarm(None) => "no alarm".to_owned(),
            Action::SetAlarm(Some(at)) => format!("alarm in {:?}", at.since(START)),
            Action::Reply { caller, reply } => format!("reply to {}: {}", caller.0, said(reply)),
            Action::Snapshot { subject, .. } => format!("snapshot of {subject:?}"),
            Action::Compactable { replay_from } => format!("replay from {}", replay_from.0),
            Action::Send { to, .. } | Action::Mention { to, .. } => format!("send to {to:?}"),
            Action::Meet { node, .. } => format!("meet {node:?}"),
            Action::ShutOut(node) => format!("shut {node:?} out"),
            Action::Compile(definition) => format!("compile {}", definition.name),
            Action::Fetch(execution) => format!("fetch {execution}"),
            Action::Forget(subject) => format!("forget {subject:?}"),
            Action::Report(report) => format!("report {}", word_of(&format!("{report:?}"))),
        };
        writeln!(lines, "{after}{line}").unwrap();
    }
    lines
}

fn said(reply: &Reply) -> String {
    match reply {
        Reply::Started { new, .. } => format!("started, new: {new}"),
        Reply::Shown(detail) => detail.summary.condition.word().to_owned(),
        Reply::Refused(refusal) => format!("refused: {refusal}"),
        other => word_of(&format!("{other:?}")),
    }
}

fn word_of(text: &str) -> String {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
