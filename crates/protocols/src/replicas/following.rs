//! Following a primary: its states are taken up, and competing lines are compared.

use outlast_lineage::{Head, NodeId, Order, Point};

use super::{Change, Held, Message, Output, Outputs, Replica, Role, Situation, Timer};

/// After how much of the patience lazily acknowledged states are acknowledged.
const LAZINESS: u32 = 4;

/// What an update says besides its delta.
#[derive(Debug)]
pub(super) struct News {
    pub(super) base: Option<Point>,
    pub(super) next: Point,
    pub(super) progress: u64,
    pub(super) ended: bool,
    pub(super) urgent: bool,
}

impl Replica {
    pub(super) fn take_update(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        news: News,
        delta: Vec<u8>,
    ) {
        let News { base, next, progress, ended, urgent } = news;
        if !self.is_elected_mode() || next.author != from || self.is_outdated(next) {
            return;
        }
        if self.standing.head.lineage.contains(&next) {
            return self.meet_lagging(out, from, urgent);
        }
        if base == self.point() && self.can_follow(next) {
            // The sender went on from the very state held here.
            self.follow(out, from);
            self.spare(out);
            self.untouched = false;
            self.change(out, Change::Extended { point: next, progress, ended, notes: Vec::new() });
            out.list.push(Output::Apply(delta));
            return self.acknowledge(out, urgent);
        }
        let theirs = (progress, Some(next.author));
        let ours = (self.standing.head.progress, self.point().map(|point| point.author));
        if self.leads().is_some() && theirs.0 == ours.0 {
            out.report(Situation::Tie);
        }
        if theirs > ours || self.setup.acknowledge || base.is_some_and(|base| self.is_past(base)) {
            // Its line is not known here, or a part of it is missing.
            self.ask_for_state(out, from);
        } else if self.leads().is_some() {
            out.send(from, Message::Lead { head: self.standing.head.clone() });
        }
    }

    /// Whether a state goes on from a later one than the one held, on the same line as far as known.
    fn is_past(&self, base: Point) -> bool {
        self.standing.head.lineage.number() < base.number
            && self.point().is_none_or(|point| point.author == base.author)
    }

    fn can_follow(&self, next: Point) -> bool {
        let line = &self.standing.head.lineage;
        next.number == line.number() + 1 && line.highest_epoch(next.author) <= Some(next.epoch)
    }

    /// Whether this replica promised not to acknowledge states of that term any more.
    fn is_outdated(&self, point: Point) -> bool {
        self.setup.acknowledge && Some((point.epoch, point.author)) < self.standing.promised
    }

    /// Someone has sent what is known here.
    fn meet_lagging(&mut self, out: &mut Outputs, from: NodeId, urgent: bool) {
        if self.leads().is_some() {
            out.send(from, Message::Lead { head: self.standing.head.clone() });
        } else {
            self.acknowledge(out, urgent);
        }
    }

    pub(super) fn take_lead(&mut self, out: &mut Outputs, from: NodeId, head: Head) {
        if !self.is_elected_mode() || head.lineage.head().is_some_and(|it| self.is_outdated(it)) {
            return;
        }
        match head.lineage.compare(&self.standing.head.lineage) {
            Order::Equal if self.leads().is_none() => {
                self.follow(out, from);
                self.acknowledge(out, true);
            }
            _ if self.is_better(&head, &self.standing.head) => self.ask_for_state(out, from),
            _ if self.leads().is_some() => {
                let tie = head.progress == self.standing.head.progress;
                if tie {
                    out.report(Situation::Tie);
                }
                out.send(from, Message::Lead { head: self.standing.head.clone() });
            }
            // A backup may hold more than a primary that did not ask it; it follows all the same.
            _ => self.follow(out, from),
        }
    }

    /// Follows a primary whose state is further, or at least another one.
    fn ask_for_state(&mut self, out: &mut Outputs, from: NodeId) {
        self.follow(out, from);
        out.send(from, Message::Want);
    }

    fn follow(&mut self, out: &mut Outputs, leader: NodeId) {
        match &self.role {
            Role::Settling => {}
            Role::Primary { .. } => self.stand_down(out, Some(leader)),
            Role::Backup { .. } | Role::Candidate { .. } => {
                self.role = Role::Backup { leader: Some(leader) };
            }
        }
        // Whoever heard from it knows that it can be reached.
        self.lost.remove(&leader);
    }

    pub(super) fn take_state(&mut self, out: &mut Outputs, from: NodeId, held: Held) {
        if self.is_settling() {
            return self.take_final_state(out, held);
        }
        let outdated = held.head.lineage.head().is_some_and(|point| self.is_outdated(point));
        if !self.is_elected_mode() || outdated {
            return;
        }
        if !self.is_better(&held.head, &self.standing.head) {
            if self.leads().is_none() && held.head == self.standing.head {
                self.acknowledge(out, true);
            }
            return;
        }
        let leads = held.head.lineage.head().is_some_and(|point| point.author == from);
        if leads {
            self.follow(out, from);
        } else {
            self.stand_down(out, None);
        }
        self.adopt(out, held);
        self.acknowledge(out, true);
    }

    /// Takes another state over; own effects on the line held before may stay behind.
    pub(super) fn adopt(&mut self, out: &mut Outputs, held: Held) {
        let Held { head, ended, state } = held;
        let common = self.standing.head.lineage.common_prefix(&head.lineage);
        let loses = self.standing.records.values().any(|record| record.is_lost_after(common));
        let remnant = loses.then(|| self.name_for_remnant(out));
        if loses {
            out.report(Situation::LineLost);
        }
        self.untouched = false;
        self.change(out, Change::Adopted { head, ended, remnant });
        out.list.push(Output::Adopt { state, remnant });
    }

    /// Keeps what is in the air on the state held before someone goes on from it.
    pub(super) fn spare(&mut self, out: &mut Outputs) {
        if self.standing.records.values().any(super::Record::is_in_the_air) {
            let remnant = self.name_for_remnant(out);
            self.change(out, Change::Spared { remnant });
            out.list.push(Output::Spare(remnant));
        }
    }

    /// The last own term on the line held, which is where answers to own calls are sent; another
    /// one if that is taken.
    fn name_for_remnant(&mut self, out: &mut Outputs) -> outlast_lineage::Epoch {
        let last = self.standing.head.lineage.highest_epoch(self.setup.me);
        if let Some(last) = last.filter(|last| !self.standing.remnants.contains_key(last)) {
            return last;
        }
        let term = outlast_lineage::Epoch(self.standing.term.0 + 1);
        self.change(out, Change::Term(term));
        term
    }

    /// Tells the primary what is stored here, at once or together with what follows.
    fn acknowledge(&mut self, out: &mut Outputs, urgent: bool) {
        if urgent {
            return self.acknowledge_now(out);
        }
        if !self.acknowledges_soon {
            self.acknowledges_soon = true;
            out.timer(Timer::AcknowledgementDue, self.setup.patience / LAZINESS);
        }
    }

    pub(super) fn acknowledge_now(&mut self, out: &mut Outputs) {
        self.acknowledges_soon = false;
        if let (Role::Backup { leader: Some(leader) }, Some(point)) = (&self.role, self.point()) {
            out.send(*leader, Message::Ack { point });
        }
    }

    /// Whether the state held has come further than another.
    pub(super) fn is_further_than(&self, other: &Head) -> bool {
        self.is_better(&self.standing.head, other)
    }

    /// Whether one state is to be gone on from rather than another: a later one of the same line; of
    /// two lines, one that a decision allows, then the one that has come further, then the one of
    /// the higher replica. Where acknowledgements count, the later term comes first, because what a
    /// majority acknowledged is in it.
    pub(super) fn is_better(&self, one: &Head, other: &Head) -> bool {
        match one.compare(other) {
            Order::Equal | Order::Before => false,
            Order::After => true,
            Order::Clash => self.rank(one) > self.rank(other),
        }
    }

    fn rank<'head>(
        &self,
        head: &'head Head,
    ) -> (bool, Option<super::Term>, u64, Option<NodeId>, &'head Head) {
        let last = head.lineage.head();
        let term = last.map(|point| (point.epoch, point.author));
        let term = if self.setup.acknowledge { term } else { None };
        let author = last.map(|point| point.author);
        (self.is_on_pinned_line(head), term, head.progress, author, head)
    }
}
