//! Passing states on: a primary tells its backups how the execution went on.
//!
//! Where nothing waits for acknowledgements, nobody needs to hear of every state by itself: the first
//! one after a while is told at once, and what follows within the linger goes out together. A slow
//! execution is never kept waiting, and a quick one costs its backups a few messages and records
//! instead of one of each for every step. The beginning, too, waits for what follows: everyone knows
//! already that the execution is there.
//!
//! Invariant: before its backups hear of a state in any other way, they were sent all that led to it.

use minicbor::bytes::ByteVec;
use outlast_lineage::{Point, Time};

use super::{Held, Message, Outputs, Replica, Timer};

/// So much is gathered at most before it is sent.
const GATHERED_MAX: usize = 64;
const GATHERED_BYTES_MAX: usize = 64 * 1024;

/// What the backups were not told yet.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Unsent {
    /// The whole state that a run began with.
    start: Option<Held>,
    /// The state that the first delta goes on from.
    base: Option<Point>,
    deltas: Vec<ByteVec>,
    bytes: usize,
    /// When they were last told something.
    told: Option<Time>,
    /// Whether a timer runs that ends the gathering.
    ends: bool,
}

impl Unsent {
    const fn is_empty(&self) -> bool {
        self.start.is_none() && self.deltas.is_empty()
    }

    fn is_full(&self) -> bool {
        GATHERED_MAX <= self.deltas.len() || GATHERED_BYTES_MAX <= self.bytes
    }
}

impl Replica {
    /// The state went on by a delta: the backups are told now or soon.
    pub(super) fn gather(&mut self, out: &mut Outputs, base: Option<Point>, delta: ByteVec) {
        if self.unsent.deltas.is_empty() {
            self.unsent.base = base;
        }
        self.unsent.bytes += delta.len();
        self.unsent.deltas.push(delta);
        let due = self.unsent.told.map_or(out.now, |told| told.after(self.setup.linger));
        self.pass_on_by(out, due);
    }

    /// A run began: the backups are told now or soon.
    pub(super) fn gather_start(&mut self, out: &mut Outputs, state: Vec<u8>) {
        let (head, ended) = (self.standing.head.clone(), self.standing.ended);
        self.unsent = Unsent { start: Some(Held { head, ended, state }), ..Unsent::default() };
        self.unsent.told = Some(out.now);
        self.pass_on_by(out, out.now.after(self.setup.linger));
    }

    fn pass_on_by(&mut self, out: &mut Outputs, due: Time) {
        if self.is_awaited() || due <= out.now || self.unsent.is_full() {
            self.pass_on(out);
        } else if !self.unsent.ends {
            self.unsent.ends = true;
            out.timer(Timer::UpdateDue, due.since(out.now));
        }
    }

    /// Whether somebody waits for the backups to have the newest state.
    fn is_awaited(&self) -> bool {
        self.setup.acknowledge || self.standing.ended || self.is_over_budget()
    }

    /// Tells the backups all that they were not told.
    pub(super) fn pass_on(&mut self, out: &mut Outputs) {
        self.unsent.ends = false;
        let Some(term) = self.leads().filter(|_| !self.unsent.is_empty()) else { return };
        let Unsent { start, base, deltas, .. } = std::mem::take(&mut self.unsent);
        self.unsent.told = Some(out.now);
        if let Some(held) = start {
            self.tell_all(out, &Message::State { held, term: Some(term) });
        }
        if let Some(next) = self.point().filter(|_| !deltas.is_empty()) {
            let (progress, ended) = (self.standing.head.progress, self.standing.ended);
            // Whoever agrees to a proposal that goes out together with the end says more than that it
            // has it.
            let urgent = self.is_awaited() && !(ended && self.may_be_tried());
            self.tell_all(out, &Message::Update { base, next, progress, ended, urgent, deltas });
        }
        self.expect_answers(out);
    }
}
