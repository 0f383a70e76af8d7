//! The world outside: what was done, what was undone, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{EffectId, NodeId, OperationKey};

use super::flow::Flow;

/// What one call was.
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) key: OperationKey,
    pub(super) deduplicated: bool,
    pub(super) pivot: bool,
    /// The effects whose results were taken up before it was intended.
    pub(super) after: BTreeSet<EffectId>,
}

/// All providers together.
#[derive(Debug, Default)]
pub(super) struct Provider {
    /// Every call that was ever intended.
    pub(super) calls: BTreeMap<EffectId, Called>,
    /// Those that happened.
    pub(super) happened: BTreeSet<EffectId>,
    /// Those that were undone, in order.
    pub(super) undone: Vec<EffectId>,
}

impl Provider {
    pub(super) fn act(&mut self, effect: EffectId) {
        // What is undone before it arrives does not happen any more.
        if !self.undone.contains(&effect) {
            self.happened.insert(effect);
        }
    }

    /// Undoes an effect. What was done by the same key is undone with it, so nobody else does; those
    /// who are gone may have.
    pub(super) fn undo(&mut self, effect: EffectId, gone: &BTreeSet<NodeId>) {
        let called = &self.calls[&effect];
        let ran = called.pivot && self.happened.contains(&effect);
        assert!(!ran, "{effect:?} is a pivot that ran, and was to be undone");
        // Its author may have died before it could write that down.
        if self.undone.contains(&effect) {
            return;
        }
        let is_gone = |effect: &EffectId| gone.contains(&effect.point.author);
        let same = self.undone.iter().find(|other| {
            let other = &self.calls[*other];
            called.deduplicated && other.deduplicated && other.key == called.key
        });
        if let Some(other) = same.filter(|other| !is_gone(other) && !is_gone(&effect)) {
            panic!("{effect:?} is the same operation as {other:?}, which is undone");
        }
        self.undone.push(effect);
    }

    /// The net effects are those of the decided run, each once: with deduplicating providers one
    /// for each key.
    pub(super) fn assert_net_effects_are_those_of(&self, flow: &Flow, gone: &BTreeSet<NodeId>) {
        let kept: BTreeSet<_> = flow.done().map(|(effect, _)| effect).collect();
        let kept_keys: BTreeSet<_> = flow.done().map(|(_, key)| key).collect();
        for effect in &kept {
            let key = self.calls[effect].key;
            let acted =
                |other: &&EffectId| self.calls[other].deduplicated && self.calls[other].key == key;
            assert!(
                self.happened.contains(effect) || self.happened.iter().any(|other| acted(&other)),
                "{effect:?} of the decided run never happened"
            );
        }
        // Nobody is left to undo what the lost for good have done.
        for effect in self.happened.iter().filter(|effect| !gone.contains(&effect.point.author)) {
            let called = &self.calls[effect];
            let stays =
                kept.contains(effect) || (called.deduplicated && kept_keys.contains(&called.key));
            assert_eq!(
                stays,
                !self.is_undone(effect),
                "{effect:?} is kept ({stays}) or undone, not both and not neither"
            );
        }
    }

    fn is_undone(&self, effect: &EffectId) -> bool {
        let called = &self.calls[effect];
        self.undone.iter().any(|undone| {
            let other = &self.calls[undone];
            undone == effect
                || (called.deduplicated && other.deduplicated && other.key == called.key)
        })
    }

    /// Nothing is undone before what started from its result, or from the result of the same operation
    /// on another line.
    pub(super) fn assert_undone_in_order(&self, gone: &BTreeSet<NodeId>) {
        for (position, effect) in self.undone.iter().enumerate() {
            let called = &self.calls[effect];
            let is_copy = |other: &EffectId| {
                let other_call = &self.calls[other];
                let same = called.deduplicated && other_call.key == called.key;
                other == effect || (same && other_call.deduplicated)
            };
            for later in &self.undone[position + 1..] {
                let out_of_order = self.calls[later].after.iter().any(is_copy)
                    && self.happened.contains(later)
                    && !gone.contains(&later.point.author);
                assert!(!out_of_order, "{later:?} depends on {effect:?}, which was undone first");
            }
        }
    }
}
