//! One node: an engine, its disk, and the rule of what may leave when.
//!
//! The rule is the one that the production driver follows: a record is written as it comes; an
//! output leaves when the record it names is durable, in the order in which outputs came.

use std::collections::VecDeque;
use std::sync::Arc;

use outlast_engine::{
    Action, Definition, Engine, EngineOptions, Input, Output, Position, RecoveryError,
};
use outlast_lineage::{NodeId, Time};
use outlast_workflow::Program;

use crate::Disk;
use crate::world::RunEvent;

/// How much of what an engine holds is looked through for each step, about.
const LOOKED_AT_IN_A_STEP: u64 = 256;

/// When a node is to crash: at a record, counted from one over all its lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrashPoint {
    /// The record.
    pub record: u64,
    /// The moment.
    pub moment: Moment,
}

/// The moments at which a crash makes a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Before the record is written.
    BeforeWrite,
    /// After it was written and before it was synced: it is lost.
    BeforeSync,
    /// The same, but the disk had written it nevertheless.
    BeforeSyncButKept,
    /// The same, but half of it was written.
    BeforeSyncTorn,
    /// After it was synced and before anything left.
    AfterSync,
    /// After everything left that waited for it.
    AfterOutputs,
}

impl Moment {
    /// All moments.
    pub const ALL: [Self; 6] = [
        Self::BeforeWrite,
        Self::BeforeSync,
        Self::BeforeSyncButKept,
        Self::BeforeSyncTorn,
        Self::AfterSync,
        Self::AfterOutputs,
    ];
}

/// One node.
#[derive(Debug)]
pub struct Node {
    options: EngineOptions,
    engine: Option<Engine>,
    /// What survives a crash.
    pub disk: Disk,
    /// What waits for its record.
    held: Vec<Output>,
    /// What may leave, in order.
    ready: Vec<Action>,
    /// Empty between steps: the room for the outputs of one.
    outputs: Vec<Output>,
    durable: Position,
    crashes: VecDeque<CrashPoint>,
    /// How many records were written, in all lives.
    pub records: u64,
    /// Which life this is; what was meant for an earlier one is lost.
    pub life: u64,
    /// How many steps were taken, in all lives.
    pub steps: u64,
    /// After how many steps the engine is looked through; zero is never. One that holds much is looked
    /// through more rarely: each look takes as long as there is much to look at.
    pub invariants_every: u64,
    /// The steps at the last look.
    looked_at: u64,
    /// Whether what comes of every input is kept for whoever records the run.
    pub is_recorded: bool,
    /// Whether a call was to leave without waiting for a record.
    pub(crate) hasty: bool,
    /// What came of the last input, if it is to be kept.
    pub(crate) last: Option<RunEvent>,
}

impl Node {
    /// A node that has not been started, and when it will crash.
    pub fn new(options: EngineOptions, crashes: Vec<CrashPoint>) -> Self {
        Self {
            options,
            engine: None,
            disk: Disk::default(),
            held: Vec::new(),
            ready: Vec::new(),
            outputs: Vec::new(),
            durable: Position::default(),
            crashes: crashes.into(),
            records: 0,
            life: 0,
            steps: 0,
            invariants_every: 1,
            looked_at: 0,
            is_recorded: false,
            hasty: false,
            last: None,
        }
    }

    /// The node's id.
    pub const fn id(&self) -> NodeId {
        self.options.node
    }

    /// A node that lost its disk comes back as a new one.
    pub fn become_new(&mut self, id: NodeId) {
        assert!(self.engine.is_none(), "a disk is lost while the node is down");
        self.options.node = id;
        self.disk = Disk::default();
        self.life += 1;
    }

    /// Starts the node with what is on its disk; says whether it lived long enough to go on.
    pub fn start(
        &mut self,
        now: Time,
        compile: &mut dyn FnMut(&Definition) -> Result<Arc<Program>, String>,
    ) -> Result<bool, RecoveryError> {
        let records = self.disk.records();
        let snapshots = self.disk.snapshots();
        let (engine, outputs) =
            Engine::recover(self.options.clone(), now, snapshots, records, compile)?;
        if self.invariants_every != 0 {
            engine.assert_invariants();
        }
        self.engine = Some(engine);
        Ok(self.take(outputs))
    }

    /// Whether it could come up with what is on its disk now; not, and why not, if not.
    pub fn could_start(
        &self,
        now: Time,
        compile: &mut dyn FnMut(&Definition) -> Result<Arc<Program>, String>,
    ) -> Result<(), RecoveryError> {
        let mut disk = self.disk.clone();
        let (snapshots, records) = (disk.snapshots(), disk.records());
        Engine::recover(self.options.clone(), now, snapshots, records, compile).map(drop)
    }

    /// Whether it is up.
    pub const fn is_up(&self) -> bool {
        self.engine.is_some()
    }

    /// The engine of a node that is up.
    pub const fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    /// Whether there is work to be done in turns.
    pub fn has_work(&self) -> bool {
        self.engine.as_ref().is_some_and(Engine::has_work)
    }

    /// Gives the engine an input; says whether the node is still up afterwards.
    pub fn step(&mut self, now: Time, input: Input) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let text = self.is_recorded.then(|| RunEvent::text_of(&input));
        let mut outputs = std::mem::take(&mut self.outputs);
        engine.step_into(now, input, &mut outputs);
        self.steps += 1;
        if let Some(text) = text {
            let place = (now.as_micros(), self.options.node.0, self.options.shard.0.into());
            self.last = Some(RunEvent::new(place, &text, &outputs));
        }
        let pause = self.invariants_every.max(engine.extent() as u64 / LOOKED_AT_IN_A_STEP);
        if self.invariants_every != 0 && pause <= self.steps - self.looked_at {
            engine.assert_invariants();
            self.looked_at = self.steps;
        }
        // Most of what a node hears is that others are there, and nothing comes of it.
        let up = outputs.is_empty() || self.take(outputs.drain(..));
        self.outputs = outputs;
        up
    }

    /// Writes records, and holds back what waits for one.
    fn take(&mut self, outputs: impl IntoIterator<Item = Output>) -> bool {
        for output in outputs {
            let Action::Persist { position, record } = output.action else {
                self.hasty |= is_hasty(&output);
                if output.after.is_none_or(|at| at <= self.durable) {
                    self.ready.push(output.action);
                } else {
                    self.held.push(output);
                }
                continue;
            };
            self.records += 1;
            if self.is_due(&[Moment::BeforeWrite]).is_some() {
                self.crash(0, false);
                return false;
            }
            self.disk.append(position, record);
            let moments = [Moment::BeforeSync, Moment::BeforeSyncButKept, Moment::BeforeSyncTorn];
            if let Some(moment) = self.is_due(&moments) {
                match moment {
                    Moment::BeforeSyncButKept => self.crash(usize::MAX, false),
                    Moment::BeforeSyncTorn => self.crash(self.disk.unsynced_count() - 1, true),
                    _ => self.crash(0, false),
                }
                return false;
            }
        }
        true
    }

    fn is_due(&mut self, moments: &[Moment]) -> Option<Moment> {
        let next = self.crashes.front()?;
        // Records may have been written since the one whose sync or outputs were waited for.
        let reached = match next.moment {
            Moment::AfterSync | Moment::AfterOutputs => next.record <= self.records,
            _ => next.record == self.records,
        };
        if !reached || !moments.contains(&next.moment) {
            return None;
        }
        self.crashes.pop_front().map(|point| point.moment)
    }

    /// A sync has ended; says whether the node is still up afterwards.
    pub fn synced(&mut self, up_to: Position) -> bool {
        self.disk.sync(up_to);
        self.durable = up_to;
        let may_leave = |output: &mut Output| output.after.is_none_or(|at| at <= up_to);
        self.ready.extend(self.held.extract_if(.., may_leave).map(|output| output.action));
        if self.is_due(&[Moment::AfterSync]).is_some() {
            self.crash(0, false);
            return false;
        }
        true
    }

    /// Takes out what may leave now, in order.
    pub fn release(&mut self, leave: &mut Vec<Action>) {
        if leave.is_empty() {
            std::mem::swap(leave, &mut self.ready);
        } else {
            leave.append(&mut self.ready);
        }
    }

    /// Whether something may leave now.
    pub const fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many planned crashes have not come yet.
    pub fn crashes_to_come(&self) -> usize {
        self.crashes.len()
    }

    /// Crashes if that is due once everything that may leave has left; says whether it is still up.
    pub fn outlives_its_outputs(&mut self) -> bool {
        let all_durable = self.disk.unsynced().is_none();
        if all_durable && self.is_due(&[Moment::AfterOutputs]).is_some() {
            self.crash(0, false);
            return false;
        }
        true
    }

    /// Dies. So many unsynced records survive, and the next may be torn.
    pub fn crash(&mut self, survive: usize, torn: bool) {
        self.engine = None;
        self.held.clear();
        self.ready.clear();
        self.life += 1;
        self.disk.crash(survive, torn);
        self.durable = Position::default();
    }
}

/// Whether a call would leave though its intent is perhaps on no disk. Where nobody acts, nobody minds.
const fn is_hasty(output: &Output) -> bool {
    match &output.action {
        Action::Call { request, .. } => !request.readonly && output.after.is_none(),
        _ => false,
    }
}
