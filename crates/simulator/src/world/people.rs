//! People: once the faults are over, someone looks at what waits for a person, finds out what the
//! services did, and says so; and an event that was lost with the only disk that had it is published
//! again.

use outlast_engine::{Ask, Caller, Input, ParkedFilter, ParkedItem, Which};
use outlast_workflow::Resolution;

use super::{Situation, World};
use crate::Random;

/// Callers that are people lie above those of the client.
const PEOPLE: u64 = 1 << 48;

/// Of a thousand calls that were not made, how many are not asked for again.
const DENIED: u64 = 600;

impl World {
    /// Whether something waits for a person at some node.
    pub(super) fn waits_for_people(&self) -> bool {
        let mut engines = self.machines.iter().filter_map(|machine| machine.node.engine());
        engines.any(|engine| engine.waits_for_people().next().is_some())
    }

    /// Someone asks every node what waits for a person, and whoever published what is gone says it again.
    pub(super) fn people_look(&mut self) {
        self.publish_again();
        self.let_go_on();
        for place in 0..self.machines.len() {
            let engine = self.machines[place].node.engine();
            if engine.is_some_and(|engine| engine.waits_for_people().next().is_some()) {
                self.people_ask(place, Ask::Parked(ParkedFilter::default()));
            }
        }
    }

    /// Someone hears what waits at a node, and says what became of it; of a call that is still on its way
    /// to its service nobody can say that yet.
    pub(super) fn people_hear(&mut self, place: usize, items: Vec<ParkedItem>) {
        for item in items {
            if self.services.is_under_way(item.execution, item.effect) {
                continue;
            }
            let filter = ParkedFilter {
                which: Some(Which::Id(item.execution)),
                effect: Some(item.effect),
                ..ParkedFilter::default()
            };
            let resolution = self.truth_about(&item);
            self.people_ask(place, Ask::Resolve { filter, resolution });
        }
    }

    pub(super) fn people_ask(&mut self, place: usize, ask: Ask) -> Caller {
        self.people += 1;
        let caller = Caller(PEOPLE + self.people);
        self.tell(place, Input::Asked { caller, ask });
        caller
    }

    /// What is to be done about an effect, going by what the services know. What was not done is asked
    /// for again while its run goes on, most of the time: some say so, or give it up, and the run fails.
    /// Once that has ended, it is only in the way of an undo. An undo is just tried again.
    fn truth_about(&mut self, item: &ParkedItem) -> Resolution {
        if item.undo {
            return Resolution::Retry;
        }
        if let Some(answer) = self.services.answer_of(item.execution, item.effect) {
            return Resolution::Done(answer);
        }
        if self.client.ended.contains_key(&item.execution) {
            return Resolution::NotDone;
        }
        let mut random = Random::apart(self.options.seed, PEOPLE + self.people);
        // What one run does when nothing fails is what it does if nobody denies it.
        if self.options.nobody_denies || !random.happens(DENIED) {
            return Resolution::Retry;
        }
        self.saw(Situation::Denied);
        self.denied.insert(item.execution);
        if random.happens(500) { Resolution::NotDone } else { Resolution::Abandon }
    }
}
