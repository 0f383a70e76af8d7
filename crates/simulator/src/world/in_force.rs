//! What the faults in force come to. Several of one kind may overlap: of those the one that began last
//! counts, and when it is over, the one before it does again. A node is down for as long as anything
//! keeps it down.

use std::time::Duration;

use super::World;
use crate::{Fault, FaultKind, NetworkOptions};

impl World {
    /// A fault is in force from now on.
    pub(super) fn enters_into_force(&mut self, index: usize) {
        self.in_force.push(index);
    }

    /// A fault is in force no more.
    pub(super) fn leaves_force(&mut self, index: usize) {
        self.in_force.retain(|other| *other != index);
    }

    /// Whether a fault has begun and is not over.
    pub(super) fn is_in_force(&self, index: usize) -> bool {
        self.in_force.contains(&index)
    }

    /// The fault of a kind that counts now.
    fn prevailing(&self, kind: FaultKind) -> Option<&Fault> {
        let mut faults = self.in_force.iter().rev().map(|index| &self.faults[*index]);
        faults.find(|fault| fault.kind == kind)
    }

    /// The fault of a kind that counts at a node now.
    pub(super) fn prevailing_at(&self, kind: FaultKind, place: usize) -> Option<&Fault> {
        let mut faults = self.in_force.iter().rev().map(|index| &self.faults[*index]);
        faults.find(|fault| fault.kind == kind && fault.befalls(place))
    }

    /// Whether something keeps a node down.
    pub(super) fn is_kept_down(&self, place: usize) -> bool {
        let mut faults = self.in_force.iter().map(|index| &self.faults[*index]);
        faults.any(|fault| match fault.kind {
            FaultKind::Outage => true,
            FaultKind::Crash | FaultKind::Stop | FaultKind::BitFlip | FaultKind::LostDisk => {
                fault.befalls(place)
            }
            FaultKind::SyncError => fault.befalls(place) && self.machines[place].sync_failed,
            FaultKind::WriteError => fault.befalls(place) && self.machines[place].write_failed,
            _ => false,
        })
    }

    /// The network is as it usually is, but for what is in force.
    pub(super) fn change_network(&mut self) {
        let usual = &self.options.network;
        let now = |kind, usual| self.prevailing(kind).map_or(usual, amount);
        self.network.options = NetworkOptions {
            latency: usual.latency.times(now(FaultKind::SlowNetwork, 1)),
            lost_per_mille: now(FaultKind::Loss, usual.lost_per_mille),
            doubled_per_mille: now(FaultKind::Duplication, usual.doubled_per_mille),
            reordered_per_mille: now(FaultKind::Reordering, usual.reordered_per_mille),
            bytes_per_second: now(FaultKind::NarrowNetwork, usual.bytes_per_second),
        };
    }

    /// Services are as they usually are, but for what is in force.
    pub(super) fn change_services(&mut self) {
        let now = |kind, usual| self.prevailing(kind).map_or(usual, amount);
        let (errors, times) = (now(FaultKind::ServiceErrors, 0), now(FaultKind::SlowServices, 1));
        self.lost_per_mille = now(FaultKind::LostAnswers, self.options.lost_per_mille);
        self.errors_per_mille = errors;
        self.service = self.options.service.times(times);
    }

    /// A machine is as fast as it usually is, but for what is in force.
    pub(super) fn change_pace(&mut self, place: usize) {
        let now = |kind, usual| self.prevailing_at(kind, place).map_or(usual, amount);
        let (cost, times) = (now(FaultKind::Slow, 0), now(FaultKind::SlowDisk, 1));
        self.machines[place].step_cost = Duration::from_micros(cost);
        self.machines[place].sync_factor = times;
    }
}

fn amount(fault: &Fault) -> u64 {
    u64::try_from(fault.amount).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, WorldOptions};

    /// A world with faults, so many milliseconds after it began.
    fn after(milliseconds: u64, faults: &[&str]) -> World {
        let faults = faults.iter().map(|text| text.parse().unwrap()).collect();
        let options = WorldOptions { nodes: 2, faults, ..WorldOptions::default() };
        let mut world = World::new(options, Plan::default());
        world.run_for(Duration::from_millis(milliseconds));
        world
    }

    #[test]
    fn a_fault_that_ends_leaves_the_others_of_its_kind_in_force() {
        let faults = ["loss@1+9=100", "loss@2+2=300", "slow@1+9:1=50", "slow@2+2:1,2=70"];
        let now = |milliseconds| {
            let world = after(milliseconds, &faults);
            let pace = |place: usize| world.machines[place].step_cost.as_micros();
            (world.network.options.lost_per_mille, pace(0), pace(1))
        };
        assert_eq!(now(1_500), (100, 50, 0));
        assert_eq!(now(3_000), (300, 70, 70));
        assert_eq!(now(5_000), (100, 50, 0));
        assert_eq!(now(11_000), (0, 0, 0));
    }

    #[test]
    fn a_disk_is_full_and_a_clock_stands_still_until_the_last_fault_is_over() {
        let faults =
            ["disk-full@1+9:1", "disk-full@2+1:1", "clock-stall@1+9:1", "clock-stall@2+1:1"];
        let now = |milliseconds| {
            let mut world = after(milliseconds, &faults);
            let now = world.now;
            let shown = world.machines[0].clock.read(now);
            (world.machines[0].is_full, now.since(shown).as_secs())
        };
        assert_eq!(now(5_000), (true, 4));
        assert_eq!(now(12_000), (false, 9));
    }

    #[test]
    fn a_node_is_down_until_nothing_keeps_it_down() {
        let is_up =
            |milliseconds, faults: &[&str]| after(milliseconds, faults).machines[0].node.is_up();
        let crashes = ["crash@1+9:1", "crash@2+1:1", "restart-loop@4+2:1=3"];
        assert!(!is_up(3_500, &crashes) && !is_up(9_000, &crashes) && is_up(10_500, &crashes));
        // Whoever was to come back comes back with the others.
        let outage = ["crash@1+2:1", "outage@2+4"];
        assert!(!is_up(3_500, &outage) && is_up(6_500, &outage));
    }

    #[test]
    fn a_node_whose_sync_failed_is_down_until_that_is_over() {
        let faults = ["sync-error@0+9:1", "crash@2+1:1"];
        let is_up = |milliseconds| after(milliseconds, &faults).machines[0].node.is_up();
        assert!(!is_up(1_000), "its first sync failed");
        assert!(!is_up(4_000) && is_up(9_500));
    }

    #[test]
    fn a_node_whose_write_failed_is_down_until_that_is_over_and_has_lost_what_it_wrote() {
        let faults = ["crash@1+1:1", "write-error@1.5+9:1"];
        let machine = |milliseconds| after(milliseconds, &faults).machines.remove(0);
        let failed = machine(3_000);
        assert!(!failed.node.is_up(), "the first write of its second life failed");
        let kept = failed.node.disk.clone().records().len() as u64;
        assert!(kept < failed.node.records, "{kept} of {} are on its disk", failed.node.records);
        assert!(!machine(10_400).node.is_up() && machine(11_000).node.is_up());
    }

    /// It is up while nobody asks it to read anything; a crash is over before what it left can be read.
    #[test]
    fn a_node_that_cannot_read_its_journal_does_not_come_up_before_it_can() {
        let faults = ["read-error@1+9:1", "crash@2+1:1"];
        let is_up = |milliseconds| after(milliseconds, &faults).machines[0].node.is_up();
        assert!(is_up(1_900) && !is_up(9_900) && is_up(10_500));
        assert!(after(4_000, &faults).trace.contains("node 1  cannot read its journal"));
        let faults = ["crash@1+1:1", "read-error@3+1:1"];
        assert!(after(5_000, &faults).machines[0].node.is_up(), "it could when it came up");
    }

    #[test]
    fn faults_that_are_lifted_do_nothing_more() {
        let mut world = after(1_500, &["flap@1+9:1=300000", "restart-loop@1+9:2=9", "pause@1+9:1"]);
        world.lift_faults();
        world.run_for(Duration::from_millis(200));
        for _ in 0..50 {
            let up = world.machines[1].node.is_up();
            assert!(up && !world.is_cut() && world.machines[0].paused == 0);
            world.run_for(Duration::from_millis(200));
        }
    }

    /// Whoever asked for rot and sees only a crash would take it for rot that did no harm.
    #[test]
    fn a_disk_that_has_nothing_to_rot_is_said_to_have_nothing() {
        let world = after(3_000, &["bit-flip@1+1:2"]);
        assert!(world.trace.contains("node 2  has no record that another follows: nothing rots"));
    }
}
