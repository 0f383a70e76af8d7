//! Driving a replica: its outputs become changes of the state, messages, calls and one record.

use std::sync::Arc;

use outlast_lineage::{EffectId, ExecutionId};
use outlast_protocols::replicas::{Change, Input, Note, Output};
use outlast_workflow::{Advance, Author, Command, EffectNote, Event, Outcome};

use super::super::running::touches_parking;
use super::super::{Engine, Step, Work};
use super::turn::{Letter, Turn};
use super::wire::{Passing, value_of};
use super::{Alarm, Custody, Holding, Said, StateBytes, Untold, Word};
use crate::record::Custodial;
use crate::{Action, Condition, Happenings, Position, RecordKind, Report};

impl Engine {
    /// The custody of an execution that this node is a replica of.
    pub(in crate::engine) fn holding(&mut self, id: ExecutionId) -> Option<&mut Holding> {
        match self.roster.get_mut(id)?.custody.as_mut()? {
            Custody::Replica(holding) => Some(holding),
            Custody::Remnant(_) => None,
        }
    }

    /// Tells a custody something and records what came of it.
    pub(in crate::engine) fn tell_custody(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        word: Word,
    ) -> bool {
        if self.holding(id).is_none() || !self.wake(id) {
            return false;
        }
        let mut turn = Turn::default();
        match word {
            Word::Replica(input) => {
                let lost = match *input {
                    Input::Fenced(lost) => Some(lost),
                    _ => None,
                };
                self.tell_replica(step, id, *input, &mut turn);
                if let Some(lost) = lost {
                    self.decide_without(step, id, lost, &mut turn);
                    self.reconsider_forgetting(step, id, &mut turn);
                    self.look_at_starters(step, id);
                }
            }
            Word::Rang(alarm) => self.ring_custody(step, id, alarm, &mut turn),
        }
        self.finish_turn(step, id, turn);
        true
    }

    /// Advances an execution as its primary. Says whether anything changed.
    pub(in crate::engine) fn advance_as_primary(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        event: Event,
    ) -> bool {
        if !self.holding(id).is_some_and(|holding| holding.takes_events()) {
            return false;
        }
        let mut turn = Turn::default();
        if !self.advance_in_turn(step, id, event, &mut turn) {
            return false;
        }
        self.finish_turn(step, id, turn);
        true
    }

    pub(super) fn advance_in_turn(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        event: Event,
        turn: &mut Turn,
    ) -> bool {
        let Some(author) = self.author_of(id) else { return false };
        let event = self.while_held_back(id, author, event);
        let entry = self.roster.known(id);
        let program = Arc::clone(&entry.defined.program);
        let advance = entry.execution_mut().advance(&program, event, author, step.now);
        if advance.delta.is_empty() && advance.commands.is_empty() {
            return false;
        }
        self.pass_on(step, id, advance, turn);
        true
    }

    /// Whoever went on until now may have set timers by another clock, which differs by more than a moment.
    fn reckon_with_another_clock(&mut self, step: &mut Step, id: ExecutionId, turn: &mut Turn) {
        let Some(holding) = self.holding(id) else { return };
        let author = holding.replica.head().lineage.head().map(|point| point.author);
        let ahead = author.and_then(|author| self.peers.ahead(author));
        if let Some(ahead) = ahead {
            self.advance_in_turn(step, id, Event::ClockDiffers { ahead }, turn);
        }
    }

    /// Tells the replica that its execution went on, and keeps what changed for the others.
    fn pass_on(&mut self, step: &mut Step, id: ExecutionId, advance: Advance, turn: &mut Turn) {
        let Advance { delta, commands, happenings, effects } = advance;
        turn.touches_parking |= happenings.iter().any(touches_parking);
        let happenings = Happenings::from(&happenings[..]);
        let bytes = Passing { delta: &delta, happenings: &happenings }.encode();
        turn.advanced = true;
        turn.happenings.and_then(&happenings);
        turn.commands.extend(commands);
        turn.pivots.extend(effects.iter().filter_map(pivot_of));
        let execution = self.roster.known(id).execution();
        let (progress, ended) = (execution.progress(), execution.outcome().is_some());
        let notes = effects.into_iter().filter_map(note_of).collect();
        let input = Input::Advanced { bytes: bytes.len(), progress, ended, notes };
        let holding = self.holding(id).expect("only a replica passes on what it did");
        match holding.untold.as_mut().filter(|_| holding.replica.has_untold()) {
            Some(before) => before.and_then(delta, &happenings),
            None => {
                let first = Untold::new(delta, happenings, bytes.clone());
                holding.untold = Some(Box::new(first));
            }
        }
        turn.passed.push(bytes);
        self.tell_replica(step, id, input, turn);
    }

    /// Who this node is for an execution, if it may advance it now.
    pub(super) fn author_of(&mut self, id: ExecutionId) -> Option<Author> {
        let node = self.options.node;
        let (since, epoch) = self.holding(id)?.replica.leads_since()?;
        Some(Author { node, epoch, since })
    }

    pub(super) fn tell_replica(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        input: Input,
        turn: &mut Turn,
    ) {
        let Some(holding) = self.holding(id) else { return };
        for output in holding.replica.step(step.now, input) {
            self.follow_replica(step, id, output, turn);
        }
    }

    fn follow_replica(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        output: Output,
        turn: &mut Turn,
    ) {
        match output {
            Output::Persist(change) => turn.changes.push(change),
            Output::Send { to, mut message } => {
                if let Some(held) = message.held_mut().filter(|held| held.state.is_empty()) {
                    held.state = self.roster.known(id).held_state();
                }
                if let Some(delta) = message.delta_mut() {
                    *delta = self.told_by(id);
                }
                turn.say(to, Said::Replica(message));
            }
            Output::SetTimer { timer, at } => self.set_custody_alarm(id, Alarm::Replica(timer), at),
            Output::Start => self.start_as_primary(step, id, turn),
            Output::GoOn => {
                self.new_address(id);
                self.forget_waits(id);
                self.reckon_with_another_clock(step, id, turn);
                let held_back = self.held_back_pivots(id, id);
                let never_left = held_back.into_iter().map(|(_, effect)| effect).collect();
                self.advance_in_turn(step, id, Event::TakenOver { never_left }, turn);
                turn.taken_over = true;
            }
            Output::Resume => self.resume_as_primary(step, id),
            Output::Stop => self.stop_leading(id),
            Output::Apply(delta) => self.apply_passed(id, delta, turn),
            Output::Spare(line) => {
                let copy = self.roster.known(id).held_state();
                self.keep_remnant(step.now, self.position.next(), id, line, &copy);
                turn.remnants.push((line, copy.into()));
            }
            Output::Adopt { state, remnant } => {
                self.adopt_state(step, id, state, remnant, turn);
            }
            Output::Propose { instance, choice } => {
                let value = value_of(&choice);
                self.propose(step, id, instance, value, turn);
            }
            Output::Concluded => turn.concluded = true,
            Output::Undo { line, effects } => self.order_withdrawal(id, line, effects),
            Output::Settled => self.settled(step, id, turn),
            Output::Report(situation) => turn.situations.push(situation),
        }
    }

    /// Begins the execution, as its first primary.
    fn start_as_primary(&mut self, step: &mut Step, id: ExecutionId, turn: &mut Turn) {
        let Some(author) = self.author_of(id) else { return };
        self.new_address(id);
        let entry = self.roster.known(id);
        let program = Arc::clone(&entry.defined.program);
        let advance = entry.execution_mut().begin(&program, author, step.now);
        self.pass_on(step, id, advance, turn);
    }

    /// What its backups are told of how an execution went on.
    fn told_by(&mut self, id: ExecutionId) -> StateBytes {
        let untold = self.holding(id).and_then(|holding| holding.untold.as_mut());
        untold.expect("a replica tells only of what was passed on").bytes()
    }

    /// Goes on as if this replica had led all the time: timers are set again, answers are taken.
    fn resume_as_primary(&mut self, step: &Step, id: ExecutionId) {
        let entry = self.roster.known(id);
        let commands = entry.execution().open_commands(&entry.defined.program, step.now);
        for command in commands {
            match command {
                Command::SetTimer { ticket, at } => self.set_timer(id, ticket, at),
                Command::Subscribe { ticket, types } => self.subscribe(id, ticket, types, 0),
                _ => {}
            }
        }
        let late = self.holding(id).map(|holding| std::mem::take(&mut holding.late));
        for event in late.into_iter().flatten() {
            if let Some(event) = self.keep_late(id, event) {
                self.queue(id, |execution| Work::Advance { execution, event });
            }
        }
    }

    /// Sets no more timers. Whoever leads again asks again for the decisions it needs.
    pub(super) fn stop_leading(&mut self, id: ExecutionId) {
        self.quiet(id);
        if let Some(holding) = self.holding(id) {
            holding.wanted = None;
        }
    }

    fn apply_passed(&mut self, id: ExecutionId, delta: StateBytes, turn: &mut Turn) {
        let read = self.reading.take_delta();
        self.forget_waits(id);
        self.roster.known(id).execution_mut().apply(read.delta);
        turn.happenings.and_then(&read.happenings);
        // What happened is not looked at.
        turn.touches_parking = true;
        turn.passed = vec![delta];
    }

    /// Whatever waited to leave or to be taken belongs to another line now.
    pub(super) fn forget_waits(&mut self, id: ExecutionId) {
        if let Some(holding) = self.holding(id) {
            holding.held.clear();
            holding.unsent.clear();
            holding.leaving.clear();
            holding.wanted = None;
            holding.late.clear();
            holding.in_flight.clear();
        }
        self.roster.known(id).unclaimed.clear();
    }

    /// Records what a step did to an execution in custody, and lets follow what follows.
    pub(super) fn finish_turn(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        mut turn: Turn,
    ) -> Position {
        let (recorded, before) = (turn.is_recorded(), self.roster.known(id).position);
        let letters = self.shared(id).map(|of| turn.letters(of)).unwrap_or_default();
        let decided = turn.changes.iter().any(|change| matches!(change, Change::Decided(..)));
        if recorded {
            self.record_turn(step, id, &mut turn);
        }
        let Turn {
            happenings,
            touches_parking: parking,
            commands,
            advanced,
            taken_over,
            pivots,
            situations,
            concluded,
            forgotten,
            ..
        } = turn;
        let position = self.roster.known(id).position;
        for Letter { to, message, early, awaited } in letters {
            if !self.peers.is_lost(to) {
                let after = if early { before } else { position };
                let action = match awaited {
                    true => Action::Send { to, message },
                    false => Action::Mention { to, message },
                };
                step.order(Some(after), action);
            }
        }
        if self.options.reports {
            for situation in situations {
                let report = Report::Custody { execution: id, situation };
                step.order(Some(position), Action::Report(report));
            }
        }
        if recorded {
            let commands =
                if advanced { self.hold_back(id, commands, &pivots) } else { Vec::new() };
            self.conclude(step, id, position, (happenings, parking), commands);
            if (advanced && parking) || taken_over || decided {
                self.settle_what_never_left(id);
            }
            if advanced && parking {
                self.claim_answers(id);
            }
        }
        self.release(step, id);
        if concluded {
            self.conclude_run(step, id, position);
        }
        self.look_at_outbox(id);
        self.keep_promises(step, id);
        if let Some(holding) = self.holding(id) {
            if !holding.replica.has_untold() {
                holding.untold = None;
            }
            if !holding.heard.is_empty() {
                self.look_at_hearsay(step, id);
            }
        }
        if forgotten {
            self.release_custody(step, id, position);
        }
        position
    }

    fn record_turn(&mut self, step: &mut Step, id: ExecutionId, turn: &mut Turn) {
        let entry = self.roster.known(id);
        let started = turn.begun.then(|| entry.beginning(id));
        let mut passed = std::mem::take(&mut turn.passed).into_iter();
        let first = passed.next();
        let custodial = Custodial {
            execution: id,
            happenings: match first {
                Some(_) => std::mem::take(&mut turn.told_apart),
                None => turn.happenings.clone(),
            },
            started: started.flatten(),
            changes: std::mem::take(&mut turn.changes),
            adopted: turn.adopted.take(),
            passed: first,
            passed_then: passed.collect(),
            decisions: std::mem::take(&mut turn.decisions),
            forgetting: turn.forgetting.take(),
            forgotten: turn.forgotten,
            remnants: std::mem::take(&mut turn.remnants),
            regrouped: turn.regrouped.take(),
        };
        let written = self.counters.record_bytes;
        let (position, _) = self.record(step, RecordKind::Custodial(Box::new(custodial)));
        let weight = usize::try_from(self.counters.record_bytes - written).unwrap_or(usize::MAX);
        let entry = self.roster.known(id);
        entry.weight = entry.weight.saturating_add(weight);
        entry.position = position;
    }

    /// The state held is the decided end: now it counts.
    fn conclude_run(&mut self, step: &mut Step, id: ExecutionId, position: Position) {
        let Some(holding) = self.holding(id) else { return };
        if std::mem::replace(&mut holding.concluded, true) {
            return;
        }
        self.wake(id);
        let entry = self.roster.known(id);
        let execution = entry.execution();
        let condition = Condition::of(execution.status(), execution.outcome());
        let parked = !execution.parked().is_empty();
        let outcome: Option<Outcome> = execution.outcome().cloned();
        let now = step.now;
        self.roster.change(id, |entry| {
            entry.condition = condition;
            entry.parked = parked;
            entry.changed = now;
        });
        if self.options.reports {
            let report = Report::ConditionChanged { execution: id, condition };
            step.order(Some(position), Action::Report(report));
        }
        if let Some(outcome) = outcome {
            self.ended(step, id, position, outcome);
        }
    }
}

/// The effect that a note is about, if it can be neither undone nor repeated.
fn pivot_of(note: &EffectNote) -> Option<EffectId> {
    match note {
        EffectNote::Intended { effect, pivot: true, .. } => Some(*effect),
        _ => None,
    }
}

/// What a note of the interpreter means to a replica.
fn note_of(note: EffectNote) -> Option<Note> {
    Some(match note {
        EffectNote::Intended { effect, key, deduplicated, cost, pivot, .. } => {
            Note::Intended { effect, key, deduplicated, cost, pivot }
        }
        EffectNote::Done { effect, cost } | EffectNote::Costs { effect, cost } => {
            Note::Done { effect, cost }
        }
        EffectNote::Gone { effect } => Note::Gone { effect },
        // Whoever made it keeps the account of it.
        EffectNote::Disowned { .. } => return None,
    })
}
