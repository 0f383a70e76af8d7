//! Advancing an execution: its event, its record, its commands.

use std::sync::Arc;

use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, Time};
use outlast_workflow::{
    Advance, Answer, Command, Event, Fault, FaultKind, Happening, Outcome, SHARED_DATA_BYTES_MAX,
    Ticket,
};

use super::certain::Before;
use super::custody::Custody;
use super::entry::{Origin, State};
use super::{Engine, Step, Work, sizes};
use crate::{
    Action, Advanced, Condition, Happenings, Position, Publication, RecordKind, Report, Sent,
    Subject,
};

/// What a record says of the cause of an advance, besides the delta.
#[derive(Debug, Default)]
pub(super) struct Cause {
    /// The number of the event that was shown.
    pub(super) arrived: Option<u64>,
    /// The event that is published with this step.
    pub(super) published: Option<Publication>,
    /// Whether it was the message of the inbox.
    pub(super) received: bool,
    /// The execution that it is a lost line of.
    pub(super) of: Option<ExecutionId>,
}

impl Engine {
    /// Advances an execution by an event and records it. Says whether anything changed; what
    /// changes nothing is not recorded, and its cause is dropped.
    pub(super) fn advance(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        event: Event,
        cause: Cause,
    ) -> bool {
        if self.is_stored(id) {
            self.advance_stored(step, id, event);
            return false;
        }
        if !self.wake(id) {
            return false;
        }
        if let Event::TimerFired(ticket) = &event {
            self.forget_timer(id, *ticket);
        }
        let Some(event) = self.roster.known(id).put_aside(event) else { return false };
        let author = match &self.roster.known(id).custody {
            None => self.author_alone(id),
            Some(Custody::Replica(_)) => return self.advance_as_primary(step, id, event),
            Some(Custody::Remnant(_)) => match self.ready_remnant(id, event) {
                Ok(ready) => return self.advance_remnant(step, id, ready),
                Err(put_off) => return put_off,
            },
        };
        let entry = self.roster.known(id);
        let program = Arc::clone(&entry.defined.program);
        let State::Awake(execution, origin) = &mut entry.state else {
            unreachable!("it was just woken")
        };
        let advance = execution.advance(&program, event, author, step.now);
        if is_nothing(&advance) {
            return false;
        }
        *origin = Origin::Changed;
        self.record_advance(step, id, advance, cause);
        true
    }

    pub(super) fn record_advance(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        advance: Advance,
        cause: Cause,
    ) {
        let Advance { delta, commands, happenings, effects: _ } = advance;
        // Of a lost line not everything is told.
        let parking = cause.of.is_some() || happenings.iter().any(touches_parking);
        let advanced = Advanced {
            execution: id,
            delta,
            happenings: Happenings::from(&happenings[..]),
            sent: sent_by(&commands),
            published: cause.published,
            arrived: cause.arrived,
            received: cause.received,
            of: cause.of,
        };
        let written = self.counters.record_bytes;
        let (position, kind) = self.record(step, RecordKind::Advanced(Box::new(advanced)));
        let RecordKind::Advanced(advanced) = kind else { unreachable!("it was just made") };
        let weight = usize::try_from(self.counters.record_bytes - written).unwrap_or(usize::MAX);
        let entry = self.roster.known(id);
        entry.weight = entry.weight.saturating_add(weight);
        self.conclude(step, id, position, (advanced.happenings, parking), commands);
        if parking {
            self.claim_answers(id);
        }
        self.deliver(position, &advanced.sent);
        if let Some(publication) = advanced.published {
            self.take_event(step, position, publication);
        }
    }

    /// What follows from a recorded advance: reports, indexes, commands. What happened comes with
    /// whether something may wait for a person now that did not before, or the other way round.
    pub(super) fn conclude(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        position: Position,
        (happenings, parking): (Happenings, bool),
        commands: Vec<Command>,
    ) {
        self.unsaved.mark(Subject::Execution(id), position);
        let before = self.reindex(id, position, step.now, parking);
        if self.options.reports && !happenings.is_empty() {
            let (execution, time) = (self.execution_of(id), step.now);
            let report = Report::Happened { execution, position, time, happenings };
            step.order(Some(position), Action::Report(report));
        }
        for command in commands {
            self.carry_out(step, id, position, command);
        }
        let condition = self.roster.known(id).condition;
        if condition != before && self.options.reports {
            let report = Report::ConditionChanged { execution: id, condition };
            step.order(Some(position), Action::Report(report));
        }
    }

    /// Brings the entry's facts up to its execution's; gives the condition it had before.
    fn reindex(
        &mut self,
        id: ExecutionId,
        position: Position,
        now: Time,
        parking: bool,
    ) -> Condition {
        let entry = self.roster.known(id);
        let (before, changed) = (entry.condition, entry.changed);
        let doubt = Before::Other { condition: before, changed, parked: entry.parked };
        self.certain.changed(position, id, doubt);
        let execution = entry.execution();
        let condition = entry.condition_of(execution);
        let parked = if parking { !execution.parked().is_empty() } else { entry.parked };
        entry.position = position;
        // Of what is over the time is indexed, too.
        if condition == before && parked == entry.parked && !entry.is_over() {
            entry.changed = now;
        } else {
            self.roster.change(id, |entry| {
                entry.condition = condition;
                entry.parked = parked;
                entry.changed = now;
            });
        }
        before
    }

    pub(super) fn carry_out(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        position: Position,
        command: Command,
    ) {
        let after = Some(position);
        match command {
            Command::Call { ticket, request } => {
                self.counters.calls += 1;
                let after = if request.readonly { Some(self.opened) } else { after };
                if !request.undo {
                    self.note_flight(id, ticket, true);
                }
                let (execution, of) = (self.address_of(id), self.execution_of(id));
                step.order(after, Action::Call { execution, of, ticket, request });
            }
            Command::Abandon(ticket) => {
                self.note_flight(id, ticket, false);
                let execution = self.address_of(id);
                self.departed.remove(&(execution, ticket));
                step.order(after, Action::Abandon { execution, ticket });
            }
            Command::Evaluate { ticket, request } => {
                // An evaluation changes nothing outside, so it need not wait for its record.
                step.order(
                    Some(self.opened),
                    Action::Evaluate { execution: self.address_of(id), ticket, request },
                );
            }
            Command::SetTimer { ticket, at } => self.set_timer(id, ticket, at),
            Command::CancelTimer(ticket) => self.forget_timer(id, ticket),
            Command::Publish { ticket, event } => {
                self.queue(id, |execution| Work::Publish { execution, ticket, event });
            }
            Command::Subscribe { ticket, types } => self.subscribe(id, ticket, types, 0),
            Command::Unsubscribe(ticket) => self.unsubscribe(id, ticket),
            Command::StartChild { .. } | Command::CompensateChild { .. } => {
                self.queue_child(id, command);
            }
            // Recorded as sent, and delivered from there. What has left is answered all the same.
            Command::CancelChild(_) | Command::ReleaseChild(_) | Command::Unwanted(_) => {}
            Command::Yield => {
                let event = Event::Continue;
                self.queue(id, |execution| Work::Advance { execution, event });
            }
            Command::End(_) if self.roster.known(id).is_remnant() => {
                self.queue_own(Work::DropRemnant(id));
            }
            Command::End(outcome) => self.ended(step, id, position, outcome),
        }
    }

    /// Asks again for what an execution had open when the node stopped. What could do something
    /// twice that can be done only once is not asked again: only a person can say what became of it.
    pub(super) fn ask_again(&mut self, step: &mut Step, id: ExecutionId, commands: Vec<Command>) {
        for command in commands {
            self.carry_out(step, id, self.opened, command);
        }
        let entry = self.roster.known(id);
        for ticket in entry.execution().doubtful_calls(&entry.defined.program) {
            let fault = Fault::new(
                FaultKind::Communication,
                "Outcome unknown",
                "the node stopped while the call was under way",
            );
            let event = Event::Answered { ticket, answer: Answer::Unknown(fault) };
            self.queue(id, |execution| Work::Advance { execution, event });
        }
    }

    pub(super) fn set_timer(&mut self, id: ExecutionId, ticket: Ticket, at: Time) {
        self.forget_timer(id, ticket);
        self.roster.known(id).timers.push((ticket, at));
        self.timers.insert((at, id, ticket));
    }

    fn forget_timer(&mut self, id: ExecutionId, ticket: Ticket) {
        let timers = &mut self.roster.known(id).timers;
        if let Some(index) = timers.iter().position(|(of, _)| *of == ticket) {
            let (_, at) = timers.swap_remove(index);
            self.timers.remove(&(at, id, ticket));
        }
    }

    pub(super) fn ended(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        position: Position,
        outcome: Outcome,
    ) {
        match &outcome {
            Outcome::Completed(_) => self.counters.completed += 1,
            Outcome::Faulted(_) => self.counters.faulted += 1,
            Outcome::Cancelled => self.counters.cancelled += 1,
            Outcome::Compensated(_) => self.counters.compensated += 1,
        }
        self.over.push(id);
        self.quiet(id);
        self.tell_parents(id, &outcome);
        if self.waiters.are_there(id) {
            let detail = self.detail(id);
            for caller in self.waiters.take(id) {
                step.reply(Some(position), caller, crate::Reply::Shown(detail.clone()));
            }
        }
        self.tidy(step.now);
    }

    /// Drops the timers and subscriptions of an execution that has ended.
    pub(super) fn quiet(&mut self, id: ExecutionId) {
        for (ticket, at) in std::mem::take(&mut self.roster.known(id).timers) {
            self.timers.remove(&(at, id, ticket));
        }
        while let Some(gone) = self.roster.known(id).subscriptions.first().map(|gone| gone.ticket) {
            self.unsubscribe(id, gone);
        }
    }

    /// An answer, as one that is too large if its data is more than may come in. A refusal is what it is:
    /// only its beginning is quoted.
    pub(super) fn admit_answer(&mut self, id: ExecutionId, answer: Answer) -> Answer {
        match answer {
            Answer::Succeeded(value) => match self.excess(id, &value) {
                Some(detail) => {
                    let fault = Fault::new(FaultKind::Runtime, "Answer too large", detail);
                    Answer::TooLarge(value, fault)
                }
                None => Answer::Succeeded(value),
            },
            other => other,
        }
    }

    /// A worker's result, unless its data is more than may come in.
    pub(super) fn admit_result(
        &mut self,
        id: ExecutionId,
        result: Result<Value, String>,
    ) -> Result<Value, String> {
        let value = result?;
        self.excess(id, &value).map_or(Ok(value), Err)
    }

    /// Why a value is more than an execution may take in.
    fn excess(&mut self, id: ExecutionId, value: &Value) -> Option<String> {
        let bytes = sizes::bytes_of(value);
        let limits = &self.options.limits;
        if bytes > limits.value_bytes {
            let limit = limits.value_bytes;
            return Some(format!("the value has {bytes} bytes; at most {limit} are accepted"));
        }
        let mut limit = limits.execution_bytes;
        let entry = self.roster.get_mut(id)?;
        if entry.custody.is_some() {
            limit = limit.min(SHARED_DATA_BYTES_MAX);
        }
        if entry.weight.saturating_add(bytes) > limit {
            // The weight counts every record; only what is still held counts now.
            entry.weight = entry.state_bytes().map_or(entry.weight, |bytes| bytes.len());
        }
        (entry.weight.saturating_add(bytes) > limit)
            .then(|| why_too_much(entry.weight, bytes, limit, entry.custody.is_some()))
    }
}

/// Why an execution that holds so much takes no value of so many bytes, and what to do.
fn why_too_much(held: usize, bytes: usize, limit: usize, is_shared: bool) -> String {
    let excess = if limit < held {
        format!("which is already more than {limit}")
    } else {
        format!("and with this value of {bytes} it would be more than {limit}")
    };
    let by_whom = if is_shared { " where several nodes hold it" } else { "" };
    format!(
        "the execution holds {held} bytes of data, {excess}, the most{by_whom}: have tasks pass on less, and undos \
         `capture` only what they need; without `capture` they keep the whole input and output"
    )
}

/// Messages that a record must carry because nothing else would bring them back after a restart.
pub(super) fn sent_by(commands: &[Command]) -> Vec<Sent> {
    let sent = |command: &Command| match command {
        Command::CancelChild(child) => Some(Sent::Cancel(*child)),
        Command::ReleaseChild(child) => Some(Sent::Release(*child)),
        _ => None,
    };
    commands.iter().filter_map(sent).collect()
}

pub(super) const fn touches_parking(happening: &Happening) -> bool {
    matches!(happening, Happening::Parked(..) | Happening::Resolved(..) | Happening::Ended(_))
}

pub(super) fn is_nothing(advance: &Advance) -> bool {
    advance.commands.is_empty() && advance.happenings.is_empty() && advance.delta.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_too_much_already_is_told_so() {
        let already = why_too_much(120, 1, 100, true);
        assert!(
            already.contains("holds 120 bytes of data, which is already more than 100"),
            "{already}"
        );
        assert!(already.contains("the most where several nodes hold it: have"), "{already}");
        let next = why_too_much(99, 2, 100, false);
        assert!(
            next.contains("with this value of 2 it would be more than 100, the most: "),
            "{next}"
        );
    }
}
