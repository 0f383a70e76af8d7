//! What people and programs can ask of an engine.

use std::fmt;
use std::sync::Arc;

use outlast_expressions::Value;
use outlast_lineage::{Digest, EffectId, ExecutionId, NodeId};
use outlast_workflow::{Program, Resolution};

use crate::{Condition, Survival};

/// What can be asked. Each is answered by exactly one `Reply`.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Register a definition. The driver has compiled the text; `Reply::Defined`.
    Define {
        /// The compiled text.
        program: Arc<Program>,
        /// The text, kept so that it can be compiled again after a restart.
        text: Arc<str>,
    },
    /// All registered definitions, or those of a namespace; `Reply::Definitions`.
    Definitions {
        /// Only of this namespace.
        namespace: Option<String>,
    },
    /// The text of one definition; `Reply::Definition`.
    Definition {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Which version.
        version: WorkflowVersion,
    },
    /// Start an execution; `Reply::Started`. Asking again with the same id or name, definition and
    /// input gives the same answer and starts nothing.
    Start(Box<StartAsk>),
    /// One execution; `Reply::Shown`.
    Show(Which),
    /// Executions in order of their ids; `Reply::Listed`.
    List(Filter),
    /// Reply when the execution has ended; `Reply::Shown`.
    Wait(Which),
    /// Stop it; `Reply::Done`.
    Cancel(Which),
    /// Roll it back and stop; `Reply::Done`.
    Compensate {
        /// Which execution.
        which: Which,
        /// Why, for the history.
        reason: String,
    },
    /// Hold it; `Reply::Done`.
    Suspend(Which),
    /// Let it go on; `Reply::Done`.
    Resume(Which),
    /// Try the failed task of a faulted execution again; `Reply::Done`.
    Retry(Which),
    /// Give an event to one execution only; `Reply::EventTaken`.
    Signal {
        /// Which execution.
        which: Which,
        /// A CloudEvent object.
        event: Value,
    },
    /// Give an event to whoever listens on this node; `Reply::EventTaken`.
    Publish {
        /// A CloudEvent object.
        event: Value,
    },
    /// Effects that wait for a person; `Reply::Parked`.
    Parked(ParkedFilter),
    /// Say what became of parked effects, one or many; `Reply::Resolved`.
    Resolve {
        /// Which ones.
        filter: ParkedFilter,
        /// What became of them.
        resolution: Resolution,
    },
    /// Forget an ended execution; `Reply::Done`.
    Delete(Which),
    /// Forget an execution, also if its end is lost: it was decided on with nodes that are gone for good, and this
    /// one does not have it. Nor must any other that is left, which whoever asks has found out; `Reply::Done`.
    GiveUp(Which),
    /// The cluster as this node sees it; `Reply::Standing`.
    Standing,
    /// Remove a node that is lost for good, everywhere; `Reply::Done`.
    Remove(NodeId),
    /// Take no new work and hand over what this node leads, or take part as before;
    /// `Reply::Standing`.
    Drain(bool),
}

/// Which version of a definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkflowVersion {
    /// The highest registered version, decided once, when asked.
    Latest,
    /// The version with this text.
    Exactly(String),
    /// Whatever was registered with this digest.
    Digest(Digest),
    /// The version with this text, if the document with this digest is meant by it: two nodes that do not hear of
    /// each other may have registered different documents as one version.
    Pinned {
        /// The version.
        version: String,
        /// The document's.
        digest: Digest,
    },
}

impl fmt::Display for WorkflowVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => formatter.write_str("latest"),
            Self::Exactly(version) | Self::Pinned { version, .. } => formatter.write_str(version),
            Self::Digest(digest) => digest.fmt(formatter),
        }
    }
}

impl WorkflowVersion {
    /// Reads a document's or a caller's text: `latest` or a version.
    pub fn of(text: &str) -> Self {
        if text == "latest" { Self::Latest } else { Self::Exactly(text.to_owned()) }
    }
}

/// A new execution.
#[derive(Clone, Debug)]
pub struct StartAsk {
    /// Its id: the caller's, or a fresh one made by the driver.
    pub id: ExecutionId,
    /// Whether the id is the caller's, who may ask other nodes for the same. One that nobody asked for
    /// the engine may replace by another of the same time, so that it falls to nodes that are there.
    pub given: bool,
    /// A name of the caller's choice, unique in the namespace. With a name, `id` is only used if the
    /// name is new, and, if several nodes hold the execution, if it is the caller's.
    pub name: Option<String>,
    /// The definition's namespace, which is also the execution's.
    pub namespace: String,
    /// The definition's name.
    pub workflow: String,
    /// The definition's version.
    pub version: WorkflowVersion,
    /// Its input.
    pub input: Value,
    /// Sixteen random bytes that make the stand-ins for secrets impossible to guess.
    pub salt: [u8; 16],
    /// How it is to survive, if not as its definition says.
    pub survival: Option<Survival>,
}

/// Which execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// By id.
    Id(ExecutionId),
    /// By the name its starter gave it.
    Named {
        /// The namespace; empty for the only execution of that name in any.
        namespace: String,
        /// The name.
        name: String,
    },
}

impl fmt::Display for Which {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(formatter),
            Self::Named { namespace, name } if namespace.is_empty() => formatter.write_str(name),
            Self::Named { namespace, name } => write!(formatter, "{namespace}/{name}"),
        }
    }
}

/// Which executions. Everything that is not said fits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Of this namespace.
    pub namespace: Option<String>,
    /// Of the definition with this name.
    pub workflow: Option<String>,
    /// In this condition.
    pub condition: Option<Condition>,
    /// That this node holds together with others.
    pub holder: Option<NodeId>,
    /// With ids after this one: where the page before ended.
    pub after: Option<ExecutionId>,
    /// At most this many; zero is the most an engine gives.
    pub limit: usize,
}

/// Which parked effects. Everything that is not said fits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParkedFilter {
    /// Of this execution.
    pub which: Option<Which>,
    /// This effect.
    pub effect: Option<EffectId>,
    /// Of this namespace.
    pub namespace: Option<String>,
    /// Of the definition with this name.
    pub workflow: Option<String>,
}
