//! What the API answers with: the engine's replies in the words of JSON.

use outlast_engine as engine;
use outlast_expressions::value;
use outlast_lineage::{EffectId, NodeId};
use outlast_workflow::moment::iso8601;
use outlast_workflow::{Fault, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

/// A registered definition.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DefinitionSummary {
    namespace: String,
    name: String,
    version: String,
    /// The digest of its text: what executions are pinned to.
    digest: String,
}

impl From<engine::DefinitionSummary> for DefinitionSummary {
    fn from(summary: engine::DefinitionSummary) -> Self {
        let engine::DefinitionSummary { namespace, name, version, digest } = summary;
        Self { namespace, name, version, digest: digest.to_string() }
    }
}

/// Registered definitions, in order of namespace, name and version.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Definitions {
    pub(super) definitions: Vec<DefinitionSummary>,
    /// Nodes that did not answer: what only they know is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unanswered: Vec<String>,
}

/// A registered definition with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Definition {
    #[serde(flatten)]
    pub(super) summary: DefinitionSummary,
    pub(super) text: String,
}

/// A definition was registered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Defined {
    #[serde(flatten)]
    pub(super) summary: DefinitionSummary,
    /// Whether this request registered it.
    pub(super) new: bool,
}

impl Defined {
    pub(super) fn new(program: &outlast_workflow::Program, new: bool) -> Self {
        let summary = DefinitionSummary {
            namespace: program.namespace.clone(),
            name: program.name.clone(),
            version: program.version.clone(),
            digest: program.digest.to_string(),
        };
        Self { summary, new }
    }
}

/// An execution exists.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Started {
    /// Its id.
    pub(super) execution: String,
    /// The digest of its definition.
    pub(super) definition: String,
    /// Whether this request started it.
    pub(super) new: bool,
}

/// One line of a list of executions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Summary {
    #[serde(flatten)]
    facts: Facts,
    /// Whether something in it waits for a person.
    parked: bool,
}

/// What lists and details have in common.
#[derive(Debug, Serialize, ToSchema)]
struct Facts {
    /// Its id.
    execution: String,
    /// The name its starter gave it.
    name: Option<String>,
    namespace: String,
    workflow: String,
    version: String,
    /// The digest of its definition.
    definition: String,
    /// running, waiting, suspended, compensating, completed, faulted, cancelled or compensated.
    condition: &'static str,
    /// When it started.
    started: String,
    /// When it last changed; when it ended, if it did.
    changed: String,
    /// The execution that started it, if one did.
    parent: Option<String>,
    /// The nodes that hold it, if several do or several nodes were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
    /// The node that goes on with it, if several hold it and it is known which.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    /// What the node that answers does for it, if several hold it: leading, following, paused,
    /// electing, without-votes, without-majority, agreeing, compensating or forgetting.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    /// Why that node stands still with it, or the leader that it follows, and what makes it go on, if
    /// it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<String>,
    /// Nodes whose word that node waits for: while it is `compensating`, before it undoes what its line
    /// did, and then before all can forget that they held it together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    awaited: Vec<String>,
    /// Those of `awaited` that that node cannot reach now. One that is lost for good is removed from the
    /// cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreachable: Vec<String>,
    /// Whether its end was decided on with nodes that were removed, and that node does not have it. If none of
    /// those that are left has it, it goes on no more, and can only be forgotten (`delete`, with `force`).
    #[serde(rename = "endIsMissing", skip_serializing_if = "std::ops::Not::not")]
    end_is_missing: bool,
}

impl From<engine::Summary> for Facts {
    fn from(summary: engine::Summary) -> Self {
        let holders = summary.holders.as_ref();
        let texts = |of: fn(&engine::Holders) -> &[NodeId]| {
            let nodes = holders.map_or_else(Default::default, of);
            nodes.iter().map(node_text).collect::<Vec<_>>()
        };
        Self {
            nodes: texts(|it| &it.members),
            leader: holders.and_then(|it| it.leader.as_ref()).map(node_text),
            phase: holders.map(|it| it.phase.word()),
            stalled: holders.and_then(|it| it.standstill.clone()),
            awaited: texts(|it| &it.awaited),
            unreachable: texts(|it| &it.unreachable),
            end_is_missing: holders.is_some_and(|it| it.end_is_missing),
            execution: summary.execution.to_string(),
            name: summary.name,
            namespace: summary.namespace,
            workflow: summary.workflow,
            version: summary.version,
            definition: summary.definition.to_string(),
            condition: summary.condition.word(),
            started: iso8601(summary.started),
            changed: iso8601(summary.changed),
            parent: summary.parent.map(|parent| parent.to_string()),
        }
    }
}

impl From<engine::Summary> for Summary {
    fn from(summary: engine::Summary) -> Self {
        let parked = summary.parked;
        Self { facts: summary.into(), parked }
    }
}

/// One page of executions, in order of ids.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Executions {
    pub(super) executions: Vec<Summary>,
    /// Give this as `after` for the next page; null if this was the last.
    pub(super) next: Option<String>,
    /// Nodes that did not answer: what only they hold is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unanswered: Vec<String>,
}

/// Everything about one execution but its history.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Detail {
    #[serde(flatten)]
    facts: Facts,
    /// What its leader does for it, in the words of `phase`, if that is another node than the one that
    /// answers, and said so in time.
    #[serde(rename = "leaderPhase", skip_serializing_if = "Option::is_none")]
    leader_phase: Option<String>,
    #[schema(value_type = Object)]
    input: Json,
    /// What it gave, if it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output: Option<Json>,
    /// Why it faulted or was rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    error: Option<Json>,
    /// Completed activities.
    progress: u64,
    /// What waits for a person.
    parked: Vec<ParkedItem>,
    /// The nodes that have a copy of it each, if several held it and have forgotten that: the first of
    /// them that is still in the cluster changes it. Empty if it is not known who they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<Vec<String>>,
}

impl From<engine::Detail> for Detail {
    fn from(detail: engine::Detail) -> Self {
        let fault = |fault: &Fault| value::to_json(&fault.to_value());
        let (output, error) = match &detail.outcome {
            Some(Outcome::Completed(output)) => (Some(value::to_json(output)), None),
            Some(Outcome::Faulted(why) | Outcome::Compensated(why)) => (None, Some(fault(why))),
            Some(Outcome::Cancelled) | None => (None, None),
        };
        Self {
            facts: detail.summary.into(),
            leader_phase: None,
            input: value::to_json(&detail.input),
            output,
            error,
            progress: detail.progress,
            parked: detail.parked.into_iter().map(Into::into).collect(),
            copies: detail.copies.map(|nodes| nodes.iter().map(node_text).collect()),
        }
    }
}

impl Detail {
    /// Adds what the node that leads it says of itself: whoever follows does not know.
    pub(super) fn add_leader(&mut self, leading: Leading) {
        self.leader_phase = Some(leading.phase);
        // Why this node stands still is nearer to whoever asked it.
        self.facts.stalled = self.facts.stalled.take().or(leading.stalled);
    }
}

/// What a node says of an execution that it leads.
#[derive(PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Leading {
    /// The node that it takes for the leader.
    pub(super) leader: Option<String>,
    phase: String,
    stalled: Option<String>,
}

/// An effect that waits for a person.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ParkedItem {
    execution: String,
    /// Names the effect when it is resolved.
    effect: String,
    /// JSON pointer to the task in the definition.
    place: String,
    /// The operation key by which its provider knows it: the one that it received with the call, or, if an undo
    /// waits, was told as that of the call to undo (`Outlast-Undoes`); that of the undo, if it undoes no single
    /// call.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The node that made the call.
    node: String,
    /// Whether its undo waits, and not the call itself.
    undo: bool,
    /// Whether it was done in a run that does not count, because another one of the same execution does.
    lost: bool,
    reason: String,
    /// What can be said of it.
    choices: Vec<String>,
}

impl From<engine::ParkedItem> for ParkedItem {
    fn from(item: engine::ParkedItem) -> Self {
        Self {
            execution: item.execution.to_string(),
            effect: effect_text(&item.effect),
            place: item.place,
            key: item.key,
            node: node_text(&item.effect.point.author),
            undo: item.undo,
            lost: item.lost,
            reason: item.reason,
            choices: item.choices,
        }
    }
}

/// What waits for a person.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Parked {
    pub(super) parked: Vec<ParkedItem>,
    /// Nodes that did not answer: what only they hold is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unanswered: Vec<String>,
}

/// A copy of the node's data.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Backup {
    /// The directory it is in.
    pub(super) backup: String,
}

/// Parked effects were resolved.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Resolved {
    /// How many.
    pub(super) resolved: usize,
    /// Which, as they were parked.
    pub(super) items: Vec<ParkedItem>,
}

/// It is recorded and will be done.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Done {
    pub(super) done: bool,
    /// Why it may not count in the end, if a majority of the nodes that hold the execution has not heard of it
    /// and cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provisional: Option<String>,
}

/// Events were taken in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventsTaken {
    /// The number of each on this node.
    pub(super) numbers: Vec<u64>,
}

/// A node as text.
fn node_text(node: &NodeId) -> String {
    format!("{:016x}", node.0)
}

/// An effect's name as text: its bytes in hexadecimal.
fn effect_text(effect: &EffectId) -> String {
    let bytes = minicbor::to_vec(effect).expect("writing to memory does not fail");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The effect that a text names.
pub(super) fn effect_of(text: &str) -> Option<EffectId> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || 256 < digits.len() {
        return None;
    }
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    minicbor::decode(&pairs.collect::<Option<Vec<_>>>()?).ok()
}
