//! A few nodes that hold executions together, with a network that is cut by hand and time that goes
//! on by hand: for step tests of what several engines do.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod kind;
pub(crate) mod people;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Ask, EngineOptions, Input, StartAsk, Strategy, Survival, WorkflowVersion};
use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::program::{
    Class, Compensation, Expression, Idempotency, Kind, Place, Service, Task, Template, Traits,
    Undo,
};
use outlast_workflow::{Answer, Program, Request, TaskId, Ticket};

use crate::driver::{Driver, raw_program, service_of, task, text};

/// More turns than anything takes that comes to an end.
const TURNS_MAX: usize = 10_000;

/// Nodes 1, 2, … of one cluster.
pub(crate) struct Cluster {
    nodes: Vec<Driver>,
    /// Links that are cut, lower node first.
    pub(crate) cut: BTreeSet<(u64, u64)>,
    /// What was delivered: from, to, and the kind of word or envelope.
    pub(crate) delivered: Vec<(u64, u64, u8)>,
    down: BTreeSet<u64>,
    /// A node that dies when it has done so many more things.
    pub(crate) dies_after: Option<(u64, usize)>,
    /// Nodes whose words or envelopes of a kind are lost.
    pub(crate) mute: Vec<(u64, u8)>,
    /// What has a word of these kinds arrives twice.
    pub(crate) doubled: Vec<u8>,
    /// What else arrives before each message, made of it.
    pub(crate) noise: Option<Noise>,
}

/// Makes nonsense of a message.
pub(crate) type Noise = Box<dyn FnMut(&[u8]) -> Vec<u8>>;

impl Cluster {
    /// Nodes that know each other and a program.
    pub(crate) fn new(count: u64, program: &Arc<Program>) -> Self {
        Self::with(count, program, EngineOptions::new)
    }

    /// The same, with options of their own.
    pub(crate) fn with(
        count: u64,
        program: &Arc<Program>,
        options: fn(NodeId) -> EngineOptions,
    ) -> Self {
        let nodes = (1..=count).map(|id| Driver::with(options(NodeId(id))));
        let mut cluster = Self {
            nodes: nodes.collect(),
            cut: BTreeSet::new(),
            delivered: Vec::new(),
            down: BTreeSet::new(),
            dies_after: None,
            mute: Vec::new(),
            doubled: Vec::new(),
            noise: None,
        };
        let all: BTreeSet<NodeId> = (1..=count).map(NodeId).collect();
        for node in &mut cluster.nodes {
            node.define(program);
            let others = all.iter().copied().filter(|other| *other != node.options.node);
            node.step(Input::PeersKnown(others.collect()));
        }
        cluster.run(Duration::from_millis(100));
        cluster
    }

    pub(crate) fn node(&mut self, id: u64) -> &mut Driver {
        &mut self.nodes[usize::try_from(id).unwrap() - 1]
    }

    /// Starts an execution that all nodes hold, at the highest.
    pub(crate) fn start(&mut self, program: &Program, id: ExecutionId, survival: Survival) {
        let highest = self.nodes.len() as u64;
        self.node(highest).send(start_of(program, id, survival));
    }

    /// The same, and says what was answered.
    pub(crate) fn ask_start(
        &mut self,
        program: &Program,
        id: ExecutionId,
        survival: Survival,
    ) -> outlast_engine::Reply {
        let highest = self.nodes.len() as u64;
        self.node(highest).ask(start_of(program, id, survival))
    }

    /// What starts an execution of a certain id with an input on all nodes.
    pub(crate) fn start_with(&self, program: &Program, id: ExecutionId, input: &str) -> Ask {
        let survival = Survival::new(Strategy::PartitionTolerant, self.nodes.len());
        let Ask::Start(start) = start_of(program, id, survival) else { unreachable!() };
        Ask::Start(Box::new(StartAsk { input: text(input), given: true, ..*start }))
    }

    /// Cuts a node off from all others, or some of them.
    pub(crate) fn cut(&mut self, node: u64, others: &[u64]) {
        self.cut.extend(others.iter().map(|other| (node.min(*other), node.max(*other))));
    }

    /// Every link works again.
    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    /// A node stops, and says nothing until it comes back.
    pub(crate) fn kill(&mut self, node: u64) {
        self.down.insert(node);
        self.node(node).sent.clear();
        self.node(node).calls.clear();
    }

    /// A node that was killed comes back with what it had written down.
    pub(crate) fn revive(&mut self, node: u64) {
        let now = self.nodes.iter().map(|node| node.now).max().unwrap();
        self.down.remove(&node);
        let all: BTreeSet<NodeId> = (1..=self.nodes.len() as u64).map(NodeId).collect();
        let driver = self.node(node);
        driver.now = now;
        driver.restart();
        let others = all.into_iter().filter(|other| other.0 != node).collect();
        driver.step(Input::PeersKnown(others));
    }

    /// Has every node do what it can do now. A node that is never done is a finding.
    fn work(&mut self) {
        let mut died = None;
        for node in self.nodes.iter_mut().filter(|it| !self.down.contains(&it.options.node.0)) {
            let id = node.options.node.0;
            for turn in 0.. {
                assert!(turn < TURNS_MAX, "{:?} is never done", node.options.node);
                if !node.engine.has_work() || died == Some(id) {
                    break;
                }
                node.step(Input::Turn);
                if let Some((_, left)) = self.dies_after.as_mut().filter(|(dies, _)| *dies == id) {
                    *left -= 1;
                    died = (*left == 0).then_some(id);
                }
            }
            // A disk that takes nothing for long is one that stands still.
            let position = node.engine.position();
            node.step(Input::Durable(position));
        }
        if let Some(node) = died {
            self.dies_after = None;
            self.kill(node);
        }
    }

    /// Whether a node is down.
    pub(crate) fn is_down(&self, node: u64) -> bool {
        self.down.contains(&node)
    }

    /// Delivers what was sent, and what follows from it, at this very time.
    pub(crate) fn pass(&mut self) {
        for _ in 0..TURNS_MAX {
            self.work();
            let next = self.nodes.iter_mut().find_map(|node| {
                let (to, message) = node.sent.pop_front()?;
                Some((node.options.node.0, to.0, message))
            });
            let Some((from, to, message)) = next else { return };
            let lost = self.cut.contains(&(from.min(to), from.max(to)));
            let heard = kind::without(&message, |kind| self.mute.contains(&(from, kind)));
            let Some(message) = heard.filter(|_| !lost && !self.down.contains(&to)) else {
                continue;
            };
            if let Some(message) = self.noise.as_mut().map(|noise| noise(&message)) {
                self.node(to).step(Input::Received { from: NodeId(from), message });
            }
            let kinds = kind::kinds_of(&message);
            self.delivered.extend(kinds.iter().map(|kind| (from, to, *kind)));
            if kinds.iter().any(|kind| self.doubled.contains(kind)) {
                let message = message.clone();
                self.node(to).step(Input::Received { from: NodeId(from), message });
            }
            self.node(to).step(Input::Received { from: NodeId(from), message });
        }
        panic!("the nodes never stop talking");
    }

    /// Hands a node what another one has sent it, and leaves it no time to do what follows from that.
    pub(crate) fn hand_over(&mut self, from: u64, to: u64) {
        self.work();
        let sent = std::mem::take(&mut self.node(from).sent);
        let (handed, rest) = sent.into_iter().partition(|(receiver, _)| receiver.0 == to);
        self.node(from).sent = rest;
        let handed: VecDeque<_> = handed;
        for (_, message) in handed {
            self.node(to).step(Input::Received { from: NodeId(from), message });
        }
    }

    /// A node is lost for good, and all others are told so.
    pub(crate) fn lose(&mut self, node: u64) {
        self.kill(node);
        let left = (1..=self.nodes.len() as u64).filter(|it| !self.down.contains(it)).map(NodeId);
        let left: BTreeSet<NodeId> = left.collect();
        for id in &left {
            self.node(id.0).step(Input::PeersKnown(left.clone()));
        }
    }

    /// Lets time go on; calls are left unanswered.
    pub(crate) fn run(&mut self, duration: Duration) {
        let until = self.nodes.iter().map(|node| node.now).max().unwrap().after(duration);
        loop {
            self.pass();
            let up = self.nodes.iter().filter(|node| !self.down.contains(&node.options.node.0));
            let next = up.filter_map(|node| node.alarm).min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            for node in &mut self.nodes {
                node.now = node.now.max(at);
                if !self.down.contains(&node.options.node.0)
                    && node.alarm.is_some_and(|it| it <= at)
                {
                    // It rings once: nothing more is said of it if nothing else is due.
                    node.alarm = None;
                    node.step(Input::AlarmRang);
                }
            }
        }
        for node in &mut self.nodes {
            node.now = until;
        }
    }

    /// Lets the others hear of steps that were a moment ago.
    pub(crate) fn run_past_linger(&mut self) {
        let linger = self.nodes[0].options.times.linger;
        self.run(2 * linger);
    }

    /// Lets time go on, and every call is answered at once. Gives who called what, in order.
    pub(crate) fn run_answering(&mut self, duration: Duration) -> Vec<(u64, String)> {
        let mut names = Vec::new();
        let until = self.nodes[0].now.after(duration);
        while self.nodes[0].now < until {
            self.pass();
            let calling = self.nodes.iter_mut().find_map(|node| {
                let call = node.calls.pop_front()?;
                Some((node.options.node.0, call))
            });
            match calling {
                Some((node, call)) => names.push((node, self.answer(node, call))),
                None => self.run(Duration::from_millis(50)),
            }
        }
        names
    }

    /// Answers a call that was taken from its node.
    pub(crate) fn answer(&mut self, node: u64, call: (ExecutionId, Ticket, Request)) -> String {
        let (execution, ticket, request) = call;
        let name = service_of(&request);
        let answer = Answer::Succeeded(text(&name));
        self.node(node).step(Input::Answered { execution, ticket, answer });
        name
    }

    /// Takes the oldest call that a node has open.
    pub(crate) fn call_of(&mut self, node: u64) -> (ExecutionId, Ticket, Request) {
        self.node(node).calls.pop_front().expect("a call is open")
    }

    /// The names of the calls that a node has open.
    pub(crate) fn open(&mut self, node: u64) -> Vec<String> {
        self.node(node).calls.iter().map(|(_, _, request)| service_of(request)).collect()
    }

    /// How many words or envelopes of a kind were delivered.
    pub(crate) fn count(&self, kind: u8) -> usize {
        self.delivered.iter().filter(|(_, _, it)| *it == kind).count()
    }
}

fn start_of(program: &Program, id: ExecutionId, survival: Survival) -> Ask {
    Ask::Start(Box::new(StartAsk {
        id,
        given: false,
        name: None,
        namespace: program.namespace.clone(),
        workflow: program.name.clone(),
        version: WorkflowVersion::Exactly(program.version.clone()),
        input: Value::Null,
        salt: [7; 16],
        survival: Some(survival),
    }))
}

/// A program of calls one after the other, each with what it says of itself.
pub(crate) fn program_of(name: &str, calls: &[(&str, Provider)]) -> Arc<Program> {
    let mut tasks = vec![task("do", Kind::Sequence(Vec::new()))];
    let mut order = Vec::new();
    for (name, provider) in calls {
        let undo = TaskId(u32::try_from(tasks.len()).unwrap());
        tasks.push(call(&format!("undo {name}")));
        order.push(TaskId(undo.0 + 1));
        tasks.push(Task { traits: provider.traits(undo), ..call(name) });
    }
    tasks[0].kind = Kind::Sequence(order);
    raw_program("test", name, "1.0.0", tasks)
}

fn call(name: &str) -> Task {
    let service = Service::Catalog { name: name.to_owned(), version: "1.0.0".to_owned() };
    task(name, Kind::Call { service, arguments: None })
}

/// How a provider behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Provider {
    /// It acts once for each key, and can undo.
    Keyed,
    /// It acts whenever it is asked, and can undo what it gave a result for.
    Keyless,
    /// It acts whenever it is asked, and cannot undo.
    Pivot,
}

impl Provider {
    pub(crate) fn traits(self, undo: TaskId) -> Traits {
        let filter = outlast_expressions::Filter::compile(".", &[]).unwrap();
        let capture = Expression { filter, place: Place::default() };
        let compensation = Compensation {
            undo: Undo::Run(undo),
            capture: Some(Template::Computed(capture)),
            cost: None,
            retry: None,
            timeout: None,
            tolerant: false,
        };
        let none = Idempotency { key: None, header: None, none: true };
        match self {
            Self::Keyed => Traits {
                class: Some(Class::Compensatable),
                compensation: Some(compensation),
                ..Traits::default()
            },
            Self::Keyless => Traits {
                class: Some(Class::Compensatable),
                compensation: Some(compensation),
                idempotency: Some(none),
                ..Traits::default()
            },
            Self::Pivot => Traits { class: Some(Class::Pivot), ..Traits::default() },
        }
    }
}
