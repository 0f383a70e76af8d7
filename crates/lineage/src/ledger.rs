//! The effect ledger: what was done to the outside world, and on which line.
//!
//! A ledger is a join-semilattice: entries are added and rise, never fall, and merging takes the
//! union. So no copy that lost a race, a vote or a branch can make another forget what it did. What
//! is owed for all this is worked out in `owed`.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};

use crate::{BranchId, OperationKey, Point, StateId};

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

impl EffectId {
    /// The state that intended the call.
    pub const fn state(&self) -> StateId {
        StateId { branch: self.branch, point: self.point }
    }
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
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub struct Effect {
    /// How far it has come.
    #[n(0)]
    pub state: EffectState,
    /// The key its provider was given, unless it has one of its own.
    #[n(1)]
    pub key: OperationKey,
    /// The number of the task in the program.
    #[n(2)]
    pub task: u32,
    /// Whether it belongs to the decided line and stays.
    #[n(3)]
    pub kept: bool,
    /// The key that its provider was given if the flow says which.
    #[n(4)]
    pub own_key: Option<String>,
}

impl Effect {
    /// An effect as it is written down before its call leaves.
    pub const fn intended(key: OperationKey, task: u32) -> Self {
        Self { state: EffectState::Intended, key, task, kept: false, own_key: None }
    }

    /// The key by which its provider knows it.
    pub fn key_text(&self) -> String {
        self.own_key.clone().unwrap_or_else(|| self.key.to_string())
    }

    /// Takes over what another copy knows. One id always has one key and one task; should a broken
    /// copy say otherwise, all copies still come to the same entry.
    fn join(&mut self, other: &Self) {
        self.state = self.state.max(other.state);
        self.key = self.key.max(other.key);
        self.task = self.task.max(other.task);
        self.kept |= other.kept;
        if self.own_key < other.own_key {
            self.own_key.clone_from(&other.own_key);
        }
    }
}

/// How an effect hangs together with the states of an execution. Only executions that are held in
/// several copies or undo things need it, so it is kept beside the entries.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
pub struct Links {
    /// The states of the enclosing branches that the effect's own branch was forked off by,
    /// outermost first; nothing for the trunk. With the effect's id at its end this is the list
    /// that seed 3 calls a timestamp.
    #[n(0)]
    pub forked_from: Vec<StateId>,
    /// The states that took its result up: in its own branch, and in each enclosing branch whose
    /// join let the branch's work count. Two lines may both have asked and got the answer.
    #[n(1)]
    pub committed: BTreeSet<StateId>,
    /// The states in which a line itself took the effect back.
    #[n(2)]
    pub withdrawn: BTreeSet<StateId>,
}

impl Links {
    /// Takes over what another copy knows. An effect's branch was forked off once; copies differ
    /// only in whether they know by what.
    fn join(&mut self, other: &Self) {
        if self.forked_from < other.forked_from {
            self.forked_from.clone_from(&other.forked_from);
        }
        self.committed.extend(&other.committed);
        self.withdrawn.extend(&other.withdrawn);
    }
}

/// All effects of one execution. Grows by union; entries only rise.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
pub struct Ledger {
    #[n(0)]
    effects: BTreeMap<EffectId, Effect>,
    #[cbor(n(1), default)]
    links: BTreeMap<EffectId, Links>,
}

impl Ledger {
    /// Writes an entry, or raises the one that is there; it never falls back.
    pub fn record(&mut self, id: EffectId, effect: Effect) {
        match self.effects.get_mut(&id) {
            None => drop(self.effects.insert(id, effect)),
            Some(known) => known.join(&effect),
        }
    }

    /// Raises an entry to a state; one that is further stays there.
    ///
    /// # Panics
    /// If there is no such entry: an effect is written down before anything comes of it.
    pub fn raise(&mut self, id: &EffectId, state: EffectState) {
        let entry = self.entry(id);
        entry.state = entry.state.max(state);
    }

    /// Notes that an effect belongs to the decided line and stays. Only a final decision may say so.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn keep(&mut self, id: &EffectId) {
        self.entry(id).kept = true;
    }

    /// Notes which states of the enclosing branches, outermost first, an effect's branch was forked
    /// off by.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn fork_from(&mut self, id: &EffectId, enclosing: Vec<StateId>) {
        self.entry(id);
        let links = Links { forked_from: enclosing, ..Links::default() };
        self.links.entry(*id).or_default().join(&links);
    }

    /// Notes that a state took up the result of an effect, which therefore happened.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn commit(&mut self, id: &EffectId, state: StateId) {
        self.raise(id, EffectState::Done);
        self.links.entry(*id).or_default().committed.insert(state);
    }

    /// Notes that a line takes an effect back from this state on; its undo is on its way.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn withdraw(&mut self, id: &EffectId, state: StateId) {
        self.raise(id, EffectState::Undoing);
        self.links.entry(*id).or_default().withdrawn.insert(state);
    }

    /// Learns all that another copy knows.
    pub fn merge(&mut self, other: &Self) {
        for (id, effect) in &other.effects {
            self.record(*id, effect.clone());
        }
        for (id, links) in &other.links {
            self.links.entry(*id).or_default().join(links);
        }
    }

    /// One entry.
    pub fn get(&self, id: &EffectId) -> Option<&Effect> {
        self.effects.get(id)
    }

    /// How an effect hangs together with the states of the execution, as far as it was noted.
    pub fn links(&self, id: &EffectId) -> Option<&Links> {
        self.links.get(id)
    }

    /// Forgets an entry that owes nothing any more.
    ///
    /// This is no operation of the lattice: merging with a copy that still has the entry brings it
    /// back. It is lawful for the only copy of a ledger (a solo execution, whose journal replays the
    /// forgetting too), and for all copies at once when they have agreed to forget. And only for an
    /// entry that cannot come to owe anything: it is undone, or nothing can ever ask for its undo.
    pub fn settle(&mut self, id: &EffectId) {
        self.effects.remove(id);
        self.links.remove(id);
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

    fn entry(&mut self, id: &EffectId) -> &mut Effect {
        self.effects.get_mut(id).expect("an effect is written down before anything comes of it")
    }
}
