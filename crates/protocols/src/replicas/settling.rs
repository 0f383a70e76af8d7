//! After the decision: what belongs to it is kept, what does not is undone, in an order that all
//! replicas agree to.
//!
//! The paper's second algorithm has no base case: nobody used the final state as input, so everybody
//! would allow everything to be undone. Here an effect is kept if the decided line took its result
//! up, which its author finds out alone; asking the others (`wishes`) serves the order of undoing, and
//! finding effects that several lines have by the same key.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use outlast_lineage::{EffectId, Epoch, Lineage, OperationKey};

use super::wishes::LastOwed;
use super::{
    Change, Choice, Held, Message, Output, Outputs, Record, Remnant, Replica, Role, Situation,
    Timer, Verdict,
};

/// How often the time between two questions is doubled at most.
const DOUBLINGS_MAX: u32 = 4;

impl Replica {
    pub(super) fn decided(&mut self, out: &mut Outputs, instance: u32, choice: Choice) {
        if instance < self.standing.decisions || self.standing.final_choice().is_some() {
            return;
        }
        let is_final = choice.is_final;
        let in_turn = instance == self.standing.decisions;
        let decided_before = self.standing.pinned().map_or(0, Lineage::number);
        self.change(out, Change::Decided(instance, choice));
        self.note_undecided(in_turn, decided_before);
        if is_final {
            out.report(Situation::RunDecided);
            self.conclude(out);
        } else {
            out.report(Situation::LineDecided);
            self.line_decided(out);
        }
    }

    /// A run was decided on: nobody runs or votes here any more.
    pub(super) fn conclude(&mut self, out: &mut Outputs) {
        if self.leads().is_some() {
            out.list.push(Output::Stop);
        }
        self.role = Role::Settling;
        if self.holds_the_end() {
            return self.settle(out);
        }
        self.tell_all(out, &Message::Want);
        self.expect_answers(out);
    }

    /// Whether the state held is the one that was decided on.
    pub fn holds_the_end(&self) -> bool {
        let decided = self.standing.final_choice().map(|choice| &choice.lineage);
        decided == Some(&self.standing.head.lineage)
    }

    pub(super) fn take_final_state(&mut self, out: &mut Outputs, held: Held) {
        let decided = self.standing.final_choice().map(|choice| &choice.lineage);
        if !self.holds_the_end() && decided == Some(&held.head.lineage) {
            self.adopt(out, held);
            self.settle(out);
        }
    }

    /// Judges what can be judged alone, and asks about the rest.
    fn settle(&mut self, out: &mut Outputs) {
        if !self.concluded {
            self.concluded = true;
            out.list.push(Output::Concluded);
        }
        self.wishes.stir();
        let open = |record: &Record| record.verdict.is_none();
        let on_line = self.standing.records.iter().filter(|(_, record)| open(record));
        let mut kept: Vec<EffectId> = on_line.map(|(effect, _)| *effect).collect();
        let keys = self.settled_keys();
        let same = |record: &Record| record.deduplicated && keys.contains(&record.key);
        let by_key = self.owed().filter(|(_, record)| same(record));
        let by_key: Vec<EffectId> = by_key.map(|(effect, _)| *effect).collect();
        if !by_key.is_empty() {
            out.report(Situation::KeptByKey);
        }
        kept.extend(by_key);
        if !kept.is_empty() {
            self.change(out, Change::Judged { verdict: Verdict::Kept, effects: kept });
        }
        self.ask_about_undos(out);
        self.reconsider(out);
        self.check_settled(out);
    }

    /// Own effects on lost lines of which nobody knows yet what becomes of them.
    pub(super) fn owed(&self) -> impl Iterator<Item = (&EffectId, &Record)> {
        let lost = self.standing.remnants.values().flat_map(|remnant| &remnant.records);
        lost.filter(|(_, record)| record.verdict.is_none())
    }

    /// Something changed on which undos may wait, here or elsewhere.
    pub(super) fn reconsider(&mut self, out: &mut Outputs) {
        if self.holds_the_end() {
            self.order_undos(out);
            self.answer_wishes(out);
        }
    }

    /// Orders what everyone allows, newest first, as long as nothing newer waits.
    fn order_undos(&mut self, out: &mut Outputs) {
        let mut orders: Vec<(Epoch, Vec<EffectId>)> = Vec::new();
        let last = self.last_owed();
        for (line, remnant) in &self.standing.remnants {
            let ready = self.ready_on(*line, remnant, &last);
            if !ready.is_empty() {
                orders.push((*line, ready));
            }
        }
        for (line, effects) in orders {
            self.wishes.ordered.extend(effects.iter().copied());
            out.list.push(Output::Undo { line, effects });
        }
    }

    /// What may be undone on a lost line now: nothing from whose result something started that has to wait,
    /// on this line or on another one that went on from there. What was begun while it was under way, in
    /// another branch, did not start from it.
    fn ready_on(&self, line: Epoch, remnant: &Remnant, last: &[LastOwed<'_>]) -> Vec<EffectId> {
        let open = remnant.records.iter().filter(|(_, record)| record.verdict.is_none());
        let mut open: Vec<(u64, &EffectId, &Record)> =
            open.map(|(effect, record)| (self.place(remnant, record), effect, record)).collect();
        open.sort_by_key(|(place, _, _)| Reverse(*place));
        let (mut ready, mut newest_waiting) = (Vec::new(), None);
        for (place, effect, record) in open {
            // Whoever carries the orders out keeps to their order.
            if self.wishes.ordered.contains(effect) {
                continue;
            }
            let key = record.deduplicated.then_some(record.key);
            let state = remnant.lineage.at(record.intended);
            let started = record.committed.is_some_and(|taken| Some(taken) <= newest_waiting);
            let went_on = last
                .iter()
                .filter(|other| other.line != line)
                .any(|other| state.is_some_and(|state| other.came_after(&state, key)));
            if !started && !went_on && self.may_order(line, effect, record) {
                ready.push(*effect);
            } else {
                newest_waiting.get_or_insert(place);
            }
        }
        ready
    }

    /// Whether an effect may be undone as far as the others are concerned, and here rather than on
    /// another line that did the same by the same key.
    fn may_order(&self, line: Epoch, effect: &EffectId, record: &Record) -> bool {
        if !self.is_allowed(effect) || self.is_left_to_another(effect) {
            return false;
        }
        if !record.deduplicated {
            return true;
        }
        let newest = self.copies(record.key).max_by_key(|(line, _, copy)| (*line, copy.intended));
        let is_newest = newest.is_some_and(|(of, copy, _)| (of, copy) == (line, effect));
        is_newest && !self.copies_wait(record.key, Some(line))
    }

    pub(super) fn undone(&mut self, out: &mut Outputs, effects: Vec<EffectId>) {
        let keys: BTreeSet<OperationKey> = self
            .owed()
            .filter(|(effect, record)| record.deduplicated && effects.contains(effect))
            .map(|(_, record)| record.key)
            .collect();
        // What this replica did by the same key in other places is undone with it.
        let copies = self.owed().filter(|(effect, record)| {
            record.deduplicated && keys.contains(&record.key) && !effects.contains(effect)
        });
        let copies: Vec<EffectId> = copies.map(|(effect, _)| *effect).collect();
        let judged = self.judge(out, Verdict::Compensated, effects);
        if self.judge(out, Verdict::Kept, copies) || judged {
            self.go_on_settling(out);
        }
    }

    /// It is known what becomes of effects on lost lines.
    pub(super) fn judge_owed(
        &mut self,
        out: &mut Outputs,
        verdict: Verdict,
        effects: Vec<EffectId>,
    ) {
        if self.judge(out, verdict, effects) {
            self.go_on_settling(out);
        }
    }

    /// Says whether anything was to be judged.
    fn judge(&mut self, out: &mut Outputs, verdict: Verdict, effects: Vec<EffectId>) -> bool {
        let owed: BTreeSet<_> = self.owed().map(|(effect, _)| *effect).collect();
        let effects: Vec<_> = effects.into_iter().filter(|it| owed.contains(it)).collect();
        if effects.is_empty() {
            return false;
        }
        self.change(out, Change::Judged { verdict, effects });
        true
    }

    fn go_on_settling(&mut self, out: &mut Outputs) {
        self.wishes.stir();
        self.reconsider(out);
        self.check_settled(out);
    }

    fn check_settled(&mut self, out: &mut Outputs) {
        if self.holds_the_end() && !self.standing.settled && self.owed().next().is_none() {
            self.change(out, Change::Settled);
            out.list.push(Output::Settled);
        }
    }

    /// Asks again for what has not come: the decided state, or permissions.
    pub(super) fn settle_again(&mut self, out: &mut Outputs) {
        self.wishes.rounds += 1;
        self.count_stillness();
        if !self.holds_the_end() {
            self.tell_all(out, &Message::Want);
            self.expect_settling(out);
        } else if !self.standing.settled {
            self.ask_about_undos(out);
            self.reconsider(out);
        }
    }

    /// What was asked for after the decision is asked for again ever more rarely: whoever comes back
    /// is asked at once, and whoever withholds something says so when it no longer does.
    pub(super) fn expect_settling(&mut self, out: &mut Outputs) {
        if !self.resends {
            self.resends = true;
            let factor = 1 << self.wishes.rounds.min(DOUBLINGS_MAX);
            out.timer(Timer::AnswersOverdue, self.setup.patience * factor);
        }
    }
}
