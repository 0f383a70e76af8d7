//! What fails: crashes and partitions at random times, as the paper injects them.

use std::time::Duration;

use super::workload::{self, exponential, unit};
use crate::{Fault, FaultKind, Places, Random};

/// The mean time to recovery.
pub(super) const RECOVERY: Duration = Duration::from_secs(30);

/// Of so many failures one is a partition, the others are crashes.
const FAILURES_PER_PARTITION: usize = 5;

/// By then every node knows the definition, and the execution is asked for.
const START: Duration = Duration::from_millis(50);

/// So many failures at random times while the workflow would run if nothing failed.
pub(super) fn at_random(
    random: &mut Random,
    replicas: usize,
    count: usize,
    length: Duration,
) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::with_capacity(count);
    for at in times(random, count, length) {
        let duration = RECOVERY.mul_f64(exponential(random));
        let fault = if random.index(FAILURES_PER_PARTITION) == 0 {
            let all: Places = (1 << replicas) - 1;
            let side = random.between(1, all - 1);
            fault(FaultKind::Split, at, duration, side)
        } else {
            let place = *random.pick(&places_up(&faults, replicas, at));
            fault(FaultKind::Crash, at, duration, 1 << place)
        };
        faults.push(fault);
    }
    faults
}

/// So many failures of the only node. It cannot fail while it is down, so times are counted while it
/// is up; and a partition, which takes from it everyone it could talk to, is as good as a crash.
pub(super) fn of_one_node(random: &mut Random, count: usize, length: Duration) -> Vec<Fault> {
    let mut down = Duration::ZERO;
    let mut faults = Vec::with_capacity(count);
    for at in times(random, count, length) {
        let duration = RECOVERY.mul_f64(exponential(random));
        faults.push(fault(FaultKind::Crash, at + down, duration, 1));
        down += duration;
    }
    faults
}

/// One partition and one crash, for exactly the time to recovery: the primary is down, and the others
/// are in two groups of the same size, so that nobody can elect another. It is over before the
/// workflow would have ended.
pub(super) fn no_majority(random: &mut Random, replicas: usize, length: Duration) -> Vec<Fault> {
    let primary = workload::first_primary(replicas);
    let mut others: Vec<usize> = (0..replicas).filter(|place| *place != primary).collect();
    let mut side: Places = 0;
    for _ in 0..others.len() / 2 {
        side |= 1 << others.swap_remove(random.index(others.len()));
    }
    let at = START + length.saturating_sub(RECOVERY).mul_f64(unit(random.next()));
    vec![
        fault(FaultKind::Split, at, RECOVERY, side),
        fault(FaultKind::Crash, at, RECOVERY, 1 << primary),
    ]
}

/// Random times while a workflow runs, in order.
fn times(random: &mut Random, count: usize, length: Duration) -> Vec<Duration> {
    let time = |_| START + length.mul_f64(unit(random.next()));
    let mut times: Vec<Duration> = (0..count).map(time).collect();
    times.sort_unstable();
    times
}

/// The places that no crash holds down at a time.
fn places_up(faults: &[Fault], replicas: usize, at: Duration) -> Vec<usize> {
    let holds = |fault: &&Fault| fault.kind == FaultKind::Crash && at <= fault.ends() + RESTART;
    let down = faults.iter().filter(holds).fold(0, |down, fault| down | fault.nodes);
    (0..replicas).filter(|place| down >> place & 1 == 0).collect()
}

/// A node is up again by then after a crash.
const RESTART: Duration = Duration::from_millis(50);

const fn fault(kind: FaultKind, at: Duration, duration: Duration, nodes: Places) -> Fault {
    Fault { kind, at, duration, nodes, amount: 0 }
}
