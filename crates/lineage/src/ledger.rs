//! The effect ledger: what was done to the outside world, and what is still owed to it.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::{BranchId, OperationKey, Point};

/// An effect, named by the state that intended it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct EffectId {
    /// The branch that called out.
    #[n(0)]
    pub branch: BranchId,
    /// The state of that branch which intended the call.
    #[n(1)]
    pub point: Point,
}

/// How far an effect has come. States only rise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum EffectState {
    /// Written down before the call left; whether it happened is not known.
    #[n(0)]
    Intended,
    /// The provider said that it happened.
    #[n(1)]
    Done,
    /// Its undo was written down and is on its way.
    #[n(2)]
    Undoing,
    /// It is undone, or it is known never to have happened.
    #[n(3)]
    Undone,
}

/// One entry of the ledger.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Effect {
    /// How far it has come.
    #[n(0)]
    pub state: EffectState,
    /// The key its provider was given.
    #[n(1)]
    pub key: OperationKey,
    /// The number of the task in the program.
    #[n(2)]
    pub task: u32,
    /// Whether it belongs to the decided line and stays.
    #[n(3)]
    pub kept: bool,
}

/// All effects of one execution. Grows by union; entries only rise.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Ledger {
    #[n(0)]
    effects: BTreeMap<EffectId, Effect>,
}

impl Ledger {
    /// Writes an entry, or raises the one that is there; it never falls back.
    pub fn record(&mut self, id: EffectId, effect: Effect) {
        match self.effects.get_mut(&id) {
            None => drop(self.effects.insert(id, effect)),
            Some(known) => {
                known.state = known.state.max(effect.state);
                known.kept |= effect.kept;
            }
        }
    }

    /// One entry.
    pub fn get(&self, id: &EffectId) -> Option<&Effect> {
        self.effects.get(id)
    }

    /// Forgets an entry that owes nothing any more.
    pub fn settle(&mut self, id: &EffectId) {
        self.effects.remove(id);
    }

    /// All entries, in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&EffectId, &Effect)> {
        self.effects.iter()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.effects.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }
}
