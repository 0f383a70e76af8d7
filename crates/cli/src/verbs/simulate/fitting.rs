//! Whether what is asked for goes together.
//!
//! Whoever asks for a world that cannot be, or names what a world would not look at, does not get another
//! one that holds: it would pass for the one that was meant.

use outlast_engine::Strategy;
use outlast_simulator::{Fault, FaultKind, Scenario};

use super::Arguments;
use crate::exit::Failure;

/// Refuses flags that do not go together.
pub(super) fn check_flags(arguments: &Arguments) -> Result<(), Failure> {
    check_numbers(arguments)?;
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

/// Refuses a fault of a node that is not there: it would pass for one that did no harm.
pub(super) fn check_places(arguments: &Arguments, scenario: &Scenario) -> Result<(), Failure> {
    let (nodes, faults) = (scenario.options.nodes, &scenario.options.faults);
    let last = |fault: &Fault| {
        let named = (u64::BITS - fault.nodes.leading_zeros()) as usize;
        let bridge = usize::try_from(fault.amount).ok().filter(|_| fault.kind == FaultKind::Bridge);
        named.max(bridge.unwrap_or(0))
    };
    match faults.iter().find(|fault| !arguments.fault.is_empty() && nodes < last(fault)) {
        None => Ok(()),
        Some(fault) => {
            let reason = format!("the world of seed {} has {nodes} nodes", scenario.options.seed);
            Err(Failure::usage(format!("--fault {fault}: {reason}")))
        }
    }
}
