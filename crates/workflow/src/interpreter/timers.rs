//! Waiting: tasks that wait, deadlines, delays.

use std::time::Duration;

use outlast_lineage::{BranchId, Time};

use super::evaluation::{Sight, evaluated};
use super::{Machine, Turn};
use crate::execution::{Activity, Alarm, Branch, Frame, PlanEntry, TryStage};
use crate::program::{Kind, Program, Template};
use crate::{Command, Fault, FaultKind, Happening, TaskId, Ticket};

impl<'a> Machine<'a> {
    pub(super) fn set_alarm(&mut self, branch: &mut Branch, at: Time) -> Alarm {
        let ticket = branch.ticket();
        self.commands.push(Command::SetTimer { ticket, at });
        Alarm { ticket, at }
    }

    /// The duration a template gives where the innermost task is.
    pub(super) fn duration(&self, branch: &Branch, template: &Template) -> Result<Duration, Fault> {
        let sight = Sight::from_top(branch, self.value(branch.data()));
        self.duration_seen(branch, template, &sight)
    }

    fn duration_seen(
        &self,
        branch: &Branch,
        template: &Template,
        sight: &Sight<'_>,
    ) -> Result<Duration, Fault> {
        let given = self.evaluate_template_here(branch, template, sight)?;
        crate::moment::duration(&given).map_err(not_a_duration)
    }

    /// How long a task may take, if that is said.
    pub(super) fn timeout_of(&self, task: TaskId) -> Option<&'a Template> {
        let program: &'a Program = self.program;
        let of_part = || program.linked.begun_by(task).and_then(|part| part.timeout.as_ref());
        program.task(task).timeout.as_ref().or_else(of_part)
    }

    /// Lets every timeout begin anew that has passed: the run had ended meanwhile, and nobody worked
    /// on it. What has time left goes on with that.
    pub(super) fn renew_deadlines(&mut self) {
        let passed = |frame: &Frame| frame.deadlines().flatten().any(|alarm| alarm.at <= self.now);
        let branches = self.execution.branches.values();
        let late = branches.filter(|branch| branch.frames().iter().any(passed));
        for id in late.map(Branch::id).collect::<Vec<_>>() {
            let Some(mut branch) = self.take(id) else { continue };
            for depth in 0..branch.frames().len() {
                self.renew_deadlines_at(&mut branch, depth);
            }
            let deadline = branch.deadline();
            if let Some(Activity::Calling(calling)) =
                branch.top_mut().map(|frame| &mut frame.activity)
            {
                calling.request.deadline = deadline;
            }
            self.put(branch);
        }
    }

    /// The same for one task. Without a duration any more, a timeout stays as it was.
    fn renew_deadlines_at(&self, branch: &mut Branch, depth: usize) {
        let frame = &branch.frames()[depth];
        let task = self.program.task(frame.task);
        let (whole, attempt) = match (&frame.activity, &task.kind) {
            (Activity::Undoing(_), _) => {
                (task.traits.compensation.as_ref().and_then(|undo| undo.timeout.as_ref()), None)
            }
            (Activity::Try(_), Kind::Try { catch, .. }) => {
                let policy = catch.retry.as_ref();
                let limit = policy.and_then(|policy| policy.attempt_duration.as_ref());
                (self.timeout_of(frame.task), limit)
            }
            _ => (self.timeout_of(frame.task), None),
        };
        let input = self.value(frame.input());
        let sight = Sight { input, output: None, depth: depth + 1, error: None };
        let anew = |template: Option<&Template>| {
            let after = self.duration_seen(branch, template?, &sight).ok()?;
            Some(self.now.after(after))
        };
        let renewed = [anew(whole), anew(attempt)];
        for (alarm, at) in branch.frame_mut(depth).deadlines_mut().into_iter().zip(renewed) {
            if let (Some(alarm), Some(at)) = (alarm, at)
                && alarm.at <= self.now
            {
                alarm.at = at;
            }
        }
    }

    /// Whoever set the timers had a clock that is so many microseconds ahead of this node's: what was to
    /// be in a minute there is to be in a minute here.
    pub(super) fn shift_alarms(&mut self, ahead: i64) {
        // Nothing comes after an end: it may be decided on.
        if self.execution.outcome().is_some() {
            return;
        }
        let here = |at: Time| {
            let micros = at.as_micros();
            let shifted = match ahead {
                0.. => micros.saturating_sub(ahead.unsigned_abs()),
                _ => micros.saturating_add(ahead.unsigned_abs()),
            };
            Time::from_micros(shifted)
        };
        if let Some(deadline) = &mut self.execution.head.deadline {
            deadline.at = here(deadline.at);
            self.touched.head = true;
        }
        let ids: Vec<BranchId> = self.execution.branches.keys().copied().collect();
        for id in ids {
            let Some(mut branch) = self.take(id) else { continue };
            for depth in 0..branch.frames().len() {
                // Whoever may change a frame has it written down anew.
                if branch.frames()[depth].alarms().next().is_some() {
                    let alarms = branch.frame_mut(depth).alarms_mut();
                    alarms.for_each(|alarm| alarm.at = here(alarm.at));
                }
            }
            self.put(branch);
        }
    }

    /// The whole run's deadline: a ticket of the trunk that no branch counts.
    pub(super) fn set_run_deadline(&mut self) {
        let Some(timeout) = &self.program.timeout else { return };
        let Some(mut trunk) = self.take(BranchId::TRUNK) else { return };
        // A document whose timeout has no value is refused when it is registered; at run time it
        // is a fault of the first task rather than a run without end.
        match self.duration(&trunk, timeout) {
            Ok(after) => {
                let alarm = self.set_alarm(&mut trunk, self.now.after(after));
                self.execution.head.deadline = Some(alarm);
                self.touched.head = true;
                self.put(trunk);
            }
            Err(fault) => {
                let turn = self.raise(&mut trunk, fault);
                self.settle(trunk, turn);
            }
        }
    }

    pub(super) fn begin_wait(&mut self, branch: &mut Branch, template: &Template) -> Turn {
        let sight = Sight::from_top(branch, self.value(branch.data()));
        let given = evaluated!(self, branch, self.evaluate(branch, template, &sight));
        match crate::moment::duration(&given) {
            Ok(wait) => {
                let alarm = self.set_alarm(branch, self.now.after(wait));
                self.set_activity(branch, Activity::Waiting(alarm));
                Turn::Wait
            }
            Err(message) => self.raise(branch, not_a_duration(message)),
        }
    }

    pub(super) fn take_timer(&mut self, ticket: Ticket) {
        if self.execution.head.deadline.is_some_and(|alarm| alarm.ticket == ticket) {
            return self.run_timed_out();
        }
        let Some(mut branch) = self.take_waiting(ticket) else { return };
        let turn = self.fire(&mut branch, ticket);
        match turn {
            Some(turn) => self.settle(branch, turn),
            None => self.put(branch),
        }
    }

    /// What a timer means for a branch; nothing if it is not waited for any more.
    fn fire(&mut self, branch: &mut Branch, ticket: Ticket) -> Option<Turn> {
        for (depth, frame) in branch.frames().iter().enumerate() {
            let is = |alarm: &Option<Alarm>| alarm.is_some_and(|alarm| alarm.ticket == ticket);
            if is(&frame.deadline) {
                return Some(self.time_out(branch, depth));
            }
            match &frame.activity {
                Activity::Try(trying) if is(&trying.attempt_deadline) => {
                    return Some(self.time_out_attempt(branch, depth));
                }
                Activity::Try(trying) if matches!(&trying.stage, TryStage::Delaying(a) if a.ticket == ticket) =>
                {
                    return Some(self.start_next_attempt(branch));
                }
                Activity::Waiting(alarm) if alarm.ticket == ticket => {
                    return Some(self.complete(branch));
                }
                Activity::Again(alarm, None) if alarm.ticket == ticket => {
                    self.set_activity(branch, Activity::Begin);
                    return Some(Turn::Again);
                }
                Activity::Asking(alarm, calling) | Activity::Again(alarm, Some(calling))
                    if alarm.ticket == ticket =>
                {
                    let request = calling.whole_request(&self.execution.large);
                    return Some(self.call(branch, request, true));
                }
                Activity::Undoing(undoing) if is(&undoing.delay) => {
                    return Some(self.start_undo(branch));
                }
                _ => {}
            }
        }
        None
    }

    fn timeout_fault(&self, branch: &Branch, depth: usize) -> Fault {
        let id = branch.frames()[depth].task;
        let task = self.program.task(id);
        let (title, name) = match self.program.linked.begun_by(id) {
            Some(part) => ("the workflow took too long", &part.name),
            None => ("the task took too long", &task.name),
        };
        let detail = format!("`{name}` took longer than it may");
        let mut fault = Fault::new(FaultKind::Timeout, title, detail);
        fault.instance = Some(task.place.pointer.clone());
        fault
    }

    /// The task at a depth has taken too long: only what is around it may catch that.
    fn time_out(&mut self, branch: &mut Branch, depth: usize) -> Turn {
        let fault = self.timeout_fault(branch, depth);
        branch.frame_mut(depth).deadline = None;
        let task = branch.frames()[depth].task;
        self.happenings.push(Happening::TaskFaulted(task, fault.clone()));
        // The timeout of an undo counts as a failed try of that undo.
        let is_undo = matches!(branch.frames()[depth].activity, Activity::Undoing(_));
        let from = if is_undo { depth + 1 } else { depth };
        match self.raise_from(branch, from, fault) {
            Turn::Raised(fault) => {
                self.stop_late(branch, depth);
                Turn::Raised(fault)
            }
            turn => turn,
        }
    }

    /// The attempt of a `try` at a depth has taken too long: the innermost task fails.
    fn time_out_attempt(&mut self, branch: &mut Branch, depth: usize) -> Turn {
        let fault = self.timeout_fault(branch, depth);
        match self.raise_from(branch, depth + 1, fault) {
            Turn::Raised(fault) => {
                let entry = self.stop_result_in_place(branch);
                self.keep_stopped(branch, entry.into_iter().collect());
                Turn::Raised(fault)
            }
            turn => turn,
        }
    }

    /// Stops a task at a depth that took too long, and all that it has under way; it stays itself, to be begun
    /// again. What was done by then is undone in its turn, so it goes to the plan of the task, if that has one.
    fn stop_late(&mut self, branch: &mut Branch, depth: usize) {
        let inside = self.unwind_inside(branch, depth);
        let own = match &branch.frames()[depth].activity {
            Activity::Calling(calling) if self.never_left(calling) => {
                let calling = calling.clone();
                self.take_off(&calling);
                self.set_activity(branch, Activity::Begin);
                None
            }
            Activity::Calling(calling) => {
                self.commands.push(Command::Abandon(calling.ticket));
                Some(self.owe_in_place(branch))
            }
            Activity::Again(alarm, Some(_)) => {
                self.cancel_alarm(Some(*alarm));
                Some(self.owe_in_place(branch))
            }
            _ => self.stop_result_in_place(branch),
        };
        let mut entries: Vec<PlanEntry> = own.into_iter().collect();
        entries.extend(self.stop_in_place(branch));
        entries.extend(inside);
        self.keep_stopped(branch, entries);
    }

    fn run_timed_out(&mut self) {
        self.execution.head.deadline = None;
        self.touched.head = true;
        if !self.is_forward() {
            return;
        }
        let title = "the workflow took too long";
        let detail = format!("`{}` took longer than it may", self.program.name);
        let mut fault = Fault::new(FaultKind::Timeout, title, detail);
        fault.instance = Some("/timeout".to_owned());
        match self.program.on_fault {
            crate::program::OnFault::Compensate => self.roll_back(fault),
            crate::program::OnFault::Leave => self.stop_with_fault(fault),
        }
    }
}

fn not_a_duration(message: String) -> Fault {
    Fault::new(FaultKind::Expression, "there is no duration to wait for", message)
}

/// The delay before a retriable task is tried again in place: 1 s, doubling, at most a minute.
pub(super) fn retriable_delay(tries: u64) -> Duration {
    Duration::from_secs(1 << tries.min(6)).min(Duration::from_secs(60))
}
