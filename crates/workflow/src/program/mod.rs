//! What languages compile to: a tree of tasks with dense numbers, plus graph regions.
//!
//! A program is made from a definition text and pinned by that text's digest. It is never written
//! to a journal: every node compiles the same text to the same numbers.

pub mod bundle;
pub mod check;
mod graph;
mod policy;
mod service;
pub mod survival;
mod task;
mod template;

use std::sync::Arc;

use outlast_expressions::Value;
use outlast_expressions::value::Deferred;
use outlast_lineage::Digest;

pub use graph::{Graph, Link, Scatter, ScatterMethod, Source, Step};
pub use policy::{Backoff, RetryPolicy};
pub use service::{Authentication, HttpOutput, Secretive, Service};
pub use task::{
    Case, Catch, Class, Compensation, CompensationOrder, ErrorFilter, EventFilter, EventStrategy,
    Flow, Idempotency, Kind, ListenEach, OnFailure, ReadMode, Task, Traits, Undo, Until,
};
pub use template::{Expression, Place, Span, Template};

/// The number of a task, dense from zero, in document order.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, minicbor::Encode, minicbor::Decode,
)]
#[cbor(transparent)]
pub struct TaskId(#[n(0)] pub u32);

/// A compiled workflow definition.
#[derive(Debug)]
pub struct Program {
    /// The digest of the definition's text: what an execution is pinned to.
    pub digest: Digest,
    /// Namespace, name and version, as the document says.
    pub namespace: String,
    /// The document's name.
    pub name: String,
    /// The document's version.
    pub version: String,
    /// The version of the language (`document.dsl`), which decides the spelling of error types.
    pub dsl: String,
    /// The document as a value, for `$workflow.definition` and `$task.definition`.
    pub definition: Deferred,
    /// All tasks by number. The first is the document's `do`.
    pub tasks: Vec<Task>,
    /// Checks and transforms the raw input of the workflow.
    pub input: Transform,
    /// Transforms and checks the output of the workflow.
    pub output: Transform,
    /// How long the whole run may take.
    pub timeout: Option<Template>,
    /// What an uncaught fault does.
    pub on_fault: OnFault,
    /// Names of the secrets the document declares.
    pub secrets: Vec<String>,
    /// `metadata.outlast.survival`, `placement` and the rest that single nodes do not read.
    pub extension: Value,
    /// The workflows that it runs as part of itself, if its text is a bundle.
    pub linked: bundle::Linked,
}

impl Program {
    /// The task every execution begins with.
    pub const ROOT: TaskId = TaskId(0);

    /// The task with a number.
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.0 as usize]
    }

    /// What transforms the data of a workflow that begins with a task: its input and its output.
    pub(crate) fn transforms_of_root(&self, task: TaskId) -> Option<(&Transform, &Transform)> {
        if task == Self::ROOT {
            return Some((&self.input, &self.output));
        }
        self.linked.begun_by(task).map(|part| (&part.input, &part.output))
    }

    /// The document that a task stands in.
    pub(crate) fn document_of(&self, task: TaskId) -> &Value {
        self.linked.around(task).map_or(&self.definition, |part| &part.definition).value()
    }
}

/// A filter of data between tasks: an optional schema and an optional expression.
#[derive(Clone, Debug, Default)]
pub struct Transform {
    /// What the data must look like (input: before the transform; output, export: after).
    pub schema: Option<Arc<dyn Schema>>,
    /// What becomes of the data.
    pub template: Option<Template>,
}

/// A compiled data schema. The interpreter does not know any schema language itself.
pub trait Schema: Send + Sync + std::fmt::Debug {
    /// Every violation, as a sentence that names the place in the value; none if it fits.
    fn violations(&self, value: &Value) -> Vec<String>;
}

/// What an uncaught fault does to the rest of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFault {
    /// The run ends as faulted; what was done stays done (plain Open Workflow).
    #[default]
    Leave,
    /// The whole run is rolled back first.
    Compensate,
}
