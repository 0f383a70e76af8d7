//! What an execution wants done.

use std::time::Duration;

use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, Time};

use crate::{Outcome, Request, Ticket};

/// What an execution wants done. Everything that is still open after a restart is asked for again
/// by `Execution::open_commands`, with the same tickets and keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Call a service; answer with `Event::Answered`.
    Call {
        /// Who waits for the answer.
        ticket: Ticket,
        /// The call.
        request: Box<Request>,
    },
    /// Stop waiting for a call: its answer is no longer wanted (it may still come).
    Abandon(Ticket),
    /// The result of a call is not wanted any more. If it has not left, it must not; if it has, its answer
    /// is still to be given: only a person could say otherwise what became of it.
    Unwanted(Ticket),
    /// Evaluate an expression that is not bounded, in a worker; answer with `Event::Evaluated`.
    Evaluate {
        /// Who waits for the value.
        ticket: Ticket,
        /// The expression and what it sees.
        request: Box<EvaluationRequest>,
    },
    /// Fire this timer at a time; a timer is set once and may be cancelled.
    SetTimer {
        /// Who waits.
        ticket: Ticket,
        /// Until when.
        at: Time,
    },
    /// The timer is no longer needed; firing it does no harm.
    CancelTimer(Ticket),
    /// Publish a CloudEvent to listeners on this node and to watchers; answer with
    /// `Event::Answered` (`Succeeded(null)`) once it is stored. Its `id` is the same when it is asked
    /// for again after a restart, so that publishing twice publishes once.
    Publish {
        /// Who waits.
        ticket: Ticket,
        /// The event, as a CloudEvent object.
        event: Value,
    },
    /// From now on, events that may fit are wanted as `Event::Arrived`; those still buffered too.
    Subscribe {
        /// Names the subscription.
        ticket: Ticket,
        /// The types that may fit; nothing is every type. Only a hint: the execution filters.
        types: Option<Vec<String>>,
    },
    /// No more events for this subscription.
    Unsubscribe(Ticket),
    /// Start a child execution; its id is given, so that starting twice starts once. If `wait`,
    /// answer with `Event::ChildEnded` when it ended; otherwise as soon as it exists.
    StartChild {
        /// Who waits.
        ticket: Ticket,
        /// The child's id.
        child: ExecutionId,
        /// What it runs.
        namespace: String,
        /// What it runs.
        name: String,
        /// A version, or `latest`.
        version: String,
        /// Its input.
        input: Value,
        /// Whether its end is waited for.
        wait: bool,
    },
    /// Stop a child; one whose end is not waited for is only kept from beginning.
    CancelChild(ExecutionId),
    /// Roll a child back, whether it ended or not; answer with `Event::ChildEnded`.
    CompensateChild {
        /// Who waits.
        ticket: Ticket,
        /// The child.
        child: ExecutionId,
    },
    /// The parent has ended: the child's plan is no longer needed.
    ReleaseChild(ExecutionId),
    /// Send `Event::Continue` when others have had their turn.
    Yield,
    /// The execution ended. (It may be retried or rolled back later.)
    End(Outcome),
}

/// An expression for a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationRequest {
    /// The source text of the filter.
    pub source: String,
    /// What `.` is.
    pub input: Value,
    /// The variables it mentions and their values.
    pub bindings: Vec<(String, Value)>,
    /// How long it may take, if the document says; the worker has its own bound.
    pub timeout: Option<Duration>,
}
