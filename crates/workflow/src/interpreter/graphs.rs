//! Graph regions: steps start when what they need is there.

use std::collections::{BTreeMap, BTreeSet};

use outlast_expressions::{Value, value};

use super::evaluation::Sight;
use super::gathering::{branch_id, element};
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, JoinId, PlanEntry, Slot};
use crate::program::{Graph, Kind, Scatter, ScatterMethod, Source, Step};
use crate::{Fault, FaultKind};

/// Whether a step can start.
enum Readiness {
    /// Something it needs is not there yet.
    NotYet,
    /// It has been started, or is done.
    Past,
    /// No link to it holds, or its condition does not.
    PassedOver,
    /// With this input.
    Ready(Value),
}

impl Machine<'_> {
    pub(super) fn begin_graph(&mut self, branch: &mut Branch, graph: &Graph) -> Turn {
        if let Some(fault) = self.cycle(graph) {
            return self.raise(branch, fault);
        }
        let join = JoinId(branch.ticket());
        self.join_mut(join).counts.total = graph.steps.len() as u32;
        self.set_activity(branch, Activity::Gather(join));
        self.next_of_graph(branch, join, graph, None)
    }

    /// What is wrong with a region whose steps wait for each other.
    fn cycle(&self, graph: &Graph) -> Option<Fault> {
        let order = in_order(graph);
        let stuck = (0..graph.steps.len() as u32).filter(|step| !order.contains(step));
        let names: Vec<String> = stuck
            .map(|step| format!("`{}`", self.program.task(graph.steps[step as usize].task).name))
            .collect();
        (!names.is_empty()).then(|| {
            let detail = format!("these steps wait for each other: {}", names.join(", "));
            Fault::new(FaultKind::Configuration, "the graph has a cycle", detail)
        })
    }

    /// Starts every step that can start now; `filled` is the one whose output just came.
    pub(super) fn next_of_graph(
        &mut self,
        branch: &mut Branch,
        join: JoinId,
        graph: &Graph,
        filled: Option<u32>,
    ) -> Turn {
        let mut candidates: Vec<u32> = match filled {
            Some(step) => successors(graph, step as usize),
            None => (0..graph.steps.len() as u32).collect(),
        };
        while let Some(step) = candidates.pop() {
            match self.readiness(branch, join, graph, step) {
                Ok(Readiness::NotYet | Readiness::Past) => {}
                Ok(Readiness::PassedOver) => {
                    let data = crate::execution::Datum::null();
                    let slot = Slot { data, context: None, plan: Vec::new(), ran: false };
                    self.join_mut(join).fill(step, slot);
                    candidates.extend(successors(graph, step as usize));
                }
                Ok(Readiness::Ready(input)) => {
                    self.join_mut(join).counts.live += 1;
                    self.start_step(branch, graph, step, input);
                }
                Err(fault) => return self.raise(branch, fault),
            }
        }
        if self.execution.joins[&join].counts.live > 0 {
            return Turn::Wait;
        }
        self.graph_done(branch, join, graph)
    }

    fn readiness(
        &self,
        branch: &Branch,
        join: JoinId,
        graph: &Graph,
        index: u32,
    ) -> Result<Readiness, Fault> {
        let child = branch_id(join, index);
        let slots = &self.execution.joins[&join];
        if slots.slot(index).is_some() || self.execution.branches.contains_key(&child) {
            return Ok(Readiness::Past);
        }
        let mut links = graph.links.iter().filter(|link| link.to == index as usize).peekable();
        let mut holds = links.peek().is_none();
        for link in links {
            let Some(from) = slots.slot(link.from as u32) else { return Ok(Readiness::NotYet) };
            holds |= from.ran
                && match &link.when {
                    None => true,
                    Some(when) => {
                        let sight = Sight::from_top(branch, self.value(&from.data));
                        value::truthy(&self.evaluate_here(branch, when, &sight)?)
                    }
                };
        }
        let step = &graph.steps[index as usize];
        let Some(input) = self.step_input(branch, join, step)? else {
            return Ok(Readiness::NotYet);
        };
        if !holds {
            return Ok(Readiness::PassedOver);
        }
        if step.scatter.is_none() && !self.step_wanted(branch, step, &input)? {
            return Ok(Readiness::PassedOver);
        }
        Ok(Readiness::Ready(input))
    }

    fn step_wanted(&self, branch: &Branch, step: &Step, input: &Value) -> Result<bool, Fault> {
        match &step.when {
            None => Ok(true),
            Some(when) => {
                let sight = Sight::from_top(branch, input.clone());
                Ok(value::truthy(&self.evaluate_here(branch, when, &sight)?))
            }
        }
    }

    /// A step's input object; nothing while an output it needs is missing.
    fn step_input(
        &self,
        branch: &Branch,
        join: JoinId,
        step: &Step,
    ) -> Result<Option<Value>, Fault> {
        let region = self.value(branch.top().expect("a graph has a frame").input());
        if step.inputs.is_empty() {
            return Ok(Some(region));
        }
        let mut members = Vec::new();
        for (name, source) in &step.inputs {
            let value = match source {
                Source::Region(template) => {
                    let sight = Sight::from_top(branch, region.clone());
                    self.evaluate_template_here(branch, template, &sight)?
                }
                Source::Step { step, part } => {
                    let Some(slot) = self.execution.joins[&join].slot(*step as u32) else {
                        return Ok(None);
                    };
                    let output = self.value(&slot.data);
                    match part {
                        None => output,
                        Some(part) => {
                            let sight = Sight::from_top(branch, output);
                            self.evaluate_here(branch, part, &sight)?
                        }
                    }
                }
            };
            members.push((name.as_str(), value));
        }
        Ok(Some(value::object(members)))
    }

    fn start_step(&mut self, branch: &Branch, graph: &Graph, index: u32, input: Value) {
        let step = &graph.steps[index as usize];
        let data = self.intern(input);
        let variables = self.visible_at_top(branch);
        let mut child = self.new_branch(branch, index, data.clone(), variables);
        match &step.scatter {
            None => {
                self.enter(&mut child, step.task, 0);
                self.wake(child);
            }
            Some(_) => {
                let join = JoinId(child.ticket());
                self.join_mut(join);
                let task = branch.top().expect("a graph has a frame").task;
                let activity = Activity::Scatter { join, step: index };
                let path = child.birth.path.inside(task, u64::from(index));
                // It begins in a turn of its own: an error in it needs the region to be in its place.
                child.push(self.frame(task, path, data, activity));
                self.wake(child);
            }
        }
    }

    pub(super) fn begin_scatter(&mut self, branch: &mut Branch, join: JoinId, step: u32) -> Turn {
        let (scatter, input) = self.scatter(branch, step);
        match combinations(scatter, &input) {
            Ok(total) => self.join_mut(join).counts.total = total,
            Err(fault) => return self.raise(branch, fault),
        }
        self.next_of_scatter(branch, join, step)
    }

    fn scatter(&self, branch: &Branch, step: u32) -> (&Scatter, Value) {
        let frame = branch.top().expect("a scatter has a frame");
        let Kind::Graph(graph) = &self.program.task(frame.task).kind else {
            unreachable!("only graphs scatter")
        };
        let scatter = graph.steps[step as usize].scatter.as_ref();
        (scatter.expect("this step is scattered"), self.value(frame.input()))
    }

    /// Starts items until the window is full or there are no more.
    pub(super) fn next_of_scatter(&mut self, branch: &mut Branch, join: JoinId, step: u32) -> Turn {
        let program = self.program;
        let task = branch.top().expect("a scatter has a frame").task;
        let Kind::Graph(graph) = &program.task(task).kind else {
            unreachable!("only graphs scatter")
        };
        let definition = &graph.steps[step as usize];
        let scatter = definition.scatter.as_ref().expect("this step is scattered");
        let input = self.value(branch.top().expect("a scatter has a frame").input());
        let variables = self.visible_at_top(branch);
        loop {
            let counts = &self.execution.joins[&join].counts;
            let (next, live, total) = (counts.next, counts.live, counts.total);
            if total <= next && live == 0 {
                return self.scattered(branch, join, scatter, &input);
            }
            if total <= next || scatter.window.max(1) <= live {
                return Turn::Wait;
            }
            let item = item_input(scatter, &input, next);
            self.join_mut(join).counts.next += 1;
            match self.step_wanted(branch, definition, &item) {
                Ok(true) => {
                    let data = self.intern(item);
                    self.spawn(branch, next, data, variables.clone(), definition.task);
                    self.join_mut(join).counts.live += 1;
                }
                Ok(false) => {
                    let data = crate::execution::Datum::null();
                    let slot = Slot { data, context: None, plan: Vec::new(), ran: false };
                    self.join_mut(join).fill(next, slot);
                }
                Err(fault) => return self.raise(branch, fault),
            }
        }
    }

    fn scattered(
        &mut self,
        branch: &mut Branch,
        join: JoinId,
        scatter: &Scatter,
        input: &Value,
    ) -> Turn {
        let join = self.drop_join(join);
        let outputs: Vec<Value> =
            join.slots().values().map(|slot| self.value(&slot.data)).collect();
        let plans = join.slots().values().map(|slot| slot.plan.clone());
        let plans: Vec<Vec<PlanEntry>> = plans.filter(|plan| !plan.is_empty()).collect();
        if !plans.is_empty() {
            let plan = branch.birth.plan;
            self.plan_mut(plan).push(PlanEntry::Parallel(plans));
        }
        let contexts = join.slots().values().filter_map(|slot| slot.context.clone());
        self.merge_contexts(branch, contexts.collect());
        let lengths = lengths(scatter, input);
        let list = match scatter.method {
            ScatterMethod::NestedCross => nest(&mut outputs.into_iter(), &lengths),
            ScatterMethod::Dot | ScatterMethod::FlatCross => value::array(outputs),
        };
        let data = self.intern(list);
        branch.set_data(data);
        branch.pop();
        Turn::Again
    }

    fn graph_done(&mut self, branch: &mut Branch, join: JoinId, graph: &Graph) -> Turn {
        let finished = self.drop_join(join);
        assert_eq!(finished.slots().len(), graph.steps.len(), "a graph without cycles ends");
        let outputs = finished.slots().iter().map(|(index, slot)| {
            let task = graph.steps[*index as usize].task;
            (self.program.task(task).name.as_str(), self.value(&slot.data))
        });
        let object = value::object(outputs.collect::<Vec<_>>());
        let plans = finished.slots().iter().map(|(step, slot)| (*step, slot.plan.clone()));
        let entries = in_order_of_steps(graph, plans);
        if !entries.is_empty() {
            let around = self.scope_around(branch, branch.frames().len());
            self.plan_mut(around).extend(entries);
        }
        let contexts = finished.slots().values().filter_map(|slot| slot.context.clone());
        self.merge_contexts(branch, contexts.collect());
        let output = match &graph.output {
            None => object,
            Some(template) => {
                let sight = Sight::from_top(branch, object);
                match self.evaluate_template_here(branch, template, &sight) {
                    Ok(output) => output,
                    Err(fault) => return self.raise(branch, fault),
                }
            }
        };
        let data = self.intern(output);
        branch.set_data(data);
        self.complete(branch)
    }
}

/// What steps did, so that a step is undone only after all that may have used what it made.
pub(super) fn in_order_of_steps(
    graph: &Graph,
    plans: impl IntoIterator<Item = (u32, Vec<PlanEntry>)>,
) -> Vec<PlanEntry> {
    let mut plans: BTreeMap<u32, Vec<PlanEntry>> =
        plans.into_iter().filter(|(_, plan)| !plan.is_empty()).collect();
    if plans.is_empty() {
        return Vec::new();
    }
    in_order(graph).into_iter().filter_map(|step| plans.remove(&step)).flatten().collect()
}

/// The steps, each after all it waits for; without those that wait for each other.
fn in_order(graph: &Graph) -> Vec<u32> {
    let mut waits_for: Vec<usize> =
        (0..graph.steps.len()).map(|step| predecessors(graph, step)).collect();
    let free = waits_for.iter().enumerate().filter(|(_, count)| **count == 0);
    let mut order: Vec<u32> = free.map(|(step, _)| step as u32).collect();
    let mut next = 0;
    while let Some(step) = order.get(next) {
        next += 1;
        for after in successors(graph, *step as usize).into_iter().rev() {
            waits_for[after as usize] -= 1;
            if waits_for[after as usize] == 0 {
                order.push(after);
            }
        }
    }
    order
}

/// How many steps a step waits for.
fn predecessors(graph: &Graph, step: usize) -> usize {
    let by_link = graph.links.iter().filter(|link| link.to == step).map(|link| link.from);
    let by_data = graph.steps[step].inputs.iter().filter_map(|(_, source)| match source {
        Source::Step { step, .. } => Some(*step),
        Source::Region(_) => None,
    });
    by_link.chain(by_data).collect::<BTreeSet<usize>>().len()
}

/// The steps that wait for a step.
fn successors(graph: &Graph, step: usize) -> Vec<u32> {
    let by_link = graph.links.iter().filter(|link| link.from == step).map(|link| link.to);
    let by_data = graph.steps.iter().enumerate().filter(|(_, other)| {
        other.inputs.iter().any(
            |(_, source)| matches!(source, Source::Step { step: needed, .. } if *needed == step),
        )
    });
    let mut steps: Vec<u32> = by_link.chain(by_data.map(|(i, _)| i)).map(|i| i as u32).collect();
    steps.sort_unstable();
    steps.dedup();
    steps.reverse();
    steps
}

fn lengths(scatter: &Scatter, input: &Value) -> Vec<usize> {
    let list = |name: &String| value::get(input, name).and_then(value::as_array);
    scatter.over.iter().map(|name| list(name).map_or(0, <[Value]>::len)).collect()
}

/// How many items a scatter has.
fn combinations(scatter: &Scatter, input: &Value) -> Result<u32, Fault> {
    let wrong = |detail: String| {
        Fault::new(FaultKind::Validation, "the scattered inputs do not fit", detail)
    };
    for name in &scatter.over {
        if value::get(input, name).and_then(value::as_array).is_none() {
            return Err(wrong(format!("`{name}` is not a list")));
        }
    }
    let lengths = lengths(scatter, input);
    let total = match scatter.method {
        ScatterMethod::Dot => {
            let first = lengths.first().copied().unwrap_or(0);
            if lengths.iter().any(|length| *length != first) {
                return Err(wrong(format!("the lists have different lengths: {lengths:?}")));
            }
            first
        }
        ScatterMethod::NestedCross | ScatterMethod::FlatCross => lengths
            .iter()
            .try_fold(1usize, |product, n| product.checked_mul(*n))
            .unwrap_or(usize::MAX),
    };
    u32::try_from(total).map_err(|_| wrong(format!("{total} combinations are too many")))
}

/// The input object of one item.
fn item_input(scatter: &Scatter, input: &Value, index: u32) -> Value {
    let lengths = lengths(scatter, input);
    let mut rest = index as usize;
    let mut positions = vec![0; lengths.len()];
    for (position, length) in positions.iter_mut().zip(&lengths).rev() {
        match scatter.method {
            ScatterMethod::Dot => *position = index as usize,
            ScatterMethod::NestedCross | ScatterMethod::FlatCross => {
                *position = rest % length;
                rest /= length;
            }
        }
    }
    let members = value::members(input).map(|(name, value)| {
        let scattered = scatter.over.iter().position(|over| over == name);
        match scattered {
            Some(which) => (name, element(value, positions[which]).unwrap_or_default()),
            None => (name, value.clone()),
        }
    });
    value::object(members.collect::<Vec<_>>())
}

/// Lists in lists, one level per scattered input.
fn nest(outputs: &mut impl Iterator<Item = Value>, lengths: &[usize]) -> Value {
    match lengths {
        [] => outputs.next().unwrap_or_default(),
        [length, inner @ ..] => {
            let parts: Vec<Value> = (0..*length).map(|_| nest(outputs, inner)).collect();
            value::array(parts)
        }
    }
}
