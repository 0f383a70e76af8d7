//! Whether undoing stands still everywhere: lines that wait for each other in a circle.
//!
//! Asking in vain is no sign of a circle. Whoever is asked may be undoing something that takes hours, or
//! may wait for somebody who is, or may be down. So each replica counts the rounds in which it could do
//! nothing and all those that it waits for told it that they cannot either, and never counts further
//! than one beyond the least that it was told. Somebody who undoes something tells nought: whoever waits
//! for it counts to one at most, whoever waits for that one to two, and as there are no more replicas than
//! there are, a count that is higher than their number is of a circle.

use std::collections::BTreeMap;

use outlast_lineage::NodeId;

use super::Replica;

/// How many rounds more than there are replicas everything must have stood still: what was on its way
/// when somebody was asked has arrived by then.
const ROUNDS_MORE: usize = 2;

/// What is known of how long nothing has moved.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Stillness {
    /// For how many rounds nothing has moved, here and wherever something is waited for.
    rounds: u32,
    /// What others said of themselves since the last round.
    told: BTreeMap<NodeId, u32>,
}

impl Stillness {
    /// Another replica says for how many rounds nothing has moved there.
    pub(super) fn hear(&mut self, from: NodeId, rounds: u32) {
        self.told.insert(from, rounds);
    }
}

impl Replica {
    /// A round has gone by. It counts if everyone who is waited for has said how it stands there: about
    /// whoever is silent nothing is known.
    pub(super) fn count_stillness(&mut self) {
        let told = std::mem::take(&mut self.wishes.stillness.told);
        let told = self.awaited().map(|peer| told.get(&peer).copied());
        let least = told.min().unwrap_or(Some(u32::MAX));
        let stillness = &mut self.wishes.stillness;
        if let Some(least) = least {
            stillness.rounds = stillness.rounds.min(least).saturating_add(1);
        }
    }

    /// For how many rounds nothing has moved, as others are told.
    pub(super) fn still_for(&self) -> u32 {
        if self.is_undoing() { 0 } else { self.wishes.stillness.rounds }
    }

    /// Whether all that this replica waits for waits in a circle. Then copies of one operation no longer
    /// wait for what started from them.
    pub(super) fn is_in_a_circle(&self) -> bool {
        let rounds = usize::try_from(self.still_for()).unwrap_or(usize::MAX);
        self.setup.members.len() + ROUNDS_MORE < rounds
    }

    /// Whether nobody's word is missing and still nothing can be undone: lines that were lost here wait for
    /// each other.
    pub(super) fn is_tangled(&self) -> bool {
        !self.is_undoing() && !self.open_questions().is_empty() && self.awaited().next().is_none()
    }

    /// Whether an undo was ordered and is not done.
    fn is_undoing(&self) -> bool {
        self.owed().any(|(effect, _)| self.wishes.ordered.contains(effect))
    }
}
