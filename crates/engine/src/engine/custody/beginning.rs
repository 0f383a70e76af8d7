//! Starting an execution on several nodes: every replica is told, the highest begins.

use std::collections::BTreeSet;
use std::sync::Arc;

use outlast_lineage::{Digester, ExecutionId, NodeId};
use outlast_protocols::replicas;
use outlast_workflow::program::Kind;
use outlast_workflow::{Author, Execution, Start};

use super::super::definitions::Defined;
use super::super::entry::{Entry, encode_state};
use super::super::starting::busy;
use super::super::{Engine, Step, sizes};
use super::driving::Turn;
use super::{Alarm, Begin, Custody, Envelope, Holding, Terms};
use crate::{Action, Caller, Position, Refusal, Reply, Survival};

impl Engine {
    /// Starts an execution on as many nodes as it is to survive on.
    pub(in crate::engine) fn start_replicated(
        &mut self,
        step: &mut Step,
        caller: Caller,
        defined: Arc<Defined>,
        begin: Begin,
    ) -> Result<(), Refusal> {
        check_kinds(&defined)?;
        let (execution, definition) = (begin.execution, begin.definition);
        let me = self.options.node;
        let others: BTreeSet<NodeId> =
            begin.terms.members.iter().copied().filter(|member| *member != me).collect();
        let message = Envelope::Begin(Box::new(begin.clone())).encode();
        let position = self.hold(step, defined, begin);
        for to in others.iter().copied() {
            let message = message.clone();
            step.order(Some(position), Action::Send { to, message });
        }
        let holding = self.holding(execution).expect("it was just made");
        holding.unaware = others;
        let reply = Reply::Started { execution, definition, new: true };
        if holding.copies_before_started() == 0 {
            step.reply(Some(position), caller, reply);
        } else {
            holding.starters.push(caller);
        }
        self.set_custody_alarm(
            execution,
            Alarm::Begin,
            step.now.after(self.options.times.patience),
        );
        Ok(())
    }

    /// Which nodes hold an execution: this one and those that a digest puts first, so that the
    /// holders of many executions are spread over the cluster.
    pub(in crate::engine) fn choose_members(
        &self,
        execution: ExecutionId,
        survival: &Survival,
    ) -> Result<Terms, Refusal> {
        let wanted = usize::from(survival.replicas);
        let mut others: Vec<NodeId> = self.peers.all().collect();
        if others.len() + 1 < wanted {
            return Err(busy(format!(
                "{wanted} replicas are wanted and this node knows of {} nodes, itself included",
                others.len() + 1
            )));
        }
        let rank = |node: &NodeId| {
            let digest = Digester::new("holder").field(execution.as_bytes()).number(node.0);
            let unfit = self.peers.is_lost(*node) || self.gossip.is_draining(*node);
            (unfit, *digest.finish().as_bytes())
        };
        others.sort_by_cached_key(rank);
        let mut members: Vec<NodeId> = others.into_iter().take(wanted - 1).collect();
        members.push(self.options.node);
        members.sort_unstable();
        Ok(Terms { survival: survival.clone(), members })
    }

    /// Becomes a replica of an execution.
    pub(in crate::engine) fn hold(
        &mut self,
        step: &mut Step,
        defined: Arc<Defined>,
        begin: Begin,
    ) -> Position {
        let Begin { execution: id, name, input, salt, started, terms, .. } = begin;
        let digest = sizes::digest_of(&input);
        // Nobody goes on from this value unless this replica is to begin: then it is made anew.
        let start = Start { id, input, salt, keep_plan: true };
        let nobody = Author { node: self.options.node, epoch: outlast_lineage::Epoch(0) };
        let (placeholder, _) = Execution::start(&defined.program, start, nobody, started);
        let weight = encode_state(&placeholder).len();
        let holding = Holding::new(self.options.node, terms, salt, &self.options.times);
        let entry = Entry {
            name: name.map(String::into_boxed_str),
            weight,
            held: true,
            custody: Some(Custody::Replica(Box::new(holding))),
            ..Entry::new(defined, digest, None, started, self.position, placeholder)
        };
        self.roster.insert(id, entry);
        self.custodies.insert(id);
        self.wake(id);
        self.counters.started += 1;
        let lost: Vec<NodeId> = self.lost_members(id);
        let mut turn = Turn { begun: true, ..Turn::default() };
        for peer in lost {
            self.tell_replica(step, id, replicas::Input::PeerLost(peer), &mut turn);
        }
        self.tell_replica(step, id, replicas::Input::Begun, &mut turn);
        self.finish_turn(step, id, turn)
    }

    pub(super) fn lost_members(&mut self, id: ExecutionId) -> Vec<NodeId> {
        let me = self.options.node;
        let Some(holding) = self.holding(id) else { return Vec::new() };
        let members = holding.terms.members.clone();
        members.into_iter().filter(|peer| *peer != me && self.peers.is_lost(*peer)).collect()
    }

    /// Another node asks this one to be a replica.
    pub(in crate::engine) fn take_begin(&mut self, step: &mut Step, from: NodeId, begin: Begin) {
        let id = begin.execution;
        if !begin.terms.members.contains(&self.options.node) || self.tombstones.contains(id) {
            return;
        }
        self.meet_peers(step, &begin.terms.members.iter().copied().collect());
        if let Some(entry) = self.roster.get(id) {
            let position = entry.position;
            return step.order(
                Some(position),
                Action::Send { to: from, message: Envelope::HasBegun(id).encode() },
            );
        }
        let Some(defined) = self.definitions.get(&begin.definition).cloned() else {
            let message = Envelope::WantDefinition(begin.definition).encode();
            step.order(None, Action::Send { to: from, message });
            self.stash_begin(from, begin);
            return;
        };
        if self.storage_full {
            return;
        }
        let position = self.hold(step, defined, begin);
        if self.gossip.draining {
            self.tell_to_retire(id, true);
        }
        let message = Envelope::HasBegun(id).encode();
        step.order(Some(position), Action::Send { to: from, message });
    }

    pub(super) fn has_begun(&mut self, step: &mut Step, from: NodeId, id: ExecutionId) {
        let Some(holding) = self.holding(id) else { return };
        if !holding.unaware.remove(&from) {
            return;
        }
        let aware = holding.terms.members.len() - 1 - holding.unaware.len();
        if holding.copies_before_started() <= aware {
            let starters = std::mem::take(&mut holding.starters);
            let entry = self.roster.known(id);
            let (position, definition) = (entry.position, entry.defined.definition.digest);
            for caller in starters {
                let reply = Reply::Started { execution: id, definition, new: true };
                step.reply(Some(position), caller, reply);
            }
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
        if self.peers.is_lost(to) || !self.wake(id) {
            return;
        }
        let entry = self.roster.known(id);
        let Some(Custody::Replica(holding)) = &entry.custody else { return };
        let begin = Begin {
            execution: id,
            name: entry.name.as_deref().map(str::to_owned),
            definition: entry.defined.definition.digest,
            input: entry.execution().input(),
            salt: holding.salt,
            started: entry.started,
            terms: holding.terms.clone(),
        };
        let position = entry.position;
        let message = Envelope::Begin(Box::new(begin)).encode();
        step.order(Some(position), Action::Send { to, message });
    }
}

/// What a single node can do with events and children, replicas cannot yet.
fn check_kinds(defined: &Defined) -> Result<(), Refusal> {
    let word = defined.program.tasks.iter().find_map(|task| match &task.kind {
        Kind::Emit(_) => Some("emit"),
        Kind::Listen { .. } => Some("listen"),
        Kind::RunWorkflow { wait: false, .. } => Some("run: workflow` with `await: false"),
        _ => None,
    });
    match word {
        None => Ok(()),
        Some(word) => Err(Refusal::Invalid(format!(
            "`{word}` works on one node only in this release: start it with `survival: none`"
        ))),
    }
}
