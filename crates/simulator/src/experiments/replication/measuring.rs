//! One execution in one world, and what is read off it.

use std::collections::BTreeSet;
use std::time::Duration;

use outlast_engine::Survival;

use super::workload::{ACTIVITIES, EXECUTION, Stage, Workload, activity_of};
use crate::{Fault, Latency, World, WorldOptions};

/// How long a client waits for a node before it asks another how the execution ended.
const CLIENT_PATIENCE: Duration = Duration::from_millis(500);

/// How often it is looked whether everything has settled after the end.
const LOOK: Duration = Duration::from_millis(250);

/// How many looks in a row must find nobody executing, and nobody cut off, until nobody will.
const QUIET: u32 = 4;

/// How many if someone is cut off: longer than any election takes.
const QUIET_WHEN_CUT: u32 = 40;

/// How long it may take at most after the last failure until everything has settled.
const SETTLING: Duration = Duration::from_secs(600);

/// What one execution took.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    /// From the start to the decided result at the client.
    pub execution_time: Duration,
    /// How much of that there was no progress: what is left when every activity counts once, however often
    /// it was executed. Whoever does again what another has done makes none.
    pub unavailable: Duration,
    /// What undoing cost, in per cent of undoing the whole workflow once.
    pub compensation_percent: f64,
    /// What waits for a person.
    pub parked: u64,
    /// What must not be.
    pub finding: Option<String>,
}

/// Runs one execution to its end and until everything that has to be undone is undone.
pub(super) fn measure(
    seed: u64,
    stage: &Stage,
    workload: &Workload,
    survival: Survival,
    faults: Vec<Fault>,
) -> Measured {
    let options = WorldOptions {
        seed,
        nodes: usize::from(survival.replicas),
        faults,
        service: Latency::Uniform(200, 800),
        work: workload.work(),
        client_patience: CLIENT_PATIENCE,
        // Every execution of an activity is an effect. One node alone is not asked to undo any.
        deduplicating: !survival.is_replicated(),
        awake_max: usize::MAX,
        invariants_every: 0,
        trace: false,
        reports: false,
        ..WorldOptions::default()
    };
    let mut world = World::new(options, stage.plan(survival));
    let execution_time = run_to_the_end(&mut world);
    let unavailable = execution_time.saturating_sub(workload.length());
    let mut measured = Measured { execution_time, unavailable, ..Measured::default() };
    settle(&mut world);
    let finding = world.finding().map(str::to_owned);
    measured.finding = finding.or_else(|| unsound(&world));
    measured.parked = world
        .machines
        .iter()
        .filter_map(|machine| machine.node.engine())
        .map(|engine| engine.counters().parked)
        .sum();
    measured.compensation_percent = workload.percent(undone(&world).into_iter());
    measured
}

/// How long it takes until the client knows the result.
fn run_to_the_end(world: &mut World) -> Duration {
    while !world.client.has_defined() && world.step() {}
    let start = world.elapsed();
    while !world.client.is_content() && world.finding().is_none() && world.step() {}
    world.elapsed() - start
}

/// Runs until nobody holds the execution any more.
///
/// Whoever is cut off may go on executing, so partitions last as long as they do, unless nobody has
/// executed anything for longer than an election takes: then nobody will before they end. A replica
/// that is down does nothing until it is back, when the others tell it at once what was decided: that
/// is not waited for once nobody executes anything any more.
fn settle(world: &mut World) {
    let last = world.options().faults.iter().map(Fault::ends).max().unwrap_or_default();
    let until = last.max(world.elapsed()) + SETTLING;
    let mut quiet = 0;
    while !world.is_settled() && world.finding().is_none() && world.elapsed() < until {
        quiet = if world.is_executing() { 0 } else { quiet + 1 };
        let enough = if world.is_cut() { QUIET_WHEN_CUT } else { QUIET };
        if enough <= quiet {
            world.lift_faults();
        }
        world.run_for(LOOK);
    }
}

/// The activities that were undone, each as often as it was; asking for one undo again is not
/// another.
fn undone(world: &World) -> Vec<usize> {
    let ledger = &world.services.ledger;
    let mut keys = BTreeSet::new();
    let undos = ledger.of(EXECUTION).filter(|act| act.undo && keys.insert(act.key));
    undos.filter_map(|act| activity_of(ledger.operation(act.name))).collect()
}

/// What is wrong at the end: the execution has ended once, and stands once.
fn unsound(world: &World) -> Option<String> {
    if !world.client.is_content() {
        return Some("the client was not told how the execution ended".to_owned());
    }
    if !world.is_settled() {
        return Some("someone still holds the execution".to_owned());
    }
    let ledger = &world.services.ledger;
    let mut standing = [0_u32; ACTIVITIES];
    for act in ledger.of(EXECUTION).filter(|act| !act.undo && act.undone_by.is_none()) {
        if let Some(activity) = activity_of(ledger.operation(act.name)) {
            standing[activity] += 1;
        }
    }
    // An undo that came before what it undoes leaves what nobody can tell from a run.
    let most = if ledger.unpaired == 0 { 1 } else { u32::MAX };
    let wrong = standing.iter().position(|count| !(1..=most).contains(count))?;
    Some(format!("activity {wrong} stands {} times", standing[wrong]))
}
