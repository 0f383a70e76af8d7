//! What is to be done in a world: definitions, executions to be started, events to be published.

use std::sync::Arc;
use std::time::Duration;

use outlast_engine::Survival;
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
    pub survival: Option<Survival>,
    /// How long after the definitions are registered.
    pub delay: Duration,
}

impl Plan {
    /// How an execution survives: as its starter says, or as its definition says.
    pub fn survival(&self, start: usize) -> Survival {
        let start = &self.starts[start];
        let said = start.survival.clone();
        said.unwrap_or_else(|| self.program_of(start).map_or_else(Survival::solo, Survival::of))
    }

    /// The program of an execution to be started.
    pub fn program_of(&self, start: &StartPlan) -> Option<&Program> {
        let mut programs = self.definitions.iter().map(|(program, _)| &**program);
        programs
            .find(|program| program.namespace == start.namespace && program.name == start.workflow)
    }
}
