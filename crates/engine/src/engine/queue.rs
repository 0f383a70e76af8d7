//! Work that waits for its turn, shared fairly between namespaces.
//!
//! Each namespace has a line of its own; the lines are served in turn, one unit each. However long
//! one namespace's line is, another's next unit waits for at most one unit of every other line.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Lines of work, one per namespace, served in turn.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    lines: BTreeMap<Arc<str>, VecDeque<T>>,
    /// Every namespace with a line, in the order in which they are served.
    turns: VecDeque<Arc<str>>,
    length: usize,
}

impl<T> FairQueue<T> {
    pub(super) const fn new() -> Self {
        Self { lines: BTreeMap::new(), turns: VecDeque::new(), length: 0 }
    }

    /// Adds a unit at the end of a namespace's line.
    pub(super) fn push(&mut self, namespace: &Arc<str>, work: T) {
        self.length += 1;
        match self.lines.get_mut(namespace) {
            Some(line) => line.push_back(work),
            None => {
                self.lines.insert(Arc::clone(namespace), VecDeque::from([work]));
                self.turns.push_back(Arc::clone(namespace));
            }
        }
    }

    /// Takes the unit whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let namespace = self.turns.pop_front()?;
        let line = self.lines.get_mut(&namespace).expect("a namespace with a turn has a line");
        let work = line.pop_front().expect("no line is kept empty");
        if line.is_empty() {
            self.lines.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        self.length -= 1;
        Some(work)
    }

    /// How many units wait.
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// How many units of one namespace wait.
    pub(super) fn len_of(&self, namespace: &str) -> usize {
        self.lines.get(namespace).map_or(0, VecDeque::len)
    }

    pub(super) fn assert_invariants(&self) {
        assert_eq!(self.turns.len(), self.lines.len(), "each line has one turn");
        assert_eq!(self.length, self.lines.values().map(VecDeque::len).sum::<usize>());
        assert!(self.lines.values().all(|line| !line.is_empty()), "no line is kept empty");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_namespaces_in_turn_and_each_in_order() {
        let (busy, quiet) = (Arc::from("busy"), Arc::from("quiet"));
        let mut queue = FairQueue::new();
        for number in 0..3 {
            queue.push(&busy, number);
        }
        queue.push(&quiet, 100);
        queue.assert_invariants();
        assert_eq!(queue.len_of("busy"), 3);
        let served: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(served, [0, 100, 1, 2]);
        assert_eq!(queue.len(), 0);
        queue.assert_invariants();
    }
}
