//! What is asked, and what is answered.

use std::collections::BTreeSet;
use std::ops::Bound;

use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::Event;

use super::entry::Entry;
use super::{Cause, Engine, Step, Work};
use crate::{
    Ask, Caller, Condition, Detail, Filter, Holders, Position, Refusal, Reply, Summary, Which,
    WorkflowVersion,
};

/// How many executions one request for a list looks at, at most: a page may be short and still not
/// be the last.
const LOOKED_AT_MAX: usize = 10_000;

/// Until when what has ended cannot be changed.
const HELD_TOGETHER: &str =
    "before all nodes that hold it together know of its end; ask again then";
/// Why what has not faulted cannot be retried.
const ONLY_FAULTED: &str = "as only a faulted one can";

impl Engine {
    /// Answers a request, now or later.
    pub(super) fn answer(&mut self, step: &mut Step, caller: Caller, ask: Ask) {
        let answered = if self.storage_full && is_change(&ask) {
            Err(Refusal::StorageFull)
        } else if let Some(id) = self.stored_subject(&ask) {
            return self.fetch(step, id, Work::Answer { caller, ask: Box::new(ask) });
        } else {
            self.try_to_answer(step, caller, ask)
        };
        if let Err(refusal) = answered {
            self.counters.refused += 1;
            step.reply(self.certain_of(&refusal), caller, Reply::Refused(refusal));
        }
    }

    fn try_to_answer(&mut self, step: &mut Step, caller: Caller, ask: Ask) -> Result<(), Refusal> {
        match ask {
            Ask::Define { program, text } => self.define(step, caller, program, &text),
            Ask::Definitions { namespace } => {
                let up_to = self.shown_up_to();
                let summaries = self.definitions.summaries(namespace.as_deref(), up_to);
                step.reply(Some(up_to), caller, Reply::Definitions(summaries));
                Ok(())
            }
            Ask::Definition { namespace, name, version } => {
                self.give_definition(step, caller, &namespace, &name, &version)
            }
            Ask::Start(_) if self.gossip.draining => Err(Refusal::Draining),
            Ask::Start(start) => self.start(step, caller, *start),
            Ask::Standing => {
                let standing = Reply::Standing(Box::new(self.standing()));
                step.reply(None, caller, standing);
                Ok(())
            }
            Ask::Remove(node) => {
                if node == self.options.node {
                    let reason = "a node does not remove itself; ask another one";
                    return Err(Refusal::Invalid(reason.to_owned()));
                }
                self.remove_peers(step, &BTreeSet::from([node]));
                step.reply(None, caller, Reply::Done);
                Ok(())
            }
            Ask::Drain(draining) => {
                self.drain(step, draining);
                let standing = Reply::Standing(Box::new(self.standing()));
                step.reply(None, caller, standing);
                Ok(())
            }
            Ask::Show(which) => self.show(step, caller, &which),
            Ask::List(filter) => {
                let reply =
                    if self.storage_full { self.list_certain(&filter) } else { self.list(&filter) };
                step.reply(Some(self.shown_up_to()), caller, reply);
                Ok(())
            }
            Ask::Wait(which) => self.wait(step, caller, &which),
            Ask::Cancel(which) => self.request(step, caller, &which, Event::CancelRequested),
            Ask::Compensate { which, reason } => {
                self.request(step, caller, &which, Event::CompensateRequested(reason))
            }
            Ask::Suspend(which) => self.request(step, caller, &which, Event::SuspendRequested),
            Ask::Resume(which) => self.request(step, caller, &which, Event::ResumeRequested),
            Ask::Retry(which) => self.request(step, caller, &which, Event::RetryRequested),
            Ask::Signal { which, event } => {
                let id = self.find(&which)?;
                if self.roster.known(id).condition.is_end() {
                    return Err(self.not_possible(id, Wish::Hear));
                }
                self.accept_event(step, caller, Some(id), event)
            }
            Ask::Publish { event } => self.accept_event(step, caller, None, event),
            Ask::Parked(filter) => {
                let items = self.parked_items(&filter)?;
                step.reply(Some(self.shown_up_to()), caller, Reply::Parked(items));
                Ok(())
            }
            Ask::Resolve { filter, resolution } => self.resolve(step, caller, &filter, &resolution),
            Ask::Delete(which) => self.delete(step, caller, &which),
            Ask::GiveUp(which) => self.give_up(step, caller, &which),
        }
    }

    /// Up to which record a list shows everything: the newest one, which it waits for, unless that
    /// could take for ever.
    const fn shown_up_to(&self) -> Position {
        if self.storage_full { self.certain.durable() } else { self.position }
    }

    /// From when on a refusal is certain. It may tell of what others did: not before that is
    /// durable. That the storage is full tells nothing of the kind, and neither does what is not
    /// there while nothing is recorded, unless it is not there any more.
    fn certain_of(&self, refusal: &Refusal) -> Option<Position> {
        let waits = match refusal {
            Refusal::StorageFull => false,
            _ => !self.storage_full || self.certain.forgotten().next().is_some(),
        };
        waits.then_some(self.position)
    }

    fn give_definition(
        &self,
        step: &mut Step,
        caller: Caller,
        namespace: &str,
        name: &str,
        version: &WorkflowVersion,
    ) -> Result<(), Refusal> {
        let Some(defined) = self.definitions.find(namespace, name, version) else {
            return Err(Refusal::UnknownDefinition(format!("{namespace}/{name} ({version})")));
        };
        let reply = Reply::Definition { summary: defined.summary(), text: defined.text.clone() };
        step.reply(Some(defined.position), caller, reply);
        Ok(())
    }

    /// The execution that is meant.
    pub(super) fn find(&self, which: &Which) -> Result<ExecutionId, Refusal> {
        let id = match which {
            Which::Id(id) => Some(*id),
            Which::Named { namespace, name } => self.roster.named(namespace, name),
        };
        match id {
            Some(id) if self.roster.get(id).is_some() => Ok(id),
            Some(id) if self.tombstones.contains(id) => Err(Refusal::Forgotten(which.to_string())),
            _ => Err(Refusal::UnknownExecution(which.to_string())),
        }
    }

    fn show(&mut self, step: &mut Step, caller: Caller, which: &Which) -> Result<(), Refusal> {
        let id = self.find(which)?;
        let detail = self.detail(id);
        step.reply(Some(detail.position), caller, Reply::Shown(detail));
        Ok(())
    }

    fn wait(&mut self, step: &mut Step, caller: Caller, which: &Which) -> Result<(), Refusal> {
        let id = self.find(which)?;
        if self.roster.known(id).condition.is_end() {
            return self.show(step, caller, which);
        }
        self.waiters.wait(caller, id);
        Ok(())
    }

    /// Advances an execution because someone asked.
    fn request(
        &mut self,
        step: &mut Step,
        caller: Caller,
        which: &Which,
        event: Event,
    ) -> Result<(), Refusal> {
        let id = self.find(which)?;
        let wish = Wish::of(&event);
        let is_pause = matches!(event, Event::SuspendRequested | Event::ResumeRequested);
        if is_pause && self.roster.known(id).is_active() {
            return Err(Refusal::NotPossible(format!(
                "execution {id} is active, so every node that holds it executes it, and the others would \
                 go on: it can {}; it can be cancelled, or rolled back",
                wish.denied()
            )));
        }
        if matches!(event, Event::CompensateRequested(_)) {
            self.wake(id);
            let entry = self.roster.known(id);
            // What has completed or was stopped keeps its plan for its parent or for lines that are lost, not
            // for people.
            let stays = matches!(entry.condition, Condition::Completed | Condition::Cancelled);
            if stays || !entry.execution().can_be_rolled_back() {
                return Err(self.not_possible(id, wish));
            }
        }
        if !self.advance(step, id, event, Cause::default()) {
            return Err(self.not_possible(id, wish));
        }
        self.promise(step, caller, id);
        Ok(())
    }

    /// Why something cannot be done with an execution, and until when; or that this node cannot tell, because
    /// what it knows may be old.
    fn not_possible(&self, id: ExecutionId, wish: Wish) -> Refusal {
        let reason = self.obstacle(id, wish);
        match self.roster.get(id).and_then(Entry::missed_majority) {
            Some(silent) => Refusal::PerhapsOld { reason, silent },
            None => Refusal::NotPossible(reason),
        }
    }

    fn obstacle(&self, id: ExecutionId, wish: Wish) -> String {
        let denied = wish.denied();
        let Some(entry) = self.roster.get(id) else {
            return format!("execution {id} is gone: it can {denied}");
        };
        let condition = entry.condition;
        if entry.is_being_decided() {
            return format!(
                "execution {id} has come to an end that the nodes which hold it still have to agree on: it \
                 can {denied}"
            );
        }
        let more = match wish {
            Wish::Retry | Wish::RollBack
                if condition == Condition::Faulted && entry.custody.is_some() =>
            {
                format!(" {HELD_TOGETHER}")
            }
            Wish::Retry if condition == Condition::Faulted => String::new(),
            Wish::Retry if condition.is_end() => format!(", {ONLY_FAULTED}; start a new one"),
            Wish::Retry => format!(", {ONLY_FAULTED}"),
            _ => String::new(),
        };
        let condition = condition.word();
        format!("execution {id} is {condition}: it can {denied}{more}")
    }

    pub(super) fn delete(
        &mut self,
        step: &mut Step,
        caller: Caller,
        which: &Which,
    ) -> Result<(), Refusal> {
        let id = self.find(which)?;
        let entry = self.roster.known(id);
        let obstacle = if !entry.condition.is_end() {
            return Err(self.not_ended(id));
        } else if entry.custody.is_some() {
            let reason = format!("can not be deleted {HELD_TOGETHER}");
            return Err(Refusal::NotYet(format!("execution {id} {reason}")));
        } else if entry.held {
            "can still be rolled back by its parent; it can be deleted when that has ended"
        } else if entry.parked {
            "has parked effects; resolve them first"
        } else {
            let position = self.forget(step, id);
            step.reply(Some(position), caller, Reply::Done);
            return Ok(());
        };
        Err(Refusal::NotPossible(format!("execution {id} {obstacle}")))
    }

    /// Why what has not ended is not deleted, as far as this node knows that.
    fn not_ended(&self, id: ExecutionId) -> Refusal {
        let entry = self.roster.get(id);
        let reason = format!("execution {id} has not ended; cancel it first");
        match entry.and_then(Entry::missed_majority) {
            Some(silent) => Refusal::PerhapsOld { reason, silent },
            None => Refusal::NotPossible(reason),
        }
    }

    fn list(&self, filter: &Filter) -> Reply {
        let most = self.options.limits.page;
        let limit = if filter.limit == 0 { most } else { filter.limit.min(most) };
        let candidates: Box<dyn Iterator<Item = _>> = match (filter.holder, filter.condition) {
            (Some(_), _) => Box::new(self.in_custody_after(filter.after)),
            (None, Some(condition)) => Box::new(self.roster.in_condition(condition, filter.after)),
            (None, None) => Box::new(self.roster.after(filter.after)),
        };
        let (mut executions, mut last, mut looked_at) = (Vec::new(), None, 0);
        let mut more = false;
        for (id, entry) in candidates {
            if executions.len() == limit || looked_at == LOOKED_AT_MAX {
                more = true;
                break;
            }
            looked_at += 1;
            last = Some(id);
            if !entry.is_remnant()
                && fits(entry, filter.namespace.as_deref(), filter.workflow.as_deref())
                && filter.condition.is_none_or(|wanted| wanted == entry.condition)
                && filter.holder.is_none_or(|holder| is_held_by(entry.holders().as_ref(), holder))
            {
                executions.push(self.summary(id, entry));
            }
        }
        Reply::Listed { executions, next: last.filter(|_| more) }
    }

    /// Executions that several nodes hold, with ids after one.
    fn in_custody_after(
        &self,
        after: Option<ExecutionId>,
    ) -> impl Iterator<Item = (ExecutionId, &Entry)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let ids = self.custodies.range((start, Bound::Unbounded)).copied();
        ids.filter_map(|id| Some((id, self.roster.get(id)?)))
    }

    /// The same as of the last durable record.
    fn list_certain(&self, filter: &Filter) -> Reply {
        let most = self.options.limits.page;
        let limit = if filter.limit == 0 { most } else { filter.limit.min(most) };
        let (candidates, mut next) = self.certain_after(filter.after, LOOKED_AT_MAX);
        let fits = |one: &Summary| {
            filter.condition.is_none_or(|wanted| wanted == one.condition)
                && filter.namespace.as_ref().is_none_or(|wanted| *wanted == one.namespace)
                && filter.workflow.as_ref().is_none_or(|wanted| *wanted == one.workflow)
                && filter.holder.is_none_or(|holder| is_held_by(one.holders.as_ref(), holder))
        };
        let mut executions: Vec<_> = candidates.into_iter().filter(fits).take(limit + 1).collect();
        if executions.len() > limit {
            executions.pop();
            next = executions.last().map(|last| last.execution);
        }
        Reply::Listed { executions, next }
    }

    /// Everything about one execution.
    pub(super) fn detail(&mut self, id: ExecutionId) -> Box<Detail> {
        // Its lost lines are woken for this, which may put others to sleep.
        let parked = self.parked_of(id);
        self.wake(id);
        let entry = self.roster.get(id).expect("it was just woken");
        let execution = entry.execution();
        // Several may each have come to an end of their own: it is nobody's answer until it is decided on.
        let outcome = execution.outcome().filter(|_| entry.condition.is_end());
        Box::new(Detail {
            summary: self.summary(id, entry),
            outcome: outcome.cloned(),
            input: execution.input(),
            progress: execution.progress(),
            parked,
            copies: copies(entry),
            position: entry.position,
        })
    }

    /// The line of an execution in a list.
    pub(super) fn summary(&self, id: ExecutionId, entry: &Entry) -> Summary {
        let definition = &entry.defined.definition;
        Summary {
            execution: id,
            name: entry.name.as_deref().map(str::to_owned),
            namespace: definition.namespace.clone(),
            workflow: definition.name.clone(),
            version: definition.version.clone(),
            definition: definition.digest,
            condition: entry.condition,
            started: entry.started,
            changed: entry.changed,
            parent: entry.parent.as_deref().map(|parent| parent.execution),
            parked: entry.parked,
            holders: entry.holders(),
        }
    }
}

/// Whether an execution is of a namespace and a definition.
pub(super) fn fits(entry: &Entry, namespace: Option<&str>, workflow: Option<&str>) -> bool {
    let definition = &entry.defined.definition;
    namespace.is_none_or(|wanted| wanted == definition.namespace)
        && workflow.is_none_or(|wanted| wanted == definition.name)
}

/// Whether a node is among those who hold an execution together.
fn is_held_by(holders: Option<&Holders>, node: NodeId) -> bool {
    holders.is_some_and(|holders| holders.members.contains(&node))
}

/// Who has a copy of what several nodes held, once they have forgotten that. What was forgotten by an
/// earlier release does not say who they were.
fn copies(entry: &Entry) -> Option<Vec<NodeId>> {
    match (&entry.custody, &entry.copies) {
        (Some(_), _) => None,
        (None, Some(copies)) => Some(copies.to_vec()),
        (None, None) => entry.execution().is_shared().then(Vec::new),
    }
}

/// Whether a request needs a record.
const fn is_change(ask: &Ask) -> bool {
    !matches!(
        ask,
        Ask::Definitions { .. }
            | Ask::Definition { .. }
            | Ask::Show(_)
            | Ask::List(_)
            | Ask::Wait(_)
            | Ask::Parked(_)
            | Ask::Standing
            | Ask::Remove(_)
            | Ask::Drain(_)
    )
}

/// What somebody wishes to be done with an execution.
#[derive(Clone, Copy)]
enum Wish {
    Cancel,
    RollBack,
    Suspend,
    Resume,
    Retry,
    /// That it takes an event.
    Hear,
}

impl Wish {
    fn of(event: &Event) -> Self {
        match event {
            Event::CancelRequested => Self::Cancel,
            Event::CompensateRequested(_) => Self::RollBack,
            Event::SuspendRequested => Self::Suspend,
            Event::ResumeRequested => Self::Resume,
            Event::RetryRequested => Self::Retry,
            other => unreachable!("nobody asks for {other:?}"),
        }
    }

    /// That it cannot be done, said so that it follows "it can".
    const fn denied(self) -> &'static str {
        match self {
            Self::Cancel => "not be cancelled",
            Self::RollBack => "not be rolled back",
            Self::Suspend => "not be suspended",
            Self::Resume => "not be resumed",
            Self::Retry => "not be retried",
            Self::Hear => "take no more events",
        }
    }
}
