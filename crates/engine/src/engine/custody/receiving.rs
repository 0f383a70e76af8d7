//! What comes in from other nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use outlast_lineage::{Digest, ExecutionId, NodeId, Time};
use outlast_protocols::{replicas, two_phase};
use outlast_workflow::Program;

use super::super::{Due, Engine, Step, Work};
use super::peers::Heard;
use super::turn::Turn;
use super::{Begin, Envelope, Said, Shared, Word};
use crate::{Action, Definition};

/// How many executions wait for their definitions at most; their starters ask again.
const STASHED_MAX: usize = 1000;

impl Engine {
    /// The driver says who the others are.
    pub(in crate::engine) fn know_peers(&mut self, step: &mut Step, others: &BTreeSet<NodeId>) {
        let mut others = others.clone();
        others.remove(&self.options.node);
        self.peers.replace(step.now, &others);
        // In every life anew: nobody writes down who is gone.
        let all: Vec<ExecutionId> = self.custodies.iter().copied().collect();
        for id in all {
            for gone in self.gone_members(id) {
                let word = Word::Replica(Box::new(replicas::Input::Fenced(gone)));
                self.queue(id, |execution| Work::Custody { execution, word });
            }
        }
        self.beat(step);
    }

    /// A message came in.
    pub(in crate::engine) fn receive(
        &mut self,
        step: &mut Step,
        from: NodeId,
        message: &[u8],
    ) -> Due {
        if let Some((still, clock)) = Envelope::heartbeat(message) {
            self.peers.hear_clock(step.now, from, clock);
            return self.take_heartbeat(step, from, still);
        }
        let envelope = Envelope::decode(message);
        // Whoever gossips is a member: the channel has shown that, unless it was removed since.
        if let Some(Envelope::Gossip(_)) = &envelope {
            self.meet_peers(step, &BTreeSet::from([from]));
        }
        let Some(envelope) = envelope.filter(|_| self.peers.is_known(from)) else {
            self.counters.strange_messages += 1;
            return Due::PerhapsEarlier;
        };
        self.counters.messages += 1;
        if self.peers.hear(step.now, from) {
            self.tell_holders_of(from, &replicas::Input::PeerFound(from));
        }
        self.open(step, from, envelope);
        Due::PerhapsEarlier
    }

    /// A peer is alive, and its disk has taken nothing for so many milliseconds. There are more of these
    /// than of all else, and none makes anything due earlier.
    fn take_heartbeat(&mut self, step: &Step, from: NodeId, still: u64) -> Due {
        let stuck = self.options.times.stuck_after <= Duration::from_millis(still);
        match self.peers.hear_beat(step.now, from, stuck) {
            None => {
                self.counters.strange_messages += 1;
                return Due::PerhapsEarlier;
            }
            Some(Heard::AsBefore) => {}
            Some(Heard::Lost) => self.lose_peer(from),
            Some(Heard::Found) => {
                self.tell_holders_of(from, &replicas::Input::PeerFound(from));
            }
        }
        self.counters.messages += 1;
        Due::AsBefore
    }

    fn open(&mut self, step: &mut Step, from: NodeId, envelope: Envelope) {
        match envelope {
            Envelope::Heartbeat(..) => {}
            Envelope::Gossip(bytes) => self.take_gossip(step, from, bytes.into()),
            Envelope::Removed(nodes) => self.remove_peers(step, &nodes.into_iter().collect()),
            Envelope::WantDefinition(digest) => self.give_to_peer(step, from, digest),
            Envelope::Definition(definition) => {
                self.teaching.knows(from, definition.digest);
                self.compile(step, *definition);
            }
            Envelope::DefinitionsOffered(offered) => self.take_definitions(step, from, &offered),
            Envelope::DefinitionsHeld(held) => {
                held.into_iter().for_each(|digest| self.teaching.knows(from, digest));
            }
            Envelope::Unknown(id, asked) => self.meet_unknowing(step, from, id, asked),
            Envelope::Knows(id, asked) => self.take_question(step, from, id, asked),
            // The rest is written down; while the disk is full, it is as good as lost.
            _ if self.storage_full => {}
            Envelope::Otherwise(id, begin) => self.take_otherwise(step, from, id, begin),
            Envelope::Begin(begin) => self.take_begin(step, from, *begin),
            Envelope::Words(of, words) => self.take_words(step, from, of, words),
            Envelope::Event(carried) => self.take_carried(step, from, *carried),
            Envelope::EventsOffered(offered) => self.take_offer(step, from, &offered),
            Envelope::EventsSorted(held, wanted) => self.take_sorted(step, from, &held, &wanted),
        }
    }

    /// Whether this node holds an execution together with the sender. If it never heard of it, or holds
    /// it with others, the sender is told.
    pub(super) fn knows(&mut self, step: &mut Step, from: NodeId, of: Shared) -> bool {
        let id = of.execution;
        if let Some(holding) = self.holding(id) {
            if holding.terms.members.mark() == of.mark && holding.terms.members.contains(from) {
                return self.wake(id);
            }
            // Whoever was to hold it with this node, which then joined others, would wait for ever.
            self.say_otherwise(step, from, id);
            return false;
        }
        // What was forgotten is not revived by late messages.
        if self.roster.get(id).is_none() && !self.tombstones.contains(id) {
            let message = Envelope::Unknown(id, None).encode();
            step.order(None, Action::Send { to: from, message });
        }
        false
    }

    /// An execution as this node holds it with others.
    pub(super) fn shared(&mut self, id: ExecutionId) -> Option<Shared> {
        let mark = self.holding(id)?.terms.members.mark();
        Some(Shared { execution: id, mark })
    }

    /// What another node has to say of an execution, in one turn. Whoever speaks of it holds it: its
    /// starter may be waiting to hear so.
    fn take_words(&mut self, step: &mut Step, from: NodeId, of: Shared, words: Vec<Said>) {
        let id = of.execution;
        let mut turn = Turn::default();
        let mut words = words.into_iter().peekable();
        if let Some(Said::Begin(begin)) = words.next_if(|word| matches!(word, Said::Begin(_))) {
            let members = &begin.terms.members;
            let is_of_it = begin.execution == id && members.mark() == of.mark;
            if !is_of_it || !members.contains(from) {
                self.counters.strange_messages += 1;
                return;
            }
            if self.begin_in_turn(step, from, *begin, &mut turn) {
                turn.say(from, Said::Holds);
            }
            // What follows is told again to whoever asks for it.
            if self.holding(id).is_none() {
                return;
            }
        }
        if !turn.begun && !self.knows(step, from, of) {
            let words: Vec<Said> = words.collect();
            self.hear_of_another_group(step, of, &words);
            for word in words {
                if let Said::Forgetting(message) = word {
                    self.answer_as_forgotten(step, from, of, message);
                }
            }
            return;
        }
        self.has_begun(step, from, id);
        for (index, word) in words.enumerate() {
            // A word between replicas may replace the state that others are about: it comes first.
            if 0 < index && matches!(word, Said::Begin(_) | Said::Replica(_)) {
                self.counters.strange_messages += 1;
                break;
            }
            self.take_word(step, from, id, word, &mut turn);
        }
        self.finish_turn(step, id, turn);
    }

    fn take_word(
        &mut self,
        step: &mut Step,
        from: NodeId,
        id: ExecutionId,
        word: Said,
        turn: &mut Turn,
    ) {
        match word {
            Said::Begin(_) | Said::Holds => {}
            Said::Replica(mut message) => {
                if self.can_read(step, from, id, &mut message) {
                    let input = replicas::Input::Received { from, message };
                    self.tell_replica(step, id, input, turn);
                }
            }
            Said::Paxos(instance, message) => {
                self.take_paxos(step, from, id, instance, message, turn);
            }
            Said::PaxosOfHolders(instance, message) => {
                if self.may_agree(id, instance, &message) {
                    self.take_paxos(step, from, id, instance, message, turn);
                }
            }
            Said::Forgetting(message) => self.take_forgetting(step, from, id, message, turn),
            Said::Heard(hearsay) => self.take_hearsay(step, from, id, *hearsay, turn),
        }
    }

    /// A peer does not know an execution that it is a replica of: it is told again. If everyone
    /// else has forgotten it, it is as good as forgotten here.
    fn meet_unknowing(
        &mut self,
        step: &mut Step,
        from: NodeId,
        id: ExecutionId,
        asked: Option<Time>,
    ) {
        self.hear_unknown(step.now, from, id, asked);
        let Some(holding) = self.holding(id) else { return };
        if holding.terms.members.contains(from) {
            self.send_begin(step, from, id);
        }
    }

    /// Tells the custody of every execution that a peer is a replica of.
    pub(in crate::engine) fn tell_holders_of(&mut self, peer: NodeId, input: &replicas::Input) {
        let all: Vec<ExecutionId> = self.custodies.iter().copied().collect();
        for id in all {
            let Some(holding) = self.holding(id) else { continue };
            if holding.terms.members.contains(peer) {
                let word = Word::Replica(Box::new(input.clone()));
                self.queue(id, |execution| Work::Custody { execution, word });
            }
        }
    }

    /// Tells the replica of an execution that this node is about to stop, or not any more.
    pub(in crate::engine) fn tell_to_retire(&mut self, id: ExecutionId, retiring: bool) {
        let word = Word::Replica(Box::new(replicas::Input::Retiring(retiring)));
        self.queue(id, |execution| Work::Custody { execution, word });
    }

    /// Sends heartbeats that are due, and finds out who has been silent for too long.
    pub(in crate::engine) fn beat(&mut self, step: &mut Step) {
        let times = self.options.times.clone();
        let due = self.peers.beats(step.now, times.heartbeat);
        // A node that cannot write anything down cannot be primary either: it falls silent.
        if due && !self.storage_full {
            let still = self.certain.still(step.now).as_millis();
            let still = u64::try_from(still).ok().filter(|still| 0 < *still);
            let clock = Some(step.now.as_micros());
            let message = Envelope::Heartbeat(self.author.epoch, still, clock).encode();
            for to in self.peers.all() {
                step.order(None, Action::Send { to, message: message.clone() });
            }
        }
        if self.gossip.keeps_some {
            self.hand_over(true);
        }
        self.offer_events(step);
        self.offer_definitions(step);
        for peer in self.peers.missed(step.now, times.lost_after) {
            self.lose_peer(peer);
        }
    }

    fn lose_peer(&mut self, peer: NodeId) {
        self.counters.peers_lost += 1;
        self.teaching.forget(peer);
        self.tell_holders_of(peer, &replicas::Input::PeerLost(peer));
    }

    /// A definition came from a peer: the driver is to compile it.
    fn compile(&self, step: &mut Step, definition: Definition) {
        let known = self.definitions.get(&definition.digest).is_some();
        if !known && definition.text.len() <= self.options.limits.definition_bytes {
            step.order(None, Action::Compile(Box::new(definition)));
        }
    }

    /// A definition that a peer sent was compiled.
    pub(in crate::engine) fn compiled(
        &mut self,
        step: &mut Step,
        definition: Definition,
        program: Arc<Program>,
    ) {
        let digest = definition.digest;
        if program.digest != digest || self.definitions.get(&digest).is_some() {
            return;
        }
        self.insert_definition(step, definition, program);
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.stashed)
            .into_iter()
            .partition(|(_, begin)| begin.definition == digest);
        self.stashed = waiting;
        for (from, begin) in ready {
            self.queue_own(Work::Begin { from, begin: Box::new(begin) });
        }
    }

    /// Remembers an execution whose definition is on its way.
    pub(super) fn stash_begin(&mut self, from: NodeId, begin: Begin) {
        let known = self.stashed.iter().any(|(_, other)| other.execution == begin.execution);
        if !known && self.stashed.len() < STASHED_MAX {
            self.stashed.push((from, begin));
        }
    }

    /// Peers are gone for good: whoever waits to forget together with them does so no longer.
    pub(super) fn reconsider_forgetting(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        turn: &mut Turn,
    ) {
        for gone in self.gone_members(id) {
            let input = two_phase::coordinator::Input::Fenced(gone);
            self.tell_coordinator(step, id, input, turn);
        }
        self.coordinate(step, id, turn);
    }

    /// Whether the states and deltas that a message carries can be read: what cannot be read is
    /// dropped before any machine hears of it. So is a delta that does not fit the state it is said to go
    /// on from: whoever does not acknowledge it is told how far its sender is, and asks for the whole state.
    fn can_read(
        &mut self,
        step: &mut Step,
        from: NodeId,
        id: ExecutionId,
        message: &mut replicas::Message,
    ) -> bool {
        if let replicas::Message::Update { base, delta, .. } = message {
            let entry = self.roster.known(id);
            let (held, execution) = (entry.held_point(), entry.execution());
            return self.reading.read_delta(delta, (held == *base).then_some(execution));
        }
        let Some(held) = message.held_mut() else { return true };
        let definition = self.reading.read_state(&held.state);
        definition.is_some_and(|definition| self.can_run(step, from, id, definition))
    }

    /// Whether the definition of another line of an execution is known: two nodes that were asked for
    /// one start while they could not reach each other may have taken two versions.
    fn can_run(&mut self, step: &mut Step, from: NodeId, id: ExecutionId, digest: Digest) -> bool {
        let held = &self.roster.known(id).defined;
        if held.definition.digest == digest {
            return true;
        }
        let namespace = Arc::clone(&held.namespace);
        match self.definitions.get(&digest) {
            Some(defined) => defined.namespace == namespace,
            None => {
                let message = Envelope::WantDefinition(digest).encode();
                step.order(None, Action::Send { to: from, message });
                false
            }
        }
    }
}
