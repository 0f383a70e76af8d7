//! Partition-tolerant replication (seed 0): one execution, held by several replicas.
//!
//! A primary advances the execution and sends what changed to the backups. When a backup can no
//! longer reach the primary it asks for votes; whoever gets enough of them goes on from the furthest
//! state it was shown, so every partition with enough votes has a primary. Primaries that meet
//! compare how far they have come, and one of them stops. At the end consensus decides on one run;
//! every replica undoes those of its own effects that are not part of it, in an order that all agree
//! to, and then all forget together.
//!
//! Passive replication is this machine with a majority of votes and acknowledgements, active
//! replication is this machine with every replica its own primary, until a line is decided on.
//!
//! Invariants:
//! - No state is named twice: a replica goes on from a state that is not its own last one only in a
//!   new term, which is on disk before anyone hears of it.
//! - A replica that knows the final decision neither votes nor runs.
//! - The state held is the one that `Standing::head` names; the owner keeps the state itself.
//! - Own effects are on the line held or in a remnant, until they are gone; what was asked for again by
//!   one key on several lines is on each of them.
//! - A line that this replica may have proposed, or agreed to, is kept until something is decided.
//!
//! Consensus and forgetting are other machines; the owner runs them. See `docs/protocols/replicas.md`.

mod electing;
mod following;
mod input;
mod leading;
mod message;
mod output;
mod passing;
mod recovering;
mod resigning;
mod settling;
mod standing;
mod stillness;
#[cfg(test)]
mod tests;
mod wishes;
mod yielding;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outlast_lineage::{Epoch, Head, NodeId, Point, Time};

pub use input::{Input, Timer};
pub use message::{Asked, Choice, Held, Message};
pub use output::{Output, Situation};
pub use standing::{Change, Note, Record, Remnant, Standing, Term, Verdict};

use crate::Members;
use electing::{Candidacy, Petition};
use leading::Proposed;
use output::Outputs;

/// How replicas of one execution are to behave. The same at all of them, but for `me`.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// This replica.
    pub me: NodeId,
    /// All replicas, the highest last.
    pub members: Members,
    /// Who executes.
    pub mode: Mode,
    /// How many votes make a primary, its own included.
    pub votes: usize,
    /// Whether a call waits until a majority has its intent.
    pub acknowledge: bool,
    /// The most that undoing may cost before a primary that no majority follows pauses.
    pub budget: Option<f64>,
    /// How long a candidate waits for objections.
    pub election_wait: Duration,
    /// After how long something that should have come is asked for again.
    pub patience: Duration,
    /// How long a primary that goes on quickly gathers what its backups are to be told, if nobody
    /// waits for it.
    pub linger: Duration,
    /// What the execution begins as, digested, if this replica knows it: whoever began with the same
    /// need not be told the first state.
    pub beginning: Option<u64>,
}

/// Who executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The elected primary of each partition.
    Elected,
    /// Every replica, until a line is decided on before the end: no other one can count then, so whoever made it
    /// goes on, and the others follow.
    Active,
}

/// One replica of one execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Replica {
    setup: Setup,
    standing: Standing,
    role: Role,
    /// Peers that cannot be reached now.
    lost: BTreeSet<NodeId>,
    /// Peers that never come back.
    fenced: BTreeSet<NodeId>,
    /// How far the others are known to have stored the line of this primary.
    acknowledged: BTreeMap<NodeId, u64>,
    /// What the backups of this primary were not told yet.
    unsent: passing::Unsent,
    /// The state that must be decided before something may leave.
    wanted: Option<u64>,
    /// What this replica has proposed last.
    proposed: Option<Proposed>,
    /// What is being sorted out after the decision, in this life.
    wishes: wishes::Wishes,
    /// Until then, lower candidates get this replica's vote: it tried and could not win.
    yields_until: Time,
    /// How often in a row it asked for votes and did not get enough.
    failures: u32,
    /// Who asked for a vote while this replica had a primary.
    petition: Option<Petition>,
    /// Whether a word of the primary came since it was last looked for.
    heard: bool,
    /// How often the primary was asked for a word in vain.
    unanswered: u32,
    /// How often the primary led on with less than is held here.
    lagged: u32,
    /// Whom this primary has asked whether it is heard, and who is.
    challenge: Option<yielding::Challenge>,
    /// When others that lead as well were last told that this primary does.
    contradicted: BTreeMap<NodeId, Time>,
    /// For how many patiences no word of the primary is needed.
    calm: u32,
    /// The number of the newest state of this primary that everyone was reminded of.
    reminded: u64,
    /// The number of the newest one that everyone had time to take up.
    told: u64,
    /// If the state held is as this replica left it as primary, in this life: the first of its terms in a
    /// row of which that holds.
    untouched: Option<Epoch>,
    /// If a state of its own was decided on since it went on from what others left: up to which state
    /// something had been decided on before that. None of the others' states beyond was decided on by itself.
    undecided_after: Option<u64>,
    /// Whether the owner was told that it ended.
    concluded: bool,
    acknowledges_soon: bool,
    resends: bool,
    /// Whether it leaves being primary to others.
    retiring: bool,
    /// How often it left standing to others since there was a primary.
    left_to_others: u32,
    /// Whether it was told that this primary pauses for its budget.
    pauses: bool,
}

/// A state that a voter offers, and the last primary whose line it was made the same as.
#[derive(Clone, PartialEq, Debug)]
struct Offer {
    held: Held,
    confirmed: Option<Term>,
}

/// What a replica is doing.
#[derive(Clone, PartialEq, Debug)]
enum Role {
    /// It follows, or waits for someone to follow.
    Backup { leader: Option<NodeId> },
    /// It asked for votes.
    Candidate(Candidacy),
    /// It executes.
    Primary { term: Epoch },
    /// A run was decided on.
    Settling,
}

impl Replica {
    /// A replica that has just heard of the execution.
    pub fn new(setup: Setup) -> Self {
        Self::restored(setup, Standing::default())
    }

    /// A replica in a new life.
    pub fn restored(setup: Setup, standing: Standing) -> Self {
        assert!(setup.members.contains(setup.me), "only members are replicas");
        Self {
            setup,
            standing,
            role: Role::Backup { leader: None },
            lost: BTreeSet::new(),
            fenced: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            unsent: passing::Unsent::default(),
            wanted: None,
            proposed: None,
            wishes: wishes::Wishes::default(),
            yields_until: Time::from_micros(0),
            failures: 0,
            petition: None,
            heard: false,
            unanswered: 0,
            lagged: 0,
            challenge: None,
            contradicted: BTreeMap::new(),
            calm: 1,
            reminded: 0,
            told: 0,
            untouched: None,
            undecided_after: None,
            concluded: false,
            acknowledges_soon: false,
            resends: false,
            retiring: false,
            left_to_others: 0,
            pauses: false,
        }
    }

    /// Makes a change again that was written down in an earlier life. Before `Input::Restarted` only.
    pub fn replay(&mut self, change: &Change) {
        self.standing.apply(change);
    }

    /// Takes one input, and says what is to be done.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        let mut out = Outputs::new(now);
        match input {
            Input::Begun => self.begin(&mut out),
            Input::Restarted => self.restart(&mut out),
            Input::Received { from, message } => {
                if self.is_heard(from) && message.is_believable() {
                    self.receive(&mut out, from, message);
                }
            }
            Input::TimerFired(timer) => self.fired(&mut out, timer),
            Input::PeerLost(peer) => self.lose(&mut out, peer),
            Input::PeerFound(peer) => self.find(&mut out, peer),
            Input::Fenced(peer) => self.fence(&mut out, peer),
            Input::Retiring(retiring) => self.retire(&mut out, retiring),
            Input::Advanced { bytes, progress, ended, notes } => {
                self.advanced(&mut out, bytes, progress, ended, notes);
            }
            Input::DecisionWanted { number } => self.want_decision(&mut out, number),
            Input::Agreed { instance, choice } => self.agreed(&mut out, instance, &choice),
            Input::Decided { instance, choice } => {
                if choice.is_believable(instance) {
                    self.decided(&mut out, instance, choice);
                }
            }
            Input::Undone(effects) => self.undone(&mut out, effects),
            Input::NeverWere(effects) => self.judge_owed(&mut out, Verdict::Void, effects),
            Input::FoundKept(effects) => self.judge_owed(&mut out, Verdict::Kept, effects),
        }
        out.list
    }

    fn receive(&mut self, out: &mut Outputs, from: NodeId, message: Message) {
        self.heard |= message.is_a_word() && self.leader() == Some(from);
        if let Some(instance) = self.standing.decisions.checked_sub(1)
            && let Some(choice) = self.standing.final_choice()
            && message.is_of_a_run()
        {
            // Whoever still runs or votes must hear that it is over.
            let choice = choice.clone();
            out.send(from, Message::Decided { instance, choice });
            if !matches!(message, Message::Want) {
                return;
            }
        }
        match message {
            Message::Update { base, next, progress, ended, urgent, delta, beginning } => {
                let news = following::News { base, next, progress, ended, urgent, beginning };
                self.take_update(out, from, news, delta);
            }
            Message::Lead { head, term, ended } => {
                self.take_lead(out, from, (&head, ended), term);
            }
            Message::Want => {
                self.is_answered(from);
                self.provide(out, from);
            }
            Message::State { held, term } => self.take_state(out, from, held, term),
            Message::Ack { point, confirmed } => {
                self.is_answered(from);
                self.take_acknowledgement(out, from, point, confirmed);
            }
            Message::RequestVote { term, head, reaches } => {
                self.take_request(out, from, (term, &head), reaches.unwrap_or_default());
            }
            Message::Vote { term, held, confirmed, .. } => {
                self.take_vote(out, from, term, held.map(|held| Offer { held, confirmed }));
            }
            Message::Reject { term, known, leader } => {
                self.take_rejection(out, from, term, known, leader);
            }
            Message::RecoveryRequest { head } => self.help_recovery(out, from, &head),
            Message::RecoveryReply { leader, held } => self.take_help(out, from, leader, held),
            Message::Decided { instance, choice } => self.decided(out, instance, choice),
            Message::MayUndo { instance, choice, effects } => {
                self.decided(out, instance, choice);
                self.take_wishes(out, from, effects);
            }
            Message::Allow { effects } => self.take_permission(out, from, effects, false),
            Message::Leave { effects } => self.take_permission(out, from, effects, true),
            Message::Keep { effects } => self.keep(out, effects),
            Message::Still { rounds } => self.wishes.stillness.hear(from, rounds),
            Message::Missed { reaches } => self.be_missed(out, reaches),
            Message::StoodDown { leader } => self.take_resignation(out, from, leader),
            Message::Inquire => self.answer_inquiry(out, from),
        }
    }

    fn fired(&mut self, out: &mut Outputs, timer: Timer) {
        match timer {
            Timer::ElectionOver => self.end_election(out),
            Timer::RetryElection => self.retry_election(out),
            Timer::AnswersOverdue => self.send_again(out),
            Timer::AcknowledgementDue => self.acknowledge_now(out),
            Timer::WordOverdue => self.inquire(out),
            Timer::UpdateDue => self.pass_on(out),
            Timer::ChallengeOver => self.end_challenge(out),
        }
    }

    fn lose(&mut self, out: &mut Outputs, peer: NodeId) {
        if !self.is_peer(peer) || !self.lost.insert(peer) {
            return;
        }
        if self.leader() == Some(peer) {
            self.lose_leader(out, peer);
        } else {
            self.lose_voter(out, peer);
        }
    }

    fn find(&mut self, out: &mut Outputs, peer: NodeId) {
        if !self.lost.remove(&peer) {
            return;
        }
        match self.role {
            Role::Primary { .. } if self.has_followers() => {
                self.tell_lead(out, peer);
                self.expect_answers(out);
            }
            Role::Backup { leader: None } => {
                self.take_heart(out);
                self.stand(out);
            }
            Role::Candidate(_) => self.ask_who_was_found(out, peer),
            Role::Settling => {
                self.wishes.stir();
                self.send_again(out);
            }
            _ => {}
        }
    }

    /// A peer never comes back. What it acknowledged is on a disk that nobody reads any more; and if a majority went
    /// that way, those that are left are enough now.
    fn fence(&mut self, out: &mut Outputs, peer: NodeId) {
        if self.is_peer(peer) && self.fenced.insert(peer) {
            self.acknowledged.remove(&peer);
            let majority = self.setup.members.quorum(&BTreeSet::new());
            if !self.is_settling() && self.left() + 1 == majority {
                out.report(Situation::Bereft);
            }
            self.lose(out, peer);
            self.reconsider(out);
            if let Role::Candidate(candidacy) = &mut self.role {
                candidacy.forget(peer);
            }
            match self.role {
                Role::Primary { .. } => {
                    self.remind_backups(out);
                    self.propose_wanted(out);
                    self.seek_end(out);
                    self.tell_of_pause(out);
                }
                // What failed for want of votes may not any more.
                Role::Backup { leader: None } => {
                    if self.take_heart(out) {
                        self.stand(out);
                    }
                }
                Role::Backup { .. } | Role::Candidate(_) | Role::Settling => {}
            }
        }
    }

    /// What asked for again is not answered, nobody waits for: the timer rests.
    fn send_again(&mut self, out: &mut Outputs) {
        self.resends = false;
        match self.role {
            Role::Primary { .. } => {
                self.remind_backups(out);
                self.end_waiting(out);
            }
            Role::Settling => self.settle_again(out),
            _ => {}
        }
    }

    fn expect_answers(&mut self, out: &mut Outputs) {
        if !self.resends {
            self.resends = true;
            out.timer(Timer::AnswersOverdue, self.setup.patience);
        }
    }

    /// Writes a change down.
    fn change(&mut self, out: &mut Outputs, change: Change) {
        self.standing.apply(&change);
        out.list.push(Output::Persist(change));
    }

    /// Sends to every peer that may still come back and can be reached.
    fn tell_all(&self, out: &mut Outputs, message: &Message) {
        for peer in self.peers().filter(|peer| !self.lost.contains(peer)) {
            out.send(peer, message.clone());
        }
    }

    /// How many votes a candidate needs: where acknowledgements of a majority count, it must have
    /// heard of all that a majority acknowledged. More than are left nobody can have.
    pub fn votes_needed(&self) -> usize {
        let quorum = self.quorum();
        let votes = self.setup.votes.min(self.left());
        if self.setup.acknowledge { votes.max(quorum) } else { votes }
    }

    fn quorum(&self) -> usize {
        self.setup.members.quorum(&self.fenced)
    }

    /// How many replicas are not gone for good, this one included.
    pub fn left(&self) -> usize {
        self.setup.members.len() - self.fenced.len()
    }

    fn peers(&self) -> impl DoubleEndedIterator<Item = NodeId> {
        let others = self.setup.members.others(self.setup.me);
        others.filter(|peer| !self.fenced.contains(peer))
    }

    /// Whether another replica is higher than this one.
    fn is_below(&self, other: NodeId) -> bool {
        self.setup.members.outranks(other, self.setup.me)
    }

    fn is_peer(&self, node: NodeId) -> bool {
        node != self.setup.me && self.setup.members.contains(node)
    }

    /// Whether a node is a peer that may still come back.
    fn is_heard(&self, node: NodeId) -> bool {
        self.is_peer(node) && !self.fenced.contains(&node)
    }

    /// Whether votes make primaries.
    fn is_elected_mode(&self) -> bool {
        self.setup.mode == Mode::Elected
    }

    /// Whether one replica goes on and the others follow. Where every replica executes, so it is as soon as only
    /// one line can count: if nobody else had that, it would be lost with its replica.
    fn has_followers(&self) -> bool {
        self.is_elected_mode() || self.standing.pinned().is_some()
    }

    /// Whether this replica may go on from a state of another one. Where every replica executes, whoever made a
    /// line that was decided on may not know yet that it was, and goes on with it whenever it does: nobody does so
    /// in its place before it is lost for good.
    fn may_go_on_from(&self, head: &Head) -> bool {
        let author = head.lineage.head().map(|point| point.author);
        let is_free = author.is_none_or(|it| it == self.setup.me || self.fenced.contains(&it));
        self.is_elected_mode() || (is_free && self.is_on_pinned_line(head))
    }

    /// Whether calls and acknowledgements wait for each other. Who runs alone waits for nobody.
    pub fn acknowledges(&self) -> bool {
        self.setup.acknowledge && self.is_elected_mode()
    }

    /// Whether the line held may have been proposed, or was agreed to: until something is decided, it is
    /// not given up, or nobody might hold what is decided on. Where acknowledgements count, every later
    /// line goes on from what a majority has.
    fn keeps_line(&self) -> bool {
        let proposed =
            self.standing.ended || self.standing.pledged == Some(self.standing.decisions);
        proposed && !self.setup.acknowledge && self.is_on_pinned_line(&self.standing.head)
    }

    /// Whether the line held is kept although another state is to be gone on from. A later one of the same
    /// line is taken up.
    fn keeps_line_from(&self, other: &Head) -> bool {
        self.keeps_line() && !other.lineage.extends(&self.standing.head.lineage)
    }

    /// The primary that this replica follows, or itself.
    pub fn leader(&self) -> Option<NodeId> {
        match &self.role {
            Role::Backup { leader } => *leader,
            Role::Primary { .. } => Some(self.setup.me),
            Role::Candidate(_) | Role::Settling => None,
        }
    }

    /// The term in which it may advance the execution now.
    pub const fn leads(&self) -> Option<Epoch> {
        match self.role {
            Role::Primary { term } => Some(term),
            _ => None,
        }
    }

    /// The same, behind the first of its terms in a row in which it went on as if it had been primary all the
    /// time.
    pub fn leads_since(&self) -> Option<(Epoch, Epoch)> {
        let term = self.leads()?;
        Some((self.untouched.unwrap_or(term), term))
    }

    /// Whether a run was decided on.
    pub const fn is_settling(&self) -> bool {
        matches!(self.role, Role::Settling)
    }

    /// Whether it has asked for votes and does not have enough.
    pub const fn seeks_votes(&self) -> bool {
        matches!(self.role, Role::Candidate(_) | Role::Backup { leader: None })
    }

    /// Those that may come back and that cannot be reached now.
    pub fn unreachable(&self) -> impl Iterator<Item = NodeId> {
        self.peers().filter(|peer| self.lost.contains(peer))
    }

    /// The highest of the others that may come back.
    pub fn highest_other(&self) -> Option<NodeId> {
        self.peers().next_back()
    }

    /// Everything it may not forget.
    pub const fn standing(&self) -> &Standing {
        &self.standing
    }

    /// How it was set up.
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The state it holds.
    pub const fn head(&self) -> &Head {
        &self.standing.head
    }

    fn point(&self) -> Option<Point> {
        self.standing.head.lineage.head()
    }
}

impl Message {
    /// Whether it is what only a primary says.
    const fn is_a_word(&self) -> bool {
        matches!(self, Self::Update { .. } | Self::Lead { .. } | Self::State { .. })
    }

    /// Whether it is said while nobody knows of a final decision.
    const fn is_of_a_run(&self) -> bool {
        matches!(
            self,
            Self::Update { .. }
                | Self::Lead { .. }
                | Self::Want
                | Self::RequestVote { .. }
                | Self::RecoveryRequest { .. }
                | Self::Inquire
        )
    }
}
