//! One coordinator and two participants, one of which may be lost for good.

use std::collections::BTreeSet;
use std::time::Duration;

use outlast_lineage::{NodeId, Time};
use outlast_protocols::two_phase::{Coordinator, Message, Participant, coordinator, participant};
use stateright::{Model, Property};

use crate::{holds, notices};

const NEEDED: &str = "nobody forgets what another may still need";
const PRUNED: &str = "the coordinator ends after everyone else has forgotten";
const SETTLES: &str = "once all are up, everyone forgets";
const ENDED: &str = "everyone has forgotten, nobody was lost";
const FENCED: &str = "everyone else has forgotten, one was lost for good";
const DOUBTFUL: &str = "one has forgotten while another is in doubt";
const LAWS: [&str; 3] = [NEEDED, PRUNED, SETTLES];

/// A participant needs nothing any more, and knows who coordinates.
const FINISHED: participant::Input =
    participant::Input::Finished { coordinator: Some(NodeId(COORDINATOR as u64)) };
const PATIENCE: Duration = Duration::from_millis(10);
const COORDINATOR: usize = 0;

/// Something left out on purpose, to see that it is missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Break {
    /// Messages leave before the record that they rest on is durable.
    SendsFirst,
    /// One that still needs everything says that it is ready.
    AnswersUnready,
    /// One that is only slow is fenced out.
    FencesTheLiving,
    /// The coordinator comes back without its record.
    LosesTheBeginning,
}

#[derive(Clone, Debug)]
struct World {
    crashes: u8,
    losses: u8,
    broken: Option<Break>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    coordinator: Coordinator,
    coordinator_disk: Option<coordinator::Record>,
    /// The coordinator's alarm, then those of the participants.
    alarms: [bool; 3],
    participants: [Participant; 2],
    disks: [Option<participant::Record>; 2],
    lost: [bool; 2],
    /// Who has forgotten: the coordinator's owner, then the participants.
    forgotten: [bool; 3],
    ended: bool,
    sent: BTreeSet<Envelope>,
    crashes: u8,
    losses: u8,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Envelope {
    from: usize,
    to: usize,
    message: Message,
}

#[derive(Clone, PartialEq, Debug)]
enum Action {
    Begin(Cut),
    /// A participant needs nothing any more.
    Finish(usize, Cut),
    /// A message arrives.
    Deliver(Envelope, Cut),
    /// An answer is overdue.
    Ring(usize, Cut),
    Crash(usize),
    /// A participant is gone with its disk.
    Lose(usize),
    Fence(usize, Cut),
}

/// After how many outputs of the step the node crashes, if it does.
type Cut = Option<usize>;

fn id(node: usize) -> NodeId {
    NodeId(node as u64)
}

/// The other replicas of a participant.
fn peers(node: usize) -> BTreeSet<NodeId> {
    (0..3).filter(|peer| *peer != node).map(id).collect()
}

impl World {
    fn ask(&self, state: &mut State, input: coordinator::Input, cut: Cut) {
        let mut outputs = state.coordinator.step(Time::default(), input);
        if self.broken == Some(Break::SendsFirst) {
            outputs.sort_by_key(|output| matches!(output, coordinator::Output::Persist(_)));
        }
        for output in outputs.into_iter().take(cut.unwrap_or(usize::MAX)) {
            state.perform(output);
        }
        if cut.is_some() {
            self.crash(state, COORDINATOR);
        }
    }

    fn tell(&self, state: &mut State, node: usize, input: participant::Input, cut: Cut) {
        if state.lost[node - 1] {
            return;
        }
        let mut outputs = state.participants[node - 1].step(Time::default(), input);
        if self.broken == Some(Break::SendsFirst) {
            outputs.sort_by_key(|output| matches!(output, participant::Output::Persist(_)));
        }
        for output in outputs.into_iter().take(cut.unwrap_or(usize::MAX)) {
            state.perform_at(node, output);
        }
        if cut.is_some() {
            self.crash(state, node);
        }
    }

    fn deliver(&self, state: &mut State, envelope: Envelope, cut: Cut) {
        let Envelope { from, to, message } = envelope;
        if to == COORDINATOR {
            let input = coordinator::Input::Received { from: id(from), message };
            return self.ask(state, input, cut);
        }
        if self.broken == Some(Break::AnswersUnready) && message == Message::Prepare {
            state.send(to, COORDINATOR, Message::Prepared);
        }
        self.tell(state, to, participant::Input::Received { from: id(from), message }, cut);
    }

    fn crash(&self, state: &mut State, node: usize) {
        state.crashes -= 1;
        state.alarms[node] = false;
        if node != COORDINATOR {
            state.participants[node - 1] = match state.disks[node - 1] {
                Some(record) => Participant::restored(peers(node), PATIENCE, record),
                None => Participant::new(peers(node), PATIENCE),
            };
            return self.tell(state, node, participant::Input::Restarted, None);
        }
        let lost = self.broken == Some(Break::LosesTheBeginning);
        state.coordinator = match state.coordinator_disk.clone().filter(|_| !lost) {
            Some(record) => Coordinator::restored(PATIENCE, record),
            None => Coordinator::new(PATIENCE),
        };
        self.ask(state, coordinator::Input::Restarted, None);
    }

    fn ring(&self, state: &mut State, node: usize, cut: Cut) {
        if !std::mem::take(&mut state.alarms[node]) {
            return;
        }
        if node == COORDINATOR {
            let timer = coordinator::Timer::AnswersOverdue;
            return self.ask(state, coordinator::Input::TimerFired(timer), cut);
        }
        let timer = participant::Timer::OutcomeOverdue;
        self.tell(state, node, participant::Input::TimerFired(timer), cut);
    }

    /// Every step that can be taken, each cut short in the same place.
    fn steps(&self, state: &State, cut: Cut, actions: &mut Vec<Action>) {
        if state.coordinator_disk.is_none() {
            actions.push(Action::Begin(cut));
        }
        let unfinished = (1..3).filter(|node| state.disks[node - 1].is_none());
        actions.extend(unfinished.map(|node| Action::Finish(node, cut)));
        let alarmed = (0..3).filter(|node| state.alarms[*node]);
        actions.extend(alarmed.map(|node| Action::Ring(node, cut)));
        let lost =
            |node: &usize| state.lost[node - 1] || self.broken == Some(Break::FencesTheLiving);
        actions.extend((1..3).filter(lost).map(|node| Action::Fence(node, cut)));
        actions.extend(state.sent.iter().map(|sent| Action::Deliver(sent.clone(), cut)));
    }

    /// Whether everyone forgets if all that was under way is lost, but nothing after.
    fn settles(&self, state: &State) -> bool {
        if state.coordinator_disk.is_none() {
            return true;
        }
        let mut state = state.clone();
        state.sent.clear();
        for node in 1..3 {
            self.tell(&mut state, node, FINISHED, None);
            if state.lost[node - 1] {
                self.ask(&mut state, coordinator::Input::Fenced(id(node)), None);
            }
        }
        for _ in 0..4 {
            (0..3).for_each(|node| self.ring(&mut state, node, None));
            while let Some(envelope) = state.sent.pop_first() {
                self.deliver(&mut state, envelope, None);
            }
        }
        state.ended && state.all_living(|state, node| state.forgotten[node])
    }
}

impl State {
    fn perform(&mut self, output: coordinator::Output) {
        match output {
            coordinator::Output::Persist(record) => self.coordinator_disk = Some(record),
            coordinator::Output::Send { to, message } => {
                self.send(COORDINATOR, to.0 as usize, message);
            }
            coordinator::Output::SetTimer { .. } => self.alarms[COORDINATOR] = true,
            coordinator::Output::Committed => self.forgotten[COORDINATOR] = true,
            coordinator::Output::Ended => self.ended = true,
        }
    }

    fn perform_at(&mut self, node: usize, output: participant::Output) {
        match output {
            participant::Output::Persist(record) => self.disks[node - 1] = Some(record),
            participant::Output::Send { to, message } => self.send(node, to.0 as usize, message),
            participant::Output::SetTimer { .. } => self.alarms[node] = true,
            participant::Output::Forget => self.forgotten[node] = true,
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        self.sent.insert(Envelope { from, to, message });
    }

    fn all_living(&self, holds: impl Fn(&Self, usize) -> bool) -> bool {
        (1..3).all(|node| self.lost[node - 1] || holds(self, node))
    }

    /// A participant needs everything until it is on its disk that it does not.
    fn is_needed(&self) -> bool {
        !self.all_living(|state, node| state.disks[node - 1].is_some())
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            coordinator: Coordinator::new(PATIENCE),
            coordinator_disk: None,
            alarms: [false; 3],
            participants: [1, 2].map(|node| Participant::new(peers(node), PATIENCE)),
            disks: [None; 2],
            lost: [false; 2],
            forgotten: [false; 3],
            ended: false,
            sent: BTreeSet::new(),
            crashes: self.crashes,
            losses: self.losses,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // After no output is a crash and a loss; after all is a step and a crash.
        let cuts = if state.crashes > 0 { 4 } else { 1 };
        for cut in (0..cuts).map(|outputs| (outputs > 0).then_some(outputs)) {
            self.steps(state, cut, actions);
        }
        if state.losses > 0 {
            actions.extend((1..3).map(Action::Lose));
        }
        if state.crashes > 0 {
            actions.extend((0..3).map(Action::Crash));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Begin(cut) => {
                let participants = BTreeSet::from([id(1), id(2)]);
                self.ask(&mut state, coordinator::Input::Begin(participants), cut);
            }
            Action::Finish(node, cut) => {
                self.tell(&mut state, node, FINISHED, cut);
            }
            Action::Deliver(envelope, cut) => self.deliver(&mut state, envelope, cut),
            Action::Ring(node, cut) => self.ring(&mut state, node, cut),
            Action::Crash(node) => self.crash(&mut state, node),
            Action::Lose(node) => {
                state.losses -= 1;
                state.lost[node - 1] = true;
            }
            Action::Fence(node, cut) => {
                self.ask(&mut state, coordinator::Input::Fenced(id(node)), cut);
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NEEDED, |_, state: &State| {
                !state.forgotten.contains(&true) || !state.is_needed()
            }),
            Property::always(PRUNED, |_, state: &State| {
                !state.ended || state.all_living(|state, node| state.forgotten[node])
            }),
            Property::always(SETTLES, |world: &Self, state: &State| world.settles(state)),
            Property::sometimes(ENDED, |_, state: &State| {
                state.ended && state.forgotten == [true; 3] && state.lost == [false; 2]
            }),
            Property::sometimes(FENCED, |_, state: &State| {
                state.ended && state.lost.contains(&true)
            }),
            Property::sometimes(DOUBTFUL, |_, state: &State| {
                state.forgotten.contains(&true)
                    && state.disks.contains(&Some(participant::Record::Ready))
            }),
        ]
    }
}

const QUIET: World = World { crashes: 0, losses: 0, broken: None };

#[test]
fn nobody_forgets_too_early_when_nodes_crash() {
    holds(World { crashes: 3, ..QUIET }, 9_014, &LAWS, &[ENDED, DOUBTFUL]);
}

#[test]
fn one_that_is_lost_for_good_does_not_hold_up_the_others() {
    holds(World { crashes: 2, losses: 1, ..QUIET }, 35_703, &LAWS, &[ENDED, FENCED, DOUBTFUL]);
}

#[test]
fn what_is_broken_is_noticed() {
    let broken = |broken| World { crashes: 1, broken: Some(broken), ..QUIET };
    notices(broken(Break::SendsFirst), NEEDED);
    notices(broken(Break::AnswersUnready), NEEDED);
    notices(broken(Break::FencesTheLiving), NEEDED);
    notices(broken(Break::LosesTheBeginning), SETTLES);
}
