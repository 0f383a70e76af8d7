//! What a scenario sees of a run, and how its expectations are held against it.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::scenario::{Order, Step};

/// How a run ended, and what happened on the way.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its end.
    pub(crate) end: End,
    /// What happened to tasks, in order.
    pub(crate) history: Vec<(What, String)>,
    /// How long it took.
    pub(crate) took: Duration,
    /// The names of the operations the service performed.
    pub(crate) operations: Vec<String>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum End {
    Completed(Json),
    Faulted(Json),
    Compensated(Json),
    Cancelled,
}

/// What happened to a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Started,
    Skipped,
    Retried,
    Undone,
    Other,
}

impl Run {
    /// Says why an expectation does not hold.
    pub(crate) fn check(&self, step: &Step) -> Result<(), String> {
        match step {
            Step::Completed(None) => self.output().map(drop),
            Step::Completed(Some(expected)) => same("the output", expected, self.output()?),
            Step::Faulted(None) => self.error().map(drop),
            Step::Faulted(Some(expected)) => same("the error", expected, self.error()?),
            Step::Compensated => match &self.end {
                End::Compensated(_) => Ok(()),
                other => Err(format!("it was not rolled back: {other:?}")),
            },
            Step::OutputProperties(names) => {
                names.iter().try_for_each(|name| property(self.output()?, name).map(drop))
            }
            Step::OutputProperty(name, expected) => {
                same(name, expected, property(self.output()?, name)?)
            }
            Step::OutputItems(name, count) => {
                let items = property(self.output()?, name)?.as_array().map(Vec::len);
                same(name, &json!(count), &json!(items))
            }
            Step::ErrorProperty(name, expected) => {
                same(name, expected, property(self.error()?, name)?)
            }
            Step::TookAtLeast(milliseconds) => {
                let enough = Duration::from_millis(*milliseconds) <= self.took;
                holds(enough, || format!("it took only {:?}", self.took))
            }
            Step::Operation(name, count) => {
                let seen = self.operations.iter().filter(|operation| *operation == name).count();
                holds(seen == *count, || format!("the service performed `{name}` {seen} times"))
            }
            _ => self.check_tasks(step),
        }
    }

    fn check_tasks(&self, step: &Step) -> Result<(), String> {
        match step {
            Step::Ran(task, order) => self.check_order(task, order),
            Step::Skipped(task) => self.place(What::Skipped, task).map(drop),
            Step::Retried(task, count) => {
                let seen = self.count(What::Retried, task);
                holds(seen == *count, || format!("`{task}` was retried {seen} times"))
            }
            Step::Undone(task, None) => self.place(What::Undone, task).map(drop),
            Step::Undone(task, Some(other)) => {
                let (one, two) =
                    (self.place(What::Undone, task)?, self.place(What::Undone, other)?);
                holds(one < two, || format!("`{other}` was undone before `{task}`"))
            }
            Step::Kept(task) => {
                let undone = self.count(What::Undone, task);
                holds(undone == 0, || format!("`{task}` was undone"))
            }
            given => unreachable!("{given:?} is not an expectation"),
        }
    }

    fn check_order(&self, task: &str, order: &Order) -> Result<(), String> {
        let starts: Vec<_> = self
            .history
            .iter()
            .filter(|(what, _)| *what == What::Started)
            .map(|(_, name)| name.as_str())
            .collect();
        let place = |task: &str| {
            let place = starts.iter().position(|name| *name == task);
            place.ok_or_else(|| format!("`{task}` did not run; what ran was {starts:?}"))
        };
        match order {
            Order::First => same("the first task", &json!(task), &json!(starts.first())),
            Order::Last => same("the last task", &json!(task), &json!(starts.last())),
            Order::After(other) => holds(place(other)? < place(task)?, || {
                format!("`{task}` ran before `{other}`: {starts:?}")
            }),
            Order::Before(other) => holds(place(task)? < place(other)?, || {
                format!("`{task}` ran after `{other}`: {starts:?}")
            }),
            Order::Times(count) => {
                let seen = starts.iter().filter(|name| **name == task).count();
                holds(seen == *count, || format!("`{task}` ran {seen} times"))
            }
        }
    }

    fn output(&self) -> Result<&Json, String> {
        match &self.end {
            End::Completed(output) => Ok(output),
            other => Err(format!("it did not complete: {other:?}")),
        }
    }

    fn error(&self) -> Result<&Json, String> {
        match &self.end {
            End::Faulted(error) | End::Compensated(error) => Ok(error),
            other => Err(format!("it did not fault: {other:?}")),
        }
    }

    fn place(&self, what: What, task: &str) -> Result<usize, String> {
        let place = self.history.iter().position(|(it, name)| *it == what && name == task);
        place.ok_or_else(|| format!("`{task}` is nowhere {what:?} in {:?}", self.history))
    }

    fn count(&self, what: What, task: &str) -> usize {
        self.history.iter().filter(|(it, name)| *it == what && name == task).count()
    }
}

fn holds(truth: bool, why_not: impl FnOnce() -> String) -> Result<(), String> {
    if truth { Ok(()) } else { Err(why_not()) }
}

/// Whether two values are equal; integers and floats are compared by value.
fn same(what: &str, expected: &Json, seen: &Json) -> Result<(), String> {
    holds(equal(expected, seen), || format!("{what} is {seen}, not {expected}"))
}

fn equal(one: &Json, two: &Json) -> bool {
    match (one, two) {
        (Json::Number(one), Json::Number(two)) => one.as_f64() == two.as_f64(),
        (Json::Array(one), Json::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| equal(one, two))
        }
        (Json::Object(one), Json::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(name, value)| two.get(name).is_some_and(|it| equal(value, it)))
        }
        _ => one == two,
    }
}

/// What a dot path leads to.
fn property<'a>(value: &'a Json, path: &str) -> Result<&'a Json, String> {
    path.split('.').try_fold(value, |value, name| {
        value.get(name).ok_or_else(|| format!("there is no `{path}` in {value}"))
    })
}
