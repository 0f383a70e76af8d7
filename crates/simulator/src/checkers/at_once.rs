//! What can be told at once: looked at when a service has just acted, when a node says how an execution
//! ended, and when the client is told so.
//!
//! What is counted is counted as it happens, so that none of it takes a look at all that was done. A
//! sentence is said here only of what nothing that comes later can put right: that something is missing,
//! or stands beside what it competes with, is told at rest.

use std::collections::{BTreeMap, BTreeSet};

use outlast_engine::{Acknowledge, Condition, Survival};
use outlast_lineage::{ExecutionId, NodeId};

use super::Finding;
use super::effects::{self, Expectation, name};
use super::parts::{Parts, root_of, starter_of};
use super::undoing::{
    a_majority_had_what_is_undone, an_undo_comes_after_a_fault, an_undo_comes_in_order,
};
use crate::{Act, World};

/// What was counted so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Who said first how an execution ended, and how.
    ends: BTreeMap<ExecutionId, (NodeId, Condition)>,
    /// How often each thing was done by an execution and its parts, undone later or not.
    done: BTreeMap<(ExecutionId, u32), usize>,
    /// How many undos an execution and its parts made.
    undos: BTreeMap<ExecutionId, usize>,
    /// Of whom it is known that somebody started them.
    started: BTreeSet<ExecutionId>,
}

/// A service has just done something.
pub(crate) fn what_was_done_may_be(world: &World, seen: &mut Seen, act: &Act) -> Finding {
    if world.services.deduplicating {
        no_key_was_acted_on_before(world, act)?;
    }
    if act.readonly {
        return Ok(());
    }
    let root = root_of(world, act.execution);
    if act.undo {
        let undos = seen.undos.entry(root).or_default();
        *undos += 1;
        an_undo_comes_in_order(world, act)?;
        a_majority_had_what_is_undone(world, act)?;
        return match world.expected() {
            Some(calm) => an_undo_comes_after_a_fault(calm, world, (root, act, *undos)),
            None => Ok(()),
        };
    }
    let Some(calm) = world.expected() else { return Ok(()) };
    let times = seen.done.entry((root, act.name)).or_default();
    *times += 1;
    nothing_is_done_more_often(calm, world, root, (act, *times))?;
    somebody_started_it(calm, world, seen, (act.execution, root))
}

/// No service acts twice on one key.
fn no_key_was_acted_on_before(world: &World, act: &Act) -> Finding {
    let ledger = &world.services.ledger;
    if !ledger.repeats(act) {
        return Ok(());
    }
    let operation = ledger.operation(act.operation);
    Err(format!("{operation} was done twice with key {}", act.key))
}

/// What can be neither undone nor repeated is done as often as one run does it, by whomever; and one node
/// alone does nothing more often than when nothing fails.
fn nothing_is_done_more_often(
    calm: &Expectation,
    world: &World,
    root: ExecutionId,
    (act, times): (&Act, usize),
) -> Finding {
    let Some(expected) = calm.executions.get(&root) else { return Ok(()) };
    let name = name(world, act);
    let is_pivot = calm.pivots.contains(name) && effects::pivots_wait(world, root);
    let once = match is_pivot {
        true => effects::pivots_of_one_run(calm, world, root, name),
        false if effects::does_what_it_does_alone(calm, world, root) => {
            expected.done.get(name).copied().unwrap_or(0)
        }
        false => return Ok(()),
    };
    if times <= once {
        return Ok(());
    }
    // What only a lost disk knew of counts no more.
    let is_it = |done: &&Act| done.name == act.name && !done.undo && !done.is_orphan;
    let times = Parts::of(world).acts_of(root).filter(is_it).count();
    if once < times {
        return Err(format!("{name} of {root} was done {times} times, and one run does it {once}"));
    }
    Ok(())
}

/// Only what was to be started does anything, or what was started by a run that got further. Who started
/// whom is told at rest if nobody who is up knows it.
fn somebody_started_it(
    calm: &Expectation,
    world: &World,
    seen: &mut Seen,
    (id, root): (ExecutionId, ExecutionId),
) -> Finding {
    let is_known = |id: ExecutionId| calm.executions.contains_key(&id);
    if is_known(root) || seen.started.contains(&root) {
        return Ok(());
    }
    let has_parent = world.client.is_start(root) || starter_of(world, root).is_some();
    if has_parent && !effects::was_to_be_started(calm, world, root) {
        return Err(format!("{id} did something, and nobody was to start it"));
    }
    seen.started.extend(has_parent.then_some(root));
    Ok(())
}

/// A node says how an execution ended: all that say so say the same, unless somebody wanted another end of
/// what had failed. What others wait for may end otherwise on a line that loses.
pub(crate) fn it_ends_once(
    world: &World,
    seen: &mut Seen,
    (id, node, condition): (ExecutionId, NodeId, Condition),
) -> Finding {
    let counts = world.client.is_start(id) || starter_of(world, id).is_some();
    if !counts || !condition.is_end() {
        return Ok(());
    }
    let (first, before) = *seen.ends.entry(id).or_insert((node, condition));
    if before == condition {
        return Ok(());
    }
    let by = starter_of(world, id).unwrap_or(id);
    let somebody_wanted = [id, by]
        .into_iter()
        .any(|id| world.client.wished.contains(&id) || world.revisited.contains_key(&id));
    if somebody_wanted && before == Condition::Faulted {
        seen.ends.insert(id, (node, condition));
        return Ok(());
    }
    // A new node at the place of one that is lost runs anew what only that one knew.
    if world.client.forgiven.contains(&id) || (!world.client.is_start(id) && 0 < world.disks_lost) {
        return Ok(());
    }
    let (then, now) = (before.word(), condition.word());
    Err(format!("{id} is {then} to node {}, and {now} to node {}", first.0, node.0))
}

/// The client was told how an execution ended: what one run leaves is there by then, and what somebody
/// was told is stopped has not run to its end.
pub(crate) fn what_is_told_is_so(world: &World, id: ExecutionId) -> Finding {
    what_is_stopped_does_not_complete(world, id)?;
    match world.expected() {
        Some(calm) => effects::nothing_is_missing(calm, world, id),
        None => Ok(()),
    }
}

/// What somebody was told is stopped or rolled back does not run to its end, unless its nodes were told to go on
/// without a majority, or the disk of one is lost.
pub(super) fn what_is_stopped_does_not_complete(world: &World, id: ExecutionId) -> Finding {
    let needs_majority = |survival: Survival| {
        !survival.is_replicated() || survival.acknowledge == Acknowledge::Majority
    };
    let is_kept = world.disks_lost == 0 && world.client.survival_of(id).is_some_and(needs_majority);
    let has_completed = world.client.has_completed(id);
    if is_kept && has_completed && world.promised.contains(&id) {
        return Err(format!("{id} was said to be stopped, and completed"));
    }
    Ok(())
}

/// Nobody takes a node that it was told is gone for good for a member.
pub(crate) fn nobody_gone_is_there(world: &World, place: usize, node: NodeId) -> Finding {
    let machine = &world.machines[place];
    if !machine.removed.contains(&node) {
        return Ok(());
    }
    let own = machine.id().0;
    Err(format!("node {own} takes node {} for alive, which it was told is gone", node.0))
}
