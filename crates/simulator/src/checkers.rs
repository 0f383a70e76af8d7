//! What must hold after a run in the world. Each checker is a sentence; it says what it found
//! instead.

use std::collections::BTreeMap;

use outlast_lineage::Digest;

use crate::World;

/// A sentence that does not hold, and what was found instead.
pub type Finding = Result<(), String>;

/// Checks everything that holds for every run, whatever the flow.
pub fn everything_that_always_holds(world: &World) -> Finding {
    every_execution_ends(world)?;
    nobody_is_refused(world)?;
    nothing_acknowledged_is_lost(world)?;
    no_key_carries_two_requests(world)?;
    no_key_is_acted_on_twice(world)
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
    for id in &world.client.acknowledged {
        if !world.client.ended.contains_key(id) {
            return Err(format!("{id} was acknowledged, and nobody knows how it ended"));
        }
    }
    Ok(())
}

/// One key is never used for two different requests.
pub fn no_key_carries_two_requests(world: &World) -> Finding {
    let mut requests: BTreeMap<&str, (Digest, &str)> = BTreeMap::new();
    for visit in &world.services.ledger {
        let (first, operation) =
            requests.entry(&visit.key).or_insert((visit.request, &visit.operation));
        if *first != visit.request {
            let (key, second) = (&visit.key, &visit.operation);
            return Err(format!("key {key} carried {operation} and then {second}"));
        }
    }
    Ok(())
}

/// No service acts twice on one key.
pub fn no_key_is_acted_on_twice(world: &World) -> Finding {
    let mut acted: BTreeMap<&str, &str> = BTreeMap::new();
    for visit in world.services.ledger.iter().filter(|visit| visit.acted) {
        if let Some(operation) = acted.insert(&visit.key, &visit.operation) {
            return Err(format!("{operation} was done twice with key {}", visit.key));
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
        let found = world.client.ended.get(id).map(|detail| &detail.outcome);
        if found != Some(&expected.outcome) {
            return Err(format!("{id} ended as {found:?} instead of {:?}", expected.outcome));
        }
    }
    Ok(())
}
