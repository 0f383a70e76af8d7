//! Faults drawn from a seed.
//!
//! Often two come close together, for it is the second fault, while the first is being dealt with,
//! that finds most.

use std::time::Duration;

use super::{Fault, FaultKind};
use crate::{Places, Random};

/// For how long a fault waits for what it is aimed at.
const AIMING: Duration = Duration::from_secs(20);

/// What may be drawn.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// The kinds that may come.
    pub kinds: Vec<FaultKind>,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many faults come at most.
    pub faults_max: u64,
    /// When the last one begins at the latest.
    pub window: Duration,
    /// How many disks may be lost.
    pub disks_max: usize,
}

/// Draws faults, in order of time.
pub fn generate(random: &mut Random, plan: &FaultPlan) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    if plan.kinds.is_empty() {
        return faults;
    }
    let wanted = random.between(1, plan.faults_max.max(1));
    let mut disks = 0;
    for _ in 0..wanted {
        let kind = *random.pick(&plan.kinds);
        let near = faults.last().filter(|_| random.happens(400)).cloned();
        let at = match near {
            Some(last) => last.at + Duration::from_micros(random.between(0, 200_000)),
            None => Duration::from_micros(random.between(0, micros(plan.window))),
        };
        let fault = draw(random, kind, at, plan.nodes);
        // A second disk must not be lost before the first node is back and knows everything.
        if kind.loses_a_disk() {
            disks += 1;
            if disks > plan.disks_max {
                continue;
            }
        }
        faults.push(fault);
    }
    faults.sort_by_key(|fault| (fault.at, fault.kind));
    faults
}

/// Draws a fault that is aimed at a phase: it waits for as long as it takes to come to one.
pub(crate) fn aim(random: &mut Random, kinds: &[FaultKind]) -> Fault {
    let (kind, amount) = (*random.pick(kinds), amount(random, 0, 4));
    let at = Duration::from_micros(random.between(0, 200_000));
    Fault { kind, at, duration: AIMING, nodes: 0, amount }
}

/// Draws what somebody asks for while everything else goes on, of one of so many executions.
pub(crate) fn wish(
    random: &mut Random,
    kinds: &[FaultKind],
    window: Duration,
    executions: u64,
) -> Fault {
    let at = Duration::from_micros(random.between(0, micros(window)));
    let kind = *random.pick(kinds);
    let fault = draw(random, kind, at, 1);
    Fault { amount: amount(random, 1, executions), ..fault }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn draw(random: &mut Random, kind: FaultKind, at: Duration, nodes: usize) -> Fault {
    let duration = Duration::from_micros(match random.between(0, 2) {
        0 => random.between(1_000, 200_000),
        1 => random.between(200_000, 3_000_000),
        _ => random.between(3_000_000, 20_000_000),
    });
    let (nodes, amount) = extent(random, kind, nodes);
    Fault { kind, at, duration, nodes, amount }
}

/// Which nodes it befalls, and how much.
fn extent(random: &mut Random, kind: FaultKind, nodes: usize) -> (Places, i64) {
    let one = 1 << random.index(nodes);
    match kind {
        FaultKind::RestartLoop => (one, amount(random, 2, 6)),
        FaultKind::Slow => (one, amount(random, 1_000, 50_000)),
        FaultKind::SlowDisk => (one, amount(random, 10, 300)),
        FaultKind::ClockJump => {
            let by = amount(random, 1_000, 60_000_000);
            (one, if random.happens(500) { by } else { -by })
        }
        FaultKind::Split | FaultKind::OneWay => (side(random, nodes), 0),
        FaultKind::Flap => (side(random, nodes), amount(random, 20_000, 500_000)),
        FaultKind::Bridge => (side(random, nodes), amount(random, 1, nodes as u64)),
        FaultKind::Loss => (0, amount(random, 50, 600)),
        FaultKind::Duplication | FaultKind::Reordering => (0, amount(random, 50, 800)),
        FaultKind::SlowNetwork => (0, amount(random, 5, 500)),
        FaultKind::NarrowNetwork => (0, amount(random, 5_000, 200_000)),
        FaultKind::ServiceErrors => (0, amount(random, 50, 500)),
        FaultKind::LostAnswers => (0, amount(random, 50, 700)),
        FaultKind::SlowServices => (0, amount(random, 5, 200)),
        FaultKind::Outage => (0, 0),
        FaultKind::CrashAgreeing | FaultKind::CrashCompensating | FaultKind::CrashForgetting => {
            (0, amount(random, 0, 4))
        }
        FaultKind::Cancel | FaultKind::Compensate | FaultKind::Suspend => (0, 1),
        _ => (one, 0),
    }
}

fn amount(random: &mut Random, low: u64, high: u64) -> i64 {
    i64::try_from(random.between(low, high)).unwrap_or(i64::MAX)
}

/// Some of the nodes, but not all of them if there are several.
fn side(random: &mut Random, nodes: usize) -> Places {
    let all = u64::MAX >> (64 - nodes);
    random.between(1, all.saturating_sub(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> FaultPlan {
        FaultPlan {
            kinds: FaultKind::ALL.to_vec(),
            nodes: 3,
            faults_max: 12,
            window: Duration::from_secs(5),
            disks_max: 1,
        }
    }

    #[test]
    fn loses_no_more_disks_than_allowed_and_names_only_nodes_there_are() {
        for seed in 0..500 {
            let faults = generate(&mut Random::new(seed), &plan());
            let lost = faults.iter().filter(|fault| fault.kind.loses_a_disk()).count();
            assert!(lost <= 1, "{faults:?}");
            assert!(faults.iter().all(|fault| fault.nodes < 0b1000), "{faults:?}");
            assert!(faults.is_sorted_by_key(|fault| fault.at));
        }
    }

    #[test]
    fn every_kind_comes_up() {
        let drawn: Vec<_> =
            (0..200).flat_map(|seed| generate(&mut Random::new(seed), &plan())).collect();
        for kind in FaultKind::ALL {
            assert!(drawn.iter().any(|fault| fault.kind == kind), "{}", kind.word());
        }
    }
}
