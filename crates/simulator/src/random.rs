//! Random numbers from a seed: SplitMix64, written out so that no library can change a trace.

/// A generator of random numbers. The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator for a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "a range is not upside down");
        let span = high - low + 1;
        if span == 0 { self.next() } else { low + self.next() % span }
    }

    /// Whether something happens that happens in so many of a thousand cases.
    pub const fn happens(&mut self, per_mille: u64) -> bool {
        self.between(0, 999) < per_mille
    }

    /// A place in a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        assert!(length > 0, "nothing can be picked from nothing");
        usize::try_from(self.next() % length as u64).expect("it is below a length")
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// A generator of its own for one purpose, so that what others draw does not change it.
    pub const fn apart(seed: u64, purpose: u64) -> Self {
        let mut random = Self::new(seed ^ purpose.wrapping_mul(0xd134_2543_de82_ef95));
        Self::new(random.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_numbers_of_the_published_generator() {
        // The first outputs of SplitMix64 for seed 1234567, as in its reference implementation.
        let mut random = Random::new(1_234_567);
        let numbers = [random.next(), random.next(), random.next()];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn stays_within_its_bounds() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| (3..=7).contains(&random.between(3, 7))));
        assert!((0..1000).all(|_| !random.happens(0)));
        assert!((0..1000).all(|_| random.happens(1000)));
    }
}
