//! Guaranteed termination: after a pivot only what is sure to succeed.
//!
//! The program is walked along every path with what is known there: whether the path may still be
//! rolled back, or has a pivot behind it. Results are remembered per task and state, so the walk
//! takes time linear in the program. Tasks without a class count as nothing, but with
//! `onFault: compensate` as pivots, which is a warning at the task itself.

use std::collections::{BTreeMap, BTreeSet};

use super::flow::{Lists, Next};
use super::{Finding, Weight, members};
use crate::program::{Catch, Class, ErrorFilter, Kind, OnFault, Program, Task, TaskId, Undo};

/// What is known of the path to a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Path {
    /// The place can be reached with everything still undoable.
    free: bool,
    /// The place can be reached after this pivot.
    after: Option<TaskId>,
}

impl Path {
    const START: Self = Self { free: true, after: None };

    fn or(self, other: Self) -> Self {
        Self { free: self.free || other.free, after: self.after.or(other.after) }
    }
}

/// A pivot that stands when an error leaves a task.
#[derive(Clone, Copy, Default)]
struct Standing {
    /// The error is raised.
    raised: Option<TaskId>,
    /// Something may fail.
    possible: Option<TaskId>,
}

impl Standing {
    const fn if_it_fails(after: Option<TaskId>) -> Self {
        Self { raised: None, possible: after }
    }

    fn or(self, other: Self) -> Self {
        Self { raised: self.raised.or(other.raised), possible: self.possible.or(other.possible) }
    }

    fn any(self) -> Option<TaskId> {
        self.raised.or(self.possible)
    }
}

/// What a task does to a path, the paths on which it may fail, and the pivot that it leaves then. A
/// pivot that has no answer in time is on a failing path, but it is not left: it is asked again or parked.
#[derive(Clone, Copy, Default)]
struct Walked {
    out: Path,
    failing: Path,
    left: Standing,
}

impl Walked {
    /// What completes.
    fn surely(path: Path) -> Self {
        Self { out: path, ..Self::default() }
    }

    /// What may fail, and leaves nothing of its own.
    const fn perhaps(path: Path) -> Self {
        Self { out: path, failing: path, left: Standing::if_it_fails(path.after) }
    }
}

pub(super) fn check(program: &Program) -> Vec<Finding> {
    let mut walk = Walk {
        program,
        lists: Lists::new(program),
        known: BTreeMap::new(),
        open: BTreeSet::new(),
        scopes: Vec::new(),
        held: BTreeMap::new(),
        findings: BTreeMap::new(),
    };
    let left = walk.task(Program::ROOT, Path::START).left;
    if program.on_fault == OnFault::Compensate {
        walk.fault_after(left);
    }
    walk.findings.into_values().collect()
}

struct Walk<'a> {
    program: &'a Program,
    lists: Lists<'a>,
    known: BTreeMap<(TaskId, Path), Walked>,
    open: BTreeSet<(TaskId, Path)>,
    scopes: Vec<TaskId>,
    /// Whether a pivot is inside a scope, once it has been looked for.
    held: BTreeMap<(TaskId, TaskId), bool>,
    findings: BTreeMap<(TaskId, &'static str), Finding>,
}

impl<'a> Walk<'a> {
    fn task(&mut self, id: TaskId, path: Path) -> Walked {
        if let Some(known) = self.known.get(&(id, path)) {
            return *known;
        }
        if !self.open.insert((id, path)) {
            return Walked::perhaps(path);
        }
        let program = self.program;
        let task = program.task(id);
        let scope = task.traits.scope;
        if scope {
            self.scopes.push(id);
        }
        let mut walked = match task.traits.class {
            Some(class) => self.classed(id, class, path),
            None => self.unclassed(id, task, path),
        };
        if scope {
            self.scopes.pop();
        }
        if task.condition.is_some() {
            walked.out = walked.out.or(path);
        }
        if task.timeout.is_some() {
            walked.failing = walked.failing.or(path).or(walked.out);
            // One call has either been answered or run out of time.
            let done = if task.traits.class.is_some() { path } else { path.or(walked.out) };
            walked.left = walked.left.or(Standing::if_it_fails(done.after));
        }
        self.open.remove(&(id, path));
        self.known.insert((id, path), walked);
        walked
    }

    fn classed(&mut self, id: TaskId, class: Class, path: Path) -> Walked {
        match (class, path.after) {
            (Class::Pivot, Some(first)) => self.second_pivot(id, first),
            (Class::Compensatable, Some(pivot)) if !self.ends_safely(id) => {
                self.undoable_after(id, pivot);
            }
            _ => {}
        }
        match class {
            Class::Pivot => {
                let after = path.after.or(Some(id));
                Walked { out: Path { free: false, after }, ..Walked::perhaps(path) }
            }
            Class::Retriable | Class::CompensatableRetriable => Walked::surely(path),
            Class::Readonly | Class::Compensatable => Walked::perhaps(path),
        }
    }

    fn unclassed(&mut self, id: TaskId, task: &'a Task, path: Path) -> Walked {
        match &task.kind {
            Kind::Call { .. } | Kind::RunWorkflow { .. } | Kind::Emit(_) => {
                self.effect(id, task, path)
            }
            Kind::Function { body, .. } => match &task.traits.compensation {
                Some(_) => self.effect(id, task, path),
                None => self.task(*body, path),
            },
            Kind::Sequence(tasks) => self.list(tasks, path),
            Kind::Fork { branches, compete } => self.fork(id, branches, *compete, path),
            Kind::Loop { body, .. } => self.repeated(*body, path),
            Kind::Listen { each, .. } => match each.as_ref().and_then(|each| each.body) {
                Some(body) => self.repeated(body, path),
                None => Walked::surely(path),
            },
            Kind::Try { body, catch } => {
                let tried = self.task(*body, path);
                if catch.retry.is_some() {
                    self.tried_again(id, *body, tried.left);
                }
                // An error may come from anywhere in the body, so the handler is entered on every
                // path on which something in it can fail.
                let entered = if tried.failing == Path::default() { path } else { tried.failing };
                let handled = match catch.body {
                    Some(handler) => self.task(handler, entered),
                    None => Walked { out: entered, failing: entered, left: Standing::default() },
                };
                let uncaught = match catches_all(catch) {
                    true => None,
                    false => tried.left.any(),
                };
                Walked {
                    out: tried.out.or(handled.out),
                    failing: tried.failing.or(handled.failing),
                    left: handled.left.or(Standing::if_it_fails(uncaught)),
                }
            }
            Kind::Raise(_) => {
                let left = Standing { raised: path.after, possible: None };
                Walked { out: Path::default(), failing: path, left }
            }
            Kind::Compensate { scope, until, .. } => {
                self.compensate(id, *scope, *until, path);
                Walked::perhaps(path)
            }
            Kind::Graph(graph) => {
                let steps: Vec<TaskId> = graph.steps.iter().map(|step| step.task).collect();
                self.fork(id, &steps, false, path)
            }
            Kind::Unsupported(_) => Walked::perhaps(path),
            Kind::Set(_) | Kind::Switch(_) | Kind::Wait(_) => Walked::surely(path),
        }
    }

    /// A call without a class: what its compensation says it is.
    fn effect(&mut self, id: TaskId, task: &Task, path: Path) -> Walked {
        match task.traits.compensation.as_ref().map(|it| &it.undo) {
            Some(Undo::Run(_)) => self.classed(id, Class::Compensatable, path),
            Some(Undo::Nothing) => Walked::perhaps(path),
            // A workflow that is waited for is rolled back as it says itself.
            None if matches!(task.kind, Kind::RunWorkflow { wait: true, .. }) => {
                Walked::perhaps(path)
            }
            None => {
                if self.program.on_fault == OnFault::Compensate {
                    self.unclassified(id);
                }
                Walked::perhaps(path)
            }
        }
    }

    /// A list: paths flow along its jumps until nothing new is known.
    fn list(&mut self, tasks: &[TaskId], path: Path) -> Walked {
        let mut walked = Walked::default();
        if tasks.is_empty() {
            return Walked::surely(path);
        }
        let mut entered = vec![Path::default(); tasks.len()];
        entered[0] = path;
        let mut open = BTreeSet::from([0]);
        while let Some(index) = open.pop_first() {
            let step = self.task(tasks[index], entered[index]);
            walked.failing = walked.failing.or(step.failing);
            walked.left = walked.left.or(step.left);
            if step.out == Path::default() {
                continue;
            }
            for next in self.lists.after(tasks, index) {
                match next {
                    Next::Task(target) => {
                        let joined = entered[target].or(step.out);
                        if joined != entered[target] {
                            entered[target] = joined;
                            open.insert(target);
                        }
                    }
                    Next::Complete => walked.out = walked.out.or(step.out),
                    Next::Leave => {}
                }
            }
        }
        walked
    }

    /// A body that may run not at all, once, or again after itself.
    fn repeated(&mut self, body: TaskId, path: Path) -> Walked {
        let once = self.task(body, path);
        let again = self.task(body, path.or(once.out));
        Walked {
            out: path.or(once.out).or(again.out),
            failing: once.failing.or(again.failing),
            left: once.left.or(again.left),
        }
    }

    fn fork(&mut self, id: TaskId, branches: &[TaskId], compete: bool, path: Path) -> Walked {
        let mut walked = Walked::default();
        let mut first: Option<TaskId> = None;
        for branch in branches {
            let step = self.task(*branch, path);
            walked.failing = walked.failing.or(step.failing);
            walked.left = walked.left.or(step.left);
            walked.out = walked.out.or(step.out);
            let Some(pivot) = self.pivot_in(*branch) else { continue };
            if compete {
                self.pivot_in_race(id, pivot);
            } else if let Some(first) = first {
                self.pivots_beside(pivot, first);
            }
            first = first.or(Some(pivot));
        }
        if branches.is_empty() {
            walked.out = path;
        }
        if !compete && let Some(pivot) = first {
            // All branches have completed, the one with the pivot among them.
            walked.out = Path { free: false, after: walked.out.after.or(Some(pivot)) };
        }
        walked
    }

    fn pivot_in(&self, root: TaskId) -> Option<TaskId> {
        let mut seen = BTreeSet::new();
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let task = self.program.task(id);
            match (task.traits.class, &task.kind) {
                (Some(Class::Pivot), _) => return Some(id),
                (Some(_), _) => {}
                (None, Kind::Function { body, .. }) => open.push(*body),
                (None, _) => open.extend(members(task)),
            }
        }
        None
    }

    /// Whether the last alternative of a call is sure to succeed.
    fn ends_safely(&self, id: TaskId) -> bool {
        let last = self.program.task(id).traits.alternatives.last();
        last.is_some_and(|last| {
            let class = self.program.task(*last).traits.class;
            matches!(
                class,
                Some(Class::Retriable | Class::CompensatableRetriable | Class::Readonly)
            )
        })
    }

    fn compensate(&mut self, id: TaskId, scope: Option<TaskId>, until: Option<TaskId>, path: Path) {
        let Some(pivot) = path.after else { return };
        let scope = scope.or(self.scopes.last().copied()).unwrap_or(Program::ROOT);
        let stops = until.is_some_and(|until| pivot <= until);
        if stops || !self.holds(scope, pivot) {
            return;
        }
        self.report(Finding {
            code: "compensate-crosses-pivot",
            weight: Weight::Error,
            task: id,
            message: format!(
                "`{}` would roll back past `{}`, which cannot be undone",
                self.name(id),
                self.name(pivot)
            ),
            help: format!("stop there with `until: {}`, or roll back an inner scope", {
                self.name(pivot)
            }),
            others: vec![("the pivot".to_owned(), pivot)],
        });
    }

    fn holds(&mut self, scope: TaskId, wanted: TaskId) -> bool {
        if let Some(known) = self.held.get(&(scope, wanted)) {
            return *known;
        }
        let held = self.search(scope, wanted);
        self.held.insert((scope, wanted), held);
        held
    }

    fn search(&self, scope: TaskId, wanted: TaskId) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![scope];
        while let Some(id) = open.pop() {
            if id == wanted {
                return true;
            }
            if seen.insert(id) {
                let task = self.program.task(id);
                open.extend(members(task));
                if let Kind::Function { body, .. } = &task.kind {
                    open.push(*body);
                }
            }
        }
        false
    }

    fn name(&self, id: TaskId) -> &'a str {
        &self.program.task(id).name
    }

    fn report(&mut self, finding: Finding) {
        self.findings.entry((finding.task, finding.code)).or_insert(finding);
    }

    fn second_pivot(&mut self, id: TaskId, first: TaskId) {
        let (name, earlier) = (self.name(id), self.name(first));
        let again = id == first;
        let message = match again {
            true => format!("the pivot `{name}` is in a loop and would run again after itself"),
            false => format!("the pivot `{name}` comes after the pivot `{earlier}`"),
        };
        let help = match again {
            true => "take it out of the loop, or make it `compensatable` or `retriable`",
            false => "a path has one pivot: make one of them `compensatable` or `retriable`",
        };
        let before = Some(("the pivot before it".to_owned(), first)).filter(|_| !again);
        self.report(Finding {
            code: "second-pivot",
            weight: Weight::Error,
            task: id,
            message,
            help: help.to_owned(),
            others: before.into_iter().collect(),
        });
    }

    /// A body that is tried again must not have a pivot behind it when it fails.
    fn tried_again(&mut self, id: TaskId, body: TaskId, left: Standing) {
        let within = [left.raised, left.possible].into_iter().flatten();
        let Some(pivot) = within.into_iter().find(|pivot| self.holds(body, *pivot)) else { return };
        let message = format!(
            "the pivot `{}` would run again: `{}` tries again if something fails after it",
            self.name(pivot),
            self.name(id)
        );
        self.report(Finding {
            code: "second-pivot",
            weight: Weight::Error,
            task: pivot,
            message,
            help: "put what comes after it in the `try` behind the `try`, make that `retriable`, or take the \
                   pivot out"
                .to_owned(),
            others: vec![("tried again".to_owned(), id)],
        });
    }

    /// What is rolled back on a fault must not have a pivot in it.
    fn fault_after(&mut self, left: Standing) {
        let (Some(pivot), raised) = (left.any(), left.raised.is_some()) else { return };
        let what = if raised { "an error is raised" } else { "something may fail" };
        self.report(Finding {
            code: "compensate-crosses-pivot",
            weight: if raised { Weight::Error } else { Weight::Warning },
            task: pivot,
            message: format!(
                "{what} after the pivot `{}`: with `onFault: compensate` all before it is undone, and it \
                 stands",
                self.name(pivot)
            ),
            help: "catch it, put it before the pivot, or let only `retriable` tasks follow the pivot"
                .to_owned(),
            others: Vec::new(),
        });
    }

    fn undoable_after(&mut self, id: TaskId, pivot: TaskId) {
        let message = format!(
            "`{}` may fail after the pivot `{}`, and then nothing can be rolled back",
            self.name(id),
            self.name(pivot)
        );
        self.report(Finding {
            code: "after-pivot",
            weight: Weight::Error,
            task: id,
            message,
            help: "put it before the pivot, make it `compensatable-retriable`, or give it an \
                   alternative that is `retriable`"
                .to_owned(),
            others: vec![("the pivot".to_owned(), pivot)],
        });
    }

    fn pivot_in_race(&mut self, fork: TaskId, pivot: TaskId) {
        let message = format!(
            "`{}` is a pivot in a race: if another branch of `{}` wins, it cannot be undone",
            self.name(pivot),
            self.name(fork)
        );
        self.report(Finding {
            code: "pivot-in-compete",
            weight: Weight::Error,
            task: pivot,
            message,
            help: "put the pivot after the `fork`, or make it `compensatable`".to_owned(),
            others: vec![("the race".to_owned(), fork)],
        });
    }

    fn pivots_beside(&mut self, id: TaskId, first: TaskId) {
        let message = format!(
            "the pivots `{}` and `{}` run beside each other: if one fails, the other stays",
            self.name(first),
            self.name(id)
        );
        self.report(Finding {
            code: "second-pivot",
            weight: Weight::Warning,
            task: id,
            message,
            help: "run one of them after the other".to_owned(),
            others: vec![("the other pivot".to_owned(), first)],
        });
    }

    fn unclassified(&mut self, id: TaskId) {
        let message = format!(
            "`{}` does not say how it is undone, and the whole run is to be rolled back on a fault",
            self.name(id)
        );
        self.report(Finding {
            code: "unclassified-effect",
            weight: Weight::Warning,
            task: id,
            message,
            help: "give it a `class` (and a `compensation`); without one it counts as a pivot"
                .to_owned(),
            others: Vec::new(),
        });
    }
}

/// Whether no error gets past a handler.
fn catches_all(catch: &Catch) -> bool {
    catch.errors == ErrorFilter::default() && catch.when.is_none() && catch.except_when.is_none()
}
