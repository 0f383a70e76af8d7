//! How a primary passes states on: quick steps together, slow ones at once, and nothing out of turn.

use std::time::Duration;

use outlast_lineage::Time;

use super::super::{Input, Message, Output, Replica, Setup, Timer};
use super::steps::{
    NOW, acknowledging, begun, finish, fire, head, lose, point, receive, said_to, setup, state,
};

const LINGER: Duration = Duration::from_millis(10);

fn lingering() -> Setup {
    Setup { linger: LINGER, ..setup(3, 3, 1) }
}

fn advance_at(replica: &mut Replica, now: Time, progress: u64) -> Vec<Output> {
    let advanced = Input::Advanced { bytes: 1, progress, ended: false, notes: Vec::new() };
    replica.step(now, advanced)
}

/// A primary whose backups were told of its first state.
fn begun_and_told() -> Replica {
    let mut primary = begun(lingering());
    advance_at(&mut primary, NOW, 1);
    assert_eq!(said_to(&fire(&mut primary, Timer::UpdateDue), 1), [&news(None, 1)]);
    primary
}

/// An update, as its owner has not filled it in yet.
fn news(base: Option<u64>, next: u64) -> Message {
    Message::Update {
        base: base.map(|number| point(3, 1, number)),
        next: point(3, 1, next),
        progress: next,
        ended: false,
        urgent: false,
        delta: Vec::new().into(),
        beginning: base.is_none().then_some(1),
    }
}

#[test]
fn slow_steps_are_told_at_once() {
    let mut primary = begun_and_told();
    let later = NOW.after(LINGER);
    assert_eq!(said_to(&advance_at(&mut primary, later, 2), 1), [&news(Some(1), 2)]);
    assert!(!primary.has_untold());
}

#[test]
fn quick_steps_are_told_together_when_the_linger_is_over() {
    let mut primary = begun_and_told();
    let soon = NOW.after(LINGER / 5);
    let outputs = advance_at(&mut primary, soon, 2);
    assert!(said_to(&outputs, 1).is_empty());
    let timer = Output::SetTimer { timer: Timer::UpdateDue, at: NOW.after(LINGER) };
    assert!(outputs.contains(&timer), "it is told as long after the first as everything is");
    let outputs = advance_at(&mut primary, soon, 3);
    assert!(!outputs.contains(&timer), "one timer is enough");
    assert!(primary.has_untold());
    let outputs = fire(&mut primary, Timer::UpdateDue);
    assert_eq!(said_to(&outputs, 1), [&news(Some(1), 3)]);
    assert_eq!(said_to(&outputs, 2), [&news(Some(1), 3)]);
    assert!(!primary.has_untold());
    assert!(said_to(&fire(&mut primary, Timer::UpdateDue), 1).is_empty(), "nothing twice");
}

#[test]
fn the_beginning_is_told_together_with_what_follows_soon() {
    let mut primary = begun(lingering());
    let outputs = advance_at(&mut primary, NOW, 1);
    assert!(said_to(&outputs, 1).is_empty());
    assert!(outputs.contains(&Output::SetTimer { timer: Timer::UpdateDue, at: NOW.after(LINGER) }));
    advance_at(&mut primary, NOW.after(LINGER / 2), 2);
    let outputs = fire(&mut primary, Timer::UpdateDue);
    assert_eq!(said_to(&outputs, 1), [&news(None, 2)]);
}

#[test]
fn the_end_waits_for_nothing_and_takes_along_what_was_gathered() {
    let mut primary = begun_and_told();
    advance_at(&mut primary, NOW, 2);
    let outputs = finish(&mut primary, 3);
    let said = said_to(&outputs, 1);
    let [Message::Update { base, next, ended: true, urgent: false, .. }] = said[..] else {
        panic!("one update with the end, not {said:?}")
    };
    assert_eq!((*base, *next), (Some(point(3, 1, 1)), point(3, 1, 3)));
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
        let mut primary = begun_and_told();
        advance_at(&mut primary, NOW, 2);
        let outputs = receive(&mut primary, 1, asked);
        assert_eq!(said_to(&outputs, 1)[0], &news(Some(1), 2));
        assert_eq!(said_to(&outputs, 1).len(), 2, "and then the answer");
        assert_eq!(said_to(&outputs, 2), [&news(Some(1), 2)]);
    }
}

#[test]
fn no_more_is_gathered_than_fits_into_a_message() {
    let mut primary = begun_and_told();
    let bytes = 100 * 1024;
    let large = Input::Advanced { bytes, progress: 1, ended: false, notes: Vec::new() };
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
    let outputs = receive(&mut backup, 3, news(None, 3));
    assert!(outputs.contains(&Output::Apply(Vec::new().into())));
    assert_eq!(backup.head().lineage, super::steps::line(&[(3, 1, 3)]));
    let restored = super::steps::written(&outputs, super::super::Standing::default());
    assert_eq!(restored.head, *backup.head(), "as much as is written down");
    assert!(!applies(&receive(&mut backup, 3, news(None, 3))), "doubled");
    assert!(!applies(&receive(&mut backup, 3, news(Some(2), 4))), "held in part");
    assert!(!applies(&receive(&mut backup, 3, news(Some(5), 7))), "a gap");
    assert!(!applies(&receive(&mut backup, 3, news(Some(3), 3))), "nothing in it");
    assert!(applies(&receive(&mut backup, 3, news(Some(3), 5))));
}

/// Two nodes that were asked for one start while they could not reach each other began with what each
/// was told.
#[test]
fn a_backup_that_began_otherwise_asks_for_the_whole_state() {
    for beginning in [Some(2), None] {
        let mut backup = begun(Setup { beginning, ..setup(1, 3, 1) });
        let outputs = receive(&mut backup, 3, news(None, 3));
        assert!(!applies(&outputs), "{beginning:?}");
        assert_eq!(said_to(&outputs, 3), [&Message::Want]);
    }
}

#[test]
fn whoever_does_not_know_what_it_began_as_is_not_followed_from_there() {
    let mut primary = begun(Setup { beginning: None, ..setup(3, 3, 1) });
    let outputs = advance_at(&mut primary, NOW, 1);
    let [update] = said_to(&outputs, 1)[..] else { panic!("one update") };
    let mut backup = begun(Setup { beginning: None, ..setup(1, 3, 1) });
    let outputs = receive(&mut backup, 3, update.clone());
    assert_eq!(said_to(&outputs, 3), [&Message::Want]);
}

fn applies(outputs: &[Output]) -> bool {
    outputs.iter().any(|output| matches!(output, Output::Apply(_)))
}
