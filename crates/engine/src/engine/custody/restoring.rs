//! Coming back: custody from snapshots and records.

use std::collections::BTreeMap;
use std::sync::Arc;

use minicbor::{Decode, Encode};
use outlast_lineage::{Epoch, ExecutionId, NodeId, Point};
use outlast_protocols::{paxos, replicas, two_phase};
use outlast_workflow::{Event, Execution};

use super::super::definitions::Definitions;
use super::super::entry::{Entry, Origin, State};
use super::super::{Engine, Step, Work, sizes};
use super::{Custody, Forgetting, Holding, Passed, Remnant, Terms, Times, Word, setup};
use crate::record::{Begun, Custodial};
use crate::{Condition, Holders, Position, Strategy};

/// Custody as a snapshot holds it.
#[derive(Clone, Debug, Encode, Decode)]
pub(in crate::engine) enum Stored {
    #[n(0)]
    Replica(#[n(0)] Box<StoredHolding>),
    #[n(1)]
    Remnant(#[n(0)] Remnant),
}

/// A replica as a snapshot holds it.
#[derive(Clone, Debug, Encode, Decode)]
pub(in crate::engine) struct StoredHolding {
    #[n(0)]
    terms: Terms,
    #[cbor(n(1), with = "minicbor::bytes")]
    salt: [u8; 16],
    #[n(2)]
    standing: replicas::Standing,
    #[n(3)]
    decisions: BTreeMap<u32, paxos::Record>,
    #[n(4)]
    forgetting: Forgetting,
    #[n(5)]
    unaware: Vec<NodeId>,
}

impl Stored {
    /// Whether what it has open is not to be asked for again by this node alone.
    pub(in crate::engine) const fn is_not_to_go_on(&self) -> bool {
        match self {
            Self::Replica(_) => true,
            Self::Remnant(remnant) => !remnant.told,
        }
    }
}

impl Custody {
    /// What a snapshot keeps of it.
    pub(in crate::engine) fn stored(&self) -> Stored {
        match self {
            Self::Replica(holding) => Stored::Replica(Box::new(holding.stored())),
            Self::Remnant(remnant) => Stored::Remnant(remnant.clone()),
        }
    }

    /// Custody as a snapshot kept it.
    pub(in crate::engine) fn restored(me: NodeId, times: &Times, stored: Stored) -> Self {
        match stored {
            Stored::Replica(stored) => {
                Self::Replica(Box::new(Holding::restored(me, times, *stored)))
            }
            Stored::Remnant(remnant) => Self::Remnant(remnant),
        }
    }
}

impl Holding {
    fn stored(&self) -> StoredHolding {
        let record =
            |(instance, machine): (&u32, &paxos::Paxos)| (*instance, machine.record().clone());
        StoredHolding {
            terms: self.terms.clone(),
            salt: self.salt,
            standing: self.replica.standing().clone(),
            decisions: self.decisions.iter().map(record).collect(),
            forgetting: self.forgetting.clone(),
            unaware: self.unaware.iter().copied().collect(),
        }
    }

    fn restored(me: NodeId, times: &Times, stored: StoredHolding) -> Self {
        let StoredHolding { terms, salt, standing, decisions, forgetting, unaware } = stored;
        let mut holding = Self::new(me, terms, salt, times, None);
        holding.replica = replicas::Replica::restored(setup(me, &holding.terms, times), standing);
        holding.restore_decisions(me, times, decisions);
        holding.restore_forgetting(me, times, forgetting);
        holding.unaware = unaware.into_iter().collect();
        // Whoever is told to forget before anything else must know that it is over.
        holding.concluded = holding.replica.holds_the_end();
        holding
    }

    fn restore_decisions(
        &mut self,
        me: NodeId,
        times: &Times,
        records: impl IntoIterator<Item = (u32, paxos::Record)>,
    ) {
        for (instance, record) in records {
            let members = self.replica.setup().members.clone();
            let machine = paxos::Paxos::restored(me, members, times.patience, record);
            self.decisions.insert(instance, machine);
        }
    }

    fn restore_forgetting(&mut self, me: NodeId, times: &Times, forgetting: Forgetting) {
        if let Some(record) = forgetting.participant {
            let peers = self.terms.members.others(me).collect();
            self.participant = two_phase::Participant::restored(peers, times.patience, record);
        }
        self.coordinator = forgetting
            .coordinator
            .clone()
            .map(|record| two_phase::Coordinator::restored(times.patience, record));
        self.forgetting = forgetting;
    }

    /// Makes the changes of a record.
    fn replay(&mut self, me: NodeId, times: &Times, custodial: &Custodial) {
        custodial.changes.iter().for_each(|change| self.replica.replay(change));
        self.restore_decisions(me, times, custodial.decisions.iter().cloned());
        if let Some(forgetting) = custodial.forgetting.clone() {
            self.restore_forgetting(me, times, forgetting);
        }
    }
}

impl Engine {
    /// Makes an entry as the first record of an execution in custody says; or says what is missing.
    pub(in crate::engine) fn restore_beginning(
        &mut self,
        begun: Begun,
        position: Position,
    ) -> Result<(), &'static str> {
        let Begun { begin, state } = begun;
        let definition = self.definitions.get(&begin.definition).cloned();
        let defined = definition.ok_or("the definition")?;
        // Journals of 0.1 had the state as well.
        let execution = match state.is_empty() {
            true => begin.unstarted(&defined.program),
            false => minicbor::decode(&state).map_err(|_| "the first state")?,
        };
        let (me, times) = (self.options.node, &self.options.times);
        let beginning = Some(begin.digest()).filter(|_| state.is_empty());
        let mut holding = Holding::new(me, begin.terms, begin.salt, times, beginning);
        holding.unaware = holding.terms.members.others(me).collect();
        let entry = Entry {
            name: begin.name.map(String::into_boxed_str),
            weight: state.len(),
            held: true,
            custody: Some(Custody::Replica(Box::new(holding))),
            ..Entry::new(
                defined,
                sizes::digest_of(&begin.input),
                begin.parent,
                begin.started,
                position,
                execution,
            )
        };
        self.roster.insert(begin.execution, entry);
        Ok(())
    }

    /// Makes the changes that a record of custody tells of, in an entry that is there and awake.
    pub(in crate::engine) fn replay_custody(&mut self, id: ExecutionId, custodial: &Custodial) {
        let (me, times) = (self.options.node, self.options.times.clone());
        let entry = self.roster.known(id);
        if let Some(begin) = &custodial.regrouped
            && let Some(Custody::Replica(holding)) = &mut entry.custody
        {
            holding.regroup(me, &times, begin);
        }
        if let Some(state) = &custodial.adopted
            && let Ok(execution) = minicbor::decode(state)
        {
            entry.hold_instead(execution, state.len(), &self.definitions);
        }
        for passed in custodial.all_passed().filter_map(|bytes| Passed::decode(bytes)) {
            entry.execution_mut().apply(passed.delta);
        }
        if let Some(Custody::Replica(holding)) = &mut entry.custody {
            holding.replay(me, &times, custodial);
            holding.concluded = holding.replica.holds_the_end();
        }
        if custodial.forgotten {
            self.drop_custody(id);
            self.roster.change(id, |entry| entry.held = false);
        }
    }

    /// Takes part again in everything this node holds with others; says what that needs.
    pub(in crate::engine) fn resume_custody(&mut self, step: &mut Step) {
        let ids: Vec<ExecutionId> = self.roster.iter().map(|(id, _)| *id).collect();
        for id in ids {
            match &self.roster.known(id).custody {
                None => {}
                Some(Custody::Remnant(remnant)) => {
                    let told = remnant.told;
                    if !told {
                        let event = Event::LineLost;
                        self.queue(id, |execution| Work::Advance { execution, event });
                    }
                }
                Some(Custody::Replica(_)) => {
                    self.custodies.insert(id);
                    self.restart_machines(step, id);
                }
            }
        }
    }

    fn restart_machines(&mut self, step: &mut Step, id: ExecutionId) {
        let word = Word::Replica(Box::new(replicas::Input::Restarted));
        self.queue(id, |execution| Work::Custody { execution, word });
        self.queue(id, Work::RestartMachines);
        self.set_custody_alarm(
            id,
            super::Alarm::Begin,
            step.now.after(self.options.times.patience),
        );
    }

    /// Has consensus and forgetting go on in a new life.
    pub(in crate::engine) fn restart_consensus(&mut self, step: &mut Step, id: ExecutionId) {
        if !self.wake(id) {
            return;
        }
        let Some(holding) = self.holding(id) else { return };
        let instances: Vec<u32> = holding.decisions.keys().copied().collect();
        let ready = holding.forgetting.participant.is_some();
        let mut turn = super::turn::Turn::default();
        for instance in instances {
            self.tell_paxos(step, id, instance, paxos::Input::Restarted, &mut turn);
        }
        if ready {
            let input = two_phase::participant::Input::Restarted;
            self.tell_participant(step, id, input, &mut turn);
        }
        self.tell_coordinator(step, id, two_phase::coordinator::Input::Restarted, &mut turn);
        self.finish_turn(step, id, turn);
    }
}

impl Entry {
    /// Takes another state in place of the one held. What it was started with is in it: that need not
    /// be what this node was told.
    pub(in crate::engine) fn hold_instead(
        &mut self,
        execution: Execution,
        weight: usize,
        definitions: &Definitions,
    ) {
        if let Some(defined) = definitions.get(&execution.definition()) {
            self.defined = Arc::clone(defined);
        }
        self.input = sizes::digest_of(&execution.input());
        self.weight = weight;
        self.state = State::Awake(Box::new(execution), Origin::Changed);
    }

    /// The state as bytes: what several nodes hold is never left to the store alone.
    pub(in crate::engine) fn held_state(&self) -> Vec<u8> {
        self.state_bytes().expect("a state in custody is in memory")
    }

    /// Which state is held with others, if it is one that somebody made.
    pub(super) fn held_point(&self) -> Option<Point> {
        match &self.custody {
            Some(Custody::Replica(holding)) => holding.replica.head().lineage.head(),
            _ => None,
        }
    }

    /// The condition of its execution, as far as it counts.
    pub(in crate::engine) fn condition_of(&self, execution: &Execution) -> Condition {
        let condition = Condition::of(execution.status(), execution.outcome());
        if condition.is_end() && self.is_undecided() { Condition::Running } else { condition }
    }

    /// Whether its end is not decided on yet, whatever its state says.
    pub(in crate::engine) fn is_undecided(&self) -> bool {
        matches!(&self.custody, Some(Custody::Replica(holding)) if !holding.concluded)
    }

    /// Whether it has come to an end that those who hold it have not decided on yet.
    pub(in crate::engine) fn is_being_decided(&self) -> bool {
        let Some(Custody::Replica(holding)) = &self.custody else { return false };
        holding.replica.standing().ended && !holding.concluded
    }

    /// Who holds it, if several nodes do.
    pub(in crate::engine) fn holders(&self) -> Option<Holders> {
        let Some(Custody::Replica(holding)) = &self.custody else { return None };
        let (members, leader) = (holding.terms.members.iter().collect(), holding.replica.leader());
        let (phase, awaited) = (holding.shown_phase(), holding.awaited());
        let missed = holding.replica.unreachable().filter(|node| awaited.contains(node));
        let (unreachable, standstill) = (missed.collect(), holding.standstill());
        let end_is_missing = holding.may_have_lost_the_end();
        Some(Holders { members, leader, phase, standstill, awaited, unreachable, end_is_missing })
    }

    /// Whether every node that holds it executes it.
    pub(in crate::engine) fn is_active(&self) -> bool {
        let Some(Custody::Replica(holding)) = &self.custody else { return false };
        holding.terms.survival.strategy == Strategy::Active
    }

    /// Whether it has not ended.
    pub(in crate::engine) const fn is_live(&self) -> bool {
        !self.condition.is_end()
    }

    /// The terms of lines of it that were lost here.
    pub(in crate::engine) fn lost_lines(&self) -> Vec<Epoch> {
        match &self.custody {
            Some(Custody::Replica(holding)) => {
                holding.replica.standing().remnants.keys().copied().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it is a line that was lost: nobody is shown it as an execution.
    pub(in crate::engine) const fn is_remnant(&self) -> bool {
        self.remnant().is_some()
    }

    /// The line that was lost, if it is one.
    pub(super) const fn remnant(&self) -> Option<&Remnant> {
        match &self.custody {
            Some(Custody::Remnant(remnant)) => Some(remnant),
            _ => None,
        }
    }

    /// What the first record of an execution in custody says.
    pub(in crate::engine) fn beginning(&self, id: ExecutionId) -> Option<Begun> {
        let Some(Custody::Replica(holding)) = &self.custody else { return None };
        Some(Begun {
            begin: super::Begin {
                execution: id,
                name: self.name.as_deref().map(str::to_owned),
                definition: self.defined.definition.digest,
                input: self.execution().input(),
                salt: holding.salt,
                started: self.started,
                terms: holding.terms.clone(),
                parent: self.parent.as_deref().copied(),
            },
            state: Vec::new().into(),
        })
    }
}
