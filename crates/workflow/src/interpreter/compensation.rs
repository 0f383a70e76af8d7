//! Undoing: a compensation continuation is worked off from its end.

use outlast_expressions::{Value, value};
use outlast_lineage::{EffectId, EffectState, Recourse};

use super::requests::uncertain_call;
use super::trying::split_uncertain;
use super::{Machine, Turn};
use crate::execution::{
    Activity, Branch, Compensating, Failure, Frame, JoinId, PlanEntry, PlanId, Slot, Undoing,
    has_happened,
};
use crate::program::{Backoff, Compensation, CompensationOrder, Kind, RetryPolicy, Template, Undo};
use crate::{Command, Fault, FaultKind, Happening, Outcome, Resolution, TaskId, Ticket};

/// How often an undo without a policy of its own is tried again before it counts as failed.
const DEFAULT_RETRIES: u64 = 5;
/// The delay before its first retry; it doubles.
const DEFAULT_DELAY: &str = "PT0.2S";

impl Machine<'_> {
    /// `call: compensate:1.0.0@default`.
    pub(super) fn begin_compensate(&mut self, branch: &mut Branch) -> Turn {
        let Kind::Compensate { scope, until, order, on_failure } = &self.definition(branch).kind
        else {
            unreachable!("only this kind rolls back")
        };
        let plan = match (self.plan_of_scope(branch, *scope), scope) {
            (Some(plan), _) => plan,
            (None, None) => branch.birth.plan,
            (None, Some(scope)) => return self.no_such_scope(branch, *scope),
        };
        let entries = self.plan_mut(plan).drain();
        let entries = self.beside_the_first(entries);
        let own = self.new_plan(branch);
        self.plan_mut(own).extend(entries);
        let results = JoinId(branch.ticket());
        self.join_mut(results);
        let frame = branch.top_mut().expect("a task is being run");
        frame.plan = Some(own);
        frame.activity = Activity::Compensating(Compensating {
            order: *order,
            on_failure: (*on_failure).into(),
            results: Some(results),
            count: 0,
            until: *until,
            parts: None,
        });
        self.happenings.push(Happening::CompensationStarted("the workflow asked for it".into()));
        Turn::Again
    }

    /// The plan of the scope around the innermost task that has a name, or of the nearest.
    fn plan_of_scope(&self, branch: &Branch, scope: Option<TaskId>) -> Option<PlanId> {
        let around = branch.frames().iter().rev().skip(1);
        let named = around.filter(|frame| scope.is_none_or(|scope| scope == frame.task));
        named.into_iter().find_map(|frame| frame.plan)
    }

    fn no_such_scope(&mut self, branch: &mut Branch, scope: TaskId) -> Turn {
        let name = &self.program.task(scope).name;
        let detail = format!(
            "`{name}` is not a scope around this task in its own branch: raise an error here and \
             roll back where `{name}` catches it"
        );
        self.raise(branch, Fault::new(FaultKind::Configuration, "no such scope", detail))
    }

    /// Rolls something back inside a branch before it goes on.
    pub(super) fn push_compensation(
        &mut self,
        branch: &mut Branch,
        entries: Vec<PlanEntry>,
        on_failure: Failure,
    ) {
        let entries = self.beside_the_first(entries);
        let plan = self.new_plan(branch);
        self.plan_mut(plan).extend(entries);
        let around = branch.top().map_or(branch.birth.path, |frame| frame.path);
        let task = branch.top().map_or(crate::Program::ROOT, |frame| frame.task);
        let activity = Activity::Compensating(Compensating {
            order: CompensationOrder::Reverse,
            on_failure,
            results: None,
            count: 0,
            until: None,
            parts: None,
        });
        let data = branch.data().clone();
        let mut frame = self.frame(task, around.inside(task, u64::MAX), data, activity);
        frame.plan = Some(plan);
        branch.push(frame);
    }

    fn compensating<'b>(&self, branch: &'b mut Branch) -> &'b mut Compensating {
        match &mut branch.top_mut().expect("a task is being run").activity {
            Activity::Compensating(compensating) => compensating,
            activity => unreachable!("{activity:?} does not roll back"),
        }
    }

    pub(super) fn next_undo(&mut self, branch: &mut Branch) -> Turn {
        let frame = branch.top().expect("a task is being run");
        let plan = frame.plan.expect("rolling back has a plan");
        let Activity::Compensating(Compensating { until, order, parts, .. }) = &frame.activity
        else {
            unreachable!("the turn was given for rolling back")
        };
        if parts.is_some() {
            return Turn::Wait;
        }
        let (until, order) = (*until, *order);
        let last = self.execution.plans.get(&plan).and_then(|plan| plan.last());
        let reached = matches!((last, until),
            (Some(PlanEntry::Milestone(task) | PlanEntry::Undo { task, .. }), Some(until))
                if *task == until);
        if reached {
            return self.rolled_back(branch);
        }
        match self.plan_mut(plan).pop() {
            None if self.waits_for_more(branch) => Turn::Wait,
            None => self.rolled_back(branch),
            Some(PlanEntry::Milestone(_)) => Turn::Again,
            Some(PlanEntry::Parallel(lists)) => match order {
                CompensationOrder::Reverse => {
                    self.plan_mut(plan).extend(lists.into_iter().flatten());
                    Turn::Again
                }
                CompensationOrder::Parallel => self.undo_in_parallel(branch, lists),
            },
            Some(PlanEntry::Uncertain(frames)) if has_happened(&frames) => {
                self.complete_first(branch, frames)
            }
            Some(entry) if self.leaves_to_another(&entry) => Turn::Again,
            Some(PlanEntry::Uncertain(frames)) => match self.recourse(&frames) {
                Recourse::Nothing => Turn::Again,
                Recourse::Undo => self.undo_unheard(branch, frames),
                Recourse::AskAgain => self.find_out(branch, frames, false),
                Recourse::Park => self.find_out(branch, frames, true),
            },
            Some(entry) => self.begin_undo(branch, entry),
        }
    }

    /// Leaves a call that may have happened to whoever made it, if that is not this author.
    fn leaves_to_another(&mut self, entry: &PlanEntry) -> bool {
        let PlanEntry::Uncertain(frames) = entry else { return false };
        let call = uncertain_call(entry).map(|(_, calling)| &calling.request);
        let debt = call.filter(|request| self.is_debt_of_another(frames, request));
        if let Some(request) = debt {
            self.effect_disowned(request.effect);
        }
        debt.is_some()
    }

    /// Goes on where a task was stopped that had done its work: the undo that it then owes is the next
    /// to be worked off.
    fn complete_first(&mut self, branch: &mut Branch, frames: Vec<Frame>) -> Turn {
        let stopped = frames.last().and_then(|frame| frame.evaluating.as_deref());
        let result = stopped.expect("it waited for a worker").input.clone();
        for frame in frames {
            branch.push(stripped(frame));
        }
        branch.set_data(result);
        Turn::Again
    }

    /// Undoes a call without having heard what became of it: its undo holds in either case.
    fn undo_unheard(&mut self, branch: &mut Branch, frames: Vec<Frame>) -> Turn {
        // An undo that was stopped half way is itself what is asked for again.
        if matches!(frames[0].activity, Activity::Undoing(_)) {
            return self.find_out(branch, frames, false);
        }
        let activity = Activity::Capture;
        branch.push(Frame { activity, ..stripped(frames[0].clone()) });
        let entry = self.capture_unheard(branch);
        branch.pop();
        match entry {
            Ok(entry) => self.begin_undo(branch, entry),
            // Without an answer there is nothing to capture: asking again gives one.
            Err(_) => self.find_out(branch, frames, false),
        }
    }

    /// Asks again, with the same key, whether a call happened, or leaves it to a person; what did is
    /// then undone.
    fn find_out(&mut self, branch: &mut Branch, frames: Vec<Frame>, must_park: bool) -> Turn {
        for frame in frames {
            branch.push(stripped(frame));
        }
        let activity = &branch.top().expect("just pushed").activity;
        let call = activity.unanswered().expect("what is asked about is a call").clone();
        if must_park {
            let effect = call.request.effect;
            self.set_activity(branch, Activity::Calling(Box::new(call)));
            return self.park(branch, effect, "it is not known whether the call happened".into());
        }
        let request = call.whole_request(&self.execution.large);
        self.call_again(branch, request)
    }

    fn begin_undo(&mut self, branch: &mut Branch, entry: PlanEntry) -> Turn {
        let (task, place) = match &entry {
            PlanEntry::Undo { task, path, effect, .. } => {
                (*task, self.place_of_undo(*task, *path, *effect))
            }
            PlanEntry::Child { task, .. } => {
                let path = branch.top().expect("rolling back has a frame").path;
                (*task, path.inside(*task, u64::MAX))
            }
            entry => unreachable!("{entry:?} is not undone as it is"),
        };
        if let PlanEntry::Undo { effect: Some(effect), .. } = &entry {
            self.raise_effect(*effect, EffectState::Undoing);
        }
        self.happenings.push(Happening::UndoStarted(task));
        let undoing = Undoing {
            entry,
            retries: 0,
            since: self.now,
            delay: None,
            child: None,
            uncertain: Vec::new(),
        };
        let data = branch.data().clone();
        let (lacking, around) = match &undoing.entry {
            PlanEntry::Undo { lacking, around, .. } => (lacking.clone(), around.clone()),
            _ => (None, None),
        };
        let activity = Activity::Undoing(Box::new(undoing));
        let frame = Frame { around, ..self.frame(task, place, data, activity) };
        branch.push(frame);
        let Some(lacking) = lacking else { return self.start_undo(branch) };
        let detail = format!("the call happened, and what undoes it is not known: {lacking}");
        let fault = Fault::new(FaultKind::Expression, "what undoes it is not known", detail);
        let entry = self.undoing(branch).entry.clone();
        self.give_up_undo(branch, branch.frames().len() - 1, entry, fault)
    }

    /// Runs the undo of the innermost frame, for the first time or again.
    pub(super) fn start_undo(&mut self, branch: &mut Branch) -> Turn {
        let ticket = branch.ticket();
        let undoing = self.undoing(branch);
        undoing.delay = None;
        match undoing.entry.clone() {
            PlanEntry::Child { child, .. } => {
                undoing.child = Some(ticket);
                self.commands.push(Command::CompensateChild { ticket, child });
                Turn::Wait
            }
            PlanEntry::Undo { task, captured, .. } => {
                let compensation = self.compensation(task);
                let Undo::Run(body) = compensation.undo else { return self.undone(branch) };
                branch.set_data(captured.clone());
                branch.top_mut().expect("an undo has a frame").transformed = Some(captured);
                if let Some(timeout) = &compensation.timeout {
                    match self.duration(branch, timeout) {
                        Ok(after) => {
                            let alarm = self.set_alarm(branch, self.now.after(after));
                            branch.top_mut().expect("an undo has a frame").deadline = Some(alarm);
                        }
                        Err(fault) => {
                            let depth = branch.frames().len();
                            return self.raise_from(branch, depth, fault);
                        }
                    }
                }
                self.enter(branch, body, 0);
                Turn::Again
            }
            entry => unreachable!("{entry:?} is not undone as it is"),
        }
    }

    fn compensation(&self, task: TaskId) -> &Compensation {
        let compensation = &self.program.task(task).traits.compensation;
        compensation.as_ref().expect("only tasks with a compensation are undone")
    }

    fn undoing<'b>(&self, branch: &'b mut Branch) -> &'b mut Undoing {
        match &mut branch.top_mut().expect("an undo has a frame").activity {
            Activity::Undoing(undoing) => undoing,
            activity => unreachable!("{activity:?} is not an undo"),
        }
    }

    /// The undo of the innermost frame succeeded.
    pub(super) fn undone(&mut self, branch: &mut Branch) -> Turn {
        let frame = branch.pop().expect("an undo has a frame");
        self.cancel_alarm(frame.deadline);
        let Activity::Undoing(undoing) = frame.activity else {
            unreachable!("only undos are undone")
        };
        if let PlanEntry::Undo { effect: Some(effect), .. } = &undoing.entry {
            self.effect_undone(*effect);
        }
        branch.set_data(frame.raw);
        self.happenings.push(Happening::Undone(frame.task));
        self.note_result(branch, &undoing.entry, "compensated");
        Turn::Again
    }

    /// Adds a line to the output of the compensating task, if it is one.
    fn note_result(&mut self, branch: &mut Branch, entry: &PlanEntry, status: &str) {
        let Activity::Compensating(compensating) =
            &branch.top().expect("an undo is part of rolling back").activity
        else {
            return;
        };
        let Some(results) = compensating.results else { return };
        let count = compensating.count;
        let (task, cost) = match entry {
            PlanEntry::Undo { task, cost, .. } => (*task, self.value(cost)),
            PlanEntry::Child { task, .. } => (*task, value::integer(0)),
            _ => return,
        };
        let line = value::object([
            ("task", value::string(&self.program.task(task).name)),
            ("status", value::string(status)),
            ("cost", cost),
        ]);
        let slot = Slot { data: self.intern(line), context: None, plan: Vec::new(), ran: true };
        self.join_mut(results).fill(count, slot);
        self.compensating(branch).count += 1;
    }

    /// An undo at a depth failed: try again by its policy, or do what failures do here.
    pub(super) fn undo_failed(&mut self, branch: &mut Branch, depth: usize, fault: Fault) -> Turn {
        // The next try asks again, with the same key, for what may have happened in this one.
        let inner = self.unwind(branch, depth + 1);
        let (_, uncertain) = split_uncertain(inner, &|_| false);
        self.undoing(branch).uncertain.extend(uncertain);
        let alarm = branch.top_mut().expect("an undo has a frame").deadline.take();
        self.cancel_alarm(alarm);
        let undoing = self.undoing(branch);
        undoing.child = None;
        let (retries, since, entry) = (undoing.retries, undoing.since, undoing.entry.clone());
        let policy = match &entry {
            PlanEntry::Undo { task, .. } => self.compensation(*task).retry.clone(),
            _ => None,
        };
        let policy = policy.unwrap_or_else(|| Box::new(default_policy()));
        let at = self.retry_time(branch, &policy, retries, since).ok().flatten();
        if let Some(at) = at {
            let alarm = self.set_alarm(branch, at);
            let undoing = self.undoing(branch);
            undoing.retries += 1;
            undoing.delay = Some(alarm);
            return Turn::Wait;
        }
        self.give_up_undo(branch, depth, entry, fault)
    }

    fn give_up_undo(
        &mut self,
        branch: &mut Branch,
        depth: usize,
        entry: PlanEntry,
        fault: Fault,
    ) -> Turn {
        let task = branch.frames()[depth].task;
        self.happenings.push(Happening::UndoFailed(task, fault.clone()));
        let Activity::Compensating(compensating) = &branch.frames()[depth - 1].activity else {
            unreachable!("an undo is part of rolling back")
        };
        match compensating.on_failure {
            Failure::Park => {
                let effect = self.effect_of(branch, &entry);
                self.park(branch, effect, format!("the undo failed: {}", fault.reason()))
            }
            Failure::Continue => {
                let frame = branch.pop().expect("an undo has a frame");
                branch.set_data(frame.raw);
                self.note_result(branch, &entry, "failed");
                Turn::Again
            }
            Failure::Raise => {
                // It stays owed: whoever rolls back the scope around will try it again.
                let frame = branch.pop().expect("an undo has a frame");
                branch.set_data(frame.raw);
                let plan = branch.top().and_then(|frame| frame.plan);
                self.plan_mut(plan.expect("rolling back has a plan")).push(entry);
                let outer = branch.frames().len() - 1;
                let mut fault = fault;
                let compensate = self.program.task(branch.frames()[outer].task);
                fault.instance = Some(compensate.place.pointer.clone());
                self.raise_from(branch, outer, fault)
            }
        }
    }

    fn effect_of(&self, branch: &Branch, entry: &PlanEntry) -> EffectId {
        match entry {
            PlanEntry::Undo { effect: Some(effect), .. } => *effect,
            _ => EffectId {
                branch: branch.id(),
                point: branch.lineage.head().expect("a branch that is worked on has a state"),
            },
        }
    }

    /// What a person said about an undo that failed.
    pub(super) fn resolve_undo(&mut self, branch: &mut Branch, resolution: Resolution) -> Turn {
        match resolution {
            Resolution::Done(_) => self.undone(branch),
            Resolution::NotDone | Resolution::Retry => {
                // A provider that remembers its refusals by key gives the same one for ever: whoever
                // knows that it did nothing has the undo made as a new operation.
                let renews = u64::from(resolution == Resolution::NotDone);
                branch.top_mut().expect("an undo has a frame").tries += renews;
                let undoing = self.undoing(branch);
                undoing.retries = 0;
                undoing.since = self.now;
                self.start_undo(branch)
            }
            Resolution::Abandon => {
                let entry = self.undoing(branch).entry.clone();
                let frame = branch.pop().expect("an undo has a frame");
                if let PlanEntry::Undo { effect: Some(effect), .. } = &entry {
                    self.effect_undone(*effect);
                }
                branch.set_data(frame.raw);
                self.note_result(branch, &entry, "abandoned");
                Turn::Again
            }
        }
    }

    /// Parts with no causal relation are undone at once, each in a branch of its own.
    fn undo_in_parallel(&mut self, branch: &mut Branch, lists: Vec<Vec<PlanEntry>>) -> Turn {
        let join = JoinId(branch.ticket());
        let count = lists.len() as u32;
        let counts = &mut self.join_mut(join).counts;
        (counts.total, counts.next, counts.live) = (count, count, count);
        let compensating = self.compensating(branch);
        compensating.parts = Some(join);
        let on_failure = match compensating.on_failure {
            Failure::Raise => Failure::Park,
            other => other,
        };
        let variables = self.visible_at_top(branch);
        // One rollback may fork again and again: its parts are told apart by the join's number.
        let path = branch.top().expect("rolling back has a frame").path;
        let around = path.inside(TaskId(join.0.number), u64::MAX - 2);
        for (slot, list) in lists.into_iter().enumerate() {
            let (slot, data) = (slot as u32, branch.data().clone());
            let mut part = self.new_branch_at(branch, around, join, slot, data, variables.clone());
            self.push_compensation(&mut part, list, on_failure);
            self.wake(part);
        }
        Turn::Wait
    }

    pub(super) fn part_undone(&mut self, branch: &mut Branch, join: JoinId) -> Turn {
        if self.execution.joins[&join].counts.live > 0 {
            return Turn::Wait;
        }
        self.drop_join(join);
        self.compensating(branch).parts = None;
        Turn::Again
    }

    /// Everything is undone.
    fn rolled_back(&mut self, branch: &mut Branch) -> Turn {
        let frame = branch.top_mut().expect("rolling back has a frame");
        let plan = frame.plan.take().expect("rolling back has a plan");
        let Activity::Compensating(compensating) = &frame.activity else {
            unreachable!("only rolling back ends like this")
        };
        let results = compensating.results;
        let rest = self.plan_mut(plan).drain();
        self.execution.plans.remove(&plan);
        match results {
            Some(results) => {
                // What `until` left stays owed in the scope it came from.
                let Kind::Compensate { scope, .. } = &self.definition(branch).kind else {
                    unreachable!("only this kind says what it undid")
                };
                let from = self.plan_of_scope(branch, *scope).unwrap_or(branch.birth.plan);
                self.plan_mut(from).extend(rest);
                let lines: Vec<Value> = {
                    let join = self.drop_join(results);
                    join.slots().values().map(|slot| self.value(&slot.data)).collect()
                };
                let output = self.intern(value::array(lines));
                branch.set_data(output);
                self.complete(branch)
            }
            None => {
                let frame = branch.pop().expect("rolling back has a frame");
                branch.set_data(frame.raw);
                self.child_done(branch, crate::program::Flow::Continue)
            }
        }
    }

    /// A child that was to be rolled back ended.
    pub(super) fn child_rolled_back(
        &mut self,
        branch: &mut Branch,
        ticket: Ticket,
        outcome: Outcome,
    ) -> Option<Turn> {
        let Some(Activity::Undoing(undoing)) = branch.top().map(|frame| &frame.activity) else {
            return None;
        };
        if undoing.child != Some(ticket) {
            return None;
        }
        let depth = branch.frames().len() - 1;
        Some(match outcome {
            Outcome::Faulted(fault) => self.undo_failed(branch, depth, fault),
            Outcome::Completed(_) | Outcome::Cancelled | Outcome::Compensated(_) => {
                self.undone(branch)
            }
        })
    }
}

/// A frame without what was running in it.
pub(super) fn stripped(frame: Frame) -> Frame {
    Frame { deadline: None, evaluating: None, plan: None, ..frame }
}

fn default_policy() -> RetryPolicy {
    RetryPolicy {
        delay: Some(Template::Literal(value::string(DEFAULT_DELAY))),
        backoff: Backoff::Exponential,
        attempts: Some(DEFAULT_RETRIES),
        ..RetryPolicy::default()
    }
}
