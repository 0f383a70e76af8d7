//! From those who publish events to those who listen.

use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, Time};
use outlast_workflow::{Answer, Event, Ticket};

use super::custody::Custody;
use super::entry::Subscription;
use super::events::Events;
use super::{Cause, Engine, Step, Work, sizes};
use crate::{Action, Caller, Position, Publication, RecordKind, Refusal, Reply, Report, Subject};

/// How many listeners are told of an event in one turn.
const LISTENERS_PER_TURN: usize = 256;

impl Engine {
    /// A caller gives an event to everyone or to one execution.
    pub(super) fn accept_event(
        &mut self,
        step: &mut Step,
        caller: Caller,
        to: Option<ExecutionId>,
        event: Value,
    ) -> Result<(), Refusal> {
        self.check_event(&event)?;
        let publication = self.numbered(step.now, to, event);
        if let Some(number) = self.events.number_of(publication.identity(self.options.node)) {
            // The same event, sent again.
            step.reply(Some(self.position), caller, Reply::EventTaken { number });
            return Ok(());
        }
        let number = publication.number;
        let (position, kind) = self.record(step, RecordKind::EventTaken(publication));
        let RecordKind::EventTaken(publication) = kind else { unreachable!("it was just made") };
        self.take_event(step, position, publication);
        step.reply(Some(position), caller, Reply::EventTaken { number });
        Ok(())
    }

    pub(super) fn check_event(&self, event: &Value) -> Result<(), Refusal> {
        if Events::kind(event).is_none_or(|kind| kind.is_empty()) {
            let reason = "an event is a CloudEvent object with a text as its `type`";
            return Err(Refusal::Invalid(reason.to_owned()));
        }
        let (bytes, limit) = (sizes::bytes_of(event), self.options.limits.event_bytes);
        if bytes > limit {
            return Err(Refusal::TooLarge { what: "the event", bytes, limit });
        }
        let limits = &self.options.limits;
        if self.events.is_full(limits.buffered_events, limits.buffered_event_bytes) {
            return Err(super::starting::busy("too many events wait for their listeners"));
        }
        Ok(())
    }

    fn numbered(&self, time: Time, to: Option<ExecutionId>, event: Value) -> Publication {
        Publication { number: self.events.next, time, to, event, origin: None }
    }

    /// Takes in an event that an execution publishes. The record that holds the event also says
    /// that the execution knows: so it is published once, whenever the node stops.
    pub(super) fn publish_for(
        &mut self,
        step: &mut Step,
        execution: ExecutionId,
        ticket: Ticket,
        event: Value,
    ) {
        let published = self.numbered(step.now, None, event);
        // What several nodes held until its end may have told the same before.
        let was_shared = self.roster.get(execution).is_some_and(|entry| entry.copies.is_some());
        let identity = published.identity(self.options.node);
        let is_known = was_shared && self.events.number_of(identity).is_some();
        let published = Some(published).filter(|_| !is_known);
        let answered = Event::Answered { ticket, answer: Answer::Succeeded(Value::Null) };
        self.advance(step, execution, answered, Cause { published, ..Cause::default() });
    }

    /// Buffers a recorded event and has its listeners told.
    pub(super) fn take_event(
        &mut self,
        step: &mut Step,
        position: Position,
        publication: Publication,
    ) {
        let number = publication.number;
        self.counters.events += 1;
        if self.options.reports && publication.to.is_none() {
            let event = publication.event.clone();
            step.order(Some(position), Action::Report(Report::Published { number, event }));
        }
        self.unsaved.mark(Subject::Event(number), position);
        self.unsaved.mark(Subject::Node, position);
        self.events.insert(publication, self.options.node);
        self.share_event(step, position, number);
        self.events.spread_begun(number);
        self.queue_own(Work::Spread { number, after: None });
        self.drop_old_events(step);
    }

    /// Tells the next listeners of an event, and puts the rest off.
    pub(super) fn spread(&mut self, number: u64, after: Option<ExecutionId>) {
        let listeners = self.events.listeners_after(number, after, LISTENERS_PER_TURN);
        for execution in &listeners {
            self.catch_up(*execution);
        }
        match listeners.last() {
            Some(last) if listeners.len() == LISTENERS_PER_TURN => {
                self.queue_own(Work::Spread { number, after: Some(*last) });
            }
            _ => self.events.spread_ended(number),
        }
    }

    /// Puts an execution in line to be shown the next event it has not seen, if there is one.
    pub(super) fn catch_up(&mut self, execution: ExecutionId) {
        let Some(entry) = self.roster.get(execution) else { return };
        let (before, next) = (entry.lagging, self.events.next_for(execution, &entry.subscriptions));
        if before.is_none() && next.is_some() {
            self.queue(execution, Work::Show);
        }
        // While it is in line, only its turn changes what it is to be shown next.
        if before.is_none() {
            self.lags(execution, next);
        }
    }

    fn lags(&mut self, execution: ExecutionId, next: Option<u64>) {
        if let Some(entry) = self.roster.get_mut(execution) {
            let before = std::mem::replace(&mut entry.lagging, next);
            self.events.lags(execution, before, next);
        }
    }

    /// Shows an execution the next event it has not seen.
    pub(super) fn show_next_event(&mut self, step: &mut Step, execution: ExecutionId) {
        self.lags(execution, None);
        let Some(entry) = self.roster.get_mut(execution) else { return };
        let Some(number) = self.events.next_for(execution, &entry.subscriptions) else { return };
        let publication = self.events.get(number).expect("it was found in the buffer");
        let kind = self.events.kind_of(number).unwrap_or_default();
        // Another node may go on from here: there the event has another number.
        let shared = matches!(entry.custody, Some(Custody::Replica(_)));
        let identity = self.events.identity_of(number).filter(|_| shared);
        let told = identity.unwrap_or(number);
        let event = Event::Arrived { number: told, event: publication.event.clone() };
        for subscription in &mut entry.subscriptions {
            if subscription.next <= number && subscription.wants(kind) {
                subscription.next = number + 1;
            }
        }
        let cause = Cause { arrived: Some(number), ..Cause::default() };
        self.advance(step, execution, event, cause);
        self.catch_up(execution);
    }

    pub(super) fn subscribe(
        &mut self,
        id: ExecutionId,
        ticket: Ticket,
        types: Option<Vec<String>>,
        next: u64,
    ) {
        self.events.listen(id, types.as_deref());
        let subscriptions = &mut self.roster.known(id).subscriptions;
        subscriptions.retain(|other| other.ticket != ticket);
        subscriptions.push(Subscription { ticket, types, next });
        self.catch_up(id);
    }

    pub(super) fn unsubscribe(&mut self, id: ExecutionId, ticket: Ticket) {
        let subscriptions = &mut self.roster.known(id).subscriptions;
        if let Some(index) = subscriptions.iter().position(|other| other.ticket == ticket) {
            let gone = subscriptions.remove(index);
            self.events.unlisten(id, &gone, subscriptions);
        }
    }

    /// Drops events that are too old or too many and that nobody has yet to see.
    pub(super) fn drop_old_events(&mut self, step: &mut Step) {
        let limits = &self.options.limits;
        let age = u64::try_from(limits.buffered_event_age.as_micros()).unwrap_or(u64::MAX);
        let too_old = Time::from_micros(step.now.as_micros().saturating_sub(age));
        while let Some(number) =
            self.events.evict(too_old, limits.buffered_events, limits.buffered_event_bytes)
        {
            self.counters.events_dropped += 1;
            self.unsaved.clear(&Subject::Event(number));
            step.order(Some(self.position), Action::Forget(Subject::Event(number)));
        }
    }

    /// When the oldest event is too old.
    pub(super) fn next_dropping(&self) -> Option<Time> {
        let age = self.options.limits.buffered_event_age;
        // One microsecond later, so that at that time it is older than it may be.
        self.events.oldest().map(|taken| Time::from_micros(taken.after(age).as_micros() + 1))
    }
}
