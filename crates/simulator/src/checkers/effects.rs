//! What remains of what was done to the outside.

use std::collections::{BTreeMap, BTreeSet};

use outlast_engine::{Condition, Engine, Parent, REMNANT_TERMS, Strategy};
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::Outcome;

use super::Finding;
use crate::{Act, FaultKind, World};

/// What one run of a plan does when nothing fails: how executions end, and what then stands.
#[derive(Clone, Debug)]
pub struct Expectation {
    executions: BTreeMap<ExecutionId, Expected>,
    /// The names of what can be undone.
    undoable: BTreeSet<String>,
    /// The names of what can be neither undone nor repeated.
    pivots: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Expected {
    /// Who started it without waiting for its end, if it was not the client.
    by: Option<ExecutionId>,
    outcome: &'static str,
    standing: BTreeMap<String, usize>,
    undos: usize,
}

impl Expectation {
    /// Reads it off a world without faults.
    pub fn of(calm: &World) -> Self {
        let expected = |id: ExecutionId, by, outcome| {
            let standing = standing(calm, id).map(|act| name(calm, act).to_owned());
            let mut counts = BTreeMap::new();
            standing.for_each(|name| *counts.entry(name).or_default() += 1);
            let undos = acts_of(calm, id).filter(|act| act.undo).count();
            (id, Expected { by, outcome, standing: counts, undos })
        };
        let ended = calm.client.ended.iter();
        let mut executions: BTreeMap<_, _> =
            ended.map(|(id, outcome)| expected(*id, None, word(outcome))).collect();
        let started = calm.services.ledger.executions().filter_map(|id| {
            let by = parent_of(calm, id).filter(|parent| !parent.waits)?;
            let condition = conditions_of(calm, id).next().map(|(_, condition)| condition)?;
            let by = root_of(calm, by.execution);
            Some(expected(id, Some(by), condition.word()))
        });
        executions.extend(started);
        let undoable = calm.undoable().map(str::to_owned).collect();
        Self { executions, undoable, pivots: calm.pivots().map(str::to_owned).collect() }
    }
}

/// When an execution has ended, what stands is what one run does, or nothing if it was rolled back;
/// everything else is undone. What it started without waiting for its end was started, once.
///
/// What a service without a memory for keys was asked twice because an answer was lost may stand
/// twice, and so may what only a lost disk knew of, and what a node cannot undo before a person says
/// what became of something that came later; nothing else may.
pub fn net_effects_are_those_of_one_run(calm: &Expectation, world: &World) -> Finding {
    // Nobody can tell what stands if nobody can tell what was undone.
    if world.services.ledger.unpaired > 0 {
        return Ok(());
    }
    for (id, expected) in &calm.executions {
        let outcome = match expected.by {
            None => how_it_ended(world, *id),
            Some(by) => how_it_went(calm, world, *id, by)?,
        };
        let Some(outcome) = outcome else { continue };
        effects_of_one(calm, world, *id, outcome, expected)
            .map_err(|finding| format!("{id} is {outcome}, but {finding}"))?;
    }
    nobody_else_did_anything(calm, world)
}

/// How an execution that the client started ended, unless nobody is to ask.
fn how_it_ended(world: &World, id: ExecutionId) -> Option<&'static str> {
    let ended = world.client.ended.get(&id).map(word);
    ended.filter(|_| !world.client.forgiven.contains(&id))
}

/// How an execution ended that another one started without waiting for it, unless it need not exist.
fn how_it_went(
    calm: &Expectation,
    world: &World,
    id: ExecutionId,
    by: ExecutionId,
) -> Result<Option<&'static str>, String> {
    let Some(starter) = how_it_ended(world, by) else { return Ok(None) };
    let mut conditions = conditions_of(world, id).filter(|(node, condition)| {
        condition.is_end() || !waiting_for_people(world, id).contains(node)
    });
    let Some((_, first)) = conditions.next() else {
        let as_planned = calm.executions.get(&by).is_some_and(|it| it.outcome == starter);
        let known = conditions_of(world, id).next().is_some();
        return match as_planned && !known && world.disks_lost == 0 {
            true => Err(format!("{id} was never started, though {by} is {starter}")),
            false => Ok(None),
        };
    };
    if let Some((node, other)) = conditions.find(|(_, other)| *other != first) {
        let (first, other) = (first.word(), other.word());
        return Err(format!("{id} is {first}, but to node {} it is {other}", node.0));
    }
    if !first.is_end() {
        return Err(format!("{id} was started by {by} and is {}", first.word()));
    }
    Ok(Some(first.word()))
}

/// Only what was to be started has done anything.
fn nobody_else_did_anything(calm: &Expectation, world: &World) -> Finding {
    // What only a lost disk knew of cannot be told apart; nor can what is tried once more.
    if world.disks_lost > 0 || services_had_faults(world) {
        return Ok(());
    }
    let roots = world.services.ledger.executions().map(|id| root_of(world, id));
    match roots.into_iter().find(|id| !calm.executions.contains_key(id)) {
        None => Ok(()),
        Some(id) => Err(format!("{id} did something, and nobody was to start it")),
    }
}

fn effects_of_one(
    calm: &Expectation,
    world: &World,
    id: ExecutionId,
    outcome: &'static str,
    expected: &Expected,
) -> Finding {
    let as_planned = outcome == expected.outcome;
    if !as_planned && !services_had_faults(world) {
        return Err(format!("it is {} when nothing fails", expected.outcome));
    }
    let stuck = waiting_for_people(world, id);
    let mut stands: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for act in standing(world, id) {
        let (certain, doubtful) = stands.entry(name(world, act)).or_default();
        let is_certain = is_certain(world, act) && !stuck.contains(&act.node);
        *if is_certain { certain } else { doubtful } += 1;
    }
    let names: BTreeSet<&str> =
        stands.keys().copied().chain(expected.standing.keys().map(String::as_str)).collect();
    let solo = strategy_of(world, id) == Strategy::None;
    for name in names {
        let (certain, doubtful) = stands.get(name).copied().unwrap_or_default();
        let once = expected.standing.get(name).copied().unwrap_or(0);
        let undoable = calm.undoable.contains(name);
        // What cannot be undone may have been done by those who lost, too.
        let most = if undoable || solo { once } else { usize::MAX };
        let (least, most) = match outcome {
            _ if as_planned => (once, most),
            "compensated" if undoable => (0, 0),
            _ => (0, most),
        };
        if certain > most || certain + doubtful < least {
            return Err(format!("{name} stands {} times, {once} in one run", certain + doubtful));
        }
    }
    Ok(())
}

/// What can be neither undone nor repeated is done at most as often as one run does it, by whomever:
/// its line was decided on before.
pub fn a_pivot_runs_in_one_line(calm: &Expectation, world: &World) -> Finding {
    let starts = world.client.plan().starts.iter().enumerate();
    for (index, start) in starts.filter(|(_, start)| !world.client.forgiven.contains(&start.id)) {
        let survival = world.client.plan().survival(index);
        let Some(expected) = calm.executions.get(&start.id) else { continue };
        if survival.is_replicated() && survival.pivots_anywhere {
            continue;
        }
        for pivot in &calm.pivots {
            let acts = acts_of(world, start.id);
            let acts = acts.filter(|act| !act.is_orphan && name(world, act) == pivot).count();
            let once = expected.standing.get(pivot).copied().unwrap_or(0);
            if once < acts {
                return Err(format!("{pivot} of {} was done {acts} times", start.id));
            }
        }
    }
    Ok(())
}

/// What was undone was undone after everything that came later in the same line and had to go too.
///
/// A run that rolls back does not wait for lines that it may not even reach: what others did on from
/// its effects, and have not undone when it does, is undone later.
pub fn undos_come_in_reverse_order(world: &World) -> Finding {
    let ledger = &world.services.ledger;
    for id in ledger.executions() {
        let undone: Vec<(&Act, usize)> =
            ledger.of(id).filter_map(|act| act.undone_by.map(|undo| (act, undo))).collect();
        for (earlier, undo_of_earlier) in &undone {
            let is_later = |later: &&(&Act, usize)| {
                let (later, _) = later;
                let same_line = later.effect.branch == earlier.effect.branch
                    && later.effect.point.author == earlier.effect.point.author
                    && later.effect.point.epoch == earlier.effect.point.epoch;
                same_line && later.effect.point.number > earlier.effect.point.number
            };
            let undone_at = ledger.act(*undo_of_earlier).time;
            let earlier_undo = ledger.act(*undo_of_earlier);
            for (later, undo_of_later) in undone.iter().filter(is_later) {
                let later_undo = ledger.act(*undo_of_later);
                if !is_withdrawal(earlier_undo) && is_debt(later, later_undo, earlier_undo) {
                    continue;
                }
                if later.time < undone_at && *undo_of_later > *undo_of_earlier {
                    let (first, second) = (name(world, earlier), name(world, later));
                    return Err(format!(
                        "{first} of {id} was undone before {second}, which came later"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// A run without faults undoes nothing that one node alone would not undo; active replication does.
pub fn no_compensation_without_a_fault(calm: &Expectation, world: &World) -> Finding {
    if !is_calm(world) {
        return Ok(());
    }
    for (id, expected) in &calm.executions {
        let undos = acts_of(world, *id).filter(|act| act.undo).count();
        if undos > expected.undos && strategy_of(world, *id) != Strategy::Active {
            return Err(format!("{id} undid {undos} things though nothing had failed"));
        }
    }
    Ok(())
}

/// Whether an act took back what a lost line did, and not what its own run did.
const fn is_withdrawal(undo: &Act) -> bool {
    undo.effect.point.epoch.0 >= REMNANT_TERMS
}

/// Whether an act was undone by its author as what is left of a line that was lost, while another node
/// rolled back the run. An undo that was under way when its line was lost goes on as it was.
fn is_debt(act: &Act, undo: &Act, of_run: &Act) -> bool {
    let by_author = undo.node == act.effect.point.author && undo.node != of_run.node;
    is_withdrawal(undo) || by_author
}

fn standing(world: &World, id: ExecutionId) -> impl Iterator<Item = &Act> {
    acts_of(world, id).filter(|act| !act.undo && !act.readonly && act.undone_by.is_none())
}

/// What an execution did, and those that it waited for: where several nodes hold it, they are part of
/// it.
fn acts_of(world: &World, id: ExecutionId) -> impl Iterator<Item = &Act> {
    let ledger = &world.services.ledger;
    let own = ledger.executions().filter(move |of| root_of(world, *of) == id);
    own.flat_map(|of| ledger.of(of))
}

/// The execution that an execution is part of.
fn root_of(world: &World, id: ExecutionId) -> ExecutionId {
    let waits = |id: &ExecutionId| {
        let parent = parent_of(world, *id).filter(|parent| parent.waits);
        parent.map(|parent| parent.execution)
    };
    std::iter::successors(Some(id), waits).last().unwrap_or(id)
}

fn parent_of(world: &World, id: ExecutionId) -> Option<Parent> {
    engines(world).find_map(|(_, engine)| engine.parent_of(id))
}

/// How far every node that knows an execution says that it is.
fn conditions_of(
    world: &World,
    id: ExecutionId,
) -> impl Iterator<Item = (NodeId, Condition)> + use<'_> {
    engines(world).filter_map(move |(node, engine)| Some((node, engine.condition_of(id)?)))
}

fn engines(world: &World) -> impl Iterator<Item = (NodeId, &Engine)> {
    world.machines.iter().filter_map(|machine| Some((machine.id(), machine.node.engine()?)))
}

fn name<'w>(world: &'w World, act: &Act) -> &'w str {
    world.services.ledger.operation(act.name)
}

/// The nodes at which something of an execution waits for a person.
fn waiting_for_people(world: &World, id: ExecutionId) -> BTreeSet<NodeId> {
    let waits = |(_, engine): &(NodeId, &Engine)| engine.waits_for_people().any(|of| of == id);
    engines(world).filter(waits).map(|(node, _)| node).collect()
}

const fn is_certain(world: &World, act: &Act) -> bool {
    !act.is_orphan && (world.services.deduplicating || act.is_certain)
}

/// Whether nothing was to go wrong, and no message was lost or late.
fn is_calm(world: &World) -> bool {
    let options = world.options();
    let quick = options.network.latency.most().is_some_and(|micros| micros <= 1_000);
    options.faults.is_empty() && options.network.lost_per_mille == 0 && quick
}

fn services_had_faults(world: &World) -> bool {
    let of_services = |kind| {
        matches!(kind, FaultKind::ServiceErrors | FaultKind::LostAnswers | FaultKind::SlowServices)
    };
    world.options().lost_per_mille > 0
        || world.options().faults.iter().any(|fault| of_services(fault.kind))
}

fn strategy_of(world: &World, id: ExecutionId) -> Strategy {
    world.client.strategy_of(id)
}

const fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed(_) => "completed",
        Outcome::Faulted(_) => "faulted",
        Outcome::Cancelled => "cancelled",
        Outcome::Compensated(_) => "compensated",
    }
}
