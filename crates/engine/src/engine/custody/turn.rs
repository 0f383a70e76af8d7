//! One step of one execution in custody, until it is recorded: what changed, and what is to be said.
//!
//! All machines of an execution write into the same turn, in their order. What changes becomes one
//! record; what is said waits for it, unless it was ordered before anything changed.
//!
//! An update waits too, although backups could write at the same time as their primary: if the primary
//! crashed before it had written what it sent, the others would know of a state in which an effect of
//! its own was taken up, and it would take that effect for one that was lost, and undo it.

use std::collections::BTreeSet;

use outlast_lineage::{EffectId, Epoch, NodeId};
use outlast_protocols::replicas::{self, Situation};
use outlast_protocols::{paxos, two_phase};
use outlast_workflow::{Command, Happening};

use super::{Envelope, Forgetting, Shared, StateBytes};

/// What one step did to one execution in custody, until it is recorded.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether it is the first.
    pub(super) begun: bool,
    pub(super) changes: Vec<replicas::Change>,
    /// The state that took the place of the one held.
    pub(super) adopted: Option<StateBytes>,
    /// What the state held went on by, in the form of `Passed`, oldest first.
    pub(super) passed: Vec<StateBytes>,
    /// Lines that are kept apart, with their states.
    pub(super) remnants: Vec<(Epoch, StateBytes)>,
    pub(super) happenings: Vec<Happening>,
    pub(super) commands: Vec<Command>,
    /// Whether commands and happenings are this node's own.
    pub(super) advanced: bool,
    /// Effects that can be neither undone nor repeated, among those intended.
    pub(super) pivots: BTreeSet<EffectId>,
    pub(super) decisions: Vec<(u32, outlast_protocols::paxos::Record)>,
    pub(super) forgetting: Option<Forgetting>,
    /// Messages in their order.
    pub(super) letters: Vec<Letter>,
    /// Who is told that this node could forget: that it knows the decision goes without saying.
    pub(super) ready_for: Option<NodeId>,
    /// The last of them, to tell whether the next is the same.
    pub(super) last: Option<replicas::Message>,
    pub(super) situations: Vec<Situation>,
    pub(super) concluded: bool,
    pub(super) forgotten: bool,
}

/// A message that a turn sends.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) to: NodeId,
    /// Encoded: what goes to several nodes is written once.
    pub(super) message: Vec<u8>,
    /// Whether it was ordered before anything changed, and so need not wait for the turn's record.
    pub(super) early: bool,
    /// Whether somebody waits for it.
    pub(super) awaited: bool,
}

impl Turn {
    /// Sends a message that is not between replicas' machines.
    pub(super) fn send(&mut self, to: NodeId, envelope: &Envelope) {
        match envelope {
            Envelope::Forgetting(_, two_phase::Message::Prepared) => self.ready_for = Some(to),
            Envelope::Paxos(_, _, paxos::Message::Learned) if self.ready_for == Some(to) => return,
            _ => {}
        }
        self.last = None;
        let (early, awaited) = (!self.is_recorded(), envelope.is_awaited());
        self.letters.push(Letter { to, message: envelope.encode(), early, awaited });
    }

    /// Sends the same message to several nodes.
    pub(super) fn send_to_all(&mut self, nodes: &BTreeSet<NodeId>, envelope: &Envelope) {
        self.last = None;
        let (early, awaited) = (!self.is_recorded(), envelope.is_awaited());
        let message = if nodes.is_empty() { Vec::new() } else { envelope.encode() };
        for to in nodes {
            let message = message.clone();
            self.letters.push(Letter { to: *to, message, early, awaited });
        }
    }

    pub(super) fn send_word(&mut self, of: Shared, to: NodeId, message: replicas::Message) {
        let same = self.last.as_ref() == Some(&message);
        let bytes = match self.letters.last().filter(|_| same) {
            Some(letter) => letter.message.clone(),
            None => Envelope::Replica(of, message.clone()).encode(),
        };
        self.last = Some(message);
        let early = !self.is_recorded();
        self.letters.push(Letter { to, message: bytes, early, awaited: true });
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.begun
            || !self.changes.is_empty()
            || self.adopted.is_some()
            || !self.passed.is_empty()
            || !self.decisions.is_empty()
            || self.forgetting.is_some()
            || self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use outlast_lineage::{ExecutionId, Point};

    use super::*;

    const ID: ExecutionId = ExecutionId::from_bytes([7; 16]);
    const OF: Shared = Shared { execution: ID, mark: 1 };

    #[test]
    fn what_is_said_before_anything_changed_need_not_wait_for_the_record() {
        let mut turn = Turn::default();
        turn.send(NodeId(2), &Envelope::HasBegun(ID));
        turn.send_word(OF, NodeId(2), replicas::Message::Inquire);
        turn.changes.push(replicas::Change::Settled);
        turn.send_word(OF, NodeId(2), replicas::Message::Want);
        turn.send(NodeId(2), &Envelope::HasBegun(ID));
        let early: Vec<bool> = turn.letters.iter().map(|letter| letter.early).collect();
        assert_eq!(early, [true, true, false, false]);
    }

    #[test]
    fn an_update_waits_for_the_record_of_its_state() {
        let next = Point { author: NodeId(1), epoch: Epoch(1), number: 2 };
        let notes = Vec::new();
        let extended = replicas::Change::Extended { point: next, progress: 1, ended: false, notes };
        let mut turn = Turn { changes: vec![extended], ..Turn::default() };
        let base = None;
        let update = replicas::Message::Update {
            base,
            next,
            progress: 1,
            ended: false,
            urgent: false,
            delta: Vec::new().into(),
            beginning: None,
        };
        turn.send_word(OF, NodeId(2), update);
        assert!(!turn.letters[0].early);
    }

    #[test]
    fn nobody_waits_to_hear_that_others_forget() {
        let mut turn = Turn::default();
        turn.send(NodeId(2), &Envelope::Forgetting(OF, two_phase::Message::Prepared));
        turn.send_word(OF, NodeId(2), replicas::Message::Inquire);
        let awaited: Vec<bool> = turn.letters.iter().map(|letter| letter.awaited).collect();
        assert_eq!(awaited, [false, true]);
    }

    #[test]
    fn what_goes_to_several_nodes_is_the_same_to_each() {
        let mut turn = Turn::default();
        for node in [1, 2] {
            turn.send_word(OF, NodeId(node), replicas::Message::Inquire);
        }
        assert_eq!(turn.letters[0].message, turn.letters[1].message);
        turn.send_word(OF, NodeId(3), replicas::Message::Want);
        assert_ne!(turn.letters[1].message, turn.letters[2].message);
    }
}
