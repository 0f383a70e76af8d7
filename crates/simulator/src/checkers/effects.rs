//! What remains of what was done to the outside.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outlast_engine::{Condition, Strategy};
use outlast_lineage::{ExecutionId, NodeId, OperationKey};
use outlast_workflow::Outcome;

use super::Finding;
use super::parts::{Parts, engines, root_of, starter_of};
use crate::{Act, FaultKind, World};

/// What one run of a plan does when nothing fails: how executions end, and what then stands.
#[derive(Clone, Debug)]
pub struct Expectation {
    pub(super) executions: BTreeMap<ExecutionId, Expected>,
    /// Executions in which one branch broke others off.
    broken_off: BTreeSet<ExecutionId>,
    /// The names of what can be undone.
    undoable: BTreeSet<String>,
    /// The names of what can be neither undone nor repeated.
    pub(super) pivots: BTreeSet<String>,
    /// How often a run does at most what can be neither undone nor repeated, whatever way it takes.
    pub(crate) pivots_at_most: usize,
    /// How long it took until all had ended.
    pub(crate) lasts: Duration,
    /// How long a run may wait besides when services fail, before it tries again what it caught.
    pub(crate) delays: Duration,
    /// Whether a run may do something else when services fail: its flow catches errors.
    pub is_one_of_many: bool,
    /// Whether a run does several things at once, so that it may fail while others are under way.
    pub is_forked: bool,
    /// Whether what a run does depends on how long things take: it has timeouts or races.
    pub is_timed: bool,
    /// Whether the flow was given, so that nobody knows what it does if services differ.
    pub is_given: bool,
}

/// What one execution does.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Who started it without waiting for its end, if it was not the client.
    by: Option<ExecutionId>,
    pub(super) outcome: &'static str,
    pub(super) standing: BTreeMap<String, usize>,
    /// What was done, whether it was undone later or not.
    pub(super) done: BTreeMap<String, usize>,
    pub(super) undos: usize,
}

impl Expectation {
    /// Reads it off a world without faults.
    pub fn of(calm: &World) -> Self {
        let parts = Parts::of(calm);
        let expected = |id: ExecutionId, by, outcome| {
            let standing = counts(calm, parts.standing(id));
            let done = counts(calm, parts.acts_of(id).filter(|act| !act.undo && !act.readonly));
            let undos = parts.acts_of(id).filter(|act| act.undo).count();
            (id, Expected { by, outcome, standing, done, undos })
        };
        let ended = calm.client.ended.iter();
        let mut executions: BTreeMap<_, _> =
            ended.map(|(id, outcome)| expected(*id, None, word(outcome))).collect();
        // Whoever did nothing was started, too: where something fails, that may call for an undo.
        let started = calm.learnt.executions().filter_map(|id| {
            let by = starter_of(calm, id)?;
            let condition = conditions_of(calm, id).next().map(|(_, condition)| condition)?;
            Some(expected(id, Some(by), condition.word()))
        });
        executions.extend(started);
        let undoable = calm.undoable().map(str::to_owned).collect();
        let pivots = calm.pivots().map(str::to_owned).collect();
        Self {
            executions,
            broken_off: calm.learnt.broken_off().map(|id| root_of(calm, id)).collect(),
            undoable,
            pivots,
            pivots_at_most: usize::MAX,
            lasts: calm.elapsed(),
            delays: Duration::ZERO,
            is_one_of_many: false,
            is_forked: false,
            is_timed: false,
            is_given: false,
        }
    }
}

/// When an execution has ended, what stands is what one run does, or nothing if it was rolled back;
/// everything else is undone. What it started without waiting for its end was started, once.
///
/// What a service without a memory for keys was asked twice because an answer was lost may stand
/// twice, and so may what only a lost disk knew of; nothing else may. A run that services broke off may
/// have done less; what a flow that catches errors does then, a run without them does not tell.
pub fn net_effects_are_those_of_one_run(calm: &Expectation, world: &World) -> Finding {
    // Nobody can tell what stands if nobody can tell what was undone.
    if world.services.ledger.unpaired > 0 {
        return Ok(());
    }
    let parts = Parts::of(world);
    for (id, expected) in &calm.executions {
        let outcome = match expected.by {
            None => how_it_ended(world, *id),
            Some(by) => how_it_went(calm, world, *id, by)?,
        };
        let Some(outcome) = outcome else { continue };
        effects_of_one(calm, (world, &parts), *id, outcome, expected)
            .map_err(|finding| format!("{id} is {outcome}, but {finding}"))?;
    }
    nobody_else_did_anything(calm, world, &parts)
}

/// How an execution that the client started ended, unless nobody is to ask; where it was tried again or
/// taken back, if it was.
fn how_it_ended(world: &World, id: ExecutionId) -> Option<&'static str> {
    let later = world.revisited.get(&id).and_then(|place| {
        let engine = world.machines[*place].node.engine()?;
        Some(engine.condition_of(id)?.word())
    });
    let ended = later.or_else(|| world.client.ended.get(&id).map(word));
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
    let mut conditions = conditions_of(world, id);
    let Some((_, first)) = conditions.next() else {
        return match got_to_everything(calm, world, by, starter) && world.disks_lost == 0 {
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

/// Whether an execution that ended like this has come to all that it comes to when nothing fails.
fn got_to_everything(
    calm: &Expectation,
    world: &World,
    id: ExecutionId,
    outcome: &'static str,
) -> bool {
    let had_faults = services_had_faults(world) || somebody_wished(world, id);
    let as_planned = calm.executions.get(&id).is_some_and(|it| it.outcome == outcome);
    let completed = outcome == Condition::Completed.word();
    // What fails, or is rolled back, may have got less far, and other branches beside what failed, too.
    let all_the_way = completed || !(had_faults || calm.is_forked);
    let other_way = (calm.is_one_of_many && had_faults) || is_matter_of_time(calm, world, id);
    as_planned && all_the_way && !other_way
}

/// Only what was to be started has done anything, or what was started by a run that got further.
fn nobody_else_did_anything(calm: &Expectation, world: &World, parts: &Parts<'_>) -> Finding {
    match parts.roots().find(|id| !was_to_be_started(calm, world, *id)) {
        None => Ok(()),
        Some(id) => Err(format!("{id} did something, and nobody was to start it")),
    }
}

/// Whether one run starts an execution, or it was started by one that got further.
pub(super) fn was_to_be_started(calm: &Expectation, world: &World, root: ExecutionId) -> bool {
    // What only a lost disk knew of cannot be told apart; nor can what is tried once more.
    if world.disks_lost > 0 || services_had_faults(world) {
        return true;
    }
    let is_known = |id: &ExecutionId| calm.executions.contains_key(id);
    let mut starters = std::iter::successors(Some(root), |id| starter_of(world, *id));
    is_known(&root) || starters.find(is_known).is_some_and(|by| gets_further(calm, world, by))
}

/// Whether an execution may come to more than it comes to on one node when nothing fails.
pub(super) fn gets_further(calm: &Expectation, world: &World, id: ExecutionId) -> bool {
    let fails = calm.executions.get(&id).is_some_and(|it| it.outcome != "completed");
    // What failed beside other branches may have failed later; what failed may be tried again.
    (fails && (calm.is_forked || world.revisited.contains_key(&id)))
        || is_matter_of_time(calm, world, id)
}

/// Whether what an execution does depends on how long things take: its flow has timeouts or races, or caught
/// what one branch broke off the others with, here or when nothing failed.
pub(super) fn is_matter_of_time(calm: &Expectation, world: &World, id: ExecutionId) -> bool {
    let broke_off = || {
        let mut here = world.learnt.broken_off();
        calm.broken_off.contains(&id) || here.any(|part| root_of(world, part) == id)
    };
    calm.is_timed || (calm.is_forked && calm.is_one_of_many && broke_off())
}

fn effects_of_one(
    calm: &Expectation,
    (world, parts): (&World, &Parts<'_>),
    id: ExecutionId,
    outcome: &'static str,
    expected: &Expected,
) -> Finding {
    let had_faults = services_had_faults(world) || somebody_wished(world, id);
    let is_open = is_open(calm, world, (parts, id));
    if outcome != expected.outcome && !had_faults && !is_open {
        return Err(format!("it is {} when nothing fails", expected.outcome));
    }
    let other_way = (calm.is_one_of_many && had_faults) || is_open;
    if other_way && outcome != "compensated" {
        return nothing_stands_twice(calm, (world, parts), id);
    }
    // Whoever does not complete may have got less far than without faults of services.
    let as_planned = outcome == expected.outcome && (outcome == "completed" || !had_faults);
    let mut stands: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for act in parts.standing(id) {
        let (certain, doubtful) = stands.entry(name(world, act)).or_default();
        *if is_certain(world, act) { certain } else { doubtful } += 1;
    }
    let names: BTreeSet<&str> =
        stands.keys().copied().chain(expected.standing.keys().map(String::as_str)).collect();
    let solo = strategy_of(world, id) == Strategy::None;
    for name in names {
        let (certain, doubtful) = stands.get(name).copied().unwrap_or_default();
        // What was stopped leaves what it did, also where its run would have undone that.
        let one_run = if outcome == "cancelled" { &expected.done } else { &expected.standing };
        let once = one_run.get(name).copied().unwrap_or(0);
        let undoable = is_undoable(calm, world, name);
        // What cannot be undone may have been done by those who lost, too.
        let most = if undoable || solo { once } else { usize::MAX };
        let (least, most) = match outcome {
            "compensated" if undoable => (0, 0),
            _ if other_way => (0, usize::MAX),
            // How far the other branches came when one failed is a matter of time.
            _ if calm.is_forked && expected.outcome != "completed" => (0, usize::MAX),
            _ if as_planned => (once, most),
            _ if calm.is_one_of_many => (0, usize::MAX),
            _ => (0, most),
        };
        let found = certain + doubtful;
        if certain > most || found < least {
            let (bound, count) = if found < least { ("least", least) } else { ("most", most) };
            return Err(format!("{name} stands {found} times, and should at {bound} {count}"));
        }
    }
    Ok(())
}

/// The client was told that an execution completed as it does when nothing fails: all that one run leaves is
/// there. What stands besides may still be undone.
pub(super) fn nothing_is_missing(calm: &Expectation, world: &World, id: ExecutionId) -> Finding {
    let Some(expected) = calm.executions.get(&id) else { return Ok(()) };
    let completed = Condition::Completed.word();
    if expected.outcome != completed || !world.client.has_completed(id) {
        return Ok(());
    }
    let parts = Parts::of(world);
    let had_faults = services_had_faults(world) || somebody_wished(world, id);
    if had_faults && calm.is_one_of_many
        || is_open(calm, world, (&parts, id))
        || 0 < world.services.ledger.unpaired
    {
        return Ok(());
    }
    let stands = counts(world, parts.standing(id));
    let of = |name: &String| stands.get(name).copied().unwrap_or(0);
    match expected.standing.iter().find(|(name, least)| of(name) < **least) {
        None => Ok(()),
        Some((name, least)) => {
            let found = of(name);
            Err(format!(
                "{id} was said to be completed, but {name} stands {found} times, and should at least {least}"
            ))
        }
    }
}

/// Whether what an execution does may depend on how long things take, or on whose line a service fails.
fn is_open(calm: &Expectation, world: &World, (parts, id): (&Parts<'_>, ExecutionId)) -> bool {
    is_matter_of_time(calm, world, id) || (calm.is_given && services_differed(world, parts, id))
}

/// Whether an execution that one node alone holds can do only what it does when nothing fails: its services
/// know keys and never fail, and nobody wants anything of it.
pub(super) fn does_what_it_does_alone(calm: &Expectation, world: &World, id: ExecutionId) -> bool {
    let failed =
        calm.executions.get(&id).is_none_or(|it| it.outcome != Condition::Completed.word());
    // What fails in one branch is a matter of time for the others, also if it is caught.
    let as_far_as_it_got = calm.is_forked && (failed || calm.is_one_of_many);
    let is_alone = world.client.is_alone(id) && world.disks_lost == 0;
    let had_faults = services_had_faults(world) || somebody_wished(world, id);
    let in_order = world.services.deduplicating && !had_faults;
    is_alone && in_order && !calm.is_timed && !as_far_as_it_got
}

/// Whatever way a run takes: what it did by one key stands once, if others can undo what they did by it.
fn nothing_stands_twice(
    calm: &Expectation,
    (world, parts): (&World, &Parts<'_>),
    id: ExecutionId,
) -> Finding {
    let mut stands: BTreeSet<(OperationKey, &str)> = BTreeSet::new();
    let certain = parts.standing(id).filter(|act| is_certain(world, act));
    for act in certain.filter(|act| is_undoable(calm, world, name(world, act))) {
        let name = name(world, act);
        if !stands.insert((act.key, name)) {
            return Err(format!("{name} stands twice by one key"));
        }
    }
    Ok(())
}

/// What people had taken back is taken back, unless something was done that cannot be.
pub fn what_failed_is_taken_back(calm: &Expectation, world: &World) -> Finding {
    let parts = Parts::of(world);
    for id in world.revisited.keys() {
        let stands = |is_such: fn(&Expectation, &World, &str) -> bool| {
            let mut names = parts.standing(*id).map(|act| name(world, act));
            names.find(|name| is_such(calm, world, name))
        };
        let faulted = how_it_ended(world, *id) == Some(Condition::Faulted.word());
        if faulted
            && stands(is_pivot).is_none()
            && let Some(name) = stands(is_undoable)
        {
            return Err(format!("{id} was to be taken back, and {name} stands"));
        }
    }
    Ok(())
}

/// Whether what is called so can be undone, as far as anybody did it: when nothing failed, or here.
fn is_undoable(calm: &Expectation, world: &World, name: &str) -> bool {
    calm.undoable.contains(name) || world.learnt.undoable.contains(name)
}

/// Whether what is called so can be neither undone nor repeated.
fn is_pivot(calm: &Expectation, world: &World, name: &str) -> bool {
    calm.pivots.contains(name) || world.learnt.pivots.contains(name)
}

/// What can be neither undone nor repeated is done at most as often as one run does it, by whomever:
/// its line was decided on before.
pub fn a_pivot_runs_in_one_line(calm: &Expectation, world: &World) -> Finding {
    let parts = Parts::of(world);
    let starts = world.client.plan().starts.iter().map(|start| start.id);
    for id in starts.filter(|id| pivots_wait(world, *id)) {
        if !calm.executions.contains_key(&id) {
            continue;
        }
        for pivot in &calm.pivots {
            let acts = parts.acts_of(id);
            let acts = acts.filter(|act| !act.is_orphan && name(world, act) == pivot).count();
            let once = pivots_of_one_run(calm, world, id, pivot);
            if once < acts {
                return Err(format!("{pivot} of {id} was done {acts} times"));
            }
        }
    }
    Ok(())
}

/// How often one run does what can be neither undone nor repeated. Where that depends on how long things take, the
/// run of the world in which nothing failed may have stopped before it, and that of another execution have come to it.
pub(super) fn pivots_of_one_run(
    calm: &Expectation,
    world: &World,
    id: ExecutionId,
    pivot: &str,
) -> usize {
    let of = |expected: &Expected| expected.standing.get(pivot).copied().unwrap_or(0);
    if is_matter_of_time(calm, world, id) {
        let most = calm.executions.values().map(of).max().unwrap_or(0);
        return most.max(calm.pivots_at_most);
    }
    calm.executions.get(&id).map_or(0, of)
}

/// Whether the pivots of what the client started wait for a decision on whose line counts.
pub(super) fn pivots_wait(world: &World, id: ExecutionId) -> bool {
    let survival = world.client.survival_of(id).filter(|_| world.client.is_start(id));
    let waits = survival.is_some_and(|it| !(it.is_replicated() && it.pivots_anywhere));
    waits && !world.client.forgiven.contains(&id)
}

/// How often each thing was done.
fn counts<'w>(world: &World, acts: impl Iterator<Item = &'w Act>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    acts.for_each(|act| *counts.entry(name(world, act).to_owned()).or_default() += 1);
    counts
}

/// How far every node that knows an execution says that it is.
fn conditions_of(
    world: &World,
    id: ExecutionId,
) -> impl Iterator<Item = (NodeId, Condition)> + use<'_> {
    engines(world).filter_map(move |(node, engine)| Some((node, engine.condition_of(id)?)))
}

pub(super) fn name<'w>(world: &'w World, act: &Act) -> &'w str {
    world.services.ledger.operation(act.name)
}

const fn is_certain(world: &World, act: &Act) -> bool {
    !act.is_orphan && (world.services.deduplicating || act.is_certain)
}

pub(super) fn services_had_faults(world: &World) -> bool {
    let of_services = |kind| {
        matches!(kind, FaultKind::ServiceErrors | FaultKind::LostAnswers | FaultKind::SlowServices)
    };
    world.options().lost_per_mille > 0
        || world.options().faults.iter().any(|fault| of_services(fault.kind))
}

/// Whether somebody had an execution end in another way than by itself.
pub(super) fn somebody_wished(world: &World, id: ExecutionId) -> bool {
    // What was denied to a sub-workflow fails whoever waits for that.
    let denied = world.denied.iter().any(|denied| root_of(world, *denied) == id);
    world.client.wished.contains(&id) || denied || world.revisited.contains_key(&id)
}

/// Whether a service that fails for so many keys failed for those of several lines, as they had nothing in
/// common: which attempt of which line works is then a matter of time.
pub(super) fn services_differed(world: &World, parts: &Parts<'_>, id: ExecutionId) -> bool {
    parts.parts_of(id).iter().any(|of| world.learnt.is_flaky_for_several(*of))
}

pub(super) fn strategy_of(world: &World, id: ExecutionId) -> Strategy {
    world.client.strategy_of(id)
}

pub(super) const fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed(_) => "completed",
        Outcome::Faulted(_) => "faulted",
        Outcome::Cancelled => "cancelled",
        Outcome::Compensated(_) => "compensated",
    }
}
