//! Being primary: states go out, acknowledgements come in, and calls leave when they may.

use outlast_lineage::{Epoch, Lineage, NodeId, Point};

use super::passing::Unsent;
use super::{Change, Choice, Head, Held, Message, Note, Output, Outputs, Replica, Role, Situation};

/// A proposal of a primary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Proposed {
    /// The decision that it is for.
    instance: u32,
    /// Whether a majority was known to have the line.
    was_held: bool,
}

impl Replica {
    /// The execution is made known: the highest replica is the first primary, without an election.
    pub(super) fn begin(&mut self, out: &mut Outputs) {
        let highest = self.setup.members.highest().expect("this replica is a member");
        // Everyone knows of the first term: whoever stands later does so in a later one.
        let term = Epoch(self.standing.term.0 + 1);
        self.change(out, Change::Term(term));
        if !self.is_elected_mode() || highest == self.setup.me {
            return self.lead(out, term);
        }
        if self.lost.contains(&highest) {
            return self.stand(out);
        }
        self.heed(out, highest);
    }

    /// Begins to execute in a term that is written down.
    pub(super) fn lead(&mut self, out: &mut Outputs, term: Epoch) {
        self.role = Role::Primary { term };
        self.acknowledged.clear();
        self.proposed = None;
        self.pauses = false;
        (self.reminded, self.told) = (0, 0);
        self.unsent = Unsent::default();
        if self.acknowledges() {
            self.change(out, Change::Confirmed(term, self.setup.me));
        }
        if self.standing.head.lineage.number() == 0 {
            self.untouched = Some(term);
            self.unsent = Unsent::nothing_since(out.now);
            return out.list.push(Output::Start);
        }
        if self.has_followers() {
            self.tell_all_who_leads(out, term);
        }
        if self.untouched.is_some() {
            out.list.push(Output::Resume);
        } else {
            self.undecided_after = None;
            self.spare(out);
            out.list.push(Output::GoOn);
        }
        self.untouched.get_or_insert(term);
        // A run that was complete when its primary died has only to be decided on.
        self.seek_end(out);
    }

    fn tell_all_who_leads(&mut self, out: &mut Outputs, term: Epoch) {
        let (head, ended) = (self.standing.head.clone(), self.standing.ended);
        self.tell_all(out, &Message::Lead { head, term, ended });
        self.expect_answers(out);
    }

    /// The owner advanced the execution: everyone is told, and nobody is waited for.
    pub(super) fn advanced(
        &mut self,
        out: &mut Outputs,
        bytes: usize,
        progress: u64,
        ended: bool,
        notes: Vec<Note>,
    ) {
        let Role::Primary { term } = self.role else {
            unreachable!("only a primary advances the execution")
        };
        let base = self.point();
        let number = self.standing.head.lineage.number() + 1;
        let next = Point { author: self.setup.me, epoch: term, number };
        self.change(out, Change::Extended { point: next, progress, ended, notes });
        if self.has_followers() {
            self.gather(out, base, bytes);
        }
        self.seek_end(out);
        self.tell_of_pause(out);
    }

    /// Tells once that it pauses for its budget, each time that it does.
    pub(super) fn tell_of_pause(&mut self, out: &mut Outputs) {
        let pauses = self.is_over_budget();
        if pauses && !self.pauses {
            out.report(Situation::OverBudget);
        }
        self.pauses = pauses;
    }

    pub(super) fn take_acknowledgement(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        point: Point,
        confirmed: Option<super::Term>,
    ) {
        let Some(term) = self.leads() else { return };
        if !self.standing.head.lineage.contains(&point) {
            return;
        }
        if self.acknowledges() && confirmed != Some((term, self.setup.me)) {
            // It was said to an earlier primary, and may not be true any more.
            return;
        }
        let known = self.acknowledged.entry(from).or_default();
        *known = point.number.max(*known);
        self.propose_wanted(out);
        self.seek_end(out);
        self.tell_of_pause(out);
    }

    /// The number of the newest state that a majority has on disk.
    pub(super) fn at_majority(&self) -> u64 {
        let mut stored: Vec<u64> = self.acknowledged.values().copied().collect();
        stored.push(self.standing.head.lineage.number());
        stored.sort_unstable_by(|one, other| other.cmp(one));
        stored.get(self.quorum() - 1).copied().unwrap_or(0)
    }

    /// Whether a majority has a state of the line that this replica leads on disk, as far as it has heard.
    pub fn is_at_majority(&self, number: u64) -> bool {
        self.leads().is_some() && number <= self.at_majority()
    }

    /// Whether a majority of the replicas can be reached, this one included.
    pub fn reaches_majority(&self) -> bool {
        self.quorum() <= self.reachable()
    }

    /// How many of the replicas can be reached, this one included.
    pub(super) fn reachable(&self) -> usize {
        let away = |peer: &NodeId| self.lost.contains(peer) || self.fenced.contains(peer);
        self.setup.members.iter().filter(|peer| !away(peer)).count()
    }

    /// Whether a call that was intended in a state of this line may leave now.
    pub fn may_leave(&self, number: u64) -> bool {
        if self.leads().is_none() {
            return false;
        }
        if self.acknowledges() && self.at_majority() < number {
            return false;
        }
        !self.is_over_budget()
    }

    /// Whether undoing what no majority knows of would cost more than is tolerated. Whoever runs
    /// alone on purpose tolerates it.
    pub fn is_over_budget(&self) -> bool {
        self.over_budget().is_some()
    }

    /// What undoing that would cost, and what is tolerated, if the one is more than the other.
    pub fn over_budget(&self) -> Option<(f64, f64)> {
        let budget = self.setup.budget.filter(|_| self.is_elected_mode())?;
        let known = self.at_majority();
        let at_risk = self.standing.records.values().filter(|record| known < record.intended);
        let cost = at_risk.map(|record| record.cost).sum();
        (budget < cost).then_some((cost, budget))
    }

    /// Whether the line up to a state was decided to be the one that counts.
    pub fn is_decided_up_to(&self, number: u64) -> bool {
        self.standing.pinned().is_some_and(|pinned| {
            number <= pinned.number() && self.standing.head.lineage.extends(pinned)
        })
    }

    pub(super) fn want_decision(&mut self, out: &mut Outputs, number: u64) {
        if self.leads().is_some() && !self.is_decided_up_to(number) {
            self.wanted = self.wanted.max(Some(number));
            self.propose_wanted(out);
            if self.wanted.is_some() && self.proposed.is_none() {
                // A majority must have the state before it is decided on: now it is urgent.
                self.remind_backups(out);
            }
        }
    }

    pub(super) fn propose_wanted(&mut self, out: &mut Outputs) {
        let Some(number) = self.wanted else { return };
        if self.is_decided_up_to(number) {
            self.wanted = None;
            return;
        }
        if !self.may_be_proposed(number) {
            return;
        }
        let lineage = self.standing.head.lineage.prefix(number);
        self.propose(out, Choice { lineage, is_final: false });
    }

    /// Once the run is complete, consensus may decide on it.
    pub(super) fn seek_end(&mut self, out: &mut Outputs) {
        if self.leads().is_none() || !self.standing.ended {
            return;
        }
        let number = self.standing.head.lineage.number();
        if self.may_be_proposed(number) || self.may_be_tried() {
            let lineage = self.standing.head.lineage.clone();
            self.propose(out, Choice { lineage, is_final: true });
        }
    }

    fn propose(&mut self, out: &mut Outputs, choice: Choice) {
        let instance = self.standing.decisions;
        let extends = self.standing.pinned().is_none_or(|pinned| choice.lineage.extends(pinned));
        let is_first = self.proposed.is_none_or(|proposed| proposed.instance != instance);
        // Who did not have the line when it was asked to agree said nothing, and may have it now.
        let is_held = choice.lineage.number() <= self.at_majority();
        let is_news = self.proposed.is_some_and(|proposed| is_held && !proposed.was_held);
        if extends && (is_first || is_news) {
            self.proposed = Some(Proposed { instance, was_held: is_held });
            if is_first && !choice.is_final && self.has_followers() {
                self.change(out, Change::Pledged(instance));
            }
            out.list.push(Output::Propose { instance, choice });
        }
    }

    /// What follows from a decision on a line before the end.
    pub(super) fn line_decided(&mut self, out: &mut Outputs) {
        self.proposed = None;
        let Some(term) = self.leads() else { return };
        if self.is_on_pinned_line(&self.standing.head) {
            if !self.is_elected_mode() {
                // The others execute no more, and follow from now on.
                self.tell_all_who_leads(out, term);
            }
            self.propose_wanted(out);
            return self.seek_end(out);
        }
        // Another line was chosen: this one can never be the one that counts.
        self.stand_down(out, None);
        self.tell_all(out, &Message::Want);
    }

    /// A decision was made, the next one after those known if it came in turn. If it is the first on a state of
    /// this primary's own, what others did on this line after the decision before was never decided on by itself,
    /// and never will be: whoever waited for that to let something leave has not let it leave.
    pub(super) fn note_undecided(&mut self, in_turn: bool, decided_before: u64) {
        let Some((since, term)) = self.leads_since() else { return };
        let is_own = |pinned: &Lineage| {
            let own = pinned.segments().iter().filter(|it| it.author == self.setup.me);
            own.into_iter().any(|it| (since..=term).contains(&it.epoch))
        };
        if self.undecided_after.is_none() && self.standing.pinned().is_some_and(is_own) {
            // Of a decision that was missed nobody knows how far it went.
            self.undecided_after = Some(if in_turn { decided_before } else { u64::MAX });
        }
    }

    /// Whether a state of another author, from which this primary went on, was not decided on before one of its
    /// own was; nothing if that is not known yet.
    pub fn was_undecided(&self, number: u64) -> Option<bool> {
        self.leads()?;
        self.undecided_after.map(|after| after < number)
    }

    /// Whether a head goes on from what was decided.
    pub(super) fn is_on_pinned_line(&self, head: &Head) -> bool {
        self.standing.pinned().is_none_or(|pinned| head.lineage.extends(pinned))
    }

    /// Those that have not acknowledged the newest state are told how far it is.
    pub(super) fn remind_backups(&mut self, out: &mut Outputs) {
        if !self.has_followers() {
            return;
        }
        let number = self.standing.head.lineage.number();
        let behind: Vec<NodeId> = self
            .peers()
            .filter(|peer| !self.lost.contains(peer))
            .filter(|peer| self.acknowledged.get(peer).is_none_or(|known| *known < number))
            .collect();
        for peer in &behind {
            self.tell_lead(out, *peer);
        }
        if !behind.is_empty() {
            self.expect_answers(out);
        }
    }

    /// Whoever keeps another line that it proposed does not take up this one. When everyone had time
    /// to, it is proposed all the same, or two lines of which neither is at a majority would wait
    /// for each other.
    pub(super) fn end_waiting(&mut self, out: &mut Outputs) {
        if self.reaches_majority() {
            self.told = self.reminded;
            self.reminded = self.standing.head.lineage.number();
            if self.is_over_budget() {
                // Nor does it ever acknowledge this line, and a primary that pauses until a majority has
                // done so would pause for ever.
                self.wanted = self.wanted.max(Some(self.reminded));
            }
            self.propose_wanted(out);
            self.seek_end(out);
        }
    }

    /// Whether an end may be proposed to those who have it: the proposal goes out together with it.
    /// Where acknowledgements count, they also say that no later primary is followed.
    pub(super) fn may_be_tried(&self) -> bool {
        !self.setup.acknowledge && self.reaches_majority()
    }

    /// Whether only those who have a line may agree to it: this primary's goes on from it, or is at it,
    /// and who has acknowledged it may have left it since. Of what was decided on, somebody must hold the
    /// state, though its proposer be lost for good.
    pub fn needs_holders(&self, choice: &Choice) -> bool {
        let own = self.leads().is_some() && self.holds(choice);
        own && self.has_followers() && !self.setup.acknowledge
    }

    /// Whether this replica may agree to a line of which somebody must hold the state: it does; or it
    /// keeps another one, or has shown its primary a better one in vain, and would never take it up.
    pub fn may_agree(&self, choice: &Choice) -> bool {
        self.holds(choice) || self.keeps_line() || 0 < self.lagged
    }

    /// It agreed to a line: if it holds it, it does so until something is decided.
    pub(super) fn agreed(&mut self, out: &mut Outputs, instance: u32, choice: &Choice) {
        let is_open = self.standing.decisions == instance && !self.keeps_line();
        if is_open && self.has_followers() && !self.setup.acknowledge && self.holds(choice) {
            self.change(out, Change::Pledged(instance));
        }
    }

    /// Whether the state held goes on from a line, or is its end.
    pub fn holds(&self, choice: &Choice) -> bool {
        self.standing.head.lineage.extends(&choice.lineage)
    }

    /// Whether a state may be proposed: a majority has it, so that it survives its proposer.
    fn may_be_proposed(&self, number: u64) -> bool {
        let told = if self.setup.acknowledge { 0 } else { self.told };
        !self.has_followers() || number <= self.at_majority().max(told)
    }

    pub(super) fn tell_lead(&mut self, out: &mut Outputs, to: NodeId) {
        if let Some(term) = self.leads() {
            self.pass_on(out);
            let (head, ended) = (self.standing.head.clone(), self.standing.ended);
            out.send(to, Message::Lead { head, term, ended });
        }
    }

    /// The whole state, for whoever lacks it.
    pub(super) fn provide(&mut self, out: &mut Outputs, to: NodeId) {
        if 0 < self.standing.head.lineage.number() {
            self.pass_on(out);
            let held = self.held();
            out.send(to, Message::State { held, term: self.leads() });
        }
    }

    /// The state held, to be filled in.
    pub(super) fn held(&self) -> Held {
        let (head, ended) = (self.standing.head.clone(), self.standing.ended);
        Held { head, ended, state: Vec::new() }
    }

    pub(super) fn answer_inquiry(&mut self, out: &mut Outputs, from: NodeId) {
        if self.leads().is_some() && self.has_followers() {
            self.tell_lead(out, from);
        } else {
            // Where every replica executes, nobody follows this one.
            let leader = self.leader().filter(|leader| *leader != self.setup.me);
            out.send(from, Message::StoodDown { leader });
        }
    }
}
