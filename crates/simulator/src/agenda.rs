//! What happens next: occurrences in order of time, and in the order they were noted at one time.
//!
//! The heap holds only times and places in a table, so that keeping the order moves little; places
//! are used again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use outlast_lineage::Time;

/// Occurrences to come.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    order: BinaryHeap<Reverse<(Time, u64, u32)>>,
    occurrences: Vec<Option<T>>,
    free: Vec<u32>,
    noted: u64,
}

impl<T> Agenda<T> {
    pub(crate) const fn new() -> Self {
        Self { order: BinaryHeap::new(), occurrences: Vec::new(), free: Vec::new(), noted: 0 }
    }

    /// Notes that something happens at a time.
    pub(crate) fn note(&mut self, at: Time, occurrence: T) {
        self.noted += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.occurrences.push(None);
            u32::try_from(self.occurrences.len() - 1).expect("a world is not that busy")
        });
        self.occurrences[place as usize] = Some(occurrence);
        self.order.push(Reverse((at, self.noted, place)));
    }

    /// When something happens next.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.order.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes what happens next, and when.
    pub(crate) fn next(&mut self) -> Option<(Time, T)> {
        let Reverse((at, _, place)) = self.order.pop()?;
        self.free.push(place);
        let occurrence = self.occurrences[place as usize].take();
        Some((at, occurrence.expect("what is in the order is in the table")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_of_time_and_of_noting() {
        let mut agenda = Agenda::new();
        agenda.note(Time::from_millis(2), 'c');
        agenda.note(Time::from_millis(1), 'a');
        agenda.note(Time::from_millis(1), 'b');
        assert_eq!(agenda.next_time(), Some(Time::from_millis(1)));
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).map(|(_, what)| what).collect();
        assert_eq!(order, ['a', 'b', 'c']);
    }

    #[test]
    fn uses_places_again() {
        let mut agenda = Agenda::new();
        for number in 0..100 {
            agenda.note(Time::from_millis(number), number);
            assert_eq!(agenda.next(), Some((Time::from_millis(number), number)));
        }
        assert_eq!(agenda.occurrences.len(), 1);
    }
}
