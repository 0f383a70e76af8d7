//! Failover: a backup that cannot reach its primary asks for votes.
//!
//! Votes are not exclusive, as in the paper: two partitions, or two candidates in a bad moment, may
//! both have enough. That costs compensation, never correctness.

use std::collections::BTreeSet;
use std::time::Duration;

use outlast_lineage::{Epoch, Head, NodeId};

use super::following::Reached;
use super::{
    Change, Held, Message, Mode, Offer, Output, Outputs, Replica, Role, Situation, Term, Timer,
};

/// For how many waiting times a candidate that could not win lets others have its vote.
const YIELDS: u32 = 4;
/// After how many waiting times a candidate that could not win tries again.
const RETRIES: u32 = 3;
/// How often the waiting time doubles at most, in case votes take longer than it.
const DOUBLINGS_MAX: u32 = 3;
/// After how many questions without an answer a primary counts as lost.
const INQUIRIES: u32 = 3;
/// For how many patiences at most a primary that answers is believed without being asked.
const CALM_MAX: u32 = 64;

impl Replica {
    /// Asks for votes (the paper's failover).
    pub(super) fn stand(&mut self, out: &mut Outputs) {
        if self.is_settling() || self.setup.mode == Mode::Active {
            return;
        }
        if self.successor().is_some() {
            self.role = Role::Backup { leader: None };
            return self.wait_for_a_leader(out);
        }
        let term = Epoch(self.standing.term.0 + 1);
        self.change(out, Change::Term(term));
        let votes = BTreeSet::from([self.setup.me]);
        self.role = Role::Candidate { term, votes, best: None, rejected: false };
        out.report(Situation::Candidacy);
        let message = Message::RequestVote { term, head: self.standing.head.clone() };
        self.tell_all(out, &message);
        out.timer(Timer::ElectionOver, self.election_wait());
    }

    pub(super) fn retry_election(&mut self, out: &mut Outputs) {
        if self.role == (Role::Backup { leader: None }) {
            self.stand(out);
        }
    }

    pub(super) fn take_request(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        term: Epoch,
        head: &Head,
    ) {
        if self.setup.mode == Mode::Active {
            return;
        }
        if self.standing.term < term {
            self.change(out, Change::Term(term));
        }
        let objection = if self.is_outdated(term, from) {
            // It stands in a term that is over, and shall try a later one.
            Some(None)
        } else {
            self.objection(out, from)
        };
        if let Some(leader) = objection {
            let known = self.standing.term;
            out.report(Situation::Rejected);
            return out.send(from, Message::Reject { term, known, leader });
        }
        if let Role::Candidate { rejected, .. } = &mut self.role {
            // The higher one of two candidates goes first.
            *rejected = true;
        } else {
            self.role = Role::Backup { leader: None };
            self.wait_for_a_leader(out);
        }
        if self.setup.acknowledge {
            self.change(out, Change::Promised(term, from));
        }
        let offers = if self.setup.acknowledge {
            // Which state counts is not to be seen from the states alone.
            0 < self.standing.head.lineage.number() && *head != self.standing.head
        } else {
            self.is_further_than((head, false))
        };
        let held = offers.then(|| self.held());
        let (head, confirmed) = (self.standing.head.clone(), self.standing.confirmed);
        out.send(from, Message::Vote { term, head, held, confirmed });
    }

    /// Why a candidate does not get this replica's vote: whom it follows instead.
    fn objection(&mut self, out: &mut Outputs, candidate: NodeId) -> Option<Option<NodeId>> {
        match &self.role {
            Role::Primary { .. } => return Some(Some(self.setup.me)),
            Role::Backup { leader: Some(leader) }
                if *leader != candidate && !self.lost.contains(leader) =>
            {
                return Some(Some(*leader));
            }
            _ => {}
        }
        // A higher id that could not win must not object for ever: it lets others try.
        let yields = out.now < self.yields_until || self.successor().is_some();
        if self.setup.me < candidate || yields {
            return None;
        }
        if !matches!(self.role, Role::Candidate { .. }) {
            self.stand(out);
        }
        Some(None)
    }

    pub(super) fn take_vote(&mut self, from: NodeId, term: Epoch, offered: Option<Offer>) {
        let Role::Candidate { term: own, votes, .. } = &mut self.role else { return };
        if *own != term {
            return;
        }
        votes.insert(from);
        let Some(offered) = offered else { return };
        let Role::Candidate { best, .. } = &self.role else { unreachable!("just matched") };
        let better = match best {
            Some(best) => self.is_better_offer(&offered, best.held.reached(), best.confirmed),
            None => self.is_better_than_own(&offered),
        };
        if better && let Role::Candidate { best, .. } = &mut self.role {
            *best = Some(offered);
        }
    }

    fn is_better_than_own(&self, offered: &Offer) -> bool {
        self.is_better_offer(offered, self.reached(), self.standing.confirmed)
    }

    /// Whether a voter's state is to be gone on from rather than another. Where acknowledgements
    /// count, the one that was made the same as the line of the latest primary comes first: what a
    /// majority acknowledged is in it.
    fn is_better_offer(&self, one: &Offer, other: Reached<'_>, confirmed: Option<Term>) -> bool {
        if !self.setup.acknowledge {
            return self.is_better(one.held.reached(), other);
        }
        let rank = |head: &Head, confirmed| {
            (self.is_on_pinned_line(head), confirmed, head.lineage.number())
        };
        rank(&one.held.head, one.confirmed) > rank(other.0, confirmed)
    }

    pub(super) fn take_rejection(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        term: Epoch,
        known: Epoch,
        leader: Option<NodeId>,
    ) {
        if self.standing.term < known {
            self.change(out, Change::Term(known));
        }
        if self.setup.acknowledge && self.leads() == Some(term) {
            // Someone promised a later term, and acknowledges nothing of this one any more.
            self.stand_down(out, None);
            return self.stand(out);
        }
        let Role::Candidate { term: own, rejected, .. } = &mut self.role else { return };
        if *own != term {
            return;
        }
        *rejected = true;
        if let Some(leader) = leader.filter(|leader| *leader == from) {
            // There is a primary, and it can be reached.
            self.heed(out, leader);
            out.send(leader, Message::Inquire);
        }
    }

    /// The time for objections is over.
    pub(super) fn end_election(&mut self, out: &mut Outputs) {
        let Role::Candidate { term, votes, best, rejected } = &mut self.role else { return };
        let (term, enough) = (*term, self.setup.votes_needed() <= votes.len());
        let heard_all = votes.len() == self.setup.members.len();
        let (best, rejected) = (best.take(), *rejected || self.is_outdated(term, self.setup.me));
        if rejected || !enough {
            self.failures += 1;
            if !rejected {
                self.yields_until = out.now.after(self.election_wait() * YIELDS);
                out.report(Situation::TooFewVotes);
            }
            self.role = Role::Backup { leader: None };
            return self.wait_for_a_leader(out);
        }
        self.failures = 0;
        out.report(Situation::Elected);
        if !heard_all {
            out.report(Situation::TookOverWithoutAll);
        }
        // Votes may be older than the state held by now.
        if let Some(best) = best.filter(|best| self.is_better_than_own(best) && !self.keeps_line())
        {
            out.report(Situation::TookOverFurther);
            self.adopt(out, best.held);
        }
        self.lead(out, term);
    }

    /// Tries again after a while, unless someone has become primary by then.
    pub(super) fn wait_for_a_leader(&self, out: &mut Outputs) {
        // Higher ids come first: whoever would win anyway does not wait for those who would not.
        let below = self.setup.members.range(..self.setup.me).count() as u32;
        let above = self.setup.members.len() as u32 - 1 - below;
        let wait = self.election_wait() * RETRIES + self.election_wait() / 4 * above;
        out.timer(Timer::RetryElection, wait);
    }

    fn election_wait(&self) -> Duration {
        self.setup.election_wait * (1 << self.failures.min(DOUBLINGS_MAX))
    }

    /// Follows a primary, and looks after it.
    pub(super) fn heed(&mut self, out: &mut Outputs, leader: NodeId) {
        if self.role == (Role::Backup { leader: Some(leader) }) {
            return;
        }
        self.role = Role::Backup { leader: Some(leader) };
        (self.heard, self.unanswered, self.calm) = (false, 0, 1);
        (self.lagged, self.failures) = (0, 0);
        out.timer(Timer::WordOverdue, self.setup.patience);
    }

    /// The primary is asked for a word if none came: that its node can be reached does not say that
    /// it still is primary. The longer all is well, the more rarely.
    pub(super) fn inquire(&mut self, out: &mut Outputs) {
        let Role::Backup { leader: Some(leader) } = self.role else { return };
        if std::mem::take(&mut self.heard) {
            self.unanswered = 0;
            self.calm = CALM_MAX.min(self.calm * 2);
            return out.timer(Timer::WordOverdue, self.setup.patience * self.calm);
        }
        if self.unanswered == INQUIRIES {
            return self.stand(out);
        }
        self.unanswered += 1;
        out.send(leader, Message::Inquire);
        out.timer(Timer::WordOverdue, self.setup.patience);
    }

    /// A primary said that it is no longer one.
    pub(super) fn take_resignation(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        leader: Option<NodeId>,
    ) {
        if self.role != (Role::Backup { leader: Some(from) }) {
            return;
        }
        match leader.filter(|leader| !self.lost.contains(leader)) {
            // It was named as the one to go on.
            Some(leader) if leader == self.setup.me => self.stand(out),
            Some(leader) => {
                self.heed(out, leader);
                out.send(leader, Message::Inquire);
            }
            None => {
                self.role = Role::Backup { leader: None };
                self.wait_for_a_leader(out);
            }
        }
    }

    /// A new life: the others are asked where the execution is.
    pub(super) fn restart(&mut self, out: &mut Outputs) {
        if self.standing.final_choice().is_some() {
            return self.conclude(out);
        }
        if self.setup.mode == Mode::Active {
            let term = Epoch(self.standing.term.0 + 1);
            self.change(out, Change::Term(term));
            return self.lead(out, term);
        }
        self.role = Role::Backup { leader: None };
        self.tell_all(out, &Message::RecoveryRequest { head: self.standing.head.clone() });
        out.timer(Timer::RetryElection, self.setup.election_wait);
    }

    pub(super) fn help_recovery(&mut self, out: &mut Outputs, from: NodeId, head: &Head) {
        if self.role == (Role::Backup { leader: Some(from) }) {
            // Whoever restarts is no longer primary.
            self.role = Role::Backup { leader: None };
            self.stand(out);
        }
        if self.setup.mode == Mode::Active {
            return;
        }
        let held = self.is_further_than((head, false)).then(|| self.held());
        out.send(from, Message::RecoveryReply { leader: self.leader(), held });
    }

    pub(super) fn take_help(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        leader: Option<NodeId>,
        held: Option<Held>,
    ) {
        if !matches!(self.role, Role::Backup { .. }) {
            return;
        }
        // Where acknowledgements count, a state is taken over from a primary or with enough votes.
        if let Some(held) = held.filter(|_| !self.setup.acknowledge) {
            self.take_state(out, from, held, None);
        }
        let reachable = |leader: &NodeId| *leader != self.setup.me && !self.lost.contains(leader);
        if let Some(leader) = leader.filter(reachable)
            && self.role == (Role::Backup { leader: None })
        {
            self.heed(out, leader);
            out.send(leader, Message::Inquire);
        }
    }

    /// Leaves being primary to others, as long as there are any, or is ready for it again.
    pub(super) fn retire(&mut self, out: &mut Outputs, retiring: bool) {
        self.retiring = retiring;
        if let Some(successor) = self.successor().filter(|_| self.is_elected_mode()) {
            self.stand_down(out, Some(successor));
        }
    }

    /// Who is to go on instead of a replica whose node is about to stop: the highest that can be
    /// reached, as it would win anyway.
    fn successor(&self) -> Option<NodeId> {
        let reachable = self.peers().filter(|peer| !self.lost.contains(peer));
        reachable.max().filter(|_| self.retiring)
    }

    /// Stops executing.
    pub(super) fn stand_down(&mut self, out: &mut Outputs, leader: Option<NodeId>) {
        if self.leads().is_none() {
            return;
        }
        out.report(Situation::StoodDown);
        self.wanted = None;
        self.proposed = None;
        out.list.push(Output::Stop);
        self.tell_all(out, &Message::StoodDown { leader });
        if let Some(leader) = leader {
            return self.heed(out, leader);
        }
        self.role = Role::Backup { leader };
        self.wait_for_a_leader(out);
    }
}
