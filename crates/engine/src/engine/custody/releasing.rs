//! What a line emits: kept in its value until it is certain that the line counts, then taken in and
//! spread like any other event.
//!
//! An event that left cannot be called back. So it waits, like a pivot, until consensus has decided on
//! its state, but the run does not wait for it; at the latest it leaves when the end is decided on.
//! A task whose class says that a surplus event does no harm has it leave at once. The id of an event
//! follows from its place in the flow, so it is the same event on every line and after a take-over.

use outlast_lineage::{ExecutionId, NodeId};
use outlast_protocols::replicas::Input;
use outlast_workflow::{Emitted, Event};

use super::super::entry::State;
use super::super::{Cause, Engine, Step, Work};
use super::{Custody, Word};
use crate::{Origin, Publication, RecordKind};

/// An event of the outbox, on its way out.
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
    /// It is being taken in.
    Leaves,
    /// It was taken in, in this life.
    Left,
}

impl Engine {
    /// Looks which emitted events may leave, and asks for the decisions that the others need.
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
            if leaving.stage != Stage::Waits {
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

    /// Takes in an event that may leave; in the next turn the line is told, and forgets it.
    pub(in crate::engine) fn release_event(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        number: u64,
    ) {
        if !self.wake(id) {
            return;
        }
        let Some(holding) = self.holding(id) else { return };
        let Some(leaving) = holding.leaving.get_mut(&number) else { return };
        if std::mem::replace(&mut leaving.stage, Stage::Left) != Stage::Left {
            if self.take_emitted(step, id, number) {
                self.queue(id, |execution| Work::Release { execution, number });
            }
        } else if self.roster.known(id).execution().outcome().is_none() {
            // Nothing comes after an end that may be decided on by now.
            self.advance(step, id, Event::Released(number), Cause::default());
        }
    }

    /// Takes an emitted event in, unless it was before. Says whether there is such an event.
    fn take_emitted(&mut self, step: &mut Step, id: ExecutionId, number: u64) -> bool {
        let execution = self.roster.known(id).execution();
        let emitted = execution.outbox().find(|it| it.number == number).map(|it| it.emitted);
        let (Some(emitted), Some(event)) = (emitted, execution.outgoing_event(number)) else {
            return false;
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
        true
    }
}

/// An event without an id is known by who emitted it.
fn named(publication: &Publication, origin: Origin) -> Option<Origin> {
    if publication.has_id() { None } else { Some(origin) }
}

fn short(id: ExecutionId) -> u64 {
    outlast_lineage::Digester::new("emitter").field(id.as_bytes()).finish().short()
}
