//! Worlds under random faults: whatever happened, afterwards one run counts, and all the rest is
//! undone.

use std::time::Duration;

use outlast_lineage::NodeId;

use super::super::{Mode, Replica, Situation};
use super::flow::{Activity, Plan};
use super::world::{Dice, Terms, World};

/// How many worlds the test run looks at; `REPLICA_WORLDS` asks for more, `REPLICA_SEED` for one.
const WORLDS: u64 = 1000;
/// How long after the last fault everything must be settled.
const BOUND: u64 = 60_000;

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds() -> std::ops::Range<u64> {
    match environment("REPLICA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..environment("REPLICA_WORLDS").unwrap_or(WORLDS),
    }
}

/// What is drawn for one world.
fn terms(dice: &mut Dice) -> Terms {
    let replicas = 3 + dice.below(3);
    let majority = replicas / 2 + 1;
    let kind = dice.below(3);
    let layers = (0..2 + dice.below(5))
        .map(|_| {
            let width = if dice.percent(25) { 2 } else { 1 };
            (0..width)
                .map(|_| {
                    let pivot = dice.percent(10);
                    let deduplicated = pivot || kind == 0 || (kind == 1 && dice.percent(50));
                    Activity { deduplicated, pivot }
                })
                .collect()
        })
        .collect();
    let mode = if dice.percent(12) { Mode::Active } else { Mode::Elected };
    Terms {
        replicas,
        mode,
        votes: 1 + dice.below(majority) as usize,
        acknowledge: dice.percent(35),
        budget: dice.percent(25).then(|| dice.below(4) as f64 * super::flow::COST),
        plan: Plan { layers, ..Plan::default() },
        work: [50, 400, 1500][dice.below(3) as usize],
        delay: [5, 30, 120][dice.below(3) as usize],
        linger: Duration::from_millis([0, 10, 200, 2000][dice.below(4) as usize]),
    }
}

fn disturb(world: &mut World) {
    let nodes = world.nodes();
    let some = |world: &mut World| nodes[world.dice.below(nodes.len() as u64) as usize];
    let one = some(world);
    match world.dice.below(8) {
        0 | 1 => {
            let wait = 10 + world.dice.below(2000);
            world.crash_for(one, wait);
        }
        2 | 3 => split(world),
        4 => {
            let other = some(world);
            world.cut.insert((one, other));
        }
        5 => world.heal(),
        6 => {
            let other = some(world);
            if one != other {
                world.suspect(one, other, true);
            }
        }
        _ => {
            world.loss = world.dice.below(30);
            world.doubling = world.dice.below(30);
        }
    }
}

fn split(world: &mut World) {
    let groups = 2 + world.dice.below(2);
    let mut sides: Vec<Vec<u64>> = vec![Vec::new(); groups as usize];
    for node in world.nodes() {
        let side = world.dice.below(groups);
        sides[side as usize].push(node.0);
    }
    let sides: Vec<&[u64]> = sides.iter().map(Vec::as_slice).collect();
    world.partition(&sides);
}

fn calm(world: &mut World) {
    (world.loss, world.doubling) = (0, 0);
    for node in world.nodes() {
        world.restart(node);
    }
}

/// A partition that lasts: each side comes to at most one primary.
fn last_partition(world: &mut World) {
    split(world);
    calm(world);
    world.run(10_000);
    if world.terms.mode == Mode::Active || !world.decided.is_empty() {
        return;
    }
    let primaries: Vec<NodeId> = world.primaries().into_iter().map(NodeId).collect();
    for one in &primaries {
        let beside = primaries.iter().filter(|other| world.hear(*one, **other)).count();
        assert_eq!(beside, 1, "one primary in each partition, not {primaries:?}");
    }
    let needed = Replica::new(world.terms.setup(NodeId(1))).votes_needed();
    for node in world.nodes() {
        let side = world.nodes().into_iter().filter(|other| world.hear(node, *other)).count();
        let led = primaries.iter().any(|primary| world.hear(node, *primary));
        assert!(led || side < needed, "a side with enough votes goes on");
    }
}

/// Everyone holds the decided run, and then one of them is never seen again.
fn lose_one_for_good(world: &mut World) {
    let concluded = |world: &World| {
        world.owners().count() == world.terms.replicas as usize
            && world.owners().all(|owner| owner.replica.holds_the_end())
    };
    assert!(world.run_until(BOUND, concluded), "everyone comes to hold the decided run");
    let nodes = world.nodes();
    let lost = nodes[world.dice.below(nodes.len() as u64) as usize];
    world.fence(lost);
}

fn assert_settled(world: &mut World) {
    let settled = |world: &World| {
        let present = world.owners().count() + world.gone.len();
        present == world.terms.replicas as usize
            && world.owners().all(|owner| owner.replica.standing().settled)
    };
    let done = world.run_until(BOUND, settled);
    assert!(done, "everyone settles once the faults have stopped; decided: {:?}", world.decided);
    let decided = &world.decided.last_key_value().expect("something was decided").1.lineage;
    for owner in world.owners() {
        assert_eq!(owner.replica.head().lineage, *decided, "everyone holds the decided run");
        assert_eq!(owner.concluded, 1, "the end is told once in each life");
    }
    let flow = world.owners().next().expect("someone is left").disk.flow.clone();
    world.provider.assert_net_effects_are_those_of(&flow, &world.gone);
    world.provider.assert_undone_in_order(&world.gone);
}

fn one_world(seed: u64) -> World {
    let mut dice = Dice::new(seed);
    let mut world = World::new(seed, terms(&mut dice));
    for _ in 0..dice.below(20) {
        let pause = 1 + world.dice.below(400);
        world.run(pause);
        disturb(&mut world);
    }
    if dice.percent(40) {
        last_partition(&mut world);
    }
    calm(&mut world);
    world.heal();
    if dice.percent(15) {
        lose_one_for_good(&mut world);
    }
    assert_settled(&mut world);
    let all_deduplicated = world.provider.calls.values().all(|called| called.deduplicated);
    if world.terms.acknowledge && world.terms.mode == Mode::Elected && all_deduplicated {
        assert_eq!(world.provider.undone, [], "who waits for a majority undoes nothing");
    }
    let owners: Vec<_> = world.owners().map(|owner| owner.situations.clone()).collect();
    world.situations.extend(owners.into_iter().flatten());
    world
}

#[test]
fn one_run_counts_and_all_the_rest_is_undone_whatever_happened() {
    let mut seen = std::collections::BTreeSet::new();
    let mut undone = 0;
    for seed in seeds() {
        let world = std::panic::catch_unwind(|| one_world(seed));
        let world = world.unwrap_or_else(|_| panic!("REPLICA_SEED={seed} shows it again"));
        undone += world.provider.undone.len();
        seen.extend(world.situations);
    }
    if environment("REPLICA_SEED").is_none() {
        use Situation::*;
        let rare = [
            Candidacy,
            TooFewVotes,
            Rejected,
            Elected,
            TookOverFurther,
            TookOverWithoutAll,
            StoodDown,
            Tie,
            LineLost,
            LineDecided,
            RunDecided,
            UndoWithheld,
            KeptByKey,
        ];
        for situation in rare {
            assert!(seen.contains(&situation), "no world has seen {situation:?}");
        }
        assert!(0 < undone, "no world had anything to undo");
    }
}

/// So many replicas are lost for good, at any time, that the others are no majority: those that are left come to an
/// end together, and keep or undo all that they know of. Only what they know to be decided must not be lost with the
/// others.
#[test]
fn whoever_is_left_comes_to_an_end_when_most_are_lost_for_good() {
    let (mut worlds, mut without) = (0, 0);
    for seed in seeds() {
        let mut dice = Dice::new(seed);
        let mut world = World::new(seed, terms(&mut dice));
        for _ in 0..dice.below(8) {
            let pause = 1 + world.dice.below(400);
            world.run(pause);
            disturb(&mut world);
        }
        let mut lost = world.nodes();
        let left = 1 + dice.below(lost.len() as u64 / 2);
        for _ in 0..left {
            lost.remove(dice.below(lost.len() as u64) as usize);
        }
        world.fence_most(&lost);
        calm(&mut world);
        world.heal();
        worlds += 1;
        let decided = world.decided.last_key_value().map(|(_, choice)| choice.clone());
        if decided.is_some_and(|choice| !world.owners().any(|owner| owner.replica.holds(&choice))) {
            without += 1;
            continue;
        }
        let settled = |world: &World| {
            world.owners().count() as u64 == left
                && world.owners().all(|owner| owner.replica.standing().settled)
        };
        assert!(world.run_until(BOUND, settled), "REPLICA_SEED={seed}: {:?}", world.decided);
        let heads: Vec<_> = world.owners().map(|owner| &owner.replica.head().lineage).collect();
        assert!(heads.windows(2).all(|two| two[0] == two[1]), "REPLICA_SEED={seed}: {heads:?}");
    }
    assert!(without * 20 <= worlds, "{without} of {worlds} worlds lost what was decided");
}

#[test]
fn nothing_is_compensated_without_faults() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let mut terms = terms(&mut dice);
        (terms.mode, terms.delay) = (Mode::Elected, 30);
        let mut world = World::new(seed, terms);
        assert_settled(&mut world);
        assert_eq!(world.provider.undone, []);
        let calls = world.provider.calls.len();
        assert_eq!(calls, world.owner(1).disk.flow.cells.len(), "each activity is called once");
        assert!(!world.sent.contains_key("RequestVote"), "nobody asks for votes");
    }
}
