//! Laws of lines and of merging, on random worlds of replicas, against twins that keep everything.

use std::collections::BTreeSet;

use crate::world::{BRANCHES, CASES, World, copies, happenings};
use outlast_lineage::{BranchId, Epoch, Knowledge, Lineage, NodeId, Order, Point};
use proptest::prelude::*;

/// What `compare` means, on full lists of points.
fn naive_order(left: &[Point], right: &[Point]) -> Order {
    match (right.starts_with(left), left.starts_with(right)) {
        (true, true) => Order::Equal,
        (true, false) => Order::Before,
        (false, true) => Order::After,
        (false, false) => Order::Clash,
    }
}

fn merged(parts: &[&Knowledge]) -> Knowledge {
    let mut all = Knowledge::default();
    parts.iter().for_each(|part| all.merge(part));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn no_state_is_produced_twice(happenings in happenings()) {
        let world = World::after(&happenings);
        let distinct: BTreeSet<_> = world.produced.iter().collect();
        prop_assert_eq!(distinct.len(), world.produced.len());
    }

    #[test]
    fn comparing_lines_is_comparing_their_points(happenings in happenings()) {
        let world = World::after(&happenings);
        for left in &world.snapshots {
            for right in &world.snapshots {
                let order = left.lineage.compare(&right.lineage);
                prop_assert_eq!(order, naive_order(&left.points, &right.points));
                prop_assert_eq!(order.reversed(), right.lineage.compare(&left.lineage));
                let common = left.points.iter().zip(&right.points)
                    .take_while(|(one, other)| one == other).count();
                prop_assert_eq!(left.lineage.common_prefix(&right.lineage), common as u64);
            }
        }
    }

    #[test]
    fn a_line_contains_its_points_and_no_others(happenings in happenings()) {
        let world = World::after(&happenings);
        for line in &world.snapshots {
            for state in &world.produced {
                let expected = line.points.contains(&state.point);
                prop_assert_eq!(line.lineage.contains(&state.point), expected);
            }
            for number in 0..=line.lineage.number() {
                let prefix = line.lineage.prefix(number);
                prop_assert!(line.lineage.extends(&prefix));
                prop_assert_eq!(prefix.head(), line.lineage.at(number));
            }
        }
    }

    #[test]
    fn merging_is_commutative_associative_and_idempotent(happenings in happenings()) {
        let world = World::after(&happenings);
        let copies = copies(&world);
        for a in &copies {
            prop_assert_eq!(&merged(&[a, a]), a);
            for b in &copies {
                prop_assert_eq!(merged(&[a, b]), merged(&[b, a]));
                for c in &copies {
                    let left = merged(&[&merged(&[a, b]), c]);
                    let right = merged(&[a, &merged(&[b, c])]);
                    prop_assert_eq!(left, right);
                }
            }
        }
    }

    #[test]
    fn merging_keeps_exactly_the_maximal_heads(happenings in happenings()) {
        let world = World::after(&happenings);
        let all = world.knowledge();
        for branch in BRANCHES {
            let known: BTreeSet<_> =
                world.nodes.iter().flat_map(|node| node.knowledge.heads.of(branch)).collect();
            let maximal: BTreeSet<_> = known.iter().copied()
                .filter(|head| known.iter().all(|other| head.compare(other) != Order::Before))
                .collect();
            let kept: BTreeSet<_> = all.heads.of(branch).collect();
            prop_assert_eq!(kept, maximal);
        }
    }

    #[test]
    fn merging_loses_no_entry_and_lowers_none(happenings in happenings()) {
        let world = World::after(&happenings);
        let all = world.knowledge();
        for node in &world.nodes {
            for (id, effect) in node.knowledge.ledger.iter() {
                let merged = all.ledger.get(id).expect("no entry is lost");
                prop_assert!(effect.state <= merged.state);
                prop_assert!(effect.kept <= merged.kept);
                if let (Some(links), Some(merged)) =
                    (node.knowledge.ledger.links(id), all.ledger.links(id))
                {
                    prop_assert!(links.committed.is_subset(&merged.committed));
                    prop_assert!(links.withdrawn.is_subset(&merged.withdrawn));
                }
            }
        }
    }

    #[test]
    fn all_who_know_the_same_pick_the_same(
        happenings in happenings(),
        order in Just([0, 1, 2, 3]).prop_shuffle(),
    ) {
        let world = World::after(&happenings);
        let copies = copies(&world);
        let shuffled = merged(&order.map(|index| &copies[index]));
        prop_assert_eq!(shuffled.heads.pick(&[]), world.knowledge().heads.pick(&[]));
    }

    #[test]
    fn the_pick_has_come_furthest_and_hangs_together(happenings in happenings()) {
        let world = World::after(&happenings);
        let heads = world.knowledge().heads;
        let decision = heads.pick(&[]);
        for (branch, known) in heads.iter() {
            let eligible: Vec<_> = known.iter()
                .filter(|head| head.origin.is_none_or(|origin| decision.contains(&origin)))
                .collect();
            let Some(line) = decision.line(branch) else {
                prop_assert!(eligible.is_empty(), "a branch of a chosen line was left out");
                continue;
            };
            let chosen = eligible.iter().find(|head| head.lineage == *line)
                .expect("a branch is chosen from those that hang on a chosen line");
            let rank = |lineage: &Lineage| lineage.head().map(|point| point.author);
            for other in &eligible {
                let ours = (chosen.progress, rank(&chosen.lineage));
                prop_assert!((other.progress, rank(&other.lineage)) <= ours);
            }
        }
        prop_assert_eq!(decision.line(BranchId::TRUNK).is_some(), heads.iter().next().is_some());
    }
}

#[test]
fn equal_progress_goes_to_the_higher_author() {
    let head = |author| {
        let mut lineage = Lineage::default();
        lineage.extend(NodeId(author), Epoch(0));
        outlast_lineage::Head { lineage, progress: 1, origin: None }
    };
    let mut heads = outlast_lineage::Heads::default();
    [2, 3, 1].into_iter().for_each(|author| heads.insert(BranchId::TRUNK, head(author)));
    assert!(heads.clash(BranchId::TRUNK));
    let decision = heads.pick(&[]);
    let line = decision.line(BranchId::TRUNK).expect("there are heads");
    assert_eq!(line.head().map(|point| point.author), Some(NodeId(3)));
}

#[test]
fn refuses_to_resume_an_earlier_term() {
    let mut lineage = Lineage::default();
    lineage.extend(NodeId(1), Epoch(5));
    lineage.extend(NodeId(2), Epoch(0));
    let resumed = std::panic::catch_unwind(move || lineage.extend(NodeId(1), Epoch(4)));
    assert!(resumed.is_err());
}
