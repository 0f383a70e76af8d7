//! Keys that the document gives: what its provider is told of a call, of its alternatives and of its undo.

mod kit;

use std::sync::Arc;

use kit::build::{Node, add_call, bare_program, make_function};
use kit::world::World;
use outlast_expressions::value;
use outlast_workflow::program::{Idempotency, OnFault, Task, Template};
use outlast_workflow::{Outcome, Program};

use Node::{Invoke, Plain, Raise, Sequence};

fn with_key(task: &mut Task, key: &str) {
    let key = Some(Template::Literal(value::string(key)));
    task.traits.idempotency = Some(Idempotency { key, header: None, none: false });
}

/// A call of `one`, by a function or not, with two alternatives; then the run fails and is rolled back.
fn choice(by_function: bool) -> Program {
    let first = if by_function { Plain("choice") } else { Invoke("one") };
    let mut program = bare_program("built", Sequence(vec![first, Raise(418)]), OnFault::Compensate);
    let alternatives = ["two", "three"].map(|name| add_call(&mut program, name)).to_vec();
    let name = if by_function { "choice" } else { "one" };
    if by_function {
        make_function(&mut program, name, ("one", "one-bar"), false);
    }
    let task = program.tasks.iter_mut().find(|task| task.name == name).expect("it was built");
    task.traits.alternatives = alternatives;
    with_key(task, "order-7");
    program
}

/// What providers are told as keys while `broken` ones refuse all, and which call the undo names.
fn keys_of(program: Program, broken: &[&str]) -> (Vec<String>, Option<String>) {
    let mut world = World::start(&Arc::new(program), value::object([]), 1);
    world.broken = broken.iter().map(|name| (*name).to_owned()).collect();
    let (mut keys, mut undone) = (Vec::new(), None);
    while world.ended.is_none() {
        for (_, request) in world.calls() {
            match request.undo {
                true => undone = request.undoes_text(),
                false => keys.push(request.key_text()),
            }
        }
        assert!(world.step());
    }
    assert!(matches!(world.ended, Some(Outcome::Compensated(_))));
    keys.dedup();
    (keys, undone)
}

/// A provider that knows keys would take it for the call that it takes the place of.
#[test]
fn an_alternative_has_another_key_than_what_it_takes_the_place_of() {
    let all = ["order-7", "order-7-alternative-1", "order-7-alternative-2"];
    for by_function in [false, true] {
        for given_up in 0..3 {
            let broken = &["one", "two"][..given_up];
            let (keys, undone) = keys_of(choice(by_function), broken);
            assert_eq!(keys, all[..=given_up]);
            assert_eq!(undone.as_deref(), Some(all[given_up]), "the key that its provider knows");
        }
    }
}

#[test]
fn an_alternative_that_has_a_key_of_its_own_keeps_it() {
    let mut program = choice(true);
    let other = program.tasks.iter_mut().find(|task| task.name == "two").expect("it was built");
    with_key(other, "elsewhere-7");
    let (keys, undone) = keys_of(program, &["one"]);
    assert_eq!(keys, ["order-7", "elsewhere-7"]);
    assert_eq!(undone.as_deref(), Some("elsewhere-7"));
}
