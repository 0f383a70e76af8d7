//! Laws of what is owed: what stays, what is undone, in which order, and what is left to a person.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{
    BranchId, Conduct, Decision, Effect, EffectId, EffectState, Epoch, Ledger, Lineage, NodeId,
    Owed, ParkReason, Parked, Recourse, Repetition, Reversal, StateId, Undo, UndoWay, depends_on,
    owed,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::world::{CASES, World, happenings, key};

const REPETITIONS: [Repetition; 3] =
    [Repetition::Deduplicated, Repetition::Harmless, Repetition::Acts];
const REVERSALS: [Reversal; 4] =
    [Reversal::Needless, Reversal::WithResult, Reversal::Tolerant, Reversal::Impossible];

/// How the activities of a random flow behave, by task.
fn conducts() -> impl Strategy<Value = Vec<Conduct>> {
    // Mostly what can be undone, so that the orders that come out are long.
    let repetition = prop::sample::select(vec![
        Repetition::Deduplicated,
        Repetition::Deduplicated,
        Repetition::Acts,
        Repetition::Acts,
        Repetition::Harmless,
    ]);
    let reversal = prop::sample::select(vec![
        Reversal::WithResult,
        Reversal::WithResult,
        Reversal::Tolerant,
        Reversal::Tolerant,
        Reversal::Needless,
        Reversal::Impossible,
    ]);
    let one =
        (repetition, reversal).prop_map(|(repetition, reversal)| Conduct { repetition, reversal });
    prop::collection::vec(one, 7)
}

/// What all know after some happenings, what they decide, and what is then owed.
struct Case {
    world: World,
    ledger: Ledger,
    decision: Decision,
    conducts: Vec<Conduct>,
    owed: Owed,
}

impl Case {
    /// `ended`: the decision is on the trunk alone, as at the end of an execution.
    fn new(happenings: &[crate::world::Happening], conducts: Vec<Conduct>, ended: bool) -> Self {
        let world = World::after(happenings);
        let knowledge = world.knowledge();
        let picked = knowledge.heads.pick(&[]);
        let trunk = picked.line(BranchId::TRUNK).cloned().unwrap_or_default();
        let decision = if ended { Decision::trunk(trunk) } else { picked };
        let ledger = knowledge.ledger;
        let owed = owed(&ledger, &decision, |_, effect| conduct_of(&conducts, effect));
        Self { world, ledger, decision, conducts, owed }
    }

    fn conduct(&self, id: &EffectId) -> Conduct {
        conduct_of(&self.conducts, &self.ledger.get(id).expect("it is in the ledger").clone())
    }

    /// Whether a state lies on a decided line, by the full list of points.
    fn decided(&self, state: &StateId) -> bool {
        let line = self.decision.line(state.branch);
        let naive = self.world.snapshots.iter().find(|snapshot| Some(&snapshot.lineage) == line);
        naive.is_some_and(|snapshot| snapshot.points.contains(&state.point))
    }

    fn key(&self, id: &EffectId) -> outlast_lineage::OperationKey {
        self.ledger.get(id).expect("it is in the ledger").key
    }
}

fn conduct_of(conducts: &[Conduct], effect: &Effect) -> Conduct {
    conducts[effect.task as usize % conducts.len()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn stays_what_the_decided_line_took_up_and_did_not_take_back(
        happenings in happenings(), conducts in conducts(), ended: bool,
    ) {
        let case = Case::new(&happenings, conducts, ended);
        for (id, effect) in case.ledger.iter() {
            let links = case.ledger.links(id).cloned().unwrap_or_default();
            let belongs = links.committed.iter().any(|state| case.decided(state))
                && !links.withdrawn.iter().any(|state| case.decided(state));
            let parked = case.owed.parked.iter()
                .any(|Parked { effect, reason }| effect == id && *reason == ParkReason::TakenBack);
            prop_assert_eq!(case.owed.keep.contains(id) || parked, belongs, "{:?}", effect);
        }
    }

    #[test]
    fn nothing_kept_is_ever_undone(
        happenings in happenings(), conducts in conducts(), ended: bool,
    ) {
        let case = Case::new(&happenings, conducts, ended);
        let kept_keys: BTreeSet<_> = case.owed.keep.iter().map(|id| case.key(id)).collect();
        for id in case.owed.undo.iter().flat_map(Undo::members) {
            prop_assert!(!case.owed.keep.contains(id));
            prop_assert!(!(case.conduct(id).deduplicates() && kept_keys.contains(&case.key(id))));
        }
    }

    #[test]
    fn every_effect_is_accounted_for_exactly_once(
        happenings in happenings(), conducts in conducts(), ended: bool,
    ) {
        let case = Case::new(&happenings, conducts, ended);
        let mut count: BTreeMap<EffectId, usize> = BTreeMap::new();
        let mentioned = case.owed.keep.iter()
            .chain(case.owed.undo.iter().flat_map(Undo::members))
            .chain(case.owed.dropped.iter().map(|dropped| &dropped.effect))
            .chain(case.owed.parked.iter().map(|parked| &parked.effect));
        mentioned.for_each(|id| *count.entry(*id).or_default() += 1);
        for (id, effect) in case.ledger.iter() {
            let conduct = case.conduct(id);
            let owes_nothing = effect.state == EffectState::Undone
                || conduct.reversal == Reversal::Needless
                || (effect.state == EffectState::Intended
                    && conduct.repetition == Repetition::Harmless);
            match count.get(id) {
                None => prop_assert!(owes_nothing, "forgotten: {:?} {:?}", id, effect),
                Some(times) => prop_assert_eq!(*times, 1, "{:?} {:?}", id, effect),
            }
        }
    }

    #[test]
    fn each_undo_comes_after_those_of_all_that_depended_on_it(
        happenings in happenings(), conducts in conducts(), ended: bool,
    ) {
        let case = Case::new(&happenings, conducts, ended);
        for (position, earlier) in case.owed.undo.iter().enumerate() {
            for later in &case.owed.undo[position + 1..] {
                // What is undone last must not have been built on what is gone by then. Of several
                // copies of one operation, one that was not built on it is enough: then none
                // needed it.
                let all_copies_depend = later.members().all(|copy| {
                    earlier.members().any(|one| case.world.past[copy].contains(one))
                });
                prop_assert!(!all_copies_depend, "{:?} before {:?}", earlier, later);
            }
        }
    }

    #[test]
    fn knows_every_true_dependency(happenings in happenings()) {
        let world = World::after(&happenings);
        let ledger = world.knowledge().ledger;
        for (later, past) in &world.past {
            for earlier in past {
                prop_assert!(depends_on(&ledger, later, earlier), "{:?} {:?}", later, earlier);
                prop_assert!(!depends_on(&ledger, earlier, later), "{:?} {:?}", later, earlier);
            }
        }
    }

    #[test]
    fn nothing_is_undone_before_a_parked_effect_that_depended_on_it(
        happenings in happenings(), conducts in conducts(), ended: bool,
    ) {
        let case = Case::new(&happenings, conducts, ended);
        for parked in case.owed.parked.iter().filter(|one| one.reason != ParkReason::TakenBack) {
            for undone in case.owed.undo.iter().flat_map(Undo::members) {
                prop_assert!(!case.world.past[&parked.effect].contains(undone));
            }
        }
    }

    #[test]
    fn undoing_what_is_owed_leaves_nothing_owed(
        happenings in happenings(), conducts in conducts(), ended: bool,
    ) {
        let mut case = Case::new(&happenings, conducts, ended);
        for undo in &case.owed.undo {
            undo.members().for_each(|id| case.ledger.raise(id, EffectState::Undone));
        }
        case.owed.keep.iter().for_each(|id| case.ledger.keep(id));
        let conducts = &case.conducts;
        let rest = owed(&case.ledger, &case.decision, |_, effect| conduct_of(conducts, effect));
        prop_assert!(rest.undo.is_empty());
        prop_assert_eq!(&rest.keep, &case.owed.keep);
        prop_assert_eq!(&rest.parked, &case.owed.parked);
    }
}

#[test]
fn random_worlds_reach_what_the_laws_are_about() {
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeMap::new();
    for _ in 0..200 {
        let inputs = (happenings(), conducts(), any::<bool>());
        let (happenings, conducts, ended) = inputs.new_tree(&mut runner).unwrap().current();
        let case = Case::new(&happenings, conducts, ended);
        let depends = |one: &Undo| {
            let undos = &case.owed.undo;
            undos.iter().any(|other| case.world.past[&one.effect].contains(&other.effect))
        };
        let situations = [
            ("clash", case.world.knowledge().heads.clash(BranchId::TRUNK)),
            ("kept", !case.owed.keep.is_empty()),
            ("dropped", !case.owed.dropped.is_empty()),
            ("dependent", case.owed.undo.iter().any(depends)),
            ("copies", case.owed.undo.iter().any(|undo| !undo.same.is_empty())),
            ("parked", !case.owed.parked.is_empty()),
        ];
        for (situation, is_reached) in situations {
            *reached.entry(situation).or_insert(0) += usize::from(is_reached);
        }
    }
    assert!(reached.values().all(|times| *times >= 5), "{reached:?}");
}

/// A line by one author with this many states, going on from another.
fn line(from: &Lineage, author: u64, states: usize) -> Lineage {
    let mut line = from.clone();
    for _ in 0..states {
        line.extend(NodeId(author), Epoch(0));
    }
    line
}

/// An effect that a line intended in its last state but one and took up in its last.
fn done(ledger: &mut Ledger, line: &Lineage, task: u32) -> EffectId {
    let intended = line.at(line.number() - 1).expect("there are two states");
    let id = EffectId { branch: BranchId::TRUNK, point: intended };
    ledger.record(id, Effect::intended(key(task), task));
    let point = line.head().expect("there are two states");
    ledger.commit(&id, StateId { branch: BranchId::TRUNK, point });
    id
}

const fn conduct(repetition: Repetition, reversal: Reversal) -> Conduct {
    Conduct { repetition, reversal }
}

#[test]
fn the_undo_of_a_duplicate_is_dropped_only_if_the_provider_deduplicates() {
    let mut ledger = Ledger::default();
    let (winner, loser) = (line(&Lineage::default(), 2, 2), line(&Lineage::default(), 1, 2));
    let kept = done(&mut ledger, &winner, 1);
    let lost = done(&mut ledger, &loser, 1);
    let decision = Decision::trunk(winner);
    let with =
        |repetition| owed(&ledger, &decision, |_, _| conduct(repetition, Reversal::WithResult));

    let deduplicating = with(Repetition::Deduplicated);
    assert_eq!(deduplicating.keep, BTreeSet::from([kept]));
    assert_eq!(deduplicating.undo, []);
    assert_eq!(deduplicating.dropped, [outlast_lineage::Dropped { effect: lost, kept }]);

    let acting = with(Repetition::Acts);
    assert_eq!(acting.keep, BTreeSet::from([kept]));
    let undo = Undo { effect: lost, same: vec![], way: UndoWay::WithResult };
    assert_eq!(acting.undo, [undo]);
    assert_eq!(acting.dropped, []);
}

#[test]
fn two_losers_of_one_operation_are_undone_once_where_they_were_one_effect() {
    let mut ledger = Ledger::default();
    let first = done(&mut ledger, &line(&Lineage::default(), 1, 2), 1);
    let second = done(&mut ledger, &line(&Lineage::default(), 2, 2), 1);
    let decision = Decision::trunk(line(&Lineage::default(), 3, 2));
    let with = |repetition| {
        owed(&ledger, &decision, |_, _| conduct(repetition, Reversal::WithResult)).undo
    };
    let undo = |effect, same| Undo { effect, same, way: UndoWay::WithResult };
    assert_eq!(with(Repetition::Deduplicated), [undo(first, vec![second])]);
    assert_eq!(with(Repetition::Acts), [undo(second, vec![]), undo(first, vec![])]);
}

#[test]
fn undoes_from_the_newest_to_the_oldest_whoever_made_them() {
    let mut ledger = Ledger::default();
    let (mut lost, mut effects) = (Lineage::default(), Vec::new());
    for author in [2, 3, 1] {
        lost = line(&lost, author, 2);
        effects.push(done(&mut ledger, &lost, author as u32));
    }
    let decision = Decision::trunk(line(&Lineage::default(), 9, 1));
    let acts = conduct(Repetition::Acts, Reversal::WithResult);
    let owed = owed(&ledger, &decision, |_, _| acts);
    effects.reverse();
    assert_eq!(owed.undo.iter().map(|undo| undo.effect).collect::<Vec<_>>(), effects);
}

#[test]
fn a_compete_loser_still_owes_its_undo() {
    let mut ledger = Ledger::default();
    let mut trunk = line(&Lineage::default(), 1, 1);
    let fork = StateId { branch: BranchId::TRUNK, point: trunk.head().expect("it has a state") };
    let mut branches = [1, 2].map(|branch| {
        let branch = BranchId(branch);
        let mut line = Lineage::default();
        let id = EffectId { branch, point: line.extend(NodeId(1), Epoch(0)) };
        ledger.record(id, Effect::intended(key(branch.0 as u32), branch.0 as u32));
        ledger.fork_from(&id, vec![fork]);
        (line, id)
    });
    for (line, id) in &mut branches {
        let point = line.extend(NodeId(1), Epoch(0));
        ledger.commit(id, StateId { branch: id.branch, point });
    }
    let (winner, loser) = (branches[0].1, branches[1].1);
    let join = trunk.extend(NodeId(1), Epoch(0));
    ledger.commit(&winner, StateId { branch: BranchId::TRUNK, point: join });

    let owed = owed(&ledger, &Decision::trunk(trunk), |_, _| {
        conduct(Repetition::Acts, Reversal::WithResult)
    });
    assert_eq!(owed.keep, BTreeSet::from([winner]));
    assert_eq!(owed.undo, [Undo { effect: loser, same: vec![], way: UndoWay::WithResult }]);
}

#[test]
fn an_effect_taken_back_by_a_line_that_lost_is_parked() {
    let mut ledger = Ledger::default();
    let common = line(&Lineage::default(), 1, 2);
    let id = done(&mut ledger, &common, 1);
    let (winner, loser) = (line(&common, 2, 1), line(&common, 1, 1));
    let point = loser.head().expect("it has states");
    ledger.withdraw(&id, StateId { branch: BranchId::TRUNK, point });
    let by = |line| {
        owed(&ledger, &Decision::trunk(line), |_, _| {
            conduct(Repetition::Acts, Reversal::WithResult)
        })
    };
    assert_eq!(by(winner).parked, [Parked { effect: id, reason: ParkReason::TakenBack }]);
    let undo = Undo { effect: id, same: vec![], way: UndoWay::WithResult };
    assert_eq!(by(loser).undo, [undo]);
}

#[test]
fn what_a_parked_effect_depended_on_waits_for_it() {
    let mut ledger = Ledger::default();
    let lost = line(&Lineage::default(), 1, 2);
    let first = done(&mut ledger, &lost, 1);
    let second = EffectId { branch: BranchId::TRUNK, point: lost.head().expect("it has states") };
    ledger.record(second, Effect::intended(key(2), 2));
    let decision = Decision::trunk(line(&Lineage::default(), 2, 1));
    let owed = owed(&ledger, &decision, |_, _| conduct(Repetition::Acts, Reversal::WithResult));
    assert_eq!(owed.undo, []);
    assert_eq!(
        owed.parked,
        [
            Parked { effect: second, reason: ParkReason::Unknown },
            Parked { effect: first, reason: ParkReason::After(second) },
        ]
    );
}

#[test]
fn what_waits_with_a_copy_of_it_holds_back_what_it_depended_on() {
    let mut ledger = Ledger::default();
    // Two lines did operation 1, and the second of them did operation 2 before it, far along.
    let one = line(&Lineage::default(), 1, 2);
    let copy = done(&mut ledger, &one, 1);
    let unknown = EffectId { branch: BranchId::TRUNK, point: one.head().expect("it has states") };
    ledger.record(unknown, Effect::intended(key(3), 3));
    let other = line(&Lineage::default(), 2, 6);
    let before = done(&mut ledger, &other, 2);
    let after = done(&mut ledger, &line(&other, 2, 2), 1);
    // Operation 3, which followed the first copy, is in doubt: operation 1 waits for a person, and
    // so must operation 2, which no copy of 3 depended on.
    let owed = owed(&ledger, &Decision::trunk(line(&Lineage::default(), 3, 1)), |_, effect| {
        let repetition =
            if effect.key == key(3) { Repetition::Acts } else { Repetition::Deduplicated };
        conduct(repetition, Reversal::WithResult)
    });
    assert_eq!(owed.undo, []);
    let waits: BTreeMap<_, _> = owed.parked.iter().map(|one| (one.effect, one.reason)).collect();
    assert_eq!(waits[&copy], ParkReason::After(unknown));
    assert_eq!(waits[&after], ParkReason::After(unknown));
    assert_eq!(waits[&before], ParkReason::After(after));
}

#[test]
fn an_unknown_effect_is_asked_for_undone_or_parked_by_its_conduct() {
    use Recourse::{AskAgain, Nothing, Park, Undo};
    // Columns: nothing to undo, undone with the result, tolerant undo, pivot.
    let if_wanted = [[AskAgain; 4], [AskAgain; 4], [Park, Park, Undo, Park]];
    let if_unwanted = [[Nothing, AskAgain, Undo, Park], [Nothing; 4], [Nothing, Park, Undo, Park]];
    for (row, repetition) in REPETITIONS.into_iter().enumerate() {
        for (column, reversal) in REVERSALS.into_iter().enumerate() {
            let conduct = conduct(repetition, reversal);
            assert_eq!(conduct.recourse_if_wanted(), if_wanted[row][column], "{conduct:?}");
            assert_eq!(conduct.recourse_if_unwanted(), if_unwanted[row][column], "{conduct:?}");
        }
    }
}
