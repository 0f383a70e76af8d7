//! The sentence on the order of undos, on acts of several lines that were made up.

use std::sync::Arc;
use std::time::Duration;

use outlast_engine::Survival;
use outlast_expressions::value;
use outlast_lineage::{
    BranchId, Digest, EffectId, Epoch, ExecutionId, Lineage, NodeId, OperationKey, Point, Time,
};
use outlast_workflow::program::HttpOutput;
use outlast_workflow::{Request, Target};

use super::{Finding, undos_come_in_reverse_order};
use crate::ledger::MadeOn;
use crate::{Plan, StartPlan, Workload, World, WorldOptions};

const ID: ExecutionId = ExecutionId::from_bytes([1; 16]);

/// A world in which services did two things for node 1, the second on from the first.
struct Told {
    world: World,
    second: u64,
}

impl Told {
    fn new(deduplicating: bool) -> Self {
        let flow = Workload::built_in().into_iter().find(|flow| flow.name == "line").unwrap();
        let start = StartPlan {
            id: ID,
            namespace: flow.program.namespace.clone(),
            workflow: flow.program.name.clone(),
            input: value::object([]),
            survival: Some(Survival::solo()),
            delay: Duration::ZERO,
        };
        let definitions = vec![(Arc::clone(&flow.program), Arc::clone(&flow.text))];
        let plan = Plan { definitions, starts: vec![start], events: Vec::new() };
        let options = WorldOptions { deduplicating, ..WorldOptions::default() };
        let mut told = Self { world: World::new(options, plan), second: 0 };
        told.visit(&request("ok/a1", 1, None), MadeOn::default());
        told.visit(&request("ok/a2", 2, None), on(lost(), 2));
        told
    }

    fn visit(&mut self, request: &Request, made_on: MadeOn) {
        self.second += 1;
        let now = Time::from_millis(self.second * 1000);
        let visited = self.world.services.visit(now, NodeId(1), ID, request, false);
        assert_eq!(visited.finding, None);
        self.world.services.ledger.made_on(ID, request.key, made_on);
    }

    /// The first is undone, on a line or by what is left of one; then the second.
    fn undone_in_order_of_doing(mut self, line: Option<Lineage>) -> Finding {
        self.visit(&request("undo/work", 3, Some(1)), MadeOn { line, intended: None });
        self.visit(&request("undo/work", 4, Some(2)), MadeOn::default());
        undos_come_in_reverse_order(&self.world)
    }
}

/// Undoes what was asked for by a number, or does something.
fn request(path: &str, number: u64, undoes: Option<u64>) -> Request {
    let point = Point { author: NodeId(1), epoch: Epoch(1), number };
    let key = |number: u64| {
        let digest = Digest::of(&number.to_be_bytes());
        OperationKey::new(ID, &digest, &digest)
    };
    Request {
        effect: EffectId { branch: BranchId::TRUNK, point },
        key: key(number),
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
        undoes: undoes.map(key),
        own_undoes: None,
    }
}

fn line(segments: &[(u64, u64, u64)]) -> Lineage {
    let mut line = Lineage::default();
    for (author, epoch, states) in segments {
        for _ in 0..*states {
            line.extend(NodeId(*author), Epoch(*epoch));
        }
    }
    line
}

/// Node 1 went on to the third state; node 2 from the first.
fn lost() -> Lineage {
    line(&[(1, 1, 3)])
}

fn run() -> Lineage {
    line(&[(1, 1, 1), (2, 2, 4)])
}

fn on(line: Lineage, number: u64) -> MadeOn {
    let intended = line.at(number);
    MadeOn { line: None, intended }
}

fn is_noticed(finding: Finding) -> bool {
    finding.is_err_and(|finding| finding.contains("POST ok/a1") && finding.contains("POST ok/a2"))
}

#[test]
fn a_run_that_rolls_back_need_not_wait_for_what_another_line_did_on_from_it() {
    assert_eq!(Told::new(true).undone_in_order_of_doing(Some(run())), Ok(()));
}

#[test]
fn a_run_that_rolls_back_waits_for_what_is_on_its_own_line() {
    assert!(is_noticed(Told::new(true).undone_in_order_of_doing(Some(lost()))));
}

/// The same key was asked for again by the run: it is on both lines.
#[test]
fn a_run_that_rolls_back_waits_for_what_it_asked_for_again() {
    let mut told = Told::new(true);
    told.visit(&request("ok/a2", 2, None), on(run(), 2));
    assert!(is_noticed(told.undone_in_order_of_doing(Some(run()))));
}

#[test]
fn what_is_left_of_a_lost_line_waits_for_all_that_came_later_on_it() {
    assert!(is_noticed(Told::new(true).undone_in_order_of_doing(None)));
    assert!(is_noticed(Told::new(false).undone_in_order_of_doing(None)));
}

/// What the run asked for by the same key is kept for it, and taken back with it.
#[test]
fn what_is_left_of_a_lost_line_does_not_wait_until_people_take_back_what_the_run_shares_with_it() {
    let noticed = |is_shared: bool, have_people_come: bool| {
        let mut told = Told::new(true);
        if is_shared {
            told.visit(&request("ok/a2", 2, None), on(run(), 2));
        }
        if have_people_come {
            told.world.revisited.insert(ID, 0);
        }
        is_noticed(told.undone_in_order_of_doing(None))
    };
    assert!(!noticed(true, true));
    assert!(noticed(false, true) && noticed(true, false));
}

/// An undo is over when the last of its calls is made, and begins with the first.
#[test]
fn an_undo_of_several_calls_waits_for_the_whole_undo_of_what_came_later() {
    let undone = |calls: [(&str, u64); 4]| {
        let mut told = Told::new(true);
        for (number, (path, undoes)) in (3..).zip(calls) {
            told.visit(&request(path, number, Some(undoes)), MadeOn::default());
        }
        undos_come_in_reverse_order(&told.world)
    };
    let (tell, free) = ("ok/tell", "undo/work");
    assert_eq!(undone([(tell, 2), (free, 2), (tell, 1), (free, 1)]), Ok(()));
    assert!(is_noticed(undone([(tell, 2), (tell, 1), (free, 2), (free, 1)])));
}

/// Who goes on makes a call anew whose provider knows no keys, unless its answer was taken up.
#[test]
fn without_keys_what_a_line_took_up_is_what_it_waits_for() {
    let nobody_took_it_up = Told::new(false);
    assert_eq!(nobody_took_it_up.undone_in_order_of_doing(Some(lost())), Ok(()));
    let mut taken_up = Told::new(false);
    taken_up.world.services.ledger.taken_up(1, lost().at(3).unwrap());
    assert!(is_noticed(taken_up.undone_in_order_of_doing(Some(lost()))));
}
