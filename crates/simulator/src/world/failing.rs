//! Faults: how they begin and end.

use std::time::Duration;

use outlast_engine::Input;
use outlast_lineage::NodeId;

use super::occurrence::Occurrence;
use super::{Situation, World};
use crate::{Fault, FaultKind, Places};

impl World {
    /// A fault begins.
    pub(super) fn fault_begins(&mut self, index: usize) {
        let fault = self.faults[index].clone();
        self.say(None, format_args!("fault {fault} begins"));
        self.has_failed = true;
        self.enters_into_force(index);
        match fault.kind {
            FaultKind::Crash => self.on_each(&fault, |world, place| world.crash(place, None)),
            FaultKind::Stop => self.on_each(&fault, Self::stop),
            FaultKind::RestartLoop => self.on_each(&fault, |world, place| {
                world.dies_again(index, place, fault.amount);
            }),
            FaultKind::Outage => (0..self.machines.len()).for_each(|place| self.crash(place, None)),
            FaultKind::Pause => self.on_each(&fault, |world, place| {
                world.machines[place].paused += 1;
            }),
            FaultKind::Slow | FaultKind::SlowDisk => self.on_each(&fault, Self::change_pace),
            FaultKind::Split
            | FaultKind::OneWay
            | FaultKind::Bridge
            | FaultKind::Isolate
            | FaultKind::Flap => self.cut(index, &fault),
            FaultKind::Loss
            | FaultKind::Duplication
            | FaultKind::Reordering
            | FaultKind::SlowNetwork
            | FaultKind::NarrowNetwork => self.change_network(),
            FaultKind::DiskFull => self.on_each(&fault, Self::fill_disk),
            FaultKind::SyncError => self.on_each(&fault, |world, place| {
                world.machines[place].sync_fails = true;
            }),
            FaultKind::WriteError => self.on_each(&fault, |world, place| {
                world.machines[place].write_fails = true;
            }),
            FaultKind::ReadError => self.on_each(&fault, |world, place| {
                world.machines[place].reads_fail = true;
            }),
            FaultKind::BitFlip => self.on_each(&fault, Self::rot),
            FaultKind::LostDisk => self.on_each(&fault, |world, place| {
                world.crash(place, None);
                world.lose_disk(place);
            }),
            FaultKind::ClockJump => self.on_each(&fault, |world, place| {
                world.machines[place].clock.jump(fault.amount);
                world.clock_changed(place);
            }),
            FaultKind::ClockStall => self.on_each(&fault, |world, place| {
                world.machines[place].clock.stall(world.now);
            }),
            FaultKind::ServiceErrors | FaultKind::LostAnswers | FaultKind::SlowServices => {
                self.change_services();
            }
            FaultKind::CrashAgreeing
            | FaultKind::CrashCompensating
            | FaultKind::CrashForgetting => {
                self.aimed.push((index, u64::try_from(fault.amount).unwrap_or(0)));
            }
            FaultKind::Cancel | FaultKind::Compensate | FaultKind::Suspend => self.wish(&fault),
        }
    }

    /// Whether a fault that is aimed at a phase strikes this node now.
    pub(super) fn is_struck(&mut self, place: usize) -> bool {
        let Some(engine) = self.machines[place].node.engine() else { return false };
        for position in 0..self.aimed.len() {
            let (index, steps) = self.aimed[position];
            let fault = &self.faults[index];
            let meant = fault.nodes == 0 || fault.befalls(place);
            if !meant || !engine.phases().any(|(_, phase)| fault.kind.aims_at() == Some(phase)) {
                continue;
            }
            if steps == 0 {
                self.aimed.remove(position);
                return true;
            }
            self.aimed[position].1 -= 1;
        }
        false
    }

    /// A fault is over.
    pub(super) fn fault_ends(&mut self, index: usize) {
        let fault = self.faults[index].clone();
        self.faults_open -= 1;
        self.say(None, format_args!("fault {fault} is over"));
        self.leaves_force(index);
        match fault.kind {
            FaultKind::Pause => self.on_each(&fault, |world, place| {
                world.machines[place].paused -= 1;
                world.wake(place);
            }),
            FaultKind::Slow | FaultKind::SlowDisk => self.on_each(&fault, Self::change_pace),
            FaultKind::Split
            | FaultKind::OneWay
            | FaultKind::Bridge
            | FaultKind::Isolate
            | FaultKind::Flap => self.network.mend(index),
            FaultKind::Loss
            | FaultKind::Duplication
            | FaultKind::Reordering
            | FaultKind::SlowNetwork
            | FaultKind::NarrowNetwork => self.change_network(),
            FaultKind::DiskFull => self.on_each_free(&fault, |world, place| {
                world.machines[place].is_full = false;
                world.tell(place, Input::StorageFreed);
            }),
            FaultKind::ClockStall => self.on_each_free(&fault, |world, place| {
                world.machines[place].clock.go_on(world.now);
                world.clock_changed(place);
            }),
            FaultKind::ServiceErrors | FaultKind::LostAnswers | FaultKind::SlowServices => {
                self.change_services();
            }
            FaultKind::SyncError | FaultKind::WriteError | FaultKind::ReadError => {
                self.on_each_free(&fault, |world, place| world.disk_is_well(fault.kind, place));
            }
            FaultKind::Outage => (0..self.machines.len()).for_each(|place| self.start_soon(place)),
            FaultKind::Crash
            | FaultKind::Stop
            | FaultKind::RestartLoop
            | FaultKind::BitFlip
            | FaultKind::LostDisk => self.on_each(&fault, Self::start_soon),
            FaultKind::CrashAgreeing
            | FaultKind::CrashCompensating
            | FaultKind::CrashForgetting => self.aimed.retain(|(aimed, _)| *aimed != index),
            FaultKind::Suspend => self.let_go_on(),
            FaultKind::ClockJump | FaultKind::Cancel | FaultKind::Compensate => {}
        }
    }

    /// Ends every fault that has begun, and spares the world those still to come.
    pub(crate) fn lift_faults(&mut self) {
        if self.faults_lifted {
            return;
        }
        for index in self.in_force.clone() {
            self.fault_ends(index);
        }
        self.faults_open = 0;
        self.faults_lifted = true;
    }

    /// Whether some node cannot reach another.
    pub(crate) fn is_cut(&self) -> bool {
        (0..self.machines.len())
            .any(|from| (0..self.machines.len()).any(|to| self.network.is_cut(from, to)))
    }

    /// Does something at each of the nodes that a fault befalls.
    fn on_each(&mut self, fault: &Fault, mut what: impl FnMut(&mut Self, usize)) {
        let machines = self.machines.len();
        for place in fault.places().take_while(|place| *place < machines) {
            what(self, place);
        }
    }

    /// The same where no other fault of its kind is in force.
    fn on_each_free(&mut self, fault: &Fault, mut what: impl FnMut(&mut Self, usize)) {
        self.on_each(fault, |world, place| {
            if world.prevailing_at(fault.kind, place).is_none() {
                what(world, place);
            }
        });
    }

    /// A node comes up in a moment, so that several do not come up at once.
    fn start_soon(&mut self, place: usize) {
        let at = self.soon(0, 50_000);
        self.agenda.note(at, Occurrence::Start(place));
    }

    /// A node in a restart loop dies again.
    pub(super) fn dies_again(&mut self, fault: usize, place: usize, times: i64) {
        if times <= 0 {
            return;
        }
        let rounds = u32::try_from(self.faults[fault].amount.max(1)).unwrap_or(u32::MAX);
        let round = self.faults[fault].duration / rounds;
        let back = Duration::from_micros(
            self.random.between(0, u64::try_from(round.as_micros()).unwrap_or(0) / 2),
        );
        self.crash(place, Some(back));
        let again = Occurrence::DiesAgain { fault, place, times: times - 1 };
        self.agenda.note(self.now.after(round), again);
    }

    fn cut(&mut self, index: usize, fault: &Fault) {
        let blocked = blocked(fault, self.machines.len());
        self.network.cut(index, blocked);
        if fault.kind == FaultKind::Flap {
            self.flap_later(index, fault);
        }
    }

    fn flap_later(&mut self, index: usize, fault: &Fault) {
        let period = Duration::from_micros(u64::try_from(fault.amount).unwrap_or(0).max(1_000));
        let at = self.now.after(period);
        if at < super::BEGINNING.after(fault.ends()) {
            self.agenda.note(at, Occurrence::Flaps(index));
        }
    }

    /// A cut that comes and goes does so.
    pub(super) fn flaps(&mut self, index: usize) {
        let fault = self.faults[index].clone();
        if self.network.is_in_force(index) {
            self.network.mend(index);
            self.flap_later(index, &fault);
        } else {
            self.cut(index, &fault);
        }
    }

    fn fill_disk(&mut self, place: usize) {
        if self.machines[place].is_full {
            return;
        }
        self.saw(Situation::DiskFull);
        self.machines[place].is_full = true;
        self.tell(place, Input::StorageFull);
    }

    /// A disk takes or gives back again what it did not; whoever is down for that comes up.
    fn disk_is_well(&mut self, kind: FaultKind, place: usize) {
        let machine = &mut self.machines[place];
        match kind {
            FaultKind::SyncError => (machine.sync_fails, machine.sync_failed) = (false, false),
            FaultKind::WriteError => (machine.write_fails, machine.write_failed) = (false, false),
            _ => machine.reads_fail = false,
        }
        self.start_soon(place);
    }

    /// A bit of the journal rots, which is noticed when the node comes back.
    fn rot(&mut self, place: usize) {
        self.crash(place, None);
        if !self.machines[place].node.disk.rot(&mut self.random) {
            self.say(Some(place), format_args!("has no record that another follows: nothing rots"));
        }
    }

    /// A node that is down loses its disk, and so is a new one when it comes back.
    pub(super) fn lose_disk(&mut self, place: usize) {
        let old = self.machines[place].id();
        self.last_id += 1;
        let new = NodeId(self.last_id);
        self.say(Some(place), format_args!("loses its disk; it will be node {}", new.0));
        self.saw(Situation::DiskLost);
        self.disks_lost += 1;
        self.services.ledger.orphan(old);
        self.events_are_lost(old);
        self.machines[place].node.become_new(new);
        self.machines[place].forget_others();
        self.found_anew(new);
        // Where one disk is lost, others know what the client was told.
        let machines = &self.machines;
        let is_known = |id| {
            let mut engines = machines.iter().filter_map(|machine| machine.node.engine());
            self.disks_lost < 2 || engines.any(|engine| engine.condition_of(id).is_some())
        };
        for wish in self.client.disk_was_lost(place, is_known) {
            self.agenda.note(self.now, Occurrence::Wished(wish));
        }
        self.agenda.note(self.now.after(self.options.fence_after), Occurrence::Fence(old));
    }

    fn clock_changed(&mut self, place: usize) {
        self.machines[place].ringing = None;
        self.ring_later(place);
    }
}

/// For each place, which it cannot reach.
fn blocked(fault: &Fault, places: usize) -> Vec<Places> {
    let all = u64::MAX >> (64 - places);
    let side = fault.nodes & all;
    let bridge = match fault.kind {
        FaultKind::Bridge => u32::try_from(fault.amount - 1).map_or(0, |place| 1 << place),
        _ => 0,
    };
    let of = |place: usize| {
        let own: Places = 1 << place;
        if own & bridge != 0 {
            0
        } else if own & side != 0 {
            all & !side & !bridge
        } else if fault.kind == FaultKind::OneWay {
            0
        } else {
            side & !bridge
        }
    };
    (0..places).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<Places> {
        blocked(&text.parse().unwrap(), 4)
    }

    #[test]
    fn cuts_block_what_they_say() {
        assert_eq!(cut("split@0+1:1,2"), [0b1100, 0b1100, 0b0011, 0b0011]);
        assert_eq!(cut("one-way@0+1:1"), [0b1110, 0, 0, 0]);
        assert_eq!(cut("isolate@0+1:4"), [0b1000, 0b1000, 0b1000, 0b0111]);
        // The second node is on neither side.
        assert_eq!(cut("bridge@0+1:1,2=2"), [0b1100, 0, 0b0001, 0b0001]);
    }
}
