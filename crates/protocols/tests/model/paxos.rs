//! Three members, two of which propose.

use std::collections::BTreeSet;
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
    /// No timer ever fires.
    LosesTimers,
}

/// The world: how much may happen.
#[derive(Clone, Debug)]
struct World {
    crashes: u8,
    /// Who crashes.
    crashing: usize,
    /// Whether it then proposes something else.
    proposes_again: bool,
    retries: u8,
    /// How many members propose.
    proposers: usize,
    /// Whether all messages are lost that only hasten: rejects, and whatever is said of decisions. Such
    /// a world is smaller and no kinder: nobody is kept from deciding something else by knowing better.
    terse: bool,
    broken: Option<Break>,
    /// Whether to try from every state if all comes to an end; that costs a run each.
    settles: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    nodes: Vec<Node>,
    sent: BTreeSet<Envelope>,
    proposed: BTreeSet<Value>,
    decided: BTreeSet<Value>,
    changed: bool,
    duel: bool,
    crashes: u8,
    retries: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    machine: Paxos,
    disk: Record,
    timers: BTreeSet<Timer>,
    proposals: u8,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Envelope {
    from: usize,
    to: usize,
    message: Message,
}

#[derive(Clone, PartialEq, Debug)]
enum Action {
    Propose(usize),
    /// A message arrives; the node may crash after some of the outputs.
    Deliver(Envelope, Option<usize>),
    /// A round is overdue.
    Retry(usize),
    Crash,
}

fn machine(node: usize, record: Record) -> Paxos {
    let members = (0..3).map(NodeId).collect();
    Paxos::restored(NodeId(node as u64), members, Duration::from_millis(10), record)
}

fn is_reject(output: &Output) -> bool {
    matches!(output, Output::Send { message: Message::Reject { .. }, .. })
}

fn only_hastens(output: &Output) -> bool {
    let Output::Send { message, .. } = output else { return false };
    is_reject(output) || matches!(message, Message::Decide { .. } | Message::Learned | Message::Ask)
}

fn value(text: String) -> Value {
    Value::new(text.into_bytes()).unwrap()
}

impl World {
    fn propose(&self, state: &mut State, node: usize) {
        // Another life proposes something else: the same ballot must not serve both.
        let proposal = value(format!("{node}.{}", state.nodes[node].proposals));
        state.nodes[node].proposals += 1;
        state.proposed.insert(proposal.clone());
        self.step(state, node, Input::Propose(proposal), None);
    }

    fn deliver(&self, state: &mut State, envelope: Envelope, cut: Option<usize>) {
        let Envelope { from, to, mut message } = envelope;
        if self.broken == Some(Break::AcceptsAgainstItsPromise)
            && let Message::Accept { ballot, .. } = &message
            && state.nodes[to].disk.promised > Some(*ballot)
            && state.nodes[to].disk.decided.is_none()
        {
            let accepted = state.nodes[to].disk.accepted.clone();
            let promised = accepted.as_ref().map(|vote| vote.ballot);
            let record = Record { promised, accepted, decided: None };
            state.nodes[to].machine = machine(to, record);
        }
        if self.broken == Some(Break::IgnoresAcceptedValues)
            && let Message::Promised { accepted, .. } = &mut message
        {
            *accepted = None;
        }
        let input = Input::Received { from: NodeId(from as u64), message };
        self.step(state, to, input, cut);
    }

    fn step(&self, state: &mut State, node: usize, input: Input, cut: Option<usize>) {
        let mut outputs = state.nodes[node].machine.step(Time::default(), input);
        if self.broken == Some(Break::SendsFirst) {
            outputs.sort_by_key(|output| matches!(output, Output::Persist(_)));
        }
        for output in outputs.into_iter().take(cut.unwrap_or(usize::MAX)) {
            state.duel |= is_reject(&output);
            if !self.terse || !only_hastens(&output) {
                state.perform(node, output);
            }
        }
        if cut.is_some() {
            self.crash(state, node);
        }
    }

    fn crash(&self, state: &mut State, node: usize) {
        state.crashes -= 1;
        let disk = state.nodes[node].disk.clone();
        state.nodes[node].machine = machine(node, disk);
        state.nodes[node].timers.clear();
        self.step(state, node, Input::Restarted, None);
    }

    fn fire(&self, state: &mut State, node: usize, timer: Timer) {
        if self.broken != Some(Break::LosesTimers) && state.nodes[node].timers.remove(&timer) {
            self.step(state, node, Input::TimerFired(timer), None);
        }
    }

    /// Whether everyone learns a decision if all that was under way is lost, but nothing after.
    fn settles(&self, state: &State) -> bool {
        let calm = Self { terse: false, ..self.clone() };
        let mut state = state.clone();
        state.sent.clear();
        // Somebody goes on wanting it: that is the owner's part after a crash.
        calm.propose(&mut state, 0);
        for _ in 0..3 {
            for node in 0..3 {
                calm.fire(&mut state, node, Timer::DecisionOverdue);
                calm.fire(&mut state, node, Timer::AcknowledgementsOverdue);
                calm.deliver_all(&mut state);
            }
            // The pauses of two that duel differ, so one of them is first.
            calm.fire(&mut state, 0, Timer::RoundOverdue);
            calm.deliver_all(&mut state);
        }
        state.all_know()
    }

    fn deliver_all(&self, state: &mut State) {
        while let Some(envelope) = state.sent.pop_first() {
            self.deliver(state, envelope, None);
        }
    }
}

impl State {
    fn perform(&mut self, from: usize, output: Output) {
        match output {
            Output::Persist(record) => {
                let known = self.nodes[from].disk.decided.clone();
                self.changed |= known.is_some() && known != record.decided;
                self.nodes[from].disk = record;
            }
            Output::Send { to, message } => {
                self.sent.insert(Envelope { from, to: to.0 as usize, message });
            }
            Output::SetTimer { timer, .. } => {
                self.nodes[from].timers.insert(timer);
            }
            Output::Decided(value) => {
                self.decided.insert(value);
            }
        }
    }

    fn all_know(&self) -> bool {
        self.nodes.iter().all(|node| node.disk.decided.is_some())
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

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let node = |node| Node {
            machine: machine(node, Record::default()),
            disk: Record::default(),
            timers: BTreeSet::new(),
            proposals: 0,
        };
        vec![State {
            nodes: (0..3).map(node).collect(),
            sent: BTreeSet::new(),
            proposed: BTreeSet::new(),
            decided: BTreeSet::new(),
            changed: false,
            duel: false,
            crashes: self.crashes,
            retries: self.retries,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let again = if self.proposes_again { self.crashes - state.crashes } else { 0 };
        let proposals = |node| if node == self.crashing { 1 + again } else { 1 };
        for node in 0..self.proposers {
            if state.nodes[node].proposals < proposals(node) {
                actions.push(Action::Propose(node));
            }
            if state.retries > 0 && state.nodes[node].timers.contains(&Timer::RoundOverdue) {
                actions.push(Action::Retry(node));
            }
        }
        actions.extend(state.sent.iter().map(|sent| Action::Deliver(sent.clone(), None)));
        if state.crashes > 0 {
            actions.push(Action::Crash);
            // After no output is a crash and a loss; after all is a delivery and a crash.
            let cuts = |sent: &Envelope| {
                let sent = sent.clone();
                (1..3).map(move |cut| Action::Deliver(sent.clone(), Some(cut)))
            };
            let to_it = state.sent.iter().filter(|sent| sent.to == self.crashing);
            actions.extend(to_it.flat_map(cuts));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Propose(node) => self.propose(&mut state, node),
            Action::Deliver(envelope, cut) => self.deliver(&mut state, envelope, cut),
            Action::Retry(node) => {
                state.retries -= 1;
                self.fire(&mut state, node, Timer::RoundOverdue);
            }
            Action::Crash => self.crash(&mut state, self.crashing),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_DECISION, |_, state: &State| state.decided.len() <= 1),
            Property::always(FINAL, |_, state: &State| !state.changed),
            Property::always(PROPOSED, |_, state: &State| state.decided.is_subset(&state.proposed)),
            Property::always(SETTLES, |world: &Self, state: &State| {
                !world.settles || world.settles(state)
            }),
            Property::sometimes(DUEL, |_, state: &State| state.duel),
            Property::sometimes(TAKE_OVER, |_, state: &State| state.taken_over()),
            Property::sometimes(DECIDED, |_, state: &State| !state.decided.is_empty()),
        ]
    }
}

const QUIET: World = World {
    crashes: 0,
    crashing: 0,
    proposes_again: false,
    retries: 0,
    proposers: 2,
    terse: true,
    broken: None,
    settles: true,
};

const SITUATIONS: [&str; 3] = [DUEL, TAKE_OVER, DECIDED];

#[test]
fn one_value_is_decided_when_two_duel() {
    holds(QUIET, &LAWS, &SITUATIONS);
}

#[test]
fn one_value_is_decided_when_an_acceptor_crashes() {
    holds(World { crashes: 1, crashing: 2, ..QUIET }, &LAWS, &SITUATIONS);
}

#[test]
fn one_value_is_decided_when_a_proposer_crashes() {
    holds(World { crashes: 1, crashing: 0, ..QUIET }, &LAWS, &SITUATIONS);
}

#[test]
fn one_value_is_decided_when_another_life_proposes_another() {
    let again = World { crashes: 1, crashing: 0, proposes_again: true, proposers: 1, ..QUIET };
    holds(again, &LAWS, &[DECIDED]);
}

#[test]
fn one_value_is_decided_when_one_tries_again() {
    holds(World { retries: 1, proposers: 1, ..QUIET }, &LAWS, &[DECIDED]);
}

#[test]
fn all_learn_the_decision() {
    holds(World { proposers: 1, terse: false, ..QUIET }, &LAWS, &[DECIDED]);
}

#[test]
fn what_is_broken_is_noticed() {
    let broken = |broken| World { broken: Some(broken), settles: false, ..QUIET };
    let sends_first = World { crashes: 1, crashing: 2, ..broken(Break::SendsFirst) };
    notices(sends_first, ONE_DECISION);
    notices(broken(Break::AcceptsAgainstItsPromise), ONE_DECISION);
    notices(broken(Break::IgnoresAcceptedValues), ONE_DECISION);
    notices(World { settles: true, ..broken(Break::LosesTimers) }, SETTLES);
}
