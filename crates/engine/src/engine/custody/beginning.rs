//! Starting an execution on several nodes: every replica is told, the highest begins.

use std::collections::BTreeSet;
use std::sync::Arc;

use outlast_lineage::{ExecutionId, NodeId};
use outlast_protocols::replicas;

use super::super::definitions::Defined;
use super::super::entry::Entry;
use super::super::{Engine, Step, Work, sizes};
use super::turn::Turn;
use super::{Alarm, Begin, Custody, Envelope, Holding, Said, Shared, Terms, Wish};
use crate::{Action, Caller, Position, RecordKind, Refusal, Reply, Subject};

impl Engine {
    /// Starts an execution on as many nodes as it is to survive on.
    pub(in crate::engine) fn start_replicated(
        &mut self,
        step: &mut Step,
        defined: Arc<Defined>,
        begin: Begin,
    ) {
        let execution = begin.execution;
        let others = self.others_of(&begin.terms);
        for to in &others {
            self.teach(step, *to, begin.definition);
        }
        let mut turn = Turn::default();
        self.hold(step, defined, begin, &others, replicas::Input::Begun, &mut turn);
        self.finish_turn(step, execution, turn);
        self.holding(execution).expect("it was just made").unaware = others;
        let again = step.now.after(self.options.times.patience);
        self.set_custody_alarm(execution, Alarm::Begin, again);
    }

    /// Tells a caller that an execution is started, once enough nodes hold it.
    pub(in crate::engine) fn acknowledge_start(
        &mut self,
        step: &mut Step,
        caller: Caller,
        id: ExecutionId,
        new: bool,
    ) {
        if let Some(holding) = self.holding(id)
            && !holding.is_copied()
        {
            holding.starters.push((caller, new));
            // Whoever was asked before may not be there any more to tell the others.
            if !new {
                self.begin_again(step, id);
            }
            return;
        }
        let entry = self.roster.known(id);
        let (position, definition) = (entry.position, entry.defined.definition.digest);
        step.reply(Some(position), caller, Reply::Started { execution: id, definition, new });
    }

    fn others_of(&self, terms: &Terms) -> BTreeSet<NodeId> {
        terms.members.others(self.options.node).collect()
    }

    /// Becomes a replica of an execution, which is told this word, and tells others to. They hear that
    /// before anything else about it: whoever knows nothing of an execution cannot take up its first state.
    /// Says whether somebody waits to hear that they hold it.
    fn hold(
        &mut self,
        step: &mut Step,
        defined: Arc<Defined>,
        begin: Begin,
        others: &BTreeSet<NodeId>,
        word: replicas::Input,
        turn: &mut Turn,
    ) -> bool {
        turn.begun = true;
        for to in others {
            turn.say(*to, Said::Begin(Box::new(begin.clone())));
        }
        let (unstarted, beginning) = (begin.unstarted(&defined.program), begin.digest());
        let Begin { execution: id, name, input, salt, started, terms, parent, .. } = begin;
        let digest = sizes::digest_of(&input);
        let holding =
            Holding::new(self.options.node, terms, salt, &self.options.times, Some(beginning));
        let is_awaited = parent.is_some() || 0 < holding.copies_before_started();
        let entry = Entry {
            name: name.map(String::into_boxed_str),
            held: true,
            custody: Some(Custody::Replica(Box::new(holding))),
            ..Entry::new(defined, digest, parent, started, self.position, unstarted)
        };
        self.roster.insert(id, entry);
        self.custodies.insert(id);
        self.wake(id);
        self.counters.started += 1;
        let lost: Vec<NodeId> = self.lost_members(id);
        for peer in lost {
            self.tell_replica(step, id, replicas::Input::PeerLost(peer), turn);
        }
        for gone in self.gone_members(id) {
            self.tell_replica(step, id, replicas::Input::Fenced(gone), turn);
        }
        self.tell_replica(step, id, word, turn);
        is_awaited
    }

    pub(super) fn lost_members(&mut self, id: ExecutionId) -> Vec<NodeId> {
        let me = self.options.node;
        let Some(holding) = self.holding(id) else { return Vec::new() };
        let members = holding.terms.members.clone();
        members.others(me).filter(|peer| self.peers.is_lost(*peer)).collect()
    }

    /// Another node asks this one to be a replica, and wants to hear that it is.
    pub(in crate::engine) fn take_begin(&mut self, step: &mut Step, from: NodeId, begin: Begin) {
        let id = begin.execution;
        let mut turn = Turn::default();
        self.begin_in_turn(step, from, begin, &mut turn);
        if turn.begun {
            turn.say(from, Said::Holds);
            self.finish_turn(step, id, turn);
        }
    }

    /// Another node says what an execution begins as: if nothing speaks against it, this one becomes a
    /// replica. Says whether somebody waits to hear that.
    pub(super) fn begin_in_turn(
        &mut self,
        step: &mut Step,
        from: NodeId,
        begin: Begin,
        turn: &mut Turn,
    ) -> bool {
        let id = begin.execution;
        if !begin.terms.members.contains(self.options.node) {
            return false;
        }
        // Whoever is gone for good is not met again because an execution still names it.
        let members = begin.terms.members.iter();
        let members = members.filter(|node| !self.peers.is_gone(*node)).collect();
        self.meet_peers(step, &members);
        if let Some((position, answer)) = self.begun_before(id, &begin.terms) {
            let message = answer.encode();
            step.order(Some(position), Action::Send { to: from, message });
            return false;
        }
        let Some(defined) = self.definitions.get(&begin.definition).cloned() else {
            let message = Envelope::WantDefinition(begin.definition).encode();
            step.order(None, Action::Send { to: from, message });
            self.stash_begin(from, begin);
            return false;
        };
        if self.storage_full {
            return false;
        }
        let Some((begin, word)) = self.begin_at_once(step, from, begin) else { return false };
        let mut unaware = self.others_of(&begin.terms);
        unaware.remove(&from);
        let is_awaited = self.hold(step, defined, begin, &BTreeSet::new(), word, turn);
        self.holding(id).expect("it was just made").unaware = unaware;
        if self.gossip.draining {
            self.tell_to_retire(id, true);
        }
        is_awaited
    }

    /// Gives back what is to begin at once, and what its replica is told: whoever is to lead what others
    /// have started looks round first. If they hold it already, they did not wait: it comes to them as one
    /// that was away, and begins nothing anew.
    fn begin_at_once(
        &mut self,
        step: &mut Step,
        from: NodeId,
        begin: Begin,
    ) -> Option<(Begin, replicas::Input)> {
        let members = begin.terms.members.clone();
        if members.highest() != Some(self.options.node) {
            return Some((begin, replicas::Input::Begun));
        }
        let others = members.iter().filter(|node| *node != from);
        let (id, wish) = (begin.execution, Wish::Begin(from, Box::new(begin)));
        match self.look_round(step, id, others, wish) {
            Some((Wish::Begin(_, begin), false)) => Some((*begin, replicas::Input::Begun)),
            Some((Wish::Begin(_, begin), true)) => Some((*begin, replicas::Input::Restarted)),
            _ => None,
        }
    }

    /// What to say to whoever begins an execution that is known here. If it is held on other terms,
    /// those count: an execution is never held on two.
    fn begun_before(&mut self, id: ExecutionId, terms: &Terms) -> Option<(Position, Envelope)> {
        if self.tombstones.contains(id) {
            return Some((self.position, Envelope::Otherwise(id, None)));
        }
        let entry = self.roster.get(id)?;
        let position = entry.position;
        let held = match &entry.custody {
            Some(Custody::Replica(holding)) => Some(&holding.terms.members),
            _ => None,
        };
        let answer = match held {
            Some(members) if *members == terms.members => {
                let of = Shared { execution: id, mark: members.mark() };
                Envelope::Words(of, vec![Said::Holds])
            }
            Some(_) => Envelope::Otherwise(id, self.begin_of(id).map(Box::new)),
            None => Envelope::Otherwise(id, None),
        };
        Some((position, answer))
    }

    /// Tells a node on which terms an execution is held here.
    pub(super) fn say_otherwise(&mut self, step: &mut Step, to: NodeId, id: ExecutionId) {
        let message = Envelope::Otherwise(id, self.begin_of(id).map(Box::new)).encode();
        let position = self.roster.known(id).position;
        step.order(Some(position), Action::Send { to, message });
    }

    /// A peer holds an execution on other terms than this node does, which comes up when the cluster
    /// changes between two starts of one id. If nothing has happened here, this node takes over what
    /// the other one has. If something has, each side stays what it is, until one of them has decided on an end
    /// and the other one cannot (`regrouping`).
    pub(super) fn take_otherwise(
        &mut self,
        step: &mut Step,
        from: NodeId,
        id: ExecutionId,
        begin: Option<Box<Begin>>,
    ) {
        self.hear_known(step, from, id, begin.as_deref());
        let Some(holding) = self.holding(id) else { return };
        let members = &holding.terms.members;
        let is_peer = members.contains(from);
        // What arrives twice says the second time what is so already.
        let is_same = begin.as_ref().is_some_and(|begin| begin.terms.members == *members);
        if !is_peer || is_same {
            return;
        }
        if !holding.is_untouched() {
            if let Some(begin) = begin {
                holding.hear_elsewhere(from, *begin);
            }
            return;
        }
        let nodes =
            begin.as_ref().map_or_else(|| vec![from], |it| it.terms.members.iter().collect());
        let starters = std::mem::take(&mut holding.starters);
        let position = self.drop_holding(step, id);
        for (caller, _) in starters {
            let refusal = Refusal::Elsewhere { nodes: nodes.clone() };
            step.reply(Some(position), caller, Reply::Refused(refusal));
        }
        if let Some(begin) = begin {
            self.queue_own(Work::Begin { from, begin });
        }
    }

    /// Gives up an execution in which nothing has happened here.
    fn drop_holding(&mut self, step: &mut Step, id: ExecutionId) -> Position {
        self.quiet(id);
        self.drop_custody(id);
        let (position, _) = self.record(step, RecordKind::RemnantDropped(id));
        if let Some(entry) = self.roster.remove(id)
            && let Some(name) = entry.name
        {
            self.roster.free_name(&entry.defined.namespace, &name);
        }
        self.unsaved.clear(&Subject::Execution(id));
        step.order(Some(position), Action::Forget(Subject::Execution(id)));
        position
    }

    pub(super) fn has_begun(&mut self, step: &mut Step, from: NodeId, id: ExecutionId) {
        let Some(holding) = self.holding(id) else { return };
        holding.hear_here(from);
        if holding.unaware.remove(&from) {
            self.look_at_starters(step, id);
        }
    }

    /// Tells those who had it started, if enough hold it now.
    pub(super) fn look_at_starters(&mut self, step: &mut Step, id: ExecutionId) {
        let Some(holding) = self.holding(id).filter(|holding| holding.is_copied()) else { return };
        let starters = std::mem::take(&mut holding.starters);
        let detached = holding.detached.take();
        for (caller, new) in starters {
            self.acknowledge_start(step, caller, id, new);
        }
        if let Some((parent, number)) = detached {
            self.queue(parent, |execution| Work::Release { execution, number });
        }
    }

    /// Tells those who do not know of an execution again.
    pub(super) fn begin_again(&mut self, step: &mut Step, id: ExecutionId) {
        let Some(holding) = self.holding(id) else { return };
        let unaware: Vec<NodeId> = holding.unaware.iter().copied().collect();
        if unaware.is_empty() {
            return;
        }
        for peer in unaware {
            self.send_begin(step, peer, id);
        }
        self.set_custody_alarm(id, Alarm::Begin, step.now.after(self.options.times.patience));
    }

    /// Tells one peer what it must know to hold an execution.
    pub(super) fn send_begin(&mut self, step: &mut Step, to: NodeId, id: ExecutionId) {
        if self.peers.is_lost(to) {
            return;
        }
        let Some(begin) = self.begin_of(id) else { return };
        let (position, definition) = (self.roster.known(id).position, begin.definition);
        let message = Envelope::Begin(Box::new(begin)).encode();
        self.teach(step, to, definition);
        step.order(Some(position), Action::Send { to, message });
    }

    /// An execution as every replica must know it.
    fn begin_of(&mut self, id: ExecutionId) -> Option<Begin> {
        if !self.wake(id) {
            return None;
        }
        let entry = self.roster.known(id);
        let Some(Custody::Replica(holding)) = &entry.custody else { return None };
        Some(Begin {
            execution: id,
            name: entry.name.as_deref().map(str::to_owned),
            definition: entry.defined.definition.digest,
            input: entry.execution().input(),
            salt: holding.salt,
            started: entry.started,
            terms: holding.terms.clone(),
            parent: entry.parent.as_deref().copied(),
        })
    }
}
