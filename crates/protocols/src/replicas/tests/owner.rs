//! An owner of one replica, as the engine is one: it holds the state, makes the calls and keeps the
//! disk. A step and all that it orders is one record; a crash leaves what was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use outlast_lineage::{EffectId, Epoch, NodeId, OperationKey, Point, Time};

use super::super::{
    Change, Choice, Input, Message, Output, Replica, Setup, Situation, Standing, Timer, Verdict,
};
use super::flow::{Advance, Cell, Flow, Plan};
use super::provider::Called;

/// What survives a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) begun: bool,
    pub(super) changes: Vec<Change>,
    pub(super) flow: Flow,
    pub(super) remnants: BTreeMap<Epoch, Flow>,
}

/// A value as it is after it was written and read.
pub(super) fn in_bytes<Value>(value: &Value) -> Value
where
    Value: minicbor::Encode<()> + for<'bytes> minicbor::Decode<'bytes, ()> + PartialEq + Debug,
{
    let bytes = minicbor::to_vec(value).expect("a vector takes everything");
    let read = minicbor::decode(&bytes).expect("what was written can be read");
    assert_eq!(*value, read);
    read
}

/// What an owner wants of the world.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Send(NodeId, Message),
    Timer(Timer, Time),
    Call {
        index: usize,
        effect: EffectId,
    },
    Undo(EffectId),
    Propose(u32, Choice),
    /// A state was made, or taken over: it must be the one of its name.
    Named(Point, Vec<u8>),
    Intended(EffectId, Called),
}

/// One node, alive.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) replica: Replica,
    pub(super) disk: Disk,
    pub(super) plan: Plan,
    /// The standing as it would be made again from the disk.
    shadow: Standing,
    held: Vec<(u64, usize, EffectId)>,
    /// What the other replicas were not told yet.
    untold: Vec<(u32, Cell)>,
    late: Vec<(usize, EffectId)>,
    wanted: BTreeSet<u64>,
    orders: Vec<Order>,
    pub(super) concluded: u32,
    pub(super) situations: BTreeSet<Situation>,
}

impl Owner {
    /// A node that hears of the execution, or comes back.
    pub(super) fn new(setup: Setup, plan: Plan, disk: Disk) -> Self {
        let mut standing = Standing::default();
        disk.changes.iter().for_each(|change| standing.apply(&in_bytes(change)));
        let standing = in_bytes(&standing);
        Self {
            replica: Replica::restored(setup, standing.clone()),
            disk,
            plan,
            shadow: standing,
            held: Vec::new(),
            untold: Vec::new(),
            late: Vec::new(),
            wanted: BTreeSet::new(),
            orders: Vec::new(),
            concluded: 0,
            situations: BTreeSet::new(),
        }
    }

    /// The first input of a life.
    pub(super) fn wake(&mut self, now: Time) -> Vec<Order> {
        let first = if self.disk.begun { Input::Restarted } else { Input::Begun };
        self.disk.begun = true;
        self.tell(now, first)
    }

    pub(super) fn tell(&mut self, now: Time, input: Input) -> Vec<Order> {
        self.step(now, input);
        self.release(now);
        std::mem::take(&mut self.orders)
    }

    /// The provider answered.
    pub(super) fn answer(&mut self, now: Time, index: usize, effect: EffectId) -> Vec<Order> {
        if self.replica.leads().is_some() {
            self.take_answer(now, index, effect);
        } else {
            self.late.push((index, effect));
        }
        self.release(now);
        std::mem::take(&mut self.orders)
    }

    fn step(&mut self, now: Time, input: Input) {
        for output in self.replica.step(now, input) {
            self.obey(now, output);
        }
        assert_eq!(self.shadow, *self.replica.standing(), "the changes make the standing");
    }

    fn obey(&mut self, now: Time, output: Output) {
        match output {
            Output::Persist(change) => {
                self.check(&change);
                self.shadow.apply(&change);
                self.disk.changes.push(change);
            }
            Output::Send { to, mut message } => {
                if let Some(held) = message.held_mut().filter(|held| held.state.is_empty()) {
                    assert_eq!(held.head, self.shadow.head, "what is sent is what is held");
                    held.state = self.disk.flow.encode();
                }
                if let Some(delta) = message.delta_mut() {
                    *delta = minicbor::to_vec(&self.untold).expect("written").into();
                }
                self.orders.push(Order::Send(to, message));
            }
            Output::SetTimer { timer, at } => self.orders.push(Order::Timer(timer, at)),
            Output::Start => self.advance(now, Flow::start),
            Output::GoOn => {
                self.forget_waits();
                self.advance(now, Flow::taken_over);
            }
            Output::Resume => {
                for (index, effect) in std::mem::take(&mut self.late) {
                    self.take_answer(now, index, effect);
                }
            }
            Output::Stop => self.wanted.clear(),
            Output::Apply(delta) => {
                self.forget_waits();
                self.disk.flow.apply(&self.plan, &delta);
                self.name();
            }
            Output::Spare(line) => self.keep_remnant(line),
            Output::Adopt { state, remnant } => {
                self.forget_waits();
                if let Some(line) = remnant {
                    self.keep_remnant(line);
                }
                self.disk.flow = Flow::decode(&state);
                self.name();
            }
            Output::Propose { instance, choice } => {
                self.orders.push(Order::Propose(instance, choice));
            }
            Output::Concluded => {
                assert!(self.replica.holds_the_end() && self.disk.flow.ended());
                self.concluded += 1;
            }
            Output::Undo { line, effects } => {
                assert!(self.disk.remnants.contains_key(&line), "the lost line was kept");
                self.orders.extend(effects.into_iter().map(Order::Undo));
            }
            Output::Settled => assert!(self.shadow.settled),
            Output::Report(situation) => drop(self.situations.insert(situation)),
        }
    }

    /// Each effect is judged once.
    fn check(&self, change: &Change) {
        let Change::Judged { verdict, effects } = change else { return };
        for effect in effects {
            let mut records = self.shadow.all_records().filter(|(id, _)| *id == effect);
            let (_, record) = records.next().expect("only what is recorded is judged");
            assert!(records.next().is_none(), "an effect is on one line, or in one remnant");
            assert_eq!(record.verdict, None, "{effect:?} is judged twice, now {verdict:?}");
            let on_line = self.shadow.records.contains_key(effect);
            assert!(!(on_line && *verdict == Verdict::Compensated), "what counts stays");
        }
    }

    fn keep_remnant(&mut self, line: Epoch) {
        let before = self.disk.remnants.insert(line, self.disk.flow.clone());
        assert!(before.is_none(), "no name of a remnant is used twice");
    }

    fn name(&mut self) {
        let point = self.shadow.head.lineage.head().expect("a state has a name");
        assert_eq!(self.shadow.head.progress, self.disk.flow.progress());
        self.orders.push(Order::Named(point, self.disk.flow.encode()));
    }

    fn take_answer(&mut self, now: Time, index: usize, effect: EffectId) {
        let cell = self.disk.flow.cells.get(index);
        if matches!(cell, Some(Cell::Open(open, _)) if *open == effect) {
            self.advance(now, |flow, plan, point| flow.answered(plan, index, point));
        }
    }

    fn advance(&mut self, now: Time, by: impl FnOnce(&mut Flow, &Plan, Point) -> Advance) {
        let epoch = self.replica.leads().expect("only a primary goes on");
        let number = self.replica.head().lineage.number() + 1;
        let point = Point { author: self.replica.setup().me, epoch, number };
        let Advance { delta, notes, calls } = by(&mut self.disk.flow, &self.plan, point);
        let after = self.disk.flow.done().map(|(effect, _)| effect).collect();
        if delta.is_empty() {
            return;
        }
        self.note_calls(&calls, &after);
        if !self.replica.has_untold() {
            self.untold.clear();
        }
        let bytes = 8 * delta.len();
        self.untold.extend(delta);
        let (progress, ended) = (self.disk.flow.progress(), self.disk.flow.ended());
        self.step(now, Input::Advanced { bytes, progress, ended, notes });
        self.name();
        self.held.extend(calls.into_iter().map(|(index, effect, _)| (number, index, effect)));
    }

    fn note_calls(
        &mut self,
        calls: &[(usize, EffectId, OperationKey)],
        after: &BTreeSet<EffectId>,
    ) {
        for (index, effect, key) in calls {
            let activity = self.plan.activity(*index);
            let called = Called {
                key: *key,
                deduplicated: activity.deduplicated,
                pivot: activity.pivot,
                after: after.clone(),
            };
            self.orders.push(Order::Intended(*effect, called));
        }
    }

    /// Lets leave what may leave now.
    fn release(&mut self, now: Time) {
        for (number, index, effect) in std::mem::take(&mut self.held) {
            let pivot = self.plan.activity(index).pivot;
            if pivot && !self.replica.is_decided_up_to(number) {
                self.held.push((number, index, effect));
                if self.replica.leads().is_some() && self.wanted.insert(number) {
                    self.step(now, Input::DecisionWanted { number });
                }
            } else if self.replica.may_leave(number) {
                self.orders.push(Order::Call { index, effect });
            } else {
                self.held.push((number, index, effect));
            }
        }
    }

    fn forget_waits(&mut self) {
        self.held.clear();
        self.late.clear();
        self.wanted.clear();
    }
}
