//! Small clusters on a virtual network: what they agree on after loss, delay, doubled messages, cuts,
//! crashes and restarts, over many seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outlast_lineage::{Epoch, NodeId, Time};

use super::{Change, Input, Member, Membership, Offer, Options, Output, State, Timer};

/// Within this time after the last fault all agree, at the latest.
const AGREEMENT_BOUND: Duration = Duration::from_secs(30);

/// Everything that happens, in order of time.
struct World {
    now: Time,
    random: u64,
    nodes: BTreeMap<NodeId, Membership>,
    /// The epoch of each node that ever ran; it is what a disk would keep.
    epochs: BTreeMap<NodeId, u64>,
    left: BTreeSet<NodeId>,
    queue: BTreeMap<(Time, u64), Event>,
    timers: BTreeMap<(NodeId, Timer), Time>,
    events: u64,
    faults: Faults,
    /// Who told of which change, in order.
    changes: Vec<(NodeId, Change)>,
    /// What everyone wanted done, if it is to be compared.
    trace: Option<String>,
}

#[derive(Clone, Default)]
struct Faults {
    loss_percent: u64,
    double_percent: u64,
    delay_ms_max: u64,
    /// Which group a node is in: only within a group messages arrive.
    groups: BTreeMap<NodeId, u64>,
    /// Pairs that do not hear each other, in this direction.
    deaf: BTreeSet<(NodeId, NodeId)>,
}

enum Event {
    Arrives { from: NodeId, to: NodeId, bytes: Vec<u8> },
    Fires { node: NodeId, timer: Timer },
}

fn node(number: u64) -> NodeId {
    NodeId(number)
}

fn member(node: NodeId, epoch: u64) -> Member {
    let address = format!("192.0.2.{}:7000", node.0);
    Member::new(node, Epoch(epoch), vec![address], "1.0.0".into()).unwrap()
}

fn offer(service: &str) -> Offer {
    Offer::new([service.to_owned()].into(), false, 7).unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            now: Time::from_millis(1000),
            random: seed,
            nodes: BTreeMap::new(),
            epochs: BTreeMap::new(),
            left: BTreeSet::new(),
            queue: BTreeMap::new(),
            timers: BTreeMap::new(),
            events: 0,
            faults: Faults { delay_ms_max: 5, ..Faults::default() },
            changes: Vec::new(),
            trace: None,
        }
    }

    /// A cluster of this many nodes that all know each other, all by way of the first.
    fn cluster(seed: u64, count: u64) -> Self {
        let mut world = Self::new(seed);
        for number in 1..=count {
            world.start(node(number), &[node(1)]);
        }
        world.run_for(Duration::from_secs(10));
        assert_eq!(world.disagreement(), None, "seed {seed}: never formed");
        world
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.random >> 33) % below
    }

    fn start(&mut self, node: NodeId, seeds: &[NodeId]) {
        let epoch = self.epochs.entry(node).or_default();
        *epoch += 1;
        let me = member(node, *epoch);
        let seed = self.random ^ node.0;
        self.nodes.insert(node, Membership::new(Options::default(), me, seed));
        self.tell(node, Input::Described(offer(&format!("service {}", node.0))));
        self.tell(node, Input::Join { seeds: seeds.to_vec() });
    }

    /// Starts a node again that remembers everyone, as a node with its disk does.
    fn restart(&mut self, node: NodeId) {
        let remembered: Vec<NodeId> = self.epochs.keys().copied().collect();
        self.left.remove(&node);
        self.start(node, &remembered);
    }

    fn crash(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.timers.retain(|(of, _), _| *of != node);
    }

    fn leave(&mut self, node: NodeId) {
        self.tell(node, Input::Leave);
        self.left.insert(node);
        self.crash(node);
    }

    fn tell(&mut self, node: NodeId, input: Input) {
        let Some(machine) = self.nodes.get_mut(&node) else { return };
        let outputs = machine.step(self.now, input);
        for output in outputs {
            if let Some(trace) = &mut self.trace {
                trace.push_str(&format!("{:?} {} {output:?}\n", self.now, node.0));
            }
            match output {
                Output::Send { to, bytes } => self.send(node, to, bytes),
                Output::SetTimer { timer, at } => {
                    self.timers.insert((node, timer), at);
                    self.enqueue(at, Event::Fires { node, timer });
                }
                Output::Changed(changes) => {
                    self.changes.extend(changes.into_iter().map(|change| (node, change)));
                }
            }
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, bytes: Vec<u8>) {
        let group = |node| self.faults.groups.get(node).copied().unwrap_or_default();
        if group(&from) != group(&to) || self.faults.deaf.contains(&(from, to)) {
            return;
        }
        let copies = 1 + u64::from(self.draw(100) < self.faults.double_percent);
        for _ in 0..copies {
            if self.draw(100) < self.faults.loss_percent {
                continue;
            }
            let delay = 1 + self.draw(self.faults.delay_ms_max);
            let at = self.now.after(Duration::from_millis(delay));
            self.enqueue(at, Event::Arrives { from, to, bytes: bytes.clone() });
        }
    }

    fn enqueue(&mut self, at: Time, event: Event) {
        self.events += 1;
        self.queue.insert((at, self.events), event);
    }

    fn run_for(&mut self, time: Duration) {
        self.run_until(self.now.after(time));
    }

    fn run_until(&mut self, end: Time) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            match event {
                Event::Arrives { from, to, bytes } => {
                    self.tell(to, Input::Received { from, bytes });
                }
                Event::Fires { node, timer } if self.timers.get(&(node, timer)) == Some(&at) => {
                    self.timers.remove(&(node, timer));
                    self.tell(node, Input::TimerFired(timer));
                }
                Event::Fires { .. } => {}
            }
        }
        self.now = end;
    }

    /// How long it takes until all agree; nothing if they do not in time.
    fn time_to_agree(&mut self) -> Option<Duration> {
        let begin = self.now;
        while self.now.since(begin) <= AGREEMENT_BOUND {
            if self.disagreement().is_none() {
                return Some(self.now.since(begin));
            }
            self.run_for(Duration::from_millis(500));
        }
        None
    }

    /// The first thing in which a node's view is not how it is.
    fn disagreement(&self) -> Option<String> {
        let observers = self.nodes.iter();
        observers.flat_map(|(node, machine)| self.mistakes(*node, machine)).next()
    }

    fn mistakes(&self, node: NodeId, machine: &Membership) -> Vec<String> {
        let others = self.epochs.keys().filter(|other| **other != node);
        others.filter_map(|other| self.mistake(machine, *other)).collect()
    }

    fn mistake(&self, machine: &Membership, other: NodeId) -> Option<String> {
        let me = machine.me().node();
        let peer = machine.peer(other);
        let seen = peer.map(|peer| (peer.state, peer.member.clone(), peer.offer.clone()));
        let Some(truth) = self.nodes.get(&other) else {
            let gone = self.known_end_of(other);
            let right = peer.is_none_or(|peer| peer.state == gone || peer.state == State::Joining);
            return (!right).then(|| format!("{me:?} sees {other:?}, {gone:?}, as {seen:?}"));
        };
        let is = (State::Alive, truth.me().clone(), truth.offer().clone());
        (seen.as_ref() != Some(&is))
            .then(|| format!("{me:?} sees {other:?} as {seen:?}, is {is:?}"))
    }

    /// How a node that is gone ended, as far as anyone can know: what only the dead heard is lost.
    fn known_end_of(&self, gone: NodeId) -> State {
        let states = self.nodes.values().filter_map(|machine| machine.peer(gone));
        let heard = states.into_iter().any(|peer| peer.state == State::Left);
        if heard && self.left.contains(&gone) { State::Left } else { State::Dead }
    }

    fn states_of(&self, other: NodeId) -> BTreeSet<State> {
        let told = self.changes.iter().filter_map(|(_, change)| match change {
            Change::Became { node, state } if *node == other => Some(*state),
            _ => None,
        });
        told.collect()
    }

    /// One fault among many, drawn by the seed.
    fn suffer(&mut self, count: u64) {
        let victim = node(1 + self.draw(count));
        match self.draw(8) {
            0 | 1 => self.crash(victim),
            2 if !self.nodes.contains_key(&victim) => self.restart(victim),
            3 if self.nodes.contains_key(&victim) => self.leave(victim),
            4 | 5 => {
                let groups = 2 + self.draw(2);
                self.faults.groups =
                    (1..=count).map(|number| (node(number), self.draw(groups))).collect();
            }
            6 => {
                let to = node(1 + self.draw(count));
                self.faults.deaf.insert((victim, to));
            }
            _ => self.faults = self.weather(),
        }
        let pause = self.draw(12_000);
        self.run_for(Duration::from_millis(pause));
    }

    fn weather(&mut self) -> Faults {
        Faults {
            loss_percent: self.draw(40),
            double_percent: self.draw(30),
            delay_ms_max: 1 + self.draw(600),
            ..self.faults.clone()
        }
    }

    /// Ends all faults; most that crashed come back, who left stays away.
    fn calm(&mut self) {
        self.faults = Faults { delay_ms_max: 5, ..Faults::default() };
        let known: Vec<NodeId> = self.epochs.keys().copied().collect();
        for node in known {
            let is_down = !self.nodes.contains_key(&node) && !self.left.contains(&node);
            if is_down && 0 < self.draw(3) {
                self.restart(node);
            }
        }
    }
}

#[test]
fn a_cluster_forms_by_way_of_one_seed() {
    for count in 1..=9 {
        let world = World::cluster(count, count);
        assert!(world.nodes.values().all(|machine| machine.state() == State::Alive));
        assert!(world.nodes.values().all(|machine| machine.unreachable().next().is_none()));
    }
}

#[test]
fn all_agree_soon_after_the_last_fault() {
    for seed in 0..60 {
        let count = 3 + seed % 7;
        let mut world = World::cluster(seed, count);
        for _ in 0..10 {
            world.suffer(count);
        }
        world.calm();
        assert!(world.time_to_agree().is_some(), "seed {seed}: {:?}", world.disagreement());
        world.run_for(Duration::from_secs(30));
        assert_eq!(world.disagreement(), None, "seed {seed}: did not last");
    }
}

#[test]
fn a_quiet_cluster_stays_as_it_is() {
    let mut world = World::cluster(3, 5);
    world.changes.clear();
    let events = world.events;
    world.run_for(Duration::from_secs(100));
    assert_eq!(world.changes, []);
    // A probe, its answer and two wake-ups per node and second; reaching out is rare.
    let per_node_and_second = (world.events - events) / 5 / 100;
    assert!(per_node_and_second <= 5, "{per_node_and_second} events");
}

#[test]
fn a_node_that_was_cut_off_rejoins_by_itself() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 5);
        world.faults.groups.insert(node(4), 1);
        world.run_for(Duration::from_secs(60));
        let cut_off: Vec<NodeId> = world.nodes[&node(4)].unreachable().collect();
        assert_eq!(cut_off, [1, 2, 3, 5].map(node), "seed {seed}");
        assert_eq!(world.nodes[&node(1)].unreachable().collect::<Vec<_>>(), [node(4)]);
        world.faults.groups.clear();
        assert!(world.time_to_agree().is_some(), "seed {seed}: {:?}", world.disagreement());
    }
}

#[test]
fn a_cluster_that_broke_into_single_nodes_comes_together() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 5);
        world.faults.groups = (1..=5).map(|number| (node(number), number)).collect();
        world.run_for(Duration::from_secs(60));
        world.faults.groups.clear();
        assert!(world.time_to_agree().is_some(), "seed {seed}: {:?}", world.disagreement());
    }
}

#[test]
fn who_leaves_is_not_taken_for_dead() {
    for seed in 0..40 {
        let mut world = World::cluster(seed, 5);
        // Only one hears it from the node itself.
        world.faults.deaf = [1, 2, 4].map(|deaf| (node(3), node(deaf))).into();
        world.leave(node(3));
        assert!(world.nodes[&node(1)].peer(node(3)).unwrap().state != State::Left);
        world.run_for(Duration::from_secs(20));
        assert_eq!(world.nodes[&node(1)].peer(node(3)).unwrap().state, State::Left, "seed {seed}");
        assert_eq!(world.disagreement(), None, "seed {seed}");
        assert!(!world.states_of(node(3)).contains(&State::Dead), "seed {seed}");
    }
}

#[test]
fn whoever_was_cut_off_when_a_node_left_hears_of_it_afterwards() {
    let mut world = World::cluster(1, 5);
    world.faults.groups = [4, 5].map(|number| (node(number), 1)).into();
    world.leave(node(3));
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.nodes[&node(5)].peer(node(3)).unwrap().state, State::Dead);
    world.faults.groups.clear();
    assert!(world.time_to_agree().is_some(), "{:?}", world.disagreement());
    assert_eq!(world.nodes[&node(5)].peer(node(3)).unwrap().state, State::Left);
}

#[test]
fn whoever_left_and_remembers_only_nodes_that_are_gone_is_found_by_the_others() {
    let mut world = World::cluster(3, 4);
    world.leave(node(2));
    world.run_for(Duration::from_secs(2));
    world.crash(node(1));
    world.run_for(AGREEMENT_BOUND);
    world.left.remove(&node(2));
    world.start(node(2), &[node(1)]);
    assert!(world.time_to_agree().is_some(), "{:?}", world.disagreement());
}

#[test]
fn who_crashes_is_not_taken_for_leaving() {
    let mut world = World::cluster(1, 5);
    world.crash(node(3));
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.disagreement(), None);
    assert_eq!(world.nodes[&node(1)].peer(node(3)).unwrap().state, State::Dead);
    assert!(!world.states_of(node(3)).contains(&State::Left));
}

#[test]
fn a_node_that_restarts_at_once_is_known_in_its_new_life() {
    let mut world = World::cluster(1, 5);
    world.crash(node(3));
    world.restart(node(3));
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.disagreement(), None);
    assert_eq!(world.nodes[&node(1)].peer(node(3)).unwrap().member.incarnation().epoch, Epoch(2));
}

#[test]
fn a_node_that_was_given_up_while_alive_comes_back_in_a_later_life() {
    let mut world = World::cluster(1, 3);
    world.faults.groups.insert(node(3), 1);
    world.run_for(Duration::from_secs(30));
    assert_eq!(world.nodes[&node(1)].peer(node(3)).unwrap().state, State::Dead);
    world.faults.groups.clear();
    assert!(world.time_to_agree().is_some(), "{:?}", world.disagreement());
    let life = world.nodes[&node(3)].me().incarnation();
    assert!(life.epoch == Epoch(1) && 0 < life.renewals, "{life:?}");
}

#[test]
fn a_node_restored_from_an_old_copy_comes_back_above_all_its_lives() {
    let mut world = World::cluster(1, 3);
    for _ in 0..5 {
        world.crash(node(3));
        world.restart(node(3));
        world.run_for(Duration::from_secs(5));
    }
    world.crash(node(3));
    world.epochs.insert(node(3), 0);
    world.restart(node(3));
    assert!(world.time_to_agree().is_some(), "{:?}", world.disagreement());
}

#[test]
fn a_node_without_its_disk_is_a_new_one_and_the_old_one_dead() {
    let mut world = World::cluster(1, 3);
    world.crash(node(3));
    world.start(node(9), &[node(1)]);
    world.run_for(Duration::from_secs(30));
    assert_eq!(world.disagreement(), None);
    let states: Vec<State> = world.nodes[&node(1)].peers().map(|peer| peer.state).collect();
    assert_eq!(states, [State::Alive, State::Dead, State::Alive]);
}

#[test]
fn what_a_node_offers_is_known_to_all_at_once() {
    let mut world = World::cluster(1, 9);
    world.tell(node(4), Input::Described(Offer::new([].into(), true, 90).unwrap()));
    world.run_for(Duration::from_millis(20));
    assert_eq!(world.disagreement(), None);
    assert!(world.nodes[&node(9)].peer(node(4)).unwrap().offer.is_draining());
}

#[test]
fn a_node_that_was_stalled_blames_nobody() {
    let mut world = World::cluster(1, 3);
    world.changes.clear();
    let stalled = node(2);
    let timers: Vec<_> =
        world.timers.clone().into_iter().filter(|((of, _), _)| *of == stalled).collect();
    world.timers.retain(|(of, _), _| *of != stalled);
    // Its messages wait as well, and are read after its timers.
    world.faults.groups.insert(stalled, 1);
    world.run_for(Duration::from_secs(2));
    world.faults.groups.clear();
    for ((node, timer), _) in timers {
        world.tell(node, Input::TimerFired(timer));
    }
    world.run_for(Duration::from_secs(10));
    let blamed = |(of, change): &(NodeId, Change)| {
        let harsh = matches!(change, Change::Became { state: State::Suspect | State::Dead, .. });
        *of == stalled && harsh
    };
    assert!(!world.changes.iter().any(blamed), "{:?}", world.changes);
    assert_eq!(world.disagreement(), None);
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte() {
    let run = |seed| {
        let mut world = World::cluster(seed, 5);
        world.trace = Some(String::new());
        for _ in 0..6 {
            world.suffer(5);
        }
        world.calm();
        world.run_for(Duration::from_secs(20));
        world.trace
    };
    assert!(run(7) == run(7), "the same seed gave another run");
    assert!(run(7) != run(8), "the seed makes no difference");
}
