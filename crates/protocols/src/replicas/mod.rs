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
//! replication is this machine with every replica its own primary.
//!
//! Invariants:
//! - No state is named twice: a replica goes on from a state that is not its own last one only in a
//!   new term, which is on disk before anyone hears of it.
//! - A replica that knows the final decision neither votes nor runs.
//! - The state held is the one that `Standing::head` names; the owner keeps the state itself.
//! - Own effects are on the line held or in exactly one remnant, until they are gone.
//!
//! Consensus and forgetting are other machines; the owner runs them. See `docs/protocols/replicas.md`.

mod electing;
mod following;
mod leading;
mod message;
mod settling;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outlast_lineage::{EffectId, Epoch, Head, NodeId, Point, Time};

pub use message::{Asked, Choice, Held, Message};
pub use standing::{Change, Note, Record, Remnant, Standing, Term, Verdict};

/// How replicas of one execution are to behave. The same at all of them, but for `me`.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// This replica.
    pub me: NodeId,
    /// All replicas.
    pub members: BTreeSet<NodeId>,
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
}

/// Who executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The elected primary of each partition.
    Elected,
    /// Every replica.
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
    /// The state that must be decided before something may leave.
    wanted: Option<u64>,
    /// The decision that this replica has proposed something for.
    proposed: Option<u32>,
    /// Who allowed the undo of which effect.
    allowed: BTreeMap<EffectId, BTreeSet<NodeId>>,
    /// Effects whose undo was ordered.
    ordered: BTreeSet<EffectId>,
    /// Until then, lower candidates get this replica's vote: it tried and could not win.
    yields_until: Time,
    /// Whether the state held is as this replica left it as primary, in this life.
    untouched: bool,
    /// Whether the owner was told that it ended.
    concluded: bool,
    acknowledges_soon: bool,
    resends: bool,
}

/// What a replica is doing.
#[derive(Clone, PartialEq, Debug)]
enum Role {
    /// It follows, or waits for someone to follow.
    Backup { leader: Option<NodeId> },
    /// It asked for votes.
    Candidate { term: Epoch, votes: BTreeSet<NodeId>, best: Option<Held>, rejected: bool },
    /// It executes.
    Primary { term: Epoch },
    /// A run was decided on.
    Settling,
}

/// What a replica can be told.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// The execution was made known here; the first input of the first life.
    Begun,
    /// The machine was made from its standing; the first input of every later life.
    Restarted,
    /// A message arrived.
    Received {
        /// Who sent it, as the channel says.
        from: NodeId,
        /// What it says.
        message: Message,
    },
    /// The time of a timer has come.
    TimerFired(Timer),
    /// A peer can no longer be reached.
    PeerLost(NodeId),
    /// A peer can be reached again.
    PeerFound(NodeId),
    /// A peer is lost for good: its id never comes back. That is the owner's to know.
    Fenced(NodeId),
    /// The owner advanced the execution, as the primary that this replica is.
    Advanced {
        /// What changed.
        payload: Payload,
        /// How many activities are complete.
        progress: u64,
        /// Whether that is the end.
        ended: bool,
        /// What it did to the world outside.
        notes: Vec<Note>,
    },
    /// Something may leave only if the line up to this state is decided to be the one that counts.
    DecisionWanted {
        /// The number of the state.
        number: u64,
    },
    /// Consensus decided.
    Decided {
        /// The how manieth decision of this execution.
        instance: u32,
        /// What.
        choice: Choice,
    },
    /// Effects on lost lines are undone.
    Undone(Vec<EffectId>),
}

/// How a state is passed on.
#[derive(Clone, PartialEq, Debug)]
pub enum Payload {
    /// By what changed.
    Delta(Vec<u8>),
    /// Whole.
    State(Vec<u8>),
}

/// What a replica wants done. Each waits for all changes ordered before it.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Write this change down.
    Persist(Change),
    /// Send a message. If it carries a state (`Message::held_mut`), the owner fills in the one that
    /// is held now.
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
    /// This replica is primary and nothing has happened yet: begin.
    Start,
    /// This replica is primary: go on from the state held, and ask again for all that is open.
    GoOn,
    /// This replica is primary again, and nothing has changed since it was: go on as if it had been
    /// all the time.
    Resume,
    /// Begin nothing new: this replica is no longer primary.
    Stop,
    /// The state held goes on by this delta.
    Apply(Vec<u8>),
    /// Keep a copy of the state held, under this term, for calls whose answers are still to come.
    Spare(Epoch),
    /// This state takes the place of the one held.
    Adopt {
        /// The state.
        state: Vec<u8>,
        /// Keep the one held before, under this term: own effects on it may have to be undone.
        remnant: Option<Epoch>,
    },
    /// Have consensus decide.
    Propose {
        /// The how manieth decision of this execution.
        instance: u32,
        /// What is proposed.
        choice: Choice,
    },
    /// The state held is the decided end: tell whoever waits.
    Concluded,
    /// Undo these effects on a lost line; `Input::Undone` follows when they are.
    Undo {
        /// The remnant.
        line: Epoch,
        /// The effects.
        effects: Vec<EffectId>,
    },
    /// All that this replica did is kept or undone: it could forget.
    Settled,
    /// Something worth telling happened.
    Report(Situation),
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// Objections should have come.
    ElectionOver,
    /// It may ask for votes again.
    RetryElection,
    /// What was sent should have been answered.
    AnswersOverdue,
    /// The primary should be told how far this replica has stored its states.
    AcknowledgementDue,
    /// A word of the primary should have come.
    WordOverdue,
}

/// Situations that are worth telling, and that tests want to have seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Situation {
    /// It asked for votes.
    Candidacy,
    /// It has not enough votes and waits.
    TooFewVotes,
    /// Someone objected.
    Rejected,
    /// It became primary.
    Elected,
    /// It took over a state that someone else had brought further than itself.
    TookOverFurther,
    /// It took over an older state than another replica that it could not reach might hold.
    TookOverWithoutAll,
    /// It met another primary that had come further, and stopped.
    StoodDown,
    /// It met another primary with equal progress.
    Tie,
    /// It lost a line with effects of its own on it.
    LineLost,
    /// A line was decided on before the end, for an activity that can be neither undone nor repeated.
    PivotDecided,
    /// A run was decided on.
    RunDecided,
    /// An undo waits for those of others.
    UndoWithheld,
    /// An effect is kept because the decided run has it by the same key.
    KeptByKey,
}

impl Situation {
    /// One word for it, as programs read it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Candidacy => "candidacy",
            Self::TooFewVotes => "too-few-votes",
            Self::Rejected => "rejected",
            Self::Elected => "elected",
            Self::TookOverFurther => "took-over-further",
            Self::TookOverWithoutAll => "took-over-without-all",
            Self::StoodDown => "stood-down",
            Self::Tie => "tie",
            Self::LineLost => "line-lost",
            Self::PivotDecided => "pivot-decided",
            Self::RunDecided => "run-decided",
            Self::UndoWithheld => "undo-withheld",
            Self::KeptByKey => "kept-by-key",
        }
    }
}

impl Replica {
    /// A replica that has just heard of the execution.
    pub fn new(setup: Setup) -> Self {
        Self::restored(setup, Standing::default())
    }

    /// A replica in a new life.
    pub fn restored(setup: Setup, standing: Standing) -> Self {
        assert!(setup.members.contains(&setup.me), "only members are replicas");
        Self {
            setup,
            standing,
            role: Role::Backup { leader: None },
            lost: BTreeSet::new(),
            fenced: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            wanted: None,
            proposed: None,
            allowed: BTreeMap::new(),
            ordered: BTreeSet::new(),
            yields_until: Time::from_micros(0),
            untouched: false,
            concluded: false,
            acknowledges_soon: false,
            resends: false,
        }
    }

    /// Takes one input, and says what is to be done.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        let mut out = Outputs::new(now);
        match input {
            Input::Begun => self.begin(&mut out),
            Input::Restarted => self.restart(&mut out),
            Input::Received { from, message } if self.is_peer(from) => {
                self.receive(&mut out, from, message);
            }
            Input::Received { .. } => {}
            Input::TimerFired(timer) => self.fired(&mut out, timer),
            Input::PeerLost(peer) => self.lose(&mut out, peer),
            Input::PeerFound(peer) => self.find(&mut out, peer),
            Input::Fenced(peer) => self.fence(&mut out, peer),
            Input::Advanced { payload, progress, ended, notes } => {
                self.advanced(&mut out, payload, progress, ended, notes);
            }
            Input::DecisionWanted { number } => self.want_decision(&mut out, number),
            Input::Decided { instance, choice } => self.decided(&mut out, instance, choice),
            Input::Undone(effects) => self.undone(&mut out, effects),
        }
        out.list
    }

    fn receive(&mut self, out: &mut Outputs, from: NodeId, message: Message) {
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
            Message::Update { base, next, progress, ended, urgent, delta } => {
                let news = following::News { base, next, progress, ended, urgent };
                self.take_update(out, from, news, delta);
            }
            Message::Lead { head } => self.take_lead(out, from, head),
            Message::Want => self.provide(out, from),
            Message::State { held } => self.take_state(out, from, held),
            Message::Ack { point } => self.take_acknowledgement(out, from, point),
            Message::RequestVote { term, head } => self.take_request(out, from, term, &head),
            Message::Vote { term, held, .. } => self.take_vote(from, term, held),
            Message::Reject { term, known, leader } => {
                self.take_rejection(out, from, term, known, leader);
            }
            Message::RecoveryRequest { head } => self.help_recovery(out, from, &head),
            Message::RecoveryReply { leader, held } => self.take_help(out, from, leader, held),
            Message::Decided { instance, choice } => self.decided(out, instance, choice),
            Message::MayUndo { instance, choice, effects } => {
                self.decided(out, instance, choice);
                self.judge_wish(out, from, effects);
            }
            Message::Allow { effects } => self.take_permission(out, from, effects),
            Message::Keep { effects } => self.keep(out, effects),
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
        }
    }

    fn lose(&mut self, out: &mut Outputs, peer: NodeId) {
        if self.is_peer(peer) && self.lost.insert(peer) && self.leader() == Some(peer) {
            self.stand(out);
        }
    }

    fn find(&mut self, out: &mut Outputs, peer: NodeId) {
        if !self.lost.remove(&peer) {
            return;
        }
        match self.role {
            Role::Primary { .. } if self.is_elected_mode() => {
                out.send(peer, Message::Lead { head: self.standing.head.clone() });
            }
            Role::Backup { leader: None } => self.stand(out),
            Role::Settling => self.send_again(out),
            _ => {}
        }
    }

    fn fence(&mut self, out: &mut Outputs, peer: NodeId) {
        if self.is_peer(peer) && self.fenced.insert(peer) {
            self.lose(out, peer);
            self.order_undos(out);
        }
    }

    /// What asked for again is not answered, nobody waits for: the timer rests.
    fn send_again(&mut self, out: &mut Outputs) {
        self.resends = false;
        match self.role {
            Role::Primary { .. } => self.remind_backups(out),
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

    fn peers(&self) -> impl Iterator<Item = NodeId> {
        let present = self.setup.members.iter().copied();
        present.filter(|peer| *peer != self.setup.me && !self.fenced.contains(peer))
    }

    fn is_peer(&self, node: NodeId) -> bool {
        node != self.setup.me && self.setup.members.contains(&node)
    }

    fn is_elected_mode(&self) -> bool {
        self.setup.mode == Mode::Elected
    }

    fn quorum(&self) -> usize {
        self.setup.members.len() / 2 + 1
    }

    /// The primary that this replica follows, or itself.
    pub fn leader(&self) -> Option<NodeId> {
        match &self.role {
            Role::Backup { leader } => *leader,
            Role::Primary { .. } => Some(self.setup.me),
            Role::Candidate { .. } | Role::Settling => None,
        }
    }

    /// The term in which it may advance the execution now.
    pub const fn leads(&self) -> Option<Epoch> {
        match self.role {
            Role::Primary { term } => Some(term),
            _ => None,
        }
    }

    /// Whether a run was decided on.
    pub const fn is_settling(&self) -> bool {
        matches!(self.role, Role::Settling)
    }

    /// Whether it has asked for votes and does not have enough.
    pub const fn seeks_votes(&self) -> bool {
        matches!(self.role, Role::Candidate { .. } | Role::Backup { leader: None })
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

/// What a step wants done so far.
#[derive(Debug)]
struct Outputs {
    now: Time,
    list: Vec<Output>,
}

impl Outputs {
    const fn new(now: Time) -> Self {
        Self { now, list: Vec::new() }
    }

    fn send(&mut self, to: NodeId, message: Message) {
        self.list.push(Output::Send { to, message });
    }

    fn timer(&mut self, timer: Timer, after: Duration) {
        self.list.push(Output::SetTimer { timer, at: self.now.after(after) });
    }

    fn report(&mut self, situation: Situation) {
        self.list.push(Output::Report(situation));
    }
}
