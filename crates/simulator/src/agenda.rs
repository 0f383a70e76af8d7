//! What happens next: occurrences in order of time, and in the order they were noted at one time.

use std::collections::BTreeMap;

use outlast_lineage::Time;

/// Occurrences to come.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    occurrences: BTreeMap<(Time, u64), T>,
    noted: u64,
}

impl<T> Agenda<T> {
    pub(crate) const fn new() -> Self {
        Self { occurrences: BTreeMap::new(), noted: 0 }
    }

    /// Notes that something happens at a time.
    pub(crate) fn note(&mut self, at: Time, occurrence: T) {
        self.noted += 1;
        self.occurrences.insert((at, self.noted), occurrence);
    }

    /// Takes what happens next, and when.
    pub(crate) fn next(&mut self) -> Option<(Time, T)> {
        self.occurrences.pop_first().map(|((at, _), occurrence)| (at, occurrence))
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
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).map(|(_, what)| what).collect();
        assert_eq!(order, ['a', 'b', 'c']);
    }
}
