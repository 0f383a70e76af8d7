//! Feature files as scenarios: Gherkin read, doc strings cleaned, step texts recognised.
//!
//! The step vocabulary is that of the conformance kit's own page, plus the few steps of our
//! supplement (events, operations at a service, compensation, time).

use std::fs;
use std::path::Path;

use gherkin::{Feature, GherkinEnv};
use serde_json::Value as Json;

use crate::yaml;

/// One scenario of one feature file.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// The file's name without its ending.
    pub(crate) feature: String,
    /// What the scenario is called.
    pub(crate) name: String,
    /// Its steps in order.
    pub(crate) steps: Vec<Step>,
}

/// One recognised step.
#[derive(Debug)]
pub(crate) enum Step {
    /// The document to run.
    Definition(String),
    /// A further document, for `run: workflow`.
    Registered(String),
    /// Its input.
    Input(Json),
    /// An event that is published after the start.
    Event(Json),
    /// Run it.
    Execute,
    /// It ended well, and perhaps with exactly this output.
    Completed(Option<Json>),
    /// It ended with an error, and perhaps with exactly this one.
    Faulted(Option<Json>),
    /// It was rolled back.
    Compensated,
    /// The output has these properties (dot paths).
    OutputProperties(Vec<String>),
    /// A property of the output has this value.
    OutputProperty(String, Json),
    /// A property of the output is an array of this many items.
    OutputItems(String, usize),
    /// A property of the error has this value.
    ErrorProperty(String, Json),
    /// When a task ran, compared with the others.
    Ran(String, Order),
    /// A task did not run because its condition did not hold.
    Skipped(String),
    /// A task was tried again this many times.
    Retried(String, usize),
    /// A task was undone, perhaps before another.
    Undone(String, Option<String>),
    /// A task was not undone.
    Kept(String),
    /// The service performed an operation this many times.
    Operation(String, usize),
    /// The run took at least this many milliseconds.
    TookAtLeast(u64),
}

/// When a task ran.
#[derive(Debug)]
pub(crate) enum Order {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// After that one.
    After(String),
    /// Before that one.
    Before(String),
    /// This many times.
    Times(usize),
}

/// All scenarios of the feature files in a folder, in order of file and place.
pub(crate) fn read_folder(folder: &Path) -> Vec<Scenario> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "feature"))
        .collect();
    files.sort();
    files.iter().flat_map(|path| read_file(path)).collect()
}

fn read_file(path: &Path) -> Vec<Scenario> {
    let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
    let feature = Feature::parse_path(path, GherkinEnv::default())
        .unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
    let scenario = |scenario: gherkin::Scenario| Scenario {
        feature: name.clone(),
        steps: scenario.steps.iter().map(|step| recognise(&name, step)).collect(),
        name: scenario.name,
    };
    feature.scenarios.into_iter().map(scenario).collect()
}

/// A step nobody knows is an error of the test, not a step to pass over.
fn recognise(feature: &str, step: &gherkin::Step) -> Step {
    let text = step.value.strip_prefix("given ").unwrap_or(&step.value);
    let document = || {
        let text = step.docstring.as_deref();
        without_media_type(text.unwrap_or_else(|| panic!("{feature}: `{step}` has no doc string")))
    };
    let value = || yaml::parse(&document());
    match text {
        "a workflow with definition:" => Step::Definition(document()),
        "a registered workflow with definition:" => Step::Registered(document()),
        "the workflow input is:" => Step::Input(value()),
        "the event is published:" => Step::Event(value()),
        "the workflow is executed" => Step::Execute,
        "the workflow should complete" => Step::Completed(None),
        "the workflow should complete with output:" => Step::Completed(Some(value())),
        "the workflow should fault" => Step::Faulted(None),
        "the workflow should fault with error:" => Step::Faulted(Some(value())),
        "the workflow should be compensated" => Step::Compensated,
        _ => about_data(text, value)
            .or_else(|| about_a_task(text))
            .unwrap_or_else(|| panic!("{feature}: no step reads `{step}`")),
    }
}

fn about_data(text: &str, value: impl Fn() -> Json) -> Option<Step> {
    if let Some(names) = text.strip_prefix("the workflow output should have properties ") {
        return Some(Step::OutputProperties(quoted(names)));
    }
    if let Some(rest) = text.strip_prefix("the workflow output should have a ") {
        let name = quoted(rest).pop()?;
        if rest.ends_with("property with value:") {
            return Some(Step::OutputProperty(name, value()));
        }
        let count = rest.split("containing ").nth(1)?.strip_suffix(" items")?;
        return Some(Step::OutputItems(name, count.parse().ok()?));
    }
    if let Some(rest) = text.strip_prefix("the workflow error should have a ") {
        return Some(Step::ErrorProperty(quoted(rest).pop()?, value()));
    }
    if let Some(rest) = text.strip_prefix("the workflow should take at least ") {
        let milliseconds = rest.strip_suffix(" milliseconds")?;
        return Some(Step::TookAtLeast(milliseconds.parse().ok()?));
    }
    let rest = text.strip_prefix("the service should have performed ")?;
    let (name, times) = rest.split_once(" exactly ")?;
    Some(Step::Operation(name.to_owned(), count_of_times(times)?))
}

fn about_a_task(text: &str) -> Option<Step> {
    let (task, what) = text.split_once(" should ")?;
    let task = task.to_owned();
    if let Some(other) = what.strip_prefix("run after ") {
        return Some(Step::Ran(task, Order::After(other.to_owned())));
    }
    if let Some(other) = what.strip_prefix("run before ") {
        return Some(Step::Ran(task, Order::Before(other.to_owned())));
    }
    if let Some(other) = what.strip_prefix("be compensated before ") {
        return Some(Step::Undone(task, Some(other.to_owned())));
    }
    if let Some(times) = what.strip_prefix("be retried ") {
        return Some(Step::Retried(task, count_of_times(times)?));
    }
    match what {
        "run first" => Some(Step::Ran(task, Order::First)),
        "run last" => Some(Step::Ran(task, Order::Last)),
        "be skipped" => Some(Step::Skipped(task)),
        "be compensated" => Some(Step::Undone(task, None)),
        "not be compensated" => Some(Step::Kept(task)),
        _ => Some(Step::Ran(task, Order::Times(count_of_times(what.strip_prefix("run ")?)?))),
    }
}

/// `once`, or `3 times`.
fn count_of_times(text: &str) -> Option<usize> {
    if text == "once" {
        return Some(1);
    }
    text.strip_suffix(" times")?.parse().ok()
}

/// The parts of a text that stand in single quotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('\'').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

/// The parser keeps the media type (`"""yaml`) as the first line of a doc string, and the
/// indentation of the others.
fn without_media_type(text: &str) -> String {
    let text = text.strip_prefix("yaml\n").unwrap_or(text);
    let indent = |line: &str| line.len() - line.trim_start().len();
    let filled = text.lines().filter(|line| !line.trim().is_empty());
    let common = filled.map(indent).min().unwrap_or(0);
    text.lines().map(|line| line.get(common..).unwrap_or("").to_owned() + "\n").collect()
}
