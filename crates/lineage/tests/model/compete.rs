//! A fork whose branches compete: the first answer wins, and the loser still owes its undo, however
//! late it is heard of.

use std::collections::BTreeSet;

use outlast_lineage::{
    BranchId, Conduct, Decision, Digest, Digester, Effect, EffectId, EffectState, Epoch,
    ExecutionId, Ledger, Lineage, NodeId, OperationKey, Owed, Recourse, StateId, owed,
};
use stateright::{Checker, Model, Property};

use crate::provider::{Deed, Provider};
use crate::{EACH_TIME, ONCE, TOLERANT};

const AUTHOR: NodeId = NodeId(1);
const BRANCHES: [BranchId; 2] = [BranchId(1), BranchId(2)];
const OWED: &str = "what stands of a loser is owed or parked";
const ONE_STANDS: &str = "in the end the winner's effect stands, or a person is told";

/// One node that runs two competing branches, each with one call.
#[derive(Clone, Debug)]
struct Compete {
    conduct: Conduct,
    /// Leaves the law out on purpose: the winner's branch and its ledger are all that is taken up.
    forgets_losers: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    epoch: Epoch,
    trunk: Lineage,
    branches: [Branch; 2],
    ledger: Ledger,
    provider: Provider,
    winner: Option<usize>,
    restarts: u8,
    late_loser: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Branch {
    line: Lineage,
    open: Option<EffectId>,
    incarnation: u64,
    /// Calls that were made and whose answers are on their way, with the term they were made in.
    on_their_way: BTreeSet<(Epoch, EffectId)>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Action {
    /// A branch writes down its intent and calls; the call arrives or is lost.
    Call {
        branch: usize,
        arrives: bool,
    },
    Answer {
        branch: usize,
        epoch: Epoch,
        effect: EffectId,
    },
    Restart,
    Undo,
}

impl Compete {
    fn owed(&self, state: &State) -> Owed {
        if state.winner.is_none() {
            return Owed::default();
        }
        owed(&state.ledger, &Decision::trunk(state.trunk.clone()), |_, _| self.conduct)
    }

    /// Calls for the first time, or does what may be done about an earlier call nobody waits for.
    fn call(&self, state: &mut State, branch: usize, arrives: bool) -> Option<()> {
        let entry = state.branches[branch].open;
        let effect = match entry.map(|_| self.conduct.recourse_if_wanted()) {
            Some(Recourse::AskAgain) => entry?,
            None | Some(Recourse::Undo) => state.intend(branch),
            Some(Recourse::Nothing | Recourse::Park) => return None,
        };
        let key = state.ledger.get(&effect).expect("it was written down").key;
        if arrives {
            let deed = Deed { effect, key, activity: branch, past: Vec::new(), undone: false };
            state.provider.act(deed, self.conduct);
            state.branches[branch].on_their_way.insert((state.epoch, effect));
        }
        Some(())
    }

    fn answer(&self, state: &mut State, branch: usize, epoch: Epoch, effect: EffectId) {
        state.branches[branch].on_their_way.remove(&(epoch, effect));
        let awaited = epoch == state.epoch && state.branches[branch].open == Some(effect);
        if !awaited || state.winner.is_some() {
            state.late_loser |= state.winner.is_some_and(|winner| winner != branch);
            if !(self.forgets_losers && state.winner.is_some()) {
                state.ledger.raise(&effect, EffectState::Done);
            }
            return;
        }
        let id = BRANCHES[branch];
        let point = state.branches[branch].line.extend(AUTHOR, state.epoch);
        state.ledger.commit(&effect, StateId { branch: id, point });
        let join = state.trunk.extend(AUTHOR, state.epoch);
        state.ledger.commit(&effect, StateId { branch: BranchId::TRUNK, point: join });
        state.winner = Some(branch);
        if self.forgets_losers {
            let lost = state.ledger.iter().map(|(id, _)| *id).filter(|id| *id != effect);
            lost.collect::<Vec<_>>().iter().for_each(|id| {
                state.ledger.raise(id, EffectState::Undone);
            });
        }
    }
}

impl State {
    fn intend(&mut self, branch: usize) -> EffectId {
        let fork = self.trunk.at(1).expect("the fork is the first state of the trunk");
        let own = &mut self.branches[branch];
        own.incarnation += u64::from(own.open.is_some());
        let point = own.line.extend(AUTHOR, self.epoch);
        let effect = EffectId { branch: BRANCHES[branch], point };
        own.open = Some(effect);
        let key = key(branch, own.incarnation);
        self.ledger.record(effect, Effect::intended(key, branch as u32));
        self.ledger.fork_from(&effect, vec![StateId { branch: BranchId::TRUNK, point: fork }]);
        effect
    }

    /// Whether a branch has called in this term.
    fn is_waiting(&self, branch: usize) -> bool {
        self.branches[branch].on_their_way.iter().any(|(epoch, _)| *epoch == self.epoch)
    }
}

impl Model for Compete {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut trunk = Lineage::default();
        trunk.extend(AUTHOR, Epoch(0));
        vec![State {
            epoch: Epoch(0),
            trunk,
            branches: Default::default(),
            ledger: Ledger::default(),
            provider: Provider::default(),
            winner: None,
            restarts: 2,
            late_loser: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for branch in 0..BRANCHES.len() {
            let answers = state.branches[branch].on_their_way.iter();
            actions.extend(answers.map(|&(epoch, effect)| Action::Answer {
                branch,
                epoch,
                effect,
            }));
            // A branch calls once in a term: a timeout within one is the same as a restart.
            let called = state.branches[branch].line.highest_epoch(AUTHOR) == Some(state.epoch);
            if state.winner.is_none() && !state.is_waiting(branch) && !called {
                actions.extend([true, false].map(|arrives| Action::Call { branch, arrives }));
            }
        }
        if state.restarts > 0 && state.winner.is_none() {
            actions.push(Action::Restart);
        }
        if !self.owed(state).undo.is_empty() {
            actions.push(Action::Undo);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Call { branch, arrives } => self.call(&mut state, branch, arrives)?,
            Action::Answer { branch, epoch, effect } => {
                self.answer(&mut state, branch, epoch, effect);
            }
            Action::Restart => {
                state.restarts -= 1;
                state.epoch.0 += 1;
            }
            Action::Undo => {
                let undo = self.owed(last).undo.remove(0);
                let key = state.ledger.get(&undo.effect).expect("what is owed is known").key;
                state.provider.undo(&undo.effect, key, self.conduct);
                for id in undo.members() {
                    state.ledger.raise(id, EffectState::Undone);
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(OWED, |model: &Self, state: &State| {
                let Some(winner) = state.winner else { return true };
                let owed = model.owed(state);
                let undone: BTreeSet<_> =
                    owed.undo.iter().flat_map(|undo| undo.members()).collect();
                let parked: BTreeSet<_> = owed.parked.iter().map(|parked| &parked.effect).collect();
                state
                    .provider
                    .standing()
                    .filter(|deed| deed.activity != winner)
                    .all(|deed| undone.contains(&deed.effect) || parked.contains(&deed.effect))
            }),
            Property::always(ONE_STANDS, |model: &Self, state: &State| {
                let owed = model.owed(state);
                let Some(winner) = state.winner.filter(|_| owed.is_settled()) else { return true };
                state.provider.standing().count() == 1
                    && state.provider.standing().all(|deed| deed.activity == winner)
            }),
            Property::sometimes("loser heard of late and undone", |_, state: &State| {
                state.late_loser && state.provider.deeds.iter().any(|deed| deed.undone)
            }),
            Property::sometimes("all settled", |model: &Self, state: &State| {
                state.winner.is_some() && model.owed(state).is_settled()
            }),
        ]
    }
}

fn key(branch: usize, incarnation: u64) -> OperationKey {
    let place = Digester::new("place").number(branch as u64).number(incarnation).finish();
    OperationKey::new(ExecutionId::from_bytes([5; 16]), &place, &Digest::of(b"request"))
}

#[test]
fn compete_losers_owe_their_undo() {
    for conduct in [ONCE, EACH_TIME, TOLERANT] {
        let model = Compete { conduct, forgets_losers: false };
        model.checker().spawn_bfs().join().assert_properties();
    }
}

#[test]
fn forgetting_compete_losers_is_noticed() {
    let model = Compete { conduct: EACH_TIME, forgets_losers: true };
    let checker = model.checker().spawn_bfs().join();
    checker.assert_any_discovery(OWED);
    checker.assert_any_discovery(ONE_STANDS);
}
