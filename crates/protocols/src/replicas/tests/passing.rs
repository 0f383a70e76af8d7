//! How a primary passes states on: quick steps together, slow ones at once, and nothing out of turn.

use std::time::Duration;

use outlast_lineage::Time;

use super::super::{Input, Message, Output, Payload, Replica, Setup, Timer};
use super::steps::{
    NOW, acknowledging, begun, finish, fire, head, lose, point, receive, said_to, setup, state,
};

const LINGER: Duration = Duration::from_millis(10);

fn lingering() -> Setup {
    Setup { linger: LINGER, ..setup(3, 3, 1) }
}

fn advance_at(replica: &mut Replica, now: Time, progress: u64) -> Vec<Output> {
    let payload = Payload::Delta(vec![u8::try_from(progress).expect("a small number")]);
    let advanced = Input::Advanced { payload, progress, ended: false, notes: Vec::new() };
    replica.step(now, advanced)
}

fn news(base: Option<u64>, next: u64, deltas: &[u8]) -> Message {
    Message::Update {
        base: base.map(|number| point(3, 1, number)),
        next: point(3, 1, next),
        progress: next,
        ended: false,
        urgent: false,
        deltas: deltas.iter().map(|delta| vec![*delta].into()).collect(),
    }
}

#[test]
fn slow_steps_are_told_at_once() {
    let mut primary = begun(lingering());
    assert_eq!(said_to(&advance_at(&mut primary, NOW, 1), 1), [&news(None, 1, &[1])]);
    let later = NOW.after(LINGER);
    assert_eq!(said_to(&advance_at(&mut primary, later, 2), 1), [&news(Some(1), 2, &[2])]);
}

#[test]
fn quick_steps_are_told_together_when_the_linger_is_over() {
    let mut primary = begun(lingering());
    advance_at(&mut primary, NOW, 1);
    let soon = NOW.after(LINGER / 5);
    let outputs = advance_at(&mut primary, soon, 2);
    assert!(said_to(&outputs, 1).is_empty());
    let timer = Output::SetTimer { timer: Timer::UpdateDue, at: NOW.after(LINGER) };
    assert!(outputs.contains(&timer), "it is told as long after the first as everything is");
    let outputs = advance_at(&mut primary, soon, 3);
    assert!(!outputs.contains(&timer), "one timer is enough");
    let outputs = fire(&mut primary, Timer::UpdateDue);
    assert_eq!(said_to(&outputs, 1), [&news(Some(1), 3, &[2, 3])]);
    assert_eq!(said_to(&outputs, 2), [&news(Some(1), 3, &[2, 3])]);
    assert!(said_to(&fire(&mut primary, Timer::UpdateDue), 1).is_empty(), "nothing twice");
}

#[test]
fn the_beginning_is_told_together_with_what_follows_soon() {
    let mut primary = begun(lingering());
    let payload = Payload::State(b"state".to_vec());
    let started = Input::Advanced { payload, progress: 0, ended: false, notes: Vec::new() };
    let outputs = primary.step(NOW, started);
    assert!(said_to(&outputs, 1).is_empty());
    assert!(outputs.contains(&Output::SetTimer { timer: Timer::UpdateDue, at: NOW.after(LINGER) }));
    advance_at(&mut primary, NOW.after(LINGER / 2), 2);
    let outputs = fire(&mut primary, Timer::UpdateDue);
    assert_eq!(said_to(&outputs, 1), [&state(1, head(&[(3, 1, 1)], 0)), &news(Some(1), 2, &[2])]);
}

#[test]
fn the_end_waits_for_nothing_and_takes_along_what_was_gathered() {
    let mut primary = begun(lingering());
    advance_at(&mut primary, NOW, 1);
    advance_at(&mut primary, NOW, 2);
    let outputs = finish(&mut primary, 3);
    let said = said_to(&outputs, 1);
    let [Message::Update { next, ended: true, urgent: false, deltas, .. }] = said[..] else {
        panic!("one update with the end, not {said:?}")
    };
    assert_eq!((next.number, deltas.len()), (3, 2));
}

#[test]
fn what_waits_for_acknowledgements_lingers_nowhere() {
    let mut primary = begun(Setup { linger: LINGER, ..acknowledging(3, 3) });
    for progress in 1..4 {
        assert_eq!(said_to(&advance_at(&mut primary, NOW, progress), 1).len(), 1);
    }
}

#[test]
fn nobody_hears_of_a_state_before_it_was_sent_what_led_to_it() {
    let asking = [Message::Want, Message::Inquire, Message::RecoveryRequest { head: head(&[], 0) }];
    for asked in asking {
        let mut primary = begun(lingering());
        advance_at(&mut primary, NOW, 1);
        advance_at(&mut primary, NOW, 2);
        let outputs = receive(&mut primary, 1, asked);
        assert_eq!(said_to(&outputs, 1)[0], &news(Some(1), 2, &[2]));
        assert_eq!(said_to(&outputs, 1).len(), 2, "and then the answer");
        assert_eq!(said_to(&outputs, 2), [&news(Some(1), 2, &[2])]);
    }
}

#[test]
fn no_more_is_gathered_than_fits_into_a_message() {
    let mut primary = begun(lingering());
    advance_at(&mut primary, NOW, 0);
    let payload = Payload::Delta(vec![0; 100 * 1024]);
    let large = Input::Advanced { payload, progress: 1, ended: false, notes: Vec::new() };
    assert_eq!(said_to(&primary.step(NOW, large), 1).len(), 1, "a large one is not kept");
    let told = (0..64).filter(|_| !said_to(&advance_at(&mut primary, NOW, 1), 1).is_empty());
    assert_eq!(told.count(), 1, "nor are many");
}

#[test]
fn a_primary_that_stood_down_tells_nothing_of_what_it_gathered() {
    let mut primary = begun(lingering());
    advance_at(&mut primary, NOW, 1);
    advance_at(&mut primary, NOW, 2);
    receive(&mut primary, 2, state(2, head(&[(2, 2, 9)], 9)));
    assert_eq!(primary.leads(), None);
    assert!(said_to(&fire(&mut primary, Timer::UpdateDue), 1).is_empty());
}

#[test]
fn a_primary_that_leads_again_does_not_tell_what_it_gathered_before() {
    let mut primary = begun(lingering());
    advance_at(&mut primary, NOW, 1);
    advance_at(&mut primary, NOW, 2);
    receive(&mut primary, 2, state(2, head(&[(2, 2, 9)], 9)));
    lose(&mut primary, 2);
    fire(&mut primary, Timer::ElectionOver);
    assert!(primary.leads().is_some());
    assert!(said_to(&fire(&mut primary, Timer::UpdateDue), 1).is_empty());
}

#[test]
fn a_backup_takes_several_states_in_one_step_and_only_if_it_has_their_base() {
    let mut backup = begun(setup(1, 3, 1));
    let outputs = receive(&mut backup, 3, news(None, 3, &[1, 2, 3]));
    let deltas = [1, 2, 3].map(|delta| vec![delta].into()).to_vec();
    assert!(outputs.contains(&Output::Apply(deltas)));
    assert_eq!(backup.head().lineage, super::steps::line(&[(3, 1, 3)]));
    let restored = super::steps::written(&outputs, super::super::Standing::default());
    assert_eq!(restored.head, *backup.head(), "as much as is written down");
    let applies = |outputs: &[Output]| outputs.iter().any(|it| matches!(it, Output::Apply(_)));
    assert!(!applies(&receive(&mut backup, 3, news(None, 3, &[1, 2, 3]))), "doubled");
    assert!(!applies(&receive(&mut backup, 3, news(Some(2), 4, &[3, 4]))), "held in part");
    assert!(!applies(&receive(&mut backup, 3, news(Some(5), 7, &[6, 7]))), "a gap");
    assert!(!applies(&receive(&mut backup, 3, news(Some(3), 6, &[4]))), "too few for its length");
    assert!(!applies(&receive(&mut backup, 3, news(Some(3), 3, &[]))), "nothing in it");
}
