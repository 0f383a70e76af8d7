//! A member whose messages make no sense: whoever hears them goes on.
//!
//! The channel says who speaks, and that nothing was changed on the way; it does not say that the speaker
//! counts right. What cannot be read is dropped, and so is what counts beyond all bounds or does not fit the
//! state that it is said to go on from. What is merely not true may cost its executions their sense, but no
//! node its life.
#![expect(clippy::print_stderr, reason = "a test that fails or hangs says in which world")]

mod cluster;
mod driver;

use std::time::Duration;

use cluster::{Cluster, Provider, program_of};
use driver::id;
use outlast_engine::{Strategy, Survival};

/// How many worlds of noise there are; `NONSENSE_SEED` runs one of them.
const WORLDS: u64 = 300;

/// Numbers that are drawn the same every time.
struct Chance(u64);

impl Chance {
    /// A number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// A message with something changed in it. Most changes leave it readable.
fn twisted(message: &[u8], chance: &mut Chance) -> Vec<u8> {
    /// The largest number that can be written.
    const HUGE: [u8; 9] = [0x1b, 255, 255, 255, 255, 255, 255, 255, 255];
    let mut bytes = message.to_vec();
    for _ in 0..=chance.below(3) {
        let place = chance.below(bytes.len());
        match chance.below(6) {
            0 => bytes[place] ^= 1 << chance.below(8),
            1 => bytes[place] = chance.below(24) as u8,
            2 => bytes.truncate(place.max(1)),
            3 => bytes[place] = 0xf6,
            _ => {
                // A small number becomes a huge one.
                let mut places = (0..bytes.len()).map(|step| (place + step) % bytes.len());
                if let Some(at) = places.find(|at| bytes[*at] <= 0x17) {
                    bytes.splice(at..=at, HUGE);
                }
            }
        }
    }
    bytes
}

fn world(seed: u64, strategy: Strategy) {
    let calls = [("a", Provider::Keyed), ("b", Provider::Keyless), ("c", Provider::Pivot)];
    let program = program_of("three", &calls);
    let mut cluster = Cluster::new(3, &program);
    let mut chance = Chance(seed);
    cluster.noise = Some(Box::new(move |message| twisted(message, &mut chance)));
    for number in 1..=3 {
        cluster.start(&program, id(number), Survival::new(strategy, 3));
    }
    cluster.run_answering(Duration::from_millis(300));
    cluster.cut(3, &[1, 2]);
    cluster.run_answering(Duration::from_secs(2));
    cluster.heal();
    cluster.run_answering(Duration::from_secs(2));
    for node in 1..=3 {
        cluster.node(node).engine.assert_invariants();
    }
}

#[test]
fn no_message_of_a_member_stops_a_node_or_keeps_it_busy_for_ever() {
    let one = std::env::var("NONSENSE_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in one.map_or(0..WORLDS, |seed: u64| seed..seed + 1) {
        for strategy in [Strategy::PartitionTolerant, Strategy::Passive, Strategy::Active] {
            eprintln!("NONSENSE_SEED={seed} {strategy:?}");
            world(seed, strategy);
        }
    }
}
