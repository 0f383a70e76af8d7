//! One step of one execution in custody, until it is recorded: what changed, and what is to be said.
//!
//! All machines of an execution write into the same turn, in their order. What changes becomes one
//! record; what is said waits for it, unless it was ordered before anything changed. What is said to one
//! node is one message, which is one turn and one record there: an end and the question whether it is
//! agreed to, the agreement and that all is ready to be forgotten.
//!
//! An update waits too, although backups could write at the same time as their primary: if the primary
//! crashed before it had written what it sent, the others would know of a state in which an effect of
//! its own was taken up, and it would take that effect for one that was lost, and undo it.

use std::collections::BTreeSet;

use outlast_lineage::{EffectId, Epoch, NodeId};
use outlast_protocols::replicas::{self, Situation};
use outlast_protocols::{paxos, two_phase};
use outlast_workflow::Command;

use super::{Begin, Envelope, Forgetting, Said, Shared, StateBytes};
use crate::Happenings;

/// What one step did to one execution in custody, until it is recorded.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether it is the first.
    pub(super) begun: bool,
    /// How it began for those with whom it is held from now on, if not with those of before.
    pub(super) regrouped: Option<Box<Begin>>,
    pub(super) changes: Vec<replicas::Change>,
    /// The state that took the place of the one held.
    pub(super) adopted: Option<StateBytes>,
    /// What the state held went on by, in the form of `Passed`, oldest first.
    pub(super) passed: Vec<StateBytes>,
    /// Lines that are kept apart, with their states.
    pub(super) remnants: Vec<(Epoch, StateBytes)>,
    pub(super) happenings: Happenings,
    /// Those of them, the first ones, that are not in what the state went on by.
    pub(super) told_apart: Happenings,
    /// Whether something may wait for a person now that did not before, or the other way round.
    pub(super) touches_parking: bool,
    pub(super) commands: Vec<Command>,
    /// Whether commands and happenings are this node's own.
    pub(super) advanced: bool,
    /// Whether this node went on from what another one had left.
    pub(super) taken_over: bool,
    /// Effects that can be neither undone nor repeated, among those intended.
    pub(super) pivots: BTreeSet<EffectId>,
    pub(super) decisions: Vec<(u32, outlast_protocols::paxos::Record)>,
    pub(super) forgetting: Option<Forgetting>,
    /// What is said, in its order, by the node it is said to.
    pub(super) said: Vec<Group>,
    /// Who is told that this node could forget: that it knows the decision goes without saying.
    pub(super) ready_for: Option<NodeId>,
    pub(super) situations: Vec<Situation>,
    pub(super) concluded: bool,
    pub(super) forgotten: bool,
}

/// What is said to a node in one message.
#[derive(Debug)]
pub(super) struct Group {
    to: NodeId,
    /// Whether it was ordered before anything changed, and so need not wait for the turn's record.
    early: bool,
    words: Vec<Said>,
}

impl Group {
    /// Whether a word can be said in the same message. A word between replicas may replace the state
    /// that later words are about, so it comes first, and there is one.
    fn takes(&self, word: &Said) -> bool {
        let is_first = self.words.iter().all(|said| matches!(said, Said::Begin(_)));
        is_first || !matches!(word, Said::Begin(_) | Said::Replica(_))
    }
}

/// A message that a turn sends.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) to: NodeId,
    pub(super) message: Vec<u8>,
    /// Whether it need not wait for the turn's record.
    pub(super) early: bool,
    /// Whether somebody waits for it.
    pub(super) awaited: bool,
}

impl Turn {
    /// Says something to a node that holds the execution, too.
    pub(super) fn say(&mut self, to: NodeId, word: Said) {
        match &word {
            Said::Forgetting(two_phase::Message::Prepared) => self.ready_for = Some(to),
            Said::Paxos(_, paxos::Message::Learned) if self.ready_for == Some(to) => return,
            _ => {}
        }
        let early = !self.is_recorded();
        let last = self.said.iter_mut().rev().find(|group| group.to == to);
        match last.filter(|group| group.early == early && group.takes(&word)) {
            Some(group) => group.words.push(word),
            None => self.said.push(Group { to, early, words: vec![word] }),
        }
    }

    /// All that is said, as it is sent. What goes to several nodes is written once.
    pub(super) fn letters(&mut self, of: Shared) -> Vec<Letter> {
        let mut letters: Vec<Letter> = Vec::with_capacity(self.said.len());
        let mut before: Option<Envelope> = None;
        for Group { to, early, words } in std::mem::take(&mut self.said) {
            let same = match &before {
                Some(Envelope::Words(_, before)) => *before == words,
                _ => false,
            };
            let awaited = words.iter().any(Said::is_awaited);
            let message = match letters.last().filter(|_| same) {
                Some(letter) => letter.message.clone(),
                None => before.insert(Envelope::Words(of, words)).encode(),
            };
            letters.push(Letter { to, message, early, awaited });
        }
        letters
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.begun
            || self.regrouped.is_some()
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

    const OF: Shared = Shared { execution: ExecutionId::from_bytes([7; 16]), mark: 1 };
    const INQUIRE: Said = Said::Replica(replicas::Message::Inquire);
    const WANT: Said = Said::Replica(replicas::Message::Want);
    const LEARNED: Said = Said::Paxos(0, paxos::Message::Learned);
    const PREPARED: Said = Said::Forgetting(two_phase::Message::Prepared);

    /// What is sent, in words.
    fn words(turn: &mut Turn) -> Vec<(u64, Vec<Said>)> {
        let read = |letter: Letter| match Envelope::decode(&letter.message) {
            Some(Envelope::Words(OF, words)) => (letter.to.0, words),
            other => panic!("{other:?} is not about the execution"),
        };
        turn.letters(OF).into_iter().map(read).collect()
    }

    #[test]
    fn what_is_said_before_anything_changed_need_not_wait_for_the_record() {
        let mut turn = Turn::default();
        turn.say(NodeId(2), Said::Holds);
        turn.say(NodeId(2), PREPARED);
        turn.changes.push(replicas::Change::Settled);
        turn.say(NodeId(2), PREPARED);
        turn.say(NodeId(2), Said::Holds);
        let early: Vec<bool> = turn.letters(OF).iter().map(|letter| letter.early).collect();
        assert_eq!(early, [true, false]);
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
        turn.say(NodeId(2), Said::Replica(update));
        assert!(!turn.letters(OF)[0].early);
    }

    #[test]
    fn nobody_waits_to_hear_that_others_forget() {
        let mut turn = Turn::default();
        turn.say(NodeId(2), PREPARED);
        turn.say(NodeId(3), PREPARED);
        turn.say(NodeId(3), Said::Paxos(0, paxos::Message::Ask));
        let awaited: Vec<bool> = turn.letters(OF).iter().map(|letter| letter.awaited).collect();
        assert_eq!(awaited, [false, true]);
    }

    #[test]
    fn what_is_said_to_one_node_is_one_message_in_its_order() {
        let mut turn = Turn::default();
        for node in [1, 2] {
            turn.say(NodeId(node), INQUIRE);
        }
        for node in [1, 2] {
            turn.say(NodeId(node), Said::Holds);
        }
        let both = vec![INQUIRE, Said::Holds];
        assert_eq!(words(&mut turn), [(1, both.clone()), (2, both)]);
    }

    #[test]
    fn a_word_between_replicas_comes_first_in_its_message_and_there_is_one() {
        let mut turn = Turn::default();
        for word in [INQUIRE, WANT, Said::Holds, INQUIRE] {
            turn.say(NodeId(1), word);
        }
        let apart = [(1, vec![INQUIRE]), (1, vec![WANT, Said::Holds]), (1, vec![INQUIRE])];
        assert_eq!(words(&mut turn), apart);
    }

    #[test]
    fn whoever_is_told_that_all_is_ready_is_not_told_that_the_decision_is_known() {
        let mut turn = Turn::default();
        turn.say(NodeId(1), PREPARED);
        turn.say(NodeId(1), LEARNED);
        turn.say(NodeId(2), LEARNED);
        assert_eq!(words(&mut turn), [(1, vec![PREPARED]), (2, vec![LEARNED])]);
    }

    #[test]
    fn what_goes_to_several_nodes_is_the_same_to_each() {
        let mut turn = Turn::default();
        for (node, word) in [(1, INQUIRE), (2, INQUIRE), (3, WANT)] {
            turn.say(NodeId(node), word);
        }
        let letters = turn.letters(OF);
        assert_eq!(letters[0].message, letters[1].message);
        assert_ne!(letters[1].message, letters[2].message);
    }
}
