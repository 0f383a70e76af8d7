//! Whoever uses the nodes: asks until it is told that it was done, and remembers what it was told.
//!
//! What it wants is a list of wishes. Definitions are registered at every node; then executions are
//! started, each at its own time; then events are published; then it waits for every execution to
//! end. A replicated execution may be asked about anywhere, so a client that gets no answer turns to
//! another node; one without replicas is known only to the node that started it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{
    Ask, Caller, Refusal, Reply, StartAsk, Strategy, Survival, Which, WorkflowVersion,
};
use outlast_expressions::Value;
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::Outcome;

use crate::Plan;

/// What the client wants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Goal {
    /// A definition is registered at a node.
    Define { definition: usize, place: usize },
    /// An execution is started.
    Start(usize),
    /// An event is published.
    Publish(usize),
    /// An execution has ended.
    Wait(usize),
    /// What a node says about an execution when all is over.
    Show { start: usize, place: usize },
}

#[derive(Clone, Debug)]
struct Wish {
    goal: Goal,
    asked: Option<(Caller, usize)>,
    /// Where it is to be asked for next, if someone said so.
    hint: Option<usize>,
    done: bool,
}

/// What a reply means.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Taken {
    /// Nobody waited for it.
    Nothing,
    /// The wish is fulfilled; these come next, each after a time.
    Fulfilled(Vec<(usize, Duration)>),
    /// Not now: ask again.
    Later(usize),
    /// Not here: ask one of these nodes.
    Elsewhere(usize, Vec<NodeId>),
    /// What must not be.
    Wrong(String),
}

/// The client: what it still wants, and what it was told.
#[derive(Clone, Debug)]
pub struct Client {
    plan: Plan,
    /// The place of every execution in the plan.
    starts: BTreeMap<ExecutionId, usize>,
    places: usize,
    /// The only node that knows an execution, if there is only one.
    homes: Vec<Option<usize>>,
    wishes: Vec<Wish>,
    callers: u64,
    asked: BTreeMap<Caller, usize>,
    /// How many wishes of each stage are not fulfilled: definitions, starts, events.
    open: [usize; 3],
    unfulfilled: usize,
    /// Executions that the client was told are started.
    pub acknowledged: BTreeSet<ExecutionId>,
    /// How executions ended, as the client was told first.
    pub ended: BTreeMap<ExecutionId, Outcome>,
    /// Executions that were lost in a way that nobody promised to survive.
    pub forgiven: BTreeSet<ExecutionId>,
    /// Which nodes were asked at the end, and what they said of how an execution ended.
    pub said: BTreeMap<(ExecutionId, usize), Option<Outcome>>,
    /// Executions that people wanted to end. What has failed they may still stop or roll back.
    pub wished: BTreeSet<ExecutionId>,
    /// Refusals that the client did not expect.
    pub refusals: Vec<String>,
}

impl Client {
    /// A client with a plan, for so many nodes.
    pub fn new(plan: Plan, places: usize) -> Self {
        let defines = (0..places).flat_map(|place| {
            (0..plan.definitions.len()).map(move |definition| Goal::Define { definition, place })
        });
        let starts = (0..plan.starts.len()).map(Goal::Start);
        let events = (0..plan.events.len()).map(Goal::Publish);
        let waits = (0..plan.starts.len()).map(Goal::Wait);
        let goals = defines.chain(starts).chain(events).chain(waits);
        let wishes: Vec<_> =
            goals.map(|goal| Wish { goal, asked: None, hint: None, done: false }).collect();
        let home = |start| (!plan.survival(start).is_replicated()).then_some(start % places);
        Self {
            homes: (0..plan.starts.len()).map(home).collect(),
            open: [plan.definitions.len() * places, plan.starts.len(), plan.events.len()],
            unfulfilled: wishes.len(),
            starts: plan.starts.iter().enumerate().map(|(at, start)| (start.id, at)).collect(),
            plan,
            places,
            wishes,
            callers: 0,
            asked: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            ended: BTreeMap::new(),
            forgiven: BTreeSet::new(),
            said: BTreeMap::new(),
            wished: BTreeSet::new(),
            refusals: Vec::new(),
        }
    }

    /// Whether everything is fulfilled.
    pub const fn is_content(&self) -> bool {
        self.unfulfilled == 0
    }

    /// Whether every node knows every definition, so that it asks for executions to be started.
    pub const fn has_defined(&self) -> bool {
        self.open[0] == 0
    }

    /// What it asks for first.
    pub(crate) fn first(&self) -> Vec<(usize, Duration)> {
        self.opened_after(None)
    }

    /// The wishes that may be asked for once the last one of a stage is fulfilled.
    fn opened_after(&self, stage: Option<usize>) -> Vec<(usize, Duration)> {
        let mut next = stage.map_or(0, |stage| stage + 1);
        while next < 3 && self.open[next] == 0 {
            next += 1;
        }
        let of_stage = |(index, wish): (usize, &Wish)| {
            let (stage, delay) = match wish.goal {
                Goal::Define { .. } => (0, Duration::ZERO),
                Goal::Start(start) => (1, self.plan.starts[start].delay),
                Goal::Publish(_) => (2, Duration::ZERO),
                Goal::Wait(_) => (3, Duration::ZERO),
                Goal::Show { .. } => return None,
            };
            (stage == next && !wish.done).then_some((index, delay))
        };
        self.wishes.iter().enumerate().filter_map(of_stage).collect()
    }

    /// At which node a wish must be asked for, if it cannot be any.
    pub(crate) fn place_of(&self, wish: usize) -> Option<usize> {
        match self.wishes[wish].goal {
            Goal::Define { place, .. } | Goal::Show { place, .. } => Some(place),
            // Whoever holds an execution with others hears of it from any of them.
            Goal::Publish(_) if self.homes.iter().all(Option::is_none) => None,
            Goal::Publish(_) => Some(0),
            Goal::Start(start) | Goal::Wait(start) => self.home(start),
        }
    }

    /// Whether it starts an execution itself.
    pub(crate) fn is_start(&self, execution: ExecutionId) -> bool {
        self.starts.contains_key(&execution)
    }

    /// Whether it was told that an execution ran to its end.
    pub(crate) fn has_completed(&self, execution: ExecutionId) -> bool {
        matches!(self.ended.get(&execution), Some(Outcome::Completed(_)))
    }

    /// Whether only one node holds an execution.
    pub(crate) fn is_alone(&self, execution: ExecutionId) -> bool {
        self.starts.get(&execution).is_some_and(|start| self.homes[*start].is_some())
    }

    /// Whether every node that holds an execution executes it.
    pub(crate) fn is_active(&self, execution: ExecutionId) -> bool {
        self.strategy_of(execution) == Strategy::Active
    }

    /// The way in which an execution survives.
    pub(crate) fn strategy_of(&self, execution: ExecutionId) -> Strategy {
        self.survival_of(execution).map_or(Strategy::None, |survival| survival.strategy)
    }

    /// How an execution survives. What others start survives as they do.
    pub(crate) fn survival_of(&self, execution: ExecutionId) -> Option<Survival> {
        let start = self.starts.get(&execution).copied();
        let first = (!self.plan.starts.is_empty()).then_some(0);
        start.or(first).map(|start| self.plan.survival(start))
    }

    /// The only node that knows an execution, if there is only one.
    fn home(&self, start: usize) -> Option<usize> {
        self.homes[start]
    }

    /// Someone said where a wish is to be asked for.
    pub(crate) fn goes_to(&mut self, wish: usize, hint: Option<usize>) {
        self.wishes[wish].hint = hint;
    }

    /// Where someone said that a wish is to be asked for; that counts once.
    pub(crate) fn takes_hint(&mut self, wish: usize) -> Option<usize> {
        self.wishes[wish].hint.take()
    }

    /// Whether a wish is still to be asked for.
    pub(crate) fn wants(&self, wish: usize) -> bool {
        !self.wishes[wish].done && self.wishes[wish].asked.is_none()
    }

    /// What to ask a node for.
    pub(crate) fn ask(&mut self, wish: usize, place: usize) -> (Caller, Ask) {
        self.callers += 1;
        let caller = Caller(self.callers);
        self.wishes[wish].asked = Some((caller, place));
        self.asked.insert(caller, wish);
        let id = |start: usize| Which::Id(self.plan.starts[start].id);
        let ask = match self.wishes[wish].goal {
            Goal::Define { definition, .. } => {
                let (program, text) = &self.plan.definitions[definition];
                Ask::Define { program: Arc::clone(program), text: Arc::clone(text) }
            }
            Goal::Start(start) => self.start_ask(start),
            Goal::Publish(event) => Ask::Publish { event: self.plan.events[event].clone() },
            Goal::Wait(start) => Ask::Wait(id(start)),
            Goal::Show { start, .. } => Ask::Show(id(start)),
        };
        (caller, ask)
    }

    fn start_ask(&self, start: usize) -> Ask {
        let start = &self.plan.starts[start];
        Ask::Start(Box::new(StartAsk {
            id: start.id,
            given: true,
            name: None,
            namespace: start.namespace.clone(),
            workflow: start.workflow.clone(),
            version: WorkflowVersion::Latest,
            input: start.input.clone(),
            salt: *start.id.as_bytes(),
            survival: start.survival.clone(),
        }))
    }

    /// The client is told something.
    pub(crate) fn takes(&mut self, caller: Caller, reply: Reply) -> Taken {
        let Some(wish) = self.asked.remove(&caller) else { return Taken::Nothing };
        let asked = self.wishes[wish].asked.take();
        let place = asked.map_or(0, |(_, place)| place);
        match reply {
            Reply::Refused(refusal) => return self.refused(wish, &refusal),
            Reply::Started { execution, .. } => {
                self.acknowledged.insert(execution);
            }
            Reply::Shown(detail) => {
                let execution = detail.summary.execution;
                if let Err(finding) = self.heard(execution, place, detail.outcome) {
                    return Taken::Wrong(finding);
                }
            }
            _ => {}
        }
        Taken::Fulfilled(self.fulfil(wish))
    }

    /// Someone says how an execution ended.
    fn heard(
        &mut self,
        execution: ExecutionId,
        place: usize,
        outcome: Option<Outcome>,
    ) -> Result<(), String> {
        if let Some(outcome) = &outcome {
            let may_change = self.wished.contains(&execution);
            let first = self.ended.entry(execution).or_insert_with(|| outcome.clone());
            if may_change && matches!(first, Outcome::Faulted(_)) {
                first.clone_from(outcome);
            }
            if first != outcome {
                return Err(format!(
                    "the client was told that {execution} ended as {first:?}, and then by node \
                     {} as {outcome:?}",
                    place + 1
                ));
            }
        }
        self.said.insert((execution, place), outcome);
        Ok(())
    }

    fn refused(&mut self, wish: usize, refusal: &Refusal) -> Taken {
        let goal = self.wishes[wish].goal;
        match (goal, refusal) {
            // What cannot be read now, can be when the disk is well again.
            (_, Refusal::StorageFull | Refusal::Busy { .. } | Refusal::Unreadable { .. }) => {
                Taken::Later(wish)
            }
            (Goal::Start(_), Refusal::Elsewhere { nodes }) => Taken::Elsewhere(wish, nodes.clone()),
            // Not every node has heard of everything.
            (Goal::Show { .. }, Refusal::UnknownExecution(_)) => {
                Taken::Fulfilled(self.fulfil(wish))
            }
            (Goal::Start(start) | Goal::Wait(start), Refusal::UnknownExecution(_))
            | (Goal::Start(start), Refusal::UnknownDefinition(_))
                if self.home(start).is_none() =>
            {
                Taken::Later(wish)
            }
            (Goal::Wait(start), Refusal::UnknownExecution(_)) => {
                let id = self.plan.starts[start].id;
                Taken::Wrong(format!("{id} was acknowledged, and its node has never heard of it"))
            }
            _ => {
                self.refusals.push(format!("{goal:?}: {refusal}"));
                Taken::Wrong(format!("refused: {goal:?}: {refusal}"))
            }
        }
    }

    fn fulfil(&mut self, wish: usize) -> Vec<(usize, Duration)> {
        if std::mem::replace(&mut self.wishes[wish].done, true) {
            return Vec::new();
        }
        self.unfulfilled -= 1;
        let stage = match self.wishes[wish].goal {
            Goal::Define { .. } => 0,
            Goal::Start(_) => 1,
            Goal::Publish(_) => 2,
            Goal::Wait(_) | Goal::Show { .. } => return Vec::new(),
        };
        // Definitions that a new node is taught later open nothing.
        if self.open[stage] == 0 {
            return Vec::new();
        }
        self.open[stage] -= 1;
        if self.open[stage] == 0 { self.opened_after(Some(stage)) } else { Vec::new() }
    }

    /// A caller has waited for too long; says which wish to ask for elsewhere, and whom not to wait for.
    pub(crate) fn tires(&mut self, caller: Caller) -> Option<(usize, usize)> {
        let wish = self.asked.get(&caller).copied()?;
        if self.place_of(wish).is_some() {
            return None;
        }
        self.asked.remove(&caller);
        let (_, place) = self.wishes[wish].asked.take()?;
        Some((wish, place))
    }

    /// A node is gone: whatever was asked there may or may not have been done. Says what to ask for
    /// again.
    pub(crate) fn hangs_up(&mut self, place: usize) -> Vec<usize> {
        let mut again = Vec::new();
        let wishes = &mut self.wishes;
        self.asked.retain(|_, wish| {
            let here = wishes[*wish].asked.is_some_and(|(_, asked)| asked == place);
            if here {
                wishes[*wish].asked = None;
                again.push(*wish);
            }
            !here
        });
        again
    }

    /// A node lost its disk: what only it knew is forgiven, and what nobody knows any more; and it is taught the
    /// definitions again. Says what to ask for.
    pub(crate) fn disk_was_lost(
        &mut self,
        place: usize,
        is_known: impl Fn(ExecutionId) -> bool,
    ) -> Vec<usize> {
        let mut again = Vec::new();
        let shared = (0..self.plan.starts.len()).filter(|start| self.home(*start).is_none());
        let unknown = shared.map(|start| self.plan.starts[start].id).filter(|id| !is_known(*id));
        let unknown: Vec<ExecutionId> = unknown.collect();
        self.forgiven.extend(unknown);
        for index in 0..self.wishes.len() {
            match self.wishes[index].goal {
                Goal::Define { place: at, .. } if at == place && self.wishes[index].done => {
                    self.wishes[index].done = false;
                    self.unfulfilled += 1;
                    self.open[0] += usize::from(self.open[0] > 0);
                    again.push(index);
                }
                Goal::Start(start) if self.home(start) == Some(place) => {
                    self.forgiven.insert(self.plan.starts[start].id);
                    self.give_up(index, &mut again);
                }
                Goal::Wait(start) if self.home(start) == Some(place) => {
                    self.give_up(index, &mut again);
                }
                Goal::Start(start) | Goal::Wait(start)
                    if !self.wishes[index].done
                        && self.forgiven.contains(&self.plan.starts[start].id) =>
                {
                    self.give_up(index, &mut again);
                }
                // An id falls to other nodes when one is replaced: whoever has no answer by then does
                // not ask again.
                Goal::Start(start) | Goal::Wait(start) if self.is_unheard_of(start) => {
                    self.forgiven.insert(self.plan.starts[start].id);
                    self.give_up(index, &mut again);
                }
                _ => {}
            }
        }
        again
    }

    /// Asks again for events to be published that it was told are, as far as they are lost. Says what to
    /// ask for.
    pub(crate) fn publishes_again(
        &mut self,
        mut is_lost: impl FnMut(&Value) -> bool,
    ) -> Vec<usize> {
        let mut again = Vec::new();
        for (index, wish) in self.wishes.iter_mut().enumerate() {
            let Goal::Publish(event) = wish.goal else { continue };
            if wish.done && is_lost(&self.plan.events[event]) {
                wish.done = false;
                self.unfulfilled += 1;
                again.push(index);
            }
        }
        again
    }

    /// Whether the client was not told that an execution which several nodes hold is started.
    fn is_unheard_of(&self, start: usize) -> bool {
        self.home(start).is_none() && !self.acknowledged.contains(&self.plan.starts[start].id)
    }

    fn give_up(&mut self, wish: usize, again: &mut Vec<usize>) {
        if let Some((caller, _)) = self.wishes[wish].asked.take() {
            self.asked.remove(&caller);
        }
        again.extend(self.fulfil(wish).into_iter().map(|(wish, _)| wish));
    }

    /// Asks every node about every execution.
    pub(crate) fn asks_everyone(&mut self) -> Vec<usize> {
        let first = self.wishes.len();
        for start in 0..self.plan.starts.len() {
            for place in 0..self.places {
                let goal = Goal::Show { start, place };
                self.wishes.push(Wish { goal, asked: None, hint: None, done: false });
            }
        }
        self.said.clear();
        self.unfulfilled += self.wishes.len() - first;
        (first..self.wishes.len()).collect()
    }

    /// What it still waits for, for people.
    pub(crate) fn waits_for(&self) -> String {
        let open = self.wishes.iter().filter(|wish| !wish.done);
        let words: Vec<_> = open.map(|wish| self.words_for(wish.goal)).collect();
        words.join(", ")
    }

    fn words_for(&self, goal: Goal) -> String {
        let id = |start: usize| self.plan.starts[start].id;
        match goal {
            Goal::Define { place, .. } => format!("node {} to know a definition", place + 1),
            Goal::Start(start) => format!("{} to be started", id(start)),
            Goal::Publish(event) => format!("event {} to be taken", event + 1),
            Goal::Wait(start) => format!("{} to end", id(start)),
            Goal::Show { start, place } => {
                format!("node {} to say how {} ended", place + 1, id(start))
            }
        }
    }

    /// What is to be done in the world.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }
}
