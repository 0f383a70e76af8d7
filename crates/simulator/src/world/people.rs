//! People: once the faults are over, someone looks at what waits for a person, finds out what the
//! services did, and says so.

use outlast_engine::{Ask, Caller, Input, ParkedFilter, ParkedItem, Which};
use outlast_workflow::Resolution;

use super::World;

/// Callers that are people lie above those of the client.
const PEOPLE: u64 = 1 << 48;

impl World {
    /// Someone asks every node what waits for a person.
    pub(super) fn people_look(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        for place in 0..self.machines.len() {
            if self.machines[place].node.is_up() {
                self.people_ask(place, Ask::Parked(ParkedFilter::default()));
            }
        }
    }

    /// Someone hears what waits at a node, and says what became of it.
    pub(super) fn people_hear(&mut self, place: usize, items: Vec<ParkedItem>) {
        for item in items {
            let filter = ParkedFilter {
                which: Some(Which::Id(item.execution)),
                effect: Some(item.effect),
                ..ParkedFilter::default()
            };
            let resolution = self.truth_about(&item);
            self.people_ask(place, Ask::Resolve { filter, resolution });
        }
    }

    fn people_ask(&mut self, place: usize, ask: Ask) {
        self.people += 1;
        let caller = Caller(PEOPLE + self.people);
        self.tell(place, Input::Asked { caller, ask });
    }

    /// What the services know of an effect. An undo is just tried again.
    fn truth_about(&self, item: &ParkedItem) -> Resolution {
        if item.undo {
            return Resolution::Retry;
        }
        match self.services.answer_of(item.execution, item.effect) {
            Some(answer) => Resolution::Done(answer),
            None => Resolution::NotDone,
        }
    }
}
