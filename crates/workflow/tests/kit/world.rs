//! A world that answers an execution: services with a ledger, timers, children, workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outlast_expressions::{Filter, Value, value};
use outlast_lineage::{BranchId, EffectId, Epoch, ExecutionId, NodeId, Time};
use outlast_workflow::{
    Advance, Answer, Author, Command, Delta, EffectNote, Event, Execution, Fault, FaultKind,
    Happening, Outcome, Program, Request, Resolution, Start, Target, Ticket,
};

/// Random numbers from a seed.
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }

    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// What a service did, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Deed {
    pub name: String,
    pub key: String,
    pub arguments: String,
    /// Where it was asked for, if that is among the arguments.
    pub place: String,
}

/// One run under way.
#[derive(Clone)]
pub struct World {
    pub program: Arc<Program>,
    pub execution: Execution,
    /// Advanced by deltas only.
    pub copy: Execution,
    /// Every delta since the beginning, if somebody wants them.
    pub told: Option<Vec<Delta>>,
    pub dice: Dice,
    pub now: Time,
    pub open: BTreeMap<Ticket, Command>,
    pub deeds: Vec<Deed>,
    pub happenings: Vec<Happening>,
    pub children: BTreeMap<ExecutionId, &'static str>,
    pub ended: Option<Outcome>,
    pub yields: usize,
    /// How often, in percent, a call is refused, which tells that it did not happen; finds its
    /// service in trouble, which tells nothing about an earlier time it was asked; or is lost on
    /// the way back.
    pub refusing: usize,
    pub failing: usize,
    pub losing: usize,
    /// Names whose service is always in trouble.
    pub broken: BTreeSet<String>,
    /// Whether services know no keys and act each time.
    pub forgetful: bool,
    pub effects: Vec<EffectNote>,
    /// The effects of the calls that services carried out, and who did.
    pub acted: BTreeMap<EffectId, String>,
    pub author: Author,
    answered: BTreeMap<String, Value>,
}

pub const AUTHOR: Author = Author::new(NodeId(1), Epoch(1));

impl World {
    pub fn start(program: &Arc<Program>, input: Value, seed: u64) -> Self {
        Self::begin(program, input, seed, (false, None))
    }

    /// The same for a run that can be rolled back after it completed.
    pub fn start_kept(program: &Arc<Program>, input: Value, seed: u64) -> Self {
        Self::begin(program, input, seed, (true, None))
    }

    /// The same for a run that several nodes hold.
    pub fn start_shared(program: &Arc<Program>, input: Value, seed: u64) -> Self {
        Self::begin(program, input, seed, (true, Some(0)))
    }

    /// The same for one before which so many started each other.
    pub fn start_deep(program: &Arc<Program>, depth: u32) -> Self {
        Self::begin(program, value::object([]), 1, (true, Some(depth)))
    }

    fn begin(
        program: &Arc<Program>,
        input: Value,
        seed: u64,
        (keep_plan, shared): (bool, Option<u32>),
    ) -> Self {
        let id = ExecutionId::from_bytes([7; 16]);
        let (shared, depth) = (shared.is_some(), shared.unwrap_or(0));
        let start = Start { id, input, salt: [9; 16], keep_plan, shared, depth };
        let now = Time::from_millis(1_000_000);
        let mut execution = Execution::unstarted(program, start, now);
        let mut copy = execution.clone();
        let advance = execution.begin(program, AUTHOR, now);
        copy.apply(advance.delta.clone());
        assert_eq!(copy, execution, "the beginning is in its delta");
        let mut world = Self {
            program: program.clone(),
            execution,
            copy,
            told: None,
            dice: Dice(seed),
            now,
            open: BTreeMap::new(),
            deeds: Vec::new(),
            happenings: Vec::new(),
            children: BTreeMap::new(),
            ended: None,
            yields: 0,
            refusing: 0,
            failing: 0,
            losing: 0,
            broken: BTreeSet::new(),
            forgetful: false,
            effects: Vec::new(),
            acted: BTreeMap::new(),
            author: AUTHOR,
            answered: BTreeMap::new(),
        };
        world.take(advance);
        world
    }

    /// Lets one event happen to the execution, and applies its delta to the copy.
    pub fn happen(&mut self, event: Event) -> Advance {
        let advance = self.execution.advance(&self.program, event, self.author, self.now);
        let bytes = minicbor::to_vec(&advance.delta).expect("a delta can be written");
        let delta: Delta = minicbor::decode(&bytes).expect("a written delta can be read");
        if let Some(told) = &mut self.told {
            told.push(delta.clone());
        }
        self.copy.apply(delta);
        assert_eq!(self.copy, self.execution, "applying the deltas is advancing");
        self.take(advance.clone());
        advance
    }

    fn take(&mut self, advance: Advance) {
        self.happenings.extend(advance.happenings);
        self.effects.extend(advance.effects);
        for command in advance.commands {
            match command {
                Command::Call { ticket, .. }
                | Command::Evaluate { ticket, .. }
                | Command::SetTimer { ticket, .. }
                | Command::Publish { ticket, .. }
                | Command::Subscribe { ticket, .. }
                | Command::StartChild { ticket, .. }
                | Command::CompensateChild { ticket, .. } => {
                    self.open.insert(ticket, command);
                }
                Command::Abandon(ticket)
                | Command::CancelTimer(ticket)
                | Command::Unsubscribe(ticket) => drop(self.open.remove(&ticket)),
                Command::CancelChild(child) => drop(self.children.insert(child, "cancelled")),
                Command::Unwanted(_) | Command::ReleaseChild(_) => {}
                Command::Yield => self.yields += 1,
                Command::End(outcome) => self.ended = Some(outcome),
            }
        }
    }

    /// Runs until the end, or until nothing can happen any more; timers last.
    pub fn run(&mut self) -> Outcome {
        for _ in 0..100_000 {
            if let Some(outcome) = &self.ended {
                return outcome.clone();
            }
            if !self.step() {
                break;
            }
        }
        panic!("the run did not end: {:?}\nopen: {:?}", self.execution, self.open)
    }

    /// Lets one thing happen; false if nothing can.
    pub fn step(&mut self) -> bool {
        if self.yields > 0 {
            self.yields -= 1;
            self.happen(Event::Continue);
            return true;
        }
        let prompt: Vec<Ticket> = self
            .open
            .iter()
            .filter(|(_, c)| !matches!(c, Command::SetTimer { .. } | Command::Subscribe { .. }))
            .map(|(ticket, _)| *ticket)
            .collect();
        if !prompt.is_empty() {
            let ticket = prompt[self.dice.below(prompt.len())];
            self.answer(ticket);
            return true;
        }
        self.next_timer()
    }

    pub fn next_timer(&mut self) -> bool {
        let timers = self.open.iter().filter_map(|(ticket, command)| match command {
            Command::SetTimer { at, .. } => Some((*at, *ticket)),
            _ => None,
        });
        let Some((at, ticket)) = timers.min() else { return false };
        self.now = self.now.max(at);
        self.open.remove(&ticket);
        self.happen(Event::TimerFired(ticket));
        true
    }

    /// Answers one open command.
    pub fn answer(&mut self, ticket: Ticket) {
        let command = self.open.remove(&ticket).expect("it is open");
        match command {
            Command::Call { request, .. } => {
                let answer = self.serve(&request);
                self.happen(Event::Answered { ticket, answer });
            }
            Command::Evaluate { request, .. } => {
                let names: Vec<&str> = request.bindings.iter().map(|(n, _)| n.as_str()).collect();
                let filter = Filter::compile(&request.source, &names).expect("it compiled before");
                let bound = |name: &str| {
                    let found = request.bindings.iter().find(|(known, _)| known == name);
                    found.map(|(_, value)| value.clone()).unwrap_or_default()
                };
                let result = filter.evaluate(&request.input, &bound).map_err(|e| e.message);
                self.happen(Event::Evaluated { ticket, result });
            }
            Command::Publish { .. } => {
                let answer = Answer::Succeeded(Value::default());
                self.happen(Event::Answered { ticket, answer });
            }
            Command::StartChild { child, input, .. } => {
                self.children.insert(child, "completed");
                let outcome = Outcome::Completed(input);
                self.happen(Event::ChildEnded { ticket, outcome });
            }
            Command::CompensateChild { child, .. } => {
                self.children.insert(child, "compensated");
                let fault = Fault::new(FaultKind::Runtime, "rolled back", "asked");
                let outcome = Outcome::Compensated(fault);
                self.happen(Event::ChildEnded { ticket, outcome });
            }
            command => panic!("{command:?} is not answered like this"),
        }
    }

    /// A service that acts at most once per key.
    pub fn serve(&mut self, request: &Request) -> Answer {
        let Target::Catalog { name, arguments, .. } = &request.target else {
            panic!("the kit calls only the catalog")
        };
        let fault = |title| Fault::new(FaultKind::Communication, title, name.clone());
        let key = request.key.to_string();
        if self.broken.contains(name) || self.dice.percent(self.failing) {
            return Answer::Failed(fault("in trouble"));
        }
        // What was done is not refused: the service knows the key.
        if self.dice.percent(self.refusing) && !self.answered.contains_key(&key) {
            return Answer::Failed(fault("refused").with_status(409));
        }
        if let Some(name) = name.strip_suffix("-cancel") {
            return self.cancel(name, &key, place_in(arguments));
        }
        if !request.undo {
            self.acted.insert(request.effect, name.clone());
        }
        let deed = Deed {
            name: name.clone(),
            key: key.clone(),
            arguments: value::to_text(arguments),
            place: place_in(arguments),
        };
        if self.forgetful || !self.answered.contains_key(&key) {
            self.deeds.push(deed);
        } else {
            let first = self.deeds.iter().find(|deed| deed.key == key).expect("it was done");
            assert_eq!(*first, deed, "one key, one request");
        }
        // Not a count: what a service answers must not depend on who was served before.
        let output = value::object([(name.as_str(), value::integer(1))]);
        let output = self.answered.entry(key).or_insert(output).clone();
        if self.dice.percent(self.losing) {
            return Answer::Unknown(fault("no answer"));
        }
        Answer::Succeeded(output)
    }

    /// Takes back whatever stands of a name at a place: each counts as an undo.
    fn cancel(&mut self, name: &str, key: &str, place: String) -> Answer {
        let standing = self.net_by_place().get(&(name.to_owned(), place.clone())).copied();
        for _ in 0..standing.unwrap_or(0) {
            let (name, key, place) = (format!("{name}-bar"), key.to_owned(), place.clone());
            self.deeds.push(Deed { name, key, arguments: String::new(), place });
        }
        Answer::Succeeded(Value::default())
    }

    /// Says what became of something parked, as the services know it.
    pub fn resolve_truthfully(&mut self) {
        let Some(parked) = self.execution.parked().into_iter().next() else { return };
        let entry = self.execution.ledger().get(&parked.effect);
        let key = entry.map(|effect| effect.key.to_string());
        let output = key.and_then(|key| self.answered.get(&key)).cloned();
        let resolution = match output {
            Some(output) => Resolution::Done(output),
            None => Resolution::NotDone,
        };
        self.happen(Event::Resolved { effect: parked.effect, resolution });
    }

    /// The calls that are under way, with their tickets.
    pub fn calls(&self) -> Vec<(Ticket, Request)> {
        let calls = self.open.iter().filter_map(|(ticket, command)| match command {
            Command::Call { request, .. } => Some((*ticket, (**request).clone())),
            _ => None,
        });
        calls.collect()
    }

    /// The call of a service that is under way.
    pub fn call_of(&self, name: &str) -> Option<(Ticket, Request)> {
        let is_it = |request: &Request| matches!(&request.target, Target::Catalog { name: called, .. } if called == name);
        self.calls().into_iter().find(|(_, request)| is_it(request))
    }

    /// The names of what was done, in order.
    pub fn done(&self) -> Vec<&str> {
        self.deeds.iter().map(|deed| deed.name.as_str()).collect()
    }

    /// How often each service acted, undos counted against it.
    pub fn net(&self) -> BTreeMap<String, i64> {
        let mut net = BTreeMap::new();
        for ((name, _), count) in self.net_by_place() {
            *net.entry(name).or_insert(0) += count;
        }
        net
    }

    /// How often each service acted at each place: an undo that goes elsewhere undoes nothing here.
    pub fn net_by_place(&self) -> BTreeMap<(String, String), i64> {
        let mut net = BTreeMap::new();
        for deed in &self.deeds {
            let (name, change) = match deed.name.strip_suffix("-bar") {
                Some(name) => (name, -1),
                None => (deed.name.as_str(), 1),
            };
            *net.entry((name.to_owned(), deed.place.clone())).or_insert(0) += change;
        }
        net
    }

    /// A restart: the execution comes back from its bytes, and what was open is asked for again.
    pub fn restart(&mut self) {
        let bytes = minicbor::to_vec(&self.execution).expect("an execution can be written");
        let back: Execution = minicbor::decode(&bytes).expect("a written execution can be read");
        assert_eq!(back, self.execution);
        self.execution = back;
        self.author.epoch.0 += 1;
        let commands = self.execution.open_commands(&self.program, self.now);
        let again: BTreeSet<String> = commands.iter().map(|c| format!("{c:?}")).collect();
        let known: BTreeSet<String> = self.open.values().map(|c| format!("{c:?}")).collect();
        let lost: Vec<_> = known.difference(&again).collect();
        let doubtful = self.execution.doubtful_calls(&self.program);
        // What has ended asks for nothing, though a call may be under way that is not given up; nor does what a
        // person is to find out, though its answer may still come.
        let ended = self.execution.outcome().is_some();
        let not_asked = doubtful.len() + self.execution.parked().len();
        assert!(ended || lost.len() <= not_asked, "asked for again: {lost:?}");
        self.open.clear();
        self.yields = 0;
        let advance = Advance {
            delta: Default::default(),
            commands,
            happenings: Vec::new(),
            effects: Vec::new(),
        };
        self.take(advance);
        for ticket in doubtful {
            let fault = Fault::new(FaultKind::Communication, "no answer", "the node restarted");
            self.happen(Event::Answered { ticket, answer: Answer::Unknown(fault) });
        }
    }

    /// Another node goes on from here. What was open may have been done, and its answers are lost.
    pub fn take_over(&mut self, node: u64) {
        for (_, command) in std::mem::take(&mut self.open) {
            if let Command::Call { request, .. } = command
                && self.dice.percent(50)
            {
                self.serve(&request);
            }
        }
        self.go_on_as(node);
    }

    /// Another node goes on from here, and the author of what is open may do so too.
    pub fn go_on_as(&mut self, node: u64) {
        self.open.clear();
        self.author = Author::new(NodeId(node), Epoch(self.author.epoch.0 + 1));
        self.yields = 0;
        self.happen(Event::TakenOver { never_left: BTreeSet::new() });
    }

    /// The services of a world are those of another from now on.
    pub fn share_services(&mut self, other: &Self) {
        self.deeds = other.deeds.clone();
        self.answered = other.answered.clone();
    }

    /// A branch that could be cut off, if there is one.
    pub fn some_branch(&mut self) -> Option<BranchId> {
        let branches: Vec<BranchId> =
            self.open.keys().map(|t| t.branch).filter(|b| *b != BranchId::TRUNK).collect();
        (!branches.is_empty()).then(|| branches[self.dice.below(branches.len())])
    }
}

/// Where a call was made, by its arguments.
fn place_in(arguments: &Value) -> String {
    value::get(arguments, "at").map(value::to_text).unwrap_or_default()
}
