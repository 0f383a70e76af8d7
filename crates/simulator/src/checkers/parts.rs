//! What executions are made of: each with those that it waits for, and what all of them did.

use std::collections::BTreeMap;

use outlast_engine::{Engine, Parent};
use outlast_lineage::{ExecutionId, NodeId};

use crate::{Act, World};

/// Who did anything in a world, by whom they are part of. Found out once for all executions: there may be
/// many, and whoever asked for each of them who belongs to it would look at all of them every time.
pub(super) struct Parts<'w> {
    world: &'w World,
    parts: BTreeMap<ExecutionId, Vec<ExecutionId>>,
}

impl<'w> Parts<'w> {
    pub(super) fn of(world: &'w World) -> Self {
        let mut parts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for id in world.services.ledger.executions() {
            parts.entry(root_of(world, id)).or_default().push(id);
        }
        Self { world, parts }
    }

    /// Whoever did something and is part of nobody else.
    pub(super) fn roots(&self) -> impl Iterator<Item = ExecutionId> {
        self.parts.keys().copied()
    }

    /// Who is part of an execution and did anything.
    pub(super) fn parts_of(&self, id: ExecutionId) -> &[ExecutionId] {
        self.parts.get(&id).map_or(&[], Vec::as_slice)
    }

    /// What an execution did, and those that it waited for: where several nodes hold it, they are part of
    /// it.
    pub(super) fn acts_of(&self, id: ExecutionId) -> impl Iterator<Item = &'w Act> {
        let ledger = &self.world.services.ledger;
        self.parts_of(id).iter().flat_map(|of| ledger.of(*of))
    }

    /// What of that was not undone.
    pub(super) fn standing(&self, id: ExecutionId) -> impl Iterator<Item = &'w Act> {
        let done = self.acts_of(id).filter(|act| !act.undo && !act.readonly);
        done.filter(|act| act.undone_by.is_none())
    }
}

/// The execution that an execution is part of.
pub(super) fn root_of(world: &World, id: ExecutionId) -> ExecutionId {
    // What the client started nobody else did.
    let waits = |id: &ExecutionId| {
        let parent = if world.client.is_start(*id) { None } else { parent_of(world, *id) };
        parent.filter(|parent| parent.waits).map(|parent| parent.execution)
    };
    std::iter::successors(Some(id), waits).last().unwrap_or(id)
}

/// The execution that started another one without waiting for its end, with all that it is part of.
pub(super) fn starter_of(world: &World, id: ExecutionId) -> Option<ExecutionId> {
    parent_of(world, id)
        .filter(|parent| !parent.waits)
        .map(|parent| root_of(world, parent.execution))
}

fn parent_of(world: &World, id: ExecutionId) -> Option<Parent> {
    engines(world).find_map(|(_, engine)| engine.parent_of(id))
}

pub(super) fn engines(world: &World) -> impl Iterator<Item = (NodeId, &Engine)> {
    world.machines.iter().filter_map(|machine| Some((machine.id(), machine.node.engine()?)))
}
