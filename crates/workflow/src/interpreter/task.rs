//! What every task goes through: condition, input, its kind, output, capture, export, what is next.

use outlast_expressions::{Value, value};

use super::evaluation::{Sight, evaluated};
use super::{Machine, Turn};
use crate::execution::{
    Activity, Branch, Compensating, Frame, Path, Plan, PlanEntry, PlanId, TryStage, Trying,
};
use crate::program::{Compensation, Flow, Kind, Program, Schema, Task, Transform, Undo};
use crate::{Command, Fault, FaultKind, Happening, TaskId};

impl<'a> Machine<'a> {
    pub(super) fn definition(&self, branch: &Branch) -> &'a Task {
        let program: &'a Program = self.program;
        program.task(branch.top().expect("a task is being run").task)
    }

    /// Begins a task inside the innermost one; `turn` tells repeated entries apart.
    pub(super) fn enter(&mut self, branch: &mut Branch, task: TaskId, turn: u64) {
        let around = branch.top().map_or(branch.birth.path, |frame| frame.path);
        self.enter_at(branch, task, around.inside(task, turn));
    }

    pub(super) fn enter_at(&mut self, branch: &mut Branch, task: TaskId, path: Path) {
        let raw = branch.data().clone();
        branch.push(self.frame(task, path, raw, Activity::Condition));
    }

    pub(super) fn frame(
        &self,
        task: TaskId,
        path: Path,
        raw: crate::execution::Datum,
        activity: Activity,
    ) -> Frame {
        Frame {
            task,
            path,
            started: self.now,
            raw,
            transformed: None,
            deadline: None,
            plan: None,
            evaluating: None,
            effect: None,
            activity,
            chosen: None,
            tries: 0,
            doubt: false,
            around: None,
            asked_after: None,
        }
    }

    pub(super) fn set_activity(&self, branch: &mut Branch, activity: Activity) {
        branch.top_mut().expect("a task is being run").activity = activity;
    }

    pub(super) fn decide_condition(&mut self, branch: &mut Branch) -> Turn {
        let task = self.definition(branch);
        if let Some(condition) = &task.condition {
            let sight = Sight::from_top(branch, self.value(branch.data()));
            let holds =
                evaluated!(self, branch, self.evaluate_expression(branch, condition, &sight));
            if !value::truthy(&holds) {
                return self.skip(branch);
            }
        }
        self.note_task(branch, Happening::TaskStarted);
        self.set_activity(branch, Activity::Input);
        self.transform_input(branch)
    }

    fn skip(&mut self, branch: &mut Branch) -> Turn {
        self.note_task(branch, Happening::TaskSkipped);
        let frame = branch.pop().expect("a task is being run");
        branch.set_data(frame.raw);
        // A task that is passed over has no say in what comes next.
        self.child_done(branch, Flow::Continue)
    }

    /// Notes something about a task people know: bodies of composite tasks have no name.
    pub(super) fn note_task(
        &mut self,
        branch: &Branch,
        happening: fn(TaskId, Option<u64>) -> Happening,
    ) {
        let frame = branch.top().expect("a task is being run");
        if !self.program.task(frame.task).name.is_empty() {
            self.happenings.push(happening(frame.task, innermost_index(branch)));
        }
    }

    pub(super) fn transform_input(&mut self, branch: &mut Branch) -> Turn {
        let task = self.definition(branch);
        let id = branch.top().expect("a task is being run").task;
        let of_root = self.program.transforms_of_root(id);
        let (is_root, transform) = (of_root.is_some(), of_root.map_or(&task.input, |of| of.0));
        if branch.top().is_some_and(|frame| frame.evaluating.is_none())
            && let Some(fault) = self.violation(transform, &self.value(branch.data()), "input")
        {
            return self.raise(branch, fault);
        }
        if let Some(template) = &transform.template {
            let sight = Sight::from_top(branch, self.value(branch.data()));
            let input = evaluated!(self, branch, self.evaluate(branch, template, &sight));
            let input = self.intern(input);
            branch.top_mut().expect("a task is being run").transformed = Some(input.clone());
            branch.set_data(input);
        }
        if is_root {
            let context = self.value(branch.data());
            let context = self.share(context);
            branch.set_context(context);
        }
        if let Err(fault) = self.open_task(branch, task) {
            return self.raise(branch, fault);
        }
        self.set_activity(branch, Activity::Begin);
        self.begin_kind(branch)
    }

    /// Sets the task's deadline and opens its scope.
    fn open_task(&mut self, branch: &mut Branch, task: &Task) -> Result<(), Fault> {
        let id = branch.top().expect("a task is being run").task;
        if let Some(timeout) = self.timeout_of(id) {
            let after = self.duration(branch, timeout)?;
            let alarm = self.set_alarm(branch, self.now.after(after));
            branch.top_mut().expect("a task is being run").deadline = Some(alarm);
        }
        if task.traits.scope {
            let plan = self.new_plan(branch);
            branch.top_mut().expect("a task is being run").plan = Some(plan);
        }
        Ok(())
    }

    pub(super) fn new_plan(&mut self, branch: &mut Branch) -> PlanId {
        let id = PlanId(branch.ticket());
        self.touched.plans.insert(id);
        self.execution.plans.insert(id, Plan::new());
        id
    }

    pub(super) fn begin_kind(&mut self, branch: &mut Branch) -> Turn {
        let task = self.definition(branch);
        match &task.kind {
            Kind::Sequence(_) => self.become_(branch, Activity::Sequence { next: 0, jumps: 0 }),
            Kind::Set(template) => self.set(branch, template),
            Kind::Switch(_) => self.become_(branch, Activity::Switch(0)),
            Kind::Loop { .. } => self.begin_loop(branch),
            Kind::Fork { branches, .. } => self.fork(branch, branches),
            Kind::Try { body, catch } => self.begin_try(branch, *body, catch),
            Kind::Raise(template) => self.raise_given(branch, template),
            Kind::Wait(template) => self.begin_wait(branch, template),
            Kind::Emit(template) => self.begin_emit(branch, template),
            Kind::Listen { .. } => self.begin_listen(branch),
            Kind::Call { service, arguments } => {
                self.begin_call(branch, service, arguments.as_ref())
            }
            Kind::Function { body, arguments } => {
                self.begin_function(branch, *body, arguments.as_ref())
            }
            Kind::Compensate { .. } => self.begin_compensate(branch),
            Kind::RunWorkflow { .. } => self.begin_child(branch),
            Kind::Graph(graph) => self.begin_graph(branch, graph),
            Kind::Unsupported(what) => {
                let title = "this release does not run this kind of task";
                self.raise(branch, Fault::new(FaultKind::Configuration, title, what))
            }
        }
    }

    fn become_(&mut self, branch: &mut Branch, activity: Activity) -> Turn {
        self.set_activity(branch, activity);
        Turn::Again
    }

    fn set(&mut self, branch: &mut Branch, template: &Template) -> Turn {
        let sight = Sight::from_top(branch, self.value(branch.data()));
        let value = evaluated!(self, branch, self.evaluate(branch, template, &sight));
        let data = self.intern(value);
        branch.set_data(data);
        self.complete(branch)
    }

    fn raise_given(&mut self, branch: &mut Branch, template: &Template) -> Turn {
        let sight = Sight::from_top(branch, self.value(branch.data()));
        let error = evaluated!(self, branch, self.evaluate(branch, template, &sight));
        let text = |name| value::get(&error, name).and_then(value::as_str).map(str::to_owned);
        let status = value::get(&error, "status").and_then(value::as_i64).unwrap_or(500);
        let fault = Fault {
            kind: text("type").unwrap_or_else(|| FaultKind::Runtime.uri()),
            status: u16::try_from(status).unwrap_or(500),
            title: text("title"),
            detail: text("detail"),
            instance: text("instance"),
        };
        self.raise(branch, fault)
    }

    /// The kind has done its work and its raw output is the branch's data.
    pub(super) fn complete(&mut self, branch: &mut Branch) -> Turn {
        self.set_activity(branch, Activity::Output);
        self.transform_output(branch)
    }

    pub(super) fn transform_output(&mut self, branch: &mut Branch) -> Turn {
        let task = self.definition(branch);
        let id = branch.top().expect("a task is being run").task;
        let of_root = self.program.transforms_of_root(id);
        let transform = of_root.map_or(&task.output, |of| of.1);
        if let Some(template) = &transform.template {
            let sight = Sight::from_top(branch, self.value(branch.data()));
            let output = evaluated!(self, branch, self.evaluate(branch, template, &sight));
            let output = self.intern(output);
            branch.set_data(output);
        }
        if let Some(fault) = self.violation(transform, &self.value(branch.data()), "output") {
            return self.raise(branch, fault);
        }
        match &task.traits.compensation {
            Some(compensation) if matches!(compensation.undo, Undo::Run(_)) => {
                self.set_activity(branch, Activity::Capture);
                self.capture(branch)
            }
            _ => {
                self.set_activity(branch, Activity::Export);
                self.export(branch)
            }
        }
    }

    /// Keeps what the undo will need, in the same step as the result.
    pub(super) fn capture(&mut self, branch: &mut Branch) -> Turn {
        let task = self.definition(branch);
        let compensation = task.traits.compensation.as_ref().expect("only those are captured");
        let output = self.value(branch.data());
        let mut sight = Sight::from_top(branch, output.clone());
        sight.output = Some(output.clone());
        let captured = match &compensation.capture {
            Some(template) => evaluated!(self, branch, self.evaluate(branch, template, &sight)),
            None => {
                let frame = branch.top().expect("a task is being run");
                value::object([("input", self.value(frame.input())), ("output", output)])
            }
        };
        let (entry, without_cost) = self.undo_entry(branch, compensation, captured);
        let plan = self.scope_around(branch, branch.frames().len() - 1);
        self.plan_mut(plan).push(entry);
        self.set_activity(branch, Activity::Export);
        match without_cost {
            Some(fault) => self.raise(branch, fault),
            None => self.export(branch),
        }
    }

    /// The undo of the innermost task, whose output is not known: it counts as null.
    pub(super) fn capture_unheard(&mut self, branch: &Branch) -> Result<PlanEntry, Fault> {
        let captured = self.captured_of(branch, Value::default())?;
        Ok(self.undo_with(branch, captured))
    }

    /// What the undo of the innermost task is told if this is the task's output, as far as no worker is
    /// needed to say so.
    pub(super) fn captured_of(&self, branch: &Branch, output: Value) -> Result<Value, Fault> {
        let task = self.definition(branch);
        let compensation = task.traits.compensation.as_ref().expect("only those are captured");
        let mut sight = Sight::from_top(branch, output.clone());
        sight.output = Some(output.clone());
        match &compensation.capture {
            Some(template) => self.evaluate_template_here(branch, template, &sight),
            None => {
                let input = self.value(branch.top().expect("a task is being run").input());
                Ok(value::object([("input", input), ("output", output)]))
            }
        }
    }

    /// The undo of the innermost task, told this.
    pub(super) fn undo_with(&mut self, branch: &Branch, captured: Value) -> PlanEntry {
        let compensation = self.definition(branch).traits.compensation.as_ref();
        self.undo_entry(branch, compensation.expect("only those are captured"), captured).0
    }

    /// What undoes the innermost task with what was captured, and why its cost is not known: that is
    /// no reason not to undo it.
    fn undo_entry(
        &mut self,
        branch: &Branch,
        compensation: &Compensation,
        captured: Value,
    ) -> (PlanEntry, Option<Fault>) {
        let sight = Sight::from_top(branch, captured.clone());
        let cost = compensation.cost.as_ref();
        let cost = cost.map(|cost| self.evaluate_template_here(branch, cost, &sight)).transpose();
        let (cost, without_cost) = match cost {
            Ok(cost) => (cost.unwrap_or_else(|| value::integer(0)), None),
            Err(fault) => (value::integer(0), Some(fault)),
        };
        let incarnation = self.incarnation_of_undo(branch);
        let frame = branch.top().expect("a task is being run");
        let cost = self.execution.large.intern(cost);
        if let Some(effect) = frame.effect {
            self.effect_costs(effect, &cost);
        }
        let entry = PlanEntry::Undo {
            task: frame.task,
            path: frame.path.inside(frame.task, incarnation),
            effect: frame.effect,
            captured: self.execution.large.intern(captured),
            cost,
            lacking: None,
            around: branch.part_taken_from(),
        };
        (entry, without_cost)
    }

    /// Tells the undo of this time a task ran from those of other times. By the key of the call, if
    /// there was one: a call that is found out about long after its attempt keeps its key, but is no
    /// longer inside what was tried.
    fn incarnation_of_undo(&self, branch: &Branch) -> u64 {
        let effect = branch.top().and_then(|frame| frame.effect);
        match effect.and_then(|id| self.execution.ledger.get(&id)) {
            Some(effect) => effect.key.digest().short(),
            None => self.incarnation(branch),
        }
    }

    /// The plan that the task at a depth adds its undo to: that of the innermost scope around it.
    pub(super) fn scope_around(&self, branch: &Branch, depth: usize) -> PlanId {
        let around = branch.frames()[..depth].iter().rev();
        around.into_iter().find_map(|frame| frame.plan).unwrap_or(branch.birth.plan)
    }

    pub(super) fn export(&mut self, branch: &mut Branch) -> Turn {
        let task = self.definition(branch);
        if let Some(template) = &task.export.template {
            let output = self.value(branch.data());
            let mut sight = Sight::from_top(branch, output.clone());
            sight.output = Some(output);
            let context = evaluated!(self, branch, self.evaluate(branch, template, &sight));
            if let Some(fault) = self.violation(&task.export, &context, "exported context") {
                return self.raise(branch, fault);
            }
            if let Err(fault) = self.change_context(branch, context) {
                return self.raise(branch, fault);
            }
        }
        self.leave(branch)
    }

    /// The task is done: its scope becomes part of the scope around it.
    fn leave(&mut self, branch: &mut Branch) -> Turn {
        self.note_task(branch, Happening::TaskCompleted);
        let frame = branch.pop().expect("a task is being run");
        let task = self.program.task(frame.task);
        if let Some(alarm) = frame.deadline {
            self.commands.push(Command::CancelTimer(alarm.ticket));
        }
        if let Some(plan) = frame.plan {
            self.hand_over(branch, plan);
        }
        if task.traits.milestone {
            let around = self.scope_around(branch, branch.frames().len());
            self.plan_mut(around).push(PlanEntry::Milestone(frame.task));
        }
        if matches!(task.kind, Kind::Call { .. } | Kind::Emit(_) | Kind::RunWorkflow { .. }) {
            self.execution.head.progress += 1;
            self.touched.head = true;
        }
        let flow = match (&task.kind, frame.chosen) {
            (Kind::Switch(cases), Some(case)) => cases[case as usize].then,
            (Kind::Try { catch, .. }, Some(_)) => catch.then.unwrap_or(task.then),
            _ => task.then,
        };
        // An undo is not the workflow: ending inside one ends the undo's own list. Nor is what is
        // only asked about in order to be undone.
        let undoes = |frame: &Frame| {
            matches!(frame.activity, Activity::Undoing(_) | Activity::Compensating(_))
        };
        let is_workflow = branch.birth.undo.is_none() && !branch.frames().iter().any(undoes);
        if flow == Flow::End && is_workflow {
            branch.set_ending();
        }
        self.child_done(branch, flow)
    }

    /// A scope that ended well hands its plan to the scope around it.
    pub(super) fn hand_over(&mut self, branch: &Branch, plan: PlanId) {
        let entries = self.plan_mut(plan).drain();
        self.execution.plans.remove(&plan);
        if !entries.is_empty() {
            let around = self.scope_around(branch, branch.frames().len());
            self.plan_mut(around).extend(entries);
        }
    }

    /// The innermost task has ended; the one around it goes on.
    pub(super) fn child_done(&mut self, branch: &mut Branch, flow: Flow) -> Turn {
        let ends = branch.small.ending;
        let flow = if ends { Flow::End } else { flow };
        let Some(frame) = branch.top() else { return Turn::Again };
        match &frame.activity {
            Activity::Sequence { next, jumps } => {
                let (next, jumps) = (*next, *jumps);
                self.follow(branch, flow, next, jumps)
            }
            Activity::Loop { items, index, .. } => {
                let activity =
                    Activity::Loop { items: items.clone(), index: index + 1, inside: false };
                if ends {
                    return self.complete(branch);
                }
                self.become_(branch, activity)
            }
            Activity::Try(Trying { stage: TryStage::RollingBack(at), .. }) => {
                let at = *at;
                self.delay_attempt(branch, at)
            }
            Activity::Try(_) => self.try_done(branch),
            Activity::Function { .. } => self.complete(branch),
            Activity::Item(..) => self.item_body_done(branch),
            Activity::Undoing(_) => self.undone(branch),
            Activity::Raising(fault) => {
                let fault = fault.clone();
                self.set_activity(branch, Activity::Begin);
                self.raise(branch, fault)
            }
            Activity::Compensating(Compensating { .. }) => Turn::Again,
            activity => unreachable!("nothing runs inside {activity:?}"),
        }
    }

    fn follow(&mut self, branch: &mut Branch, flow: Flow, next: u32, jumps: u64) -> Turn {
        let (next, jumps) = match flow {
            Flow::Continue => (next, jumps),
            Flow::Exit | Flow::End => (u32::MAX, jumps),
            // Going back enters tasks again: what they call must not be taken for the first time.
            Flow::Goto(index) if index < next => (index, jumps + 1),
            Flow::Goto(index) => (index, jumps),
        };
        self.become_(branch, Activity::Sequence { next, jumps })
    }

    /// What is wrong with a value by a transform's schema.
    fn violation(&self, transform: &Transform, value: &Value, what: &str) -> Option<Fault> {
        let schema: &dyn Schema = transform.schema.as_deref()?;
        let violations = schema.violations(value);
        (!violations.is_empty()).then(|| {
            let title = format!("the {what} does not fit its schema");
            Fault::new(FaultKind::Validation, &title, violations.join("; "))
        })
    }
}

use crate::program::Template;

/// The index of the innermost loop around the innermost task, for people.
fn innermost_index(branch: &Branch) -> Option<u64> {
    let frames = branch.frames().iter().rev();
    frames
        .into_iter()
        .find_map(|frame| match &frame.activity {
            Activity::Loop { index, .. } => Some(*index),
            Activity::Item(listening, _) => Some(u64::from(listening.count)),
            _ => None,
        })
        .or_else(|| (branch.birth.parent.is_some()).then_some(u64::from(branch.birth.slot)))
}
