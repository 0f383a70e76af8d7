//! Executions that are over and saved: their states are only in the store, and nobody notices.

mod driver;

use std::sync::Arc;

use driver::{Driver, call, id, options, program, start_of, text, transcript, wait};
use outlast_engine::{Action, Ask, Caller, Condition, EngineOptions, Input, Refusal, Reply, Which};
use outlast_workflow::{Answer, Fault, FaultKind, Program};
use proptest::prelude::*;

fn flow() -> Arc<Program> {
    program("flow", "1.0.0", vec![call("a"), call("b")])
}

/// A driver with one execution that has ended and is saved; the journal holds nothing any more.
fn saved(end: impl FnOnce(&mut Driver)) -> Driver {
    let mut driver = Driver::with(EngineOptions { reports: false, ..options() });
    driver.define(&flow());
    driver.start(&flow(), id(1));
    end(&mut driver);
    save(&mut driver);
    driver.journal.clear();
    driver
}

fn save(driver: &mut Driver) {
    driver.step(Input::SnapshotWanted { max: usize::MAX });
    driver.work();
}

fn complete(driver: &mut Driver) {
    assert_eq!(driver.finish(), ["a", "b"]);
}

fn fail(driver: &mut Driver) {
    let (execution, ticket, _) = driver.calls.pop_front().unwrap();
    let fault = Fault::new(FaultKind::Runtime, "No", "it does not work");
    driver.step(Input::Answered { execution, ticket, answer: Answer::Failed(fault) });
    driver.work();
}

fn ask(driver: &mut Driver, ask: Ask) -> String {
    transcript(&driver.step(Input::Asked { caller: Caller(9), ask }))
}

fn shown() -> Ask {
    Ask::Show(Which::Id(id(1)))
}

#[test]
fn a_state_that_is_stored_is_fetched_to_be_shown() {
    let mut driver = saved(complete);
    assert_eq!(ask(&mut driver, shown()), format!("fetch {}\n", id(1)));
    driver.work();
    let Some(Reply::Shown(detail)) = driver.replies.get(&Caller(9)) else { panic!("not shown") };
    assert_eq!(detail.summary.condition, Condition::Completed);
    assert_eq!(detail.outcome.as_ref().map(|end| format!("{end:?}")), {
        let output = outlast_workflow::Outcome::Completed(text("b"));
        Some(format!("{output:?}"))
    });
}

#[test]
fn a_state_is_kept_until_the_store_has_it() {
    let mut driver = Driver::with(EngineOptions { reports: false, ..options() });
    driver.define(&flow());
    driver.start(&flow(), id(1));
    complete(&mut driver);
    driver.step(Input::SnapshotWanted { max: usize::MAX });
    assert!(ask(&mut driver, shown()).contains("reply to 9: completed"));
}

#[test]
fn what_has_changed_since_its_snapshot_is_kept() {
    let mut driver = Driver::with(EngineOptions { reports: false, ..options() });
    driver.define(&flow());
    driver.start(&flow(), id(1));
    fail(&mut driver);
    driver.step(Input::SnapshotWanted { max: usize::MAX });
    driver.send(Ask::Retry(Which::Id(id(1))));
    fail(&mut driver);
    assert!(ask(&mut driver, shown()).contains("reply to 9: faulted"), "it is not fetched");
}

#[test]
fn lists_repeated_starts_and_forgetting_need_no_state() {
    let mut driver = saved(complete);
    let listed = driver.list(Default::default());
    assert_eq!(listed.len(), 1);
    assert!(ask(&mut driver, start_of(&flow(), id(1))).contains("started, new: false"));
    let forgotten = transcript(
        &driver.step(Input::Asked { caller: Caller(10), ask: Ask::Delete(Which::Id(id(1))) }),
    );
    assert!(forgotten.contains("reply to 10: Done") && !forgotten.contains("fetch"), "{forgotten}");
}

#[test]
fn a_late_answer_to_a_stored_execution_changes_nothing() {
    let mut driver = Driver::with(EngineOptions { reports: false, ..options() });
    driver.define(&flow());
    driver.start(&flow(), id(1));
    let (execution, ticket, _) = driver.calls[0].clone();
    complete(&mut driver);
    save(&mut driver);
    let answer = Answer::Succeeded(text("late"));
    let outputs = driver.step(Input::Answered { execution, ticket, answer });
    assert_eq!(transcript(&outputs), "");
    assert_eq!(driver.engine.counters().stale_answers, 1);
}

#[test]
fn a_stored_execution_that_failed_can_be_retried_and_restarted() {
    let mut driver = saved(fail);
    assert_eq!(driver.ask(Ask::Retry(Which::Id(id(1)))), Reply::Done);
    // The snapshot is older than the record: both are needed.
    driver.restart();
    assert_eq!(driver.finish(), ["a", "b"]);
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed);
}

#[test]
fn a_restart_leaves_states_in_the_store() {
    let mut driver = saved(complete);
    let before = driver.show(id(1));
    driver.restart();
    assert_eq!(ask(&mut driver, shown()), format!("fetch {}\n", id(1)));
    driver.work();
    assert_eq!(driver.replies.get(&Caller(9)), Some(&Reply::Shown(Box::new(before))));
}

#[test]
fn all_who_wait_for_a_state_are_answered_by_one_fetch_unless_they_leave() {
    let mut driver = saved(fail);
    let callers: Vec<_> = (0..3).map(|_| driver.send(shown())).collect();
    let retry = driver.send(Ask::Retry(Which::Id(id(1))));
    let cancel = driver.send(Ask::Cancel(Which::Id(id(1))));
    assert_eq!(driver.fetches.len(), 1);
    driver.step(Input::CallerLeft(callers[1]));
    driver.work();
    let answered = |caller: &Caller| driver.replies.contains_key(caller);
    assert!(answered(&callers[0]) && !answered(&callers[1]) && answered(&callers[2]));
    assert_eq!(driver.replies.get(&retry), Some(&Reply::Done));
    assert_eq!(
        driver.replies.get(&cancel),
        Some(&Reply::Done),
        "one record each, one after another"
    );
}

#[test]
fn a_stored_state_is_shown_while_the_storage_is_full() {
    let mut driver = saved(complete);
    driver.step(Input::StorageFull);
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed);
}

#[test]
fn a_state_that_cannot_be_read_is_refused_and_the_engine_goes_on() {
    let mut driver = saved(complete);
    let other = driver.snapshots.values().next().cloned().unwrap();
    for snapshot in [Err("a sector is gone".to_owned()), Ok(vec![1, 2, 3]), Ok(other)] {
        let caller = driver.send(shown());
        driver.fetches.clear();
        let outputs = driver.step(Input::Fetched { execution: id(1), snapshot });
        let [only] = &outputs[..] else { panic!("{}", transcript(&outputs)) };
        let Action::Reply { caller: to, reply: Reply::Refused(refusal) } = &only.action else {
            panic!("{only:?}")
        };
        assert_eq!(*to, caller);
        assert!(matches!(refusal, Refusal::Unreadable { .. }), "{refusal}");
    }
    assert_eq!(driver.show(id(1)).summary.condition, Condition::Completed);
}

#[test]
fn an_execution_that_was_forgotten_while_its_state_was_fetched_is_gone() {
    let mut driver = saved(complete);
    let caller = driver.send(shown());
    driver.send(Ask::Delete(Which::Id(id(1))));
    driver.work();
    let reply = driver.replies.get(&caller);
    assert!(matches!(reply, Some(Reply::Refused(Refusal::Forgotten(_)))), "{reply:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn leaving_states_to_the_store_makes_no_difference(
        saves in prop::collection::vec(any::<bool>(), 12),
        awake_max in 0_usize..3,
    ) {
        let run = |saves: &[bool]| {
            let mut driver = Driver::with(EngineOptions { awake_max, ..options() });
            let flow = program("flow", "1.0.0", vec![call("a"), wait("w", "PT1S")]);
            driver.define(&flow);
            for (number, saves) in (1..).zip(saves) {
                driver.start(&flow, id(number));
                if number % 3 == 0 { fail(&mut driver) } else { driver.finish(); }
                if *saves { save(&mut driver); }
                driver.send(Ask::Retry(Which::Id(id(number.saturating_sub(2).max(1)))));
                driver.finish();
            }
            driver
        };
        let (mut with, mut without) = (run(&saves), run(&[false; 12]));
        prop_assert_eq!(&with.journal, &without.journal);
        for summary in without.list(Default::default()) {
            let id = summary.execution;
            prop_assert_eq!(with.show(id), without.show(id));
        }
    }
}
