//! Branches inside an undo: what they call is part of that undo, wherever they were forked.

mod kit;

use std::collections::BTreeMap;

use kit::build::{Node, Step, call, program_with};
use kit::world::World;
use outlast_expressions::value;
use outlast_lineage::OperationKey;
use outlast_workflow::program::{Flow, Idempotency, OnFault};
use outlast_workflow::{EffectNote, Outcome, Request, Target};

use Node::{Compensate, Fork, Graph, Loop, Plain, Raise, Sequence, Task, Try, UndoneBy, Wait};

/// A run that fails after `a`, which is undone like this.
fn failed_after(undo: Node) -> World {
    let root = Sequence(vec![UndoneBy("a", Box::new(undo)), Raise(418)]);
    World::start(&program_with(root, OnFault::Compensate), value::object([]), 1)
}

fn name_of(request: &Request) -> &str {
    match &request.target {
        Target::Catalog { name, .. } => name,
        target => panic!("{target:?} is not of the kit"),
    }
}

/// Runs to the end; gives the calls that were made, in order.
fn all_calls(world: &mut World) -> Vec<Request> {
    let mut seen = BTreeMap::new();
    let mut calls = Vec::new();
    while world.ended.is_none() {
        for (ticket, request) in world.calls() {
            if seen.insert(ticket, request.clone()).is_none() {
                calls.push(request);
            }
        }
        assert!(world.step(), "something can happen until the end");
    }
    calls
}

/// Goes on until a service is called.
fn until_called(world: &mut World, name: &str) {
    while world.call_of(name).is_none() {
        assert!(world.step(), "`{name}` is called in the end");
    }
}

fn keys_of(calls: &[Request], name: &str) -> Vec<OperationKey> {
    calls.iter().filter(|call| name_of(call) == name).map(|call| call.key).collect()
}

#[test]
fn what_they_call_undoes_and_is_no_effect_of_its_own() {
    let graph = Graph(vec![Step::new(Plain("u")), Step::new(Plain("v"))], vec![(0, 1, None)]);
    let nested = Fork(vec![Fork(vec![Plain("u"), Plain("v")]), Plain("w")]);
    let bodies =
        [Fork(vec![Plain("u"), Plain("v")]), Loop(2, 2, Box::new(Plain("u"))), graph, nested];
    for body in bodies {
        let mut world = failed_after(body);
        let calls = all_calls(&mut world);
        let (first, undos) = calls.split_first().expect("`a` is called");
        assert!(2 <= undos.len(), "{undos:?}");
        for undo in undos {
            assert!(undo.undo, "{undo:?}");
            assert_eq!(undo.undoes, Some(first.key), "{undo:?}");
        }
        let intended = |note: &&EffectNote| matches!(note, EffectNote::Intended { .. });
        assert_eq!(world.effects.iter().filter(intended).count(), 1, "{:?}", world.effects);
    }
}

#[test]
fn a_call_that_is_tried_again_keeps_its_key() {
    let mut world = failed_after(Fork(vec![Try(Box::new(Plain("u")), 3, None)]));
    until_called(&mut world, "u");
    let (ticket, first) = world.call_of("u").expect("it is called");
    world.broken.insert("u".to_owned());
    world.answer(ticket);
    world.broken.clear();
    let later = all_calls(&mut world);
    assert_eq!(keys_of(&later, "u"), [first.key]);
}

#[test]
fn an_undo_that_is_tried_again_keeps_its_keys_and_has_other_branches() {
    let mut world = failed_after(Fork(vec![Plain("u"), Plain("v")]));
    until_called(&mut world, "u");
    let (failing, _) = world.call_of("u").expect("it is called");
    let (stopped, first) = world.call_of("v").expect("it is called beside it");
    world.broken.insert("u".to_owned());
    world.answer(failing);
    world.broken.clear();
    until_called(&mut world, "v");
    let (again, second) = world.call_of("v").expect("it is called again");
    assert_eq!(second.key, first.key);
    assert_ne!(again.branch, stopped.branch, "a late answer to the first would count here");
}

#[test]
fn a_call_that_must_not_be_repeated_is_left_to_a_person_by_the_next_try() {
    let mut once = call("v");
    once.traits.idempotency = Some(Idempotency { key: None, header: None, none: true });
    let mut world = failed_after(Fork(vec![Plain("u"), Task(Box::new(once))]));
    until_called(&mut world, "u");
    world.broken.insert("u".to_owned());
    let (failing, _) = world.call_of("u").expect("it is called");
    world.answer(failing);
    world.broken.clear();
    until_called(&mut world, "u");
    assert_eq!(world.call_of("v"), None);
    let parked = world.execution.parked();
    assert_eq!(parked.len(), 1);
    assert!(parked[0].undo);
    world.resolve_truthfully();
    assert!(matches!(world.run(), Outcome::Compensated(_)));
}

#[test]
fn ending_inside_one_does_not_end_the_workflow() {
    let mut last = call("u");
    last.then = Flow::End;
    let undo = Fork(vec![Task(Box::new(last)), Sequence(vec![Wait(5), Plain("v")])]);
    let body = Sequence(vec![UndoneBy("a", Box::new(undo)), Raise(418)]);
    let handler = Sequence(vec![Compensate, Plain("after")]);
    let tried = Try(Box::new(body), 0, Some(Box::new(handler)));
    let root = Sequence(vec![tried, Plain("later")]);
    let mut world = World::start(&program_with(root, OnFault::Leave), value::object([]), 1);
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done(), ["a", "u", "v", "after", "later"]);
}
