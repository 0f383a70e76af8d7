//! One task of a program.

use super::{Expression, Graph, Place, RetryPolicy, Service, TaskId, Template, Transform};

/// A task: what every task can have, and what only its kind has.
#[derive(Clone, Debug)]
pub struct Task {
    /// The name in its task list.
    pub name: String,
    /// Where it stands. The pointer is the `instance` of errors and `$task.reference`.
    pub place: Place,
    /// Skipped unless this holds on the raw input.
    pub condition: Option<Expression>,
    /// Checks the raw input, then transforms it.
    pub input: Transform,
    /// Transforms the raw output, then checks it.
    pub output: Transform,
    /// Makes the new `$context` from the transformed output, then checks it.
    pub export: Transform,
    /// How long it may take: a duration (ISO 8601 text or duration object).
    pub timeout: Option<Template>,
    /// What comes after it.
    pub then: Flow,
    /// What it does.
    pub kind: Kind,
    /// What `metadata.outlast` says.
    pub traits: Traits,
}

/// What comes after a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flow {
    /// The next task of the list.
    #[default]
    Continue,
    /// The list ends here.
    Exit,
    /// The workflow ends here.
    End,
    /// The task at this index of the same list.
    Goto(u32),
}

/// What a task does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `do`: one after the other.
    Sequence(Vec<TaskId>),
    /// `set`.
    Set(Template),
    /// `switch`: the first case that holds decides what comes next.
    Switch(Vec<Case>),
    /// `for`.
    Loop {
        /// The name of the item variable, without `$`.
        each: String,
        /// The name of the index variable.
        at: String,
        /// The list to go over.
        items: Template,
        /// Checked before each iteration.
        condition: Option<Expression>,
        /// A sequence.
        body: TaskId,
        /// Iterations in flight; 1 is Open Workflow's order, where one feeds the next.
        concurrency: u32,
    },
    /// `fork`.
    Fork {
        /// The branches in order of declaration.
        branches: Vec<TaskId>,
        /// The first to finish wins and the others are undone.
        compete: bool,
    },
    /// `try`.
    Try {
        /// A sequence.
        body: TaskId,
        /// What is caught, and what then.
        catch: Catch,
    },
    /// `raise`: an error object (`type`, `status`, `title?`, `detail?`).
    Raise(Template),
    /// `wait`: a duration.
    Wait(Template),
    /// `emit`: the attributes of a CloudEvent.
    Emit(Template),
    /// `listen`.
    Listen {
        /// What is waited for.
        to: EventStrategy,
        /// What of each event is read.
        read: ReadMode,
        /// `foreach`: item variable, index variable, a sequence run for each event, and the
        /// transforms of each item.
        each: Option<ListenEach>,
    },
    /// `call` of a service.
    Call {
        /// What is called.
        service: Service,
        /// What it is called with.
        arguments: Option<Template>,
    },
    /// `call` of a function of `use.functions`: runs its task with the arguments as input.
    Function {
        /// The function's task, shared by all calls of it.
        body: TaskId,
        /// Its input; without arguments, the calling task's input.
        arguments: Option<Template>,
    },
    /// `call: compensate:1.0.0@default`.
    Compensate {
        /// The enclosing task whose scope is rolled back; nothing is the innermost.
        scope: Option<TaskId>,
        /// Roll back only what came after this task completed.
        until: Option<TaskId>,
        /// In which order.
        order: CompensationOrder,
        /// What a failed undo does.
        on_failure: OnFailure,
    },
    /// `run: workflow`.
    RunWorkflow {
        /// The child's namespace.
        namespace: String,
        /// The child's name.
        name: String,
        /// The child's version, or `latest`.
        version: String,
        /// The child's input.
        input: Option<Template>,
        /// Whether the task waits for the child's end.
        wait: bool,
    },
    /// Steps ordered by data.
    Graph(Graph),
    /// Valid language that this release does not run; reaching it is a configuration error that
    /// says so.
    Unsupported(String),
}

/// `listen.foreach`.
#[derive(Clone, Debug)]
pub struct ListenEach {
    /// The name of the item variable.
    pub item: String,
    /// The name of the index variable.
    pub at: String,
    /// A sequence run for each event.
    pub body: Option<TaskId>,
    /// Transforms each item's output.
    pub output: Transform,
    /// Makes the new context after each item.
    pub export: Transform,
}

/// One case of a switch.
#[derive(Clone, Debug)]
pub struct Case {
    /// The case's name.
    pub name: String,
    /// The default case has no condition.
    pub when: Option<Expression>,
    /// What comes next.
    pub then: Flow,
}

/// `catch`.
#[derive(Clone, Debug)]
pub struct Catch {
    /// Only errors with these properties.
    pub errors: ErrorFilter,
    /// The name of the error variable, without `$`.
    pub variable: String,
    /// Only if this holds.
    pub when: Option<Expression>,
    /// Not if this holds.
    pub except_when: Option<Expression>,
    /// Tried again by this policy before the error is handled.
    pub retry: Option<Box<RetryPolicy>>,
    /// Handles the error: a sequence.
    pub body: Option<TaskId>,
    /// What comes after a handled error, if not what comes after the task.
    pub then: Option<Flow>,
}

/// Properties an error must have. Everything that is not named fits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorFilter {
    /// The error's type; the spellings of a standard type count as one.
    pub kind: Option<String>,
    /// The error's status.
    pub status: Option<u16>,
    /// Where it was raised.
    pub instance: Option<String>,
    /// The error's title.
    pub title: Option<String>,
    /// The error's detail.
    pub detail: Option<String>,
}

/// What of an event a listener reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadMode {
    /// Its data.
    #[default]
    Data,
    /// The whole CloudEvent.
    Envelope,
    /// Its data, as it came.
    Raw,
}

/// Which events a listener waits for.
#[derive(Clone, Debug)]
pub enum EventStrategy {
    /// One event for each filter.
    All(Vec<EventFilter>),
    /// Any one of the filters (none: every event), until something holds.
    Any(Vec<EventFilter>, Option<Until>),
    /// One event.
    One(EventFilter),
}

/// When a listener for any events stops.
#[derive(Clone, Debug)]
pub enum Until {
    /// After an event for which this holds.
    Condition(Expression),
    /// When these events have come; they are not part of the output.
    Consumed(Box<EventStrategy>),
}

/// Properties an event must have.
#[derive(Clone, Debug)]
pub struct EventFilter {
    /// Attribute and what it must be: equal, matched by it as a whole (strings), or, for computed
    /// ones, true when the filter is evaluated on the event's attribute value.
    pub with: Vec<(String, Template)>,
    /// Correlation name, expression on the event, and the expected value if it is not the first
    /// event that fixes it.
    pub correlate: Vec<(String, Expression, Option<Template>)>,
}

/// What `metadata.outlast` says of a task.
#[derive(Clone, Debug, Default)]
pub struct Traits {
    /// What kind of effect it has.
    pub class: Option<Class>,
    /// How it is undone.
    pub compensation: Option<Compensation>,
    /// Whether it is a compensation scope of its own (said, or a `try` with something to undo).
    pub scope: bool,
    /// Functions tried in order when the call fails.
    pub alternatives: Vec<TaskId>,
    /// How its provider is told of repetition.
    pub idempotency: Option<Idempotency>,
    /// Whether some `compensate` names it in `until`.
    pub milestone: bool,
}

/// What kind of effect a task has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// None.
    Readonly,
    /// One that can be undone.
    Compensatable,
    /// One that succeeds if tried often enough.
    Retriable,
    /// Both.
    CompensatableRetriable,
    /// One that can be neither undone nor repeated.
    Pivot,
}

/// How a task is undone.
#[derive(Clone, Debug)]
pub struct Compensation {
    /// What undoes it.
    pub undo: Undo,
    /// What is kept for the undo when the task completes (input: the transformed output; also
    /// `$input`, `$output`, `$context`). Without it: `{input, output}`.
    pub capture: Option<Template>,
    /// What undoing costs, on the captured value. Without it: 0.
    pub cost: Option<Template>,
    /// How a failed undo is tried again.
    pub retry: Option<Box<RetryPolicy>>,
    /// How long one try of the undo may take.
    pub timeout: Option<Template>,
    /// Whether the undo holds even if the call never ran, or comes only afterwards. Then a call whose
    /// outcome is unknown is undone without being asked for again, with `$output` null in `capture`.
    pub tolerant: bool,
}

/// What undoes a task.
#[derive(Clone, Debug)]
pub enum Undo {
    /// Nothing is to be undone.
    Nothing,
    /// A task run with the captured value as its input.
    Run(TaskId),
}

/// How a provider is told of repetition.
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// The key instead of the operation key.
    pub key: Option<Template>,
    /// The header instead of `Idempotency-Key`.
    pub header: Option<String>,
    /// Whether the provider knows no keys: it acts each time it is asked, so it is asked once.
    pub none: bool,
}

/// In which order a scope is rolled back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, minicbor::Encode, minicbor::Decode)]
#[cbor(index_only)]
pub enum CompensationOrder {
    /// One after the other, last first.
    #[default]
    #[n(0)]
    Reverse,
    /// At once where nothing depends on the other.
    #[n(1)]
    Parallel,
}

/// What an undo that failed for good does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, minicbor::Encode, minicbor::Decode)]
#[cbor(index_only)]
pub enum OnFailure {
    /// The error is raised at the compensating task.
    #[default]
    #[n(0)]
    Raise,
    /// It is noted in the output and in the history, and the rest is undone.
    #[n(1)]
    Continue,
}
