//! What a workflow of ten calls costs an engine alone, and each of three that hold it together:
//! records, bytes and messages, without clock, disk and network.
//!
//! `cargo run --release -p outlast-engine --example expense`
//!
//! For instructions, build it with `CARGO_PROFILE_RELEASE_STRIP=none` in the environment, and run it under
//! `valgrind --tool=callgrind --toggle-collect=expense::step_of_primary` (or `step_of_backup`, `step_alone`): what is
//! counted is the same on every machine.

#[path = "../tests/driver/mod.rs"]
mod driver;

use std::collections::{BTreeSet, VecDeque};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{
    Action, Ask, Caller, Engine, EngineOptions, Input, Output, Reply, StartAsk, Strategy, Survival,
    Which, WorkflowVersion,
};
use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, NodeId, Time};
use outlast_workflow::{Answer, Program};

/// The one that the program uses, so that what is counted is what it costs there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many workflows are run, and how many at once.
const WORKFLOWS: u64 = 300;
const CONCURRENCY: u64 = 64;

/// How long everything that is open takes together: as long as steps take under load.
const ROUND: Duration = Duration::from_micros(850);

struct Node {
    engine: Engine,
    id: NodeId,
    step: fn(&mut Engine, Time, Input, &mut Vec<Output>),
    alarm: Option<Time>,
    answers: VecDeque<Input>,
    sent: VecDeque<(NodeId, Vec<u8>)>,
    replies: VecDeque<(Caller, Reply)>,
    outputs: Vec<Output>,
    stored: usize,
    records: usize,
    bytes: usize,
    messages: usize,
}

// Three functions that do the same, to be told apart by whoever counts.

#[inline(never)]
fn step_alone(engine: &mut Engine, now: Time, input: Input, outputs: &mut Vec<Output>) {
    black_box("alone");
    engine.step_into(now, input, outputs);
}

#[inline(never)]
fn step_of_primary(engine: &mut Engine, now: Time, input: Input, outputs: &mut Vec<Output>) {
    black_box("primary");
    engine.step_into(now, input, outputs);
}

#[inline(never)]
fn step_of_backup(engine: &mut Engine, now: Time, input: Input, outputs: &mut Vec<Output>) {
    black_box("backup");
    engine.step_into(now, input, outputs);
}

impl Node {
    fn new(id: u64, nodes: u64) -> Self {
        let options = EngineOptions::new(NodeId(id));
        let mut compile = |_: &_| Err("nothing to compile".to_owned());
        let recovered = Engine::recover(options, driver::START, [], [], &mut compile);
        Self {
            engine: recovered.expect("there is nothing to recover").0,
            id: NodeId(id),
            step: match id {
                _ if nodes == 1 => step_alone,
                _ if id == nodes => step_of_primary,
                _ => step_of_backup,
            },
            alarm: None,
            answers: VecDeque::new(),
            sent: VecDeque::new(),
            replies: VecDeque::new(),
            outputs: Vec::new(),
            stored: 0,
            records: 0,
            bytes: 0,
            messages: 0,
        }
    }

    fn take(&mut self, now: Time, input: Input) {
        let mut outputs = std::mem::take(&mut self.outputs);
        (self.step)(&mut self.engine, now, input, &mut outputs);
        outputs.drain(..).for_each(|output| self.carry_out(output.action));
        self.outputs = outputs;
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Persist { record, .. } => {
                self.records += 1;
                self.bytes += record.len();
            }
            Action::Call { execution, ticket, .. } => {
                let answer = Answer::Succeeded(Value::Null);
                self.answers.push_back(Input::Answered { execution, ticket, answer });
            }
            Action::SetAlarm(alarm) => self.alarm = alarm,
            Action::Reply { caller, reply } => self.replies.push_back((caller, reply)),
            Action::Send { to, message } | Action::Mention { to, message } => {
                self.messages += 1;
                self.sent.push_back((to, message));
            }
            Action::Compactable { .. } => self.stored += 1,
            _ => {}
        }
    }

    /// Does all there is to do; then everything is durable.
    fn work(&mut self, now: Time) {
        while self.engine.has_work() {
            self.take(now, Input::Turn);
        }
        for _ in 0..std::mem::take(&mut self.stored) {
            self.take(now, Input::Stored);
        }
        let position = self.engine.position();
        self.take(now, Input::Durable(position));
    }
}

/// Nodes that know each other and the program; the last one leads what all hold.
struct Cluster {
    nodes: Vec<Node>,
    program: Arc<Program>,
    now: Time,
    done: u64,
}

impl Cluster {
    fn new(count: u64) -> Self {
        let calls = (0..10).map(|step| driver::call(&format!("step {step}"))).collect();
        let program = driver::program("ten", "1.0.0", calls);
        let mut nodes: Vec<Node> = (1..=count).map(|id| Node::new(id, count)).collect();
        let all: BTreeSet<NodeId> = (1..=count).map(NodeId).collect();
        for node in &mut nodes {
            let ask = Ask::Define { program: Arc::clone(&program), text: Arc::from("the text") };
            node.take(driver::START, Input::Asked { caller: Caller(0), ask });
            let others: BTreeSet<NodeId> =
                all.iter().copied().filter(|id| *id != node.id).collect();
            if !others.is_empty() {
                node.take(driver::START, Input::PeersKnown(others));
            }
            node.work(driver::START);
            node.replies.clear();
        }
        Self { nodes, program, now: driver::START, done: 0 }
    }

    /// The last node is asked, and so it leads.
    fn start(&mut self, number: u64) {
        let count = self.nodes.len();
        let survival = (1 < count).then(|| Survival::new(Strategy::PartitionTolerant, count));
        let ask = Ask::Start(Box::new(StartAsk {
            id: id_of(number),
            given: false,
            name: None,
            namespace: self.program.namespace.clone(),
            workflow: self.program.name.clone(),
            version: WorkflowVersion::Exactly(self.program.version.clone()),
            input: Value::Null,
            salt: [7; 16],
            survival,
        }));
        self.nodes[count - 1].take(self.now, Input::Asked { caller: Caller(2 * number), ask });
    }

    /// Everybody does what it can do, and what it sends arrives.
    fn round(&mut self) {
        for index in 0..self.nodes.len() {
            let now = self.now;
            let node = &mut self.nodes[index];
            node.work(now);
            for answer in std::mem::take(&mut node.answers) {
                node.take(now, answer);
            }
            node.work(now);
            let from = node.id;
            for (to, message) in std::mem::take(&mut node.sent) {
                let receiver = self.nodes.iter_mut().find(|node| node.id == to);
                receiver.expect("everybody is here").take(now, Input::Received { from, message });
            }
            self.nodes[index].work(now);
            self.hear(index);
        }
        self.now = self.now.after(ROUND);
        for node in &mut self.nodes {
            if node.alarm.is_some_and(|at| at <= self.now) {
                node.take(self.now, Input::AlarmRang);
            }
        }
    }

    /// Whoever has started something waits for its end.
    fn hear(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        while let Some((caller, reply)) = node.replies.pop_front() {
            match reply {
                Reply::Started { execution, .. } => {
                    let (caller, ask) = (Caller(caller.0 + 1), Ask::Wait(Which::Id(execution)));
                    node.take(self.now, Input::Asked { caller, ask });
                }
                Reply::Shown(_) => self.done += 1,
                other => panic!("nobody asked for this: {other:?}"),
            }
        }
    }
}

fn id_of(number: u64) -> ExecutionId {
    let mut bytes = [1; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    ExecutionId::from_bytes(bytes)
}

/// Runs all workflows, and says what each node had to do for one.
fn run(nodes: u64) {
    let mut cluster = Cluster::new(nodes);
    let mut begun = 0;
    while cluster.done < WORKFLOWS {
        while begun < WORKFLOWS && begun - cluster.done < CONCURRENCY {
            begun += 1;
            cluster.start(begun);
        }
        cluster.round();
    }
    #[allow(clippy::cast_precision_loss, reason = "they are means of small numbers")]
    let each = |number: usize| number as f64 / WORKFLOWS as f64;
    #[allow(clippy::print_stdout, reason = "that is what it is for")]
    for Node { id, records, bytes, messages, .. } in &cluster.nodes {
        println!(
            "node {} of {nodes}: {:.1} records, {:.0} bytes, {:.1} messages",
            id.0,
            each(*records),
            each(*bytes),
            each(*messages)
        );
    }
}

fn main() {
    run(1);
    run(3);
}
