//! What is owed once it is decided which lines count: what stays, what is undone and in which order,
//! and what only a person can settle.
//!
//! An effect stays if a state that took up its result lies on a line that counts, and no state on
//! such a line took it back. Everything else is undone, after all that depended on it.
//!
//! One effect depends on another if its activity started from a state that had taken up the other's
//! result. Where they are on branches of branches, the outermost branch in which they started from
//! different states decides. Numbers stand in for the order of states: along a line they only
//! rise, so undoing from higher to lower numbers is right for all lines at once, without knowing
//! them; between lines that clash it adds an order that nobody needs and nobody minds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    Conduct, Decision, Effect, EffectId, EffectState, Ledger, Links, OperationKey, Recourse,
    Reversal, StateId,
};

/// What is owed under a decision.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Owed {
    /// These belong to a line that counts and stay.
    pub keep: BTreeSet<EffectId>,
    /// These are to be undone, in this order.
    pub undo: Vec<Undo>,
    /// These are one effect in the world with one that is kept: undoing them would undo it.
    pub dropped: Vec<Dropped>,
    /// These wait for a person.
    pub parked: Vec<Parked>,
}

/// One undo.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undo {
    /// What is undone, with its own captured result.
    pub effect: EffectId,
    /// Entries of the same operation at a deduplicating provider: undone by the same undo.
    pub same: Vec<EffectId>,
    /// How.
    pub way: UndoWay,
}

/// How an effect is undone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UndoWay {
    /// It happened, and what it answered is known where it was called.
    WithResult,
    /// It may have happened: ask again with the same key, then undo what that answers.
    AskFirst,
    /// It may have happened: run the undo, which tolerates that it did not.
    Tolerating,
}

/// An undo that is not owed because its effect is also a kept one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The entry that lost.
    pub effect: EffectId,
    /// The kept one with the same key.
    pub kept: EffectId,
}

/// An effect for a person to settle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parked {
    /// The effect.
    pub effect: EffectId,
    /// Why.
    pub reason: ParkReason,
}

/// Why an effect waits for a person.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ParkReason {
    /// It may have happened, and neither asking nor undoing is safe.
    Unknown,
    /// It happened, must not stay, and cannot be undone.
    Irreversible,
    /// It should have stayed, but a line that does not count has taken it back.
    TakenBack,
    /// It can be undone only after this one, which is parked.
    After(EffectId),
}

/// Whether the activity of an effect started from a state that had taken up another effect's result.
pub fn depends_on(ledger: &Ledger, later: &EffectId, earlier: &EffectId) -> bool {
    let (ours, theirs) = (stamp(ledger, later), stamp(ledger, earlier));
    let parting = ours.iter().zip(&theirs).find(|(one, other)| one != other);
    parting.is_some_and(|(start, other)| {
        start.branch == other.branch
            && committed(ledger, earlier).any(|state| {
                state.branch == start.branch && state.point.number <= start.point.number
            })
    })
}

/// Works out what is owed, given how the activity and provider of each effect behave.
pub fn owed(
    ledger: &Ledger,
    decision: &Decision,
    conduct: impl Fn(&EffectId, &Effect) -> Conduct,
) -> Owed {
    let mut owed = Owed::default();
    let mut kept_keys = BTreeMap::new();
    for (id, effect) in ledger.iter().filter(|(id, effect)| stays(ledger, decision, id, effect)) {
        match effect.state {
            EffectState::Intended | EffectState::Done => drop(owed.keep.insert(*id)),
            EffectState::Undoing | EffectState::Undone => owed.park(id, ParkReason::TakenBack),
        }
        if conduct(id, effect).deduplicates() {
            kept_keys.entry(effect.key).or_insert(*id);
        }
    }
    let mut undos = Vec::new();
    for (id, effect) in ledger.iter().filter(|(id, effect)| !stays(ledger, decision, id, effect)) {
        let conduct = conduct(id, effect);
        match kept_keys.get(&effect.key).filter(|_| conduct.deduplicates()) {
            Some(kept) => owed.drop_or_report(ledger, (id, effect), kept),
            None => match judge(effect.state, conduct) {
                Judgement::Nothing => {}
                Judgement::Undo(way) => undos.push((*id, effect.key, way, conduct)),
                Judgement::Park(reason) => owed.park(id, reason),
            },
        }
    }
    owed.undo = in_order(ledger, undos);
    owed.hold_back(ledger);
    owed
}

impl Owed {
    /// Whether nothing is left to do, by machine or by person.
    pub fn is_settled(&self) -> bool {
        self.undo.is_empty() && self.parked.is_empty()
    }

    fn park(&mut self, effect: &EffectId, reason: ParkReason) {
        self.parked.push(Parked { effect: *effect, reason });
    }

    /// Drops the undo of an entry that is one effect with a kept one; if a line had already taken
    /// that effect back, the kept one is gone from the world and a person must know.
    fn drop_or_report(&mut self, ledger: &Ledger, lost: (&EffectId, &Effect), kept: &EffectId) {
        let (id, effect) = lost;
        let taken_back = effect.state >= EffectState::Undoing
            && ledger.links(id).is_some_and(|links| !links.withdrawn.is_empty());
        if taken_back && self.keep.remove(kept) {
            self.park(kept, ParkReason::TakenBack);
        }
        self.dropped.push(Dropped { effect: *id, kept: *kept });
    }

    /// Parks what must not be undone before something that is parked: be that for its own sake, or
    /// because it waits itself. All entries of one undo wait together, so one of them may hold back
    /// what the parked effect knows nothing of.
    fn hold_back(&mut self, ledger: &Ledger) {
        let own_sake = |parked: &&Parked| parked.reason != ParkReason::TakenBack;
        let mut blockers: VecDeque<_> =
            self.parked.iter().filter(own_sake).map(|parked| parked.effect).collect();
        while let Some(blocker) = blockers.pop_front() {
            let waits =
                |undo: &mut Undo| undo.members().any(|member| depends_on(ledger, &blocker, member));
            let held: Vec<Undo> = self.undo.extract_if(.., waits).collect();
            for member in held.iter().flat_map(Undo::members) {
                self.park(member, ParkReason::After(blocker));
                blockers.push_back(*member);
            }
        }
    }
}

/// What is owed for one effect that does not stay.
enum Judgement {
    Nothing,
    Undo(UndoWay),
    Park(ParkReason),
}

fn judge(state: EffectState, conduct: Conduct) -> Judgement {
    match state {
        EffectState::Undone => Judgement::Nothing,
        EffectState::Intended => match conduct.recourse_if_unwanted() {
            Recourse::Nothing => Judgement::Nothing,
            Recourse::AskAgain => Judgement::Undo(UndoWay::AskFirst),
            Recourse::Undo => Judgement::Undo(UndoWay::Tolerating),
            Recourse::Park => Judgement::Park(ParkReason::Unknown),
        },
        EffectState::Done | EffectState::Undoing => match conduct.reversal {
            Reversal::Needless => Judgement::Nothing,
            Reversal::WithResult | Reversal::Tolerant => Judgement::Undo(UndoWay::WithResult),
            Reversal::Impossible => Judgement::Park(ParkReason::Irreversible),
        },
    }
}

/// Whether an effect belongs to a line that counts.
fn stays(ledger: &Ledger, decision: &Decision, id: &EffectId, effect: &Effect) -> bool {
    let withdrawn = ledger.links(id).into_iter().flat_map(|links| &links.withdrawn);
    effect.kept
        || (committed(ledger, id).any(|state| decision.contains(state))
            && !withdrawn.into_iter().any(|state| decision.contains(state)))
}

fn committed<'ledger>(
    ledger: &'ledger Ledger,
    id: &EffectId,
) -> impl Iterator<Item = &'ledger StateId> {
    ledger.links(id).into_iter().flat_map(|links| &links.committed)
}

/// The states an effect's activity started from, outermost branch first.
fn stamp(ledger: &Ledger, id: &EffectId) -> Vec<StateId> {
    let enclosing = ledger.links(id).map(|Links { forked_from, .. }| forked_from.clone());
    let mut stamp = enclosing.unwrap_or_default();
    stamp.push(id.state());
    stamp
}

/// Sorts undos so that each comes after those of all that depended on it, and makes one of those
/// that are one effect in the world. That one stands where the last of them stood: if every copy of
/// an effect depended on some copy of another, it is undone before the other.
fn in_order(
    ledger: &Ledger,
    mut undos: Vec<(EffectId, OperationKey, UndoWay, Conduct)>,
) -> Vec<Undo> {
    undos.sort_by_cached_key(|(id, ..)| {
        let numbers: Vec<_> = stamp(ledger, id).iter().map(|state| state.point.number).collect();
        (numbers, *id)
    });
    let mut by_key: BTreeMap<OperationKey, usize> = BTreeMap::new();
    let mut ordered: Vec<Undo> = Vec::new();
    for (effect, key, way, conduct) in undos {
        match by_key.get(&key).filter(|_| conduct.deduplicates()) {
            Some(&index) => ordered[index].absorb(effect, way),
            None => {
                by_key.insert(key, ordered.len());
                ordered.push(Undo { effect, same: Vec::new(), way });
            }
        }
    }
    ordered.reverse();
    ordered
}

impl Undo {
    /// All entries that this undoes.
    pub fn members(&self) -> impl Iterator<Item = &EffectId> {
        self.same.iter().chain([&self.effect])
    }

    /// Takes in another entry of the same operation; one whose answer is known goes first, because
    /// it need not ask.
    fn absorb(&mut self, effect: EffectId, way: UndoWay) {
        if way == UndoWay::WithResult && self.way != UndoWay::WithResult {
            self.same.push(std::mem::replace(&mut self.effect, effect));
            self.way = way;
        } else {
            self.same.push(effect);
        }
    }
}
