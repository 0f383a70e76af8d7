//! Driving nodes: starting them, giving them inputs at their own time, syncing their disks.

use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Definition, Engine, Input, Position, Subject};
use outlast_lineage::{ExecutionId, Lineage};
use outlast_workflow::Program;
use outlast_workflow::program::bundle;

use super::occurrence::Occurrence;
use super::{Situation, World};
use crate::machine::Told;

/// How many times a journal is cut for every time that it is looked whether enough is left.
const COMPACTIONS_A_LOOK: u64 = 8;

fn compiled_here(
    definitions: &[(Arc<Program>, Arc<str>)],
    definition: &Definition,
) -> Result<Arc<Program>, String> {
    compiled(definitions, definition).ok_or_else(|| "not a definition of this world".to_owned())
}

impl World {
    /// A node comes up with what is on its disk.
    pub(super) fn start(&mut self, place: usize) {
        // Whatever keeps it down starts it when it is over.
        if self.machines[place].node.is_up() || self.is_kept_down(place) {
            return;
        }
        if self.machines[place].reads_fail {
            self.say(Some(place), format_args!("cannot read its journal"));
            return self.saw(Situation::StartUnreadable);
        }
        if self.machines[place].node.disk.is_rotten() {
            self.say(Some(place), format_args!("finds rot in its journal"));
            self.saw(Situation::RotFound);
            self.lose_disk(place);
        }
        if !self.is_admitted(place) {
            self.say(Some(place), format_args!("finds nobody to join"));
            let at = self.soon(500_000, 1_000_000);
            return self.agenda.note(at, Occurrence::Start(place));
        }
        let definitions = &self.client.plan().definitions;
        let mut compile = |definition: &Definition| compiled_here(definitions, definition);
        let machine = &mut self.machines[place];
        machine.clock.start(self.now);
        let now = machine.clock.read(self.now);
        let started = machine.node.start(now, &mut compile);
        match started {
            Ok(up) => self.came_up(place, up),
            Err(error) => self.found(format!("a crash left a disk that is not sound: {error}")),
        }
    }

    /// Whatever a journal was cut behind, what is left is enough to come up again. Looked at now and
    /// then where invariants are: it costs as much as coming up.
    pub(crate) fn check_disk(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        let looks = machine.node.disk.compactions.is_multiple_of(COMPACTIONS_A_LOOK);
        if self.options.invariants_every == 0 || !looks {
            return;
        }
        let definitions = &self.client.plan().definitions;
        let mut compile = |definition: &Definition| compiled_here(definitions, definition);
        let now = machine.clock.read(self.now);
        if let Err(error) = machine.node.could_start(now, &mut compile) {
            let node = machine.id().0;
            self.found(format!("node {node} cut its journal and could not come up: {error}"));
        }
    }

    fn came_up(&mut self, place: usize, up: bool) {
        let life = self.machines[place].node.life;
        self.say(Some(place), format_args!("starts, life {life}"));
        self.check_epoch(place);
        self.go_on(place, up);
        self.introduce(place);
        if self.machines[place].is_full {
            self.tell(place, Input::StorageFull);
        }
    }

    /// Gives a node an input, or has it wait until the node takes it.
    pub(super) fn tell(&mut self, place: usize, input: Input) {
        let machine = &mut self.machines[place];
        if machine.node.is_up() && !machine.is_busy(self.now) {
            // Nearly all that occurs comes by here: what is taken at once is not wrapped up to wait.
            machine.busy_until = self.now.after(machine.step_cost);
            self.step_node(place, input);
        } else {
            self.give(place, Told::Input(input));
        }
    }

    pub(super) fn give(&mut self, place: usize, told: Told) {
        let machine = &mut self.machines[place];
        if !machine.node.is_up() {
            return;
        }
        if machine.is_busy(self.now) {
            machine.inbox.push_back(told);
            self.drain_later(place);
        } else {
            self.take(place, told);
        }
    }

    fn drain_later(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        if machine.draining || machine.paused > 0 || machine.inbox.is_empty() {
            return;
        }
        machine.draining = true;
        let life = machine.node.life;
        self.agenda.note(machine.busy_until.max(self.now), Occurrence::Drain { place, life });
    }

    /// A node looks at what has waited for it.
    pub(super) fn drain(&mut self, place: usize) {
        self.machines[place].draining = false;
        let life = self.machines[place].node.life;
        loop {
            let machine = &mut self.machines[place];
            let free = machine.paused == 0 && machine.busy_until <= self.now;
            if !free || machine.node.life != life || !machine.node.is_up() {
                break;
            }
            let Some(told) = machine.inbox.pop_front() else { break };
            self.take(place, told);
        }
        self.drain_later(place);
    }

    /// A node that was paused goes on.
    pub(super) fn wake(&mut self, place: usize) {
        if self.machines[place].paused == 0 {
            if !self.machines[place].inbox.is_empty() {
                self.saw(Situation::WokeToBacklog);
            }
            self.drain_later(place);
        }
    }

    fn take(&mut self, place: usize, told: Told) {
        let machine = &mut self.machines[place];
        machine.busy_until = self.now.after(machine.step_cost);
        match told {
            Told::Input(input) => self.step_node(place, input),
            Told::Synced(up_to) => {
                let now = machine.clock.read(self.now);
                let up =
                    machine.node.synced(up_to) && machine.node.step(now, Input::Durable(up_to));
                let settled = if up { machine.settle(up_to) } else { Vec::new() };
                self.note_epoch(place);
                settled.into_iter().for_each(|act| self.services.ledger.settle(act));
                self.go_on(place, up);
            }
            Told::Answered(input, act) => self.take_answer(place, input, act),
        }
    }

    /// A node takes an answer, and perhaps writes it down.
    fn take_answer(&mut self, place: usize, input: Input, act: Option<usize>) {
        let address = match &input {
            Input::Answered { execution, .. } => Some(*execution),
            _ => None,
        };
        let before = self.machines[place].node.engine().map(Engine::position);
        self.step_node(place, input);
        let machine = &mut self.machines[place];
        let written = machine.node.engine().map(Engine::position);
        // What nobody waited for any more, or cannot be recorded yet, is not written down.
        let (Some(act), Some(written)) = (act, written.filter(|it| before < Some(*it))) else {
            return;
        };
        let line = machine.node.engine().and_then(|engine| engine.line_at(address?));
        if let Some(by) = line.and_then(Lineage::head) {
            self.services.ledger.taken_up(act, by);
        }
        machine.answer_taken(act, written);
    }

    fn step_node(&mut self, place: usize, input: Input) {
        let machine = &mut self.machines[place];
        let now = machine.clock.read(self.now);
        let up = machine.node.step(now, input);
        self.go_on(place, up);
    }

    /// What follows every step of a node.
    pub(super) fn go_on(&mut self, place: usize, up: bool) {
        if self.options.records_run {
            self.run_events.extend(self.machines[place].node.last.take());
        }
        if std::mem::take(&mut self.machines[place].node.hasty) {
            let node = self.machines[place].id().0;
            self.found(format!("a call of node {node} did not wait for the record of its intent"));
        }
        let up = up && self.carry_out(place);
        let struck = up && !self.aimed.is_empty() && self.is_struck(place);
        if struck {
            self.fall(place);
        }
        if !up || struck {
            let back = self.random.between(1_000, 3_000_000);
            return self.went_down(place, Some(Duration::from_micros(back)));
        }
        let every = self.options.snapshot_every;
        let machine = &mut self.machines[place];
        if every > 0 && machine.node.records >= machine.saved + every {
            machine.saved = machine.node.records;
            let max = usize::try_from(self.random.between(1, 4)).unwrap_or(1);
            return self.step_node(place, Input::SnapshotWanted { max });
        }
        self.keep_going(place);
    }

    /// Has the disk synced and the node take turns.
    fn keep_going(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        let life = machine.node.life;
        if let Some(up_to) = machine.node.disk.unsynced().filter(|_| !machine.syncing) {
            if machine.write_fails {
                return self.write_failed(place);
            }
            machine.syncing = true;
            let latency = self.options.sync.times(machine.sync_factor);
            let at = self.drawn(latency);
            self.agenda.note(at, Occurrence::Synced { place, life, up_to });
        }
        let machine = &mut self.machines[place];
        if machine.node.has_work() && !machine.turning {
            machine.turning = true;
            let at = self.soon(0, 300);
            self.agenda.note(at, Occurrence::Turn { place, life });
        }
    }

    /// A write has failed: some of it may be on the disk, but not all. The node stops, as nothing more can be
    /// promised.
    fn write_failed(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        (machine.write_fails, machine.write_failed) = (false, true);
        self.say(Some(place), format_args!("a write fails"));
        self.saw(Situation::WriteFailed);
        self.saw_phases(place);
        let most = self.machines[place].node.disk.unsynced_count().saturating_sub(1);
        let survive = usize::try_from(self.random.between(0, most as u64)).unwrap_or(0);
        let torn = self.random.happens(500);
        self.machines[place].node.crash(survive, torn);
        self.went_down(place, None);
    }

    /// A sync has ended, well or not.
    pub(super) fn sync_ended(&mut self, place: usize, up_to: Position) {
        let machine = &mut self.machines[place];
        machine.syncing = false;
        if machine.sync_fails {
            // Nobody knows what is on the disk now: the only safe thing is to stop.
            (machine.sync_fails, machine.sync_failed) = (false, true);
            self.say(Some(place), format_args!("a sync fails"));
            self.saw(Situation::SyncFailed);
            return self.crash(place, None);
        }
        self.say(Some(place), format_args!("has synced up to record {}", up_to.0));
        self.give(place, Told::Synced(up_to));
    }

    /// A disk gives back what was committed there.
    pub(super) fn fetched(&mut self, place: usize, execution: ExecutionId) {
        let stored = self.machines[place].node.disk.snapshot(&Subject::Execution(execution).key());
        let snapshot = if self.machines[place].reads_fail {
            self.saw(Situation::ReadFailed);
            self.say_of(place, execution, format_args!("cannot read it from its store"));
            Err("input/output error".to_owned())
        } else {
            self.say_of(place, execution, format_args!("has read it from its store"));
            stored.ok_or_else(|| "it is not there".to_owned())
        };
        self.tell(place, Input::Fetched { execution, snapshot });
    }

    /// The alarm may be due, if the node's clock says so.
    pub(super) fn ring(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        if machine.ringing != Some(self.now) {
            return;
        }
        machine.ringing = None;
        match machine.alarm {
            Some(at) if machine.clock.read(self.now) >= at => {
                machine.alarm = None;
                self.say(Some(place), format_args!("its alarm rings"));
                self.tell(place, Input::AlarmRang);
            }
            _ => self.ring_later(place),
        }
    }

    /// Notes when the alarm is due, unless it is looked at before that anyway.
    pub(super) fn ring_later(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        let Some(alarm) = machine.alarm else { return };
        let at = machine.clock.when(self.now, alarm);
        if machine.ringing.is_some_and(|noted| noted <= at) {
            return;
        }
        machine.ringing = Some(at);
        let life = machine.node.life;
        self.agenda.note(at, Occurrence::Ring { place, life });
    }
}

/// The program of a definition that a plan has, or of a bundle of such.
pub(super) fn compiled(
    known: &[(Arc<Program>, Arc<str>)],
    definition: &outlast_engine::Definition,
) -> Option<Arc<Program>> {
    let program = |(program, _): &(Arc<Program>, Arc<str>)| Arc::clone(program);
    let one = known.iter().find(|(program, _)| program.digest == definition.digest).map(program);
    one.or_else(|| {
        let of_text = |wanted: &str| known.iter().find(|(_, text)| **text == *wanted).map(program);
        bundle::compile(&definition.text, |text| of_text(text).ok_or(())).ok()
    })
}
