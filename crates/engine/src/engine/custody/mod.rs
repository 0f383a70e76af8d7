//! Custody of executions by several nodes: the replicas' machine, consensus and forgetting, wired to
//! the interpreter, the journal and the peers.
//!
//! A replicated execution is an entry like any other, but only its primary advances it; the others
//! apply what they are sent. A line that was lost becomes an entry of its own, a *remnant*, which
//! goes on living only to undo what the decided run does not contain.
//!
//! Invariants: an entry in custody is advanced only while its replica leads; its state is the one
//! that the replica's head names; what a step changes in machines and state is one record.

mod beginning;
mod bundling;
mod choosing;
mod consensus;
mod detaching;
mod driving;
mod hearsay;
mod holding_back;
mod lines;
mod looking;
mod peers;
mod promising;
mod reading;
mod receiving;
mod regrouping;
mod releasing;
mod restoring;
mod turn;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use minicbor::{Decode, Encode};
use outlast_lineage::{EffectId, Epoch, ExecutionId, NodeId, Point, Time};
use outlast_protocols::{paxos, replicas, two_phase};
use outlast_workflow::{Event, Ticket};

pub use choosing::ranked;
pub use lines::REMNANT_TERMS;
pub(super) use looking::{Looking, Wish};
pub(super) use peers::Peers;
pub(super) use reading::Reading;
pub(super) use restoring::Stored;
pub use wire::Spoken;
pub(crate) use wire::{Begin, happenings_of};
pub(super) use wire::{Carried, Envelope, Passed, Said, Shared, StateBytes, Terms, Untold};

use crate::{Acknowledge, Caller, Phase, Strategy};
use hearsay::Answers;
pub(super) use hearsay::Departed;
use holding_back::HeldBack;

/// How an entry is held, if not by this node alone.
#[derive(Debug)]
pub(super) enum Custody {
    /// As one of its replicas.
    Replica(Box<Holding>),
    /// As a line that was lost.
    Remnant(Remnant),
}

/// One replica of an execution, with all its machines.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) terms: Terms,
    pub(super) salt: [u8; 16],
    pub(super) replica: replicas::Replica,
    /// The decisions that are being made.
    pub(super) decisions: BTreeMap<u32, paxos::Paxos>,
    pub(super) participant: two_phase::Participant,
    pub(super) coordinator: Option<two_phase::Coordinator>,
    /// The newest records of the machines of forgetting.
    pub(super) forgetting: Forgetting,
    /// When each of its timers is due.
    pub(super) timers: BTreeMap<Alarm, Time>,
    /// Who has not said that it holds the execution.
    pub(super) unaware: BTreeSet<NodeId>,
    /// Members that hold it with others, and how they were told of it.
    pub(super) elsewhere: BTreeMap<NodeId, Begin>,
    /// Who waits to hear that it is started, and whether by that request.
    pub(super) starters: Vec<(Caller, bool)>,
    /// Who waits to hear that what it asked for is done, and the state that followed from it.
    pub(super) askers: Vec<(Caller, Point)>,
    /// Where answers to the calls of this line are sent.
    pub(super) address: Option<ExecutionId>,
    /// Since which of its terms in a row this node led when it last did, in this life.
    pub(super) led_since: Option<Epoch>,
    /// Calls that have left and are not answered, in this life.
    pub(super) in_flight: BTreeSet<Ticket>,
    /// Commands that may not leave yet.
    pub(super) held: Vec<HeldBack>,
    /// Effects whose calls were held back until they were not wanted any more: if they are asked for again, none
    /// has left before.
    pub(super) unsent: BTreeSet<EffectId>,
    /// What changed since the others were last told, as long as this replica leads.
    pub(super) untold: Option<Box<Untold>>,
    /// The newest state that a decision was asked for, since this replica leads.
    pub(super) wanted: Option<u64>,
    /// What is emitted or started, by its number, on its way out.
    pub(super) leaving: BTreeMap<u64, releasing::Leaving>,
    /// The execution that started it and waits to hear that others hold it, and the number there.
    pub(super) detached: Option<(ExecutionId, u64)>,
    /// What came while this replica did not lead, or after the end.
    pub(super) late: Vec<Event>,
    /// Answers to calls that may wait for a person where another node leads.
    pub(super) heard: Answers,
    /// Whether its end was told.
    pub(super) concluded: bool,
}

/// The newest records of two-phase commit.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(crate) struct Forgetting {
    #[n(0)]
    pub(super) participant: Option<two_phase::participant::Record>,
    #[n(1)]
    pub(super) coordinator: Option<two_phase::coordinator::Record>,
}

/// A line that was lost.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct Remnant {
    #[n(0)]
    pub(super) of: ExecutionId,
    #[n(1)]
    pub(super) line: Epoch,
    /// Whether it was told that it is lost.
    #[n(2)]
    pub(super) told: bool,
    /// Whether it was told which of its calls never left before it undoes anything, in this life.
    #[cbor(skip)]
    pub(super) told_what_never_left: bool,
    /// Effects that are to be undone.
    #[cbor(skip)]
    pub(super) asked: BTreeSet<EffectId>,
    /// Those of them that the line was told of: what it knows nothing of yet has not become void.
    #[cbor(skip)]
    pub(super) told_of: BTreeSet<EffectId>,
    /// Calls whose answers are still to come: what they say is needed to undo them.
    #[cbor(skip)]
    pub(super) in_flight: BTreeSet<Ticket>,
    /// Where those answers are sent.
    #[cbor(skip)]
    pub(super) address: Option<ExecutionId>,
    /// Since which of its terms in a row this node had led the line, if that was in this life.
    #[cbor(skip)]
    pub(super) led_since: Option<Epoch>,
}

/// What a custody waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Alarm {
    Replica(replicas::Timer),
    Paxos(u32, paxos::Timer),
    Participant(two_phase::participant::Timer),
    Coordinator(two_phase::coordinator::Timer),
    /// Those who do not know of the execution are told again.
    Begin,
    /// Whoever leads is told again what was heard here.
    Hearsay,
}

/// What a custody can be told, from the queue.
#[derive(Debug)]
pub(super) enum Word {
    Replica(Box<replicas::Input>),
    Rang(Alarm),
}

impl Holding {
    /// A replica in its first life.
    pub(super) fn new(
        me: NodeId,
        terms: Terms,
        salt: [u8; 16],
        times: &Times,
        beginning: Option<u64>,
    ) -> Self {
        let setup = replicas::Setup { beginning, ..setup(me, &terms, times) };
        let replica = replicas::Replica::new(setup);
        let peers = terms.members.others(me).collect();
        Self {
            terms,
            salt,
            replica,
            decisions: BTreeMap::new(),
            participant: two_phase::Participant::new(peers, times.patience),
            coordinator: None,
            forgetting: Forgetting::default(),
            timers: BTreeMap::new(),
            unaware: BTreeSet::new(),
            elsewhere: BTreeMap::new(),
            starters: Vec::new(),
            askers: Vec::new(),
            address: None,
            led_since: None,
            in_flight: BTreeSet::new(),
            held: Vec::new(),
            unsent: BTreeSet::new(),
            untold: None,
            wanted: None,
            leaving: BTreeMap::new(),
            detached: None,
            late: Vec::new(),
            heard: Answers::default(),
            concluded: false,
        }
    }

    /// Whether the run goes on from what happens now: this replica leads, and the run has not come to an
    /// end. Nothing comes after that, because the others may be deciding on it.
    pub(super) const fn takes_events(&self) -> bool {
        self.replica.leads().is_some() && !self.replica.standing().ended
    }

    /// What this node does for the execution now.
    pub(super) fn phase(&self) -> Phase {
        let (replica, standing) = (&self.replica, self.replica.standing());
        if standing.settled {
            Phase::Forgetting
        } else if replica.is_settling() {
            Phase::Compensating
        } else if standing.ended {
            Phase::Agreeing
        } else if replica.leads().is_some() {
            if replica.is_over_budget() { Phase::Paused } else { Phase::Leading }
        } else if replica.is_between_primaries() {
            Phase::Electing
        } else if replica.seeks_votes() {
            Phase::WithoutVotes
        } else {
            Phase::Following
        }
    }

    /// The same for people: also whether it stands still because it reaches too few others. A primary that a
    /// majority follows may be over its budget for the moment that this takes to hear of a step.
    pub(super) fn shown_phase(&self) -> Phase {
        let reaches = self.replica.reaches_majority();
        match self.phase() {
            Phase::Leading if !reaches && !self.held.is_empty() => Phase::WithoutMajority,
            Phase::Agreeing if !reaches => Phase::WithoutMajority,
            Phase::Paused if reaches => Phase::Leading,
            phase => phase,
        }
    }

    /// Why it stands still and what makes it go on, with what is known of that here, if it does.
    pub(super) fn standstill(&self) -> Option<String> {
        let phase = self.shown_phase();
        let why = match phase.why_it_waits() {
            None if self.may_have_lost_the_end() => LOST_END,
            why => why?,
        };
        let mut details = Vec::new();
        if let Some((cost, budget)) = self.replica.over_budget().filter(|_| phase == Phase::Paused)
        {
            details.push(format!("it would cost {cost}, and the budget is {budget}"));
        }
        if phase == Phase::WithoutMajority && self.held.iter().any(HeldBack::is_pivot) {
            details.push("what waits is a pivot".to_owned());
        }
        let unreachable = self.replica.unreachable().map(|node| format!("{:016x}", node.0));
        let unreachable: Vec<String> = unreachable.collect();
        if !unreachable.is_empty() {
            details.push(format!("it does not reach {}", unreachable.join(" and ")));
        }
        match details.is_empty() {
            true => Some(why.to_owned()),
            false => Some(format!("{why} ({})", details.join("; "))),
        }
    }

    /// Whether those that held the end which was decided on may all be gone for good.
    pub(super) fn may_have_lost_the_end(&self) -> bool {
        let (replica, members) = (&self.replica, &self.terms.members);
        let is_missing = replica.is_settling() && !replica.holds_the_end();
        is_missing && replica.left() < members.quorum(&BTreeSet::new())
    }

    /// Whose word is missing: before this node's line can be undone, if that was lost, and then before what
    /// was decided on can be forgotten. Whoever does not coordinate the latter does not know: it names those
    /// it cannot reach, or else the one that does.
    pub(super) fn awaited(&self) -> Vec<NodeId> {
        let replica = &self.replica;
        if !replica.is_settling() {
            return Vec::new();
        }
        if !replica.standing().settled {
            return replica.awaited().collect();
        }
        let coordinator = self.coordinator.as_ref().filter(|it| it.stage().is_some());
        if let Some(coordinator) = coordinator {
            return coordinator.awaited().collect();
        }
        let unreachable: Vec<_> = replica.unreachable().collect();
        if unreachable.is_empty() {
            replica.highest_other().into_iter().collect()
        } else {
            unreachable
        }
    }

    /// Whether so many others hold it that its starter may hear that it is started. Whoever knows
    /// how it ended need not ask.
    fn is_copied(&self) -> bool {
        let aware = self.terms.members.len() - 1 - self.unaware.len();
        self.copies_before_started() <= aware || self.replica.is_settling()
    }

    /// Whether it outlives this node's disk as it is to: it is copied, and to somebody at least.
    fn is_held_elsewhere(&self) -> bool {
        let others = self.terms.members.len() - 1;
        self.is_copied() && (self.replica.left() == 1 || self.unaware.len() < others)
    }

    /// How many others must hold it: no more than are left.
    fn copies_before_started(&self) -> usize {
        let survival = &self.terms.survival;
        let majority = usize::from(survival.replicas / 2);
        let asked_for = match survival.acknowledge {
            Acknowledge::Majority => majority,
            Acknowledge::None => usize::from(survival.votes).saturating_sub(1),
        };
        asked_for.min(self.replica.left() - 1)
    }

    /// Whether nothing has happened to it here: no state was made or taken over.
    fn is_untouched(&self) -> bool {
        self.replica.leads().is_none() && self.replica.head().lineage.number() == 0
    }
}

/// Why an execution stands still whose end nobody has any more.
const LOST_END: &str = "how it ended was decided with nodes that were removed, and the end itself is with none of the \
                        others that can be reached; it goes on when one that has it comes back. If none does: \
                        `outlast history` at each of its nodes says what was done, and `outlast delete --force` \
                        forgets it";

/// How long replicas wait for what.
#[derive(Clone, Debug)]
pub struct Times {
    /// How often nodes tell each other that they live.
    pub heartbeat: Duration,
    /// After how long without a word a node counts as lost.
    pub lost_after: Duration,
    /// After how long without anything on its disk a node that has something to write counts as lost.
    pub stuck_after: Duration,
    /// How long a candidate waits for objections, if its execution does not say.
    pub election_wait: Duration,
    /// After how long something is asked for again.
    pub patience: Duration,
    /// How long a quick execution's news for its backups is gathered, if nobody waits for it.
    pub linger: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(150),
            lost_after: Duration::from_millis(600),
            stuck_after: Duration::from_secs(2),
            election_wait: Duration::from_millis(200),
            patience: Duration::from_millis(400),
            linger: Duration::from_millis(25),
        }
    }
}

/// How the replicas' machine is set up.
fn setup(me: NodeId, terms: &Terms, times: &Times) -> replicas::Setup {
    let survival = &terms.survival;
    let election_wait = match survival.election_wait {
        0 => times.election_wait,
        micros => Duration::from_micros(micros),
    };
    replicas::Setup {
        me,
        members: terms.members.clone(),
        mode: match survival.strategy {
            Strategy::Active => replicas::Mode::Active,
            _ => replicas::Mode::Elected,
        },
        votes: usize::from(survival.votes),
        acknowledge: survival.acknowledge == Acknowledge::Majority,
        budget: survival.budget,
        election_wait,
        patience: times.patience,
        linger: times.linger,
        beginning: None,
    }
}
