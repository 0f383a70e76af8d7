//! What the world learns of flows and calls while it looks on: which operations can be undone, which
//! are pivots, that no two calls have one name, and that nobody asks for what it knows.

use outlast_engine::{Engine, Report};
use outlast_lineage::ExecutionId;
use outlast_workflow::program::{Class, Undo};
use outlast_workflow::{Happening, Request};

use super::World;
use crate::Situation;

impl World {
    /// Finds out which calls can be undone, and which can be neither undone nor repeated.
    pub(super) fn learn(&mut self, report: &Report) {
        let Report::Happened { execution, happenings, .. } = report else { return };
        let mut engines = self.machines.iter().filter_map(|machine| machine.node.engine());
        let Some(program) = engines.find_map(|engine| engine.program_of(*execution)) else {
            return;
        };
        for happening in happenings {
            let Happening::Called(task, key) = happening else { continue };
            let traits = &program.tasks[task.0 as usize].traits;
            let undo = traits.compensation.as_ref().map(|compensation| &compensation.undo);
            if matches!(undo, Some(Undo::Run(_))) {
                self.undoable_keys.insert(key.clone());
            }
            if traits.class == Some(Class::Pivot) {
                self.pivot_keys.insert(key.clone());
            }
        }
    }

    /// Counts executions that others started on several nodes without waiting for their end.
    pub(super) fn learn_start(&mut self, execution: ExecutionId) {
        let engines = self.machines.iter().filter_map(|machine| machine.node.engine());
        let alone = |engine: &Engine| {
            let held = engine.phases().any(|(id, _)| id == execution);
            held && engine.parent_of(execution).is_some_and(|parent| !parent.waits)
        };
        if !self.detached.contains(&execution) && engines.into_iter().any(alone) {
            self.detached.insert(execution);
            self.saw(Situation::Detached);
        }
    }

    /// Remembers what an act that was done belongs to.
    pub(super) fn learn_act(&mut self, act: usize, key: &str) {
        let ledger = &self.services.ledger;
        let name = ledger.operation(ledger.act(act).name);
        if self.undoable_keys.contains(key) {
            self.undoable.insert(name.to_owned());
        }
        if self.pivot_keys.contains(key) {
            self.pivots.insert(name.to_owned());
        }
    }

    /// No state is ever made twice: an effect is named by the state that intended it, so one name has
    /// one key, whoever restarts or takes over. An undo goes by the name of what it undoes.
    pub(crate) fn check_name(&mut self, execution: ExecutionId, request: &Request) {
        if request.undo {
            return;
        }
        let name = (execution, request.effect);
        let first = *self.named.entry(name).or_insert(request.key);
        if first != request.key {
            let effect = request.effect;
            self.found(format!("two calls of {execution} have one name, {effect:?}"));
        }
    }

    /// What a node has on its disk was made in its epoch.
    pub(crate) fn note_epoch(&mut self, place: usize) {
        let machine = &self.machines[place];
        if let Some(engine) = machine.node.engine() {
            self.epochs.insert(machine.id(), engine.epoch());
        }
    }

    /// A restarted author starts a new epoch. One that never came to its disk nobody has heard of.
    pub(crate) fn check_epoch(&mut self, place: usize) {
        let machine = &self.machines[place];
        let (node, engine) = (machine.id(), machine.node.engine());
        let Some(epoch) = engine.map(outlast_engine::Engine::epoch) else { return };
        if self.epochs.get(&node).is_some_and(|last| epoch <= *last) {
            self.found(format!("node {} resumes its epoch {}", node.0, epoch.0));
        }
    }

    /// One node alone never asks for what its disk has the answer of. Looked at when it asks: what an
    /// earlier life asked for may reach the service when a later one has the answer.
    pub(crate) fn check_need(&mut self, execution: ExecutionId, request: &Request) {
        let known = self.services.ledger.known_of(execution, request.key);
        if let Some(known) = known.filter(|_| self.client.is_alone(execution)) {
            let operation = self.services.ledger.operation(known.operation);
            self.found(format!(
                "{execution} asks again for {operation}, whose answer was on its disk"
            ));
        }
    }

    /// The names of what was done and can be undone, where the definition of the execution is known.
    pub fn undoable(&self) -> impl Iterator<Item = &str> {
        self.undoable.iter().map(String::as_str)
    }

    /// The names of what was done and can be neither undone nor repeated.
    pub fn pivots(&self) -> impl Iterator<Item = &str> {
        self.pivots.iter().map(String::as_str)
    }
}
