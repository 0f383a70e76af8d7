//! Which other nodes can be reached: heartbeats between nodes, not between executions, so that an
//! idle execution costs nothing.
//!
//! Heartbeats wait for no disk, but say how long the sender's has taken nothing: a node whose disk
//! stands still can acknowledge nothing and lead nothing, and counts as lost although it speaks.
//! Silence is noticed when it has lasted too long, not at the next heartbeat, so that those who lose
//! the same node lose it at about the same time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use outlast_lineage::{NodeId, Time};

/// How many heartbeats say how late a peer's clock is.
const CLOCKS: usize = 5;
/// By how many microseconds clocks differ at least before anybody minds.
const AHEAD_MIN: u64 = 1_000_000;

/// The other nodes, as far as this one knows.
#[derive(Debug, Default)]
pub(in crate::engine) struct Peers {
    known: BTreeMap<NodeId, Peer>,
    /// Those that are gone for good.
    removed: BTreeSet<NodeId>,
    /// Whether anyone has said who the others are, in this life.
    informed: bool,
    /// When this node last told the others that it lives.
    beat: Option<Time>,
}

#[derive(Debug)]
struct Peer {
    heard: Time,
    lost: bool,
    /// Whether it said that its disk stands still.
    stuck: bool,
    /// By how many microseconds its clock was ahead of this node's when its last heartbeats came.
    ahead: VecDeque<i64>,
}

/// What a heartbeat says of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Heard {
    /// It can be reached, or cannot, as it was thought.
    AsBefore,
    /// It counts as lost from now on.
    Lost,
    /// It was thought to be lost, and is not.
    Found,
}

impl Peer {
    fn met(now: Time) -> Self {
        Self { heard: now, lost: false, stuck: false, ahead: VecDeque::new() }
    }
}

impl Peers {
    /// Takes the list of all others: whoever is not on it is gone for good.
    pub(in crate::engine) fn replace(&mut self, now: Time, others: &BTreeSet<NodeId>) {
        self.informed = true;
        self.known.retain(|peer, _| others.contains(peer));
        for peer in others {
            self.known.entry(*peer).or_insert(Peer::met(now));
        }
    }

    /// Another node exists; says whether that is news.
    pub(in crate::engine) fn meet(&mut self, now: Time, node: NodeId) -> bool {
        if self.known.contains_key(&node) || self.removed.contains(&node) {
            return false;
        }
        self.known.insert(node, Peer::met(now));
        true
    }

    /// A node is gone for good; says whether that is news.
    pub(in crate::engine) fn remove(&mut self, node: NodeId) -> bool {
        self.known.remove(&node);
        self.removed.insert(node)
    }

    /// Those that were removed.
    pub(in crate::engine) fn removed(&self) -> impl Iterator<Item = NodeId> {
        self.removed.iter().copied()
    }

    /// Whether a node is gone for good, as far as anyone has said who the others are.
    pub(in crate::engine) fn is_gone(&self, node: NodeId) -> bool {
        self.removed.contains(&node) || (self.informed && !self.known.contains_key(&node))
    }

    /// Something came from a peer; says whether it was thought to be lost.
    pub(in crate::engine) fn hear(&mut self, now: Time, from: NodeId) -> bool {
        let Some(peer) = self.known.get_mut(&from) else { return false };
        peer.heard = peer.heard.max(now);
        !peer.stuck && std::mem::take(&mut peer.lost)
    }

    /// A peer said that it lives, and whether its disk stands still: then it counts as lost. Says what
    /// that changes; nothing if the node is no peer.
    pub(in crate::engine) fn hear_beat(
        &mut self,
        now: Time,
        from: NodeId,
        stuck: bool,
    ) -> Option<Heard> {
        let peer = self.known.get_mut(&from)?;
        peer.heard = peer.heard.max(now);
        peer.stuck = stuck;
        Some(match (std::mem::replace(&mut peer.lost, stuck), stuck) {
            (false, true) => Heard::Lost,
            (true, false) => Heard::Found,
            _ => Heard::AsBefore,
        })
    }

    /// What a peer's clock said when it sent a heartbeat that came now. One that was long on its way says little, so
    /// several count.
    pub(in crate::engine) fn hear_clock(&mut self, now: Time, from: NodeId, clock: Option<Time>) {
        let (Some(peer), Some(clock)) = (self.known.get_mut(&from), clock) else { return };
        let difference = i128::from(clock.as_micros()) - i128::from(now.as_micros());
        let Ok(difference) = i64::try_from(difference) else { return };
        if peer.ahead.len() == CLOCKS {
            peer.ahead.pop_front();
        }
        peer.ahead.push_back(difference);
    }

    /// By how many microseconds a peer's clock is ahead of this node's, if that matters: what it takes for a
    /// heartbeat to come does not.
    pub(in crate::engine) fn ahead(&self, node: NodeId) -> Option<i64> {
        let mut heard: Vec<i64> = self.known.get(&node)?.ahead.iter().copied().collect();
        heard.sort_unstable();
        let middle = heard.get(heard.len() / 2).copied()?;
        (AHEAD_MIN <= middle.unsigned_abs()).then_some(middle)
    }

    pub(in crate::engine) fn is_known(&self, node: NodeId) -> bool {
        self.known.contains_key(&node)
    }

    pub(in crate::engine) fn is_lost(&self, node: NodeId) -> bool {
        self.known.get(&node).is_none_or(|peer| peer.lost)
    }

    pub(in crate::engine) fn all(&self) -> impl Iterator<Item = NodeId> {
        self.known.keys().copied()
    }

    /// When a heartbeat is to be sent or missed next.
    pub(in crate::engine) fn next(&self, interval: Duration, patience: Duration) -> Option<Time> {
        let heard = self.known.values().filter(|peer| !peer.lost).map(|peer| peer.heard);
        heard.map(|heard| heard.after(patience)).chain(self.next_beat(interval)).min()
    }

    fn next_beat(&self, interval: Duration) -> Option<Time> {
        if self.known.is_empty() {
            return None;
        }
        Some(self.beat.map_or(Time::from_micros(0), |beat| beat.after(interval)))
    }

    /// Whether it is time to tell the others; remembers that they were told.
    pub(in crate::engine) fn beats(&mut self, now: Time, interval: Duration) -> bool {
        let due = self.next_beat(interval).is_some_and(|at| at <= now);
        if due {
            // A node that stood still has heard nobody: that is not the others' fault.
            let stalled = self.beat.is_some_and(|beat| beat.after(interval * 3) < now);
            if stalled {
                self.known.values_mut().for_each(|peer| peer.heard = peer.heard.max(now));
            }
            self.beat = Some(now);
        }
        due
    }

    /// Peers that have been silent for too long and were not thought to be lost.
    pub(in crate::engine) fn missed(&mut self, now: Time, patience: Duration) -> Vec<NodeId> {
        let silent = |peer: &Peer| !peer.lost && peer.heard.after(patience) <= now;
        let missed = self.known.iter_mut().filter(|(_, peer)| silent(peer));
        missed
            .map(|(node, peer)| {
                peer.lost = true;
                *node
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(100);

    fn peers(now: Time) -> Peers {
        let mut peers = Peers::default();
        peers.replace(now, &BTreeSet::from([NodeId(2), NodeId(3)]));
        peers
    }

    #[test]
    fn whoever_is_silent_for_too_long_is_lost_until_it_speaks() {
        let start = Time::from_millis(1000);
        let mut peers = peers(start);
        peers.hear(start.after(BEAT * 4), NodeId(3));
        assert_eq!(peers.missed(start.after(BEAT * 5), BEAT * 5), [NodeId(2)]);
        assert!(peers.is_lost(NodeId(2)) && !peers.is_lost(NodeId(3)));
        assert!(peers.hear(start.after(BEAT * 6), NodeId(2)));
        assert!(!peers.is_lost(NodeId(2)));
    }

    #[test]
    fn silence_is_noticed_when_it_has_lasted_too_long_and_not_at_the_next_beat() {
        let start = Time::from_millis(1000);
        let mut peers = peers(start);
        let heard = start.after(BEAT / 3);
        peers.hear(heard, NodeId(2));
        peers.hear(heard, NodeId(3));
        assert!(peers.beats(start.after(BEAT * 5), BEAT));
        assert_eq!(peers.next(BEAT, BEAT * 5), Some(heard.after(BEAT * 5)));
        assert_eq!(peers.missed(heard.after(BEAT * 5), BEAT * 5), [NodeId(2), NodeId(3)]);
        assert_eq!(peers.next(BEAT, BEAT * 5), Some(start.after(BEAT * 6)), "nobody is left");
    }

    #[test]
    fn a_peer_whose_disk_stands_still_is_lost_until_it_says_otherwise() {
        let start = Time::from_millis(1000);
        let mut peers = peers(start);
        assert_eq!(peers.hear_beat(start, NodeId(2), true), Some(Heard::Lost));
        assert!(peers.is_lost(NodeId(2)));
        let again = peers.hear_beat(start, NodeId(2), true);
        assert_eq!(again, Some(Heard::AsBefore), "that is no news");
        assert!(!peers.hear(start, NodeId(2)) && peers.is_lost(NodeId(2)), "though it speaks");
        assert_eq!(peers.hear_beat(start, NodeId(2), false), Some(Heard::Found));
        assert!(!peers.is_lost(NodeId(2)));
        assert_eq!(peers.hear_beat(start, NodeId(9), false), None, "a stranger");
    }

    #[test]
    fn a_node_that_stood_still_does_not_blame_the_others() {
        let start = Time::from_millis(1000);
        let mut peers = peers(start);
        assert!(peers.beats(start, BEAT));
        let woken = start.after(BEAT * 50);
        assert!(peers.beats(woken, BEAT));
        assert_eq!(peers.missed(woken, BEAT * 5), []);
    }

    #[test]
    fn whoever_was_removed_is_not_met_again() {
        let mut peers = peers(Time::from_millis(1000));
        assert!(peers.remove(NodeId(2)) && !peers.remove(NodeId(2)));
        assert!(!peers.meet(Time::from_millis(1001), NodeId(2)));
        assert!(peers.is_gone(NodeId(2)) && !peers.is_known(NodeId(2)));
        assert!(peers.meet(Time::from_millis(1001), NodeId(4)) && peers.is_known(NodeId(4)));
    }

    #[test]
    fn whoever_is_no_longer_named_is_gone() {
        let start = Time::from_millis(1000);
        let mut peers = peers(start);
        assert!(!Peers::default().is_gone(NodeId(2)), "before anyone has said who is there");
        peers.replace(start, &BTreeSet::from([NodeId(3)]));
        assert!(peers.is_gone(NodeId(2)) && !peers.is_gone(NodeId(3)));
    }

    /// A heartbeat that was long on its way is one of five.
    #[test]
    fn how_far_ahead_a_clock_is_most_of_the_last_heartbeats_say() {
        let now = Time::from_millis(1_000_000);
        let mut peers = peers(now);
        assert_eq!(peers.ahead(NodeId(2)), None, "nothing was heard");
        peers.hear_clock(now, NodeId(2), Some(now.after(Duration::from_millis(400))));
        assert_eq!(peers.ahead(NodeId(2)), None, "a moment is on the way");
        for ahead in [120_000, 120_000, 90_000, 120_000, 60_000] {
            let clock = now.after(Duration::from_millis(ahead));
            peers.hear_clock(now, NodeId(2), Some(clock));
        }
        assert_eq!(peers.ahead(NodeId(2)), Some(120_000_000));
        let behind = Some(Time::from_millis(940_000));
        (0..5).for_each(|_| peers.hear_clock(now, NodeId(3), behind));
        assert_eq!(peers.ahead(NodeId(3)), Some(-60_000_000));
        peers.hear_clock(now, NodeId(9), behind);
        assert_eq!(peers.ahead(NodeId(9)), None, "a stranger");
    }
}
