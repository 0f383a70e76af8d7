//! What a step costs: instructions and bytes, counted, never seconds.
//!
//! Instructions are counted by valgrind (`cachegrind`): a test runs itself again under it, once with
//! some events and once with none, and compares. Where valgrind is missing, the test says so and
//! leaves the instructions uncounted; bytes are counted everywhere.

mod kit;

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command as Process;
use std::sync::Arc;

use kit::build::{From, Node, Step, bare_program, expression, program, task};
use kit::world::AUTHOR;
use outlast_expressions::{Value, value};
use outlast_lineage::{ExecutionId, Time};
use outlast_workflow::program::{Case, Flow, Kind, OnFault, ScatterMethod, Template};
use outlast_workflow::{
    Advance, Answer, Command, Event, Execution, Happening, Program, Start, Ticket,
};

use Node::{Fork, Graph, Loop, Plain, Sequence, Set};

const NOW: Time = Time::from_millis(1_000_000);
const WINDOW: u32 = 10;

fn started(program: &Arc<Program>, input: Value) -> (Execution, Advance) {
    let id = ExecutionId::from_bytes([7; 16]);
    let start = Start { id, input, salt: [9; 16], keep_plan: false, shared: false, depth: 0 };
    Execution::start(program, start, AUTHOR, NOW)
}

fn bytes_of<T: minicbor::Encode<()>>(value: &T) -> Vec<u8> {
    minicbor::to_vec(value).expect("writing to memory does not fail")
}

/// Answers calls in the order they were made.
struct Caller {
    program: Arc<Program>,
    execution: Execution,
    calls: VecDeque<Ticket>,
    bytes: usize,
}

impl Caller {
    fn start(program: &Arc<Program>, input: Value) -> Self {
        let (execution, _) = started(program, input);
        Self::resume(program, execution)
    }

    fn resume(program: &Arc<Program>, execution: Execution) -> Self {
        let open = execution.open_commands(program, NOW);
        let mut caller =
            Self { program: program.clone(), execution, calls: VecDeque::new(), bytes: 0 };
        caller.note(&open);
        caller
    }

    fn note(&mut self, commands: &[Command]) {
        self.calls.extend(commands.iter().filter_map(|command| match command {
            Command::Call { ticket, .. } => Some(*ticket),
            _ => None,
        }));
    }

    fn answer(&mut self, count: usize) {
        for _ in 0..count {
            let ticket = self.calls.pop_front().expect("a call is under way");
            let event = Event::Answered { ticket, answer: Answer::Succeeded(value::integer(1)) };
            let advance = self.execution.advance(&self.program, event, AUTHOR, NOW);
            self.bytes += bytes_of(&advance.delta).len();
            self.note(&advance.commands);
        }
    }
}

/// A list that is held by digest at every size the tests use.
fn items(count: usize) -> Value {
    let item = |number| value::string(&format!("the item with the number {number:05}"));
    value::object([("x", value::array((0..count).map(item).collect::<Vec<_>>()))])
}

/// One call for each item, so many at once.
fn side_by_side(shape: &str, count: usize) -> (Arc<Program>, Value) {
    let root = match shape {
        "loop" => Loop(count, WINDOW, Box::new(Plain("a"))),
        _ => {
            let step = Step::new(Plain("a")).input("x", From::Region(".x"));
            Graph(vec![step.scatter(&["x"], ScatterMethod::Dot, WINDOW)], vec![])
        }
    };
    let input = if shape == "loop" { Value::default() } else { items(count) };
    (program(root), input)
}

const SHAPES: [&str; 2] = ["loop", "scatter"];
const SIZES: [usize; 2] = [100, 10_000];
/// How many events are counted, in the middle of a run.
const COUNTED: usize = 40;

/// A run that is half through, or has thousands of results.
fn half_way(shape: &str, count: usize) -> Caller {
    let (program, input) = side_by_side(shape, count);
    let mut caller = Caller::start(&program, input);
    caller.answer((count / 2).min(2000));
    caller
}

fn assert_flat(what: &str, small: f64, large: f64) {
    let ratio = large / small;
    assert!((0.85..=1.15).contains(&ratio), "{what}: {small} at 100 items, {large} at 10,000");
}

#[test]
fn bytes_per_event_are_the_same_at_100_and_at_10_000_items() {
    for shape in SHAPES {
        let [small, large] = SIZES.map(|count| {
            let mut caller = half_way(shape, count);
            caller.bytes = 0;
            caller.answer(COUNTED);
            caller.bytes as f64 / COUNTED as f64
        });
        assert_flat(&format!("bytes per event of a {shape}"), small, large);
    }
}

/// In the child under valgrind: `shape count events snapshot`.
const WORK: &str = "OUTLAST_COST_WORK";
const COUNTING_TEST: &str = "instructions_per_event_are_the_same_at_100_and_at_10_000_items";

#[test]
fn instructions_per_event_are_the_same_at_100_and_at_10_000_items() {
    if let Ok(work) = env::var(WORK) {
        return work_for_the_counter(&work);
    }
    if Process::new("valgrind").arg("--version").output().is_err() {
        // Past the test harness, which keeps what passing tests print.
        let said = "skipped, valgrind is not installed: instructions are not counted";
        return writeln!(std::io::stderr(), "{COUNTING_TEST}: {said}").expect("stderr is there");
    }
    for shape in SHAPES {
        let [small, large] = SIZES.map(|count| {
            let caller = half_way(shape, count);
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
            let snapshot = folder.join(format!("cost-{shape}-{count}.cbor"));
            fs::write(&snapshot, bytes_of(&caller.execution)).expect("the folder can be written");
            let counted = |events| instructions(shape, count, events, &snapshot);
            (counted(COUNTED) - counted(0)) / COUNTED as f64
        });
        assert_flat(&format!("instructions per event of a {shape}"), small, large);
    }
}

fn work_for_the_counter(work: &str) {
    let words: Vec<&str> = work.split(' ').collect();
    let [shape, count, events, snapshot] = words[..] else { panic!("four words: {work}") };
    let (program, _) = side_by_side(shape, count.parse().expect("a number of items"));
    let bytes = fs::read(snapshot).expect("the snapshot was written");
    let execution = minicbor::decode(&bytes).expect("a written execution can be read");
    Caller::resume(&program, execution).answer(events.parse().expect("a number of events"));
}

/// How many instructions this test takes with some work.
fn instructions(shape: &str, count: usize, events: usize, snapshot: &Path) -> f64 {
    let binary = env::current_exe().expect("a test has a binary");
    let output = Process::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(binary)
        .args(["--exact", COUNTING_TEST, "--test-threads=1"])
        .env(WORK, format!("{shape} {count} {events} {}", snapshot.display()))
        .output()
        .expect("valgrind can be run");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let line = text.lines().find(|line| line.contains("refs:")).expect("valgrind counts");
    let digits: String = line.rsplit(':').next().unwrap_or("").replace(',', "");
    digits.trim().parse().expect("a count is a number")
}

/// How many iterations are many.
const TURNS: usize = 1_000_000;
/// What a delta may hold that says no more than how far a loop has come.
const DELTA_BYTES_MAX: usize = 600;

/// Runs without effects to the end: the sizes of the deltas, of the first and the last snapshot.
fn run_without_effects(root: Node, input: Value) -> (Vec<usize>, usize, usize) {
    let program = program(root);
    let (mut execution, mut advance) = started(&program, input);
    let first = bytes_of(&execution).len();
    let (mut deltas, mut last) = (Vec::new(), first);
    while advance.commands.contains(&Command::Yield) {
        assert!(advance.happenings.len() <= 2000, "at most two for each of a thousand turns");
        // The list of a loop is part of every snapshot: writing all of them would take long.
        if deltas.len() % 100 == 99 {
            last = bytes_of(&execution).len();
        }
        advance = execution.advance(&program, Event::Continue, AUTHOR, NOW);
        deltas.push(bytes_of(&advance.delta).len());
    }
    assert!(execution.outcome().is_some(), "nothing but turns was asked for");
    deltas.pop();
    (deltas, first, last)
}

fn assert_stays_small(root: Node, input: Value) {
    let (deltas, first, last) = run_without_effects(root, input);
    // At least two turns each, and a yield after at most a thousand.
    assert!(TURNS * 2 / 1000 <= deltas.len() + 2, "{} yields", deltas.len());
    assert!(last <= first + 16, "a snapshot grew from {first} to {last} bytes");
    let most = deltas.iter().max().expect("it yielded");
    assert!(*most <= DELTA_BYTES_MAX, "a delta of {most} bytes");
}

#[test]
fn a_long_loop_leaves_the_execution_as_small_as_it_was() {
    assert_stays_small(Loop(TURNS, 1, Box::new(Set("$index"))), Value::default());
}

#[test]
fn going_back_again_and_again_leaves_the_execution_as_small_as_it_was() {
    let more = expression(&format!(". < {TURNS}"));
    let again = Case { name: "again".into(), when: Some(more), then: Flow::Goto(0) };
    let switch = task("switch", "/switch", Kind::Switch(vec![again]));
    let root = Sequence(vec![Set(". + 1"), Node::Task(Box::new(switch))]);
    assert_stays_small(root, value::integer(0));
}

/// A list that is too small to be held by digest is still not repeated in every delta of its loop.
#[test]
fn the_list_of_a_loop_does_not_travel_with_every_iteration() {
    let delta = |count| {
        let program = program(Loop(count, 1, Box::new(Plain("a"))));
        let mut caller = Caller::start(&program, Value::default());
        caller.answer(4);
        caller.bytes = 0;
        caller.answer(4);
        caller.bytes / 4
    };
    let (short, long) = (delta(10), delta(2000));
    assert!(long <= short + 40, "{short} bytes with 10 items, {long} with 2000");
}

#[test]
fn a_loop_without_effects_lets_the_branch_beside_it_have_its_turn() {
    let root = Fork(vec![Loop(50_000, 1, Box::new(Set("."))), Plain("a")]);
    let program = program(root);
    let (mut execution, first) = started(&program, Value::default());
    let second = execution.advance(&program, Event::Continue, AUTHOR, NOW);
    let called = |advance: &Advance| {
        advance.happenings.iter().any(|happening| matches!(happening, Happening::Called(..)))
    };
    assert!(called(&first) || called(&second), "the call beside the loop waits for its end");
}

/// How often a text occurs in bytes.
fn occurrences(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
}

const MARK: &str = "here it is";

fn heavy() -> Value {
    value::object([("text", value::string(&format!("{MARK}{}", "x".repeat(70 * 1024))))])
}

/// A fork whose branches all have the value as their data and call with it.
fn heavy_fork() -> Arc<Program> {
    program(Sequence(vec![
        Fork(vec![Plain("a"), Sequence(vec![Set("."), Plain("b")]), Plain("c")]),
        Set("0"),
    ]))
}

#[test]
fn a_large_value_is_held_once_however_many_places_name_it() {
    let (execution, advance) = started(&heavy_fork(), heavy());
    let calls = advance.commands.iter().filter(|c| matches!(c, Command::Call { .. })).count();
    assert_eq!(calls, 3);
    assert_eq!(occurrences(&bytes_of(&execution), MARK), 1);
}

#[test]
fn a_large_value_travels_in_one_delta_only() {
    let program = heavy_fork();
    let (mut execution, advance) = started(&program, heavy());
    let beginning = execution.clone();
    let mut bytes = bytes_of(&advance.delta);
    let mut open = advance.commands;
    while let Some(command) = open.pop() {
        let Command::Call { ticket, .. } = command else { continue };
        let event = Event::Answered { ticket, answer: Answer::Succeeded(heavy()) };
        let advance = execution.advance(&program, event, AUTHOR, NOW);
        bytes.extend(bytes_of(&advance.delta));
        open.extend(advance.commands);
    }
    assert!(execution.outcome().is_some());
    // Each service's answer is the input, which it begins with; only the list of the three is new.
    assert_eq!(occurrences(&bytes_of(&beginning), MARK), 1);
    assert_eq!(occurrences(&bytes, MARK), 3);
}

#[test]
fn a_call_with_a_large_value_is_made_again_whole_after_a_restart() {
    let program = heavy_fork();
    let (execution, advance) = started(&program, heavy());
    let mut first: Vec<String> = advance.commands.iter().map(|c| format!("{c:?}")).collect();
    let back: Execution = minicbor::decode(&bytes_of(&execution)).expect("it can be read");
    let mut again: Vec<String> =
        back.open_commands(&program, NOW).iter().map(|c| format!("{c:?}")).collect();
    first.sort_unstable();
    again.sort_unstable();
    assert_eq!(first, again);
}

#[test]
fn a_large_item_of_a_loop_is_held_once_for_all_branches_that_see_it() {
    let body = Fork(vec![Plain("a"), Plain("b"), Plain("c")]);
    let mut program = bare_program("large", Loop(1, 1, Box::new(body)), OnFault::Leave);
    for task in &mut program.tasks {
        if let Kind::Loop { items, .. } = &mut task.kind {
            *items = Template::Computed(expression("."));
        }
    }
    let program = Arc::new(program);
    let (execution, _) = started(&program, value::array([heavy()]));
    // Once in the list, which is the input, and once as the item.
    assert_eq!(occurrences(&bytes_of(&execution), MARK), 2);
}
