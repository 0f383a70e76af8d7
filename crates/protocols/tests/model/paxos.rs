//! Three members, the higher two of which propose: the first round of the highest needs no promises.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use outlast_lineage::{NodeId, Time};
use outlast_protocols::paxos::{Input, Message, Output, Paxos, Record, Timer, Value};
use stateright::{Model, Property};

use crate::{holds, notices};

const ONE_DECISION: &str = "at most one value is decided";
const FINAL: &str = "a decision does not change";
const PROPOSED: &str = "what is decided was proposed";
const SETTLES: &str = "once faults stop, all members know a decision";
const DUEL: &str = "a duel";
const TAKE_OVER: &str = "an accepted value is taken over";
const DECIDED: &str = "a decision";
const LAWS: [&str; 4] = [ONE_DECISION, FINAL, PROPOSED, SETTLES];

/// Something left out on purpose, to see that it is missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Break {
    /// Messages leave before the record that they rest on is durable.
    SendsFirst,
    /// Members accept what they promised not to.
    AcceptsAgainstItsPromise,
    /// Proposers do not hear what was accepted before.
    IgnoresAcceptedValues,
    /// A member comes back without its promise.
    ForgetsItsPromise,
    /// A member comes back without what it accepted.
    ForgetsWhatItAccepted,
    /// A member comes back without anything, and uses the first round again if it is the highest.
    ForgetsEverything,
    /// No timer ever fires.
    LosesTimers,
    /// Members are said to be lost for good that are not.
    GivesUpTheLiving,
}

/// Which messages are lost, all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lost {
    None,
    /// Those that say that a decision was learned: all they do is that it is not told again.
    Learned,
    /// All that only hasten: rejects, and whatever is said of decisions. Such a world is smaller and no
    /// kinder: nobody is kept from deciding something else by knowing better.
    WhatOnlyHastens,
}

impl Lost {
    fn has(self, output: &Output) -> bool {
        match self {
            Self::None => false,
            Self::Learned => {
                matches!(output, Output::Send { message: Message::Learned, .. })
            }
            Self::WhatOnlyHastens => only_hastens(output),
        }
    }
}

/// The world: how much may happen.
#[derive(Clone, Debug)]
struct World {
    /// How many members there are. Of three, whoever accepts knows that it is decided; of four, nobody
    /// but who counts does.
    members: usize,
    /// How many members propose, from the highest down.
    proposers: usize,
    /// How many rounds each of them begins at most, over all its lives.
    rounds: u8,
    /// How many crashes there are, of any member at any time.
    crashes: u8,
    /// How many members are lost for good, any of them at any time. The others hear of it at any time after
    /// that, one by one and in every life anew.
    losses: u8,
    /// Whether a crash also comes between two outputs of a step. That shows whether outputs are in
    /// the right order; if they are, it is the same as a crash after the step and the loss of what
    /// was sent last, which is explored anyway.
    cuts: bool,
    /// What is said and never arrives.
    lost: Lost,
    /// Whether messages are taken away that nobody will ever take notice of again.
    forgets: bool,
    broken: Option<Break>,
    /// Whether to try from every state if all comes to an end; that costs a run each.
    settles: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    nodes: Vec<Arc<Node>>,
    sent: BTreeSet<Arc<Envelope>>,
    changed: bool,
    crashes: u8,
    /// Those that never come back. What they have sent may still arrive.
    gone: BTreeSet<usize>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    machine: Paxos,
    disk: Record,
    timers: BTreeSet<Timer>,
    /// How many rounds it has begun.
    rounds: u8,
    /// How many values it has proposed: a later life proposes another.
    proposals: u8,
    /// Whether this life has proposed.
    proposes: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Envelope {
    from: usize,
    to: usize,
    message: Message,
}

#[derive(Clone, PartialEq, Debug)]
enum Action {
    /// A member begins a round: its first in this life, or another because the last is overdue.
    Begin(usize, Cut),
    /// A message arrives.
    Deliver(Arc<Envelope>, Cut),
    Crash(usize),
    /// A member is lost for good.
    Lose(usize),
    /// A member hears that another one is.
    Fence(usize, usize),
}

/// After how many outputs of the step the member crashes, if it does.
type Cut = Option<usize>;

fn only_hastens(output: &Output) -> bool {
    let Output::Send { message, .. } = output else { return false };
    matches!(
        message,
        Message::Reject { .. } | Message::Decide { .. } | Message::Learned | Message::Ask
    )
}

fn value(text: String) -> Value {
    Value::new(text.into_bytes()).unwrap()
}

impl World {
    fn machine(&self, node: usize, record: Record) -> Paxos {
        let members = (0..self.members as u64).map(NodeId).collect();
        Paxos::restored(NodeId(node as u64), members, Duration::from_millis(10), record)
    }

    fn begin(&self, state: &mut State, node: usize, cut: Cut) {
        let member = Arc::make_mut(&mut state.nodes[node]);
        member.rounds += 1;
        if member.proposes {
            return self.fire(state, node, Timer::RoundOverdue, cut);
        }
        // Another life proposes something else: the same ballot must not serve both.
        let proposal = value(format!("{node}.{}", member.proposals));
        member.proposals += 1;
        member.proposes = true;
        self.step(state, node, Input::Propose(proposal), cut);
    }

    fn deliver(&self, state: &mut State, envelope: &Envelope, cut: Cut) {
        let Envelope { from, to, mut message } = envelope.clone();
        let member = Arc::make_mut(&mut state.nodes[to]);
        if self.broken == Some(Break::AcceptsAgainstItsPromise)
            && let Message::Accept { ballot, .. } = &message
            && member.disk.promised > Some(*ballot)
            && member.disk.decided.is_none()
        {
            let accepted = member.disk.accepted.clone();
            let promised = accepted.as_ref().map(|vote| vote.ballot);
            member.machine = self.machine(to, Record { promised, accepted, decided: None });
        }
        if self.broken == Some(Break::IgnoresAcceptedValues)
            && let Message::Promised { accepted, .. } = &mut message
        {
            *accepted = None;
        }
        let input = Input::Received { from: NodeId(from as u64), message };
        self.step(state, to, input, cut);
    }

    fn step(&self, state: &mut State, node: usize, input: Input, cut: Cut) {
        let machine = &mut Arc::make_mut(&mut state.nodes[node]).machine;
        let mut outputs = machine.step(Time::default(), input);
        if self.broken == Some(Break::SendsFirst) {
            outputs.sort_by_key(|output| matches!(output, Output::Persist(_)));
        }
        for output in outputs.into_iter().take(cut.unwrap_or(usize::MAX)) {
            if !self.lost.has(&output) {
                state.perform(node, output);
            }
        }
        if cut.is_some() {
            self.crash(state, node);
        }
    }

    fn crash(&self, state: &mut State, node: usize) {
        state.crashes -= 1;
        let member = Arc::make_mut(&mut state.nodes[node]);
        let mut record = member.disk.clone();
        if self.broken == Some(Break::ForgetsItsPromise) {
            record.promised = record.accepted.as_ref().map(|vote| vote.ballot);
        }
        if self.broken == Some(Break::ForgetsWhatItAccepted) {
            record.accepted = None;
        }
        if self.broken == Some(Break::ForgetsEverything) {
            record = Record::default();
        }
        member.disk = record.clone();
        member.machine = self.machine(node, record);
        member.timers.clear();
        member.proposes = false;
        self.step(state, node, Input::Restarted, None);
    }

    fn fire(&self, state: &mut State, node: usize, timer: Timer, cut: Cut) {
        let member = Arc::make_mut(&mut state.nodes[node]);
        if self.broken != Some(Break::LosesTimers) && member.timers.remove(&timer) {
            self.step(state, node, Input::TimerFired(timer), cut);
        }
    }

    /// Whether everyone learns a decision if all that was under way is lost, but nothing after.
    fn settles(&self, state: &State) -> bool {
        let calm = Self { lost: Lost::None, ..self.clone() };
        let mut state = state.clone();
        state.sent.clear();
        let left: Vec<usize> = state.left().collect();
        for (to, lost) in self.losses_to_hear_of(&state) {
            calm.fence(&mut state, to, lost);
        }
        // Somebody goes on wanting it: that is the owner's part after a crash.
        let highest = *left.last().expect("somebody is left");
        if !state.nodes[highest].proposes {
            calm.begin(&mut state, highest, None);
        }
        for _ in 0..3 {
            for node in left.iter().copied() {
                calm.fire(&mut state, node, Timer::DecisionOverdue, None);
                calm.fire(&mut state, node, Timer::AcknowledgementsOverdue, None);
                calm.deliver_all(&mut state);
            }
            // The pauses of two that duel differ, so one of them is first.
            calm.fire(&mut state, highest, Timer::RoundOverdue, None);
            calm.deliver_all(&mut state);
        }
        left.iter().all(|node| state.nodes[*node].disk.decided.is_some())
    }

    fn deliver_all(&self, state: &mut State) {
        while let Some(envelope) = state.sent.pop_first() {
            if !state.gone.contains(&envelope.to) {
                self.deliver(state, &envelope, None);
            }
        }
    }

    fn fence(&self, state: &mut State, to: usize, lost: usize) {
        self.step(state, to, Input::Fenced(NodeId(lost as u64)), None);
    }

    /// Who may be told of the loss of whom. Telling it again changes nothing.
    fn losses_to_hear_of(&self, state: &State) -> Vec<(usize, usize)> {
        let wrongly = self.broken == Some(Break::GivesUpTheLiving);
        let lost = (0..self.members).filter(|node| wrongly || state.gone.contains(node));
        lost.flat_map(|lost| state.left().map(move |to| (to, lost))).collect()
    }

    fn may_begin(&self, member: &Node) -> bool {
        let due = !member.proposes || member.timers.contains(&Timer::RoundOverdue);
        member.rounds < self.rounds && due && member.disk.decided.is_none()
    }

    /// Where steps are cut: not at all, and, if crashes are left, after some of the outputs. After
    /// none is a crash and a loss; after all is a step and a crash.
    fn cuts(&self, state: &State) -> Vec<Cut> {
        let cut = if self.cuts && state.crashes > 0 { 3 } else { 1 };
        (0..cut).map(|outputs| (outputs > 0).then_some(outputs)).collect()
    }
}

impl State {
    fn perform(&mut self, from: usize, output: Output) {
        let member = Arc::make_mut(&mut self.nodes[from]);
        match output {
            Output::Persist(record) => {
                let known = &member.disk.decided;
                self.changed |= known.is_some() && *known != record.decided;
                member.disk = record;
            }
            Output::Send { to, message } => {
                self.sent.insert(Arc::new(Envelope { from, to: to.0 as usize, message }));
            }
            Output::SetTimer { timer, .. } => {
                member.timers.insert(timer);
            }
            Output::Decided(value) => {
                self.changed |= member.disk.decided.as_ref() != Some(&value);
            }
        }
    }

    /// Takes messages away that nobody will ever take notice of again, so that histories which
    /// differ in nothing else are one state.
    fn forget_what_is_over(&mut self) {
        let (nodes, gone) = (&self.nodes, &self.gone);
        let is_over = |it: &Envelope| gone.contains(&it.to) || nodes[it.to].is_deaf_to(it);
        self.sent.retain(|envelope| !is_over(envelope));
    }

    /// Those that are not lost for good.
    fn left(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|node| !self.gone.contains(node))
    }

    fn decided(&self) -> BTreeSet<&Value> {
        self.nodes.iter().filter_map(|node| node.disk.decided.as_ref()).collect()
    }

    fn was_proposed(&self, value: &Value) -> bool {
        let proposals = |node: usize| (0..self.nodes[node].proposals).map(move |n| (node, n));
        let mut all = (0..self.nodes.len()).flat_map(proposals);
        all.any(|(node, number)| value.as_bytes() == format!("{node}.{number}").as_bytes())
    }

    /// Whether ballots of both have promises, so that one of them will be refused.
    fn duels(&self) -> bool {
        let promised = self.nodes.iter().filter_map(|node| node.disk.promised);
        promised.map(|ballot| ballot.node).collect::<BTreeSet<_>>().len() > 1
    }

    fn taken_over(&self) -> bool {
        self.sent.iter().any(|envelope| match &envelope.message {
            Message::Accept { ballot, value } => {
                !value.as_bytes().starts_with(ballot.node.0.to_string().as_bytes())
            }
            _ => false,
        })
    }
}

impl Node {
    /// Whether a message changes nothing here any more, now or later. That it does not now is tried
    /// out; that it never will again follows from what it is about.
    fn is_deaf_to(&self, envelope: &Envelope) -> bool {
        self.is_past(&envelope.message) && self.ignores(envelope)
    }

    fn ignores(&self, envelope: &Envelope) -> bool {
        let from = NodeId(envelope.from as u64);
        let input = Input::Received { from, message: envelope.message.clone() };
        let mut machine = self.machine.clone();
        let outputs = machine.step(Time::default(), input);
        outputs.iter().all(only_hastens) && machine.record() == self.machine.record()
    }

    /// Whether a message is about a ballot that is over here: promises and accepted ballots never
    /// fall, and what was asked in an earlier life or ballot is not asked again.
    fn is_past(&self, message: &Message) -> bool {
        let Record { promised, accepted, decided } = self.machine.record();
        let voted = accepted.as_ref().map(|vote| vote.ballot);
        match message {
            Message::Prepare { ballot } | Message::Accept { ballot, .. } => {
                decided.is_some() || *promised > Some(*ballot)
            }
            Message::Promised { ballot, .. } => {
                !self.proposes || *promised != Some(*ballot) || voted == Some(*ballot)
            }
            Message::Accepted { ballot } => !self.proposes || *promised != Some(*ballot),
            _ => false,
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let node = |node| {
            Arc::new(Node {
                machine: self.machine(node, Record::default()),
                disk: Record::default(),
                timers: BTreeSet::new(),
                rounds: 0,
                proposals: 0,
                proposes: false,
            })
        };
        let nodes = (0..self.members).map(node).collect();
        let (sent, gone) = (BTreeSet::new(), BTreeSet::new());
        vec![State { nodes, sent, changed: false, crashes: self.crashes, gone }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for cut in self.cuts(state) {
            let proposers = self.members - self.proposers..self.members;
            let is_there = |node: &usize| !state.gone.contains(node);
            let begins =
                proposers.filter(is_there).filter(|node| self.may_begin(&state.nodes[*node]));
            actions.extend(begins.map(|node| Action::Begin(node, cut)));
            let arrive = state.sent.iter().filter(|sent| is_there(&sent.to));
            actions.extend(arrive.map(|sent| Action::Deliver(Arc::clone(sent), cut)));
        }
        if state.crashes > 0 {
            actions.extend(state.left().map(Action::Crash));
        }
        if state.gone.len() < usize::from(self.losses) {
            actions.extend(state.left().map(Action::Lose));
        }
        let told = self.losses_to_hear_of(state).into_iter();
        actions.extend(told.map(|(to, lost)| Action::Fence(to, lost)));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Begin(node, cut) => self.begin(&mut state, node, cut),
            Action::Deliver(envelope, cut) => self.deliver(&mut state, &envelope, cut),
            Action::Crash(node) => self.crash(&mut state, node),
            Action::Lose(node) => drop(state.gone.insert(node)),
            Action::Fence(to, lost) => self.fence(&mut state, to, lost),
        }
        if self.forgets {
            state.forget_what_is_over();
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_DECISION, |_, state: &State| state.decided().len() <= 1),
            Property::always(FINAL, |_, state: &State| !state.changed),
            Property::always(PROPOSED, |_, state: &State| {
                state.decided().into_iter().all(|value| state.was_proposed(value))
            }),
            Property::always(SETTLES, |world: &Self, state: &State| {
                !world.settles || world.settles(state)
            }),
            Property::sometimes(DUEL, |_, state: &State| state.duels()),
            Property::sometimes(TAKE_OVER, |_, state: &State| state.taken_over()),
            Property::sometimes(DECIDED, |_, state: &State| !state.decided().is_empty()),
        ]
    }
}

const QUIET: World = World {
    members: 3,
    proposers: 2,
    rounds: 1,
    crashes: 0,
    losses: 0,
    cuts: true,
    lost: Lost::WhatOnlyHastens,
    forgets: true,
    broken: None,
    settles: true,
};

const SITUATIONS: [&str; 3] = [DUEL, TAKE_OVER, DECIDED];

#[test]
fn one_value_is_decided_when_two_duel_over_two_rounds_each_and_any_member_crashes() {
    holds(World { rounds: 2, crashes: 1, ..QUIET }, 39_212, &LAWS, &SITUATIONS);
}

#[test]
fn one_value_is_decided_when_three_propose_and_any_member_crashes() {
    holds(World { proposers: 3, crashes: 1, ..QUIET }, 14_888, &LAWS, &SITUATIONS);
}

#[test]
fn one_value_is_decided_when_another_life_proposes_another() {
    holds(World { proposers: 1, rounds: 3, crashes: 2, ..QUIET }, 3_076, &LAWS, &[DECIDED]);
}

#[test]
fn all_learn_the_decision() {
    let talkative = World { proposers: 1, lost: Lost::None, forgets: false, ..QUIET };
    holds(talkative, 66, &LAWS, &[DECIDED]);
}

/// The longest of those that always run: 12 s.
#[test]
fn one_value_is_decided_when_two_tell_each_other_what_they_know_and_any_member_crashes() {
    let told = World { crashes: 1, cuts: false, settles: false, forgets: false, ..QUIET };
    holds(World { lost: Lost::Learned, ..told }, 254_905, &LAWS, &SITUATIONS);
}

#[test]
fn another_life_is_told_what_was_decided() {
    let talkative = World { proposers: 1, rounds: 2, crashes: 1, ..QUIET };
    let talkative = World { lost: Lost::None, forgets: false, ..talkative };
    holds(talkative, 35_187, &LAWS, &[DECIDED]);
}

#[test]
fn one_value_is_decided_where_two_members_are_no_quorum() {
    let four = World { members: 4, ..QUIET };
    holds(World { crashes: 1, cuts: false, ..four.clone() }, 10_303, &LAWS, &SITUATIONS);
    holds(World { proposers: 1, rounds: 2, crashes: 1, ..four }, 2_415, &LAWS, &[DECIDED]);
}

/// Of four, three decide, and of the two that are left when two are lost for good, both: no three are without them.
#[test]
fn one_value_is_decided_though_half_of_the_members_are_lost_for_good() {
    let four = World { members: 4, losses: 2, cuts: false, ..QUIET };
    holds(four.clone(), 479_661, &LAWS, &SITUATIONS);
    holds(World { proposers: 1, crashes: 1, ..four }, 22_671, &LAWS, &[DECIDED]);
}

#[test]
fn larger_worlds_hold_as_well() {
    if std::env::var_os("OUTLAST_LONG").is_none_or(|value| value != "1") {
        return;
    }
    let unsettled = World { cuts: false, settles: false, ..QUIET };
    holds(World { rounds: 2, crashes: 2, ..unsettled.clone() }, 114_143, &LAWS, &SITUATIONS);
    holds(World { rounds: 3, ..unsettled.clone() }, 65_512, &LAWS, &SITUATIONS);
    let talkative = World { lost: Lost::None, forgets: false, ..unsettled };
    holds(talkative.clone(), 55_890, &LAWS, &SITUATIONS);
    // Most of the minute that these take together.
    holds(World { crashes: 1, ..talkative }, 1_123_106, &LAWS, &SITUATIONS);
}

/// All disks that a world can come to have.
fn outcomes(world: &World) -> BTreeSet<Vec<Record>> {
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let mut outcomes = BTreeSet::new();
    let mut open = world.init_states();
    while let Some(state) = open.pop() {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            continue;
        }
        let mut actions = Vec::new();
        world.actions(&state, &mut actions);
        open.extend(actions.into_iter().filter_map(|action| world.next_state(&state, action)));
        outcomes.insert(state.nodes.iter().map(|node| node.disk.clone()).collect());
    }
    outcomes
}

#[test]
fn what_is_taken_away_to_make_worlds_smaller_leads_nowhere() {
    let duel = World { crashes: 1, ..QUIET };
    let retry = World { proposers: 1, rounds: 2, crashes: 1, ..QUIET };
    for world in [duel, retry] {
        let whole = World { forgets: false, ..world.clone() };
        assert!(outcomes(&world) == outcomes(&whole), "other outcomes in {world:?}");
        let uncut = World { cuts: false, ..world.clone() };
        assert!(outcomes(&world) == outcomes(&uncut), "other outcomes without cuts in {world:?}");
    }
}

#[test]
fn what_is_broken_is_noticed() {
    let broken = |broken| World { broken: Some(broken), forgets: false, settles: false, ..QUIET };
    let crashing = |how| World { crashes: 1, ..broken(how) };
    notices(crashing(Break::SendsFirst), ONE_DECISION);
    notices(crashing(Break::ForgetsItsPromise), ONE_DECISION);
    notices(crashing(Break::ForgetsWhatItAccepted), ONE_DECISION);
    let forgetful = crashing(Break::ForgetsEverything);
    notices(World { proposers: 1, rounds: 2, lost: Lost::None, ..forgetful }, ONE_DECISION);
    notices(broken(Break::AcceptsAgainstItsPromise), ONE_DECISION);
    notices(broken(Break::IgnoresAcceptedValues), ONE_DECISION);
    notices(World { settles: true, ..broken(Break::LosesTimers) }, SETTLES);
    notices(World { members: 4, ..broken(Break::GivesUpTheLiving) }, ONE_DECISION);
}
