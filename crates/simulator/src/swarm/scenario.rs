//! One world of a swarm: everything it is made of, drawn from a seed.
//!
//! Options, faults and what happens in the world are drawn apart from each other, and whatever is
//! asked for is drawn nevertheless, so that asking for what was drawn, or leaving a fault out, changes
//! nothing else.

use std::time::Duration;

use outlast_engine::{Acknowledge, Strategy, Survival};

use super::Workload;
use crate::faults::{FaultPlan, aim, generate, wish};
use crate::{Fault, FaultKind, Latency, NetworkOptions, Random, WorldOptions};

/// The strategies that are drawn when none is asked for.
const STRATEGIES: [Strategy; 5] = [
    Strategy::None,
    Strategy::Passive,
    Strategy::Active,
    Strategy::PartitionTolerant,
    Strategy::PartitionTolerant,
];

/// For how long executions may start and faults begin: short, so that faults meet work, or long.
const WINDOWS: [Duration; 3] =
    [Duration::from_millis(400), Duration::from_millis(1_500), Duration::from_secs(6)];

/// How many executions there are at most.
const EXECUTIONS_MAX: u64 = 4;

/// In how many worlds of a thousand a flow is drawn that came in a later wave than the first one, and
/// what that is drawn from besides the seed.
const WAVES: [(u64, u64); 4] = [(300, 4), (120, 9), (80, 12), (100, 15)];

const NETWORKS: [Latency; 5] = [
    Latency::Constant(500),
    Latency::Uniform(200, 800),
    Latency::Exponential(200, 1_000),
    Latency::Uniform(5_000, 50_000),
    Latency::Exponential(1_000, 20_000),
];

const SYNCS: [Latency; 3] =
    [Latency::Uniform(100, 2_000), Latency::Constant(1_000), Latency::Exponential(500, 3_000)];

const SERVICES: [Latency; 4] = [
    Latency::Uniform(100, 20_000),
    Latency::Constant(5_000),
    Latency::Exponential(1_000, 50_000),
    Latency::Exponential(20_000, 200_000),
];

/// What is asked for; everything else is drawn.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// How many nodes.
    pub nodes: Option<usize>,
    /// How executions survive.
    pub strategy: Option<Strategy>,
    /// How many replicas.
    pub replicas: Option<usize>,
    /// How many votes make a primary.
    pub votes: Option<u16>,
    /// What must be known where before a call leaves.
    pub acknowledge: Option<Acknowledge>,
    /// What undoing may cost before a primary without a majority pauses; the inner nothing is no
    /// bound.
    pub budget: Option<Option<f64>>,
    /// Whether pivots do not wait for a decision on whose line counts.
    pub pivots_anywhere: Option<bool>,
    /// Which kinds of faults may come.
    pub kinds: Option<Vec<FaultKind>>,
    /// Exactly these faults and no others.
    pub faults: Option<Vec<Fault>>,
    /// Whether nodes find out by gossip who is there.
    pub gossip: Option<bool>,
    /// How long a message between nodes takes.
    pub latency: Option<Latency>,
    /// How long a call takes to its service, and its answer back.
    pub service_latency: Option<Latency>,
    /// How far clocks are off at most, in microseconds, to either side.
    pub skew: Option<u64>,
    /// Whether services know no keys.
    pub keyless: Option<bool>,
    /// How many executions there are.
    pub executions: Option<usize>,
}

/// One world of a swarm.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The flow, by its name.
    pub flow: String,
    /// How executions survive.
    pub survival: Survival,
    /// When each execution starts.
    pub delays: Vec<Duration>,
    /// What the world is like.
    pub options: WorldOptions,
}

impl Scenario {
    /// Draws a world for a seed.
    pub fn draw(seed: u64, wanted: &Wanted, flows: &[Workload]) -> Self {
        let mut random = Random::apart(seed, 1);
        let flow = draw_flow(seed, &mut random, flows).told_of_keys(wanted.keyless, flows);
        let drawn = *random.pick(&STRATEGIES);
        let strategy = wanted.strategy.unwrap_or(drawn);
        let least = if strategy == Strategy::None { 1 } else { 2 };
        let drawn = usize::try_from(random.between(least, 5)).unwrap_or(1);
        let nodes = wanted.nodes.unwrap_or(drawn).clamp(1, 64);
        // While nodes join, an id may fall to others from one start to the next (docs/simulator.md).
        let joins = draw_gossip(seed, wanted, nodes);
        let replicas = if joins { nodes } else { draw_replicas(seed, nodes) };
        let mut survival = draw_survival(&mut random, wanted, strategy, (nodes, replicas));
        survival.budget = draw_budget(seed, wanted, strategy);
        survival.acknowledge = draw_acknowledge(seed, wanted, &survival);
        survival.pivots_anywhere = draw_pivots(seed, wanted, &survival);
        let executions = random.between(1, EXECUTIONS_MAX);
        let executions = wanted.executions.map_or(executions, |count| count.clamp(1, 200) as u64);
        let window = *random.pick(&WINDOWS);
        let most = u64::try_from(window.as_micros()).unwrap_or(0);
        let delay = |_| Duration::from_micros(random.between(0, most));
        let delays = (0..executions).map(delay).collect();
        let calm = is_in_peace(seed, wanted);
        let mut options = draw_options(&mut random, calm);
        options.seed = seed;
        options.nodes = nodes;
        options.deduplicating = !wanted.keyless.unwrap_or(flow.keyless);
        options.network.latency = wanted.latency.unwrap_or(options.network.latency);
        options.service = wanted.service_latency.unwrap_or(options.service);
        options.skew = wanted.skew.unwrap_or(options.skew);
        options.gossip = draw_gossip(seed, wanted, nodes);
        options.faults = draw_faults(seed, wanted, &survival, (nodes, window, executions));
        Self { flow: flow.name.clone(), survival, delays, options }
    }
}

/// Draws a flow. Those that came later take the place of a share of the others.
fn draw_flow<'a>(seed: u64, random: &mut Random, flows: &'a [Workload]) -> &'a Workload {
    let of_wave = |wave: usize| flows.iter().filter(move |flow| flow.wave == wave);
    let first: Vec<_> = of_wave(0).collect();
    let mut drawn = first.get(random.index(first.len().max(1))).copied();
    for (wave, (share, stream)) in (1..).zip(WAVES) {
        let late: Vec<_> = of_wave(wave).collect();
        let mut apart = Random::apart(seed, stream);
        let is_late = drawn.is_none() || apart.happens(share);
        if is_late && !late.is_empty() {
            drawn = Some(late[apart.index(late.len())]);
        }
    }
    drawn.expect("there is something to run")
}

/// How many nodes hold an execution: often all of them, else at least two.
fn draw_replicas(seed: u64, nodes: usize) -> usize {
    let mut random = Random::apart(seed, 8);
    let all = random.happens(500);
    let fewer = random.between(2, nodes.max(2) as u64);
    if all { nodes } else { usize::try_from(fewer).unwrap_or(nodes) }
}

fn draw_survival(
    random: &mut Random,
    wanted: &Wanted,
    strategy: Strategy,
    (nodes, replicas): (usize, usize),
) -> Survival {
    let replicas = wanted.replicas.unwrap_or(replicas);
    let mut survival = Survival::new(strategy, replicas.clamp(1, nodes));
    let votes = u16::try_from(random.between(1, u64::from(survival.replicas / 2 + 1))).unwrap_or(1);
    if strategy == Strategy::PartitionTolerant {
        survival.votes = wanted.votes.unwrap_or(votes).clamp(1, survival.replicas / 2 + 1);
    }
    survival
}

/// In every third world of several nodes they find out by gossip who is there.
fn draw_gossip(seed: u64, wanted: &Wanted, nodes: usize) -> bool {
    let drawn = Random::apart(seed, 6).happens(333);
    wanted.gossip.unwrap_or(drawn) && 1 < nodes
}

/// Every third partition-tolerant execution has a budget, small enough to be used up.
fn draw_budget(seed: u64, wanted: &Wanted, strategy: Strategy) -> Option<f64> {
    let mut random = Random::apart(seed, 4);
    let drawn = random.happens(333).then(|| random.between(0, 3) as f64);
    let drawn = drawn.filter(|_| strategy == Strategy::PartitionTolerant);
    wanted.budget.unwrap_or(drawn)
}

/// In every fourth world a primary waits for acknowledgements where it usually does not, or the other way
/// round.
fn draw_acknowledge(seed: u64, wanted: &Wanted, survival: &Survival) -> Acknowledge {
    let usual = survival.acknowledge;
    let is_unusual = Random::apart(seed, 10).happens(250);
    let elects = matches!(survival.strategy, Strategy::Passive | Strategy::PartitionTolerant);
    match wanted.acknowledge {
        _ if !elects => usual,
        Some(wanted) => wanted,
        None if !is_unusual => usual,
        None if usual == Acknowledge::None => Acknowledge::Majority,
        None => Acknowledge::None,
    }
}

/// In one world of replicas in seven pivots wait for nobody.
fn draw_pivots(seed: u64, wanted: &Wanted, survival: &Survival) -> bool {
    let drawn = Random::apart(seed, 11).happens(150);
    survival.is_replicated() && wanted.pivots_anywhere.unwrap_or(drawn)
}

/// Draws what a world is like; in a calm one nothing is slow or lost.
fn draw_options(random: &mut Random, calm: bool) -> WorldOptions {
    let networks = if calm { &NETWORKS[..2] } else { &NETWORKS[..] };
    let network = NetworkOptions {
        latency: *random.pick(networks),
        lost_per_mille: *random.pick(if calm { &[0] } else { &[0, 0, 0, 5, 20] }),
        doubled_per_mille: *random.pick(if calm { &[0] } else { &[0, 0, 10] }),
        reordered_per_mille: *random.pick(if calm { &[0] } else { &[0, 0, 50] }),
        bytes_per_second: *random.pick(if calm { &[0] } else { &[0, 0, 1_000_000] }),
    };
    WorldOptions {
        network,
        sync: *random.pick(&SYNCS),
        service: *random.pick(&SERVICES),
        skew: *random.pick(if calm { &[0] } else { &[0, 1_000, 5_000_000] }),
        snapshot_every: *random.pick(&[0, 3, 20]),
        awake_max: *random.pick(&[2, 64]),
        invariants_every: if cfg!(debug_assertions) { 61 } else { 0 },
        trace: false,
        ..WorldOptions::default()
    }
}

/// Whether nothing goes wrong: if that is asked for, and in one world in ten.
fn is_in_peace(seed: u64, wanted: &Wanted) -> bool {
    wanted.kinds.as_ref().map_or_else(|| Random::apart(seed, 3).happens(100), Vec::is_empty)
}

fn draw_faults(
    seed: u64,
    wanted: &Wanted,
    survival: &Survival,
    (nodes, window, executions): (usize, Duration, u64),
) -> Vec<Fault> {
    if let Some(faults) = &wanted.faults {
        return faults.clone();
    }
    let mut random = Random::apart(seed, 2);
    let all = wanted.kinds.clone().unwrap_or_else(|| FaultKind::ALL.to_vec());
    let all: Vec<_> = all.into_iter().filter(|kind| !kind.is_drawn_apart()).collect();
    if is_in_peace(seed, wanted) {
        return Vec::new();
    }
    // Only some things go wrong in each world: loud faults would hide the quiet ones.
    let share = *random.pick(&[150, 400, 1000]);
    let mut kinds: Vec<_> = all.iter().copied().filter(|_| random.happens(share)).collect();
    if kinds.is_empty() && !all.is_empty() {
        kinds.push(*random.pick(&all));
    }
    let disks_max = disks_lost_at_most(seed, survival);
    let faults_max = random.between(1, 10);
    let mut faults =
        generate(&mut random, &FaultPlan { kinds, nodes, faults_max, window, disks_max });
    faults.extend(draw_aim(seed, wanted, survival));
    faults.extend(draw_stop(seed, wanted, nodes));
    faults.extend(draw_unread(seed, wanted, nodes, window));
    faults.extend(draw_wish(seed, wanted, window, executions));
    faults.sort_by_key(|fault| (fault.at, fault.kind));
    faults
}

/// How many disks may be lost for good: one, if a majority is left to decide, and whoever was told that an
/// execution is started was told by more than one disk; in every sixth world of those all but one.
fn disks_lost_at_most(seed: u64, survival: &Survival) -> usize {
    let copied = survival.acknowledge == Acknowledge::Majority || 2 <= survival.votes;
    match survival.is_replicated() {
        false => 1,
        true if survival.replicas < 3 || !copied => 0,
        true if Random::apart(seed, 17).happens(167) => usize::from(survival.replicas) - 1,
        true => 1,
    }
}

/// In every second world of replicas a fault is aimed at a phase of an execution's end, which chance
/// alone hardly meets.
fn draw_aim(seed: u64, wanted: &Wanted, survival: &Survival) -> Option<Fault> {
    let kinds = wanted.kinds.as_deref().unwrap_or(&FaultKind::AIMED);
    let kinds: Vec<_> = kinds.iter().copied().filter(|kind| kind.aims_at().is_some()).collect();
    let mut random = Random::apart(seed, 5);
    let aims = random.happens(500) && survival.is_replicated() && !kinds.is_empty();
    aims.then(|| aim(&mut random, &kinds))
}

/// In every fourth world of several nodes one stops in good order and comes back.
fn draw_stop(seed: u64, wanted: &Wanted, nodes: usize) -> Option<Fault> {
    let kinds = wanted.kinds.as_deref().unwrap_or(&FaultKind::ALL);
    let mut random = Random::apart(seed, 7);
    let stops = random.happens(250) && 1 < nodes && kinds.contains(&FaultKind::Stop);
    let at = Duration::from_micros(random.between(0, 3_000_000));
    let duration = Duration::from_micros(random.between(50_000, 10_000_000));
    let nodes = 1 << random.index(nodes);
    stops.then_some(Fault { kind: FaultKind::Stop, at, duration, nodes, amount: 0 })
}

/// In every sixth world a disk fails to write or to read. What cannot be read is missed by whoever comes
/// back, so in every second of these the node dies shortly before or after.
fn draw_unread(seed: u64, wanted: &Wanted, nodes: usize, window: Duration) -> Vec<Fault> {
    let kinds = wanted.kinds.as_deref().unwrap_or(&FaultKind::UNREAD);
    let kinds: Vec<_> =
        kinds.iter().copied().filter(|kind| FaultKind::UNREAD.contains(kind)).collect();
    let mut random = Random::apart(seed, 18);
    if !random.happens(167) || kinds.is_empty() {
        return Vec::new();
    }
    let kind = *random.pick(&kinds);
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let at = Duration::from_micros(random.between(0, micros(window)));
    let duration = Duration::from_micros(random.between(50_000, 10_000_000));
    let nodes = 1 << random.index(nodes);
    let fails = Fault { kind, at, duration, nodes, amount: 0 };
    let near = at + Duration::from_micros(random.between(0, 200_000));
    let dies = kind == FaultKind::ReadError && random.happens(500);
    let dies = dies && wanted.kinds.as_ref().is_none_or(|it| it.contains(&FaultKind::Crash));
    let back = Duration::from_micros(random.between(1_000, 1_000_000));
    let kind = FaultKind::Crash;
    let crash = Fault { kind, at: near, duration: back, nodes, amount: 0 };
    std::iter::once(fails).chain(dies.then_some(crash)).collect()
}

/// In one world of eight somebody stops an execution, rolls it back or holds it; in every second one if
/// that is among what is asked for.
fn draw_wish(seed: u64, wanted: &Wanted, window: Duration, executions: u64) -> Option<Fault> {
    let kinds = wanted.kinds.as_deref().unwrap_or(&FaultKind::WISHES);
    let kinds: Vec<_> =
        kinds.iter().copied().filter(|kind| FaultKind::WISHES.contains(kind)).collect();
    let mut random = Random::apart(seed, 13);
    let share = if wanted.kinds.is_some() { 500 } else { 125 };
    let wishes = random.happens(share) && !kinds.is_empty();
    wishes.then(|| wish(&mut random, &kinds, window, executions))
}
