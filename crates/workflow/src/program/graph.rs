//! Graph regions: steps that start when what they need is there.
//!
//! Scientific workflows (CWL) and seed 0's DAGs with transition conditions compile to this.

use super::{Expression, TaskId, Template};

/// A region whose steps are ordered by data and by links only.
///
/// The region's output is an object with one member per step, named by the step's task name,
/// unless `output` says otherwise (it sees that object as its input).
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// All steps; links and sources name them by index.
    pub steps: Vec<Step>,
    /// Control-flow links with transition conditions.
    pub links: Vec<Link>,
    /// Makes the region's output from the object of all step outputs.
    pub output: Option<Template>,
}

/// One step of a graph region.
#[derive(Clone, Debug)]
pub struct Step {
    /// What the step runs.
    pub task: TaskId,
    /// The members of the step's input object and where they come from. Without any, the step
    /// gets the region's own input.
    pub inputs: Vec<(String, Source)>,
    /// Run only if this holds on the step's input; a step that is not run has the output null.
    pub when: Option<Expression>,
    /// Run once per item of some inputs.
    pub scatter: Option<Scatter>,
}

/// Where a step's input comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Computed from the region's own input.
    Region(Template),
    /// The output of another step (by index), perhaps a part of it.
    Step {
        /// Which step.
        step: usize,
        /// Which part of its output; all of it if nothing is said.
        part: Option<Expression>,
    },
}

/// A link of seed 0: `to` runs after `from` completed and the condition holds on `from`'s output.
///
/// A step with incoming links runs once all of them are decided and at least one of them holds
/// (dead-path elimination); its own links are then decided in turn.
#[derive(Clone, Debug)]
pub struct Link {
    /// The step that comes first.
    pub from: usize,
    /// The step that comes after it.
    pub to: usize,
    /// The transition condition; without one the link holds when `from` was run.
    pub when: Option<Expression>,
}

/// Running a step once per item.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// The inputs that are lists to go over.
    pub over: Vec<String>,
    /// How several lists are combined.
    pub method: ScatterMethod,
    /// How many items are in flight at once.
    pub window: u32,
}

/// How several scattered lists are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScatterMethod {
    /// Item i of each.
    Dot,
    /// Every combination, as nested lists.
    NestedCross,
    /// Every combination, as one list.
    FlatCross,
}
