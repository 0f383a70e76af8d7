//! Answers to calls that nobody wants any more, and that come before anybody asks what became of them.
//!
//! A call that must not be made twice and is not wanted any more is asked about when the turn comes to
//! undo it, and only its answer spares a person that. It may come earlier, while others are undone; of a
//! call that was held back it is known at once that it never left. That it succeeded is kept, in memory only:
//! after a restart a person is asked, as if the answer had been lost. That it failed needs no turn, and is taken at
//! once: nothing is asked about it any more, and nothing undone.

use outlast_lineage::ExecutionId;
use outlast_workflow::{Answer, Event, Ticket};

use super::entry::Entry;
use super::{Engine, Work};

impl Entry {
    /// Puts the answer to a call aside if it is of no use before its turn comes; gives any other event
    /// back.
    pub(super) fn put_aside(&mut self, event: Event) -> Option<Event> {
        let Event::Answered { ticket, answer } = event else { return Some(event) };
        // That it failed needs no turn: of what did not happen nothing is undone.
        let is_of_use_later = matches!(answer, Answer::Succeeded(_) | Answer::TooLarge(..));
        if !is_of_use_later || !self.execution().is_asked_about_later(ticket) {
            return Some(Event::Answered { ticket, answer });
        }
        self.keep_answer(ticket, answer);
        None
    }

    /// Keeps the answer to a call until it is asked about.
    pub(super) fn keep_answer(&mut self, ticket: Ticket, answer: Answer) {
        self.unclaimed.push((ticket, answer));
    }

    /// The answers that were put aside to what is asked about now.
    fn claimed(&mut self) -> Vec<(Ticket, Answer)> {
        let asked: Vec<Ticket> = self.execution().parked_calls().collect();
        let kept = std::mem::take(&mut self.unclaimed).into_iter();
        let (claimed, rest) = kept.partition(|(ticket, _)| asked.contains(ticket));
        self.unclaimed = rest;
        claimed
    }
}

impl Engine {
    /// What people are to find out now may be known.
    pub(super) fn claim_answers(&mut self, id: ExecutionId) {
        if !self.roster.get(id).is_some_and(|entry| !entry.unclaimed.is_empty() && entry.is_awake())
        {
            return;
        }
        for (ticket, answer) in self.roster.known(id).claimed() {
            let event = Event::Answered { ticket, answer };
            self.queue(id, |execution| Work::Advance { execution, event });
        }
    }
}
