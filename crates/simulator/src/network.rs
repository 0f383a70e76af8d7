//! The network between nodes: latency, loss, doubling, reordering, bandwidth and cuts.
//!
//! Nodes are places from zero; a cut says which places cannot be reached from which. Cuts add up, and
//! each is lifted by its own name.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_lineage::Time;

use crate::{Latency, Random};

/// A set of nodes by place, a bit each.
pub type Places = u64;

/// What a network is like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkOptions {
    /// How long a message is on its way.
    pub latency: Latency,
    /// How many messages in a thousand are lost.
    pub lost_per_mille: u64,
    /// How many messages in a thousand arrive twice.
    pub doubled_per_mille: u64,
    /// How many messages in a thousand are held back and so overtaken.
    pub reordered_per_mille: u64,
    /// How many bytes in a second a link carries; zero is any number.
    pub bytes_per_second: u64,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            latency: Latency::Uniform(200, 800),
            lost_per_mille: 0,
            doubled_per_mille: 0,
            reordered_per_mille: 0,
            bytes_per_second: 0,
        }
    }
}

/// The network.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// What it is like now.
    pub(crate) options: NetworkOptions,
    places: usize,
    /// Until when each link is busy with what was sent before.
    busy: Vec<Time>,
    /// The cuts in force, by name: for each place, which it cannot reach.
    cuts: BTreeMap<usize, Vec<Places>>,
    /// All cuts together.
    blocked: Vec<Places>,
}

/// When a message and its copy arrive.
pub(crate) type Arrivals = [Option<Time>; 2];

impl Network {
    pub(crate) fn new(options: NetworkOptions, places: usize) -> Self {
        assert!(places <= 64, "places are bits of a word");
        Self {
            options,
            places,
            busy: vec![Time::default(); places * places],
            cuts: BTreeMap::new(),
            blocked: vec![0; places],
        }
    }

    /// Whether a message from one place cannot reach another now.
    pub(crate) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.blocked[from] >> to & 1 == 1
    }

    /// Sends a message of a size; says when it arrives, if it does.
    pub(crate) fn send(
        &mut self,
        random: &mut Random,
        now: Time,
        (from, to): (usize, usize),
        bytes: usize,
    ) -> Arrivals {
        if self.is_cut(from, to) || random.happens(self.options.lost_per_mille) {
            return [None, None];
        }
        let departs = self.departs(now, from * self.places + to, bytes);
        let first = self.arrives(random, departs);
        let doubled = random.happens(self.options.doubled_per_mille);
        let second = if doubled { Some(self.arrives(random, departs)) } else { None };
        [Some(first), second]
    }

    fn departs(&mut self, now: Time, link: usize, bytes: usize) -> Time {
        if self.options.bytes_per_second == 0 {
            return now;
        }
        let micros = bytes as u64 * 1_000_000 / self.options.bytes_per_second;
        let departs = self.busy[link].max(now).after(Duration::from_micros(micros));
        self.busy[link] = departs;
        departs
    }

    fn arrives(&self, random: &mut Random, departs: Time) -> Time {
        let held = random.happens(self.options.reordered_per_mille);
        let latency = if held { self.options.latency.times(10) } else { self.options.latency };
        departs.after(latency.draw(random))
    }

    /// Cuts: for each place, which it cannot reach.
    pub(crate) fn cut(&mut self, name: usize, blocked: Vec<Places>) {
        assert_eq!(blocked.len(), self.places, "a cut says something about every place");
        self.cuts.insert(name, blocked);
        self.add_up();
    }

    /// Whether a cut is in force.
    pub(crate) fn is_in_force(&self, name: usize) -> bool {
        self.cuts.contains_key(&name)
    }

    /// Lifts a cut.
    pub(crate) fn mend(&mut self, name: usize) {
        self.cuts.remove(&name);
        self.add_up();
    }

    fn add_up(&mut self) {
        self.blocked = vec![0; self.places];
        for cut in self.cuts.values() {
            for (all, one) in self.blocked.iter_mut().zip(cut) {
                *all |= one;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(options: NetworkOptions) -> (Network, Random) {
        (Network::new(options, 3), Random::new(1))
    }

    const NOW: Time = Time::from_millis(1);

    #[test]
    fn cuts_add_up_and_are_lifted_one_by_one() {
        let (mut network, mut random) = network(NetworkOptions::default());
        network.cut(1, vec![0b010, 0, 0]);
        network.cut(2, vec![0b010, 0b001, 0]);
        assert_eq!(network.send(&mut random, NOW, (0, 1), 10), [None, None]);
        network.mend(2);
        assert!(network.is_cut(0, 1), "the other cut is still there");
        assert!(!network.is_cut(1, 0), "it was one way");
        network.mend(1);
        assert!(network.send(&mut random, NOW, (0, 1), 10)[0].is_some());
    }

    #[test]
    fn a_narrow_link_makes_messages_wait_for_each_other() {
        let options = NetworkOptions {
            latency: Latency::Constant(0),
            bytes_per_second: 1_000,
            ..NetworkOptions::default()
        };
        let (mut network, mut random) = network(options);
        let mut send = |to| network.send(&mut random, NOW, (0, to), 100)[0];
        assert_eq!(send(1), Some(NOW.after(Duration::from_millis(100))));
        assert_eq!(send(1), Some(NOW.after(Duration::from_millis(200))));
        assert_eq!(send(2), Some(NOW.after(Duration::from_millis(100))), "another link is free");
    }

    #[test]
    fn loses_doubles_and_holds_back_as_often_as_it_is_told() {
        let options = NetworkOptions {
            latency: Latency::Constant(100),
            lost_per_mille: 100,
            doubled_per_mille: 100,
            reordered_per_mille: 100,
            ..NetworkOptions::default()
        };
        let (mut network, mut random) = network(options);
        let sent: Vec<_> = (0..10_000).map(|_| network.send(&mut random, NOW, (0, 1), 1)).collect();
        let share = |count: usize| (800..=1200).contains(&count);
        assert!(share(sent.iter().filter(|arrivals| arrivals[0].is_none()).count()));
        assert!(share(sent.iter().filter(|arrivals| arrivals[1].is_some()).count()));
        let late = |arrivals: &&Arrivals| arrivals[0] == Some(NOW.after(Duration::from_millis(1)));
        assert!(share(sent.iter().filter(late).count()));
    }
}
