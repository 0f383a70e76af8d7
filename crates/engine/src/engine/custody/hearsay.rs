//! Answers to calls that nobody makes again, and that come to a node which does not lead any more.
//!
//! Whoever goes on instead of a node that has made a pivot's call parks it. The node that made it may hear what became
//! of it all the same: while it is cut off and leads for itself, or when it follows. Its own line is replaced without
//! being kept then, because what such a call did is the business of whoever goes on. So the answer is kept beside the
//! line, in memory, and told to whoever leads, as long as the state held here says that the call waits for a person.
//! Nobody confirms that it was told: the state says when it is of no use any more.
//!
//! Invariants:
//! - An answer is taken for the very call that it is to. The state in which that was ordered was decided on before it
//!   left, so it is on every line that can count; and on one line no ticket is given twice.
//! - Only who made that state is heard on it.
//! - As long as nothing waits for a person, nothing is told, and no timer is set.

use std::collections::VecDeque;

use minicbor::{Decode, Encode};
use outlast_expressions::{Value, value};
use outlast_lineage::{EffectId, ExecutionId, NodeId, Point};
use outlast_workflow::{Answer, Event, Execution, Fault, Ticket};

use super::super::entry::{Entry, State};
use super::super::{Engine, Step, Work};
use super::holding_back::HeldBack;
use super::turn::Turn;
use super::{Alarm, Custody, Envelope, Holding, Said};
use crate::Action;

/// How many answers are kept for one execution: few flows have so many pivots under way at once, and a person can
/// say of the others.
const HEARD_MAX: usize = 16;
/// How often the time doubles after which an answer is told again: most are taken the first time.
const DOUBLINGS_MAX: u32 = 6;

/// A call that has left here, and that nobody makes again by itself.
#[derive(Debug)]
pub(in crate::engine) struct Departed {
    of: ExecutionId,
    effect: EffectId,
    state: Point,
    first: bool,
}

/// What a node has heard of a call that it made.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(in crate::engine) struct Hearsay {
    #[n(0)]
    ticket: Ticket,
    #[n(1)]
    effect: EffectId,
    /// The state that the call was ordered in.
    #[n(2)]
    state: Point,
    /// Whether nobody had asked for the same operation before.
    #[n(3)]
    first: bool,
    #[n(4)]
    answer: Definite,
}

/// An answer that says what became of a call.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
enum Definite {
    #[n(0)]
    Succeeded(#[cbor(n(0), with = "value::codec")] Value),
    #[n(1)]
    Failed(#[n(0)] Fault),
}

/// What was heard here of the calls of an execution, in this life, the newest last.
#[derive(Debug, Default)]
pub(in crate::engine) struct Answers {
    list: VecDeque<Hearsay>,
    /// Who was told last, and how often in a row.
    told: Option<(NodeId, u32)>,
    /// Whether it is time to tell it again.
    due: bool,
}

impl Answers {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn keep(&mut self, hearsay: Hearsay) {
        if self.list.len() == HEARD_MAX {
            self.list.pop_front();
        }
        self.list.push_back(hearsay);
    }

    /// How often a leader was told by now, if it is to be told now.
    fn tells(&mut self, leader: NodeId) -> Option<u32> {
        let due = std::mem::take(&mut self.due);
        let before = self.told.filter(|(told, _)| *told == leader).map(|(_, times)| times);
        if before.is_some() && !due {
            return None;
        }
        let times = before.unwrap_or(0);
        self.told = Some((leader, times.saturating_add(1)));
        Some(times)
    }

    /// Nobody waits for it now: who does later is told at once.
    fn rest(&mut self) {
        (self.told, self.due) = (None, false);
    }
}

impl Hearsay {
    /// Whether a line has the call, and it waits for a person there.
    fn is_wanted(&self, holding: &Holding, execution: &Execution) -> bool {
        holding.replica.head().lineage.contains(&self.state)
            && execution.is_parked_call(self.ticket, self.effect)
    }
}

impl Entry {
    /// What was heard here of calls that wait for a person on the line held.
    fn wanted_hearsay(&self) -> Vec<Hearsay> {
        // What has nothing parked need not be looked through.
        let (Some(Custody::Replica(holding)), State::Awake(execution, _), true) =
            (&self.custody, &self.state, self.parked)
        else {
            return Vec::new();
        };
        let answers = holding.heard.list.iter();
        answers.filter(|hearsay| hearsay.is_wanted(holding, execution)).cloned().collect()
    }
}

impl Engine {
    /// A call leaves that nobody makes again by itself; says of it whether it is the first of its operation.
    pub(super) fn note_departure(&mut self, id: ExecutionId, back: &HeldBack, first: bool) {
        let address = self.address_of(id);
        let (Some(ticket), Some(effect)) = (back.ticket(), back.effect()) else { return };
        let Some(holding) = self.holding(id) else { return };
        let Some(state) = holding.replica.head().lineage.at(back.number) else { return };
        self.departed.insert((address, ticket), Departed { of: id, effect, state, first });
    }

    /// A call was answered. If it is one that whoever goes on instead leaves to a person, its answer is kept until a
    /// run is decided on, wherever else it is taken: the line that takes it may be lost.
    pub(in crate::engine) fn hear(
        &mut self,
        step: &mut Step,
        call: (ExecutionId, Ticket),
        answer: &Answer,
    ) {
        let Some(Departed { of, effect, state, first }) = self.departed.remove(&call) else {
            return;
        };
        // What holds too much here may hold too much there: a person sees what there is.
        let definite = match answer {
            Answer::Succeeded(output) => Definite::Succeeded(output.clone()),
            Answer::Failed(fault) if answer.is_definite(first) => Definite::Failed(fault.clone()),
            _ => return,
        };
        let Some(holding) = self.holding(of).filter(|it| !it.replica.is_settling()) else { return };
        holding.heard.keep(Hearsay { ticket: call.1, effect, state, first, answer: definite });
        holding.heard.rest();
        if holding.replica.leads().is_none() && self.wake(of) {
            self.look_at_hearsay(step, of);
        }
    }

    /// Tells whoever leads what was heard here of calls that wait for a person there.
    pub(super) fn look_at_hearsay(&mut self, step: &mut Step, id: ExecutionId) {
        let wanted = self.roster.known(id).wanted_hearsay();
        let (me, patience) = (self.options.node, self.options.times.patience);
        let Some(holding) = self.holding(id) else { return };
        if holding.replica.is_settling() {
            holding.heard = Answers::default();
            return;
        }
        let leader = holding.replica.leader().filter(|_| !wanted.is_empty());
        let Some(leader) = leader else { return holding.heard.rest() };
        let Some(times) = holding.heard.tells(leader) else { return };
        if leader == me {
            return self.queue(id, Work::TakeHearsay);
        }
        let again = step.now.after(patience * (1 << times.min(DOUBLINGS_MAX)));
        self.set_custody_alarm(id, Alarm::Hearsay, again);
        if let Some(of) = self.shared(id).filter(|_| !self.peers.is_lost(leader)) {
            let words = wanted.into_iter().map(|hearsay| Said::Heard(Box::new(hearsay)));
            let message = Envelope::Words(of, words.collect()).encode();
            step.order(None, Action::Send { to: leader, message });
        }
    }

    /// The message may have been lost, or its receiver could do nothing with it then.
    pub(super) fn tell_hearsay_again(&mut self, id: ExecutionId) {
        if let Some(holding) = self.holding(id) {
            holding.heard.due = true;
        }
    }

    /// This node leads again, after whoever has parked a call that it had made and whose answer it has heard.
    pub(in crate::engine) fn take_own_hearsay(&mut self, step: &mut Step, id: ExecutionId) {
        if self.holding(id).is_none() || !self.wake(id) {
            return;
        }
        let mut turn = Turn::default();
        for hearsay in self.roster.known(id).wanted_hearsay() {
            self.take_hearsay(step, self.options.node, id, hearsay, &mut turn);
        }
        self.finish_turn(step, id, turn);
    }

    /// Whoever made a call that waits for a person has heard what became of it.
    pub(super) fn take_hearsay(
        &mut self,
        step: &mut Step,
        from: NodeId,
        id: ExecutionId,
        hearsay: Hearsay,
        turn: &mut Turn,
    ) {
        let entry = self.roster.known(id);
        let Some(Custody::Replica(holding)) = &entry.custody else { return };
        let is_its_own = hearsay.state.author == from;
        if !holding.takes_events() || !is_its_own || !hearsay.is_wanted(holding, entry.execution())
        {
            return;
        }
        let Hearsay { ticket, effect, first, answer, .. } = hearsay;
        let answer = match answer {
            Definite::Succeeded(output) => self.admit_answer(id, Answer::Succeeded(output)),
            Definite::Failed(fault) => Answer::Failed(fault),
        };
        let event = Event::AnsweredElsewhere { ticket, effect, first, answer };
        self.advance_in_turn(step, id, event, turn);
    }
}
