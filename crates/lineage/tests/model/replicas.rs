//! Replicas of one execution, each free to go on alone: the widest custody there is.

use std::collections::BTreeSet;

use outlast_lineage::{
    BranchId, Conduct, Decision, Digest, Digester, Effect, EffectId, EffectState, Epoch,
    ExecutionId, Head, Knowledge, Ledger, Lineage, NodeId, OperationKey, Owed, Pivot, Point,
    Recourse, Reversal, StateId, Undo, UndoWay, owed,
};
use stateright::{Model, Property};

use crate::provider::{Deed, Provider};
use crate::rules;

/// A law left out on purpose, to see that it is missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Break {
    UndoesDuplicates,
    AsksAgainBlindly,
    ForgetsLosers,
    UndoesInOrderOfDoing,
    ResumesItsTerm,
    RunsPivotsUnasked,
    LateAnswersAdvance,
    LateAnswersVanish,
}

/// The world: how many replicas, what the flow does, and how much may go wrong.
#[derive(Clone, Debug)]
pub(crate) struct Replicas {
    pub(crate) nodes: usize,
    pub(crate) activities: Vec<Conduct>,
    pub(crate) restarts: u8,
    pub(crate) losses: u8,
    /// How often a replica may follow another's line before the decision.
    pub(crate) reunions: u8,
    pub(crate) broken: Option<Break>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(crate) nodes: Vec<Node>,
    /// Calls and answers on their way.
    pub(crate) calls: BTreeSet<Call>,
    pub(crate) provider: Provider,
    pub(crate) pivots: Vec<Pivot>,
    /// What was decided, and the ledger that all have merged theirs into.
    pub(crate) agreed: Option<(Decision, Ledger)>,
    pub(crate) produced: BTreeSet<StateId>,
    pub(crate) broken_laws: BTreeSet<&'static str>,
    pub(crate) late_answers: bool,
    restarts: u8,
    losses: u8,
    reunions: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Node {
    id: NodeId,
    epoch: Epoch,
    /// The last state it made in this term.
    last: Option<Point>,
    pub(crate) control: Control,
    pub(crate) knowledge: Knowledge,
}

/// The control state: what a replica takes over from another.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Control {
    pub(crate) line: Lineage,
    past: Vec<EffectId>,
    incarnation: u64,
    open: Option<EffectId>,
    /// Whether this replica itself waits for the answer, or only knows that someone asked.
    waiting: bool,
    parked: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Call {
    node: usize,
    epoch: Epoch,
    deed: Deed,
    pub(crate) acted: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Action {
    /// A replica writes down that it will run the next activity, and calls.
    Intend(usize),
    /// A replica does what may be done about a call that it does not wait for.
    Resume(usize),
    /// A call arrives at the provider.
    Act(Call),
    /// An answer arrives at the caller, or at what has become of it.
    Answer(Call),
    /// A call or its answer is lost, and the caller stops waiting.
    Lose(Call),
    /// A replica stops and starts again with what it had written down.
    Restart(usize),
    /// A replica learns what another knows, and follows the line it would pick.
    Gossip { from: usize, to: usize },
    /// All replicas are connected, tell each other everything and decide.
    Decide,
    /// The next undo that is owed is done; the one doing it may die before it has noted so.
    Undo { noted: bool },
}

impl Model for Replicas {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let node = |index| Node {
            id: NodeId(index as u64),
            epoch: Epoch(0),
            last: None,
            control: Control::default(),
            knowledge: Knowledge::default(),
        };
        vec![State {
            nodes: (0..self.nodes).map(node).collect(),
            calls: BTreeSet::new(),
            provider: Provider::default(),
            pivots: Vec::new(),
            agreed: None,
            produced: BTreeSet::new(),
            broken_laws: BTreeSet::new(),
            late_answers: false,
            restarts: self.restarts,
            losses: self.losses,
            reunions: self.reunions,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let on_their_way = || state.calls.iter().cloned();
        actions.extend(on_their_way().filter(|call| call.acted).map(Action::Answer));
        if state.agreed.is_some() {
            if !self.owed(state).undo.is_empty() {
                actions.push(Action::Undo { noted: true });
                if state.restarts > 0 {
                    actions.push(Action::Undo { noted: false });
                }
            }
            return;
        }
        // Calls that left go first: their arrival commutes with all else that could happen now, so
        // trying it at every later moment would show nothing new.
        if let Some(call) = on_their_way().find(|call| !call.acted) {
            actions.extend([Action::Act(call.clone()), Action::Lose(call)]);
            return;
        }
        for index in 0..self.nodes {
            actions.extend([Action::Intend(index), Action::Resume(index), Action::Restart(index)]);
            let others = (0..self.nodes).filter(|from| *from != index);
            actions.extend(others.map(|from| Action::Gossip { from, to: index }));
        }
        actions.extend(on_their_way().map(Action::Lose));
        actions.push(Action::Decide);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Intend(node) => self.begin(&mut state, node)?,
            Action::Resume(node) => self.resume(&mut state, node)?,
            Action::Act(call) => self.act(&mut state, call),
            Action::Answer(call) => self.answer(&mut state, &call),
            Action::Lose(call) => Self::lose(&mut state, &call)?,
            Action::Restart(node) => self.restart(&mut state, node)?,
            Action::Gossip { from, to } => Self::gossip(&mut state, from, to)?,
            Action::Decide => self.decide(&mut state)?,
            Action::Undo { noted } => self.undo(&mut state, noted),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let laws = rules::LAWS.into_iter().map(|(name, law)| Property::always(name, law));
        let situations = rules::SITUATIONS.into_iter();
        laws.chain(situations.map(|(name, reached)| Property::sometimes(name, reached))).collect()
    }
}

impl Replicas {
    /// What is owed under the decision, as far as the broken law lets us see it.
    pub(crate) fn owed(&self, state: &State) -> Owed {
        let Some((decision, ledger)) = &state.agreed else { return Owed::default() };
        let mut owed = owed(ledger, decision, |_, effect| self.activities[effect.task as usize]);
        if self.broken == Some(Break::UndoesDuplicates) {
            let done =
                |id: &EffectId| ledger.get(id).is_some_and(|e| e.state < EffectState::Undone);
            let dropped = owed.dropped.iter().map(|dropped| dropped.effect).filter(done);
            let way = UndoWay::WithResult;
            owed.undo.extend(dropped.map(|effect| Undo { effect, same: Vec::new(), way }));
        }
        if self.broken == Some(Break::UndoesInOrderOfDoing) {
            owed.undo.reverse();
        }
        owed
    }

    fn begin(&self, state: &mut State, index: usize) -> Option<()> {
        let control = &state.nodes[index].control;
        let idle = control.open.is_none() && !control.parked;
        let activity = control.past.len();
        (idle && activity < self.activities.len()).then_some(())?;
        self.intend(state, index, activity)
    }

    /// Writes down the intent, asks for leave if it is a pivot, and calls.
    fn intend(&self, state: &mut State, index: usize, activity: usize) -> Option<()> {
        let id = EffectId { branch: BranchId::TRUNK, point: state.extend(index).point };
        let control = &mut state.nodes[index].control;
        control.open = Some(id);
        if self.activities[activity].reversal == Reversal::Impossible {
            let pivot = Pivot {
                execution: EXECUTION,
                place: Digester::new("place").number(activity as u64).finish(),
                branch: BranchId::TRUNK,
                lineage: control.line.clone(),
            };
            let asks = self.broken != Some(Break::RunsPivotsUnasked);
            let taken = state.pivots.iter().any(|known| known.place == pivot.place);
            (!(asks && taken)).then_some(())?;
            state.pivots.push(pivot);
        }
        let request = self.request(&state.nodes[index]);
        let key = key(activity, state.nodes[index].control.incarnation, &request);
        let effect = Effect::intended(key, activity as u32);
        state.nodes[index].knowledge.ledger.record(id, effect);
        state.call(index, id, key, activity);
        Some(())
    }

    /// What a replica would ask for next: it holds what the calls before it answered. One that acts
    /// each time answers differently each time.
    fn request(&self, node: &Node) -> Digest {
        let mut request = Digester::new("request");
        for (activity, id) in node.control.past.iter().enumerate() {
            let effect = node.knowledge.ledger.get(id).expect("a replica knows its past");
            request = match self.activities[activity].deduplicates() {
                true => request.field(effect.key.digest().as_bytes()),
                false => request.field(format!("{id:?}").as_bytes()),
            };
        }
        request.finish()
    }

    /// Takes up a call that someone else made, or that was made before a restart or a loss.
    fn resume(&self, state: &mut State, index: usize) -> Option<()> {
        let control = &state.nodes[index].control;
        let open = control.open.filter(|_| !control.waiting && !control.parked)?;
        let activity = control.past.len();
        let recourse = match self.broken {
            Some(Break::AsksAgainBlindly) => Recourse::AskAgain,
            _ => self.activities[activity].recourse_if_wanted(),
        };
        match recourse {
            Recourse::AskAgain => {
                state.nodes[index].begin_term_if_needed();
                let key = state.nodes[index].knowledge.ledger.get(&open)?.key;
                state.call(index, open, key, activity);
            }
            // The undo of what is left behind is owed by the decision; the line goes on without it.
            Recourse::Undo => {
                state.nodes[index].control.incarnation += 1;
                self.intend(state, index, activity)?;
            }
            Recourse::Nothing | Recourse::Park => state.nodes[index].control.parked = true,
        }
        Some(())
    }

    fn act(&self, state: &mut State, call: Call) {
        state.calls.remove(&call);
        state.provider.act(call.deed.clone(), self.activities[call.deed.activity]);
        state.calls.insert(Call { acted: true, ..call });
    }

    fn answer(&self, state: &mut State, call: &Call) {
        state.calls.remove(call);
        let effect = call.deed.effect;
        if let Some((_, ledger)) = &mut state.agreed {
            if ledger.get(&effect).is_some() {
                ledger.raise(&effect, EffectState::Done);
            }
            return;
        }
        let node = &state.nodes[call.node];
        let awaited = node.epoch == call.epoch && node.control.open == Some(effect);
        let before = node.control.clone();
        if (awaited && node.control.waiting) || self.broken == Some(Break::LateAnswersAdvance) {
            state.commit(call.node, effect);
        } else if self.broken != Some(Break::LateAnswersVanish) {
            state.nodes[call.node].knowledge.ledger.raise(&effect, EffectState::Done);
        }
        if !(awaited && before.waiting) {
            state.late_answers = true;
            let node = &state.nodes[call.node];
            let entered = node.knowledge.ledger.get(&effect).map(|entry| entry.state);
            if node.control != before || entered < Some(EffectState::Done) {
                state.broken_laws.insert(rules::LATE_ANSWERS);
            }
        }
    }

    fn lose(state: &mut State, call: &Call) -> Option<()> {
        state.losses = state.losses.checked_sub(1)?;
        state.calls.remove(call);
        let node = &mut state.nodes[call.node];
        if node.epoch == call.epoch && node.control.open == Some(call.deed.effect) {
            node.control.waiting = false;
        }
        Some(())
    }

    fn restart(&self, state: &mut State, index: usize) -> Option<()> {
        state.restarts = state.restarts.checked_sub(1)?;
        let node = &mut state.nodes[index];
        node.control.waiting = false;
        if self.broken == Some(Break::ResumesItsTerm) {
            // What was written down last is gone, and the term with it is not given up.
            node.control = Control::default();
        } else {
            node.epoch.0 += 1;
        }
        node.last = None;
        Some(())
    }

    /// Gossip that changes no mind is left out: merging may happen in any order and any number of
    /// times, so what it tells comes with the next that does, or with the decision.
    fn gossip(state: &mut State, from: usize, to: usize) -> Option<()> {
        state.reunions = state.reunions.checked_sub(1)?;
        let theirs = state.nodes[from].clone();
        let pivots = state.pivots.clone();
        let ours = &mut state.nodes[to];
        ours.knowledge.merge(&theirs.knowledge);
        let decision = ours.knowledge.heads.pick(&pivots);
        let picked = decision.line(BranchId::TRUNK);
        let follows = picked != Some(&ours.control.line) && picked == Some(&theirs.control.line);
        ours.control = Control { waiting: false, parked: false, ..theirs.control };
        follows.then_some(())
    }

    fn decide(&self, state: &mut State) -> Option<()> {
        let done = |node: &Node| node.control.past.len() == self.activities.len();
        state.nodes.iter().any(done).then_some(())?;
        let mut all = Knowledge::default();
        state.nodes.iter().for_each(|node| all.merge(&node.knowledge));
        let decision = all.heads.pick(&state.pivots);
        if self.broken == Some(Break::ForgetsLosers) {
            let line = decision.line(BranchId::TRUNK)?;
            let winner = state.nodes.iter().find(|node| node.control.line == *line)?;
            all.ledger = winner.knowledge.ledger.clone();
        }
        state.agreed = Some((decision, all.ledger));
        Some(())
    }

    fn undo(&self, state: &mut State, noted: bool) {
        let undo = self.owed(state).undo.remove(0);
        state.restarts -= u8::from(!noted);
        let (_, ledger) = state.agreed.as_mut().expect("something is owed");
        let Effect { key, task, .. } = *ledger.get(&undo.effect).expect("what is owed is known");
        let activity = task as usize;
        let conduct = self.activities[activity];
        if undo.way == UndoWay::AskFirst {
            let deed = Deed { effect: undo.effect, key, activity, past: vec![], undone: false };
            state.provider.act(deed, conduct);
        }
        if state.provider.undo(&undo.effect, key, conduct) {
            state.broken_laws.insert(rules::UNDO_ORDER);
        }
        let reached = if noted { EffectState::Undone } else { EffectState::Undoing };
        undo.members().for_each(|id| ledger.raise(id, reached));
    }
}

impl State {
    /// Adds a state to a replica's line.
    fn extend(&mut self, index: usize) -> StateId {
        let node = &mut self.nodes[index];
        node.begin_term_if_needed();
        let point = node.control.line.extend(node.id, node.epoch);
        node.last = Some(point);
        node.learn_own_head();
        let state = StateId { branch: BranchId::TRUNK, point };
        if !self.produced.insert(state) {
            self.broken_laws.insert(rules::STATE_IDS);
        }
        state
    }

    fn call(&mut self, index: usize, effect: EffectId, key: OperationKey, activity: usize) {
        let node = &mut self.nodes[index];
        node.control.waiting = true;
        let past = node.control.past.clone();
        let deed = Deed { effect, key, activity, past, undone: false };
        self.calls.insert(Call { node: index, epoch: node.epoch, deed, acted: false });
    }

    fn commit(&mut self, index: usize, effect: EffectId) {
        let state = self.extend(index);
        let node = &mut self.nodes[index];
        node.knowledge.ledger.commit(&effect, state);
        node.control.past.push(effect);
        node.control.open = None;
        node.control.waiting = false;
        node.control.incarnation = 0;
        node.learn_own_head();
    }
}

impl Node {
    /// A replica that goes on from a state which is not its last begins a new term.
    fn begin_term_if_needed(&mut self) {
        if self.last.is_some() && self.last != self.control.line.head() {
            self.epoch.0 += 1;
            self.last = None;
        }
    }

    fn learn_own_head(&mut self) {
        let progress = self.control.past.len() as u64;
        let head = Head { lineage: self.control.line.clone(), progress, origin: None };
        self.knowledge.heads.insert(BranchId::TRUNK, head);
    }
}

const EXECUTION: ExecutionId = ExecutionId::from_bytes([5; 16]);

/// The operation key of an activity: the same on every line that asks for the same, until it is
/// called anew.
fn key(activity: usize, incarnation: u64, request: &Digest) -> OperationKey {
    let place = Digester::new("place").number(activity as u64).number(incarnation).finish();
    OperationKey::new(EXECUTION, &place, request)
}
