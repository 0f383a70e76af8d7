//! What a step does to the ledger, and what it tells about that.

use outlast_expressions::value;
use outlast_lineage::{Effect, EffectId, EffectState};

use super::Machine;
use super::conduct::{is_pivot, must_not_repeat};
use crate::execution::{Branch, Datum, Stage};
use crate::program::Template;
use crate::{EffectNote, Request};

impl Machine<'_> {
    /// The intent of the innermost task's call.
    pub(super) fn effect_intended(&mut self, branch: &Branch, request: &Request) {
        let frame = branch.top().expect("a task calls");
        self.record_effect(request, EffectState::Intended, frame.task.0);
        self.effects.push(EffectNote::Intended {
            effect: request.effect,
            key: request.key,
            deduplicated: !must_not_repeat(self.program, branch),
            pivot: is_pivot(self.program, branch),
            place: frame.path.0,
            cost: self.cost_known_before(branch),
        });
    }

    /// What undoing the innermost call will cost, if it is a number in the document.
    fn cost_known_before(&self, branch: &Branch) -> Option<f64> {
        let owner = branch.frames().iter().rfind(|frame| self.owes_undo(frame.task))?;
        let compensation = self.program.task(owner.task).traits.compensation.as_ref()?;
        match compensation.cost.as_ref()? {
            Template::Literal(cost) => value::as_f64(cost),
            Template::Computed(_) => None,
        }
    }

    /// The call of the innermost task happened.
    pub(super) fn effect_done(&mut self, branch: &Branch, request: &Request) {
        let owed = branch.frames().iter().any(|frame| self.owes_undo(frame.task));
        if owed {
            let task = branch.top().expect("a task calls").task.0;
            self.record_effect(request, EffectState::Done, task);
        } else {
            // Nothing will ever undo it: the history remembers it, the value need not.
            self.settle_effect(request.effect);
        }
        self.effects.push(EffectNote::Done { effect: request.effect, cost: 0.0 });
    }

    /// What undoing an effect costs is known now: usually in the step that says it is done.
    pub(super) fn effect_costs(&mut self, id: EffectId, cost: &Datum) {
        let cost = value::as_f64(&self.value(cost)).unwrap_or(0.0);
        let done = self.effects.iter_mut().find_map(|note| match note {
            EffectNote::Done { effect, cost } if *effect == id => Some(cost),
            _ => None,
        });
        match done {
            Some(known) => *known = cost,
            None => self.effects.push(EffectNote::Costs { effect: id, cost }),
        }
    }

    /// It never happened or is undone.
    pub(super) fn effect_gone(&mut self, id: EffectId) {
        self.settle_effect(id);
        self.effects.push(EffectNote::Gone { effect: id });
    }

    /// It is undone. A lost line remembers that: whoever did the same by the same key must not undo it
    /// again.
    pub(super) fn effect_undone(&mut self, id: EffectId) {
        if self.execution.head.stage != Stage::Withdrawing {
            return self.effect_gone(id);
        }
        self.raise_effect(id, EffectState::Undone);
        self.effects.push(EffectNote::Gone { effect: id });
    }

    /// This line goes on without it.
    pub(super) fn effect_disowned(&mut self, id: EffectId) {
        self.settle_effect(id);
        self.effects.push(EffectNote::Disowned { effect: id });
    }

    pub(super) fn raise_effect(&mut self, id: EffectId, state: EffectState) {
        if let Some(effect) = self.execution.ledger.get(&id) {
            let mut effect = effect.clone();
            effect.state = state;
            self.execution.ledger.record(id, effect);
            self.touched.effects.insert(id);
        }
    }

    fn record_effect(&mut self, request: &Request, state: EffectState, task: u32) {
        let own_key = request.own_key.clone();
        let effect = Effect { state, own_key, ..Effect::intended(request.key, task) };
        let is_known = self.execution.ledger.get(&request.effect).is_some();
        self.execution.ledger.record(request.effect, effect);
        if !self.touched.effects.insert(request.effect) && !is_known {
            self.touched.renewed.insert(request.effect);
        }
    }

    pub(super) fn settle_effect(&mut self, id: EffectId) {
        self.execution.ledger.settle(&id);
        self.touched.effects.insert(id);
    }
}
