//! Failover: a backup that cannot reach its primary asks for votes.
//!
//! Votes are not exclusive, as in the paper: two partitions, or two candidates in a bad moment, may
//! both have enough. That costs compensation, never correctness.

use std::collections::BTreeSet;

use outlast_lineage::{Epoch, Head, NodeId};

use super::{Change, Held, Message, Mode, Output, Outputs, Replica, Role, Situation, Timer};

/// For how many waiting times a candidate that could not win lets others have its vote.
const YIELDS: u32 = 4;
/// After how many waiting times a candidate that could not win tries again.
const RETRIES: u32 = 3;

impl Replica {
    /// Asks for votes (the paper's failover).
    pub(super) fn stand(&mut self, out: &mut Outputs) {
        if self.is_settling() || self.setup.mode == Mode::Active {
            return;
        }
        let term = Epoch(self.standing.term.0 + 1);
        self.change(out, Change::Term(term));
        let votes = BTreeSet::from([self.setup.me]);
        self.role = Role::Candidate { term, votes, best: None, rejected: false };
        out.report(Situation::Candidacy);
        let message = Message::RequestVote { term, head: self.standing.head.clone() };
        self.tell_all(out, &message);
        out.timer(Timer::ElectionOver, self.setup.election_wait);
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
        if let Some(leader) = self.objection(out, from) {
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
        let held = self.is_further_than(head).then(|| self.held());
        let head = self.standing.head.clone();
        out.send(from, Message::Vote { term, head, held });
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
        if self.setup.me < candidate || out.now < self.yields_until {
            return None;
        }
        if !matches!(self.role, Role::Candidate { .. }) {
            self.stand(out);
        }
        Some(None)
    }

    pub(super) fn take_vote(&mut self, from: NodeId, term: Epoch, held: Option<Held>) {
        let Role::Candidate { term: own, votes, .. } = &mut self.role else { return };
        if *own != term {
            return;
        }
        votes.insert(from);
        let Some(offered) = held else { return };
        let Role::Candidate { best, .. } = &self.role else { unreachable!("just matched") };
        let better = match best {
            Some(best) => self.is_better(&offered.head, &best.head),
            None => self.is_better(&offered.head, &self.standing.head),
        };
        if better && let Role::Candidate { best, .. } = &mut self.role {
            *best = Some(offered);
        }
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
        let Role::Candidate { term: own, rejected, .. } = &mut self.role else { return };
        if *own != term {
            return;
        }
        *rejected = true;
        if let Some(leader) = leader.filter(|leader| *leader == from) {
            // There is a primary, and it can be reached.
            self.role = Role::Backup { leader: Some(leader) };
            out.send(leader, Message::Inquire);
            out.timer(Timer::WordOverdue, self.setup.patience);
        }
    }

    /// The time for objections is over.
    pub(super) fn end_election(&mut self, out: &mut Outputs) {
        let Role::Candidate { term, votes, best, rejected } = &mut self.role else { return };
        let (term, enough) = (*term, self.setup.votes <= votes.len());
        let heard_all = votes.len() == self.setup.members.len();
        let (best, rejected) = (best.take(), *rejected);
        if rejected || !enough {
            if !rejected {
                self.yields_until = out.now.after(self.setup.election_wait * YIELDS);
                out.report(Situation::TooFewVotes);
            }
            self.role = Role::Backup { leader: None };
            return self.wait_for_a_leader(out);
        }
        out.report(Situation::Elected);
        if !heard_all {
            out.report(Situation::TookOverWithoutAll);
        }
        if let Some(held) = best {
            out.report(Situation::TookOverFurther);
            self.adopt(out, held);
        }
        if self.setup.acknowledge {
            self.change(out, Change::Promised(term, self.setup.me));
        }
        self.lead(out, term);
    }

    /// Tries again after a while, unless someone has become primary by then.
    pub(super) fn wait_for_a_leader(&self, out: &mut Outputs) {
        // Higher ids come first: whoever would win anyway does not wait for those who would not.
        let below = self.setup.members.range(..self.setup.me).count() as u32;
        let above = self.setup.members.len() as u32 - 1 - below;
        let wait = self.setup.election_wait * RETRIES + self.setup.election_wait / 4 * above;
        out.timer(Timer::RetryElection, wait);
    }

    /// The primary is asked for a word, if none came.
    pub(super) fn inquire(&mut self, out: &mut Outputs) {
        let Role::Backup { leader: Some(leader) } = self.role else { return };
        if 0 < self.standing.head.lineage.number() && self.acknowledges_soon {
            return;
        }
        if self.standing.head.lineage.head().is_some_and(|point| point.author == leader) {
            return;
        }
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
        match leader.filter(|leader| *leader != self.setup.me && !self.lost.contains(leader)) {
            Some(leader) => {
                self.role = Role::Backup { leader: Some(leader) };
                out.send(leader, Message::Inquire);
                out.timer(Timer::WordOverdue, self.setup.patience);
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
        let held = self.is_further_than(head).then(|| self.held());
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
        if let Some(held) = held {
            self.take_state(out, from, held);
        }
        let reachable = |leader: &NodeId| *leader != self.setup.me && !self.lost.contains(leader);
        if self.role == (Role::Backup { leader: None }) && leader.as_ref().is_some_and(reachable) {
            self.role = Role::Backup { leader };
            out.timer(Timer::WordOverdue, self.setup.patience);
        }
    }

    /// Stops executing.
    pub(super) fn stand_down(&mut self, out: &mut Outputs, leader: Option<NodeId>) {
        if self.leads().is_none() {
            return;
        }
        out.report(Situation::StoodDown);
        self.role = Role::Backup { leader };
        self.wanted = None;
        self.proposed = None;
        out.list.push(Output::Stop);
        self.tell_all(out, &Message::StoodDown { leader });
        if leader.is_none() {
            self.wait_for_a_leader(out);
        }
    }
}
