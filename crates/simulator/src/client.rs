//! Whoever uses the node: asks until it is told that it was done, and remembers what it was told.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlast_engine::{Ask, Caller, Detail, Reply, StartAsk, Which, WorkflowVersion};
use outlast_expressions::Value;
use outlast_lineage::ExecutionId;
use outlast_workflow::Program;

/// What is to be done in the world.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Definitions to be registered: the programs and their texts.
    pub definitions: Vec<(Arc<Program>, Arc<str>)>,
    /// Executions to be started.
    pub starts: Vec<StartPlan>,
    /// Events to be published once everything is started.
    pub events: Vec<Value>,
}

/// An execution to be started.
#[derive(Clone, Debug)]
pub struct StartPlan {
    /// Its id.
    pub id: ExecutionId,
    /// The namespace of its definition.
    pub namespace: String,
    /// The name of its definition.
    pub workflow: String,
    /// Its input.
    pub input: Value,
    /// How it is to survive, if not as its definition says.
    pub survival: Option<outlast_engine::Survival>,
}

/// One thing the client wants done, and whether it was told that it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Wish {
    Define(usize),
    Start(usize),
    Publish(usize),
    Wait(usize),
}

/// The client: what it still wants, and what it was told.
#[derive(Debug)]
pub struct Client {
    plan: Plan,
    /// Wishes not yet fulfilled; a lower one is fulfilled before a higher one is asked for.
    wishes: Vec<Wish>,
    asked: BTreeMap<Caller, Wish>,
    callers: u64,
    /// Executions that the client was told are started.
    pub acknowledged: Vec<ExecutionId>,
    /// How executions ended, as the client was told.
    pub ended: BTreeMap<ExecutionId, Box<Detail>>,
    /// Refusals that the client did not expect.
    pub refusals: Vec<String>,
}

impl Client {
    /// A client with a plan.
    pub fn new(plan: Plan) -> Self {
        let wishes = (0..plan.definitions.len())
            .map(Wish::Define)
            .chain((0..plan.starts.len()).map(Wish::Start))
            .chain((0..plan.events.len()).map(Wish::Publish))
            .chain((0..plan.starts.len()).map(Wish::Wait))
            .collect();
        Self {
            plan,
            wishes,
            asked: BTreeMap::new(),
            callers: 0,
            acknowledged: Vec::new(),
            ended: BTreeMap::new(),
            refusals: Vec::new(),
        }
    }

    /// Whether everything is fulfilled.
    pub fn is_content(&self) -> bool {
        self.wishes.is_empty()
    }

    /// The node is gone: whatever was asked may or may not have been done.
    pub fn hangs_up(&mut self) {
        self.asked.clear();
    }

    /// What the client asks for now: definitions first, then starts, and so on.
    pub fn asks(&mut self) -> Vec<(Caller, Ask)> {
        let Some(first) = self.wishes.first() else { return Vec::new() };
        let stage = std::mem::discriminant(first);
        let wanted: Vec<_> = self
            .wishes
            .iter()
            .filter(|wish| std::mem::discriminant(*wish) == stage)
            .filter(|wish| !self.asked.values().any(|asked| asked == *wish))
            .cloned()
            .collect();
        wanted.into_iter().map(|wish| self.ask(wish)).collect()
    }

    fn ask(&mut self, wish: Wish) -> (Caller, Ask) {
        self.callers += 1;
        let caller = Caller(self.callers);
        let ask = match &wish {
            Wish::Define(index) => {
                let (program, text) = &self.plan.definitions[*index];
                Ask::Define { program: Arc::clone(program), text: Arc::clone(text) }
            }
            Wish::Start(index) => {
                let start = &self.plan.starts[*index];
                Ask::Start(Box::new(StartAsk {
                    id: start.id,
                    name: None,
                    namespace: start.namespace.clone(),
                    workflow: start.workflow.clone(),
                    version: WorkflowVersion::Latest,
                    input: start.input.clone(),
                    salt: *start.id.as_bytes(),
                    survival: start.survival.clone(),
                }))
            }
            Wish::Publish(index) => Ask::Publish { event: self.plan.events[*index].clone() },
            Wish::Wait(index) => Ask::Wait(Which::Id(self.plan.starts[*index].id)),
        };
        self.asked.insert(caller, wish);
        (caller, ask)
    }

    /// The client is told something.
    pub fn takes(&mut self, caller: Caller, reply: Reply) {
        let Some(wish) = self.asked.remove(&caller) else { return };
        match reply {
            // It does not insist; a checker finds what was refused.
            Reply::Refused(refusal) => self.refusals.push(format!("{wish:?}: {refusal}")),
            Reply::Started { execution, .. } => self.acknowledged.push(execution),
            Reply::Shown(detail) => {
                self.ended.insert(detail.summary.execution, detail);
            }
            _ => {}
        }
        self.wishes.retain(|other| *other != wish);
    }
}
