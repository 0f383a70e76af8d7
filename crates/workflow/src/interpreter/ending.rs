//! How a run ends, is stopped, rolled back as a whole, or tried again.

use outlast_lineage::BranchId;

use super::{Machine, Turn};
use crate::execution::{Activity, Branch, BranchState, Failure, PlanEntry, Stage};
use crate::program::Kind;
use crate::{Answer, Command, Fault, FaultKind, Happening, Outcome, Request};

impl Machine<'_> {
    /// The trunk has run to its end, forward or back.
    pub(super) fn trunk_done(&mut self, trunk: &Branch) {
        let outcome = match &self.execution.head.stage {
            Stage::Forward => Outcome::Completed(self.value(trunk.data())),
            Stage::RollingBack(fault) => Outcome::Compensated(fault.clone()),
            Stage::Closing(_)
            | Stage::Ended
            | Stage::Lost(_)
            | Stage::Withdrawing
            | Stage::Withdrawn => return,
        };
        self.execution.head.stage = Stage::Closing(outcome);
        self.touched.head = true;
        // Until what is undone beside the run is done, it can be rolled back as a whole.
        if self.execution.keep_plan || !self.execution.branches.is_empty() {
            let plan = trunk.birth.plan;
            let entries = self.plan_mut(plan).drain();
            self.kept_plan(entries);
        } else {
            self.release_children(trunk.birth.plan);
        }
    }

    /// A plan stays under another name for as long as it may be needed: that of a child until its parent has
    /// ended, that of a line of several nodes until these have forgotten it.
    fn kept_plan(&mut self, entries: Vec<PlanEntry>) {
        self.plan_mut(KEPT_PLAN).extend(entries);
    }

    fn release_children(&mut self, plan: crate::execution::PlanId) {
        let Some(plan) = self.execution.plans.get(&plan) else { return };
        let mut children = Vec::new();
        collect_children(plan.entries(), &mut children);
        self.commands.extend(children.into_iter().map(Command::ReleaseChild));
    }

    /// The run is over once the trunk and every undo beside it are done.
    pub(super) fn close_if_done(&mut self) {
        if !self.execution.branches.is_empty() {
            return;
        }
        if let Stage::Closing(outcome) = &self.execution.head.stage {
            let outcome = outcome.clone();
            self.end(outcome);
        }
    }

    fn end(&mut self, outcome: Outcome) {
        let deadline = self.execution.head.deadline.take();
        self.cancel_alarm(deadline);
        let settled: Vec<_> = self.execution.ledger.iter().map(|(id, _)| *id).collect();
        if !self.execution.keep_plan {
            settled.into_iter().for_each(|id| self.settle_effect(id));
            if self.execution.plans.contains_key(&KEPT_PLAN) {
                self.release_children(KEPT_PLAN);
                self.plan_mut(KEPT_PLAN).drain();
                self.execution.plans.remove(&KEPT_PLAN);
            }
        }
        self.finish_with(outcome);
    }

    pub(super) fn finish_with(&mut self, outcome: Outcome) {
        self.execution.head.stage = Stage::Ended;
        self.execution.head.outcome = Some(outcome.clone());
        self.touched.head = true;
        self.happenings.push(Happening::Ended(outcome.clone()));
        self.commands.push(Command::End(outcome));
    }

    /// An uncaught error ends the run; everything stays where it was, so it can be tried again.
    pub(super) fn stop_with_fault(&mut self, fault: Fault) {
        if self.execution.head.stage == Stage::Ended {
            return;
        }
        self.abandon_open();
        let deadline = self.execution.head.deadline.take();
        self.cancel_alarm(deadline);
        self.ready.clear();
        self.finish_with(Outcome::Faulted(fault));
    }

    /// Takes back every command that is still open.
    fn abandon_open(&mut self) {
        let open = self.execution.open_commands(self.program, self.now);
        for command in open {
            match command {
                Command::Call { ticket, .. } | Command::Evaluate { ticket, .. } => {
                    self.commands.push(Command::Abandon(ticket));
                }
                Command::SetTimer { ticket, .. } => {
                    self.commands.push(Command::CancelTimer(ticket));
                }
                Command::Subscribe { ticket, .. } => {
                    self.commands.push(Command::Unsubscribe(ticket));
                }
                _ => {}
            }
        }
    }

    pub(super) fn cancel(&mut self) {
        let over = matches!(
            self.execution.head.outcome,
            Some(Outcome::Completed(_) | Outcome::Cancelled | Outcome::Compensated(_))
        );
        if over {
            return;
        }
        let mut done = self.stop_branch(BranchId::TRUNK, None);
        done.push(self.stop_beside());
        if self.execution.keep_plan {
            // If another line is decided on, what this one did is not what remains.
            self.kept_plan(done);
        }
        self.ready.clear();
        self.end(Outcome::Cancelled);
    }

    /// Stops what was being undone beside the run, once the trunk is stopped.
    pub(super) fn stop_beside(&mut self) -> PlanEntry {
        let beside: Vec<BranchId> = self.execution.branches.keys().copied().collect();
        let lists = beside.into_iter().map(|id| self.stop_branch(id, None));
        PlanEntry::Parallel(lists.filter(|list| !list.is_empty()).collect())
    }

    pub(super) fn roll_back_on_request(&mut self, reason: &str) {
        let fault = Fault::new(FaultKind::Runtime, "rolled back on request", reason);
        if self.execution.can_be_rolled_back() {
            return self.roll_back(fault);
        }
        // Nothing to roll back any more; whoever asked is told how it ended.
        let outcome = self.execution.head.outcome.clone();
        self.commands.extend(outcome.map(Command::End));
    }

    /// Stops everything and rolls the whole run back.
    pub(super) fn roll_back(&mut self, fault: Fault) {
        if matches!(self.execution.head.stage, Stage::RollingBack(_)) {
            return;
        }
        let why = fault.title.clone().unwrap_or_else(|| fault.kind.clone());
        self.happenings.push(Happening::CompensationStarted(why));
        self.execution.head.stage = Stage::RollingBack(fault);
        let had_ended = self.execution.head.outcome.take().is_some();
        if had_ended && self.execution.is_shared() {
            self.execution.head.revivals.get_or_insert(0);
        }
        self.execution.head.suspended = false;
        let deadline = self.execution.head.deadline.take();
        self.cancel_alarm(deadline);
        self.touched.head = true;
        let mut trunk = match self.take(BranchId::TRUNK) {
            Some(trunk) => trunk,
            None => self.reborn_trunk(),
        };
        let mut entries = self.plan_mut(trunk.birth.plan).drain();
        if self.execution.plans.contains_key(&KEPT_PLAN) {
            entries.extend(self.plan_mut(KEPT_PLAN).drain());
            self.execution.plans.remove(&KEPT_PLAN);
        }
        entries.extend(self.unwind(&mut trunk, 0));
        if had_ended {
            // What was being undone beside the run when it ended goes on.
            let beside = self.execution.open_commands(self.program, self.now);
            self.commands.extend(beside);
            self.queue_ready();
        }
        self.push_compensation(&mut trunk, entries, Failure::Park);
        self.settle(trunk, Turn::Again);
    }

    /// The call that a branch failed in, if it may have happened and would be undone.
    fn unheard_of(&self, branch: &Branch) -> Option<Request> {
        let calling = branch.top()?.activity.unanswered()?;
        let counts = !calling.request.readonly;
        counts.then(|| calling.whole_request(&self.execution.large))
    }

    /// A run that had completed is rolled back: it needs a trunk again. Its tickets go on where
    /// no earlier trunk can have come.
    pub(super) fn reborn_trunk(&mut self) -> Branch {
        let plan = crate::execution::PlanId(crate::Ticket {
            branch: BranchId::TRUNK,
            number: u32::MAX / 2,
        });
        let birth = crate::execution::Birth {
            id: BranchId::TRUNK,
            parent: None,
            slot: 0,
            path: crate::execution::Path::START,
            variables: Vec::new(),
            plan,
            incarnation: 0,
            workflow: None,
            undo: None,
            policy: false,
        };
        let null = crate::execution::Datum::null();
        let mut trunk = Branch::new(birth, null.clone(), null);
        trunk.skip_tickets(u32::MAX / 2);
        self.touched.branches.insert(BranchId::TRUNK);
        trunk.extend(self.author.node, self.author.epoch);
        trunk
    }

    pub(super) fn suspend(&mut self, on: bool) {
        if self.execution.head.suspended == on || self.execution.head.outcome.is_some() {
            return;
        }
        self.execution.head.suspended = on;
        self.touched.head = true;
        self.happenings.push(if on { Happening::Suspended } else { Happening::Resumed });
    }

    /// Tries the failed task of a faulted run again, and lets everything beside it go on.
    pub(super) fn retry_failed(&mut self) {
        if !matches!(self.execution.head.outcome, Some(Outcome::Faulted(_))) {
            return;
        }
        self.happenings.push(Happening::RetryRequested);
        let before = self.execution.head.revivals.unwrap_or(0);
        if self.execution.is_shared() {
            self.execution.head.revivals = Some(before + 1);
        }
        self.execution.head.stage = Stage::Forward;
        self.execution.head.outcome = None;
        // It may have failed while it was held; whoever has it tried again wants it to go on.
        self.execution.head.suspended = false;
        self.touched.head = true;
        self.renew_deadlines();
        let open = self.execution.open_commands(self.program, self.now);
        self.commands.extend(open);
        let doubtful = self.execution.doubtful_calls(self.program);
        let ids: Vec<BranchId> = self.execution.branches.keys().copied().collect();
        for id in ids {
            let branch = &self.execution.branches[&id];
            let activity = branch.top().map(|frame| &frame.activity);
            if matches!(activity, Some(Activity::Failed(..))) {
                self.enter_failed_again(id, before);
            }
        }
        self.queue_ready();
        for ticket in doubtful {
            let detail = "nobody waited for its answer while the run had ended";
            let fault = Fault::new(FaultKind::Communication, "Outcome unknown", detail);
            self.take_answer(ticket, Answer::Unknown(fault));
        }
        self.set_run_deadline();
    }

    /// Lets branches go on that were about to when the run ended.
    fn queue_ready(&mut self) {
        let is_ready = |branch: &Branch| branch.small.state == BranchState::Ready;
        let ready = self.execution.branches.iter().filter(|(_, branch)| is_ready(branch));
        let ids: Vec<BranchId> = ready.map(|(id, _)| *id).collect();
        let left = ids.into_iter().filter(|id| !self.ready.contains(id)).collect::<Vec<_>>();
        self.ready.extend(left);
    }

    /// Begins the failed task of a branch again, which was revived so often before. A call that may have
    /// happened goes by the same key; one that was definitely answered is a new operation.
    fn enter_failed_again(&mut self, id: BranchId, revivals: u64) {
        let mut branch = self.take(id).expect("a branch that failed is here");
        if let Some(request) = self.unheard_of(&branch) {
            // At once, and as it was: if another branch fails again first, it is still known to be in doubt.
            let frame = branch.top_mut().expect("a branch fails in a frame");
            if self.execution.is_shared() {
                frame.asked_after = frame.asked_after.or(Some(revivals));
            }
            let turn = self.call_again(&mut branch, request);
            return self.settle(branch, turn);
        }
        let frame = branch.pop().expect("a branch fails in a frame");
        self.cancel_alarm(frame.deadline);
        if let Some(plan) = frame.plan {
            self.hand_over(&branch, plan);
        }
        branch.set_data(frame.raw);
        self.enter_at(&mut branch, frame.task, frame.path);
        let doubt = frame.doubt || frame.activity.unanswered().is_some();
        let calls = matches!(self.program.task(frame.task).kind, Kind::Call { .. });
        let anew = !doubt && (calls || self.rolls_back_by_itself(frame.task));
        let entered = branch.top_mut().expect("it was just entered");
        (entered.tries, entered.doubt) = (frame.tries + u64::from(anew), doubt && calls);
        if !anew && self.execution.is_shared() {
            entered.asked_after = frame.asked_after.or(Some(revivals));
        }
        self.wake(branch);
    }
}

/// Where the plan of a completed child is kept.
pub(super) const KEPT_PLAN: crate::execution::PlanId =
    crate::execution::PlanId(crate::Ticket { branch: BranchId::TRUNK, number: u32::MAX });

fn collect_children(entries: &[PlanEntry], children: &mut Vec<outlast_lineage::ExecutionId>) {
    for entry in entries {
        match entry {
            PlanEntry::Child { child, .. } => children.push(*child),
            PlanEntry::Parallel(lists) => {
                lists.iter().for_each(|list| collect_children(list, children));
            }
            _ => {}
        }
    }
}
