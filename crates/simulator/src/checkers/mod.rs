//! What must hold in a world. Each checker is a sentence; it says what it found instead.
//!
//! What can be told at once is looked at as it happens and stops the world (`World::finding`), in
//! `at_once` and where it happens. The rest is looked at when the world has come to rest, and so is most
//! of the first once more: what was not known then may be known now.

pub(crate) mod at_once;
mod effects;
#[cfg(test)]
mod noticing;
mod parts;
#[cfg(test)]
mod tests;
mod undoing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outlast_engine::Phase;
use outlast_lineage::{ExecutionId, NodeId};

use crate::World;

pub use effects::{
    Expectation, a_pivot_runs_in_one_line, net_effects_are_those_of_one_run,
    what_failed_is_taken_back,
};
pub use undoing::{
    no_compensation_without_a_fault, nothing_is_undone_that_a_majority_lacked,
    undos_come_in_reverse_order,
};

/// A sentence that does not hold, and what was found instead.
pub type Finding = Result<(), String>;

/// Checks everything that holds for every run, whatever the flow.
pub fn everything_that_always_holds(world: &World) -> Finding {
    nothing_was_found_meanwhile(world)?;
    every_execution_ends(world)?;
    nobody_is_refused(world)?;
    nothing_acknowledged_is_lost(world)?;
    no_key_is_acted_on_twice(world)
}

/// Everything that holds when a world has come to rest, given what one run does when nothing fails.
pub fn everything_at_rest(calm: &Expectation, world: &World) -> Finding {
    nothing_was_found_meanwhile(world)?;
    every_execution_ends(world)?;
    nobody_is_refused(world)?;
    nothing_acknowledged_is_lost(world)?;
    what_people_were_told_is_stopped_does_not_complete(world)?;
    nothing_waits_for_people_in_vain(world)?;
    if world.services.deduplicating {
        no_key_is_acted_on_twice(world)?;
    }
    every_node_says_the_same(world)?;
    everyone_knows_who_is_there(world)?;
    a_pivot_runs_in_one_line(calm, world)?;
    net_effects_are_those_of_one_run(calm, world)?;
    nobody_holds_what_is_over(world)?;
    undos_come_in_reverse_order(world)?;
    nothing_is_undone_that_a_majority_lacked(world)?;
    no_compensation_without_a_fault(calm, world)
}

/// Everything that holds when people have had tried again or taken back what had failed.
pub fn everything_at_last(calm: &Expectation, world: &World) -> Finding {
    nothing_was_found_meanwhile(world)?;
    nobody_is_refused(world)?;
    what_was_tried_again_ends(world)?;
    what_failed_is_taken_back(calm, world)?;
    nothing_waits_for_people_in_vain(world)?;
    if world.services.deduplicating {
        no_key_is_acted_on_twice(world)?;
    }
    a_pivot_runs_in_one_line(calm, world)?;
    net_effects_are_those_of_one_run(calm, world)?;
    nobody_holds_what_is_over(world)?;
    undos_come_in_reverse_order(world)
}

/// What people had tried again or taken back ends.
pub fn what_was_tried_again_ends(world: &World) -> Finding {
    for (id, place) in &world.revisited {
        let engine = world.machines[*place].node.engine();
        let condition = engine.and_then(|engine| engine.condition_of(*id));
        if condition.is_none_or(|condition| !condition.is_end()) {
            let word = condition.map_or("unknown", |condition| condition.word());
            return Err(format!("{id} was tried again at node {}, where it is {word}", place + 1));
        }
    }
    Ok(())
}

/// What is looked at as it happens held all the time.
pub fn nothing_was_found_meanwhile(world: &World) -> Finding {
    world.finding().map_or(Ok(()), |finding| Err(finding.to_owned()))
}

/// Once faults stop, every execution comes to an end.
pub fn every_execution_ends(world: &World) -> Finding {
    if world.client.is_content() { Ok(()) } else { Err("the client still waits".to_owned()) }
}

/// Nobody is refused what is in order.
pub fn nobody_is_refused(world: &World) -> Finding {
    match world.client.refusals.first() {
        None => Ok(()),
        Some(refusal) => Err(format!("refused: {refusal}")),
    }
}

/// Whatever the client was told is still so.
pub fn nothing_acknowledged_is_lost(world: &World) -> Finding {
    let client = &world.client;
    for id in client.acknowledged.difference(&client.forgiven) {
        if !client.ended.contains_key(id) {
            return Err(format!("{id} was acknowledged, and nobody knows how it ended"));
        }
    }
    Ok(())
}

/// What somebody was told is stopped or rolled back does not run to its end.
pub fn what_people_were_told_is_stopped_does_not_complete(world: &World) -> Finding {
    let mut promised = world.promised.iter();
    promised.try_for_each(|id| at_once::what_is_stopped_does_not_complete(world, *id))
}

/// When all is over, some node knows each execution, and all that know it say the same.
pub fn every_node_says_the_same(world: &World) -> Finding {
    let client = &world.client;
    for start in &client.plan().starts {
        if client.forgiven.contains(&start.id) {
            continue;
        }
        let mut said = client.said.range((start.id, 0)..=(start.id, usize::MAX)).peekable();
        if said.peek().is_none() {
            return Err(format!("no node knows {} any more", start.id));
        }
        // That they said nothing different was looked at when they said it.
        if let Some(((_, place), _)) = said.find(|(_, outcome)| outcome.is_none()) {
            return Err(format!("{} has not ended at node {}", start.id, place + 1));
        }
    }
    Ok(())
}

/// Once the faults are over, every node takes every other for alive, and none that was removed for a
/// member, however they found out.
pub fn everyone_knows_who_is_there(world: &World) -> Finding {
    if !world.options().gossip {
        return Ok(());
    }
    for (machine, standing) in world.machines.iter().zip(&world.standings) {
        let own = machine.id();
        let Some(standing) = standing else {
            return Err(format!("node {} does not say who is there", own.0));
        };
        let seen: BTreeSet<NodeId> = standing.members.iter().map(|member| member.node).collect();
        let others = world.members().iter().copied().filter(|node| *node != own);
        let others: BTreeSet<NodeId> = others.collect();
        if seen != others {
            return Err(format!("node {} knows {seen:?}, and there are {others:?}", own.0));
        }
        let doubted = standing.members.iter().find(|it| it.state != "alive" || !it.reachable);
        if let Some(member) = doubted {
            let (node, state) = (member.node.0, member.state);
            return Err(format!("node {} takes node {node} for {state}", own.0));
        }
    }
    Ok(())
}

/// When all is over, no node holds an execution together with others any more, or has work that
/// waits: all forgot together.
pub fn nobody_holds_what_is_over(world: &World) -> Finding {
    for machine in &world.machines {
        let Some(engine) = machine.node.engine() else { continue };
        if let Some((id, phase)) = engine.phases().next() {
            let node = machine.id().0;
            return Err(format!("node {node} still holds {id}: it is {}", phase.word()));
        }
        let queued = engine.counters().queued;
        if 0 < queued {
            return Err(format!("node {} has {queued} things to do", machine.id().0));
        }
    }
    Ok(())
}

/// People who know what the services did get through with everything that was left to them.
pub fn nothing_waits_for_people_in_vain(world: &World) -> Finding {
    for machine in &world.machines {
        let mut waiting = machine.node.engine().into_iter().flat_map(|it| it.waits_for_people());
        if let Some(id) = waiting.next() {
            let node = machine.id().0;
            return Err(format!("{id} waits for a person at node {node} who has said everything"));
        }
    }
    Ok(())
}

/// So long after the last fault no execution that was started that long ago has two primaries, but for those
/// that all execute.
pub fn nobody_leads_beside_another(world: &World, age: Duration) -> Finding {
    let is_old = |id: ExecutionId| {
        let birth = world.learnt.birth_of(id);
        birth.is_none_or(|birth| age <= world.now().since(birth))
    };
    let mut leaders: BTreeMap<ExecutionId, NodeId> = BTreeMap::new();
    for machine in &world.machines {
        let phases = machine.node.engine().into_iter().flat_map(|engine| engine.phases());
        let leads = phases.filter(|(_, phase)| matches!(phase, Phase::Leading | Phase::Paused));
        for (id, _) in leads.filter(|(id, _)| !world.client.is_active(*id) && is_old(*id)) {
            if let Some(other) = leaders.insert(id, machine.id()) {
                let node = machine.id();
                return Err(format!("nodes {} and {} both lead {id}", other.0, node.0));
            }
        }
    }
    Ok(())
}

/// No service acts twice on one key.
pub fn no_key_is_acted_on_twice(world: &World) -> Finding {
    let mut acted = BTreeMap::new();
    for act in world.services.ledger.iter() {
        if let Some(operation) = acted.insert(act.key, act.operation) {
            let operation = world.services.ledger.operation(operation);
            return Err(format!("{operation} was done twice with key {}", act.key));
        }
    }
    Ok(())
}

/// What the services did is what they do in a world without faults: one complete run, or exactly
/// its compensation.
pub fn services_did_the_same(calm: &World, world: &World) -> Finding {
    let (expected, found) = (calm.services.acts(), world.services.acts());
    if expected == found {
        return Ok(());
    }
    let operations = expected.keys().chain(found.keys());
    let different =
        operations.filter(|operation| expected.get(*operation) != found.get(*operation));
    let list: Vec<_> = different
        .map(|operation| {
            let count = |acts: &BTreeMap<String, usize>| acts.get(operation).copied().unwrap_or(0);
            format!("{operation}: {} instead of {}", count(&found), count(&expected))
        })
        .collect();
    Err(format!("services did something else: {}", list.join("; ")))
}

/// Every execution ended as it does in a world without faults.
pub fn outcomes_are_the_same(calm: &World, world: &World) -> Finding {
    for (id, expected) in &calm.client.ended {
        let found = world.client.ended.get(id);
        if found != Some(expected) {
            return Err(format!("{id} ended as {found:?} instead of {expected:?}"));
        }
    }
    Ok(())
}
