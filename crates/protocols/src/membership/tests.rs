//! Step tests: whole lists of outputs where they say something, and what bad messages do.

use std::collections::BTreeSet;
use std::time::Duration;

use outlast_lineage::{Epoch, NodeId, Time};
use proptest::prelude::*;

use super::message::{Description, Message};
use super::packet::{Account, Condition, Contents, Identity};
use super::*;

const NOW: Time = Time::from_millis(1000);

fn member(node: u64, epoch: u64) -> Member {
    let address = format!("192.0.2.{node}:7000");
    Member::new(NodeId(node), Epoch(epoch), vec![address], "1.0.0".into()).unwrap()
}

fn machine(node: u64) -> Membership {
    Membership::new(Options::default(), member(node, 1), node)
}

fn join(machine: &mut Membership, seeds: &[u64]) -> Vec<Output> {
    let seeds = seeds.iter().copied().map(NodeId).collect();
    machine.step(NOW, Input::Join { seeds })
}

fn receive(machine: &mut Membership, from: u64, bytes: Vec<u8>) -> Vec<Output> {
    machine.step(NOW, Input::Received { from: NodeId(from), bytes })
}

fn sent(outputs: &[Output]) -> Vec<(u64, Vec<u8>)> {
    let sends = outputs.iter().filter_map(|output| match output {
        Output::Send { to, bytes } => Some((to.0, bytes.clone())),
        _ => None,
    });
    sends.collect()
}

fn became(node: u64, state: State) -> Change {
    Change::Became { node: NodeId(node), state }
}

fn changes(outputs: &[Output]) -> Vec<Change> {
    let lists = outputs.iter().filter_map(|output| match output {
        Output::Changed(changes) => Some(changes.clone()),
        _ => None,
    });
    lists.flatten().collect()
}

/// Nodes 1 and 2, which know each other.
fn pair() -> (Membership, Membership) {
    let (mut one, mut two) = (machine(1), machine(2));
    join(&mut one, &[]);
    let mut to_one = sent(&join(&mut two, &[1]));
    while !to_one.is_empty() {
        let answers = to_one.drain(..).flat_map(|(_, bytes)| sent(&receive(&mut one, 2, bytes)));
        let to_two: Vec<_> = answers.collect();
        let answers = to_two.into_iter().flat_map(|(_, bytes)| sent(&receive(&mut two, 1, bytes)));
        to_one = answers.collect();
    }
    assert_eq!(one.peer(NodeId(2)).unwrap().state, State::Alive);
    assert_eq!(two.peer(NodeId(1)).unwrap().state, State::Alive);
    (one, two)
}

fn announcement(from: u64, epoch: u64, to: u64) -> Vec<u8> {
    let mut machine = Membership::new(Options::default(), member(from, epoch), 1);
    sent(&join(&mut machine, &[to])).remove(0).1
}

fn known(accounts: Vec<Account>) -> Vec<u8> {
    Message::Known { accounts }.encode()
}

fn account(node: u64, epoch: u64, condition: Condition) -> Account {
    Account { identity: Identity::new(member(node, epoch)), contradictions: 0, condition }
}

#[test]
fn a_node_without_seeds_is_alone_and_alive() {
    let mut one = machine(1);
    let reach_out = Output::SetTimer {
        timer: Timer::ReachOutDue,
        at: NOW.after(Options::default().reach_out_every),
    };
    let alive = Output::Changed(vec![became(1, State::Alive)]);
    assert_eq!(join(&mut one, &[]), [reach_out, alive]);
}

#[test]
fn a_node_with_seeds_is_joining_until_one_answers() {
    let (mut one, mut two) = (machine(1), machine(2));
    join(&mut one, &[]);
    let outputs = join(&mut two, &[1]);
    assert_eq!(changes(&outputs), []);
    assert_eq!((two.state(), two.since()), (State::Joining, NOW));
    let (_, announcement) = sent(&outputs).remove(0);
    let outputs = receive(&mut one, 2, announcement);
    assert_eq!(changes(&outputs), [became(2, State::Alive)]);
    let (_, feed) = sent(&outputs).remove(0);
    let outputs = receive(&mut two, 1, feed);
    assert_eq!(changes(&outputs), [became(1, State::Alive), became(2, State::Alive)]);
    assert_eq!(two.peer(NodeId(1)).unwrap().member, member(1, 1));
}

#[test]
fn announces_itself_again_until_someone_answers() {
    let mut two = machine(2);
    join(&mut two, &[1, 3]);
    for _ in 0..3 {
        let outputs = two.step(NOW, Input::TimerFired(Timer::ReachOutDue));
        let told: BTreeSet<u64> = sent(&outputs).into_iter().map(|(to, _)| to).collect();
        assert_eq!(told, [1, 3].into());
        assert!(outputs.iter().any(|output| matches!(output, Output::SetTimer { .. })));
    }
}

#[test]
fn a_connection_is_reason_enough_to_announce_oneself() {
    let mut two = machine(2);
    join(&mut two, &[]);
    let learned = Input::Learned { peer: NodeId(1), address: "192.0.2.1:7000".into() };
    let outputs = two.step(NOW, learned);
    assert_eq!(sent(&outputs).len(), 1);
    assert_eq!(two.peer(NodeId(1)).unwrap().seen_at.as_deref(), Some("192.0.2.1:7000"));
}

#[test]
fn refuses_what_it_does_not_understand() {
    let (mut one, _) = pair();
    let before: Vec<Peer> = one.peers().cloned().collect();
    let other_version = [vec![9], announcement(2, 1, 1)].concat();
    let trailing = [announcement(2, 1, 1), vec![0]].concat();
    for bytes in [vec![], vec![1], vec![1, 0xff], other_version, trailing] {
        assert_eq!(receive(&mut one, 2, bytes), []);
    }
    assert_eq!(receive(&mut one, 2, vec![1; MESSAGE_BYTES_MAX + 1]), []);
    let refused = Refused { garbage: 4, other_version: 1, too_long: 1, ..Refused::default() };
    assert_eq!(one.refused(), refused);
    assert_eq!(one.peers().cloned().collect::<Vec<_>>(), before);
}

#[test]
fn refuses_what_is_said_in_the_name_of_another() {
    let (mut one, _) = pair();
    assert_eq!(receive(&mut one, 2, announcement(3, 1, 1)), []);
    let left = Message::Left { identity: Identity::new(member(3, 1)).leaving() };
    assert_eq!(receive(&mut one, 2, left.encode()), []);
    assert_eq!(receive(&mut one, 1, announcement(2, 9, 1)), []);
    assert_eq!(one.refused(), Refused { misattributed: 3, ..Refused::default() });
    assert_eq!(one.peer(NodeId(3)), None);
}

#[test]
fn answers_an_earlier_life_with_what_it_knows_of_the_later() {
    let mut one = machine(1);
    join(&mut one, &[]);
    receive(&mut one, 2, announcement(2, 5, 1));
    let outputs = receive(&mut one, 2, announcement(2, 4, 1));
    let (to, bytes) = sent(&outputs).remove(0);
    assert_eq!(to, 2);
    let Ok(Message::Known { accounts }) = Message::decode(&bytes) else { panic!("{outputs:?}") };
    assert_eq!(accounts[0].identity, Identity::new(member(2, 5)));
    assert_eq!(one.refused(), Refused { stale: 1, ..Refused::default() });
    assert_eq!(one.peer(NodeId(2)).unwrap().member, member(2, 5));
}

#[test]
fn comes_back_above_a_life_that_it_does_not_know_of() {
    let (mut one, _) = pair();
    let outputs = receive(&mut one, 2, known(vec![account(1, 7, Condition::Alive)]));
    let incarnation = Incarnation { epoch: Epoch(7), renewals: 1 };
    assert_eq!(changes(&outputs), [Change::Renewed { node: NodeId(1), incarnation }]);
    assert_eq!(one.me().incarnation(), incarnation);
    assert!(!sent(&outputs).is_empty(), "says so");
}

#[test]
fn comes_back_when_it_is_told_that_it_is_dead() {
    let (mut one, _) = pair();
    receive(&mut one, 2, known(vec![account(1, 1, Condition::Down)]));
    assert_eq!(one.me().incarnation(), Incarnation { epoch: Epoch(1), renewals: 1 });
}

#[test]
fn tells_a_suspect_of_the_suspicion_until_it_contradicts() {
    let (mut one, mut two) = pair();
    let outputs = receive(&mut one, 3, known(vec![account(2, 1, Condition::Suspect)]));
    assert_eq!(changes(&outputs), [became(2, State::Suspect)]);
    let again = one.step(NOW, Input::TimerFired(Timer::ReachOutDue));
    for outputs in [outputs, again] {
        let is_suspicion = |bytes: &[u8]| {
            let suspect = |account: &Account| account.condition == Condition::Suspect;
            matches!(Message::decode(bytes), Ok(Message::Known { accounts }) if accounts.iter().all(suspect))
        };
        let told = sent(&outputs).into_iter().find(|(to, bytes)| *to == 2 && is_suspicion(bytes));
        let contradictions = sent(&receive(&mut two, 1, told.expect("the suspect is told").1));
        for (_, bytes) in contradictions {
            receive(&mut one, 2, bytes);
        }
    }
    assert_eq!(one.peer(NodeId(2)).unwrap().state, State::Alive);
}

#[test]
fn says_farewell_to_everyone_and_to_whoever_did_not_hear() {
    let (mut one, mut two) = pair();
    let outputs = one.step(NOW, Input::Leave);
    assert_eq!(changes(&outputs), [became(1, State::Left)]);
    let farewells = sent(&outputs);
    assert_eq!(farewells.len(), 1);
    let (to, again) = sent(&receive(&mut one, 2, announcement(2, 1, 1))).remove(0);
    assert_eq!((to, &again), (2, &farewells[0].1));
    let outputs = receive(&mut two, 1, again.clone());
    assert!(changes(&outputs).contains(&became(1, State::Left)), "{outputs:?}");
    assert_eq!(two.unreachable().next(), None);
    // Two that left do not go on saying farewell to each other.
    two.step(NOW, Input::Leave);
    assert_eq!(receive(&mut two, 1, again), []);
}

#[test]
fn joins_again_in_a_later_life_after_leaving() {
    let (mut one, mut two) = pair();
    let (_, farewell) = sent(&one.step(NOW, Input::Leave)).remove(0);
    receive(&mut two, 1, farewell);
    let outputs = join(&mut one, &[2]);
    for (_, bytes) in sent(&outputs) {
        receive(&mut two, 1, bytes);
    }
    assert_eq!(two.peer(NodeId(1)).unwrap().state, State::Alive);
    assert_eq!(two.peer(NodeId(1)).unwrap().member, *one.me());
}

#[test]
fn a_load_is_carried_along_and_no_news() {
    let (mut one, _) = pair();
    let offer = |draining, load| Offer::new([].into(), draining, load).unwrap();
    assert_eq!(one.step(NOW, Input::Described(offer(false, 80))), []);
    assert_eq!(sent(&one.step(NOW, Input::Described(offer(true, 80)))).len(), 1);
    assert_eq!(one.offer().load(), 80);
}

#[test]
fn an_earlier_offer_does_not_replace_a_later_one() {
    let (mut one, mut two) = pair();
    let mut describe = |draining| {
        let offer = Offer::new([].into(), draining, 0).unwrap();
        sent(&two.step(NOW, Input::Described(offer))).remove(0).1
    };
    let (earlier, later) = (describe(true), describe(false));
    receive(&mut one, 2, later);
    assert_eq!(receive(&mut one, 2, earlier), []);
    assert!(!one.peer(NodeId(2)).unwrap().offer.is_draining());
}

#[test]
fn remembers_only_so_many_nodes() {
    let (mut one, _) = pair();
    let strangers = |first: u64| {
        (first..first + 32).map(|node| account(node, 1, Condition::Down)).collect::<Vec<_>>()
    };
    for first in (10..3000).step_by(32) {
        receive(&mut one, 2, known(strangers(first)));
    }
    assert!(one.peers().count() <= PEERS_MAX);
    assert!(0 < one.refused().crowded);
    join(&mut one, &(5000..9000).collect::<Vec<_>>());
    assert!(one.peers().count() <= PEERS_MAX);
}

#[test]
fn forgets_whom_it_is_told_to_unless_it_answers() {
    let (mut one, _) = pair();
    assert_eq!(one.step(NOW, Input::Forget(NodeId(2))), []);
    receive(&mut one, 2, known(vec![account(3, 1, Condition::Down)]));
    assert_eq!(one.unreachable().collect::<Vec<_>>(), [NodeId(3)]);
    let outputs = one.step(NOW, Input::Forget(NodeId(3)));
    assert_eq!(changes(&outputs), [Change::Forgotten { node: NodeId(3) }]);
    assert_eq!(one.unreachable().next(), None);
}

#[test]
fn forgets_who_is_dead_for_long() {
    let options = Options { forget_after: Duration::from_secs(20), ..Options::default() };
    let mut one = Membership::new(options, member(1, 1), 1);
    join(&mut one, &[]);
    receive(&mut one, 2, known(vec![account(3, 1, Condition::Down)]));
    let wake = |one: &mut Membership, second| {
        let now = NOW.after(Duration::from_secs(second));
        one.step(now, Input::TimerFired(Timer::ProbeDue))
    };
    assert_eq!(changes(&wake(&mut one, 19)), []);
    assert_eq!(changes(&wake(&mut one, 20)), [Change::Forgotten { node: NodeId(3) }]);
}

#[test]
fn a_member_and_an_offer_are_small() {
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    let member = |addresses, release: &str| {
        Member::new(NodeId(1), Epoch(1), addresses, release.into()).unwrap_err()
    };
    assert_eq!(member(vec![String::new(); 5], ""), TooLarge::Addresses(5));
    assert_eq!(member(vec![long.clone()], ""), TooLarge::Text(129));
    assert_eq!(member(vec![], &long), TooLarge::Text(129));
    let epoch = Member::new(NodeId(1), Epoch(u64::MAX), vec![], String::new());
    assert_eq!(epoch.unwrap_err(), TooLarge::Epoch(u64::MAX));
    let services: BTreeSet<String> = (0..33).map(|number| number.to_string()).collect();
    assert_eq!(Offer::new(services, false, 0).unwrap_err(), TooLarge::Services(33));
    assert_eq!(Offer::new([long].into(), false, 0).unwrap_err(), TooLarge::Text(129));
    assert_eq!(Offer::new([].into(), false, 255).unwrap().load(), 100);
}

#[test]
fn the_largest_of_everything_fits_into_a_message() {
    let text = |number: usize| format!("{number:0>128}");
    let me = Member::new(NodeId(u64::MAX), Epoch(1 << 62), (0..4).map(text).collect(), text(9));
    let mut machine = Membership::new(Options::default(), me.unwrap(), 1);
    let offer = Offer::new((0..32).map(text).collect(), true, 100).unwrap();
    machine.step(NOW, Input::Described(offer));
    let (_, bytes) = sent(&join(&mut machine, &[1])).remove(0);
    assert!(bytes.len() < MESSAGE_BYTES_MAX, "{} bytes", bytes.len());
    let mut one = self::machine(1);
    join(&mut one, &[]);
    receive(&mut one, u64::MAX, bytes);
    assert_eq!(one.peer(NodeId(u64::MAX)).unwrap().offer.services().len(), 32);
}

fn messages() -> Vec<Vec<u8>> {
    let (mut one, mut two) = pair();
    let mut bytes: Vec<Vec<u8>> = vec![announcement(2, 1, 1), announcement(2, 9, 1)];
    bytes.push(known(vec![account(1, 1, Condition::Suspect), account(7, 1, Condition::Alive)]));
    let description =
        Description { incarnation: Incarnation::default(), revision: 1, offer: Offer::default() };
    bytes.push(Message::Described { description }.encode());
    for at in 1..10 {
        let now = NOW.after(Duration::from_secs(at));
        for machine in [&mut one, &mut two] {
            let outputs = machine.step(now, Input::TimerFired(Timer::ProbeDue));
            bytes.extend(sent(&outputs).into_iter().map(|(_, bytes)| bytes));
        }
    }
    bytes.extend(sent(&two.step(NOW, Input::Leave)).into_iter().map(|(_, bytes)| bytes));
    bytes
}

proptest! {
    #[test]
    fn no_bytes_stop_a_node(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut one, _) = pair();
        receive(&mut one, 2, [vec![1], bytes.clone()].concat());
        let _ = Contents::read(&bytes);
        prop_assert!(one.peers().count() <= 1 + 3);
    }

    #[test]
    fn no_damage_to_a_message_stops_a_node(
        which in any::<prop::sample::Index>(),
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let (mut one, _) = pair();
        let all = messages();
        let mut bytes = which.get(&all).clone();
        for (place, byte) in places {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(length.index(bytes.len()));
        }
        receive(&mut one, 2, bytes.clone());
        receive(&mut one, 2, bytes);
        for at in 1..20 {
            let now = NOW.after(Duration::from_secs(at));
            one.step(now, Input::TimerFired(Timer::ProbeDue));
            one.step(now, Input::TimerFired(Timer::ReachOutDue));
        }
    }
}
