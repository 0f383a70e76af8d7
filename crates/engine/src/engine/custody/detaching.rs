//! Workflows that an execution in custody starts without waiting for their end.
//!
//! Such a start leaves when it is certain that its line counts (`releasing`), so a line that is lost
//! has started nothing. What is started is an execution of its own, with a decision of its own, held by
//! the nodes that hold its parent: they are the ones that know of it, whoever of them dies. All that
//! it begins with follows from the parent's state, so whoever begins it begins the same; and it has one
//! id on all lines, so beginning it twice begins it once.

use std::sync::Arc;

use outlast_lineage::ExecutionId;
use outlast_workflow::program::bundle;
use outlast_workflow::{Detached, TaskId};

use super::super::definitions::Defined;
use super::super::{Engine, Step};
use super::{Alarm, Begin, Custody, Terms};
use crate::{Definition, Parent, Survival};

/// How far a start has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Departure {
    /// It is begun, as safely as it is to be.
    Over,
    /// It is begun here; who holds it says so when others do.
    Spreading,
    /// The step has its record; the next one goes on.
    Again,
    /// There are too many executions for now.
    Later,
}

impl Engine {
    /// Begins what an execution in custody starts, unless that was done before.
    pub(super) fn begin_detached(
        &mut self,
        step: &mut Step,
        parent: ExecutionId,
        number: u64,
        detached: Detached,
    ) -> Departure {
        let child = detached.child;
        if self.tombstones.contains(child) {
            return Departure::Over;
        }
        if self.roster.get(child).is_none() {
            let Some(defined) = self.definition_of(step, parent, detached.task) else {
                return Departure::Again;
            };
            if self.is_crowded(parent, &defined) {
                let again = step.now.after(self.options.times.patience);
                self.set_custody_alarm(parent, Alarm::Begin, again);
                return Departure::Later;
            }
            let begin = self.begin_of_detached(parent, &defined, detached);
            self.start_replicated(step, defined, begin);
        }
        match self.holding(child) {
            Some(holding) if !holding.is_held_elsewhere() => {
                holding.detached = Some((parent, number));
                Departure::Spreading
            }
            _ => Departure::Over,
        }
    }

    /// What is to be started, with all that it runs, as it was pinned when the parent was started.
    /// Nothing if that had to be recorded first.
    pub(in crate::engine) fn definition_of(
        &mut self,
        step: &mut Step,
        parent: ExecutionId,
        task: TaskId,
    ) -> Option<Arc<Defined>> {
        let around = &self.roster.known(parent).defined;
        let (text, program) = bundle::detached(&around.program, &around.text, task)
            .expect("what an execution in custody runs is in its bundle");
        if let Some(known) = self.definitions.get(&program.digest) {
            return Some(Arc::clone(known));
        }
        let definition = Definition {
            digest: program.digest,
            namespace: program.namespace.clone(),
            name: program.name.clone(),
            version: program.version.clone(),
            text,
        };
        let digest = program.digest;
        self.insert_definition(step, definition, program);
        self.spread_definition(step, digest);
        None
    }

    /// Whether there are so many executions that this one is to wait. Once its parent has ended it does
    /// not: then nobody is left to wait with it.
    fn is_crowded(&mut self, parent: ExecutionId, defined: &Defined) -> bool {
        let most = self.quota(&defined.namespace).live.saturating_mul(2);
        let full = most <= self.roster.share(&defined.namespace).live;
        full && !self.holding(parent).is_some_and(|holding| holding.concluded)
    }

    /// The execution as every replica must know it: the same, whoever of the parent's says so.
    fn begin_of_detached(
        &mut self,
        parent: ExecutionId,
        defined: &Defined,
        detached: Detached,
    ) -> Begin {
        let entry = self.roster.known(parent);
        let depth = entry.parent.as_deref().map_or(0, |parent| parent.depth) + 1;
        let Some(Custody::Replica(holding)) = &entry.custody else {
            unreachable!("only what is in custody is released")
        };
        let Detached { child, ticket, input, at, .. } = detached;
        let said = Survival::of(&defined.program);
        let survival = if said.is_replicated() { &said } else { &holding.terms.survival };
        let members = holding.terms.members.clone();
        let survival = survival.among(members.len());
        Begin {
            execution: child,
            name: None,
            definition: defined.definition.digest,
            input,
            // What stands in for a secret there does so in what it is handed.
            salt: holding.salt,
            started: at,
            terms: Terms { survival, members },
            parent: Some(Parent { execution: parent, ticket, waits: false, depth }),
        }
    }
}
