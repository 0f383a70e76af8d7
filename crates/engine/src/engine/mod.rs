//! The engine: a table of inputs over executions, definitions, events and queues.
//!
//! Whatever one execution wants of another, or of itself later, becomes a unit of work in a queue
//! that is fair between namespaces; `Input::Turn` does one unit. So a step touches one execution,
//! writes at most one record, and takes a bounded time.
//!
//! Invariants (`assert_invariants`): records are numbered without gaps; every index agrees with the
//! entries; a timer in the queue is one that its execution set; nothing open is only in memory:
//! work in the queue is made again from what was recorded.

mod asking;
mod certain;
mod children;
mod custody;
mod definitions;
mod entries;
mod entry;
mod events;
mod giving_up;
mod gossip;
mod invariants;
mod queue;
mod recovery;
mod resolving;
mod retention;
mod roster;
mod routing;
mod running;
mod sizes;
mod snapshots;
mod spreading;
mod starting;
mod stored;
mod teaching;
mod unclaimed;
mod waiters;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outlast_expressions::Value;
use outlast_lineage::{EffectId, Epoch, ExecutionId, Lineage, NodeId, Point, Time};
use outlast_protocols::replicas;
use outlast_workflow::{Author, Event, Program, Resolution, Ticket};

use crate::{
    Action, Ask, Caller, Condition, Counters, EngineOptions, Input, Output, Parent, Phase,
    Position, Record, RecordKind, Reply,
};
use certain::Certain;
use custody::{Alarm, Departed, Looking, Peers, Reading, Word};
pub(crate) use custody::{Begin, Forgetting, happenings_of};
pub use custody::{REMNANT_TERMS, Spoken, Times, ranked};
use definitions::Definitions;
use events::Events;
use gossip::Gossip;
use queue::FairQueue;
pub use recovery::RecoveryError;
use retention::Tombstones;
use roster::{Roster, Wakefulness};
use running::Cause;
use snapshots::Unsaved;
use spreading::Spreading;
use teaching::Teaching;
use waiters::Waiters;

/// How many timers one ring of the alarm puts into the queue; more are put there by the next.
const TIMERS_PER_RING: usize = 1000;

/// More executions than one step uses at a time: so many are awake in a step whatever `awake_max`.
const USED_PER_STEP: usize = 8;

/// One shard of a node: everything it knows, and what it would do next.
#[derive(Debug)]
pub struct Engine {
    options: EngineOptions,
    /// This node in this life.
    author: Author,
    /// The newest record.
    position: Position,
    /// The record that opened this life: nothing leaves before it is durable.
    opened: Position,
    definitions: Definitions,
    roster: Roster,
    tombstones: Tombstones,
    events: Events,
    spreading: Spreading,
    timers: BTreeSet<(Time, ExecutionId, Ticket)>,
    work: FairQueue<Work>,
    /// The line of the engine's own work.
    own_line: Arc<str>,
    /// Children whose parent gave them up before they were started.
    unwanted: BTreeSet<ExecutionId>,
    /// The other nodes.
    peers: Peers,
    gossip: Gossip,
    /// Executions that several nodes hold.
    custodies: BTreeSet<ExecutionId>,
    custody_alarms: BTreeSet<(Time, ExecutionId, Alarm)>,
    /// Whose calls are answered at which address.
    addresses: BTreeMap<ExecutionId, ExecutionId>,
    /// Calls that have left, by where they are answered, and that whoever goes on instead leaves to a person.
    departed: BTreeMap<(ExecutionId, Ticket), Departed>,
    reading: Reading,
    /// Starts that others are asked about first.
    looking: Looking,
    /// Executions to be held here whose definitions are on their way.
    stashed: Vec<(NodeId, Begin)>,
    teaching: Teaching,
    waiters: Waiters,
    /// Executions that have come to their ends in this step, or to that of their custody.
    over: Vec<ExecutionId>,
    unsaved: Unsaved,
    /// What waits for a state that the store is asked for.
    fetching: BTreeMap<ExecutionId, Vec<Work>>,
    /// The alarm as the driver knows it.
    alarm: Option<Time>,
    /// Whether forgetting one execution is in the queue.
    tidying: bool,
    storage_full: bool,
    certain: Certain,
    counters: Counters,
}

/// A unit of work that waits for its turn.
#[derive(Debug)]
enum Work {
    /// Advance an execution by an event.
    Advance { execution: ExecutionId, event: Event },
    /// Show an execution the next event it has not seen.
    Show(ExecutionId),
    /// Announce an event to the next of its listeners.
    Spread { number: u64, after: Option<ExecutionId> },
    /// Take in an event that an execution publishes, and tell it so.
    Publish { execution: ExecutionId, ticket: Ticket, event: Value },
    /// Have what is in an outbox leave.
    Release { execution: ExecutionId, number: u64 },
    /// Start a child.
    StartChild(Box<children::ChildStart>),
    /// Roll a child back.
    CompensateChild { parent: ExecutionId, ticket: Ticket, child: ExecutionId },
    /// Take the parent's wish to stop out of the inbox.
    Cancel(ExecutionId),
    /// Resolve one parked effect for a caller.
    Resolve { execution: ExecutionId, effect: EffectId, resolution: Resolution, caller: Caller },
    /// Forget one ended execution.
    Tidy,
    /// Answer a request that waited for the state of an execution.
    Answer { caller: Caller, ask: Box<Ask> },
    /// Tell the custody of an execution something.
    Custody { execution: ExecutionId, word: Word },
    /// Have the machines of consensus and forgetting go on in a new life.
    RestartMachines(ExecutionId),
    /// Take what was heard here of calls that wait for a person, if this node leads now.
    TakeHearsay(ExecutionId),
    /// Have a lost line undo what it was asked to.
    Withdraw(ExecutionId),
    /// Forget a lost line.
    DropRemnant(ExecutionId),
    /// Forget an execution whose end is lost, and its lost lines before.
    GiveUp { execution: ExecutionId, caller: Caller },
    /// Become a replica of an execution whose definition has come.
    Begin { from: NodeId, begin: Box<Begin> },
}

/// One step under way: the time, and what is to be done so far.
#[derive(Debug)]
struct Step {
    now: Time,
    outputs: Vec<Output>,
    recorded: bool,
}

/// Whether an input may have made something due earlier than it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    AsBefore,
    PerhapsEarlier,
}

impl Step {
    fn order(&mut self, after: Option<Position>, action: Action) {
        self.outputs.push(Output { after, action });
    }

    fn reply(&mut self, after: Option<Position>, caller: Caller, reply: Reply) {
        self.order(after, Action::Reply { caller, reply });
    }
}

impl Engine {
    /// Takes one input. At most one of the outputs is a `Persist`.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.step_into(now, input, &mut outputs);
        outputs
    }

    /// The same, for drivers that use one list again and again: it gets the outputs added.
    pub fn step_into(&mut self, now: Time, input: Input, outputs: &mut Vec<Output>) {
        self.counters.steps += 1;
        let mut step = Step { now, outputs: std::mem::take(outputs), recorded: false };
        if self.take_input(&mut step, input) == Due::PerhapsEarlier {
            self.settle(&mut step);
        }
        *outputs = step.outputs;
    }

    fn take_input(&mut self, step: &mut Step, input: Input) -> Due {
        match input {
            Input::Asked { caller, ask } => self.answer(step, caller, ask),
            Input::CallerLeft(caller) => {
                self.waiters.leave(caller);
                self.stop_fetching_for(caller);
            }
            Input::Answered { execution, ticket, answer } => {
                let address = execution;
                let execution = self.at_address(address);
                let answer = self.admit_answer(execution, answer);
                self.hear(step, (address, ticket), &answer);
                self.note_flight(execution, ticket, false);
                self.take(step, execution, Event::Answered { ticket, answer });
            }
            Input::Evaluated { execution, ticket, result } => {
                let execution = self.at_address(execution);
                let result = self.admit_result(execution, result);
                self.take(step, execution, Event::Evaluated { ticket, result });
            }
            Input::Received { from, message } => {
                return self.receive(step, from, &message);
            }
            Input::PeersKnown(others) => self.know_peers(step, &others),
            Input::PeersMet(others) => self.meet_peers(step, &others),
            Input::PeersRemoved(removed) => self.remove_peers(step, &removed),
            Input::Reachable { addresses, release } => {
                self.join_gossip(step, addresses, release);
            }
            Input::Leaving => self.leave_gossip(step),
            Input::Compiled { definition, program } if !self.storage_full => {
                self.compiled(step, *definition, program);
            }
            Input::Compiled { .. } => {}
            Input::AlarmRang => self.ring(step),
            Input::Turn => self.turn(step),
            Input::SnapshotWanted { max } => self.snapshot(step, max),
            Input::Durable(position) => self.certain.reaches(step.now, position, self.position),
            Input::Stored => self.leave_to_the_store(),
            Input::Fetched { execution, snapshot } => {
                self.fetched(step, execution, snapshot);
            }
            Input::StorageFull => self.storage_full = true,
            Input::StorageFreed => self.storage_full = false,
        }
        Due::PerhapsEarlier
    }

    /// Advances an execution at once, or as soon as something can be recorded again.
    fn take(&mut self, step: &mut Step, execution: ExecutionId, event: Event) {
        let Some(event) = self.keep_late(execution, event) else { return };
        if self.storage_full {
            self.queue(execution, |execution| Work::Advance { execution, event });
        } else if !self.advance(step, execution, event, Cause::default()) {
            self.counters.stale_answers += 1;
        }
    }

    /// Makes an execution ready to be used, and puts another to sleep if too many are awake. Says
    /// whether there is such an execution.
    fn wake(&mut self, id: ExecutionId) -> bool {
        let Some(slept) = self.roster.wake(id) else { return false };
        self.counters.woken += u64::from(slept);
        // The executions that this step uses are the most recently used ones.
        let may =
            Wakefulness { most: self.options.awake_max.max(USED_PER_STEP), ..self.wakefulness() };
        self.counters.put_to_sleep += u64::from(self.roster.settle(may));
        true
    }

    /// How much may be awake between steps.
    const fn wakefulness(&self) -> Wakefulness {
        let EngineOptions { awake_max, awake_bytes_max, .. } = self.options;
        Wakefulness { most: awake_max, bytes: awake_bytes_max, least: USED_PER_STEP }
    }

    /// Puts work for an execution into the line of its namespace.
    fn queue(&mut self, execution: ExecutionId, work: impl FnOnce(ExecutionId) -> Work) {
        if let Some(entry) = self.roster.get(execution) {
            self.work.push(&entry.defined.namespace, work(execution));
        }
    }

    fn queue_own(&mut self, work: Work) {
        self.work.push(&self.own_line, work);
    }

    /// Does one unit of work.
    fn turn(&mut self, step: &mut Step) {
        if self.storage_full {
            return;
        }
        if let Some(work) = self.work.pop() {
            self.perform(step, work);
        }
    }

    fn perform(&mut self, step: &mut Step, work: Work) {
        if let Some(child) = work.child().filter(|child| self.is_stored(*child)) {
            return self.fetch(step, child, work);
        }
        match work {
            Work::Advance { execution, event } => {
                self.advance(step, execution, event, Cause::default());
            }
            Work::Show(execution) => self.show_next_event(step, execution),
            Work::Spread { number, after } => self.spread(number, after),
            Work::Publish { execution, ticket, event } => {
                self.publish_for(step, execution, ticket, event);
            }
            Work::Release { execution, number } => self.release_outgoing(step, execution, number),
            Work::StartChild(start) => self.start_child(step, *start),
            Work::CompensateChild { parent, ticket, child } => {
                self.compensate_child(step, parent, ticket, child);
            }
            Work::Cancel(execution) => self.cancel_wanted(step, execution),
            Work::Resolve { execution, effect, resolution, caller } => {
                self.resolve_one(step, execution, effect, resolution, caller);
            }
            Work::Tidy => self.forget_one(step),
            Work::Answer { caller, ask } => self.answer(step, caller, *ask),
            Work::Custody { execution, word } => {
                self.tell_custody(step, execution, word);
            }
            Work::RestartMachines(execution) => self.restart_consensus(step, execution),
            Work::TakeHearsay(execution) => self.take_own_hearsay(step, execution),
            Work::Withdraw(remnant) => self.withdraw(step, remnant),
            Work::DropRemnant(remnant) => self.drop_remnant(step, remnant),
            Work::GiveUp { execution, caller } => self.give_up_now(step, execution, caller),
            Work::Begin { from, begin } => self.take_begin(step, from, *begin),
        }
    }

    /// Puts what is due into the queue.
    fn ring(&mut self, step: &mut Step) {
        self.alarm = None;
        if self.storage_full {
            return;
        }
        for _ in 0..TIMERS_PER_RING {
            match self.timers.first() {
                Some((at, _, _)) if *at <= step.now => {}
                _ => break,
            }
            let Some((_, execution, ticket)) = self.timers.pop_first() else { break };
            self.counters.timers_fired += 1;
            let event = Event::TimerFired(ticket);
            self.queue(execution, |execution| Work::Advance { execution, event });
        }
        self.beat(step);
        self.ring_gossip(step);
        self.ring_custodies(step.now, TIMERS_PER_RING);
        self.ring_looking(step);
        self.drop_old_events(step);
        self.expire_tombstones(step);
        self.tidy(step.now);
    }

    /// What every step ends with: what is over and one or two others are put to sleep, and the alarm is set anew
    /// if another time is now the earliest.
    fn settle(&mut self, step: &mut Step) {
        while let Some(id) = self.over.pop() {
            self.counters.put_to_sleep += u64::from(self.roster.lay_to_rest(id));
        }
        for _ in 0..2 {
            self.counters.put_to_sleep += u64::from(self.roster.settle(self.wakefulness()));
        }
        let earliest = if self.storage_full { None } else { self.earliest() };
        if earliest != self.alarm {
            self.alarm = earliest;
            step.order(None, Action::SetAlarm(earliest));
        }
    }

    /// When something is due next.
    fn earliest(&self) -> Option<Time> {
        let timer = self.timers.first().map(|(at, _, _)| *at);
        let custody = self.custody_alarms.first().map(|(at, _, _)| *at);
        let times = &self.options.times;
        let beat = self.peers.next(times.heartbeat, times.lost_after);
        let expiry = self.tombstones.next_expiry();
        [
            timer,
            custody,
            self.looking.next(),
            beat,
            self.gossip.next(),
            self.next_forgetting(),
            self.next_dropping(),
            expiry,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Writes the record of this step and gives its content back.
    fn record(&mut self, step: &mut Step, kind: RecordKind) -> (Position, RecordKind) {
        assert!(!step.recorded, "a step writes at most one record");
        step.recorded = true;
        let position = self.position.next();
        let record = Record { shard: self.options.shard, position, time: step.now, kind };
        let bytes = record.encode();
        self.position = position;
        self.certain.recorded(step.now);
        self.counters.records += 1;
        self.counters.record_bytes += bytes.len() as u64;
        step.order(None, Action::Persist { position, record: bytes });
        (position, record.kind)
    }

    /// Whether there is work that `Input::Turn` would do.
    pub const fn has_work(&self) -> bool {
        !self.storage_full && self.work.len() > 0
    }

    /// The newest record.
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The term in which this engine makes states: no life of a node has one that another had.
    pub const fn epoch(&self) -> Epoch {
        self.author.epoch
    }

    /// What was counted, and what is held now.
    pub fn counters(&self) -> Counters {
        Counters {
            live: self.roster.live() as u64,
            ended: (self.roster.len() - self.roster.live()) as u64,
            parked: self.roster.parked_count() as u64,
            in_custody: self.custodies.len() as u64,
            queued: self.work.len() as u64,
            timers: self.timers.len() as u64,
            ..self.counters
        }
    }

    /// What this node does for each execution that it holds together with others.
    pub fn phases(&self) -> impl Iterator<Item = (ExecutionId, Phase)> {
        self.custodies.iter().filter_map(|id| Some((*id, self.phase_of(*id)?)))
    }

    /// What this node does for an execution that several hold.
    pub fn phase_of(&self, id: ExecutionId) -> Option<Phase> {
        match self.roster.get(id)?.custody.as_ref()? {
            custody::Custody::Replica(holding) => Some(holding.phase()),
            custody::Custody::Remnant(_) => None,
        }
    }

    /// Who started an execution, if another one did.
    pub fn parent_of(&self, id: ExecutionId) -> Option<Parent> {
        self.roster.get(id)?.parent.as_deref().copied()
    }

    /// What an execution runs.
    pub fn program_of(&self, id: ExecutionId) -> Option<&Arc<Program>> {
        Some(&self.roster.get(id)?.defined.program)
    }

    /// How far an execution is, as far as that counts.
    pub fn condition_of(&self, id: ExecutionId) -> Option<Condition> {
        Some(self.roster.get(id)?.condition)
    }

    /// The line on which the calls that are answered at an address are made, if several nodes hold it
    /// and it is not lost here.
    pub fn line_at(&self, address: ExecutionId) -> Option<&Lineage> {
        self.replica_at(address).map(|replica| &replica.head().lineage)
    }

    /// The state of that line in which an effect was intended, if whoever goes on from it asks for the
    /// same: not of a call whose provider is said to know no keys, which is made anew.
    pub fn intent_at(&self, address: ExecutionId, effect: EffectId) -> Option<Point> {
        let standing = self.replica_at(address)?.standing();
        let record = standing.records.get(&effect).filter(|record| record.deduplicated)?;
        standing.head.lineage.at(record.intended)
    }

    fn replica_at(&self, address: ExecutionId) -> Option<&replicas::Replica> {
        match self.roster.get(self.at_address(address))?.custody.as_ref()? {
            custody::Custody::Replica(holding) => Some(&holding.replica),
            custody::Custody::Remnant(_) => None,
        }
    }

    /// The executions in which something waits for a person, be it in a line that was lost or in a
    /// sub-workflow.
    pub fn waits_for_people(&self) -> impl Iterator<Item = ExecutionId> {
        let parent_of = |id: &ExecutionId| {
            let entry = self.roster.get(*id)?;
            let parent = entry.parent.as_deref().filter(|parent| parent.waits);
            parent.map(|parent| parent.execution)
        };
        let parked = self.roster.parked().map(|id| self.execution_of(id));
        parked.flat_map(move |id| std::iter::successors(Some(id), parent_of))
    }
}
