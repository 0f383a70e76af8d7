//! Where the tasks of a document are: the lists inside a task, and every task with its number.

use std::collections::BTreeMap;

use outlast_workflow::TaskId;

use crate::text::Cursor;

/// A list of tasks inside a task.
pub(super) enum Inner<'a> {
    /// Run one after the other: a task of its own, numbered before its members.
    Sequence(Cursor<'a>),
    /// Tasks that belong to the task itself: the list of a `do`, the branches of a `fork`.
    Members(Cursor<'a>),
}

impl<'a> Inner<'a> {
    pub(super) const fn list(&self) -> &Cursor<'a> {
        match self {
            Self::Sequence(list) | Self::Members(list) => list,
        }
    }
}

/// The paths of lists inside a task, in the order in which their tasks are numbered.
const INNER_LISTS: [&[&str]; 6] = [
    &["do"],
    &["fork", "branches"],
    &["try"],
    &["catch", "do"],
    &["foreach", "do"],
    &["metadata", "outlast", "compensation", "do"],
];

/// The lists inside a task.
pub(super) fn inner_lists<'a>(task: &Cursor<'a>) -> Vec<Inner<'a>> {
    let list_at = |path: &&'static [&'static str]| {
        let list = path.iter().try_fold(task.clone(), |at, step| at.get(step))?;
        Some(match path {
            ["fork", "branches"] => Inner::Members(list),
            ["do"] if !task.has("for") => Inner::Members(list),
            _ => Inner::Sequence(list),
        })
    };
    INNER_LISTS.iter().filter_map(list_at).collect()
}

/// The functions of `use.functions`.
pub(super) fn functions<'a>(document: &Cursor<'a>) -> Vec<Cursor<'a>> {
    let functions = document.get("use").and_then(|it| it.get("functions"));
    functions.map(|it| it.entries().collect()).unwrap_or_default()
}

/// Calls `visit` for every task of the document, outer ones first.
pub(super) fn visit<'a>(document: &Cursor<'a>, mut visit: impl FnMut(&Cursor<'a>)) {
    let mut open: Vec<Cursor<'a>> = functions(document);
    open.reverse();
    if let Some(list) = document.get("do") {
        let mut tasks: Vec<_> = list.named_items().collect();
        tasks.reverse();
        open.extend(tasks);
    }
    while let Some(task) = open.pop() {
        visit(&task);
        let lists = inner_lists(&task);
        let inner = lists.iter().flat_map(|inner| inner.list().named_items());
        let mut inner: Vec<_> = inner.collect();
        inner.reverse();
        open.extend(inner);
    }
}

/// The number of every task by its JSON pointer: the document's `do` first, then its tasks, outer
/// before inner, then those of the functions. The same text always gets the same numbers.
#[derive(Default)]
pub(super) struct Numbers(BTreeMap<String, TaskId>);

impl Numbers {
    pub(super) fn of(document: &Cursor<'_>) -> Self {
        let mut numbers = Self::default();
        numbers.give("/do");
        if let Some(list) = document.get("do") {
            list.named_items().for_each(|task| numbers.task(&task));
        }
        functions(document).iter().for_each(|task| numbers.task(task));
        numbers
    }

    /// The number of the task or list at a pointer.
    pub(super) fn at(&self, pointer: &str) -> Option<TaskId> {
        self.0.get(pointer).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn give(&mut self, pointer: &str) {
        let next = u32::try_from(self.0.len()).expect("a document has at most 200,000 values");
        self.0.entry(pointer.to_owned()).or_insert(TaskId(next));
    }

    fn task(&mut self, task: &Cursor<'_>) {
        self.give(&task.pointer);
        for inner in inner_lists(task) {
            if let Inner::Sequence(list) = &inner {
                self.give(&list.pointer);
            }
            inner.list().named_items().for_each(|task| self.task(&task));
        }
    }
}
