//! Trying every point at which a run can be interrupted.

use std::collections::BTreeMap;

use crate::checkers;
use crate::{CrashPoint, Moment, Plan, World, WorldOptions};

/// A run to be interrupted, with the options of its world.
#[derive(Clone, Debug)]
pub struct Flow {
    /// What is to be done.
    pub plan: Plan,
    /// What the world is like, crashes aside.
    pub options: WorldOptions,
}

/// How the trials went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trial {
    /// What services did, with how often.
    pub acts: BTreeMap<String, usize>,
    /// How many records the run writes when nothing goes wrong.
    pub records: u64,
    /// How many interrupted runs were tried.
    pub crashes: u64,
}

/// Runs once without faults, then once for every record and every moment at which a crash makes a
/// difference. Says which crash broke which sentence.
pub fn try_every_crash_point(flow: &Flow) -> Result<Trial, String> {
    let calm = run(flow, Vec::new());
    checkers::everything_that_always_holds(&calm)
        .map_err(|finding| format!("without any crash: {finding}\n{}", calm.trace))?;
    let mut trial =
        Trial { acts: calm.services.acts(), records: calm.machines[0].node.records, crashes: 0 };
    for record in 1..=calm.machines[0].node.records {
        for moment in Moment::ALL {
            let point = CrashPoint { record, moment };
            let world = run(flow, vec![point]);
            if world.machines[0].node.life == 0 {
                return Err(format!("the run never came to {point:?}\n{}", world.trace));
            }
            check(&calm, &world)
                .map_err(|finding| format!("crash at {point:?}: {finding}\n{}", world.trace))?;
            trial.crashes += 1;
        }
    }
    Ok(trial)
}

fn run(flow: &Flow, crashes: Vec<CrashPoint>) -> World {
    let options = WorldOptions { crashes, ..flow.options.clone() };
    let mut world = World::new(options, flow.plan.clone());
    world.run();
    world
}

fn check(calm: &World, world: &World) -> checkers::Finding {
    checkers::everything_that_always_holds(world)?;
    checkers::outcomes_are_the_same(calm, world)?;
    checkers::services_did_the_same(calm, world)
}
