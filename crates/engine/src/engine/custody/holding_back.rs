//! Calls that are held back until they may leave: until a majority has the state in which they were intended, its
//! line is decided on, or the budget allows for what undoing them may cost.
//!
//! Of what is held back for the first time it is known that it never left. So whatever stops it need neither ask about
//! it nor undo it. What was asked for before, here or in an earlier life of this node, may have left then.

use std::collections::BTreeSet;

use outlast_lineage::{EffectId, ExecutionId};
use outlast_protocols::replicas::Input;
use outlast_workflow::{Answer, Author, Command, Event, Fault, FaultKind, Resolution, Ticket};

use super::super::{Engine, Step, Work};
use super::{Custody, Holding, Word};

/// A command that waits until it may leave.
#[derive(Debug)]
pub(in crate::engine) struct HeldBack {
    /// The state that it was ordered in.
    pub(super) number: u64,
    /// Whether that state must be decided on first.
    decided: bool,
    /// Whether the same operation was asked for before, perhaps in an earlier life, and its answer never came.
    again: bool,
    /// Whether nobody makes it again, and its state is decided on therefore: whoever goes on instead leaves it to a
    /// person.
    once: bool,
    command: Command,
}

impl HeldBack {
    /// Whether it is a call that cannot be undone, and waits for a decision therefore.
    pub(super) const fn is_pivot(&self) -> bool {
        matches!(&self.command, Command::Call { request, .. } if self.decided && !request.undo)
    }

    /// What it does, if it is a call.
    pub(super) fn effect(&self) -> Option<EffectId> {
        match &self.command {
            Command::Call { request, .. } => Some(request.effect),
            _ => None,
        }
    }

    /// The call that it is, if it is one.
    pub(super) const fn ticket(&self) -> Option<Ticket> {
        match &self.command {
            Command::Call { ticket, .. } => Some(*ticket),
            _ => None,
        }
    }
}

/// What is told of a call that never left: it did not happen.
pub(super) fn never_left(ticket: Ticket) -> Event {
    Event::Answered { ticket, answer: not_sent() }
}

fn not_sent() -> Answer {
    let detail = "the call was held back until it was not wanted any more";
    let fault = Fault::new(FaultKind::Communication, "Not sent", detail).with_status(412);
    Answer::Failed(fault)
}

impl Holding {
    /// Takes a call back that waits here until it may leave; says whether it did.
    pub(super) fn take_back(&mut self, call: Ticket) -> bool {
        let before = self.held.len();
        self.held.retain(|held| held.ticket() != Some(call));
        self.held.len() < before
    }

    /// The calls that wait here and never left. What another author had intended may have left there.
    pub(super) fn unsent_calls(&self, author: &Author) -> BTreeSet<Ticket> {
        let is_own = |held: &HeldBack| held.effect().is_some_and(|effect| author.made(effect));
        let unsent = self.held.iter().filter(|held| is_own(held) && !self.may_have_left(held));
        unsent.filter_map(HeldBack::ticket).collect()
    }

    /// Whether what waits here may have been done, because an earlier call of it left.
    pub(super) fn may_have_left(&self, held: &HeldBack) -> bool {
        held.again && held.effect().is_none_or(|effect| !self.unsent.contains(&effect))
    }

    /// Drops a call that waits here and that nobody wants any more.
    fn drop_held(&mut self, call: Ticket) {
        let held = self.held.iter().find(|held| held.ticket() == Some(call));
        let unsent = held.filter(|held| !self.may_have_left(held)).and_then(HeldBack::effect);
        self.unsent.extend(unsent);
        self.take_back(call);
    }

    /// Whether a call waits here until it may leave.
    pub(in crate::engine) fn holds_back(&self, call: Ticket) -> bool {
        self.held.iter().any(|held| held.ticket() == Some(call))
    }
}

impl Engine {
    /// Says which calls have not left, if there are any: what stops one of them knows that it never happened.
    pub(super) fn while_held_back(
        &mut self,
        id: ExecutionId,
        author: Author,
        event: Event,
    ) -> Event {
        let holding = self.holding(id).filter(|holding| !holding.held.is_empty());
        let unsent = holding.map(|holding| holding.unsent_calls(&author)).unwrap_or_default();
        match unsent.is_empty() {
            true => event,
            false => Event::WhileHeldBack { unsent, event: Box::new(event) },
        }
    }

    /// Keeps back calls until they may leave; gives the other commands.
    pub(super) fn hold_back(
        &mut self,
        id: ExecutionId,
        commands: Vec<Command>,
        pivots: &BTreeSet<EffectId>,
    ) -> Vec<Command> {
        let (node, author) = (self.options.node, self.author_of(id));
        let Some(entry) = self.roster.get(id) else { return commands };
        // What this node had intended in an earlier life may have left then.
        let is_of_before = |effect: EffectId| {
            effect.point.author == node && author.is_none_or(|author| !author.made(effect))
        };
        let known = |command: &Command| match command {
            Command::Call { ticket, request } => {
                let (execution, program) = (entry.execution(), &entry.defined.program);
                let is_decided_on = request.undo || pivots.contains(&request.effect);
                let again = execution.is_asked_again(*ticket) || is_of_before(request.effect);
                (again, is_decided_on && execution.is_doubtful(program, *ticket))
            }
            _ => (false, false),
        };
        let known: Vec<(bool, bool)> = commands.iter().map(known).collect();
        let Some(holding) = self.holding(id) else { return commands };
        let number = holding.replica.head().lineage.number();
        let mut at_once = Vec::with_capacity(commands.len());
        let mut unwanted = Vec::new();
        for (command, (again, once)) in commands.into_iter().zip(known) {
            match &command {
                Command::Call { request, .. } if !request.readonly => {
                    let anywhere = holding.terms.survival.pivots_anywhere;
                    let is_pivot = pivots.contains(&request.effect);
                    // The run that counts may have gone on from what this one undoes: that nobody allows.
                    let decided = request.undo || (is_pivot && !anywhere);
                    let once = once && decided;
                    holding.held.push(HeldBack { number, decided, again, once, command });
                }
                // Nobody wants it any more: it never leaves.
                Command::Abandon(ticket) => {
                    holding.drop_held(*ticket);
                    at_once.push(command);
                }
                // What has left is answered all the same, and of what has not it is known that it never did.
                Command::Unwanted(ticket) => unwanted.push(*ticket),
                // The end counts when it is decided on.
                Command::End(_) => {}
                _ => at_once.push(command),
            }
        }
        unwanted.retain(|ticket| holding.take_back(*ticket));
        let entry = self.roster.known(id);
        let once = if unwanted.is_empty() { Vec::new() } else { entry.execution().unheard_calls() };
        for (ticket, _) in once.into_iter().filter(|(ticket, _)| unwanted.contains(ticket)) {
            entry.keep_answer(ticket, not_sent());
        }
        at_once
    }

    /// Of a pivot that was held back when it was stopped, when its time was over, or when another node went on,
    /// no person needs to find out what became of it: it did not happen. Of one of another node that is known when a
    /// state of this one is decided on: if none in which it was intended had been before, it never left.
    pub(super) fn settle_what_never_left(&mut self, id: ExecutionId) {
        let Some(entry) = self.roster.get(id) else { return };
        let Some(Custody::Replica(holding)) = &entry.custody else { return };
        if holding.terms.survival.pivots_anywhere || holding.replica.leads().is_none() {
            return;
        }
        let (replica, standing) = (&holding.replica, holding.replica.standing());
        let mut to_be_decided = None;
        let mut settled = Vec::new();
        for (effect, wanted) in entry.execution().parked_pivots(&entry.defined.program) {
            let is_of_another = standing.all_records().all(|(of, _)| *of != effect);
            // A branch has no more states than its execution: it was intended in this one, or later.
            let undecided = match is_of_another {
                true => replica.was_undecided(effect.point.number),
                false => Some(standing.is_undecided(&effect)),
            };
            match undecided {
                Some(true) => settled.push((effect, wanted)),
                Some(false) => {}
                None => to_be_decided = Some(standing.head.lineage.number()),
            }
        }
        for (effect, wanted) in settled {
            let resolution = if wanted { Resolution::Retry } else { Resolution::NotDone };
            let event = Event::Resolved { effect, resolution };
            self.queue(id, |execution| Work::Advance { execution, event });
        }
        if let Some(number) = to_be_decided {
            let word = Word::Replica(Box::new(Input::DecisionWanted { number }));
            self.queue(id, |execution| Work::Custody { execution, word });
        }
    }

    /// Lets leave what may leave now.
    pub(super) fn release(&mut self, step: &mut Step, id: ExecutionId) {
        let Some(holding) = self.holding(id).filter(|holding| !holding.held.is_empty()) else {
            return;
        };
        let held = std::mem::take(&mut holding.held);
        let (mut ready, mut waiting, mut wanted) = (Vec::new(), Vec::new(), None);
        for back in held {
            let may_leave = holding.replica.may_leave(back.number);
            let decided = !back.decided || holding.replica.is_decided_up_to(back.number);
            if may_leave && !decided {
                wanted = wanted.max(Some(back.number));
            }
            if !may_leave || !decided {
                waiting.push(back);
                continue;
            }
            let first = !holding.may_have_left(&back);
            if let Some(effect) = back.effect() {
                holding.unsent.remove(&effect);
            }
            ready.push((back, first));
        }
        holding.held = waiting;
        // Asked once: the replica proposes again by itself as long as it leads.
        let wanted = wanted.filter(|number| holding.wanted < Some(*number));
        holding.wanted = holding.wanted.max(wanted);
        let position = self.roster.known(id).position;
        for (back, first) in ready {
            if back.once {
                self.note_departure(id, &back, first);
            }
            self.carry_out(step, id, position, back.command);
        }
        if let Some(number) = wanted {
            let word = Word::Replica(Box::new(Input::DecisionWanted { number }));
            self.queue(id, |execution| Work::Custody { execution, word });
        }
    }
}
