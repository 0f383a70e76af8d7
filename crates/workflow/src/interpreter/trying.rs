//! `try`: attempts, what is caught, retries with back-off, handling.

use std::time::Duration;

use outlast_expressions::value;
use outlast_lineage::{Digester, Reversal, Time};

use super::conduct::conduct;
use super::evaluation::Sight;
use super::portions::effect_of;
use super::{Machine, Turn};
use crate::execution::{
    Activity, Alarm, Branch, Failure, Frame, PlanEntry, TryStage, Trying, has_happened,
};
use crate::program::{Backoff, Catch, ErrorFilter, Expression, Kind, RetryPolicy};
use crate::{Command, Fault, FaultKind, Happening, TaskId};

impl Machine<'_> {
    pub(super) fn begin_try(&mut self, branch: &mut Branch, body: TaskId, catch: &Catch) -> Turn {
        let trying = Trying {
            stage: TryStage::Body,
            retries: 0,
            since: self.now,
            context: branch.context().clone(),
            attempt_deadline: None,
            uncertain: Vec::new(),
        };
        self.set_activity(branch, Activity::Try(trying));
        self.begin_attempt(branch, body, catch)
    }

    fn begin_attempt(&mut self, branch: &mut Branch, body: TaskId, catch: &Catch) -> Turn {
        let limit = catch.retry.as_ref().and_then(|policy| policy.attempt_duration.as_ref());
        if let Some(limit) = limit {
            let after = match self.duration(branch, limit) {
                Ok(after) => after,
                Err(fault) => return self.raise(branch, fault),
            };
            let alarm = self.set_alarm(branch, self.now.after(after));
            self.trying_mut(branch).attempt_deadline = Some(alarm);
        }
        self.enter(branch, body, 0);
        Turn::Again
    }

    fn trying_mut<'b>(&self, branch: &'b mut Branch) -> &'b mut Trying {
        match &mut branch.top_mut().expect("a task is being run").activity {
            Activity::Try(trying) => trying,
            activity => unreachable!("{activity:?} is not a try"),
        }
    }

    /// The body or the handler ended well.
    pub(super) fn try_done(&mut self, branch: &mut Branch) -> Turn {
        let trying = self.trying_mut(branch);
        let handled = matches!(trying.stage, TryStage::Handling(_));
        let alarm = trying.attempt_deadline.take();
        let uncertain = std::mem::take(&mut trying.uncertain);
        self.cancel_alarm(alarm);
        if handled {
            // What was never asked again may have happened: whoever rolls back will find out.
            self.keep_for_undo(branch, uncertain);
            branch.top_mut().expect("a task is being run").chosen = Some(0);
        } else {
            // The attempt that worked asked for something else, so nobody wants what was asked before.
            self.undo_aside(branch, uncertain);
        }
        self.complete(branch)
    }

    /// Whether the `try` at a depth catches an error.
    pub(super) fn catches(
        &self,
        branch: &Branch,
        depth: usize,
        fault: &Fault,
    ) -> Result<bool, Fault> {
        let frame = &branch.frames()[depth];
        let (Activity::Try(trying), Kind::Try { catch, .. }) =
            (&frame.activity, &self.program.task(frame.task).kind)
        else {
            return Ok(false);
        };
        if trying.stage != TryStage::Body || !fits(&catch.errors, fault) {
            return Ok(false);
        }
        self.holds(branch, depth, catch, fault, catch.when.as_ref(), catch.except_when.as_ref())
    }

    fn holds(
        &self,
        branch: &Branch,
        depth: usize,
        catch: &Catch,
        fault: &Fault,
        when: Option<&Expression>,
        except_when: Option<&Expression>,
    ) -> Result<bool, Fault> {
        let sight = Sight {
            input: self.value(branch.frames()[depth].input()),
            output: None,
            depth: depth + 1,
            error: Some((&catch.variable, fault)),
        };
        if let Some(when) = when
            && !value::truthy(&self.evaluate_here(branch, when, &sight)?)
        {
            return Ok(false);
        }
        match except_when {
            Some(except) => Ok(!value::truthy(&self.evaluate_here(branch, except, &sight)?)),
            None => Ok(true),
        }
    }

    /// An error was caught at a depth: try again, or handle it.
    pub(super) fn handle(&mut self, branch: &mut Branch, depth: usize, fault: Fault) -> Turn {
        let entries = self.unwind(branch, depth + 1);
        let Kind::Try { catch, .. } = &self.definition(branch).kind else {
            unreachable!("only a try catches")
        };
        let alarm = self.trying_mut(branch).attempt_deadline.take();
        self.cancel_alarm(alarm);
        match self.next_attempt(branch, catch, &fault) {
            Ok(Some(at)) => self.roll_back_attempt(branch, entries, at),
            Ok(None) => {
                self.keep_for_undo_inside(branch, entries);
                self.handle_now(branch, catch, fault)
            }
            Err(other) => {
                self.keep_for_undo_inside(branch, entries);
                self.raise_from(branch, depth, other)
            }
        }
    }

    fn handle_now(&mut self, branch: &mut Branch, catch: &Catch, fault: Fault) -> Turn {
        let input = branch.top().expect("a task is being run").input().clone();
        branch.set_data(input);
        match catch.body {
            Some(body) => {
                self.trying_mut(branch).stage = TryStage::Handling(fault);
                self.enter(branch, body, 1);
                Turn::Again
            }
            None => {
                self.trying_mut(branch).stage = TryStage::Handling(fault);
                self.try_done(branch)
            }
        }
    }

    /// When the next attempt is due, if there is to be one.
    fn next_attempt(
        &self,
        branch: &Branch,
        catch: &Catch,
        fault: &Fault,
    ) -> Result<Option<Time>, Fault> {
        let Some(policy) = &catch.retry else { return Ok(None) };
        let depth = branch.frames().len() - 1;
        let Activity::Try(trying) = &branch.frames()[depth].activity else { return Ok(None) };
        let (when, except) = (policy.when.as_ref(), policy.except_when.as_ref());
        if !self.holds(branch, depth, catch, fault, when, except)? {
            return Ok(None);
        }
        self.retry_time(branch, policy, trying.retries, trying.since)
    }

    /// When retry number `retries + 1` is due by a policy, if the policy allows it.
    pub(super) fn retry_time(
        &self,
        branch: &Branch,
        policy: &RetryPolicy,
        retries: u64,
        since: Time,
    ) -> Result<Option<Time>, Fault> {
        if policy.attempts.is_some_and(|most| most <= retries) {
            return Ok(None);
        }
        let delay = self.retry_delay(branch, policy, retries + 1)?;
        let at = self.now.after(delay);
        if let Some(limit) = &policy.duration
            && since.after(self.duration(branch, limit)?) < at
        {
            return Ok(None);
        }
        Ok(Some(at))
    }

    fn retry_delay(
        &self,
        branch: &Branch,
        policy: &RetryPolicy,
        retry: u64,
    ) -> Result<Duration, Fault> {
        let base = match &policy.delay {
            Some(delay) => self.duration(branch, delay)?,
            None => Duration::ZERO,
        };
        let factor = match policy.backoff {
            Backoff::Constant => 1,
            Backoff::Linear => retry,
            Backoff::Exponential => 1 << (retry - 1).min(40),
        };
        let delay = base.saturating_mul(u32::try_from(factor).unwrap_or(u32::MAX));
        Ok(delay + self.jitter(branch, policy, retry)?)
    }

    /// A random addition that every copy of the execution draws alike.
    fn jitter(&self, branch: &Branch, policy: &RetryPolicy, retry: u64) -> Result<Duration, Fault> {
        let Some((from, to)) = &policy.jitter else { return Ok(Duration::ZERO) };
        let (from, to) = (self.duration(branch, from)?, self.duration(branch, to)?);
        let path = branch.top().expect("a task is being run").path;
        let drawn = Digester::new("jitter")
            .field(self.execution.id.as_bytes())
            .number(path.0)
            .number(retry)
            .finish()
            .short();
        let span = u64::try_from(to.saturating_sub(from).as_micros()).unwrap_or(u64::MAX);
        Ok(from + Duration::from_micros(drawn % span.saturating_add(1).max(1)))
    }

    /// Undoes what a failed attempt did, so that the next one does not do it twice. A call that may have
    /// happened the next attempt asks for again, if it asks for the same; but if it came after something
    /// that is undone, it has to be undone before that.
    fn roll_back_attempt(
        &mut self,
        branch: &mut Branch,
        entries: Vec<PlanEntry>,
        at: Time,
    ) -> Turn {
        let own = branch.top().expect("a task is being run").plan;
        let mut done = own.map(|plan| self.plan_mut(plan).drain()).unwrap_or_default();
        done.extend(entries);
        let undoes = own.is_some() && done.iter().any(is_certain);
        let goes_with_it = |frames: &[Frame]| {
            let reversal = conduct(self.program, frames).reversal;
            undoes && matches!(reversal, Reversal::WithResult | Reversal::Tolerant)
        };
        let (done, uncertain) = split_uncertain(done, &goes_with_it);
        let task = branch.top().expect("a task is being run").task;
        let trying = self.trying_mut(branch);
        // So has what an earlier attempt asked for after it, and this one did not.
        let earlier = std::mem::take(&mut trying.uncertain);
        let (earlier, left) = split_uncertain(earlier, &goes_with_it);
        trying.uncertain = left.into_iter().chain(uncertain).collect();
        let done = in_order(done, earlier);
        let retry = trying.retries + 1;
        self.happenings.push(Happening::TaskRetried(task, retry));
        if own.is_none() {
            // Not a scope: what was done belongs to the scope around and stays.
            let around = self.scope_around(branch, branch.frames().len());
            self.plan_mut(around).extend(done);
            return self.delay_attempt(branch, at);
        }
        if done.is_empty() {
            return self.delay_attempt(branch, at);
        }
        self.trying_mut(branch).stage = TryStage::RollingBack(at);
        self.push_compensation(branch, done, Failure::Park);
        Turn::Again
    }

    pub(super) fn delay_attempt(&mut self, branch: &mut Branch, at: Time) -> Turn {
        if at <= self.now {
            return self.start_next_attempt(branch);
        }
        let alarm = self.set_alarm(branch, at);
        self.trying_mut(branch).stage = TryStage::Delaying(alarm);
        Turn::Wait
    }

    pub(super) fn start_next_attempt(&mut self, branch: &mut Branch) -> Turn {
        let Kind::Try { body, catch } = &self.definition(branch).kind else {
            unreachable!("only a try has attempts")
        };
        let trying = self.trying_mut(branch);
        trying.stage = TryStage::Body;
        trying.retries += 1;
        let context = trying.context.clone();
        branch.set_context(context);
        let input = branch.top().expect("a task is being run").input().clone();
        branch.set_data(input);
        self.begin_attempt(branch, *body, catch)
    }

    pub(super) fn cancel_alarm(&mut self, alarm: Option<Alarm>) {
        if let Some(alarm) = alarm {
            self.commands.push(Command::CancelTimer(alarm.ticket));
        }
    }
}

/// Plan entries with those of earlier attempts, each before what was intended later in the same branch.
fn in_order(mut entries: Vec<PlanEntry>, earlier: Vec<PlanEntry>) -> Vec<PlanEntry> {
    for entry in earlier {
        let own = effect_of(&entry).map(|it| (it.branch, it.point.epoch, it.point.number));
        let is_later = |other: &PlanEntry| match (own, effect_of(other)) {
            (Some((branch, epoch, number)), Some(other)) => {
                branch == other.branch && (epoch, number) < (other.point.epoch, other.point.number)
            }
            _ => false,
        };
        let place = entries.iter().position(is_later).unwrap_or(entries.len());
        entries.insert(place, entry);
    }
    entries
}

/// Whether an entry undoes something that was done.
fn is_certain(entry: &PlanEntry) -> bool {
    match entry {
        PlanEntry::Undo { .. } | PlanEntry::Child { .. } => true,
        PlanEntry::Uncertain(frames) => has_happened(frames),
        PlanEntry::Parallel(lists) => lists.iter().flatten().any(is_certain),
        PlanEntry::Milestone(_) => false,
    }
}

/// Takes the calls with unknown outcome out of a plan, however deep they are, but for those that stay.
pub(super) fn split_uncertain(
    entries: Vec<PlanEntry>,
    stays: &impl Fn(&[Frame]) -> bool,
) -> (Vec<PlanEntry>, Vec<PlanEntry>) {
    let mut uncertain = Vec::new();
    let mut certain = Vec::new();
    for entry in entries {
        match entry {
            PlanEntry::Uncertain(ref frames) if !has_happened(frames) && !stays(frames) => {
                uncertain.push(entry);
            }
            PlanEntry::Parallel(lists) => {
                let mut kept = Vec::new();
                for list in lists {
                    let (list, inner) = split_uncertain(list, stays);
                    uncertain.extend(inner);
                    if !list.is_empty() {
                        kept.push(list);
                    }
                }
                if !kept.is_empty() {
                    certain.push(PlanEntry::Parallel(kept));
                }
            }
            entry => certain.push(entry),
        }
    }
    (certain, uncertain)
}

/// Whether an error has the properties a filter names.
fn fits(filter: &ErrorFilter, fault: &Fault) -> bool {
    let same_kind = filter.kind.as_ref().is_none_or(|kind| {
        *kind == fault.kind || FaultKind::of_uri(kind).is_some_and(|standard| fault.is(standard))
    });
    let same =
        |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
    same_kind
        && filter.status.is_none_or(|status| status == fault.status)
        && same(&filter.instance, &fault.instance)
        && same(&filter.title, &fault.title)
        && same(&filter.detail, &fault.detail)
}
