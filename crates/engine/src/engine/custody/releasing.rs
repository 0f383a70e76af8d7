//! What a line emits, or starts without waiting for its end: kept in its value until it is certain that
//! the line counts. Then an event is taken in and spread like any other, and an execution begins
//! (`detaching`).
//!
//! What left cannot be called back. So it waits, like a pivot, until consensus has decided on its state,
//! but the run does not wait for it; at the latest it leaves when the end is decided on, and nobody
//! forgets before. A task whose class says that a surplus event does no harm has it leave at once. The
//! ids of events and executions follow from their places in the flow, so they are the same on every
//! line and after a take-over.

use outlast_lineage::{ExecutionId, NodeId};
use outlast_protocols::replicas::Input;
use outlast_workflow::{Emitted, Event};

use super::super::entry::State;
use super::super::{Cause, Engine, Step, Work};
use super::detaching::Departure;
use super::turn::Turn;
use super::{Custody, Holding, Word};
use crate::{Origin, Publication, RecordKind};

/// Something in the outbox, on its way out.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Leaving {
    /// The newest state there was when it was first seen.
    state: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It may not leave yet.
    Waits,
    /// It is being taken in, or begun.
    Leaves,
    /// It was, in this life.
    Left,
}

impl Engine {
    /// Looks what may leave, and asks for the decisions that the others need.
    pub(super) fn look_at_outbox(&mut self, id: ExecutionId) {
        let entry = self.roster.known(id);
        let State::Awake(execution, _) = &entry.state else { return };
        let outbox: Vec<Emitted> = execution.outbox().collect();
        let Some(Custody::Replica(holding)) = &mut entry.custody else { return };
        holding.leaving.retain(|number, _| outbox.iter().any(|it| it.number == *number));
        let replica = &holding.replica;
        if outbox.is_empty() || !(holding.concluded || replica.leads().is_some()) {
            return;
        }
        let state = replica.head().lineage.number();
        let (mut ready, mut wanted) = (Vec::new(), None);
        for Emitted { number, at_once, .. } in outbox {
            let waits = Leaving { state, stage: Stage::Waits };
            let leaving = holding.leaving.entry(number).or_insert(waits);
            // Whoever holds the end waits for nobody else with what it begins.
            let under_way = leaving.stage == Stage::Leaves && !holding.concluded;
            if leaving.stage == Stage::Left || under_way {
                continue;
            }
            let may_leave = holding.concluded || replica.may_leave(leaving.state);
            let certain = holding.concluded || at_once || replica.is_decided_up_to(leaving.state);
            if may_leave && certain {
                leaving.stage = Stage::Leaves;
                ready.push(number);
            } else if may_leave {
                wanted = wanted.max(Some(leaving.state));
            }
        }
        let wanted = wanted.filter(|number| holding.wanted < Some(*number));
        holding.wanted = holding.wanted.max(wanted);
        for number in ready {
            self.queue(id, |execution| Work::Release { execution, number });
        }
        if let Some(number) = wanted {
            let word = Word::Replica(Box::new(Input::DecisionWanted { number }));
            self.queue(id, |execution| Work::Custody { execution, word });
        }
    }

    /// Has something leave that may; in the next turn the line is told, and forgets it.
    pub(in crate::engine) fn release_outgoing(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        number: u64,
    ) {
        // By now all may have forgotten it together, and its state be in the store alone.
        if self.holding(id).is_none() || !self.wake(id) {
            return;
        }
        let Some(holding) = self.holding(id) else { return };
        let concluded = holding.concluded;
        match holding.leaving.get(&number).map(|leaving| leaving.stage) {
            None => {}
            Some(Stage::Waits | Stage::Leaves) => {
                let stage = self.depart(step, id, number);
                if let Some(holding) = self.holding(id)
                    && let Some(leaving) = holding.leaving.get_mut(&number)
                {
                    leaving.stage = stage;
                }
                if stage == Stage::Left {
                    self.queue(id, |execution| Work::Release { execution, number });
                }
            }
            // Nobody forgets before all has left.
            Some(Stage::Left) if concluded => {
                let mut turn = Turn::default();
                self.coordinate(step, id, &mut turn);
                self.finish_turn(step, id, turn);
            }
            // Nothing comes after an end that may be decided on by now.
            Some(Stage::Left) if self.roster.known(id).execution().outcome().is_some() => {}
            Some(Stage::Left) => {
                self.advance(step, id, Event::Released(number), Cause::default());
            }
        }
    }

    /// Takes in an event, or begins an execution; says how far that has come.
    fn depart(&mut self, step: &mut Step, id: ExecutionId, number: u64) -> Stage {
        let Some(detached) = self.roster.known(id).execution().outgoing_start(number) else {
            self.take_emitted(step, id, number);
            return Stage::Left;
        };
        match self.begin_detached(step, id, number, detached) {
            Departure::Over => Stage::Left,
            // Whoever holds the end begins it itself, so it need not wait for the others.
            Departure::Spreading if self.holding(id).is_some_and(|it| it.concluded) => Stage::Left,
            Departure::Spreading => Stage::Leaves,
            Departure::Again => {
                self.queue(id, |execution| Work::Release { execution, number });
                Stage::Leaves
            }
            Departure::Later => Stage::Waits,
        }
    }

    /// Takes an emitted event in, unless it was before.
    fn take_emitted(&mut self, step: &mut Step, id: ExecutionId, number: u64) {
        let execution = self.roster.known(id).execution();
        let emitted = execution.outbox().find(|it| it.number == number).map(|it| it.emitted);
        let (Some(emitted), Some(event)) = (emitted, execution.outgoing_event(number)) else {
            return;
        };
        // Whoever comes back long after the end does not tell again what all have forgotten.
        let is_old = emitted.after(self.options.limits.buffered_event_age) < step.now;
        let origin = Origin { node: NodeId(short(id)), number };
        let publication =
            Publication { number: self.events.next, time: step.now, to: None, event, origin: None };
        let publication = Publication { origin: named(&publication, origin), ..publication };
        let identity = publication.identity(self.options.node);
        let over = self.holding(id).is_some_and(|holding| holding.concluded);
        if self.events.number_of(identity).is_none() && !(over && is_old) {
            let (position, kind) = self.record(step, RecordKind::EventTaken(publication));
            let RecordKind::EventTaken(publication) = kind else { unreachable!("just made") };
            self.take_event(step, position, publication);
        }
    }

    /// Whether an execution has ended, and not all has left that it emitted or started.
    pub(super) fn keeps_something_back(&mut self, id: ExecutionId) -> bool {
        self.wake(id);
        let entry = self.roster.known(id);
        let State::Awake(execution, _) = &entry.state else { return false };
        let Some(Custody::Replica(holding)) = &entry.custody else { return false };
        execution.outbox().any(|outgoing| !holding.has_let_go(outgoing.number))
    }
}

impl Holding {
    /// Whether something of the outbox has left, in this life.
    fn has_let_go(&self, number: u64) -> bool {
        self.leaving.get(&number).is_some_and(|leaving| leaving.stage == Stage::Left)
    }
}

/// An event without an id is known by who emitted it.
fn named(publication: &Publication, origin: Origin) -> Option<Origin> {
    if publication.has_id() { None } else { Some(origin) }
}

fn short(id: ExecutionId) -> u64 {
    outlast_lineage::Digester::new("emitter").field(id.as_bytes()).finish().short()
}
