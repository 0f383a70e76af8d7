//! Worlds that break a sentence, in the midst of a run or spoiled by hand: each is noticed.

use std::sync::Arc;
use std::time::Duration;

use outlast_engine::{Condition, Position, Refusal, Reply, Strategy, Survival};
use outlast_expressions::value;
use outlast_lineage::{
    BranchId, Digest, EffectId, Epoch, ExecutionId, NodeId, OperationKey, Point, Time,
};
use outlast_workflow::program::HttpOutput;
use outlast_workflow::{Outcome, Request, Target};

use super::{
    Expectation, a_pivot_runs_in_one_line, every_execution_ends, everyone_knows_who_is_there,
    net_effects_are_those_of_one_run, nobody_holds_what_is_over, nobody_is_refused,
    nobody_leads_beside_another, what_failed_is_taken_back,
    what_people_were_told_is_stopped_does_not_complete, what_was_tried_again_ends,
};
use crate::client::Taken;
use crate::world::learning::OfKey;
use crate::{Latency, Plan, StartPlan, Workload, World, WorldOptions};

const ID: ExecutionId = ExecutionId::from_bytes([1; 16]);

fn world(options: WorldOptions, survival: Survival) -> World {
    world_of("line", options, survival)
}

fn world_of(name: &str, options: WorldOptions, survival: Survival) -> World {
    let flow = Workload::built_in().into_iter().find(|flow| flow.name == name).unwrap();
    let start = StartPlan {
        id: ID,
        namespace: flow.program.namespace.clone(),
        workflow: flow.program.name.clone(),
        input: value::object([]),
        survival: Some(survival),
        delay: Duration::ZERO,
    };
    let definitions = vec![(Arc::clone(&flow.program), Arc::clone(&flow.text))];
    World::new(options, Plan { definitions, starts: vec![start], events: Vec::new() })
}

fn request(number: u64, key: &[u8]) -> Request {
    let point = Point { author: NodeId(1), epoch: Epoch(1), number };
    let digest = Digest::of(key);
    Request {
        effect: EffectId { branch: BranchId::TRUNK, point },
        key: OperationKey::new(ID, &digest, &digest),
        own_key: None,
        key_header: None,
        deadline: None,
        readonly: false,
        undo: false,
        target: Target::Http {
            method: "POST".to_owned(),
            uri: "http://world.example/ok/a1".to_owned(),
            headers: Vec::new(),
            body: value::null(),
            output: HttpOutput::Content,
            redirect: false,
            authentication: None,
        },
        salt: [0; 16],
        undoes: None,
        own_undoes: None,
    }
}

#[test]
fn a_primary_on_each_side_of_a_split() {
    let after_a_while = |faults: &[&str], age: u64| {
        let faults = faults.iter().map(|text| text.parse().unwrap()).collect();
        // Whoever leads has something to do for as long as it is looked at.
        let service = Latency::Constant(60_000_000);
        let options = WorldOptions { nodes: 3, faults, service, ..WorldOptions::default() };
        let mut world = world(options, Survival::new(Strategy::PartitionTolerant, 3));
        world.run_for(Duration::from_secs(20));
        nobody_leads_beside_another(&world, Duration::from_secs(age))
    };
    assert_eq!(after_a_while(&[], 10), Ok(()));
    assert_eq!(after_a_while(&["split@1+100:1,2"], 60), Ok(()), "it was started 20 s ago");
    let finding = after_a_while(&["split@1+100:1,2"], 10).unwrap_err();
    assert!(finding.contains("both lead"), "{finding}");
}

#[test]
fn an_execution_that_has_not_ended_and_is_held() {
    let options = WorldOptions { nodes: 3, ..WorldOptions::default() };
    let mut world = world(options, Survival::new(Strategy::Passive, 3));
    world.run_for(Duration::from_millis(50));
    let finding = nobody_holds_what_is_over(&world).unwrap_err();
    assert!(finding.contains("still holds"), "{finding}");
    assert!(every_execution_ends(&world).is_err());
    world.run_to_rest(&|world| nobody_holds_what_is_over(world).is_ok());
    assert_eq!(nobody_holds_what_is_over(&world), Ok(()));
    assert_eq!(every_execution_ends(&world), Ok(()));
}

/// Whether a run comes to it may be a matter of time, but not that two do it.
#[test]
fn a_pivot_of_a_flow_with_timeouts_that_is_done_twice() {
    let options = WorldOptions { nobody_denies: true, ..WorldOptions::default() };
    let mut world = world_of("pivot", options, Survival::solo());
    world.run_to_rest(&|_| true);
    let mut calm = Expectation::of(&world);
    (calm.is_timed, calm.pivots_at_most) = (true, 1);
    assert_eq!(a_pivot_runs_in_one_line(&calm, &world), Ok(()));
    visit(&mut world, "ok/pay", &request(9, b"once more"));
    let finding = a_pivot_runs_in_one_line(&calm, &world).unwrap_err();
    assert!(finding.contains("POST ok/pay of"), "{finding}");
}

#[test]
fn what_was_to_be_taken_back_and_was_not() {
    let options = WorldOptions { nobody_denies: true, ..WorldOptions::default() };
    let mut world = world_of("quarrel", options, Survival::solo());
    world.run_to_rest(&|_| true);
    let calm = Expectation::of(&world);
    // It is as if somebody had asked, and nobody had done anything about it.
    world.revisited.insert(ID, 0);
    let finding = what_failed_is_taken_back(&calm, &world).unwrap_err();
    assert!(finding.contains("POST ok/table stands"), "{finding}");
    world.live_on(&|_| true);
    assert_eq!(what_failed_is_taken_back(&calm, &world), Ok(()));
}

/// Has a service do something for node 1, by hand.
fn visit(world: &mut World, path: &str, request: &Request) -> usize {
    let mut request = request.clone();
    if let Target::Http { uri, .. } = &mut request.target {
        *uri = format!("http://world.example/{path}");
    }
    let now = Time::from_millis(10_000_000);
    world.services.visit(now, NodeId(1), ID, &request, false).act.unwrap()
}

/// What a run came to only because something failed can be undone, too.
#[test]
fn what_stands_of_a_rolled_back_run_though_nobody_did_it_when_nothing_failed() {
    let options = WorldOptions { nodes: 3, nobody_denies: true, ..WorldOptions::default() };
    let mut world = world_of("rollback", options, Survival::new(Strategy::Passive, 3));
    world.run_to_rest(&|world| nobody_holds_what_is_over(world).is_ok());
    let calm = Expectation::of(&world);
    visit(&mut world, "ok/late", &request(9, b"late"));
    assert_eq!(net_effects_are_those_of_one_run(&calm, &world), Ok(()), "it cannot be undone");
    world.learnt.undoable.insert("POST ok/late".to_owned());
    let finding = net_effects_are_those_of_one_run(&calm, &world).unwrap_err();
    assert!(finding.contains("POST ok/late stands 1 times, and should at most 0"), "{finding}");
}

#[test]
fn what_was_to_be_taken_back_and_was_not_though_nobody_did_it_when_nothing_failed() {
    let mut world = world_of("quarrel", WorldOptions::default(), Survival::solo());
    // It is as if nobody had come to anything while nothing failed.
    let calm = Expectation::of(&world);
    world.run_to_rest(&|_| true);
    world.revisited.insert(ID, 0);
    let finding = what_failed_is_taken_back(&calm, &world).unwrap_err();
    assert!(finding.contains("POST ok/table stands"), "{finding}");
}

/// An undo holds before its call comes if that is said of it, and only then.
#[test]
fn what_comes_after_its_undo_and_stands() {
    for is_tolerant in [true, false] {
        let mut world = world(WorldOptions::default(), Survival::solo());
        let call = request(1, b"call");
        let undo = Request { undo: true, undoes: Some(call.key), ..request(1, b"undo") };
        visit(&mut world, "undo/work", &undo);
        world.learnt.keys.insert(call.key_text(), OfKey { is_tolerant, ..OfKey::default() });
        let act = visit(&mut world, "ok/a1", &call);
        world.learn_act(act, &call.key_text());
        assert_eq!(world.services.ledger.act(act).undone_by.is_some(), is_tolerant);
    }
}

#[test]
fn an_undo_of_one_call_that_is_made_again_though_its_answer_is_on_disk() {
    let undo = |number: u64, key: &[u8]| Request {
        undo: true,
        undoes: Some(request(1, b"call").key),
        ..request(number, key)
    };
    let mut world = world(WorldOptions::default(), Survival::solo());
    let first = undo(1, b"first");
    let act = visit(&mut world, "undo/work", &first);
    world.services.ledger.settle(act);
    world.check_need(ID, &undo(1, b"second"));
    world.check_need(ID, &first);
    assert_eq!(world.finding(), None, "an undo of two calls is made again as a whole");
    let mut world = self::world(WorldOptions::default(), Survival::solo());
    let act = visit(&mut world, "undo/work", &first);
    world.services.ledger.settle(act);
    world.check_need(ID, &first);
    assert!(world.finding().unwrap().contains("whose answer was on its disk"));
}

#[test]
fn what_was_said_to_be_stopped_and_completes() {
    let mut world = world(WorldOptions::default(), Survival::solo());
    world.promised.insert(ID);
    world.run_to_rest(&|_| true);
    let finding = what_people_were_told_is_stopped_does_not_complete(&world).unwrap_err();
    assert!(finding.contains("was said to be stopped, and completed"), "{finding}");
}

#[test]
fn what_was_said_to_be_stopped_is_noticed_when_the_client_is_told_that_it_completed() {
    let mut world = world(WorldOptions::default(), Survival::solo());
    world.promised.insert(ID);
    world.run();
    assert!(world.finding().unwrap().contains("was said to be stopped, and completed"));
}

#[test]
fn two_ends_of_one_execution() {
    let options = || WorldOptions { nodes: 3, ..WorldOptions::default() };
    let said = |ends: &[Condition], is_wished: bool| {
        let mut world = world(options(), Survival::new(Strategy::Passive, 3));
        world.client.wished.extend(is_wished.then_some(ID));
        for (place, end) in ends.iter().enumerate() {
            world.judge_end(place, ID, *end);
        }
        world.finding().map(str::to_owned)
    };
    let (completed, faulted) = (Condition::Completed, Condition::Faulted);
    assert_eq!(said(&[completed, Condition::Running, completed], false), None);
    let finding = said(&[completed, faulted], false).unwrap();
    assert!(finding.contains("is completed to node 1, and faulted to node 2"), "{finding}");
    assert_eq!(said(&[faulted, Condition::Compensated], true), None, "somebody wanted that");
    assert!(said(&[completed, Condition::Compensated], true).is_some());
}

#[test]
fn a_node_that_is_gone_for_good_and_is_taken_for_alive() {
    let options = WorldOptions { nodes: 3, gossip: true, ..WorldOptions::default() };
    let mut world = world(options, Survival::solo());
    world.judge_member(0, NodeId(2));
    assert_eq!(world.finding(), None);
    world.machines[0].removed.insert(NodeId(2));
    world.judge_member(0, NodeId(2));
    assert!(world.finding().unwrap().contains("takes node 2 for alive, which it was told is gone"));
}

#[test]
fn what_was_tried_again_and_goes_on_for_ever() {
    let mut world = world(WorldOptions::default(), Survival::solo());
    world.run_for(Duration::from_millis(10));
    world.revisited.insert(ID, 0);
    let finding = what_was_tried_again_ends(&world).unwrap_err();
    assert!(finding.contains("at node 1, where it is running"), "{finding}");
    world.run_to_rest(&|_| true);
    assert_eq!(what_was_tried_again_ends(&world), Ok(()));
}

#[test]
fn a_node_that_knows_too_many_or_too_few_or_doubts_one() {
    let options = WorldOptions { nodes: 3, gossip: true, ..WorldOptions::default() };
    let mut world = world(options, Survival::solo());
    world.run_to_rest(&|_| true);
    assert_eq!(everyone_knows_who_is_there(&world), Ok(()));
    let right = world.standings.clone();
    let mut spoil = |what: &dyn Fn(&mut World)| {
        world.standings.clone_from(&right);
        what(&mut world);
        everyone_knows_who_is_there(&world).unwrap_err()
    };
    assert!(spoil(&|world| world.standings[1] = None).contains("does not say"));
    let few = spoil(&|world| drop(world.standings[1].as_mut().unwrap().members.pop()));
    assert!(few.contains("and there are"), "{few}");
    let doubts = spoil(&|world| world.standings[1].as_mut().unwrap().members[0].state = "suspect");
    assert!(doubts.contains("takes node"), "{doubts}");
    let unheard = spoil(&|world| world.standings[1].as_mut().unwrap().members[0].reachable = false);
    assert!(unheard.contains("takes node"), "{unheard}");
}

#[test]
fn a_refusal_of_what_is_in_order() {
    let mut world = world(WorldOptions::default(), Survival::solo());
    let (caller, _) = world.client.ask(0, 0);
    let refusal = Refusal::Invalid("not today".to_owned());
    let taken = world.client.takes(caller, Reply::Refused(refusal));
    assert!(matches!(taken, Taken::Wrong(_)), "it is a finding at once: {taken:?}");
    assert!(nobody_is_refused(&world).is_err_and(|finding| finding.contains("not today")));
}

/// Whoever holds an execution alone said that it is started, and does not know it any more.
#[test]
fn an_acknowledged_start_that_its_only_node_has_never_heard_of() {
    let forgets = |survival: Survival| {
        let options = WorldOptions { nodes: 3, ..WorldOptions::default() };
        let mut world = world(options, survival);
        while world.client.acknowledged.is_empty() && world.step() {}
        // It wants the definition at each node, the start, and then to hear of the end.
        let (caller, _) = world.client.ask(world.machines.len() + 1, 0);
        world.client.takes(caller, Reply::Refused(Refusal::UnknownExecution(ID.to_string())))
    };
    let Taken::Wrong(finding) = forgets(Survival::solo()) else { panic!("it is no finding") };
    assert!(finding.contains("was acknowledged, and its node has never heard of it"), "{finding}");
    let together = forgets(Survival::new(Strategy::Passive, 3));
    assert!(matches!(together, Taken::Later(_)), "another one may know it: {together:?}");
}

#[test]
fn an_answer_that_changes() {
    let options = WorldOptions::default();
    let mut world = world(options, Survival::solo());
    world.run_to_rest(&|_| true);
    assert_eq!(world.finding(), None);
    world.client.ended.insert(ID, Outcome::Cancelled);
    for wish in world.client.asks_everyone() {
        world.wished(wish);
    }
    world.run_for(Duration::from_secs(1));
    let finding = world.finding().unwrap();
    assert!(finding.contains("ended as Cancelled, and then by node 1"), "{finding}");
}

#[test]
fn two_calls_of_one_name() {
    let mut world = world(WorldOptions::default(), Survival::solo());
    world.check_name(ID, &request(1, b"one"));
    world.check_name(ID, &request(1, b"one"));
    assert_eq!(world.finding(), None, "the same call once more");
    world.check_name(ID, &request(1, b"another"));
    assert!(world.finding().unwrap().contains("have one name"));
}

#[test]
fn a_node_that_resumes_its_epoch() {
    let mut world = world(WorldOptions::default(), Survival::solo());
    world.run_for(Duration::from_millis(10));
    world.crash(0, Some(Duration::ZERO));
    world.run_for(Duration::from_millis(10));
    assert!(world.machines[0].node.life > 0 && world.finding().is_none());
    // It is as if this life had been there before.
    world.check_epoch(0);
    assert!(world.finding().unwrap().contains("resumes its epoch"));
}

#[test]
fn a_node_that_asks_for_what_its_disk_has() {
    let mut world = world(WorldOptions::default(), Survival::solo());
    let asked = request(1, b"one");
    let visited = world.services.visit(Time::default(), NodeId(1), ID, &asked, false);
    world.check_need(ID, &asked);
    assert_eq!(world.finding(), None, "the answer is not on its disk yet");
    world.services.ledger.settle(visited.act.unwrap());
    world.check_need(ID, &asked);
    assert!(world.finding().unwrap().contains("whose answer was on its disk"));
}

#[test]
fn a_call_that_leaves_before_its_record_is_durable() {
    let mut world = world(WorldOptions::default(), Survival::solo());
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.finding(), None);
    world.machines[0].node.hasty = true;
    world.run_for(Duration::from_secs(1));
    assert!(world.finding().unwrap().contains("did not wait for the record of its intent"));
}

/// A world whose node has no longer the records that its disk needs most.
fn with_a_gap() -> World {
    let options = WorldOptions { invariants_every: 1, ..WorldOptions::default() };
    let mut world = world(options, Survival::solo());
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.finding(), None);
    world.machines[0].node.disk.compact(Position(3));
    world
}

#[test]
fn a_disk_from_which_a_node_cannot_come_up_again() {
    let mut world = with_a_gap();
    world.crash(0, Some(Duration::ZERO));
    world.run_for(Duration::from_millis(10));
    assert!(world.finding().unwrap().contains("a disk that is not sound"));
}

#[test]
fn a_journal_that_was_cut_too_far() {
    let mut world = with_a_gap();
    world.machines[0].node.disk.compactions = 0;
    world.check_disk(0);
    assert!(world.finding().unwrap().contains("cut its journal and could not come up"));
}
