//! What travels comes back as it was, tolerates fields it does not know yet, and refuses nonsense.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use minicbor::{Decode, Encode};
use outlast_lineage::{
    BranchId, Decision, Digest, Effect, EffectId, EffectState, Epoch, ExecutionId, Head, Heads,
    Knowledge, Ledger, Lineage, NodeId, Pivot, Point, Segment, StateId, Time,
};
use proptest::prelude::*;

use crate::world::{CASES, World, happenings, key};

fn bytes(value: impl Encode<()>) -> Vec<u8> {
    minicbor::to_vec(value).expect("a vector takes all bytes")
}

fn read<T: for<'bytes> Decode<'bytes, ()>>(bytes: &[u8]) -> Result<T, minicbor::decode::Error> {
    minicbor::decode(bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn knowledge_decisions_and_pivots_come_back_as_they_were(happenings in happenings()) {
        let world = World::after(&happenings);
        let knowledge = world.knowledge();
        prop_assert_eq!(&read::<Knowledge>(&bytes(&knowledge)).unwrap(), &knowledge);
        let decision = knowledge.heads.pick(&[]);
        prop_assert_eq!(&read::<Decision>(&bytes(&decision)).unwrap(), &decision);
        for line in &world.snapshots {
            let pivot = Pivot {
                execution: ExecutionId::from_bytes([3; 16]),
                place: Digest::of(b"place"),
                branch: BranchId::TRUNK,
                lineage: line.lineage.clone(),
            };
            prop_assert_eq!(&read::<Pivot>(&bytes(&pivot)).unwrap(), &pivot);
        }
    }

    #[test]
    fn a_line_can_take_runs_that_make_one_again_and_no_others(
        runs in prop::collection::vec((0..3_u64, 0..4_u64, 1..4_u64), 0..6),
        held in 0..6_usize,
    ) {
        let run = |(author, epoch, states): (u64, u64, u64)| {
            (NodeId(author), Epoch(epoch), NonZeroU64::new(states).unwrap())
        };
        let runs: Vec<_> = runs.into_iter().map(run).collect();
        let mut line = Lineage::default();
        for (place, run) in runs.iter().enumerate() {
            let (author, epoch, states) = *run;
            let falls = Some(epoch) < line.highest_epoch(author);
            prop_assert_eq!(line.can_extend_by(&[*run]), !falls);
            if place == held.min(runs.len()) {
                let mut probe = line.clone();
                let adds = runs[place..].iter().all(|(author, epoch, states)| {
                    let can = probe.can_extend_by(&[(*author, *epoch, *states)]);
                    if can { probe.extend_by(*author, *epoch, *states); }
                    can
                });
                prop_assert_eq!(line.can_extend_by(&runs[place..]), adds);
            }
            if falls { break; }
            line.extend_by(author, epoch, states);
        }
    }

    #[test]
    fn names_come_back_as_they_were(author: u64, epoch: u64, number: u64, branch: u64, id: [u8; 16]) {
        let point = Point { author: NodeId(author), epoch: Epoch(epoch), number };
        let state = StateId { branch: BranchId(branch), point };
        prop_assert_eq!(read::<StateId>(&bytes(state)).unwrap(), state);
        let effect = EffectId { branch: BranchId(branch), point };
        prop_assert_eq!(read::<EffectId>(&bytes(effect)).unwrap(), effect);
        let execution = ExecutionId::from_bytes(id);
        prop_assert_eq!(read::<ExecutionId>(&bytes(execution)).unwrap(), execution);
        prop_assert_eq!(execution.to_string().parse::<ExecutionId>().unwrap(), execution);
        let time = Time::from_micros(number);
        prop_assert_eq!(read::<Time>(&bytes(time)).unwrap(), time);
        let digest = Digest::of(&id);
        prop_assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
    }

    #[test]
    fn cut_or_flipped_bytes_are_an_error_or_another_value_but_never_a_panic(
        happenings in happenings(), at: prop::sample::Index, flip in 1_u8..,
    ) {
        let mut damaged = bytes(World::after(&happenings).knowledge());
        let index = at.index(damaged.len());
        prop_assert!(read::<Knowledge>(&damaged[..index]).is_err());
        damaged[index] ^= flip;
        // What can be read at all obeys the laws, so everything that stands on them may be asked.
        if let Ok(knowledge) = read::<Knowledge>(&damaged) {
            let mut twice = knowledge.clone();
            twice.merge(&knowledge);
            prop_assert_eq!(&twice, &knowledge);
            let _ = knowledge.heads.pick(&[]);
        }
    }
}

/// An entry as a later release might write it.
#[derive(Encode)]
struct EffectOfTomorrow {
    #[n(0)]
    state: EffectState,
    #[n(1)]
    key: outlast_lineage::OperationKey,
    #[n(2)]
    task: u32,
    #[n(3)]
    kept: bool,
    #[n(9)]
    mood: String,
}

/// A ledger as the first release wrote it: without links.
#[derive(Encode)]
struct LedgerOfYesterday {
    #[n(0)]
    effects: BTreeMap<EffectId, Effect>,
}

/// A lineage as anyone might write it.
#[derive(Encode)]
struct Claimed {
    #[n(0)]
    segments: Vec<Segment>,
    #[n(1)]
    number: u64,
    #[n(2)]
    trailing: Option<String>,
}

fn segment(author: u64, epoch: u64, first: u64) -> Segment {
    Segment { author: NodeId(author), epoch: Epoch(epoch), first }
}

fn claim(segments: &[Segment], number: u64) -> Result<Lineage, minicbor::decode::Error> {
    let trailing = Some("from tomorrow".to_owned());
    read(&bytes(Claimed { segments: segments.to_vec(), number, trailing }))
}

#[test]
fn fields_of_a_later_release_are_skipped() {
    let effect = Effect::intended(key(1), 1);
    let tomorrow = EffectOfTomorrow {
        state: effect.state,
        key: effect.key,
        task: effect.task,
        kept: effect.kept,
        mood: "bright".to_owned(),
    };
    assert_eq!(read::<Effect>(&bytes(tomorrow)).unwrap(), effect);
    let line = claim(&[segment(1, 0, 1)], 3).unwrap();
    assert_eq!(line.head().map(|point| point.number), Some(3));
}

#[test]
fn a_ledger_written_before_there_were_links_is_read() {
    let point = Point { author: NodeId(1), epoch: Epoch(0), number: 1 };
    let id = EffectId { branch: BranchId::TRUNK, point };
    let effect = Effect::intended(key(1), 1);
    let effects = BTreeMap::from([(id, effect.clone())]);
    let ledger: Ledger = read(&bytes(LedgerOfYesterday { effects })).unwrap();
    assert_eq!(ledger.get(&id), Some(&effect));
    assert_eq!(ledger.links(&id), None);
}

#[test]
fn refuses_a_lineage_that_breaks_the_laws_of_lines() {
    let refused = [
        (vec![], 1, "begins with state 1"),
        (vec![segment(1, 0, 1)], 0, "begins with state 1"),
        (vec![segment(1, 0, 2)], 2, "begins with state 1"),
        (vec![segment(1, 0, 1), segment(2, 0, 1)], 1, "are in order"),
        (vec![segment(1, 0, 1), segment(2, 0, 3)], 2, "no segment after its newest state"),
        (vec![segment(1, 0, 1), segment(1, 0, 3)], 4, "neighbouring segments"),
        (vec![segment(1, 1, 1), segment(2, 0, 3), segment(1, 0, 4)], 4, "never resumes a term"),
    ];
    for (segments, number, reason) in refused {
        let error = claim(&segments, number).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(claim(&[], 0).unwrap(), Lineage::default());
}

#[test]
fn heads_that_are_not_maximal_are_read_as_those_that_are() {
    let mut lineage = Lineage::default();
    lineage.extend(NodeId(1), Epoch(0));
    let old = Head { lineage: lineage.clone(), progress: 0, origin: None };
    lineage.extend(NodeId(1), Epoch(0));
    let new = Head { lineage, progress: 1, origin: None };
    let branches = BTreeMap::from([(BranchId::TRUNK, vec![old, new.clone()])]);
    let heads: Heads = read(&bytes([branches])).unwrap();
    assert_eq!(heads.of(BranchId::TRUNK).collect::<Vec<_>>(), [&new]);
}

#[test]
fn a_line_of_more_states_than_can_be_counted_on_from_is_refused() {
    let mut line = Lineage::default();
    let most = NonZeroU64::new(u64::MAX / 2).unwrap();
    line.extend_by(NodeId(1), Epoch(1), most);
    assert_eq!(read::<Lineage>(&bytes(&line)).unwrap(), line);
    assert!(!line.can_extend_by(&[(NodeId(1), Epoch(1), NonZeroU64::MIN)]));
    line.extend(NodeId(1), Epoch(1));
    assert!(read::<Lineage>(&bytes(&line)).is_err());
}
