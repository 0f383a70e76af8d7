//! The outside world of the models: what was done in it, and what has been undone.

use outlast_lineage::{Conduct, EffectId, OperationKey};

/// Something that was done.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Deed {
    pub(crate) effect: EffectId,
    pub(crate) key: OperationKey,
    pub(crate) activity: usize,
    /// The effects that the caller had taken up before: what this one was built on.
    pub(crate) past: Vec<EffectId>,
    pub(crate) undone: bool,
}

/// All providers together: everything that was ever done.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Provider {
    pub(crate) deeds: Vec<Deed>,
}

impl Provider {
    /// Acts on a call; one that deduplicates acts once for each key, undone or not.
    pub(crate) fn act(&mut self, deed: Deed, conduct: Conduct) {
        let known = self.deeds.iter().any(|known| known.key == deed.key);
        if !(known && conduct.deduplicates()) {
            self.deeds.push(deed);
            // Two calls that nobody orders are one state of the world, whichever came first.
            self.deeds.sort();
        }
    }

    /// Undoes what an effect did, if it did anything. Says whether something built on it still
    /// stands, other than what is kept.
    pub(crate) fn undo(&mut self, effect: &EffectId, key: OperationKey, conduct: Conduct) -> bool {
        for deed in &mut self.deeds {
            let same_key = conduct.deduplicates() && deed.key == key;
            deed.undone |= same_key || deed.effect == *effect;
        }
        self.deeds.iter().any(|deed| !deed.undone && deed.past.contains(effect))
    }

    /// What still stands.
    pub(crate) fn standing(&self) -> impl Iterator<Item = &Deed> {
        self.deeds.iter().filter(|deed| !deed.undone)
    }
}
