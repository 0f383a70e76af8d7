//! Single-decree Paxos: a named set of members decides on one value, once and for all.
//!
//! Every member is proposer, acceptor and learner in one. A proposer gets a quorum to promise its
//! ballot, takes over the value of the highest ballot that any of them accepted (its own proposal
//! if there is none), gets a quorum to accept it, and spreads the decision until every member has
//! acknowledged it. Whoever meets a higher ballot steps back and waits before it tries again.
//!
//! The lowest round of all belongs to the highest member alone: nothing can have been accepted before
//! it, so it needs no promises, and a decision without a duel takes one exchange instead of two.
//!
//! A proposer has accepted its value before it asks anyone to. Where two members are a quorum, each
//! who accepts therefore knows that the value is decided, and need not be told.
//!
//! Members that are lost for good are fenced out: nobody waits for them, asks them or hears them, and if so many are
//! that the others are no majority any more, all that are left decide together.
//!
//! Invariants:
//! - A member's own round lives only while its own promise is that round's ballot.
//! - A promise and an accepted ballot never fall; a decision never changes.
//! - A ballot is in its proposer's record before anyone hears of it, so no later life uses it again.

mod message;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use outlast_lineage::{Digester, NodeId, Time};

use crate::Members;

pub use message::{Ballot, Message, Record, VALUE_BYTES_MAX, Value, ValueTooLong, Vote};

/// How often a pause doubles at most: a duel ends long before, an outage should not end in silence.
const DOUBLINGS_MAX: u32 = 6;

/// After which part of its patience a proposer tells those who should know a decision by themselves.
const HASTE: u32 = 4;

/// The lowest round: only the highest member uses it, once, and nobody need promise it anything.
const FIRST_ROUND: u64 = 0;

/// The highest round that is believed: beyond it someone counts wrongly, and no duel gets there.
const ROUND_MAX: u64 = u64::MAX / 2;

/// One member's part in one decision.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Paxos {
    me: NodeId,
    members: Members,
    patience: Duration,
    record: Record,
    /// What this member wants decided, as long as nothing is.
    proposal: Option<Value>,
    phase: Phase,
    /// The highest round it heard of.
    round_seen: u64,
    /// Whom it has yet to tell the decision.
    unaware: BTreeSet<NodeId>,
    /// Those that never come back.
    fenced: BTreeSet<NodeId>,
}

/// How far this member's own round is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// It wants nothing, or everything is decided.
    Idle,
    /// It gathers promises.
    Preparing { promised: BTreeSet<NodeId>, best: Option<Vote> },
    /// It gathers acceptances.
    Accepting { accepted: BTreeSet<NodeId>, value: Value },
    /// It met a higher ballot and lets that one go first.
    Waiting,
}

/// What a member can be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// The owner wants this value decided. A proposal does not outlive a restart. Told again, it asks
    /// those again who have not accepted what it proposes.
    Propose(Value),
    /// A message arrived.
    Received {
        /// Who sent it, as the channel says.
        from: NodeId,
        /// What it says.
        message: Message,
    },
    /// The time of a timer has come.
    TimerFired(Timer),
    /// The machine was made from its last record; the first input of a new life.
    Restarted,
    /// A member is lost for good. Nobody writes that down: it is said again in every life.
    Fenced(NodeId),
}

/// What a member wants done. Each waits for all records ordered before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Write this record in place of the last one.
    Persist(Record),
    /// Send a message.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: Message,
    },
    /// Give `Input::TimerFired` at this time.
    SetTimer {
        /// Which timer.
        timer: Timer,
        /// When.
        at: Time,
    },
    /// This value is decided. Told once in each life, and again to whoever proposes.
    Decided(Value),
}

/// What a member waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The own round should have come to its end, or may be begun anew.
    RoundOverdue,
    /// The decision of the others should be known here.
    DecisionOverdue,
    /// Everyone should have acknowledged the decision.
    AcknowledgementsOverdue,
}

impl Paxos {
    /// A member that has never taken part. `patience` is how long a round takes when nothing is
    /// wrong.
    pub fn new(me: NodeId, members: Members, patience: Duration) -> Self {
        Self::restored(me, members, patience, Record::default())
    }

    /// A member in a new life, from the last record of its old one.
    pub fn restored(me: NodeId, members: Members, patience: Duration, record: Record) -> Self {
        assert!(members.contains(me), "only members take part");
        let (proposal, phase) = (None, Phase::Idle);
        let (unaware, fenced) = (BTreeSet::new(), BTreeSet::new());
        Self { me, members, patience, record, proposal, phase, round_seen: 0, unaware, fenced }
    }

    /// The same, of which some members were lost for good before anything was said.
    #[must_use]
    pub fn without(mut self, lost: &BTreeSet<NodeId>) -> Self {
        assert!(self.phase == Phase::Idle && !lost.contains(&self.me), "it begins without them");
        self.fenced.clone_from(lost);
        self
    }

    /// Takes one input, and says what is to be done.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        let outputs = match input {
            Input::Propose(value) => self.propose(now, value),
            Input::Received { from, message } if self.is_believable(from, &message) => {
                self.receive(now, from, message)
            }
            Input::Received { .. } => Vec::new(),
            Input::TimerFired(Timer::RoundOverdue) => self.try_again(now),
            Input::TimerFired(Timer::DecisionOverdue) => self.ask(now),
            Input::TimerFired(Timer::AcknowledgementsOverdue) => self.spread(now),
            Input::Restarted => self.restart(now),
            Input::Fenced(node) => self.fence(now, node),
        };
        self.assert_invariants();
        outputs
    }

    fn propose(&mut self, now: Time, value: Value) -> Vec<Output> {
        if let Some(decided) = &self.record.decided {
            return vec![Output::Decided(decided.clone())];
        }
        if self.proposal.is_some() {
            return self.remind();
        }
        self.proposal = Some(value);
        self.begin_round(now)
    }

    /// Asks those again who have not accepted yet: they may have had reason to say nothing.
    fn remind(&self) -> Vec<Output> {
        let Phase::Accepting { accepted, value } = &self.phase else { return Vec::new() };
        let ballot = self.record.promised.expect("whoever is in a round has promised");
        let silent = self.others().filter(|member| !accepted.contains(member));
        send(silent, &Message::Accept { ballot, value: value.clone() })
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message) -> Vec<Output> {
        match message {
            Message::Prepare { ballot } => self.promise(now, from, ballot),
            Message::Promised { ballot, accepted } => {
                self.count_promise(now, from, ballot, accepted)
            }
            Message::Accept { ballot, value } => self.accept(now, from, Vote { ballot, value }),
            Message::Accepted { ballot } => self.count_acceptance(now, from, ballot),
            Message::Reject { ballot, promised } => self.step_back(now, ballot, promised),
            Message::Decide { value } => self.learn(from, value),
            Message::Learned => {
                self.unaware.remove(&from);
                Vec::new()
            }
            Message::Ask => self.tell(from).into_iter().collect(),
        }
    }

    fn try_again(&mut self, now: Time) -> Vec<Output> {
        if self.phase == Phase::Idle { Vec::new() } else { self.begin_round(now) }
    }

    fn ask(&mut self, now: Time) -> Vec<Output> {
        if self.record.decided.is_some() || self.record.promised.is_none() {
            return Vec::new();
        }
        let mut outputs = self.to_others(&Message::Ask);
        outputs.push(self.decision_timer(now));
        outputs
    }

    fn spread(&mut self, now: Time) -> Vec<Output> {
        let Some(value) = self.record.decided.clone() else { return Vec::new() };
        if self.unaware.is_empty() {
            return Vec::new();
        }
        let message = Message::Decide { value };
        let mut outputs = send(self.unaware.iter().copied(), &message);
        let at = now.after(self.patience);
        outputs.push(Output::SetTimer { timer: Timer::AcknowledgementsOverdue, at });
        outputs
    }

    fn restart(&mut self, now: Time) -> Vec<Output> {
        match self.record.decided.clone() {
            // Nobody wrote down who knows it already, so everyone is told again.
            Some(value) => {
                let mut outputs = vec![Output::Decided(value)];
                outputs.extend(self.announce(now));
                outputs
            }
            None => self.ask(now),
        }
    }

    /// What a member said that is lost for good, nobody holds to any more. Those that are left may be enough now.
    fn fence(&mut self, now: Time, node: NodeId) -> Vec<Output> {
        if node == self.me || !self.members.contains(node) || !self.fenced.insert(node) {
            return Vec::new();
        }
        self.unaware.remove(&node);
        match &mut self.phase {
            Phase::Preparing { promised, .. } => {
                promised.remove(&node);
                self.count_promises(now)
            }
            Phase::Accepting { accepted, .. } => {
                accepted.remove(&node);
                self.seek_decision(now)
            }
            Phase::Idle | Phase::Waiting => Vec::new(),
        }
    }

    fn begin_round(&mut self, now: Time) -> Vec<Output> {
        // Whoever has promised anything, be it the first round to itself, is past the first round.
        if self.owns_first_round(self.me) && self.record.promised.is_none() {
            self.record.promised = Some(Ballot { round: FIRST_ROUND, node: self.me });
            let value = self.proposal.clone().expect("whoever begins a round proposes");
            return self.seek_acceptance(now, value);
        }
        let promised = self.record.promised.map_or(0, |ballot| ballot.round);
        let ballot = Ballot { round: promised.max(self.round_seen) + 1, node: self.me };
        self.record.promised = Some(ballot);
        let best = self.record.accepted.clone();
        self.phase = Phase::Preparing { promised: BTreeSet::from([self.me]), best };
        let mut outputs = vec![Output::Persist(self.record.clone())];
        outputs.extend(self.to_others(&Message::Prepare { ballot }));
        outputs.push(self.round_timer(now, ballot.round));
        outputs.extend(self.count_promises(now));
        outputs
    }

    fn count_promise(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        vote: Option<Vote>,
    ) -> Vec<Output> {
        if self.record.promised != Some(ballot) {
            return Vec::new();
        }
        let Phase::Preparing { promised, best } = &mut self.phase else { return Vec::new() };
        promised.insert(from);
        *best = best.take().max(vote);
        self.count_promises(now)
    }

    /// Goes on with the value to be accepted, once a quorum has promised.
    fn count_promises(&mut self, now: Time) -> Vec<Output> {
        let Phase::Preparing { promised, best } = &self.phase else { return Vec::new() };
        if promised.len() < self.quorum() {
            return Vec::new();
        }
        // What a quorum may have accepted before is the only value that may be decided now.
        let taken_over = best.clone().map(|vote| vote.value);
        let value = taken_over.or(self.proposal.clone()).expect("whoever prepares proposes");
        self.seek_acceptance(now, value)
    }

    /// Wants a value accepted, in the ballot that it has promised itself.
    fn seek_acceptance(&mut self, now: Time, value: Value) -> Vec<Output> {
        let ballot = self.record.promised.expect("whoever is in a round has promised");
        self.record.accepted = Some(Vote { ballot, value: value.clone() });
        self.phase = Phase::Accepting { accepted: BTreeSet::from([self.me]), value: value.clone() };
        let mut outputs = vec![Output::Persist(self.record.clone())];
        outputs.extend(self.to_others(&Message::Accept { ballot, value }));
        outputs.push(self.round_timer(now, ballot.round));
        outputs.extend(self.seek_decision(now));
        outputs
    }

    fn count_acceptance(&mut self, now: Time, from: NodeId, ballot: Ballot) -> Vec<Output> {
        if self.two_decide() {
            // Whoever has accepted knows.
            self.unaware.remove(&from);
        }
        if self.record.promised != Some(ballot) {
            return Vec::new();
        }
        let Phase::Accepting { accepted, .. } = &mut self.phase else { return Vec::new() };
        accepted.insert(from);
        self.seek_decision(now)
    }

    /// Ends the round with a decision, once a quorum has accepted.
    fn seek_decision(&mut self, now: Time) -> Vec<Output> {
        let Phase::Accepting { accepted, value } = &self.phase else { return Vec::new() };
        if accepted.len() < self.quorum() {
            return Vec::new();
        }
        let (value, accepted) = (value.clone(), accepted.clone());
        let decided = self.decide(value.clone());
        // A quorum has it on disk: that it is decided is true whether it is written down here or not.
        let mut outputs = match self.two_decide() {
            // Whoever has not accepted it yet is about to, and will know.
            true => {
                self.announce_later(now, self.patience / HASTE, &accepted).into_iter().collect()
            }
            false => self.announce(now),
        };
        outputs.extend([decided, Output::Decided(value)]);
        outputs
    }

    fn promise(&mut self, now: Time, from: NodeId, ballot: Ballot) -> Vec<Output> {
        if let Some(refusal) = self.refusal(from, ballot) {
            return vec![refusal];
        }
        let mut outputs = self.yield_to(now, ballot);
        if self.record.promised != Some(ballot) {
            self.record.promised = Some(ballot);
            outputs.push(Output::Persist(self.record.clone()));
        }
        let accepted = self.record.accepted.clone();
        outputs.push(Output::Send { to: from, message: Message::Promised { ballot, accepted } });
        outputs.push(self.decision_timer(now));
        outputs
    }

    fn accept(&mut self, now: Time, from: NodeId, vote: Vote) -> Vec<Output> {
        let ballot = vote.ballot;
        if let Some(refusal) = self.refusal(from, ballot) {
            return vec![refusal];
        }
        let mut outputs = self.yield_to(now, ballot);
        let answer = Output::Send { to: from, message: Message::Accepted { ballot } };
        if self.two_decide() {
            let value = vote.value.clone();
            (self.record.promised, self.record.accepted) = (Some(ballot), Some(vote));
            outputs.extend([self.decide(value.clone()), answer, Output::Decided(value)]);
            // The proposer may never hear that it is. Whoever knows sees to it that all do.
            outputs.extend(self.announce_later(
                now,
                self.patience.saturating_mul(4),
                &BTreeSet::new(),
            ));
            return outputs;
        }
        if self.record.accepted.as_ref().map(|accepted| accepted.ballot) != Some(ballot) {
            (self.record.promised, self.record.accepted) = (Some(ballot), Some(vote));
            outputs.push(Output::Persist(self.record.clone()));
        }
        outputs.extend([answer, self.decision_timer(now)]);
        outputs
    }

    /// Gives up the own round, which can no longer count its own member.
    fn yield_to(&mut self, now: Time, ballot: Ballot) -> Vec<Output> {
        self.round_seen = self.round_seen.max(ballot.round);
        if !self.is_in_a_round() {
            return Vec::new();
        }
        self.phase = Phase::Waiting;
        vec![self.round_timer(now, self.round_seen)]
    }

    fn step_back(&mut self, now: Time, ballot: Ballot, promised: Ballot) -> Vec<Output> {
        if promised <= ballot || self.record.promised != Some(ballot) {
            return Vec::new();
        }
        self.yield_to(now, promised)
    }

    fn learn(&mut self, from: NodeId, value: Value) -> Vec<Output> {
        let mut outputs = Vec::new();
        match &self.record.decided {
            None => outputs.extend([self.decide(value.clone()), Output::Decided(value)]),
            Some(known) if *known == value => {}
            // A decision never changes, whoever says so.
            Some(_) => return Vec::new(),
        }
        self.unaware.remove(&from);
        outputs.push(Output::Send { to: from, message: Message::Learned });
        outputs
    }

    fn decide(&mut self, value: Value) -> Output {
        self.record.decided = Some(value);
        self.proposal = None;
        self.phase = Phase::Idle;
        Output::Persist(self.record.clone())
    }

    /// Tells everyone the decision, until they know it.
    fn announce(&mut self, now: Time) -> Vec<Output> {
        self.unaware = self.others().collect();
        self.spread(now)
    }

    /// Tells everyone the decision who does not know it by then.
    fn announce_later(
        &mut self,
        now: Time,
        pause: Duration,
        aware: &BTreeSet<NodeId>,
    ) -> Option<Output> {
        self.unaware = self.others().filter(|member| !aware.contains(member)).collect();
        let (timer, at) = (Timer::AcknowledgementsOverdue, now.after(pause));
        (!self.unaware.is_empty()).then_some(Output::SetTimer { timer, at })
    }

    /// What stands against taking part in a ballot: a decision, or a higher promise.
    fn refusal(&self, to: NodeId, ballot: Ballot) -> Option<Output> {
        if self.record.decided.is_some() {
            return self.tell(to);
        }
        let promised = self.record.promised.filter(|promised| ballot < *promised)?;
        Some(Output::Send { to, message: Message::Reject { ballot, promised } })
    }

    fn tell(&self, to: NodeId) -> Option<Output> {
        let value = self.record.decided.clone()?;
        Some(Output::Send { to, message: Message::Decide { value } })
    }

    fn to_others(&self, message: &Message) -> Vec<Output> {
        send(self.others(), message)
    }

    fn decision_timer(&self, now: Time) -> Output {
        // The proposer spreads the decision by itself; asking is for when it does not.
        let at = now.after(self.patience.saturating_mul(4));
        Output::SetTimer { timer: Timer::DecisionOverdue, at }
    }

    fn round_timer(&self, now: Time, round: u64) -> Output {
        Output::SetTimer { timer: Timer::RoundOverdue, at: now.after(self.pause(round)) }
    }

    /// How long a round may take, and how long to wait before the next. Later rounds wait longer,
    /// and no two members equally long, so that one of two that duel gets through.
    fn pause(&self, round: u64) -> Duration {
        let doublings = u32::try_from(round.saturating_sub(1)).unwrap_or(DOUBLINGS_MAX);
        let base = self.patience.saturating_mul(1 << doublings.min(DOUBLINGS_MAX));
        let jitter = Digester::new("paxos pause").number(self.me.0).number(round).finish().short();
        base.saturating_add(base / 1024 * (jitter % 1024) as u32)
    }

    fn others(&self) -> impl Iterator<Item = NodeId> {
        self.members.others(self.me).filter(|member| !self.fenced.contains(member))
    }

    /// Whether a proposer and one other are a quorum.
    fn two_decide(&self) -> bool {
        self.quorum() <= 2
    }

    fn quorum(&self) -> usize {
        self.members.quorum(&self.fenced)
    }

    /// What is decided, if this member knows.
    pub fn decided(&self) -> Option<&Value> {
        self.record.decided.as_ref()
    }

    /// The newest record: the last one ordered by `Output::Persist`.
    pub fn record(&self) -> &Record {
        &self.record
    }

    fn owns_first_round(&self, member: NodeId) -> bool {
        self.members.highest() == Some(member)
    }

    fn is_in_a_round(&self) -> bool {
        matches!(self.phase, Phase::Preparing { .. } | Phase::Accepting { .. })
    }

    /// Whether the sender is a member that may say such a thing.
    fn is_believable(&self, from: NodeId, message: &Message) -> bool {
        let fits = match message {
            Message::Prepare { ballot } => {
                ballot.node == from && (FIRST_ROUND + 1..=ROUND_MAX).contains(&ballot.round)
            }
            Message::Accept { ballot, .. } => {
                let may = FIRST_ROUND < ballot.round || self.owns_first_round(from);
                ballot.node == from && ballot.round <= ROUND_MAX && may
            }
            Message::Reject { promised, .. } => promised.round <= ROUND_MAX,
            _ => true,
        };
        let is_heard = from != self.me && !self.fenced.contains(&from);
        fits && is_heard && self.members.contains(from)
    }

    /// Stops the program if what this machine always promises does not hold.
    pub fn assert_invariants(&self) {
        let Record { promised, accepted, decided } = &self.record;
        let voted = accepted.as_ref().map(|vote| vote.ballot);
        assert!(voted <= *promised, "a member accepts nothing above its promise");
        if self.is_in_a_round() {
            let own = promised.is_some_and(|ballot| ballot.node == self.me);
            assert!(own, "a round lives while its own promise does");
        }
        let wants = self.phase != Phase::Idle;
        assert_eq!(wants, self.proposal.is_some(), "a round has a proposal");
        assert!(decided.is_none() || !wants, "nothing is wanted after the decision");
        assert!(decided.is_some() || self.unaware.is_empty(), "only a decision is spread");
        assert!(
            self.unaware.iter().all(|node| self.members.contains(*node)),
            "only members are told"
        );
        assert!(self.unaware.is_disjoint(&self.fenced), "nobody is told who never comes back");
    }
}

fn send(to: impl Iterator<Item = NodeId>, message: &Message) -> Vec<Output> {
    to.map(|to| Output::Send { to, message: message.clone() }).collect()
}
