//! Well-formed flow: one start, every task reachable, a way to an end from everywhere.
//!
//! Every list of tasks is a graph of its own: jumps stay inside a list. So each is judged alone,
//! with what is known of the tasks inside it: whether they complete, or leave the list otherwise.

use std::collections::{BTreeMap, BTreeSet};

use super::{ENDLESS, Finding, Weight, listed, members};
use crate::program::{Flow, Graph, Kind, Program, Source, Task, TaskId};

/// Where a list goes on after one of its tasks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    /// The task at this index.
    Task(usize),
    /// The list is complete.
    Complete,
    /// The workflow ends, or an error is raised.
    Leave,
}

pub(super) fn check(program: &Program) -> Vec<Finding> {
    let mut lists = Lists::new(program);
    let bounded = bounded(program);
    let mut findings = Vec::new();
    for (number, task) in program.tasks.iter().enumerate() {
        let id = TaskId(u32::try_from(number).expect("task numbers are 32 bits"));
        match &task.kind {
            Kind::Sequence(tasks) if tasks.is_empty() && id == Program::ROOT => {
                findings.push(empty(id));
            }
            Kind::Sequence(tasks) => {
                findings.extend(lists.check(tasks, bounded.contains(&id)));
            }
            Kind::Graph(graph) => findings.extend(cycle(program, id, graph)),
            _ => {}
        }
    }
    findings
}

fn empty(task: TaskId) -> Finding {
    Finding {
        code: "empty-workflow",
        weight: Weight::Error,
        task,
        message: "the workflow has no task to start with".to_owned(),
        help: "add at least one task".to_owned(),
        others: Vec::new(),
    }
}

/// The lists that something else ends: a timeout around them, or a race that another branch can win.
fn bounded(program: &Program) -> BTreeSet<TaskId> {
    let mut open = Vec::new();
    for (number, task) in program.tasks.iter().enumerate() {
        let id = TaskId(u32::try_from(number).expect("task numbers are 32 bits"));
        if task.timeout.is_some() || (id == Program::ROOT && program.timeout.is_some()) {
            open.push(id);
        }
        if matches!(&task.kind, Kind::Fork { compete: true, branches } if branches.len() > 1) {
            open.extend(members(task));
        }
    }
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(members(program.task(id)));
        }
    }
    found
}

/// What is known of the lists of a program.
pub(super) struct Lists<'a> {
    program: &'a Program,
    /// Tasks whose work is known to be able to complete, or not.
    complete: BTreeMap<TaskId, bool>,
    /// Tasks being looked at: functions of a foreign program may call themselves.
    open: BTreeSet<TaskId>,
}

impl<'a> Lists<'a> {
    pub(super) const fn new(program: &'a Program) -> Self {
        Self { program, complete: BTreeMap::new(), open: BTreeSet::new() }
    }

    fn check(&mut self, tasks: &[TaskId], bounded: bool) -> Vec<Finding> {
        let next: Vec<Vec<Next>> = (0..tasks.len()).map(|index| self.after(tasks, index)).collect();
        let reached = reached(&next);
        let lost: Vec<TaskId> = unreached(tasks, &reached);
        let mut findings = Vec::new();
        if let Some(first) = lost.first() {
            findings.push(self.unreachable(tasks, *first, &lost));
        }
        let ending = ending(&next);
        let endless: Vec<TaskId> = (0..tasks.len())
            .filter(|index| reached.contains(index) && !ending.contains(index))
            .map(|index| tasks[index])
            .collect();
        if let (Some(first), false) = (endless.first(), bounded) {
            findings.push(self.endless(*first, &endless));
        }
        findings
    }

    fn unreachable(&self, tasks: &[TaskId], first: TaskId, lost: &[TaskId]) -> Finding {
        let names = listed(self.program, lost);
        let verb = if lost.len() == 1 { "is" } else { "are" };
        let before = tasks.iter().take_while(|id| **id != first).last();
        Finding {
            code: "unreachable-task",
            weight: Weight::Error,
            task: first,
            message: format!("{names} {verb} never reached"),
            help: "no task goes on to it: name it in a `then`, or remove it".to_owned(),
            others: before
                .map(|id| ("the task before it goes elsewhere".to_owned(), *id))
                .into_iter()
                .collect(),
        }
    }

    fn endless(&self, first: TaskId, tasks: &[TaskId]) -> Finding {
        let names = listed(self.program, tasks);
        let verb = if tasks.len() == 1 { "goes" } else { "go" };
        Finding {
            code: ENDLESS,
            weight: Weight::Error,
            task: first,
            message: format!("{names} {verb} round for ever: no way leads to an end"),
            help: "add a `switch` that leaves the loop, or a `timeout` around it".to_owned(),
            others: Vec::new(),
        }
    }

    /// Where a list may go on after the task at an index.
    pub(super) fn after(&mut self, tasks: &[TaskId], index: usize) -> Vec<Next> {
        let program = self.program;
        let task = program.task(tasks[index]);
        let mut next = BTreeSet::new();
        let mut take = |flow: Flow| {
            next.insert(match flow {
                Flow::Continue if index + 1 < tasks.len() => Next::Task(index + 1),
                Flow::Continue | Flow::Exit => Next::Complete,
                Flow::End => Next::Leave,
                Flow::Goto(target) if (target as usize) < tasks.len() => {
                    Next::Task(target as usize)
                }
                Flow::Goto(_) => Next::Leave,
            });
        };
        if task.condition.is_some() {
            // A task that is skipped goes on to the one below it, whatever its `then` says.
            take(Flow::Continue);
        }
        match &task.kind {
            Kind::Switch(cases) => {
                cases.iter().for_each(|case| take(case.then));
                if cases.iter().all(|case| case.when.is_some()) {
                    take(task.then);
                }
            }
            Kind::Try { body, catch } => {
                if self.completes(*body) {
                    take(task.then);
                }
                if catch.body.is_none_or(|body| self.completes(body)) {
                    take(catch.then.unwrap_or(task.then));
                }
            }
            _ if self.completes(tasks[index]) => take(task.then),
            _ => {}
        }
        if self.leaves(tasks[index]) {
            next.insert(Next::Leave);
        }
        next.into_iter().collect()
    }

    /// Whether a task can complete. Lists that go round for ever count as if they did: they are
    /// reported themselves, and what comes after them need not be as well.
    fn completes(&mut self, id: TaskId) -> bool {
        if let Some(known) = self.complete.get(&id) {
            return *known;
        }
        if !self.open.insert(id) {
            return true;
        }
        let program = self.program;
        let known = match &program.task(id).kind {
            Kind::Raise(_) => false,
            Kind::Sequence(tasks) => self.list_completes(tasks),
            Kind::Fork { branches, compete: true } => {
                branches.is_empty() || branches.iter().any(|it| self.completes(*it))
            }
            Kind::Fork { branches, .. } => branches.iter().all(|it| self.completes(*it)),
            Kind::Function { body, .. } => self.completes(*body),
            Kind::Try { body, catch } => {
                self.completes(*body) || catch.body.is_none_or(|it| self.completes(it))
            }
            _ => true,
        };
        self.open.remove(&id);
        self.complete.insert(id, known);
        known
    }

    fn list_completes(&mut self, tasks: &[TaskId]) -> bool {
        let next: Vec<Vec<Next>> = (0..tasks.len()).map(|index| self.after(tasks, index)).collect();
        let reached = reached(&next);
        let mut leaves = false;
        for index in &reached {
            if next[*index].contains(&Next::Complete) {
                return true;
            }
            leaves |= next[*index].contains(&Next::Leave);
        }
        tasks.is_empty() || !leaves
    }

    /// Whether a task may end the workflow, or raises an error of its own.
    fn leaves(&self, id: TaskId) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![id];
        while let Some(inner) = open.pop() {
            if !seen.insert(inner) {
                continue;
            }
            let task = self.program.task(inner);
            let ends = |flow: &Flow| *flow == Flow::End;
            let inside = inner != id;
            if matches!(task.kind, Kind::Raise(_)) || (inside && says_end(task, ends)) {
                return true;
            }
            open.extend(members(task));
            if let Kind::Function { body, .. } = &task.kind {
                open.push(*body);
            }
        }
        false
    }
}

fn says_end(task: &Task, ends: impl Fn(&Flow) -> bool) -> bool {
    let cases = match &task.kind {
        Kind::Switch(cases) => cases.iter().any(|case| ends(&case.then)),
        Kind::Try { catch, .. } => catch.then.as_ref().is_some_and(&ends),
        _ => false,
    };
    cases || ends(&task.then)
}

/// The tasks of a list that can be reached from its first.
fn reached(next: &[Vec<Next>]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open: Vec<usize> = if next.is_empty() { Vec::new() } else { vec![0] };
    while let Some(index) = open.pop() {
        if found.insert(index) {
            open.extend(next[index].iter().filter_map(|next| match next {
                Next::Task(index) => Some(*index),
                _ => None,
            }));
        }
    }
    found
}

fn unreached(tasks: &[TaskId], reached: &BTreeSet<usize>) -> Vec<TaskId> {
    (0..tasks.len()).filter(|index| !reached.contains(index)).map(|index| tasks[index]).collect()
}

/// The tasks of a list from which there is a way out of it.
fn ending(next: &[Vec<Next>]) -> BTreeSet<usize> {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); next.len()];
    let mut open = Vec::new();
    for (index, ways) in next.iter().enumerate() {
        for way in ways {
            match way {
                Next::Task(target) => before[*target].push(index),
                Next::Complete | Next::Leave => open.push(index),
            }
        }
    }
    let mut found = BTreeSet::new();
    while let Some(index) = open.pop() {
        if found.insert(index) {
            open.extend(&before[index]);
        }
    }
    found
}

/// Steps of a graph that wait for each other in a circle never start.
fn cycle(program: &Program, id: TaskId, graph: &Graph) -> Option<Finding> {
    let count = graph.steps.len();
    let mut links: BTreeSet<(usize, usize)> =
        graph.links.iter().map(|link| (link.from, link.to)).collect();
    for (index, step) in graph.steps.iter().enumerate() {
        links.extend(step.inputs.iter().filter_map(|(_, source)| match source {
            Source::Step { step, .. } => Some((*step, index)),
            Source::Region(_) => None,
        }));
    }
    let mut waits = vec![0_usize; count];
    links.iter().for_each(|(_, to)| waits[*to] += 1);
    let mut open: Vec<usize> = (0..count).filter(|index| waits[*index] == 0).collect();
    let mut started = BTreeSet::new();
    while let Some(ready) = open.pop() {
        started.insert(ready);
        for (_, to) in links.range((ready, 0)..(ready + 1, 0)) {
            waits[*to] -= 1;
            if waits[*to] == 0 {
                open.push(*to);
            }
        }
    }
    let stuck = (0..count).filter(|index| !started.contains(index));
    let stuck: Vec<TaskId> = stuck.map(|index| graph.steps[index].task).collect();
    (!stuck.is_empty()).then(|| Finding {
        code: "graph-cycle",
        weight: Weight::Error,
        task: id,
        message: format!("{} wait for each other and never start", listed(program, &stuck)),
        help: "remove one of the links or inputs between them".to_owned(),
        others: Vec::new(),
    })
}
