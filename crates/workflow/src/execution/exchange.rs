//! What an execution in custody remembers of what it shares with other nodes: the events it has
//! consumed, and what it has emitted, or started without waiting for its end, and has not left.
//!
//! Nodes number events each for itself, so a line that goes on at another node tells events by what
//! they are, not by when they came. What a line emits or starts stays in the value until it is certain
//! that the line counts: then it is *released*, while the run has long gone on.

use std::collections::VecDeque;

use minicbor::{Decode, Encode};
use outlast_lineage::{ExecutionId, Time};

use super::Datum;
use crate::{TaskId, Ticket};

/// How many consumed events are remembered. An event that is older than so many others could be
/// consumed again, if another node that still keeps it takes over.
const HEARD_MAX: usize = 4096;

/// How much waits to be released; more is an error rather than memory without end.
pub(crate) const OUTBOX_MAX: usize = 4096;

/// What an execution in custody shares.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode)]
pub(crate) struct Exchange {
    /// Consumed events, the newest last.
    #[n(0)]
    heard: VecDeque<u64>,
    /// What has not left, the newest last.
    #[n(1)]
    outbox: VecDeque<Outgoing>,
    /// The number of what leaves next.
    #[n(2)]
    next: u64,
    /// How many executions started each other before this one; nothing is none.
    #[n(3)]
    depth: Option<u32>,
}

/// An event that was emitted, or a workflow that is to be started, and has not left.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Outgoing {
    /// Counted up by the execution.
    #[n(0)]
    pub(crate) number: u64,
    /// The event, or the input of what is to be started.
    #[n(1)]
    pub(crate) event: Datum,
    #[n(2)]
    pub(crate) emitted: Time,
    /// Whether it need not wait until it is decided that its line counts.
    #[n(3)]
    pub(crate) at_once: bool,
    /// What is to be started, if it is no event.
    #[n(4)]
    pub(crate) start: Option<Departure>,
}

/// A workflow that is to be started, and whose end nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Departure {
    /// Its id.
    #[n(0)]
    pub(crate) child: ExecutionId,
    /// The task that runs it.
    #[n(1)]
    pub(crate) task: TaskId,
    #[n(2)]
    pub(crate) ticket: Ticket,
}

/// What one step changed of an exchange.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode)]
pub(crate) struct ExchangePatch {
    #[n(0)]
    pub(crate) heard: Vec<u64>,
    #[n(1)]
    pub(crate) emitted: Vec<Outgoing>,
    /// Numbers of what has left.
    #[n(2)]
    pub(crate) released: Vec<u64>,
}

impl ExchangePatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.emitted.is_empty() && self.released.is_empty()
    }

    pub(crate) fn extend(&mut self, more: Self) {
        self.heard.extend(more.heard);
        self.emitted.extend(more.emitted);
        self.released.extend(more.released);
    }
}

impl Exchange {
    /// Of an execution before which so many started each other.
    pub(crate) fn new(depth: u32) -> Self {
        Self { depth: (0 < depth).then_some(depth), ..Self::default() }
    }

    /// How many executions started each other before this one.
    pub(crate) fn depth(&self) -> u32 {
        self.depth.unwrap_or(0)
    }

    pub(crate) fn has_heard(&self, identity: u64) -> bool {
        self.heard.contains(&identity)
    }

    pub(crate) fn outbox(&self) -> impl Iterator<Item = &Outgoing> {
        self.outbox.iter()
    }

    /// The number of what leaves next; nothing if too much waits.
    pub(crate) fn next_number(&self) -> Option<u64> {
        (self.outbox.len() < OUTBOX_MAX).then_some(self.next)
    }

    pub(crate) fn apply(&mut self, patch: &ExchangePatch) {
        self.heard.extend(&patch.heard);
        while HEARD_MAX < self.heard.len() {
            self.heard.pop_front();
        }
        for outgoing in &patch.emitted {
            self.next = self.next.max(outgoing.number + 1);
            self.outbox.push_back(outgoing.clone());
        }
        self.outbox.retain(|outgoing| !patch.released.contains(&outgoing.number));
    }

    /// What another copy begins with: the same, but nothing is its to release.
    pub(crate) fn part(&self) -> Self {
        Self { outbox: VecDeque::new(), ..self.clone() }
    }

    /// What a part that comes back has consumed and emitted besides.
    pub(crate) fn news_of(&self, part: &Self) -> ExchangePatch {
        let heard = part.heard.iter().copied().filter(|identity| !self.has_heard(*identity));
        let emitted = part.outbox.iter().zip(self.next..);
        ExchangePatch {
            heard: heard.collect(),
            emitted: emitted.map(|(it, number)| Outgoing { number, ..it.clone() }).collect(),
            released: Vec::new(),
        }
    }
}
