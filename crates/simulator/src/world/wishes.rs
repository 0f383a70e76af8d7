//! What people ask of executions: that they stop, are rolled back or wait, in the midst of everything
//! else; and, once all is over, that what failed is tried again or taken back.

use std::time::Duration;

use outlast_engine::{Ask, Caller, Condition, Phase, Reply, Which};
use outlast_lineage::ExecutionId;
use outlast_workflow::Outcome;
use outlast_workflow::program::{Kind, Task};

use super::{Situation, World};
use crate::swarm::workload::has_branches;
use crate::{Fault, FaultKind, Random, checkers};

/// How often people come back to what failed. In the first round they may have it tried again; later they
/// have it taken back, and again if whoever they asked died of it.
const ROUNDS: usize = 4;

/// By when a node that is up has come to what it was asked.
const HEARD: Duration = Duration::from_secs(1);

impl World {
    /// Somebody asks for something at a node that leads an execution, as nodes pass it on to.
    pub(super) fn wish(&mut self, fault: &Fault) {
        let Some(id) = self.wished_for(fault) else { return };
        let leading = self.leading(id).filter(|place| fault.nodes == 0 || fault.befalls(*place));
        let leading: Vec<usize> = leading.collect();
        if leading.is_empty() {
            return self.say(None, format_args!("nobody leads {id}"));
        }
        let place = *self.random.pick(&leading);
        let which = Which::Id(id);
        let (ask, situation) = match fault.kind {
            FaultKind::Cancel => (Ask::Cancel(which), Situation::CancelWished),
            FaultKind::Compensate => {
                let reason = "somebody asked for it".to_owned();
                (Ask::Compensate { which, reason }, Situation::RollbackWished)
            }
            _ => (Ask::Suspend(which), Situation::SuspensionWished),
        };
        self.saw(situation);
        let caller = self.people_ask(place, ask);
        if fault.kind != FaultKind::Suspend {
            self.client.wished.insert(id);
            self.asked.insert(caller, id);
        }
    }

    /// Somebody hears whether what was wished for is done.
    pub(super) fn hear_promise(&mut self, caller: Caller, reply: &Reply) {
        if let Some(id) = self.asked.remove(&caller)
            && *reply == Reply::Done
        {
            self.saw(Situation::WishGranted);
            self.promised.insert(id);
            self.judge_told(id);
        }
    }

    /// The execution that a wish is about, if the world has so many.
    fn wished_for(&self, fault: &Fault) -> Option<ExecutionId> {
        let number = usize::try_from(fault.amount).ok()?;
        let start = self.client.plan().starts.get(number.checked_sub(1)?)?;
        Some(start.id)
    }

    /// The places of nodes that lead an execution.
    fn leading(&self, id: ExecutionId) -> impl Iterator<Item = usize> {
        let is_alone = self.client.is_alone(id);
        let leads = move |place: &usize| {
            let Some(engine) = self.machines[*place].node.engine() else { return false };
            let leads = matches!(engine.phase_of(id), Some(Phase::Leading | Phase::Paused));
            leads || (is_alone && engine.condition_of(id).is_some())
        };
        (0..self.machines.len()).filter(leads)
    }

    /// Whoever held executions lets them go on, wherever they are led by now.
    pub(super) fn let_go_on(&mut self) {
        let wishes = self.options.faults.iter().filter(|it| it.kind == FaultKind::Suspend);
        let held: Vec<_> = wishes.filter_map(|wish| self.wished_for(wish)).collect();
        for id in held {
            let is_held = |place: &usize| {
                let engine = self.machines[*place].node.engine();
                engine.and_then(|it| it.condition_of(id)) == Some(Condition::Suspended)
            };
            for place in self.leading(id).filter(is_held).collect::<Vec<_>>() {
                self.people_ask(place, Ask::Resume(Which::Id(id)));
            }
        }
    }

    /// Once all is over, people have what failed tried again or taken back, each by one node that knows
    /// of it; some of these die shortly after they were asked.
    pub(crate) fn live_on(&mut self, is_settled: &dyn Fn(&Self) -> bool) {
        let mut random = Random::apart(self.options.seed, 14);
        for round in 0..ROUNDS {
            let failed = self.failed();
            if failed.is_empty() {
                return;
            }
            for id in failed {
                let takes_back = random.happens(400) || round > 0;
                // Whoever is asked at last lives, and everyone does where nothing is to fail.
                let dies = random.happens(500) && round + 1 < ROUNDS;
                let dies = dies && !self.options.faults.is_empty();
                self.try_again(&mut random, id, takes_back, dies);
            }
            // Nobody is judged before it has come to what it was told.
            self.run_for(HEARD);
            let has_ended = |world: &Self| checkers::what_was_tried_again_ends(world).is_ok();
            self.let_everything_settle(&|world| has_ended(world) && is_settled(world));
        }
    }

    /// What has failed, as far as nobody lost it.
    fn failed(&self) -> Vec<ExecutionId> {
        let ended = self.client.ended.iter();
        let failed = ended.filter(|(_, outcome)| matches!(outcome, Outcome::Faulted(_)));
        let failed = failed.map(|(id, _)| *id).filter(|id| !self.client.forgiven.contains(id));
        failed.filter(|id| self.knowing_as(*id, Condition::Faulted).next().is_some()).collect()
    }

    /// The places of nodes to which an execution is in a condition; of one that was tried again, only
    /// where that was.
    fn knowing_as(
        &self,
        id: ExecutionId,
        condition: Condition,
    ) -> impl Iterator<Item = usize> + use<'_> {
        let revisited = self.revisited.get(&id).copied();
        let places = 0..self.machines.len();
        places.filter(move |place| {
            let engine = self.machines[*place].node.engine();
            revisited.is_none_or(|at| at == *place)
                && engine.and_then(|it| it.condition_of(id)) == Some(condition)
        })
    }

    fn try_again(&mut self, random: &mut Random, id: ExecutionId, takes_back: bool, dies: bool) {
        let places: Vec<usize> = self.knowing_as(id, Condition::Faulted).collect();
        // Who knows of it may have just died of another one, and is asked in the next round.
        if places.is_empty() {
            return;
        }
        let place = *random.pick(&places);
        let which = Which::Id(id);
        let ask = match takes_back {
            true => Ask::Compensate { which, reason: "it failed".to_owned() },
            false => Ask::Retry(which),
        };
        self.saw(if takes_back { Situation::TakenBackLater } else { Situation::TriedAgainLater });
        if self.leaves_things_open(place, id) {
            self.services.ledger.allow_asking_again(id);
        }
        self.revisited.insert(id, place);
        self.people_ask(place, ask);
        if dies {
            self.run_for(Duration::from_micros(random.between(0, 30_000)));
            self.crash(place, Some(Duration::from_millis(100)));
        }
    }
    /// Whether an execution may ask again for what it was answered, once people come back to it: what took too
    /// long is begun again as a whole, by the same keys, and answers to branches that were stopped are not kept.
    fn leaves_things_open(&self, place: usize, id: ExecutionId) -> bool {
        let engine = self.machines[place].node.engine();
        let program = engine.and_then(|engine| engine.program_of(id));
        program.is_some_and(|program| {
            let is_like = |task: &Task| {
                let runs_another = matches!(task.kind, Kind::RunWorkflow { .. });
                task.timeout.is_some() || runs_another || has_branches(task)
            };
            program.timeout.is_some() || program.tasks.iter().any(is_like)
        })
    }
}
