//! Two lines of one execution: one is decided on, the other takes back what only it did.

mod kit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kit::build::{Node, bare_program, expression, program, program_with};
use kit::world::{Dice, World};
use outlast_expressions::value;
use outlast_lineage::{EffectId, OperationKey};
use outlast_workflow::program::{OnFault, Template};
use outlast_workflow::{
    Answer, Command, EffectNote, Event, Fault, FaultKind, Outcome, Resolution, Status, Withdrawal,
};
use proptest::prelude::*;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn tree(once: bool) -> impl Strategy<Value = Node> {
    let call = if once { Node::Once } else { Node::Invoke };
    let name = (0..NAMES.len()).prop_map(|index| NAMES[index]);
    let leaf = prop_oneof![
        6 => name.prop_map(call),
        1 => Just(Node::Read("look")),
        1 => Just(Node::Set("{big: [range(20)]}")),
        1 => (1..500i64).prop_map(Node::Wait),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => list.clone().prop_map(Node::Sequence),
            3 => list.prop_map(Node::Fork),
            2 => (0..4usize, 1..3u32, inner.clone())
                .prop_map(|(count, window, body)| Node::Loop(count, window, Box::new(body))),
            1 => inner.prop_map(|body| Node::Scope(Box::new(body))),
        ]
    })
}

fn start(root: &Node, seed: u64, once: bool) -> World {
    let mut world = World::start_kept(
        &program_with(root.clone(), OnFault::Compensate),
        value::object([]),
        seed,
    );
    world.forgetful = once;
    world
}

fn go(world: &mut World, steps: usize) {
    for _ in 0..steps {
        if world.ended.is_some() || !world.step() {
            return;
        }
    }
}

/// What notes say that an author still answers for: key, and whether its provider knows keys.
fn standing(world: &World) -> BTreeMap<EffectId, (OperationKey, bool)> {
    let mut standing = BTreeMap::new();
    for note in &world.effects {
        match note {
            EffectNote::Intended { effect, key, deduplicated, .. } => {
                standing.insert(*effect, (*key, *deduplicated));
            }
            EffectNote::Gone { effect } | EffectNote::Disowned { effect } => {
                standing.remove(effect);
            }
            EffectNote::Done { .. } | EffectNote::Costs { .. } => {}
        }
    }
    standing
}

/// What the loser did that is not on the winner's line.
fn debts(loser: &World, winner: &World) -> BTreeSet<EffectId> {
    let mut known = BTreeSet::new();
    for note in &winner.effects {
        match note {
            EffectNote::Intended { effect, .. } => drop(known.insert(*effect)),
            EffectNote::Disowned { effect } => drop(known.remove(effect)),
            _ => {}
        }
    }
    let kept: BTreeSet<OperationKey> = standing(winner).values().map(|(key, _)| *key).collect();
    standing(loser)
        .into_iter()
        .filter(|(effect, _)| !known.contains(effect))
        .filter(|(_, (key, deduplicated))| !(*deduplicated && kept.contains(key)))
        .map(|(effect, _)| effect)
        .collect()
}

/// A person who looks what a service did and says so.
fn resolve_truthfully(world: &mut World) {
    let Some(parked) = world.execution.parked().into_iter().next() else { return };
    // An undo that was under way in a restart was not carried out in these worlds.
    let resolution = match world.acted.get(&parked.effect).filter(|_| !parked.undo) {
        Some(name) => Resolution::Done(value::object([(name.as_str(), value::integer(1))])),
        None => Resolution::NotDone,
    };
    world.happen(Event::Resolved { effect: parked.effect, resolution });
}

fn restart(world: &mut World) {
    let lost = world.execution.withdrawal().is_none();
    // Nobody makes a call again on a lost line.
    world.open.retain(|_, c| !(lost && matches!(c, Command::Call { .. })));
    world.restart();
    world.copy = world.execution.clone();
}

fn withdrawal(world: &World) -> Withdrawal {
    world.execution.withdrawal().expect("it is being withdrawn")
}

/// Undoes what a loser owes, in portions from the newest on; gives the order it should have.
fn withdraw(loser: &mut World, debts: &BTreeSet<EffectId>, dice: &mut Dice) -> Vec<EffectId> {
    loser.happen(Event::Withdrawn { undo: BTreeSet::new() });
    while withdrawal_waits_for_results(loser) {
        assert!(loser.step());
    }
    let mut left: Vec<EffectId> = withdrawal(loser).left;
    left.retain(|effect| debts.contains(effect));
    let expected: Vec<EffectId> = left.iter().rev().copied().collect();
    while !left.is_empty() {
        let portion = left.split_off(left.len() - 1 - dice.below(left.len()));
        let undo: BTreeSet<EffectId> = portion.into_iter().collect();
        loser.happen(Event::Withdrawn { undo: undo.clone() });
        loser.happen(Event::Withdrawn { undo });
        for _ in 0..dice.below(4) {
            pass(loser, dice);
        }
    }
    for _ in 0..10_000 {
        if withdrawal(loser).owed.is_empty() {
            return expected;
        }
        pass(loser, dice);
    }
    panic!("no end: {:#?}", loser.execution)
}

fn withdrawal_waits_for_results(world: &World) -> bool {
    world.open.values().any(|command| matches!(command, Command::Evaluate { .. }))
}

fn pass(world: &mut World, dice: &mut Dice) {
    if dice.percent(15) {
        restart(world);
    }
    resolve_truthfully(world);
    world.step();
}

fn gone(world: &World, from: usize) -> Vec<EffectId> {
    let notes = world.effects[from..].iter();
    notes
        .filter_map(|note| match note {
            EffectNote::Gone { effect } => Some(*effect),
            _ => None,
        })
        .collect()
}

fn net(world: &World) -> BTreeMap<String, i64> {
    world.net().into_iter().filter(|(name, net)| name != "look" && *net != 0).collect()
}

/// Two authors go on from one point; the first or the second loses, in the middle of its calls.
fn diverge(root: &Node, once: bool, seed: u64, steps: [usize; 3]) -> Result<(), TestCaseError> {
    let mut dice = Dice(seed ^ 5);
    let mut alone = start(root, seed, once);
    alone.run();
    let mut first = start(root, seed, once);
    go(&mut first, steps[0]);
    let mut second = first.clone();
    second.go_on_as(2);
    go(&mut first, steps[1]);
    second.share_services(&first);
    go(&mut second, steps[2]);
    let (mut loser, mut winner) = if dice.percent(50) { (first, second) } else { (second, first) };
    if loser.author.node.0 == 2 {
        winner.share_services(&loser);
    }
    // Somebody may have stopped it before it heard that it lost.
    if dice.percent(30) {
        loser.happen(Event::CancelRequested);
    }
    loser.happen(Event::LineLost);
    loser.ended = None;
    prop_assert_eq!(loser.execution.status(), Status::Compensating);
    prop_assert!(loser.execution.withdrawal().is_none());
    // Some answers still come, some calls were made and nobody hears of it, some never were.
    winner.run();
    loser.share_services(&winner);
    let calls: Vec<_> = loser
        .open
        .iter()
        .filter(|(_, command)| matches!(command, Command::Call { .. }))
        .map(|(ticket, _)| *ticket)
        .collect();
    for ticket in calls {
        if !loser.open.contains_key(&ticket) {
            continue;
        }
        match dice.below(3) {
            0 => loser.answer(ticket),
            1 => {
                let Some(Command::Call { request, .. }) = loser.open.remove(&ticket) else {
                    unreachable!("it was just seen")
                };
                loser.serve(&request);
            }
            _ => drop(loser.open.remove(&ticket)),
        }
        if dice.percent(20) {
            restart(&mut loser);
        }
    }
    let debts = debts(&loser, &winner);
    let from = loser.effects.len();
    let expected = withdraw(&mut loser, &debts, &mut dice);
    prop_assert_eq!(gone(&loser, from), expected);
    loser.happen(Event::WithdrawalClosed);
    prop_assert!(matches!(loser.ended, Some(Outcome::Compensated(_))));
    prop_assert!(loser.execution.withdrawal().is_none());
    prop_assert!(loser.execution.ledger().iter().next().is_none());
    prop_assert_eq!(net(&loser), net(&alone), "{:?}", loser.done());
    prop_assert_eq!(winner.ended, alone.ended);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// What remains is one run, where services know no keys.
    #[test]
    fn only_the_decided_line_remains(
        root in tree(true), seed in any::<u64>(), steps in [0..12usize, 0..12usize, 0..12usize],
    ) {
        diverge(&root, true, seed, steps)?;
    }

    /// And where they do.
    #[test]
    fn only_the_decided_line_remains_with_keys(
        root in tree(false), seed in any::<u64>(), steps in [0..12usize, 0..12usize, 0..12usize],
    ) {
        diverge(&root, false, seed, steps)?;
    }

    /// A line that was rolling itself back when it lost undoes each effect once, and only those
    /// that are asked for.
    #[test]
    fn a_line_that_rolls_back_can_be_withdrawn(
        root in tree(false), seed in any::<u64>(), steps in 0..40usize,
    ) {
        let root = Node::Sequence(vec![root, Node::Raise(418)]);
        let mut dice = Dice(seed ^ 5);
        let mut world = start(&root, seed, false);
        go(&mut world, steps);
        world.happen(Event::LineLost);
        let debts = standing(&world).into_keys().collect();
        withdraw(&mut world, &debts, &mut dice);
        prop_assert!(withdrawal(&world).left.is_empty());
        prop_assert_eq!(net(&world), BTreeMap::new(), "{:?}", world.done());
    }
}

fn effect_of(world: &World, name: &str) -> EffectId {
    let open = world.open.values().find_map(|command| match command {
        Command::Call { request, .. } if format!("{:?}", request.target).contains(name) => {
            Some(request.effect)
        }
        _ => None,
    });
    open.expect("it is being called")
}

/// A world in which `a` is done and `b` is being called.
fn half_way() -> (World, EffectId, EffectId) {
    let program = program(Node::Sequence(vec![Node::Once("a"), Node::Once("b"), Node::Once("c")]));
    let mut world = World::start(&program, value::object([]), 1);
    let a = effect_of(&world, "\"a\"");
    assert!(world.step());
    let b = effect_of(&world, "\"b\"");
    (world, a, b)
}

#[test]
fn a_late_success_enters_the_plan_and_nothing_follows_it() {
    let (mut world, a, b) = half_way();
    world.happen(Event::LineLost);
    let ticket = *world.open.keys().next().expect("b is being called");
    world.answer(ticket);
    assert!(world.open.is_empty(), "c is not called: {:?}", world.open);
    assert_eq!(world.effects.last(), Some(&EffectNote::Done { effect: b, cost: 1.0 }));
    world.happen(Event::Withdrawn { undo: BTreeSet::from([b]) });
    assert_eq!(withdrawal(&world).owed, [b]);
    assert_eq!(withdrawal(&world).left, [a]);
    assert!(world.step());
    assert_eq!(withdrawal(&world).owed, []);
    assert!(!world.step(), "it waits until more is asked");
    world.happen(Event::WithdrawalClosed);
    assert_eq!(world.done(), ["a", "b", "b-bar"]);
    let again = world.happen(Event::Withdrawn { undo: BTreeSet::from([a]) });
    assert!(again.commands.is_empty(), "it is over");
}

/// What is kept for the undo may be worked out elsewhere; the undo waits for it.
#[test]
fn a_line_is_not_withdrawn_while_a_result_is_on_its_way_into_the_plan() {
    let mut program = bare_program("built", Node::Once("a"), OnFault::Leave);
    let task = program.tasks.iter_mut().find(|task| task.name == "a").expect("it is there");
    let compensation = task.traits.compensation.as_mut().expect("it can be undone");
    compensation.capture = Some(Template::Computed(expression("[range(3)]")));
    let mut world = World::start(&Arc::new(program), value::object([]), 1);
    let a = effect_of(&world, "\"a\"");
    world.happen(Event::LineLost);
    let ticket = *world.open.keys().next().expect("it is being called");
    world.answer(ticket);
    world.happen(Event::Withdrawn { undo: BTreeSet::from([a]) });
    assert_eq!(withdrawal(&world).owed, [a]);
    restart(&mut world);
    assert!(world.step() && world.step());
    assert_eq!(world.done(), ["a", "a-bar"]);
    assert_eq!(world.deeds[1].arguments, "[0,1,2]");
    let undone = BTreeSet::from([a]);
    assert_eq!(withdrawal(&world), Withdrawal { undone, ..Withdrawal::default() });
}

/// What somebody stopped leaves what it did; if another line is decided on, that is to go as well.
#[test]
fn a_line_that_was_stopped_can_be_withdrawn() {
    let root = Node::Sequence(vec![Node::Once("a"), Node::Once("b"), Node::Once("c")]);
    let mut world = World::start_shared(&program(root), value::object([]), 1);
    let a = effect_of(&world, "\"a\"");
    assert!(world.step());
    let b = effect_of(&world, "\"b\"");
    world.happen(Event::CancelRequested);
    assert_eq!(world.ended, Some(Outcome::Cancelled));
    world.happen(Event::LineLost);
    world.happen(Event::Withdrawn { undo: BTreeSet::from([a, b]) });
    assert_eq!(withdrawal(&world).owed, [a, b]);
    let parked: Vec<_> = withdrawal(&world).parked.iter().map(|parked| parked.effect).collect();
    assert_eq!(parked, [b], "nobody knows whether it was called");
    world.happen(Event::Resolved { effect: b, resolution: Resolution::NotDone });
    assert!(world.step());
    assert_eq!(withdrawal(&world).owed, []);
    assert_eq!(world.done(), ["a", "a-bar"]);
}

#[test]
fn a_late_failure_owes_nothing() {
    let (mut world, a, b) = half_way();
    world.happen(Event::LineLost);
    let ticket = *world.open.keys().next().expect("b is being called");
    let fault = Fault::new(FaultKind::Runtime, "no", "no");
    world.happen(Event::Answered { ticket, answer: Answer::Failed(fault) });
    assert_eq!(world.effects.last(), Some(&EffectNote::Gone { effect: b }));
    world.happen(Event::Withdrawn { undo: BTreeSet::from([a, b]) });
    assert_eq!(withdrawal(&world).owed, [a]);
}

#[test]
fn a_call_that_took_too_long_and_never_left_is_not_made_in_order_to_undo_it() {
    let invoked = |name| Box::new(Node::Invoke(name));
    let limited = Node::Limited(10, invoked("b"));
    let root = Node::Sequence(vec![Node::Invoke("a"), Node::Fork(vec![limited.clone(), limited])]);
    for lost_before in [false, true] {
        let mut world = World::start(&program(root.clone()), value::object([]), 1);
        let a = effect_of(&world, "\"a\"");
        assert!(world.step());
        let calls = world.calls();
        let effects: BTreeSet<EffectId> =
            calls.iter().map(|(_, it)| it.effect).chain([a]).collect();
        while world.ended.is_none() {
            assert!(world.next_timer());
        }
        world.open.clear();
        let lost = [Event::LineLost, Event::Withdrawn { undo: BTreeSet::new() }];
        lost.into_iter().take(1 + usize::from(lost_before)).for_each(|it| drop(world.happen(it)));
        for (ticket, request) in &calls {
            let fault = Fault::new(FaultKind::Communication, "Not sent", "").with_status(412);
            world.happen(Event::Answered { ticket: *ticket, answer: Answer::Failed(fault) });
            assert_eq!(world.effects.last(), Some(&EffectNote::Gone { effect: request.effect }));
        }
        world.happen(Event::Withdrawn { undo: effects });
        assert_eq!(withdrawal(&world).owed, [a]);
        assert!(world.call_of("b").is_none(), "{:?}", world.open);
    }
}

#[test]
fn what_cannot_be_known_is_parked_and_everything_before_it_waits() {
    let (mut world, a, b) = half_way();
    world.open.clear();
    world.happen(Event::Withdrawn { undo: BTreeSet::from([a, b]) });
    assert_eq!(withdrawal(&world).owed, [a, b]);
    assert_eq!(withdrawal(&world).parked[0].effect, b);
    assert!(world.open.is_empty(), "neither is undone: {:?}", world.open);
    world.happen(Event::Resolved { effect: b, resolution: Resolution::NotDone });
    assert_eq!(withdrawal(&world).owed, [a]);
    assert!(world.step());
    let undone = BTreeSet::from([a]);
    let expected = Withdrawal { undone, ..Withdrawal::default() };
    assert_eq!(withdrawal(&world), expected, "b was not undone: it never was");
}

#[test]
fn undos_of_two_lines_are_two_operations_where_nobody_knows_keys() {
    let keys = |once: bool| {
        let call = if once { Node::Once } else { Node::Invoke };
        let program = program(call("a"));
        let first = World::start(&program, value::object([]), 1);
        let mut second = first.clone();
        second.go_on_as(2);
        [first, second].map(|mut world| {
            let effect = effect_of(&world, "\"a\"");
            world.happen(Event::LineLost);
            let ticket = *world.open.keys().next().expect("it is being called");
            world.answer(ticket);
            world.happen(Event::Withdrawn { undo: BTreeSet::from([effect]) });
            assert!(world.step());
            world.deeds.last().expect("it is undone").key.clone()
        })
    };
    let [one, other] = keys(true);
    assert_ne!(one, other);
    let [one, other] = keys(false);
    assert_eq!(one, other, "a provider that knows keys undoes the one effect once");
}

/// The key with which a service is being called.
fn key_of_open_call(world: &World, service: &str) -> Option<String> {
    world.open.values().find_map(|command| match command {
        Command::Call { request, .. } if format!("{:?}", request.target).contains(service) => {
            Some(request.key.to_string())
        }
        _ => None,
    })
}

#[test]
fn an_undo_is_one_operation_however_often_and_on_whichever_line_it_is_tried() {
    let attempt = Node::Try(
        Box::new(Node::Sequence(vec![Node::Invoke("a"), Node::Raise(418)])),
        1,
        Some(Box::new(Node::Compensate)),
    );
    let mut run = World::start_kept(&program(attempt), value::object([]), 1);
    run.broken.insert("a-bar".to_owned());
    let mut lost = None;
    let mut keys = Vec::new();
    while run.step() && keys.len() < 3 {
        if let Some(key) = key_of_open_call(&run, "a-bar") {
            lost.get_or_insert_with(|| run.clone());
            keys.push(key);
            let ticket = *run.open.keys().next().expect("the undo is being called");
            run.answer(ticket);
        }
    }
    assert_eq!(keys, [&*keys[0], &*keys[0], &*keys[0]], "a refusal does not make it another one");

    let mut lost = lost.expect("an undo was tried");
    lost.broken.clear();
    lost.happen(Event::LineLost);
    let undo = standing(&lost).into_keys().collect();
    lost.happen(Event::Withdrawn { undo });
    while lost.step() {}
    let undone: Vec<_> = lost.deeds.iter().filter(|deed| deed.name == "a-bar").collect();
    assert!(undone.iter().any(|deed| deed.key == keys[0]), "{undone:?}");
}

#[test]
fn only_a_person_makes_an_undo_that_was_refused_a_new_operation() {
    for (resolution, renews) in [(Resolution::Retry, false), (Resolution::NotDone, true)] {
        let root = Node::Sequence(vec![Node::Invoke("a"), Node::Raise(418)]);
        let program = program_with(root, OnFault::Compensate);
        let mut world = World::start(&program, value::object([]), 1);
        world.broken.insert("a-bar".to_owned());
        let mut first = None;
        while world.step() {
            first = first.or_else(|| key_of_open_call(&world, "a-bar"));
        }
        let effect = world.execution.parked()[0].effect;
        world.happen(Event::Resolved { effect, resolution });
        let second = key_of_open_call(&world, "a-bar");
        assert!(second.is_some());
        assert_eq!(first != second, renews);
    }
}

#[test]
fn a_line_that_ended_can_be_withdrawn_while_its_plan_is_kept() {
    let program = program(Node::Sequence(vec![Node::Once("a"), Node::Once("b")]));
    let mut world = World::start_kept(&program, value::object([]), 1);
    world.run();
    let left: Vec<EffectId> = standing(&world).into_keys().collect();
    world.happen(Event::LineLost);
    world.ended = None;
    world.happen(Event::Withdrawn { undo: BTreeSet::new() });
    assert_eq!(withdrawal(&world).left, left);
    world.happen(Event::Withdrawn { undo: left.into_iter().collect() });
    while world.step() {}
    assert_eq!(world.done(), ["a", "b", "b-bar", "a-bar"]);
}
