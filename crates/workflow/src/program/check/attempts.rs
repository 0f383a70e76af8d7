//! What being tried again does to keys and alternatives: warnings, because the program runs.
//!
//! A key that the author gives names one effect for ever. What a failed attempt did is undone, and the next attempt
//! asks for it by the same key: a provider that remembers its keys repeats its answer, and does nothing.
//! A retriable call is tried until it succeeds, so nothing takes its place, unless a `try` around it says how often
//! it is tried.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Weight, members};
use crate::program::{Class, Kind, Program, Task, TaskId, Undo};

/// What is known of the tasks around a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Around {
    /// The `try` that makes another attempt: the outermost in which something comes later, or the innermost.
    tried: Option<TaskId>,
    /// Whether more of the attempt comes later or beside it, and may fail when this has been done.
    followed: bool,
    /// The call that has a key of its author's.
    keyed: Option<TaskId>,
    /// Whether what it does is undone.
    undone: bool,
}

impl Around {
    fn attempt_of(self, id: TaskId) -> Self {
        if self.followed { self } else { Self { tried: Some(id), ..self } }
    }

    fn followed_if(self, more: bool) -> Self {
        Self { followed: self.followed || (more && self.tried.is_some()), ..self }
    }

    fn at(self, id: TaskId, task: &Task) -> Self {
        let said = task.traits.idempotency.as_ref();
        let keyed = said.map_or(self.keyed, |said| said.key.as_ref().map(|_| id));
        let undo = task.traits.compensation.as_ref().map(|it| &it.undo);
        Self { keyed, undone: self.undone || matches!(undo, Some(Undo::Run(_))), ..self }
    }
}

pub(super) fn check(program: &Program) -> Vec<Finding> {
    let (seen, findings) = (BTreeSet::new(), BTreeMap::new());
    let mut walk = Walk { program, seen, findings };
    walk.task(Program::ROOT, Around::default());
    walk.findings.into_values().collect()
}

struct Walk<'a> {
    program: &'a Program,
    seen: BTreeSet<(TaskId, Around)>,
    findings: BTreeMap<(TaskId, &'static str), Finding>,
}

impl Walk<'_> {
    fn task(&mut self, id: TaskId, around: Around) {
        if !self.seen.insert((id, around)) {
            return;
        }
        let task = self.program.task(id);
        let here = around.at(id, task);
        if let (Some(keyed), Some(tried), true) =
            (here.keyed, here.tried, here.followed && here.undone)
        {
            self.repeated_key(keyed, tried);
        }
        if here.tried.is_none() {
            self.alternatives(id, task);
        }
        match &task.kind {
            Kind::Function { body, .. } => self.task(*body, here),
            Kind::Try { body, catch } => {
                let attempt = if catch.retry.is_some() { here.attempt_of(id) } else { here };
                self.task(*body, attempt);
                catch.body.into_iter().for_each(|handler| self.task(handler, here));
            }
            kind => {
                let parts = members(task);
                for (number, part) in parts.iter().enumerate() {
                    let is_last = number + 1 == parts.len();
                    self.task(*part, here.followed_if(may_follow(kind, is_last, parts.len())));
                }
            }
        }
        task.traits.alternatives.iter().for_each(|other| self.task(*other, here));
    }

    /// Alternatives that come after what is tried until it succeeds.
    fn alternatives(&mut self, id: TaskId, task: &Task) {
        let first = class_of(self.program, id);
        let others = task
            .traits
            .alternatives
            .iter()
            .map(|other| (*other, class_of(self.program, *other).or(task.traits.class)));
        let mut ways = std::iter::once((id, first)).chain(others);
        let sure = ways.find(|(_, class)| {
            matches!(class, Some(Class::Retriable | Class::CompensatableRetriable))
        });
        if let Some((sure, _)) = sure.filter(|_| ways.next().is_some()) {
            self.unreached_alternative(id, sure);
        }
    }

    fn repeated_key(&mut self, id: TaskId, tried: TaskId) {
        let message = format!(
            "`{}` has the same key in every attempt of `{}`: when what comes after it fails, it is undone, and a \
             provider that remembers its key does not do it again",
            self.name(id),
            self.name(tried)
        );
        self.report(Finding {
            code: "repeated-key",
            weight: Weight::Warning,
            task: id,
            message,
            help: "remove `key`: each attempt after an undo then has another one; or put it before the `try`"
                .to_owned(),
            others: vec![("it is tried again here".to_owned(), tried)],
        });
    }

    fn unreached_alternative(&mut self, id: TaskId, sure: TaskId) {
        let message = format!(
            "`{}` is retriable: it is tried until it succeeds, so no alternative is tried after it",
            self.name(sure)
        );
        self.report(Finding {
            code: "unreached-alternative",
            weight: Weight::Warning,
            task: id,
            message,
            help: "give only the function of the last alternative a retriable class, or remove the alternatives \
                   that follow"
                .to_owned(),
            others: Vec::new(),
        });
    }

    fn name(&self, id: TaskId) -> &str {
        &self.program.task(id).name
    }

    fn report(&mut self, finding: Finding) {
        self.findings.entry((finding.task, finding.code)).or_insert(finding);
    }
}

/// Whether more of a task may come when a part of it has been done.
const fn may_follow(kind: &Kind, is_last: bool, parts: usize) -> bool {
    match kind {
        Kind::Sequence(_) => !is_last,
        // Who wins a race is all of it.
        Kind::Fork { compete, .. } => !*compete && 1 < parts,
        Kind::Graph(_) => 1 < parts,
        _ => true,
    }
}

/// The class of a call, which its function may say.
fn class_of(program: &Program, id: TaskId) -> Option<Class> {
    let mut task = program.task(id);
    let mut class = task.traits.class;
    // Functions that call each other in a circle are refused elsewhere.
    for _ in 0..program.tasks.len() {
        let Kind::Function { body, .. } = &task.kind else { break };
        task = program.task(*body);
        class = task.traits.class.or(class);
    }
    class
}
