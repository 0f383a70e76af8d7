//! Following a primary: its states are taken up, and competing lines are compared.

use minicbor::bytes::ByteVec;
use outlast_lineage::{Epoch, Head, NodeId, Order, Point};

use super::{Change, Held, Message, Output, Outputs, Replica, Role, Situation, Term, Timer};

/// After how much of the patience lazily acknowledged states are acknowledged.
const LAZINESS: u32 = 4;

/// A state, and whether it is the end of its run.
pub(super) type Reached<'head> = (&'head Head, bool);

/// What an update says besides its delta.
#[derive(Debug)]
pub(super) struct News {
    pub(super) base: Option<Point>,
    pub(super) next: Point,
    pub(super) progress: u64,
    pub(super) ended: bool,
    pub(super) urgent: bool,
    pub(super) beginning: Option<u64>,
}

impl Replica {
    pub(super) fn take_update(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        news: News,
        delta: ByteVec,
    ) {
        let News { base, next, progress, ended, urgent, beginning } = news;
        if !self.has_followers() || next.author != from {
            return;
        }
        if self.is_outdated(next.epoch, from) {
            return self.object(out, from, next.epoch);
        }
        if self.standing.head.lineage.contains(&next) {
            return self.meet_lagging(out, from, urgent);
        }
        if base == self.point() && self.can_follow(next, beginning) {
            // The sender went on from the very state held here.
            self.follow(out, from);
            self.spare(out);
            (self.untouched, self.lagged) = (None, 0);
            self.confirm(out, next.epoch, from);
            self.change(out, Change::Extended { point: next, progress, ended, notes: Vec::new() });
            out.list.push(Output::Apply(delta));
            return self.acknowledge(out, urgent);
        }
        let theirs = (ended, progress, Some(next.author));
        let author = self.point().map(|point| point.author);
        let ours = (self.standing.ended, self.standing.head.progress, author);
        if self.leads().is_some() && theirs.1 == ours.1 {
            out.report(Situation::Tie);
        }
        let is_past = base.is_some_and(|base| self.is_past(base));
        if theirs > ours || self.acknowledges() || is_past {
            // Its line is not known here, or a part of it is missing.
            let wants = is_past || !self.keeps_line();
            self.ask_for_state(out, from, next.epoch, wants);
        } else {
            self.tell_lead(out, from);
        }
    }

    /// Whether a state goes on from a later one than the one held, on the same line as far as known.
    fn is_past(&self, base: Point) -> bool {
        self.standing.head.lineage.number() < base.number
            && self.point().is_none_or(|point| point.author == base.author)
    }

    /// Whether what went on from the state held here came to another one. Before the beginning all hold
    /// what they were told to begin with, and that need not be the same.
    fn can_follow(&self, next: Point, beginning: Option<u64>) -> bool {
        let line = &self.standing.head.lineage;
        let is_same =
            0 < line.number() || (beginning.is_some() && beginning == self.setup.beginning);
        is_same
            && line.number() < next.number
            && line.highest_epoch(next.author) <= Some(next.epoch)
    }

    /// Whether this replica promised not to acknowledge anything of that term any more.
    pub(super) fn is_outdated(&self, term: Epoch, node: NodeId) -> bool {
        self.acknowledges() && self.is_later(self.standing.promised, (term, node))
    }

    /// Whether what was said, if anything, is about a later try than another.
    fn is_later(&self, one: Option<Term>, other: Term) -> bool {
        one.is_some_and(|one| self.order(other) < self.order(one))
    }

    /// Where a try is among all that there can be. Of several in one term the highest replica's comes
    /// last: it goes first in everything else, and whoever promised the term to a lower one before can
    /// vote for it, too.
    pub(super) fn order(&self, (term, node): Term) -> (Epoch, Option<usize>) {
        (term, self.setup.members.rank(node))
    }

    /// Tells a primary that it is acknowledged no longer, and who is primary in a later term, if this
    /// replica follows one: a promise may be to a candidate that was never elected.
    fn object(&self, out: &mut Outputs, to: NodeId, term: Epoch) {
        let newer = self.standing.confirmed.filter(|newer| self.is_later(Some(*newer), (term, to)));
        let leader = self.leader().filter(|leader| newer.is_some_and(|newer| newer.1 == *leader));
        let known = self.standing.term;
        out.send(to, Message::Reject { term, known, leader });
    }

    /// The state held is about to be, or is, the one of a primary.
    fn confirm(&mut self, out: &mut Outputs, term: Epoch, leader: NodeId) {
        if self.acknowledges() && self.standing.confirmed != Some((term, leader)) {
            self.change(out, Change::Confirmed(term, leader));
        }
    }

    /// Someone has sent what is known here.
    fn meet_lagging(&mut self, out: &mut Outputs, from: NodeId, urgent: bool) {
        if self.leads().is_some() {
            self.tell_lead(out, from);
        } else {
            self.acknowledge(out, urgent);
        }
    }

    pub(super) fn take_lead(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        theirs: Reached<'_>,
        term: Epoch,
    ) {
        let head = theirs.0;
        if !self.has_followers() {
            return;
        }
        if self.acknowledges() {
            return self.obey(out, from, head, term);
        }
        match head.lineage.compare(&self.standing.head.lineage) {
            // Both would go on from here: the higher one does.
            Order::Equal if self.leads().is_none() || self.is_below(from) => {
                self.follow(out, from);
                self.acknowledge(out, true);
            }
            // An old word of the primary that made what is held here.
            Order::Before if self.is_held_of(from, term) => {
                self.follow(out, from);
                self.acknowledge(out, true);
            }
            _ if self.is_better(theirs, self.reached()) => {
                let wants = !self.keeps_line_from(head);
                self.ask_for_state(out, from, term, wants);
            }
            _ if self.leads().is_some() => {
                if head.progress == self.standing.head.progress {
                    out.report(Situation::Tie);
                }
                self.contradict(out, from);
            }
            _ => match self.followed_instead_of(from) {
                Some(leader) => self.refer(out, from, leader),
                None => {
                    // A backup may hold more than a primary that could not ask it. It would never
                    // acknowledge the other line, and what waits for a majority would wait for
                    // ever.
                    self.follow(out, from);
                    self.show(out, from);
                }
            },
        }
    }

    /// Whether a primary in a term of its, beside which this replica follows nobody, made the state held here: it
    /// holds that one, or a later one.
    fn is_held_of(&self, primary: NodeId, term: Epoch) -> bool {
        let follows =
            matches!(self.role, Role::Backup { leader } if leader.is_none_or(|it| it == primary));
        follows && self.point().is_some_and(|it| (it.author, it.epoch) == (primary, term))
    }

    /// Tells another primary that this one leads. As long as only one of them knows of a decision, each takes its
    /// own line for the better one: they would answer each other as fast as the network carries it.
    fn contradict(&mut self, out: &mut Outputs, other: NodeId) {
        let pause = self.setup.election_wait;
        let told = self.contradicted.get(&other);
        if told.is_none_or(|told| told.after(pause) <= out.now) {
            self.contradicted.insert(other, out.now);
            self.tell_lead(out, other);
        }
    }

    /// The primary that this backup follows, if that is another one and can be reached.
    fn followed_instead_of(&self, other: NodeId) -> Option<NodeId> {
        let Role::Backup { leader } = self.role else { return None };
        leader.filter(|leader| *leader != other && !self.lost.contains(leader))
    }

    /// Tells a primary that lags behind whom to follow, and shows it what that one has reached: if
    /// it went on from there itself, all it did would be undone.
    fn refer(&mut self, out: &mut Outputs, lagging: NodeId, leader: NodeId) {
        self.lagged += 1;
        if self.lagged.is_power_of_two() {
            let held = Some(self.held());
            out.send(lagging, Message::RecoveryReply { leader: Some(leader), held });
        }
    }

    /// Shows a primary that more is held here; ever more rarely, because a primary that keeps a line
    /// it proposed does not take it over.
    fn show(&mut self, out: &mut Outputs, leader: NodeId) {
        self.lagged += 1;
        if self.lagged.is_power_of_two() {
            let held = self.held();
            out.send(leader, Message::State { held, term: None });
        }
    }

    /// Where acknowledgements count, the primary of the latest term is right, whatever it holds.
    fn obey(&mut self, out: &mut Outputs, from: NodeId, head: &Head, term: Epoch) {
        if self.is_outdated(term, from) {
            return self.object(out, from, term);
        }
        let in_step = self.standing.confirmed == Some((term, from));
        match head.lineage.compare(&self.standing.head.lineage) {
            Order::Equal => {
                self.follow(out, from);
                self.confirm(out, term, from);
                self.acknowledge(out, true);
            }
            // An old word of the same primary.
            Order::Before if in_step => self.acknowledge(out, true),
            _ => self.ask_for_state(out, from, term, true),
        }
    }

    /// Follows a primary whose state is further, or at least another one, and asks for it if it would be
    /// taken up.
    fn ask_for_state(&mut self, out: &mut Outputs, from: NodeId, term: Epoch, wants: bool) {
        self.follow(out, from);
        if self.acknowledges() && self.standing.promised != Some((term, from)) {
            self.change(out, Change::Promised(term, from));
        }
        if wants {
            out.send(from, Message::Want);
        }
    }

    fn follow(&mut self, out: &mut Outputs, leader: NodeId) {
        match &self.role {
            Role::Settling => {}
            Role::Primary { .. } => self.stand_down(out, Some(leader)),
            Role::Backup { .. } | Role::Candidate(_) => self.heed(out, leader),
        }
        // Whoever heard from it knows that it can be reached.
        self.lost.remove(&leader);
    }

    pub(super) fn take_state(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        held: Held,
        term: Option<Epoch>,
    ) {
        if self.is_settling() {
            return self.take_final_state(out, held);
        }
        if !self.has_followers() {
            return;
        }
        if self.acknowledges() {
            return self.take_state_of_primary(out, from, held, term);
        }
        if !self.is_better(held.reached(), self.reached()) {
            if self.leads().is_none() && held.head == self.standing.head {
                self.acknowledge(out, true);
            }
            return;
        }
        let led = self.leads().is_some();
        if term.is_some() {
            self.follow(out, from);
        }
        if self.keeps_line_from(&held.head) {
            return;
        }
        if term.is_none() {
            self.stand_down(out, None);
        }
        self.adopt(out, held);
        self.acknowledge(out, true);
        if led && term.is_none() {
            // A backup holds more: whoever leads on from there does so in a new term.
            self.stand(out);
        }
    }

    fn take_state_of_primary(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        held: Held,
        term: Option<Epoch>,
    ) {
        let Some(term) = term else { return };
        if self.is_outdated(term, from) {
            return self.object(out, from, term);
        }
        let in_step = self.standing.confirmed == Some((term, from));
        let order = held.head.lineage.compare(&self.standing.head.lineage);
        self.follow(out, from);
        // Of one primary a later state is never given up for an earlier one.
        if order == Order::After || (order != Order::Equal && !in_step) {
            self.adopt(out, held);
        }
        self.confirm(out, term, from);
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
        (self.untouched, self.lagged) = (None, 0);
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
    fn name_for_remnant(&mut self, out: &mut Outputs) -> Epoch {
        let last = self.standing.head.lineage.highest_epoch(self.setup.me);
        if let Some(last) = last.filter(|last| !self.standing.remnants.contains_key(last)) {
            return last;
        }
        let term = Epoch(self.standing.term.0 + 1);
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
            let confirmed = self.standing.confirmed;
            out.send(*leader, Message::Ack { point, confirmed });
        }
    }

    /// Whether the state held has come further than another.
    pub(super) fn is_further_than(&self, other: Reached<'_>) -> bool {
        self.is_better(self.reached(), other)
    }

    pub(super) fn reached(&self) -> Reached<'_> {
        (&self.standing.head, self.standing.ended)
    }

    /// Whether one state is to be gone on from rather than another: a later one of the same line; of
    /// two lines, one that a decision allows, then a complete one, then the one that has come
    /// further, then the one of the higher replica.
    pub(super) fn is_better(&self, one: Reached<'_>, other: Reached<'_>) -> bool {
        match one.0.compare(other.0) {
            Order::Equal | Order::Before => false,
            Order::After => true,
            Order::Clash => self.rank(one) > self.rank(other),
        }
    }

    fn rank<'head>(
        &self,
        (head, ended): Reached<'head>,
    ) -> (bool, bool, u64, Option<NodeId>, &'head Head) {
        let author = head.lineage.head().map(|point| point.author);
        (self.is_on_pinned_line(head), ended, head.progress, author, head)
    }
}

impl Held {
    pub(super) const fn reached(&self) -> Reached<'_> {
        (&self.head, self.ended)
    }
}
