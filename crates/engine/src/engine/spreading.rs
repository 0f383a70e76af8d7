//! Events between nodes: whoever takes one in passes it on, and whatever a peer may lack is offered
//! until it says that it has it.
//!
//! An event is the same event everywhere by its source, type and id, so it is taken in once however often
//! and by whomever it is sent. Every node offers what it holds, not only the one that took it in
//! first: an event spreads even if that one is gone. What is older than events are kept is nowhere
//! taken in again.
//!
//! Who lacks what is known in memory only. In a new life everything is offered again, by what
//! identifies it; only what is wanted is sent.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{ExecutionId, NodeId, Time};

use super::custody::{Carried, Custody, Envelope};
use super::{Engine, Step};
use crate::{Action, Position, Publication, RecordKind};

/// How many events one message offers.
const OFFERED_MAX: usize = 512;

/// How many events are sent at once to who wants them; the rest is offered again.
const SENT_MAX: usize = 64;

/// Who may lack which events, by their numbers here.
#[derive(Debug, Default)]
pub(super) struct Spreading {
    lacking: BTreeMap<NodeId, BTreeSet<u64>>,
    /// When events were last offered.
    offered: Option<Time>,
}

impl Spreading {
    /// A peer has an event.
    fn holds(&mut self, peer: NodeId, number: u64) {
        if let Some(lacking) = self.lacking.get_mut(&peer) {
            lacking.remove(&number);
        }
    }
}

impl Engine {
    /// Sends an event that is new here to everyone who is to have it, if it came in here first.
    pub(super) fn share_event(&mut self, step: &mut Step, position: Position, number: u64) {
        let Some(publication) = self.events.get(number) else { return };
        let (is_own, to) = (publication.origin.is_none(), publication.to);
        let peers: Vec<NodeId> =
            self.peers.all().filter(|peer| self.is_meant_for(*peer, to)).collect();
        if peers.is_empty() {
            return;
        }
        let message = if is_own { self.carried(step.now, number) } else { None };
        for peer in peers {
            if let Some(lacking) = self.spreading.lacking.get_mut(&peer) {
                lacking.insert(number);
            }
            if let Some(message) = message.clone().filter(|_| !self.peers.is_lost(peer)) {
                step.order(Some(position), Action::Send { to: peer, message });
            }
        }
    }

    /// Whether a peer is to have an event: all have those for everyone; one for an execution is
    /// wanted where that is held.
    fn is_meant_for(&self, peer: NodeId, to: Option<ExecutionId>) -> bool {
        let Some(execution) = to else { return true };
        let custody = self.roster.get(execution).and_then(|entry| entry.custody.as_ref());
        matches!(custody, Some(Custody::Replica(holding)) if holding.terms.members.contains(peer))
    }

    fn carried(&self, now: Time, number: u64) -> Option<Vec<u8>> {
        let Publication { time, to, event, .. } = self.events.get(number)?;
        let carried = Carried {
            origin: self.events.get(number)?.origin_at(self.options.node),
            age: u64::try_from(now.since(*time).as_micros()).unwrap_or(u64::MAX),
            to: *to,
            event: event.clone(),
        };
        Some(Envelope::Event(Box::new(carried)).encode())
    }

    /// A peer passes an event on.
    pub(super) fn take_carried(&mut self, step: &mut Step, from: NodeId, carried: Carried) {
        let Carried { origin, age, to, event } = carried;
        let age_max = self.options.limits.buffered_event_age;
        let is_old = u64::try_from(age_max.as_micros()).is_ok_and(|most| most < age);
        let time = Time::from_micros(step.now.as_micros().saturating_sub(age));
        let number = self.events.next;
        let publication = Publication { number, time, to, event, origin: Some(origin) };
        let identity = publication.identity(self.options.node);
        if let Some(number) = self.events.number_of(identity) {
            self.spreading.holds(from, number);
            return self.sort(step, from, vec![identity], Vec::new());
        }
        let limits = &self.options.limits;
        if self.events.is_full(limits.buffered_events, limits.buffered_event_bytes) {
            // It is offered again.
            return;
        }
        if is_old || self.check_event(&publication.event).is_err() {
            return self.sort(step, from, vec![identity], Vec::new());
        }
        let (position, kind) = self.record(step, RecordKind::EventTaken(publication));
        let RecordKind::EventTaken(publication) = kind else { unreachable!("it was just made") };
        self.take_event(step, position, publication);
        self.spreading.holds(from, number);
        self.sort(step, from, vec![identity], Vec::new());
    }

    /// A peer says which events it has.
    pub(super) fn take_offer(&mut self, step: &mut Step, from: NodeId, offered: &[u64]) {
        let (mut held, mut wanted) = (Vec::new(), Vec::new());
        for identity in offered.iter().copied().take(OFFERED_MAX) {
            match self.events.number_of(identity) {
                Some(number) => {
                    self.spreading.holds(from, number);
                    held.push(identity);
                }
                None => wanted.push(identity),
            }
        }
        self.sort(step, from, held, wanted);
    }

    /// Says which events are here and which are wanted.
    fn sort(&self, step: &mut Step, to: NodeId, held: Vec<u64>, wanted: Vec<u64>) {
        let message = Envelope::EventsSorted(held, wanted).encode();
        step.order(Some(self.position), Action::Send { to, message });
    }

    /// A peer says which of the events that it was sent or offered it has, and which it wants.
    pub(super) fn take_sorted(
        &mut self,
        step: &mut Step,
        from: NodeId,
        held: &[u64],
        wanted: &[u64],
    ) {
        for number in held.iter().filter_map(|identity| self.events.number_of(*identity)) {
            self.spreading.holds(from, number);
        }
        for identity in wanted.iter().take(SENT_MAX) {
            let number = self.events.number_of(*identity);
            if let Some(message) = number.and_then(|number| self.carried(step.now, number)) {
                step.order(Some(self.position), Action::Send { to: from, message });
            }
        }
    }

    /// Offers every peer that can be reached what it may lack.
    pub(super) fn offer_events(&mut self, step: &mut Step) {
        let due = |last: Time| last.after(self.options.times.patience) <= step.now;
        if self.storage_full || !self.spreading.offered.is_none_or(due) {
            return;
        }
        self.spreading.offered = Some(step.now);
        let peers: BTreeSet<NodeId> = self.peers.all().collect();
        self.spreading.lacking.retain(|peer, _| peers.contains(peer));
        for peer in peers {
            self.meet_listener(peer);
            if self.peers.is_lost(peer) {
                continue;
            }
            let offered = self.lacked_by(peer);
            if !offered.is_empty() {
                let message = Envelope::EventsOffered(offered).encode();
                step.order(Some(self.position), Action::Send { to: peer, message });
            }
        }
    }

    /// A peer that is new in this life may lack everything.
    fn meet_listener(&mut self, peer: NodeId) {
        if !self.spreading.lacking.contains_key(&peer) {
            let all = self.events.numbers();
            let lacking = all.filter(|(_, to)| self.is_meant_for(peer, *to));
            let lacking = lacking.map(|(number, _)| number).collect();
            self.spreading.lacking.insert(peer, lacking);
        }
    }

    /// What identifies the next events that a peer may lack.
    fn lacked_by(&mut self, peer: NodeId) -> Vec<u64> {
        let events = &self.events;
        let Some(lacking) = self.spreading.lacking.get_mut(&peer) else { return Vec::new() };
        // What was dropped meanwhile cannot be had from here.
        lacking.retain(|number| events.get(*number).is_some());
        lacking.iter().take(OFFERED_MAX).filter_map(|number| events.identity_of(*number)).collect()
    }
}
