//! What is undone: in which order, by whom, and that nobody undoes anything while nothing fails.
//!
//! Each sentence is said of one undo, so that it can be looked at when that is made, and again of all
//! of them when the world is at rest.

use outlast_engine::{Acknowledge, Strategy};
use outlast_lineage::{ExecutionId, Lineage, Point};

use super::Finding;
use super::effects::{Expectation, is_matter_of_time, name, somebody_wished, strategy_of};
use super::parts::{Parts, root_of, starter_of};
use crate::{Act, World};

/// What was undone, with the places of the first and of the last call of its undo so far.
struct Undone<'w> {
    act: &'w Act,
    beginning: usize,
    end: usize,
}

impl<'w> Undone<'w> {
    /// What a call did that was given up for an alternative, or whose error was caught, is none of those: it is
    /// undone beside the run.
    fn of(world: &World, act: &'w Act) -> Option<Self> {
        let ledger = &world.services.ledger;
        let end = act.undone_by?;
        let place = ledger.act(end).undoes?;
        if world.learnt.is_set_aside(place) {
            return None;
        }
        Some(Self { act, beginning: ledger.first_undo(place)?, end })
    }

    /// Whether it had to wait for the undo of another one, which was over only after its own had begun.
    fn did_not_wait_for(&self, world: &World, later: &Self) -> bool {
        let undo = world.services.ledger.act(self.beginning);
        is_later_on_its_line(self.act, later.act)
            && later.act.time < undo.time
            && self.beginning < later.end
            && undo.line.as_ref().is_none_or(|line| counts_on(world, line, later.act))
            && !(undo.line.is_none() && later.was_kept_until_people_came(world))
    }

    /// What a lost line shares with the run by its key stays with that, and is undone when people have the run
    /// taken back; what is left of the lost line is undone before, and does not wait for people.
    fn was_kept_until_people_came(&self, world: &World) -> bool {
        let own = self.act.effect.point;
        let is_other = |state: &Point| (state.author, state.epoch) != (own.author, own.epoch);
        let is_shared = world.services.deduplicating && self.act.intended.iter().any(is_other);
        is_shared && world.revisited.contains_key(&root_of(world, self.act.execution))
    }

    fn finding(&self, world: &World, later: &Self) -> String {
        let (first, second) = (name(world, self.act), name(world, later.act));
        let id = self.act.execution;
        format!("{first} of {id} was undone before {second}, which came later")
    }
}

/// What was undone was undone after everything that came later in the same line and had to go too.
///
/// A run that rolls back does not wait for lines that it may not even reach: what others did on from
/// its effects, and is not on the line that rolls back, is undone later.
pub fn undos_come_in_reverse_order(world: &World) -> Finding {
    let ledger = &world.services.ledger;
    for id in ledger.executions() {
        let undone: Vec<_> = ledger.of(id).filter_map(|act| Undone::of(world, act)).collect();
        for earlier in &undone {
            let later = undone.iter().find(|later| earlier.did_not_wait_for(world, later));
            if let Some(later) = later {
                return Err(earlier.finding(world, later));
            }
        }
    }
    Ok(())
}

/// The same of an undo that was just made: nothing that it had to come before was undone before it.
pub(super) fn an_undo_comes_in_order(world: &World, undo: &Act) -> Finding {
    let ledger = &world.services.ledger;
    let undone = undo.undoes.and_then(|place| Undone::of(world, ledger.act(place)));
    let Some(later) = undone else { return Ok(()) };
    let mut before = ledger.on_the_line_of(later.act).filter_map(|act| Undone::of(world, act));
    match before.find(|earlier| earlier.did_not_wait_for(world, &later)) {
        Some(earlier) => Err(earlier.finding(world, &later)),
        None => Ok(()),
    }
}

fn is_later_on_its_line(earlier: &Act, later: &Act) -> bool {
    let (first, second) = (&earlier.effect, &later.effect);
    first.branch == second.branch
        && first.point.author == second.point.author
        && first.point.epoch == second.point.epoch
        && first.point.number < second.point.number
}

/// Whether an act is one of a line: it took up the answer, or asked for it at a service that acts once
/// for each key, as the flow says, too.
fn counts_on(world: &World, line: &Lineage, act: &Act) -> bool {
    let taken_up = act.taken_up.is_some_and(|state| line.contains(&state));
    let asked = act.intended.iter().any(|state| line.contains(state));
    taken_up || (world.services.deduplicating && asked)
}

/// A run without faults undoes nothing that one node alone would not undo; active replication does.
///
/// How much a run undoes by itself while other branches go on depends on how far these are: then nothing
/// is undone that another line did as well.
pub fn no_compensation_without_a_fault(calm: &Expectation, world: &World) -> Finding {
    if !world.options().faults.is_empty() || !is_smooth(world) {
        return Ok(());
    }
    let parts = Parts::of(world);
    for id in calm.executions.keys() {
        let undos = parts.acts_of(*id).filter(|act| act.undo).count();
        undoes_no_more_than_one_run(calm, world, *id, undos)?;
        let acts: Vec<&Act> = parts.acts_of(*id).collect();
        let undone = acts.iter().filter(|act| act.undone_by.is_some());
        undone.copied().try_for_each(|act| {
            is_of_one_line(calm, world, (*id, act), &mut acts.iter().copied())
        })?;
    }
    Ok(())
}

/// The same of an undo that was just made, the so manyth of an execution, though no fault has begun yet.
pub(super) fn an_undo_comes_after_a_fault(
    calm: &Expectation,
    world: &World,
    (root, undo, undos): (ExecutionId, &Act, usize),
) -> Finding {
    // What failed by itself may be taken back by people.
    let is_asked_for = somebody_wished(world, root);
    if world.has_failed() || is_asked_for || !is_smooth(world) {
        return Ok(());
    }
    if !calm.executions.contains_key(&root) {
        return Ok(());
    }
    undoes_no_more_than_one_run(calm, world, root, undos)?;
    let ledger = &world.services.ledger;
    let Some(undone) = undo.undoes.map(|place| ledger.act(place)) else { return Ok(()) };
    is_of_one_line(calm, world, (root, undone), &mut ledger.of(undone.execution))
}

fn undoes_no_more_than_one_run(
    calm: &Expectation,
    world: &World,
    id: ExecutionId,
    undos: usize,
) -> Finding {
    let most = calm.executions.get(&id).map_or(0, |expected| expected.undos);
    let as_far_as_it_got = (calm.is_forked && 0 < most) || is_matter_of_time(calm, world, id);
    if most < undos && !as_far_as_it_got && may_be_judged(calm, world, id) {
        return Err(format!("{id} undid {undos} things though nothing had failed"));
    }
    Ok(())
}

/// What was undone was not done by another line as well.
fn is_of_one_line(
    calm: &Expectation,
    world: &World,
    (id, undone): (ExecutionId, &Act),
    acts: &mut dyn Iterator<Item = &Act>,
) -> Finding {
    let line = |act: &Act| (act.effect.point.author, act.effect.point.epoch);
    let mut others = acts.filter(|act| act.operation == undone.operation && !act.undo);
    if others.any(|act| line(act) != line(undone)) && may_be_judged(calm, world, id) {
        let name = name(world, undone);
        return Err(format!("{id} did {name} on two lines though nothing had failed"));
    }
    Ok(())
}

/// Whoever is too late, or second in a race, is undone; and active replication undoes all but one.
fn may_be_judged(calm: &Expectation, world: &World, id: ExecutionId) -> bool {
    !calm.is_timed && strategy_of(world, id) != Strategy::Active
}

/// Whether no message is lost or late, and no node dies, unless a fault has it.
fn is_smooth(world: &World) -> bool {
    let options = world.options();
    let quick = options.network.latency.most().is_some_and(|micros| micros <= 1_000);
    let nobody_dies = options.crash_per_mille == 0 && options.crashes.is_empty();
    options.network.lost_per_mille == 0 && nobody_dies && quick
}

/// Where a call leaves only when a majority has its intent, a line that loses has nothing to undo at
/// services that know keys, whatever fails: what left is asked for by the same key on the line that goes on.
pub fn nothing_is_undone_that_a_majority_lacked(world: &World) -> Finding {
    let ledger = &world.services.ledger;
    let executions = ledger.executions();
    executions
        .flat_map(|id| ledger.of(id))
        .filter(|act| act.undo)
        .try_for_each(|undo| a_majority_had_what_is_undone(world, undo))
}

/// Whether an execution was started by one that people had come back to, which only one node goes on with.
fn was_started_alone(world: &World, root: ExecutionId) -> bool {
    let mut starters = std::iter::successors(starter_of(world, root), |id| starter_of(world, *id));
    !world.is_held_by_several(root) && starters.any(|id| world.revisited.contains_key(&id))
}

/// The same of one undo.
pub(super) fn a_majority_had_what_is_undone(world: &World, undo: &Act) -> Finding {
    if undo.line.is_some() || !world.services.deduplicating || 0 < world.disks_lost {
        return Ok(());
    }
    let root = root_of(world, undo.execution);
    let waits = world.client.survival_of(root).is_some_and(|survival| {
        survival.is_replicated() && survival.acknowledge == Acknowledge::Majority
    });
    // What its flow says has no key is made anew by whoever goes on, and undone by whoever made it first,
    // or was about to: a tolerant undo names what never came to its service, too.
    let ledger = &world.services.ledger;
    let is_keyless = || {
        let undone = undo.names.or_else(|| Some(ledger.act(undo.undoes?).key));
        undone.is_some_and(|key| world.learnt.may_be_keyless(&key.to_string()))
    };
    // Who goes on alone with what had failed holds no line with others either, nor does whom that starts.
    let is_alone = world.revisited.contains_key(&root) || was_started_alone(world, root);
    if !waits || is_alone || is_keyless() {
        return Ok(());
    }
    let (id, name, node) = (undo.execution, name(world, undo), undo.node.0);
    Err(format!("a line of {id} that was lost made {name} at node {node}"))
}
