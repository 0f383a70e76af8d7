//! Bundles: a document together with the documents that it runs, as one text and one program.
//!
//! An execution that several nodes hold runs its sub-workflows as part of itself, so all of them
//! must be pinned with it. A bundle is pinned like any other text, by its digest; it travels and is
//! compiled as one. Its first document is the workflow itself; each of the others comes after a line
//! that says by which references it is run.
//!
//! What is run without waiting for its end is no part of the program, but it is in the text: the
//! bundle of what is started then is made of it (`detached`), so that no node has to look anything up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outlast_expressions::value::Deferred;
use outlast_lineage::Digest;

use super::{Kind, OnFault, Program, Task, TaskId, Template, Transform, Undo};

/// What stands between two documents, before the references to the second.
const MARK: &str = "\n# outlast bundle: ";

/// How deep workflows that are part of one program may run each other.
pub const NESTING_MAX: u32 = 32;

/// The workflows that a program runs.
#[derive(Debug, Default)]
pub struct Linked {
    /// Those that are part of it.
    parts: Vec<Part>,
    /// Which of them a task runs.
    runs: BTreeMap<TaskId, u32>,
    /// All documents of the bundle but the first.
    members: Vec<Member<Arc<Program>>>,
}

/// A workflow that is run as part of another.
#[derive(Debug)]
pub struct Part {
    /// Its `do`. Its tasks follow, up to those of the next part.
    pub root: TaskId,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its document as a value.
    pub definition: Deferred,
    /// Checks and transforms its raw input.
    pub input: Transform,
    /// Transforms and checks its output.
    pub output: Transform,
    /// How long it may take.
    pub timeout: Option<Template>,
    /// What a fault does that nothing in it catches.
    pub on_fault: OnFault,
}

/// A document of a bundle, and the references by which it is run.
pub type Member<T> = (Vec<String>, T);

/// How a task refers to the workflow it runs.
pub fn reference(namespace: &str, name: &str, version: &str) -> String {
    format!("{namespace}/{name}:{version}")
}

/// What a program runs, and what that runs, in the order in which it is come upon.
pub fn gather<E>(
    root: &Arc<Program>,
    mut find: impl FnMut(&str, &str, &str) -> Result<Arc<Program>, E>,
) -> Result<Vec<Member<Arc<Program>>>, E> {
    let mut members: Vec<Member<Arc<Program>>> = Vec::new();
    let (mut at, mut seen) = (Some(Arc::clone(root)), 0);
    while let Some(program) = at {
        for task in &program.tasks {
            let Kind::RunWorkflow { namespace, name, version, .. } = &task.kind else {
                continue;
            };
            let wanted = reference(namespace, name, version);
            if members.iter().any(|(names, _)| names.contains(&wanted)) {
                continue;
            }
            let found = find(namespace, name, version)?;
            match members.iter_mut().find(|(_, known)| known.digest == found.digest) {
                Some((names, _)) => names.push(wanted),
                None => members.push((vec![wanted], found)),
            }
        }
        at = members.get(seen).map(|(_, member)| Arc::clone(member));
        seen += 1;
    }
    Ok(members)
}

/// One text out of several.
pub fn join<'a>(root: &str, members: impl IntoIterator<Item = Member<&'a str>>) -> String {
    let mut text = root.to_owned();
    for (references, member) in members {
        text.push_str(MARK);
        text.push_str(&references.join(" "));
        text.push('\n');
        text.push_str(member);
    }
    text
}

/// The documents of a text; one that is no bundle is its only document.
pub fn split(text: &str) -> (&str, Vec<Member<&str>>) {
    let mut documents = text.split(MARK);
    let root = documents.next().unwrap_or_default();
    let members = documents.map(|document| {
        let (line, text) = document.split_once('\n').unwrap_or((document, ""));
        (line.split(' ').map(str::to_owned).collect(), text)
    });
    (root, members.collect())
}

/// Whether a text has more than one document.
pub fn is_bundle(text: &str) -> bool {
    text.contains(MARK)
}

/// Compiles a text that may be a bundle, by what compiles one document.
pub fn compile<E>(
    text: &str,
    mut one: impl FnMut(&str) -> Result<Arc<Program>, E>,
) -> Result<Arc<Program>, E> {
    let (root, members) = split(text);
    let program = one(root)?;
    if members.is_empty() {
        return Ok(program);
    }
    let compiled = members.into_iter().map(|(names, text)| Ok((names, one(text)?)));
    let compiled = compiled.collect::<Result<Vec<_>, E>>()?;
    Ok(Arc::new(link(Digest::of(text.as_bytes()), &program, &compiled)))
}

/// One program out of several. The tasks of the first keep their numbers.
pub fn link(digest: Digest, root: &Program, members: &[Member<Arc<Program>>]) -> Program {
    let mut tasks = root.tasks.clone();
    let awaited = awaited(root, members);
    let mut parts = Vec::with_capacity(awaited.len());
    for (_, member) in &awaited {
        let first = u32::try_from(tasks.len()).expect("a text has fewer tasks than bytes");
        tasks.extend(member.tasks.iter().map(|task| moved(task.clone(), first)));
        parts.push(Part {
            root: TaskId(first),
            namespace: member.namespace.clone(),
            name: member.name.clone(),
            definition: member.definition.clone(),
            input: member.input.clone(),
            output: member.output.clone(),
            timeout: member.timeout.clone(),
            on_fault: member.on_fault,
        });
    }
    let runs = tasks.iter().zip(0..).filter_map(|(task, number)| {
        let Kind::RunWorkflow { namespace, name, version, wait: true, .. } = &task.kind else {
            return None;
        };
        let wanted = reference(namespace, name, version);
        let part = awaited.iter().position(|(names, _)| names.contains(&wanted))?;
        Some((TaskId(number), u32::try_from(part).expect("a text has fewer parts than bytes")))
    });
    let linked = Linked { runs: runs.collect(), parts, members: members.to_vec() };
    let mut secrets = root.secrets.clone();
    for name in members.iter().flat_map(|(_, member)| &member.secrets) {
        if !secrets.contains(name) {
            secrets.push(name.clone());
        }
    }
    Program {
        digest,
        namespace: root.namespace.clone(),
        name: root.name.clone(),
        version: root.version.clone(),
        dsl: root.dsl.clone(),
        definition: root.definition.clone(),
        tasks,
        input: root.input.clone(),
        output: root.output.clone(),
        timeout: root.timeout.clone(),
        on_fault: root.on_fault,
        secrets,
        extension: root.extension.clone(),
        linked,
    }
}

/// The members whose end is waited for, by the root or by another of them.
fn awaited<'m>(
    root: &Program,
    members: &'m [Member<Arc<Program>>],
) -> Vec<&'m Member<Arc<Program>>> {
    let runs = |program: &Program| -> BTreeSet<usize> {
        let wanted = program.tasks.iter().filter_map(|task| match &task.kind {
            Kind::RunWorkflow { namespace, name, version, wait: true, .. } => {
                Some(reference(namespace, name, version))
            }
            _ => None,
        });
        let place = |wanted| members.iter().position(|(names, _)| names.contains(&wanted));
        wanted.filter_map(place).collect()
    };
    let mut all = runs(root);
    let mut new: Vec<usize> = all.iter().copied().collect();
    while let Some(member) = new.pop() {
        new.extend(runs(&members[member].1).into_iter().filter(|found| all.insert(*found)));
    }
    all.into_iter().map(|member| &members[member]).collect()
}

/// What a task of a bundle starts without waiting for its end, with all that that runs: its text and
/// its program.
pub fn detached(program: &Program, text: &str, task: TaskId) -> Option<(String, Arc<Program>)> {
    let Kind::RunWorkflow { namespace, name, version, wait: false, .. } = &program.task(task).kind
    else {
        return None;
    };
    let known = &program.linked.members;
    let find = |namespace: &str, name: &str, version: &str| {
        let wanted = reference(namespace, name, version);
        let found = known.iter().find(|(names, _)| names.contains(&wanted));
        found.map(|(_, program)| Arc::clone(program)).ok_or(())
    };
    let root = find(namespace, name, version).ok()?;
    let members = gather(&root, find).ok()?;
    let (_, texts) = split(text);
    let text_of = |program: &Program| {
        let place = known.iter().position(|(_, known)| known.digest == program.digest)?;
        texts.get(place).map(|(_, text)| *text)
    };
    let own = text_of(&root)?;
    if members.is_empty() {
        return Some((own.to_owned(), root));
    }
    let named = members.iter().map(|(names, member)| Some((names.clone(), text_of(member)?)));
    let text = join(own, named.collect::<Option<Vec<_>>>()?);
    let program = link(Digest::of(text.as_bytes()), &root, &members);
    Some((text, Arc::new(program)))
}

impl Linked {
    /// The number of the part that a task runs.
    pub(crate) fn run_by(&self, task: TaskId) -> Option<u32> {
        self.runs.get(&task).copied()
    }

    pub(crate) fn part(&self, number: u32) -> &Part {
        &self.parts[number as usize]
    }

    /// The part that begins with a task.
    pub(crate) fn begun_by(&self, task: TaskId) -> Option<&Part> {
        self.around(task).filter(|part| part.root == task)
    }

    /// The part that a task stands in; nothing for those of the workflow itself.
    pub(crate) fn around(&self, task: TaskId) -> Option<&Part> {
        let after = self.parts.partition_point(|part| part.root <= task);
        self.parts.get(after.checked_sub(1)?)
    }

    /// Whether the program is one document only.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// A task as it stands in a program where its document's first task has a number.
fn moved(mut task: Task, first: u32) -> Task {
    let shift = |id: &mut TaskId| id.0 += first;
    match &mut task.kind {
        Kind::Sequence(tasks) | Kind::Fork { branches: tasks, .. } => {
            tasks.iter_mut().for_each(shift);
        }
        Kind::Loop { body, .. } | Kind::Function { body, .. } => shift(body),
        Kind::Try { body, catch } => {
            shift(body);
            catch.body.iter_mut().for_each(shift);
        }
        Kind::Listen { each, .. } => {
            each.iter_mut().filter_map(|each| each.body.as_mut()).for_each(shift);
        }
        Kind::Compensate { scope, until, .. } => {
            scope.iter_mut().for_each(shift);
            until.iter_mut().for_each(shift);
        }
        Kind::Graph(graph) => graph.steps.iter_mut().for_each(|step| shift(&mut step.task)),
        Kind::Set(_)
        | Kind::Switch(_)
        | Kind::Raise(_)
        | Kind::Wait(_)
        | Kind::Emit(_)
        | Kind::Call { .. }
        | Kind::RunWorkflow { .. }
        | Kind::Unsupported(_) => {}
    }
    task.traits.alternatives.iter_mut().for_each(shift);
    if let Some(Undo::Run(undo)) = task.traits.compensation.as_mut().map(|known| &mut known.undo) {
        shift(undo);
    }
    task
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_joined_is_split_again() {
        let names = vec!["demo/b:latest".to_owned(), "demo/b:1.0.0".to_owned()];
        let text =
            join("a: 1\n", [(names.clone(), "b: 2"), (vec!["demo/c:2".to_owned()], "---\nc")]);
        assert!(is_bundle(&text));
        let (root, members) = split(&text);
        assert_eq!(root, "a: 1\n");
        assert_eq!(members, [(names, "b: 2"), (vec!["demo/c:2".to_owned()], "---\nc")]);
    }

    #[test]
    fn one_document_is_no_bundle() {
        assert!(!is_bundle("# a comment\na: 1"));
        assert_eq!(split("a: 1"), ("a: 1", Vec::new()));
    }
}
