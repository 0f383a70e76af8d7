//! Callers whose reply comes later: when an execution ends, or when many effects are resolved.

use std::collections::BTreeMap;

use outlast_lineage::{EffectId, ExecutionId};

use crate::{Caller, ParkedItem, Position};

/// Callers that have been asked to wait. Forgotten by a restart, as the callers are.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    by_execution: BTreeMap<ExecutionId, Vec<Caller>>,
    by_caller: BTreeMap<Caller, ExecutionId>,
    resolving: BTreeMap<Caller, Resolving>,
}

/// A request to resolve several effects, under way.
#[derive(Debug)]
pub(super) struct Resolving {
    /// Effects still to be resolved, each of an entry.
    left: BTreeMap<(ExecutionId, EffectId), ParkedItem>,
    /// Effects that were resolved.
    pub(super) resolved: Vec<ParkedItem>,
    /// The record of the last one.
    pub(super) position: Option<Position>,
}

impl Waiters {
    /// The caller waits for the execution's end.
    pub(super) fn wait(&mut self, caller: Caller, execution: ExecutionId) {
        self.by_execution.entry(execution).or_default().push(caller);
        self.by_caller.insert(caller, execution);
    }

    /// The caller no longer waits for anything.
    pub(super) fn leave(&mut self, caller: Caller) {
        self.resolving.remove(&caller);
        let Some(execution) = self.by_caller.remove(&caller) else { return };
        if let Some(callers) = self.by_execution.get_mut(&execution) {
            callers.retain(|other| *other != caller);
            if callers.is_empty() {
                self.by_execution.remove(&execution);
            }
        }
    }

    /// Whether someone waits for the execution's end.
    pub(super) fn are_there(&self, execution: ExecutionId) -> bool {
        self.by_execution.contains_key(&execution)
    }

    /// Everyone who waits for the execution's end; they no longer do.
    pub(super) fn take(&mut self, execution: ExecutionId) -> Vec<Caller> {
        let callers = self.by_execution.remove(&execution).unwrap_or_default();
        for caller in &callers {
            self.by_caller.remove(caller);
        }
        callers
    }

    /// The caller waits until these effects of entries are resolved.
    pub(super) fn resolve(&mut self, caller: Caller, items: Vec<(ExecutionId, ParkedItem)>) {
        let left = items.into_iter().map(|(entry, item)| ((entry, item.effect), item)).collect();
        self.resolving.insert(caller, Resolving { left, resolved: Vec::new(), position: None });
    }

    /// One more effect was looked at; gives the whole request back if it was the last.
    pub(super) fn resolved(
        &mut self,
        caller: Caller,
        effect: (ExecutionId, EffectId),
        position: Option<Position>,
    ) -> Option<Resolving> {
        let resolving = self.resolving.get_mut(&caller)?;
        let item = resolving.left.remove(&effect);
        resolving.resolved.extend(item.filter(|_| position.is_some()));
        resolving.position = position.or(resolving.position);
        if resolving.left.is_empty() { self.resolving.remove(&caller) } else { None }
    }
}
