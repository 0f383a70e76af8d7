//! What people and engines ask of an execution.

use std::collections::{BTreeMap, BTreeSet};

use outlast_expressions::Value;
use outlast_lineage::{BranchId, Digest, EffectId, EffectState, ExecutionId, Ledger, Time};

use super::plan::{PlanEntry, PlanId};
use super::surroundings::Surroundings;
use super::{Activity, Branch, Calling, Datum, Departure, Execution, Frame, Outgoing, Stage};
use crate::interpreter::{effect_of, effect_under_way};
use crate::{Outcome, TaskId, Ticket};

/// What an execution is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    /// Something is under way.
    Running,
    /// Everything that is under way waits for time, for events or for a person.
    Waiting,
    /// On hold because someone asked.
    Suspended,
    /// Being rolled back.
    Compensating,
    /// Ended.
    Ended,
}

/// Something that waits for a person to find out what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parked {
    /// What to name when resolving it.
    pub effect: EffectId,
    /// The task.
    pub task: TaskId,
    /// Why it waits.
    pub reason: String,
    /// Whether it is an undo.
    pub undo: bool,
    /// The key by which the provider knows the effect: the one it was given, or, of an undo, told as that of
    /// the call that it undoes.
    pub key: Option<String>,
}

/// How far a line that was given up has come with undoing what it did.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Withdrawal {
    /// Asked for and not undone yet; the next to be undone comes last.
    pub owed: Vec<EffectId>,
    /// What could be undone and was not asked for, oldest first. Branches that ran side by side
    /// come one after the other.
    pub left: Vec<EffectId>,
    /// What was undone, or given up by a person; what is in no list never happened, or needs no undo.
    pub undone: BTreeSet<EffectId>,
    /// What waits for a person; it is owed too, and so is everything before it.
    pub parked: Vec<Parked>,
    /// Children this line had started: the line that was decided on may have them too.
    pub children: Vec<ExecutionId>,
}

/// How far a task is, for a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskProgress {
    /// Under way.
    Running,
    /// Waiting for time, for events or for a person.
    Waiting,
    /// It raised the error that ended the run.
    Failed,
}

/// An event that was emitted, or a workflow that is to be started, and has not left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Emitted {
    /// Its number in the outbox.
    pub number: u64,
    /// When it was emitted, on the clock of whoever did.
    pub emitted: Time,
    /// Whether it may leave before it is decided that its line counts.
    pub at_once: bool,
}

/// A workflow that is to be started, and whose end nobody waits for.
#[derive(Clone, PartialEq, Debug)]
pub struct Detached {
    /// Its id: the same on every line.
    pub child: ExecutionId,
    /// The task that runs it.
    pub task: TaskId,
    /// Never answered.
    pub ticket: Ticket,
    /// What it is given.
    pub input: Value,
    /// When its task was run, on the clock of whoever did.
    pub at: Time,
}

impl Execution {
    /// The id.
    pub const fn id(&self) -> ExecutionId {
        self.id
    }

    /// The digest of the definition it is pinned to.
    pub const fn definition(&self) -> Digest {
        self.definition
    }

    /// When it began.
    pub const fn started_at(&self) -> Time {
        self.started_at
    }

    /// The raw input of the workflow.
    pub fn input(&self) -> Value {
        self.large.value(&self.input)
    }

    /// The salt of its stand-ins for secrets: for whoever replaces them, and nobody else.
    pub const fn salt(&self) -> &[u8; 16] {
        &self.salt
    }

    /// How it ended, if it did.
    pub const fn outcome(&self) -> Option<&Outcome> {
        self.head.outcome.as_ref()
    }

    /// Whether what it did can still be undone as a whole: it has not ended, has faulted, or keeps its
    /// plan though it has completed or was stopped.
    pub const fn can_be_rolled_back(&self) -> bool {
        match &self.head.outcome {
            None | Some(Outcome::Faulted(_)) => true,
            Some(Outcome::Completed(_) | Outcome::Cancelled) => self.keep_plan,
            Some(Outcome::Compensated(_)) => false,
        }
    }

    /// Completed activities; retries and undos do not count.
    pub const fn progress(&self) -> u64 {
        self.head.progress
    }

    /// What was done to the outside world and is still of consequence.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        if self.head.outcome.is_some() {
            return Status::Ended;
        }
        if self.head.suspended {
            return Status::Suspended;
        }
        if self.is_rolled_back() {
            return Status::Compensating;
        }
        let idle = self.branches.values().all(|branch| match branch.top() {
            Some(frame) => is_idle(frame),
            None => true,
        });
        if idle && self.head.ready.is_empty() { Status::Waiting } else { Status::Running }
    }

    /// Whether it is being rolled back, on hold or not: as a whole, or, once that is done, beside it.
    pub const fn is_rolled_back(&self) -> bool {
        let (head, stage) = (&self.head, &self.head.stage);
        let back = matches!(stage, Stage::RollingBack(_) | Stage::Lost(_) | Stage::Withdrawing);
        let beside = matches!(stage, Stage::Closing(Outcome::Compensated(_)));
        head.outcome.is_none() && (back || beside)
    }

    /// Everything that waits for a person.
    pub fn parked(&self) -> Vec<Parked> {
        self.branches.values().filter_map(|branch| self.parked_in(branch)).collect()
    }

    fn parked_in(&self, branch: &Branch) -> Option<Parked> {
        let frame = branch.top()?;
        let Activity::Parked { effect, reason, resume } = &frame.activity else { return None };
        // A call that undoes goes by the name of what it undoes, and has another key.
        let own = resume.unanswered().filter(|calling| calling.request.effect == *effect);
        let key = own.map(|calling| calling.request.key_text());
        Some(Parked {
            effect: *effect,
            task: frame.task,
            reason: reason.clone(),
            undo: matches!(**resume, Activity::Undoing(_)) || branch.undo().is_some(),
            key: key.or_else(|| Some(self.ledger.get(effect)?.key_text())),
        })
    }

    /// The calls that people are to find out about.
    pub fn parked_calls(&self) -> impl Iterator<Item = Ticket> {
        let parked = self.branches.values().filter_map(|branch| match &branch.top()?.activity {
            Activity::Parked { resume, .. } => resume.unanswered(),
            _ => None,
        });
        parked.map(|calling| calling.ticket)
    }

    /// Whether people are to find out about a call.
    pub fn is_parked_call(&self, call: Ticket, effect: EffectId) -> bool {
        let top = self.branches.get(&call.branch).and_then(Branch::top);
        match top.map(|frame| &frame.activity) {
            Some(Activity::Parked { resume, .. }) => resume
                .unanswered()
                .is_some_and(|it| it.ticket == call && it.request.effect == effect),
            _ => false,
        }
    }

    /// The calls that do something and were asked for once, as far as no answer has come: those under way, those
    /// that wait for a person, and those that are not wanted any more. Whether they left is not known here.
    pub fn unheard_calls(&self) -> Vec<(Ticket, EffectId)> {
        let tops = self.branches.values().filter_map(Branch::top);
        let mut calls: Vec<&Calling> =
            tops.filter_map(|frame| frame.activity.unanswered()).collect();
        self.plans.values().for_each(|plan| list_calls(plan.entries(), &mut calls));
        calls.retain(|it| !it.doubt && !it.request.readonly && !it.request.undo);
        calls.into_iter().map(|calling| (calling.ticket, calling.request.effect)).collect()
    }

    /// Whether the same operation was asked for before this call of it, and its answer never came: then it may have
    /// happened though this call never left.
    pub fn is_asked_again(&self, call: Ticket) -> bool {
        let top = self.branches.get(&call.branch).and_then(Branch::top);
        let calling = top.and_then(|frame| frame.activity.unanswered());
        calling.is_some_and(|calling| calling.ticket == call && calling.doubt)
    }

    /// Whether a call is not wanted any more, and is asked about when the turn comes to undo it.
    pub fn is_asked_about_later(&self, call: Ticket) -> bool {
        // Nearly all answers are waited for, and plans are long.
        if self.branches.get(&call.branch).is_some_and(|branch| waits_for(branch, call)) {
            return false;
        }
        self.asked_about_later(call).is_some()
    }

    /// The call that is asked about when the turn comes to undo it, and the plan that it is in.
    pub(crate) fn asked_about_later(&self, call: Ticket) -> Option<(PlanId, &Calling)> {
        self.plans.iter().find_map(|(id, plan)| {
            let mut calls = Vec::new();
            list_calls(plan.entries(), &mut calls);
            Some((*id, calls.into_iter().find(|calling| calling.ticket == call)?))
        })
    }

    /// Whether it is a line that was lost and does nothing yet but hear what became of its calls.
    pub const fn only_hears(&self) -> bool {
        matches!(self.head.stage, Stage::Lost(_))
    }

    /// How far undoing what this line did has come; nothing before it was first asked for, or after
    /// it was closed.
    pub fn withdrawal(&self) -> Option<Withdrawal> {
        if let Stage::Lost(asked) = &self.head.stage {
            let owed = asked.as_ref()?.iter().copied().collect();
            return Some(Withdrawal { owed, ..Withdrawal::default() });
        }
        let (left, work) = self.withdrawal_plans()?;
        let mut withdrawal = Withdrawal { parked: self.parked(), ..Withdrawal::default() };
        list(self.plans[&left].entries(), &mut withdrawal.left, &mut withdrawal.children);
        list(self.plans[&work].entries(), &mut withdrawal.owed, &mut withdrawal.children);
        let now = self.undo_under_way();
        withdrawal.owed.extend(now.filter(|effect| !withdrawal.owed.contains(effect)));
        let undone = self.ledger.iter().filter(|(_, effect)| effect.state == EffectState::Undone);
        withdrawal.undone.extend(undone.map(|(id, _)| *id));
        Some(withdrawal)
    }

    /// What a line that was given up was asked to undo and has not undone, as `withdrawal` has it.
    pub fn owed_undos(&self) -> Option<BTreeSet<EffectId>> {
        if let Stage::Lost(asked) = &self.head.stage {
            return asked.clone();
        }
        let (_, work) = self.withdrawal_plans()?;
        let mut owed = Vec::new();
        list(self.plans[&work].entries(), &mut owed, &mut Vec::new());
        owed.extend(self.undo_under_way());
        Some(owed.into_iter().collect())
    }

    /// Whether an effect was undone, or given up by a person.
    pub fn is_undone(&self, effect: &EffectId) -> bool {
        self.ledger.get(effect).is_some_and(|effect| effect.state == EffectState::Undone)
    }

    fn undo_under_way(&self) -> Option<EffectId> {
        let trunk = &self.branches[&BranchId::TRUNK];
        trunk.frames().iter().find_map(|frame| effect_under_way(&frame.activity))
    }

    /// The tasks that are under way and what they are doing.
    pub fn tasks_under_way(&self) -> BTreeMap<TaskId, TaskProgress> {
        let mut tasks = BTreeMap::new();
        for branch in self.branches.values() {
            for frame in branch.frames() {
                let progress = match &frame.activity {
                    Activity::Failed(..) => TaskProgress::Failed,
                    _ if is_idle(frame) => TaskProgress::Waiting,
                    _ => TaskProgress::Running,
                };
                tasks.insert(frame.task, progress);
            }
        }
        tasks
    }

    /// What was emitted or is to be started and has not left, oldest first.
    pub fn outbox(&self) -> impl Iterator<Item = Emitted> {
        self.exchange.iter().flat_map(|exchange| exchange.outbox()).map(|outgoing| Emitted {
            number: outgoing.number,
            emitted: outgoing.emitted,
            at_once: outgoing.at_once,
        })
    }

    /// An event that was emitted and has not left.
    pub fn outgoing_event(&self, number: u64) -> Option<Value> {
        let outgoing = self.outgoing(number).filter(|outgoing| outgoing.start.is_none())?;
        Some(self.large.value(&outgoing.event))
    }

    /// A workflow that is to be started and has not been.
    pub fn outgoing_start(&self, number: u64) -> Option<Detached> {
        let outgoing = self.outgoing(number)?;
        let Departure { child, task, ticket } = outgoing.start?;
        let (input, at) = (self.large.value(&outgoing.event), outgoing.emitted);
        Some(Detached { child, task, ticket, input, at })
    }

    fn outgoing(&self, number: u64) -> Option<&Outgoing> {
        self.exchange.as_ref()?.outbox().find(|outgoing| outgoing.number == number)
    }

    /// Whether it was started to be held by several nodes, even if one is left with it.
    pub const fn is_shared(&self) -> bool {
        self.exchange.is_some()
    }

    /// How much it would cost to roll back everything done so far, by the captured costs.
    pub fn undo_cost(&self) -> f64 {
        let plans = self.plans.values();
        plans.map(|plan| self.cost_of(plan.entries())).sum()
    }

    fn cost_of(&self, entries: &[PlanEntry]) -> f64 {
        let costs = entries.iter().map(|entry| match entry {
            PlanEntry::Undo { cost, .. } => {
                outlast_expressions::value::as_f64(&self.large.value(cost)).unwrap_or(0.0)
            }
            PlanEntry::Parallel(lists) => lists.iter().map(|list| self.cost_of(list)).sum(),
            _ => 0.0,
        });
        costs.sum()
    }

    /// The large values that anything names.
    pub(crate) fn named_large_values(&self) -> BTreeSet<Digest> {
        self.named_beside(None)
    }

    /// The same, with a branch that is taken out.
    pub(crate) fn named_beside(&self, branch: Option<&Branch>) -> BTreeSet<Digest> {
        let mut names = Names(BTreeSet::new());
        branch.into_iter().for_each(|branch| names.branch(branch));
        names.datum(&self.input);
        let outbox = self.exchange.iter().flat_map(|exchange| exchange.outbox());
        outbox.for_each(|outgoing| names.datum(&outgoing.event));
        for branch in self.branches.values() {
            names.branch(branch);
        }
        for plan in self.plans.values() {
            names.entries(plan.entries());
        }
        for join in self.joins.values() {
            join.items().into_iter().for_each(|items| names.datum(items));
            for slot in join.slots().values() {
                names.datum(&slot.data);
                slot.context.iter().for_each(|context| names.datum(context));
                names.entries(&slot.plan);
            }
        }
        names.0
    }
}

fn waits_for(branch: &Branch, answer: Ticket) -> bool {
    branch.top().is_some_and(|frame| match &frame.activity {
        Activity::Publishing { ticket, .. } => *ticket == answer,
        activity => activity.unanswered().is_some_and(|calling| calling.ticket == answer),
    })
}

/// The calls among plan entries that may have happened.
fn list_calls<'plan>(entries: &'plan [PlanEntry], calls: &mut Vec<&'plan Calling>) {
    for entry in entries {
        match entry {
            PlanEntry::Parallel(lists) => lists.iter().for_each(|list| list_calls(list, calls)),
            PlanEntry::Uncertain(frames) => {
                calls.extend(frames.last().and_then(|frame| frame.activity.unanswered()));
            }
            _ => {}
        }
    }
}

/// The effects and children of plan entries, oldest first.
fn list(entries: &[PlanEntry], effects: &mut Vec<EffectId>, children: &mut Vec<ExecutionId>) {
    for entry in entries {
        match entry {
            PlanEntry::Parallel(lists) => {
                lists.iter().for_each(|entries| list(entries, effects, children));
            }
            PlanEntry::Child { child, .. } => children.push(*child),
            entry => effects.extend(effect_of(entry)),
        }
    }
}

fn is_idle(frame: &Frame) -> bool {
    match &frame.activity {
        Activity::Waiting(_)
        | Activity::Listening(_)
        | Activity::Parked { .. }
        | Activity::Gather(_)
        | Activity::Scatter { .. }
        | Activity::Failed(..)
        | Activity::Again(..)
        | Activity::Asking(..) => true,
        Activity::Try(trying) => matches!(trying.stage, super::TryStage::Delaying(_)),
        Activity::Undoing(undoing) => undoing.delay.is_some(),
        _ => false,
    }
}

/// Collects the digests of large values.
pub(super) struct Names(pub(super) BTreeSet<Digest>);

impl Names {
    pub(super) fn datum(&mut self, datum: &Datum) {
        if let Datum::Large(digest) = datum {
            self.0.insert(*digest);
        }
    }

    pub(super) fn branch(&mut self, branch: &Branch) {
        self.datum(branch.data());
        self.datum(branch.own_context());
        branch.birth.variables.iter().for_each(|(_, datum)| self.datum(datum));
        branch.birth.workflow.iter().for_each(|nested| self.datum(&nested.input));
        branch.frames().iter().for_each(|frame| self.frame(frame));
    }

    fn frame(&mut self, frame: &Frame) {
        self.datum(&frame.raw);
        frame.transformed.iter().for_each(|input| self.datum(input));
        if let Some(evaluating) = &frame.evaluating {
            self.datum(&evaluating.input);
            evaluating.bindings.iter().for_each(|(_, datum)| self.datum(datum));
        }
        frame.around.iter().for_each(|around| self.surroundings(around));
        self.activity(&frame.activity);
    }

    fn surroundings(&mut self, around: &Surroundings) {
        self.datum(&around.context);
        around.variables.iter().for_each(|(_, datum)| self.datum(datum));
        around.workflow.iter().for_each(|nested| self.datum(&nested.input));
    }

    fn activity(&mut self, activity: &Activity) {
        match activity {
            Activity::Loop { items, .. } => self.datum(items),
            Activity::Try(trying) => {
                self.datum(&trying.context);
                self.entries(&trying.uncertain);
            }
            Activity::Publishing { event, .. } => self.datum(event),
            Activity::Listening(listening) | Activity::Item(listening, _) => {
                listening.queue.iter().for_each(|datum| self.datum(datum));
                listening.item.iter().for_each(|datum| self.datum(datum));
                listening.correlations.iter().for_each(|(_, datum)| self.datum(datum));
            }
            Activity::Function { arguments, .. } => self.datum(arguments),
            Activity::Child { input, .. } => self.datum(input),
            Activity::Undoing(undoing) => {
                self.entries(std::slice::from_ref(&undoing.entry));
                self.entries(&undoing.uncertain);
            }
            Activity::Parked { resume, .. } => self.activity(resume),
            activity => {
                let payload = activity.unanswered().and_then(|calling| calling.payload.as_ref());
                payload.into_iter().for_each(|payload| self.datum(payload));
            }
        }
    }

    pub(super) fn entries(&mut self, entries: &[PlanEntry]) {
        for entry in entries {
            match entry {
                PlanEntry::Undo { captured, cost, around, .. } => {
                    self.datum(captured);
                    self.datum(cost);
                    around.iter().for_each(|around| self.surroundings(around));
                }
                PlanEntry::Parallel(lists) => lists.iter().for_each(|list| self.entries(list)),
                PlanEntry::Uncertain(frames) => frames.iter().for_each(|f| self.frame(f)),
                PlanEntry::Child { .. } | PlanEntry::Milestone(_) => {}
            }
        }
    }
}
