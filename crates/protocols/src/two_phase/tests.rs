//! Step tests: whole lists of outputs, recovery of both sides, and fencing.

use std::collections::BTreeSet;
use std::time::Duration;

use outlast_lineage::{NodeId, Time};

use super::Message;
use super::coordinator::{self, Coordinator, Stage};
use super::participant::{self, Participant};

const NOW: Time = Time::from_millis(1000);
const PATIENCE: Duration = Duration::from_millis(100);
const COORDINATOR: NodeId = NodeId(1);

fn nodes(ids: &[u64]) -> BTreeSet<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

mod coordinating {
    use super::coordinator::{Input, Output, Record, Timer};
    use super::*;

    fn send(to: u64, message: Message) -> Output {
        Output::Send { to: NodeId(to), message }
    }

    fn persist(participants: &[u64], stage: Stage) -> Output {
        Output::Persist(record(participants, stage))
    }

    fn record(participants: &[u64], stage: Stage) -> Record {
        Record { participants: nodes(participants), stage }
    }

    fn timer() -> Output {
        Output::SetTimer { timer: Timer::AnswersOverdue, at: NOW.after(PATIENCE) }
    }

    fn receive(coordinator: &mut Coordinator, from: u64, message: Message) -> Vec<Output> {
        coordinator.step(NOW, Input::Received { from: NodeId(from), message })
    }

    fn begun() -> Coordinator {
        let mut coordinator = Coordinator::new(PATIENCE);
        coordinator.step(NOW, Input::Begin(nodes(&[2, 3])));
        coordinator
    }

    fn committed() -> Coordinator {
        let mut coordinator = begun();
        receive(&mut coordinator, 2, Message::Prepared);
        receive(&mut coordinator, 3, Message::Prepared);
        coordinator
    }

    #[test]
    fn writes_down_that_it_began_and_asks_whoever_has_not_said_so_in_time() {
        let mut coordinator = Coordinator::new(PATIENCE);
        let outputs = coordinator.step(NOW, Input::Begin(nodes(&[2, 3])));
        assert_eq!(outputs, [persist(&[2, 3], Stage::Begun), timer()]);
        assert_eq!(coordinator.step(NOW, Input::Begin(nodes(&[4]))), [], "it began already");
        assert_eq!(receive(&mut coordinator, 2, Message::Prepared), []);
        let outputs = coordinator.step(NOW, Input::TimerFired(Timer::AnswersOverdue));
        assert_eq!(outputs, [send(3, Message::Prepare), timer()]);
    }

    #[test]
    fn whoever_was_ready_before_the_beginning_is_not_asked() {
        let mut coordinator = Coordinator::new(PATIENCE);
        assert_eq!(receive(&mut coordinator, 2, Message::Prepared), []);
        assert_eq!(receive(&mut coordinator, 2, Message::Prepared), [], "doubled");
        assert_eq!(receive(&mut coordinator, 4, Message::Prepared), [], "a stranger");
        assert_eq!(receive(&mut coordinator, 3, Message::Forgotten), [], "is not that");
        let outputs = coordinator.step(NOW, Input::Begin(nodes(&[2, 3])));
        assert_eq!(outputs, [persist(&[2, 3], Stage::Begun), timer()]);
        let outputs = receive(&mut coordinator, 3, Message::Prepared);
        assert_eq!(outputs[0], persist(&[2, 3], Stage::Committed));
    }

    #[test]
    fn commits_at_once_if_all_were_ready_before_it_began() {
        let mut coordinator = Coordinator::new(PATIENCE);
        receive(&mut coordinator, 2, Message::Prepared);
        receive(&mut coordinator, 3, Message::Prepared);
        let outputs = coordinator.step(NOW, Input::Begin(nodes(&[2, 3])));
        let expected = [
            persist(&[2, 3], Stage::Begun),
            persist(&[2, 3], Stage::Committed),
            Output::Committed,
            send(2, Message::Forget),
            send(3, Message::Forget),
            timer(),
        ];
        assert_eq!(outputs, expected);
    }

    /// Seed 0, 4.4: "When all replicas agree to be ready to forget, i.e., when the replicas have
    /// finished the second phase, the forgetting is committed."
    #[test]
    fn commits_when_all_are_ready_and_ends_when_all_have_forgotten() {
        let mut coordinator = begun();
        assert_eq!(receive(&mut coordinator, 2, Message::Prepared), []);
        assert_eq!(receive(&mut coordinator, 2, Message::Prepared), [], "doubled");
        let expected = [
            persist(&[2, 3], Stage::Committed),
            Output::Committed,
            send(2, Message::Forget),
            send(3, Message::Forget),
            timer(),
        ];
        assert_eq!(receive(&mut coordinator, 3, Message::Prepared), expected);
        assert_eq!(receive(&mut coordinator, 3, Message::Prepared), [], "late");
        assert_eq!(receive(&mut coordinator, 3, Message::Forgotten), []);
        let expected = [persist(&[2, 3], Stage::Ended), Output::Ended];
        assert_eq!(receive(&mut coordinator, 2, Message::Forgotten), expected);
        assert_eq!(receive(&mut coordinator, 2, Message::Forgotten), []);
    }

    #[test]
    fn one_that_has_forgotten_was_ready() {
        let mut coordinator = begun();
        assert_eq!(receive(&mut coordinator, 2, Message::Forgotten), []);
        let outputs = receive(&mut coordinator, 3, Message::Prepared);
        assert_eq!(outputs[0], persist(&[2, 3], Stage::Committed));
    }

    #[test]
    fn asks_again_whoever_has_not_answered() {
        let mut coordinator = begun();
        receive(&mut coordinator, 2, Message::Prepared);
        let overdue = Input::TimerFired(Timer::AnswersOverdue);
        assert_eq!(coordinator.awaited().collect::<Vec<_>>(), [NodeId(3)]);
        let again = [send(3, Message::Prepare), timer()];
        assert_eq!(coordinator.step(NOW, overdue.clone()), again);
        receive(&mut coordinator, 3, Message::Prepared);
        receive(&mut coordinator, 3, Message::Forgotten);
        assert_eq!(coordinator.step(NOW, overdue.clone()), [send(2, Message::Forget), timer()]);
        receive(&mut coordinator, 2, Message::Forgotten);
        assert_eq!(coordinator.step(NOW, overdue), []);
    }

    #[test]
    fn an_inquiry_is_answered_once_all_were_ready() {
        assert_eq!(receive(&mut begun(), 2, Message::Inquire), []);
        let forget = [send(2, Message::Forget)];
        assert_eq!(receive(&mut committed(), 2, Message::Inquire), forget);
    }

    #[test]
    fn one_that_is_fenced_out_holds_up_nobody_and_is_not_heard() {
        let mut coordinator = begun();
        receive(&mut coordinator, 2, Message::Prepared);
        let expected = [
            persist(&[2], Stage::Begun),
            persist(&[2], Stage::Committed),
            Output::Committed,
            send(2, Message::Forget),
            timer(),
        ];
        assert_eq!(coordinator.step(NOW, Input::Fenced(NodeId(3))), expected);
        assert_eq!(receive(&mut coordinator, 3, Message::Inquire), []);
        assert_eq!(coordinator.step(NOW, Input::Fenced(NodeId(3))), []);
        let expected = [persist(&[], Stage::Committed), persist(&[], Stage::Ended), Output::Ended];
        assert_eq!(coordinator.step(NOW, Input::Fenced(NodeId(2))), expected);
    }

    #[test]
    fn who_does_not_take_part_is_not_heard() {
        let mut coordinator = begun();
        receive(&mut coordinator, 2, Message::Prepared);
        assert_eq!(receive(&mut coordinator, 4, Message::Prepared), []);
        assert_eq!(coordinator.stage(), Some(Stage::Begun));
    }

    #[test]
    fn a_new_life_goes_on_from_its_record() {
        assert_eq!(Coordinator::new(PATIENCE).step(NOW, Input::Restarted), []);
        let restart = |participants: &[u64], stage| {
            Coordinator::restored(PATIENCE, record(participants, stage)).step(NOW, Input::Restarted)
        };
        let asks = [send(2, Message::Prepare), send(3, Message::Prepare), timer()];
        assert_eq!(restart(&[2, 3], Stage::Begun), asks);
        let orders = [Output::Committed, send(2, Message::Forget), timer()];
        assert_eq!(restart(&[2], Stage::Committed), orders);
        assert_eq!(restart(&[2], Stage::Ended), [Output::Committed, Output::Ended]);
        let alone = [
            persist(&[], Stage::Committed),
            Output::Committed,
            persist(&[], Stage::Ended),
            Output::Ended,
        ];
        assert_eq!(restart(&[], Stage::Begun), alone, "it stopped right after the fencing");
    }

    #[test]
    fn records_survive_their_encoding() {
        for stage in [Stage::Begun, Stage::Committed, Stage::Ended] {
            let record = record(&[2, 3], stage);
            let bytes = minicbor::to_vec(&record).unwrap();
            assert_eq!(minicbor::decode::<Record>(&bytes).unwrap(), record);
        }
    }
}

mod participating {
    use super::participant::{Input, Output, Record, Timer};
    use super::*;

    fn participant() -> Participant {
        Participant::new(nodes(&[1, 3]), PATIENCE)
    }

    fn restored(record: Record) -> Participant {
        Participant::restored(nodes(&[1, 3]), PATIENCE, record)
    }

    fn send(message: Message) -> Output {
        Output::Send { to: COORDINATOR, message }
    }

    fn timer() -> Output {
        Output::SetTimer { timer: Timer::OutcomeOverdue, at: NOW.after(PATIENCE) }
    }

    fn receive(participant: &mut Participant, message: Message) -> Vec<Output> {
        participant.step(NOW, Input::Received { from: COORDINATOR, message })
    }

    #[test]
    fn says_that_it_is_ready_after_writing_it_down() {
        let mut participant = participant();
        assert_eq!(receive(&mut participant, Message::Prepare), []);
        let expected = [Output::Persist(Record::Ready), send(Message::Prepared), timer()];
        let finished = Input::Finished { coordinator: None };
        assert_eq!(participant.step(NOW, finished.clone()), expected);
        assert_eq!(participant.step(NOW, finished), []);
        assert_eq!(receive(&mut participant, Message::Prepare), [send(Message::Prepared)]);
    }

    #[test]
    fn says_unasked_that_it_is_ready_once_to_whoever_coordinates() {
        let finished = |node| Input::Finished { coordinator: Some(node) };
        let expected = [Output::Persist(Record::Ready), send(Message::Prepared), timer()];
        assert_eq!(participant().step(NOW, finished(COORDINATOR)), expected);
        let mut asked = participant();
        receive(&mut asked, Message::Prepare);
        assert_eq!(asked.step(NOW, finished(COORDINATOR)), expected, "not twice");
        let outputs = participant().step(NOW, finished(NodeId(99)));
        assert_eq!(outputs, [Output::Persist(Record::Ready), timer()], "not to strangers");
    }

    /// Seed 0, 4.4: "Upon receiving such a commit, the replicas write an (end, eS.sID) record to the
    /// execution history and remove all data from volatile memory."
    #[test]
    fn forgets_once_and_says_so_every_time() {
        let mut participant = restored(Record::Ready);
        let expected = [Output::Persist(Record::Ended), Output::Forget, send(Message::Forgotten)];
        assert_eq!(receive(&mut participant, Message::Forget), expected);
        assert!(participant.has_forgotten());
        assert_eq!(receive(&mut participant, Message::Forget), [send(Message::Forgotten)]);
        assert_eq!(receive(&mut participant, Message::Prepare), [send(Message::Forgotten)]);
        assert_eq!(receive(&mut participant, Message::Inquire), [send(Message::Forget)]);
        assert_eq!(participant.step(NOW, Input::Committed), []);
    }

    /// Seed 0, 4.4: "any workflow execution with a begin and end record may be pruned from the execution
    /// history": whoever has pruned its end record answers as one that has it, so nobody waits for what is
    /// gone, and nobody begins it anew.
    #[test]
    fn an_owner_that_has_pruned_the_end_record_answers_as_if_it_had_it() {
        let pruned = Participant::answer_when_pruned;
        assert_eq!(pruned(Message::Prepare), Some(Message::Forgotten));
        assert_eq!(pruned(Message::Forget), Some(Message::Forgotten));
        assert_eq!(pruned(Message::Inquire), Some(Message::Forget));
        assert_eq!([Message::Prepared, Message::Forgotten].map(pruned), [None, None]);
        for message in [Message::Prepare, Message::Forget, Message::Inquire, Message::Prepared] {
            let answer: Vec<Output> = pruned(message).map(send).into_iter().collect();
            assert_eq!(receive(&mut restored(Record::Ended), message), answer);
        }
    }

    #[test]
    fn forgets_nothing_before_it_is_ready() {
        let mut participant = participant();
        assert_eq!(receive(&mut participant, Message::Forget), []);
        assert_eq!(participant.step(NOW, Input::Committed), []);
        assert!(!participant.is_ready());
    }

    #[test]
    fn forgets_with_its_own_coordinator() {
        let expected = [Output::Persist(Record::Ended), Output::Forget];
        assert_eq!(restored(Record::Ready).step(NOW, Input::Committed), expected);
    }

    #[test]
    fn a_stranger_is_not_heard() {
        let from = NodeId(9);
        let mut participant = restored(Record::Ready);
        for message in [Message::Prepare, Message::Forget] {
            assert_eq!(participant.step(NOW, Input::Received { from, message }), []);
        }
        assert!(!participant.has_forgotten());
    }

    #[test]
    fn asks_what_became_of_it_until_it_knows() {
        let inquire = |to| Output::Send { to: NodeId(to), message: Message::Inquire };
        let inquiry = [inquire(1), inquire(3), timer()];
        let mut participant = restored(Record::Ready);
        assert_eq!(participant.step(NOW, Input::Restarted), inquiry);
        let overdue = Input::TimerFired(Timer::OutcomeOverdue);
        assert_eq!(participant.step(NOW, overdue.clone()), inquiry);
        receive(&mut participant, Message::Forget);
        assert_eq!(participant.step(NOW, overdue), []);
    }

    #[test]
    fn a_new_life_goes_on_from_its_record() {
        assert_eq!(participant().step(NOW, Input::Restarted), []);
        assert_eq!(restored(Record::Ended).step(NOW, Input::Restarted), [Output::Forget]);
    }

    #[test]
    fn messages_and_records_survive_their_encoding() {
        let messages = [
            Message::Prepare,
            Message::Prepared,
            Message::Forget,
            Message::Forgotten,
            Message::Inquire,
        ];
        for message in messages {
            let bytes = minicbor::to_vec(message).unwrap();
            assert_eq!(minicbor::decode::<Message>(&bytes).unwrap(), message);
        }
        for record in [Record::Ready, Record::Ended] {
            let bytes = minicbor::to_vec(record).unwrap();
            assert_eq!(minicbor::decode::<Record>(&bytes).unwrap(), record);
        }
    }
}
