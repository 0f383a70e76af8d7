//! Membership inside the engine: who is in the cluster and where is found out by gossip; who was
//! removed is told to everyone, again and again.
//!
//! Gossip makes peers, it never unmakes them: whoever does not answer may come back, and whoever said
//! that it leaves is only no longer chosen. A node is gone for good only when a person removed it; that
//! is a set that grows, so nodes that hear of it in any order come to the same. How soon another node
//! takes an execution over does not depend on gossip but on heartbeats (`custody/peers.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use outlast_lineage::{Digester, ExecutionId, NodeId, Time};
use outlast_protocols::membership::{
    ADDRESSES_MAX, Change, Input, Member, Membership, Offer, Options, Output, State,
    TEXT_BYTES_MAX, Timer,
};
use outlast_protocols::replicas;
use outlast_workflow::Ticket;

use super::custody::Envelope;
use super::entry::Entry;
use super::{Engine, Step};
use crate::{Action, ClusterStanding, MemberStanding, Phase, Report};

/// For how long a node that does not answer is remembered: until a person removes it.
const FORGET_AFTER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// What gossip knows.
#[derive(Default)]
pub(super) struct Gossip {
    /// Nothing as long as nobody said where this node is.
    membership: Option<Membership>,
    timers: BTreeMap<Timer, Time>,
    /// Where the driver was told that the others are.
    places: BTreeMap<NodeId, Vec<String>>,
    /// Whether this node takes no new work.
    pub(super) draining: bool,
    /// Whether it is draining and could not hand over everything yet.
    pub(super) keeps_some: bool,
    /// The calls that must not be made twice and were under way when it began to drain.
    open_at_drain: BTreeMap<ExecutionId, Vec<Ticket>>,
}

impl fmt::Debug for Gossip {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timers, places, draining, .. } = self;
        let mut shown = formatter.debug_struct("Gossip");
        shown.field("timers", timers).field("places", places).field("draining", draining);
        shown.finish_non_exhaustive()
    }
}

impl Gossip {
    /// When it is to be woken.
    pub(super) fn next(&self) -> Option<Time> {
        self.timers.values().min().copied()
    }

    /// Whether a node takes no new work, as far as it said.
    pub(super) fn is_draining(&self, node: NodeId) -> bool {
        let peer = self.membership.as_ref().and_then(|it| it.peer(node));
        peer.is_some_and(|peer| peer.offer.is_draining() || peer.state == State::Left)
    }
}

impl Engine {
    /// Other nodes exist, whether they can be reached or not.
    pub(super) fn meet_peers(&mut self, step: &mut Step, others: &BTreeSet<NodeId>) {
        let me = self.options.node;
        let met = others.iter().filter(|node| **node != me);
        let met = met.filter(|node| self.peers.meet(step.now, **node)).count();
        if 0 < met {
            self.tell_removed(step);
            self.beat(step);
        }
    }

    /// Others can reach this node from now on: it takes part in the gossip.
    pub(super) fn join_gossip(&mut self, step: &mut Step, addresses: Vec<String>, release: String) {
        let fits = |text: &String| text.len() <= TEXT_BYTES_MAX;
        let addresses = addresses.into_iter().filter(fits).take(ADDRESSES_MAX).collect();
        let release = if fits(&release) { release } else { String::new() };
        let member = Member::new(self.options.node, self.author.epoch, addresses, release);
        // An epoch that no node reaches is none that gossip could use.
        let Ok(member) = member else { return };
        let options = Options { forget_after: FORGET_AFTER, ..Options::default() };
        let seed = Digester::new("gossip").field(&self.options.salt).number(self.options.node.0);
        let seed = seed.finish().as_bytes()[..8].try_into().map_or(0, u64::from_le_bytes);
        self.gossip.membership = Some(Membership::new(options, member, seed));
        let seeds = self.peers.all().collect();
        self.tell_gossip(step, Input::Join { seeds });
        self.tell_removed(step);
    }

    /// Gossip came in, perhaps from a node that was not known.
    pub(super) fn take_gossip(&mut self, step: &mut Step, from: NodeId, bytes: Vec<u8>) {
        self.tell_gossip(step, Input::Received { from, bytes });
    }

    /// Has gossip do what is due.
    pub(super) fn ring_gossip(&mut self, step: &mut Step) {
        let due = self.gossip.timers.iter().filter(|(_, at)| **at <= step.now);
        let due: Vec<Timer> = due.map(|(timer, _)| *timer).collect();
        for timer in due {
            self.gossip.timers.remove(&timer);
            if timer == Timer::ReachOutDue {
                self.tell_removed(step);
            }
            self.tell_gossip(step, Input::TimerFired(timer));
        }
    }

    fn tell_gossip(&mut self, step: &mut Step, input: Input) {
        let Some(membership) = &mut self.gossip.membership else { return };
        for output in membership.step(step.now, input) {
            match output {
                Output::Send { to, bytes } => {
                    let message = Envelope::Gossip(bytes.into()).encode();
                    step.order(None, Action::Send { to, message });
                }
                Output::SetTimer { timer, at } => drop(self.gossip.timers.insert(timer, at)),
                Output::Changed(changes) => {
                    self.report_members(step, &changes);
                    self.follow_gossip(step);
                }
            }
        }
    }

    /// Of a node that is gone for good nothing is told, though somebody who has not heard of that may tell
    /// gossip of it once more.
    fn report_members(&self, step: &mut Step, changes: &[Change]) {
        for change in changes.iter().filter(|_| self.options.reports) {
            if let Change::Became { node, state } = change
                && *node != self.options.node
                && !self.peers.is_gone(*node)
            {
                let report = Report::Member { node: *node, state: word(*state) };
                step.order(None, Action::Report(report));
            }
        }
    }

    /// Says that this node goes. What it holds with others, they hold on to.
    pub(super) fn leave_gossip(&mut self, step: &mut Step) {
        self.tell_gossip(step, Input::Leave);
        self.gossip.timers.clear();
    }

    /// Takes over who is there, and where.
    fn follow_gossip(&mut self, step: &mut Step) {
        let Some(membership) = &self.gossip.membership else { return };
        let mut met = false;
        for peer in membership.peers() {
            let (node, addresses) = (peer.member.node(), peer.member.addresses());
            if self.peers.is_gone(node) {
                continue;
            }
            met |= self.peers.meet(step.now, node);
            if !addresses.is_empty()
                && self.gossip.places.get(&node).is_none_or(|it| it != addresses)
            {
                let addresses = addresses.to_vec();
                self.gossip.places.insert(node, addresses.clone());
                step.order(None, Action::Meet { node, addresses });
            }
        }
        if met {
            self.tell_removed(step);
        }
    }

    /// Nodes are gone for good; whoever has not heard of it is told.
    pub(super) fn remove_peers(&mut self, step: &mut Step, removed: &BTreeSet<NodeId>) {
        let me = self.options.node;
        let removed = removed.iter().copied().filter(|node| *node != me);
        let news: Vec<NodeId> = removed.filter(|node| self.peers.remove(*node)).collect();
        if news.is_empty() {
            return;
        }
        for node in news {
            self.gossip.places.remove(&node);
            self.tell_gossip(step, Input::Forget(node));
            self.tell_holders_of(node, &replicas::Input::Fenced(node));
            step.order(None, Action::ShutOut(node));
        }
        self.tell_removed(step);
    }

    fn tell_removed(&self, step: &mut Step) {
        let removed: Vec<NodeId> = self.peers.removed().collect();
        if removed.is_empty() {
            return;
        }
        let message = Envelope::Removed(removed).encode();
        for to in self.peers.all() {
            step.order(None, Action::Send { to, message: message.clone() });
        }
    }

    /// Takes no new work and hands over what it leads, or takes part as before.
    pub(super) fn drain(&mut self, step: &mut Step, draining: bool) {
        self.gossip.draining = draining;
        if let Ok(offer) = Offer::new(BTreeSet::new(), draining, 0) {
            self.tell_gossip(step, Input::Described(offer));
        }
        self.hand_over(draining);
    }

    /// Hands over what it leads, except what only this node can go on with for now: others could only ask a
    /// person what became of the call that is under way. That is looked at again with every heartbeat.
    pub(super) fn hand_over(&mut self, draining: bool) {
        let all: Vec<_> = self.custodies.iter().copied().collect();
        self.gossip.keeps_some = false;
        let held = &self.custodies;
        self.gossip.open_at_drain.retain(|id, _| draining && held.contains(id));
        for id in all {
            if draining && self.leads(id) && self.is_kept(id) {
                self.gossip.keeps_some = true;
            } else {
                self.tell_to_retire(id, draining);
            }
        }
    }

    fn leads(&self, id: ExecutionId) -> bool {
        self.phase_of(id).is_some_and(|phase| matches!(phase, Phase::Leading | Phase::Paused))
    }

    /// Whether an answer is still to come to a call that must not be made twice. Others could make such a call
    /// anew and have this one undone, unless it is a pivot; so of those, only the ones are waited for that were
    /// under way at first, or a loop of them would keep the node for as long as it runs.
    fn is_kept(&mut self, id: ExecutionId) -> bool {
        let Some(entry) = self.roster.get(id) else { return false };
        let open = entry.doubtful_calls();
        let at_first = self.gossip.open_at_drain.entry(id).or_insert_with(|| open.tickets.clone());
        open.must_be_heard || open.tickets.iter().any(|ticket| at_first.contains(ticket))
    }

    /// How many executions wait here for an answer that no other life or node of this cluster would hear.
    fn hearing(&self) -> u64 {
        let waits = self.roster.iter().filter(|(_, entry)| entry.has_doubtful_call_out());
        let here = waits.filter(|(id, _)| self.phase_of(**id).is_none() || self.leads(**id));
        here.count() as u64
    }

    /// The cluster as this node sees it.
    pub(super) fn standing(&mut self) -> ClusterStanding {
        let ids: Vec<_> = self.custodies.iter().copied().collect();
        let me = self.options.node;
        let entries = ids.iter().filter_map(|id| self.roster.get(*id));
        let held = entries.filter_map(|entry| Some((entry.holders()?, entry.is_active())));
        let (held, active): (Vec<_>, Vec<_>) = held.unzip();
        // What every node executes goes on without this one.
        let led = held.iter().zip(active);
        let led = led.filter(|(held, active)| held.leader == Some(me) && !active).count() as u64;
        let stalled = held.iter().filter(|held| held.phase.why_it_waits().is_some()).count() as u64;
        let awaited = held.into_iter().flat_map(|held| held.awaited).collect();
        let alone = self.live_alone(&ids);
        let membership = self.gossip.membership.as_ref();
        let members = self.peers.all().map(|node| {
            let peer = membership.and_then(|it| it.peer(node));
            MemberStanding {
                node,
                state: shown(peer.map(|peer| peer.state), self.peers.is_lost(node)),
                since: peer.map(|peer| peer.since),
                release: peer.map(|peer| peer.member.release().to_owned()).unwrap_or_default(),
                reachable: !self.peers.is_lost(node),
                draining: peer.is_some_and(|peer| peer.offer.is_draining()),
            }
        });
        ClusterStanding {
            members: members.collect(),
            clocks: self.peers.all().filter_map(|it| Some((it, self.peers.ahead(it)?))).collect(),
            removed: self.peers.removed().collect(),
            draining: self.gossip.draining,
            since: membership.map(Membership::since),
            live: self.roster.live() as u64,
            held: ids.len() as u64,
            alone,
            led,
            stalled,
            hearing: self.hearing(),
            awaited,
        }
    }

    /// The executions that this node holds together with others and that have not ended for it: they go
    /// on, or something that it did in them is to be undone.
    pub fn unfinished_with_others(&self) -> impl Iterator<Item = ExecutionId> {
        let is_live = |id: ExecutionId| self.roster.get(id).is_some_and(Entry::is_live);
        self.custodies.iter().copied().filter(move |id| {
            let lines = self.roster.get(*id).map(Entry::lost_lines).unwrap_or_default();
            is_live(*id) || lines.into_iter().any(|line| is_live(self.remnant_id(*id, line)))
        })
    }

    /// How many executions that have not ended are held by nobody else.
    fn live_alone(&self, shared: &[ExecutionId]) -> u64 {
        let is_live = |id: &ExecutionId| self.roster.get(*id).is_some_and(Entry::is_live);
        let lost_lines = shared.iter().flat_map(|id| {
            let lines = self.roster.get(*id).map(Entry::lost_lines).unwrap_or_default();
            lines.into_iter().map(|line| self.remnant_id(*id, line))
        });
        let shared = shared.iter().copied().chain(lost_lines).filter(is_live).count();
        self.roster.live().saturating_sub(shared) as u64
    }
}

/// What a member is called. Whoever is remembered from an earlier life and is not heard is not about to join:
/// it is dead, as far as anyone can tell.
fn shown(state: Option<State>, is_lost: bool) -> &'static str {
    match state.unwrap_or(State::Joining) {
        State::Joining if is_lost => word(State::Dead),
        state => word(state),
    }
}

const fn word(state: State) -> &'static str {
    match state {
        State::Joining => "joining",
        State::Alive => "alive",
        State::Suspect => "suspect",
        State::Dead => "dead",
        State::Left => "left",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_not_heard_is_not_called_joining() {
        assert_eq!([shown(None, false), shown(Some(State::Joining), false)], ["joining"; 2]);
        assert_eq!([shown(None, true), shown(Some(State::Joining), true)], ["dead"; 2]);
        assert_eq!(shown(Some(State::Left), true), "left");
        assert_eq!(shown(Some(State::Alive), true), "alive");
    }
}
