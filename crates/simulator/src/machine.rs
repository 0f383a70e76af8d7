//! One machine: a node, its clock, and what is under way around it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use outlast_engine::{EngineOptions, Input, Position};
use outlast_lineage::{ExecutionId, NodeId, Time};
use outlast_workflow::Ticket;

use crate::clock::Clock;
use crate::{CrashPoint, Node};

/// Something that waits until the process takes it.
#[derive(Debug)]
pub(crate) enum Told {
    /// An input for the engine.
    Input(Input),
    /// The disk has synced up to a record.
    Synced(Position),
    /// The answer of a call, with the act that it tells of.
    Answered(Input, Option<usize>),
}

/// An act whose answer is not written down yet.
#[derive(Debug)]
struct Unsettled {
    execution: ExecutionId,
    ticket: Ticket,
    act: usize,
    /// The record that holds the answer.
    written: Option<Position>,
}

/// One machine.
#[derive(Debug)]
pub struct Machine {
    /// The node that runs on it.
    pub node: Node,
    pub(crate) clock: Clock,
    /// The alarm that the engine set, on its own clock.
    pub(crate) alarm: Option<Time>,
    /// When a ring is noted, in the world.
    pub(crate) ringing: Option<Time>,
    pub(crate) syncing: bool,
    pub(crate) turning: bool,
    /// How many records there were when snapshots were last asked for.
    pub(crate) saved: u64,
    /// What waits until the process takes it.
    pub(crate) inbox: VecDeque<Told>,
    pub(crate) draining: bool,
    /// How many pauses are in force.
    pub(crate) paused: u32,
    /// How long every step takes.
    pub(crate) step_cost: Duration,
    pub(crate) busy_until: Time,
    pub(crate) is_full: bool,
    pub(crate) sync_fails: bool,
    /// Whether a sync has failed: nobody starts the node again until that is over.
    pub(crate) sync_failed: bool,
    pub(crate) write_fails: bool,
    /// The same of a write.
    pub(crate) write_failed: bool,
    pub(crate) reads_fail: bool,
    pub(crate) sync_factor: u64,
    /// How many calls are under way.
    pub(crate) calls: usize,
    /// Whether a member has let it in; kept on its disk, whoever is left of those it met.
    pub(crate) is_member: bool,
    /// The nodes it knows where to find; kept on its disk.
    pub(crate) met: BTreeSet<NodeId>,
    /// The nodes it hears no more; kept on its disk.
    pub(crate) removed: BTreeSet<NodeId>,
    /// What it believes of the others, as far as it said so.
    pub(crate) believed: BTreeMap<NodeId, &'static str>,
    unsettled: Vec<Unsettled>,
    abandoned: BTreeSet<(ExecutionId, Ticket)>,
}

impl Machine {
    pub(crate) fn new(options: EngineOptions, crashes: Vec<CrashPoint>, clock: Clock) -> Self {
        Self {
            node: Node::new(options, crashes),
            clock,
            alarm: None,
            ringing: None,
            syncing: false,
            turning: false,
            saved: 0,
            inbox: VecDeque::new(),
            draining: false,
            paused: 0,
            step_cost: Duration::ZERO,
            busy_until: Time::default(),
            is_full: false,
            sync_fails: false,
            sync_failed: false,
            write_fails: false,
            write_failed: false,
            reads_fail: false,
            sync_factor: 1,
            calls: 0,
            is_member: false,
            met: BTreeSet::new(),
            removed: BTreeSet::new(),
            believed: BTreeMap::new(),
            unsettled: Vec::new(),
            abandoned: BTreeSet::new(),
        }
    }

    /// The id of its node.
    pub const fn id(&self) -> NodeId {
        self.node.id()
    }

    /// Whether what comes in has to wait.
    pub(crate) fn is_busy(&self, now: Time) -> bool {
        self.paused > 0 || !self.inbox.is_empty() || now < self.busy_until
    }

    /// A service did something for a call; says whether nobody waits for the answer any more.
    pub(crate) fn acted(&mut self, execution: ExecutionId, ticket: Ticket, act: usize) -> bool {
        if self.abandoned.contains(&(execution, ticket)) {
            return true;
        }
        self.unsettled.push(Unsettled { execution, ticket, act, written: None });
        false
    }

    /// The answer of an act was taken, and is in this record at the latest.
    pub(crate) fn answer_taken(&mut self, act: usize, written: Position) {
        for unsettled in self.unsettled.iter_mut().filter(|unsettled| unsettled.act == act) {
            unsettled.written = Some(written);
        }
    }

    /// An answer is lost: what became of an act is not known.
    pub(crate) fn answer_lost(&mut self, act: usize) {
        self.unsettled.retain(|unsettled| unsettled.act != act);
    }

    /// What is written down is settled; says which acts.
    pub(crate) fn settle(&mut self, durable: Position) -> Vec<usize> {
        let is_settled =
            |unsettled: &mut Unsettled| unsettled.written.is_some_and(|at| at <= durable);
        self.unsettled.extract_if(.., is_settled).map(|unsettled| unsettled.act).collect()
    }

    /// A call is broken off; says which acts nobody will know about.
    pub(crate) fn abandon(&mut self, execution: ExecutionId, ticket: Ticket) -> Vec<usize> {
        self.abandoned.insert((execution, ticket));
        let of = |unsettled: &&Unsettled| {
            unsettled.execution == execution
                && unsettled.ticket == ticket
                && unsettled.written.is_none()
        };
        self.unsettled.iter().filter(of).map(|unsettled| unsettled.act).collect()
    }

    /// The disk is gone: so is what it knew of others.
    pub(crate) fn forget_others(&mut self) {
        self.is_member = false;
        self.met.clear();
        self.removed.clear();
    }

    /// The node died; says which acts nobody knows about.
    pub(crate) fn went_down(&mut self) -> Vec<usize> {
        self.alarm = None;
        self.ringing = None;
        self.syncing = false;
        self.turning = false;
        self.inbox.clear();
        self.draining = false;
        self.busy_until = Time::default();
        self.calls = 0;
        self.abandoned.clear();
        self.believed.clear();
        self.unsettled.drain(..).map(|unsettled| unsettled.act).collect()
    }
}
