//! After the decision: what belongs to it is kept, what does not is undone, in an order that all
//! replicas agree to.
//!
//! The paper's second algorithm has no base case: nobody used the final state as input, so everybody
//! would allow everything to be undone. Here an effect is kept if the decided line took its result
//! up, which its author finds out alone; asking the others serves the order of undoing, and finding
//! effects that two lines have by the same key.

use std::collections::BTreeSet;

use outlast_lineage::{EffectId, Epoch, NodeId, OperationKey, Point};

use super::{
    Asked, Change, Choice, Held, Message, Output, Outputs, Record, Replica, Role, Situation,
    Verdict,
};

/// How many effects one message asks about.
const ASKED_MAX: usize = 1000;

impl Replica {
    pub(super) fn decided(&mut self, out: &mut Outputs, instance: u32, choice: Choice) {
        if instance < self.standing.decisions || self.standing.final_choice().is_some() {
            return;
        }
        let is_final = choice.is_final;
        self.change(out, Change::Decided(instance, choice));
        if is_final {
            out.report(Situation::RunDecided);
            self.conclude(out);
        } else {
            out.report(Situation::PivotDecided);
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
        let open = |record: &Record| record.verdict.is_none();
        let on_line = self.standing.records.iter().filter(|(_, record)| open(record));
        let mut kept: Vec<EffectId> = on_line.map(|(effect, _)| *effect).collect();
        let keys = self.kept_keys();
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
        self.order_undos(out);
        self.check_settled(out);
    }

    /// The keys of own effects on the decided line, at providers that act once for each.
    fn kept_keys(&self) -> BTreeSet<OperationKey> {
        let records = self.standing.records.values().filter(|record| record.deduplicated);
        records.map(|record| record.key).collect()
    }

    /// Own effects on lost lines of which nobody knows yet what becomes of them.
    fn owed(&self) -> impl Iterator<Item = (&EffectId, &Record)> {
        let lost = self.standing.remnants.values().flat_map(|remnant| &remnant.records);
        lost.filter(|(_, record)| record.verdict.is_none())
    }

    fn ask_about_undos(&mut self, out: &mut Outputs) {
        let Some(choice) = self.standing.final_choice().cloned() else { return };
        let instance = self.standing.decisions - 1;
        let asked: Vec<Asked> = self
            .standing
            .remnants
            .values()
            .flat_map(|remnant| {
                remnant.records.iter().filter_map(|(effect, record)| {
                    let intended = remnant.lineage.at(record.intended)?;
                    let key = record.deduplicated.then_some(record.key);
                    let open = record.verdict.is_none() && !self.ordered.contains(effect);
                    open.then_some(Asked { effect: *effect, intended, key })
                })
            })
            .collect();
        if asked.is_empty() {
            return;
        }
        for effects in asked.chunks(ASKED_MAX) {
            let effects = effects.to_vec();
            let message = Message::MayUndo { instance, choice: choice.clone(), effects };
            self.tell_all(out, &message);
        }
        self.expect_answers(out);
    }

    /// Another replica wants to undo effects of its own.
    pub(super) fn judge_wish(&mut self, out: &mut Outputs, from: NodeId, effects: Vec<Asked>) {
        if !self.holds_the_end() {
            // What was done here on which line is not sorted out yet.
            return;
        }
        let keys = self.kept_keys();
        let (mut allow, mut keep) = (Vec::new(), Vec::new());
        for asked in effects {
            if asked.key.is_some_and(|key| keys.contains(&key)) {
                keep.push(asked.effect);
            } else if self.depends_on(&asked.intended) {
                out.report(Situation::UndoWithheld);
            } else {
                allow.push(asked.effect);
            }
        }
        if !allow.is_empty() {
            out.send(from, Message::Allow { effects: allow });
        }
        if !keep.is_empty() {
            out.send(from, Message::Keep { effects: keep });
        }
    }

    /// Whether an effect of this replica that is still to be undone came after a state.
    fn depends_on(&self, state: &Point) -> bool {
        self.standing.remnants.values().any(|remnant| {
            let later =
                |record: &Record| record.verdict.is_none() && state.number < record.intended;
            remnant.lineage.contains(state) && remnant.records.values().any(later)
        })
    }

    pub(super) fn take_permission(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        effects: Vec<EffectId>,
    ) {
        for effect in effects {
            self.allowed.entry(effect).or_default().insert(from);
        }
        self.order_undos(out);
    }

    pub(super) fn keep(&mut self, out: &mut Outputs, effects: Vec<EffectId>) {
        let owed: BTreeSet<_> = self.owed().map(|(effect, _)| *effect).collect();
        let kept: Vec<_> = effects
            .into_iter()
            .filter(|effect| owed.contains(effect) && !self.ordered.contains(effect))
            .collect();
        if kept.is_empty() {
            return;
        }
        out.report(Situation::KeptByKey);
        self.change(out, Change::Judged { verdict: Verdict::Kept, effects: kept });
        self.order_undos(out);
        self.check_settled(out);
    }

    /// Orders what everyone allows, newest first, as long as nothing newer waits.
    pub(super) fn order_undos(&mut self, out: &mut Outputs) {
        if !self.holds_the_end() {
            return;
        }
        let everyone: Vec<NodeId> = self.peers().collect();
        let mut orders: Vec<(Epoch, Vec<EffectId>)> = Vec::new();
        for (line, remnant) in &self.standing.remnants {
            let mut open: Vec<(&EffectId, &Record)> =
                remnant.records.iter().filter(|(_, record)| record.verdict.is_none()).collect();
            open.sort_by_key(|(_, record)| std::cmp::Reverse(record.intended));
            let is_allowed = |effect: &EffectId| {
                let by = self.allowed.get(effect);
                everyone.iter().all(|peer| by.is_some_and(|by| by.contains(peer)))
            };
            let ready = open
                .into_iter()
                .map(|(effect, _)| *effect)
                .take_while(|effect| self.ordered.contains(effect) || is_allowed(effect))
                .filter(|effect| !self.ordered.contains(effect));
            let ready: Vec<EffectId> = ready.collect();
            if !ready.is_empty() {
                orders.push((*line, ready));
            }
        }
        for (line, effects) in orders {
            self.ordered.extend(effects.iter().copied());
            out.list.push(Output::Undo { line, effects });
        }
    }

    pub(super) fn undone(&mut self, out: &mut Outputs, effects: Vec<EffectId>) {
        let owed: BTreeSet<_> = self.owed().map(|(effect, _)| *effect).collect();
        let effects: Vec<_> = effects.into_iter().filter(|it| owed.contains(it)).collect();
        if effects.is_empty() {
            return;
        }
        self.change(out, Change::Judged { verdict: Verdict::Compensated, effects });
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
        if !self.holds_the_end() {
            self.tell_all(out, &Message::Want);
            self.expect_answers(out);
        } else if !self.standing.settled {
            self.ask_about_undos(out);
        }
    }
}
