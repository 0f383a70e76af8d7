//! Parents and children: both are executions of their own, and meet only through work and inboxes.
//!
//! Starting and rolling back are asked for again after a restart for as long as the parent waits,
//! and do nothing the second time. Stopping and releasing are never answered: the parent's record
//! puts them into the child's inbox.

use outlast_expressions::Value;
use outlast_lineage::{Digester, ExecutionId};
use outlast_workflow::program::{Kind, Task};
use outlast_workflow::{Command, Event, Fault, FaultKind, Outcome, TaskId, Ticket};

use super::starting::NewExecution;
use super::{Cause, Engine, Step, Work, sizes};
use crate::{Condition, Parent, Position, Sent, Subject, WorkflowVersion};

/// A child to be started.
#[derive(Debug)]
pub(super) struct ChildStart {
    parent: ExecutionId,
    ticket: Ticket,
    pub(super) child: ExecutionId,
    namespace: String,
    name: String,
    version: String,
    input: Value,
    wait: bool,
}

impl Engine {
    /// Puts a parent's command for a child into the queue.
    pub(super) fn queue_child(&mut self, parent: ExecutionId, command: Command) {
        match command {
            Command::StartChild { ticket, child, namespace, name, version, input, wait } => {
                self.unwanted.remove(&child);
                let start =
                    ChildStart { parent, ticket, child, namespace, name, version, input, wait };
                self.queue(parent, |_| Work::StartChild(Box::new(start)));
            }
            Command::CompensateChild { ticket, child } => {
                self.queue(parent, |parent| Work::CompensateChild { parent, ticket, child });
            }
            _ => {}
        }
    }

    pub(super) fn start_child(&mut self, step: &mut Step, start: ChildStart) {
        if self.unwanted.remove(&start.child) {
            return;
        }
        if self.roster.get(start.child).is_some() {
            return self.meet_child(&start);
        }
        // Whoever does not wait for its end may be told of it long after it was forgotten.
        if !start.wait && self.tombstones.contains(start.child) {
            return self.tell_started(start.parent, start.ticket);
        }
        let defined = match self.pinned_start(&start) {
            Some(task) => match self.definition_of(step, start.parent, task) {
                None => return self.queue(start.parent, |_| Work::StartChild(Box::new(start))),
                defined => defined,
            },
            None => {
                let version = WorkflowVersion::of(&start.version);
                self.definitions.find(&start.namespace, &start.name, &version).cloned()
            }
        };
        let Some(defined) = defined else {
            let what = format!("{}/{}:{}", start.namespace, start.name, start.version);
            let detail = format!("there is no definition {what}; register it first");
            return self.refuse_child(step, &start, FaultKind::Configuration, detail);
        };
        let depth = self.depth_of(start.parent) + 1;
        if let Some(detail) = self.too_much(&start, &defined.namespace, depth) {
            return self.refuse_child(step, &start, FaultKind::Runtime, detail);
        }
        let ChildStart { parent, ticket, child, input, wait, .. } = start;
        let salt = self.salt_under(parent, child);
        let parent = Parent { execution: parent, ticket, waits: wait, depth };
        let new = NewExecution {
            id: child,
            name: None,
            digest: sizes::digest_of(&input),
            input,
            salt,
            parent: Some(parent),
        };
        self.begin(step, defined, new);
        if !wait {
            self.tell_started(parent.execution, ticket);
        }
    }

    /// The task that starts a child, if what it starts is pinned: in an execution that several nodes held
    /// until its end, and that this one goes on with alone.
    fn pinned_start(&self, start: &ChildStart) -> Option<TaskId> {
        let around = self.roster.get(start.parent).filter(|entry| entry.copies.is_some())?;
        let is_start = |task: &Task| match &task.kind {
            Kind::RunWorkflow { namespace, name, version, wait: false, .. } => {
                (namespace, name, version) == (&start.namespace, &start.name, &start.version)
            }
            _ => false,
        };
        let tasks = around.defined.program.tasks.iter().zip(0..);
        let mut starts = tasks.filter(|(task, _)| is_start(task));
        starts.next().map(|(_, number)| TaskId(number))
    }

    /// The child is there already: it was started before a restart.
    fn meet_child(&mut self, start: &ChildStart) {
        if !start.wait {
            return self.tell_started(start.parent, start.ticket);
        }
        if let Some(outcome) = self.outcome_of(start.child) {
            self.tell(start.parent, start.ticket, outcome);
        }
    }

    /// A child may not be started: its parent learns at once that it faulted.
    fn refuse_child(
        &mut self,
        step: &mut Step,
        start: &ChildStart,
        kind: FaultKind,
        detail: String,
    ) {
        let fault = Fault::new(kind, "Sub-workflow not started", detail);
        let outcome = Outcome::Faulted(fault);
        let event = Event::ChildEnded { ticket: start.ticket, outcome };
        self.advance(step, start.parent, event, Cause::default());
    }

    /// Why a child is more than is allowed. Children are not refused for the quota of new work, or
    /// parents that hold a share could wait for each other; but there is an end to it.
    fn too_much(&self, start: &ChildStart, namespace: &str, depth: u32) -> Option<String> {
        let limits = &self.options.limits;
        if depth > limits.nesting {
            return Some(format!("sub-workflows nest deeper than {}", limits.nesting));
        }
        let bytes = sizes::bytes_of(&start.input);
        if bytes > limits.input_bytes {
            let limit = limits.input_bytes;
            return Some(format!("the input has {bytes} bytes; at most {limit} are accepted"));
        }
        let most = self.quota(namespace).live.saturating_mul(2);
        (self.roster.share(namespace).live >= most)
            .then(|| format!("namespace {namespace} has {most} executions that have not ended"))
    }

    fn depth_of(&self, id: ExecutionId) -> u32 {
        let parent = self.roster.get(id).and_then(|entry| entry.parent.as_deref());
        parent.map_or(0, |parent| parent.depth)
    }

    /// The salt of a child is its parent's: a stand-in for a secret that it is handed is one there as well, whether
    /// it is an execution of its own or, under replicas, a part of its parent.
    fn salt_under(&mut self, parent: ExecutionId, child: ExecutionId) -> [u8; 16] {
        if !self.is_stored(parent) && self.wake(parent) {
            return *self.roster.known(parent).execution().salt();
        }
        // Sixteen bytes that nobody outside can guess; no parent starts children while it is put away.
        let digester = Digester::new("child salt").field(&self.options.salt);
        let digest = digester.field(child.as_bytes()).finish();
        digest.as_bytes()[..16].try_into().expect("a digest has 32 bytes")
    }

    pub(super) fn compensate_child(
        &mut self,
        step: &mut Step,
        parent: ExecutionId,
        ticket: Ticket,
        child: ExecutionId,
    ) {
        if self.roster.get(child).is_none() {
            // It was never started: there is nothing to undo, and it must not start any more.
            self.unwanted.insert(child);
            return self.tell(parent, ticket, Outcome::Cancelled);
        }
        let settled = |outcome: &Outcome| matches!(outcome, Outcome::Compensated(_));
        if let Some(outcome) = self.outcome_of(child).filter(settled) {
            return self.tell(parent, ticket, outcome);
        }
        let waiting = (parent, ticket);
        let rollbacks = &mut self.roster.known(child).rollbacks;
        if !rollbacks.contains(&waiting) {
            rollbacks.push(waiting);
        }
        if self.roster.known(child).condition != Condition::Compensating {
            let event = Event::CompensateRequested("its parent is rolled back".to_owned());
            self.advance(step, child, event, Cause::default());
        }
        // A child with nothing to undo may be where it was: then that is the answer.
        if let Some(outcome) = self.outcome_of(child) {
            for (parent, ticket) in std::mem::take(&mut self.roster.known(child).rollbacks) {
                self.tell(parent, ticket, outcome.clone());
            }
        }
    }

    /// The inbox says that the parent wants this execution stopped.
    pub(super) fn cancel_wanted(&mut self, step: &mut Step, id: ExecutionId) {
        let Some(entry) = self.roster.get_mut(id) else { return };
        // Whoever is rolled back is stopped already. To stop that, too, would leave the rest standing,
        // and its parent would take it for done.
        let wanted = std::mem::take(&mut entry.cancel_wanted);
        let compensating = entry.condition == Condition::Compensating;
        if wanted && !compensating && !self.is_rolled_back_on_hold(id) {
            let cause = Cause { received: true, ..Cause::default() };
            self.advance(step, id, Event::CancelRequested, cause);
        }
    }

    /// Whether it is rolled back and somebody has suspended it meanwhile.
    fn is_rolled_back_on_hold(&mut self, id: ExecutionId) -> bool {
        !self.is_stored(id) && self.wake(id) && self.roster.known(id).execution().is_rolled_back()
    }

    /// Puts recorded messages into the inboxes of their receivers.
    pub(super) fn deliver(&mut self, position: Position, sent: &[Sent]) {
        for message in sent {
            match *message {
                Sent::Cancel(child) => match self.roster.get_mut(child) {
                    None => drop(self.unwanted.insert(child)),
                    Some(entry) if entry.condition.is_end() => {}
                    // It began before its parent was told so, and belongs to nobody.
                    Some(entry) if entry.awaited_by().is_none() => {}
                    Some(entry) => {
                        entry.cancel_wanted = true;
                        self.unsaved.mark(Subject::Execution(child), position);
                        self.queue(child, Work::Cancel);
                    }
                },
                Sent::Release(child) => {
                    if self.roster.get(child).is_some_and(|entry| entry.held) {
                        self.roster.change(child, |entry| entry.held = false);
                        self.unsaved.mark(Subject::Execution(child), position);
                    }
                }
            }
        }
    }

    /// Tells everyone who waits for an execution's end how it ended.
    pub(super) fn tell_parents(&mut self, id: ExecutionId, outcome: &Outcome) {
        let entry = self.roster.known(id);
        let mut waiting = std::mem::take(&mut entry.rollbacks);
        waiting.extend(entry.awaited_by());
        for (parent, ticket) in waiting {
            self.tell(parent, ticket, outcome.clone());
        }
    }

    fn tell(&mut self, parent: ExecutionId, ticket: Ticket, outcome: Outcome) {
        let event = Event::ChildEnded { ticket, outcome };
        self.queue(parent, |execution| Work::Advance { execution, event });
    }

    fn tell_started(&mut self, parent: ExecutionId, ticket: Ticket) {
        self.tell(parent, ticket, Outcome::Completed(Value::Null));
    }

    fn outcome_of(&mut self, id: ExecutionId) -> Option<Outcome> {
        let entry = self.roster.get(id)?;
        if !entry.condition.is_end() {
            return None;
        }
        self.wake(id);
        self.roster.known(id).execution().outcome().cloned()
    }
}
