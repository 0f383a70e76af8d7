//! Being primary: states go out, acknowledgements come in, and calls leave when they may.

use outlast_lineage::{Epoch, NodeId, Point};

use super::{
    Change, Choice, Head, Held, Message, Note, Output, Outputs, Payload, Replica, Role, Timer,
};

impl Replica {
    /// The execution is made known: the highest replica is the first primary, without an election.
    pub(super) fn begin(&mut self, out: &mut Outputs) {
        let highest = self.setup.members.last().copied();
        if !self.is_elected_mode() || highest == Some(self.setup.me) {
            let term = Epoch(self.standing.term.0 + 1);
            self.change(out, Change::Term(term));
            return self.lead(out, term);
        }
        self.role = Role::Backup { leader: highest };
        if highest.is_some_and(|leader| self.lost.contains(&leader)) {
            return self.stand(out);
        }
        out.timer(Timer::WordOverdue, self.setup.patience);
    }

    /// Begins to execute in a term that is written down.
    pub(super) fn lead(&mut self, out: &mut Outputs, term: Epoch) {
        self.role = Role::Primary { term };
        self.acknowledged.clear();
        self.proposed = None;
        if self.standing.head.lineage.number() == 0 {
            self.untouched = true;
            return out.list.push(Output::Start);
        }
        if self.is_elected_mode() {
            self.tell_all(out, &Message::Lead { head: self.standing.head.clone() });
            self.expect_answers(out);
        }
        if self.untouched {
            out.list.push(Output::Resume);
        } else {
            self.spare(out);
            out.list.push(Output::GoOn);
        }
        self.untouched = true;
        // A run that was complete when its primary died has only to be decided on.
        self.seek_end(out);
    }

    /// The owner advanced the execution: everyone is told, and nobody is waited for.
    pub(super) fn advanced(
        &mut self,
        out: &mut Outputs,
        payload: Payload,
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
        if self.is_elected_mode() {
            let urgent = self.setup.acknowledge || ended;
            let message = match payload {
                Payload::Delta(delta) => {
                    Message::Update { base, next, progress, ended, urgent, delta }
                }
                Payload::State(state) => {
                    let head = self.standing.head.clone();
                    Message::State { held: Held { head, ended, state } }
                }
            };
            self.tell_all(out, &message);
            self.expect_answers(out);
        }
        self.seek_end(out);
    }

    pub(super) fn take_acknowledgement(&mut self, out: &mut Outputs, from: NodeId, point: Point) {
        if self.leads().is_none() || !self.standing.head.lineage.contains(&point) {
            return;
        }
        let known = self.acknowledged.entry(from).or_default();
        *known = point.number.max(*known);
        self.seek_end(out);
    }

    /// The number of the newest state that a majority has on disk.
    pub(super) fn at_majority(&self) -> u64 {
        let mut stored: Vec<u64> = self.acknowledged.values().copied().collect();
        stored.push(self.standing.head.lineage.number());
        stored.sort_unstable_by(|one, other| other.cmp(one));
        stored.get(self.quorum() - 1).copied().unwrap_or(0)
    }

    /// Whether a call that was intended in a state of this line may leave now.
    pub fn may_leave(&self, number: u64) -> bool {
        if self.leads().is_none() {
            return false;
        }
        if self.setup.acknowledge && self.at_majority() < number {
            return false;
        }
        !self.is_over_budget()
    }

    /// Whether undoing what no majority knows of would cost more than is tolerated.
    pub fn is_over_budget(&self) -> bool {
        let Some(budget) = self.setup.budget else { return false };
        let known = self.at_majority();
        let at_risk = self.standing.records.values().filter(|record| known < record.intended);
        budget < at_risk.map(|record| record.cost).sum()
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
        }
    }

    fn propose_wanted(&mut self, out: &mut Outputs) {
        let Some(number) = self.wanted else { return };
        if self.is_decided_up_to(number) {
            self.wanted = None;
            return;
        }
        let lineage = self.standing.head.lineage.prefix(number);
        self.propose(out, Choice { lineage, is_final: false });
    }

    /// Once the run is complete and a majority has its end, consensus may decide on it.
    pub(super) fn seek_end(&mut self, out: &mut Outputs) {
        if self.leads().is_none() || !self.standing.ended {
            return;
        }
        let number = self.standing.head.lineage.number();
        if !self.is_elected_mode() || number <= self.at_majority() {
            let lineage = self.standing.head.lineage.clone();
            self.propose(out, Choice { lineage, is_final: true });
        }
    }

    fn propose(&mut self, out: &mut Outputs, choice: Choice) {
        let instance = self.standing.decisions;
        let extends = self.standing.pinned().is_none_or(|pinned| choice.lineage.extends(pinned));
        if extends && self.proposed != Some(instance) {
            self.proposed = Some(instance);
            out.list.push(Output::Propose { instance, choice });
        }
    }

    /// What follows from a decision on a line before the end.
    pub(super) fn line_decided(&mut self, out: &mut Outputs) {
        self.proposed = None;
        if self.leads().is_none() {
            return;
        }
        if self.is_on_pinned_line(&self.standing.head) {
            self.propose_wanted(out);
            return self.seek_end(out);
        }
        // Another line was chosen: this one can never be the one that counts.
        self.stand_down(out, None);
        self.tell_all(out, &Message::Want);
    }

    /// Whether a head goes on from what was decided.
    pub(super) fn is_on_pinned_line(&self, head: &Head) -> bool {
        self.standing.pinned().is_none_or(|pinned| head.lineage.extends(pinned))
    }

    /// Those that have not acknowledged the newest state are told how far it is.
    pub(super) fn remind_backups(&mut self, out: &mut Outputs) {
        if !self.is_elected_mode() {
            return;
        }
        let number = self.standing.head.lineage.number();
        let behind: Vec<NodeId> = self
            .peers()
            .filter(|peer| !self.lost.contains(peer))
            .filter(|peer| self.acknowledged.get(peer).is_none_or(|known| *known < number))
            .collect();
        for peer in &behind {
            out.send(*peer, Message::Lead { head: self.standing.head.clone() });
        }
        if !behind.is_empty() {
            self.expect_answers(out);
        }
    }

    /// The whole state, for whoever lacks it.
    pub(super) fn provide(&mut self, out: &mut Outputs, to: NodeId) {
        if 0 < self.standing.head.lineage.number() {
            let held = self.held();
            out.send(to, Message::State { held });
        }
    }

    /// The state held, to be filled in.
    pub(super) fn held(&self) -> Held {
        let (head, ended) = (self.standing.head.clone(), self.standing.ended);
        Held { head, ended, state: Vec::new() }
    }

    pub(super) fn answer_inquiry(&mut self, out: &mut Outputs, from: NodeId) {
        if self.leads().is_some() && self.is_elected_mode() {
            out.send(from, Message::Lead { head: self.standing.head.clone() });
        } else {
            out.send(from, Message::StoodDown { leader: self.leader() });
        }
    }
}
