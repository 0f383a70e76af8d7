//! What is still open: asked for again after a restart, with the same tickets and keys.

use outlast_lineage::Time;

use super::conduct::{is_pivot, must_not_repeat};
use super::events::wanted_types;
use crate::execution::{
    Activity, Alarm, Branch, Calling, Evaluating, Execution, Frame, Stage, TryStage,
};
use crate::program::Program;
use crate::{Command, EvaluationRequest, Ticket};

impl Execution {
    /// Everything still open. Calls that must not be repeated are not among them: those are told
    /// to be unknown (`doubtful_calls`).
    pub fn open_commands(&self, program: &Program, _now: Time) -> Vec<Command> {
        // A faulted run keeps its frames so that it can be tried again; until then it does nothing.
        if self.outcome().is_some() {
            return Vec::new();
        }
        if matches!(self.head.stage, Stage::Lost(_)) {
            return self.open_on_lost_line();
        }
        let mut commands = Vec::new();
        if let Some(alarm) = self.head.deadline {
            commands.push(timer(alarm));
        }
        for branch in self.branches.values() {
            let depth = branch.frames().len();
            for (index, frame) in branch.frames().iter().enumerate() {
                commands.extend(frame.deadline.map(timer));
                self.open_in_frame(program, branch, frame, &mut commands, index + 1 == depth);
            }
        }
        if !self.head.ready.is_empty() && !self.head.suspended {
            commands.push(Command::Yield);
        }
        commands
    }

    /// Calls are not made again on a lost line; what completes those that were answered goes on.
    fn open_on_lost_line(&self) -> Vec<Command> {
        let tops = self.branches.values().filter_map(Branch::top);
        tops.filter_map(|frame| frame.evaluating.as_ref())
            .filter(|evaluating| self.keeps_result(evaluating.ticket))
            .map(|evaluating| self.evaluation_command(evaluating))
            .collect()
    }

    fn open_in_frame(
        &self,
        program: &Program,
        branch: &Branch,
        frame: &Frame,
        commands: &mut Vec<Command>,
        top: bool,
    ) {
        if let Some(evaluating) = &frame.evaluating {
            commands.push(self.evaluation_command(evaluating));
        }
        match &frame.activity {
            Activity::Try(trying) => {
                commands.extend(trying.attempt_deadline.map(timer));
                if let TryStage::Delaying(alarm) = trying.stage {
                    commands.push(timer(alarm));
                }
            }
            Activity::Waiting(alarm) | Activity::Again(alarm, _) | Activity::Asking(alarm, _) => {
                commands.push(timer(*alarm));
            }
            Activity::Calling(calling) if top && !must_not_repeat(program, branch) => {
                commands.push(Command::Call {
                    ticket: calling.ticket,
                    request: Box::new(calling.whole_request(&self.large)),
                });
            }
            Activity::Publishing { ticket, event } => {
                commands.push(Command::Publish { ticket: *ticket, event: self.large.value(event) })
            }
            Activity::Listening(listening) | Activity::Item(listening, _) => {
                let types = wanted_types(&program.task(frame.task).kind);
                commands.push(Command::Subscribe { ticket: listening.ticket, types });
            }
            Activity::Child { .. } => commands.extend(self.child_command(program, branch)),
            Activity::Undoing(undoing) => {
                commands.extend(undoing.delay.map(timer));
                if let (Some(ticket), crate::execution::PlanEntry::Child { child, .. }) =
                    (undoing.child, &undoing.entry)
                {
                    commands.push(Command::CompensateChild { ticket, child: *child });
                }
            }
            _ => {}
        }
    }

    pub(crate) fn evaluation_command(&self, evaluating: &Evaluating) -> Command {
        let bindings = evaluating.bindings.iter();
        let request = EvaluationRequest {
            source: evaluating.source.clone(),
            input: self.large.value(&evaluating.input),
            bindings: bindings.map(|(name, v)| (name.clone(), self.large.value(v))).collect(),
            timeout: None,
        };
        Command::Evaluate { ticket: evaluating.ticket, request: Box::new(request) }
    }

    /// Calls that were under way and must not be made twice: after a restart, whoever holds the
    /// execution answers them with `Answer::Unknown`.
    pub fn doubtful_calls(&self, program: &Program) -> Vec<Ticket> {
        if self.outcome().is_some() || matches!(self.head.stage, Stage::Lost(_)) {
            return Vec::new();
        }
        let open = self.branches.values().filter(|branch| must_not_repeat(program, branch));
        open.filter_map(|branch| match &branch.top()?.activity {
            Activity::Calling(calling) => Some(calling.ticket),
            _ => None,
        })
        .collect()
    }
}

impl Execution {
    /// Whether a call that is under way must not be made twice.
    pub fn is_doubtful(&self, program: &Program, call: Ticket) -> bool {
        self.branches.get(&call.branch).is_some_and(|branch| must_not_repeat(program, branch))
    }

    /// Whether a call is under way whose answer only the one who made it gets, and of which nobody else could do
    /// anything but ask a person: a pivot, or an undo, that must not be made twice.
    pub fn must_hear_an_answer(&self, program: &Program) -> bool {
        let doubtful = self.doubtful_calls(program);
        let is_open = |calling: &Calling| doubtful.contains(&calling.ticket);
        self.branches.values().any(|branch| match branch.top().map(|frame| &frame.activity) {
            Some(Activity::Calling(calling)) if is_open(calling) => {
                calling.request.undo || is_pivot(program, branch)
            }
            _ => false,
        })
    }
}

fn timer(alarm: Alarm) -> Command {
    Command::SetTimer { ticket: alarm.ticket, at: alarm.at }
}
