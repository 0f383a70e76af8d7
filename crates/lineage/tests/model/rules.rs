//! What must always hold in the world of replicas, and what must sometimes be reached in it.

use std::collections::BTreeSet;

use outlast_lineage::{BranchId, EffectState, Knowledge, UndoWay, pivot_conflict};

use crate::replicas::{Replicas, State};

/// A question about a state.
type Question = fn(&Replicas, &State) -> bool;

pub(crate) const STATE_IDS: &str = "no state id is produced twice";
pub(crate) const LATE_ANSWERS: &str = "a late answer changes the ledger and nothing else";
pub(crate) const UNDO_ORDER: &str = "an effect is undone after all that was built on it";
pub(crate) const PIVOTS: &str = "a pivot runs on one line at most";
pub(crate) const NET_EFFECTS: &str = "one line's effects stand, each once, or a person is told";

pub(crate) const LAWS: [(&str, Question); 5] = [
    (STATE_IDS, |_, state| !state.broken_laws.contains(STATE_IDS)),
    (LATE_ANSWERS, |_, state| !state.broken_laws.contains(LATE_ANSWERS)),
    (UNDO_ORDER, |_, state| !state.broken_laws.contains(UNDO_ORDER)),
    (PIVOTS, |_, state| pivot_conflict(&state.pivots).is_none()),
    (NET_EFFECTS, net_effects_are_those_of_one_line),
];

pub(crate) const SITUATIONS: [(&str, Question); 7] = [
    ("clash", |_, state| {
        let mut all = Knowledge::default();
        state.nodes.iter().for_each(|node| all.merge(&node.knowledge));
        all.heads.clash(BranchId::TRUNK)
    }),
    ("duplicate dropped", |model, state| {
        is_over(model, state) && !model.owed(state).dropped.is_empty()
    }),
    ("loser undone", |_, state| {
        let ledger = state.agreed.as_ref().map(|(_, ledger)| ledger);
        ledger.is_some_and(|ledger| {
            ledger.iter().any(|(_, effect)| effect.state == EffectState::Undone)
        })
    }),
    ("parked", |model, state| is_over(model, state) && !model.owed(state).parked.is_empty()),
    ("late answer", |_, state| state.late_answers),
    ("all settled", |model, state| is_over(model, state) && model.owed(state).is_settled()),
    ("loser asked first", |model, state| {
        model.owed(state).undo.iter().any(|undo| undo.way == UndoWay::AskFirst)
    }),
];

/// Whether it is decided, and all that can be done without a person is done.
fn is_over(model: &Replicas, state: &State) -> bool {
    state.agreed.is_some() && state.calls.is_empty() && model.owed(state).undo.is_empty()
}

/// Once it is over: every activity's effect stands once, under its kept entry; what else stands is
/// parked.
fn net_effects_are_those_of_one_line(model: &Replicas, state: &State) -> bool {
    let Some((_, ledger)) = state.agreed.as_ref().filter(|_| is_over(model, state)) else {
        return true;
    };
    let owed = model.owed(state);
    let parked: BTreeSet<_> = owed.parked.iter().map(|parked| parked.effect).collect();
    let mut kept_of: Vec<_> = vec![Vec::new(); model.activities.len()];
    for id in &owed.keep {
        let effect = ledger.get(id).expect("what is kept is in the ledger");
        kept_of[effect.task as usize].push((*id, effect.key));
    }
    (0..model.activities.len()).all(|activity| {
        let [(kept, key)] = kept_of[activity][..] else { return false };
        let deduplicates = model.activities[activity].deduplicates();
        let (own, other): (Vec<_>, Vec<_>) = state
            .provider
            .standing()
            .filter(|deed| deed.activity == activity)
            .partition(|deed| deed.effect == kept || (deduplicates && deed.key == key));
        own.len() == 1 && other.iter().all(|deed| parked.contains(&deed.effect))
    })
}
