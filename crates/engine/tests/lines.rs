//! Executions that several nodes hold: what becomes of calls and lines when one loses the others.

mod cluster;
mod driver;

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::{Cluster, Provider, kind, program_of};
use driver::{id, service_of};
use outlast_engine::{
    Action, Ask, Condition, EngineOptions, Input, ParkedFilter, Phase, Record, RecordKind, Refusal,
    Reply, Report, Strategy, Subject, Survival, Which,
};
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::{Happening, Outcome, Request, Resolution, Ticket};

const SECOND: Duration = Duration::from_secs(1);

fn survival() -> Survival {
    Survival::new(Strategy::PartitionTolerant, 3)
}

fn names(calls: &[(u64, String)]) -> Vec<(u64, &str)> {
    calls.iter().map(|(node, name)| (*node, name.as_str())).collect()
}

/// Seen as seed 114: the decision was asked for again in every turn, as fast as the processor can.
#[test]
fn a_call_that_waits_for_a_decision_asks_for_it_once() {
    let program = program_of("pay", &[("pay", Provider::Pivot)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.cut(3, &[1, 2]);
    cluster.start(&program, id(1), survival());
    cluster.pass();
    assert_eq!(cluster.open(3), [""; 0], "nobody else has its intent");
    cluster.heal();
    assert_eq!(names(&cluster.run_answering(SECOND)), [(3, "pay")]);
}

/// What a node does for an execution, as it tells people, and how many it says stand still.
fn told(cluster: &mut Cluster, node: u64) -> (Phase, u64) {
    let shown = cluster.node(node).show(id(1)).summary.holders.expect("several nodes hold it");
    match cluster.node(node).ask(Ask::Standing) {
        Reply::Standing(standing) => (shown.phase, standing.stalled),
        other => panic!("{other:?}"),
    }
}

/// A primary whose calls wait for a majority that it cannot reach stands still, and says so.
#[test]
fn a_primary_without_a_majority_says_that_it_waits_for_one() {
    let passive = Survival::new(Strategy::Passive, 3);
    for (provider, survival) in [(Provider::Keyed, passive), (Provider::Pivot, survival())] {
        let program = program_of("ab", &[("a", Provider::Keyed), ("b", provider)]);
        let mut cluster = Cluster::new(3, &program);
        cluster.start(&program, id(1), survival);
        cluster.run(SECOND);
        assert_eq!(told(&mut cluster, 3), (Phase::Leading, 0));
        let a = cluster.call_of(3);
        // The others are down, so that nobody else goes on.
        cluster.kill(1);
        cluster.kill(2);
        cluster.answer(3, a);
        cluster.run(2 * SECOND);
        assert_eq!(cluster.open(3), [""; 0]);
        assert_eq!(told(&mut cluster, 3), (Phase::WithoutMajority, 1));
        cluster.revive(2);
        cluster.run(2 * SECOND);
        assert_eq!(cluster.open(3), ["b"], "it goes on by itself");
        assert_eq!(told(&mut cluster, 3), (Phase::Leading, 0));
    }
}

/// Seen as seed 403003250, where messages take 400 ms and more: a primary whose states reach nobody has the line
/// with its pivot decided on, and its disk is lost. Those who had agreed held nothing of it, and nobody could
/// ever go on.
#[test]
fn whoever_does_not_hold_a_line_does_not_agree_to_it() {
    let program = program_of("pay", &[("a", Provider::Keyed), ("pay", Provider::Pivot)]);
    let mut cluster = Cluster::new(4, &program);
    cluster.mute = vec![(4, kind::REPLICA)];
    cluster.start(
        &program,
        id(1),
        Survival { votes: 3, ..Survival::new(Strategy::PartitionTolerant, 4) },
    );
    cluster.pass();
    let a = cluster.call_of(4);
    assert_eq!(cluster.answer(4, a), "a");
    cluster.run(2 * SECOND);
    assert_eq!(cluster.open(4), [""; 0], "the pivot waits");
    cluster.lose(4);
    cluster.mute.clear();
    assert_eq!(names(&cluster.run_answering(5 * SECOND)), [(3, "a"), (3, "pay")]);
    assert_eq!(cluster.node(1).show(id(1)).summary.condition, Condition::Completed);
}

/// What nodes 1 and 2 say while the leader, node 3, goes: what they do in the end, and all that they did.
fn told_meanwhile(survival: Survival, go: fn(&mut Cluster)) -> ([Phase; 2], BTreeSet<Phase>) {
    let program = program_of("ab", &[("a", Provider::Keyed), ("b", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), survival);
    cluster.run(SECOND);
    assert_eq!(told(&mut cluster, 3), (Phase::Leading, 0));
    go(&mut cluster);
    let mut all = BTreeSet::new();
    for _ in 0..400 {
        cluster.run(SECOND / 100);
        for node in [1, 2] {
            let (phase, stalled) = told(&mut cluster, node);
            assert_eq!(stalled, 0, "node {node} is {phase:?}");
            all.insert(phase);
        }
    }
    ([1, 2].map(|node| told(&mut cluster, node).0), all)
}

/// Whoever had no leader for the moment said that too few could be reached, and that it stands still.
#[test]
fn an_execution_that_moves_to_another_node_does_not_stand_still() {
    let passive = Survival::new(Strategy::Passive, 3);
    let two_votes = Survival { votes: 2, ..survival() };
    for survival in [passive, two_votes, survival()] {
        let ways: [fn(&mut Cluster); 2] = [
            |cluster| cluster.kill(3),
            |cluster| {
                cluster.node(3).ask(Ask::Drain(true));
                cluster.pass();
                cluster.kill(3);
            },
        ];
        for go in ways {
            let (then, meanwhile) = told_meanwhile(survival.clone(), go);
            assert_eq!(then, [Phase::Following, Phase::Leading]);
            let moves = [Phase::Leading, Phase::Following, Phase::Electing];
            assert_eq!(meanwhile, BTreeSet::from(moves), "{survival:?}");
        }
    }
}

#[test]
fn an_execution_of_which_too_few_nodes_are_left_stands_still_and_says_so() {
    let program = program_of("a", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::Passive, 3));
    cluster.run(SECOND);
    cluster.kill(3);
    cluster.kill(2);
    cluster.run(2 * SECOND);
    assert_eq!(told(&mut cluster, 1), (Phase::WithoutVotes, 1));
    cluster.revive(2);
    cluster.run(3 * SECOND);
    assert_eq!((told(&mut cluster, 1).1, told(&mut cluster, 2).1), (0, 0));
}

/// Node 3 is cut off while it calls `b`; node 2 goes on, does all of it, and the line of node 3 is
/// lost. Gives the call of node 3 that nobody has answered.
fn lost_line(provider: Provider) -> (Cluster, (ExecutionId, Ticket, Request)) {
    let program = program_of("abc", &[("a", provider), ("b", provider), ("c", provider)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), survival());
    cluster.pass();
    let a = cluster.call_of(3);
    assert_eq!(cluster.answer(3, a), "a");
    cluster.pass();
    // The others hear of it, although the steps before it were a moment ago.
    cluster.run_past_linger();
    let b = cluster.call_of(3);
    assert_eq!(service_of(&b.2), "b");
    cluster.cut(3, &[1, 2]);
    assert_eq!(names(&cluster.run_answering(3 * SECOND)), [(2, "b"), (2, "c")]);
    (cluster, b)
}

/// What the history of a node tells, as far as its journal goes.
fn history(cluster: &mut Cluster, node: u64) -> Vec<Happening> {
    let records = cluster.node(node).journal.iter().map(|bytes| Record::decode(bytes).unwrap());
    let told = records.filter_map(|record| match record.kind {
        RecordKind::Custodial(custodial) if custodial.execution == id(1) => {
            Some(custodial.told().read())
        }
        RecordKind::Advanced(advanced) if advanced.of == Some(id(1)) => {
            Some(advanced.happenings.read())
        }
        _ => None,
    });
    told.flatten().collect()
}

/// The history of a node whose line was lost went on as if that line were the run, and told of no end, or of one
/// that does not count.
#[test]
fn a_history_says_that_the_run_of_others_took_the_place_of_its_own() {
    let (mut cluster, _) = lost_line(Provider::Keyed);
    let is_adopted = |it: &Happening| matches!(it, Happening::Adopted(_));
    assert!(!history(&mut cluster, 3).iter().any(is_adopted));
    cluster.heal();
    cluster.run(2 * SECOND);
    let told = history(&mut cluster, 3);
    let [.., Happening::Adopted(3), Happening::Ended(Outcome::Completed(_))] = &told[..] else {
        panic!("{told:?}")
    };
    let of_the_winner = history(&mut cluster, 2);
    assert!(!of_the_winner.iter().any(is_adopted), "it ran all of it: {of_the_winner:?}");
}

/// What was undone of a lost line was in nobody's history: it was told of the line, by a name that nobody
/// knows, and forgotten with it.
#[test]
fn a_history_says_what_was_undone_of_a_run_that_does_not_count() {
    let (mut cluster, b) = lost_line(Provider::Keyless);
    let before = history(&mut cluster, 3).len();
    cluster.heal();
    cluster.run(2 * SECOND);
    cluster.answer(3, b);
    assert_eq!(names(&cluster.run_answering(2 * SECOND)), [(3, "undo b")]);
    let told = history(&mut cluster, 3).split_off(before);
    let of_lost_run: Vec<_> = told
        .iter()
        .filter_map(|it| if let Happening::OfLostRun(it) = it { Some(&**it) } else { None })
        .collect();
    let [Happening::UndoStarted(started), Happening::Called(..), Happening::Undone(undone)] =
        of_lost_run[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(started, undone);
    let is_bare = |it: &Happening| matches!(it, Happening::Undone(_));
    assert!(!told.iter().any(is_bare), "nothing of the run that counts is undone: {told:?}");
    // Told as it happens, it is told of the execution.
    let reports = cluster.node(3).reports.iter();
    let lines = reports.filter_map(|report| match report {
        Report::Happened { execution, happenings, .. } => Some((*execution, happenings.read())),
        _ => None,
    });
    let lines: Vec<_> =
        lines.filter(|(_, told)| matches!(told[..], [Happening::OfLostRun(_), ..])).collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|(execution, _)| *execution == id(1)),
        "{lines:?}"
    );
    assert!(history(&mut cluster, 2).iter().all(|it| !matches!(it, Happening::OfLostRun(_))));
}

/// Whoever is elected takes over the furthest state and goes on from it in one step: its record told of the
/// second only.
#[test]
fn a_history_says_that_whoever_goes_on_took_the_state_of_another_over() {
    let program = program_of("two", &[("a", Provider::Keyed), ("b", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 3));
    cluster.run_past_linger();
    cluster.cut(3, &[2]);
    let a = cluster.call_of(3);
    cluster.answer(3, a);
    cluster.run_past_linger();
    cluster.kill(3);
    cluster.run(2 * SECOND);
    assert_eq!(cluster.open(2), ["b"], "it goes on from what the other one had");
    assert!(history(&mut cluster, 2).contains(&Happening::Adopted(1)));
}

/// The provider knows no keys, so its undo needs what it answered; and the answer comes when another
/// state has long taken the place of the one that asked.
#[test]
fn an_answer_that_comes_after_its_line_was_lost_says_how_to_undo() {
    let (mut cluster, b) = lost_line(Provider::Keyless);
    cluster.heal();
    assert_eq!(names(&cluster.run_answering(2 * SECOND)), [], "it waits for the answer");
    let run = [1, 2, 3].map(|node| cluster.node(node).show(id(1)).outcome);
    cluster.answer(3, b);
    assert_eq!(names(&cluster.run_answering(SECOND)), [(3, "undo b")]);
    let after = [1, 2, 3].map(|node| cluster.node(node).show(id(1)).outcome);
    assert_eq!(after, run, "and changes nothing in the state that took its place");
}

/// The same, but the answer comes when the node knows that another line counts, and does not have it
/// yet: it is told of the decision, and the state does not arrive.
#[test]
fn an_answer_that_comes_while_its_node_waits_for_another_line_is_not_forgotten() {
    let (mut cluster, b) = lost_line(Provider::Keyless);
    cluster.heal();
    cluster.mute = vec![(1, kind::REPLICA), (2, kind::REPLICA)];
    cluster.run(SECOND);
    assert_eq!(told(&mut cluster, 3).0, Phase::Compensating);
    assert_ne!(cluster.node(3).show(id(1)).summary.condition, Condition::Completed);
    cluster.answer(3, b);
    cluster.pass();
    assert_eq!(cluster.open(3), [""; 0], "it does not go on by itself");
    cluster.mute.clear();
    assert_eq!(names(&cluster.run_answering(2 * SECOND)), [(3, "undo b")]);
}

/// Three nodes that cannot reach each other and lead each for itself: node 3 has done the first call, node
/// 2 has heard of that, and node 1 knows of nothing.
fn three_apart(calls: &[&'static str]) -> Cluster {
    let calls: Vec<_> = calls.iter().map(|name| (*name, Provider::Keyless)).collect();
    let program = program_of("apart", &calls);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), survival());
    cluster.pass();
    cluster.cut(1, &[2, 3]);
    let first = cluster.call_of(3);
    cluster.answer(3, first);
    // Longer than quick states linger: node 2 hears of it.
    cluster.run_past_linger();
    cluster.cut(2, &[3]);
    cluster.run(3 * SECOND);
    cluster
}

/// Seen in the paper's experiment: the answer went to the line that was lost last, which had not asked, and
/// the one that had waited for it for ever.
#[test]
fn an_answer_finds_its_line_though_another_one_was_lost_since() {
    let mut cluster = three_apart(&["a", "b", "c", "d"]);
    // Node 3 calls `b`, node 2 has gone on from there and is further, and node 1 has done it all.
    let b = cluster.call_of(3);
    assert_eq!(service_of(&b.2), "b");
    for (node, names) in [(1, ["a", "b", "c", "d"].as_slice()), (2, &["b", "c"])] {
        for name in names {
            let call = cluster.call_of(node);
            assert_eq!(cluster.answer(node, call), *name);
            cluster.pass();
        }
    }
    let d = cluster.call_of(2);
    cluster.heal();
    cluster.cut(1, &[2, 3]);
    cluster.run(2 * SECOND);
    assert_eq!(told(&mut cluster, 3).0, Phase::Following, "its line is lost to that of node 2");
    cluster.heal();
    cluster.run(2 * SECOND);
    assert_eq!(told(&mut cluster, 3).0, Phase::Compensating, "and that one to the line of node 1");
    cluster.answer(3, b);
    cluster.answer(2, d);
    let undone = cluster.run_answering(2 * SECOND);
    let of_3: Vec<_> = names(&undone).into_iter().filter(|(node, _)| *node == 3).collect();
    assert_eq!(of_3, [(3, "undo b"), (3, "undo a")]);
}

/// All three nodes go on apart: node 3 does `a`, `b` and `c`, node 2 goes on from what node 3 had after
/// `a`, and node 1, which knows of nothing, comes to the end first. Gives the calls under way at 2 and 3.
fn three_lines() -> (Cluster, [(ExecutionId, Ticket, Request); 2]) {
    let mut cluster = three_apart(&["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        let call = cluster.call_of(1);
        assert_eq!(cluster.answer(1, call), name);
        cluster.pass();
    }
    let calls = [2, 3].map(|node| {
        let b = cluster.call_of(node);
        assert_eq!(cluster.answer(node, b), "b");
        cluster.pass();
        cluster.call_of(node)
    });
    (cluster, calls)
}

/// Seen in the paper's experiment: a node that was allowed to undo another effect of a lost line while it
/// undid the first took it for one that never was, because the line was not told of it yet.
#[test]
fn an_effect_that_its_line_is_not_told_of_yet_has_not_become_void() {
    let (mut cluster, [c_of_2, c_of_3]) = three_lines();
    cluster.heal();
    cluster.run(SECOND);
    cluster.answer(2, c_of_2);
    cluster.answer(3, c_of_3);
    cluster.run(SECOND);
    let undo = cluster.call_of(3);
    assert_eq!(service_of(&undo.2), "undo c");
    for name in ["undo c", "undo b"] {
        let call = cluster.call_of(2);
        assert_eq!(cluster.answer(2, call), name);
        if name == "undo c" {
            cluster.pass();
        }
    }
    // Nothing of node 2 started from `a` any more, so node 3 may undo it; and the line of node 3, which
    // is about to be told so, hears that `c` is undone.
    cluster.hand_over(2, 3);
    cluster.answer(3, undo);
    assert_eq!(names(&cluster.run_answering(SECOND)), [(3, "undo b"), (3, "undo a")]);
}

/// Node 3 has done `a` when it is cut off; node 2 does the same by the same key, and its run is decided
/// on. Then node 2 is lost for good, and cannot say that this is one effect.
#[test]
fn what_a_decided_run_did_by_the_same_key_is_not_undone_though_its_author_is_gone() {
    let program = program_of("ab", &[("a", Provider::Keyed), ("b", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), survival());
    cluster.run_past_linger();
    let a = cluster.call_of(3);
    cluster.cut(3, &[1, 2]);
    cluster.answer(3, a);
    cluster.pass();
    let b = cluster.call_of(3);
    assert_eq!(names(&cluster.run_answering(3 * SECOND)), [(2, "a"), (2, "b")]);
    cluster.lose(2);
    cluster.heal();
    cluster.run(SECOND);
    cluster.answer(3, b);
    assert_eq!(names(&cluster.run_answering(3 * SECOND)), []);
    let detail = cluster.node(3).show(id(1));
    assert_eq!(detail.summary.condition, Condition::Completed);
    assert_eq!(detail.summary.holders, None, "it is settled and forgotten");
}

/// The highest replica could not be reached when an execution was started: the others did not wait for it,
/// and it does not begin anew when it hears of it, at a provider where that would have to be undone.
#[test]
fn the_highest_replica_joins_in_what_was_begun_without_it() {
    let providers = [("a", Provider::Keyless), ("b", Provider::Keyless)];
    let program = program_of("ab", &providers);
    let mut cluster = Cluster::new(3, &program);
    cluster.cut(3, &[1, 2]);
    cluster.run(SECOND);
    let start = cluster.start_with(&program, id(1), "input");
    cluster.node(2).send(start);
    cluster.run(SECOND);
    let a = cluster.call_of(2);
    cluster.heal();
    cluster.run(2 * SECOND);
    assert!(cluster.node(3).show(id(1)).summary.holders.is_some(), "it has heard of it");
    assert_eq!(cluster.open(3), Vec::<String>::new(), "and calls nothing again");
    cluster.answer(2, a);
    assert_eq!(names(&cluster.run_answering(3 * SECOND)), [(2, "b")]);
    assert_eq!(cluster.node(3).show(id(1)).summary.condition, Condition::Completed);
}

/// Two callers start one id, on two sides of a cut, with different inputs and workflows. Whose line is
/// decided on, its input and workflow count everywhere.
#[test]
fn a_state_that_is_taken_over_says_what_was_started() {
    let ours = program_of("ours", &[("a", Provider::Keyed)]);
    let theirs = program_of("theirs", &[("b", Provider::Keyed), ("c", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &ours);
    (1..=3).for_each(|node| drop(cluster.node(node).define(&theirs)));
    cluster.cut(3, &[1, 2]);
    cluster.run(SECOND);
    let our_start = cluster.start_with(&ours, id(1), "our input");
    let their_start = cluster.start_with(&theirs, id(1), "their input");
    cluster.node(3).send(our_start.clone());
    cluster.node(2).send(their_start.clone());
    cluster.pass();
    let a = cluster.call_of(3);
    assert_eq!(names(&cluster.run_answering(3 * SECOND)), [(2, "b"), (2, "c")]);
    cluster.heal();
    cluster.run(SECOND);
    cluster.answer(3, a);
    cluster.run(SECOND);
    for _ in 0..2 {
        let detail = cluster.node(3).show(id(1));
        assert_eq!(detail.summary.workflow, "theirs");
        assert_eq!(detail.input, driver::text("their input"));
        let again = cluster.node(3).ask(their_start.clone());
        assert!(matches!(again, Reply::Started { new: false, .. }), "{again:?}");
        let other = cluster.node(3).ask(our_start.clone());
        assert!(matches!(other, Reply::Refused(_)), "{other:?}");
        cluster.kill(3);
        cluster.revive(3);
        cluster.run(SECOND);
    }
}

/// Node 3 is cut off with a pivot that may not leave before a majority has decided on it.
fn pivot_held_back() -> Cluster {
    let program = program_of("abc", &[("a", Provider::Keyless), ("pay", Provider::Pivot)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), survival());
    cluster.pass();
    cluster.cut(3, &[1, 2]);
    let a = cluster.call_of(3);
    cluster.answer(3, a);
    cluster.pass();
    assert_eq!(cluster.open(3), [""; 0], "the pivot waits for a majority");
    let Reply::Standing(standing) = cluster.node(3).ask(Ask::Standing) else { panic!() };
    assert_eq!(standing.hearing, 0, "nobody will answer what never left");
    cluster
}

/// What waited for a decision when its line was lost never left: nobody is asked to undo it, or to
/// find out about it.
#[test]
fn a_call_that_was_held_back_until_its_line_was_lost_never_was() {
    let mut cluster = pivot_held_back();
    let done = cluster.run_answering(3 * SECOND);
    assert_eq!(names(&done), [(2, "a"), (2, "pay")]);
    cluster.heal();
    assert_eq!(names(&cluster.run_answering(2 * SECOND)), [(3, "undo a")]);
    assert_eq!(parked(&mut cluster, 3), 0);
}

/// The same, but its node died meanwhile: that it never left is known from what was written down.
#[test]
fn a_pivot_that_was_held_back_when_its_node_died_never_was() {
    for others_go_on in [false, true] {
        let mut cluster = pivot_held_back();
        cluster.kill(3);
        if others_go_on {
            assert_eq!(names(&cluster.run_answering(3 * SECOND)), [(2, "a"), (2, "pay")]);
        }
        cluster.revive(3);
        cluster.heal();
        let expected: &[(u64, &str)] = if others_go_on { &[(3, "undo a")] } else { &[(3, "pay")] };
        assert_eq!(names(&cluster.run_answering(4 * SECOND)), expected);
        assert_eq!(parked(&mut cluster, 3), 0);
    }
}

/// A pivot whose state was decided on may have left: only a person knows.
#[test]
fn a_pivot_that_may_have_left_when_its_node_died_is_left_to_a_person() {
    let program = program_of("abc", &[("pay", Provider::Pivot)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), survival());
    cluster.pass();
    cluster.run(Duration::from_millis(50));
    assert_eq!(cluster.open(3), ["pay"]);
    cluster.kill(3);
    cluster.revive(3);
    assert_eq!(names(&cluster.run_answering(4 * SECOND)), []);
    assert_eq!(parked(&mut cluster, 3), 1);
}

fn parked(cluster: &mut Cluster, node: u64) -> usize {
    let filter = ParkedFilter { which: Some(Which::Id(id(1))), ..ParkedFilter::default() };
    match cluster.node(node).ask(Ask::Parked(filter)) {
        Reply::Parked(items) => {
            assert!(items.iter().all(|item| item.execution == id(1)));
            items.len()
        }
        other => panic!("{other:?}"),
    }
}

/// Nobody but a person knows what became of a call whose node died: it is listed with its execution,
/// and resolved by that name, though it is on a line that was lost.
#[test]
fn what_is_parked_on_a_lost_line_is_found_by_the_name_of_its_execution() {
    let (mut cluster, _) = lost_line(Provider::Keyless);
    cluster.kill(3);
    cluster.heal();
    cluster.revive(3);
    assert_eq!(names(&cluster.run_answering(2 * SECOND)), []);
    assert_eq!(parked(&mut cluster, 3), 1);
    let filter = ParkedFilter { which: Some(Which::Id(id(1))), ..ParkedFilter::default() };
    let resolution = Resolution::Done(driver::text("b"));
    let told = cluster.node(3).ask(Ask::Resolve { filter, resolution });
    let Reply::Resolved(items) = told else { panic!("{told:?}") };
    assert_eq!(items.len(), 1);
    assert!(items[0].lost && items[0].effect.point.author == NodeId(3), "{items:?}");
    assert_eq!(names(&cluster.run_answering(SECOND)), [(3, "undo b")]);
    assert_eq!(parked(&mut cluster, 3), 0);
}

/// Seen as seed 959: after a restart the record that keeps a lost line apart counted as newer than it
/// is, was compacted away, and the next restart found nothing of that line.
#[test]
fn a_lost_line_is_compacted_only_once_it_is_saved() {
    let (mut cluster, _) = lost_line(Provider::Keyless);
    cluster.heal();
    cluster.run(SECOND);
    let node = cluster.node(3);
    // Something else is saved as of now, which is after the line was kept apart.
    node.step(Input::SnapshotWanted { max: 1 });
    let records = node.journal.len() as u64;
    node.restart();
    let mut is_saved = false;
    while !is_saved {
        for output in node.step(Input::SnapshotWanted { max: 1 }) {
            match output.action {
                Action::Snapshot { subject: Subject::Execution(of), .. } => is_saved |= of != id(1),
                Action::Compactable { replay_from } => {
                    assert!(is_saved || replay_from.0 <= records, "{replay_from:?} of {records}");
                }
                _ => {}
            }
        }
    }
}

/// Seed 0, 2: "any compensation handler that is sent to the Compensation Unit is eventually executed, where all
/// handlers are executed in the order in which they were received." They are received newest first.
#[test]
fn undos_are_made_one_after_the_other_newest_first_also_when_their_node_dies_between_them() {
    let calls = ["a", "b", "c"].map(|name| (name, Provider::Keyless));
    let program = program_of("abc", &calls);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), survival());
    cluster.pass();
    cluster.cut(3, &[1, 2]);
    for name in ["a", "b", "c"] {
        let call = cluster.call_of(3);
        assert_eq!(cluster.answer(3, call), name);
        cluster.pass();
    }
    let others = cluster.run_answering(3 * SECOND);
    assert_eq!(names(&others), [(2, "a"), (2, "b"), (2, "c")]);
    cluster.heal();
    cluster.run(5 * SECOND);
    assert_eq!(cluster.open(3), ["undo c"], "the others wait for it, though all is allowed");
    let first = cluster.call_of(3);
    cluster.answer(3, first);
    cluster.run(SECOND);
    assert_eq!(cluster.open(3), ["undo b"]);
    cluster.kill(3);
    cluster.revive(3);
    let rest = cluster.run_answering(5 * SECOND);
    assert_eq!(names(&rest), [(3, "undo b"), (3, "undo a")]);
}

/// Seed 0, 4.5: "UNKNOWN: A replica that has either no record of the execution eID in the execution history or
/// both a begin and an end record for eID"; "a replica that recovers in the UNKNOWN state cannot initiate any
/// recovery steps for eID." One "that has a begin but no end record" asks.
#[test]
fn a_node_with_no_record_of_an_execution_or_its_end_record_asks_nobody_about_it_when_it_comes_back()
{
    let program = program_of("a", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    let asks = |cluster: &mut Cluster, node: u64| {
        cluster.kill(node);
        cluster.revive(node);
        let driver = cluster.node(node);
        driver.work();
        let position = driver.engine.position();
        driver.step(Input::Durable(position));
        let said = driver.sent.iter().flat_map(|(_, message)| kind::kinds_of(message));
        said.into_iter().any(|kind| kind::BEGIN == kind || kind::HOLDS <= kind)
    };
    cluster.cut(1, &[2, 3]);
    cluster.start(&program, id(1), survival());
    cluster.run_past_linger();
    assert!(!asks(&mut cluster, 1), "no record");
    assert!(asks(&mut cluster, 2), "a begin record and no end record");
    cluster.heal();
    assert_eq!(names(&cluster.run_answering(5 * SECOND)), [(3, "a")]);
    assert_eq!(cluster.node(1).show(id(1)).summary.condition, Condition::Completed, "it was told");
    assert!(!(1..=3).any(|node| asks(&mut cluster, node)), "a begin and an end record");
}

/// A node that never knew an execution has not forgotten it: it is told of it and does its part.
#[test]
fn a_node_that_never_heard_of_an_execution_does_not_say_that_it_forgot_it() {
    let program = program_of("a", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.cut(1, &[2, 3]);
    cluster.start(&program, id(1), survival());
    assert_eq!(names(&cluster.run_answering(2 * SECOND)), [(3, "a")]);
    cluster.mute = vec![(2, kind::BEGIN), (3, kind::BEGIN)];
    cluster.heal();
    cluster.run(3 * SECOND);
    cluster.mute.clear();
    cluster.run(3 * SECOND);
    let detail = cluster.node(1).show(id(1));
    assert_eq!(detail.summary.condition, outlast_engine::Condition::Completed);
}

/// Seen in experiments: two nodes that both knew a decision told each other so for as long as a third
/// one was away.
#[test]
fn those_who_know_a_decision_do_not_tell_each_other_for_ever() {
    let program = program_of("abc", &[("a", Provider::Keyed), ("b", Provider::Keyed)]);
    let mut cluster = Cluster::new(5, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 5));
    cluster.pass();
    cluster.kill(1);
    cluster.cut(2, &[3, 4, 5]);
    cluster.run_answering(3 * SECOND);
    cluster.heal();
    cluster.run_answering(2 * SECOND);
    let before = cluster.count(kind::PAXOS);
    cluster.run(10 * SECOND);
    let since = cluster.count(kind::PAXOS) - before;
    assert!(since < 100, "{since} words on a decision that all know who are there");
}

/// The same, and someone asks the highest for it before it has heard of the others: it is joined to them
/// first, so that it has nothing to begin.
#[test]
fn a_highest_replica_that_is_asked_for_what_others_began_without_it_joins_in_first() {
    const PATIENCE: Duration = Duration::from_millis(400);
    let program = program_of("abc", &[("a", Provider::Keyed), ("b", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.cut(3, &[1, 2]);
    cluster.run(2 * SECOND);
    let start = cluster.start_with(&program, id(1), "x");
    cluster.node(2).send(start);
    cluster.run(SECOND);
    assert_eq!(cluster.open(2), ["a"], "it is begun without the highest");
    cluster.mute = vec![(1, kind::BEGIN), (2, kind::BEGIN), (1, kind::REPLICA), (2, kind::REPLICA)];
    cluster.heal();
    cluster.run(SECOND);

    // What others know of it is lost at first; that it began is not.
    let start = cluster.start_with(&program, id(1), "x");
    let caller = cluster.node(3).send(start);
    cluster.mute = vec![(1, kind::OTHERWISE), (2, kind::OTHERWISE)];
    cluster.mute.extend([(1, kind::REPLICA), (2, kind::REPLICA)]);
    cluster.run(PATIENCE * 9 / 10);
    assert!(0 < cluster.count(kind::BEGIN), "it was told");
    cluster.mute.clear();
    cluster.run(SECOND);
    assert_eq!(cluster.open(3), Vec::<String>::new(), "it follows");
    let reply = cluster.node(3).replies.get(&caller).cloned();
    assert!(matches!(reply, Some(Reply::Started { new: false, .. })), "{reply:?}");
}

/// Whoever took over could only ask a person what became of a pivot, and would have other calls undone. It is
/// handed over when the answer has come.
#[test]
fn a_node_that_is_drained_hears_answers_to_what_must_not_be_repeated_before_it_hands_over() {
    hears_answers_before_it_hands_over(EngineOptions::new);
}

/// Of thousands of executions, most sleep while their calls are under way.
#[test]
fn so_it_does_for_executions_that_sleep() {
    hears_answers_before_it_hands_over(|node| EngineOptions {
        awake_max: 0,
        ..EngineOptions::new(node)
    });
}

fn hears_answers_before_it_hands_over(options: fn(NodeId) -> EngineOptions) {
    let passive = || Survival::new(Strategy::Passive, 3);
    for (provider, survival) in [
        (Provider::Pivot, passive()),
        (Provider::Pivot, survival()),
        (Provider::Keyless, passive()),
        (Provider::Keyless, survival()),
    ] {
        let program = program_of("pay", &[("pay", provider), ("b", Provider::Keyed)]);
        let mut cluster = Cluster::with(3, &program, options);
        cluster.start(&program, id(1), survival);
        cluster.run(SECOND);
        assert_eq!(cluster.open(3), ["pay"]);
        let standing = |cluster: &mut Cluster, ask| match cluster.node(3).ask(ask) {
            Reply::Standing(standing) => (standing.led, standing.hearing),
            reply => panic!("{reply:?}"),
        };
        standing(&mut cluster, Ask::Drain(true));
        cluster.run(3 * SECOND);
        assert_eq!(standing(&mut cluster, Ask::Drain(true)), (1, 1), "it still leads");
        let call = cluster.call_of(3);
        cluster.answer(3, call);
        cluster.run(3 * SECOND);
        assert_eq!(standing(&mut cluster, Ask::Standing), (0, 0));
        assert_eq!(cluster.open(2), ["b"], "another one goes on");
        assert_eq!(parked(&mut cluster, 2), 0);
    }
}

/// Every node executes it, so there is nobody to hand it over to, and nobody who could stop it alone.
#[test]
fn what_every_node_executes_keeps_no_node_from_being_drained_and_is_not_suspended() {
    let program = program_of("flow", &[("a", Provider::Keyed)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.start(&program, id(1), Survival::new(Strategy::Active, 3));
    cluster.run(SECOND);
    let Reply::Standing(standing) = cluster.node(2).ask(Ask::Drain(true)) else {
        panic!("it says how it stands")
    };
    assert_eq!((standing.held, standing.led), (1, 0));
    for ask in [Ask::Suspend(Which::Id(id(1))), Ask::Resume(Which::Id(id(1)))] {
        let reply = cluster.node(3).ask(ask);
        let Reply::Refused(Refusal::NotPossible(reason)) = &reply else { panic!("{reply:?}") };
        assert!(reason.contains("every node that holds it executes it"), "{reason}");
    }
}
