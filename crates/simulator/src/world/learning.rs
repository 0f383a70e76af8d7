//! What the world learns of flows and calls while it looks on: which operations can be undone, which
//! are pivots, that no two calls have one name, and that nobody asks for what it knows.

use std::collections::{BTreeMap, BTreeSet};

use outlast_engine::{Engine, Report};
use outlast_lineage::{ExecutionId, NodeId, OperationKey, Time};
use outlast_workflow::program::{Class, Kind, TaskId, Traits, Undo};
use outlast_workflow::{Happening, Program, Request};

use super::World;
use crate::services::is_flaky;
use crate::swarm::workload::has_branches;
use crate::{Plan, Situation};

/// What is known of flows from what their executions did.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    /// The names of what can be undone, as far as it was done.
    pub(crate) undoable: BTreeSet<String>,
    /// The names of what can be neither undone nor repeated, as far as it was done.
    pub(crate) pivots: BTreeSet<String>,
    /// What is known of calls, by their keys.
    pub(crate) keys: BTreeMap<String, OfKey>,
    /// Whether some call has alternatives.
    has_choices: bool,
    /// Whether something catches errors.
    has_tries: bool,
    /// Whether some call is said to have a service that knows no keys, and an undo that may come before it.
    has_keyless: bool,
    /// The choices that were given up for the next one.
    given_up: BTreeSet<Choice>,
    /// Acts by the choices that they belong to.
    chosen: BTreeMap<usize, Choice>,
    /// Calls that failed for their run.
    failed: BTreeSet<Call>,
    /// Acts by the calls that they belong to, as far as an error of these may be caught.
    tried: BTreeMap<usize, Call>,
    /// Executions in which tasks were broken off whose parts ran beside each other.
    broken_off: BTreeSet<ExecutionId>,
    /// When each execution was heard of first.
    births: BTreeMap<ExecutionId, Time>,
    /// Whose lines asked flaky services that know no keys, by execution.
    askers: BTreeMap<ExecutionId, BTreeSet<NodeId>>,
    /// The keys of what an undo calls, by the key of what it undoes.
    undos: BTreeMap<(ExecutionId, OperationKey), BTreeSet<OperationKey>>,
}

/// What is known of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OfKey {
    /// It can be undone.
    pub(crate) is_undoable: bool,
    /// It can be neither undone nor repeated.
    pub(crate) is_pivot: bool,
    /// Its undo holds even if it comes only afterwards.
    pub(crate) is_tolerant: bool,
    /// Its service is said to know no keys: every line asks with keys of its own.
    pub(crate) is_keyless: bool,
    /// It is made for a call that has alternatives, or for one of these.
    pub(crate) choice: Option<Choice>,
    /// The task that makes it, if something around it catches errors.
    pub(crate) tried: Option<Call>,
}

/// A task of an execution that calls a service.
pub(crate) type Call = (ExecutionId, TaskId);

/// One way to do what a call with alternatives is there for.
pub(crate) type Choice = (ExecutionId, TaskId, usize);

impl Learnt {
    pub(super) fn new(plan: &Plan) -> Self {
        let tasks = || plan.definitions.iter().flat_map(|(program, _)| &program.tasks);
        let has_choices = tasks().any(|task| !task.traits.alternatives.is_empty());
        let tolerates =
            |traits: &Traits| traits.compensation.as_ref().is_some_and(|it| it.tolerant);
        let has_keyless = tasks().any(|task| tolerates(&task.traits) && is_keyless(&task.traits));
        let has_tries = tasks().any(|task| matches!(task.kind, Kind::Try { .. }));
        Self { has_choices, has_tries, has_keyless, ..Self::default() }
    }

    /// Whether what was done was not wanted any more, as an alternative was to take its place or its error was
    /// caught: then it is undone beside its run.
    pub(crate) fn is_set_aside(&self, act: usize) -> bool {
        let was_chosen = self.chosen.get(&act).is_some_and(|it| self.given_up.contains(it));
        was_chosen || self.tried.get(&act).is_some_and(|call| self.failed.contains(call))
    }

    /// Whether services that fail for the first keys failed for those of several lines, which have none in
    /// common.
    pub(crate) fn is_flaky_for_several(&self, execution: ExecutionId) -> bool {
        self.askers.get(&execution).is_some_and(|lines| 1 < lines.len())
    }

    /// Whether a call with a key is one whose service is said to know none. Of one that never left nobody was
    /// told that: where a flow has such calls, it may be one of them.
    pub(crate) fn may_be_keyless(&self, key: &str) -> bool {
        self.keys.get(key).map_or(self.has_keyless, |of_key| of_key.is_keyless)
    }

    /// Executions in which one branch broke others off, or all of them were from outside.
    pub(crate) fn broken_off(&self) -> impl Iterator<Item = ExecutionId> {
        self.broken_off.iter().copied()
    }

    /// The executions that were heard of.
    pub(crate) fn executions(&self) -> impl Iterator<Item = ExecutionId> {
        self.births.keys().copied()
    }

    /// When an execution was heard of first.
    pub(crate) fn birth_of(&self, execution: ExecutionId) -> Option<Time> {
        self.births.get(&execution).copied()
    }
}

/// Every choice of a program, with its calls and what it takes the place of when it starts.
fn choices(program: &Program) -> impl Iterator<Item = (TaskId, usize, TaskId)> {
    let numbered = (0..).map(TaskId).zip(&program.tasks);
    numbered.flat_map(|(task, it)| {
        let ways = std::iter::once(task).chain(it.traits.alternatives.iter().copied());
        let has_some = !it.traits.alternatives.is_empty();
        ways.enumerate().filter(move |_| has_some).map(move |(place, way)| (task, place, way))
    })
}

/// Whether a task is another one, or runs in it, in a function that it calls, too.
fn runs_in(program: &Program, task: TaskId, outer: TaskId) -> bool {
    let mut inside = vec![outer];
    let mut next = 0;
    while let Some(of) = inside.get(next).copied() {
        next += 1;
        if of == task {
            return true;
        }
        let around = format!("{}/", program.tasks[of.0 as usize].place.pointer);
        let numbered = (0..).map(TaskId).zip(&program.tasks);
        let inner = numbered.filter(|(_, it)| it.place.pointer.starts_with(&around));
        let mut found: Vec<TaskId> = inner.map(|(id, _)| id).collect();
        if let Kind::Function { body, .. } = program.tasks[of.0 as usize].kind {
            found.push(body);
        }
        found.retain(|id| !inside.contains(id));
        inside.extend(found);
    }
    false
}

impl World {
    /// Finds out what a flow says of its calls, and which of its alternatives are tried.
    pub(super) fn learn(&mut self, report: &Report) {
        let Report::Happened { execution, happenings, .. } = report else { return };
        self.learnt.births.entry(*execution).or_insert(self.now);
        let happenings = happenings.read();
        let tells = |it: &Happening| {
            matches!(it, Happening::Called(..) | Happening::TaskCancelled(..))
                || (self.learnt.has_choices && matches!(it, Happening::TaskStarted(..)))
                || (self.learnt.has_tries && matches!(it, Happening::TaskFaulted(..)))
        };
        if !happenings.iter().any(tells) {
            return;
        }
        let mut engines = self.machines.iter().filter_map(|machine| machine.node.engine());
        let Some(program) = engines.find_map(|engine| engine.program_of(*execution)) else {
            return;
        };
        for happening in &happenings {
            match happening {
                Happening::Called(task, key) => {
                    let (has_choices, has_tries) = (self.learnt.has_choices, self.learnt.has_tries);
                    let of_key = of_call(program, (*execution, *task), (has_choices, has_tries));
                    if of_key != OfKey::default() {
                        self.learnt.keys.insert(key.clone(), of_key);
                    }
                }
                Happening::TaskFaulted(task, _) if self.learnt.has_tries => {
                    self.learnt.failed.insert((*execution, *task));
                }
                Happening::TaskCancelled(task) if has_branches(program.task(*task)) => {
                    self.learnt.broken_off.insert(*execution);
                }
                Happening::TaskStarted(task, _) if self.learnt.has_choices => {
                    let later =
                        choices(program).filter(|(_, place, way)| 0 < *place && way == task);
                    let before = later.map(|(of, place, _)| (*execution, of, place - 1));
                    self.learnt.given_up.extend(before);
                }
                _ => {}
            }
        }
    }

    /// Counts executions that others started on several nodes without waiting for their end.
    pub(super) fn learn_start(&mut self, execution: ExecutionId) {
        let engines = self.machines.iter().filter_map(|machine| machine.node.engine());
        let alone = |engine: &Engine| {
            let held = engine.phase_of(execution).is_some();
            held && engine.parent_of(execution).is_some_and(|parent| !parent.waits)
        };
        if !self.detached.contains(&execution) && engines.into_iter().any(alone) {
            self.detached.insert(execution);
            self.saw(Situation::Detached);
        }
    }

    /// Whether several nodes held an execution that another one started without waiting for its end.
    pub(crate) fn is_held_by_several(&self, execution: ExecutionId) -> bool {
        self.detached.contains(&execution)
    }

    /// Remembers whose line asked for what fails for the first keys.
    pub(super) fn learn_visit(&mut self, execution: ExecutionId, request: &Request) {
        if !is_flaky(&request.target) {
            return;
        }
        let of_key = self.learnt.keys.get(&request.key_text());
        if of_key.is_some_and(|it| it.is_keyless) {
            let lines = self.learnt.askers.entry(execution).or_default();
            lines.insert(request.effect.point.author);
        }
    }

    /// Remembers what an act that was done belongs to. What a tolerant undo was made of before does
    /// nothing that stands.
    pub(crate) fn learn_act(&mut self, act: usize, key: &str) {
        let Some(of_key) = self.learnt.keys.get(key).copied() else { return };
        let ledger = &self.services.ledger;
        let name = ledger.operation(ledger.act(act).name);
        if of_key.is_undoable && !self.learnt.undoable.contains(name) {
            self.learnt.undoable.insert(name.to_owned());
        }
        if of_key.is_pivot && !self.learnt.pivots.contains(name) {
            self.learnt.pivots.insert(name.to_owned());
        }
        if let Some(choice) = of_key.choice {
            self.learnt.chosen.insert(act, choice);
        }
        if let Some(call) = of_key.tried {
            self.learnt.tried.insert(act, call);
        }
        if of_key.is_tolerant && self.services.ledger.comes_after_its_undo(act) {
            let node = self.place_of(self.services.ledger.act(act).node);
            self.say(node, format_args!("has that undone already, so that it does not stand"));
        }
    }

    /// No state is ever made twice: an effect is named by the state that intended it, so one name has
    /// one key, whoever restarts or takes over. An undo goes by the name of what it undoes.
    pub(crate) fn check_name(&mut self, execution: ExecutionId, request: &Request) {
        if request.undo {
            return;
        }
        let name = (execution, request.effect);
        let first = *self.named.entry(name).or_insert(request.key);
        if first != request.key {
            let effect = request.effect;
            self.found(format!("two calls of {execution} have one name, {effect:?}"));
        }
    }

    /// What a node has on its disk was made in its epoch.
    pub(crate) fn note_epoch(&mut self, place: usize) {
        let machine = &self.machines[place];
        if let Some(engine) = machine.node.engine() {
            self.epochs.insert(machine.id(), engine.epoch());
        }
    }

    /// A restarted author starts a new epoch. One that never came to its disk nobody has heard of.
    pub(crate) fn check_epoch(&mut self, place: usize) {
        let machine = &self.machines[place];
        let (node, engine) = (machine.id(), machine.node.engine());
        let Some(epoch) = engine.map(outlast_engine::Engine::epoch) else { return };
        if self.epochs.get(&node).is_some_and(|last| epoch <= *last) {
            self.found(format!("node {} resumes its epoch {}", node.0, epoch.0));
        }
    }

    /// One node alone never asks for what its disk has the answer of. Looked at when it asks: what an
    /// earlier life asked for may reach the service when a later one has the answer. An undo of several
    /// calls is tried again as a whole.
    pub(crate) fn check_need(&mut self, execution: ExecutionId, request: &Request) {
        if self.is_of_several(execution, request) {
            return;
        }
        let known = self.services.ledger.known_of(execution, request.key);
        if let Some(known) = known.filter(|_| self.client.is_alone(execution)) {
            let operation = self.services.ledger.operation(known.operation);
            self.found(format!(
                "{execution} asks again for {operation}, whose answer was on its disk"
            ));
        }
    }

    /// Whether a request is one of several that an undo makes.
    fn is_of_several(&mut self, execution: ExecutionId, request: &Request) -> bool {
        let Some(undone) = request.undoes.filter(|_| request.undo) else { return false };
        let calls = self.learnt.undos.entry((execution, undone)).or_default();
        calls.insert(request.key);
        1 < calls.len()
    }

    /// The names of what was done and can be undone, where the definition of the execution is known.
    pub fn undoable(&self) -> impl Iterator<Item = &str> {
        self.learnt.undoable.iter().map(String::as_str)
    }

    /// The names of what was done and can be neither undone nor repeated.
    pub fn pivots(&self) -> impl Iterator<Item = &str> {
        self.learnt.pivots.iter().map(String::as_str)
    }
}

fn is_keyless(traits: &Traits) -> bool {
    traits.idempotency.as_ref().is_some_and(|it| it.none)
}

/// Whether the service of a call is said to know no keys: by the call, or, if that says nothing of keys, by
/// the one whose alternative it is.
fn has_no_key(program: &Program, task: TaskId, choice: Option<Choice>) -> bool {
    let traits = |task: TaskId| &program.tasks[task.0 as usize].traits;
    match (&traits(task).idempotency, choice) {
        (None, Some((_, of, _))) => is_keyless(traits(of)),
        _ => is_keyless(traits(task)),
    }
}

/// What a flow says of a call.
fn of_call(program: &Program, call: Call, (has_choices, has_tries): (bool, bool)) -> OfKey {
    let (execution, task) = call;
    let traits = &program.tasks[task.0 as usize].traits;
    let compensation = traits.compensation.as_ref();
    let undone = compensation.filter(|it| matches!(it.undo, Undo::Run(_)));
    let choice = || {
        let mut all = choices(program);
        let it = all.find(|(_, _, way)| runs_in(program, task, *way));
        it.map(|(of, place, _)| (execution, of, place))
    };
    let choice = if has_choices { choice() } else { None };
    OfKey {
        is_undoable: undone.is_some(),
        is_pivot: traits.class == Some(Class::Pivot),
        is_tolerant: undone.is_some_and(|it| it.tolerant),
        is_keyless: has_no_key(program, task, choice),
        choice,
        tried: (has_tries && is_tried(program, task)).then_some(call),
    }
}

/// Whether an error of a task may be caught by what is around it.
fn is_tried(program: &Program, task: TaskId) -> bool {
    let bodies = program.tasks.iter().filter_map(|it| match it.kind {
        Kind::Try { body, .. } => Some(body),
        _ => None,
    });
    bodies.into_iter().any(|body| runs_in(program, task, body))
}
