//! A swarm of worlds: one for each seed, each with its own options, faults and flow.
//!
//! When a sentence does not hold, faults are left out for as long as it still does not: what remains
//! is what a person has to look at.

mod recording;
mod scenario;
pub(crate) mod workload;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Strategy, Survival};

use crate::checkers::{self, Expectation};
use crate::{Fault, RunEvent, Situation, Situations, Watcher, World, WorldOptions};
pub use recording::{Recording, RecordingError};
pub use scenario::{Scenario, Wanted};
pub use workload::Workload;

/// How many worlds are tried at most to find fewer faults.
const SHRINKING_MAX: usize = 300;

/// How much may occur for each execution of a flow when nothing fails: one with ten thousand activities
/// takes a third of it.
const OCCURRENCES_MAX: u64 = 300_000;

/// How one world went.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The sentence that did not hold, and what was found instead.
    pub finding: Option<String>,
    /// How many steps all engines took.
    pub steps: u64,
    /// How many things occurred.
    pub occurrences: u64,
    /// How long it went on, on its own clock.
    pub elapsed: Duration,
    /// What came up in it.
    pub situations: Situations,
    /// How many undos named nothing that was done, so that nobody can tell what stands.
    pub unpaired: u64,
    /// Whether whoever looked on wanted no more.
    pub stopped: bool,
    /// Every input of every engine, if the run was recorded.
    pub run_events: Vec<RunEvent>,
    /// What occurred, a line each, if it was written down.
    pub trace: String,
}

/// Why nobody can tell what a flow does when nothing fails.
#[derive(Debug)]
enum Uncalm {
    /// It does not end, or not within what may occur.
    Endless(String),
    /// A sentence does not hold even then.
    Broken(String),
}

impl Uncalm {
    fn text(self) -> String {
        match self {
            Self::Endless(text) | Self::Broken(text) => text,
        }
    }
}

/// Runs worlds, and remembers what each flow does when nothing fails.
#[derive(Debug)]
pub struct Swarm {
    flows: Vec<Workload>,
    wanted: Wanted,
    calm: BTreeMap<(String, usize, bool), Arc<Expectation>>,
}

impl Swarm {
    /// A swarm of what is asked for, over some flows.
    pub fn new(wanted: Wanted, flows: Vec<Workload>) -> Self {
        assert!(!flows.is_empty(), "there is something to run");
        Self { flows, wanted, calm: BTreeMap::new() }
    }

    /// The world of a seed.
    pub fn scenario(&self, seed: u64) -> Scenario {
        Scenario::draw(seed, &self.wanted, &self.flows)
    }

    /// The flows it draws from.
    pub fn flows(&self) -> &[Workload] {
        &self.flows
    }

    /// Runs every flow once while nothing fails; says which does not come to an end even then.
    pub fn try_flows(&mut self) -> Result<(), String> {
        let flows = self.flows.clone();
        let solo = Survival::solo();
        let mut tries = flows.iter().map(|flow| self.expectation(flow, 1, &solo).map(drop));
        tries.try_for_each(|tried| tried.map_err(Uncalm::text))
    }

    /// Runs the flow of a world as often while nothing fails; says so if that does not come to an end, of
    /// which nobody can tell what it does.
    pub fn try_flow_of(&mut self, scenario: &Scenario) -> Result<(), String> {
        let flow = self.flows.iter().find(|flow| flow.name == scenario.flow).cloned();
        let Some(flow) = flow else { return Ok(()) };
        match self.expectation(&flow, scenario.delays.len(), &scenario.survival) {
            Err(Uncalm::Endless(text)) => Err(text),
            Ok(_) | Err(Uncalm::Broken(_)) => Ok(()),
        }
    }

    /// Runs a world and looks at everything that must hold in it.
    pub fn run(&mut self, scenario: &Scenario) -> Verdict {
        self.run_watched(scenario, None)
    }

    /// The same, while someone looks on.
    pub fn run_watched(&mut self, scenario: &Scenario, watcher: Option<Watcher>) -> Verdict {
        let Some(flow) = self.flows.iter().find(|flow| flow.name == scenario.flow).cloned() else {
            return Verdict::nothing(format!("there is no flow {}", scenario.flow));
        };
        let calm = match self.expectation(&flow, scenario.delays.len(), &scenario.survival) {
            Ok(calm) => calm,
            Err(uncalm) => return Verdict::nothing(uncalm.text()),
        };
        let plan = flow.plan(&scenario.delays, &scenario.survival);
        let mut world = World::new(scenario.options.clone(), plan);
        world.expects(Arc::clone(&calm));
        watcher.into_iter().for_each(|watcher| world.watch(watcher));
        // An engine that finds its own invariants broken panics, which is a finding like any other: what
        // occurred until then is kept.
        let found = catch_unwind(AssertUnwindSafe(|| {
            let settled = |world: &World| {
                world.is_out()
                    && checkers::nobody_holds_what_is_over(world).is_ok()
                    && checkers::net_effects_are_those_of_one_run(&calm, world).is_ok()
            };
            world.run_to_rest(&settled);
            let at_rest = checkers::everything_at_rest(&calm, &world);
            at_rest.and_then(|()| {
                world.live_on(&settled);
                checkers::everything_at_last(&calm, &world)
            })
        }));
        let panicked = |panic: Box<dyn Any + Send>| Err(format!("panic: {}", words_of(&*panic)));
        Verdict::of(world, found.unwrap_or_else(panicked).err())
    }

    /// What so many executions of a flow do when nothing fails: held by one node; or by two, where what
    /// several hold starts others under other names.
    fn expectation(
        &mut self,
        flow: &Workload,
        executions: usize,
        survival: &Survival,
    ) -> Result<Arc<Expectation>, Uncalm> {
        let by_several = survival.is_replicated() && flow.starts_others_in_parts();
        let key = (flow.name.clone(), executions, by_several);
        if let Some(known) = self.calm.get(&key) {
            return Ok(Arc::clone(known));
        }
        let (nodes, survival) = match by_several {
            true => (2, Survival::new(Strategy::Passive, 2)),
            false => (1, Survival::solo()),
        };
        let calm = WorldOptions { trace: false, nobody_denies: true, ..WorldOptions::default() };
        let options = WorldOptions { nodes, ..calm };
        let plan = flow.plan(&vec![Duration::ZERO; executions], &survival);
        let mut world = World::new(options, plan);
        world.run_out(OCCURRENCES_MAX * executions as u64);
        let flow_name = &flow.name;
        let has_ended = world.client.is_content() && world.is_out();
        if !has_ended && world.finding().is_none() {
            return Err(Uncalm::Endless(endless(flow, executions, &world)));
        }
        checkers::everything_that_always_holds(&world)
            .map_err(|finding| format!("{flow_name} when nothing fails: {finding}"))
            .map_err(Uncalm::Broken)?;
        let mut expectation = Expectation::of(&world);
        expectation.delays = flow.delays();
        expectation.pivots_at_most = flow.pivots_at_most();
        expectation.is_one_of_many = flow.takes_other_ways();
        expectation.is_forked = flow.is_forked();
        expectation.is_timed = flow.is_timed();
        expectation.is_given = !flow.built_in;
        let expectation = Arc::new(expectation);
        self.calm.insert(key, Arc::clone(&expectation));
        Ok(expectation)
    }

    /// Leaves out faults of a world that fails, for as long as it still does. Tells of every try.
    pub fn shrink(&mut self, failing: &Scenario, mut tried: impl FnMut(usize)) -> Scenario {
        let mut smallest = failing.clone();
        smallest.options.trace = false;
        let mut chunk = smallest.options.faults.len().div_ceil(2);
        let mut tries = 0;
        while chunk > 0 && tries < SHRINKING_MAX {
            let mut from = 0;
            let mut smaller = false;
            while from < smallest.options.faults.len() && tries < SHRINKING_MAX {
                tries += 1;
                tried(tries);
                let candidate = without(&smallest, from, chunk);
                if self.run(&candidate).finding.is_some() {
                    smallest = candidate;
                    smaller = true;
                } else {
                    from += chunk;
                }
            }
            if chunk > 1 {
                chunk /= 2;
            } else if !smaller {
                break;
            }
        }
        smallest
    }
}

/// That a flow does not end when nothing fails, and why.
fn endless(flow: &Workload, executions: usize, calm: &World) -> String {
    let how = if executions == 1 { String::new() } else { format!(", {executions} times,") };
    let why = calm.why_it_went_on();
    let what = if calm.client.is_content() { " has, and what it started" } else { "" };
    let name = &flow.name;
    format!("{name}{how}{what} has not ended after {why}")
}

/// The same world without some of its faults.
fn without(scenario: &Scenario, from: usize, count: usize) -> Scenario {
    let mut less = scenario.clone();
    let faults: &mut Vec<Fault> = &mut less.options.faults;
    let to = faults.len().min(from + count);
    faults.drain(from..to);
    less
}

impl Verdict {
    fn of(world: World, finding: Option<String>) -> Self {
        Self {
            finding,
            steps: world.steps(),
            occurrences: world.occurrences,
            elapsed: world.elapsed(),
            unpaired: world.services.ledger.unpaired,
            stopped: world.was_stopped(),
            situations: world.situations,
            run_events: world.run_events,
            trace: world.trace,
        }
    }

    fn nothing(finding: String) -> Self {
        Self {
            finding: Some(finding),
            steps: 0,
            occurrences: 0,
            elapsed: Duration::ZERO,
            situations: Situations::default(),
            unpaired: 0,
            stopped: false,
            run_events: Vec::new(),
            trace: String::new(),
        }
    }

    /// How often a situation came up.
    pub fn count(&self, situation: Situation) -> u64 {
        self.situations.count(situation)
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words").to_owned()
}
