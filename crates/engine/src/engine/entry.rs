//! One execution as the engine holds it: a few facts always at hand, and its state, which sleeps
//! as bytes when nothing has happened to it for a while, and is only in the store once it has ended
//! and was saved there.

use std::sync::Arc;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use outlast_lineage::{Digest, ExecutionId, NodeId, Time};
use outlast_workflow::{Answer, Execution, Ticket};

use super::custody::{Custody, Stored};
use super::definitions::Defined;
use crate::writing::write_behind;
use crate::{Condition, Parent, Position};

/// One execution.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Option<Box<str>>,
    pub(super) defined: Arc<Defined>,
    /// The digest of its input: tells a repeated start from another one.
    pub(super) input: Digest,
    pub(super) parent: Option<Box<Parent>>,
    pub(super) started: Time,
    pub(super) changed: Time,
    pub(super) condition: Condition,
    /// Its newest record.
    pub(super) position: Position,
    /// Timers that are set or have fired without having been taken yet.
    pub(super) timers: Vec<(Ticket, Time)>,
    pub(super) subscriptions: Vec<Subscription>,
    /// Its inbox: the parent wants it stopped.
    pub(super) cancel_wanted: bool,
    /// A parent may still ask to roll it back: it is not to be forgotten.
    pub(super) held: bool,
    pub(super) parked: bool,
    /// The number of the next event to show it, if it waits for its turn to see one.
    pub(super) lagging: Option<u64>,
    /// About how many bytes it takes: its size when last written, and its records since.
    pub(super) weight: usize,
    /// Parents that wait until it is rolled back.
    pub(super) rollbacks: Vec<(ExecutionId, Ticket)>,
    /// When it was last used, in uses of any execution.
    pub(super) touched: u64,
    /// How it is held, if not by this node alone.
    pub(super) custody: Option<Custody>,
    /// Those who held it together until all forgot that, the highest replica first: each has it for
    /// itself now, and the first of them changes it.
    pub(super) copies: Option<Box<[NodeId]>>,
    /// Its calls that must not be made twice, as it was when it went to sleep.
    pub(super) slept_with: Option<Box<DoubtfulCalls>>,
    /// Answers to calls that it will ask about.
    pub(super) unclaimed: Vec<(Ticket, Answer)>,
    pub(super) state: State,
}

/// Calls that are under way and must not be made twice.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct DoubtfulCalls {
    pub(super) tickets: Vec<Ticket>,
    /// Whether nobody else could go on now without asking a person.
    pub(super) must_be_heard: bool,
}

/// The state of an execution.
#[derive(Debug)]
pub(super) enum State {
    /// Ready to be advanced, and where it came from.
    Awake(Box<Execution>, Origin),
    /// As bytes.
    Asleep(Box<[u8]>),
    /// Only in the store: it has to be fetched before it can be woken.
    Stored,
}

/// What else holds the state of an execution that is awake, until it changes.
#[derive(Debug)]
pub(super) enum Origin {
    /// Nothing: it is new, or has changed.
    Changed,
    /// The bytes that it was woken from.
    Bytes(Box<[u8]>),
    /// The store.
    Stored,
}

/// A subscription to events.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(super) struct Subscription {
    #[n(0)]
    pub(super) ticket: Ticket,
    /// The types that may fit; nothing is every type.
    #[n(1)]
    pub(super) types: Option<Vec<String>>,
    /// Events with lower numbers have been shown.
    #[n(2)]
    pub(super) next: u64,
}

impl Subscription {
    /// Whether events of a type may fit.
    pub(super) fn wants(&self, kind: &str) -> bool {
        self.types.as_ref().is_none_or(|types| types.iter().any(|wanted| wanted == kind))
    }
}

/// What a snapshot of an execution says besides its state: enough to hold it without decoding it.
#[derive(Debug, Encode, Decode)]
pub(super) struct Header {
    #[n(0)]
    pub(super) name: Option<String>,
    #[n(1)]
    pub(super) definition: Digest,
    #[n(2)]
    pub(super) input: Digest,
    #[n(3)]
    pub(super) parent: Option<Parent>,
    #[n(4)]
    pub(super) started: Time,
    #[n(5)]
    pub(super) changed: Time,
    #[n(6)]
    pub(super) condition: Condition,
    #[n(7)]
    pub(super) position: Position,
    #[n(8)]
    pub(super) timers: Vec<(Ticket, Time)>,
    #[n(9)]
    pub(super) subscriptions: Vec<Subscription>,
    #[n(10)]
    pub(super) cancel_wanted: bool,
    #[n(11)]
    pub(super) held: bool,
    #[n(12)]
    pub(super) parked: bool,
    /// Whether something other than timers and subscriptions is open and must be asked for again.
    #[n(13)]
    pub(super) busy: bool,
    #[n(14)]
    pub(super) state: ByteVec,
    #[n(15)]
    pub(super) custody: Option<Stored>,
    /// Snapshots of 0.1 did not say.
    #[n(16)]
    pub(super) copies: Option<Vec<NodeId>>,
}

impl Header {
    /// Whether nothing will happen to the execution unless someone asks for it.
    pub(super) const fn is_over(&self) -> bool {
        self.condition.is_end()
            && !self.held
            && !self.parked
            && !self.busy
            && self.custody.is_none()
    }
}

impl Entry {
    /// The calls that are under way here and must not be made twice.
    pub(super) fn doubtful_calls(&self) -> DoubtfulCalls {
        match &self.state {
            State::Awake(execution, _) => doubtful_calls(execution, &self.defined),
            State::Asleep(_) => self.slept_with.as_deref().cloned().unwrap_or_default(),
            State::Stored => DoubtfulCalls::default(),
        }
    }

    /// Whether such a call has left: of one that is held back the next life knows that it never did.
    pub(super) fn has_doubtful_call_out(&self) -> bool {
        let is_held = |ticket| match &self.custody {
            Some(Custody::Replica(holding)) => holding.holds_back(ticket),
            _ => false,
        };
        self.doubtful_calls().tickets.into_iter().any(|ticket| !is_held(ticket))
    }

    /// The execution, awake.
    pub(super) fn execution(&self) -> &Execution {
        match &self.state {
            State::Awake(execution, _) => execution,
            State::Asleep(_) | State::Stored => unreachable!("it was woken before it was used"),
        }
    }

    /// The execution, awake and about to change.
    pub(super) fn execution_mut(&mut self) -> &mut Execution {
        match &mut self.state {
            State::Awake(execution, origin) => {
                *origin = Origin::Changed;
                execution
            }
            State::Asleep(_) | State::Stored => unreachable!("it was woken before it was used"),
        }
    }

    /// Makes the execution ready if it sleeps; says whether it slept.
    pub(super) fn wake(&mut self) -> bool {
        let bytes = match &mut self.state {
            State::Awake(..) => return false,
            State::Asleep(bytes) => std::mem::take(bytes),
            State::Stored => unreachable!("it was fetched before it was woken"),
        };
        let execution = minicbor::decode(&bytes).expect("bytes were checked when they came in");
        self.state = State::Awake(Box::new(execution), Origin::Bytes(bytes));
        true
    }

    /// Puts the execution to sleep.
    pub(super) fn sleep(&mut self) {
        if let State::Awake(execution, origin) = &mut self.state {
            let doubtful = doubtful_calls(execution, &self.defined);
            self.slept_with = (!doubtful.tickets.is_empty()).then(|| Box::new(doubtful));
            self.state = match std::mem::replace(origin, Origin::Changed) {
                Origin::Changed => State::Asleep(encode_state(execution).into()),
                Origin::Bytes(bytes) => State::Asleep(bytes),
                Origin::Stored => State::Stored,
            };
            self.timers.shrink_to_fit();
            self.subscriptions.shrink_to_fit();
        }
    }

    pub(super) const fn is_awake(&self) -> bool {
        matches!(self.state, State::Awake(..))
    }

    /// Whether its state is only in the store.
    pub(super) const fn is_stored(&self) -> bool {
        matches!(self.state, State::Stored)
    }

    /// Whether nothing will happen to it unless someone asks for it.
    pub(super) const fn is_over(&self) -> bool {
        self.condition.is_end() && !self.held && !self.parked && self.custody.is_none()
    }

    /// Whether it is over and sleeps, and was left with nothing under way: nothing of it need be decoded
    /// to be stored.
    pub(super) const fn rests(&self) -> bool {
        matches!(self.state, State::Asleep(_)) && self.is_over() && self.slept_with.is_none()
    }

    /// The state as bytes, unless it is only in the store.
    pub(super) fn state_bytes(&self) -> Option<Vec<u8>> {
        match &self.state {
            State::Asleep(bytes) | State::Awake(_, Origin::Bytes(bytes)) => Some(bytes.to_vec()),
            State::Awake(execution, _) => Some(encode_state(execution)),
            State::Stored => None,
        }
    }

    /// Whether its parent waits for its end.
    pub(super) fn awaited_by(&self) -> Option<(ExecutionId, Ticket)> {
        let parent = self.parent.as_deref().filter(|parent| parent.waits)?;
        Some((parent.execution, parent.ticket))
    }
}

fn doubtful_calls(execution: &Execution, defined: &Defined) -> DoubtfulCalls {
    let tickets = execution.doubtful_calls(&defined.program);
    let must_be_heard = !tickets.is_empty() && execution.must_hear_an_answer(&defined.program);
    DoubtfulCalls { tickets, must_be_heard }
}

/// The state of an execution as bytes.
pub(super) fn encode_state(execution: &Execution) -> Vec<u8> {
    write_behind(Vec::with_capacity(2048), execution)
}
