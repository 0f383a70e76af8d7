//! Branches side by side: forks, concurrent loops, and how they come together.

use outlast_expressions::{Value, value};
use outlast_lineage::{BranchId, Digester};

use super::composite::length;
use super::evaluation::Sight;
use super::parts::leave_part;
use super::{Machine, Turn};
use crate::execution::{
    Activity, Birth, Branch, Datum, JoinId, Path, Plan, PlanEntry, PlanId, Slot,
};
use crate::program::Kind;
use crate::{Fault, Happening, TaskId, Ticket};

impl Machine<'_> {
    pub(super) fn fork(&mut self, branch: &mut Branch, tasks: &[TaskId]) -> Turn {
        let join = JoinId(branch.ticket());
        let counts = &mut self.join_mut(join).counts;
        counts.total = tasks.len() as u32;
        counts.next = tasks.len() as u32;
        counts.live = tasks.len() as u32;
        self.set_activity(branch, Activity::Gather(join));
        let variables = self.visible_at_top(branch);
        for (slot, task) in tasks.iter().enumerate() {
            let data = branch.data().clone();
            self.spawn(branch, slot as u32, data, variables.clone(), *task);
        }
        if tasks.is_empty() { self.gathered(branch, join) } else { Turn::Wait }
    }

    /// Starts a branch that runs one task and then fills a slot of the join at the top of `branch`.
    pub(super) fn spawn(
        &mut self,
        branch: &mut Branch,
        slot: u32,
        data: Datum,
        variables: Vec<(String, Datum)>,
        task: TaskId,
    ) {
        let mut child = self.new_branch(branch, slot, data, variables);
        self.enter(&mut child, task, 0);
        self.wake(child);
    }

    pub(super) fn new_branch(
        &mut self,
        branch: &Branch,
        slot: u32,
        data: Datum,
        variables: Vec<(String, Datum)>,
    ) -> Branch {
        let frame = branch.top().expect("a task forks");
        let join = frame.activity.join().expect("a task forks into a join");
        self.new_branch_at(branch, frame.path, join, slot, data, variables)
    }

    /// The same with a place of its own, for a task that forks more than once.
    pub(super) fn new_branch_at(
        &mut self,
        branch: &Branch,
        around: Path,
        join: JoinId,
        slot: u32,
        data: Datum,
        variables: Vec<(String, Datum)>,
    ) -> Branch {
        let incarnation = self.incarnation(branch);
        let id = branch_id(join, slot);
        let plan = PlanId(Ticket { branch: id, number: 0 });
        let birth = Birth {
            id,
            parent: Some(branch.id()),
            slot,
            path: around.inside(TaskId(slot), u64::MAX),
            variables,
            plan,
            incarnation,
            workflow: branch.workflow().cloned().map(Box::new),
            undo: branch.undo(),
            policy: self.has_policy(branch),
        };
        self.touched.plans.insert(plan);
        self.execution.plans.insert(plan, Plan::new());
        let mut child = Branch::new(birth, data, branch.context().clone());
        self.touched.branches.insert(id);
        child.extend(self.author.node, self.author.epoch);
        child
    }

    pub(super) fn begin_concurrent_loop(&mut self, branch: &mut Branch, items: Datum) -> Turn {
        let join = JoinId(branch.ticket());
        let total = length(&self.value(&items)) as u32;
        let gathering = self.join_mut(join);
        gathering.counts.total = total;
        gathering.set_items(items);
        self.set_activity(branch, Activity::Gather(join));
        self.fill_window(branch, join)
    }

    /// Starts iterations until the window is full or there are no more.
    fn fill_window(&mut self, branch: &mut Branch, join: JoinId) -> Turn {
        let Kind::Loop { each, at, condition, body, concurrency, .. } =
            &self.definition(branch).kind
        else {
            unreachable!("only loops have a window")
        };
        let inherited = self.visible_at_top(branch);
        let items = self.execution.joins[&join].items().expect("a loop goes over items").clone();
        let items = self.value(&items);
        loop {
            let counts = &self.execution.joins[&join].counts;
            let (next, live, total) = (counts.next, counts.live, counts.total);
            if total <= next && live == 0 {
                return self.gathered(branch, join);
            }
            if total <= next || *concurrency <= live {
                return Turn::Wait;
            }
            let item = element(&items, next as usize).unwrap_or_default();
            let mut variables = inherited.clone();
            variables.push((each.clone(), self.intern(item)));
            variables.push((at.clone(), Datum::small(value::integer(i64::from(next)))));
            let data = branch.top().expect("a task is being run").input().clone();
            let mut child = self.new_branch(branch, next, data, variables);
            if let Some(condition) = condition {
                let sight = Sight::from_top(&child, self.value(child.data()));
                match self.evaluate_here(&child, condition, &sight) {
                    Ok(holds) if value::truthy(&holds) => {}
                    Ok(_) => {
                        self.forget_unborn(child);
                        self.join_mut(join).counts.total = next;
                        continue;
                    }
                    Err(fault) => {
                        self.forget_unborn(child);
                        return self.raise(branch, fault);
                    }
                }
            }
            self.enter(&mut child, *body, 0);
            self.wake(child);
            let counts = &mut self.join_mut(join).counts;
            counts.next += 1;
            counts.live += 1;
        }
    }

    fn forget_unborn(&mut self, child: Branch) {
        self.execution.plans.remove(&child.birth.plan);
        self.touched.plans.remove(&child.birth.plan);
        self.touched.branches.remove(&child.id());
    }

    /// A branch has no more frames: the trunk ends the run, others fill their slot.
    pub(super) fn branch_done(&mut self, branch: &mut Branch) -> Turn {
        let Some(parent_id) = branch.birth.parent else {
            if branch.id() == BranchId::TRUNK {
                self.trunk_done(branch);
            }
            return Turn::Gone;
        };
        // A branch that was cut off waits, done, to be sent back to where its join is.
        let Some(mut parent) = self.take(parent_id) else { return Turn::Wait };
        let mut plan = self.plan_mut(branch.birth.plan).drain();
        // A workflow that is part of another has a context and an end of its own.
        let is_part = self.part_run_by(&parent).is_some();
        if is_part {
            leave_part(branch, &mut plan);
        }
        let exports = !is_part && branch.context() != parent.context();
        let context = exports.then(|| branch.context().clone());
        let slot = Slot { data: branch.data().clone(), context, plan, ran: true };
        let ends = branch.small.ending && !is_part;
        let turn = self.fill_slot(&mut parent, branch.birth.slot, slot, ends);
        self.settle(parent, turn);
        Turn::Gone
    }

    fn fill_slot(&mut self, parent: &mut Branch, index: u32, slot: Slot, ends: bool) -> Turn {
        let join = match &parent.top().expect("a parent waits for its branches").activity {
            Activity::Gather(join) | Activity::Scatter { join, .. } => *join,
            Activity::Compensating(compensating) => {
                compensating.parts.expect("only undos in parallel have branches")
            }
            activity => unreachable!("{activity:?} waits for no branch"),
        };
        self.join_mut(join).counts.live -= 1;
        if ends {
            return self.end_from_branch(parent, join, slot);
        }
        if let Activity::Scatter { step, .. } = parent.top().expect("just seen").activity {
            self.join_mut(join).fill(index, slot);
            return self.next_of_scatter(parent, join, step);
        }
        if matches!(parent.top().expect("just seen").activity, Activity::Compensating(_)) {
            return self.part_undone(parent, join);
        }
        match &self.definition(parent).kind {
            Kind::Fork { compete: true, .. } => self.win(parent, join, slot),
            Kind::RunWorkflow { .. } => self.part_done(parent, join, slot),
            Kind::Loop { .. } => {
                let last = self.execution.joins[&join].counts.total == index + 1;
                // Only the last iteration's output is the loop's; the others leave what must stay.
                if last || slot.context.is_some() || !slot.plan.is_empty() {
                    self.join_mut(join).fill(index, slot);
                }
                self.fill_window(parent, join)
            }
            Kind::Graph(graph) => {
                self.join_mut(join).fill(index, slot);
                self.next_of_graph(parent, join, graph, Some(index))
            }
            _ => {
                self.join_mut(join).fill(index, slot);
                let done = self.execution.joins[&join].counts.live == 0;
                if done { self.gathered(parent, join) } else { Turn::Wait }
            }
        }
    }

    /// `then: end` in a branch ends the workflow: the others are stopped.
    fn end_from_branch(&mut self, parent: &mut Branch, join: JoinId, slot: Slot) -> Turn {
        parent.set_ending();
        let scatters = matches!(
            parent.top().expect("a parent waits for its branches").activity,
            Activity::Scatter { .. }
        );
        self.take_over_winner(parent, join, slot);
        if scatters {
            // The frame of a scattered step stands in for the region; only the region has an output.
            parent.pop();
            return Turn::Again;
        }
        self.complete(parent)
    }

    /// The first branch of a competition to finish decides it; what the others did is undone.
    fn win(&mut self, parent: &mut Branch, join: JoinId, slot: Slot) -> Turn {
        self.take_over_winner(parent, join, slot);
        self.complete(parent)
    }

    fn take_over_winner(&mut self, parent: &mut Branch, join: JoinId, winner: Slot) {
        let losers = self.stop_children(parent);
        let finished = self.drop_join(join);
        let around = self.scope_around(parent, parent.frames().len());
        // What branches did that were done before the end stays done, and can be undone later.
        for slot in finished.slots().values() {
            self.plan_mut(around).extend(slot.plan.clone());
        }
        self.plan_mut(around).extend(winner.plan);
        parent.set_data(winner.data);
        if let Some(context) = winner.context {
            parent.set_context(context);
        }
        for (_, loser) in losers {
            self.undo_aside(parent, loser);
        }
    }

    /// Everything has come together: outputs in order of declaration, contexts merged, plans joined.
    pub(super) fn gathered(&mut self, branch: &mut Branch, id: JoinId) -> Turn {
        let join = self.drop_join(id);
        let output = match &self.definition(branch).kind {
            Kind::Loop { .. } => match join.counts.total.checked_sub(1) {
                Some(last) => join.slot(last).map(|slot| slot.data.clone()),
                None => None,
            },
            _ => {
                let outputs = join.slots().values().map(|slot| self.value(&slot.data));
                let list = value::array(outputs.collect::<Vec<_>>());
                Some(self.intern(list))
            }
        };
        if let Some(output) = output {
            branch.set_data(output);
        }
        let contexts = join.slots().values().filter_map(|slot| slot.context.clone());
        self.merge_contexts(branch, contexts.collect());
        let plans = join.slots().values().map(|slot| slot.plan.clone());
        let plans: Vec<Vec<PlanEntry>> = plans.filter(|plan| !plan.is_empty()).collect();
        if !plans.is_empty() {
            let around = self.scope_around(branch, branch.frames().len());
            self.plan_mut(around).push(PlanEntry::Parallel(plans));
        }
        self.complete(branch)
    }

    /// Merges the contexts of branches, key by key, later declared ones winning (LANGUAGE 5.2.1).
    pub(super) fn merge_contexts(&mut self, branch: &mut Branch, contexts: Vec<Datum>) {
        if contexts.is_empty() {
            return;
        }
        let before = self.value(branch.context());
        let mut merged: Vec<(String, Value)> =
            value::members(&before).map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let mut written: Vec<(String, Value)> = Vec::new();
        let mut whole = None;
        for context in contexts {
            let context = self.value(&context);
            if !matches!(context, Value::Obj(_)) {
                whole = Some(context);
                continue;
            }
            for (name, value) in value::members(&context) {
                if value::get(&before, name).is_some_and(|old| value::equal(old, value)) {
                    continue;
                }
                if written.iter().any(|(known, old)| known == name && !value::equal(old, value)) {
                    let task = branch.top().expect("a task is being run").task;
                    let conflict = Happening::ContextConflict(task, name.to_owned());
                    self.happenings.push(conflict);
                }
                written.push((name.to_owned(), value.clone()));
                merged.retain(|(known, _)| known != name);
                merged.push((name.to_owned(), value.clone()));
            }
        }
        let object =
            value::object(merged.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let context = self.share(whole.unwrap_or(object));
        branch.set_context(context);
    }

    /// An error left a competing branch: it is out, and only if all are out is the first raised.
    pub(super) fn lose(&mut self, parent: &mut Branch, child: BranchId, fault: Fault) -> Turn {
        let Activity::Gather(join) = parent.top().expect("a parent waits").activity else {
            return Turn::Wait;
        };
        let loser = self.stop_branch(child, parent.workflow());
        self.undo_aside(parent, loser);
        let counts = &mut self.join_mut(join).counts;
        counts.live -= 1;
        let first = counts.fault.get_or_insert(fault).clone();
        if counts.live > 0 {
            return Turn::Wait;
        }
        self.drop_join(join);
        // What they did is undone, so what they ask for if this is tried again is asked anew.
        parent.top_mut().expect("a parent waits").tries += 1;
        self.raise(parent, first)
    }
}

/// The id of the branch in a slot: derived, so that every copy gives it the same one. A task that is begun
/// again has another join, and so other branches, though what these ask for keeps its keys: what is still on
/// its way to one that was stopped must find nobody.
pub(super) fn branch_id(join: JoinId, slot: u32) -> BranchId {
    let digest = Digester::new("branch").number(join.0.branch.0).number(u64::from(join.0.number));
    BranchId(digest.number(u64::from(slot)).finish().short().max(1))
}

/// The element of a list at an index.
pub(super) fn element(list: &Value, index: usize) -> Option<Value> {
    value::as_array(list)?.get(index).cloned()
}
