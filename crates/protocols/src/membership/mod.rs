//! Membership by gossip: who is in the cluster, who answers, and what each offers.
//!
//! The gossip library foca (SWIM with suspicion) probes one member after the other, directly and by
//! way of others, and spreads what it finds. Around it this machine keeps the names of all nodes it
//! ever met and announces itself to those that do not answer, so that whoever was cut off is back as
//! soon as the network is; comes back by itself in a later incarnation when it was given up; tells
//! leaving from dying; and carries what each member offers.
//!
//! Invariants:
//! - Nobody speaks for another about its offer or its leaving: the sender is what the channel says.
//! - A node's incarnation never falls, neither its own nor what is believed of another.
//! - Whatever arrives, at most `PEERS_MAX` nodes are remembered, and garbage changes nothing.

mod interface;
mod member;
mod message;
#[cfg(test)]
mod network_tests;
mod packet;
mod peers;
mod swim;
#[cfg(test)]
mod tests;

use outlast_lineage::{NodeId, Time};

use interface::Step;
pub use interface::{Input, Options, Output, Refused, Timer};
pub use member::{
    ADDRESSES_MAX, Incarnation, Member, Offer, SERVICES_MAX, TEXT_BYTES_MAX, TooLarge,
};
pub use message::MESSAGE_BYTES_MAX;
use message::{ACCOUNTS_MAX, Description, Message};
use packet::{Account, Condition, Contents, Identity};
use peers::Peers;
pub use peers::{Change, PEERS_MAX, Peer, State};
use swim::Swim;

/// To how many nodes that do not answer a node announces itself at a time.
const REACHED_AT_A_TIME: usize = 3;
/// To how many, while nobody answers or it has just come back.
const REACHED_WHEN_ALONE: usize = 32;

/// One node's view of the cluster.
pub struct Membership {
    options: Options,
    swim: Swim,
    peers: Peers,
    /// What is true of this node itself, and since when.
    state: State,
    since: Time,
    offer: Offer,
    revision: u64,
    /// For when the owner was last asked to wake the library.
    armed: Option<Time>,
    /// Counts the times it reached out, so that everyone has a turn.
    turns: usize,
    refused: Refused,
}

impl Membership {
    /// A node that has not joined. The seed decides whom it probes when: another one for each node.
    pub fn new(options: Options, me: Member, seed: u64) -> Self {
        assert!(!options.probe_every.is_zero(), "a probe takes time");
        assert!(!options.reach_out_every.is_zero(), "reaching out takes time");
        Self {
            options,
            swim: Swim::new(&options, Identity::new(me), seed),
            peers: Peers::default(),
            state: State::Joining,
            since: Time::default(),
            offer: Offer::default(),
            revision: 0,
            armed: None,
            turns: 0,
            refused: Refused::default(),
        }
    }

    /// Takes one input, and says what is to be done.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        let mut step = Step::default();
        match input {
            Input::Join { seeds } => self.join(now, seeds, &mut step),
            Input::Leave => self.leave(now, &mut step),
            Input::Received { from, bytes } => self.receive(now, from, &bytes, &mut step),
            Input::Learned { peer, address } => self.learn(now, peer, address),
            Input::Described(offer) => self.describe(offer, &mut step),
            Input::Forget(node) => self.forget(now, node, &mut step),
            Input::TimerFired(Timer::ProbeDue) => self.wake(now),
            Input::TimerFired(Timer::ReachOutDue) => self.reach_out(now, &mut step),
        }
        self.settle(now, &mut step);
        self.assert_invariants();
        step.into_outputs()
    }

    fn join(&mut self, now: Time, seeds: Vec<NodeId>, step: &mut Step) {
        if self.state == State::Left {
            let above = self.swim.identity().incarnation().renewed();
            self.come_back_as(now, above);
        }
        let mut others = seeds;
        others.retain(|seed| *seed != self.me().node() && self.peers.name(now, *seed));
        let state = if others.is_empty() { State::Alive } else { State::Joining };
        self.since = now;
        self.turn(now, state, step);
        for seed in others {
            self.swim.announce(now, seed);
        }
        step.set(Timer::ReachOutDue, now.after(self.options.reach_out_every));
    }

    fn leave(&mut self, now: Time, step: &mut Step) {
        if self.state == State::Left {
            return;
        }
        self.swim.leave(now);
        self.turn(now, State::Left, step);
        let farewell = self.farewell();
        for peer in self.peers.all().filter(|peer| peer.state != State::Left) {
            step.send(peer.member.node(), &farewell);
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, bytes: &[u8], step: &mut Step) {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(reason) => return self.refused.count(reason),
        };
        if from == self.me().node() {
            self.refused.misattributed += 1;
            return;
        }
        self.peers.hear(now, from);
        match message {
            Message::Left { identity } => self.see_off(now, from, identity, step),
            // Whoever has not heard that this node left is told again.
            _ if self.state == State::Left => step.send(from, &self.farewell()),
            Message::Gossip { packet, description } => {
                self.take_packet(now, from, &packet, step);
                step.descriptions.push((from, description));
            }
            Message::Described { description } => step.descriptions.push((from, description)),
            Message::Known { accounts } => self.believe(now, from, accounts, step),
        }
    }

    fn see_off(&mut self, now: Time, from: NodeId, identity: Identity, step: &mut Step) {
        if identity.node() != from || !identity.left {
            self.refused.misattributed += 1;
            return;
        }
        let gone = Account { identity, contradictions: 0, condition: Condition::Down };
        self.believe(now, from, vec![gone], step);
    }

    /// Gives a packet to the library, unless it speaks for another, or for an earlier life.
    fn take_packet(&mut self, now: Time, from: NodeId, packet: &[u8], step: &mut Step) {
        let Ok(Contents { source, accounts }) = Contents::read(packet) else {
            self.refused.garbage += 1;
            return;
        };
        if source.node() != from {
            self.refused.misattributed += 1;
            return;
        }
        let named = accounts.iter().map(|account| account.identity.node()).chain([from]);
        if !self.has_room_for(named) {
            self.refused.crowded += 1;
            return;
        }
        let stale = self.later_life_of(&source).is_some();
        let spoken_of = accounts.iter().map(|account| &account.identity);
        self.correct(from, spoken_of.chain([&source]), step);
        if stale {
            self.refused.stale += 1;
        } else if !self.outlive(now, &accounts) && !self.swim.receive(now, packet) {
            self.refused.garbage += 1;
        }
    }

    /// Takes what another knows.
    fn believe(&mut self, now: Time, from: NodeId, accounts: Vec<Account>, step: &mut Step) {
        if !self.has_room_for(accounts.iter().map(|account| account.identity.node())) {
            self.refused.crowded += 1;
            return;
        }
        self.correct(from, accounts.iter().map(|account| &account.identity), step);
        let me = self.me().node();
        let is_about_me = accounts.iter().any(|account| account.identity.node() == me);
        if !self.outlive(now, &accounts) {
            self.swim.believe(now, accounts.into_iter());
        }
        if is_about_me {
            // Whoever was wrong about this node hears first how it is.
            self.swim.announce(now, from);
        }
    }

    /// Answers whoever speaks of lives that are over. What is answered is always later than what
    /// was said, so no two nodes go on correcting each other.
    fn correct<'said>(
        &self,
        to: NodeId,
        spoken_of: impl Iterator<Item = &'said Identity>,
        step: &mut Step,
    ) {
        let known = spoken_of.filter_map(|identity| self.later_life_of(identity));
        let accounts: Vec<Account> = known.take(ACCOUNTS_MAX).collect();
        if !accounts.is_empty() {
            step.send(to, &Message::Known { accounts });
        }
    }

    /// Comes back above every life of this node that others speak of: it lost count of them, as
    /// after being restored from an old copy. Says whether it had to.
    fn outlive(&mut self, now: Time, accounts: &[Account]) -> bool {
        let own = self.swim.identity();
        let spoken_of = accounts.iter().map(|account| &account.identity);
        let lives = spoken_of.filter(|life| life.node() == own.node()).map(Identity::incarnation);
        match lives.max().filter(|life| own.incarnation() < *life) {
            Some(life) if self.state != State::Left => {
                self.come_back_as(now, life.renewed());
                true
            }
            _ => false,
        }
    }

    fn come_back_as(&mut self, now: Time, incarnation: Incarnation) {
        let member = self.me().with_incarnation(incarnation);
        self.swim.become_another(now, Identity::new(member));
    }

    fn learn(&mut self, now: Time, peer: NodeId, address: String) {
        if peer == self.me().node() || !self.peers.name(now, peer) {
            return;
        }
        self.peers.see(peer, address);
        let is_alive = self.peers.get(peer).is_some_and(|peer| peer.state == State::Alive);
        if self.state != State::Left && !is_alive {
            self.swim.announce(now, peer);
        }
    }

    fn describe(&mut self, offer: Offer, step: &mut Step) {
        let is_news = offer.differs_in_kind(&self.offer);
        self.revision += 1;
        self.offer = offer;
        if is_news && self.state != State::Left {
            let message = Message::Described { description: self.description() };
            for node in self.peers.nodes_in(&[State::Alive, State::Suspect]) {
                step.send(node, &message);
            }
        }
    }

    fn forget(&mut self, now: Time, node: NodeId, step: &mut Step) {
        let answers = [State::Alive, State::Suspect];
        if self.peers.get(node).is_some_and(|peer| !answers.contains(&peer.state)) {
            self.swim.forget(now, node);
            step.changes.extend(self.peers.forget(node));
        }
    }

    fn wake(&mut self, now: Time) {
        self.armed = None;
        self.swim.wake(now);
    }

    fn reach_out(&mut self, now: Time, step: &mut Step) {
        if self.state == State::Left {
            return;
        }
        self.turns += 1;
        if self.swim.is_connected() {
            self.announce_to(now, &[State::Joining, State::Dead], REACHED_AT_A_TIME);
            // News can get lost on the way; nobody misses what it never heard of.
            self.announce_to(now, &[State::Alive], 1);
            // Who left may be back, and remember nobody but nodes that are gone.
            self.announce_to(now, &[State::Left], 1);
            self.tell_of_the_gone(step);
            self.ask_the_suspects(step);
        } else {
            self.announce_to_all(now);
        }
        step.set(Timer::ReachOutDue, now.after(self.options.reach_out_every));
    }

    /// Tells one that answers who is gone and how: an answer to an announcement names only who is
    /// there, and whoever was cut off when a node left would take it for dead.
    fn tell_of_the_gone(&mut self, step: &mut Step) {
        let gone = self.in_turn(&[State::Dead, State::Left], ACCOUNTS_MAX);
        let known = gone.into_iter().filter_map(|node| self.swim.member(node));
        let accounts: Vec<Account> = known.map(Account::from).collect();
        let listener = self.in_turn(&[State::Alive], 1).pop().filter(|_| !accounts.is_empty());
        if let Some(listener) = listener {
            step.send(listener, &Message::Known { accounts });
        }
    }

    /// Tells those that are suspected, so that they contradict. The library spreads a suspicion a
    /// few times only, and a success of its own probes does not end one that it was told of.
    fn ask_the_suspects(&self, step: &mut Step) {
        let suspects = self.swim.members().filter(|member| member.state() == foca::State::Suspect);
        for suspect in suspects {
            let accounts = vec![Account::from(suspect)];
            step.send(suspect.id().node(), &Message::Known { accounts });
        }
    }

    fn announce_to_all(&mut self, now: Time) {
        let states = [State::Joining, State::Alive, State::Suspect, State::Dead];
        self.announce_to(now, &states, REACHED_WHEN_ALONE);
    }

    fn announce_to(&mut self, now: Time, states: &[State], count: usize) {
        for node in self.in_turn(states, count) {
            self.swim.announce(now, node);
        }
    }

    /// Some of those in these states, the next ones each turn.
    fn in_turn(&self, states: &[State], count: usize) -> Vec<NodeId> {
        let nodes = self.peers.nodes_in(states);
        let first = (self.turns * count).checked_rem(nodes.len()).unwrap_or(0);
        nodes.iter().copied().cycle().skip(first).take(count.min(nodes.len())).collect()
    }

    /// Finds out what became different, spreads it, and wraps what the library wants sent.
    fn settle(&mut self, now: Time, step: &mut Step) {
        if self.swim.take_renewed() {
            let (node, incarnation) = (self.me().node(), self.me().incarnation());
            step.changes.push(Change::Renewed { node, incarnation });
            self.announce_to_all(now);
        }
        let news = self.peers.follow(now, self.swim.members());
        if !news.is_empty() && self.state != State::Left {
            self.swim.gossip(now);
            if news.iter().any(Change::is_a_suspicion) {
                self.ask_the_suspects(step);
            }
        }
        step.changes.extend(news);
        for (node, description) in std::mem::take(&mut step.descriptions) {
            step.changes.extend(self.peers.describe(node, description));
        }
        if self.state == State::Joining && self.swim.is_connected() {
            self.turn(now, State::Alive, step);
        }
        for (to, packet) in self.swim.take_sends() {
            let description = self.description();
            step.send(to, &Message::Gossip { packet: packet.into(), description });
        }
        self.arm(step);
    }

    fn arm(&mut self, step: &mut Step) {
        let wakes_at = self.swim.wakes_at();
        if self.armed != wakes_at {
            self.armed = wakes_at;
            if let Some(at) = wakes_at {
                step.set(Timer::ProbeDue, at);
            }
        }
    }

    fn turn(&mut self, now: Time, state: State, step: &mut Step) {
        if self.state != state {
            (self.state, self.since) = (state, now);
            step.changes.push(Change::Became { node: self.me().node(), state });
        }
    }

    fn farewell(&self) -> Message {
        Message::Left { identity: self.swim.identity().clone() }
    }

    fn description(&self) -> Description {
        let incarnation = self.me().incarnation();
        Description { incarnation, revision: self.revision, offer: self.offer.clone() }
    }

    /// What is known of a later life of a node than the one spoken of.
    fn later_life_of(&self, spoken_of: &Identity) -> Option<Account> {
        let known = self.swim.member(spoken_of.node())?;
        (spoken_of.incarnation() < known.id().incarnation()).then(|| Account::from(known))
    }

    fn has_room_for(&self, nodes: impl Iterator<Item = NodeId>) -> bool {
        let me = self.me().node();
        let mut strangers: Vec<NodeId> =
            nodes.filter(|node| *node != me && self.peers.get(*node).is_none()).collect();
        strangers.sort();
        strangers.dedup();
        self.peers.count() + strangers.len() <= PEERS_MAX
    }

    /// What this node says of itself.
    pub fn me(&self) -> &Member {
        &self.swim.identity().member
    }

    /// What is true of this node: joining, alive or left.
    pub fn state(&self) -> State {
        self.state
    }

    /// Since when.
    pub fn since(&self) -> Time {
        self.since
    }

    /// What this node offers.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// All other nodes that are remembered, in order.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.all()
    }

    /// Another node, if it is remembered.
    pub fn peer(&self, node: NodeId) -> Option<&Peer> {
        self.peers.get(node)
    }

    /// Who should be there and does not answer: if it is not down, the network is cut.
    pub fn unreachable(&self) -> impl Iterator<Item = NodeId> {
        self.peers.all().filter(|peer| peer.is_unreachable()).map(|peer| peer.member.node())
    }

    /// How many messages were not taken, and why.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// Stops the program if what this machine always promises does not hold.
    pub fn assert_invariants(&self) {
        assert!(self.peers.count() <= PEERS_MAX, "there is room for all that are remembered");
        assert!(self.peers.get(self.me().node()).is_none(), "nobody is its own peer");
        let left = self.swim.identity().left;
        assert_eq!(left, self.state == State::Left, "the life that says so is the one that left");
    }
}
