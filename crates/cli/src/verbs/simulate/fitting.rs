//! Whether what is asked for goes together.
//!
//! Whoever asks for a world that cannot be, or names what a world would not look at, does not get another
//! one that holds: it would pass for the one that was meant.

use outlast_engine::Strategy;
use outlast_simulator::{Fault, FaultKind, Scenario};

use super::Arguments;
use crate::exit::Failure;

/// What `--faults` may say beside `--fault`: whether the network is rough all the time, or not.
pub(super) const ROUGHNESS: [&str; 2] = ["all", "none"];

/// Refuses flags that do not go together.
pub(super) fn check_flags(arguments: &Arguments) -> Result<(), Failure> {
    check_numbers(arguments)?;
    last_seed(arguments)?;
    check_faults(arguments)?;
    check_strategy(arguments)
}

fn check_numbers(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { nodes, replicas, votes, .. } = *arguments;
    if let (Some(nodes), Some(replicas)) = (nodes, replicas)
        && u16::from(nodes) < replicas
    {
        return Err(Failure::usage(format!("--replicas {replicas}: there are {nodes} nodes")));
    }
    if let (Some(replicas), Some(votes)) = (replicas, votes)
        && replicas / 2 + 1 < votes
    {
        let most = replicas / 2 + 1;
        let reason = format!("of {replicas} replicas {most} are a majority");
        return Err(Failure::usage(format!("--votes {votes}: {reason}")));
    }
    if let (Some(nodes), None, Some(votes)) = (nodes, replicas, votes)
        && u16::from(nodes) / 2 + 1 < votes
    {
        let reason = format!("of {nodes} nodes {} are a majority", nodes / 2 + 1);
        return Err(Failure::usage(format!("--votes {votes}: {reason}")));
    }
    Ok(())
}

/// The seed of the last world.
pub(super) fn last_seed(arguments: &Arguments) -> Result<u64, Failure> {
    let Arguments { seed, runs, .. } = *arguments;
    seed.checked_add(runs - 1).ok_or_else(|| {
        let left = (u64::MAX - seed).saturating_add(1);
        Failure::usage(format!("--runs {runs}: from seed {seed} on there are {left}"))
    })
}

/// Refuses kinds to draw from where nothing is drawn, and faults beside none.
fn check_faults(arguments: &Arguments) -> Result<(), Failure> {
    if 1 < arguments.fault.len() && arguments.fault.iter().any(|fault| fault == "none") {
        return Err(Failure::usage("--fault none: there is another --fault beside it"));
    }
    match &arguments.faults {
        Some(kinds) if !arguments.fault.is_empty() && !ROUGHNESS.contains(&kinds.as_str()) => {
            let reason = "beside --fault nothing is drawn";
            let rest = "`all` or `none` say there whether the network is rough all the time";
            Err(Failure::usage(format!("--faults {kinds}: {reason}; {rest}")))
        }
        _ => Ok(()),
    }
}

/// Refuses what the strategy does not look at, as `outlast check` warns of it in a document.
fn check_strategy(arguments: &Arguments) -> Result<(), Failure> {
    let Some(strategy) = arguments.strategy else { return Ok(()) };
    let read = flags_of(strategy);
    let given = [
        ("--replicas", arguments.replicas.is_some()),
        ("--votes", arguments.votes.is_some()),
        ("--acknowledge", arguments.acknowledge.is_some()),
        ("--budget", arguments.budget.is_some()),
        ("--pivots", arguments.pivots.is_some()),
    ];
    let Some((flag, _)) = given.into_iter().find(|(flag, given)| *given && !read.contains(flag))
    else {
        return Ok(());
    };
    let word = strategy.word();
    let rest = match read {
        [] => "leave it out".to_owned(),
        read => format!("leave it out; there is {}", read.join(", ")),
    };
    Err(Failure::usage(format!("{flag}: the strategy {word} does not read it; {rest}")))
}

/// Which flags are read under a strategy.
pub(super) const fn flags_of(strategy: Strategy) -> &'static [&'static str] {
    match strategy {
        Strategy::None => &[],
        Strategy::Active => &["--replicas", "--pivots"],
        Strategy::Passive => &["--replicas", "--acknowledge", "--budget", "--pivots"],
        Strategy::PartitionTolerant => {
            &["--replicas", "--votes", "--acknowledge", "--budget", "--pivots"]
        }
    }
}

/// Refuses a fault of a node that is not there, or that cuts nobody off from anybody: it would pass for one
/// that did no harm.
pub(super) fn check_places(arguments: &Arguments, scenario: &Scenario) -> Result<(), Failure> {
    let given = scenario.options.faults.iter().filter(|_| !arguments.fault.is_empty());
    match given.into_iter().find_map(|fault| Some((fault, misplaced(fault, scenario)?))) {
        None => Ok(()),
        Some((fault, reason)) => Err(Failure::usage(format!("--fault {fault}: {reason}"))),
    }
}

/// Refuses more executions of a flow than come to an end while nothing fails.
pub(super) fn too_many(reason: String) -> Failure {
    Failure::usage(format!("{reason}; ask for fewer with --executions"))
}

/// What is wrong with the nodes, or the execution, that a fault names.
fn misplaced(fault: &Fault, scenario: &Scenario) -> Option<String> {
    let (nodes, executions) = (scenario.options.nodes, scenario.delays.len());
    let named =
        usize::try_from(fault.amount).ok().filter(|_| FaultKind::WISHES.contains(&fault.kind));
    if executions < named.unwrap_or(0) {
        let seed = scenario.options.seed;
        return Some(format!("the world of seed {seed} has {executions} executions"));
    }
    let last = (u64::BITS - fault.nodes.leading_zeros()) as usize;
    let bridge = usize::try_from(fault.amount).ok().filter(|_| fault.kind == FaultKind::Bridge);
    if nodes < last.max(bridge.unwrap_or(0)) {
        return Some(format!("the world of seed {} has {nodes} nodes", scenario.options.seed));
    }
    // In a world of one node, where nothing can be cut, such faults are drawn, too.
    let cuts = [FaultKind::Split, FaultKind::OneWay, FaultKind::Bridge, FaultKind::Flap];
    let is_whole = 1 < nodes && fault.nodes.count_ones() as usize == nodes;
    let cuts_nothing = is_whole && cuts.contains(&fault.kind);
    cuts_nothing.then(|| format!("of {nodes} nodes it names all, and so cuts nobody off"))
}
