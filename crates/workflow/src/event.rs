//! What can happen to an execution.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use outlast_expressions::Value;
use outlast_lineage::{BranchId, EffectId, Epoch, ExecutionId, NodeId, Point};

use crate::{Fault, Outcome};

/// Who advances an execution, and in which of its terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Author {
    /// The node.
    pub node: NodeId,
    /// Its term: rises with every start of the node.
    pub epoch: Epoch,
    /// The first of its terms in a row in which nobody else has advanced the execution, in one life of the
    /// node: whatever it asked for since then, it is told.
    pub since: Epoch,
}

impl Author {
    /// A node in a term, which answers for nothing before.
    pub const fn new(node: NodeId, epoch: Epoch) -> Self {
        Self { node, epoch, since: epoch }
    }

    /// Whether it made the call of an effect, and is told the answer.
    pub fn made(&self, effect: EffectId) -> bool {
        let Point { author, epoch, .. } = effect.point;
        author == self.node && (self.since..=self.epoch).contains(&epoch)
    }
}

/// What a command is answered with: never given twice in one execution. An event with a ticket
/// nobody waits for changes nothing but the ledger.
///
/// It names the branch that waits, so that an answer finds it without a search, and a number that
/// the branch counts up, so that every copy of the branch gives the same tickets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Ticket {
    /// The branch that waits.
    #[n(0)]
    pub branch: BranchId,
    /// Counted up by the branch.
    #[n(1)]
    pub number: u32,
}

/// Something that happened and may move the execution on.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call was answered, or it is known that no answer will come.
    Answered {
        /// The call's ticket.
        ticket: Ticket,
        /// What came back.
        answer: Answer,
    },
    /// A call that waits for a person was answered at another node, which had made it. An answer that does not
    /// say what became of the call changes nothing, and so does one to any other call.
    AnsweredElsewhere {
        /// The call's ticket.
        ticket: Ticket,
        /// The call's effect.
        effect: EffectId,
        /// Whether nobody had asked for the same operation before.
        first: bool,
        /// What came back.
        answer: Answer,
    },
    /// A worker evaluated an expression.
    Evaluated {
        /// The evaluation's ticket.
        ticket: Ticket,
        /// Its value, or why it has none.
        result: Result<Value, String>,
    },
    /// A timer set by `Command::SetTimer` is due.
    TimerFired(Ticket),
    /// A CloudEvent came in that a subscription of this execution may want.
    Arrived {
        /// The number the engine gave the event, or, where several nodes hold the execution, one that
        /// follows from what the event is; an execution consumes a number at most once.
        number: u64,
        /// The event, as a CloudEvent object.
        event: Value,
    },
    /// A child execution was started, ended or was rolled back.
    ChildEnded {
        /// The ticket of `Command::StartChild` or `Command::CompensateChild`.
        ticket: Ticket,
        /// How.
        outcome: Outcome,
    },
    /// An emitted event, or what was started, by its number in the outbox, has left.
    Released(u64),
    /// Fuel was spent; go on.
    Continue,
    /// Something happened while calls were held back: what it stops of them never left.
    WhileHeldBack {
        /// The calls that have not left, now or earlier.
        unsent: BTreeSet<Ticket>,
        /// What happened.
        event: Box<Self>,
    },
    /// Someone asked to stop.
    CancelRequested,
    /// Someone asked to roll everything back and stop, and said why.
    CompensateRequested(String),
    /// Someone asked to hold.
    SuspendRequested,
    /// Someone asked to go on.
    ResumeRequested,
    /// Someone asked to try the failed task of a faulted execution again.
    RetryRequested,
    /// Someone found out what became of a parked effect.
    Resolved {
        /// The parked effect.
        effect: EffectId,
        /// What became of it.
        resolution: Resolution,
    },
    /// A branch that was cut off came back.
    Returned {
        /// The branch.
        branch: BranchId,
        /// The epoch it was cut in; any other changes nothing but the ledger.
        epoch: Epoch,
        /// The branch as its holder left it.
        remote: Box<crate::Execution>,
    },
    /// A new author goes on from here. Asks for everything again that is open. Calls of earlier
    /// authors that must not be repeated are made anew, as effects of the new author; the old ones
    /// leave the ledger (`EffectNote::Disowned`) and are their authors' debts. Pivots that must not
    /// be repeated, and undos, are parked instead.
    TakenOver {
        /// Pivots that are known never to have left: they are made anew.
        never_left: BTreeSet<EffectId>,
    },
    /// Whoever goes on from here has another clock than whoever set the timers: those are as far away
    /// afterwards as they were for that one.
    ClockDiffers {
        /// By how many microseconds the clock of whoever was here before is ahead.
        ahead: i64,
    },
    /// Another line of this execution was decided on: this copy goes no further, neither forward
    /// nor back. It still takes answers to calls that are under way, so that what happened can be
    /// undone.
    LineLost,
    /// Undo these of the effects that this line had. The first time, everything under way is
    /// stopped for good. What is not named stays as it is; what this copy knows nothing to undo of
    /// owes nothing. Effects named later are undone after those named before.
    Withdrawn {
        /// Those that are not on the line that was decided on.
        undo: BTreeSet<EffectId>,
    },
    /// The rest of the effects is on the line that was decided on: this copy is done with them.
    WithdrawalClosed,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It succeeded.
    Succeeded(Value),
    /// It succeeded, and this is more than the execution may hold, for this reason: of the value only
    /// what undoes the call is kept.
    TooLarge(Value, Fault),
    /// It definitely failed: the provider said so, or it was never reached.
    Failed(Fault),
    /// It may or may not have happened.
    Unknown(Fault),
}

/// What a person found out about a parked effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// It happened, with this result (forward) or it is undone (undo).
    Done(Value),
    /// It did not happen. An undo is then made as a new operation, with a new key.
    NotDone,
    /// Ask again with the same key.
    Retry,
    /// Give it up: forward calls fault, undos are dropped; audited.
    Abandon,
}

/// How an execution came to be.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its id.
    pub id: ExecutionId,
    /// Its raw input.
    pub input: Value,
    /// Makes the stand-ins for secrets impossible to guess.
    pub salt: [u8; 16],
    /// Whether it must stay able to be rolled back after it completed: it is someone's child.
    pub keep_plan: bool,
    /// Whether several nodes hold it: then what it emits, or starts without waiting for its end,
    /// leaves only when it is released (`Execution::outbox`), and it tells events by what they are.
    pub shared: bool,
    /// How many executions started each other before this one, where several nodes hold it: there is
    /// an end to that.
    pub depth: u32,
}
