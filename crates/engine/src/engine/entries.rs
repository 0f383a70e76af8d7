//! The entries of a roster, by their ids.
//!
//! A step looks for the same execution many times, among as many as are kept: where the last one was
//! found is remembered.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

use outlast_lineage::ExecutionId;

use super::entry::Entry;

/// Entries, found by their ids or in the order of those.
#[derive(Debug, Default)]
pub(super) struct Entries {
    places: BTreeMap<ExecutionId, u32>,
    /// In boxes: most places of a vector that has grown are empty.
    entries: Vec<Option<Box<Entry>>>,
    free: Vec<u32>,
    /// The one that was found last.
    last: Cell<Option<(ExecutionId, u32)>>,
}

impl Entries {
    fn place_of(&self, id: ExecutionId) -> Option<u32> {
        if let Some((last, place)) = self.last.get()
            && last == id
        {
            return Some(place);
        }
        let place = *self.places.get(&id)?;
        self.last.set(Some((id, place)));
        Some(place)
    }

    fn at(&self, place: u32) -> &Entry {
        self.entries[place as usize].as_ref().expect("a place that is named is taken")
    }

    pub(super) fn get(&self, id: ExecutionId) -> Option<&Entry> {
        self.place_of(id).map(|place| self.at(place))
    }

    pub(super) fn get_mut(&mut self, id: ExecutionId) -> Option<&mut Entry> {
        let place = self.place_of(id)?;
        let entry = self.entries[place as usize].as_mut();
        Some(entry.expect("a place that is named is taken"))
    }

    pub(super) fn contains(&self, id: ExecutionId) -> bool {
        self.place_of(id).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Adds one whose id is not there.
    pub(super) fn insert(&mut self, id: ExecutionId, entry: Entry) {
        let entry = Some(Box::new(entry));
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("memory ends before the numbers do")
            }
        };
        let before = self.places.insert(id, place);
        assert!(before.is_none(), "an id is given once");
        self.last.set(Some((id, place)));
    }

    pub(super) fn remove(&mut self, id: ExecutionId) -> Option<Entry> {
        let place = self.places.remove(&id)?;
        self.last.set(None);
        self.free.push(place);
        self.entries[place as usize].take().map(|entry| *entry)
    }

    /// In the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ExecutionId, &Entry)> {
        self.places.iter().map(|(id, place)| (id, self.at(*place)))
    }

    pub(super) fn range(
        &self,
        range: impl RangeBounds<ExecutionId>,
    ) -> impl Iterator<Item = (ExecutionId, &Entry)> {
        self.places.range(range).map(|(id, place)| (*id, self.at(*place)))
    }

    pub(super) fn assert_invariants(&self) {
        let taken = self.entries.iter().filter(|entry| entry.is_some()).count();
        assert_eq!(
            taken,
            self.places.len(),
            "each id has a place, and each place that is taken an id"
        );
        assert_eq!(taken + self.free.len(), self.entries.len(), "no place is forgotten");
        let named = |place: &u32| self.entries[*place as usize].is_some();
        assert!(self.places.values().all(named), "a place that is named is taken");
        if let Some((last, place)) = self.last.get() {
            assert_eq!(self.places.get(&last), Some(&place), "what was found last is there");
        }
    }
}
