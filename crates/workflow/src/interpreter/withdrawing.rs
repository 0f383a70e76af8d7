//! Giving up a line: another line of this execution was decided on, and this copy takes back what it
//! did that is not on it.
//!
//! `LineLost` stops the run where it is; only answers to calls that are under way still come in.
//! The first `Withdrawn` takes the frames off: what was done, or may have been, is then one plan in
//! the trunk. What is asked to be undone moves from there to the plan of a frame that rolls back, and
//! is worked off from its end; what is not asked stays. `WithdrawalClosed` drops the rest.

use std::collections::BTreeSet;

use outlast_lineage::{BranchId, Digester, EffectId};

use super::Machine;
use super::ending::KEPT_PLAN;
use super::portions::{partly, split, wholly, without_halves};
use crate::execution::{
    Activity, Branch, BranchState, Calling, Failure, Frame, Path, Plan, PlanEntry, PlanId, Stage,
};
use crate::program::{Class, Program};
use crate::{
    Answer, Command, Event, Fault, FaultKind, Happening, Outcome, Resolution, TaskId, Ticket,
};

impl Machine<'_> {
    /// Takes an event of the three that end a line, or one that comes to a line that is lost.
    pub(super) fn take_event_of_loser(&mut self, event: Event) {
        match (&self.execution.head.stage, event) {
            (Stage::Withdrawn, _) => {}
            (Stage::Lost(_) | Stage::Withdrawing, Event::LineLost) => {}
            (_, Event::LineLost) => self.lose_line(),
            (_, Event::Withdrawn { undo }) => self.withdraw(undo),
            (_, Event::WithdrawalClosed) => self.close_withdrawal(),
            (Stage::Lost(_), event) => self.take_late(event),
            (_, Event::Answered { ticket, answer }) => self.take_answer(ticket, answer),
            (_, Event::Evaluated { ticket, result }) => self.take_evaluation(ticket, result),
            (_, Event::TimerFired(ticket)) => self.take_timer(ticket),
            (_, Event::ChildEnded { ticket, outcome }) => self.take_child_end(ticket, outcome),
            (_, Event::Resolved { effect, resolution }) => self.take_resolution(effect, resolution),
            _ => {}
        }
    }

    /// Stops going forward, or back; leaves everything where it is.
    fn lose_line(&mut self) {
        let open = self.execution.open_commands(self.program, self.now);
        self.set_stage(Stage::Lost(None));
        self.execution.head.outcome = None;
        self.execution.head.suspended = false;
        self.execution.head.deadline = None;
        self.ready.clear();
        for command in open {
            self.commands.extend(match command {
                Command::SetTimer { ticket, .. } => Some(Command::CancelTimer(ticket)),
                Command::Subscribe { ticket, .. } => Some(Command::Unsubscribe(ticket)),
                Command::Evaluate { ticket, .. } if !self.execution.keeps_result(ticket) => {
                    Some(Command::Abandon(ticket))
                }
                _ => None,
            });
        }
    }

    fn set_stage(&mut self, stage: Stage) {
        self.execution.head.stage = stage;
        self.touched.head = true;
    }

    /// What still counts on a lost line: answers to calls, and what completes the task that called.
    fn take_late(&mut self, event: Event) {
        match event {
            Event::Answered { ticket, answer } => self.take_late_answer(ticket, answer),
            Event::Evaluated { ticket, result } if self.execution.keeps_result(ticket) => {
                let Some(mut branch) = self.take_waiting(ticket) else { return };
                self.given = Some(result);
                drop(self.turn(&mut branch));
                self.given = None;
                self.put_waiting(branch);
                self.begin_if_asked();
            }
            Event::Resolved { effect, resolution } => self.take_late_resolution(effect, resolution),
            _ => {}
        }
    }

    fn take_late_answer(&mut self, ticket: Ticket, answer: Answer) {
        let Some(mut branch) = self.take_waiting(ticket) else {
            return self.take_late_answer_of_unwanted(ticket, answer);
        };
        if let Some(Activity::Calling(calling)) = branch.top().map(|frame| &frame.activity)
            && calling.ticket == ticket
        {
            let calling = calling.clone();
            self.hear_late(&mut branch, &calling, answer);
        }
        self.put_waiting(branch);
    }

    /// What a person was to find out says the answer, or that there is nothing to find out.
    fn take_late_answer_of_unwanted(&mut self, ticket: Ticket, answer: Answer) {
        let Some((id, calling)) = self.parked_call(ticket) else {
            return self.take_denial(ticket, &answer);
        };
        if self.tells_what_became_of(&calling, &answer) {
            self.hear_late_of_parked(id, &calling, answer, "answered");
        }
    }

    /// Whether an answer says whether its call happened.
    fn tells_what_became_of(&self, calling: &Calling, answer: &Answer) -> bool {
        match answer {
            Answer::Succeeded(_) | Answer::TooLarge(..) => true,
            Answer::Failed(fault) => self.is_definite(calling, fault),
            Answer::Unknown(_) => false,
        }
    }

    fn hear_late_of_parked(&mut self, id: BranchId, calling: &Calling, answer: Answer, why: &str) {
        let Some(mut branch) = self.take(id) else { return };
        let task = branch.top().expect("it is parked in a frame").task;
        self.happenings.push(Happening::Resolved(task, why.to_owned()));
        self.set_activity(&mut branch, Activity::Calling(Box::new(calling.clone())));
        self.hear_late(&mut branch, calling, answer);
        self.put_waiting(branch);
    }

    fn hear_late(&mut self, branch: &mut Branch, calling: &Calling, answer: Answer) {
        match answer {
            // Whatever would follow needs another turn, and there is none.
            Answer::Succeeded(output) => drop(self.succeeded(branch, &calling.request, output)),
            Answer::TooLarge(output, fault) => {
                self.keep_what_undoes(branch, &calling.request, &output, &fault);
            }
            Answer::Failed(fault) if self.is_definite(calling, &fault) => {
                if !calling.request.readonly && !calling.request.undo {
                    self.effect_gone(calling.request.effect);
                }
                self.set_activity(branch, Activity::Begin);
            }
            Answer::Failed(_) | Answer::Unknown(_) => {}
        }
    }

    /// A person found out about a parked call; what would need a call is left for the withdrawal.
    fn take_late_resolution(&mut self, effect: EffectId, resolution: Resolution) {
        let answer = match resolution {
            Resolution::Done(output) => Answer::Succeeded(output),
            Resolution::NotDone | Resolution::Abandon => Answer::Failed(Fault::new(
                FaultKind::Runtime,
                "it did not happen",
                "a person said so",
            )),
            Resolution::Retry => return,
        };
        let parked =
            self.execution.branches.values().find_map(|branch| match &branch.top()?.activity {
                Activity::Parked { effect: parked, resume, .. } if *parked == effect => {
                    match resume.as_ref() {
                        Activity::Calling(calling) => Some((branch.id(), calling.clone())),
                        _ => None,
                    }
                }
                _ => None,
            });
        let Some((id, calling)) = parked else { return };
        self.hear_late_of_parked(id, &calling, answer, "late");
    }

    /// Asks for effects to be undone.
    fn withdraw(&mut self, undo: BTreeSet<EffectId>) {
        if self.execution.head.stage == Stage::Withdrawing {
            return self.undo_more(&undo);
        }
        if !matches!(self.execution.head.stage, Stage::Lost(_)) {
            self.lose_line();
        }
        let Stage::Lost(asked) = &mut self.execution.head.stage else {
            unreachable!("the line was just lost")
        };
        asked.get_or_insert_default().extend(undo);
        self.touched.head = true;
        self.begin_if_asked();
    }

    /// Takes the frames off, once no result of a call is on its way into the plan any more.
    fn begin_if_asked(&mut self) {
        let Stage::Lost(Some(asked)) = &self.execution.head.stage else { return };
        let asked = asked.clone();
        if self.execution.branches.values().any(Branch::keeps_result) {
            return;
        }
        self.happenings.push(Happening::CompensationStarted("another line was decided on".into()));
        self.set_stage(Stage::Withdrawing);
        let mut trunk = self.take(BranchId::TRUNK).unwrap_or_else(|| self.reborn_trunk());
        let mut entries = self.plan_mut(trunk.birth.plan).drain();
        if self.execution.plans.contains_key(&KEPT_PLAN) {
            entries.extend(self.plan_mut(KEPT_PLAN).drain());
            self.execution.plans.remove(&KEPT_PLAN);
        }
        entries.extend(self.unwind(&mut trunk, 0));
        entries.push(self.stop_beside());
        self.keep_children_alone();
        self.keep_for_undo(&trunk, without_halves(entries));
        self.push_compensation(&mut trunk, Vec::new(), Failure::Park);
        self.put_waiting(trunk);
        self.undo_more(&asked);
    }

    /// Children are named alike on every line: the line that was decided on may have them too.
    fn keep_children_alone(&mut self) {
        self.commands.retain(|command| !matches!(command, Command::CancelChild(_)));
    }

    /// Moves what is asked from the plan that is left to the one that is worked off.
    fn undo_more(&mut self, undo: &BTreeSet<EffectId>) {
        let Some((left, work)) = self.execution.withdrawal_plans() else { return };
        let asked = self.take_asked(left, undo);
        if asked.is_empty() {
            return;
        }
        // Asked for later, so undone later: below what is still to be done.
        let rest = self.plan_mut(work).drain();
        self.plan_mut(work).extend(asked.into_iter().chain(rest));
        let Some(trunk) = self.take(BranchId::TRUNK) else { return };
        match trunk.frames().len() {
            1 => self.wake(trunk),
            _ => self.put(trunk),
        }
    }

    /// Takes what is asked out of a plan, oldest first. It is usually the newest part of it.
    fn take_asked(&mut self, plan: PlanId, undo: &BTreeSet<EffectId>) -> Vec<PlanEntry> {
        let mut tail = Vec::new();
        while self.execution.plans.get(&plan).and_then(Plan::last).is_some_and(|e| wholly(e, undo))
        {
            tail.extend(self.plan_mut(plan).pop());
        }
        tail.reverse();
        let more = self.execution.plans[&plan].entries().iter().any(|e| partly(e, undo));
        if !more {
            return tail;
        }
        let entries = self.plan_mut(plan).drain();
        let (mut asked, rest) = split(entries, undo);
        self.plan_mut(plan).extend(rest);
        asked.extend(tail);
        asked
    }

    /// Whether a branch has nothing to undo until more is asked.
    pub(super) fn waits_for_more(&self, branch: &Branch) -> bool {
        self.execution.head.stage == Stage::Withdrawing
            && branch.id() == BranchId::TRUNK
            && branch.frames().len() == 1
    }

    /// Where an undo takes place. Two lines may both have done one task at a provider that knows no
    /// keys: there the undo of each effect is an operation of its own.
    pub(super) fn place_of_undo(&self, task: TaskId, path: Path, effect: Option<EffectId>) -> Path {
        let place = path.inside(task, u64::MAX);
        let Some(id) = effect.filter(|_| self.execution.head.stage == Stage::Withdrawing) else {
            return place;
        };
        let caller = self.execution.ledger.get(&id).map(|effect| TaskId(effect.task));
        if deduplicates(self.program, caller.into_iter().chain([task])) {
            return place;
        }
        let own = Digester::new("effect")
            .number(id.branch.0)
            .number(id.point.author.0)
            .number(id.point.epoch.0)
            .number(id.point.number);
        place.inside(task, own.finish().short())
    }

    /// The rest belongs to the line that was decided on.
    fn close_withdrawal(&mut self) {
        let branches: Vec<BranchId> = self.execution.branches.keys().copied().collect();
        for id in branches {
            drop(self.stop_branch(id, None));
        }
        self.keep_children_alone();
        self.ready.clear();
        let deadline = self.execution.head.deadline.take();
        self.cancel_alarm(deadline);
        self.touched.plans.extend(std::mem::take(&mut self.execution.plans).into_keys());
        self.touched.joins.extend(std::mem::take(&mut self.execution.joins).into_keys());
        let effects: Vec<EffectId> = self.execution.ledger.iter().map(|(id, _)| *id).collect();
        effects.into_iter().for_each(|id| self.settle_effect(id));
        let why = "another line of this execution was decided on";
        self.finish_with(Outcome::Compensated(Fault::new(FaultKind::Runtime, "withdrawn", why)));
        self.set_stage(Stage::Withdrawn);
    }

    /// Nothing leaves a lost line but what takes something back or completes a task that called.
    pub(super) fn hush(&mut self) {
        if !matches!(self.execution.head.stage, Stage::Lost(_)) {
            return;
        }
        self.ready.clear();
        let execution = &*self.execution;
        self.commands.retain(|command| match command {
            Command::Abandon(_)
            | Command::Unwanted(_)
            | Command::CancelTimer(_)
            | Command::Unsubscribe(_) => true,
            Command::Evaluate { ticket, .. } => execution.keeps_result(*ticket),
            _ => false,
        });
    }
}

impl Branch {
    /// Whether an expression is being evaluated without which a call that happened could not be
    /// undone.
    fn keeps_result(&self) -> bool {
        let top = self.top();
        top.is_some_and(|frame| {
            frame.evaluating.is_some()
                && matches!(frame.activity, Activity::Output | Activity::Capture)
        }) && self.frames().iter().any(|frame| frame.effect.is_some())
            && !matches!(self.small.state, BranchState::Away { .. })
    }
}

impl crate::Execution {
    /// Whether a worker's evaluation is one that a lost line still waits for.
    pub(crate) fn keeps_result(&self, ticket: Ticket) -> bool {
        self.branches.get(&ticket.branch).is_some_and(|branch| {
            let awaited = |frame: &Frame| frame.evaluating.as_ref().map(|e| e.ticket);
            branch.keeps_result() && branch.top().and_then(awaited) == Some(ticket)
        })
    }

    /// What is left and what is worked off, while a line is withdrawn.
    pub(crate) fn withdrawal_plans(&self) -> Option<(PlanId, PlanId)> {
        let trunk = self.branches.get(&BranchId::TRUNK)?;
        let work = trunk.frames().first()?.plan?;
        (self.head.stage == Stage::Withdrawing).then_some((trunk.birth.plan, work))
    }
}

/// Whether the provider of a task may be asked again with the same key; the task that calls comes
/// first, then the one it calls for.
fn deduplicates(program: &Program, mut tasks: impl Iterator<Item = TaskId> + Clone) -> bool {
    let is_told = tasks.clone().find_map(|task| program.task(task).traits.idempotency.as_ref());
    match is_told {
        Some(idempotency) => !idempotency.none,
        None => !tasks.any(|task| program.task(task).traits.class == Some(Class::Pivot)),
    }
}
