//! Small worlds, explored whole, on the machines that ship: every interleaving of
//! proposals, messages, timers and crashes.
//!
//! The network keeps every message that was ever sent and may deliver it at any time, again and
//! again: so being late, doubled and out of order are all among the interleavings, and being lost is
//! never being delivered. A crash may come after any output of a step; the node comes back from
//! its last record. A node that is down for long is one to which nothing is delivered for long. That
//! records become durable later than steps are taken needs no action of its own: what a crash then
//! takes away are inputs that nobody has seen an answer to, which is the same as their loss.

mod paxos;
mod two_phase;

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

/// Explores a world whole, and requires every law and every situation named, and that it has as many
/// states as the protocol's page says: a world that shrinks by accident proves less.
fn holds<World>(world: World, states: usize, laws: &[&'static str], situations: &[&'static str])
where
    World: Model + Send + Sync + 'static,
    World::State: std::hash::Hash + Send + Sync + std::fmt::Debug + Clone + PartialEq,
    World::Action: std::fmt::Debug + Clone + PartialEq,
{
    // Whole, unless a law is broken: then the rest is of no interest.
    let broken = HasDiscoveries::AnyOf(laws.iter().copied().collect());
    let checker = world.checker().finish_when(broken).spawn_bfs().join();
    for law in laws {
        checker.assert_no_discovery(law);
    }
    for situation in situations {
        checker.assert_any_discovery(situation);
    }
    assert_eq!(checker.unique_state_count(), states, "states; the page has a table of them");
}

/// Explores a world in which something is broken until a law notices, and requires that it does.
fn notices<World>(world: World, law: &'static str)
where
    World: Model + Send + Sync + 'static,
    World::State: std::hash::Hash + Send + Sync + std::fmt::Debug + Clone + PartialEq,
    World::Action: std::fmt::Debug + Clone + PartialEq,
{
    let until = HasDiscoveries::AnyOf(BTreeSet::from([law]));
    let checker = world.checker().finish_when(until).spawn_bfs().join();
    assert!(checker.discovery(law).is_some(), "not noticed by {law:?}");
}
