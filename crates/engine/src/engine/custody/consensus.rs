//! Consensus on lines and forgetting together, run for the executions in custody.

use std::collections::BTreeSet;

use outlast_lineage::{ExecutionId, NodeId, Time};
use outlast_protocols::{paxos, replicas, two_phase};

use super::super::{Engine, Step, Work};
use super::turn::Turn;
use super::wire::{choice_of, value_of};
use super::{Alarm, Envelope, Said, Shared, Word};
use crate::{Action, Position, Subject};

impl Engine {
    /// Has a value decided on.
    pub(super) fn propose(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        instance: u32,
        value: paxos::Value,
        turn: &mut Turn,
    ) {
        self.tell_paxos(step, id, instance, paxos::Input::Propose(value), turn);
    }

    pub(super) fn tell_paxos(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        instance: u32,
        input: paxos::Input,
        turn: &mut Turn,
    ) {
        let Some(machine) = self.decision(id, instance) else { return };
        for output in machine.step(step.now, input) {
            match output {
                paxos::Output::Persist(record) => {
                    turn.decisions.retain(|(of, _)| *of != instance);
                    turn.decisions.push((instance, record));
                }
                paxos::Output::Send { to, message } => {
                    let word = match self.is_for_holders(id, &message) {
                        true => Said::PaxosOfHolders(instance, message),
                        false => Said::Paxos(instance, message),
                    };
                    turn.say(to, word);
                }
                paxos::Output::SetTimer { timer, at } => {
                    self.set_custody_alarm(id, Alarm::Paxos(instance, timer), at);
                }
                paxos::Output::Decided(value) => {
                    if let Some(choice) = choice_of(&value) {
                        let input = replicas::Input::Decided { instance, choice };
                        self.tell_replica(step, id, input, turn);
                    }
                }
            }
        }
    }

    /// This node's part in a decision.
    fn decision(&mut self, id: ExecutionId, instance: u32) -> Option<&mut paxos::Paxos> {
        if !self.holding(id)?.decisions.contains_key(&instance) {
            let (me, patience) = (self.options.node, self.options.times.patience);
            let gone = self.gone_members(id);
            let holding = self.holding(id)?;
            let members = holding.terms.members.clone();
            let machine = paxos::Paxos::new(me, members, patience).without(&gone);
            holding.decisions.insert(instance, machine);
        }
        self.holding(id)?.decisions.get_mut(&instance)
    }

    /// A node is lost for good: no decision waits for it, and those that are left may be enough now.
    pub(super) fn decide_without(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        lost: NodeId,
        turn: &mut Turn,
    ) {
        let Some(holding) = self.holding(id) else { return };
        let instances: Vec<u32> = holding.decisions.keys().copied().collect();
        for instance in instances {
            self.tell_paxos(step, id, instance, paxos::Input::Fenced(lost), turn);
        }
    }

    /// Whether only those who hold the proposed line may agree to it.
    fn is_for_holders(&mut self, id: ExecutionId, message: &paxos::Message) -> bool {
        let paxos::Message::Accept { value, .. } = message else { return false };
        let (Some(holding), Some(choice)) = (self.holding(id), choice_of(value)) else {
            return false;
        };
        holding.replica.needs_holders(&choice)
    }

    /// Whether this node holds the line that it is asked to agree to, keeps another one, or knows better.
    /// Otherwise it says nothing: its proposer asks again when the line had time to arrive.
    pub(super) fn may_agree(
        &mut self,
        id: ExecutionId,
        instance: u32,
        message: &paxos::Message,
    ) -> bool {
        let paxos::Message::Accept { value, .. } = message else { return true };
        let (Some(holding), Some(choice)) = (self.holding(id), choice_of(value)) else {
            return false;
        };
        instance < holding.replica.standing().decisions || holding.replica.may_agree(&choice)
    }

    /// A word on a decision came in.
    pub(super) fn take_paxos(
        &mut self,
        step: &mut Step,
        from: NodeId,
        id: ExecutionId,
        instance: u32,
        message: paxos::Message,
        turn: &mut Turn,
    ) {
        let Some(holding) = self.holding(id) else { return };
        let standing = holding.replica.standing();
        let is_told = matches!(message, paxos::Message::Decide { .. });
        // One decision after the other. Whoever speaks of the next one knows the last, and whoever was
        // to tell it may be gone.
        if standing.decisions < instance && !is_told {
            let ask = Said::Paxos(instance - 1, paxos::Message::Ask);
            return turn.say(from, ask);
        }
        let newest = standing.decisions.checked_sub(1).filter(|newest| instance <= *newest);
        if let (Some(newest), Some(choice)) = (newest, &standing.choice)
            && (instance < newest || !holding.decisions.contains_key(&instance))
        {
            // Over, or heard of from a replica, not from consensus: whoever asks is told the newest.
            // Who knows one is not, or the two would tell each other for ever.
            let value = value_of(choice);
            let answer = match message {
                paxos::Message::Learned => return,
                _ if is_told => Said::Paxos(instance, paxos::Message::Learned),
                _ => Said::Paxos(newest, paxos::Message::Decide { value }),
            };
            return turn.say(from, answer);
        }
        let asks = matches!(message, paxos::Message::Accept { .. });
        let input = paxos::Input::Received { from, message };
        self.tell_paxos(step, id, instance, input, turn);
        if asks && let Some(choice) = self.agreed_to(id, instance) {
            self.tell_replica(step, id, replicas::Input::Agreed { instance, choice }, turn);
        }
    }

    /// What this node has agreed to last, for a decision that is still open: of three, whoever agrees knows
    /// it already.
    fn agreed_to(&mut self, id: ExecutionId, instance: u32) -> Option<replicas::Choice> {
        let machine = self.holding(id)?.decisions.get(&instance)?;
        let record = machine.record();
        let accepted = record.accepted.as_ref().filter(|_| record.decided.is_none())?;
        choice_of(&accepted.value)
    }

    /// All that this node did is kept or undone: it could forget.
    pub(super) fn settled(&mut self, step: &mut Step, id: ExecutionId, turn: &mut Turn) {
        self.close_remnants(id);
        // Whoever still has something to let go of says nothing until it is asked again.
        let silent = self.keeps_something_back(id);
        let coordinator = self.coordinator_of(id).filter(|node| *node != self.options.node);
        let coordinator = coordinator.filter(|_| !silent);
        let finished = two_phase::participant::Input::Finished { coordinator };
        self.tell_participant(step, id, finished, turn);
        self.coordinate(step, id, turn);
    }

    /// The highest replica that is there: it sees to it that all forget.
    fn coordinator_of(&mut self, id: ExecutionId) -> Option<NodeId> {
        let gone = self.gone_members(id);
        let members = &self.holding(id)?.terms.members;
        members.iter().rev().find(|node| !gone.contains(node))
    }

    /// The highest replica that is there asks whether all can forget.
    pub(super) fn coordinate(&mut self, step: &mut Step, id: ExecutionId, turn: &mut Turn) {
        let me = self.options.node;
        let patience = self.options.times.patience;
        let is_coordinator = self.coordinator_of(id) == Some(me);
        let Some(holding) = self.holding(id) else { return };
        let begun = holding.coordinator.as_ref().is_some_and(|it| it.stage().is_some());
        if !holding.replica.standing().settled || begun || !is_coordinator {
            return;
        }
        if self.keeps_something_back(id) {
            return;
        }
        let gone = self.gone_members(id);
        let Some(holding) = self.holding(id) else { return };
        holding.coordinator.get_or_insert_with(|| two_phase::Coordinator::new(patience));
        let others = holding.terms.members.others(me);
        let others = others.filter(|node| !gone.contains(node)).collect();
        self.tell_coordinator(step, id, two_phase::coordinator::Input::Begin(others), turn);
    }

    /// Members that are lost for good: the driver no longer names them.
    pub(super) fn gone_members(&mut self, id: ExecutionId) -> BTreeSet<NodeId> {
        let me = self.options.node;
        let Some(holding) = self.holding(id) else { return BTreeSet::new() };
        let members = holding.terms.members.clone();
        members.others(me).filter(|node| self.peers.is_gone(*node)).collect()
    }

    pub(super) fn tell_participant(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        input: two_phase::participant::Input,
        turn: &mut Turn,
    ) {
        use two_phase::participant::Output;
        let Some(holding) = self.holding(id) else { return };
        for output in holding.participant.step(step.now, input) {
            match output {
                Output::Persist(record) => {
                    let Some(holding) = self.holding(id) else { return };
                    holding.forgetting.participant = Some(record);
                    turn.forgetting = Some(holding.forgetting.clone());
                }
                Output::Send { to, message } => {
                    turn.say(to, Said::Forgetting(message));
                }
                Output::SetTimer { timer, at } => {
                    self.set_custody_alarm(id, Alarm::Participant(timer), at);
                }
                Output::Forget => self.forget_if_free(id, turn),
            }
        }
    }

    /// Forgets, unless this node still has to tell others to.
    fn forget_if_free(&mut self, id: ExecutionId, turn: &mut Turn) {
        let Some(holding) = self.holding(id) else { return };
        let forgot = holding.forgetting.participant == Some(two_phase::participant::Record::Ended);
        let stage = holding.coordinator.as_ref().map(two_phase::Coordinator::stage);
        let ended = stage.is_none_or(|stage| {
            stage.is_none_or(|stage| stage == two_phase::coordinator::Stage::Ended)
        });
        turn.forgotten |= forgot && ended;
    }

    pub(super) fn tell_coordinator(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        input: two_phase::coordinator::Input,
        turn: &mut Turn,
    ) {
        use two_phase::coordinator::Output;
        let Some(holding) = self.holding(id) else { return };
        let Some(coordinator) = &mut holding.coordinator else { return };
        for output in coordinator.step(step.now, input) {
            match output {
                Output::Persist(record) => {
                    let Some(holding) = self.holding(id) else { return };
                    holding.forgetting.coordinator = Some(record);
                    turn.forgetting = Some(holding.forgetting.clone());
                }
                Output::Send { to, message } => {
                    turn.say(to, Said::Forgetting(message));
                }
                Output::SetTimer { timer, at } => {
                    self.set_custody_alarm(id, Alarm::Coordinator(timer), at);
                }
                Output::Committed => {
                    let input = two_phase::participant::Input::Committed;
                    self.tell_participant(step, id, input, turn);
                }
                Output::Ended => self.forget_if_free(id, turn),
            }
        }
    }

    /// A word on forgetting came in about an execution that is not held here with the sender. Whoever
    /// has forgotten says so: that all were ready is all there is to know, also for one whose coordinator
    /// is gone. Whoever never heard of it, or holds it with others, has not forgotten it.
    pub(super) fn answer_as_forgotten(
        &mut self,
        step: &mut Step,
        from: NodeId,
        of: Shared,
        message: two_phase::Message,
    ) {
        let id = of.execution;
        let was_here = self.roster.get(id).is_some() || self.tombstones.contains(id);
        let has_forgotten = was_here && self.holding(id).is_none();
        let answer = two_phase::Participant::answer_when_pruned(message);
        if let Some(answer) = answer.filter(|_| has_forgotten) {
            let message = Envelope::Words(of, vec![Said::Forgetting(answer)]).encode();
            step.order(Some(self.position), Action::Send { to: from, message });
        }
    }

    /// A word on forgetting came in.
    pub(super) fn take_forgetting(
        &mut self,
        step: &mut Step,
        from: NodeId,
        id: ExecutionId,
        message: two_phase::Message,
        turn: &mut Turn,
    ) {
        use two_phase::Message;
        if matches!(message, Message::Prepare | Message::Inquire) {
            self.ask_for_decision(from, id, turn);
        }
        // Whoever still has something to let go of is asked again.
        if matches!(message, Message::Prepare) && self.keeps_something_back(id) {
            return;
        }
        match message {
            Message::Prepare | Message::Forget => {
                let input = two_phase::participant::Input::Received { from, message };
                self.tell_participant(step, id, input, turn);
            }
            Message::Prepared | Message::Forgotten | Message::Inquire => {
                if message == Message::Prepared {
                    self.hear_ready(step, from, id, turn);
                }
                let input = two_phase::coordinator::Input::Received { from, message };
                self.tell_coordinator(step, id, input, turn);
            }
        }
    }

    /// Whoever is ready to forget knows what was decided in the end. If this node does not, it asks: whoever
    /// executes by itself, and came back when nobody could be reached, may never hear of it otherwise.
    fn ask_for_decision(&mut self, from: NodeId, id: ExecutionId, turn: &mut Turn) {
        let Some(holding) = self.holding(id) else { return };
        let standing = holding.replica.standing();
        if standing.final_choice().is_none() {
            let ask = Said::Paxos(standing.decisions, paxos::Message::Ask);
            turn.say(from, ask);
        }
    }

    /// Whoever could forget knows the decision; and it may say so before this node has begun to ask.
    fn hear_ready(&mut self, step: &mut Step, from: NodeId, id: ExecutionId, turn: &mut Turn) {
        let (me, patience) = (self.options.node, self.options.times.patience);
        let Some(holding) = self.holding(id) else { return };
        if holding.terms.members.outranks(me, from) && holding.terms.members.contains(from) {
            holding.coordinator.get_or_insert_with(|| two_phase::Coordinator::new(patience));
        }
        let last = holding.replica.standing().decisions.checked_sub(1);
        if let Some(instance) = last.filter(|last| holding.decisions.contains_key(last)) {
            let input = paxos::Input::Received { from, message: paxos::Message::Learned };
            self.tell_paxos(step, id, instance, input, turn);
        }
    }

    /// All have forgotten: what is left is an ended execution like any other.
    pub(super) fn release_custody(&mut self, step: &mut Step, id: ExecutionId, position: Position) {
        let late = self.holding(id).map(|holding| std::mem::take(&mut holding.late));
        self.drop_custody(id);
        self.roster.change(id, |entry| entry.held = false);
        for event in late.into_iter().flatten() {
            self.queue(id, |execution| Work::Advance { execution, event });
        }
        self.unsaved.mark(Subject::Execution(id), position);
        self.over.push(id);
        self.tidy(step.now);
    }

    /// Drops everything that was kept for the custody of an execution.
    pub(in crate::engine) fn drop_custody(&mut self, id: ExecutionId) {
        let Some(entry) = self.roster.get_mut(id) else { return };
        let Some(super::Custody::Replica(holding)) = entry.custody.take() else { return };
        let mut copies: Vec<NodeId> = holding.terms.members.iter().collect();
        copies.reverse();
        entry.copies = Some(copies.into());
        for (alarm, at) in holding.timers {
            self.custody_alarms.remove(&(at, id, alarm));
        }
        self.custodies.remove(&id);
        self.close_address(holding.address, id);
        for line in holding.replica.standing().remnants.keys() {
            let remnant = self.remnant_id(id, *line);
            if let Some(entry) = self.roster.get(remnant) {
                let address = entry.remnant().and_then(|remnant| remnant.address);
                self.close_address(address, remnant);
                self.queue_own(Work::DropRemnant(remnant));
            }
        }
    }

    /// Sets a timer of a custody in place of the one of the same name.
    pub(super) fn set_custody_alarm(&mut self, id: ExecutionId, alarm: Alarm, at: Time) {
        let Some(holding) = self.holding(id) else { return };
        let before = holding.timers.insert(alarm, at);
        if let Some(before) = before {
            self.custody_alarms.remove(&(before, id, alarm));
        }
        self.custody_alarms.insert((at, id, alarm));
    }

    /// Puts the custody timers that are due into the queue.
    pub(in crate::engine) fn ring_custodies(&mut self, now: Time, most: usize) {
        for _ in 0..most {
            match self.custody_alarms.first() {
                Some((at, _, _)) if *at <= now => {}
                _ => break,
            }
            let Some((_, id, alarm)) = self.custody_alarms.pop_first() else { break };
            if let Some(holding) = self.holding(id) {
                holding.timers.remove(&alarm);
            }
            let word = Word::Rang(alarm);
            self.queue(id, |execution| Work::Custody { execution, word });
        }
    }

    pub(super) fn ring_custody(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        alarm: Alarm,
        turn: &mut Turn,
    ) {
        match alarm {
            Alarm::Replica(timer) => {
                self.tell_replica(step, id, replicas::Input::TimerFired(timer), turn);
            }
            Alarm::Paxos(instance, timer) => {
                // Once a later one is decided, nobody waits for this one.
                let is_due = self.holding(id).is_some_and(|holding| {
                    let newest = holding.replica.standing().decisions.saturating_sub(1);
                    newest <= instance && holding.decisions.contains_key(&instance)
                });
                if is_due {
                    let input = paxos::Input::TimerFired(timer);
                    self.tell_paxos(step, id, instance, input, turn);
                }
            }
            Alarm::Participant(timer) => {
                let input = two_phase::participant::Input::TimerFired(timer);
                self.tell_participant(step, id, input, turn);
            }
            Alarm::Coordinator(timer) => {
                let input = two_phase::coordinator::Input::TimerFired(timer);
                self.tell_coordinator(step, id, input, turn);
            }
            Alarm::Begin => self.begin_again(step, id),
            Alarm::Hearsay => self.tell_hearsay_again(id),
        }
    }
}
