//! What an expression can see: the arguments of the language by position, and lexical variables.

use outlast_workflow::TaskId;

/// Where in a document an expression stands, which decides the arguments it gets (the table in the
/// specification's "Runtime expression arguments").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Site {
    /// The workflow's `input.from`, `timeout` and `schedule`.
    WorkflowInput,
    /// The workflow's `output.as`.
    WorkflowOutput,
    /// A task's `if` and `input.from`.
    Before,
    /// The definition of a task.
    Definition,
    /// A task's `output.as`.
    Output,
    /// A task's `export.as` and `compensation.capture`.
    Export,
    /// `compensation.cost`, which sees the captured value only.
    Captured,
}

const ALL: [&str; 8] =
    ["context", "input", "output", "secrets", "authorization", "task", "workflow", "runtime"];

impl Site {
    /// The arguments of the language that are there, without `$`.
    pub(super) const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::WorkflowInput => &["secrets", "workflow", "runtime"],
            Self::WorkflowOutput => &["context", "secrets", "workflow", "runtime"],
            Self::Before => &["context", "secrets", "task", "workflow", "runtime"],
            Self::Definition | Self::Output => {
                &["context", "input", "secrets", "authorization", "task", "workflow", "runtime"]
            }
            Self::Export => &ALL,
            Self::Captured => &["workflow", "runtime"],
        }
    }

    /// What to do about an argument of the language that is not there; nothing for other names.
    pub(super) fn advice(self, name: &str) -> Option<&'static str> {
        Some(match (name, self) {
            ("input", Self::WorkflowInput | Self::Before) => {
                "the data is not transformed yet; write `.` for it"
            }
            ("input", Self::WorkflowOutput) => "write `$workflow.input` for the workflow's input",
            ("output", Self::Output | Self::WorkflowOutput) => {
                "write `.` for the output; `$output` is there in `export.as`"
            }
            ("output", _) => "there is no output yet; `$output` is there in `export.as`",
            ("context", Self::WorkflowInput) => "there is no context before the first task",
            (_, Self::Captured) if ALL.contains(&name) => {
                "only what `capture` kept is there; write `.` for it"
            }
            _ if ALL.contains(&name) => "it belongs to a task; this is said of the workflow",
            _ => return None,
        })
    }
}

/// A task around the place that is being read.
#[derive(Clone, Debug)]
pub(super) struct Around {
    pub(super) name: String,
    pub(super) id: TaskId,
}

/// What surrounds a place lexically.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Loop items, indexes and caught errors, without `$`.
    pub(super) variables: Vec<String>,
    /// The tasks around it, outermost first.
    pub(super) around: Vec<Around>,
    /// Variables that exist around a compensation but not inside it.
    pub(super) hidden: Vec<String>,
}

impl Scope {
    /// The same with more variables.
    pub(super) fn with(&self, variables: &[&str]) -> Self {
        let mut scope = self.clone();
        scope.variables.extend(variables.iter().map(|name| (*name).to_owned()));
        scope
    }

    /// The same inside a task.
    pub(super) fn inside(&self, name: &str, id: TaskId) -> Self {
        let mut scope = self.clone();
        scope.around.push(Around { name: name.to_owned(), id });
        scope
    }

    /// What a compensation sees: it runs later and elsewhere, with what was captured.
    pub(super) fn of_compensation(&self) -> Self {
        let hidden = self.variables.iter().chain(&self.hidden).cloned().collect();
        Self { variables: Vec::new(), around: Vec::new(), hidden }
    }

    /// The names an expression may mention at a site, without `$`.
    pub(super) fn names(&self, site: Site) -> Vec<&str> {
        let own = self.variables.iter().map(String::as_str);
        site.arguments().iter().copied().chain(own).collect()
    }
}
