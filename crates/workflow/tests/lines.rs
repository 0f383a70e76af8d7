//! Laws of several authors: one goes on where another left off, and what a line did can be told.

mod kit;

use std::collections::BTreeMap;

use kit::build::{Node, program, program_with};
use kit::world::{Dice, World};
use outlast_expressions::value;
use outlast_lineage::{EffectId, Point};
use outlast_workflow::program::OnFault;
use outlast_workflow::{
    Advance, Answer, Command, EffectNote, Event, Fault, FaultKind, Outcome, Resolution,
};
use proptest::prelude::*;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn leaf(once: bool) -> impl Strategy<Value = Node> {
    let name = (0..NAMES.len()).prop_map(|index| NAMES[index]);
    let call = if once { Node::Once } else { Node::Invoke };
    prop_oneof![
        6 => name.prop_map(call),
        2 => Just(Node::Read("look")),
        1 => Just(Node::Set("{big: [range(20000)]}")),
        1 => (1..500i64).prop_map(Node::Wait),
    ]
}

/// Programs whose calls can all be undone; of services that know keys, or of some that do not.
fn tree(once: bool) -> impl Strategy<Value = Node> {
    leaf(once).prop_recursive(4, 20, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => list.clone().prop_map(Node::Sequence),
            3 => list.prop_map(Node::Fork),
            2 => (0..4usize, 1..3u32, inner.clone())
                .prop_map(|(count, window, body)| Node::Loop(count, window, Box::new(body))),
            2 => (inner.clone(), prop::option::of(inner.clone())).prop_map(|(body, handler)| {
                let body = Node::Sequence(vec![body, Node::Raise(418)]);
                Node::Try(Box::new(body), 1, handler.map(Box::new))
            }),
            1 => inner.prop_map(|body| Node::Scope(Box::new(body))),
        ]
    })
}

fn world(root: &Node, seed: u64) -> World {
    World::start(&program_with(root.clone(), OnFault::Leave), value::object([]), seed)
}

/// Runs to the end; sometimes another node takes over.
fn run(world: &mut World, chance: usize) -> Outcome {
    let mut dice = Dice(world.dice.0 ^ 99);
    for _ in 0..20_000 {
        if let Some(outcome) = &world.ended {
            return outcome.clone();
        }
        if dice.percent(chance) {
            world.take_over(2 + dice.below(4) as u64);
        }
        let moved = world.ended.is_some() || world.step();
        assert!(moved || world.ended.is_some(), "stuck: {:#?}", world.execution);
    }
    panic!("no end: {:?}", world.execution)
}

fn sorted(world: &World) -> Vec<&str> {
    let mut done = world.done();
    done.sort_unstable();
    done
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    /// Where services know keys, it makes no difference who goes on, at any moment.
    #[test]
    fn taking_over_changes_nothing(root in tree(false), seed in any::<u64>(), chance in 1..40usize) {
        let mut undisturbed = world(&root, seed);
        let expected = run(&mut undisturbed, 0);
        let mut taken = world(&root, seed);
        prop_assert_eq!(run(&mut taken, chance), expected);
        prop_assert_eq!(sorted(&taken), sorted(&undisturbed));
        prop_assert_eq!(disowned(&taken), 0);
    }

    /// Where they do not, it costs at most the calls that were open, and each of them is told.
    #[test]
    fn taking_over_costs_the_open_calls(
        root in tree(true),
        seed in any::<u64>(),
        chance in 1..30usize,
    ) {
        let mut undisturbed = world(&root, seed);
        undisturbed.forgetful = true;
        let expected = run(&mut undisturbed, 0);
        let mut taken = world(&root, seed);
        taken.forgetful = true;
        // An undo must not be made twice either: a person is asked about it.
        let mut dice = Dice(seed ^ 99);
        while taken.ended.is_none() {
            let undoing = taken.open.values().any(|command| {
                matches!(command, Command::Call { request, .. } if request.undo)
            });
            if dice.percent(chance) && !undoing {
                taken.take_over(2 + dice.below(4) as u64);
            }
            prop_assert!(taken.ended.is_some() || taken.step() || taken.ended.is_some());
        }
        prop_assert_eq!(taken.ended.clone(), Some(expected));
        let calls = |world: &World| world.done().iter().filter(|name| **name != "look").count();
        let (extra, most) = (calls(&taken) - calls(&undisturbed), disowned(&taken));
        prop_assert!(extra <= most, "{} more acts, {} calls disowned", extra, most);
    }

    /// The notes are the account of the ledger: what is intended and neither done nor gone is open,
    /// and what is done and not gone happened and stays.
    #[test]
    fn notes_are_the_account_of_what_was_done(root in tree(true), seed in any::<u64>()) {
        let mut world = world(&root, seed);
        run(&mut world, 0);
        let mut standing = BTreeMap::new();
        for note in &world.effects {
            match note {
                EffectNote::Intended { effect, key, deduplicated, pivot, cost, .. } => {
                    prop_assert!(!deduplicated && !pivot);
                    prop_assert_eq!(*cost, Some(1.0), "the document says so");
                    prop_assert!(standing.insert(*effect, (*key, false)).is_none());
                }
                EffectNote::Done { effect, cost } => {
                    prop_assert_eq!(*cost, 1.0);
                    standing.get_mut(effect).expect("it was intended").1 = true;
                }
                EffectNote::Gone { effect } => drop(standing.remove(effect)),
                note => prop_assert!(false, "{note:?}"),
            }
        }
        let net: i64 = world
            .deeds
            .iter()
            .filter(|deed| deed.name != "look")
            .map(|deed| if deed.name.ends_with("-bar") { -1 } else { 1 })
            .sum();
        prop_assert!(standing.values().all(|(_, done)| *done));
        prop_assert_eq!(standing.len() as i64, net);
    }
}

fn disowned(world: &World) -> usize {
    let notes = world.effects.iter();
    notes.filter(|note| matches!(note, EffectNote::Disowned { .. })).count()
}

#[test]
fn the_place_of_a_call_is_the_same_on_every_line_and_in_every_attempt() {
    let program = program(Node::Once("a"));
    let mut world = World::start(&program, value::object([]), 1);
    world.take_over(2);
    let intended: Vec<_> = world
        .effects
        .iter()
        .filter_map(|note| match note {
            EffectNote::Intended { effect, key, place, .. } => Some((*effect, *key, *place)),
            _ => None,
        })
        .collect();
    let [first, second] = intended[..] else { panic!("{intended:?}") };
    assert_ne!(first.0, second.0, "an effect of its own");
    assert_ne!(first.1, second.1, "an operation of its own");
    assert_eq!(first.2, second.2, "one place");
    assert!(world.effects.contains(&EffectNote::Disowned { effect: first.0 }));
    assert!(world.execution.ledger().get(&first.0).is_none());
    assert_eq!(second.0.point.author, world.author.node);
}

#[test]
fn a_pivot_of_another_author_is_left_to_a_person() {
    let program = program(Node::Pivot("launch"));
    let mut world = World::start(&program, value::object([]), 1);
    let [EffectNote::Intended { pivot: true, deduplicated: false, effect, .. }] = world.effects[..]
    else {
        panic!("{:?}", world.effects)
    };
    world.take_over(2);
    assert!(world.open.is_empty(), "it is not asked again: {:?}", world.open);
    assert_eq!(world.execution.parked()[0].effect, effect);
    let again = world.execution.open_commands(&world.program, world.now);
    assert_eq!(again, []);
}

/// A pivot that another author parked, whose maker knows what became of it: `first` is whether nobody asked before.
fn heard(said: Answer, first: bool, of_other: bool) -> (World, Advance) {
    let program = program(Node::Pivot("launch"));
    let mut world = World::start(&program, value::object([]), 2);
    let (ticket, request) = world.call_of("launch").unwrap();
    world.take_over(2);
    assert_eq!(world.execution.parked().len(), 1);
    let point = Point { number: 99, ..request.effect.point };
    let other = EffectId { point, ..request.effect };
    let effect = if of_other { other } else { request.effect };
    let advance = world.happen(Event::AnsweredElsewhere { ticket, effect, first, answer: said });
    (world, advance)
}

fn fault(status: u16) -> Fault {
    Fault::new(FaultKind::Communication, "no", "not now").with_status(status)
}

#[test]
fn what_its_maker_was_answered_resolves_a_parked_pivot() {
    let (world, _) = heard(Answer::Succeeded(value::integer(1)), false, false);
    assert!(matches!(world.ended, Some(Outcome::Completed(_))), "{:?}", world.ended);
    for (status, first) in [(503, true), (400, true), (400, false)] {
        let (world, _) = heard(Answer::Failed(fault(status)), first, false);
        assert!(matches!(world.ended, Some(Outcome::Faulted(_))), "{status}: {:?}", world.ended);
    }
}

#[test]
fn what_says_nothing_about_a_parked_pivot_changes_nothing() {
    let says_nothing = [
        (Answer::Unknown(fault(0)), true, false),
        (Answer::Failed(fault(503)), false, false),
        (Answer::Succeeded(value::integer(1)), true, true),
    ];
    for (answer, first, of_other) in says_nothing {
        let (world, advance) = heard(answer, first, of_other);
        assert!(advance.delta.is_empty() && advance.happenings.is_empty());
        assert_eq!(world.execution.parked().len(), 1);
    }
}

/// It is taken once, and not for a call that is under way.
#[test]
fn what_does_not_wait_for_a_person_is_not_answered_elsewhere() {
    let program = program(Node::Pivot("launch"));
    let mut world = World::start(&program, value::object([]), 2);
    let (ticket, request) = world.call_of("launch").unwrap();
    let (effect, answer) = (request.effect, Answer::Succeeded(value::integer(1)));
    let elsewhere = Event::AnsweredElsewhere { ticket, effect, first: true, answer };
    assert!(world.happen(elsewhere.clone()).delta.is_empty(), "it is under way here");
    world.take_over(2);
    assert!(!world.happen(elsewhere.clone()).delta.is_empty());
    assert!(world.happen(elsewhere).delta.is_empty(), "it was taken");
}

#[test]
fn what_is_in_doubt_and_must_not_be_repeated_is_not_tried_again() {
    let body = Node::Within(10, Box::new(Node::Once("a")));
    let program = program(Node::Try(Box::new(body), 2, None));
    let mut world = World::start(&program, value::object([]), 1);
    // The call takes too long; the next attempt may not make it again.
    assert!(world.next_timer() && world.next_timer());
    assert_eq!(world.execution.parked().len(), 1);
    assert!(world.deeds.is_empty());
    let effect = world.execution.parked()[0].effect;
    let resolution = outlast_workflow::Resolution::Done(value::object([]));
    world.happen(Event::Resolved { effect, resolution });
    assert!(matches!(world.ended, Some(Outcome::Completed(_))));
}

fn unanswered(world: &mut World, service: &str) {
    let waiting = world.open.iter().find_map(|(ticket, command)| match command {
        Command::Call { request, .. } if format!("{:?}", request.target).contains(service) => {
            Some(*ticket)
        }
        _ => None,
    });
    let ticket = waiting.expect("it is being called");
    world.open.remove(&ticket);
    let fault = Fault::new(FaultKind::Communication, "no answer", "the network failed");
    world.happen(Event::Answered { ticket, answer: Answer::Unknown(fault) });
}

/// Otherwise the line that goes on would count on it, and its author undo it.
#[test]
fn a_call_of_another_author_that_waits_for_a_person_is_made_anew() {
    let program = program(Node::Once("a"));
    let mut world = World::start_shared(&program, value::object([]), 1);
    unanswered(&mut world, "a");
    let first = world.execution.parked()[0].effect;
    world.go_on_as(2);
    assert!(world.execution.parked().is_empty(), "its author has it parked");
    assert!(world.effects.contains(&EffectNote::Disowned { effect: first }));
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!(world.done(), ["a"]);
    assert!(!world.acted.contains_key(&first));
}

/// Otherwise both would undo it.
#[test]
fn calls_of_another_author_are_not_found_out_about_in_order_to_undo_them() {
    let slow = Node::Sequence(vec![Node::Wait(5), Node::Raise(418)]);
    let fork = Node::Fork(vec![Node::Once("a"), Node::Once("b"), slow]);
    let root = Node::Sequence(vec![Node::Once("first"), fork]);
    let program = program_with(root, OnFault::Compensate);
    let mut world = World::start_shared(&program, value::object([]), 1);
    world.step();
    world.next_timer();
    assert_eq!(world.execution.parked().len(), 1, "the other one waits in the plan behind it");
    world.go_on_as(2);
    assert_eq!(disowned(&world), 2);
    assert!(matches!(world.run(), Outcome::Compensated(_)));
    assert_eq!(world.done(), ["first", "first-bar"]);
}

/// A primary that is elected again while its calls are under way is told their answers in a later term: they are
/// nobody else's to find out about.
#[test]
fn calls_of_an_author_that_goes_on_in_a_later_term_are_its_own() {
    let slow = Node::Sequence(vec![Node::Wait(5), Node::Raise(418)]);
    let fork = Node::Fork(vec![Node::Once("a"), Node::Once("b"), slow]);
    let program = program_with(fork, OnFault::Compensate);
    let mut world = World::start_shared(&program, value::object([]), 1);
    world.next_timer();
    world.author.epoch.0 += 1;
    for _ in 0..2 {
        let parked = world.execution.parked();
        assert_eq!(parked.len(), 1, "each waits for a person in turn");
        let effect = parked[0].effect;
        world.happen(Event::Resolved { effect, resolution: Resolution::NotDone });
    }
    assert_eq!(disowned(&world), 0);
    assert!(matches!(world.run(), Outcome::Compensated(_)));
}

#[test]
fn an_attempt_of_another_author_is_not_in_the_way_of_the_next_one() {
    let body = Node::Within(10, Box::new(Node::Once("a")));
    let program = program(Node::Try(Box::new(body), 2, None));
    let mut world = World::start_shared(&program, value::object([]), 1);
    assert!(world.next_timer(), "the call takes too long");
    world.go_on_as(2);
    assert!(matches!(world.run(), Outcome::Completed(_)));
    assert_eq!((world.done(), disowned(&world)), (vec!["a"], 1));
}
