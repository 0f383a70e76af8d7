//! How long something takes: a distribution in microseconds.
//!
//! Drawn with whole numbers only, so that a trace does not depend on anybody's mathematics library.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Random;

/// How long something takes, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latency {
    /// Always the same.
    Constant(u64),
    /// Anything from the first to the second.
    Uniform(u64, u64),
    /// At least the first, and on average so much more, with a tail that has no end.
    Exponential(u64, u64),
}

/// The fraction bits of a drawn logarithm.
const FRACTION: u32 = 16;

/// The natural logarithm of two, in parts of two to the power of `FRACTION`.
const LN_2: u128 = 45_426;

impl Latency {
    /// Draws how long it takes this time.
    pub fn draw(self, random: &mut Random) -> Duration {
        let micros = match self {
            Self::Constant(micros) => micros,
            Self::Uniform(low, high) => random.between(low, high),
            Self::Exponential(least, mean) => {
                let drawn = (u128::from(mean) * exponential(random)) >> FRACTION;
                least.saturating_add(u64::try_from(drawn).unwrap_or(u64::MAX))
            }
        };
        Duration::from_micros(micros)
    }

    /// About how long it takes if it takes long, in microseconds.
    pub const fn usual(self) -> u64 {
        match self {
            Self::Constant(micros) | Self::Uniform(_, micros) => micros,
            Self::Exponential(least, mean) => least.saturating_add(mean),
        }
    }

    /// How long it takes at most, in microseconds, if there is an end to it.
    pub const fn most(self) -> Option<u64> {
        match self {
            Self::Constant(micros) | Self::Uniform(_, micros) => Some(micros),
            Self::Exponential(..) => None,
        }
    }

    /// The same, so many times as long.
    pub const fn times(self, factor: u64) -> Self {
        match self {
            Self::Constant(micros) => Self::Constant(micros.saturating_mul(factor)),
            Self::Uniform(low, high) => {
                Self::Uniform(low.saturating_mul(factor), high.saturating_mul(factor))
            }
            Self::Exponential(least, mean) => {
                Self::Exponential(least.saturating_mul(factor), mean.saturating_mul(factor))
            }
        }
    }
}

/// An exponentially distributed number with mean one, in parts of two to the power of `FRACTION`.
///
/// It is −ln u. The whole part of the binary logarithm is the number of leading zeros; within a
/// power of two the logarithm is taken to be straight, which is right to a twelfth.
fn exponential(random: &mut Random) -> u128 {
    let drawn = random.next() | 1;
    let zeros = drawn.leading_zeros();
    // The bits after the leading one: how far it is on its way to the next power of two.
    let mantissa = (drawn << zeros << 1) >> (64 - FRACTION);
    let binary = (u128::from(zeros + 1) << FRACTION) - u128::from(mantissa);
    (binary * LN_2) >> FRACTION
}

impl fmt::Display for Latency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(micros) => write!(formatter, "{micros}"),
            Self::Uniform(low, high) => write!(formatter, "{low}..{high}"),
            Self::Exponential(least, mean) => write!(formatter, "{least}~{mean}"),
        }
    }
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text}: no latency"));
        if let Some((low, high)) = text.split_once("..") {
            let (low, high) = (number(low)?, number(high)?);
            if low > high {
                return Err(format!("{text}: a range is not upside down"));
            }
            return Ok(Self::Uniform(low, high));
        }
        match text.split_once('~') {
            Some((least, mean)) => Ok(Self::Exponential(number(least)?, number(mean)?)),
            None => Ok(Self::Constant(number(text)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponential_latency_has_its_mean_and_a_tail() {
        let mut random = Random::new(3);
        let latency = Latency::Exponential(100, 1_000);
        let drawn: Vec<u64> = (0..20_000)
            .map(|_| u64::try_from(latency.draw(&mut random).as_micros()).unwrap())
            .collect();
        let mean = drawn.iter().sum::<u64>() / 20_000;
        assert!((1_050..=1_180).contains(&mean), "mean {mean}");
        assert!(drawn.iter().all(|micros| *micros >= 100));
        let far = drawn.iter().filter(|micros| **micros > 5_100).count();
        assert!((60..=250).contains(&far), "{far} of 20,000 beyond five means");
    }

    #[test]
    fn is_written_as_it_is_read() {
        for latency in [Latency::Constant(5), Latency::Uniform(1, 9), Latency::Exponential(7, 30)] {
            assert_eq!(latency.to_string().parse(), Ok(latency));
        }
        assert!("9..1".parse::<Latency>().is_err());
        assert!("soon".parse::<Latency>().is_err());
    }
}
