//! What can be told at once is noticed at once: worlds are spoiled by hand in the midst of a run.

use std::time::Duration;

use outlast_engine::{Strategy, Survival};
use outlast_expressions::value;
use outlast_lineage::{
    BranchId, Digest, EffectId, Epoch, ExecutionId, NodeId, OperationKey, Point,
};
use outlast_simulator::checkers::Expectation;
use outlast_simulator::{Plan, Workload, World, WorldOptions};
use outlast_workflow::program::HttpOutput;
use outlast_workflow::{Request, Target};

const ID: ExecutionId = ExecutionId::from_bytes([1; 16]);

/// When a flow starts that is to do nothing by itself.
const LATER: Duration = Duration::from_secs(600);

fn plan(name: &str, survival: &Survival, delay: Duration) -> Plan {
    let flows = Workload::built_in();
    let flow = flows.iter().find(|flow| flow.name == name).unwrap();
    flow.plan(&[delay], survival)
}

/// What a flow does when nothing fails.
fn calm(name: &str) -> Expectation {
    let options = WorldOptions { nobody_denies: true, ..WorldOptions::default() };
    let mut world = World::new(options, plan(name, &Survival::solo(), Duration::ZERO));
    world.run_out(100_000);
    Expectation::of(&world)
}

/// A world in which nothing has happened yet, of three nodes that hold an execution together or one that
/// holds it alone.
fn world(name: &str, strategy: Strategy, faults: &[&str]) -> World {
    world_in(name, strategy, faults, LATER)
}

fn world_in(name: &str, strategy: Strategy, faults: &[&str], delay: Duration) -> World {
    let faults = faults.iter().map(|text| text.parse().unwrap()).collect();
    let options = WorldOptions { nodes: 3, faults, nobody_denies: true, ..WorldOptions::default() };
    let survival = match strategy {
        Strategy::None => Survival::solo(),
        strategy => Survival::new(strategy, 3),
    };
    World::new(options, plan(name, &survival, delay))
}

fn expecting(name: &str, strategy: Strategy, faults: &[&str]) -> World {
    let mut world = world(name, strategy, faults);
    world.expects(calm(name));
    world
}

/// A request that nobody made, by the term of a node and its number there.
fn request(path: &str, (node, number): (u64, u64), undoes: Option<&Request>) -> Request {
    let point = Point { author: NodeId(node), epoch: Epoch(1), number };
    let digest = Digest::of(format!("{path} {node} {number}").as_bytes());
    Request {
        effect: EffectId { branch: BranchId::TRUNK, point },
        key: OperationKey::new(ID, &digest, &digest),
        own_key: None,
        key_header: None,
        deadline: None,
        readonly: false,
        undo: undoes.is_some(),
        target: Target::Http {
            method: "POST".to_owned(),
            uri: format!("http://world.example/{path}"),
            headers: Vec::new(),
            body: value::null(),
            output: HttpOutput::Content,
            redirect: false,
            authentication: None,
        },
        salt: [0; 16],
        undoes: undoes.map(|undone| undone.key),
        own_undoes: None,
    }
}

fn undo(number: u64, undone: &Request) -> Request {
    request("undo/work", (undone.effect.point.author.0, number), Some(undone))
}

/// A moment later a service does something.
fn serve(world: &mut World, request: &Request) {
    let before = world.elapsed();
    while world.elapsed() == before {
        assert!(world.step());
    }
    assert!(world.elapsed() < LATER);
    world.serve(request.effect.point.author, ID, request);
}

/// All of these are served, and only the last one is noticed.
#[track_caller]
fn only_the_last_is_noticed(world: &mut World, requests: &[&Request], words: &str) {
    let (last, first) = requests.split_last().unwrap();
    first.iter().for_each(|request| serve(world, request));
    assert_eq!(world.finding(), None);
    serve(world, last);
    let finding = world.finding().unwrap_or("nothing").to_owned();
    assert!(finding.contains(words), "{finding}");
}

#[test]
fn an_undo_after_that_of_what_it_depended_on_is_noticed_when_it_is_made() {
    let (first, second) = (request("ok/a1", (1, 1), None), request("ok/a2", (1, 2), None));
    let (undo_first, undo_second) = (undo(3, &first), undo(4, &second));
    let mut right = world("line", Strategy::None, &[]);
    for request in [&first, &second, &undo_second, &undo_first] {
        serve(&mut right, request);
    }
    assert_eq!(right.finding(), None);
    let mut wrong = world("line", Strategy::None, &[]);
    let words = "POST ok/a1 of 01010101-0101-0101-0101-010101010101 was undone before POST ok/a2";
    only_the_last_is_noticed(&mut wrong, &[&first, &second, &undo_first, &undo_second], words);
}

#[test]
fn an_undo_before_any_fault_is_noticed_when_it_is_made() {
    let (done, again) = (request("ok/a1", (1, 1), None), undo(2, &request("ok/a1", (1, 1), None)));
    for strategy in [Strategy::None, Strategy::Passive, Strategy::PartitionTolerant] {
        // That there will be one says nothing of now.
        let mut world = expecting("line", strategy, &["crash@600+1:3"]);
        only_the_last_is_noticed_but(strategy, &mut world, &[&done, &again]);
    }
    let mut world = expecting("line", Strategy::PartitionTolerant, &["crash@0+1:3"]);
    while !world.trace.contains("fault crash@0+1:3 begins") {
        assert!(world.step());
    }
    serve(&mut world, &done);
    serve(&mut world, &again);
    assert_eq!(world.finding(), None, "a fault has begun");
    let mut active = expecting("line", Strategy::Active, &[]);
    serve(&mut active, &done);
    serve(&mut active, &again);
    assert_eq!(active.finding(), None, "all but one are undone");
}

/// Passive replication has nothing to undo whatever fails, which is said first.
#[track_caller]
fn only_the_last_is_noticed_but(strategy: Strategy, world: &mut World, requests: &[&Request]) {
    let words = match strategy {
        Strategy::Passive => "that was lost made POST undo/work at node 1",
        _ => "undid 1 things though nothing had failed",
    };
    only_the_last_is_noticed(world, requests, words);
}

#[test]
fn an_undo_of_a_lost_line_is_noticed_when_it_is_made_where_calls_wait_for_a_majority() {
    let done = request("ok/a1", (1, 1), None);
    let mut passive = world("line", Strategy::Passive, &[]);
    let words = "a line of 01010101-0101-0101-0101-010101010101 that was lost made POST undo/work";
    only_the_last_is_noticed(&mut passive, &[&done, &undo(2, &done)], words);
    let mut tolerant = world("line", Strategy::PartitionTolerant, &[]);
    serve(&mut tolerant, &done);
    serve(&mut tolerant, &undo(2, &done));
    assert_eq!(tolerant.finding(), None);
}

#[test]
fn an_undo_of_what_two_lines_did_before_any_fault_is_noticed_when_it_is_made() {
    let (here, there) = (request("ok/r1", (1, 1), None), request("ok/r1", (2, 1), None));
    let mut world = expecting("rollback", Strategy::PartitionTolerant, &[]);
    let words = "did POST ok/r1 on two lines though nothing had failed";
    only_the_last_is_noticed(&mut world, &[&here, &there, &undo(2, &there)], words);
    let mut one = expecting("rollback", Strategy::PartitionTolerant, &[]);
    serve(&mut one, &here);
    serve(&mut one, &undo(2, &here));
    assert_eq!(one.finding(), None, "its run rolls back by itself");
}

#[test]
fn a_pivot_that_is_done_on_two_lines_is_noticed_when_the_second_does_it() {
    let (here, there) = (request("ok/pay", (1, 1), None), request("ok/pay", (2, 1), None));
    for strategy in [Strategy::None, Strategy::Passive, Strategy::Active] {
        let mut world = expecting("pivot", strategy, &[]);
        let words = "was done 2 times, and one run does it 1";
        only_the_last_is_noticed(&mut world, &[&here, &there], words);
    }
    let anywhere = Survival { pivots_anywhere: true, ..Survival::new(Strategy::Active, 3) };
    let options = WorldOptions { nodes: 3, ..WorldOptions::default() };
    let mut world = World::new(options, plan("pivot", &anywhere, LATER));
    world.expects(calm("pivot"));
    serve(&mut world, &here);
    serve(&mut world, &there);
    assert_eq!(world.finding(), None, "it waits for nobody");
}

#[test]
fn what_one_node_alone_does_once_too_often_is_noticed_when_it_does_it() {
    let (first, second) = (request("ok/a1", (1, 1), None), request("ok/a1", (1, 7), None));
    let mut alone = expecting("line", Strategy::None, &[]);
    only_the_last_is_noticed(&mut alone, &[&first, &second], "POST ok/a1 of 01010101");
    let mut several = expecting("line", Strategy::PartitionTolerant, &[]);
    serve(&mut several, &first);
    serve(&mut several, &second);
    assert_eq!(several.finding(), None, "lines may compete, and one of them is undone");
}

#[test]
fn a_key_that_is_acted_on_twice_is_noticed_when_it_is() {
    let own = |key: &str| {
        let own_key = Some(key.to_owned());
        Request { own_key, ..request("ok/a1", (1, 1), None) }
    };
    let mut world = world("line", Strategy::None, &[]);
    let words = "POST ok/a1 was done twice with key";
    only_the_last_is_noticed(&mut world, &[&own("one"), &own("another")], words);
}

/// Runs to rest, with what another flow does in mind.
fn finding_with_other_expectation(name: &str, other: &str) -> (World, String) {
    let mut world = world_in(name, Strategy::Passive, &[], Duration::ZERO);
    world.expects(calm(other));
    world.run_to_rest(&|_| true);
    let finding = world.finding().unwrap_or("nothing").to_owned();
    (world, finding)
}

#[test]
fn an_act_of_whom_nobody_was_to_start_is_noticed_when_it_is_done() {
    let (world, finding) = finding_with_other_expectation("office", "line");
    assert!(finding.contains("did something, and nobody was to start it"), "{finding}");
    assert!(!world.client.is_content(), "it is looked at before the end");
    let mut right = world_in("office", Strategy::Passive, &[], Duration::ZERO);
    right.expects(calm("office"));
    right.run_to_rest(&|_| true);
    assert_eq!(right.finding(), None);
}

#[test]
fn an_end_that_is_told_though_something_is_missing_is_noticed_when_it_is_told() {
    let (world, finding) = finding_with_other_expectation("pivot", "line");
    let words = "was said to be completed, but POST ok/a1 stands 0 times";
    assert!(finding.contains(words), "{finding}");
    let lines: Vec<&str> = world.trace.lines().collect();
    let [.., told, found] = &lines[..] else { panic!("a trace has lines") };
    assert!(told.contains("tells the client") && found.contains("FOUND"), "{told}\n{found}");
}
