//! Laws of the interpreter on generated programs and generated bad luck.

mod kit;

use std::collections::{BTreeMap, BTreeSet};

use kit::build::{Node, program_with};
use kit::world::World;
use outlast_expressions::value;
use outlast_lineage::{Epoch, NodeId};
use outlast_workflow::program::OnFault;
use outlast_workflow::{Author, Command, Delta, Event, Execution, Happening, Outcome};
use proptest::prelude::*;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn leaf() -> impl Strategy<Value = Node> {
    leaf_with(Node::Intricate)
}

/// The same, with what becomes of two of the names.
fn leaf_with(intricate: fn(&'static str) -> Node) -> impl Strategy<Value = Node> {
    let name = (0..NAMES.len()).prop_map(|index| NAMES[index]);
    prop_oneof![
        6 => name.clone().prop_map(move |name| match name {
            "g" | "h" => intricate(name),
            name => Node::Invoke(name),
        }),
        2 => name.prop_map(Node::Read),
        1 => Just(Node::Set("{n: 1}")),
        1 => Just(Node::Set("{big: [range(20000)]}")),
        1 => Just(Node::Export("{seen: .}")),
        1 => (1..500i64).prop_map(Node::Wait),
    ]
}

/// Programs whose effects can all be undone.
fn tree() -> impl Strategy<Value = Node> {
    tree_of(leaf())
}

fn tree_of(leaf: impl Strategy<Value = Node> + 'static) -> impl Strategy<Value = Node> {
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => list.clone().prop_map(Node::Sequence),
            3 => list.clone().prop_map(Node::Fork),
            2 => list.prop_map(Node::Compete),
            2 => (0..4usize, 1..3u32, inner.clone())
                .prop_map(|(count, window, body)| Node::Loop(count, window, Box::new(body))),
            3 => (inner.clone(), 0..3u64, prop::option::of(inner.clone())).prop_map(
                |(body, retries, handler)| {
                    Node::Try(Box::new(body), retries, handler.map(Box::new))
                }
            ),
            1 => inner.clone().prop_map(|body| Node::Scope(Box::new(body))),
            1 => (10..400i64, inner.clone())
                .prop_map(|(after, body)| Node::Within(after, Box::new(body))),
            2 => (10..400i64, inner).prop_map(|(after, body)| Node::Limited(after, Box::new(body))),
        ]
    })
}

/// Programs in which nothing depends on the order of answers or on how long they take.
fn line() -> impl Strategy<Value = Node> {
    leaf().prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 1..4).prop_map(Node::Sequence),
            2 => (0..4usize, inner.clone())
                .prop_map(|(count, body)| Node::Loop(count, 1, Box::new(body))),
            3 => (inner.clone(), 0..3u64, prop::option::of(inner.clone())).prop_map(
                |(body, retries, handler)| {
                    Node::Try(Box::new(body), retries, handler.map(Box::new))
                }
            ),
            1 => inner.prop_map(|body| Node::Scope(Box::new(body))),
        ]
    })
}

/// Names for what is cancelled by its name and place: each is used once.
const OWN_NAMES: [&str; 6] = ["u", "v", "w", "x", "y", "z"];

/// The same program with its first calls cancelled by name instead of undone by result; those inside
/// loops too, if that is wanted.
fn with_cancellations(
    node: Node,
    names: &mut impl Iterator<Item = &'static str>,
    in_loops: bool,
) -> Node {
    let mut all = |nodes: Vec<Node>| {
        nodes.into_iter().map(|node| with_cancellations(node, names, in_loops)).collect::<Vec<_>>()
    };
    match node {
        Node::Loop(count, window, body) if in_loops => {
            Node::Loop(count, window, Box::new(with_cancellations(*body, names, in_loops)))
        }
        Node::Sequence(nodes) => Node::Sequence(all(nodes)),
        Node::Fork(nodes) => Node::Fork(all(nodes)),
        Node::Compete(nodes) => Node::Compete(all(nodes)),
        Node::Scope(body) => Node::Scope(Box::new(with_cancellations(*body, names, in_loops))),
        Node::Within(after, body) => {
            Node::Within(after, Box::new(with_cancellations(*body, names, in_loops)))
        }
        Node::Limited(after, body) => {
            Node::Limited(after, Box::new(with_cancellations(*body, names, in_loops)))
        }
        Node::Try(body, retries, handler) => {
            let body = with_cancellations(*body, names, in_loops);
            let handler =
                handler.map(|handler| Box::new(with_cancellations(*handler, names, in_loops)));
            Node::Try(Box::new(body), retries, handler)
        }
        Node::Invoke(name) => names.next().map_or(Node::Invoke(name), Node::Cancellable),
        node => node,
    }
}

/// How often, in percent, a call is refused, finds its service in trouble, or loses its answer.
#[derive(Clone, Debug)]
struct Luck {
    seed: u64,
    refusing: usize,
    failing: usize,
    losing: usize,
}

fn luck() -> impl Strategy<Value = Luck> {
    let chance = || prop_oneof![Just(0), 0..30usize];
    (any::<u64>(), chance(), chance(), chance())
        .prop_map(|(seed, refusing, failing, losing)| Luck { seed, refusing, failing, losing })
}

fn world(root: &Node, on_fault: OnFault, luck: &Luck) -> World {
    let program = program_with(root.clone(), on_fault);
    let mut world = World::start(&program, value::object([]), luck.seed);
    world.refusing = luck.refusing;
    world.failing = luck.failing;
    world.losing = luck.losing;
    world
}

/// When bad luck ends, so that everything can come to an end.
const BAD_LUCK_MAX: usize = 400;

fn end_bad_luck(world: &mut World) {
    (world.refusing, world.failing, world.losing) = (0, 0, 0);
}

/// Runs to the end.
fn run(world: &mut World) -> Outcome {
    run_with_restarts(world, 0, resolve_parked)
}

/// Runs to the end; while there is bad luck, it is restarted before so many of a hundred steps.
fn run_with_restarts(world: &mut World, chance: usize, person: fn(&mut World)) -> Outcome {
    let mut restarts = kit::world::Dice(world.dice.0 ^ 99);
    for step in 0..20_000 {
        if let Some(outcome) = &world.ended {
            return outcome.clone();
        }
        if step == BAD_LUCK_MAX {
            end_bad_luck(world);
        }
        if step < BAD_LUCK_MAX && restarts.percent(chance) {
            world.restart();
            world.copy = world.execution.clone();
        }
        person(world);
        assert!(world.step() || world.ended.is_some(), "stuck: {:#?}", world.execution);
    }
    panic!("no end: {:?}", world.execution)
}

/// A person who always says: try again.
fn resolve_parked(world: &mut World) {
    if let Some(parked) = world.execution.parked().first() {
        let resolution = outlast_workflow::Resolution::Retry;
        world.happen(Event::Resolved { effect: parked.effect, resolution });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Same program, same luck: same deltas, same commands, same deeds. That a copy which only
    /// applies the deltas stays equal is asserted after every event.
    #[test]
    fn a_run_is_a_function_of_its_events(root in tree(), luck in luck()) {
        let mut first = world(&root, OnFault::Leave, &luck);
        let mut second = world(&root, OnFault::Leave, &luck);
        let (one, two) = (run(&mut first), run(&mut second));
        prop_assert_eq!(one, two);
        prop_assert_eq!(&first.deeds, &second.deeds);
        prop_assert_eq!(first.execution, second.execution);
    }

    /// Whoever hears of several steps at once, in any portions, comes to the same states.
    #[test]
    fn steps_told_together_are_the_same_steps(
        root in tree(),
        luck in luck(),
        portions in proptest::collection::vec(1..9usize, 1..9),
        cuts in any::<bool>(),
    ) {
        let mut world = world(&root, OnFault::Compensate, &luck);
        world.told = Some(Vec::new());
        let beginning = world.execution.clone();
        if cuts {
            send_away_and_back(&mut world);
        }
        run(&mut world);
        let told = world.told.take().unwrap();
        let told = told_in_portions(beginning, told, &portions)?;
        prop_assert_eq!(told, world.execution);
    }

    /// A restart at any moment (snapshot, decode, ask again) changes nothing that anyone can see:
    /// not with answers that are lost, and not with refusals that tell the call did not happen.
    #[test]
    fn restarts_change_nothing(root in tree(), luck in luck(), chance in 1..40usize) {
        let luck = Luck { failing: 0, ..luck };
        let mut undisturbed = world(&root, OnFault::Leave, &luck);
        let expected = run(&mut undisturbed);
        let mut world = world(&root, OnFault::Leave, &luck);
        let ended = run_with_restarts(&mut world, chance, resolve_parked);
        // The author's epoch differs, and so do the names of effects; what was done does not.
        prop_assert_eq!(ended, expected);
        prop_assert_eq!(world.done(), undisturbed.done());
    }

    /// A service in trouble does not tell what became of a call that an earlier life made. Over a
    /// restart, such a call is asked about until it is known, which may carry it out; it is then undone.
    /// So restarts may add deeds with their undos: what is left in the end, and the result, are
    /// those of the undisturbed run.
    #[test]
    fn restarts_leave_the_same_though_services_are_in_trouble(
        root in line(),
        seed in any::<u64>(),
        broken in prop::collection::btree_set(0..NAMES.len(), 0..4),
        chance in 1..40usize,
    ) {
        let luck = Luck { seed, refusing: 0, failing: 0, losing: 0 };
        let start = || {
            let mut world = world(&root, OnFault::Leave, &luck);
            world.broken.extend(broken.iter().map(|name| NAMES[*name].to_owned()));
            world
        };
        let mut undisturbed = start();
        let expected = run_with_restarts(&mut undisturbed, 0, World::resolve_truthfully);
        let mut world = start();
        let ended = run_with_restarts(&mut world, chance, World::resolve_truthfully);
        prop_assert_eq!(ended, expected);
        prop_assert_eq!(standing(&world), standing(&undisturbed));
    }

    /// While no answer is lost, and however often it is restarted: what stands is what the history says
    /// was completed and not undone. Losers and failed attempts leave nothing that it does not tell.
    /// (A task that is stopped while a worker evaluates its capture was cancelled, and what it did stands
    /// where nothing is rolled back: captures are simple here.)
    #[test]
    fn what_stands_is_what_the_history_tells(
        root in tree_of(leaf_with(Node::Invoke)), luck in luck(), chance in 0..30usize,
    ) {
        let root = with_cancellations(root, &mut OWN_NAMES.into_iter(), false);
        let luck = Luck { losing: 0, ..luck };
        let mut world = world(&root, OnFault::Leave, &luck);
        run_with_restarts(&mut world, chance, resolve_parked);
        prop_assert_eq!(standing(&world), told(&world));
        undos_come_after_their_deeds(&world)?;
    }

    /// When a run is rolled back, every completed activity is undone exactly once, and only after
    /// everything that was done later in its own branch.
    #[test]
    fn rolling_back_leaves_nothing(root in tree(), luck in luck()) {
        let root = Node::Sequence(vec![root, Node::Raise(418)]);
        let mut world = world(&root, OnFault::Compensate, &luck);
        let outcome = run(&mut world);
        prop_assert!(matches!(outcome, Outcome::Compensated(_)));
        nothing_stands(&world)?;
        undos_come_after_their_deeds(&world)?;
    }

    /// The same for a run that faults and is only rolled back when somebody asks for it; calls may be under way
    /// when the time of a task is over.
    #[test]
    fn rolling_back_what_has_faulted_leaves_nothing(
        root in tree(),
        luck in luck(),
        haste in 0..30usize,
    ) {
        let root = Node::Sequence(vec![root, Node::Raise(418)]);
        let mut world = world(&root, OnFault::Leave, &luck);
        let mut clock = kit::world::Dice(luck.seed ^ 5);
        while world.ended.is_none() {
            resolve_parked(&mut world);
            if !(clock.percent(haste) && world.next_timer()) {
                prop_assert!(world.step() || world.ended.is_some());
            }
        }
        prop_assert!(matches!(world.ended.take(), Some(Outcome::Faulted(_))));
        prop_assert!(world.open.is_empty(), "nothing of it goes on: {:?}", world.open);
        world.happen(Event::CompensateRequested("the test asks for it".into()));
        let outcome = run(&mut world);
        prop_assert!(matches!(outcome, Outcome::Compensated(_)));
        nothing_stands(&world)?;
        undos_come_after_their_deeds(&world)?;
    }

    /// The same with restarts on the way, forward and back, whatever providers do and however things
    /// are undone.
    #[test]
    fn rolling_back_leaves_nothing_over_restarts(
        root in tree(),
        luck in luck(),
        chance in 1..30usize,
    ) {
        let root = with_cancellations(root, &mut OWN_NAMES.into_iter(), true);
        let root = Node::Sequence(vec![root, Node::Raise(418)]);
        let mut world = world(&root, OnFault::Compensate, &luck);
        let outcome = run_with_restarts(&mut world, chance, resolve_parked);
        prop_assert!(matches!(outcome, Outcome::Compensated(_)));
        nothing_stands(&world)?;
        undos_come_after_their_deeds(&world)?;
    }

    /// A run that completes leaves each effect of its own line, and nothing of losers or of
    /// attempts that were rolled back: done minus undone is never negative, and undos follow deeds.
    #[test]
    fn nothing_is_undone_that_was_not_done(root in tree(), luck in luck()) {
        let mut world = world(&root, OnFault::Leave, &luck);
        run(&mut world);
        undos_come_after_their_deeds(&world)?;
    }

    /// A branch that is cut off, advanced elsewhere and returned ends like one that stayed.
    #[test]
    fn cutting_and_returning_is_staying(root in tree(), seed in any::<u64>()) {
        // Who wins a competition depends on the order of answers, which moving may change.
        prop_assume!(!format!("{root:?}").contains("Compete"));
        let luck = Luck { seed, refusing: 0, failing: 0, losing: 0 };
        let mut stayed = world(&root, OnFault::Leave, &luck);
        let expected = run(&mut stayed);
        let mut world = world(&root, OnFault::Leave, &luck);
        let mut cuts = kit::world::Dice(seed ^ 7);
        while world.ended.is_none() {
            if cuts.percent(20) {
                send_away_and_back(&mut world);
            }
            if world.ended.is_none() {
                prop_assert!(world.step() || world.ended.is_some());
            }
        }
        prop_assert_eq!(world.ended.clone(), Some(expected));
        let (mut here, mut there) = (world.done(), stayed.done());
        here.sort_unstable();
        there.sort_unstable();
        prop_assert_eq!(here, there);
    }
}

/// Applies deltas one by one and in portions, and asks that both come to the same after each.
fn told_in_portions(
    beginning: Execution,
    deltas: Vec<Delta>,
    portions: &[usize],
) -> Result<Execution, TestCaseError> {
    let (mut singly, mut together) = (beginning.clone(), beginning);
    let mut deltas = deltas.into_iter();
    for length in portions.iter().cycle() {
        let portion: Vec<Delta> = deltas.by_ref().take(*length).collect();
        let mut all = Delta::default();
        for delta in &portion {
            prop_assert!(singly.can_take(delta), "what was made of this state fits it");
            singly.apply(delta.clone());
        }
        for delta in portion.iter().cloned() {
            all.and_then(delta);
        }
        prop_assert!(together.can_take(&all));
        let bytes = minicbor::to_vec(&all).expect("a delta can be written");
        together.apply(minicbor::decode(&bytes).expect("a written delta can be read"));
        prop_assert_eq!(&singly, &together, "{:#?}", portion);
        if portion.len() < *length {
            break;
        }
    }
    Ok(together)
}

/// What is left of everything that can be undone.
fn standing(world: &World) -> BTreeMap<String, i64> {
    undoable(world).into_iter().filter(|(_, count)| *count != 0).collect()
}

/// What the history says should be left. A name that is cancelled whole stands if the last word about
/// it is that it was completed.
fn told(world: &World) -> BTreeMap<String, i64> {
    let undoable: BTreeSet<String> = undoable(world).into_iter().map(|(name, _)| name).collect();
    let mut told = BTreeMap::new();
    for happening in &world.happenings {
        let (task, change) = match happening {
            Happening::TaskCompleted(task, _) => (*task, 1),
            Happening::Undone(task) => (*task, -1),
            _ => continue,
        };
        let name = &world.program.task(task).name;
        let count = told.entry(name.clone()).or_insert(0);
        *count = if OWN_NAMES.contains(&name.as_str()) { change.max(0) } else { *count + change };
    }
    told.retain(|name, count| undoable.contains(name) && *count != 0);
    told
}

/// Everything that can be undone is, and where it was done.
fn nothing_stands(world: &World) -> Result<(), TestCaseError> {
    // Readonly services are called by name too but leave no effect to undo.
    let names: BTreeSet<String> = undoable(world).into_iter().map(|(name, _)| name).collect();
    for ((name, place), count) in world.net_by_place() {
        prop_assert!(
            count == 0 || !names.contains(&name),
            "{name} at {place:?}: {count} is left over: {:?}",
            world.deeds
        );
    }
    Ok(())
}

/// How often each service that can be undone acted, undos counted against it, by whether its deeds
/// have an undo at all.
fn undoable(world: &World) -> Vec<(String, i64)> {
    let names: BTreeSet<&str> = world
        .program
        .tasks
        .iter()
        .filter(|task| task.traits.compensation.is_some())
        .map(|task| task.name.as_str())
        .collect();
    let read: BTreeSet<&str> = world
        .program
        .tasks
        .iter()
        .filter(|task| task.traits.class == Some(outlast_workflow::program::Class::Readonly))
        .map(|task| task.name.as_str())
        .collect();
    world
        .net()
        .into_iter()
        .filter(|(name, _)| names.contains(name.as_str()) && !read.contains(name.as_str()))
        .collect()
}

fn undos_come_after_their_deeds(world: &World) -> Result<(), TestCaseError> {
    let mut net = BTreeMap::new();
    for deed in &world.deeds {
        match deed.name.strip_suffix("-bar") {
            None => *net.entry((deed.name.as_str(), &deed.place)).or_insert(0i64) += 1,
            Some(name) => {
                let count = net.entry((name, &deed.place)).or_insert(0);
                *count -= 1;
                prop_assert!(0 <= *count, "{} is undone too often: {:?}", name, world.deeds);
            }
        }
    }
    Ok(())
}

/// Cuts a branch off, advances it on another node by answering some of what it asks for, and
/// brings it back.
fn send_away_and_back(world: &mut World) {
    let Some(branch) = world.some_branch() else { return };
    let epoch = Epoch(world.dice.below(1000) as u64);
    let author = world.author;
    let cut = world.execution.cut(branch, epoch, vec![NodeId(2)], author);
    let Some((remote, advance)) = cut else { return };
    world.copy.apply(advance.delta.clone());
    assert_eq!(world.copy, world.execution, "cutting is in its delta");
    let mut told = world.told.take();
    told.iter_mut().for_each(|told| told.push(advance.delta.clone()));
    let bytes = minicbor::to_vec(&remote).expect("a branch can be sent");
    let mut remote: Execution = minicbor::decode(&bytes).expect("a sent branch can be read");
    let elsewhere = Author::new(NodeId(2), Epoch(1));
    let steps = world.dice.below(4);
    for _ in 0..steps {
        // Timers wait until nothing else can happen, here as in `World::step`.
        let mine = world.open.iter().find(|(ticket, command)| {
            !matches!(command, Command::SetTimer { .. })
                && remote_has(&remote, &world.program, **ticket)
        });
        let mine = mine.map(|(ticket, _)| *ticket);
        let Some(ticket) = mine else { break };
        std::mem::swap(&mut world.execution, &mut remote);
        let (here, copy) = (world.author, world.copy.clone());
        world.author = elsewhere;
        world.copy = world.execution.clone();
        world.answer(ticket);
        world.author = here;
        world.copy = copy;
        std::mem::swap(&mut world.execution, &mut remote);
    }
    // What happens elsewhere is in the delta of the return.
    world.told = told;
    let stale =
        Event::Returned { branch, epoch: Epoch(epoch.0 + 1), remote: Box::new(remote.clone()) };
    let before = world.execution.clone();
    let advance = world.happen(stale);
    assert!(advance.commands.is_empty(), "a stale return asks for nothing");
    assert_eq!(before.outcome(), world.execution.outcome());
    world.happen(Event::Returned { branch, epoch, remote: Box::new(remote) });
}

fn remote_has(
    remote: &Execution,
    program: &outlast_workflow::Program,
    ticket: outlast_workflow::Ticket,
) -> bool {
    let open = remote.open_commands(program, outlast_lineage::Time::from_millis(0));
    open.iter().any(|command| format!("{command:?}").contains(&format!("{ticket:?}")))
}
