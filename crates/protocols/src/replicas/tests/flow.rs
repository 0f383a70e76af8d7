//! A workflow as the tests need it: layers of activities, those of one layer at the same time, or one of
//! them instead of the others.
//!
//! To the machine its states are bytes. Here they say which activity was done as which effect.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use outlast_lineage::{BranchId, Digester, EffectId, ExecutionId, OperationKey, Point};

use super::super::Note;

/// What undoing one activity costs.
pub(super) const COST: f64 = 10.0;

/// How an activity behaves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Activity {
    /// The provider acts once for each key.
    pub(super) deduplicated: bool,
    /// It can be neither undone nor repeated on another line.
    pub(super) pivot: bool,
}

/// Layers of activities: a layer begins when the one before is done.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) layers: Vec<Vec<Activity>>,
    /// Layers of which one activity is done, and which one depends on what was answered before.
    pub(super) exclusive: BTreeSet<usize>,
}

impl Plan {
    /// One activity after the other, all alike.
    pub(super) fn sequence(length: usize, deduplicated: bool) -> Self {
        let activity = Activity { deduplicated, pivot: false };
        Self { layers: vec![vec![activity]; length], ..Self::default() }
    }

    pub(super) fn activity(&self, index: usize) -> Activity {
        *self.layers.iter().flatten().nth(index).expect("the plan has the activity")
    }

    fn len(&self) -> usize {
        self.layers.iter().map(Vec::len).sum()
    }

    /// Which activities a layer has.
    fn layer(&self, layer: usize) -> std::ops::Range<usize> {
        let first = self.layers[..layer].iter().map(Vec::len).sum();
        first..first + self.layers[layer].len()
    }
}

/// How far one activity is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub(super) enum Cell {
    #[n(0)]
    Idle,
    #[n(1)]
    Open(#[n(0)] EffectId, #[n(1)] OperationKey),
    #[n(2)]
    Done(#[n(0)] EffectId, #[n(1)] OperationKey),
    /// Another way was taken.
    #[n(3)]
    Passed,
}

impl Cell {
    const fn is_over(&self) -> bool {
        matches!(self, Self::Done(..) | Self::Passed)
    }
}

/// A state of the workflow.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub(super) struct Flow {
    #[n(0)]
    pub(super) cells: Vec<Cell>,
}

/// What an advance did.
#[derive(Debug, Default)]
pub(super) struct Advance {
    pub(super) delta: Vec<(u32, Cell)>,
    pub(super) notes: Vec<Note>,
    /// Activities to be called, with their effects and keys.
    pub(super) calls: Vec<(usize, EffectId, OperationKey)>,
}

impl Flow {
    pub(super) fn decode(bytes: &[u8]) -> Self {
        minicbor::decode(bytes).expect("tests write what they read")
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("a vector takes everything")
    }

    pub(super) fn apply(&mut self, plan: &Plan, delta: &[u8]) {
        self.cells.resize(plan.len(), Cell::Idle);
        let delta: Vec<(u32, Cell)> = minicbor::decode(delta).expect("tests write what they read");
        for (index, cell) in delta {
            self.cells[index as usize] = cell;
        }
    }

    pub(super) fn progress(&self) -> u64 {
        self.cells.iter().filter(|cell| matches!(cell, Cell::Done(..))).count() as u64
    }

    pub(super) fn ended(&self) -> bool {
        !self.cells.is_empty() && self.cells.iter().all(Cell::is_over)
    }

    pub(super) fn done(&self) -> impl Iterator<Item = (EffectId, OperationKey)> {
        self.cells.iter().filter_map(|cell| match cell {
            Cell::Done(effect, key) => Some((*effect, *key)),
            _ => None,
        })
    }

    /// The first layer is opened by the state `point`.
    pub(super) fn start(&mut self, plan: &Plan, point: Point) -> Advance {
        self.cells = vec![Cell::Idle; plan.len()];
        let mut advance = Advance::default();
        self.open_layer(plan, 0, point, &mut advance);
        advance
    }

    /// A new primary asks again for all that is open.
    pub(super) fn taken_over(&mut self, plan: &Plan, point: Point) -> Advance {
        let mut advance = Advance::default();
        for index in 0..self.cells.len() {
            if let Cell::Open(..) = self.cells[index] {
                self.open(plan, index, point, &mut advance);
            }
        }
        advance
    }

    /// An activity is done; the next layer is opened if it was the last one of its own.
    pub(super) fn answered(&mut self, plan: &Plan, index: usize, point: Point) -> Advance {
        let Cell::Open(effect, key) = self.cells[index] else {
            panic!("only what is open is done")
        };
        let mut advance = Advance::default();
        self.set(index, Cell::Done(effect, key), &mut advance);
        advance.notes.push(Note::Done { effect, cost: COST });
        let layer = (0..plan.layers.len()).find(|layer| plan.layer(*layer).contains(&index));
        let layer = layer.expect("every activity is in a layer");
        let over = plan.layer(layer).all(|index| self.cells[index].is_over());
        if over && layer + 1 < plan.layers.len() {
            self.open_layer(plan, layer + 1, point, &mut advance);
        }
        advance
    }

    fn open_layer(&mut self, plan: &Plan, layer: usize, point: Point, advance: &mut Advance) {
        let chosen = plan.exclusive.contains(&layer).then(|| self.way(plan, layer));
        for index in plan.layer(layer) {
            if chosen.is_none_or(|chosen| chosen == index) {
                self.open(plan, index, point, advance);
            } else {
                self.set(index, Cell::Passed, advance);
            }
        }
    }

    /// Which activity of an exclusive layer is done, after what was answered last.
    fn way(&self, plan: &Plan, layer: usize) -> usize {
        let answered = self.done().last().map_or(0, |(_, key)| key.digest().as_bytes()[0]);
        let ways = plan.layer(layer);
        ways.start + usize::from(answered) % ways.len()
    }

    fn open(&mut self, plan: &Plan, index: usize, point: Point, advance: &mut Advance) {
        let effect = EffectId { branch: BranchId(index as u64), point };
        let deduplicated = plan.activity(index).deduplicated;
        let key = match self.cells[index] {
            Cell::Open(_, key) if deduplicated => key,
            _ => self.key(index, effect, deduplicated),
        };
        self.set(index, Cell::Open(effect, key), advance);
        advance.notes.push(Note::Intended { effect, key, deduplicated, cost: None, pivot: false });
        advance.calls.push((index, effect, key));
    }

    /// What is asked depends on all that was answered before; a provider that does not deduplicate
    /// is asked for something new each time.
    fn key(&self, index: usize, effect: EffectId, deduplicated: bool) -> OperationKey {
        let mut request = Digester::new("request").number(index as u64);
        for (_, key) in self.done() {
            request = request.field(key.digest().as_bytes());
        }
        if !deduplicated {
            let Point { author, epoch, number } = effect.point;
            request = request.number(author.0).number(epoch.0).number(number);
        }
        let place = Digester::new("place").number(index as u64).finish();
        OperationKey::new(ExecutionId::from_bytes([0; 16]), &place, &request.finish())
    }

    fn set(&mut self, index: usize, cell: Cell, advance: &mut Advance) {
        self.cells[index] = cell;
        advance.delta.push((index as u32, cell));
    }
}
