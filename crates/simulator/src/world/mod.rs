//! The world: a clock, nodes, a network, services and a client, and one occurrence after the other.

mod acting;
mod belonging;
mod driving;
mod ending;
mod failing;
mod in_force;
mod judging;
pub(crate) mod learning;
mod occurrence;
mod options;
mod people;
mod serving;
mod telling;
mod watching;
mod wishes;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Action, Caller, ClusterStanding, EngineOptions, Input};
use outlast_lineage::{EffectId, Epoch, ExecutionId, NodeId, OperationKey, Time};

use crate::agenda::Agenda;
use crate::checkers::Expectation;
use crate::checkers::at_once::Seen;
use crate::clock::Clock;
use crate::machine::Machine;
use crate::network::Network;
use crate::{Client, Fault, Latency, Plan, Random, Services, Situation, Situations};
use learning::Learnt;
use occurrence::Occurrence;
pub use options::WorldOptions;
use telling::Heard;
use watching::Watching;
pub use watching::{RunEvent, Watcher};

/// When every world begins.
const BEGINNING: Time = Time::from_millis(1_000_000);

/// How long after the one before a node joins a cluster that finds its members by gossip.
const JOINING: Duration = Duration::from_millis(5);

/// A world.
#[derive(Debug)]
pub struct World {
    options: WorldOptions,
    random: Random,
    now: Time,
    agenda: Agenda<Occurrence>,
    /// The machines, by place.
    pub machines: Vec<Machine>,
    network: Network,
    /// The services and their ledger.
    pub services: Services,
    /// The client and what it was told.
    pub client: Client,
    /// How often interesting things came up.
    pub situations: Situations,
    /// The ids of all nodes that are not given up.
    members: BTreeSet<NodeId>,
    last_id: u64,
    /// The node that founds the cluster: the first to come up, and invited by nobody.
    founder: NodeId,
    faults: Vec<Fault>,
    /// How many faults are not over.
    faults_open: usize,
    /// The faults that have begun and are not over, in the order in which they began.
    in_force: Vec<usize>,
    /// Whether all faults were ended before their time.
    faults_lifted: bool,
    /// Faults that wait for a node to be in a phase, and for so many steps more.
    aimed: Vec<(usize, u64)>,
    errors_per_mille: u64,
    lost_per_mille: u64,
    service: Latency,
    /// The first sentence that did not hold.
    finding: Option<String>,
    /// How many occurrences there were.
    pub occurrences: u64,
    /// How many disks were lost.
    pub disks_lost: usize,
    /// How the cluster looked to each node when they were last asked.
    pub(crate) standings: Vec<Option<Box<ClusterStanding>>>,
    /// What each event says, and who has it, by its source and id.
    told: BTreeMap<String, Heard>,
    /// Executions that others started without waiting for their end.
    detached: BTreeSet<ExecutionId>,
    /// How often people asked something.
    people: u64,
    /// Executions whose failed calls people said not to have happened, though they might have been made.
    pub(crate) denied: BTreeSet<ExecutionId>,
    /// Where people had executions that had failed tried again or taken back.
    pub(crate) revisited: BTreeMap<ExecutionId, usize>,
    /// Who asked for executions to be stopped or rolled back, and was not answered yet.
    asked: BTreeMap<Caller, ExecutionId>,
    /// Executions that somebody was told are stopped or rolled back.
    pub(crate) promised: BTreeSet<ExecutionId>,
    /// How many calls are under way, at all machines together.
    calls: usize,
    /// What is known of flows and their calls.
    pub(crate) learnt: Learnt,
    /// What one run of everything does when nothing fails, if that is known.
    expected: Option<Arc<Expectation>>,
    /// What is counted for what is looked at as it happens.
    seen: Seen,
    /// Whether a fault has begun.
    has_failed: bool,
    /// The last epoch of each node that came to its disk.
    epochs: BTreeMap<NodeId, Epoch>,
    /// The key of every call, by the name of its effect.
    named: BTreeMap<(ExecutionId, EffectId), OperationKey>,
    /// Kept to be filled again.
    released: Vec<Action>,
    watching: Watching,
    /// Whether whoever looks on wants no more.
    stopped: bool,
    /// Every input of every engine, if the run is recorded.
    pub run_events: Vec<RunEvent>,
    /// What occurred, a line each.
    pub trace: String,
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(options: WorldOptions, plan: Plan) -> Self {
        assert!((1..=64).contains(&options.nodes), "a world has one to 64 nodes");
        let mut random = Random::new(options.seed);
        let machines: Vec<_> =
            (0..options.nodes).map(|place| machine(&options, place, &mut random)).collect();
        let learnt = Learnt::new(&plan);
        let mut world = Self {
            now: BEGINNING,
            agenda: Agenda::new(),
            network: Network::new(options.network.clone(), options.nodes),
            services: Services::new(options.deduplicating),
            client: Client::new(plan, options.nodes),
            situations: Situations::default(),
            members: machines.iter().map(Machine::id).collect(),
            last_id: options.nodes as u64,
            founder: NodeId(1),
            faults: options.faults.clone(),
            faults_open: options.faults.len(),
            in_force: Vec::new(),
            faults_lifted: false,
            aimed: Vec::new(),
            errors_per_mille: 0,
            lost_per_mille: options.lost_per_mille,
            service: options.service,
            machines,
            random,
            finding: None,
            occurrences: 0,
            disks_lost: 0,
            standings: vec![None; options.nodes],
            told: BTreeMap::new(),
            detached: BTreeSet::new(),
            people: 0,
            denied: BTreeSet::new(),
            revisited: BTreeMap::new(),
            asked: BTreeMap::new(),
            promised: BTreeSet::new(),
            calls: 0,
            learnt,
            expected: None,
            seen: Seen::default(),
            has_failed: false,
            epochs: BTreeMap::new(),
            named: BTreeMap::new(),
            released: Vec::new(),
            watching: Watching::default(),
            stopped: false,
            run_events: Vec::new(),
            trace: String::new(),
            options,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for place in 0..self.machines.len() {
            // Whoever joins comes after the founder.
            let wait = if self.options.gossip {
                JOINING * u32::try_from(place).unwrap_or(0)
            } else {
                Duration::ZERO
            };
            self.agenda.note(BEGINNING.after(wait), Occurrence::Start(place));
        }
        for (index, fault) in self.faults.iter().enumerate() {
            self.agenda.note(BEGINNING.after(fault.at), Occurrence::Begins(index));
            self.agenda.note(BEGINNING.after(fault.ends()), Occurrence::Ends(index));
        }
        for (wish, delay) in self.client.first() {
            self.agenda.note(BEGINNING.after(delay), Occurrence::Wished(wish));
        }
    }

    /// Runs until the client is content, nothing more occurs, or patience is at an end.
    pub fn run(&mut self) {
        while !self.client.is_content() && self.finding.is_none() && self.step() {}
    }

    /// The same, and on until everything has ended that was started by something else; or until so much
    /// has occurred.
    pub fn run_out(&mut self, occurrences_max: u64) {
        let goes_on = |world: &Self| !world.client.is_content() || !world.is_out();
        while goes_on(self) && self.finding.is_none() && self.occurrences < occurrences_max {
            if self.step() {
                continue;
            }
            if self.agenda.next_time().is_some() || !self.waits_for_people() {
                return;
            }
            self.people_look();
        }
    }

    /// Whether everything has ended, be it that nobody waits for it; who is down may have more to do.
    pub fn is_out(&self) -> bool {
        let is_live = |machine: &Machine| {
            machine.node.engine().is_none_or(|engine| 0 < engine.counters().live)
        };
        !self.machines.iter().any(is_live)
    }

    /// The next thing occurs; says whether there was one and patience is not at an end.
    pub fn step(&mut self) -> bool {
        if self.is_out_of_patience() || self.stopped {
            return false;
        }
        let Some((at, occurrence)) = self.agenda.next() else { return false };
        self.now = self.now.max(at);
        self.occurrences += 1;
        self.occur(occurrence);
        self.show();
        true
    }

    /// Whether what comes next comes later than the world lasts.
    fn is_out_of_patience(&self) -> bool {
        let next = self.agenda.next_time();
        next.is_some_and(|at| self.patience() < at.since(BEGINNING))
    }

    /// How long something has not ended, and why, for people.
    pub(crate) fn why_it_went_on(&self) -> String {
        let (elapsed, patience) = (self.elapsed().as_secs(), self.patience().as_secs());
        let for_nothing = "for what nobody here does, such as an event that nobody sends";
        if self.agenda.next_time().is_none() {
            return format!("{elapsed} s in which nothing failed: it waits {for_nothing}");
        }
        // Whoever keeps what has ended may have an alarm set that is as late.
        if self.is_out_of_patience() {
            return format!(
                "{patience} s in which nothing failed, and a world lasts no longer: it waits for longer, or \
                 {for_nothing}"
            );
        }
        let occurrences = self.occurrences;
        format!("{elapsed} s in which nothing failed, and {occurrences} things occurred")
    }

    /// Whether whoever looks on wanted no more.
    pub const fn was_stopped(&self) -> bool {
        self.stopped
    }

    fn occur(&mut self, occurrence: Occurrence) {
        match occurrence {
            Occurrence::Start(place) => self.start(place),
            Occurrence::Synced { place, life, up_to } if self.is_alive(place, life) => {
                self.sync_ended(place, up_to);
            }
            Occurrence::Stored { place, life } if self.is_alive(place, life) => {
                self.say(Some(place), format_args!("has compacted its journal"));
                self.tell(place, Input::Stored);
            }
            Occurrence::Fetched { place, life, execution } if self.is_alive(place, life) => {
                self.fetched(place, execution);
            }
            Occurrence::Turn { place, life } if self.is_alive(place, life) => {
                self.machines[place].turning = false;
                self.say(Some(place), format_args!("goes on with what it left for later"));
                self.tell(place, Input::Turn);
            }
            Occurrence::Drain { place, life } if self.is_alive(place, life) => self.drain(place),
            Occurrence::Ring { place, life } if self.is_alive(place, life) => self.ring(place),
            Occurrence::Reached(call) => self.reached(*call),
            Occurrence::Answered(answered) => self.answered(*answered),
            Occurrence::Evaluated(evaluated) if self.is_alive(evaluated.place, evaluated.life) => {
                let (execution, ticket) = (evaluated.execution, evaluated.ticket);
                let result = evaluated.result;
                self.say_of(
                    evaluated.place,
                    execution,
                    format_args!("has evaluated an expression"),
                );
                self.tell(evaluated.place, Input::Evaluated { execution, ticket, result });
            }
            Occurrence::Compiled { place, life, definition } if self.is_alive(place, life) => {
                let known = &self.client.plan().definitions;
                if let Some(program) = driving::compiled(known, &definition) {
                    self.say(Some(place), format_args!("has compiled {}", program.name));
                    self.tell(place, Input::Compiled { definition, program });
                }
            }
            Occurrence::Arrived(parcel) => self.arrived(parcel),
            Occurrence::Wished(wish) => self.wished(wish),
            Occurrence::Overdue(caller) => self.overdue(caller),
            Occurrence::Begins(fault) if !self.faults_lifted => self.fault_begins(fault),
            Occurrence::Ends(fault) if !self.faults_lifted => self.fault_ends(fault),
            Occurrence::Flaps(fault) if self.is_in_force(fault) => self.flaps(fault),
            Occurrence::DiesAgain { fault, place, times } if self.is_in_force(fault) => {
                self.dies_again(fault, place, times);
            }
            Occurrence::Fence(node) => self.fence(node),
            _ => {}
        }
    }

    fn is_alive(&self, place: usize, life: u64) -> bool {
        let node = &self.machines[place].node;
        node.life == life && node.is_up()
    }

    /// A time from now, drawn between two numbers of microseconds.
    fn soon(&mut self, low: u64, high: u64) -> Time {
        self.now.after(Duration::from_micros(self.random.between(low, high)))
    }

    fn drawn(&mut self, latency: Latency) -> Time {
        self.now.after(latency.draw(&mut self.random))
    }

    /// Counts a situation.
    pub fn saw(&mut self, situation: Situation) {
        self.situations.saw(situation);
    }

    /// Notes that a sentence does not hold; the first one counts.
    fn found(&mut self, finding: String) {
        self.say(None, format_args!("FOUND {finding}"));
        self.finding.get_or_insert(finding);
    }

    /// The first sentence that did not hold.
    pub fn finding(&self) -> Option<&str> {
        self.finding.as_deref()
    }

    /// Writes a line of the trace that is about an execution.
    fn say_of(&mut self, place: usize, execution: ExecutionId, what: fmt::Arguments<'_>) {
        if self.options.trace {
            self.say(Some(place), format_args!("{what}  #{}", words::short(execution)));
        }
    }

    /// Writes a line of the trace.
    fn say(&mut self, place: Option<usize>, what: fmt::Arguments<'_>) {
        if !self.options.trace {
            return;
        }
        let micros = self.now.since(BEGINNING).as_micros();
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        let written = match place {
            Some(place) => {
                let id = self.machines[place].id().0;
                writeln!(self.trace, "{seconds:>4}.{fraction:06}  node {id}  {what}")
            }
            None => writeln!(self.trace, "{seconds:>4}.{fraction:06}  world   {what}"),
        };
        written.expect("writing to memory does not fail");
    }

    /// What time it is.
    pub(crate) const fn now(&self) -> Time {
        self.now
    }

    /// How long it has been going on.
    pub fn elapsed(&self) -> Duration {
        self.now.since(BEGINNING)
    }

    /// Whether someone is executing an activity, or undoing one, just now.
    pub const fn is_executing(&self) -> bool {
        0 < self.calls
    }

    /// Whether all faults are over, every node is up, and none holds an execution with others that
    /// is not decided, undone where it must be, and forgotten.
    pub fn is_settled(&self) -> bool {
        let is_free = |machine: &Machine| {
            machine.node.engine().is_some_and(|engine| engine.counters().in_custody == 0)
        };
        self.faults_open == 0 && !self.is_executing() && self.machines.iter().all(is_free)
    }

    /// How many steps all engines took.
    pub fn steps(&self) -> u64 {
        self.machines.iter().map(|machine| machine.node.steps).sum()
    }

    /// The ids of all nodes that are not given up.
    pub(crate) const fn members(&self) -> &BTreeSet<NodeId> {
        &self.members
    }

    /// What the world is like.
    pub const fn options(&self) -> &WorldOptions {
        &self.options
    }
}

/// The first node at a place; one that lost its disk comes back there under another id.
pub(crate) const fn node_at(place: usize) -> NodeId {
    NodeId(place as u64 + 1)
}

fn machine(options: &WorldOptions, place: usize, random: &mut Random) -> Machine {
    let engine = EngineOptions {
        awake_max: options.awake_max,
        reports: options.reports,
        ..EngineOptions::new(node_at(place))
    };
    let crashes = if place == 0 { options.crashes.clone() } else { Vec::new() };
    let skew = i64::try_from(random.between(0, options.skew * 2)).unwrap_or(0)
        - i64::try_from(options.skew).unwrap_or(0);
    let mut machine = Machine::new(engine, crashes, Clock::off_by(skew));
    machine.node.invariants_every = options.invariants_every;
    machine.node.is_recorded = options.records_run;
    machine
}
