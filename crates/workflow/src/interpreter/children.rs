//! Child executions: `run: workflow`, where the workflow is not part of the program (`parts`).
//!
//! Where several nodes hold an execution, only those are not part of it whose end nobody waits for.
//! What such a start brings about cannot be taken back by a line that is lost, so it leaves as an event
//! does (`emitting`): when the engine releases it, while the run has gone on.

use outlast_lineage::{Digester, ExecutionId};

use super::evaluation::{Sight, evaluated};
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, Datum, Departure, ExchangePatch, Outgoing, PlanEntry};
use crate::program::Kind;
use crate::program::bundle::NESTING_MAX;
use crate::{Command, Fault, FaultKind, Outcome, TaskId, Ticket};

impl Machine<'_> {
    pub(super) fn begin_child(&mut self, branch: &mut Branch) -> Turn {
        let Kind::RunWorkflow { input, wait, .. } = &self.definition(branch).kind else {
            unreachable!("only this kind has children")
        };
        let (given, wait) = (self.value(branch.data()), *wait);
        let input = match input {
            Some(template) => {
                let sight = Sight::from_top(branch, given);
                evaluated!(self, branch, self.evaluate(branch, template, &sight))
            }
            None => given,
        };
        let input = self.intern(input);
        let task = branch.top().expect("a task is being run").task;
        if let Some(part) = self.program.linked.run_by(task) {
            return self.begin_part(branch, part, input);
        }
        if self.may_be_lost() && !wait {
            return self.detach(branch, task, input);
        }
        let ticket = branch.ticket();
        let child = self.child_id(branch);
        self.set_activity(branch, Activity::Child { ticket, child, input });
        let command = self.execution.child_command(self.program, branch);
        self.commands.extend(command);
        Turn::Wait
    }

    /// Keeps the start of a workflow until it is released; the run goes on at once.
    fn detach(&mut self, branch: &mut Branch, task: TaskId, input: Datum) -> Turn {
        let number = match self.number_of_start(branch) {
            Ok(number) => number,
            Err(fault) => return self.raise(branch, fault),
        };
        let (child, ticket) = (self.child_id(branch), branch.ticket());
        let start = Some(Departure { child, task, ticket });
        let outgoing = Outgoing { number, event: input, emitted: self.now, at_once: false, start };
        self.exchange(ExchangePatch { emitted: vec![outgoing], ..ExchangePatch::default() });
        self.complete(branch)
    }

    /// The number in the outbox of a workflow to be started, unless there are too many already, or
    /// too many that started each other.
    fn number_of_start(&self, branch: &Branch) -> Result<u64, Fault> {
        let before = self.execution.exchange.as_ref().map_or(0, |exchange| exchange.depth());
        let inside = branch.birth.workflow.as_ref().map_or(0, |around| around.depth);
        if NESTING_MAX <= before.saturating_add(inside) {
            let detail = format!("sub-workflows nest deeper than {NESTING_MAX}");
            return Err(Fault::new(FaultKind::Runtime, "Sub-workflow not started", detail));
        }
        self.number_in_outbox()
    }

    /// Derived from the place in the flow, so that starting again after a restart starts nothing.
    pub(super) fn child_id(&self, branch: &Branch) -> ExecutionId {
        let path = branch.top().expect("a task is being run").path;
        let digest = Digester::new("child")
            .field(self.execution.id.as_bytes())
            .number(path.0)
            .number(self.incarnation(branch))
            .finish();
        let bytes = digest.as_bytes()[..16].try_into().expect("a digest has 32 bytes");
        ExecutionId::from_bytes(bytes)
    }

    /// Whether a task waits for the end of the workflow that it runs.
    pub(super) fn waits_for_child(&self, task: TaskId) -> bool {
        matches!(self.program.task(task).kind, Kind::RunWorkflow { wait: true, .. })
    }

    pub(super) fn take_child_end(&mut self, ticket: Ticket, outcome: Outcome) {
        let Some(mut branch) = self.take_waiting(ticket) else { return };
        if let Some(turn) = self.child_rolled_back(&mut branch, ticket, outcome.clone()) {
            return self.settle(branch, turn);
        }
        let child = match branch.top().map(|frame| &frame.activity) {
            Some(Activity::Child { ticket: waiting, child, .. }) if *waiting == ticket => *child,
            _ => return self.put(branch),
        };
        let waits = branch.top().is_some_and(|frame| self.waits_for_child(frame.task));
        let turn = if waits {
            self.child_ended(&mut branch, child, outcome)
        } else if let Outcome::Faulted(fault) = outcome {
            // It could not even be started.
            self.set_activity(&mut branch, Activity::Begin);
            self.raise(&mut branch, fault)
        } else {
            // Whoever does not wait has no result: the data is the task's own input, as it was.
            self.complete(&mut branch)
        };
        self.settle(branch, turn);
    }

    fn child_ended(&mut self, branch: &mut Branch, child: ExecutionId, outcome: Outcome) -> Turn {
        let task = branch.top().expect("a task is being run").task;
        // Whatever it did, whole or in part, is rolled back with the scope around.
        if !matches!(outcome, Outcome::Compensated(_)) {
            let around = self.scope_around(branch, branch.frames().len() - 1);
            self.plan_mut(around).push(PlanEntry::Child { task, child });
        }
        match outcome {
            Outcome::Completed(output) => {
                let data = self.intern(output);
                branch.set_data(data);
                self.complete(branch)
            }
            Outcome::Faulted(fault) | Outcome::Compensated(fault) => {
                self.set_activity(branch, Activity::Begin);
                self.raise(branch, Fault { instance: None, ..fault })
            }
            Outcome::Cancelled => {
                self.set_activity(branch, Activity::Begin);
                let detail = format!("the child execution {child} was cancelled");
                self.raise(
                    branch,
                    Fault::new(FaultKind::Runtime, "the child was cancelled", detail),
                )
            }
        }
    }
}

impl crate::Execution {
    /// What starts the child a branch waits for.
    pub(crate) fn child_command(
        &self,
        program: &crate::Program,
        branch: &Branch,
    ) -> Option<Command> {
        let frame = branch.top()?;
        let (
            Activity::Child { ticket, child, input },
            Kind::RunWorkflow { namespace, name, version, wait, .. },
        ) = (&frame.activity, &program.task(frame.task).kind)
        else {
            return None;
        };
        Some(Command::StartChild {
            ticket: *ticket,
            child: *child,
            namespace: namespace.clone(),
            name: name.clone(),
            version: version.clone(),
            input: self.large.value(input),
            wait: *wait,
        })
    }
}
