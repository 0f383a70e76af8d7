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

    pub(super) fn undo(&mut self, effect: EffectId) {
        let called = self.calls[&effect].pivot && self.happened.contains(&effect);
        assert!(!called, "{effect:?} is a pivot that ran, and was to be undone");
        if !self.undone.contains(&effect) {
            self.undone.push(effect);
        }
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

    /// Nothing is undone before what started from its result. (Copies of one operation at a
    /// deduplicating provider are one effect with several places in the order, and left out.)
    pub(super) fn assert_undone_in_order(&self) {
        for (position, effect) in self.undone.iter().enumerate() {
            for later in &self.undone[position + 1..] {
                let out_of_order = self.calls[later].after.contains(effect)
                    && self.happened.contains(later)
                    && !self.calls[effect].deduplicated;
                assert!(!out_of_order, "{later:?} depends on {effect:?}, which was undone first");
            }
        }
    }
}
