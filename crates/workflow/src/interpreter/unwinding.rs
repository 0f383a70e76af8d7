//! Stopping what is under way: frames are taken off, branches stopped, and what they did or may
//! have done is collected for whoever undoes it.

use outlast_expressions::Value;
use outlast_lineage::{BranchId, Recourse, Reversal};

use super::compensation::stripped;
use super::conduct::{conduct, is_undoing, start_of_call};
use super::gathering::branch_id;
use super::graphs::in_order_of_steps;
use super::parts::leave_part;
use super::portions::without_halves;
use super::{Machine, Turn};
use crate::execution::{
    Activity, Birth, Branch, Calling, Failure, Frame, JoinId, Nested, Path, Plan, PlanEntry,
    PlanId, Surroundings, TryStage, has_happened,
};
use crate::program::{Kind, Undo};
use crate::{Command, Fault, Happening, TaskId, Ticket};

impl Machine<'_> {
    /// Takes off the frames from a depth inwards; gives what they did, oldest first.
    pub(super) fn unwind(&mut self, branch: &mut Branch, depth: usize) -> Vec<PlanEntry> {
        self.unwind_from(branch, depth, Vec::new())
    }

    /// The same for the frames inside the one at a depth, which stays; what they may have done is
    /// undone as that one says.
    pub(super) fn unwind_inside(&mut self, branch: &mut Branch, depth: usize) -> Vec<PlanEntry> {
        let around = branch.frames()[depth].clone();
        self.unwind_from(branch, depth + 1, vec![around])
    }

    fn unwind_from(
        &mut self,
        branch: &mut Branch,
        depth: usize,
        around: Vec<Frame>,
    ) -> Vec<PlanEntry> {
        let mut inner = Vec::new();
        while branch.frames().len() > depth {
            inner.push(branch.pop().expect("there are more frames than that"));
        }
        let first = around.len();
        let frames: Vec<Frame> = around.into_iter().chain(inner.into_iter().rev()).collect();
        let mut entries = Vec::new();
        for index in first..frames.len() {
            self.stop_frame(branch, &frames[..=index], &mut entries);
        }
        without_halves(entries)
    }

    /// Stops the last of some frames.
    fn stop_frame(&mut self, branch: &Branch, frames: &[Frame], entries: &mut Vec<PlanEntry>) {
        let frame = frames.last().expect("there is one to stop");
        self.cancel_alarm(frame.deadline);
        if let Some(evaluating) = &frame.evaluating {
            self.commands.push(Command::Abandon(evaluating.ticket));
            // Its own undo comes after those of what ran inside it, so it is older in the plan.
            if self.owes_for_result(branch, branch.frames(), frames) {
                entries.push(self.uncertain(branch, frames));
            }
        }
        if let Some(plan) = frame.plan {
            entries.extend(self.plan_mut(plan).drain());
            self.execution.plans.remove(&plan);
        }
        // A task that raised the error which stops it has been told of as faulted.
        let told =
            |h: &Happening| matches!(h, Happening::TaskFaulted(task, _) if *task == frame.task);
        if !self.program.task(frame.task).name.is_empty() && !self.happenings.iter().any(told) {
            self.happenings.push(Happening::TaskCancelled(frame.task));
        }
        self.stop_activity(branch, frames, &frame.activity, entries);
    }

    fn stop_activity(
        &mut self,
        branch: &Branch,
        frames: &[Frame],
        activity: &Activity,
        entries: &mut Vec<PlanEntry>,
    ) {
        match activity {
            Activity::Gather(join) | Activity::Scatter { join, .. } => {
                let mut lists = self.stop_children(branch);
                let join = self.drop_join(*join);
                lists.extend(join.slots().iter().map(|(slot, left)| (*slot, left.plan.clone())));
                let task = frames.last().expect("it is the last frame's").task;
                match (&self.program.task(task).kind, activity) {
                    (Kind::Graph(graph), Activity::Gather(_)) => {
                        entries.extend(in_order_of_steps(graph, lists));
                    }
                    _ => entries.extend(side_by_side(lists)),
                }
            }
            Activity::Try(trying) => {
                self.cancel_alarm(trying.attempt_deadline);
                if let TryStage::Delaying(alarm) = &trying.stage {
                    self.cancel_alarm(Some(*alarm));
                }
                entries.extend(trying.uncertain.iter().cloned());
            }
            Activity::Waiting(alarm) => self.cancel_alarm(Some(*alarm)),
            Activity::Again(..) | Activity::Failed(..) => {
                if let Activity::Again(alarm, _) = activity {
                    self.cancel_alarm(Some(*alarm));
                }
                if activity.unanswered().is_some_and(|calling| !calling.request.readonly) {
                    entries.push(self.uncertain(branch, frames));
                }
            }
            Activity::Calling(calling) if self.never_left(calling) => self.take_off(calling),
            Activity::Calling(calling) => {
                let entry = (!calling.request.readonly).then(|| self.uncertain(branch, frames));
                let is_for_a_person = entry.as_ref().is_some_and(|it| self.is_for_a_person(it));
                self.commands.push(match is_for_a_person {
                    true => Command::Unwanted(calling.ticket),
                    false => Command::Abandon(calling.ticket),
                });
                entries.extend(entry);
            }
            Activity::Asking(alarm, _) => {
                self.cancel_alarm(Some(*alarm));
                entries.push(self.uncertain(branch, frames));
            }
            Activity::Parked { resume, .. } if matches!(**resume, Activity::Undoing(_)) => {
                self.stop_activity(branch, frames, resume, entries);
            }
            Activity::Parked { .. } => entries.push(self.uncertain(branch, frames)),
            Activity::Listening(listening) | Activity::Item(listening, _) => {
                self.commands.push(Command::Unsubscribe(listening.ticket));
                self.drop_join(listening.collected);
            }
            Activity::Child { child, .. } => {
                let task = frames.last().expect("it is the last frame's").task;
                self.commands.push(Command::CancelChild(*child));
                // What nobody waits for is not touched once it has begun: neither stopped nor rolled back.
                if self.waits_for_child(task) {
                    entries.push(PlanEntry::Child { task, child: *child });
                }
            }
            Activity::Compensating(compensating) => {
                if let Some(join) = compensating.parts {
                    let lists = self.stop_children(branch);
                    self.drop_join(join);
                    entries.extend(side_by_side(lists));
                }
                if let Some(results) = compensating.results {
                    self.drop_join(results);
                }
            }
            Activity::Undoing(undoing) => {
                self.cancel_alarm(undoing.delay);
                entries.push(undoing.entry.clone());
            }
            _ => {}
        }
    }

    /// Stops what the innermost task of a branch has under way, though the task itself stays, to be begun again;
    /// gives what that did, oldest first. A call that was not answered is left where it is.
    pub(super) fn stop_in_place(&mut self, branch: &mut Branch) -> Vec<PlanEntry> {
        if branch.top().is_none_or(|frame| frame.activity.unanswered().is_some()) {
            return Vec::new();
        }
        self.abandon_evaluation(branch);
        let frame = branch.pop().expect("just seen");
        let mut entries = Vec::new();
        self.stop_activity(branch, std::slice::from_ref(&frame), &frame.activity, &mut entries);
        // Who was stopped would only say so: when this is tried again, another one is started.
        let is_child =
            matches!(frame.activity, Activity::Child { .. }) && self.waits_for_child(frame.task);
        let tries = frame.tries + u64::from(is_child);
        // Branches are only stopped, and what they did is not undone: they ask for the same when they run again.
        let doubt = frame.doubt || matches!(frame.activity, Activity::Gather(_));
        branch.push(Frame { activity: Activity::Begin, tries, doubt, ..frame });
        without_halves(entries)
    }

    /// What the innermost task, which stays, has done, if only the worker is missing that evaluates what the undo
    /// needs.
    pub(super) fn stop_result_in_place(&mut self, branch: &mut Branch) -> Option<PlanEntry> {
        let owes = self.owes_for_result(branch, &[], branch.frames());
        owes.then(|| self.owe_in_place(branch))
    }

    /// The call of the innermost task, which stays, for whoever undoes it.
    pub(super) fn owe_in_place(&mut self, branch: &mut Branch) -> PlanEntry {
        let start = self.start_of_uncertain(branch.frames());
        let entry = self.uncertain_in_place(branch, start);
        self.abandon_evaluation(branch);
        branch.top_mut().expect("a task is being run").doubt = true;
        self.set_activity(branch, Activity::Begin);
        entry
    }

    fn abandon_evaluation(&mut self, branch: &mut Branch) {
        if branch.top().is_some_and(|frame| frame.evaluating.is_some()) {
            let evaluating = branch.top_mut().and_then(|frame| frame.evaluating.take());
            self.commands.extend(evaluating.map(|evaluating| Command::Abandon(evaluating.ticket)));
        }
    }

    /// Keeps what was stopped in the innermost task for whoever rolls it back, or what is around it.
    pub(super) fn keep_stopped(&mut self, branch: &Branch, entries: Vec<PlanEntry>) {
        if !entries.is_empty() {
            let plan = self.scope_around(branch, branch.frames().len());
            self.plan_mut(plan).extend(entries);
        }
    }

    /// A call that may have happened and was taken off a branch, the innermost of some frames.
    fn uncertain(&mut self, branch: &Branch, frames: &[Frame]) -> PlanEntry {
        let start = self.start_of_uncertain(frames);
        let around: Vec<&Frame> = branch.frames().iter().chain(&frames[..start]).collect();
        self.taken_out(branch, &around, frames[start..].to_vec())
    }

    /// Whether the innermost of some frames has done what will be undone, and only the worker is
    /// missing that evaluates what the undo needs; with the frames outside of them.
    pub(super) fn owes_for_result(
        &self,
        branch: &Branch,
        outside: &[Frame],
        frames: &[Frame],
    ) -> bool {
        let start = self.start_of_uncertain(frames);
        let (owner, innermost) = (&frames[start], frames.last().expect("there is one to stop"));
        // An undo that is stopped is owed as a whole.
        if !innermost.is_completing() || is_undoing(branch, outside.iter().chain(frames)) {
            return false;
        }
        if start + 1 == frames.len() {
            let captured = matches!(innermost.activity, Activity::Export);
            return self.owes_undo(owner.task) && !captured;
        }
        let kind = &self.program.task(innermost.task).kind;
        owner.effect.is_some() && matches!(kind, Kind::Call { .. } | Kind::Function { .. })
    }

    /// Has the call of the innermost task undone although its task fails: it happened, and only an
    /// expression about its result has no value. A `tolerant` undo is told what one is told that was never
    /// answered; any other may need that result, so a person decides when it is its turn.
    pub(super) fn owe_in_spite_of(&mut self, branch: &mut Branch, fault: &Fault) {
        let Some(owner) = self.owner_of_result(branch) else { return };
        let reversal = conduct(self.program, &branch.frames()[..=owner]).reversal;
        let frame = stripped(branch.frames()[owner].clone());
        branch.push(Frame { activity: Activity::Capture, ..frame });
        let captured = self.capture_unheard(branch);
        let is_whole = captured.is_ok() && reversal == Reversal::Tolerant;
        let mut entry = captured.unwrap_or_else(|_| self.undo_with(branch, Value::default()));
        if let PlanEntry::Undo { lacking, .. } = &mut entry {
            *lacking = (!is_whole).then(|| fault.reason().to_owned());
        }
        branch.pop();
        let plan = self.scope_around(branch, owner);
        self.plan_mut(plan).push(entry);
    }

    /// Which task of a branch owes an undo for a call that has happened, and has not put it down: the
    /// innermost, or one that calls it as a function.
    pub(super) fn owner_of_result(&self, branch: &Branch) -> Option<usize> {
        let frames = branch.frames();
        let innermost = frames.last().filter(|frame| frame.has_worked())?;
        if is_undoing(branch, frames.iter()) {
            return None;
        }
        let start = start_of_call(frames);
        let owner = frames[start..].iter().rposition(|frame| self.owes_undo(frame.task))? + start;
        let is_own = owner + 1 == frames.len();
        let owes = match is_own {
            true => !matches!(innermost.activity, Activity::Export),
            false => frames[owner].effect.is_some(),
        };
        owes.then_some(owner)
    }

    /// The call of the innermost frame of a branch, which stays there, from a depth inwards.
    pub(super) fn uncertain_in_place(&mut self, branch: &Branch, start: usize) -> PlanEntry {
        let (around, inside) = branch.frames().split_at(start);
        self.taken_out(branch, &around.iter().collect::<Vec<_>>(), inside.to_vec())
    }

    /// Where the task begins that would be undone for the call of the innermost frame. What is only
    /// asked about in order to undo it ends at the rollback that asks.
    pub(super) fn start_of_uncertain(&self, frames: &[Frame]) -> usize {
        let asks = |frame: &Frame| matches!(frame.activity, Activity::Compensating(_));
        let first = frames.iter().rposition(asks).map_or(0, |depth| depth + 1);
        let owner = frames[first..].iter().rposition(|frame| self.owes_undo(frame.task));
        owner.map_or_else(|| start_of_call(frames), |owner| first + owner)
    }

    /// An entry with what its frames see of the place they are taken from.
    fn taken_out(
        &mut self,
        branch: &Branch,
        around: &[&Frame],
        mut frames: Vec<Frame>,
    ) -> PlanEntry {
        if frames[0].around.is_none() {
            let innermost = around.iter().rev().find_map(|frame| frame.around.as_deref());
            let (context, workflow) = match innermost {
                Some(around) => (around.context.clone(), around.workflow.clone()),
                None => (branch.own_context().clone(), branch.birth.workflow.clone()),
            };
            let variables = self.visible_variables(branch, around.iter().copied());
            let shared = |(name, datum)| (name, self.share(self.value(&datum)));
            let variables = variables.into_iter().map(shared).collect();
            frames[0].around = Some(Box::new(Surroundings { variables, context, workflow }));
        }
        PlanEntry::Uncertain(frames)
    }

    /// What is to be done about a call that may have happened and is not wanted any more.
    pub(super) fn recourse(&self, frames: &[Frame]) -> Recourse {
        conduct(self.program, frames).recourse_if_unwanted()
    }

    /// Whether nobody but a person could find out what became of a call, unless its answer comes after all.
    fn is_for_a_person(&self, entry: &PlanEntry) -> bool {
        matches!(entry, PlanEntry::Uncertain(frames) if self.recourse(frames) == Recourse::Park)
    }

    /// Whether a call that is stopped now is known not to have happened. An undo that did not happen is still
    /// owed.
    pub(super) fn never_left(&self, calling: &Calling) -> bool {
        !calling.doubt && !calling.request.undo && self.unsent.contains(&calling.ticket)
    }

    /// Stops a call that never left: there is nothing to ask about, and nothing to undo.
    pub(super) fn take_off(&mut self, calling: &Calling) {
        self.commands.push(Command::Abandon(calling.ticket));
        self.effect_gone(calling.request.effect);
    }

    pub(super) fn owes_undo(&self, task: TaskId) -> bool {
        let compensation = &self.program.task(task).traits.compensation;
        compensation.as_ref().is_some_and(|known| matches!(known.undo, Undo::Run(_)))
    }

    /// Stops every branch that fills a slot of the join a branch waits at; gives what each did.
    pub(super) fn stop_children(&mut self, parent: &Branch) -> Vec<(u32, Vec<PlanEntry>)> {
        let children: Vec<(u32, BranchId)> = self
            .execution
            .branches
            .values()
            .filter(|child| child.birth.parent == Some(parent.id()))
            .map(|child| (child.birth.slot, child.id()))
            .collect();
        let within = parent.workflow();
        let stopped = children.into_iter().map(|(slot, id)| (slot, self.stop_branch(id, within)));
        stopped.collect()
    }

    /// Stops a branch; gives what it did, oldest first, to whoever is within a workflow, the execution's own
    /// if none is named.
    pub(super) fn stop_branch(&mut self, id: BranchId, within: Option<&Nested>) -> Vec<PlanEntry> {
        let Some(mut branch) = self.execution.branches.remove(&id) else { return Vec::new() };
        self.touched.branches.insert(id);
        self.ready.retain(|ready| *ready != id);
        let mut entries = self.plan_mut(branch.birth.plan).drain();
        entries.extend(self.unwind(&mut branch, 0));
        self.execution.plans.remove(&branch.birth.plan);
        if branch.workflow().map(|own| own.id) != within.map(|around| around.id) {
            leave_part(&branch, &mut entries);
        }
        entries
    }

    /// What must still be undone goes to the scope around the innermost task.
    pub(super) fn keep_for_undo(&mut self, branch: &Branch, entries: Vec<PlanEntry>) {
        self.keep_in(self.scope_around(branch, branch.frames().len()), entries);
    }

    /// The same for a task that may itself be the scope.
    pub(super) fn keep_for_undo_inside(&mut self, branch: &Branch, entries: Vec<PlanEntry>) {
        self.keep_for_undo(branch, entries);
    }

    fn keep_in(&mut self, plan: PlanId, entries: Vec<PlanEntry>) {
        let owed = self.owed(entries);
        if !owed.is_empty() {
            self.plan_mut(plan).extend(owed);
        }
    }

    /// Only what owes something: an undo, or the question what became of it.
    pub(super) fn owed(&self, entries: Vec<PlanEntry>) -> Vec<PlanEntry> {
        let mut owed = Vec::new();
        for entry in entries {
            match entry {
                PlanEntry::Uncertain(frames)
                    if !has_happened(&frames) && self.recourse(&frames) == Recourse::Nothing => {}
                PlanEntry::Parallel(lists) => {
                    let lists = lists.into_iter().map(|list| self.owed(list));
                    let lists: Vec<_> = lists.filter(|list| !list.is_empty()).collect();
                    if !lists.is_empty() {
                        owed.push(PlanEntry::Parallel(lists));
                    }
                }
                entry => owed.push(entry),
            }
        }
        owed
    }

    /// Undoes something at once, beside the run: what the losers of a competition did.
    pub(super) fn undo_aside(&mut self, beside: &mut Branch, entries: Vec<PlanEntry>) {
        let entries = self.owed(entries);
        if entries.is_empty() {
            return;
        }
        let ticket = beside.ticket();
        let path = Path(beside.birth.path.0).inside(TaskId(ticket.number), u64::MAX - 1);
        let id = branch_id(JoinId(ticket), 0);
        let plan = PlanId(Ticket { branch: id, number: 0 });
        let birth = Birth {
            id,
            parent: None,
            slot: 0,
            path,
            variables: Vec::new(),
            plan,
            incarnation: 0,
            workflow: beside.workflow().cloned().map(Box::new),
            undo: None,
            policy: false,
        };
        self.touched.plans.insert(plan);
        self.execution.plans.insert(plan, Plan::new());
        let mut branch = Branch::new(birth, beside.data().clone(), beside.context().clone());
        self.touched.branches.insert(id);
        branch.extend(self.author.node, self.author.epoch);
        self.push_compensation(&mut branch, entries, Failure::Park);
        self.settle(branch, Turn::Again);
    }
}

/// What branches did that do not depend on each other.
fn side_by_side(lists: Vec<(u32, Vec<PlanEntry>)>) -> Option<PlanEntry> {
    let lists: Vec<Vec<PlanEntry>> =
        lists.into_iter().map(|(_, list)| list).filter(|list| !list.is_empty()).collect();
    (!lists.is_empty()).then_some(PlanEntry::Parallel(lists))
}
