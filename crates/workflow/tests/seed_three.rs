//! Seed 3 (Haque and Yu, replicated continuation-passing messaging) claim by claim: its example
//! application, the continuations of its Table I, the compensation continuations of its Table II
//! and the control flows of its Fig. 2.

mod kit;

use std::sync::Arc;

use kit::build::{Node, program_named};
use kit::world::World;
use outlast_expressions::value;
use outlast_lineage::{BranchId, Epoch, NodeId};
use outlast_workflow::program::OnFault;
use outlast_workflow::{
    Advance, Answer, Command, Event, Fault, FaultKind, Outcome, Program, Target, Ticket, notation,
};

use Node::{Compensate, Fork, Invoke, Loop, Plain, Read, Sequence, Try};

/// How often the first branch of the example invokes b.
const N: usize = 3;

/// Fig. 1: `scope(sequence(invoke(Sa,a,ā), fork(loop(n, invoke(Sb,b,b̄)), scope(sequence(
/// invoke(Sc,c), invoke(Sd,d,d̄)), any: sequence(compensate, invoke(Se,e))))), any: compensate)`.
/// The document is the outer scope, and `onFault: compensate` is its `any: compensate`.
fn application() -> Arc<Program> {
    let inner = Try(
        Box::new(Sequence(vec![Read("c"), Invoke("d")])),
        0,
        Some(Box::new(Sequence(vec![Compensate, Plain("e")]))),
    );
    let branches = vec![Loop(N, 1, Box::new(Invoke("b"))), inner];
    program_named("p", Sequence(vec![Invoke("a"), Fork(branches)]), OnFault::Compensate)
}

fn start(seed: u64) -> World {
    World::start(&application(), value::object([]), seed)
}

/// The open call of a service.
fn call_of(world: &World, service: &str) -> Ticket {
    let calls = world.open.iter().filter(|(_, command)| {
        matches!(command, Command::Call { request, .. }
            if matches!(&request.target, Target::Catalog { name, .. } if name == service))
    });
    *calls.map(|(ticket, _)| ticket).next().expect("the call is under way")
}

fn answer(world: &mut World, service: &str) -> BranchId {
    let ticket = call_of(world, service);
    world.answer(ticket);
    ticket.branch
}

fn refuse(world: &mut World, service: &str) -> Advance {
    let ticket = call_of(world, service);
    world.open.remove(&ticket);
    let fault = Fault::new(FaultKind::Communication, "refused", service);
    world.happen(Event::Answered { ticket, answer: Answer::Failed(fault) })
}

fn continuation(world: &World, branch: BranchId) -> String {
    notation::line(&notation::continuation(&world.execution, &world.program, branch))
}

/// Table II prints the compensation continuations of nested scopes one after the other, the outer
/// first.
fn compensation(world: &World, branch: BranchId) -> Vec<String> {
    let scopes = notation::compensation(&world.execution, &world.program, branch);
    scopes.iter().map(|scope| notation::line(scope)).collect()
}

/// κ of Table I. The join's id is its number in the trunk, where the call of a was number 1.
const K: &str = "join(2,2)·eos(-)·eorch(Sp)";
/// κ̄ of Table II.
const K_BAR: &str = "join(2,2)·invoke(Sa,a\u{304})·eos(-)·eorch(Sp)";

#[test]
fn message_1_asks_for_the_orchestration_and_nothing_is_to_be_undone() {
    let program = application();
    assert_eq!(notation::line(&notation::request(&program)), "orch(scope(-),Sp)");
    assert_eq!(compensation(&start(1), BranchId::TRUNK), ["nil"]);
}

/// Section IV: "Ap sends invoke(a) to Sa and puts wait(Sa, a, ā)·fork(-)·eos(-)·eorch(-) in its PM".
#[test]
fn after_the_invocation_of_a_come_the_fork_and_the_ends() {
    let world = start(1);
    let expected = "invoke(Sa,a,a\u{304})·fork(-)·eos(-)·eorch(Sp)";
    assert_eq!(continuation(&world, BranchId::TRUNK), expected);
}

#[test]
fn message_2_carries_the_loop() {
    let mut world = start(1);
    answer(&mut world, "a");
    let branch = call_of(&world, "b").branch;
    let invoke = "invoke(Sb,b,b\u{304})";
    let expected = format!("{invoke}·loop({},{invoke})·{K}", N - 1);
    assert_eq!(continuation(&world, branch), expected);
    assert_eq!(compensation(&world, branch), [K_BAR]);
}

#[test]
fn message_3_carries_the_end_of_the_loop_and_an_undo_for_each_iteration() {
    let mut world = start(1);
    answer(&mut world, "a");
    for _ in 1..N {
        answer(&mut world, "b");
    }
    world.happen(Event::SuspendRequested);
    let branch = answer(&mut world, "b");
    assert_eq!(continuation(&world, branch), K);
    let undo = "invoke(Sb,b\u{304})";
    assert_eq!(compensation(&world, branch), [format!("{undo}·{undo}·{undo}·{K_BAR}")]);
}

#[test]
fn message_4_carries_the_nested_scope() {
    let mut world = start(1);
    answer(&mut world, "a");
    let branch = call_of(&world, "c").branch;
    let expected = format!("invoke(Sc,c)·invoke(Sd,d,d\u{304})·eos(-)·{K}");
    assert_eq!(continuation(&world, branch), expected);
    assert_eq!(compensation(&world, branch), [K_BAR, "nil"]);
}

#[test]
fn message_5_carries_what_is_left_after_c() {
    let mut world = start(1);
    answer(&mut world, "a");
    let branch = answer(&mut world, "c");
    let expected = format!("invoke(Sd,d,d\u{304})·eos(-)·{K}");
    assert_eq!(continuation(&world, branch), expected);
    // c only reads: "operation c is read-only and does not need a reverse operation" (section III).
    assert_eq!(compensation(&world, branch), [K_BAR, "nil"]);
}

#[test]
fn message_6_carries_the_end_of_the_nested_scope_and_the_undo_of_d() {
    let mut world = start(1);
    answer(&mut world, "a");
    answer(&mut world, "c");
    world.happen(Event::SuspendRequested);
    let branch = answer(&mut world, "d");
    assert_eq!(continuation(&world, branch), format!("eos(-)·{K}"));
    assert_eq!(compensation(&world, branch), [K_BAR, "invoke(Sd,d\u{304})"]);
}

#[test]
fn message_7_is_the_end_and_nothing_is_to_be_undone_any_more() {
    let mut world = start(1);
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(continuation(&world, BranchId::TRUNK), "eorch(Sp)");
    assert_eq!(compensation(&world, BranchId::TRUNK), ["nil"]);
}

/// Where ours differs: κ stays with the trunk, and the message is what the branch has of its own.
#[test]
fn a_branch_that_is_cut_off_leaves_its_join_with_the_trunk() {
    let mut world = start(1);
    answer(&mut world, "a");
    let branch = call_of(&world, "c").branch;
    let cut = world.execution.cut(branch, Epoch(1), vec![NodeId(2)], world.author);
    let (message, _) = cut.expect("a branch can be cut off");
    let own = notation::line(&notation::continuation(&message, &world.program, branch));
    assert_eq!(own, "invoke(Sc,c)·invoke(Sd,d,d\u{304})·eos(-)");
    let rest = notation::after_join(&world.execution, &world.program, branch);
    assert_eq!(notation::line(&rest), K);
}

/// Fig. 2, normal execution.
#[test]
fn a_normal_execution_runs_a_then_both_branches() {
    for seed in 0..20 {
        let mut world = start(seed);
        assert!(matches!(world.run(), Outcome::Completed(_)));
        let done = world.done();
        assert_eq!(done[0], "a");
        let other: Vec<&str> = done.iter().copied().filter(|name| "cd".contains(name)).collect();
        assert_eq!(other, ["c", "d"]);
        assert_eq!(done.iter().filter(|name| **name == "b").count(), N);
        assert_eq!(done.len(), 3 + N, "nothing is undone: {done:?}");
    }
}

/// Fig. 2, rolling forward: "first rolls back the execution of the scope so far and then rolls
/// forward by invoking an alternative service operation e" (section III).
#[test]
fn after_d_fails_the_inner_scope_rolls_forward_with_e() {
    let mut world = start(1);
    answer(&mut world, "a");
    answer(&mut world, "c");
    refuse(&mut world, "d");
    let branch = call_of(&world, "e").branch;
    assert_eq!(continuation(&world, branch), format!("invoke(Se,e)·eos(-)·{K}"));
    assert!(matches!(world.run(), Outcome::Completed(_)));
    let mut done = world.done();
    done.sort_unstable();
    assert_eq!(done, ["a", "b", "b", "b", "c", "e"]);
}

/// The same with something to undo: had d succeeded and what follows it failed, d̄ comes before e.
#[test]
fn the_inner_scope_undoes_what_it_did_before_it_rolls_forward() {
    let inner = Try(
        Box::new(Sequence(vec![Read("c"), Invoke("d"), Plain("f")])),
        0,
        Some(Box::new(Sequence(vec![Compensate, Plain("e")]))),
    );
    let root = Sequence(vec![Invoke("a"), inner]);
    let program = program_named("p", root, OnFault::Compensate);
    let mut world = World::start(&program, value::object([]), 1);
    for service in ["a", "c", "d"] {
        answer(&mut world, service);
    }
    refuse(&mut world, "f");
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done(), ["a", "c", "d", "d-bar", "e"]);
}

/// Fig. 2, rolling back "just before the entire p is about to finish".
#[test]
fn just_before_the_end_everything_is_rolled_back_in_reverse() {
    for seed in 0..20 {
        let mut world = start(seed);
        while world.done().len() < 2 + N {
            world.step();
        }
        // The last answer comes, and the run is held just before it would end.
        world.happen(Event::SuspendRequested);
        world.step();
        assert_eq!(world.done().len(), 3 + N);
        world.happen(Event::CompensateRequested("just before the end".into()));
        assert!(matches!(world.run(), Outcome::Compensated(_)));
        let undone = &world.done()[3 + N..];
        assert_eq!(undone.last(), Some(&"a-bar"), "ā after both branches");
        assert_eq!(undone.iter().filter(|name| **name == "b-bar").count(), N);
        assert_eq!(undone.iter().filter(|name| **name == "d-bar").count(), 1);
        assert_eq!(undone.len(), 2 + N);
    }
}

/// Section IV: "runs the corresponding exception handler […] and at the same time notifies the
/// scope manager Ap of the exception. Ap then propagate the exception to the other branch(es)."
#[test]
fn an_exception_in_one_branch_stops_the_other() {
    let mut world = start(1);
    answer(&mut world, "a");
    answer(&mut world, "b");
    let other = call_of(&world, "c");
    let advance = refuse(&mut world, "b");
    assert!(advance.commands.contains(&Command::Abandon(other)), "{:?}", advance.commands);
    assert_eq!(continuation(&world, other.branch), "eorch(Sp)", "the branch is no more");
    let Outcome::Compensated(fault) = world.run() else { panic!("p is rolled back") };
    assert_eq!(fault.detail.as_deref(), Some("b"));
    assert_eq!(world.done(), ["a", "b", "b-bar", "a-bar"]);
}

/// Section IV: "For a scope with a single branch, an exception is completely handled where it is
/// caught. […] If Ad catches an exception, it handles the exception without notifying the scope
/// manager Ap."
#[test]
fn a_scope_with_one_branch_handles_an_exception_where_it_is_caught() {
    let mut world = start(1);
    answer(&mut world, "a");
    let here = answer(&mut world, "c");
    let other = call_of(&world, "b").branch;
    let before = [other, BranchId::TRUNK].map(|branch| continuation(&world, branch));
    let advance = refuse(&mut world, "d");
    let after = [other, BranchId::TRUNK].map(|branch| continuation(&world, branch));
    assert_eq!(before, after);
    let [Command::Call { ticket, .. }] = advance.commands.as_slice() else {
        panic!("only e is called: {:?}", advance.commands)
    };
    assert_eq!(ticket.branch, here);
}

/// It works as well where the trunk is out of reach: the branch is alone at its agent.
#[test]
fn a_scope_with_one_branch_handles_an_exception_away_from_its_trunk() {
    let mut world = start(1);
    answer(&mut world, "a");
    let branch = answer(&mut world, "c");
    let ticket = call_of(&world, "d");
    let cut = world.execution.cut(branch, Epoch(1), vec![NodeId(2)], world.author);
    let (mut away, _) = cut.expect("a branch can be cut off");
    let fault = Fault::new(FaultKind::Communication, "refused", "d");
    let event = Event::Answered { ticket, answer: Answer::Failed(fault) };
    away.advance(&world.program, event, world.author, world.now);
    let own = notation::continuation(&away, &world.program, branch);
    assert_eq!(notation::line(&own), "invoke(Se,e)·eos(-)");
}
