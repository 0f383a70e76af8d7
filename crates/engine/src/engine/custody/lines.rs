//! Lines: where answers belong, and what becomes of a line that was lost.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{Digester, EffectId, Epoch, ExecutionId, OperationKey, Time};
use outlast_protocols::replicas::Input;
use outlast_workflow::{Author, Event, Execution, Happening, Outcome, Start, Ticket};

use super::super::entry::{Entry, State};
use super::super::running::is_nothing;
use super::super::{Cause, Engine, Step, Work};
use super::holding_back::{HeldBack, never_left};
use super::turn::Turn;
use super::{Custody, Holding, Remnant, Word};
use crate::{Action, Happenings, Position, RecordKind, Subject};

/// Lost lines undo what they did in terms that lie above those of primaries, which count failovers.
pub const REMNANT_TERMS: u64 = 1 << 40;
/// What is over and one node goes on with alone, because somebody has it tried again or rolled back, goes on
/// in terms above all of those: its lives, which count restarts, know nothing of the terms it led in.
const ALONE_TERMS: u64 = 1 << 41;

impl Engine {
    /// Names the place where answers to the calls of the line that begins are sent.
    pub(super) fn new_address(&mut self, id: ExecutionId) {
        let node = self.options.node;
        let life = self.author.epoch;
        let Some(holding) = self.holding(id) else { return };
        let Some((since, term)) = holding.replica.leads_since() else { return };
        holding.led_since = Some(since);
        let address = derived("line", id, node.0, term, life);
        // What was asked for before is asked for again, or belongs to a remnant.
        let before = holding.address.replace(address);
        self.close_address(before, id);
        self.addresses.insert(address, id);
    }

    /// Answers sent to an address are no longer for an entry, if they still were.
    pub(super) fn close_address(&mut self, address: Option<ExecutionId>, of: ExecutionId) {
        if let Some(address) = address
            && self.addresses.get(&address) == Some(&of)
        {
            self.addresses.remove(&address);
        }
    }

    /// Where answers to the calls of an execution are to be sent.
    pub(in crate::engine) fn address_of(&self, id: ExecutionId) -> ExecutionId {
        match self.roster.get(id).and_then(|entry| entry.custody.as_ref()) {
            Some(Custody::Replica(holding)) => holding.address.unwrap_or(id),
            _ => id,
        }
    }

    /// The execution that an entry is, or is a lost line of.
    pub(in crate::engine) fn execution_of(&self, id: ExecutionId) -> ExecutionId {
        match self.roster.get(id).and_then(|entry| entry.custody.as_ref()) {
            Some(Custody::Remnant(remnant)) => remnant.of,
            _ => id,
        }
    }

    /// An execution and its lost lines, as entries of this node.
    pub(in crate::engine) fn lines_of(&self, id: ExecutionId) -> Vec<ExecutionId> {
        let custody = self.roster.get(id).and_then(|entry| entry.custody.as_ref());
        let Some(Custody::Replica(holding)) = custody else { return vec![id] };
        let lost = holding.replica.standing().remnants.keys();
        let lost = lost.map(|line| self.remnant_id(id, *line));
        let lost = lost.filter(|remnant| self.roster.get(*remnant).is_some());
        std::iter::once(id).chain(lost).collect()
    }

    /// Whose calls are answered at an address.
    pub(in crate::engine) fn at_address(&self, address: ExecutionId) -> ExecutionId {
        self.addresses.get(&address).copied().unwrap_or(address)
    }

    /// A call has left, or will not be answered any more.
    pub(in crate::engine) fn note_flight(&mut self, id: ExecutionId, ticket: Ticket, leaves: bool) {
        let Some(custody) = self.roster.get_mut(id).and_then(|entry| entry.custody.as_mut()) else {
            return;
        };
        let (in_flight, waits) = match custody {
            Custody::Replica(holding) => (&mut holding.in_flight, false),
            Custody::Remnant(remnant) => (&mut remnant.in_flight, !remnant.asked.is_empty()),
        };
        if leaves {
            in_flight.insert(ticket);
        } else if in_flight.remove(&ticket) && in_flight.is_empty() && waits {
            self.queue(id, Work::Withdraw);
        }
    }

    /// Keeps what came while this replica does not lead, in case it leads again before anyone else
    /// went on, and what came after the end, for whoever has a faulted run tried again or rolled back.
    /// Gives it back if it can be taken now.
    pub(in crate::engine) fn keep_late(&mut self, id: ExecutionId, event: Event) -> Option<Event> {
        match self.holding(id) {
            Some(holding) if !holding.takes_events() => {
                holding.late.push(event);
                None
            }
            _ => Some(event),
        }
    }

    /// Another state takes the place of the one held.
    pub(super) fn adopt_state(
        &mut self,
        step: &Step,
        id: ExecutionId,
        state: Vec<u8>,
        remnant: Option<Epoch>,
        turn: &mut Turn,
    ) {
        if let Some(line) = remnant {
            let before = self.roster.known(id).held_state();
            self.keep_remnant(step.now, self.position.next(), id, line, &before);
            turn.remnants.push((line, before.into()));
        }
        self.quiet(id);
        self.forget_waits(id);
        let execution = self.reading.take_state(&state);
        let entry = self.roster.known(id);
        entry.hold_instead(execution, state.len(), &self.definitions);
        turn.adopted = Some(state.into());
        turn.happenings.and_then(&Happenings::from(&self.told_of_adopted(id)[..]));
        turn.told_apart = turn.happenings.clone();
        turn.touches_parking = true;
    }

    /// What is told of a state that comes as a whole, without what led to it. Before the first one there is
    /// what follows from how it began. Any other one takes the place of what was told before, and may be
    /// the end.
    fn told_of_adopted(&mut self, id: ExecutionId) -> Vec<Happening> {
        let entry = self.roster.known(id);
        let Some(Custody::Replica(holding)) = &entry.custody else { return Vec::new() };
        let lineage = &holding.replica.head().lineage;
        let execution = entry.execution();
        let Some(point) = lineage.head().filter(|point| point.number == 1) else {
            let ended = execution.outcome().cloned().map(Happening::Ended);
            return [Happening::Adopted(execution.progress())].into_iter().chain(ended).collect();
        };
        let (input, salt) = (execution.input(), *execution.salt());
        let depth = entry.parent.as_deref().map_or(0, |parent| parent.depth);
        let start = Start { id, input, salt, keep_plan: true, shared: true, depth };
        let author = Author::new(point.author, point.epoch);
        let began = execution.started_at();
        Execution::start(&entry.defined.program, start, author, began).1.happenings
    }

    /// Keeps a line that was lost, or goes on without what is in the air on it, as the record at a
    /// position says.
    pub(in crate::engine) fn keep_remnant(
        &mut self,
        now: Time,
        position: Position,
        id: ExecutionId,
        line: Epoch,
        state: &[u8],
    ) {
        let remnant = self.remnant_id(id, line);
        if self.roster.get(remnant).is_some() {
            return;
        }
        let entry = self.roster.known(id);
        let execution: Execution = minicbor::decode(state).expect("it was just written");
        let unclaimed = std::mem::take(&mut entry.unclaimed);
        let (address, in_flight, late, led_since) = match &mut entry.custody {
            Some(Custody::Replica(holding)) => {
                let in_flight = std::mem::take(&mut holding.in_flight);
                let mut late = std::mem::take(&mut holding.late);
                let held = holding.held.iter().filter(|held| !holding.may_have_left(held));
                late.extend(held.filter_map(HeldBack::ticket).map(never_left));
                // It goes with the line whose calls are under way: the next line that is lost here before
                // they are answered made none of them.
                (holding.address.take(), in_flight, late, holding.led_since)
            }
            _ => (None, BTreeSet::new(), Vec::new(), None),
        };
        let asked = BTreeSet::new();
        let custody = Remnant {
            of: id,
            line,
            told: false,
            told_what_never_left: false,
            asked,
            told_of: BTreeSet::new(),
            in_flight,
            address,
            led_since,
        };
        let kept = Entry {
            held: true,
            parked: !execution.parked().is_empty(),
            weight: state.len(),
            custody: Some(Custody::Remnant(custody)),
            unclaimed,
            ..Entry::new(
                std::sync::Arc::clone(&entry.defined),
                entry.input,
                None,
                now,
                entry.position,
                execution,
            )
        };
        self.roster.insert(remnant, kept);
        self.wake(remnant);
        if let Some(address) = address {
            self.addresses.insert(address, remnant);
        }
        self.unsaved.mark(Subject::Execution(remnant), position);
        self.queue(remnant, |execution| Work::Advance { execution, event: Event::LineLost });
        // What came since this replica stopped says what became of the calls of this line.
        for event in late {
            self.queue(remnant, |execution| Work::Advance { execution, event });
        }
    }

    /// Pivots of this node that wait for their answers on a line of an execution, the one held or one that
    /// was lost, and never left: none leaves before it is written down that its line counts up to where
    /// it was intended. So this is known in every life, unless pivots need no decision.
    pub(super) fn held_back_pivots(
        &self,
        of: ExecutionId,
        line: ExecutionId,
    ) -> Vec<(Ticket, EffectId)> {
        let Some((holding, line)) = self.held_beside(of, line) else { return Vec::new() };
        if holding.terms.survival.pivots_anywhere {
            return Vec::new();
        }
        let mut pivots = line.execution().open_pivots(&line.defined.program);
        pivots.retain(|(_, effect)| holding.replica.standing().is_undecided(effect));
        pivots
    }

    /// Calls of this node that are not answered on a line that was lost, and never left: where
    /// acknowledgements count none leaves before a majority has its intent, and whoever goes on then has it,
    /// too. So this is known in every life, and of what another author had intended before as well.
    fn unknown_to_a_majority(&self, of: ExecutionId, line: ExecutionId) -> Vec<(Ticket, EffectId)> {
        let Some((holding, line)) = self.held_beside(of, line) else { return Vec::new() };
        if !holding.replica.acknowledges() {
            return Vec::new();
        }
        let mut calls = line.execution().unheard_calls();
        let standing = holding.replica.standing();
        calls.retain(|(_, effect)| standing.is_off_the_line(effect));
        calls
    }

    /// How an execution is held together with others, and one of its lines.
    fn held_beside(&self, of: ExecutionId, line: ExecutionId) -> Option<(&Holding, &Entry)> {
        match &self.roster.get(of)?.custody {
            Some(Custody::Replica(holding)) => Some((holding, self.roster.get(line)?)),
            _ => None,
        }
    }

    /// The id of the entry of a lost line.
    pub(in crate::engine) fn remnant_id(&self, id: ExecutionId, line: Epoch) -> ExecutionId {
        derived("remnant", id, self.options.node.0, line, Epoch(0))
    }

    /// What a lost line is to be told now; what comes before it knows that it is lost waits.
    pub(in crate::engine) fn ready_remnant(
        &mut self,
        id: ExecutionId,
        event: Event,
    ) -> Result<Event, bool> {
        let Some(Custody::Remnant(remnant)) = &mut self.roster.known(id).custody else {
            return Ok(event);
        };
        if matches!(event, Event::LineLost) {
            if std::mem::replace(&mut remnant.told, true) {
                return Err(false);
            }
            self.tell_what_never_left(id);
        } else if !remnant.told {
            self.queue(id, |execution| Work::Advance { execution, event });
            return Err(true);
        }
        Ok(event)
    }

    /// Tells a lost line which of its calls never left.
    fn tell_what_never_left(&mut self, id: ExecutionId) {
        if !self.wake(id) {
            return;
        }
        let of = self.execution_of(id);
        let pivots = self.held_back_pivots(of, id);
        let unknown = self.unknown_to_a_majority(of, id);
        let calls = pivots.into_iter().chain(unknown).map(|(ticket, _)| ticket);
        for ticket in calls.collect::<BTreeSet<_>>() {
            let event = never_left(ticket);
            self.queue(id, |execution| Work::Advance { execution, event });
        }
    }

    /// Advances a lost line by one event, and tells its replica what that undid.
    pub(in crate::engine) fn advance_remnant(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        event: Event,
    ) -> bool {
        let of = Some(self.execution_of(id));
        let author = self.author_of_lost(id, &event);
        let entry = self.roster.known(id);
        let program = std::sync::Arc::clone(&entry.defined.program);
        let mut advance = entry.execution_mut().advance(&program, event, author, step.now);
        let changed = !is_nothing(&advance);
        if changed {
            let told = advance.happenings.into_iter().filter_map(Happening::of_lost_run);
            advance.happenings = told.collect();
            self.record_advance(step, id, advance, Cause { of, ..Cause::default() });
        }
        self.tell_undone(id);
        changed
    }

    /// Who tells a lost line of something. An answer is to whoever led the line and made the call: to anybody else,
    /// that it was refused says nothing about an earlier time that it was asked for.
    fn author_of_lost(&mut self, id: ExecutionId, event: &Event) -> Author {
        let author = self.remnant_author();
        let entry = self.roster.known(id);
        let hears = matches!(event, Event::Answered { .. }) && entry.execution().only_hears();
        let led_since = entry.remnant().and_then(|remnant| remnant.led_since);
        Author { since: led_since.filter(|_| hears).unwrap_or(author.since), ..author }
    }

    /// Forgets a lost line that has nothing left to undo.
    pub(in crate::engine) fn drop_remnant(&mut self, step: &mut Step, id: ExecutionId) {
        let Some(remnant) = self.roster.get(id).and_then(Entry::remnant) else { return };
        let address = remnant.address;
        self.quiet(id);
        let (position, _) = self.record(step, RecordKind::RemnantDropped(id));
        self.roster.remove(id);
        self.close_address(address, id);
        self.unsaved.clear(&Subject::Execution(id));
        step.order(Some(position), Action::Forget(Subject::Execution(id)));
    }

    /// Who advances a remnant.
    pub(in crate::engine) const fn remnant_author(&self) -> Author {
        let epoch = Epoch(REMNANT_TERMS + self.author.epoch.0);
        Author::new(self.author.node, epoch)
    }

    /// Who advances an execution that this node holds alone.
    pub(in crate::engine) fn author_alone(&mut self, id: ExecutionId) -> Author {
        let Author { node, epoch, .. } = self.author;
        match self.roster.known(id).execution().is_shared() {
            true => Author::new(node, Epoch(ALONE_TERMS + epoch.0)),
            false => self.author,
        }
    }

    /// Has effects of a lost line undone.
    pub(super) fn order_withdrawal(
        &mut self,
        id: ExecutionId,
        line: Epoch,
        effects: Vec<EffectId>,
    ) {
        let keys = self.keys_of_lost_line(id, line);
        let run = self.roster.known(id).execution();
        let decided: BTreeSet<OperationKey> =
            run.ledger().iter().map(|(_, done)| done.key).collect();
        // What a faulted run has not left to its author is that of whoever goes on from its end, if anyone
        // does: its author may have taken it for lost when it led again from there.
        let goes_on = matches!(run.outcome(), Some(Outcome::Faulted(_)));
        let is_kept = |effect: &EffectId| {
            (goes_on && run.ledger().get(effect).is_some())
                || keys.get(effect).is_some_and(|key| decided.contains(key))
        };
        let (kept, effects): (Vec<_>, Vec<_>) = effects.into_iter().partition(is_kept);
        self.tell_of_effects(id, kept, Input::FoundKept);
        let remnant = self.remnant_id(id, line);
        let Some(entry) = self.roster.get_mut(remnant) else {
            // Nothing is left of it: what it did is undone.
            return self.tell_of_effects(id, effects, Input::Undone);
        };
        if let Some(Custody::Remnant(remnant)) = &mut entry.custody {
            remnant.asked.extend(effects);
        }
        self.queue(remnant, Work::Withdraw);
    }

    /// The keys of what this node did on a lost line at providers that act once for each. If the
    /// decided run did the same by the same key, its author says so; one that is gone cannot, but
    /// what it did is in the state that all hold.
    fn keys_of_lost_line(
        &mut self,
        id: ExecutionId,
        line: Epoch,
    ) -> BTreeMap<EffectId, OperationKey> {
        let Some(holding) = self.holding(id) else { return BTreeMap::new() };
        let remnant = holding.replica.standing().remnants.get(&line);
        let records = remnant.into_iter().flat_map(|remnant| &remnant.records);
        let deduplicated = records.filter(|(_, record)| record.deduplicated);
        deduplicated.map(|(effect, record)| (*effect, record.key)).collect()
    }

    fn tell_of_effects(
        &mut self,
        id: ExecutionId,
        effects: Vec<EffectId>,
        what: fn(Vec<EffectId>) -> Input,
    ) {
        if !effects.is_empty() {
            let word = Word::Replica(Box::new(what(effects)));
            self.queue(id, |execution| Work::Custody { execution, word });
        }
    }

    /// Has a remnant undo what it was asked to.
    pub(in crate::engine) fn withdraw(&mut self, step: &mut Step, remnant: ExecutionId) {
        let Some(entry) = self.roster.get_mut(remnant) else { return };
        let Some(Custody::Remnant(custody)) = &mut entry.custody else { return };
        if !custody.in_flight.is_empty() {
            // Their answers say how to undo them; it goes on with the last of them.
            return;
        }
        if !std::mem::replace(&mut custody.told_what_never_left, true) {
            // It was told when it was lost; but if that was in an earlier life, or just now, it may not have
            // taken that in, and would ask about calls that nobody has made.
            self.tell_what_never_left(remnant);
            return self.queue(remnant, Work::Withdraw);
        }
        let undo = custody.asked.clone();
        custody.told_of.clone_from(&undo);
        let event = Event::Withdrawn { undo };
        self.advance(step, remnant, event, Cause::default());
        self.tell_undone(remnant);
    }

    /// Tells the replica what a remnant has undone.
    pub(in crate::engine) fn tell_undone(&mut self, remnant: ExecutionId) {
        let custody = self.roster.get(remnant).and_then(Entry::remnant);
        if custody.is_none_or(|custody| custody.told_of.is_empty()) || !self.wake(remnant) {
            return;
        }
        let entry = self.roster.known(remnant);
        let State::Awake(execution, _) = &entry.state else { return };
        let Some(owed) = execution.owed_undos() else { return };
        let Some(Custody::Remnant(custody)) = &mut entry.custody else { return };
        let (told_of, done): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut custody.told_of).into_iter().partition(|it| owed.contains(it));
        custody.told_of = told_of;
        custody.asked.retain(|effect| !done.contains(effect));
        let of = custody.of;
        let (undone, void): (Vec<_>, Vec<_>) =
            done.into_iter().partition(|effect| execution.is_undone(effect));
        self.tell_of_effects(of, undone, Input::Undone);
        self.tell_of_effects(of, void, Input::NeverWere);
    }

    /// All that this node did is kept or undone: its lost lines are no longer needed.
    pub(super) fn close_remnants(&mut self, id: ExecutionId) {
        let Some(holding) = self.holding(id) else { return };
        let lines: Vec<Epoch> = holding.replica.standing().remnants.keys().copied().collect();
        for line in lines {
            let remnant = self.remnant_id(id, line);
            let event = Event::WithdrawalClosed;
            self.queue(remnant, |execution| Work::Advance { execution, event });
        }
    }
}

fn derived(
    what: &'static str,
    id: ExecutionId,
    node: u64,
    term: Epoch,
    life: Epoch,
) -> ExecutionId {
    let digest = Digester::new(what).field(id.as_bytes()).number(node).number(term.0);
    let digest = digest.number(life.0).finish();
    let bytes = digest.as_bytes()[..16].try_into().expect("a digest has 32 bytes");
    ExecutionId::from_bytes(bytes)
}
