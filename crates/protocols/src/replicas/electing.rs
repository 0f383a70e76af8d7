//! Failover: a backup that cannot reach its primary asks for votes.
//!
//! Votes are not exclusive, as in the paper: two partitions, or two candidates in a bad moment, may
//! both have enough. That costs compensation, never correctness.
//!
//! Not everyone notices a loss at the same time. Whoever is asked for its vote while it still follows
//! the primary that the candidate has lost says so, and remembers who asked: as soon as it loses the
//! primary itself, it votes, or stands because it is the higher one. The candidate waits for it.

use std::collections::BTreeSet;
use std::time::Duration;

use outlast_lineage::{Epoch, Head, NodeId, Time};

use super::following::Reached;
use super::{Change, Message, Offer, Outputs, Replica, Role, Situation, Term, Timer};

/// For how many waiting times a candidate that could not win lets others have its vote.
const YIELDS: u32 = 4;
/// After how many waiting times a candidate that could not win tries again.
const RETRIES: u32 = 3;
/// How often the waiting time doubles at most, in case votes take longer than it.
const DOUBLINGS_MAX: u32 = 3;
/// How often a candidate waits once more for those who have not lost the primary yet: together, a
/// loss that one has noticed, the others notice in less.
const EXTENSIONS: u32 = 3;
/// How often a candidate stands again at once because a later term was promised to another. Someone who
/// objects for another reason may do so each time.
const STANDS_AT_ONCE: u32 = 3;
/// How many elections in a row may be in vain before it is said that there is no primary: two that stand at
/// the same time take one or two.
const IN_VAIN_MAX: u32 = 2;
/// After how many questions without an answer a primary counts as lost.
const INQUIRIES: u32 = 3;
/// For how many patiences at most a primary that answers is believed without being asked.
const CALM_MAX: u32 = 64;

/// What a candidate has heard so far.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Candidacy {
    term: Epoch,
    votes: BTreeSet<NodeId>,
    best: Option<Offer>,
    /// Whether someone objected.
    rejected: bool,
    /// Who still follows the primary that is lost here.
    hesitant: BTreeSet<NodeId>,
    /// How often it waited once more for those.
    extensions: u32,
    /// Whether it was primary until it asked, and would go on as it was: where acknowledgements count,
    /// a majority of votes says that nobody else can be.
    pub(super) renews: bool,
    /// How often it stood again at once before.
    stood: u32,
}

impl Candidacy {
    fn new(term: Epoch, me: NodeId) -> Self {
        Self {
            term,
            votes: BTreeSet::from([me]),
            best: None,
            rejected: false,
            hesitant: BTreeSet::new(),
            extensions: 0,
            renews: false,
            stood: 0,
        }
    }

    /// Whether it may stand again at once if its term is over.
    const fn may_stand_again(&self) -> bool {
        !self.rejected && !self.renews && self.stood < STANDS_AT_ONCE
    }

    /// A voter is lost for good: nobody holds to what it promised.
    pub(super) fn forget(&mut self, voter: NodeId) {
        self.votes.remove(&voter);
    }

    /// Whether it waits for nothing but those who had not lost the primary, and they have by now.
    fn was_waited_for(&self) -> bool {
        0 < self.extensions && self.hesitant.is_empty()
    }
}

/// A request for a vote that came before the loss was noticed here.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Petition {
    from: NodeId,
    term: Epoch,
    head: Head,
    /// Until when the candidate waits.
    until: Time,
}

impl Replica {
    /// Asks for votes (the paper's failover).
    pub(super) fn stand(&mut self, out: &mut Outputs) {
        if self.is_settling() || !self.has_followers() {
            return;
        }
        if !self.may_go_on_from(&self.standing.head) {
            self.role = Role::Backup { leader: None };
            return self.wait_for_a_leader(out);
        }
        if self.leaves_it_to_others() {
            self.left_to_others += 1;
            self.role = Role::Backup { leader: None };
            return self.wait_for_a_leader(out);
        }
        let term = Epoch(self.standing.term.0 + 1);
        self.change(out, Change::Term(term));
        self.role = Role::Candidate(Candidacy::new(term, self.setup.me));
        out.report(Situation::Candidacy);
        let message = self.request(term);
        self.tell_all(out, &message);
        out.timer(Timer::ElectionOver, self.election_wait());
    }

    fn request(&self, term: Epoch) -> Message {
        let (head, reaches) = (self.standing.head.clone(), Some(self.reach()));
        Message::RequestVote { term, head, reaches }
    }

    /// Somebody can be reached who could not: that elections failed before says nothing about the next one.
    /// Says whether any did.
    pub(super) fn take_heart(&mut self, out: &Outputs) -> bool {
        self.yields_until = out.now;
        std::mem::take(&mut self.failures) > 0
    }

    /// Asks somebody for its vote who could not be reached when all others were.
    pub(super) fn ask_who_was_found(&mut self, out: &mut Outputs, peer: NodeId) {
        let Role::Candidate(candidacy) = &self.role else { return };
        out.send(peer, self.request(candidacy.term));
        if self.take_heart(out) {
            out.timer(Timer::ElectionOver, self.election_wait());
        }
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
        (term, head): (Epoch, &Head),
        reaches: u32,
    ) {
        if !self.has_followers() {
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
            out.send(from, Message::Reject { term, known, leader });
            return match leader {
                // Whoever asks may be heard here and not hear this primary.
                Some(leader) if leader == self.setup.me => self.be_missed(out, reaches),
                Some(leader) => {
                    self.remember(out.now, from, term, head);
                    self.speak_of_loss(out, leader, reaches);
                }
                None => {}
            };
        }
        if let Role::Candidate(candidacy) = &mut self.role {
            // The higher one of two candidates goes first.
            candidacy.rejected = true;
        } else if self.renews_with(from) {
            // It is looked after as a new primary is.
            self.role = Role::Backup { leader: None };
            self.heed(out, from);
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
            // Those who follow it vote for it, and a majority does if it can go on.
            Role::Candidate(candidacy) if candidacy.renews => return Some(None),
            _ if self.renews_with(candidate) => return None,
            _ => {}
        }
        // A higher id that could not win must not object for ever: it lets others try.
        let yields = out.now < self.yields_until || self.leaves_it_to_others();
        let may_stand = self.may_go_on_from(&self.standing.head);
        if self.is_below(candidate) || yields || !may_stand {
            return None;
        }
        if !matches!(self.role, Role::Candidate { .. }) {
            self.stand(out);
        }
        Some(None)
    }

    /// Whether a candidate is the primary that this replica follows, and wants to go on in a later term.
    /// Where acknowledgements count, whoever went on instead would make the calls in the air anew.
    fn renews_with(&self, candidate: NodeId) -> bool {
        self.acknowledges() && self.role == (Role::Backup { leader: Some(candidate) })
    }

    /// Remembers who asked for a vote too early: the highest, as it would win anyway.
    fn remember(&mut self, now: Time, from: NodeId, term: Epoch, head: &Head) {
        let until = now.after(self.setup.election_wait * (1 + EXTENSIONS));
        let known = self.petition.as_ref().filter(|known| now <= known.until);
        if known.is_none_or(|known| !self.setup.members.outranks(known.from, from)) {
            self.petition = Some(Petition { from, term, head: head.clone(), until });
        }
    }

    /// The primary can no longer be reached: whoever asked for a vote before is answered now.
    pub(super) fn lose_leader(&mut self, out: &mut Outputs, lost: NodeId) {
        self.answer_petition(out);
        if self.leader() == Some(lost) {
            self.stand(out);
        }
    }

    /// Whoever asked for a vote too early is answered, if it still waits. Says whether one does.
    pub(super) fn answer_petition(&mut self, out: &mut Outputs) -> bool {
        let waits = |asked: &Petition| out.now <= asked.until && !self.lost.contains(&asked.from);
        let Some(asked) = self.petition.take().filter(waits) else { return false };
        self.take_request(out, asked.from, (asked.term, &asked.head), 0);
        true
    }

    pub(super) fn take_vote(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        term: Epoch,
        offered: Option<Offer>,
    ) {
        let Role::Candidate(candidacy) = &self.role else { return };
        if candidacy.term != term {
            return;
        }
        let offered = offered.filter(|offered| match &candidacy.best {
            Some(best) => self.is_better_offer(offered, best.held.reached(), best.confirmed),
            None => self.is_better_than_own(offered),
        });
        let Role::Candidate(candidacy) = &mut self.role else { unreachable!("just matched") };
        candidacy.votes.insert(from);
        candidacy.hesitant.remove(&from);
        if offered.is_some() {
            candidacy.best = offered;
        }
        if candidacy.was_waited_for() {
            self.end_election(out);
        }
    }

    /// A peer is lost while this replica asks for votes: it need not be waited for.
    pub(super) fn lose_voter(&mut self, out: &mut Outputs, lost: NodeId) {
        if let Role::Candidate(candidacy) = &mut self.role
            && candidacy.hesitant.remove(&lost)
            && candidacy.was_waited_for()
        {
            self.end_election(out);
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
        let rank = |head: &Head, confirmed: Option<Term>| {
            let confirmed = confirmed.map(|confirmed| self.order(confirmed));
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
            return self.be_outdated(out, leader);
        }
        let goes_before = self.setup.members.outranks(self.setup.me, from);
        let Role::Candidate(candidacy) = &mut self.role else { return };
        if candidacy.term != term {
            return;
        }
        match leader {
            Some(leader) if leader == from && !candidacy.renews => {
                // There is a primary, and it can be reached.
                self.heed(out, leader);
                out.send(leader, Message::Inquire);
            }
            // It will vote when it has lost that one as well, unless it never does.
            Some(leader) if self.lost.contains(&leader) => {
                candidacy.hesitant.insert(from);
            }
            // A lower one objects because it promised a later term to someone else. It has nothing against
            // this replica in the one after it: that need not wait.
            None if goes_before && term < known && candidacy.may_stand_again() => {
                let stood = candidacy.stood + 1;
                self.stand(out);
                if let Role::Candidate(candidacy) = &mut self.role {
                    candidacy.stood = stood;
                }
            }
            _ => candidacy.rejected = true,
        }
    }

    /// The time for objections is over.
    pub(super) fn end_election(&mut self, out: &mut Outputs) {
        let needed = self.votes_needed();
        let Role::Candidate(candidacy) = &mut self.role else { return };
        let (term, votes, renews) = (candidacy.term, candidacy.votes.len(), candidacy.renews);
        let (enough, heard_all) = (needed <= votes, votes == self.setup.members.len());
        // Whoever goes on as it was is not held up by those who would go first otherwise.
        let objections_count = !(renews && enough);
        let hesitant = objections_count && !candidacy.hesitant.is_empty();
        if hesitant && !candidacy.rejected && candidacy.extensions < EXTENSIONS {
            candidacy.extensions += 1;
            return out.timer(Timer::ElectionOver, self.election_wait());
        }
        let rejected = (objections_count && candidacy.rejected) || hesitant;
        let best = candidacy.best.take();
        let rejected = rejected || self.is_outdated(term, self.setup.me);
        // Votes may be older than the state held by now.
        let is_taken =
            |best: &Offer| self.is_better_than_own(best) && !self.keeps_line_from(&best.held.head);
        let best = best.filter(is_taken);
        let base = best.as_ref().map_or(&self.standing.head, |best| &best.held.head);
        let rejected = rejected || !self.may_go_on_from(base);
        if rejected || !enough {
            self.failures += 1;
            if !rejected {
                self.yields_until = out.now.after(self.election_wait() * YIELDS);
                out.report(Situation::TooFewVotes);
            }
            if renews {
                // Those who follow it look for another one.
                out.report(Situation::StoodDown);
                self.tell_all(out, &Message::StoodDown { leader: None });
            }
            self.role = Role::Backup { leader: None };
            return self.wait_for_a_leader(out);
        }
        self.failures = 0;
        out.report(Situation::Elected);
        if !heard_all {
            out.report(Situation::TookOverWithoutAll);
        }
        if let Some(best) = best {
            out.report(Situation::TookOverFurther);
            self.adopt(out, best.held);
        }
        self.lead(out, term);
    }

    /// Whether there should soon be a primary again: it asks for votes, or waits for whoever does, and enough
    /// replicas can be reached. If they do not come to agree, too few hear each other all the same.
    pub fn is_between_primaries(&self) -> bool {
        let enough = self.votes_needed() <= self.reachable();
        self.seeks_votes() && enough && self.failures <= IN_VAIN_MAX
    }

    /// Tries again after a while, unless someone has become primary by then.
    pub(super) fn wait_for_a_leader(&self, out: &mut Outputs) {
        // Higher ids come first: whoever would win anyway does not wait for those who would not.
        let below = self.setup.members.rank(self.setup.me).unwrap_or_default();
        let above = (self.setup.members.len() - 1 - below) as u32;
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
        self.petition = None;
        (self.heard, self.unanswered, self.calm) = (false, 0, 1);
        (self.lagged, self.failures, self.left_to_others) = (0, 0, 0);
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
}
