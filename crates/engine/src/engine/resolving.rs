//! Parked effects: listing them, and taking a person's word for what became of them.

use outlast_lineage::{EffectId, ExecutionId};
use outlast_workflow::{Event, Resolution};

use super::asking::fits;
use super::{Cause, Engine, Step, Work};
use crate::{Caller, ParkedFilter, ParkedItem, Refusal, Reply};

/// What can be said of a parked effect.
const CHOICES: [&str; 4] = ["done", "not-done", "retry", "abandon"];

impl Engine {
    /// What is parked in one execution, its lost lines included.
    pub(super) fn parked_of(&mut self, id: ExecutionId) -> Vec<ParkedItem> {
        let lines = self.lines_of(id);
        lines.into_iter().flat_map(|line| self.parked_on(line)).collect()
    }

    /// What is parked in one entry. A lost line goes by the name of its execution.
    fn parked_on(&mut self, id: ExecutionId) -> Vec<ParkedItem> {
        if !self.wake(id) {
            return Vec::new();
        }
        let execution = self.execution_of(id);
        let entry = self.roster.known(id);
        let program = &entry.defined.program;
        let item = |parked: outlast_workflow::Parked| ParkedItem {
            execution,
            effect: parked.effect,
            task: parked.task,
            place: program.task(parked.task).place.pointer.clone(),
            reason: parked.reason,
            undo: parked.undo,
            key: parked.key,
            lost: id != execution,
            choices: CHOICES.map(str::to_owned).to_vec(),
        };
        entry.execution().parked().into_iter().map(item).collect()
    }

    /// What is parked and fits; at most a page.
    pub(super) fn parked_items(
        &mut self,
        filter: &ParkedFilter,
    ) -> Result<Vec<ParkedItem>, Refusal> {
        let items = self.parked_with_entries(filter)?;
        Ok(items.into_iter().map(|(_, item)| item).collect())
    }

    /// The same, each with the entry that waits.
    fn parked_with_entries(
        &mut self,
        filter: &ParkedFilter,
    ) -> Result<Vec<(ExecutionId, ParkedItem)>, Refusal> {
        let executions: Vec<_> = match &filter.which {
            Some(which) => {
                let id = self.find(which)?;
                self.lines_of(id)
            }
            None => self.roster.parked().collect(),
        };
        let mut items = Vec::new();
        for id in executions {
            let Some(entry) = self.roster.get(id) else { continue };
            // What has nothing parked need not be woken to be asked.
            let in_doubt = self.storage_full && self.certain.doubts(id);
            if !entry.parked
                || in_doubt
                || !fits(entry, filter.namespace.as_deref(), filter.workflow.as_deref())
            {
                continue;
            }
            let fitting =
                |item: &ParkedItem| filter.effect.is_none_or(|effect| effect == item.effect);
            let parked = self.parked_on(id).into_iter().filter(fitting);
            items.extend(parked.map(|item| (id, item)));
            if items.len() >= self.options.limits.page {
                items.truncate(self.options.limits.page);
                break;
            }
        }
        Ok(items)
    }

    /// Puts the resolution of everything that fits into the queue; the reply follows the last one.
    pub(super) fn resolve(
        &mut self,
        step: &mut Step,
        caller: Caller,
        filter: &ParkedFilter,
        resolution: &Resolution,
    ) -> Result<(), Refusal> {
        let items = self.parked_with_entries(filter)?;
        if items.is_empty() {
            step.reply(Some(self.position), caller, Reply::Resolved(Vec::new()));
            return Ok(());
        }
        for (entry, item) in &items {
            let (effect, resolution) = (item.effect, resolution.clone());
            self.queue(*entry, |execution| Work::Resolve { execution, effect, resolution, caller });
        }
        self.waiters.resolve(caller, items);
        Ok(())
    }

    pub(super) fn resolve_one(
        &mut self,
        step: &mut Step,
        execution: ExecutionId,
        effect: EffectId,
        resolution: Resolution,
        caller: Caller,
    ) {
        let event = Event::Resolved { effect, resolution };
        let changed = self.advance(step, execution, event, Cause::default());
        let position = changed.then_some(self.position);
        if let Some(all) = self.waiters.resolved(caller, (execution, effect), position) {
            step.reply(all.position, caller, Reply::Resolved(all.resolved));
        }
    }
}
