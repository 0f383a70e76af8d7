//! Messages that nobody waits for: they leave together with the next one that somebody waits for, or
//! after a moment. A message by itself wakes four threads on its way, which costs more than all the
//! rest of it.
//!
//! Invariant: messages to one node leave in the order in which they came.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_lineage::{NodeId, Time};

/// How long a message waits for company.
const LINGER: Duration = Duration::from_millis(20);

/// Messages that wait for company, by the node they go to.
#[derive(Debug, Default)]
pub(super) struct Mentions {
    waiting: BTreeMap<NodeId, Vec<Vec<u8>>>,
    due: Option<Time>,
}

impl Mentions {
    pub(super) fn add(&mut self, now: Time, to: NodeId, message: Vec<u8>) {
        self.waiting.entry(to).or_default().push(message);
        self.due = self.due.or(Some(now.after(LINGER)));
    }

    /// When those that wait must leave.
    pub(super) const fn due(&self) -> Option<Time> {
        self.due
    }

    pub(super) fn are_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Those for one node, oldest first.
    pub(super) fn take(&mut self, to: NodeId) -> Vec<Vec<u8>> {
        let taken = self.waiting.remove(&to).unwrap_or_default();
        if self.waiting.is_empty() {
            self.due = None;
        }
        taken
    }

    /// All, those for one node oldest first.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (NodeId, Vec<u8>)> + use<> {
        self.due = None;
        let all = std::mem::take(&mut self.waiting).into_iter();
        all.flat_map(|(to, messages)| messages.into_iter().map(move |message| (to, message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1000);

    #[test]
    fn those_for_one_node_leave_with_the_next_message_to_it_in_their_order() {
        let mut mentions = Mentions::default();
        mentions.add(NOW, NodeId(1), vec![1]);
        mentions.add(NOW, NodeId(2), vec![2]);
        mentions.add(NOW, NodeId(1), vec![3]);
        assert_eq!(mentions.take(NodeId(1)), [[1], [3]]);
        assert_eq!(mentions.take(NodeId(1)), [[0_u8; 1]; 0]);
        assert_eq!(mentions.due(), Some(NOW.after(LINGER)), "the other one still waits");
        assert_eq!(mentions.take_all().collect::<Vec<_>>(), [(NodeId(2), vec![2])]);
    }

    #[test]
    fn nothing_waits_longer_than_a_moment_after_the_first() {
        let mut mentions = Mentions::default();
        assert!(!mentions.are_due(NOW), "nothing waits");
        mentions.add(NOW, NodeId(1), vec![1]);
        mentions.add(NOW.after(LINGER / 2), NodeId(2), vec![2]);
        assert!(!mentions.are_due(NOW.after(LINGER / 2)));
        assert!(mentions.are_due(NOW.after(LINGER)));
        assert_eq!(mentions.take_all().count(), 2);
        assert_eq!(mentions.due(), None);
    }
}
