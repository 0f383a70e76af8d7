//! Passing states on: a primary tells its backups how the execution went on.
//!
//! Where nothing waits for acknowledgements, nobody needs to hear of every state by itself: the first
//! one after a while is told at once, and what follows within the linger goes out together. A slow
//! execution is never kept waiting, and a quick one costs its backups a few messages and records
//! instead of one of each for every step. The beginning, too, waits for what follows: everyone knows
//! already that the execution is there, and what it begins as. What was between the first state and the
//! last is not told: the owner puts together what changed (`Replica::has_untold`).
//!
//! Invariant: before its backups hear of a state in any other way, they were sent all that led to it.

use minicbor::bytes::ByteVec;
use outlast_lineage::{Point, Time};

use super::{Message, Outputs, Replica, Timer};

/// So much is gathered at most before it is sent.
const GATHERED_MAX: usize = 64;
const GATHERED_BYTES_MAX: usize = 64 * 1024;

/// What the backups were not told yet.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Unsent {
    /// The state that the first one goes on from.
    base: Option<Point>,
    states: usize,
    bytes: usize,
    /// When they were last told something.
    told: Option<Time>,
    /// Whether a timer runs that ends the gathering.
    ends: bool,
}

impl Unsent {
    /// Everything is told, as if just now: what comes next waits for what follows it.
    pub(super) fn nothing_since(now: Time) -> Self {
        Self { told: Some(now), ..Self::default() }
    }

    const fn is_empty(&self) -> bool {
        self.states == 0
    }

    const fn is_full(&self) -> bool {
        GATHERED_MAX <= self.states || GATHERED_BYTES_MAX <= self.bytes
    }
}

impl Replica {
    /// Whether there are states that the backups were not told of. Their owner keeps what changed in all
    /// of them, as one delta, for the update that will tell of them.
    pub const fn has_untold(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The state went on from one to the next: the backups are told now or soon.
    pub(super) fn gather(&mut self, out: &mut Outputs, base: Option<Point>, bytes: usize) {
        if self.unsent.is_empty() {
            self.unsent.base = base;
        }
        self.unsent.bytes += bytes;
        self.unsent.states += 1;
        let due = self.unsent.told.map_or(out.now, |told| told.after(self.setup.linger));
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
        let untold = self.leads().is_some() && self.has_untold();
        let Some(next) = self.point().filter(|_| untold) else { return };
        let base = std::mem::replace(&mut self.unsent, Unsent::nothing_since(out.now)).base;
        let (progress, ended) = (self.standing.head.progress, self.standing.ended);
        // Whoever agrees to a proposal that goes out together with the end says more than that it
        // has it.
        let urgent = self.is_awaited() && !(ended && self.may_be_tried());
        let beginning = self.setup.beginning.filter(|_| base.is_none());
        let delta = ByteVec::from(Vec::new());
        let update = Message::Update { base, next, progress, ended, urgent, delta, beginning };
        self.tell_all(out, &update);
        self.expect_answers(out);
    }
}
