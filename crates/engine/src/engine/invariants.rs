//! What must always hold between the parts of an engine, and how much there is to look at.

use super::Engine;
use crate::Subject;

impl Engine {
    /// How many things it holds, about: executions, events and work.
    pub fn extent(&self) -> usize {
        self.roster.len() + self.events.len() + self.work.len()
    }

    /// Panics if something that must always hold does not. Costs as much as everything it holds.
    pub fn assert_invariants(&self) {
        self.work.assert_invariants();
        self.roster.assert_invariants();
        self.events.assert_invariants();
        self.unsaved.assert_invariants();
        self.certain.assert_invariants(self.position);
        assert!(self.opened <= self.position, "a life begins with a record");
        for (at, execution, ticket) in &self.timers {
            let entry = self.roster.get(*execution).expect("a timer belongs to an execution");
            assert!(entry.timers.contains(&(*ticket, *at)), "a timer is one that was set");
        }
        for target in self.addresses.values() {
            assert!(self.roster.get(*target).is_some(), "answers are sent to somebody");
        }
        for (id, entry) in self.roster.iter() {
            assert!(entry.position <= self.position, "{id} is not ahead of the journal");
            let ended = entry.condition.is_end();
            assert!(!ended || entry.timers.is_empty(), "{id} has ended and waits for nothing");
            let unsaved = self.unsaved.contains(&Subject::Execution(*id));
            assert!(!(entry.is_stored() && unsaved), "the store holds {id} as it is");
        }
    }
}
