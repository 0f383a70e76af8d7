//! Points in time, as data: microseconds since 1970, given by whoever drives a machine.

use std::fmt;
use std::time::Duration;

use minicbor::{Decode, Encode};

/// A point in time. Safety never rests on it; it orders timers and tells people when.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Time(#[n(0)] u64);

impl Time {
    /// Microseconds since 1970.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Milliseconds since 1970.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1000
    }

    /// The time this much later; a time too far away to write down is the last one there is.
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How long it has been since an earlier time; nothing if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
