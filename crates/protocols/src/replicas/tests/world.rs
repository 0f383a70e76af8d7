//! A world of replicas: one clock, a network that can be cut, nodes that crash, and consensus as an
//! oracle that decides the first proposal which a majority can hear.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outlast_lineage::{EffectId, NodeId, Point, Time};

use super::super::{Change, Choice, Input, Message, Mode, Setup, Situation, Timer};
use super::flow::Plan;
use super::owner::{Disk, Order, Owner, in_bytes};
use super::provider::Provider;
use crate::Members;

pub(super) const ELECTION_WAIT: Duration = Duration::from_millis(100);
pub(super) const PATIENCE: Duration = Duration::from_millis(200);
/// How often peers are looked for, and consensus is sought.
const TICK: Duration = Duration::from_millis(50);

/// A random number is drawn from nothing but the seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// What a world is made of.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) replicas: u64,
    pub(super) mode: Mode,
    pub(super) votes: usize,
    pub(super) acknowledge: bool,
    pub(super) budget: Option<f64>,
    pub(super) plan: Plan,
    /// How long an activity takes at most.
    pub(super) work: u64,
    /// How long a message takes at most, in milliseconds.
    pub(super) delay: u64,
    /// How long a primary gathers what it tells.
    pub(super) linger: Duration,
}

impl Terms {
    /// The paper's protocol with the lowest threshold, and calls that are not deduplicated.
    pub(super) fn of(replicas: u64, votes: usize, activities: usize) -> Self {
        Self {
            replicas,
            mode: Mode::Elected,
            votes,
            acknowledge: false,
            budget: None,
            plan: Plan::sequence(activities, false),
            work: 100,
            delay: 10,
            linger: Duration::ZERO,
        }
    }

    pub(super) fn setup(&self, me: NodeId) -> Setup {
        Setup {
            me,
            members: (1..=self.replicas).map(NodeId).collect(),
            mode: self.mode,
            votes: self.votes,
            acknowledge: self.acknowledge,
            budget: self.budget,
            election_wait: ELECTION_WAIT,
            patience: PATIENCE,
            linger: self.linger,
            beginning: Some(1),
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Deliver { from: NodeId, to: NodeId, message: Message },
    Fire { node: NodeId, life: u32, timer: Timer, serial: u64 },
    Act(EffectId),
    Answer { node: NodeId, life: u32, index: usize, effect: EffectId },
    Undone { node: NodeId, life: u32, effect: EffectId },
    Tick,
    Restart(NodeId),
}

#[derive(Debug, Default)]
struct Seat {
    owner: Option<Owner>,
    disk: Disk,
    life: u32,
    timers: BTreeMap<Timer, u64>,
    /// Peers it was told to be lost.
    lost: BTreeSet<NodeId>,
    /// When the last ordered undo will be done: the compensation unit works in order.
    undone_at: Time,
}

impl Seat {
    /// How many decisions it was told.
    fn decisions(&self) -> u32 {
        let decided = |change: &Change| match change {
            Change::Decided(instance, _) => Some(instance + 1),
            _ => None,
        };
        self.disk().changes.iter().filter_map(decided).max().unwrap_or_default()
    }

    fn disk(&self) -> &Disk {
        self.owner.as_ref().map_or(&self.disk, |owner| &owner.disk)
    }
}

/// The world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) terms: Terms,
    pub(super) dice: Dice,
    pub(super) now: Time,
    queue: BTreeMap<(Time, u64), Event>,
    serial: u64,
    seats: BTreeMap<NodeId, Seat>,
    /// Directions in which nothing gets through.
    pub(super) cut: BTreeSet<(NodeId, NodeId)>,
    /// Whether a node takes whom it hears for one that can be reached, as heartbeats do. Otherwise it knows who hears it.
    pub(super) hears_one_way: bool,
    /// Of a hundred messages so many are lost, and so many come twice.
    pub(super) loss: u64,
    pub(super) doubling: u64,
    pub(super) gone: BTreeSet<NodeId>,
    proposals: Vec<(u32, NodeId, Choice)>,
    pub(super) decided: BTreeMap<u32, Choice>,
    pub(super) provider: Provider,
    states: BTreeMap<Point, Vec<u8>>,
    /// How many messages were sent, by the name of the message.
    pub(super) sent: BTreeMap<String, u64>,
    pub(super) situations: BTreeSet<Situation>,
}

impl World {
    pub(super) fn new(seed: u64, terms: Terms) -> Self {
        let nodes: Vec<NodeId> = (1..=terms.replicas).map(NodeId).collect();
        let mut world = Self {
            terms,
            dice: Dice::new(seed),
            now: Time::from_millis(1000),
            queue: BTreeMap::new(),
            serial: 0,
            seats: nodes.iter().map(|node| (*node, Seat::default())).collect(),
            cut: BTreeSet::new(),
            hears_one_way: false,
            loss: 0,
            doubling: 0,
            gone: BTreeSet::new(),
            proposals: Vec::new(),
            decided: BTreeMap::new(),
            provider: Provider::default(),
            states: BTreeMap::new(),
            sent: BTreeMap::new(),
            situations: BTreeSet::new(),
        };
        world.after(TICK, Event::Tick);
        nodes.into_iter().for_each(|node| world.restart(node));
        world
    }

    pub(super) fn nodes(&self) -> Vec<NodeId> {
        self.seats.keys().copied().collect()
    }

    /// A node that is alive.
    pub(super) fn owner(&self, node: u64) -> &Owner {
        self.seats[&NodeId(node)].owner.as_ref().expect("the node is alive")
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.seats.values().filter_map(|seat| seat.owner.as_ref())
    }

    pub(super) fn is_alive(&self, node: NodeId) -> bool {
        self.seats[&node].owner.is_some()
    }

    /// Who executes now.
    pub(super) fn primaries(&self) -> Vec<u64> {
        let leads = self.owners().filter(|owner| owner.replica.leads().is_some());
        leads.map(|owner| owner.replica.setup().me.0).collect()
    }

    pub(super) fn crash(&mut self, node: NodeId) {
        let seat = self.seats.get_mut(&node).expect("a member");
        if let Some(owner) = seat.owner.take() {
            self.situations.extend(owner.situations);
            seat.disk = owner.disk;
        }
    }

    pub(super) fn crash_for(&mut self, node: NodeId, milliseconds: u64) {
        self.crash(node);
        self.after(Duration::from_millis(milliseconds), Event::Restart(node));
    }

    pub(super) fn restart(&mut self, node: NodeId) {
        let setup = self.terms.setup(node);
        let plan = self.terms.plan.clone();
        let now = self.now;
        let seat = self.seats.get_mut(&node).expect("a member");
        if seat.owner.is_some() || self.gone.contains(&node) {
            return;
        }
        seat.life += 1;
        seat.timers.clear();
        seat.lost.clear();
        let mut owner = Owner::new(setup, plan, seat.disk.clone());
        let mut orders = owner.wake(now);
        for gone in &self.gone {
            orders.extend(owner.tell(now, Input::Fenced(*gone)));
        }
        seat.owner = Some(owner);
        self.carry_out(node, orders);
    }

    /// A node is lost for good, and the others are told.
    pub(super) fn fence(&mut self, node: NodeId) {
        self.crash(node);
        self.gone.insert(node);
        for other in self.nodes() {
            self.tell(other, Input::Fenced(node));
        }
    }

    /// Cuts the network into groups; nodes that are not named form the last one.
    pub(super) fn partition(&mut self, groups: &[&[u64]]) {
        let group = |node: &NodeId| groups.iter().position(|group| group.contains(&node.0));
        let nodes = self.nodes();
        self.cut.clear();
        for one in &nodes {
            for other in &nodes {
                if group(one) != group(other) {
                    self.cut.insert((*one, *other));
                }
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
    }

    /// Tells a node something, if it is alive.
    pub(super) fn tell(&mut self, node: NodeId, input: Input) {
        let now = self.now;
        let seat = self.seats.get_mut(&node).expect("a member");
        if let Some(owner) = &mut seat.owner {
            let orders = owner.tell(now, input);
            self.carry_out(node, orders);
        }
    }

    /// Runs for so many milliseconds.
    pub(super) fn run(&mut self, milliseconds: u64) {
        let end = self.now.after(Duration::from_millis(milliseconds));
        while self.queue.first_key_value().is_some_and(|((at, _), _)| *at <= end) {
            self.next();
        }
        self.now = end;
    }

    /// Runs until something is so, at most so many milliseconds; says whether it is.
    pub(super) fn run_until(&mut self, limit: u64, is_so: impl Fn(&Self) -> bool) -> bool {
        let end = self.now.after(Duration::from_millis(limit));
        while !is_so(self) {
            if self.queue.first_key_value().is_none_or(|((at, _), _)| end < *at) {
                return false;
            }
            self.next();
        }
        true
    }

    fn next(&mut self) {
        let Some(((at, _), event)) = self.queue.pop_first() else { return };
        self.now = self.now.max(at);
        match event {
            Event::Deliver { from, to, message } => {
                if !self.cut.contains(&(from, to)) {
                    self.tell(to, Input::Received { from, message });
                }
            }
            Event::Fire { node, life, timer, serial } => {
                let seat = &self.seats[&node];
                if seat.life == life && seat.timers.get(&timer) == Some(&serial) {
                    self.tell(node, Input::TimerFired(timer));
                }
            }
            Event::Act(effect) => self.provider.act(effect),
            Event::Answer { node, life, index, effect } => self.answer(node, life, index, effect),
            Event::Undone { node, life, effect } => {
                let kept = self.is_in_the_decided_state(node, effect);
                if !kept {
                    self.provider.undo(effect, &self.gone);
                }
                if self.seats[&node].life == life {
                    let effects = vec![effect];
                    let input =
                        if kept { Input::FoundKept(effects) } else { Input::Undone(effects) };
                    self.tell(node, input);
                }
            }
            Event::Tick => self.tick(),
            Event::Restart(node) => self.restart(node),
        }
    }

    /// What a replica that is lost for good did on the decided run, no other replica knows by key:
    /// the owner finds it in the decided state.
    fn is_in_the_decided_state(&self, node: NodeId, effect: EffectId) -> bool {
        let called = &self.provider.calls[&effect];
        let owner = self.seats[&node].owner.as_ref();
        let mut kept = owner.into_iter().flat_map(|owner| owner.disk.flow.done());
        called.deduplicated && kept.any(|(_, key)| key == called.key)
    }

    fn answer(&mut self, node: NodeId, life: u32, index: usize, effect: EffectId) {
        let now = self.now;
        let seat = self.seats.get_mut(&node).expect("a member");
        if seat.life == life
            && let Some(owner) = &mut seat.owner
        {
            let orders = owner.answer(now, index, effect);
            self.carry_out(node, orders);
        }
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now.after(wait), event);
    }

    fn at(&mut self, at: Time, event: Event) {
        self.serial += 1;
        self.queue.insert((at.max(self.now), self.serial), event);
    }

    fn some_time(&mut self, milliseconds_max: u64) -> Duration {
        Duration::from_micros(self.dice.below(milliseconds_max * 1000) + 100)
    }

    fn carry_out(&mut self, node: NodeId, orders: Vec<Order>) {
        let life = self.seats[&node].life;
        for order in orders {
            match order {
                Order::Send(to, message) => self.send(node, to, message),
                Order::Timer(timer, at) => {
                    let serial = self.serial + 1;
                    self.at(at, Event::Fire { node, life, timer, serial });
                    self.seats.get_mut(&node).expect("a member").timers.insert(timer, serial);
                }
                Order::Call { index, effect } => {
                    let (there, back) = (self.some_time(self.terms.work), self.some_time(5));
                    self.after(there, Event::Act(effect));
                    self.after(there + back, Event::Answer { node, life, index, effect });
                }
                Order::Undo(effect) => {
                    let begins = self.seats[&node].undone_at.max(self.now);
                    let at = begins.after(self.some_time(self.terms.work));
                    self.seats.get_mut(&node).expect("a member").undone_at = at;
                    self.at(at, Event::Undone { node, life, effect });
                }
                Order::Propose(instance, choice) => self.proposals.push((instance, node, choice)),
                Order::Named(point, state) => {
                    let before = self.states.entry(point).or_insert_with(|| state.clone());
                    assert_eq!(*before, state, "{point:?} names two states");
                }
                Order::Intended(effect, called) => {
                    let before = self.provider.calls.insert(effect, called);
                    assert!(before.is_none(), "{effect:?} was intended twice");
                }
            }
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        let name = format!("{message:?}");
        let name = name.split([' ', '{']).next().unwrap_or_default().to_owned();
        *self.sent.entry(name).or_default() += 1;
        let message = in_bytes(&message);
        let copies = 1 + u64::from(self.dice.percent(self.doubling));
        for _ in 0..copies {
            if !self.dice.percent(self.loss) && !self.cut.contains(&(from, to)) {
                let wait = self.some_time(self.terms.delay);
                let message = message.clone();
                self.after(wait, Event::Deliver { from, to, message });
            }
        }
    }

    /// Whether two nodes hear each other.
    pub(super) fn hear(&self, one: NodeId, other: NodeId) -> bool {
        one == other
            || (self.is_alive(one)
                && self.is_alive(other)
                && !self.cut.contains(&(one, other))
                && !self.cut.contains(&(other, one)))
    }

    fn tick(&mut self) {
        self.after(TICK, Event::Tick);
        self.look_for_peers();
        self.seek_consensus();
        self.spread_decisions();
    }

    fn look_for_peers(&mut self) {
        for node in self.nodes() {
            for peer in self.nodes() {
                let seat = &self.seats[&node];
                if node == peer || seat.owner.is_none() || self.gone.contains(&peer) {
                    continue;
                }
                let one_way = self.is_alive(peer) && !self.cut.contains(&(peer, node));
                let heard = if self.hears_one_way { one_way } else { self.hear(node, peer) };
                let lost = seat.lost.contains(&peer);
                // Nobody notices at once.
                if heard == lost && self.dice.percent(60) {
                    self.suspect(node, peer, !heard);
                }
            }
        }
    }

    /// A node comes to believe that a peer is lost, or found again.
    pub(super) fn suspect(&mut self, node: NodeId, peer: NodeId, lost: bool) {
        let seat = self.seats.get_mut(&node).expect("a member");
        if lost {
            seat.lost.insert(peer);
            self.tell(node, Input::PeerLost(peer));
        } else {
            seat.lost.remove(&peer);
            self.tell(node, Input::PeerFound(peer));
        }
    }

    /// Most nodes are lost for good, and what was decided with them that nobody who is left was told.
    pub(super) fn fence_most(&mut self, lost: &[NodeId]) {
        lost.iter().for_each(|node| self.fence(*node));
        self.proposals.retain(|(_, proposer, _)| !lost.contains(proposer));
        let left = self.seats.iter().filter(|(node, _)| !lost.contains(node));
        let told = left.map(|(_, seat)| seat.decisions()).max().unwrap_or_default();
        self.decided.retain(|instance, _| *instance < told);
    }

    /// Whether a node hears enough to decide, itself included.
    fn hears_quorum(&self, node: NodeId) -> bool {
        let heard = self.nodes().into_iter().filter(|other| self.hear(node, *other)).count();
        self.is_alive(node) && self.quorum() <= heard
    }

    fn quorum(&self) -> usize {
        self.seats.keys().copied().collect::<Members>().quorum(&self.gone)
    }

    fn seek_consensus(&mut self) {
        for (instance, proposer, choice) in self.proposals.clone() {
            // A proposal that was sent may be taken up by others when its proposer is long gone.
            let heard = self.hears_quorum(proposer)
                || self.nodes().into_iter().any(|node| self.hears_quorum(node));
            let open = heard && !self.decided.contains_key(&instance);
            if open && self.may_agree(proposer, &choice) && self.dice.percent(40) {
                self.decided.insert(instance, choice);
            }
        }
    }

    /// Whether enough hold what is proposed, or keep something else, if that is asked for.
    fn may_agree(&self, proposer: NodeId, choice: &Choice) -> bool {
        let owner = self.seats[&proposer].owner.as_ref();
        let holders = self.owners().filter(|owner| owner.replica.may_agree(choice)).count();
        let needed = owner.is_some_and(|owner| owner.replica.needs_holders(choice));
        !needed || self.quorum() <= holders
    }

    fn spread_decisions(&mut self) {
        for (instance, choice) in self.decided.clone() {
            for node in self.nodes() {
                let Some(owner) = &self.seats[&node].owner else { continue };
                let is_news = owner.replica.standing().decisions <= instance;
                if is_news && self.hears_quorum(node) && self.dice.percent(70) {
                    self.tell(node, Input::Decided { instance, choice: choice.clone() });
                }
            }
        }
    }
}
