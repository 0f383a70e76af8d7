//! Frames: what a branch is in the middle of, from the outermost task to the innermost.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use outlast_lineage::{Digest, Digester, EffectId, ExecutionId, Time};

use super::datum::{Datum, LargeValues};
use super::join::JoinId;
use super::plan::{PlanEntry, PlanId};
use super::surroundings::Surroundings;
use crate::program::{CompensationOrder, OnFailure};
use crate::{Fault, Request, TaskId, Ticket};

/// Where in the flow something is: task, iterations and incarnations from the outside in, digested.
/// The same in every copy of an execution, so operation keys are too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
#[cbor(transparent)]
pub(crate) struct Path(#[n(0)] pub(crate) u64);

impl Path {
    pub(crate) const START: Self = Self(0);

    /// The place of a task inside this place; `turn` tells repeated entries apart.
    pub(crate) fn inside(self, task: TaskId, turn: u64) -> Self {
        let digest = Digester::new("path").number(self.0).number(u64::from(task.0)).number(turn);
        Self(digest.finish().short())
    }

    /// The digest that operation keys are made of.
    pub(crate) fn digest(self) -> Digest {
        Digester::new("place").number(self.0).finish()
    }
}

/// One task that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Frame {
    #[n(0)]
    pub(crate) task: TaskId,
    #[n(1)]
    pub(crate) path: Path,
    #[n(2)]
    pub(crate) started: Time,
    /// What came in, before `input.from`.
    #[n(3)]
    pub(crate) raw: Datum,
    /// What came in, after `input.from`, where that makes something else of it. Most tasks have none,
    /// and what they were given is written down once. Journals of before have it in every frame.
    #[n(4)]
    pub(crate) transformed: Option<Datum>,
    /// When it has taken too long.
    #[n(5)]
    pub(crate) deadline: Option<Alarm>,
    /// Its own compensation continuation, if it is a scope.
    #[n(6)]
    pub(crate) plan: Option<PlanId>,
    /// The worker evaluation it waits for.
    #[n(7)]
    pub(crate) evaluating: Option<Box<Evaluating>>,
    /// The effect whose undo this task owes once it completes.
    #[n(8)]
    pub(crate) effect: Option<EffectId>,
    #[n(9)]
    pub(crate) activity: Activity,
    /// Which case of a switch, or that an error was handled: decides what comes after.
    #[n(10)]
    pub(crate) chosen: Option<u32>,
    /// Definite failures that were tried again in place: part of the incarnation of calls inside.
    #[n(11)]
    pub(crate) tries: u64,
    /// Whether the call that is tried again in place may have happened before.
    #[n(12)]
    pub(crate) doubt: bool,
    /// What it sees around it, if it was taken out of its place.
    #[n(13)]
    pub(crate) around: Option<Box<Surroundings>>,
    /// After how many revivals (`Head::revivals`) the calls inside were asked for first, if they may have
    /// been before the last one.
    #[n(14)]
    pub(crate) asked_after: Option<u64>,
}

impl Frame {
    /// What came in, after `input.from`.
    pub(crate) fn input(&self) -> &Datum {
        self.transformed.as_ref().unwrap_or(&self.raw)
    }

    /// Whether it has done its work, and a worker evaluates what follows from the result.
    pub(crate) const fn is_completing(&self) -> bool {
        self.has_worked() && self.evaluating.is_some()
    }

    /// Whether it has done its work: what is left is what follows from the result.
    pub(crate) const fn has_worked(&self) -> bool {
        matches!(self.activity, Activity::Output | Activity::Capture | Activity::Export)
    }

    /// When it has taken too long: as a whole, and the attempt that it makes.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Option<Alarm>> {
        let attempt = match &self.activity {
            Activity::Try(trying) => trying.attempt_deadline,
            _ => None,
        };
        [self.deadline, attempt].into_iter()
    }

    /// The same, to be changed.
    pub(crate) fn deadlines_mut(&mut self) -> [Option<&mut Alarm>; 2] {
        let attempt = match &mut self.activity {
            Activity::Try(trying) => trying.attempt_deadline.as_mut(),
            _ => None,
        };
        [self.deadline.as_mut(), attempt]
    }

    /// All timers that are set in it.
    pub(crate) fn alarms(&self) -> impl Iterator<Item = Alarm> {
        let of_activity = match &self.activity {
            Activity::Waiting(alarm) | Activity::Again(alarm, _) | Activity::Asking(alarm, _) => {
                [Some(*alarm), None]
            }
            Activity::Try(trying) => [trying.attempt_deadline, trying.stage.delay()],
            Activity::Undoing(undoing) => [undoing.delay, None],
            _ => [None, None],
        };
        self.deadline.into_iter().chain(of_activity.into_iter().flatten())
    }

    /// The same, to be changed.
    pub(crate) fn alarms_mut(&mut self) -> impl Iterator<Item = &mut Alarm> {
        let of_activity = match &mut self.activity {
            Activity::Waiting(alarm) | Activity::Again(alarm, _) | Activity::Asking(alarm, _) => {
                [Some(alarm), None]
            }
            Activity::Try(trying) => [trying.attempt_deadline.as_mut(), trying.stage.delay_mut()],
            Activity::Undoing(undoing) => [undoing.delay.as_mut(), None],
            _ => [None, None],
        };
        self.deadline.iter_mut().chain(of_activity.into_iter().flatten())
    }

    /// Whether something with this ticket is still waited for.
    pub(crate) fn waits_for(&self, ticket: Ticket) -> bool {
        let evaluates = self.evaluating.as_ref().is_some_and(|known| known.ticket == ticket);
        if evaluates || self.alarms().any(|alarm| alarm.ticket == ticket) {
            return true;
        }
        match &self.activity {
            Activity::Calling(calling) => calling.ticket == ticket,
            Activity::Publishing { ticket: known, .. } | Activity::Child { ticket: known, .. } => {
                *known == ticket
            }
            Activity::Undoing(undoing) => undoing.child == Some(ticket),
            _ => false,
        }
    }
}

/// An expression that a worker evaluates.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Evaluating {
    #[n(0)]
    pub(crate) ticket: Ticket,
    #[n(1)]
    pub(crate) source: String,
    #[n(2)]
    pub(crate) input: Datum,
    #[n(3)]
    pub(crate) bindings: Vec<(String, Datum)>,
}

/// A timer that was set.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Alarm {
    #[n(0)]
    pub(crate) ticket: Ticket,
    #[n(1)]
    pub(crate) at: Time,
}

/// What a task is doing.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) enum Activity {
    /// About to decide whether to run at all.
    #[n(0)]
    Condition,
    /// About to transform its input.
    #[n(1)]
    Input,
    /// About to do what its kind does.
    #[n(2)]
    Begin,
    /// Running the tasks of a list.
    #[n(3)]
    Sequence {
        /// The task to enter next.
        #[n(0)]
        next: u32,
        /// How often the list went back: entries of one task are told apart by it.
        #[n(1)]
        jumps: u64,
    },
    /// Looking at the cases of a switch.
    #[n(4)]
    Switch(#[n(0)] u32),
    /// Going over a list, one item after the other.
    #[n(5)]
    Loop {
        #[n(0)]
        items: Datum,
        /// The iteration that runs or is about to.
        #[n(1)]
        index: u64,
        /// Whether the body of this iteration runs.
        #[n(2)]
        inside: bool,
    },
    /// Waiting for branches: fork, concurrent loop, graph, parallel undo.
    #[n(6)]
    Gather(#[n(0)] JoinId),
    /// Trying.
    #[n(7)]
    Try(#[n(0)] Trying),
    /// Waiting for a timer.
    #[n(8)]
    Waiting(#[n(0)] Alarm),
    /// Waiting for an answer.
    #[n(9)]
    Calling(#[n(0)] Box<Calling>),
    /// Waiting until an event is stored.
    #[n(10)]
    Publishing {
        #[n(0)]
        ticket: Ticket,
        #[n(1)]
        event: Datum,
    },
    /// Waiting for events.
    #[n(11)]
    Listening(#[n(0)] Box<Listening>),
    /// Running the task of a function, or an alternative.
    #[n(12)]
    Function {
        /// Which alternative runs; zero is the function itself.
        #[n(0)]
        alternative: u32,
        /// What the function or alternative was given.
        #[n(1)]
        arguments: Datum,
    },
    /// Waiting for a child execution.
    #[n(13)]
    Child {
        #[n(0)]
        ticket: Ticket,
        #[n(1)]
        child: ExecutionId,
        #[n(2)]
        input: Datum,
    },
    /// Working off a compensation continuation (the frame's plan).
    #[n(14)]
    Compensating(#[n(0)] Compensating),
    /// Undoing one completed task.
    #[n(15)]
    Undoing(#[n(0)] Box<Undoing>),
    /// Waiting for a person.
    #[n(16)]
    Parked {
        #[n(0)]
        effect: EffectId,
        #[n(1)]
        reason: String,
        #[n(2)]
        resume: Box<Self>,
    },
    /// About to transform its output.
    #[n(17)]
    Output,
    /// About to keep what an undo will need.
    #[n(18)]
    Capture,
    /// About to make the new context.
    #[n(19)]
    Export,
    /// It raised an error that nothing caught: the execution has faulted here. With its call, if that
    /// may have happened.
    #[n(20)]
    Failed(#[n(0)] Fault, #[n(1)] Option<Box<Calling>>),
    /// Transforming and exporting one item of `listen.foreach` (see `Listening`).
    #[n(21)]
    Item(#[n(0)] Box<Listening>, #[n(1)] ItemPhase),
    /// Waiting for the items of a scattered graph step.
    #[n(22)]
    Scatter {
        #[n(0)]
        join: JoinId,
        /// The step's number in the graph.
        #[n(1)]
        step: u32,
    },
    /// Waiting before a retriable task is tried again in place, and its call, if that may have
    /// happened.
    #[n(23)]
    Again(#[n(0)] Alarm, #[n(1)] Option<Box<Calling>>),
    /// Waiting before it is asked again whether a call happened.
    #[n(24)]
    Asking(#[n(0)] Alarm, #[n(1)] Box<Calling>),
    /// Rolling back the workflow that it ran, whose error it raises then.
    #[n(25)]
    Raising(#[n(0)] Fault),
}

impl Activity {
    /// The call that was made and not answered.
    pub(crate) fn unanswered(&self) -> Option<&Calling> {
        match self {
            Self::Calling(calling) | Self::Asking(_, calling) => Some(calling),
            Self::Again(_, calling) | Self::Failed(_, calling) => calling.as_deref(),
            Self::Parked { resume, .. } => resume.unanswered(),
            _ => None,
        }
    }

    /// Where the branches come together that it has forked.
    pub(crate) const fn join(&self) -> Option<JoinId> {
        match self {
            Self::Gather(join) | Self::Scatter { join, .. } => Some(*join),
            Self::Compensating(compensating) => compensating.parts,
            _ => None,
        }
    }
}

/// What is done with one item of `listen.foreach`.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum ItemPhase {
    #[n(0)]
    Body,
    #[n(1)]
    Output,
    #[n(2)]
    Export,
    #[n(3)]
    Until,
}

/// How far a `try` has come.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Trying {
    #[n(0)]
    pub(crate) stage: TryStage,
    /// Retries so far.
    #[n(1)]
    pub(crate) retries: u64,
    /// When the first attempt began.
    #[n(2)]
    pub(crate) since: Time,
    /// The context at the beginning, restored before each attempt.
    #[n(3)]
    pub(crate) context: Datum,
    /// When this attempt has taken too long.
    #[n(4)]
    pub(crate) attempt_deadline: Option<Alarm>,
    /// Calls of earlier attempts of which it is not known whether they happened. A call at the
    /// same place with the same request asks again with the same key.
    #[n(5)]
    pub(crate) uncertain: Vec<PlanEntry>,
}

/// What a `try` is doing.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) enum TryStage {
    /// Running its body.
    #[n(0)]
    Body,
    /// Undoing a failed attempt before the next one.
    #[n(1)]
    RollingBack(#[n(0)] Time),
    /// Waiting before the next attempt.
    #[n(2)]
    Delaying(#[n(0)] Alarm),
    /// Running `catch.do`.
    #[n(3)]
    Handling(#[n(0)] Fault),
}

impl TryStage {
    /// What it waits for before the next attempt.
    const fn delay(&self) -> Option<Alarm> {
        match self {
            Self::Delaying(alarm) => Some(*alarm),
            _ => None,
        }
    }

    /// The same, to be changed.
    const fn delay_mut(&mut self) -> Option<&mut Alarm> {
        match self {
            Self::Delaying(alarm) => Some(alarm),
            _ => None,
        }
    }
}

/// A call that is under way.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Calling {
    #[n(0)]
    pub(crate) ticket: Ticket,
    #[n(1)]
    pub(crate) request: Request,
    /// Whether the same operation was asked for before and its answer never came.
    #[n(2)]
    pub(crate) doubt: bool,
    /// What the call carries, if that is large: the request has null in its place.
    #[n(3)]
    pub(crate) payload: Option<Datum>,
}

impl Calling {
    pub(crate) fn new(
        ticket: Ticket,
        mut request: Request,
        doubt: bool,
        large: &mut LargeValues,
    ) -> Self {
        let payload = request.target.payload_mut();
        let payload = match large.intern(std::mem::take(payload)) {
            Datum::Small(small) => {
                *payload = small.into();
                None
            }
            large => Some(large),
        };
        Self { ticket, request, doubt, payload }
    }

    /// The request as it is made.
    pub(crate) fn whole_request(&self, large: &LargeValues) -> Request {
        let mut request = self.request.clone();
        if let Some(payload) = &self.payload {
            *request.target.payload_mut() = large.value(payload);
        }
        request
    }
}

/// Events being waited for.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Listening {
    #[n(0)]
    pub(crate) ticket: Ticket,
    /// The events (or items) consumed so far.
    #[n(1)]
    pub(crate) collected: JoinId,
    /// How many.
    #[n(2)]
    pub(crate) count: u32,
    /// Which filters of `all` have had their event.
    #[n(3)]
    pub(crate) met: BTreeSet<u32>,
    /// Which filters of `until` have had their event.
    #[n(4)]
    pub(crate) until_met: BTreeSet<u32>,
    /// What the first event fixed for a correlation.
    #[n(5)]
    pub(crate) correlations: Vec<(String, Datum)>,
    /// Events that came while an item was being worked on.
    #[n(6)]
    pub(crate) queue: Vec<Datum>,
    /// The item being worked on.
    #[n(7)]
    pub(crate) item: Option<Datum>,
    /// Whether no more events are wanted.
    #[n(8)]
    pub(crate) closed: bool,
}

/// How a compensation continuation is worked off.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Compensating {
    #[n(0)]
    pub(crate) order: CompensationOrder,
    #[n(1)]
    pub(crate) on_failure: Failure,
    /// What was undone, if someone wants to know.
    #[n(2)]
    pub(crate) results: Option<JoinId>,
    #[n(3)]
    pub(crate) count: u32,
    /// Stop when the completion of this task comes up.
    #[n(4)]
    pub(crate) until: Option<TaskId>,
    /// Parts that are being undone at once.
    #[n(5)]
    pub(crate) parts: Option<JoinId>,
}

/// What an undo that failed for good does.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum Failure {
    /// Raises its error at the compensating task.
    #[n(0)]
    Raise,
    /// Is noted, and the rest is undone.
    #[n(1)]
    Continue,
    /// Waits for a person.
    #[n(2)]
    Park,
}

impl From<OnFailure> for Failure {
    fn from(on_failure: OnFailure) -> Self {
        match on_failure {
            OnFailure::Raise => Self::Raise,
            OnFailure::Continue => Self::Continue,
        }
    }
}

/// One undo that is under way.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Undoing {
    #[n(0)]
    pub(crate) entry: PlanEntry,
    #[n(1)]
    pub(crate) retries: u64,
    #[n(2)]
    pub(crate) since: Time,
    /// The delay before the next try.
    #[n(3)]
    pub(crate) delay: Option<Alarm>,
    /// The child being rolled back.
    #[n(4)]
    pub(crate) child: Option<Ticket>,
    /// Calls of earlier tries of which it is not known whether they happened.
    #[n(5)]
    pub(crate) uncertain: Vec<PlanEntry>,
}
