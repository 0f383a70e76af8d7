//! The world: a clock, nodes, services and a client, and one occurrence after the other.

use std::fmt::Write as _;
use std::time::Duration;

use outlast_engine::{Action, EngineOptions, Input, Position};
use outlast_expressions::{Filter, Value};
use outlast_lineage::{ExecutionId, NodeId, Time};
use outlast_workflow::{Answer, EvaluationRequest, Request, Ticket};

use crate::agenda::Agenda;
use crate::{Client, CrashPoint, Node, Plan, Random, Services};

/// What a world is like.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Where its random numbers come from.
    pub seed: u64,
    /// When its node crashes.
    pub crashes: Vec<CrashPoint>,
    /// How many records in a thousand are followed by a crash besides.
    pub crash_per_mille: u64,
    /// How many answers in a thousand are lost on their way.
    pub lost_per_mille: u64,
    /// Whether services act once for each key.
    pub deduplicating: bool,
    /// After how many records the node writes snapshots; zero is never.
    pub snapshot_every: u64,
    /// How many executions the node holds awake.
    pub awake_max: usize,
    /// How long the world may take at most.
    pub patience: Duration,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            crashes: Vec::new(),
            crash_per_mille: 0,
            lost_per_mille: 0,
            deduplicating: true,
            snapshot_every: 0,
            awake_max: 2,
            patience: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// What can occur. Whatever is meant for an earlier life of a node is lost.
#[derive(Debug)]
enum Occurrence {
    /// The node comes up.
    Start,
    /// A sync of the disk has ended.
    Synced { life: u64, up_to: Position },
    /// The node takes a turn.
    Turn { life: u64 },
    /// A call reaches its service. It does so whether its caller lives or not.
    Reached { life: u64, execution: ExecutionId, ticket: Ticket, request: Box<Request> },
    /// An answer reaches the node.
    Answered { life: u64, execution: ExecutionId, ticket: Ticket, answer: Answer },
    /// A worker has evaluated an expression.
    Evaluated { life: u64, execution: ExecutionId, ticket: Ticket, result: Result<Value, String> },
    /// The alarm rings.
    Rang { life: u64, at: Time },
}

/// A world with one node.
#[derive(Debug)]
pub struct World {
    options: WorldOptions,
    random: Random,
    now: Time,
    began: Time,
    agenda: Agenda<Occurrence>,
    /// The node.
    pub node: Node,
    /// The services and their ledger.
    pub services: Services,
    /// The client and what it was told.
    pub client: Client,
    plan: Plan,
    alarm: Option<Time>,
    syncing: bool,
    turning: bool,
    saved: u64,
    /// What occurred, a line each.
    pub trace: String,
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(options: WorldOptions, plan: Plan) -> Self {
        let engine =
            EngineOptions { awake_max: options.awake_max, ..EngineOptions::new(NodeId(1)) };
        let began = Time::from_millis(1_000_000);
        let mut agenda = Agenda::new();
        agenda.note(began, Occurrence::Start);
        Self {
            random: Random::new(options.seed),
            now: began,
            began,
            agenda,
            node: Node::new(engine, options.crashes.clone()),
            services: Services::new(options.deduplicating),
            client: Client::new(plan.clone()),
            plan,
            alarm: None,
            syncing: false,
            turning: false,
            saved: 0,
            trace: String::new(),
            options,
        }
    }

    /// Runs until the client is content, nothing more occurs, or patience is at an end.
    pub fn run(&mut self) {
        while !self.client.is_content() {
            let Some((at, occurrence)) = self.agenda.next() else { return };
            if at.since(self.began) > self.options.patience {
                return;
            }
            self.now = self.now.max(at);
            self.occur(occurrence);
        }
    }

    fn occur(&mut self, occurrence: Occurrence) {
        self.note(&occurrence);
        let life = self.node.life;
        match occurrence {
            Occurrence::Start => self.start(),
            Occurrence::Synced { life: of, up_to } if of == life => {
                self.syncing = false;
                let up = self.node.synced(up_to);
                self.go_on(up);
            }
            Occurrence::Turn { life: of } if of == life => {
                self.turning = false;
                self.tell(Input::Turn);
            }
            Occurrence::Reached { life: of, execution, ticket, request } => {
                let answer = self.services.visit(self.now, execution, &request);
                if !self.random.happens(self.options.lost_per_mille) {
                    let at = self.soon(100, 20_000);
                    let answered = Occurrence::Answered { life: of, execution, ticket, answer };
                    self.agenda.note(at, answered);
                } else {
                    let at = self.soon(1_000_000, 2_000_000);
                    let answer = Answer::Unknown(lost());
                    let answered = Occurrence::Answered { life: of, execution, ticket, answer };
                    self.agenda.note(at, answered);
                }
            }
            Occurrence::Answered { life: of, execution, ticket, answer } if of == life => {
                self.tell(Input::Answered { execution, ticket, answer });
            }
            Occurrence::Evaluated { life: of, execution, ticket, result } if of == life => {
                self.tell(Input::Evaluated { execution, ticket, result });
            }
            Occurrence::Rang { life: of, at } if of == life && self.alarm == Some(at) => {
                self.alarm = None;
                self.tell(Input::AlarmRang);
            }
            _ => {}
        }
    }

    fn note(&mut self, occurrence: &Occurrence) {
        let up = if self.node.is_up() { "" } else { " (down)" };
        writeln!(self.trace, "{:?} life {}{up} {occurrence:?}", self.now, self.node.life)
            .expect("writing to memory does not fail");
    }

    fn soon(&mut self, low: u64, high: u64) -> Time {
        self.now.after(Duration::from_micros(self.random.between(low, high)))
    }

    fn start(&mut self) {
        let definitions = &self.plan.definitions;
        let mut compile = |definition: &outlast_engine::Definition| {
            definitions
                .iter()
                .find(|(program, _)| program.digest == definition.digest)
                .map(|(program, _)| std::sync::Arc::clone(program))
                .ok_or_else(|| "not a definition of this world".to_owned())
        };
        let up = self.node.start(self.now, &mut compile).expect("a crash leaves a sound disk");
        self.go_on(up);
    }

    fn tell(&mut self, input: Input) {
        let up = self.node.step(self.now, input);
        self.go_on(up);
    }

    /// What follows every step of the node, until nothing more follows.
    fn go_on(&mut self, mut up: bool) {
        loop {
            if up {
                up = self.carry_out();
            }
            if !up {
                return self.went_down();
            }
            let asks = self.client.asks();
            if asks.is_empty() {
                break;
            }
            for (caller, ask) in asks {
                up = up && self.node.step(self.now, Input::Asked { caller, ask });
            }
        }
        if self.options.snapshot_every > 0
            && self.node.records >= self.saved + self.options.snapshot_every
        {
            self.saved = self.node.records;
            let max = usize::try_from(self.random.between(1, 4)).unwrap_or(1);
            self.node.step(self.now, Input::SnapshotWanted { max });
        }
        self.keep_going();
    }

    /// Has the disk synced and the node take turns.
    fn keep_going(&mut self) {
        let life = self.node.life;
        if let Some(up_to) = self.node.disk.unsynced().filter(|_| !self.syncing) {
            self.syncing = true;
            let at = self.soon(100, 2_000);
            self.agenda.note(at, Occurrence::Synced { life, up_to });
        }
        if self.node.has_work() && !self.turning {
            self.turning = true;
            let at = self.soon(0, 300);
            self.agenda.note(at, Occurrence::Turn { life });
        }
    }

    /// Does what may leave; says whether the node is still up.
    fn carry_out(&mut self) -> bool {
        let actions = self.node.released();
        let left = !actions.is_empty();
        for action in actions {
            self.act(action);
        }
        if left && !self.node.outlives_its_outputs() {
            return false;
        }
        if left && self.random.happens(self.options.crash_per_mille) {
            let survive = usize::try_from(self.random.between(0, 3)).unwrap_or(0);
            let torn = self.random.happens(500);
            self.node.crash(survive, torn);
            return false;
        }
        true
    }

    fn went_down(&mut self) {
        self.client.hangs_up();
        self.alarm = None;
        self.syncing = false;
        self.turning = false;
        let at = self.soon(1_000, 3_000_000);
        self.agenda.note(at, Occurrence::Start);
    }

    fn act(&mut self, action: Action) {
        let life = self.node.life;
        match action {
            Action::Call { execution, ticket, request } => {
                let at = self.soon(100, 20_000);
                let reached = Occurrence::Reached { life, execution, ticket, request };
                self.agenda.note(at, reached);
            }
            Action::Evaluate { execution, ticket, request } => {
                let (at, result) = (self.soon(100, 5_000), evaluate(&request));
                let evaluated = Occurrence::Evaluated { life, execution, ticket, result };
                self.agenda.note(at, evaluated);
            }
            Action::SetAlarm(alarm) => {
                self.alarm = alarm;
                if let Some(at) = alarm {
                    self.agenda.note(at, Occurrence::Rang { life, at });
                }
            }
            Action::Reply { caller, reply } => {
                writeln!(self.trace, "    {caller:?} is told {reply:?}")
                    .expect("writing to memory does not fail");
                self.client.takes(caller, reply);
            }
            Action::Snapshot { subject, bytes, .. } => {
                self.node.disk.change_snapshot(subject.key(), Some(bytes));
            }
            Action::Forget(subject) => self.node.disk.change_snapshot(subject.key(), None),
            Action::Compactable { replay_from } => self.node.disk.compact(replay_from),
            Action::Persist { .. } => unreachable!("records are written, not released"),
            Action::Abandon { .. } | Action::Report(_) | Action::Send { .. } => {}
        }
    }
}

fn lost() -> outlast_workflow::Fault {
    let kind = outlast_workflow::FaultKind::Communication;
    outlast_workflow::Fault::new(kind, "No answer", "the answer was lost on its way")
}

fn evaluate(request: &EvaluationRequest) -> Result<Value, String> {
    let names: Vec<_> = request.bindings.iter().map(|(name, _)| name.as_str()).collect();
    let filter = Filter::compile(&request.source, &names).map_err(|error| error.to_string())?;
    let binding = |name: &str| {
        let bound = request.bindings.iter().find(|(of, _)| of == name);
        bound.map_or(Value::Null, |(_, value)| value.clone())
    };
    filter.evaluate(&request.input, &binding).map_err(|error| error.to_string())
}
